//! Numbers for people.

use alloc::string::{String, ToString};

/// `1234567` as `1,234,567`.
#[must_use]
pub fn thousands(n: u64) -> String {
    grouped(&n.to_string())
}

/// Digits with a comma before each group of three, counted from the end; whatever the text holds counts as a digit.
#[must_use]
pub fn grouped(digits: &str) -> String {
    let count = digits.chars().count();
    let mut out = String::with_capacity(digits.len() + count / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (count - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_three_digits() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(thousands(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!((grouped(""), grouped("-123")), (String::new(), "-,123".to_string()));
    }
}
