//! The housekeeper: four times a second of CPU time, in the handler of whichever thread is ticking, or sooner when a
//! wrapped call says that something changed.
//!
//! One round: free the slots of dead threads, arm new ones (also of raw clone), look at the regions, write thread names
//! and anchors, make sure of a segment ahead, see that the signals are still ours.
//!
//! Signal safety: system calls and the try-lock; under a filter on system calls there is no round.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::session::{House, Session};
use crate::time::Instant;
use crate::{arch, callers, handler, sys, threads, time};
use pct_format::head::kind;
use pct_format::layout::header as at;
use pct_format::record::Encoder;

/// Nanoseconds between rounds, of time in which some thread runs.
pub const ROUND_NS: u64 = 250_000_000;
/// Names are read anew every so many rounds.
const NAMES_EVERY: u64 = 4;

/// A round if one is due. Called from ticks: cheap when it is not.
#[inline]
pub fn maybe(session: &Session, now_ns: u64) {
    if now_ns >= session.due.load(Ordering::Relaxed) || session.stale.load(Ordering::Relaxed) {
        round(session, now_ns);
    }
}

#[cold]
#[inline(never)]
fn round(session: &Session, now_ns: u64) {
    if !session.may_call() || !session.on.load(Ordering::Relaxed) {
        return;
    }
    let Some(mut house) = session.house.try_lock() else { return };
    session.due.store(now_ns + ROUND_NS, Ordering::Relaxed);
    session.stale.store(false, Ordering::Relaxed);
    on_own_stack(session, &mut house, full);
}

/// Bytes of the housekeeper's own stack.
const STACK_BYTES: usize = 64 << 10;
/// Its lowest address, 0 = none yet. The lock on [`House`] keeps it to one user; a forked child finds it free.
static STACK: AtomicUsize = AtomicUsize::new(0);

/// Runs `work` on a stack of our own: the thread may be on a signal stack of 8 KiB, of which the kernel has taken half (every
/// Rust program's main thread is), and making the file or reading the maps wants more than the rest.
pub fn on_own_stack(session: &Session, house: &mut House, work: fn(&Session, &mut House)) {
    let mut low = STACK.load(Ordering::Acquire);
    if low == 0 {
        match sys::map_memory(STACK_BYTES) {
            Ok(at) => low = at as usize,
            // Without memory nothing will come of the work either.
            Err(_) => return,
        }
        STACK.store(low, Ordering::Release);
    }
    struct Job<'a>(&'a Session, &'a mut House, fn(&Session, &mut House));
    extern "C" fn run(job: usize) {
        // SAFETY: `job` is the address of the value below, which lives until `call_on` returns.
        let job = unsafe { &mut *(job as *mut Job<'_>) };
        (job.2)(job.0, job.1);
    }
    let mut job = Job(session, house, work);
    // SAFETY: the mapping is ours, and who has the house has the stack.
    unsafe { arch::call_on(low + STACK_BYTES, run, &raw mut job as usize) };
}

/// One round, with the lock held.
pub fn full(session: &Session, house: &mut House) {
    threads::retire_dead(session, house);
    threads::discover(session, house);
    if !handler::still_ours(session) {
        return;
    }
    if !session.log.is_open() {
        return;
    }
    house.rounds += 1;
    refresh_regions(session, house);
    names(session, house);
    note_times(session, house);
    session.log.grow_ahead(2);
    session.log.header_add(at::HOUSEKEEPER_RUNS, 1);
}

/// Looks at the regions.
pub fn refresh_regions(session: &Session, house: &mut House) {
    let counts = session.counts().then_some(crate::session::seed().options.shift);
    session.regions.refresh(&mut house.list, &session.log, &session.keep, counts);
    callers::refresh(session, house.list.entries());
    callers::find_stacks(session, house);
}

/// Records threads that are new, and names that changed.
pub fn names(session: &Session, house: &mut House) {
    let all = house.rounds % NAMES_EVERY == 1;
    for ring in session.rings.living() {
        let announced = ring.announced.load(Ordering::Relaxed) != 0;
        let nameless = ring.name[0].load(Ordering::Relaxed) == 0;
        if !announced || all && ring.has_segment() {
            let old = [ring.name[0].load(Ordering::Relaxed), ring.name[1].load(Ordering::Relaxed)];
            let tid = ring.tid.load(Ordering::Relaxed);
            let new = threads::name_of(tid).unwrap_or(old);
            if new != old {
                ring.set_name(&session.log, new);
            }
            if !announced {
                ring.announced.store(1, Ordering::Relaxed);
                threads::announce(session, &session.log, ring, &mut house.record, kind::THREAD_BEGIN);
            } else if new != old || nameless {
                threads::announce(session, &session.log, ring, &mut house.record, kind::THREAD_NAME);
            }
        }
    }
    session.log.header_set(at::THREADS, u64::from(session.rings.count()));
}

/// Writes an anchor and the CPU times, into the header and the process's ring.
pub fn note_times(session: &Session, house: &mut House) {
    let anchor = Instant::now().anchor();
    let cpu = sys::rusage_ns(sys::RUSAGE_SELF);
    session.log.latest_anchor(anchor, cpu);
    let tid = sys::gettid();
    let thread_cpu = sys::clock_ns(sys::CLOCK_THREAD_CPU);
    let record = Encoder::new(&mut house.record)
        .word(anchor.raw)
        .number(anchor.monotonic_ns)
        .number(anchor.realtime_ns)
        .number(u64::from(tid))
        .number(thread_cpu)
        .number(cpu.0)
        .number(cpu.1)
        .finish(kind::ANCHOR, 0);
    if let Some(record) = record {
        house.process.append(&session.log, session.may_call(), record, &[]);
    }
    for ring in session.rings.living() {
        let cpu = sys::clock_ns(sys::thread_cpu_clock(ring.tid.load(Ordering::Relaxed)));
        if cpu != 0 {
            ring.visited_cpu_ns.store(cpu, Ordering::Relaxed);
        }
    }
}

/// Monotonic time for [`maybe`], cheap.
#[inline]
#[must_use]
pub fn clock() -> u64 {
    time::monotonic_ns()
}
