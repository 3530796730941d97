//! Converts clock values to nanoseconds.

use crate::model::ClockClass;

const NS: u64 = 1_000_000_000;

/// A clock ready to convert values.
#[derive(Clone, Debug)]
pub struct Clock {
    freq: u64,
    /// Nanoseconds at the cycle that `rest` is relative to.
    base: i128,
    /// Cycles from there to value 0, less than `freq`.
    rest: u64,
    /// `base` when one cycle is one nanosecond.
    fast: Option<i64>,
}

impl Clock {
    /// A clock of a class; `shift` (ns) is added to all its times.
    pub fn new(c: &ClockClass, shift: i64) -> Clock {
        let freq = c.freq.max(1);
        let rest = u64::try_from(c.offset.rem_euclid(i128::from(freq))).expect("less than the frequency");
        let base = i128::from(c.offset_s) * i128::from(NS)
            + c.offset.div_euclid(i128::from(freq)) * i128::from(NS)
            + i128::from(shift);
        let fast = (freq == NS).then(|| i64::try_from(base + i128::from(rest)).ok()).flatten();
        Clock { freq, base, rest, fast }
    }

    /// Nanoseconds from the origin: `offset_s * 10^9 + floor((offset + value) * 10^9 / freq)`. None: the result does
    /// not fit 64 bits.
    #[inline]
    pub fn ns(&self, value: u64) -> Option<i64> {
        match (self.fast, i64::try_from(value)) {
            (Some(base), Ok(v)) => base.checked_add(v),
            _ => self.slow(value),
        }
    }

    fn slow(&self, value: u64) -> Option<i64> {
        let cycles = u128::from(self.rest) + u128::from(value);
        let freq = u128::from(self.freq);
        let (s, c) = match u64::try_from(cycles) {
            Ok(cycles) => (u128::from(cycles / self.freq), u128::from(cycles % self.freq)),
            Err(_) => (cycles / freq, cycles % freq),
        };
        let part = match u64::try_from(c).ok().and_then(|c| c.checked_mul(NS)) {
            Some(p) => u128::from(p / self.freq),
            None => c * u128::from(NS) / freq,
        };
        // s < 2^65, so that the sum fits easily.
        i64::try_from(self.base + (s * u128::from(NS) + part).cast_signed()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Origin;
    use proptest::prelude::*;

    fn class(freq: u64, offset_s: i64, offset: i128) -> ClockClass {
        ClockClass {
            id: "c".into(),
            name: "c".into(),
            uid: None,
            description: String::new(),
            freq,
            precision: 0,
            offset_s,
            offset,
            origin: Origin::Unknown,
        }
    }

    proptest! {
        #[test]
        fn times_equal_the_formula_in_wide_arithmetic(freq in prop_oneof![1u64..100, 1u64..u64::MAX, Just(NS), Just(32768)],
                offset_s in -10_000_000_000i64..10_000_000_000, offset in prop_oneof![0i128..1000, 0i128..(1 << 64)], value in any::<u64>()) {
            let c = Clock::new(&class(freq, offset_s, offset), 0);
            // (offset + value) < 2^65 and 10^9 < 2^30: fits i128.
            let want = i128::from(offset_s) * 1_000_000_000 + (offset + i128::from(value)) * 1_000_000_000 / i128::from(freq);
            prop_assert_eq!(c.ns(value), i64::try_from(want).ok());
        }
    }

    #[test]
    fn an_offset_of_more_than_a_second_of_cycles_and_negative_seconds() {
        assert_eq!(Clock::new(&class(1_000_000, -5, 250_000), 0).ns(10), Some(-4_749_990_000));
        assert_eq!(Clock::new(&class(10, 0, 25), 7).ns(0), Some(2_500_000_007));
        assert_eq!(Clock::new(&class(1, 0, 0), 0).ns(u64::MAX), None);
    }
}
