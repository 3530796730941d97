//! The housekeeper: four times a second of CPU time, in the handler of whichever thread is ticking, or sooner when a
//! wrapped call says that something changed.
//!
//! One round: free the slots of dead threads, arm new ones (also of raw clone), look at the regions, write thread names
//! and anchors, make sure of a segment ahead, see that the signals are still ours.
//!
//! Signal safety: system calls and the try-lock; under a filter on system calls there is no round.

use core::sync::atomic::Ordering;

use crate::process::bookkeeping::{name_threads, note_times, refresh_regions};
use crate::process::own_stack::on_own_stack;
use crate::process::session::{House, Session};
use crate::process::watch::{ROUND_NS, stop_watching, watch};
use crate::process::{passing, rotation, threads};
use crate::record::time;
use crate::signal::clock::bounded;
use crate::signal::moves;
use crate::sys;
use pct_format::layout::header as at;

/// Nanoseconds until the next round when something changed.
const SOON_NS: u64 = 10_000_000;
/// A round's CPU time may be one part in so many of the time until the next: in a process of ten thousand
/// mappings they are rarer.
const SHARE: u64 = 200;
/// The same for the first rounds after a start that sees no births.
const EARLY_SHARE: u64 = 10;

/// A round if one is due; whether there was reason for one. Called from ticks: cheap when there is not.
#[inline]
pub fn maybe(session: &Session, now_ns: u64) -> bool {
    let due = session.due.load(Ordering::Relaxed);
    // What changed is looked at soon, but a program that makes threads without end must not feel it.
    let soon = due.saturating_sub(ROUND_NS - SOON_NS);
    let is_due = now_ns >= due || now_ns >= soon && session.stale.load(Ordering::Relaxed);
    if is_due {
        round(session, now_ns);
    }
    is_due
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
    let is_current = || crate::process::session::current().is_some_and(|now| core::ptr::eq(now, session));
    if rotation::is_mapped_over(session) {
        on_own_stack(session, &mut house, rotation::leave_mapping);
        if !is_current() {
            return;
        }
    }
    let took = cpu_ns_of(|| on_own_stack(session, &mut house, full));
    if rotation::is_due(session, now_ns) {
        on_own_stack(session, &mut house, rotation::rotate);
        if !is_current() {
            // The clocks are another session's now.
            return;
        }
    }
    let done = time::monotonic_ns();
    let wait = match until_next(done) {
        ROUND_NS => ROUND_NS.max(took.saturating_mul(SHARE)),
        early => early.max(took.saturating_mul(EARLY_SHARE)),
    };
    let due = match session.rotate_at.load(Ordering::Relaxed) {
        0 => done + wait,
        at => (done + wait).min(at.max(done)),
    };
    session.due.store(due, Ordering::Relaxed);
    watch(session, wait);
    // Sampling was switched off meanwhile, perhaps by a thread that no longer waits for this one: no clock
    // may stay armed.
    if !session.on.load(Ordering::Relaxed) {
        stop_watching(session);
        threads::disarm_all(session);
    }
}

/// CPU ns that `work` takes on this thread. Not the time that passes: on a loaded machine a round of 0.3 ms
/// may wait 20 ms for a processor, and 200 times as long nobody would look for new threads.
fn cpu_ns_of(work: impl FnOnce()) -> u64 {
    let before = sys::clock_ns(sys::CLOCK_THREAD_CPU);
    work();
    sys::clock_ns(sys::CLOCK_THREAD_CPU).saturating_sub(before)
}

/// Nanoseconds from a round to the next: as long as it was since the start, up to the usual.
fn until_next(now_ns: u64) -> u64 {
    passing::pass_by_for(now_ns).map_or(ROUND_NS, |since| since.clamp(SOON_NS, ROUND_NS))
}

/// The process's timer expired: look for threads.
pub fn on_watch(session: &Session) {
    if bounded::are_clocks_bounded() && session.on.load(Ordering::Relaxed) && session.may_call() {
        // There may be no round, if one is under way.
        watch(session, ROUND_NS);
    }
    round(session, time::monotonic_ns());
}

/// One round, with the lock held.
pub fn full(session: &Session, house: &mut House) {
    threads::retire_dead(session, house);
    threads::discover(session, house);
    if !moves::still_ours(session) {
        return;
    }
    moves::give_way_to_tracer(session);
    moves::follow_waits(session);
    if !session.log.is_open() {
        return;
    }
    house.rounds += 1;
    refresh_regions(session, house);
    moves::give_way_to_own_calls(session);
    name_threads(session, house);
    note_times(session, house);
    session.log.grow_ahead(2);
    session.log.header_add(at::HOUSEKEEPER_RUNS, 1);
}

#[cfg(test)]
mod live {
    use super::*;

    #[test]
    fn a_round_that_waits_for_a_processor_is_not_a_long_one() {
        let (cpu, began) = (sys::clock_ns(sys::CLOCK_THREAD_CPU), time::monotonic_ns());
        let took = cpu_ns_of(|| std::thread::sleep(std::time::Duration::from_millis(50)));
        assert!(took <= sys::clock_ns(sys::CLOCK_THREAD_CPU) - cpu, "no more than the thread used");
        assert!(took < (time::monotonic_ns() - began) / 2, "waiting does not count");
        let end = sys::clock_ns(sys::CLOCK_THREAD_CPU) + 5_000_000;
        let took = cpu_ns_of(|| while sys::clock_ns(sys::CLOCK_THREAD_CPU) < end {});
        assert!(took > 0, "working does");
    }
}
