//! Between whole numbers and floating-point ones, where the standard library has no conversion.

/// A count as a floating-point number: exact up to 2^53, the nearest one beyond.
#[must_use]
pub const fn float(count: u64) -> f64 {
    count as f64
}

/// The nearest whole number: 0 for what is below it or no number, the largest for what is above.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "this is the saturating conversion"
)]
pub const fn rounded(number: f64) -> u64 {
    number.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_count_can_be_is_its_nearest_end() {
        assert_eq!([0.0, 0.49, 0.5, 2.5e9].map(rounded), [0, 0, 1, 2_500_000_000]);
        assert_eq!([-3.0, f64::NAN, f64::NEG_INFINITY].map(rounded), [0; 3]);
        assert_eq!([f64::INFINITY, 1e300].map(rounded), [u64::MAX; 2]);
    }

    #[test]
    fn counts_up_to_2_to_the_53_come_back() {
        for count in [0, 1, 999_999_999_999, (1 << 53) - 1, 1 << 53] {
            assert_eq!(rounded(float(count)), count);
        }
    }
}
