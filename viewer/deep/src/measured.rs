//! What the costs of a recording are amounts of.

use pct_text::{behind_amount, counts_samples, head_of_amounts};

/// What the quanta of a native program's profile are amounts of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Measured {
    /// Nanoseconds on a processor.
    #[default]
    Cpu,
    /// Nanoseconds by the wall clock, running and waiting.
    Wall,
    /// Nanoseconds of another time.
    Time {
        /// What time it is: `duration`.
        name: String,
    },
    /// Amounts in a unit that is no time.
    Amount {
        /// What is measured: `inuse_space`, `cycles`.
        name: String,
        /// The unit: `bytes`, `count`; empty: none is known.
        unit: String,
    },
}

impl Measured {
    /// What is known without the file that says it, by the data's ticks per second: whether it is a time.
    #[must_use]
    pub fn untold(ticks_per_second: u64) -> Measured {
        match ticks_per_second {
            1 => Self::Amount { name: "cost".to_owned(), unit: String::new() },
            _ => Self::Time { name: "time".to_owned() },
        }
    }

    /// Whether quanta are nanoseconds.
    #[must_use]
    pub fn is_time(&self) -> bool {
        !matches!(self, Self::Amount { .. })
    }

    /// Whether each quantum is a sample.
    #[must_use]
    pub fn is_number_of_samples(&self) -> bool {
        match self {
            Self::Amount { name, unit } => counts_samples(name, unit),
            Self::Cpu | Self::Wall | Self::Time { .. } => false,
        }
    }

    /// Quanta of a second, or of one of the unit: what the data's header has as ticks per second.
    #[must_use]
    pub fn quanta_per_unit(&self) -> u64 {
        if self.is_time() { 1_000_000_000 } else { 1 }
    }

    /// Quanta as seconds, or as what they are if they are no time.
    #[must_use]
    pub fn scaled(&self, quanta: u64) -> f64 {
        quanta as f64 / self.quanta_per_unit() as f64
    }

    /// What it is, for running text: `CPU time`, `duration`, `inuse_space`.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Cpu => "CPU time",
            Self::Wall => "time by the wall clock",
            Self::Time { name } | Self::Amount { name, .. } => name,
        }
    }

    /// The unit of [`Self::scaled`]: `seconds`, `bytes`, `count`; empty if none is known.
    #[must_use]
    pub fn unit_of_amounts(&self) -> &str {
        match self {
            Self::Cpu | Self::Wall | Self::Time { .. } => "seconds",
            Self::Amount { unit, .. } => unit,
        }
    }

    /// The head of a column: `CPU seconds`, `seconds of duration`, `bytes of inuse_space`, `cycles`, `Ir (count)`.
    #[must_use]
    pub fn heading(&self) -> String {
        match self {
            Self::Cpu => "CPU seconds".to_owned(),
            Self::Wall => "wall seconds".to_owned(),
            Self::Time { name } => head_of_amounts(name, "seconds"),
            Self::Amount { name, unit } => head_of_amounts(name, unit),
        }
    }

    /// What stands behind a number: `CPU s`, `s of duration`, `bytes of inuse_space`, `cycles`, `of Ir (count)`.
    #[must_use]
    pub fn unit(&self) -> String {
        match self {
            Self::Cpu => "CPU s".to_owned(),
            Self::Wall => "wall s".to_owned(),
            Self::Time { name } => behind_amount(name, "s"),
            Self::Amount { name, unit } => behind_amount(name, unit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_the_head_of_its_column_name_the_unit_and_what_it_is_of() {
        let amount = |name: &str, unit: &str| Measured::Amount { name: name.into(), unit: unit.into() };
        for (measured, heading, unit) in [
            (Measured::Cpu, "CPU seconds", "CPU s"),
            (Measured::Wall, "wall seconds", "wall s"),
            (Measured::Time { name: "delay".into() }, "seconds of delay", "s of delay"),
            (amount("live", "bytes"), "bytes of live", "bytes of live"),
            (amount("cycles:u", "count"), "cycles:u", "cycles:u"),
            (amount("Ir", "count"), "Ir (count)", "of Ir (count)"),
            (amount("cycles", "samples"), "samples of cycles", "samples of cycles"),
            (amount("fuel", ""), "fuel (no unit given)", "of fuel (no unit given)"),
        ] {
            assert_eq!((measured.heading().as_str(), measured.unit().as_str()), (heading, unit));
        }
    }
}
