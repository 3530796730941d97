//! What the weights of a profile measure.
//!
//! Our own recordings measure CPU time, or time by the wall clock. Other profilers' files also measure bytes, events
//! of the processor, or something that only their author knows. A number is shown in the unit that the file gives:
//! so a profile carries its unit, and whoever needs CPU time asks `Profile::is_of_cpu_time` first.

use pct_num::{count, float, seconds, thousands};
use pct_text::{behind_amount, counts_samples};

/// The unit of files that say how many samples there are, and not what one is worth.
const SAMPLES: &str = "samples";

/// What a weight's `user_ns` and `system_ns` are amounts of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Quantity {
    /// Nanoseconds of CPU time, or of time by the wall clock where the processes' clock says so.
    #[default]
    Processor,
    /// What a sample type of another profiler's file measures. All of it is in `user_ns`.
    Foreign {
        /// The sample type's name in the file: `wall`, `inuse_space`, `cycles`.
        name: String,
        /// The unit of the weights.
        unit: Unit,
    },
}

/// The unit of another profiler's sample type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Nanoseconds of some time.
    Time,
    /// Bytes.
    Bytes,
    /// Things that are counted.
    Count,
    /// A unit that is not known here, as the file spells it; may be empty.
    Other(String),
}

impl Unit {
    /// The unit in which CSV and JSON give amounts.
    #[must_use]
    pub fn as_word(&self) -> &str {
        match self {
            Self::Time => "seconds",
            Self::Bytes => "bytes",
            Self::Count => "count",
            Self::Other(unit) => unit,
        }
    }

    /// A weight in units of [`Self::as_word`].
    #[must_use]
    pub fn scaled(&self, weight: u64) -> f64 {
        if *self == Self::Time { float(weight) / 1e9 } else { float(weight) }
    }
}

impl Quantity {
    /// Weights are nanoseconds.
    #[must_use]
    pub fn is_time(&self) -> bool {
        matches!(self, Self::Processor | Self::Foreign { unit: Unit::Time, .. })
    }
    /// Weights are numbers of samples.
    #[must_use]
    pub fn is_number_of_samples(&self) -> bool {
        match self {
            Self::Foreign { name, unit } => counts_samples(name, unit.as_word()),
            Self::Processor => false,
        }
    }
    /// The unit of [`Self::amount`], for the head of a column: `CPU s`, `bytes`.
    #[must_use]
    pub fn unit(&self) -> &'static str {
        match self {
            Self::Processor => "CPU s",
            Self::Foreign { unit: Unit::Time, .. } => "s",
            Self::Foreign { unit: Unit::Bytes, .. } => "bytes",
            Self::Foreign { .. } if self.is_number_of_samples() => SAMPLES,
            Self::Foreign { unit: Unit::Count, .. } => "count",
            Self::Foreign { unit: Unit::Other(_), .. } => "amount",
        }
    }
    /// A weight for people, without its unit.
    #[must_use]
    pub fn amount(&self, weight: u64) -> String {
        if self.is_time() { seconds(weight) } else { thousands(weight) }
    }
    /// The same of a difference, with its sign.
    #[must_use]
    pub fn signed_amount(&self, weight: i64) -> String {
        let sign = if weight < 0 { '-' } else { '+' };
        format!("{sign}{}", self.amount(weight.unsigned_abs()))
    }
    /// A weight in seconds, or in the file's unit if it is no time: what CSV and JSON give.
    #[must_use]
    pub fn scaled(&self, weight: u64) -> f64 {
        match self {
            Self::Processor => Unit::Time.scaled(weight),
            Self::Foreign { unit, .. } => unit.scaled(weight),
        }
    }
    /// What a column of [`Self::scaled`] is called: `cpu_seconds`, `inuse_space_bytes`.
    #[must_use]
    pub fn column(&self) -> String {
        match self {
            Self::Processor => "cpu_seconds".into(),
            Self::Foreign { name, unit } if unit.as_word().is_empty() => name.clone(),
            Self::Foreign { name, unit } => format!("{name}_{}", unit.as_word()),
        }
    }
    /// A weight for people, with its unit and with what it is of: `1.20 CPU s`, `6.00 s of wall`, `12 contentions`.
    #[must_use]
    pub fn in_words(&self, weight: u64) -> String {
        let amount = self.amount(weight);
        let Self::Foreign { name, unit } = self else { return format!("{amount} {}", self.unit()) };
        let words = match unit {
            Unit::Other(unit) if unit == SAMPLES => format!("{} of {name}", count(weight, "sample", SAMPLES)),
            Unit::Time => format!("{amount} {}", behind_amount(name, self.unit())),
            unit => format!("{amount} {}", behind_amount(name, unit.as_word())),
        };
        pct_text::visible(&words).into_owned()
    }
    /// Name and unit of the weights as pprof files spell them: `cpu`, `nanoseconds`.
    #[must_use]
    pub fn sample_type(&self) -> (&str, &str) {
        match self {
            Self::Processor => ("cpu", "nanoseconds"),
            Self::Foreign { name, unit: Unit::Time } => (name, "nanoseconds"),
            Self::Foreign { name, unit } => (name, unit.as_word()),
        }
    }
    /// What the values are, where they are no CPU time.
    #[must_use]
    pub fn instead_of_cpu_time(&self) -> Option<String> {
        let Self::Foreign { name, unit } = self else { return None };
        let what = match unit {
            Unit::Time => "a time, but not CPU time".into(),
            Unit::Bytes => "memory in bytes".into(),
            Unit::Count => "a count".into(),
            Unit::Other(unit) if unit.is_empty() => "without a unit".into(),
            Unit::Other(unit) => format!("in {unit:?}"),
        };
        Some(pct_text::visible(&format!("its values ({name}) are {what}")).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_keep_the_unit_of_their_file() {
        let of = |name: &str, unit| Quantity::Foreign { name: name.into(), unit };
        let cpu = Quantity::Processor;
        assert_eq!(cpu.in_words(1_200_000_000), "1.20 CPU s");
        assert_eq!((cpu.column().as_str(), cpu.instead_of_cpu_time()), ("cpu_seconds", None));
        for (quantity, words, column) in [
            (of("wall", Unit::Time), "1.20 s of wall", "wall_seconds"),
            (of("live", Unit::Bytes), "1,200,000,000 bytes of live", "live_bytes"),
            (of("locks", Unit::Count), "1,200,000,000 locks", "locks_count"),
            (of("cpu", Unit::Count), "1,200,000,000 of cpu (count)", "cpu_count"),
            (
                of("cycles", Unit::Other("samples".into())),
                "1,200,000,000 samples of cycles",
                "cycles_samples",
            ),
            (of("fuel", Unit::Other("gallons".into())), "1,200,000,000 gallons of fuel", "fuel_gallons"),
            (of("fuel", Unit::Other(String::new())), "1,200,000,000 of fuel (no unit given)", "fuel"),
        ] {
            assert_eq!(
                (quantity.in_words(1_200_000_000).as_str(), quantity.column().as_str()),
                (words, column)
            );
            assert!(quantity.instead_of_cpu_time().is_some(), "{words}");
        }
    }
}
