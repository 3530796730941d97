//! HotSpot in this process: found by the housekeeper, its frames walked by handlers.
//!
//! A `libjvm.so` that publishes its layout is a Java virtual machine. The housekeeper reads that layout once, and
//! lists the heaps of code when the machine is up; until then there are native frames only. What it found is published
//! by one pointer and told in the file, also when its frames are not read.
//!
//! How native and Java frames become one stack says [`pct_languages::hotspot::mixed`].
//!
//! Signal safety: [`JavaStack::walk`] is as [`crate::code::callers`]. Finding is for the housekeeper.

use core::cell::RefCell;
use core::sync::atomic::Ordering;

use pct_elf::Memory;
use pct_format::CutCause;
use pct_format::layout::{Wanted, header as at};
use pct_format::record::{InterpreterState, Language};
use pct_languages::hotspot::find::published_layout;
use pct_languages::hotspot::layout::{Layout, Refused};
use pct_languages::hotspot::{Jvm, NativeWalks, Registers, StackWords, Walker};
use pct_unwind::{Extent, Start};

use crate::code::finding::Finding;
use crate::code::interpreter::FoundJvm;
use crate::code::java_codes::MethodCodes;
use crate::code::readable::{KnownPages, Readable};
use crate::code::regions::List;
use crate::process::session::{Session, seed};
use crate::sys;
use crate::sys::loaded::MemoryFile;

/// Pages that one sample may ask for.
const PROBES: u32 = 512;
/// Looks that must find it unreadable before that is said.
const REFUSALS: u32 = 32;

/// What a walk in a thread of a Java virtual machine needs.
pub(super) struct JavaStack<'s> {
    pub(super) session: &'s Session,
    pub(super) found: &'s FoundJvm,
    /// The thread's own stack.
    pub(super) stack: Extent,
    pub(super) known: &'s KnownPages,
    /// Most steps through Java frames.
    pub(super) most: u32,
}

impl JavaStack<'_> {
    /// Writes the stack of the thread that we are on; how many words, and why it is cut. `None`: the virtual machine is
    /// not as it was found, so there may be Java code of which nothing is known.
    ///
    /// # Safety
    /// The caller runs on the thread that the stack belongs to. Where the session may make no system call, all of it
    /// above the thread's stack pointer can be read.
    #[inline(never)]
    pub(super) unsafe fn walk(
        &self,
        registers: &Registers,
        start: Start<'_>,
        natives: &mut impl NativeWalks,
        out: &mut [u64],
    ) -> Option<(usize, Option<CutCause>)> {
        let jvm = &self.found.jvm;
        let probes = if self.session.may_call() { PROBES } else { 0 };
        // SAFETY: by the caller's promise.
        let memory = unsafe { Readable::new(self.stack, registers.sp, self.known, probes) };
        let walker = Walker::new(&memory, jvm, (registers.sp, self.stack.hi));
        let words = StackWords::new(MethodCodes::new(self.session, &memory, &jvm.layout), out);
        walker.mixed(registers, start, natives, self.most, words)
    }
}

/// A memory that is read by pages, of which a few are kept: each read of the own memory's file is a system call, and
/// the tables, their names and their types lie on three pages at a time.
struct ByPages<M> {
    memory: M,
    pages: RefCell<[(u64, [u8; PAGE]); PAGES]>,
}

const PAGE: usize = 4096;
const PAGES: usize = 4;

impl<M: Memory> ByPages<M> {
    fn new(memory: M) -> Self {
        ByPages { memory, pages: RefCell::new([const { (u64::MAX, [0; PAGE]) }; PAGES]) }
    }
}

impl<M: Memory> Memory for ByPages<M> {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        let Ok(mut pages) = self.pages.try_borrow_mut() else { return false };
        for (i, octet) in (0..).zip(into) {
            let Some(at) = at.checked_add(i) else { return false };
            let base = at & !(PAGE as u64 - 1);
            let Some((known, bytes)) = pages.get_mut((base / PAGE as u64) as usize % PAGES) else {
                return false;
            };
            if *known != base {
                *known = u64::MAX;
                if !self.memory.copy(base, bytes) {
                    return false;
                }
                *known = base;
            }
            match bytes.get(at as usize % PAGE) {
                Some(found) => *octet = *found,
                None => return false,
            }
        }
        true
    }
}

/// The housekeeper saw an object that may be a Java virtual machine, by its name.
pub(super) fn remember(session: &Session, base: u64) {
    let java = &session.java;
    if java.base.load(Ordering::Relaxed) == 0 {
        java.base.store(base, Ordering::Relaxed);
    }
}

/// Looks whether a Java virtual machine is up, or has changed. By the housekeeper, after each look at the maps.
pub(super) fn refresh(session: &Session, list: &mut List) {
    let java = &session.java;
    let base = java.base.load(Ordering::Relaxed);
    if base == 0 || session.counts() {
        return;
    }
    if !list.entries().iter().any(|entry| entry.base == base) {
        java.current.hide();
        java.layout.hide();
        java.base.store(0, Ordering::Relaxed);
        java.said.store(0, Ordering::Relaxed);
        return;
    }
    if !seed().options.java {
        return say(session, list, base, 0, InterpreterState::SwitchedOff, "");
    }
    if java.is_refused() {
        return;
    }
    let looked = sys::with_descriptor(|| {
        let file = sys::open(sys::c(c"/proc/self/mem"), sys::O_RDONLY, 0)?;
        find_jvm(session, list, &file, base);
        Ok(())
    });
    if let Err(errno) = looked {
        session.refusals.note(&session.log, Wanted::Objects, errno);
    }
}

#[cold]
#[inline(never)]
fn find_jvm(session: &Session, list: &mut List, file: &sys::Fd, base: u64) {
    let java = &session.java;
    if java.current().is_some_and(|found| found.jvm.is_current(&MemoryFile(file))) {
        return;
    }
    let known = java.layout.get();
    let layout = match known {
        Some(layout) => Ok(*layout),
        None => published_layout(&ByPages::new(MemoryFile(file)), base),
    };
    let found = layout.and_then(|layout| {
        if known.is_none() {
            java.layout.show(layout);
        }
        find_machine(file, &layout)
    });
    let version = known.map_or(0, |layout| layout.version);
    // A virtual machine that is starting may be met between any two of its stores.
    if found.is_err()
        && !matches!(found, Err(Refused::NotReady))
        && java.refusals.fetch_add(1, Ordering::Relaxed) < REFUSALS
    {
        return;
    }
    match found {
        Ok(jvm) => {
            java.refusals.store(0, Ordering::Relaxed);
            let version = jvm.layout.version;
            if java.current.show(FoundJvm { jvm }) {
                say(session, list, base, version, InterpreterState::Read, "");
            }
        }
        Err(refused) => {
            let version = if let Refused::Version(version) = refused { version } else { version };
            match refused.state() {
                Some(state) => say(session, list, base, version, state, refused.detail()),
                None => java.refusals.store(0, Ordering::Relaxed),
            }
        }
    }
}

/// Apart, so that the pages of the one are not on the stack together with those of the other.
#[inline(never)]
fn find_machine(file: &sys::Fd, layout: &Layout) -> Result<Jvm, Refused> {
    Jvm::find(&ByPages::new(MemoryFile(file)), layout)
}

/// Says in the file what became of the virtual machine, once for each state.
fn say(session: &Session, list: &mut List, base: u64, version: u32, state: InterpreterState, detail: &str) {
    if session.java.said.swap(state as u32, Ordering::Relaxed) == state as u32 {
        return;
    }
    session.log.header_set(at::JAVA, state as u64);
    Finding { language: Language::HotSpot, version, state, detail }.tell(session, list, base);
}
