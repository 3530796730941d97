//! What a thread's CPU time shows beyond the samples of a clock that sees user mode only: time in the kernel.
//!
//! Signal safety: system calls, none under a filter on them.

use core::sync::atomic::Ordering;

use crate::process::session::Session;
use crate::process::threads;
use crate::record::rings::Ring;
use crate::signal::clock::by_timer::{SYSTEM_NS_UNKNOWN, go_by_timer};
use crate::signal::clock::{itimer, perf};
use crate::signal::expiry::{arm_again, revive_event};
use crate::signal::moves;
use crate::sys;
use crate::sys::arch::{self, Regs};
use pct_format::Clock;

/// System time is written down at the next tick that falls into the kernel, but not put off further than this
/// many periods.
const PUT_OFF_PERIODS: u64 = 32;

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
}

/// A tick of the thread's CPU timer: what it shows to be due.
pub(crate) fn at_tick(session: &Session, ring: &Ring, regs: Regs, expiries: u64) -> Option<Due> {
    if !session.may_call() {
        // Under a filter on system calls the time cannot be read: a tick-bound clock still samples.
        return (ring.clock.load(Ordering::Relaxed) == Clock::Thread as u32)
            .then(|| Due { weight: expiries, system: arch::after_system_call(regs, false) });
    }
    let period = session.settings.period_ns.load(Ordering::Relaxed);
    if ring.clock.load(Ordering::Relaxed) == Clock::Thread as u32 {
        let (_, system_ns) = sys::rusage_ns(sys::RUSAGE_THREAD);
        let taken = expiries * period;
        // The kernel books entire ticks as user or system: so do we, as soon as half of this one is due.
        let mut accounted = ring.system_ns.load(Ordering::Relaxed);
        if accounted == SYSTEM_NS_UNKNOWN {
            accounted = system_ns;
            ring.system_ns.store(accounted, Ordering::Relaxed);
        }
        let system = system_ns.saturating_sub(accounted) * 2 >= taken;
        if system {
            ring.system_ns.store(accounted + taken, Ordering::Relaxed);
        }
        ring.accounted_ns.store(ring.accounted_ns.load(Ordering::Relaxed) + taken, Ordering::Relaxed);
        return Some(Due { weight: expiries, system });
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
        arm_again(session, ring, || go_by_timer(session, ring, period));
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

/// What the thread used from one tick to the next.
#[derive(Clone, Copy, Debug)]
struct Tick {
    /// All of it, ns.
    cpu_ns: u64,
    /// What the kernel counted as system time, ns.
    system_ns: u64,
}

impl Tick {
    /// Since the last call for this thread.
    fn since_last(ring: &Ring) -> Tick {
        let (user, system) = sys::rusage_ns(sys::RUSAGE_THREAD);
        let cpu = user + system;
        let before = ring.ticked_cpu_ns.load(Ordering::Relaxed);
        let system_before = ring.ticked_system_ns.load(Ordering::Relaxed);
        ring.ticked_cpu_ns.store(cpu, Ordering::Relaxed);
        ring.ticked_system_ns.store(system, Ordering::Relaxed);
        Tick { cpu_ns: cpu.saturating_sub(before), system_ns: system.saturating_sub(system_before) }
    }

    /// The kernel books a tick whole, by the mode that it interrupted. Kernels that book to the nanosecond
    /// say in which mode most of the time was.
    fn fell_into_the_kernel(self) -> bool {
        self.system_ns * 2 > self.cpu_ns
    }
}

/// What the thread's clock shows beyond the samples of user mode was time in the kernel.
///
/// With events that all threads inherit the samples of one thread may be fewer or more than its time by
/// chance. What it misses is system time only as far as the process misses it too.
fn system_time(session: &Session, ring: &Ring, regs: Regs, period: u64) -> Option<Due> {
    let tick = Tick::since_last(ring);
    let cpu = sys::clock_ns(sys::CLOCK_THREAD_CPU).saturating_sub(ring.armed_cpu_ns.load(Ordering::Relaxed));
    let accounted = ring.accounted_ns.load(Ordering::Relaxed);
    let mut missing = cpu.saturating_sub(accounted);
    // Where the clock counts time in the kernel too, only what its records do not show is missing.
    let sees_kernel = perf::sees_kernel(ring) || session.inherited.sees_kernel();
    let slack = if sees_kernel { KERNEL_SLACK_PERIODS * period } else { 0 };
    if missing < period + slack {
        return None;
    }
    missing -= slack;
    revive_event(session, ring, missing);
    let inherited = session.inherited.is_on();
    if inherited {
        missing = missing.min(session.inherited.missing_ns());
        if missing < period {
            return None;
        }
    }
    if !arch::after_system_call(regs, session.may_call()) {
        if session.clock() == Clock::Sigtrap {
            moves::look_for_tracer(session);
        }
        // The right place to book it is where a tick fell into the kernel, by a page fault too: in a thread
        // that does both, the tick often falls into its own code.
        if !tick.fell_into_the_kernel() && missing < PUT_OFF_PERIODS * period {
            return None;
        }
    }
    let periods = missing.checked_div(period).unwrap_or(0);
    ring.accounted_ns.store(accounted + periods * period, Ordering::Relaxed);
    if inherited {
        session.inherited.account(periods * period);
    }
    Some(Due { weight: periods, system: true })
}
