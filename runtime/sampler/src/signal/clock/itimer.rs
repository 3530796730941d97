//! setitimer, the founding notes' way: one timer for the process, tick-bound, unfair between threads.
//!
//! ITIMER_PROF and its kin survive exec while handlers do not: whoever leaves them armed kills the next
//! program. So they are stopped before every exec that passes through us, and this clock is never chosen by
//! itself.

use crate::signal::clock::tick::EACH_TICK_NS;
use crate::sys;
use pct_format::Clock;

/// Which timer, and the signal that the kernel fixes for it.
#[must_use]
pub const fn which(clock: Clock) -> Option<(i32, i32)> {
    match clock {
        Clock::ItimerReal => Some((0, 14)),
        Clock::ItimerVirtual => Some((1, 26)),
        Clock::Itimer => Some((2, 27)),
        _ => None,
    }
}

/// Starts it: ITIMER_PROF to expire at each tick of the kernel that meets a thread, the others once a period, first at
/// a random point of one.
///
/// # Errors
/// The kernel's.
pub fn arm(clock: Clock, period_ns: u64) -> sys::Result<()> {
    let Some((which, _)) = which(clock) else { return Err(sys::Errno::EINVAL) };
    if clock == Clock::Itimer {
        return sys::setitimer(which, EACH_TICK_NS / 1000, EACH_TICK_NS / 1000);
    }
    let period_us = (period_ns / 1000).max(1);
    sys::setitimer(which, 1 + sys::random(period_us), period_us)
}

/// Stops it.
pub fn disarm(clock: Clock) {
    if let Some((which, _)) = which(clock) {
        let _ = sys::setitimer(which, 0, 0);
    }
}
