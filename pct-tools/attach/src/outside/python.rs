//! CPython in a process that is sampled from outside: found in its maps, its frames woven into the stacks of
//! threads that stand still, its functions written down when they are met first.
//!
//! The readers are the sampler's own ([`pct_languages`]). What differs is the memory, another process's, read
//! a page at a time; a page is read anew for each sample, as the process has run meanwhile.
//!
//! A stopped thread says itself where its control block is. One that waits and is not stopped is found in the
//! interpreter's list of threads, by the number that the C library keeps in the control block.

use super::pages::Pages;
use super::still::{NAME_OCTETS, NewObject, Object, Still, Who};
use crate::memory::ProcessMemory;
use crate::ptrace::sys::Regs;
use crate::recording::{FoundInterpreter, LineOctets, Recording};
use pct_elf::{Image, Memory as _};
use pct_format::record::{
    CodeFacts, CodeFrame, CutCause, Frame, InterpreterState, Language, LineTableForm, LostCode, code_flag,
};
use pct_languages::cpython::layout::LineTable;
use pct_languages::cpython::{self, Interpreter, Layout, Refused, Standing, ThreadData, code, greenlet_code};
use pct_languages::weave::{Interpreted, InterpreterCode, Native, Words, Woven, weave};
use procfs::process::MemoryMap;
use std::collections::{HashMap, HashSet};

/// Octets of a line table that are kept.
const TABLE_OCTETS: u64 = 128 << 10;

/// An object that looks like an interpreter.
struct Candidate {
    object: Object,
    path: Vec<u8>,
}

/// The interpreter of one process.
pub(super) struct Python {
    data: Option<ThreadData>,
    found: Option<(Interpreter, Object)>,
    /// Code of the package greenlet: first address, and the one behind the last.
    greenlets: (u64, u64),
    /// An object that the loader has not relocated yet.
    early: Option<Candidate>,
    /// Frames are wanted.
    on: bool,
    frames: Vec<cpython::PythonFrame>,
    words: Vec<u64>,
    codes: HashMap<u64, Option<u32>>,
}

impl Python {
    /// None is found yet. Stacks have up to `depth` frames; `on`: those of the interpreter are wanted.
    pub(super) fn new(depth: usize, on: bool) -> Python {
        Python {
            data: None,
            found: None,
            greenlets: (0, 0),
            early: None,
            on,
            frames: vec![cpython::PythonFrame::default(); depth],
            words: vec![0; depth],
            codes: HashMap::new(),
        }
    }

    /// There is an interpreter whose frames are read.
    pub(super) fn is_there(&self) -> bool {
        self.found.is_some() && self.data.is_some()
    }

    /// Forgets what is not mapped any more: `now` are the objects that are.
    pub(super) fn retain(&mut self, maps: &[MemoryMap], now: &HashSet<Object>) {
        self.found = self.found.filter(|(_, object)| now.contains(object));
        let (greenlets, _) = self.greenlets;
        if !maps.iter().any(|map| map.address.0 <= greenlets && greenlets < map.address.1) {
            self.greenlets = (0, 0);
        }
    }

    /// Looks at an object that is new.
    pub(super) fn meet(&mut self, new: &NewObject<'_>, memory: &Pages<'_>, recording: &mut Recording) {
        let NewObject { object, path, image, symbols } = *new;
        self.data = self.data.or_else(|| ThreadData::find(memory, symbols));
        self.greenlets = greenlet_code(memory, image, symbols).unwrap_or(self.greenlets);
        if symbols.find(memory, b"_PyRuntime").is_some() {
            self.consider(memory, Candidate { object, path: path.to_vec() }, recording);
        }
    }

    /// Takes the object as the interpreter if it can be read, and says in the file what it is.
    fn consider(&mut self, memory: &Pages<'_>, candidate: Candidate, recording: &mut Recording) {
        let Candidate { object, path } = &candidate;
        let Some(image) = Image::at_base(memory, object.0) else { return };
        let Some(symbols) = image.symbols(memory) else { return };
        let (version, state) = match Interpreter::find(memory, (&image, &symbols), path) {
            None => (0, InterpreterState::NoSymbols),
            Some(Err(Refused::NotRelocated(_))) => {
                self.early = Some(candidate);
                return;
            }
            Some(Err(refused @ Refused::Layout(_))) => (refused.version(), InterpreterState::OtherLayout),
            Some(Err(refused @ (Refused::NoVersion | Refused::Version(_)))) => {
                (refused.version(), InterpreterState::UnknownVersion)
            }
            Some(Ok(interpreter)) => {
                let state = if !self.on {
                    InterpreterState::SwitchedOff
                } else if self.found.is_some() {
                    InterpreterState::Second
                } else {
                    self.found = Some((interpreter, *object));
                    InterpreterState::Read
                };
                (interpreter.version, state)
            }
        };
        let found = FoundInterpreter { language: Language::CPython, version: u64::from(version), state };
        recording.interpreter(found, path, "");
    }

    /// Looks once more at an object that was not relocated when it was seen first.
    pub(super) fn look_again(&mut self, memory: &ProcessMemory, recording: &mut Recording) {
        if let Some(early) = self.early.take() {
            self.consider(&Pages::new(memory), early, recording);
        }
    }

    /// The stack of a thread with Python's frames at their places; `None`: it runs no Python.
    pub(super) fn stack(
        &mut self,
        still: &Still<'_>,
        memory: &ProcessMemory,
        recording: &mut Recording,
        out: &mut Vec<Frame>,
    ) -> Option<()> {
        let ((interpreter, _), data) = (self.found.as_ref()?, self.data.as_ref()?);
        let memory = &Pages::new(memory);
        let thread = match still.thread {
            Who::ControlBlock(at) => at,
            Who::Number(tid) => interpreter.control_block(memory, data, tid)?,
        };
        let standing = Standing { stack_pointer: still.sp, registers: still.registers.iter().copied() };
        let interpreted =
            Interpreted::of_cpython(memory, (interpreter, data), thread, &standing, &mut self.frames)?;
        let whole = still.cut.is_none();
        let native = Native { pc: still.pc, sp: still.sp, callers: still.callers, whole };
        let mut written = Written { memory, layout: interpreter.layout, codes: &mut self.codes, recording };
        let code = InterpreterCode { bytecode_loop: interpreter.bytecode_loop, greenlets: self.greenlets };
        let Woven { words, full, has_own_root } =
            weave(&native, interpreted, code, &mut written, &mut self.words);
        out.extend(self.words[..words].iter().map(|word| Frame::decode(*word)));
        let cut = if full { Some(CutCause::Depth) } else { still.cut.filter(|_| !has_own_root) };
        out.extend(cut.map(Frame::Cut));
        Some(())
    }
}

/// Functions as the recording has them.
struct Written<'a> {
    memory: &'a Pages<'a>,
    layout: &'static Layout,
    /// By identity; `None`: it is machinery of the interpreter, which is not shown.
    codes: &'a mut HashMap<u64, Option<u32>>,
    recording: &'a mut Recording,
}

impl Written<'_> {
    /// Writes down the function at `object`; its number, `None`: it is machinery. Outside: not now.
    fn write(&mut self, object: u64) -> Option<Option<u32>> {
        let (memory, layout) = (self.memory, self.layout);
        let (mut name, mut file) = (vec![0; NAME_OCTETS], vec![0; NAME_OCTETS]);
        let (octets, name_cut) = code::utf8(memory, code::name(memory, layout, object)?, &mut name)?;
        name.truncate(octets);
        let (octets, file_cut) = code::utf8(memory, code::filename(memory, layout, object)?, &mut file)?;
        file.truncate(octets);
        // A frame that 3.12 and later push when the call of a class is inlined.
        if file.is_empty() && name == b"__init__" {
            return Some(None);
        }
        let table = code::line_table(memory, layout, object)?;
        let mut lines = vec![0; usize::try_from(table.length.min(TABLE_OCTETS)).ok()?];
        if !memory.copy(table.at, &mut lines) {
            return None;
        }
        let lines_cut = table.length > TABLE_OCTETS;
        let flags = code_flag::of_cuts(name_cut, file_cut, lines_cut);
        let first_line = code::first_line(memory, layout, object)?;
        let facts = CodeFacts { language: Language::CPython as u64, first_line, flags, name, file };
        let form = match layout.lines {
            LineTable::Lnotab => LineTableForm::Lnotab,
            LineTable::Pairs => LineTableForm::Pairs,
            LineTable::Locations => LineTableForm::Locations,
        };
        let lines = LineOctets { form, octets: &lines, whole: table.length };
        self.recording.code(&facts, Some(lines)).map(Some)
    }
}

impl Words for Written<'_> {
    fn frame(&mut self, frame: &cpython::PythonFrame) -> Option<u64> {
        let identity = code::identity(self.memory, self.layout, frame.code);
        let number = identity.and_then(|identity| match self.codes.get(&identity.0) {
            Some(known) => Some(*known),
            None => {
                let number = self.write(frame.code)?;
                self.codes.insert(identity.0, number);
                Some(number)
            }
        });
        let Some(number) = number else { return Some(Frame::NoCode(LostCode::NotWritten).encode()) };
        let frame = CodeFrame::new(number?, frame.offset.map(|octets| octets / 2))?;
        Some(Frame::Code(frame).encode())
    }
}

/// The words of the general registers and the halves of the first sixteen vector registers.
pub(super) fn registers(regs: &Regs, extended: Option<&[u8]>) -> Vec<u64> {
    /// Where the vector registers begin in the state as the processor saves it, and how long they are.
    const VECTORS: std::ops::Range<usize> = 160..160 + 16 * 16;
    let r = regs;
    let mut words = vec![
        r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx, r.rax, r.rcx,
    ];
    let vectors = extended.and_then(|state| state.get(VECTORS)).unwrap_or_default();
    words.extend(vectors.chunks_exact(8).map(|half| u64::from_ne_bytes(half.try_into().unwrap_or_default())));
    words
}
