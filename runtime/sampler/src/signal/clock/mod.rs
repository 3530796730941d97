//! What makes samples due: one module per clock.
//!
//! ```text
//! sigtrap, perf   a perf task-clock event per thread, or (sigtrap) a set of events that all threads inherit;
//!                 user mode only, paired with the tick for system time
//! thread          a POSIX timer per thread on its CPU clock: the tick itself samples, at most HZ times a second
//! itimer*         setitimer: the notes' way, one timer for the process
//! ```
//!
//! All expire only while the thread runs, so a sleeping thread is never woken. Nothing here survives exec but `itimer`,
//! which is stopped before it.

pub(crate) mod bounded;
pub(crate) mod by_timer;
mod inherit;
pub mod inherited;
pub mod itimer;
pub mod kernel_records;
pub mod perf;
pub mod period;
pub mod thread_timer;
pub(crate) mod tick;

use core::sync::atomic::{Ordering, fence};

use crate::process::session::Session;
use crate::record::rings::Ring;
use crate::signal::clock::tick::EACH_TICK_NS;
use crate::signal::stores_may_fault::StoresMayFault;
use crate::sys;
use pct_format::Clock;
use pct_format::layout::header as at;

/// Rate taken when none is asked for, in Hz, where the clock can do it.
pub const DEFAULT_HZ: u64 = 997;
/// The first kernel that keeps a SIGTRAP of a perf event for a thread that blocks it: older ones kill the process.
const SIGTRAP_FROM_KERNEL: (u64, u64) = (5, 19);

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

/// Whether the clock's signal kills a process whose action for it is the default one, so that nobody may reset the
/// action behind our back ([`crate::code::system_calls`]).
#[must_use]
pub fn needs_safe_actions(clock: Clock) -> bool {
    clock == Clock::Sigtrap || itimer::which(clock).is_some()
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
    let asked = if hz == 0 { tick.saturating_sub(1).max(1) } else { hz };
    // The others' ticks are measured, one by one. This timer's expiries stand for its period.
    chosen(clock, if clock == Clock::ItimerVirtual { asked.min(tick) } else { asked }, tick, errno)
}

fn chosen(clock: Clock, hz: u64, bound: u64, errno: i32) -> Chosen {
    Chosen {
        clock,
        period_ns: 1_000_000_000u64.checked_div(hz).unwrap_or(1_000_000),
        expected_mhz: hz.min(bound) * 1000,
        errno,
    }
}

/// [`Ring::rearm`](crate::record::rings::Ring) of a clock that must be set up anew at its next sample: it
/// runs with another period than a sample stands for.
pub const PERIOD_WRONG: u32 = u32::MAX;

/// Time to the first expiry of a process's perf clock: each instant of its CPU time is sampled with the same
/// chance, however short it is, but for the first [`SHORTEST_FIRST_NS`]. Those are in no sample, and reports
/// tell them as time that no sample stands for.
#[must_use]
pub fn first_of_process(period: u64) -> u64 {
    not_too_soon(period, sys::random(period), period)
}

/// The same for a further thread, and for a clock that begins anew. Threads that end early have no row of
/// their own for what no sample stands for, so the samples make up for it: the instants right after the first
/// ones are sampled with twice the chance.
#[must_use]
pub fn first_of_thread(period: u64) -> u64 {
    not_too_soon(period, sys::random(period), shortest_first(period))
}

/// The same for a thread that a controller gives back: it should be in its own code again, or asleep in its
/// call, before one of our signals comes.
#[must_use]
pub fn first_after_borrowing(period: u64) -> u64 {
    AFTER_BORROWING_NS + sys::random(period)
}

const AFTER_BORROWING_NS: u64 = 1_000_000;

/// What was drawn, or `later` if the clock cannot expire so soon.
fn not_too_soon(period: u64, drawn: u64, later: u64) -> u64 {
    if drawn < shortest_first(period) { drawn + later } else { drawn }
}

/// The shortest time to a first expiry, at this period.
#[must_use]
pub fn shortest_first(period: u64) -> u64 {
    SHORTEST_FIRST_NS.min(period / 2)
}

/// The clock runs with the time to its first expiry as its period until the handler sets the right one, and
/// an expiry in the kernel has no handler: a long system call is interrupted so often. An interrupt costs 10
/// us on a virtual machine. Measured there on reads of 64 MB: 1.2 times the CPU time with 100 us, 1.4 with 50
/// us, 2 to 3 with 25 us, 28 with 10 us.
const SHORTEST_FIRST_NS: u64 = 50_000;

/// Period of a perf clock in a thread that blocks its signal: each expiry would cost as much as ever and be
/// for nothing. The first sample after the thread lets signals through sets the right one.
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
        let data = session.rings.value(ring);
        if clock == Clock::Sigtrap && session.settings.kernel.load(Ordering::Relaxed) {
            match perf::arm_with_kernel(ring, data, first_ns) {
                Ok(()) => return Ok(()),
                Err(errno) => without_kernel(session, errno),
            }
        }
        perf::arm(ring, (clock, bounded::most_expiries(session)), signal, data, first_ns)
    })
}

/// The kernel does not let this process sample it, or not any more: it gave up its rights, say.
#[cold]
fn without_kernel(session: &Session, errno: sys::Errno) {
    session.settings.kernel.store(false, Ordering::Relaxed);
    session.settings.kernel_errno.store(u8::try_from(errno.0).unwrap_or(u8::MAX), Ordering::Relaxed);
    let _stores = StoresMayFault::in_thread(session.may_call());
    session.log.header_set(at::KERNEL_ERRNO, errno.0 as u64);
}

/// Arms the timer of `ring`'s thread on its CPU clock, to expire at each tick that meets the thread.
///
/// # Errors
/// The kernel's refusal.
pub fn arm_timer(session: &Session, ring: &Ring) -> sys::Result<()> {
    while_numbers_move(session, || {
        let signal = session.settings.tick_signal.load(Ordering::Relaxed);
        thread_timer::arm(ring, signal, session.rings.value(ring), EACH_TICK_NS, bounded::interval())
    })
}

/// Arms again if another thread has given our signal to the host meanwhile
/// ([`crate::signal::moves::give_way`]): it publishes the new numbers before it ends the clocks, so either
/// it has ended this one, or we see its number here.
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

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: u64 = 1_003_009;

    /// How many of many processes are sampled first in each stretch of 50 us.
    fn first_ones(first: fn(u64) -> u64) -> Vec<u64> {
        let mut seen = vec![0; 24];
        for _ in 0..200_000 {
            seen[(first(PERIOD) / 50_000) as usize] += 1;
        }
        seen
    }

    #[test]
    fn each_instant_of_a_short_process_is_sampled_with_the_same_chance() {
        let seen = first_ones(first_of_process);
        assert_eq!(seen[0], 0, "a clock that expires so soon lets nothing else run");
        // 9,970 expected in each; a standard deviation is 100.
        assert!(seen[1..=20].iter().all(|&n| (9_400..10_600).contains(&n)), "{seen:?}");
        assert!(seen[1..=21].iter().sum::<u64>() == 200_000, "{seen:?}");
    }

    #[test]
    fn short_threads_have_as_many_samples_as_they_should() {
        let seen = first_ones(first_of_thread);
        let mut before = 0;
        for (stretch, n) in (1..20).zip(&seen) {
            before += n;
            // All that end after two stretches or more: the sum is right.
            let expected = 9_970 * stretch;
            assert!(stretch == 1 || before.abs_diff(expected) < 1_500, "{before} of {expected}: {seen:?}");
        }
        assert_eq!(seen[0], 0, "{seen:?}");
    }

    #[test]
    fn high_rates_have_a_first_expiry_within_a_period_and_a_half() {
        for period in [100_000, 50_000, 10_000] {
            let drawn: Vec<u64> = (0..10_000).map(|_| first_of_process(period)).collect();
            let (least, most) = (drawn.iter().min().unwrap(), drawn.iter().max().unwrap());
            assert!(*least >= period / 2 && *most < period + period / 2, "{period}: {least} to {most}");
            let mean = drawn.iter().sum::<u64>() / 10_000;
            assert!(mean.abs_diff(period) < period / 20, "{period}: {mean}");
        }
    }
}
