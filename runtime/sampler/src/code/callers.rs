//! The stack of a sample: from the interrupted registers to frame words, in the handler.
//!
//! [`pct_unwind`] walks; this module gives it what belongs to the process: the modules as the housekeeper saw
//! them last, the shared cache of rules, the extent of the thread's stack, a buffer, and a budget of a
//! twentieth of the period. A page of unwind data that nobody needed before costs a microsecond more.
//!
//! Signal safety: [`words`] makes system calls for pages of which it is not sure that they are the thread's
//! stack (are they there?), for pages of unwind data that nobody needed before, for the buffer once per thread, and
//! none under a filter on system calls. [`words_of_call`] runs outside of handlers, and blocks signals while it copies
//! unwind data.

use core::hint::cold_path;
use core::sync::atomic::Ordering;

use crate::code::interpreter::{FoundInterpreter, FoundJvm, FoundV8};
use crate::code::java::JavaStack;
use crate::code::javascript;
use crate::code::javascript_codes::JavaScriptCodes;
use crate::code::readable::Readable;
use crate::code::thread_stack::FRONT;
use crate::code::walked_modules::{self, IN_VAIN, LOOKED, REGISTRY, is_doubtful};
use crate::process::bookkeeping;
use crate::process::own_stack::on_own_stack;
use crate::process::session::{self, Session};
use crate::record::rings::Ring;
use crate::record::time;
use crate::sys::arch::{Regs, thread_base};
use pct_format::layout::Wanted;
use pct_format::record::Frame;
use pct_format::{CutCause, StackMode};
use pct_languages::cpython::Standing;
use pct_languages::hotspot::{NativeWalks, Registers};
use pct_languages::v8::Weaver;
use pct_languages::weave::Woven;
use pct_unwind::cfi::reg;
use pct_unwind::set::Set;
use pct_unwind::{Budget, Gregs, Live, Met, Slot, Start, WalkEnd, Walked, walk, walk_to};

/// Pages of a stack other than the thread's own that one walk may look at.
const PROBES: u32 = 256;
/// Nanoseconds that a unit of the walker's budget stands for.
const UNIT_NS: u64 = 8;
/// Units that a Python frame costs.
const UNITS_OF_PYTHON: u32 = 4;
/// What of a frame word is its address.
const ADDRESS_BITS: u64 = (1 << 56) - 1;
/// Units that a step through Java frames costs.
const UNITS_OF_JAVA: u32 = 12;
/// Units that a frame of JavaScript costs.
const UNITS_OF_JAVASCRIPT: u32 = 6;
/// Pages that functions of JavaScript in one sample may ask for.
const PROBES_OF_JAVASCRIPT: u32 = 512;
/// DWARF numbers of registers.
const RAX: u8 = 0;
const RBX: u8 = 3;
const R13: u8 = 13;
const R15: u8 = 15;
/// Least time between two looks at the regions from samples: 1 % of it is what a look may cost.
const APART_NS: u64 = 10_000_000;
/// The same where the loader changed something since the last one.
const LOADER_APART_NS: u64 = 2_000_000;
/// Times that the time between two looks is doubled, up to ten seconds.
const MOST_IN_VAIN: u32 = 10;
/// Depth up to which the period alone limits a walk. Who asks for more wants the entire recursion and pays for it.
const USUAL_DEPTH: usize = 512;

/// Whether samples carry stacks.
#[inline(always)]
#[must_use]
pub fn wanted(session: &Session, regs: Regs) -> bool {
    session.settings.stack.load(Ordering::Relaxed) != StackMode::None as u32 && regs.context != 0
}

/// The return addresses of the interrupted thread as frame words, innermost first; a cut stack ends with its cause. The
/// caller holds the ring's busy flag while it uses them. `spare` is used when there is no memory for a buffer.
#[inline(always)]
pub fn words<'r>(session: &Session, ring: &'r Ring, regs: Regs, spare: &'r mut [u64; 1]) -> &'r mut [u64] {
    let depth = session.settings.depth.load(Ordering::Relaxed);
    let Some(buffer) = buffer(session, ring, depth) else {
        *spare = [Frame::Cut(CutCause::Other).encode()];
        return spare;
    };
    let len = walk_into(Walker { session, ring, may_copy: true }, regs, buffer, 0..depth as usize);
    buffer.get_mut(..len).unwrap_or(&mut [])
}

/// The same for a call: `caller` is the first word, behind it the frames outside of the calling function,
/// which `regs` stand for.
#[inline(never)]
pub fn words_of_call<'r>(
    session: &Session,
    ring: &'r Ring,
    regs: Regs,
    caller: u64,
    spare: &'r mut [u64; 1],
) -> &'r mut [u64] {
    let depth = session.settings.depth.load(Ordering::Relaxed);
    let Some(buffer) = buffer(session, ring, depth) else {
        *spare = [caller];
        return spare;
    };
    if let Some(place) = buffer.first_mut() {
        *place = caller;
    }
    let mut walker = Walker { session, ring, may_copy: false };
    let mut len = walk_into(walker, regs, buffer, 1..depth as usize);
    if buffer.get(len.saturating_sub(1)) == Some(&Frame::Cut(CutCause::NotRead).encode()) {
        cold_path();
        // A handler of the program's could leave by a jump, and a page would be taken for good.
        let _alone = session::alone();
        walker.may_copy = true;
        len = walk_into(walker, regs, buffer, 1..depth as usize);
    }
    buffer.get_mut(..len).unwrap_or(&mut [])
}

/// The buffer of the thread, for `depth` frames. `None`: there is no memory for it, which is noted.
#[inline(always)]
fn buffer<'r>(session: &Session, ring: &'r Ring, depth: u32) -> Option<&'r mut [u64]> {
    match ring.stack.buffer(depth, session.may_call()) {
        Ok(buffer) => Some(buffer),
        Err(errno) => {
            cold_path();
            session.refusals.note(&session.log, Wanted::Memory, errno);
            None
        }
    }
}

/// A thread's own frames, with room before them for what the kernel called.
pub(crate) struct Halves<'r> {
    /// The frames begin at [`FRONT`].
    pub(crate) words: &'r mut [u64],
    /// Room for the kernel's addresses.
    pub(crate) chain: &'r mut [u64],
}

/// The frames of the interrupted thread. The caller holds the ring's busy flag while it uses them. `None`:
/// there is no memory for them.
#[inline(never)]
pub(crate) fn halves<'r>(session: &Session, ring: &'r Ring, regs: Regs) -> Option<Halves<'r>> {
    let depth = session.settings.depth.load(Ordering::Relaxed);
    let buffer = buffer(session, ring, depth)?;
    let (words, chain) = buffer.split_at_mut_checked(FRONT + depth as usize + 1)?;
    let len = walk_into(Walker { session, ring, may_copy: true }, regs, words, FRONT..FRONT + depth as usize);
    Some(Halves { words: words.get_mut(..len)?, chain })
}

/// The interrupted thread's stack pointer.
#[must_use]
pub(crate) fn stack_pointer(regs: Regs) -> u64 {
    if regs.context == 0 { 0 } else { gregs(regs).get(reg::RSP) }
}

/// Whose stack is walked.
#[derive(Clone, Copy)]
struct Walker<'s> {
    session: &'s Session,
    /// The thread's.
    ring: &'s Ring,
    /// Whether unwind data may be copied: only where no handler of the program's can run meanwhile.
    may_copy: bool,
}

/// Walks, and stores the frames in a range of the buffer and a cut mark behind them; where they end.
#[inline(always)]
fn walk_into(walker: Walker<'_>, regs: Regs, buffer: &mut [u64], range: core::ops::Range<usize>) -> usize {
    let session = walker.session;
    let first = range.start;
    let out = buffer.get_mut(range).unwrap_or(&mut []);
    let current = (session.python.current(), session.java.current(), session.javascript.current());
    let (frames, cut) = match current {
        (None, None, None) => {
            let walked = native(walker, regs, out);
            if walked_modules::awaits_interpreter() {
                cold_path();
                with_awaited(walker, regs, walked, out)
            } else {
                walked
            }
        }
        (Some(found), ..) => {
            cold_path();
            with_python(walker, regs, found, out)
        }
        (None, Some(found), _) => {
            cold_path();
            with_java(walker, regs, found, out)
        }
        (None, None, Some(found)) => {
            cold_path();
            with_javascript(walker, regs, found, out)
        }
    };
    let mut len = first + frames;
    if let Some(cause) = cut
        && let Some(place) = buffer.get_mut(len)
    {
        *place = Frame::Cut(cause).encode();
        len += 1;
    }
    len
}

/// A walk, and another one if it made us find new code: how many frames it stored, and why it is cut.
#[inline(always)]
fn native<S: Slot>(walker: Walker<'_>, regs: Regs, out: &mut [S]) -> (usize, Option<CutCause>) {
    let mut walked = once(walker, regs, out);
    if walked.unsure {
        walked_modules::expect_data();
    }
    if walked.unknown || walked.unsure || is_doubtful(addresses(regs, out, walked.frames)) {
        cold_path();
        match look_again(walker.session) {
            Some(true) => walked = once(walker, regs, out),
            Some(false) => {}
            None => walked_modules::met_unknown(),
        }
    }
    (walked.frames, cut_cause(&walked))
}

/// The addresses of a sample: its place, and its callers.
#[inline(always)]
fn addresses<S: Slot>(regs: Regs, out: &[S], frames: usize) -> impl Iterator<Item = u64> {
    let callers = out.iter().take(frames).map(|slot| slot.entry() & ADDRESS_BITS);
    core::iter::once(regs.pc).chain(callers)
}

/// What the recording says of the end of a walk. A walk that was not ready because no code is known yet has its own
/// cause; otherwise as many handlers were walking as there are buffers for.
#[inline(always)]
fn cut_cause(walked: &Walked) -> Option<CutCause> {
    if walked.end == WalkEnd::NotReady && walked.unknown {
        cold_path();
        return Some(CutCause::NotRead);
    }
    walked.end.cut_cause()
}

/// The stack of a thread that may run Python. How many words were stored, and why it is cut.
#[inline(never)]
fn with_python(
    walker: Walker<'_>,
    regs: Regs,
    found: &FoundInterpreter,
    out: &mut [u64],
) -> (usize, Option<CutCause>) {
    let Walker { session, ring, .. } = walker;
    let Some(mut scratch) = ring.stack.scratch(out.len() as u32, session.may_call()) else {
        return native(walker, regs, out);
    };
    let (callers, cut) = native(walker, regs, scratch.placed);
    let thread = Standing { stack_pointer: gregs(regs).get(reg::RSP), registers: registers(regs) };
    let most = budget(session, ring, out.len()).units / UNITS_OF_PYTHON;
    let here = (regs.pc, &thread);
    // SAFETY: the extent is the thread's own stack (see `StackFinder`), and this handler runs on that thread.
    let woven = unsafe {
        scratch.weave(
            (session, found),
            ring.stack.extent(),
            here,
            (callers, cut.is_none()),
            most as usize,
            out,
        )
    };
    match woven {
        Some(Woven { words, full: true, .. }) => (words, Some(CutCause::Depth)),
        Some(Woven { words, has_own_root, .. }) => (words, cut.filter(|_| !has_own_root)),
        None => {
            for (word, placed) in out.iter_mut().zip(scratch.placed.iter().take(callers)) {
                *word = placed.entry;
            }
            (callers, cut)
        }
    }
}

/// The stack that was `walked` of a thread whose process may have an interpreter by now. If it leads through code that
/// was made at run time, that is looked for.
#[cold]
#[inline(never)]
fn with_awaited(
    walker: Walker<'_>,
    regs: Regs,
    walked: (usize, Option<CutCause>),
    out: &mut [u64],
) -> (usize, Option<CutCause>) {
    let Walker { session, ring, .. } = walker;
    let is_made = REGISTRY.hold(session.rings.number(ring) as usize).is_some_and(|held| {
        let set = held.set();
        addresses(regs, out, walked.0).any(|address| {
            set.region(address).is_some_and(|region| !region.of_file && region.table.is_none())
        })
    });
    if !is_made || look_again(session).is_none() {
        return walked;
    }
    match (session.java.current(), session.javascript.current()) {
        (Some(found), _) => with_java(walker, regs, found, out),
        (None, Some(found)) => with_javascript(walker, regs, found, out),
        (None, None) => walked,
    }
}

/// The stack of a thread that may run Java. How many words were stored, and why it is cut.
#[inline(never)]
fn with_java(walker: Walker<'_>, regs: Regs, found: &FoundJvm, out: &mut [u64]) -> (usize, Option<CutCause>) {
    if let Some(walked) = walk_java(walker, regs, found, out) {
        return walked;
    }
    // It was met while it started.
    cold_path();
    let again = look_again(walker.session).and_then(|_| walker.session.java.current());
    again.and_then(|found| walk_java(walker, regs, found, out)).unwrap_or_else(|| native(walker, regs, out))
}

/// The same; `None`: the virtual machine is not as it was found.
fn walk_java(
    walker: Walker<'_>,
    regs: Regs,
    found: &FoundJvm,
    out: &mut [u64],
) -> Option<(usize, Option<CutCause>)> {
    let Walker { session, ring, may_copy } = walker;
    let Some(scratch) = ring.stack.scratch(out.len() as u32, session.may_call()) else {
        return Some(native(walker, regs, out));
    };
    let held = REGISTRY.hold(session.rings.number(ring) as usize);
    let Some(held) = held else { return Some(native(walker, regs, out)) };
    let gregs = gregs(regs);
    let registers = Registers {
        pc: regs.pc,
        sp: gregs.get(reg::RSP),
        bp: gregs.get(reg::RBP),
        rax: gregs.get(RAX),
        rbx: gregs.get(RBX),
        r13: gregs.get(R13),
        r15: gregs.get(R15),
        tid: ring.tid.load(Ordering::Relaxed),
    };
    let budget = budget(session, ring, out.len());
    let stack = ring.stack.extent();
    let probes = if session.may_call() { PROBES } else { 0 };
    // SAFETY: as in `once`.
    let mut memory = unsafe { Live::new(stack, probes) }.copying(may_copy).with_thread_base(thread_base);
    let java = JavaStack { session, found, stack, known: scratch.known, most: budget.units / UNITS_OF_JAVA };
    let mut natives = Modules { session, set: held.set(), memory: &mut memory, budget };
    let start = Start::Interrupted(gregs);
    // SAFETY: the extent is the thread's own stack (see `StackFinder`), and this handler runs on that thread.
    let walked = unsafe { java.walk(&registers, start, &mut natives, out) };
    drop(held);
    walked
}

/// The stack of a thread that may run JavaScript. How many words were stored, and why it is cut.
#[inline(never)]
fn with_javascript(
    walker: Walker<'_>,
    regs: Regs,
    found: &FoundV8,
    out: &mut [u64],
) -> (usize, Option<CutCause>) {
    let Walker { session, ring, .. } = walker;
    let Some(scratch) = ring.stack.scratch(out.len() as u32, session.may_call()) else {
        return native(walker, regs, out);
    };
    let (callers, cut) = native(walker, regs, scratch.placed);
    let Some(held) = REGISTRY.hold(session.rings.number(ring) as usize) else {
        return native(walker, regs, out);
    };
    let sp = gregs(regs).get(reg::RSP);
    let probes = if session.may_call() { PROBES_OF_JAVASCRIPT } else { 0 };
    // SAFETY: the extent is the thread's own stack (see `StackFinder`), and this handler runs on that thread.
    let memory = unsafe { Readable::new(ring.stack.extent(), sp, scratch.known, probes) };
    let most = budget(session, ring, out.len()).units / UNITS_OF_JAVASCRIPT;
    let (modules, layout) = (held.set(), &found.layout);
    let is_of_v8 = |address| javascript::is_of_v8(found, modules, address);
    let weaver = Weaver { memory: &memory, layout, is_of_v8, most };
    let mut codes = JavaScriptCodes::new(session, &memory, &found.layout);
    let callers = scratch.placed.get(..callers).unwrap_or(&[]);
    let (words, had_room) = weaver.weave((regs.pc, sp), callers, |function| codes.frame_word(function), out);
    (words, if had_room { cut } else { Some(CutCause::Depth) })
}

/// The modules as they are now, for native frames among Java frames.
struct Modules<'a, 's> {
    session: &'s Session,
    set: &'a Set<'a>,
    memory: &'a mut Live,
    budget: Budget,
}

impl NativeWalks for Modules<'_, '_> {
    fn walk_to(&mut self, start: Start<'_>, out: &mut [u64], foreign: (u64, u64)) -> (Walked, Option<Met>) {
        let with = (self.set, &self.session.rules);
        let (walked, met) = walk_to(with, start, self.memory, out, self.budget, foreign);
        if walked.unsure {
            walked_modules::expect_data();
        }
        (walked, met)
    }
}

/// The registers of the interrupted thread.
fn gregs(regs: Regs) -> &'static Gregs {
    // SAFETY: the kernel's context of the running handler, which outlives all uses within it; the 17 general
    // registers stand 40 bytes into it.
    unsafe { &*((regs.context + 40) as *const Gregs) }
}

/// What the interrupted thread's general registers hold, and the halves of its first sixteen vector registers.
fn registers(regs: Regs) -> impl Iterator<Item = u64> + Clone {
    const VECTORS: usize = 32;
    // SAFETY: the kernel's context: 17 general registers, as in `gregs`; behind them and five more words the
    // address of the floating-point state, which the kernel has put on the same stack.
    let (general, state) = unsafe {
        let words = (regs.context + 40) as *const u64;
        (&*words.cast::<[u64; 17]>(), words.add(23).read())
    };
    let vectors = if state == 0 {
        &[0; VECTORS]
    } else {
        // SAFETY: the state begins as FXSAVE stores it: the vector registers stand 160 bytes into it.
        unsafe { &*((state + 160) as *const [u64; VECTORS]) }
    };
    general.iter().chain(vectors).copied()
}

/// What a walk may cost.
fn budget(session: &Session, ring: &Ring, depth: usize) -> Budget {
    let period =
        ring.period_ns.load(Ordering::Relaxed).max(session.settings.period_ns.load(Ordering::Relaxed));
    let deeper = if depth > USUAL_DEPTH { depth as u32 } else { 0 };
    Budget { units: ((period / 20 / UNIT_NS) as u32).saturating_add(deeper) }
}

/// One walk with the modules as they are now.
fn once<S: Slot>(walker: Walker<'_>, regs: Regs, out: &mut [S]) -> Walked {
    let Walker { session, ring, may_copy } = walker;
    let gregs = gregs(regs);
    let budget = budget(session, ring, out.len());
    let probes = if session.may_call() { PROBES } else { 0 };
    // SAFETY: the extent holds the interrupted thread's own stack (see `StackFinder`), this handler runs on
    // that thread, and nobody unmaps what a thread's frames stand on while it runs.
    let mut memory =
        unsafe { Live::new(ring.stack.extent(), probes) }.copying(may_copy).with_thread_base(thread_base);
    match REGISTRY.hold(session.rings.number(ring) as usize) {
        Some(held) => walk(held.set(), &session.rules, gregs, &mut memory, out, budget),
        // Nothing was read yet: the first threads of a short program would have no stacks.
        None => Walked { frames: 0, end: WalkEnd::NotReady, unknown: REGISTRY.is_empty(), unsure: false },
    }
}

/// Looks at the regions at once, because code runs that was not there at the last look (a plugin just loaded, fresh
/// JIT code), or that may be another object's: whether something changed. `None`: nobody could look. Not more often
/// than every [`APART_NS`], and after each look that found nothing new twice as long: an address without code behind it
/// is met again and again.
#[cold]
#[inline(never)]
pub(crate) fn look_again(session: &Session) -> Option<bool> {
    if !session.may_call() || !session.on.load(Ordering::Relaxed) {
        return None;
    }
    let now = time::monotonic_ns();
    let vain = IN_VAIN.load(Ordering::Relaxed);
    let apart = if walked_modules::loader_changes() { LOADER_APART_NS } else { APART_NS } << vain;
    if now.wrapping_sub(LOOKED.load(Ordering::Relaxed)) < apart {
        return None;
    }
    // No handler of the host's may run here, because it may leave by a jump. (A sample of an allocation is
    // not taken in a handler, where all signals are blocked.)
    let _alone = session::alone();
    let mut house = session.house.try_lock()?;
    LOOKED.store(now, Ordering::Relaxed);
    let before = session.regions.epoch.load(Ordering::Relaxed);
    let awaits = walked_modules::awaits_interpreter();
    if awaits {
        walked_modules::note_look_for_interpreter();
    }
    let doubtful = walked_modules::may_be_gone() || awaits;
    on_own_stack(session, &mut house, bookkeeping::refresh_regions);
    let found = session.regions.epoch.load(Ordering::Relaxed) != before || walked_modules::has_found_data();
    // (What was only doubtful may be as it was.)
    let vain = if found || doubtful { 0 } else { (vain + 1).min(MOST_IN_VAIN) };
    IN_VAIN.store(vain, Ordering::Relaxed);
    Some(found)
}
