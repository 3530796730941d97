//! How far an ideal sampler may be from the truth.

/// The L1 distance that a perfect sampler of `n` independent samples has on average from the shares `p`,
/// which sum to 1.
///
/// Each count is binomial; for a normal approximation E|p̂ - p| = sqrt(2 p (1 - p) / (π n)).
pub fn expected_l1(p: &[f64], n: f64) -> f64 {
    p.iter().map(|p| (2.0 * p * (1.0 - p) / (std::f64::consts::PI * n)).sqrt()).sum()
}

/// The standard deviation of that distance.
///
/// Counts of a multinomial are correlated by ρ = -sqrt(p q / ((1 - p) (1 - q))), and two normal variables have
/// Cov(|x|, |y|) = 2/π σ_x σ_y (sqrt(1 - ρ²) + ρ asin ρ - 1).
pub fn l1_deviation(p: &[f64], n: f64) -> f64 {
    let sigma = |p: f64| (p * (1.0 - p) / n).sqrt();
    let mut variance = 0.0;
    for (i, &p_i) in p.iter().enumerate() {
        for (j, &p_j) in p.iter().enumerate() {
            let rho = if i == j { 1.0 } else { -(p_i * p_j / ((1.0 - p_i) * (1.0 - p_j))).sqrt().min(1.0) };
            let shape = (1.0 - rho * rho).max(0.0).sqrt() + rho * rho.asin() - 1.0;
            variance += 2.0 / std::f64::consts::PI * sigma(p_i) * sigma(p_j) * shape;
        }
    }
    variance.sqrt()
}

/// Are the weights `seen` what a sampler with `n` samples can have drawn from the program whose true weights
/// are `truth`?
///
/// Two bounds, which chance breaks together in about one of 700 runs: the L1 distance lies within four standard
/// deviations of its mean, and each share within four of its binomial. `beside` is the share that may lie elsewhere for
/// a known reason, for instance what the program does between its functions.
///
/// # Errors
/// Says which bound is broken, and by what.
pub fn drawn_from(truth: &[f64], seen: &[f64], n: f64, beside: f64) -> Result<(), String> {
    let (all, found): (f64, f64) = (truth.iter().sum(), seen.iter().sum());
    let shares: Vec<f64> = truth.iter().map(|t| t / all).collect();
    let (distance, bound) =
        (l1(truth, seen), expected_l1(&shares, n) + 4.0 * l1_deviation(&shares, n) + beside);
    if distance > bound {
        return Err(format!(
            "L1 distance {distance:.4} > {bound:.4} at {n} samples: truth {truth:?}, seen {seen:?}"
        ));
    }
    for (index, (share, seen)) in shares.iter().zip(seen).enumerate() {
        let (off, bound) =
            ((seen / found - share).abs(), 4.0 * (share * (1.0 - share) / n).sqrt() + beside / 2.0);
        if off > bound {
            return Err(format!(
                "function {index} is off by {off:.4} > {bound:.4} of the time at {n} samples"
            ));
        }
    }
    Ok(())
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

    /// Counts of `n` samples drawn from the shares of `shares.c`.
    fn draw(dice: &mut pct_kit::Dice, n: u64) -> Vec<f64> {
        let mut counts = vec![0.0; 4];
        for _ in 0..n {
            counts[match dice.below(16) {
                0..8 => 0,
                8..13 => 1,
                13..15 => 2,
                _ => 3,
            }] += 1.0;
        }
        counts
    }

    const SHARES: [f64; 4] = [8.0, 5.0, 2.0, 1.0];

    #[test]
    fn an_ideal_sampler_passes() {
        let mut dice = pct_kit::Dice::new(1);
        let refused =
            (0..2000).filter(|_| drawn_from(&SHARES, &draw(&mut dice, 2000), 2000.0, 0.0).is_err()).count();
        assert!(refused <= 8, "{refused} of 2,000");
    }

    #[test]
    fn five_percent_of_the_samples_in_the_wrong_function_are_noticed() {
        let mut dice = pct_kit::Dice::new(2);
        let mut passed = 0;
        for from in 0..4 {
            for to in (0..4).filter(|to| *to != from) {
                let mut counts = draw(&mut dice, 2000);
                let moved = 100_f64.min(counts[from]);
                counts[from] -= moved;
                counts[to] += moved;
                passed += usize::from(drawn_from(&SHARES, &counts, 2000.0, 0.01).is_ok());
            }
        }
        assert_eq!(passed, 0, "of 12 ways to move them");
    }

    #[test]
    fn equal_shapes_have_no_distance() {
        assert!(l1(&[1.0, 3.0], &[100.0, 300.0]) < 1e-12);
        assert!((l1(&[1.0, 0.0], &[0.0, 1.0]) - 2.0).abs() < 1e-12);
    }
}
