//! What a thread's CPU time shows beyond the samples of a clock that sees user mode only: time in the kernel.
//!
//! Signal safety: system calls, none under a filter on them.

use core::sync::atomic::Ordering;

use crate::process::session::Session;
use crate::process::threads;
use crate::record::rings::Ring;
use crate::signal::clock::by_timer::go_by_timer;
use crate::signal::clock::tick::{self, EACH_TICK_NS, Tick};
use crate::signal::clock::{itimer, perf};
use crate::signal::expiry::{arm_again, revive_event};
use crate::signal::moves;
use crate::sys::arch::{self, Regs};
use pct_format::Clock;

/// System time of which no tick tells where it was used: so much waits for such a tick. More is written down without a
/// caller.
const PUT_OFF_TICKS: u64 = 32;
/// The same in periods.
const PUT_OFF_PERIODS: u64 = 4;

/// A clock that counts time in the kernel may be so many periods behind the thread's own: expiries wait for
/// the return to user mode.
const KERNEL_SLACK_PERIODS: u64 = 3;

/// A sample that is due at a tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    /// In periods.
    pub(crate) weight: u64,
    /// Whether the time was spent in the kernel.
    pub(crate) system: bool,
    /// Where it was spent.
    pub(crate) place: MetAt,
}

/// Where the time was spent that a tick stands for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MetAt {
    /// Where the tick met the thread.
    Here,
    /// In the sampler's own work.
    Sampler,
    /// Nobody knows.
    Unknown,
}

impl Due {
    fn here(weight: u64, system: bool) -> Option<Due> {
        (weight > 0).then_some(Due { weight, system, place: MetAt::Here })
    }

    fn met(tick: Tick, weight: u64, after_call: bool) -> Option<Due> {
        if tick.met_sampler {
            return (weight > 0).then_some(Due { weight, system: true, place: MetAt::Sampler });
        }
        Due::here(weight, tick.is_in_kernel(after_call))
    }
}

/// A tick of the thread's CPU timer: what it shows to be due.
pub(crate) fn at_tick(session: &Session, ring: &Ring, regs: Regs, expiries: u64) -> Option<Due> {
    let period = session.settings.period_ns.load(Ordering::Relaxed);
    if ring.clock.load(Ordering::Relaxed) == Clock::Thread as u32 {
        if !session.may_call() {
            // Under a filter on system calls the time cannot be read, but the timer has expired as often as it passed
            // its interval.
            let used_ns = expiries.saturating_mul(EACH_TICK_NS);
            let missing = ring.left_ns.load(Ordering::Relaxed).saturating_add_unsigned(used_ns);
            let weight = tick::book(ring, period, missing, tick::in_one_call(used_ns));
            return Due::here(weight, arch::after_system_call(regs, false));
        }
        let tick = Tick::since_last(ring);
        let weight = tick::book(ring, period, tick::missing_ns(ring), tick.count);
        return Due::met(tick, weight, arch::after_system_call(regs, true));
    }
    if !session.may_call() {
        return None;
    }
    let finds_itself = || samples_itself(session, ring);
    if ring.clock.load(Ordering::Relaxed) == Clock::Sigtrap as u32
        && session.inherited.is_on()
        && !finds_itself()
    {
        // An event of its own names its ring.
        if let Some(_house) = session.house.try_lock() {
            threads::event_for_each(session);
        }
    } else if ring.clock.load(Ordering::Relaxed) == Clock::Perf as u32 && !finds_itself() {
        arm_again(session, ring, || go_by_timer(session, ring));
    } else if itimer::which(session.clock()).is_none() {
        return system_time(session, ring, regs, period);
    }
    None
}

/// Whether the perf signals of this thread find its ring. Not those of a raw clone that shares its maker's
/// control block: they go to the maker's ring.
fn samples_itself(session: &Session, ring: &Ring) -> bool {
    session.rings.own(true).is_none_or(|own| core::ptr::eq(own, ring))
}

/// An expiry of the process's CPU timer, which comes to the thread that runs: what it shows to be due.
pub(super) fn at_process_tick(session: &Session, ring: &Ring, regs: Regs) -> Option<Due> {
    let period = session.settings.period_ns.load(Ordering::Relaxed);
    let after_call = arch::after_system_call(regs, session.may_call());
    if !session.may_call() {
        let missing = ring.left_ns.load(Ordering::Relaxed).saturating_add_unsigned(tick::length_ns().get());
        return Due::here(tick::book(ring, period, missing, 1), after_call);
    }
    let tick = Tick::since_last(ring);
    let weight = tick::book(ring, period, tick::missing_ns(ring), tick.count);
    Due::met(tick, weight, after_call)
}

/// What the thread's clock shows beyond the samples of user mode was time in the kernel.
///
/// With events that all threads inherit the samples of one thread may be fewer or more than its time by
/// chance. What it misses is system time only as far as the process misses it too.
fn system_time(session: &Session, ring: &Ring, regs: Regs, period: u64) -> Option<Due> {
    let tick = Tick::since_last(ring);
    let mut missing = tick::missing_ns(ring);
    let after_call = arch::after_system_call(regs, session.may_call());
    let in_kernel = tick.is_in_kernel(after_call);
    // Where the clock counts time in the kernel too, only what its records do not show is missing.
    let sees_kernel = perf::sees_kernel(ring) || session.inherited.sees_kernel();
    if sees_kernel {
        missing = missing.saturating_sub_unsigned(KERNEL_SLACK_PERIODS * period);
    }
    if missing >= period.cast_signed() {
        revive_event(session, ring, missing.unsigned_abs());
        if !after_call && session.clock() == Clock::Sigtrap {
            moves::look_for_tracer(session);
        }
    }
    let inherited = session.inherited.is_on();
    let of_both = if inherited { missing.min(session.inherited.missing_ns()) } else { missing };
    let due = match (in_kernel, sees_kernel) {
        (true, false) => Due::met(tick, tick::book(ring, period, missing, tick.count), after_call),
        (true, true) => left_over(ring, period, of_both, 0).map(|due| Due { place: MetAt::Here, ..due }),
        (false, _) => {
            let most = (PUT_OFF_TICKS * tick::length_ns().get()).max(PUT_OFF_PERIODS * period);
            left_over(ring, period, of_both, most)
        }
    };
    if inherited {
        session.inherited.account(due.map_or(0, |due| due.weight * period));
        // Many threads make good at once what the process misses.
        tick::decide_next(ring, session.inherited.missing_ns() / tick::MADE_GOOD_OVER / 2);
    }
    due
}

/// What is missing beyond `most_ns`. If no tick seems to meet system time, the program is in step with the kernel's
/// ticks, perhaps.
fn left_over(ring: &Ring, period: u64, missing_ns: i64, most_ns: u64) -> Option<Due> {
    let beyond = missing_ns.saturating_sub_unsigned(most_ns).max(0).unsigned_abs();
    let weight = beyond.checked_div(period).filter(|&periods| periods > 0)?;
    tick::account(ring, weight * period);
    tick::leave_out(ring, weight * period);
    Some(Due { weight, system: true, place: MetAt::Unknown })
}
