//! The stack of a sample: from the interrupted registers to frame words, in the handler.
//!
//! [`pct_unwind`] walks; this module gives it what belongs to the process: the modules as the housekeeper saw them last,
//! the shared cache of rules, the extent of the thread's stack, a buffer, and a budget of a twentieth of the period.
//!
//! The modules are in static memory, not in the session's: a forked child goes on with its parent's copies. (Rules found it
//! finds again.)
//!
//! Signal safety: [`words`] makes system calls for pages of stacks beyond the first (are they there?), for the buffer once per
//! thread, and none under a filter on system calls.

use core::hint::cold_path;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::code::maps::Mapping;
use crate::code::python::{self, Found, Scratch};
use crate::code::regions::List;
use crate::process::session::{self, Session};
use crate::record::rings::Ring;
use crate::sys::arch::Regs;
use crate::{process::housekeeper, record::time, sys};
use pct_format::record::Frame;
use pct_format::{CutCause, StackMode};
use pct_languages::cpython::Standing;
use pct_languages::weave::Woven;
use pct_unwind::cfi::reg;
use pct_unwind::{Budget, End, Extent, Gregs, Live, Region, Registry, Slot, Walked, walk};

static REGISTRY: Registry = Registry::new();
/// When a sample last made us look at the regions, and whether that found nothing.
static LOOKED: AtomicU64 = AtomicU64::new(0);
static IN_VAIN: AtomicBool = AtomicBool::new(false);

/// Pages of a stack other than the thread's own that one walk may look at.
const PROBES: u32 = 256;
/// Nanoseconds that a unit of the walker's budget stands for.
const UNIT_NS: u64 = 8;
/// Units that a Python frame costs.
const UNITS_OF_PYTHON: u32 = 4;
/// Least time between two looks at the regions from samples: 1 % of it is what a look may cost.
const APART_NS: u64 = 10_000_000;
/// Depth up to which the period alone limits a walk. Who asks for more wants the entire recursion and pays for it.
const USUAL_DEPTH: usize = 512;

/// What a thread's ring keeps for stacks. All zeros: nothing known yet.
#[derive(Debug)]
#[repr(C)]
pub struct OfThread {
    /// Lowest address of the thread's stack, and the one behind its highest; 0 = not known.
    lo: AtomicU64,
    hi: AtomicU64,
    /// Buffer of frame words, 0 = none yet.
    buffer: AtomicU64,
    room: AtomicU64,
    /// [`Scratch`] for weaving, 0 = none yet, and the depth that it is made for.
    scratch: AtomicU64,
    scratch_depth: AtomicU64,
}

impl OfThread {
    fn extent(&self) -> Extent {
        Extent { lo: self.lo.load(Ordering::Relaxed), hi: self.hi.load(Ordering::Relaxed) }
    }

    /// Another thread has the ring now. The buffer stays.
    pub fn forget(&self) {
        self.hi.store(0, Ordering::Relaxed);
        self.lo.store(0, Ordering::Relaxed);
    }

    /// The buffer: room for `depth` frames and a cut mark. The caller holds the ring's busy flag.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the busy flag makes the handler the only user of the mapping")]
    fn buffer(&self, depth: u32, may_call: bool) -> Option<&mut [u64]> {
        let mut at = self.buffer.load(Ordering::Relaxed);
        if at == 0 || self.room.load(Ordering::Relaxed) <= u64::from(depth) {
            at = self.new_buffer(depth, may_call)?;
        }
        // SAFETY: a mapping of ours of `depth + 1` words that stays as long as anybody is in the session; the busy flag keeps
        // others away.
        Some(unsafe { core::slice::from_raw_parts_mut(at as *mut u64, depth as usize + 1) })
    }

    /// What weaving needs. The caller holds the ring's busy flag.
    fn scratch(&self, depth: u32, may_call: bool) -> Option<Scratch<'_>> {
        let mut at = self.scratch.load(Ordering::Relaxed);
        if at == 0 || self.scratch_depth.load(Ordering::Relaxed) < u64::from(depth) {
            if !may_call {
                return None;
            }
            at = sys::map_memory(Scratch::bytes(depth)).ok()? as u64;
            self.scratch.store(at, Ordering::Relaxed);
            self.scratch_depth.store(u64::from(depth), Ordering::Relaxed);
        }
        // SAFETY: a mapping of ours for at least this depth (a depth never falls within a session), which stays as long as anybody
        // is in the session; the busy flag keeps others away.
        Some(unsafe { Scratch::new(at as *mut u8, depth) })
    }

    /// Unmaps the buffers. Nobody is in the session any more.
    pub fn unmap(&self) {
        let at = self.scratch.swap(0, Ordering::Relaxed);
        if at != 0 {
            let depth = self.scratch_depth.load(Ordering::Relaxed) as u32;
            // SAFETY: made by `scratch` for this depth; nobody uses it any more.
            unsafe { sys::unmap(at as *mut u8, Scratch::bytes(depth)) };
        }
        let at = self.buffer.swap(0, Ordering::Relaxed);
        if at != 0 {
            // SAFETY: made by `new_buffer` with this length; nobody uses it any more.
            unsafe { sys::unmap(at as *mut u8, self.room.load(Ordering::Relaxed) as usize * 8) };
        }
    }

    #[cold]
    fn new_buffer(&self, depth: u32, may_call: bool) -> Option<u64> {
        if !may_call {
            return None;
        }
        let room = u64::from(depth) + 1;
        let at = sys::map_memory(room as usize * 8).ok()? as u64;
        self.buffer.store(at, Ordering::Relaxed);
        self.room.store(room, Ordering::Relaxed);
        Some(at)
    }
}

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
    words_from(session, ring, regs, None, spare)
}

/// The same for a call: `caller` is the first word, behind it the frames outside of the calling function, which `regs` stand for.
#[inline(never)]
pub fn words_of_call<'r>(
    session: &Session,
    ring: &'r Ring,
    regs: Regs,
    caller: u64,
    spare: &'r mut [u64; 1],
) -> &'r mut [u64] {
    words_from(session, ring, regs, Some(caller), spare)
}

#[inline(always)]
fn words_from<'r>(
    session: &Session,
    ring: &'r Ring,
    regs: Regs,
    caller: Option<u64>,
    spare: &'r mut [u64; 1],
) -> &'r mut [u64] {
    let depth = session.settings.depth.load(Ordering::Relaxed);
    let Some(buffer) = ring.stack.buffer(depth, session.may_call()) else {
        *spare = [caller.unwrap_or_else(|| Frame::Cut(CutCause::Other).encode())];
        return spare;
    };
    let mut first = 0;
    if let Some(caller) = caller
        && let Some(place) = buffer.first_mut()
    {
        *place = caller;
        first = 1;
    }
    let out = buffer.get_mut(first..depth as usize).unwrap_or(&mut []);
    let (frames, cut) = match session.python.current() {
        None => native(session, ring, regs, out),
        Some(found) => {
            cold_path();
            with_python(session, ring, regs, found, out)
        }
    };
    let mut len = first + frames;
    if let Some(cause) = cut
        && let Some(place) = buffer.get_mut(len)
    {
        *place = Frame::Cut(cause).encode();
        len += 1;
    }
    buffer.get_mut(..len).unwrap_or(&mut [])
}

/// A walk, and another one if it made us find new code: how many frames it stored, and why it is cut.
#[inline(always)]
fn native<S: Slot>(session: &Session, ring: &Ring, regs: Regs, out: &mut [S]) -> (usize, Option<CutCause>) {
    let mut walked = once(session, ring, regs, out);
    if walked.unknown && look_again(session) {
        walked = once(session, ring, regs, out);
    }
    (walked.frames, cut(walked.end))
}

/// The stack of a thread that may run Python. How many words were stored, and why it is cut.
#[inline(never)]
fn with_python(
    session: &Session,
    ring: &Ring,
    regs: Regs,
    found: &Found,
    out: &mut [u64],
) -> (usize, Option<CutCause>) {
    let Some(mut scratch) = ring.stack.scratch(out.len() as u32, session.may_call()) else {
        return native(session, ring, regs, out);
    };
    let (callers, cut) = native(session, ring, regs, scratch.placed);
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

/// The registers of the interrupted thread.
fn gregs(regs: Regs) -> &'static Gregs {
    // SAFETY: the kernel's context of the running handler, which outlives all uses within it; the 17 general registers stand 40
    // bytes into it.
    unsafe { &*((regs.context + 40) as *const Gregs) }
}

/// What the interrupted thread's general registers hold, and the halves of its first sixteen vector registers.
fn registers(regs: Regs) -> impl Iterator<Item = u64> + Clone {
    const VECTORS: usize = 32;
    // SAFETY: the kernel's context: 17 general registers, as in `gregs`; behind them and five more words the address of the
    // floating-point state, which the kernel has put on the same stack.
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
fn once<S: Slot>(session: &Session, ring: &Ring, regs: Regs, out: &mut [S]) -> Walked {
    let gregs = gregs(regs);
    let budget = budget(session, ring, out.len());
    let probes = if session.may_call() { PROBES } else { 0 };
    // SAFETY: the extent holds the interrupted thread's own stack (see `StackFinder`), this handler runs on that thread, and nobody
    // unmaps what a thread's frames stand on while it runs.
    let mut memory = unsafe { Live::new(ring.stack.extent(), probes) };
    match REGISTRY.hold(session.rings.number(ring) as usize) {
        Some(held) => walk(held.set(), &session.rules, gregs, &mut memory, out, budget),
        // Nothing was read yet: the first threads of a short program would have no stacks.
        None => Walked { frames: 0, end: End::NotReady, unknown: REGISTRY.is_empty() },
    }
}

/// Looks at the regions at once, because code runs that was not there at the last look: a plugin just loaded, fresh JIT code.
/// False: no. Not more often than every [`APART_NS`], and not again after a look that found nothing new until the
/// housekeeper's own has found something: an address without code behind it is met again and again.
#[cold]
#[inline(never)]
pub(crate) fn look_again(session: &Session) -> bool {
    if !session.may_call() || !session.on.load(Ordering::Relaxed) || IN_VAIN.load(Ordering::Relaxed) {
        return false;
    }
    let now = time::monotonic_ns();
    if now.wrapping_sub(LOOKED.load(Ordering::Relaxed)) < APART_NS {
        return false;
    }
    // A handler of the host's that jumps out of this (the sample may be one of an allocation, outside of ours) must not come.
    let _alone = session::alone();
    let Some(mut house) = session.house.try_lock() else { return false };
    LOOKED.store(now, Ordering::Relaxed);
    let before = session.regions.epoch.load(Ordering::Relaxed);
    housekeeper::on_own_stack(session, &mut house, housekeeper::refresh_regions);
    let found = session.regions.epoch.load(Ordering::Relaxed) != before;
    IN_VAIN.store(!found, Ordering::Relaxed);
    found
}

/// The file's word for the end of a walk.
fn cut(end: End) -> Option<CutCause> {
    Some(match end {
        End::Whole => return None,
        End::Depth => CutCause::Depth,
        End::Time => CutCause::Time,
        End::BadRead | End::NoStack => CutCause::BadRead,
        End::NoData => CutCause::NoUnwindData,
        End::BadData => CutCause::Unsupported,
        End::Loop => CutCause::Loop,
        End::NotReady => CutCause::Other,
    })
}

/// Makes the modules agree with the regions. By the housekeeper, after each look at the maps.
pub fn refresh(session: &Session, list: &mut List) {
    let mode = session.settings.stack.load(Ordering::Relaxed);
    if mode == StackMode::None as u32 {
        return;
    }
    // Without tables every frame goes by its frame pointer.
    let tables = mode != StackMode::Fp as u32;
    let refreshed = REGISTRY.refresh(list.entries().iter().map(|e| Region {
        start: e.start,
        end: e.end,
        base: if tables { e.base } else { 0 },
        identity: e.inode ^ e.device.rotate_left(32),
    }));
    if refreshed.changed {
        IN_VAIN.store(false, Ordering::Relaxed);
    }
    python::refresh(session, list);
}

/// Finds the stacks of threads that are new, among the mappings as they pass by. By the housekeeper.
///
/// The first thread's is the kernel's `[stack]`, which grows down to its neighbour. Every other C library's thread has its
/// control block at the upper end of its stack's mapping, so the mapping that holds the block is the stack, below the block.
/// Stacks that are none of these (raw clone, alternate stacks, coroutines) are looked at page by page when they are met.
pub struct StackFinder<'s> {
    session: &'s Session,
    wanted: bool,
    /// End of the mapping before.
    below: u64,
}

impl<'s> StackFinder<'s> {
    /// Before the first mapping.
    #[must_use]
    pub fn new(session: &'s Session) -> Self {
        let walks = session.settings.stack.load(Ordering::Relaxed) != StackMode::None as u32;
        StackFinder { session, wanted: walks && session.rings.living().any(unknown), below: 0 }
    }

    /// The next mapping, in order of addresses.
    pub fn see(&mut self, m: &Mapping<'_>) {
        let below = core::mem::replace(&mut self.below, m.end);
        if !self.wanted || !m.readable() || !m.writable() || m.path == b"[heap]" {
            return;
        }
        let main = m.path == b"[stack]";
        let pid = self.session.pid.load(Ordering::Relaxed);
        for ring in self.session.rings.living().filter(|ring| unknown(ring)) {
            let first = ring.tid.load(Ordering::Relaxed) == pid;
            let base = ring.base.load(Ordering::Relaxed);
            let (lo, hi) = match (first, main) {
                (true, true) => (below, m.end),
                (false, false) if m.inode == 0 && m.start < base && base < m.end => (m.start, base),
                _ => continue,
            };
            ring.stack.lo.store(lo, Ordering::Relaxed);
            // Release: whoever sees the end sees the start (an end without its start is a wrong extent).
            ring.stack.hi.store(hi, Ordering::Release);
        }
    }
}

/// Whether a thread's stack is not known yet.
fn unknown(ring: &Ring) -> bool {
    ring.stack.hi.load(Ordering::Relaxed) == 0
}

/// The loader is about to change the regions: the first sample in new code looks at them at once.
pub fn expect_change() {
    LOOKED.store(0, Ordering::Relaxed);
    IN_VAIN.store(false, Ordering::Relaxed);
}

/// For the child of a fork, before its first handler: threads that do not exist there use nothing.
pub fn in_child() {
    REGISTRY.after_fork();
}
