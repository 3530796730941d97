//! CPython in this process: found by the housekeeper, its frames woven into stacks by handlers.
//!
//! An image is an interpreter if it defines two symbols; each object with code is asked for the first of them once.
//! What was found is checked ([`pct_languages::cpython::Interpreter`]), published by one pointer, and told in the
//! file, also when its frames cannot be read.
//!
//! Everything is in the session's memory: the child of a fork finds its interpreter itself, and writes down the
//! functions that it meets in its own file.
//!
//! Signal safety: [`weave`] is as [`crate::code::callers`]. Finding is for the
//! housekeeper.

use core::cell::RefCell;

use pct_elf::{Image, Memory, Symbols};
use pct_format::layout::Wanted;
use pct_format::record::{InterpreterState, Language};
use pct_languages::cpython::{Interpreter, Refused, Standing, ThreadData, greenlet_code};
use pct_languages::weave::{Interpreted, InterpreterCode, Native, Woven, weave};
use pct_unwind::Extent;

use crate::code::finding::Finding;
use crate::code::interpreter::FoundInterpreter;
use crate::code::readable::Readable;
use crate::code::regions::{List, NewObject};
use crate::code::sample_codes::SampleCodes;
use crate::code::scratch::Scratch;
use crate::code::{java, javascript};
use crate::process::session::{Session, seed};
use crate::sys;
use crate::sys::arch;
use crate::sys::loaded::MemoryFile;

/// Pages that one sample may ask for.
const PROBES: u32 = 512;

impl Scratch<'_> {
    /// Writes the stack of the thread that we are on into `out`: of the native frames here the first `callers`, and the
    /// interpreter's, at most `most`, at their places. `None`: the thread runs nothing of the interpreter.
    ///
    /// # Safety
    /// The caller runs on the thread that `stack` belongs to. Where the session may make no system call, all of `stack`
    /// above the thread's stack pointer can be read.
    pub unsafe fn weave(
        &mut self,
        (session, found): (&Session, &FoundInterpreter),
        stack: Extent,
        (pc, thread): (u64, &Standing<impl Iterator<Item = u64> + Clone>),
        (callers, whole): (usize, bool),
        most: usize,
        out: &mut [u64],
    ) -> Option<Woven> {
        let sp = thread.stack_pointer;
        let native = Native { pc, sp, callers: self.placed.get(..callers)?, whole };
        let frames = self.frames.get_mut(..most.min(self.placed.len()))?;
        let probes = if session.may_call() { PROBES } else { 0 };
        // SAFETY: by the caller's promise.
        let memory = unsafe { Readable::new(stack, sp, self.known, probes) };
        let interpreter = &found.interpreter;
        let reader = (interpreter, &found.data);
        let interpreted = Interpreted::of_cpython(&memory, reader, arch::thread_base(), thread, frames)?;
        let mut codes = SampleCodes::new(session, &memory, interpreter.layout);
        let code = InterpreterCode {
            bytecode_loop: interpreter.bytecode_loop,
            greenlets: session.python.greenlets(),
        };
        Some(weave(&native, interpreted, code, &mut codes, out))
    }
}

/// A memory that is read a page at a time: each read of the own memory's file is a system call.
struct ByPage<M> {
    memory: M,
    page: RefCell<(u64, [u8; PAGE])>,
}

const PAGE: usize = 4096;

impl<M: Memory> ByPage<M> {
    fn new(memory: M) -> Self {
        ByPage { memory, page: RefCell::new((u64::MAX, [0; PAGE])) }
    }
}

impl<M: Memory> Memory for ByPage<M> {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        let Ok(mut page) = self.page.try_borrow_mut() else { return false };
        let (known, bytes) = &mut *page;
        for (i, octet) in (0..).zip(into) {
            let Some(at) = at.checked_add(i) else { return false };
            let (base, place) = (at & !(PAGE as u64 - 1), at as usize % PAGE);
            if *known != base {
                *known = u64::MAX;
                if !self.memory.copy(base, bytes) {
                    return false;
                }
                *known = base;
            }
            match bytes.get(place) {
                Some(found) => *octet = *found,
                None => return false,
            }
        }
        true
    }
}

fn symbols_at<M: Memory>(memory: &M, base: u64) -> Option<Symbols> {
    Image::at_base(memory, base)?.symbols(memory)
}

/// Looks at the objects that are new. By the housekeeper, after each look at the maps.
pub fn refresh(session: &Session, list: &mut List) {
    let python = &session.python;
    if session.counts() {
        return;
    }
    let gone = |base: u64| !list.entries().iter().any(|entry| entry.base == base);
    if python.current().is_some_and(|found| gone(found.base)) {
        python.current.hide();
    }
    let (greenlets, _) = python.greenlets();
    if !list.entries().iter().any(|entry| entry.start <= greenlets && greenlets < entry.end) {
        python.set_greenlets((0, 0));
    }
    let Some(first) = list.next_new_object() else { return };
    let looked = sys::with_descriptor(|| {
        let file = sys::open(sys::c(c"/proc/self/mem"), sys::O_RDONLY, 0)?;
        let mut next = Some(first);
        while let Some(object) = next {
            look_at_object(session, list, &ByPage::new(MemoryFile(&file)), object);
            next = list.next_new_object();
        }
        Ok(())
    });
    if let Err(errno) = looked {
        list.look_again_at(first.base);
        session.refusals.note(&session.log, Wanted::Objects, errno);
    }
}

fn look_at_object<M: Memory>(session: &Session, list: &mut List, memory: &M, object: NewObject) {
    let NewObject { base, may_be_jvm } = object;
    if may_be_jvm {
        java::remember(session, base);
        return;
    }
    let Some(image) = Image::at_base(memory, base) else { return };
    let Some(symbols) = image.symbols(memory) else { return };
    // One look-up for each, in objects that are no interpreter.
    if symbols.find(memory, b"_PyRuntime").is_some() {
        consider(session, list, memory, (&image, &symbols), base);
    } else if javascript::consider(session, memory, &symbols, base) {
        // It is looked at when V8 is up.
    } else if session.python.current().is_some()
        && let Some(code) = greenlet_code(memory, &image, &symbols)
    {
        session.python.set_greenlets(code);
    }
}

/// Looks for greenlet among all objects: some were met before the interpreter.
fn find_greenlets<M: Memory>(session: &Session, list: &List, memory: &M) {
    for base in list.entries().iter().map(|entry| entry.base).filter(|base| *base != 0) {
        if let Some(image) = Image::at_base(memory, base)
            && let Some(symbols) = image.symbols(memory)
            && let Some(code) = greenlet_code(memory, &image, &symbols)
        {
            session.python.set_greenlets(code);
        }
    }
}

/// An object that may be an interpreter: takes it if it can be read, and says in the file what it is.
#[cold]
#[inline(never)]
fn consider<M: Memory>(
    session: &Session,
    list: &mut List,
    memory: &M,
    object: (&Image, &Symbols),
    base: u64,
) {
    let path = list.path_of(base);
    let found = Interpreter::find(memory, object, path.bytes());
    let data = || {
        let objects = list.entries().iter().map(|entry| entry.base).filter(|base| *base != 0);
        objects.filter_map(|base| symbols_at(memory, base)).find_map(|s| ThreadData::find(memory, &s))
    };
    let (version, state) = match found {
        None => (0, InterpreterState::NoSymbols),
        Some(Err(refused)) => match state_of(refused) {
            Some(state) => (refused.version(), state),
            None => return list.look_again_at(base),
        },
        Some(Ok(interpreter)) => {
            let state = if !seed().options.python {
                InterpreterState::SwitchedOff
            } else if session.python.current().is_some() {
                InterpreterState::Second
            } else {
                match data() {
                    Some(data)
                        if session.python.current.show(FoundInterpreter { interpreter, data, base }) =>
                    {
                        find_greenlets(session, list, memory);
                        InterpreterState::Read
                    }
                    // Without memory nothing is said, as nothing was found out.
                    Some(_) => return,
                    None => InterpreterState::NoThreadData,
                }
            };
            (interpreter.version, state)
        }
    };
    Finding { language: Language::CPython, version, state, detail: "" }.tell(session, list, base);
}

/// `None`: it is too early to tell.
fn state_of(refused: Refused) -> Option<InterpreterState> {
    match refused {
        Refused::NoVersion | Refused::Version(_) => Some(InterpreterState::UnknownVersion),
        Refused::Layout(_) => Some(InterpreterState::OtherLayout),
        Refused::NotRelocated(_) => None,
    }
}
