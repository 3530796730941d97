//! Sample types: what the values of a pprof file are, and in which unit.

use super::super::problem::Problem;
use super::tables::Tables;
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

/// Our unit, and how many of it one of the file's is; an unknown one keeps its name.
fn unit(spelling: &str) -> (Unit, u64) {
    let lower = spelling.to_lowercase();
    let singular = if lower.len() > 2 { lower.strip_suffix('s').unwrap_or(&lower) } else { &lower };
    let known = UNITS.iter().find(|(names, ..)| names.contains(&lower.as_str()) || names.contains(&singular));
    known.map_or_else(|| (Unit::Other(spelling.to_owned()), 1), |(_, unit, factor)| (unit.clone(), *factor))
}

struct SampleType {
    name: String,
    spelling: String,
    unit: Unit,
    factor: u64,
}

impl SampleType {
    fn words(&self) -> String {
        let unit = if self.spelling.is_empty() { "no unit" } else { &self.spelling };
        format!("{} ({unit})", pct_text::visible(&self.name))
    }
    fn counts_samples(&self) -> bool {
        self.unit == Unit::Count && SAMPLES.contains(&self.name.as_str())
    }
}

/// All types of a file.
pub(super) struct SampleTypes {
    all: Vec<SampleType>,
    default: usize,
    /// What the file says of its period: the type's name, its unit, and the period in our unit.
    period: Option<(String, Unit, u64)>,
}

impl SampleTypes {
    pub(super) fn from_tables(tables: &Tables<'_>) -> Result<Self, Problem> {
        let mut all = Vec::with_capacity(tables.types.len().min(64));
        for &(name, spelling) in &tables.types {
            if !tables.has_text(name) || !tables.has_text(spelling) {
                let problem =
                    "the names of its sample types are not in it, so nothing says what the values are";
                return Err(Problem { place: "sample types".into(), problem: problem.into() });
            }
            let (unit, factor) = unit(tables.text(spelling));
            let (name, spelling) = (tables.text(name).to_owned(), tables.text(spelling).to_owned());
            all.push(SampleType { name, spelling, unit, factor });
        }
        let default = tables.text(tables.default_type);
        let named = all.iter().position(|kind| !default.is_empty() && kind.name == default);
        let period = tables.period_type.filter(|_| tables.period > 0).and_then(|(name, spelling)| {
            let (unit, factor) = unit(tables.text(spelling));
            Some((tables.text(name).to_owned(), unit, tables.period.checked_mul(factor)?))
        });
        Ok(Self { default: named.unwrap_or(all.len().saturating_sub(1)), all, period })
    }

    /// The type of this name, or the file's default.
    pub(super) fn choose(&self, name: Option<&str>) -> Result<Choice<'_>, Problem> {
        let index = match name {
            None => self.default,
            Some(name) => self.all.iter().position(|kind| kind.name == name).ok_or_else(|| {
                let all: Vec<String> = self.all.iter().map(SampleType::words).collect();
                let problem = format!("no sample type {name:?} in it; it has {}", all.join(", "));
                Problem { place: "--type".into(), problem }
            })?,
        };
        let shown = &self.all[index];
        // Counts of objects and contentions are estimates, not numbers of samples.
        let counted = self.all.iter().position(SampleType::counts_samples);
        let same = |name: &str, unit: &Unit| name == shown.name && *unit == shown.unit;
        // Counts of contentions are scaled by their rate of sampling, whatever their period says.
        let is_time = shown.unit == Unit::Time;
        let period = self.period.as_ref().filter(|(name, unit, _)| is_time && same(name, unit));
        let period = period.map(|period| period.2);
        Ok(Choice { shown, index, counted, period, all: self.all.len() })
    }

    /// The types that are not shown, in words that begin with `lead`. Empty if all are shown.
    pub(super) fn others(&self, choice: &Choice<'_>, lead: &str) -> String {
        let is_other = |at: usize| at != choice.index && Some(at) != choice.counted;
        let others: Vec<String> =
            (0..self.all.len()).filter(|at| is_other(*at)).take(20).map(|at| self.all[at].words()).collect();
        if others.is_empty() { String::new() } else { format!("{lead}{}", others.join(", ")) }
    }
}

/// The type that is shown.
pub(super) struct Choice<'t> {
    shown: &'t SampleType,
    index: usize,
    /// The type that counts samples.
    counted: Option<usize>,
    /// What one sample stands for, in our unit.
    period: Option<u64>,
    /// How many values a sample has.
    all: usize,
}

/// What a sample is worth.
pub(super) struct Worth {
    /// In our unit.
    pub(super) amount: u64,
    /// Number of samples; 0 = not known.
    pub(super) samples: u64,
}

impl Choice<'_> {
    /// Name and unit as the file spells them.
    pub(super) fn words(&self) -> String {
        self.shown.words()
    }

    /// Whether it is nanoseconds of CPU time.
    pub(super) fn is_cpu_time(&self) -> bool {
        self.shown.unit == Unit::Time && CPU.contains(&self.shown.name.to_lowercase().as_str())
    }

    pub(super) fn quantity(&self) -> Quantity {
        if self.is_cpu_time() {
            return Quantity::Processor;
        }
        Quantity::Foreign { name: self.shown.name.clone(), unit: self.shown.unit.clone() }
    }

    /// The worth of a sample with these values; `None` if it has not as many values as there are types.
    pub(super) fn worth(&self, values: &[i64]) -> Result<Option<Worth>, Problem> {
        let Some(&value) = values.get(self.index).filter(|_| values.len() == self.all) else {
            return Ok(None);
        };
        let value = u64::try_from(value).map_err(|_| self.negative(value))?;
        let amount = value.checked_mul(self.shown.factor).ok_or_else(|| self.too_large())?;
        let samples = match (self.counted, self.period) {
            (Some(at), _) => u64::try_from(values[at]).unwrap_or(0),
            (None, Some(period)) => amount.saturating_add(period / 2) / period,
            (None, None) => 0,
        };
        Ok(Some(Worth { amount, samples }))
    }

    fn negative(&self, value: i64) -> Problem {
        let problem = format!(
            "a value is {value}: the file holds differences, as go tool pprof -base writes them; compare the two profiles \
             themselves by pct diff BEFORE AFTER"
        );
        Problem { place: self.words(), problem }
    }

    pub(super) fn too_large(&self) -> Problem {
        Problem { place: self.words(), problem: "the values add up to more than 64 bits hold".into() }
    }
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
            ("Furlongs", (Unit::Other("Furlongs".into()), 1)),
        ] {
            assert_eq!(unit(spelling), want, "{spelling}");
        }
    }
}
