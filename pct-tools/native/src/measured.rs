//! What the weights of a profile are amounts of, as the pages say it, and back.

use pct_deep::measured::Measured;
use pct_profile::{Profile, Quantity, Unit};

/// What the quanta of a profile's pages are amounts of.
#[must_use]
pub fn measured(profile: &Profile) -> Measured {
    let shown = |name: &str| pct_text::visible(name).into_owned();
    match &profile.quantity {
        Quantity::Processor if profile.by_wall_clock() => Measured::Wall,
        Quantity::Processor => Measured::Cpu,
        Quantity::Foreign { name, unit: Unit::Time } => Measured::Time { name: shown(name) },
        Quantity::Foreign { name, unit } => {
            Measured::Amount { name: shown(name), unit: shown(unit.as_word()) }
        }
    }
}

/// What the weights are that the quanta of pages were made of.
#[must_use]
pub(crate) fn quantity(measured: &Measured) -> Quantity {
    match measured {
        Measured::Cpu => Quantity::Processor,
        Measured::Wall => Quantity::Foreign { name: "wall".to_owned(), unit: Unit::Time },
        Measured::Time { name } => Quantity::Foreign { name: name.clone(), unit: Unit::Time },
        Measured::Amount { name, unit } => {
            let known = [Unit::Bytes, Unit::Count].into_iter().find(|known| known.as_word() == unit);
            Quantity::Foreign { name: name.clone(), unit: known.unwrap_or_else(|| Unit::Other(unit.clone())) }
        }
    }
}
