//! How much a sample of allocated bytes stands for, and how far a sum of such samples may be from the truth.
//!
//! Bytes are sampled as by a Poisson process: between two samples lie on average N bytes, the *interval*. So a block of
//! s bytes is sampled with probability p = 1 - exp(-s/N), independently of all others, and stands for s/p bytes and for
//! 1/p blocks (Horvitz and Thompson's estimator: without bias, whatever the sizes). The variance of one sample's
//! contribution w is estimated, without bias too, by w² (1 - p). A block that is much larger than N is certain to be
//! sampled and is exact.
//!
//! Estimates add: amounts and variances are summed first, then one [`Estimate::interval`] is taken of the sum. The
//! interval is not the normal one, which covers the truth far too seldom where samples are few. It is that of Fay and
//! Feuer for weighted sums of Poisson counts (Statistics in Medicine 16, 1997, 791-801): a gamma distribution with the
//! mean and the variance of the estimate, for the upper limit with one unseen sample of the largest weight added.

use core::iter::Sum;
use core::ops::{Add, AddAssign};

use crate::float;
use crate::gamma::gamma_quantile;

/// Probability that a block of `size` bytes is sampled at an average interval of `interval` bytes. A size of
/// 0 counts as one byte, and so does an interval below one.
#[must_use]
pub fn sampling_probability(size: u64, interval: u64) -> f64 {
    // expm1, because 1 - exp(-x) loses its digits where blocks are small.
    -(-float(size.max(1)) / float(interval.max(1))).exp_m1()
}

/// Probability that a block which was sampled at the interval `from` is kept when samples are thinned to the larger
/// interval `to`: afterwards it is as if it had been sampled at `to`.
#[must_use]
pub fn thinning_probability(size: u64, from: u64, to: u64) -> f64 {
    (sampling_probability(size, to) / sampling_probability(size, from)).min(1.0)
}

/// Bytes below which a place without a sample cannot be told from one that holds nothing: the upper limit of
/// its interval, 3.7 times the average interval of sampling.
#[must_use]
pub fn detection_limit(interval: u64) -> f64 {
    Estimate::nothing(float(interval)).interval().high
}

/// An amount that was estimated from samples: bytes or numbers of blocks.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Estimate {
    /// Number of samples.
    pub samples: u64,
    /// The estimate: the sum of what the samples stand for.
    pub amount: f64,
    /// Estimated variance of `amount`.
    pub variance: f64,
    /// The largest effective weight w √(1 - p) that a sample could have had and that was not seen. For bytes
    /// this is the interval of sampling.
    pub unseen: f64,
    /// What was seen in the samples themselves, which is certain. 0 where it is not known.
    pub certain: f64,
}

/// Limits of a confidence interval.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Interval {
    /// Lower limit.
    pub low: f64,
    /// Upper limit.
    pub high: f64,
}

/// Half of what the limits leave outside on either side: intervals are of 95 %.
const TAIL: f64 = 0.025;

impl Estimate {
    /// The bytes that one sampled block stands for.
    #[must_use]
    pub fn of_bytes(size: u64, interval: u64) -> Self {
        let p = sampling_probability(size, interval);
        let size = float(size.max(1));
        let weight = size / p;
        let unseen = float(interval.max(1));
        Self { samples: 1, amount: weight, variance: weight * weight * (1.0 - p), unseen, certain: size }
    }

    /// The blocks that one sampled block stands for.
    #[must_use]
    pub fn of_blocks(size: u64, interval: u64) -> Self {
        let p = sampling_probability(size, interval);
        let weight = 1.0 / p;
        let variance = weight * weight * (1.0 - p);
        // Blocks of other sizes may be there unseen; those of this size are what is known.
        Self { samples: 1, amount: weight, variance, unseen: variance.sqrt(), certain: 1.0 }
    }

    /// The same where a sample that was not seen could have had an effective weight of `unseen`, because the
    /// interval was larger at another time.
    #[must_use]
    pub fn or_unseen(self, unseen: f64) -> Self {
        Self { unseen: self.unseen.max(unseen), ..self }
    }

    /// No sample at all, where one would have had an effective weight of at most `unseen`.
    #[must_use]
    pub fn nothing(unseen: f64) -> Self {
        Self { unseen, ..Self::default() }
    }

    /// The limits that the true amount lies between with a probability of 95 %.
    #[must_use]
    pub fn interval(&self) -> Interval {
        let (amount, variance) = (self.amount, self.variance.max(0.0));
        if !amount.is_finite() || !variance.is_finite() || !self.unseen.is_finite() || amount < 0.0 {
            return Interval { low: 0.0, high: f64::INFINITY };
        }
        let low = if amount == 0.0 {
            0.0
        } else if variance == 0.0 {
            amount
        } else {
            variance / amount * gamma_quantile(amount * amount / variance, TAIL)
        };
        let (mean, spread) = (amount + self.unseen, variance + self.unseen * self.unseen);
        let high = if spread == 0.0 {
            amount
        } else {
            spread / mean * gamma_quantile(mean * mean / spread, 1.0 - TAIL)
        };
        Interval { low: low.max(self.certain).min(amount), high: high.max(amount) }
    }

    /// How wide the interval is, in units of the amount itself: 0 is exact. One sample of a small block has 5.5, two
    /// have 3.5, three 2.7. `None` without an amount.
    #[must_use]
    pub fn relative_width(&self) -> Option<f64> {
        let limits = self.interval();
        (self.amount > 0.0).then(|| (limits.high - limits.low) / self.amount)
    }

    /// What was added to a sum that only grows since it was `earlier`. Samples are independent of each other, so the
    /// variances subtract as the amounts do.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let less = |now: f64, then: f64| (now - then).max(0.0);
        Self {
            samples: self.samples.saturating_sub(earlier.samples),
            amount: less(self.amount, earlier.amount),
            variance: less(self.variance, earlier.variance),
            unseen: self.unseen,
            certain: less(self.certain, earlier.certain),
        }
    }

    /// No sample is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// The same amount counted in units of `size`: bytes as blocks of one size, or bytes as words.
    #[must_use]
    pub fn in_units_of(&self, size: f64) -> Self {
        if size.is_nan() || size <= 0.0 {
            return Self { samples: self.samples, ..Self::default() };
        }
        Self {
            samples: self.samples,
            amount: self.amount / size,
            variance: self.variance / (size * size),
            unseen: self.unseen / size,
            certain: self.certain / size,
        }
    }
}

impl Add for Estimate {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            samples: self.samples.saturating_add(other.samples),
            amount: self.amount + other.amount,
            variance: self.variance + other.variance,
            unseen: self.unseen.max(other.unseen),
            certain: self.certain + other.certain,
        }
    }
}

impl AddAssign for Estimate {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Estimate {
    fn sum<I: Iterator<Item = Self>>(estimates: I) -> Self {
        estimates.fold(Self::default(), Add::add)
    }
}

/// Whole numbers near these amounts (largest remainder): each is one of the two next to its amount, and their
/// sum is that of the amounts, rounded. Of equal remainders the first is rounded up. Amounts below zero, or
/// that are no numbers, count as 0.
#[must_use]
pub fn round_to_sum(amounts: &[f64]) -> alloc::vec::Vec<u64> {
    let sane = |amount: f64| if amount > 0.0 { amount.min(9e18) } else { 0.0 };
    let mut whole: alloc::vec::Vec<u64> =
        amounts.iter().map(|&amount| crate::rounded(sane(amount).floor())).collect();
    let remainder = |at: usize| sane(amounts[at]).fract();
    let mut order: alloc::vec::Vec<usize> = (0..amounts.len()).filter(|&at| remainder(at) > 0.0).collect();
    let missing: f64 = order.iter().map(|&at| remainder(at)).sum();
    order.sort_by(|&a, &b| remainder(b).total_cmp(&remainder(a)));
    let missing = usize::try_from(crate::rounded(missing)).unwrap_or(usize::MAX);
    for &at in order.iter().take(missing) {
        whole[at] = whole[at].saturating_add(1);
    }
    whole
}

#[cfg(test)]
#[path = "estimate_tests.rs"]
mod tests;
