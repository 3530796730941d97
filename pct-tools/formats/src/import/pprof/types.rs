//! The sample types of a pprof file, and what its samples are worth.

use super::super::problem::Problem;
use super::super::types::{self, SampleType};
use super::tables::Tables;
use pct_profile::{Quantity, Unit};

/// All types of a file.
pub(super) struct SampleTypes {
    all: Vec<SampleType>,
    default: usize,
    /// What the file says of its period: its type, and the period in our unit.
    period: Option<(SampleType, u64)>,
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
            all.push(SampleType::new(tables.text(name), tables.text(spelling)));
        }
        let default = tables.text(tables.default_type);
        let named = all.iter().position(|kind| !default.is_empty() && kind.name() == default);
        let period = tables.period_type.filter(|_| tables.period > 0).and_then(|(name, spelling)| {
            let kind = SampleType::new(tables.text(name), tables.text(spelling));
            let period = tables.period.checked_mul(kind.factor())?;
            Some((kind, period))
        });
        Ok(Self { default: named.unwrap_or(all.len().saturating_sub(1)), all, period })
    }

    /// The type of this name, or the file's default.
    pub(super) fn choose(&self, name: Option<&str>) -> Result<Choice<'_>, Problem> {
        let index = match name {
            None => self.default,
            Some(name) => types::named(&self.all, name)?,
        };
        let shown = &self.all[index];
        // Counts of objects and contentions are estimates, not numbers of samples.
        let counted = self.all.iter().position(SampleType::counts_samples);
        let same = |kind: &SampleType| kind.name() == shown.name() && kind.unit() == shown.unit();
        // Counts of contentions are scaled by their rate of sampling, whatever their period says.
        let is_time = *shown.unit() == Unit::Time;
        let period = self.period.as_ref().filter(|(kind, _)| is_time && same(kind));
        let period = period.map(|period| period.1);
        Ok(Choice { shown, index, counted, period, all: self.all.len() })
    }

    /// The types that are not shown, in words that begin with `lead`. Empty if all are shown.
    pub(super) fn others(&self, choice: &Choice<'_>, lead: &str) -> String {
        let is_other = |at: usize| at != choice.index && Some(at) != choice.counted;
        types::others(&self.all, is_other, lead)
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

    pub(super) fn is_cpu_time(&self) -> bool {
        self.shown.is_cpu_time()
    }

    pub(super) fn quantity(&self) -> Quantity {
        self.shown.quantity()
    }

    /// The worth of a sample with these values; `None` if it has not as many values as there are types.
    pub(super) fn worth(&self, values: &[i64]) -> Result<Option<Worth>, Problem> {
        let Some(&value) = values.get(self.index).filter(|_| values.len() == self.all) else {
            return Ok(None);
        };
        let value = u64::try_from(value).map_err(|_| self.shown.negative(value))?;
        let amount = value.checked_mul(self.shown.factor()).ok_or_else(|| self.shown.too_large())?;
        let samples = match (self.counted, self.period) {
            (Some(at), _) => u64::try_from(values[at]).unwrap_or(0),
            (None, Some(period)) => amount.saturating_add(period / 2) / period,
            (None, None) => 0,
        };
        Ok(Some(Worth { amount, samples }))
    }

    pub(super) fn too_large(&self) -> Problem {
        self.shown.too_large()
    }
}
