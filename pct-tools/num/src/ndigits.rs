//! How many digits a number has.

use crate::{Base, bodies};

/// The number of digits of `n` in base `B` (2, 8, 10 or 16); 0 has one digit.
///
/// ```
/// assert_eq!(pct_num::ndigits::<10>(0), 1);
/// assert_eq!(pct_num::ndigits::<10>(u64::MAX), 20);
/// assert_eq!(pct_num::ndigits::<16>(0x1f), 2);
/// ```
#[inline]
pub const fn ndigits<const B: u32>(n: u64) -> usize {
    const { Base::<B>::KNOWN };
    match B {
        10 => bodies::ndigits10_branch_free(n),
        _ => bodies::ndigits_pow2::<B>(n),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::format;

    fn naive(mut n: u64, base: u64) -> usize {
        let mut digits = 1;
        while n >= base {
            n /= base;
            digits += 1;
        }
        digits
    }

    #[test]
    fn every_border_between_lengths_is_right() {
        for base in [2u64, 8, 10, 16] {
            let mut power = 1u64;
            loop {
                for n in [power - 1, power, power.saturating_add(1)] {
                    check(n);
                }
                match power.checked_mul(base) {
                    Some(next) => power = next,
                    None => break,
                }
            }
        }
        check(u64::MAX);
    }

    fn check(n: u64) {
        assert_eq!(ndigits::<2>(n), naive(n, 2), "{n}");
        assert_eq!(ndigits::<8>(n), naive(n, 8), "{n}");
        assert_eq!(ndigits::<16>(n), naive(n, 16), "{n}");
        assert_eq!(ndigits::<10>(n), naive(n, 10), "{n}");
    }

    proptest! {
        #[test]
        fn the_length_is_that_of_the_text(n in any::<u64>(), shift in 0u32..64) {
            let n = n >> shift;
            check(n);
            prop_assert_eq!(ndigits::<10>(n), format!("{n}").len());
        }
    }
}
