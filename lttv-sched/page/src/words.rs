//! Times and amounts as people read them.

use pct_num::thousands;

/// A length of time: `1.234 ms`.
#[expect(clippy::cast_precision_loss, reason = "shown with four digits")]
pub(crate) fn duration(ns: u64) -> String {
    let (scale, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (1e3, "us"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let amount = ns as f64 / scale;
    let digits = if amount < 10.0 {
        3
    } else if amount < 100.0 {
        2
    } else {
        1
    };
    format!("{amount:.digits$} {unit}")
}

/// A time as seconds after the begin of the span, with as many digits as a range of this width needs.
pub(crate) fn since(origin: i64, time: i64, width_ns: u64) -> String {
    let ns = i128::from(time) - i128::from(origin);
    let (sign, ns) = if ns < 0 { ("-", -ns) } else { ("", ns) };
    let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
    let digits = match width_ns {
        0..10_000 => 9,
        10_000..10_000_000 => 6,
        10_000_000..10_000_000_000 => 4,
        _ => 2,
    };
    let fraction = format!("{rest:09}");
    format!("{sign}{}.{}", thousands(u64::try_from(seconds).unwrap_or(u64::MAX)), &fraction[..digits])
}

/// A share in percent.
#[expect(clippy::cast_precision_loss, reason = "shown with one digit after the point")]
pub(crate) fn share(part: u64, whole: u64) -> String {
    format!("{:.1}%", part as f64 * 100.0 / whole.max(1) as f64)
}

/// CPU seconds as `pct report` shows them.
#[expect(clippy::cast_precision_loss, reason = "shown with two digits after the point")]
pub(crate) fn seconds(ns: u64) -> String {
    format!("{:.2}", ns as f64 / 1e9)
}

/// A name in one line, its hidden characters written out, cut in its middle: what tells two names apart is
/// seldom there.
pub(crate) fn cut(name: &str, most: usize) -> String {
    let name = &*pct_text::visible(name);
    let count = name.chars().count();
    if count <= most {
        return name.to_owned();
    }
    let head: String = name.chars().take(most * 2 / 3).collect();
    let tail: String = name.chars().skip(count - most / 3).collect();
    format!("{head}\u{2026}{tail}")
}

/// The name of a function: a long one without its template arguments, and then cut as [`cut()`] does.
pub(crate) fn function(name: &str, most: usize) -> String {
    pct_icicle::text::short_name(name).map_or_else(|| cut(name, most), |name| cut(&name, most))
}

/// The last part of a path.
pub(crate) fn short(name: &str) -> &str {
    name.trim_end_matches('/').rsplit('/').next().filter(|part| !part.is_empty()).unwrap_or(name)
}

/// Rows of a table before the rest becomes one row.
pub(crate) const MOST_ROWS: usize = 60;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_digits_that_they_need() {
        assert_eq!(duration(999), "999 ns");
        assert_eq!(duration(1_234_567), "1.235 ms");
        assert_eq!(since(1_000, 1_500_001_000, 5_000), "1.500000000");
        assert_eq!(since(0, -2_500_000_000, 100_000_000_000), "-2.50");
    }

    #[test]
    fn functions_lose_their_template_arguments_before_they_are_cut() {
        let name = "std::map<std::basic_string<char>, std::basic_string<char> >::at(int) const";
        assert_eq!(function(name, 80), "std::map<...>::at(int) const");
        assert_eq!(function("std::vector<int>::at", 80), "std::vector<int>::at");
        assert_eq!(function(&"x".repeat(90), 9), "xxxxxx\u{2026}xxx");
    }
}
