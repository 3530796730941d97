//! Numbers as people read them: thousands separated, a fixed number of decimals, times with their unit.

use super::data::{Data, MemUnit};
use pct_deep::measured::Measured;
use pct_num::grouped;

/// 1234567 as `1,234,567`.
#[must_use]
pub fn int(n: i64) -> String {
    let digits = grouped(&n.unsigned_abs().to_string());
    if n < 0 { format!("-{digits}") } else { digits }
}

/// A number of things: 1234567 as `1,234,567`.
#[must_use]
pub fn count(n: usize) -> String {
    grouped(&n.to_string())
}

/// With this many decimals, thousands separated.
#[must_use]
pub fn float(x: f64, decimals: usize) -> String {
    if !x.is_finite() {
        return "?".to_owned();
    }
    let text = format!("{:.decimals$}", x.abs());
    let (whole, part) = text.split_at(text.find('.').unwrap_or(text.len()));
    let zero = text.bytes().all(|b| b == b'0' || b == b'.');
    let sign = if x < 0.0 && !zero { "-" } else { "" };
    format!("{sign}{}{part}", grouped(whole))
}

/// What quanta of a recording amount to, with its unit: `0.92 CPU s`, `1,050 bytes of space`.
#[must_use]
pub fn amount(measured: &Measured, quanta: u64) -> String {
    let decimals = if measured.is_time() { 2 } else { 0 };
    format!("{} {}", float(measured.scaled(quanta), decimals), measured.unit())
}

/// A share as a percentage without its sign.
#[must_use]
pub fn percent(share: f64) -> String {
    float(share * 100.0, 2)
}

/// Length in characters from which a name counts as long.
const LONG_NAME: usize = 72;

/// A name of a native program, without what makes it very long. Template arguments and parameters become `<\u{2026}>`
/// and `(\u{2026})`, the innermost first, until it is short enough.
#[must_use]
pub fn short_name(name: &str) -> String {
    let mut out = name.to_owned();
    // Deep nesting is removed first, because the outer parts say most.
    for depth in (1..=4).rev() {
        if out.chars().count() <= LONG_NAME {
            return out;
        }
        out = without(name, depth);
    }
    out
}

/// Removes what is nested `depth` brackets deep or deeper.
fn without(name: &str, depth: usize) -> String {
    let mut out = String::new();
    let mut open: Vec<char> = Vec::new();
    let mut before = ' ';
    for c in name.chars() {
        let arrow = c == '>' && before == '-';
        let shift = matches!(c, '<' | '>') && (out.ends_with("operator") || before == c && out.ends_with(c));
        match c {
            '<' | '(' | '{' if !shift => {
                if open.len() < depth {
                    out.push(c);
                }
                open.push(c);
                if open.len() == depth {
                    out.push('\u{2026}');
                }
            }
            '>' | ')' | '}' if !arrow && !shift && !open.is_empty() => {
                open.pop();
                if open.len() < depth {
                    out.push(c);
                }
            }
            c if open.len() < depth => out.push(c),
            _ => {}
        }
        before = c;
    }
    // Empty brackets need no sign.
    out.replace("(\u{2026})()", "()")
}

/// Seconds with one decimal in the unit that fits: ps, ns, us, ms, s. Zero prints in ps.
#[must_use]
pub fn time(seconds: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("ps", 1e12), ("ns", 1e9), ("us", 1e6), ("ms", 1e3)];
    let size = seconds.abs();
    for (i, (unit, scale)) in UNITS.iter().enumerate() {
        // The next larger unit is a thousand of this one.
        let next = 10f64.powi(3 * i32::try_from(i).unwrap_or(0) - 9);
        if size < next {
            return format!("{}{unit}", float(seconds * scale, 1));
        }
    }
    format!("{}s", float(seconds, 1))
}

fn signed(text: String, positive: bool) -> String {
    if positive { format!("+{text}") } else { text }
}

/// A datum as text; links are their label.
#[must_use]
pub fn data(d: &Data) -> String {
    match d {
        Data::Float(x) => float(*x, 2),
        Data::Int(n) => int(*n),
        Data::Link(link) => link.label.text.clone(),
        Data::Memory(amount, _, decimals) => float(*amount, usize::from(*decimals)),
        Data::Percent(share) => percent(*share),
        Data::Text(s) | Data::Code(s) | Data::Hinted(s, _) => s.clone(),
        Data::Label(label) => label.text.clone(),
        Data::Time(seconds) => time(*seconds),
        Data::Seconds(s) => float(*s, 3),
        Data::Amount(x) => float(*x, 0),
        Data::Change(s) => signed(float(*s, 3), *s > 0.0),
        Data::IntChange(n) => signed(int(*n), *n > 0),
        Data::AtMost(inner) => format!("\u{2264} {}", data(inner)),
    }
}

/// The exact value behind a datum whose text is rounded.
#[must_use]
pub fn raw(d: &Data) -> Option<String> {
    match d {
        Data::Float(x) | Data::Percent(x) => Some(x.to_string()),
        Data::Memory(x, unit, _) => Some(match unit {
            MemUnit::Words => format!("{x} words"),
            MemUnit::Bytes => format!("{x} bytes"),
        }),
        Data::Time(s) | Data::Seconds(s) | Data::Change(s) => Some(format!("{s} s")),
        Data::Hinted(_, whole) => Some(whole.clone()),
        Data::AtMost(inner) => raw(inner),
        Data::Int(_)
        | Data::Amount(_)
        | Data::IntChange(_)
        | Data::Code(_)
        | Data::Link(_)
        | Data::Text(_)
        | Data::Label(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_thousands_separated() {
        assert_eq!(int(0), "0");
        assert_eq!(int(1_234_567), "1,234,567");
        assert_eq!(int(-123), "-123");
        assert_eq!(int(-123_456), "-123,456");
        assert_eq!(int(i64::MIN), "-9,223,372,036,854,775,808");
    }

    #[test]
    fn floats_round_and_have_no_negative_zero() {
        assert_eq!(float(1_011_764.36, 2), "1,011,764.36");
        assert_eq!(float(-0.001, 2), "0.00");
        assert_eq!(float(999.999, 2), "1,000.00");
        assert_eq!(float(-1234.5, 1), "-1,234.5");
        assert_eq!(float(f64::NAN, 2), "?");
        assert_eq!(percent(0.5227), "52.27");
    }

    #[test]
    fn long_names_lose_what_is_deepest() {
        assert_eq!(
            short_name("std::vector<int>::push_back(int const&)"),
            "std::vector<int>::push_back(int const&)"
        );
        let long = format!(
            "std::_Rb_tree<{0}, {0}>::_M_lower_bound({0}*, {0} const&)",
            "std::pair<int, char>".repeat(2)
        );
        let short = short_name(&long);
        assert!(short.chars().count() <= LONG_NAME, "{short}");
        assert!(short.starts_with("std::_Rb_tree<") && short.contains(">::_M_lower_bound("), "{short}");
        let odd = "a".repeat(80) + ">>)<(";
        let _ = short_name(&odd);
        assert!(
            short_name(&format!("f(std::function<{}>)::operator()(int) const", "x".repeat(90)))
                .contains("operator(")
        );
    }

    #[test]
    fn times_take_the_unit_below_their_size() {
        assert_eq!(time(0.0), "0.0ps");
        assert_eq!(time(1.1), "1.1s");
        assert_eq!(time(0.58), "580.0ms");
        assert_eq!(time(0.001), "1.0ms");
        assert_eq!(time(2.5e-7), "250.0ns");
        assert_eq!(time(3e-6), "3.0us");
        assert_eq!(time(12345.0), "12,345.0s");
    }
}
