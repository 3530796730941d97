//! Amounts as people read them: one rule for each kind, wherever they are shown.
//!
//! - Seconds have two decimals, below a tenth three, from ten thousand on none: `12.41`, `0.012`, `23,456`.
//! - Shares are per cent with one decimal: `33.3%`.
//! - Bytes have three digits and a decimal unit: `412 MB`, `1.93 kB`, `17 B`.
//! - Counts have their thousands separated and the word that goes with them: `1 process`, `1,204 samples`.

use crate::{float, thousands};
use alloc::format;
use alloc::string::String;

/// Nanoseconds as seconds, without the unit.
#[must_use]
pub fn seconds(ns: u64) -> String {
    const TENTH: u64 = 100_000_000;
    // Rounded as it is shown: what would read 10000.00 has no decimals any more.
    const TEN_THOUSAND: u64 = 9_999_995_000_000;
    let seconds = float(ns) / 1e9;
    match ns {
        0 => "0.00".into(),
        1..TENTH => format!("{seconds:.3}"),
        TENTH..TEN_THOUSAND => format!("{seconds:.2}"),
        _ => thousands(ns.saturating_add(500_000_000) / 1_000_000_000),
    }
}

/// A difference in nanoseconds as seconds, with its sign.
#[must_use]
pub fn signed_seconds(ns: i64) -> String {
    let sign = if ns < 0 { '-' } else { '+' };
    format!("{sign}{}", seconds(ns.unsigned_abs()))
}

/// `part` of `whole` in per cent; 0 when there is no whole.
#[must_use]
pub fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { float(part) / float(whole) * 100.0 }
}

/// `part` of `whole` in per cent, with the sign; empty when there is no whole.
#[must_use]
pub fn share(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!("{:.1}%", percent(part, whole)) }
}

/// An amount of memory with its unit: kB is 1000 bytes, as MB is a million.
#[must_use]
pub fn bytes(amount: f64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if !amount.is_finite() {
        return "?".into();
    }
    let sign = if amount <= -0.5 { "-" } else { "" };
    let mut rest = amount.abs();
    // Rounded as it is shown: what would read 1000 has the next unit.
    if rest < 999.5 {
        return format!("{sign}{rest:.0} B");
    }
    let mut unit = 0;
    rest /= 1000.0;
    while rest >= 999.5 && unit + 1 < UNITS.len() {
        rest /= 1000.0;
        unit += 1;
    }
    let decimals = if rest < 9.995 { 2 } else { usize::from(rest < 99.95) };
    format!("{sign}{rest:.decimals$} {}", UNITS[unit])
}

/// A size that people chose in powers of two: `512 KiB`, `1 MiB`; else as [`bytes`].
#[must_use]
pub fn bytes_binary(size: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut unit = None;
    let mut rest = size;
    while rest >= 1024 && rest.is_multiple_of(1024) && unit.is_none_or(|at| at + 1 < UNITS.len()) {
        rest /= 1024;
        unit = Some(unit.map_or(0, |at: usize| at + 1));
    }
    match unit {
        Some(at) => format!("{} {}", thousands(rest), UNITS[at]),
        None => bytes(float(size)),
    }
}

/// A number with the word for one of them, or for several.
#[must_use]
pub fn count(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(n), if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits_and_a_unit() {
        let cases = [
            (0.0, "0 B"),
            (17.4, "17 B"),
            (999.4, "999 B"),
            (999.6, "1.00 kB"),
            (1934.0, "1.93 kB"),
            (9995.0, "10.0 kB"),
            (99_960.0, "100 kB"),
            (999_600.0, "1.00 MB"),
            (412e6, "412 MB"),
            (-2.5e9, "-2.50 GB"),
            (1e25, "10000000 EB"),
            (f64::NAN, "?"),
            (f64::INFINITY, "?"),
            (-0.2, "0 B"),
        ];
        for (amount, text) in cases {
            assert_eq!(bytes(amount), text, "{amount}");
        }
    }

    #[test]
    fn sizes_in_powers_of_two_are_said_so() {
        let cases = [
            (0, "0 B"),
            (512 << 10, "512 KiB"),
            (1 << 20, "1 MiB"),
            (1000, "1.00 kB"),
            (1 << 60, "1,024 PiB"),
        ];
        for (size, text) in cases {
            assert_eq!(bytes_binary(size), text);
        }
    }

    #[test]
    fn amounts_read_well() {
        assert_eq!(seconds(0), "0.00");
        assert_eq!(seconds(12_411_000_000), "12.41");
        assert_eq!(seconds(12_400_000_000), "12.40");
        assert_eq!(seconds(12_000_000), "0.012");
        assert_eq!(seconds(100_000_000), "0.10");
        assert_eq!(seconds(9_999_994_999_999), "9999.99");
        assert_eq!(seconds(9_999_996_000_000), "10,000");
        assert_eq!(seconds(23_456_000_000_000), "23,456");
        assert_eq!(
            (signed_seconds(-1_200_000_000), signed_seconds(510_000_000)),
            ("-1.20".into(), "+0.51".into())
        );
        assert_eq!((share(1, 3), share(1, 0)), ("33.3%".into(), String::new()));
        assert_eq!(
            (count(1, "process", "processes"), count(1204, "sample", "samples")),
            ("1 process".into(), "1,204 samples".into())
        );
        assert!(!seconds(u64::MAX).is_empty());
    }
}
