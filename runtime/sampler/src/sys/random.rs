//! Random numbers without a system call.

use super::arch;

/// A small generator for phases and periods. Not for secrets. No system call: a handler may need it under a filter on
/// them.
#[must_use]
pub fn random(below: u64) -> u64 {
    let counter = arch::counter();
    // Two threads that read the same count have different stacks.
    let mut x = counter ^ ((&raw const counter) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 32;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^= x >> 32;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^= x >> 32;
    x.checked_rem(below).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 32_000;

    #[test]
    fn numbers_stay_below_their_bound_and_none_is_preferred() {
        const BUCKETS: usize = 16;
        let mut counts = [0_u32; BUCKETS];
        for _ in 0..DRAWS {
            let number = random(16_000);
            counts[usize::try_from(number / 1000).expect("small")] += 1;
        }
        // Six standard deviations of a binomial distribution, in each bucket.
        let mean = f64::from(DRAWS) / 16.0;
        let sigma = (mean * 15.0 / 16.0).sqrt();
        assert!(counts.iter().all(|n| (f64::from(*n) - mean).abs() < 6.0 * sigma), "{counts:?}");
        assert_eq!((random(0), random(1)), (0, 0));
    }

    #[test]
    fn a_number_does_not_tell_whether_the_next_is_larger() {
        let mut numbers: Vec<u64> = (0..DRAWS).map(|_| random(1 << 62)).collect();
        // Draws within one step of the processor's counter are equal.
        numbers.dedup();
        let count = f64::from(u32::try_from(numbers.len()).expect("small"));
        assert!(count > 1000.0, "{count} steps of the counter");
        let ascents = numbers.windows(2).filter(|pair| pair[0] < pair[1]).count();
        let ascents = f64::from(u32::try_from(ascents).expect("small"));
        // Ascents in a row of n independent numbers: mean (n - 1) / 2, variance (n + 1) / 12.
        let (mean, sigma) = ((count - 1.0) / 2.0, ((count + 1.0) / 12.0).sqrt());
        assert!((ascents - mean).abs() < 6.0 * sigma, "{ascents}, expected {mean}");
    }
}
