//! Is the difference of two sampled amounts more than chance?
//!
//! An amount is a sum of n samples of about equal weight q. n is about Poisson distributed, so the amount's variance is
//! about n q². With before and after independent, z = (after - before) / sqrt(n₁q₁² + n₂q₂²) is about normal when
//! nothing changed. A table has many rows, so a single |z| of 2 is expected by chance: [`CLEAR`] is one in a
//! thousand rows.

/// Standard deviations from which a row's difference is more than chance, even for one row of a thousand.
pub const CLEAR: f64 = 3.3;

/// An amount that was measured by samples.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sampled {
    /// Number of samples.
    pub samples: u64,
    /// Sum of their weights, in any unit that both sides of a comparison share.
    pub amount: f64,
}

impl Sampled {
    fn variance(self) -> f64 {
        if self.samples == 0 { 0.0 } else { self.amount * self.amount / self.samples as f64 }
    }
}

/// How many standard deviations lie between two amounts; positive where `after` is larger, 0 where neither has samples.
#[must_use]
pub fn significance(before: Sampled, after: Sampled) -> f64 {
    let variance = before.variance() + after.variance();
    if variance == 0.0 { 0.0 } else { (after.amount - before.amount) / variance.sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_a_hundred_samples_is_clear_and_ten_more_is_not() {
        let of = |samples: u64| Sampled { samples, amount: samples as f64 * 1e6 };
        assert!((significance(of(100), of(200)) - 100.0 / 300f64.sqrt()).abs() < 1e-9);
        assert!(significance(of(100), of(110)) < CLEAR);
        assert!(significance(of(200), of(100)) < -CLEAR);
        assert_eq!(significance(Sampled::default(), Sampled::default()), 0.0);
    }
}
