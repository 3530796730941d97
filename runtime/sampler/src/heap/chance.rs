//! The mathematics of sampling bytes: how far to the next sample, and what a sample stands for.
//!
//! A countdown of bytes is drawn from the exponential distribution of mean `interval` and rounded up, which makes it
//! geometric: memoryless on whole bytes. So a request of `size` bytes is sampled with `p = 1 - e^(-size/interval)`,
//! whatever was requested before it and whichever countdown serves it, and its weight is `1 / p`.
//!
//! There is no libm here: the exponential and the logarithm are polynomials with an error below 1e-12.
//!
//! Signal safety: arithmetic.

const LN_2: f64 = core::f64::consts::LN_2;

/// What a sample of so many bytes stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weight {
    /// Bytes: size / p.
    pub bytes: f64,
    /// Variance of that: (size / p)^2 (1 - p).
    pub bytes_variance: f64,
    /// Blocks: 1 / p.
    pub blocks: f64,
    /// Variance of that: (1 - p) / p^2.
    pub blocks_variance: f64,
}

/// The weight of a sample of `size` bytes at `interval`. Size 0 counts as 1.
#[must_use]
pub fn weight(size: u64, interval: u64) -> Weight {
    let size = size.max(1) as f64;
    let (p, rest) = chance(size / interval.max(1) as f64);
    let (bytes, blocks) = (size / p, 1.0 / p);
    Weight { bytes, bytes_variance: bytes * bytes * rest, blocks, blocks_variance: rest * blocks * blocks }
}

/// The probability that a sample taken at `interval` is kept when the interval becomes `wider`: p(wider) / p(interval).
#[must_use]
pub fn kept(size: u64, interval: u64, wider: u64) -> f64 {
    let size = size.max(1) as f64;
    let (narrow, _) = chance(size / interval.max(1) as f64);
    let (wide, _) = chance(size / wider.max(1) as f64);
    wide / narrow
}

/// 1/n at place n.
const RECIPROCALS: [f64; 18] = {
    let mut all = [0.0; 18];
    let mut n = 1;
    while n < all.len() {
        all[n] = 1.0 / n as f64;
        n += 1;
    }
    all
};

/// `(1 - e^-x, e^-x)` for x > 0. The first keeps its digits for small x.
fn chance(x: f64) -> (f64, f64) {
    // 1 - e^-x = x (1 - x/2 (1 - x/3 (1 - ...))): most blocks are so small that few terms do.
    let series = |terms: core::ops::Range<u32>| {
        let mut sum = 1.0;
        for n in terms.rev() {
            sum = 1.0 - x * RECIPROCALS.get(n as usize).copied().unwrap_or(0.0) * sum;
        }
        (x * sum, 1.0 - x * sum)
    };
    if x < 1.0 / 64.0 {
        return series(2..8);
    }
    if x < 0.5 {
        return series(2..18);
    }
    if x > 700.0 {
        return (1.0, 0.0);
    }
    // e^-x = 2^-k e^-r with |r| <= ln 2 / 2
    let k = (x / LN_2 + 0.5) as u32;
    let r = x - f64::from(k) * LN_2;
    let mut sum = 1.0;
    for n in (1..16).rev() {
        sum = 1.0 - r / f64::from(n) * sum;
    }
    let power = f64::from_bits(u64::from(1023_u32.saturating_sub(k)) << 52);
    let rest = if k >= 1023 { 0.0 } else { sum * power };
    (1.0 - rest, rest)
}

/// Bytes to the next sample: exponential of mean `interval`, rounded up, from 64 random bits. Never 0.
#[must_use]
pub fn draw(random: u64, interval: u64) -> u64 {
    // -ln(u) for u uniform in (0, 1]: u = m 2^-(zeros + 1), m in [1, 2)
    let random = random | 1;
    let zeros = random.leading_zeros();
    let m = f64::from_bits(1023 << 52 | (random << zeros << 1) >> 12);
    let t = (m - 1.0) / (m + 1.0);
    let square = t * t;
    let mut sum = 0.0;
    for n in (0..13_u32).rev() {
        sum = sum * square + 1.0 / f64::from(2 * n + 1);
    }
    let minus_ln = f64::from(zeros + 1) * LN_2 - 2.0 * t * sum;
    (minus_ln * interval as f64) as u64 + 1
}

/// Spreads a counter over 64 bits (splitmix64's output function).
#[must_use]
pub const fn mixed(counter: u64) -> u64 {
    let mut x = counter;
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// What [`mixed`] is stepped by.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_agree_with_the_c_librarys() {
        for i in 0..4000 {
            let x = 1e-9 * 1.007_f64.powi(i);
            let (p, rest) = chance(x);
            let (exact, exact_rest) = (-(-x).exp_m1(), (-x).exp());
            assert!((p / exact - 1.0).abs() < 1e-12, "{x}: {p} {exact}");
            assert!((rest - exact_rest).abs() < 1e-12, "{x}: {rest} {exact_rest}");
        }
    }

    #[test]
    fn a_sample_stands_for_what_it_should() {
        let interval = 512 << 10;
        let small = weight(1, interval);
        assert!((small.bytes - (interval as f64 + 0.5)).abs() < 1e-3, "{small:?}");
        assert_eq!(weight(0, interval), small);
        let whole = weight(1 << 62, interval);
        assert_eq!((whole.bytes, whole.bytes_variance, whole.blocks), ((1_u64 << 62) as f64, 0.0, 1.0));
        let at = weight(interval, interval);
        let p = 1.0 - (-1.0_f64).exp();
        assert!((at.blocks - 1.0 / p).abs() < 1e-12);
        assert!((at.blocks_variance - (1.0 - p) / (p * p)).abs() < 1e-12);
        assert!((kept(64, interval, 2 * interval) - 0.5).abs() < 1e-4);
        assert!((kept(1 << 40, interval, 2 * interval) - 1.0).abs() < 1e-12);
    }

    fn randoms(seed: u64) -> impl Iterator<Item = u64> {
        (1..).map(move |i: u64| mixed(seed.wrapping_add(i.wrapping_mul(STEP))))
    }

    /// Kolmogorov and Smirnov: the largest distance between the draws' distribution and the exponential one.
    #[test]
    fn draws_are_exponential() {
        const DRAWS: usize = 1_000_000;
        let interval = 512_u64 << 10;
        let mut draws: Vec<u64> = randoms(1).take(DRAWS).map(|r| draw(r, interval)).collect();
        draws.sort_unstable();
        let mean = draws.iter().map(|d| *d as f64).sum::<f64>() / DRAWS as f64 / interval as f64;
        assert!((mean - 1.0).abs() < 5.0 / (DRAWS as f64).sqrt(), "mean {mean}");
        let distance = draws.iter().enumerate().fold(0.0_f64, |most, (i, d)| {
            let exact = -(-(*d as f64) / interval as f64).exp_m1();
            most.max((exact - (i as f64 + 0.5) / DRAWS as f64).abs())
        });
        // 1.95 / sqrt(n) is exceeded by one set of draws in a thousand; this seed is fixed.
        assert!(distance < 1.95 / (DRAWS as f64).sqrt(), "{distance}");
        assert!(draw(0, interval) < 64 * interval && draw(u64::MAX, interval) >= 1);
        assert!(draw(u64::MAX, 1 << 30) >= 1);
    }

    /// What a sampler would estimate, and the variance that it claims, over many runs of the same requests.
    #[test]
    fn estimates_are_unbiased_and_so_is_their_variance() {
        const RUNS: usize = 4000;
        let interval = 4096;
        let sizes = [16_u64, 100, 4096, 5000, 40_000, 16, 900];
        let truth: u64 = sizes.iter().sum::<u64>() * 20;
        let mut random = randoms(7);
        let (mut estimates, mut variance) = (Vec::new(), 0.0);
        for _ in 0..RUNS {
            let mut left = draw(random.next().unwrap(), interval);
            let mut estimate = 0.0;
            for size in sizes.iter().cycle().take(20 * sizes.len()) {
                if left > *size {
                    left -= size;
                    continue;
                }
                let w = weight(*size, interval);
                estimate += w.bytes;
                variance += w.bytes_variance / RUNS as f64;
                left = draw(random.next().unwrap(), interval);
            }
            estimates.push(estimate);
        }
        let mean = estimates.iter().sum::<f64>() / RUNS as f64;
        let spread = estimates.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / RUNS as f64;
        let error = (spread / RUNS as f64).sqrt();
        assert!((mean - truth as f64).abs() < 4.0 * error, "{mean} {truth} +- {error}");
        // The spread of a spread: sqrt(2 / n) of it.
        assert!((variance / spread - 1.0).abs() < 4.0 * (2.0 / RUNS as f64).sqrt(), "{variance} {spread}");
    }
}
