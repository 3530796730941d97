//! Quantiles of the gamma and the binomial distribution.

use statrs::distribution::{Binomial, ContinuousCDF as _, DiscreteCDF as _, Gamma};

/// Above this shape the cube root of a gamma variable is normal to seven digits (Wilson and Hilferty), and
/// iterating on the incomplete gamma function only loses digits.
const NEARLY_NORMAL: f64 = 1e6;

/// Where the gamma distribution of this shape and scale 1 reaches `p`. Half of chi-squared's quantile at twice as many
/// degrees of freedom. `p` must lie between 0 and 1, `shape` above 0; else the result is not a number.
pub(crate) fn gamma_quantile(shape: f64, p: f64) -> f64 {
    if shape.is_nan() || shape <= 0.0 || !(p > 0.0 && p < 1.0) {
        return f64::NAN;
    }
    if shape > NEARLY_NORMAL {
        let ninth = 1.0 / (9.0 * shape);
        let z = core::f64::consts::SQRT_2 * -statrs::function::erf::erfc_inv(2.0 * p);
        // From 1e300 on the shape is all there is: the difference is below its last digit.
        return shape * (1.0 - ninth + z * ninth.sqrt()).powi(3);
    }
    Gamma::new(shape, 1.0).map_or(f64::NAN, |gamma| gamma.inverse_cdf(p))
}

/// How probable it is that `a` and `b` counts of one kind differ by this much or more, when each of them fell
/// to `a` with probability `share` (two-sided, exact).
pub(crate) fn binomial_test(a: u64, b: u64, share: f64) -> f64 {
    let n = a.saturating_add(b);
    let Ok(law) = Binomial::new(share, n) else { return 1.0 };
    if n == 0 {
        return 1.0;
    }
    let at_most = law.cdf(a);
    let at_least = if a == 0 { 1.0 } else { law.sf(a - 1) };
    (2.0 * at_most.min(at_least)).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_tables() {
        // Of shape 1 it is the exponential distribution.
        assert!((gamma_quantile(1.0, 0.975) - 3.688_879_454_113_936).abs() < 1e-9);
        // Chi-squared at 20 degrees of freedom: 9.5908 and 34.1696.
        assert!((2.0 * gamma_quantile(10.0, 0.025) - 9.590_777).abs() < 1e-5);
        assert!((2.0 * gamma_quantile(10.0, 0.975) - 34.169_607).abs() < 1e-5);
        for bad in [(0.0, 0.5), (-1.0, 0.5), (f64::NAN, 0.5), (1.0, 0.0), (1.0, 1.0), (1.0, f64::NAN)] {
            assert!(gamma_quantile(bad.0, bad.1).is_nan(), "{bad:?}");
        }
    }

    #[test]
    fn both_ways_to_a_quantile_agree_where_they_meet() {
        for p in [0.025, 0.5, 0.975] {
            let (below, above) = (gamma_quantile(NEARLY_NORMAL, p), gamma_quantile(NEARLY_NORMAL + 0.001, p));
            // in standard deviations, which are 1000 here
            assert!((above - below).abs() < 0.01, "{p}: {below} {above}");
        }
        let mut last = 0.0;
        for exponent in -20..300 {
            let shape = 10f64.powf(f64::from(exponent) / 10.0);
            let high = gamma_quantile(shape, 0.975);
            assert!(high > last && high.is_finite(), "{shape}: {high}");
            last = high;
        }
    }

    #[test]
    fn the_binomial_test_is_exact() {
        assert!((binomial_test(9, 0, 0.5) - 2.0 / 512.0).abs() < 1e-12);
        assert!((binomial_test(0, 9, 0.5) - 2.0 / 512.0).abs() < 1e-12);
        assert_eq!(binomial_test(0, 0, 0.5), 1.0);
        assert_eq!(binomial_test(5, 5, 0.5), 1.0);
        // At a tenth of the interval, ten times as many samples are expected of the same amount.
        assert!(binomial_test(10, 1, 10.0 / 11.0) > 0.9);
        assert_eq!(binomial_test(1, 1, f64::NAN), 1.0);
    }
}
