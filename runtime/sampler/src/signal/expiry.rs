//! An expiry of a thread's perf event: whether it counts, what it stands for, and the event's next period.
//!
//! Signal safety: system calls, none under a filter on them.

use core::sync::atomic::{Ordering, fence};

use crate::process::session::Session;
use crate::record::rings::{NotEntered, Ring};
use crate::signal::clock::by_timer::go_by_timer;
use crate::signal::clock::{self, bounded, perf, period, thread_timer};
use crate::signal::masks;
use crate::sys;
use crate::sys::arch::Regs;
use pct_format::Clock;

/// See [`goes_on_by_first`].
const MOST_PASSED_OVER: u32 = 3;

/// Whether this is a later expiry by the short period that was meant for the first sample alone. If the event
/// expires again while its signal is pending, the kernel drops that expiry and keeps the short period. Such a
/// later expiry is not counted: short programs begin in the kernel, and had a fifth too many samples when it
/// was. The next sample is due a whole period after the first.
///
/// This is judged by time alone. Where a signal takes longer than three quarters of that period (under a
/// tracer, say) each expiry looks like a later one, so at most [`MOST_PASSED_OVER`] are passed over.
#[cold]
#[inline(never)]
pub(super) fn goes_on_by_first(session: &Session, ring: &Ring) -> bool {
    let due = ring.first_at_ns.load(Ordering::Relaxed);
    let first = ring.first_ns.load(Ordering::Relaxed);
    let passed_over = ring.passed_over.load(Ordering::Relaxed);
    if due == 0
        || passed_over >= MOST_PASSED_OVER
        || !session.may_call()
        || !session.on.load(Ordering::Relaxed)
    {
        return false;
    }
    let now = sys::clock_ns(sys::CLOCK_THREAD_CPU);
    // The second one is due at `due + first`, or a little sooner: the event runs from a moment before `due`
    // was computed.
    if now < due + first / 4 * 3 {
        return false;
    }
    ring.passed_over.store(passed_over + 1, Ordering::Relaxed);
    let settings = &session.settings;
    let period = settings.period_ns.load(Ordering::Relaxed).max(1);
    let next = due + ((now - due) / period + 1) * period;
    let mut left = next - now;
    if left < clock::shortest_first(period) {
        left += period;
    }
    ring.first_at_ns.store(now + left, Ordering::Relaxed);
    ring.first_ns.store(left, Ordering::Relaxed);
    // Refused: the next expiry is looked at in the same way.
    arm_again(session, ring, || {
        let _ = clock::arm_perf(session, ring, left);
    });
    true
}

/// Runs `arm`, which sets up the thread's clock anew, unless sampling of the thread in this session ends. A clock that
/// is armed after [`crate::process::threads::disarm_all`] would go on beside the next session's, and each of the two
/// would count the thread's time.
pub(super) fn arm_again(session: &Session, ring: &Ring, arm: impl FnOnce()) {
    let entered = ring.enter();
    if entered == Err(NotEntered::Ended) {
        return;
    }
    // Busy: the code that this handler interrupted has entered it.
    arm();
    fence(Ordering::SeqCst);
    if !session.on.load(Ordering::Relaxed) || !ring.slot.is_live() {
        // Who ended it has found the clock that was there before.
        perf::disarm(ring);
        thread_timer::disarm(ring);
    }
    if entered.is_ok() {
        ring.exit();
    }
}

/// At a tick of a thread whose samples do not come, although it uses time: so many signals of its event have waited at
/// once that the event has stopped. It gets another one. `missing_ns`: what no sample stands for.
pub(crate) fn revive_event(session: &Session, ring: &Ring, missing_ns: u64) {
    /// Sooner than that it is replaced by samples.
    const PERIODS: u64 = 16;
    let period = session.settings.period_ns.load(Ordering::Relaxed);
    if missing_ns < PERIODS * period
        || !bounded::are_clocks_bounded()
        || ring.clock.load(Ordering::Relaxed) != Clock::Perf as u32
    {
        return;
    }
    arm_again(session, ring, || {
        if clock::arm_perf(session, ring, clock::first_of_thread(period)).is_ok() {
            ring.rearm.store(clock::PERIOD_WRONG, Ordering::Relaxed);
            ring.first_at_ns.store(0, Ordering::Relaxed);
            ring.period_ns.store(period, Ordering::Relaxed);
        }
    });
}

/// Replaces the perf event by one of another period: at an expiry, so that no part of a period is lost, and
/// before the sample is taken. A process's first one takes longer than many a first period: that event would
/// expire again meanwhile, and its signal, held back until we return, would be one sample too many. Gives the
/// weight of the sample that is due.
#[cold]
#[inline(never)]
pub(super) fn set_period(session: &Session, ring: &Ring, regs: Regs) -> u64 {
    let wrong_period = ring.rearm.load(Ordering::Relaxed) == clock::PERIOD_WRONG;
    let nominal = session.settings.period_ns.load(Ordering::Relaxed);
    let weight = if wrong_period { 1 } else { period::weight(ring, ring.share.load(Ordering::Relaxed)) };
    if wrong_period && session.by_controller() && bounded::are_clocks_bounded() {
        // A controller that gave the thread back to a call may have dropped its timer's signal, the only one.
        bounded::start_timer_again(session, ring);
    }
    ring.rearm.store(period::held_for(nominal), Ordering::Relaxed);
    ring.first_at_ns.store(0, Ordering::Relaxed);
    if ring.dice.load(Ordering::Relaxed) == 0 {
        ring.dice.store(sys::random(u64::MAX) | 1, Ordering::Relaxed);
    }
    if wrong_period {
        ring.share.store(period::ONE, Ordering::Relaxed);
    }
    masks::follow(session, ring, regs);
    if !session.may_call() || !session.on.load(Ordering::Relaxed) {
        return weight;
    }
    let drawn = period::draw(nominal);
    arm_again(session, ring, || match clock::arm_perf(session, ring, drawn) {
        Ok(()) => ring.share.store(period::share(drawn, nominal), Ordering::Relaxed),
        // Refused (no descriptor free, say): the old event goes on. But one that was only to expire once, at
        // a random point of the period, must not go on so: each expiry would count as an entire period.
        Err(_) if wrong_period => go_by_timer(session, ring),
        Err(_) => {}
    });
    weight
}
