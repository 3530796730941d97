//! How numbers are written ([`pct_num`] has the rules), how sure a share is, and messages of the system in words.

use crate::model::Weight;
use pct_num::float;
pub use pct_num::{bytes, count, seconds, share, signed_seconds, thousands};

/// The sampling error of a share in percentage points (one standard deviation): `1.5`.
///
/// Samples do not all stand for the same time (those of system time for a tick's, those from outside for what
/// has gathered), so a row's sum of squares is taken from its own mean weight. With equal weights it is the
/// binomial sqrt(p (1 - p) / n).
///
/// `sampled` is all that has samples. The whole of `whole_ns` may have more in it, which the kernel counted: that is as
/// sure as its clock, and in no sample's place.
#[must_use]
pub fn share_error(part: Weight, sampled: Weight, whole_ns: u64) -> f64 {
    let all = float(sampled.cpu_ns());
    if all == 0.0 || sampled.samples == 0 || whole_ns == 0 {
        return 0.0;
    }
    let squares = |ns: f64, samples: u64| if samples == 0 { 0.0 } else { ns * ns / float(samples) };
    let own = float(part.cpu_ns()).min(all);
    let p = own / all;
    let others = squares(all - own, sampled.samples.saturating_sub(part.samples));
    ((1.0 - p).powi(2) * squares(own, part.samples) + p.powi(2) * others).sqrt() / float(whole_ns) * 100.0
}

/// A message without the numbers that Rust puts behind the system's words: ` (os error 2)`.
#[must_use]
pub fn in_words(message: &str) -> String {
    let mut words = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.find(" (os error ") {
        let (before, behind) = rest.split_at(at);
        words.push_str(before);
        let number = &behind[" (os error ".len()..];
        let digits = number.bytes().take_while(u8::is_ascii_digit).count();
        match number[digits..].strip_prefix(')') {
            Some(after) if digits > 0 => rest = after,
            _ => {
                words.push_str(" (os error ");
                rest = number;
            }
        }
    }
    words + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_for_people() {
        assert_eq!(in_words("a: No such file or directory (os error 2)"), "a: No such file or directory");
        assert_eq!(in_words("a (os error 2): b (os error 13)!"), "a: b!");
        assert_eq!(in_words("(os error x) (os error ) (os error 5"), "(os error x) (os error ) (os error 5");
    }

    #[test]
    fn the_error_of_a_share_is_that_of_its_samples() {
        let weight = |samples, user_ns| Weight { samples, user_ns, system_ns: 0 };
        let share_error = |part, sampled: Weight| share_error(part, sampled, sampled.cpu_ns());
        assert!((share_error(weight(50, 50), weight(100, 100)) - 5.0).abs() < 1e-9);
        // ten samples of a tenth each say more than one of the whole
        assert!(
            share_error(weight(1, 50), weight(51, 100)) > 2.0 * share_error(weight(10, 50), weight(60, 100))
        );
        assert!(share_error(weight(9, 90), weight(9, 90)) == 0.0);
    }

    #[test]
    fn time_without_samples_is_no_single_samples() {
        let weight = |samples, user_ns| Weight { samples, user_ns, system_ns: 0 };
        // Of 200 ns the kernel counted 100 beyond the samples.
        assert!((share_error(weight(50, 50), weight(100, 100), 200) - 2.5).abs() < 1e-9);
        assert!(share_error(weight(99, 99), weight(100, 100), 200) < 0.6);
        assert!(share_error(weight(1, 1), weight(1, 1), 0) == 0.0);
    }
}
