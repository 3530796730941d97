//! Sample types: what the values of another profiler's file are, and in which unit.

use super::problem::Problem;
use pct_profile::{Quantity, Unit};

/// Spellings of units that writers use, without a plural's `s`, and what one unit is in ours. Larger units of memory
/// are powers of 1024, as `go tool pprof` takes them.
const UNITS: &[(&[&str], Unit, u64)] = &[
    (&["ns", "nano", "nanosecond"], Unit::Time, 1),
    (&["us", "µs", "μs", "micro", "microsecond"], Unit::Time, 1_000),
    (&["ms", "milli", "millisecond"], Unit::Time, 1_000_000),
    (&["s", "sec", "second"], Unit::Time, 1_000_000_000),
    (&["min", "minute"], Unit::Time, 60_000_000_000),
    (&["h", "hr", "hour"], Unit::Time, 3_600_000_000_000),
    (&["b", "byte"], Unit::Bytes, 1),
    (&["kb", "kib", "kbyte", "kilobyte", "kibibyte"], Unit::Bytes, 1 << 10),
    (&["mb", "mib", "mbyte", "megabyte", "mebibyte"], Unit::Bytes, 1 << 20),
    (&["gb", "gib", "gbyte", "gigabyte", "gibibyte"], Unit::Bytes, 1 << 30),
    (&["count"], Unit::Count, 1),
];

/// Names of types whose time is CPU time.
const CPU: &[&str] = &["cpu", "cpu-time", "cpu_time", "cputime"];
/// Names of types that count samples.
const SAMPLES: &[&str] = &["samples", "sample"];

/// Our unit, and how many of it one of the file's is; an unknown one keeps its name. `10ns` is ten nanoseconds.
fn unit(spelling: &str) -> (Unit, u64) {
    let digits = spelling.bytes().take_while(u8::is_ascii_digit).count();
    if let Ok(times @ 1..) = spelling[..digits].parse::<u64>() {
        let (unit, factor) = unit(&spelling[digits..]);
        let unknown = || (Unit::Other(spelling.to_owned()), 1);
        let is_known = digits < spelling.len() && !matches!(unit, Unit::Other(_));
        return factor.checked_mul(times).filter(|_| is_known).map_or_else(unknown, |factor| (unit, factor));
    }
    let lower = spelling.to_lowercase();
    let singular = if lower.len() > 2 { lower.strip_suffix('s').unwrap_or(&lower) } else { &lower };
    let known = UNITS.iter().find(|(names, ..)| names.contains(&lower.as_str()) || names.contains(&singular));
    known.map_or_else(|| (Unit::Other(spelling.to_owned()), 1), |(_, unit, factor)| (unit.clone(), *factor))
}

/// What a value of a file is of.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct SampleType {
    name: String,
    /// Its unit as the file spells it.
    spelling: String,
    unit: Unit,
    factor: u64,
}

impl SampleType {
    /// The type of this name, whose unit the file spells so.
    pub(super) fn new(name: &str, spelling: &str) -> Self {
        let (unit, factor) = unit(spelling);
        Self { name: name.to_owned(), spelling: spelling.to_owned(), unit, factor }
    }
    pub(super) fn name(&self) -> &str {
        &self.name
    }
    pub(super) fn unit(&self) -> &Unit {
        &self.unit
    }
    /// How many of [`Self::unit`] a value of 1 is.
    pub(super) fn factor(&self) -> u64 {
        self.factor
    }
    /// Name and unit as the file spells them.
    pub(super) fn words(&self) -> String {
        let unit = if self.spelling.is_empty() { "no unit" } else { &self.spelling };
        format!("{} ({unit})", pct_text::visible(&self.name))
    }
    pub(super) fn counts_samples(&self) -> bool {
        self.unit == Unit::Count && SAMPLES.contains(&self.name.as_str())
    }
    /// Whether it is nanoseconds of CPU time.
    pub(super) fn is_cpu_time(&self) -> bool {
        self.unit == Unit::Time && CPU.contains(&self.name.to_lowercase().as_str())
    }
    pub(super) fn quantity(&self) -> Quantity {
        if self.is_cpu_time() {
            return Quantity::Processor;
        }
        Quantity::Foreign { name: self.name.clone(), unit: self.unit.clone() }
    }
    /// Why a value below 0 is refused.
    pub(super) fn negative(&self, value: impl std::fmt::Display) -> Problem {
        let problem = format!(
            "a value is {value}, and amounts below 0 are not shown. If the file holds differences, as go tool pprof -base \
             writes them, compare the two profiles themselves by pct diff BEFORE AFTER"
        );
        Problem { place: self.words(), problem }
    }
    pub(super) fn too_large(&self) -> Problem {
        Problem { place: self.words(), problem: "the values add up to more than 64 bits hold".into() }
    }
}

/// The type of this name among all.
pub(super) fn named(all: &[SampleType], name: &str) -> Result<usize, Problem> {
    all.iter().position(|kind| kind.name == name).ok_or_else(|| {
        let all: Vec<String> = all.iter().map(SampleType::words).collect();
        let problem = format!("no sample type {name:?} in it; it has {}", all.join(", "));
        Problem { place: "--type".into(), problem }
    })
}

/// Names and units of the types that `is_other` picks by their places, with `lead` before them. An empty text if it
/// picks no type.
pub(super) fn others(all: &[SampleType], is_other: impl Fn(usize) -> bool, lead: &str) -> String {
    let others: Vec<String> =
        (0..all.len()).filter(|at| is_other(*at)).take(20).map(|at| all[at].words()).collect();
    if others.is_empty() { String::new() } else { format!("{lead}{}", others.join(", ")) }
}

/// The type that is shown, and the note that names the others.
pub(super) fn chosen(
    all: &[SampleType],
    default: usize,
    wanted: Option<&str>,
) -> Result<(usize, Option<String>), Problem> {
    let shown = wanted.map_or(Ok(default), |name| named(all, name))?;
    let others = others(all, |at| at != shown && !all[at].counts_samples(), "also in the file: ");
    let note = (!others.is_empty())
        .then(|| format!("{} is shown; {others} (--type NAME shows it)", all[shown].words()));
    Ok((shown, note))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_known_by_the_spellings_of_their_writers() {
        for (spelling, want) in [
            ("nanoseconds", (Unit::Time, 1)),
            ("ns", (Unit::Time, 1)),
            ("us", (Unit::Time, 1_000)),
            ("Microseconds", (Unit::Time, 1_000)),
            ("ms", (Unit::Time, 1_000_000)),
            ("s", (Unit::Time, 1_000_000_000)),
            ("seconds", (Unit::Time, 1_000_000_000)),
            ("hrs", (Unit::Time, 3_600_000_000_000)),
            ("bytes", (Unit::Bytes, 1)),
            ("kilobytes", (Unit::Bytes, 1024)),
            ("count", (Unit::Count, 1)),
            ("", (Unit::Other(String::new()), 1)),
            ("10ns", (Unit::Time, 10)),
            ("10", (Unit::Other("10".into()), 1)),
            ("Furlongs", (Unit::Other("Furlongs".into()), 1)),
        ] {
            assert_eq!(unit(spelling), want, "{spelling}");
        }
    }
}
