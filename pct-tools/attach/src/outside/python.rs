//! CPython in a process that is sampled from outside: found in its maps, its frames woven into the stacks of
//! threads that stand still, its functions written down when they are met first.
//!
//! The readers are the sampler's own ([`pct_languages`]). What differs is the memory, another process's, read
//! a page at a time; a page is read anew for each sample, as the process has run meanwhile.
//!
//! A stopped thread says itself where its control block is. One that waits and is not stopped is found in the
//! interpreter's list of threads, by the number that the C library keeps in the control block.

use crate::memory::{Memory as _, ProcessMemory};
use crate::ptrace::sys::Regs;
use crate::recording::Recording;
use pct_elf::{Image, Memory};
use pct_format::record::{
    CodeFacts, CodeFrame, CutCause, Frame, InterpreterState, Language, LineTableForm, LostCode, code_flag,
};
use pct_languages::ThreadMemory;
use pct_languages::cpython::layout::LineTable;
use pct_languages::cpython::{self, Interpreter, Layout, Refused, Standing, ThreadData, code, greenlet_code};
use pct_languages::weave::{Interpreted, InterpreterCode, Native, Words, Woven, weave};
use pct_unwind::Placed;
use procfs::process::{MMapPath, MemoryMap};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt as _;

/// Octets of a name that are kept.
const NAME_OCTETS: usize = 1024;
/// Octets of a line table that are kept.
const TABLE_OCTETS: u64 = 128 << 10;

/// An object: its first address, its device and its inode.
type Object = (u64, i32, i32, u64);

/// A thread that stands still.
pub(super) struct Still<'a> {
    /// Where it stands.
    pub(super) pc: u64,
    /// Its stack pointer.
    pub(super) sp: u64,
    /// Its callers, innermost first.
    pub(super) callers: &'a [Placed],
    /// Why there are no more of them.
    pub(super) cut: Option<CutCause>,
    /// Who it is.
    pub(super) thread: Who,
    /// What its registers hold, as far as it is known.
    pub(super) registers: &'a [u64],
}

/// Which thread it is.
pub(super) enum Who {
    /// Its control block is here.
    ControlBlock(u64),
    /// Its number, as its process sees it.
    Number(u32),
}

/// An object that looks like an interpreter.
struct Candidate {
    object: Object,
    path: Vec<u8>,
}

/// The interpreter of one process.
pub(super) struct Python {
    /// The objects that were looked at.
    known: HashSet<Object>,
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
            known: HashSet::new(),
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

    /// Looks at the objects that are new in `maps`.
    pub(super) fn refresh(&mut self, maps: &[MemoryMap], memory: &ProcessMemory, recording: &mut Recording) {
        let object = |map: &MemoryMap| (map.address.0, map.dev.0, map.dev.1, map.inode);
        let firsts = || maps.iter().filter(|map| map.offset == 0 && map.inode != 0);
        let now: HashSet<Object> = firsts().map(object).collect();
        self.known.retain(|object| now.contains(object));
        self.found = self.found.filter(|(_, object)| now.contains(object));
        let (greenlets, _) = self.greenlets;
        if !maps.iter().any(|map| map.address.0 <= greenlets && greenlets < map.address.1) {
            self.greenlets = (0, 0);
        }
        for map in firsts() {
            if self.known.insert(object(map)) {
                self.search_object(map, object(map), memory, recording);
            }
        }
    }

    fn search_object(
        &mut self,
        map: &MemoryMap,
        object: Object,
        memory: &ProcessMemory,
        recording: &mut Recording,
    ) {
        let memory = &Pages::new(memory);
        let Some(image) = Image::at_base(memory, object.0) else { return };
        let Some(symbols) = image.symbols(memory) else { return };
        self.data = self.data.or_else(|| ThreadData::find(memory, &symbols));
        self.greenlets = greenlet_code(memory, &image, &symbols).unwrap_or(self.greenlets);
        if symbols.find(memory, b"_PyRuntime").is_none() {
            return;
        }
        let path = match &map.pathname {
            MMapPath::Path(path) => path.as_os_str().as_bytes().to_vec(),
            _ => Vec::new(),
        };
        self.consider(memory, Candidate { object, path }, recording);
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
        recording.interpreter(Language::CPython, u64::from(version), state, path);
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
        let flags = [
            (name_cut, code_flag::NAME_CUT),
            (file_cut, code_flag::FILE_CUT),
            (lines_cut, code_flag::LINES_CUT),
        ];
        let flags = flags.iter().filter(|(set, _)| *set).fold(0, |flags, (_, flag)| flags | flag);
        let first_line = code::first_line(memory, layout, object)?;
        let facts = CodeFacts { language: Language::CPython as u64, first_line, flags, name, file };
        let form = match layout.lines {
            LineTable::Lnotab => LineTableForm::Lnotab,
            LineTable::Pairs => LineTableForm::Pairs,
            LineTable::Locations => LineTableForm::Locations,
        };
        self.recording.code(&facts, form, &lines, table.length).map(Some)
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

const PAGE: usize = 4096;

/// A process's memory during one sample: each page is read once.
struct Pages<'m> {
    memory: &'m ProcessMemory,
    read: RefCell<HashMap<u64, Option<Box<[u8; PAGE]>>>>,
}

impl Pages<'_> {
    fn new(memory: &ProcessMemory) -> Pages<'_> {
        Pages { memory, read: RefCell::default() }
    }
}

impl Memory for Pages<'_> {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        let mut pages = self.read.borrow_mut();
        let mut done = 0;
        while done < into.len() {
            let Some(from) = at.checked_add(done as u64) else { return false };
            let (base, offset) =
                (from & !(PAGE as u64 - 1), usize::try_from(from % PAGE as u64).unwrap_or(0));
            let page = pages.entry(base).or_insert_with(|| {
                let mut page = Box::new([0; PAGE]);
                self.memory.read(base, &mut page[..]).is_ok().then_some(page)
            });
            let Some(page) = page else { return false };
            let length = (PAGE - offset).min(into.len() - done);
            into[done..done + length].copy_from_slice(&page[offset..offset + length]);
            done += length;
        }
        true
    }
}

impl ThreadMemory for Pages<'_> {}
