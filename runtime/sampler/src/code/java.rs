//! HotSpot in this process: found by the housekeeper, its frames walked by handlers.
//!
//! A `libjvm.so` that publishes its layout is a Java virtual machine. The housekeeper reads that layout once, and
//! lists the heaps of code when the machine is up; until then there are native frames only. What it found is published
//! by one pointer and told in the file, also when its frames are not read.
//!
//! A walk changes between two walkers: native frames go by unwind data until a return address lies in the code cache,
//! Java frames by [`pct_languages::hotspot`] until native code called Java. A Java link that is not proved ends the
//! stack: [`LostCode::Torn`] stands there.
//!
//! Signal safety: [`JavaStack::walk`] is as [`crate::code::callers`]. Finding is for the housekeeper.

use core::cell::RefCell;
use core::sync::atomic::Ordering;

use pct_elf::{Image, Memory};
use pct_format::CutCause;
use pct_format::layout::{Wanted, header as at};
use pct_format::record::{Frame, InterpreterState, Language, LostCode};
use pct_languages::hotspot::layout::{Layout, Refused};
use pct_languages::hotspot::tables::{Field, Tables};
use pct_languages::hotspot::walk::Way;
use pct_languages::hotspot::{JavaEnd, Jvm, Registers, Spot, Walker};
use pct_unwind::{Budget, Extent, Live, Met, Start, WalkEnd, Walked};

use crate::code::finding::Finding;
use crate::code::interpreter::FoundJvm;
use crate::code::java_codes::JavaWords;
use crate::code::readable::{KnownPages, Readable};
use crate::code::regions::List;
use crate::process::session::{Session, seed};
use crate::sys;
use crate::sys::loaded::MemoryFile;

/// Pages that one sample may ask for.
const PROBES: u32 = 512;
/// Most changes between native and Java code in one stack.
const CHANGES: u32 = 64;

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

/// What native walks are made with: the modules as they are now.
pub(super) trait NativeWalks {
    /// A walk up to code in a range.
    fn walk_to(
        &self,
        start: Start<'_>,
        memory: &mut Live,
        out: &mut [u64],
        budget: Budget,
        foreign: (u64, u64),
    ) -> (Walked, Option<Met>);
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
        (natives, budget): (&impl NativeWalks, Budget),
        native_memory: &mut Live,
        out: &mut [u64],
    ) -> Option<(usize, Option<CutCause>)> {
        let jvm = &self.found.jvm;
        let probes = if self.session.may_call() { PROBES } else { 0 };
        // SAFETY: by the caller's promise.
        let memory = unsafe { Readable::new(self.stack, registers.sp, self.known, probes) };
        let is_java = jvm.contains(registers.pc);
        if is_java && !jvm.is_current(&memory) {
            return None;
        }
        let walker = Walker::new(&memory, jvm, (registers.sp, self.stack.hi));
        let mut words = JavaWords::new(self.session, &memory, &jvm.layout, out);
        let mut start = start;
        let mut end = if is_java { Some(walker.interrupted(registers, self.most, &mut words)) } else { None };
        for _ in 0..CHANGES {
            match end {
                None => {}
                Some(JavaEnd::Native(Spot { pc, sp, bp })) => start = Start::Return { pc, sp, bp },
                Some(JavaEnd::Torn) => return Some(Self::torn(words)),
                Some(JavaEnd::Full) => {
                    let is_full = words.rest().is_empty();
                    return Some((words.used, Some(if is_full { CutCause::Depth } else { CutCause::Time })));
                }
            }
            let (walked, met) = natives.walk_to(start, native_memory, words.rest(), budget, jvm.bounds);
            words.used += walked.frames;
            let Some(Met { pc, sp, bp, is_exact }) = met else {
                return Some((words.used, native_end(&walked)));
            };
            if is_exact || walked.frames == 0 {
                return Some(Self::torn(words));
            }
            if !jvm.is_current(&memory) {
                return None;
            }
            // Its frames say more than its address.
            words.used -= 1;
            end = Some(walker.callers(Spot { pc, sp, bp }, Way::Native, self.most, &mut words));
        }
        Some((words.used, Some(CutCause::Loop)))
    }

    /// What there is, and that the rest is not known.
    fn torn<M: Memory>(mut words: JavaWords<'_, '_, M>) -> (usize, Option<CutCause>) {
        let stored = words.store(Frame::NoCode(LostCode::Torn).encode());
        (words.used, Some(if stored { CutCause::NoUnwindData } else { CutCause::Depth }))
    }
}

fn native_end(walked: &Walked) -> Option<CutCause> {
    if walked.end == WalkEnd::NotReady && walked.unknown {
        return Some(CutCause::NotRead);
    }
    walked.end.cut_cause()
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
        None => read_layout(file, base),
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
        Err(Refused::NotReady) => java.refusals.store(0, Ordering::Relaxed),
        Err(Refused::Version(version)) => {
            say(session, list, base, version, InterpreterState::UnknownVersion, "");
        }
        Err(Refused::Missing(name)) => {
            say(session, list, base, version, InterpreterState::Unpublished, name);
        }
        Err(Refused::Odd(name)) => {
            say(session, list, base, version, InterpreterState::OtherLayout, name);
        }
    }
}

/// Apart, so that the pages of the one are not on the stack together with those of the other.
#[inline(never)]
fn find_machine(file: &sys::Fd, layout: &Layout) -> Result<Jvm, Refused> {
    Jvm::find(&ByPages::new(MemoryFile(file)), layout)
}

#[inline(never)]
fn read_layout(file: &sys::Fd, base: u64) -> Result<Layout, Refused> {
    let memory = &ByPages::new(MemoryFile(file));
    let image = Image::at_base(memory, base).ok_or(Refused::NotReady)?;
    let symbols = image.symbols(memory).ok_or(Refused::NotReady)?;
    // Asked first: the loader may come to its end meanwhile.
    let is_relocated = image.is_relocated(memory);
    let tables = Tables::read(memory, &symbols).ok_or(Refused::Missing("gHotSpotVMStructs"))?;
    let early = |refused| if is_relocated { refused } else { Refused::NotReady };
    let tables = tables.map_err(|missing| early(Refused::Missing(missing.0)))?;
    let version = tables.field(Field::Version).ok_or(early(Refused::Missing(Field::Version.name())))?;
    match memory.half(version.value).unwrap_or(0) {
        // It is set when the virtual machine starts.
        0 => Err(Refused::NotReady),
        version => Layout::new(&tables, version).map_err(early),
    }
}

/// Says in the file what became of the virtual machine, once for each state.
fn say(session: &Session, list: &mut List, base: u64, version: u32, state: InterpreterState, detail: &str) {
    if session.java.said.swap(state as u32, Ordering::Relaxed) == state as u32 {
        return;
    }
    session.log.header_set(at::JAVA, state as u64);
    Finding { language: Language::HotSpot, version, state, detail }.tell(session, list, base);
}
