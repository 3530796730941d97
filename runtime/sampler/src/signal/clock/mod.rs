//! What makes samples due: one module per clock.
//!
//! ```text
//! sigtrap, perf   a perf task-clock event per thread, or (sigtrap) a set of events that all threads inherit, user mode only; paired with
//!                 the tick for system time
//! thread          a POSIX timer per thread on its CPU clock: the tick itself samples, at most HZ times a second
//! itimer*         setitimer: the notes' way, one timer for the process
//! ```
//!
//! All expire only while the thread runs, so a sleeping thread is never woken. Nothing here survives exec but `itimer`,
//! which is stopped before it.

pub mod inherited;
pub mod itimer;
pub mod perf;
pub mod period;
pub mod thread_timer;

use core::sync::atomic::{Ordering, fence};

use crate::process::session::Session;
use crate::record::rings::Ring;
use crate::sys;
use pct_format::Clock;

/// Rate taken when none is asked for, in Hz, where the clock can do it.
pub const DEFAULT_HZ: u64 = 997;
/// The first kernel that keeps a SIGTRAP of a perf event for a thread that blocks it: older ones kill the process.
const SIGTRAP_FROM_KERNEL: (u64, u64) = (5, 19);
/// Interval of the timer that accounts system time beside a perf clock: it is tick-bound, so this is a lower bound.
pub const TICK_NS: u64 = 4_000_000;

/// The clock in use.
#[derive(Clone, Copy, Debug)]
pub struct Chosen {
    /// Which.
    pub clock: Clock,
    /// Nominal period in ns of CPU time: a sample's unit of weight.
    pub period_ns: u64,
    /// Rate that it can be expected to deliver, in thousandths of a hertz.
    pub expected_mhz: u64,
    /// Why the first choice was not taken, 0 = it was.
    pub errno: i32,
}

/// A small generator for phases and periods. Not for secrets. No system call: a handler may need it under a filter on
/// them.
#[must_use]
pub fn random(below: u64) -> u64 {
    let counter = crate::sys::arch::counter();
    // Two threads that read the same count have different stacks.
    let mut x = counter ^ ((&raw const counter) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 32;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^= x >> 32;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^= x >> 32;
    x.checked_rem(below).unwrap_or(0)
}

/// The clock to try first. Whether it works shows when the first thread is armed.
#[must_use]
pub fn first_choice(asked: Clock, hz: u64) -> Chosen {
    let or = |hz: u64, default: u64| if hz == 0 { default } else { hz };
    match asked {
        Clock::Perf | Clock::Sigtrap => chosen(asked, or(hz, DEFAULT_HZ), u64::MAX, 0),
        // It costs two thirds of the other.
        Clock::Auto if sys::kernel_version() >= SIGTRAP_FROM_KERNEL => {
            chosen(Clock::Sigtrap, or(hz, DEFAULT_HZ), u64::MAX, 0)
        }
        Clock::Auto => chosen(Clock::Perf, or(hz, DEFAULT_HZ), u64::MAX, 0),
        Clock::ItimerReal => chosen(asked, or(hz, 100), u64::MAX, 0),
        _ => tick_bound(asked, hz, 0),
    }
}

/// What `auto` takes when the kernel refuses `failed` with `errno`; `None`: nothing is left.
#[must_use]
pub fn next_choice(asked: Clock, failed: Clock, hz: u64, errno: i32) -> Option<Chosen> {
    match (asked, failed) {
        (Clock::Auto, Clock::Sigtrap) => {
            Some(chosen(Clock::Perf, if hz == 0 { DEFAULT_HZ } else { hz }, u64::MAX, errno))
        }
        (Clock::Auto, Clock::Perf) => Some(tick_bound(Clock::Thread, hz, errno)),
        (Clock::Auto, Clock::Thread) => Some(tick_bound(Clock::Itimer, hz, errno)),
        _ => None,
    }
}

fn tick_bound(clock: Clock, hz: u64, errno: i32) -> Chosen {
    let tick = match sys::tick_hz() {
        0 => 100,
        hz => hz,
    };
    chosen(clock, if hz == 0 { tick.saturating_sub(1).max(1) } else { hz }, tick, errno)
}

fn chosen(clock: Clock, hz: u64, bound: u64, errno: i32) -> Chosen {
    Chosen {
        clock,
        period_ns: 1_000_000_000u64.checked_div(hz).unwrap_or(1_000_000),
        expected_mhz: hz.min(bound) * 1000,
        errno,
    }
}

/// [`Ring::rearm`](crate::record::rings::Ring) of a clock that must be set up anew at its next sample: it runs with another period than a
/// sample stands for.
pub const PERIOD_WRONG: u32 = u32::MAX;

/// Time to the first expiry: anywhere in the period, so that short programs are sampled as often as they should.
///
/// Not shorter than a timer interrupt and a signal take, though: until the handler sets the right period the clock
/// runs with this one, and a clock that expires faster than it is served lets nothing else run (seen: 10 us on a virtual
/// machine, a process that stood still for a minute).
#[must_use]
pub fn first_expiry(period: u64) -> u64 {
    random(period).max(SHORTEST_FIRST_NS.min(period))
}

/// See [`first_expiry`].
pub const SHORTEST_FIRST_NS: u64 = 100_000;

/// Period of a perf clock in a thread that blocks its signal: each expiry would cost as much as ever and be for nothing. The
/// first sample after the thread lets signals through sets the right one.
pub const BLOCKED_NS: u64 = 20_000_000;

/// Arms the perf clock of `ring`'s thread, with this time to its first expiry.
///
/// # Errors
/// The kernel's refusal; the old event stays then.
pub fn arm_perf(session: &Session, ring: &Ring, first_ns: u64) -> sys::Result<()> {
    while_numbers_move(session, || {
        let signal = session.settings.signal.load(Ordering::Relaxed);
        let clock = session.clock();
        if !matches!(clock, Clock::Perf | Clock::Sigtrap) {
            return Err(sys::Errno::EINVAL);
        }
        perf::arm(ring, clock, signal, session.rings.value(ring), first_ns)
    })
}

/// Arms the timer of `ring`'s thread on its CPU clock.
///
/// # Errors
/// The kernel's refusal.
pub fn arm_timer(session: &Session, ring: &Ring, first_ns: u64, interval_ns: u64) -> sys::Result<()> {
    while_numbers_move(session, || {
        let signal = session.settings.tick_signal.load(Ordering::Relaxed);
        thread_timer::arm(ring, signal, session.rings.value(ring), first_ns, interval_ns)
    })
}

/// Arms again if another thread has given our signal to the host meanwhile ([`crate::signal::numbers::give_way`]): it publishes
/// the new numbers before it ends the clocks, so either it has ended this one, or we see its number here.
fn while_numbers_move(session: &Session, arm: impl Fn() -> sys::Result<()>) -> sys::Result<()> {
    loop {
        let before = session.signals();
        let armed = arm();
        fence(Ordering::SeqCst);
        if session.signals() == before {
            return armed;
        }
    }
}
