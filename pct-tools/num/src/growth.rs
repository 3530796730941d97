//! How much an estimated amount changed, and whether that is more than chance.

use crate::estimate::{Estimate, Interval};
use crate::float;
use crate::gamma::binomial_test;

/// The difference of two independent estimates.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Growth {
    /// After less before.
    pub amount: f64,
    /// Limits of 95 % around it.
    pub interval: Interval,
    /// How probable a difference of this size would be if nothing had changed.
    pub by_chance: f64,
}

/// Samples on each side from which the difference is taken as normal.
const MANY: u64 = 10;
/// Of many rows some differ by chance. Below this a row's growth is clear even among a thousand: the limit of
/// [`crate::CLEAR`], as a probability.
const CLEAR_BY_CHANCE: f64 = 0.001;

impl Growth {
    /// From `before` to `after`.
    #[must_use]
    pub fn between(before: &Estimate, after: &Estimate) -> Self {
        let amount = after.amount - before.amount;
        Self { amount, interval: limits(before, after), by_chance: by_chance(before, after) }
    }

    /// It is more than chance, even as one row of many.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.by_chance < CLEAR_BY_CHANCE
    }
}

/// Each estimate's own limits, put together as the sides of a right-angled triangle (Zou and Donner's method
/// of variance estimates recovery): where samples are many these are the normal limits, where they are few
/// they keep the skew.
fn limits(before: &Estimate, after: &Estimate) -> Interval {
    let (old, new) = (before.interval(), after.interval());
    let amount = after.amount - before.amount;
    Interval {
        low: amount - (after.amount - new.low).hypot(old.high - before.amount),
        high: amount + (new.high - after.amount).hypot(before.amount - old.low),
    }
}

fn by_chance(before: &Estimate, after: &Estimate) -> f64 {
    let difference = (after.amount - before.amount).abs();
    let variance = before.variance + after.variance;
    if difference == 0.0 {
        return 1.0;
    }
    if before.samples >= MANY && after.samples >= MANY {
        return two_sided(difference / variance.sqrt());
    }
    // Few samples of blocks so large that hardly one is missed: one unseen sample on either side explains nothing.
    let unseen = before.unseen.hypot(after.unseen);
    let sure = two_sided(difference / (variance + unseen * unseen).sqrt());
    const NO_DOUBT: f64 = 1e-20;
    if sure < NO_DOUBT {
        return sure;
    }
    let (a, b) = (effective_samples(before), effective_samples(after));
    let (one, other) = (before.unseen.max(f64::MIN_POSITIVE), after.unseen.max(f64::MIN_POSITIVE));
    // The smaller interval takes more samples of the same amount.
    binomial_test(a, b, other / (one + other))
}

/// How many samples of small blocks would have this variance: large blocks are certain and no matter of chance.
fn effective_samples(estimate: &Estimate) -> u64 {
    if estimate.unseen == 0.0 {
        return estimate.samples;
    }
    crate::rounded((estimate.variance / (estimate.unseen * estimate.unseen)).min(float(estimate.samples)))
}

/// The probability of a normal variable beyond `z` standard deviations on either side.
fn two_sided(z: f64) -> f64 {
    statrs::function::erf::erfc(z / core::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const N: u64 = 1 << 19;

    fn small(samples: u64) -> Estimate {
        (0..samples).map(|_| Estimate::of_bytes(16, N)).sum::<Estimate>() + Estimate::nothing(N as f64)
    }

    #[test]
    fn few_samples_are_compared_exactly_and_many_as_normal() {
        let nine = Growth::between(&small(0), &small(9));
        assert!((nine.by_chance - 2.0 / 512.0).abs() < 1e-6, "{nine:?}");
        assert!(!nine.is_clear() && Growth::between(&small(0), &small(12)).is_clear());
        let hundred = Growth::between(&small(100), &small(110));
        assert!(!hundred.is_clear() && hundred.interval.low < 0.0 && hundred.interval.high > hundred.amount);
        assert!(Growth::between(&small(100), &small(200)).is_clear());
        assert!(Growth::between(&small(200), &small(100)).amount < 0.0);
        assert_eq!(Growth::between(&small(5), &small(5)).by_chance, 1.0);
    }

    #[test]
    fn one_block_that_cannot_be_missed_is_a_clear_growth() {
        let large = Estimate::of_bytes(200 * N, N);
        let growth = Growth::between(&Estimate::nothing(N as f64), &large);
        assert!(growth.is_clear(), "{growth:?}");
        // 4 N may have been missed before.
        let middle = Growth::between(&Estimate::nothing(N as f64), &Estimate::of_bytes(4 * N, N));
        assert!(!middle.is_clear(), "{middle:?}");
    }

    #[test]
    fn a_finer_interval_is_not_growth() {
        let coarse = small(2);
        let fine: Estimate = (0..20).map(|_| Estimate::of_bytes(16, N / 10)).sum();
        let growth = Growth::between(&coarse, &fine);
        assert!(growth.by_chance > 0.3, "{growth:?}");
    }
}
