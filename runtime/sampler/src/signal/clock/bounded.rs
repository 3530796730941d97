//! Clocks that end by themselves unless the handler sets them up again.
//!
//! If a program takes the clocks' signals by system calls of its own ([`system_calls`]), pct's handler does not run any
//! more. It could not end the clocks, and their signals would come to the program's handlers for as long as it runs. So
//! a perf event stops after some expiries (it is replaced long before, for another period), and a timer after one. Only
//! where all code was searched and none can make such a call the clocks go on by themselves. Where pct attached, nobody
//! searched.
//!
//! Signal safety: loads; system calls, none under a filter on them.

use core::sync::atomic::{AtomicBool, Ordering};

use crate::code::system_calls;
use crate::process::session::Session;
use crate::record::rings::Ring;
use crate::signal::clock::thread_timer::{ONCE_NS, TICK_NS};
use crate::signal::clock::{period, thread_timer};
use crate::sys;
use pct_format::Clock;

/// A perf event may expire so many times as often as it is to before it is replaced: signals that wait become one.
const SLACK: u32 = 4;

/// Handlers may not set clocks up any more.
static IS_ENDED: AtomicBool = AtomicBool::new(false);

/// Whether clocks are set up in this way.
#[inline]
pub(crate) fn are_clocks_bounded() -> bool {
    !system_calls::none_found() && !IS_ENDED.load(Ordering::Relaxed)
}

/// From now on no clock is bounded: a filter on system calls is about to be in force. Forked children inherit it.
pub(crate) fn end_bounds() {
    IS_ENDED.store(true, Ordering::Relaxed);
}

/// Expiries after which a thread's perf event is to stop.
pub(super) fn most_expiries(session: &Session) -> Option<u32> {
    let nominal = session.settings.period_ns.load(Ordering::Relaxed);
    are_clocks_bounded().then(|| period::held_for(nominal).saturating_mul(SLACK))
}

/// The interval of a thread's timer that is about to be set up, to expire in `first_ns` for the first time.
pub(super) fn interval_of(ring: &Ring, first_ns: u64, interval_ns: u64) -> u64 {
    if !are_clocks_bounded() {
        return interval_ns;
    }
    if ring.clock.load(Ordering::Relaxed) == Clock::Thread as u32 {
        let now = sys::clock_ns(sys::thread_cpu_clock(ring.tid.load(Ordering::Relaxed)));
        ring.first_at_ns.store(now + first_ns, Ordering::Relaxed);
    }
    ONCE_NS
}

/// The calling thread's timer has expired, and is started again. Gives the expiries that the signal stands for, as the
/// kernel counts those of a timer with an interval: instants of a regular grid that have passed.
#[cold]
pub(crate) fn start_timer_again(session: &Session, ring: &Ring, expiries: u64) -> u64 {
    if !session.may_call() || !session.on.load(Ordering::Relaxed) {
        return expiries;
    }
    if ring.clock.load(Ordering::Relaxed) != Clock::Thread as u32 {
        // It expires at one of the kernel's ticks. A little less than a tick from now is the next one, not the one
        // after.
        thread_timer::start_again(ring, TICK_NS / 4 * 3, ONCE_NS);
        return expiries;
    }
    let interval = session.settings.period_ns.load(Ordering::Relaxed).max(1);
    let now = sys::clock_ns(sys::CLOCK_THREAD_CPU);
    let (expiries, next) = on_grid(ring.first_at_ns.load(Ordering::Relaxed), now, interval);
    ring.first_at_ns.store(next, Ordering::Relaxed);
    thread_timer::start_again(ring, next - now, ONCE_NS);
    expiries
}

/// How many instants of a grid have passed, `due` being the first that counts, and when the next is.
fn on_grid(due: u64, now: u64, interval: u64) -> (u64, u64) {
    // Not known, or expired too soon by the clock as it is read here.
    let due = if due == 0 || due > now { now } else { due };
    let passed = (now - due).checked_div(interval).unwrap_or(0) + 1;
    (passed, due + passed * interval)
}

/// A thread's timer goes on without us.
pub(crate) fn let_timer_go_on(session: &Session, ring: &Ring) {
    let of_samples = ring.clock.load(Ordering::Relaxed) == Clock::Thread as u32;
    let interval = if of_samples { session.settings.period_ns.load(Ordering::Relaxed) } else { TICK_NS };
    if let Some(left) = thread_timer::left(ring) {
        // More than that is left of one that has expired.
        thread_timer::start_again(ring, left.min(interval), interval);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_keeps_its_grid() {
        assert_eq!(on_grid(1000, 1000, 100), (1, 1100));
        assert_eq!(on_grid(1000, 1099, 100), (1, 1100));
        assert_eq!(on_grid(1000, 1350, 100), (4, 1400));
        // All that has passed is counted once, whenever somebody looks.
        let (mut due, mut counted) = (7, 0);
        for now in (7..10_000).step_by(37) {
            if now >= due {
                let (passed, next) = on_grid(due, now, 100);
                counted += passed;
                due = next;
            }
        }
        assert_eq!(counted, (due - 7) / 100);
        assert_eq!(on_grid(0, 500, 100), (1, 600), "not known");
        assert_eq!(on_grid(510, 500, 100), (1, 600), "too soon");
    }
}
