//! Estimates of memory in words: amounts with their intervals, numbers of blocks, times; and which estimates are sure
//! enough to be told.

use super::numbers::{bytes, thousands};
use crate::memory::Memory;
use pct_num::{Estimate, detection_limit, rounded};
use serde_json::{Value, json};

/// Rows whose interval is more than so many times as wide as their estimate are summed up. Of small blocks these are
/// the rows of one sample and of two. The number of samples alone does not decide: one sample of a block that is much
/// larger than the interval of sampling is exact.
const WIDEST: f64 = 3.0;
/// What the sentence about such rows says of them.
pub(super) const TOO_WIDE: &str = "whose 95 % interval is more than 3 times as wide as the estimate";

/// Whether an estimate is sure enough for a row of its own.
pub(super) fn is_sure(estimate: &Estimate) -> bool {
    estimate.relative_width().is_some_and(|width| width <= WIDEST)
}

/// Whether what is live is the most that ever was. The sampler notes a new peak only where it is one percent higher
/// than the last one, so what it noted can be less than is live.
pub(super) fn is_the_peak(live: f64, peak: f64) -> bool {
    live > 0.0 && live >= peak
}

/// An interval in words: `398 .. 427 MB`.
#[must_use]
pub fn interval(estimate: &Estimate) -> String {
    let limits = estimate.interval();
    between(&bytes(limits.low), &bytes(limits.high))
}

/// An interval of a number of blocks.
#[must_use]
pub fn interval_of_count(estimate: &Estimate) -> String {
    let limits = estimate.interval();
    between(&amount(limits.low.floor()), &amount(limits.high.ceil()))
}

/// Two amounts; the unit once if both have the same.
fn between(low: &str, high: &str) -> String {
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} .. {high}"),
        _ => format!("{low} .. {high}"),
    }
}

/// A number of blocks: three digits and a letter from ten thousand on.
#[must_use]
pub fn amount(number: f64) -> String {
    if !number.is_finite() {
        return "?".into();
    }
    if number < 9_999.5 {
        return thousands(rounded(number.max(0.0)));
    }
    let text = bytes(number);
    text.replace("kB", "k").replace('B', "")
}

/// A time as people say it: `340 us`, `12 s`, `2.1 h`.
#[must_use]
pub fn duration(ns: f64) -> String {
    const UNITS: [(f64, &str); 7] =
        [(1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s"), (60e9, "min"), (3600e9, "h"), (86_400e9, "d")];
    let at = UNITS.iter().rposition(|(unit, _)| ns >= *unit).unwrap_or(0);
    let (unit, name) = UNITS[at];
    let number = ns.max(0.0) / unit;
    let decimals = usize::from(number < 9.95);
    format!("{number:.decimals$} {name}")
}

/// An estimate's members.
pub(super) fn estimate_json(estimate: &Estimate) -> Value {
    let limits = estimate.interval();
    let (low, high) = (thousandths(limits.low), thousandths(limits.high));
    json!({"samples": estimate.samples, "estimate": thousandths(estimate.amount), "low": low, "high": high})
}

/// An amount of bytes or blocks for machines, to a thousandth: the last digits of a sum of many samples differ from one
/// build of pct to another.
pub(super) fn thousandths(amount: f64) -> f64 {
    (amount * 1000.0).round() / 1000.0
}

/// What is too small to be told from nothing, as a sentence.
#[must_use]
pub fn limit(memory: &Memory) -> String {
    format!(
        "less than {} in one site cannot be told from nothing (one sample per {})",
        bytes(detection_limit(memory.interval())),
        pct_num::bytes_binary(memory.interval()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_blocks_and_times_read_well() {
        assert_eq!(amount(12.4), "12");
        assert_eq!(amount(9_999.0), "9,999");
        assert_eq!(amount(61_234.0), "61.2 k");
        assert_eq!(amount(1.9e6), "1.90 M");
        assert_eq!(amount(f64::NAN), "?");
        assert_eq!(duration(0.0), "0.0 ns");
        assert_eq!(duration(340_000.0), "340 us");
        assert_eq!(duration(12e9), "12 s");
        assert_eq!(duration(7.6e12), "2.1 h");
        assert_eq!(between("398 MB", "427 MB"), "398 .. 427 MB");
        assert_eq!(between("0 B", "1.93 MB"), "0 B .. 1.93 MB");
    }
}
