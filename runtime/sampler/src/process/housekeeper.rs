//! The housekeeper: four times a second of CPU time, in the handler of whichever thread is ticking, or sooner when a
//! wrapped call says that something changed.
//!
//! One round: free the slots of dead threads, arm new ones (also of raw clone), look at the regions, write thread names
//! and anchors, make sure of a segment ahead, see that the signals are still ours.
//!
//! Signal safety: system calls and the try-lock; under a filter on system calls there is no round.

use core::sync::atomic::Ordering;

use crate::process::session::{House, Session};
use crate::record::rings::Ring;
use crate::record::time::Instant;
use crate::sys::lock::Lock;
use crate::{
    code::callers, heap::level, process::births, process::rotation, process::threads, record::time,
    signal::numbers, sys, sys::arch,
};
use pct_format::LossCause;
use pct_format::head::kind;
use pct_format::layout::header as at;
use pct_format::record::Encoder;

/// Nanoseconds between rounds, of time in which some thread runs.
pub const ROUND_NS: u64 = 250_000_000;
/// Nanoseconds until the next round when something changed.
const SOON_NS: u64 = 10_000_000;
/// A round's CPU time may be one part in so many of the time until the next: in a process of ten thousand mappings they are rarer.
const SHARE: u64 = 200;
/// The same for the first rounds after a start that sees no births.
const EARLY_SHARE: u64 = 10;
/// Names are read anew every so many rounds.
const NAMES_EVERY: u64 = 4;

/// A round if one is due. Called from ticks: cheap when it is not.
#[inline]
pub fn maybe(session: &Session, now_ns: u64) {
    let due = session.due.load(Ordering::Relaxed);
    // What changed is looked at soon, but a program that makes threads without end must not feel it.
    let soon = due.saturating_sub(ROUND_NS - SOON_NS);
    if now_ns >= due || now_ns >= soon && session.stale.load(Ordering::Relaxed) {
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
    if !session.on.load(Ordering::Relaxed) {
        return;
    }
    session.due.store(now_ns + ROUND_NS, Ordering::Relaxed);
    session.stale.store(false, Ordering::Relaxed);
    let took = cpu_ns_of(|| on_own_stack(session, &mut house, full));
    if rotation::is_due(session, now_ns) {
        on_own_stack(session, &mut house, rotation::rotate);
        if !crate::process::session::current().is_some_and(|now| core::ptr::eq(now, session)) {
            // The clocks are another session's now.
            return;
        }
    }
    let done = clock();
    let wait = match until_next(done) {
        ROUND_NS => ROUND_NS.max(took.saturating_mul(SHARE)),
        early => early.max(took.saturating_mul(EARLY_SHARE)),
    };
    let due = match session.rotate_at.load(Ordering::Relaxed) {
        0 => done + wait,
        at => (done + wait).min(at.max(done)),
    };
    session.due.store(due, Ordering::Relaxed);
    watch(session);
    // Switched off meanwhile, by one who may have given up waiting for us: no clock of ours may stay.
    if !session.on.load(Ordering::Relaxed) {
        stop_watching(session);
        threads::disarm_all(session);
    }
}

/// CPU ns that `work` takes on this thread. Not the time that passes: on a loaded machine a round of 0.3 ms may wait 20 ms
/// for a processor, and 200 times as long nobody would look for new threads.
fn cpu_ns_of(work: impl FnOnce()) -> u64 {
    let before = sys::clock_ns(sys::CLOCK_THREAD_CPU);
    work();
    sys::clock_ns(sys::CLOCK_THREAD_CPU).saturating_sub(before)
}

/// Nanoseconds from a round to the next: as long as it was since the start, up to the usual.
fn until_next(now_ns: u64) -> u64 {
    births::pass_by_for(now_ns).map_or(ROUND_NS, |since| since.clamp(SOON_NS, ROUND_NS))
}

/// Puts off the process's own timer: it expires only when CPU time is used and no thread that we know ticks, as when a raw
/// clone works while all others sleep. (It must not come otherwise: older kernels give it to the main thread, whose sleep it
/// would cut short.)
pub(crate) fn watch(session: &Session) {
    let mut timer = session.watch.load(Ordering::Relaxed);
    if timer == 0 {
        let signal = session.settings.tick_signal.load(Ordering::Relaxed);
        let Ok(made) = sys::timer_create(sys::CLOCK_PROCESS_CPU, signal, WATCH, None) else { return };
        timer = made.0 + 1;
        session.watch.store(timer, Ordering::Relaxed);
    }
    // As many threads as tick use so much more CPU time from a round to the next.
    let threads =
        if sys::kernel_version() < TIMERS_MEET_WHO_RUNS { session.rings.living().count() } else { 1 };
    let after = 2 * ROUND_NS * (threads as u64).clamp(1, 64);
    let _ = sys::timer_set(sys::TimerId(timer - 1), after, after);
}

/// The first kernel that gives the signal of a process's CPU timer to the thread that runs.
const TIMERS_MEET_WHO_RUNS: (u64, u64) = (6, 4);

/// What the process's timer carries: no ring has this value.
pub const WATCH: u64 = u64::MAX;

/// The process's timer expired: look for threads.
pub fn on_watch(session: &Session) {
    round(session, clock());
}

/// Deletes the process's timer: sampling is switched off.
pub fn stop_watching(session: &Session) {
    let timer = session.watch.swap(0, Ordering::Relaxed);
    if timer > 0 {
        sys::timer_delete(sys::TimerId(timer - 1));
    }
}

/// Bytes of the housekeeper's own stack.
const STACK_BYTES: usize = 64 << 10;
/// Its lowest address, 0 = none yet. (A lock on [`House`] would not do: two sessions have one each.)
static STACK: Lock<usize> = Lock::new(0);

/// A thread that was on the stack does not exist in the child of a fork.
pub(crate) fn stack_in_child() {
    STACK.free_in_child();
}

/// Runs `work` on a stack of our own: the thread may be on a signal stack of 8 KiB, of which the kernel has taken half (every
/// Rust program's main thread is), and making the file or reading the maps wants more than the rest. If another thread is on it, the
/// work is left out: all of it is tried again later.
pub fn on_own_stack(session: &Session, house: &mut House, work: fn(&Session, &mut House)) {
    let Some(mut low) = STACK.try_lock() else { return };
    if *low == 0 {
        match sys::map_memory(STACK_BYTES) {
            Ok(at) => *low = at as usize,
            // Without memory nothing will come of the work either.
            Err(_) => return,
        }
    }
    struct Job<'a>(&'a Session, &'a mut House, fn(&Session, &mut House));
    extern "C" fn run(job: usize) {
        // SAFETY: `job` is the address of the value below, which lives until `call_on` returns.
        let job = unsafe { &mut *(job as *mut Job<'_>) };
        (job.2)(job.0, job.1);
    }
    let mut job = Job(session, house, work);
    // SAFETY: the mapping is ours, and the lock keeps it to one thread.
    unsafe { arch::call_on(*low + STACK_BYTES, run, &raw mut job as usize) };
}

/// One round, with the lock held.
pub fn full(session: &Session, house: &mut House) {
    threads::retire_dead(session, house);
    threads::discover(session, house);
    if !numbers::still_ours(session) {
        return;
    }
    numbers::give_way_to_tracer(session);
    threads::follow_waits(session);
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

/// Least time between two looks for a debugger beside those of the rounds.
const TRACER_LOOKS_APART_NS: u64 = 100_000_000;

/// The samples of a thread do not come although it uses time: perhaps a debugger keeps the signals. (gdb stops at
/// each SIGTRAP, and does not hand it on.)
pub(crate) fn look_for_tracer(session: &Session) {
    let now = clock();
    let last = session.looked_for_tracer.load(Ordering::Relaxed);
    if now.wrapping_sub(last) < TRACER_LOOKS_APART_NS || session.settings.traced.load(Ordering::Relaxed) {
        return;
    }
    session.looked_for_tracer.store(now, Ordering::Relaxed);
    if let Some(mut house) = session.house.try_lock() {
        on_own_stack(session, &mut house, |session, _| numbers::give_way_to_tracer(session));
    }
}

/// Looks at the regions.
pub fn refresh_regions(session: &Session, house: &mut House) {
    session.changing.store(false, Ordering::Relaxed);
    let mut stacks = callers::StackFinder::new(session);
    let list = &mut house.list;
    session.regions.refresh(list, &session.log, &session.keep, session.counts(), |m| stacks.see(m));
    callers::refresh(session, &mut house.list);
}

/// Counters for the region of the PC that is wanted.
pub fn provide_counters(session: &Session, house: &mut House) {
    let shift = crate::process::session::seed().options.shift;
    session.regions.provide(&mut house.list, &session.log, house.wanted_pc, shift);
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
    session.log.latest_anchor(anchor, session.spent.while_on(cpu));
    let (before, off) = session.spent.while_off();
    session.log.header_set(at::BEFORE_NS, before);
    session.log.header_set(at::OFF_NS, off);
    let tid = sys::gettid();
    let thread_cpu = sys::clock_ns(sys::CLOCK_THREAD_CPU);
    let record = Encoder::new(&mut house.record)
        .raw_word(anchor.raw)
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
    level::note(session, house);
    for ring in session.rings.living() {
        visit(session, ring);
    }
}

/// CPU time in which a thread must have ticked, if it could.
const SILENT_NS: u64 = 50_000_000;

/// Notes a thread's CPU time. One that used much of it without a sample or a tick blocks our signals: that time is lost under
/// that name, and not taken for system time when the signals come through again.
fn visit(session: &Session, ring: &Ring) {
    let tid = ring.tid.load(Ordering::Relaxed);
    let cpu = sys::clock_ns(sys::thread_cpu_clock(tid));
    if cpu == 0 {
        return;
    }
    let accounted = ring.accounted_ns.load(Ordering::Relaxed);
    let used = cpu.saturating_sub(ring.visited_cpu_ns.load(Ordering::Relaxed));
    let ticked = ring.seen.swap(0, Ordering::Relaxed) != 0;
    let silent = accounted == ring.visited_accounted_ns.load(Ordering::Relaxed) && !ticked;
    if silent && used < SILENT_NS {
        // Too little to judge by: left to the next visit.
        return;
    }
    ring.visited_cpu_ns.store(cpu, Ordering::Relaxed);
    ring.visited_accounted_ns.store(accounted, Ordering::Relaxed);
    if silent && threads::blocks(tid, session.signals()) {
        let weight = used.checked_div(session.settings.period_ns.load(Ordering::Relaxed)).unwrap_or(0);
        session.log.lose(LossCause::Blocked, weight, weight);
        ring.accounted_ns.store(accounted + used, Ordering::Relaxed);
        session.inherited.account(used);
        ring.visited_accounted_ns.store(accounted + used, Ordering::Relaxed);
        threads::slow_down(session, ring);
    }
}

/// Monotonic time for [`maybe`], cheap.
#[inline]
#[must_use]
pub fn clock() -> u64 {
    time::monotonic_ns()
}

#[cfg(test)]
mod live {
    use super::*;

    #[test]
    fn a_round_that_waits_for_a_processor_is_not_a_long_one() {
        let (cpu, began) = (sys::clock_ns(sys::CLOCK_THREAD_CPU), clock());
        let took = cpu_ns_of(|| std::thread::sleep(std::time::Duration::from_millis(50)));
        assert!(took <= sys::clock_ns(sys::CLOCK_THREAD_CPU) - cpu, "no more than the thread used");
        assert!(took < (clock() - began) / 2, "waiting does not count");
        let end = sys::clock_ns(sys::CLOCK_THREAD_CPU) + 5_000_000;
        let took = cpu_ns_of(|| while sys::clock_ns(sys::CLOCK_THREAD_CPU) < end {});
        assert!(took > 0, "working does");
    }
}
