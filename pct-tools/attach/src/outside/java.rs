//! HotSpot in a process that is sampled from outside: found in its maps, its frames walked among the native ones of
//! threads that stand still, its methods written down when they are met first.
//!
//! The readers are the sampler's own ([`pct_languages::hotspot`]); what differs is the memory. The stack of a thread
//! that waits and is not stopped is found from its stack pointer alone, as [`super::waiting`] does it: each place at
//! which it may have kept rbp is tried, and a Java link counts only if it is proved.

use super::pages::Pages;
use super::still::{NAME_OCTETS, Object};
use crate::memory::ProcessMemory;
use crate::ptrace::sys::Regs;
use crate::recording::{FoundInterpreter, LineOctets, Recording};
use crate::unwind::{StackWalker, Unwind, gregs};
use pct_elf::Memory as _;
use pct_format::record::{CodeFrame, CutCause, Frame, InterpreterState, Language};
use pct_languages::hotspot::find::published_layout;
use pct_languages::hotspot::layout::{Layout, Refused};
use pct_languages::hotspot::{JavaCodes, JavaFrame, Jvm, Method, Registers, StackWords, Walker, may_be_jvm};
use pct_unwind::{Placed, Start};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// Most steps through Java frames at a time.
const MOST: u32 = 4096;
/// Looks that must find it unreadable before that is said: one that starts may be met between any two of its stores.
const REFUSALS: u32 = 32;
/// Time between two looks at a virtual machine that is not up yet.
const APART: Duration = Duration::from_millis(10);

/// The Java virtual machine of one process.
pub(super) struct Java {
    /// Frames are wanted.
    on: bool,
    object: Option<(Object, Vec<u8>)>,
    layout: Option<Layout>,
    jvm: Option<Box<Jvm>>,
    /// What the file has of it.
    said: Option<InterpreterState>,
    refusals: u32,
    next_look: Option<Instant>,
    /// Numbers of methods in the file, by identity.
    codes: HashMap<u64, u32>,
    words: Vec<u64>,
}

/// A thread of the virtual machine that stands still.
#[derive(Debug, Clone, Copy)]
pub(super) struct JavaThread {
    /// Its number, as its process sees it.
    pub(super) number: u32,
    /// Behind the last address of its stack.
    pub(super) stack_end: u64,
}

impl Java {
    /// None is found yet. Stacks have up to `depth` frames; `on`: those of methods are wanted.
    pub(super) fn new(depth: usize, on: bool) -> Java {
        Java {
            on,
            object: None,
            layout: None,
            jvm: None,
            said: None,
            refusals: 0,
            next_look: None,
            codes: HashMap::new(),
            words: vec![0; depth],
        }
    }

    /// There is a virtual machine whose frames are read.
    pub(super) fn is_there(&self) -> bool {
        self.jvm.is_some()
    }

    /// Forgets what is not mapped any more: `now` are the objects that are.
    pub(super) fn retain(&mut self, now: &HashSet<Object>) {
        if self.object.as_ref().is_some_and(|(object, _)| !now.contains(object)) {
            *self = Java::new(self.words.len(), self.on);
        }
    }

    /// Looks at an object that is new, by its path.
    pub(super) fn meet(
        &mut self,
        (object, path): (Object, &[u8]),
        memory: &ProcessMemory,
        recording: &mut Recording,
    ) {
        if may_be_jvm(path) && self.object.is_none() {
            self.object = Some((object, path.to_vec()));
            self.look_again(memory, recording);
        }
    }

    /// Looks once more at a virtual machine that was not up when it was seen last.
    pub(super) fn look_again(&mut self, memory: &ProcessMemory, recording: &mut Recording) {
        let Some((object, _)) = self.object else { return };
        let is_over = self.jvm.is_some() || self.said.is_some_and(|said| said != InterpreterState::Read);
        if is_over || self.next_look.is_some_and(|next| Instant::now() < next) {
            return;
        }
        if !self.on {
            return self.say(0, InterpreterState::SwitchedOff, "", recording);
        }
        self.next_look = Some(Instant::now() + APART);
        let memory = Pages::new(memory);
        let layout = self.layout.map_or_else(|| published_layout(&memory, object.0), Ok);
        let found = layout.and_then(|layout| {
            self.layout = Some(layout);
            Jvm::find(&memory, &layout)
        });
        match found {
            Ok(jvm) => {
                self.refusals = 0;
                self.say(jvm.layout.version, InterpreterState::Read, "", recording);
                self.jvm = Some(Box::new(jvm));
            }
            Err(Refused::NotReady) => self.refusals = 0,
            Err(refused) => {
                self.refusals += 1;
                if self.refusals < REFUSALS {
                    return;
                }
                let known = self.layout.map_or(0, |layout| layout.version);
                let version = if let Refused::Version(version) = refused { version } else { known };
                if let Some(state) = refused.state() {
                    self.say(version, state, refused.detail(), recording);
                }
            }
        }
    }

    fn say(&mut self, version: u32, state: InterpreterState, detail: &str, recording: &mut Recording) {
        if self.said.replace(state) == Some(state) {
            return;
        }
        let path = self.object.as_ref().map_or(&[][..], |(_, path)| path);
        let found = FoundInterpreter { language: Language::HotSpot, version: u64::from(version), state };
        recording.interpreter(found, path, detail);
    }
}

/// Walks stacks of native and Java frames. Java frames have no place on the stack in what it gives.
pub(super) struct JavaWalks<'a> {
    pub(super) java: &'a mut Java,
    pub(super) natives: &'a mut StackWalker,
    pub(super) thread: JavaThread,
    pub(super) pages: &'a Pages<'a>,
    pub(super) recording: &'a mut Recording,
}

impl JavaWalks<'_> {
    /// `None`: there is no virtual machine, or it is not as it was found.
    fn mixed(
        &mut self,
        regs: &Regs,
        memory: &ProcessMemory,
        out: &mut Vec<Placed>,
    ) -> Option<Option<CutCause>> {
        let Java { jvm, codes, words, .. } = &mut *self.java;
        let jvm = jvm.as_deref()?;
        let registers = Registers {
            pc: regs.rip,
            sp: regs.rsp,
            bp: regs.rbp,
            rax: regs.rax,
            rbx: regs.rbx,
            r13: regs.r13,
            r15: regs.r15,
            tid: self.thread.number,
        };
        let walker = Walker::new(self.pages, jvm, (regs.rsp, self.thread.stack_end));
        let methods =
            WrittenMethods { pages: self.pages, layout: &jvm.layout, codes, recording: self.recording };
        let gregs = gregs(regs);
        let mut natives = self.natives.natives(memory, regs.fs_base);
        let stack = StackWords::new(methods, words);
        let (used, cut) = walker.mixed(&registers, Start::Interrupted(&gregs), &mut natives, MOST, stack)?;
        out.extend(words[..used].iter().map(|word| Placed { entry: *word, cfa: 0 }));
        Some(cut)
    }
}

impl Unwind for JavaWalks<'_> {
    fn walk(&mut self, regs: &Regs, memory: &ProcessMemory, out: &mut Vec<Placed>) -> Option<CutCause> {
        if let Some(cut) = self.mixed(regs, memory, out) {
            return cut;
        }
        self.java.jvm = None;
        self.natives.walk(regs, memory, out)
    }
}

/// Methods as the recording has them.
struct WrittenMethods<'a> {
    pages: &'a Pages<'a>,
    layout: &'a Layout,
    codes: &'a mut HashMap<u64, u32>,
    recording: &'a mut Recording,
}

impl WrittenMethods<'_> {
    /// Writes a method down that is met for the first time; its number. `None`: not now.
    fn write(&mut self, method: &Method) -> Option<u32> {
        let (mut name, mut file) = (vec![0; NAME_OCTETS], vec![0; NAME_OCTETS]);
        let (facts, lines) = method.facts(self.pages, self.layout, (&mut name, &mut file))?;
        let facts = facts.map(<[u8]>::to_vec);
        let mut octets = vec![0; usize::try_from(lines.octets).ok()?];
        let has_lines = lines.octets > 0 && self.pages.copy(lines.at, &mut octets);
        let lines = LineOctets { form: lines.form, octets: &octets, whole: lines.octets };
        self.recording.code(&facts, has_lines.then_some(lines))
    }
}

impl JavaCodes for WrittenMethods<'_> {
    fn frame_word(&mut self, frame: JavaFrame) -> Option<u64> {
        let method = Method::at(self.pages, self.layout, frame.method)?;
        let key = method.identity().0;
        let number = match self.codes.get(&key) {
            Some(number) => *number,
            None => {
                let number = self.write(&method)?;
                self.codes.insert(key, number);
                number
            }
        };
        CodeFrame::new(number, frame.bci).map(|frame| Frame::Code(frame).encode())
    }
}
