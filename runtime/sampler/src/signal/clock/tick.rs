//! What the kernel's ticks show of a thread, and how much of its time each stands for.
//!
//! CPU timers expire at the kernel's ticks, which come at regular instants. A tick meets a thread in each function with
//! a chance in proportion to the CPU time of that function. So each that meets the thread counts, and all stand for
//! the same time:
//!
//! - If a tick stood for what the thread used since the one before, a late one in a burst of work would stand for more
//!   than an early one, and the function before each sleep would have the time of all others.
//! - If the timer expired when a period is used, it would choose ticks in the same way. So its interval is so short
//!   ([`EACH_TICK_NS`]) that it expires at each tick.
//!
//! How much the next tick stands for is decided before it comes, when nobody knows what it will meet: the mean of those
//! so far, and a part of what they have left over or have booked too much. So sums stay right, and shares too.
//!
//! Measured in `cargo bench -p pct-tests --bench bursts`.
//!
//! Signal safety: system calls; arithmetic on the thread's own words.

use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::record::rings::Ring;
use crate::signal::clock::period;
use crate::sys;

/// Interval of a timer that is to expire at each tick that meets its thread.
pub(crate) const EACH_TICK_NS: u64 = 10_000;
/// Ticks over which the mean goes, and of how many it is made at first: the kernel's own ticks are the first guess.
const MEAN_OVER: u64 = 128;
const GUESS_COUNTS: u64 = 16;
/// Ticks over which what is left over, or was booked too much, is made good.
pub(in crate::signal) const MADE_GOOD_OVER: i64 = 32;
/// A tick stands for so many times the mean at most, and for as small a part of it at least.
const WIDEST: i64 = 4;
/// What one tick shows to have been used is more than that many ticks only by a gap in the ticks: it is made good, but
/// does not count in the mean.
const LONGEST_GAP_TICKS: i64 = 64;
/// Signals that follow at once on their ticks come in step with them, but for this.
const IN_STEP_NS: u64 = 64_000;
/// CPU time from the return of a handler to the signal that waited for it.
const AT_ONCE_NS: u64 = 30_000;
/// A thread that waits in between may use a few ticks' time without being met by one. So much more was used while its
/// signal waited for the end of a system call.
const LONG_CALL_TICKS: u64 = 3;

/// A handler of the calling thread has done long work of the sampler's own: it made a file, looked at regions. A tick
/// that met it there comes as soon as the handler returns, and is not the program's.
pub(crate) fn own_work_ends(ring: &Ring) {
    ring.worked_until_ns.store(sys::clock_ns(sys::CLOCK_THREAD_CPU), Ordering::Relaxed);
}

/// What a thread did from one tick that met it to the next.
#[derive(Clone, Copy, Debug)]
pub(in crate::signal) struct Tick {
    /// Ticks that met it: more than one if the signal waited for the end of a system call.
    pub(in crate::signal) count: u64,
    /// Whether the kernel booked it as system time. Where the thread has waited in between this is not sure.
    is_booked_as_system: bool,
    /// Whether the thread gave its processor up to wait.
    has_waited: bool,
    /// Whether pages were given to it.
    has_faulted: bool,
    /// Whether it met the sampler at its own work in the handler before ([`own_work_ends`]).
    pub(in crate::signal) met_sampler: bool,
}

impl Tick {
    /// The present tick of the calling thread, and those since the last call for it.
    pub(in crate::signal) fn since_last(ring: &Ring) -> Tick {
        let usage = sys::usage(sys::RUSAGE_THREAD);
        let (cpu, now) = (usage.user_ns + usage.system_ns, sys::clock_ns(sys::CLOCK_MONOTONIC));
        let swap = |word: &AtomicU64, now: u64| {
            let before = word.load(Ordering::Relaxed);
            word.store(now, Ordering::Relaxed);
            before
        };
        let cpu_before = swap(&ring.ticked_cpu_ns, cpu);
        let system_before = swap(&ring.ticked_system_ns, usage.system_ns);
        let has_waited = swap(&ring.ticked_waits, usage.waits) != usage.waits;
        let faults_before = swap(&ring.ticked_faults, usage.faults);
        let switches_before = swap(&ring.ticked_switches, usage.switches);
        let at_before = swap(&ring.ticked_at_ns, now);
        let (passed, in_step) = passed_between(at_before, now, length_ns());
        let worked_until = ring.worked_until_ns.load(Ordering::Relaxed);
        let used_ns = cpu.saturating_sub(cpu_before);
        let count = if has_waited {
            // Ticks have passed while it was away. Or did its signal wait for the end of a long call?
            if in_step { 1 } else { in_one_call(used_ns).min(passed) }
        } else if usage.switches != switches_before {
            in_ticks(used_ns).min(passed)
        } else {
            passed
        };
        Tick {
            count: count.max(1),
            is_booked_as_system: is_booked_as_system((cpu_before, system_before), (cpu, usage.system_ns)),
            has_waited,
            has_faulted: usage.faults != faults_before,
            met_sampler: worked_until != 0 && cpu < worked_until + AT_ONCE_NS,
        }
    }

    /// Whether the tick met the thread in the kernel. `after_call`: it is at the end of a system call, which can be
    /// just behind it, too: ticks wait for the return from the kernel. Else a page fault may have met the tick.
    pub(in crate::signal) fn is_in_kernel(self, after_call: bool) -> bool {
        if after_call {
            self.is_booked_as_system || self.has_waited
        } else {
            self.is_booked_as_system && self.has_faulted
        }
    }
}

/// Ticks from one signal to another, on CLOCK_MONOTONIC; and whether both signals followed at once on their ticks. (The
/// ticks of two processors do not come at once.)
fn passed_between(before_ns: u64, now_ns: u64, length_ns: NonZeroU64) -> (u64, bool) {
    if before_ns == 0 {
        return (1, true);
    }
    let gap = now_ns.saturating_sub(before_ns);
    let nearest = (gap + length_ns.get() / 2) / length_ns;
    if gap.abs_diff(nearest * length_ns.get()) <= IN_STEP_NS {
        return (nearest, true);
    }
    // Ticks are so far apart, wherever they are.
    (now_ns / length_ns - before_ns / length_ns, false)
}

/// Ticks that met a thread which used so much since the last one, if it may have been away in between.
pub(in crate::signal) fn in_one_call(used_ns: u64) -> u64 {
    let used = used_ns / length_ns();
    if used >= LONG_CALL_TICKS { used } else { 1 }
}

/// Whether the kernel has booked the last tick as system time. It books whole ticks to the mode that it interrupts,
/// and divides the exact CPU time by them. So the part of system time has grown by such a tick, or is all. Pairs are
/// the CPU time and how much of it is system time, ns, before and after.
fn is_booked_as_system(before: (u64, u64), after: (u64, u64)) -> bool {
    let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
    product(after.1, before.0) > product(before.1, after.0) || after.1 == after.0 && after.0 > before.0
}

/// Nanoseconds from one tick of the kernel to the next. The first who asks makes a system call.
pub(crate) fn length_ns() -> NonZeroU64 {
    static LENGTH_NS: AtomicU64 = AtomicU64::new(0);
    const USUAL_NS: NonZeroU64 = NonZeroU64::new(4_000_000).unwrap();
    NonZeroU64::new(LENGTH_NS.load(Ordering::Relaxed)).unwrap_or_else(|| {
        let asked = 1_000_000_000_u64.checked_div(sys::tick_hz()).and_then(NonZeroU64::new);
        let length = asked.unwrap_or(USUAL_NS);
        LENGTH_NS.store(length.get(), Ordering::Relaxed);
        length
    })
}

/// So much time in ticks, to the nearest.
fn in_ticks(ns: u64) -> u64 {
    let length = length_ns();
    (ns + length.get() / 2) / length
}

/// Periods that the ticks that are there stand for; perhaps 0. They are accounted for. `missing_ns`: what the thread
/// has used of what is booked at ticks, without what is booked; less than zero if too much is.
pub(in crate::signal) fn book(ring: &Ring, period: u64, missing_ns: i64, count: u64) -> u64 {
    let length = length_ns().get().cast_signed();
    let usual = match ring.usual_tick_ns.load(Ordering::Relaxed) {
        0 => length,
        usual => usual,
    };
    let due = match ring.next_tick_ns.load(Ordering::Relaxed) {
        0 => usual,
        next => next,
    };
    let periods = at_random(ring, due.unsigned_abs().saturating_mul(count), period);
    account(ring, periods * period);
    let used = missing_ns.saturating_sub(ring.left_ns.load(Ordering::Relaxed));
    let used = used.checked_div(count.cast_signed()).unwrap_or(used).min(LONGEST_GAP_TICKS * length).max(0);
    let counted = ring.ticks.load(Ordering::Relaxed).saturating_add(1);
    let over = GUESS_COUNTS.saturating_add(counted).min(MEAN_OVER).cast_signed();
    let usual = (usual + (used - usual).checked_div(over).unwrap_or(0)).max(1);
    let left = missing_ns.saturating_sub_unsigned(periods * period);
    ring.ticks.store(counted, Ordering::Relaxed);
    ring.usual_tick_ns.store(usual, Ordering::Relaxed);
    ring.left_ns.store(left, Ordering::Relaxed);
    decide_next(ring, left / MADE_GOOD_OVER);
    periods
}

/// The thread's next tick makes `part_ns` good beside what it stands for.
pub(in crate::signal) fn decide_next(ring: &Ring, part_ns: i64) {
    let usual = ring.usual_tick_ns.load(Ordering::Relaxed).max(1);
    let next = usual.saturating_add(part_ns).min(usual.saturating_mul(WIDEST)).max(usual / WIDEST).max(1);
    ring.next_tick_ns.store(next, Ordering::Relaxed);
}

/// A sample stands for so much of the thread's CPU time.
pub(in crate::signal) fn account(ring: &Ring, ns: u64) {
    ring.accounted_ns.store(ring.accounted_ns.load(Ordering::Relaxed) + ns, Ordering::Relaxed);
}

/// So much less is left over for the ticks to come: something else stands for it.
pub(in crate::signal) fn leave_out(ring: &Ring, ns: u64) {
    ring.left_ns.store(ring.left_ns.load(Ordering::Relaxed).saturating_sub_unsigned(ns), Ordering::Relaxed);
}

/// CPU time that the calling thread has used and no sample stands for, ns; less than zero if samples stand for more.
pub(in crate::signal) fn missing_ns(ring: &Ring) -> i64 {
    let used = sys::clock_ns(sys::CLOCK_THREAD_CPU).cast_signed();
    let before = ring.armed_cpu_ns.load(Ordering::Relaxed);
    used.saturating_sub_unsigned(before).saturating_sub_unsigned(ring.accounted_ns.load(Ordering::Relaxed))
}

/// Ticks begin anew: all time so far is accounted for.
pub(crate) fn forget(ring: &Ring) {
    ring.left_ns.store(0, Ordering::Relaxed);
    ring.next_tick_ns.store(0, Ordering::Relaxed);
}

/// So many entire periods, the rest of one by chance: at low rates few ticks are samples.
fn at_random(ring: &Ring, ns: u64, period: u64) -> u64 {
    if ring.dice.load(Ordering::Relaxed) == 0 {
        ring.dice.store(sys::random(u64::MAX) | 1, Ordering::Relaxed);
    }
    let Some(period) = NonZeroU64::new(period) else { return 0 };
    let rest = u128::from(ns % period) << 32;
    ns / period + u64::from(u128::from(period::roll(ring)) * u128::from(period.get()) < rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick_ns() -> u64 {
        length_ns().get()
    }

    /// The kernel's figures after so many ticks of each kind, and so much CPU time: the part of ticks that were system
    /// time, in microseconds, and never less than before (`cputime_adjust`).
    fn divided(ticks: (u64, u64), cpu: u64, before: (u64, u64)) -> (u64, u64) {
        let (user, system) = ticks;
        let by_ticks = (u128::from(cpu) * u128::from(system) / u128::from((user + system).max(1))) as u64;
        let (user_before, system_before) = (before.0 - before.1, before.1);
        let system_ns = by_ticks.max(system_before).min(cpu - user_before);
        (cpu, system_ns / 1000 * 1000)
    }

    /// Of so many ticks with so much CPU time between them those whose mode is not seen.
    fn unseen(system_in_ten: u32, seed: u64, mut used: impl FnMut(u32) -> u64) -> u32 {
        const TICKS: u32 = 5_000;
        let ring = zeroed(seed);
        let (mut ticks, mut before, mut cpu, mut wrong) = ((0, 0), (0, 0), 0, 0);
        for _ in 0..TICKS {
            cpu += used(period::roll(&ring));
            let system = period::roll(&ring) % 10 < system_in_ten;
            if system {
                ticks.1 += 1
            } else {
                ticks.0 += 1
            }
            let after = divided(ticks, cpu, before);
            wrong += u32::from(is_booked_as_system(before, after) != system);
            before = after;
        }
        wrong * 1000 / TICKS
    }

    #[test]
    fn the_mode_of_each_tick_is_seen() {
        for (seed, system_in_ten) in (1..10).flat_map(|seed| [0, 1, 3, 5, 8, 10].map(|n| (seed, n))) {
            // In a thread that does not wait each, but for the first.
            assert!(unseen(system_in_ten, seed, |_| tick_ns()) <= 1, "{system_in_ten} of 10, seed {seed}");
            // Else nearly each: the kernel shows no more system time than was used since it was asked last, and the
            // rest at the next tick.
            let wrong = unseen(system_in_ten, seed, |roll| u64::from(roll) % (3 * tick_ns()) / 1_000 * 1_000);
            assert!(wrong < 100, "{system_in_ten} of 10, seed {seed}: {wrong} of 1000");
        }
    }

    #[test]
    fn ticks_that_pass_while_a_signal_waits_are_counted() {
        let ring = zeroed(7);
        let at = |tick: u64, late_ns: u64| 1_000_000_000 + 2_050_000 + tick * tick_ns() + late_ns;
        // Signals that follow at once on each second tick, give or take what a signal takes.
        for tick in (1..2_000).step_by(2) {
            let late = || 2_000 + u64::from(period::roll(&ring)) % 60_000;
            assert_eq!(passed_between(at(tick, late()), at(tick + 2, late()), length_ns()), (2, true));
        }
        // Signals at the ends of calls of any length, one behind the other, each of which a tick meets.
        let (mut before, mut now, mut counted, mut in_step) = (at(0, 0), at(0, 0), 0, 0);
        for _ in 0..10_000 {
            now += tick_ns() + u64::from(period::roll(&ring)) % (5 * tick_ns());
            let (passed, is_in_step) = passed_between(before, now, length_ns());
            (counted, in_step) = (counted + passed, in_step + u32::from(is_in_step));
            before = now;
        }
        let of = (now - at(0, 0)) / tick_ns();
        assert!(counted.abs_diff(of) < of / 1000 && in_step < 600, "{counted} of {of}, {in_step} in step");
        assert_eq!(passed_between(0, now, length_ns()), (1, true), "the first");
    }

    #[test]
    fn first_ticks_of_many_threads_stand_for_a_tick_each() {
        const THREADS: u64 = 20_000;
        for period in [1_003_009, 4_016_064, 10_000_000, 52_631_578] {
            let periods: u64 = (0..THREADS).map(|_| book(&zeroed(sys::random(u64::MAX)), period, 0, 1)).sum();
            let ticks = (periods * period) as f64 / tick_ns() as f64;
            let deviation = (THREADS as f64 * period as f64 / tick_ns() as f64).sqrt();
            assert!((ticks - THREADS as f64).abs() < 5.0 * deviation, "{ticks} of {THREADS} at {period}");
        }
    }

    fn zeroed(seed: u64) -> Ring {
        // SAFETY: all zeros is an empty slot.
        let ring: Ring = unsafe { core::mem::zeroed() };
        ring.dice.store(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, Ordering::Relaxed);
        ring
    }

    /// A thread that works in bursts between which it sleeps, in four equal parts of each burst, and is met by ticks:
    /// the periods that each part has, and the time of all.
    fn bursts(period: u64, burst_ns: u64, sleep_ns: u64, seed: u64) -> ([u64; 4], i64) {
        let ring = zeroed(seed);
        let mut seen = [0; 4];
        let (mut cpu, mut booked) = (0, 0);
        let round = burst_ns + sleep_ns;
        for tick in 1..=60_000 {
            let at = tick * tick_ns() + seed * 977;
            let (rounds, place) = (at / round, at % round);
            cpu = (rounds * burst_ns + place.min(burst_ns)).cast_signed();
            if place < burst_ns {
                let periods = book(&ring, period, cpu - booked, 1);
                booked += (periods * period).cast_signed();
                seen[(place * 4 / burst_ns) as usize] += periods;
            }
        }
        (seen, cpu)
    }

    #[test]
    fn each_part_of_a_burst_has_its_share_and_sums_are_right() {
        for (period, seed) in [1_003_009, 4_016_064, 10_000_000, 52_631_578].into_iter().zip(1..) {
            for (burst, sleep) in
                [(1_007_000, 300_000), (200_000, 917_000), (5_113_000, 2_111_000), (731_000, 9_000_000)]
            {
                let (seen, cpu) = bursts(period, burst, sleep, seed);
                let all = seen.iter().sum::<u64>();
                let wrong = (all * period).cast_signed() - cpu;
                assert!(
                    wrong.unsigned_abs() < 20 * period.max(tick_ns()),
                    "{burst} {sleep}: {wrong} ns of {cpu} at {period}"
                );
                // Each tick is one draw; rounding to periods spreads it.
                let draws = (cpu as f64 / period.max(tick_ns()) as f64).max(1.0);
                for part in seen {
                    let off = (part as f64 / all as f64 - 0.25) / (0.25 * 0.75 / draws).sqrt();
                    assert!(off.abs() < 4.5, "{burst} {sleep} at {period}: {seen:?}, {off:.1}");
                }
            }
        }
    }
}
