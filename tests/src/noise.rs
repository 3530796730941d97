//! How far an ideal sampler may be from the truth.

/// The L1 distance that a perfect sampler of `n` independent samples has on average from the shares `p`, which sum to 1.
///
/// Each count is binomial; for a normal approximation E|p̂ - p| = sqrt(2 p (1 - p) / (π n)).
pub fn expected_l1(p: &[f64], n: f64) -> f64 {
    p.iter().map(|p| (2.0 * p * (1.0 - p) / (std::f64::consts::PI * n)).sqrt()).sum()
}

/// The L1 distance between two distributions given as weights; each is scaled to sum 1 first.
pub fn l1(truth: &[f64], seen: &[f64]) -> f64 {
    let (t, s): (f64, f64) = (truth.iter().sum(), seen.iter().sum());
    truth.iter().zip(seen).map(|(a, b)| (a / t - b / s).abs()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_coin_of_100_flips_is_off_by_8_percent() {
        let e = expected_l1(&[0.5, 0.5], 100.0);
        assert!((e - 0.0798).abs() < 0.001, "{e}");
    }

    #[test]
    fn equal_shapes_have_no_distance() {
        assert!(l1(&[1.0, 3.0], &[100.0, 300.0]) < 1e-12);
        assert!((l1(&[1.0, 0.0], &[0.0, 1.0]) - 2.0).abs() < 1e-12);
    }
}
