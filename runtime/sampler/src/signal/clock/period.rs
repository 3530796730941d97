//! The period of a perf clock: drawn anew every few samples, so that no program stays in step with the clock.
//!
//! A program that works in bursts of about one period would be sampled at the same place of each burst. Three
//! ways were compared on bursts that are in step on purpose (`cargo bench -p pct-preload -- phase`) and in a
//! simulation of them:
//!
//! - a period within 10 % of the nominal, held for an eighth of a second: some settings are off by more than
//!   four standard deviations;
//! - a new draw within 10 % at each sample: worse, since the clock drifts away from the program too slowly;
//! - a draw within 30 %, held for 16 samples: none is off beyond chance, and one new event in 16 samples costs little.
//!
//! With so wide a range a sample stands for more or less than the nominal period, which is the unit of
//! weight. So the weight of a sample is its period in units, rounded up or down at random. What rounding
//! leaves is paid back to the next samples, a little at a time: all at once would put the samples back on a
//! regular grid.
//!
//! Signal safety: arithmetic on the thread's own words.

use core::sync::atomic::Ordering;

use crate::record::rings::Ring;

/// Periods are between 70 and 130 percent of the nominal.
const SPREAD_PERCENT: u64 = 30;
/// Samples that one draw holds for, at least: at 100 Hz the events would cost more than the samples otherwise.
const FEWEST_SAMPLES: u64 = 8;
/// Time that one draw holds for: the cost of a new event is the same part of the CPU time at each rate.
const HELD_NS: u64 = 16_000_000;
/// One unit of weight, in fixed point.
pub(crate) const ONE: u64 = 1 << 32;
/// One part in so many of what rounding left is paid back with each sample.
const PAID_BACK: i64 = 16;

/// A period to run with.
#[must_use]
pub fn draw(nominal_ns: u64) -> u64 {
    let least = nominal_ns * (100 - SPREAD_PERCENT) / 100;
    least + crate::sys::random(nominal_ns * 2 * SPREAD_PERCENT / 100 + 1)
}

/// Samples until the next draw.
#[must_use]
pub fn held_for(nominal_ns: u64) -> u32 {
    HELD_NS.checked_div(nominal_ns).unwrap_or(0).max(FEWEST_SAMPLES) as u32
}

/// What a sample of this period stands for, in units of the nominal one.
#[must_use]
pub fn share(period_ns: u64, nominal_ns: u64) -> u64 {
    (u128::from(period_ns) * u128::from(ONE)).checked_div(u128::from(nominal_ns)).unwrap_or(0) as u64
}

/// Weight of the thread's next sample, which stands for `share` units; perhaps 0.
#[inline(always)]
#[must_use]
pub fn weight(ring: &Ring, share: u64) -> u64 {
    let dice = roll(ring);
    let owed = ring.owed.load(Ordering::Relaxed);
    let due = (share as i64).wrapping_add(owed / PAID_BACK).max(0);
    let weight = (due.wrapping_add(i64::from(dice))) >> 32;
    ring.owed.store(owed.wrapping_add(share as i64).wrapping_sub(weight << 32), Ordering::Relaxed);
    weight as u64
}

/// The thread's next random number. Its dice are not 0.
#[inline(always)]
pub(in crate::signal) fn roll(ring: &Ring) -> u32 {
    let mut dice = ring.dice.load(Ordering::Relaxed);
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    ring.dice.store(dice, Ordering::Relaxed);
    (dice >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOMINAL: u64 = 1_003_009;

    fn thread(seed: u64) -> Ring {
        // SAFETY: all zeros is an empty slot.
        let ring: Ring = unsafe { core::mem::zeroed() };
        ring.dice.store(seed, Ordering::Relaxed);
        ring
    }

    #[test]
    fn periods_are_spread_evenly_around_the_nominal_one() {
        let drawn: Vec<u64> = (0..20_000).map(|_| draw(NOMINAL)).collect();
        let (least, most) = (drawn.iter().min().unwrap(), drawn.iter().max().unwrap());
        assert!(*least >= NOMINAL * 7 / 10 && *most <= NOMINAL * 13 / 10 + 1, "{least} to {most}");
        assert!(*least < NOMINAL * 71 / 100 && *most > NOMINAL * 129 / 100, "{least} to {most}");
        let mean = drawn.iter().sum::<u64>() / 20_000;
        // a standard deviation is 17 % / sqrt(20,000)
        assert!(mean.abs_diff(NOMINAL) < NOMINAL / 100, "{mean}");
    }

    #[test]
    fn weights_add_up_to_the_time() {
        for seed in 1..50 {
            let ring = thread(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
            let (mut time, mut weight) = (0, 0);
            for _ in 0..100 {
                let period = draw(NOMINAL);
                for _ in 0..16 {
                    time += period;
                    weight += super::weight(&ring, share(period, NOMINAL));
                }
            }
            let missing = time as f64 / NOMINAL as f64 - weight as f64;
            assert!(missing.abs() < 8.0, "seed {seed}: {missing} units of {weight}");
        }
    }

    /// Bursts of `steps` ns with a share of a quarter each, sampled by the clock as it is: how many standard
    /// deviations of the ideal sampler the quarter's share is off.
    fn off(steps: u64, seed: u64) -> f64 {
        let ring = thread(seed);
        let (mut at, mut total, mut quarter) = (seed % NOMINAL, 0u64, 0u64);
        while total < 10_000 {
            let period = draw(NOMINAL);
            for _ in 0..held_for(NOMINAL) {
                at += period;
                let weight = super::weight(&ring, share(period, NOMINAL));
                total += weight;
                quarter += if at % steps < steps / 4 { weight } else { 0 };
            }
        }
        let n = total as f64;
        (quarter as f64 / n - 0.25).abs() / (0.25 * 0.75 / n).sqrt()
    }

    #[test]
    fn no_program_is_in_step() {
        let listed = [490_000, 960_000, 1_000_000, 1_980_000, 2_010_000, NOMINAL, NOMINAL / 2, 2 * NOMINAL];
        for steps in listed.into_iter().chain((0..40).map(|i| 300_000 + i * 97_003)) {
            for seed in 1..4u64 {
                let off = off(steps, seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                // Of 144 draws of an ideal sampler one in a hundred runs is beyond 4: the model's tail is a
                // little longer.
                assert!(off < 5.5, "bursts of {steps} ns: {off:.1} standard deviations");
            }
        }
    }
}
