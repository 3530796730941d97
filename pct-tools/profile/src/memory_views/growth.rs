//! What grew between two recordings, or between two instants of one.
//!
//! Two recordings are independent, so their estimates are. Two instants of one recording share the blocks
//! that are live at both, and those cancel exactly: the growth is then estimated from the blocks that were
//! freed in between and those that are new.
//!
//! Rows are matched by names, not ids: the two recordings may be of different builds.

use super::cells::{MemoryCell, Selection, When};

use crate::flat::{Flat, Order, Row};
use crate::memory::{Figures, Measure, Memory};
use crate::model::Profile;
use crate::tree::{By, Split};
use pct_num::{Estimate, Growth, float};
use std::collections::BTreeMap;

/// What changed in a row.
#[derive(Clone, PartialEq, Debug)]
pub struct GrowthRow {
    /// Name of the function (object, line).
    pub name: String,
    /// Name of its object; empty where the row is no place in code.
    pub object: String,
    /// Before.
    pub before: Estimate,
    /// After.
    pub after: Estimate,
    /// The difference, and how sure it is.
    pub growth: Growth,
}

/// What changed: clear changes first, then by size.
#[derive(Clone, PartialEq, Debug)]
pub struct MemoryDiff {
    /// What is compared.
    pub measure: Measure,
    /// The rows of either side.
    pub rows: Vec<GrowthRow>,
    /// The sum over all rows.
    pub total: GrowthRow,
}

/// A side of a comparison.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The recording.
    pub profile: &'a Profile,
    /// Its rows.
    pub cells: &'a [MemoryCell],
    /// Average interval of its samples.
    pub interval: u64,
}

/// Estimates before and after, and the two that their difference is taken from.
#[derive(Clone, Copy, Default)]
pub(super) struct Pair {
    pub(super) before: Estimate,
    pub(super) after: Estimate,
    pub(super) gone: Estimate,
    pub(super) new: Estimate,
}

impl MemoryDiff {
    /// The total and the rows that grew by more than `limit` (a fraction of the total before), worst first;
    /// the total before its rows. `clear_only`: only where the growth is more than chance.
    #[must_use]
    pub fn grown(&self, limit: f64, clear_only: bool) -> Vec<&GrowthRow> {
        let least = self.total.before.amount * limit;
        let too_much = |row: &&GrowthRow| {
            row.growth.amount > least && row.growth.amount > 0.0 && (!clear_only || row.growth.is_clear())
        };
        let mut rows: Vec<&GrowthRow> = self.rows.iter().filter(too_much).collect();
        rows.sort_by(|a, b| b.growth.amount.total_cmp(&a.growth.amount));
        Some(&self.total).into_iter().filter(too_much).chain(rows).collect()
    }
}

/// By the names of a site and of its object.
pub(super) type Rows = BTreeMap<(String, String), Pair>;

/// Two recordings, or two rows of cells that have nothing in common.
#[must_use]
pub fn between(before: Side<'_>, after: Side<'_>, by: By, measure: Measure) -> MemoryDiff {
    let mut rows = Rows::new();
    add(&mut rows, &before, (Some(by), Split::Merged), measure, |pair, estimate| {
        pair.before += estimate;
        pair.gone += estimate;
    });
    add(&mut rows, &after, (Some(by), Split::Merged), measure, |pair, estimate| {
        pair.after += estimate;
        pair.new += estimate;
    });
    finish(rows, (before.interval, after.interval), measure)
}

/// Two instants of one recording, in nanoseconds since its start: what was live.
#[must_use]
pub fn over_time(
    profile: &Profile,
    memory: &Memory,
    selection: &Selection,
    instants: (u64, u64),
    by: By,
) -> MemoryDiff {
    let (first, last) = instants;
    let mut rows = Rows::new();
    let mut count = |when: When, put: &dyn Fn(&mut Pair, Estimate)| {
        let cells = Selection { when, by: Measure::Live, ..selection.clone() }.cells(profile, memory);
        let side = Side { profile, cells: &cells, interval: memory.interval() };
        add(&mut rows, &side, (Some(by), Split::Merged), Measure::Live, put);
    };
    count(When::At(first), &|pair, estimate| pair.before += estimate);
    count(When::At(last), &|pair, estimate| pair.after += estimate);
    count(When::Only { at: first, not_at: last }, &|pair, estimate| pair.gone += estimate);
    count(When::Only { at: last, not_at: first }, &|pair, estimate| pair.new += estimate);
    finish(rows, (memory.interval(), memory.interval()), Measure::Live)
}

/// Puts the measure of each row of a side where `put` says.
pub(super) fn add(
    rows: &mut Rows,
    side: &Side<'_>,
    (by, split): (Option<By>, Split),
    measure: Measure,
    put: impl Fn(&mut Pair, Estimate),
) {
    let flat: Flat<Figures> = Flat::count_cells(side.profile, side.cells, by, split, Order::Own);
    for row in &flat.rows {
        let estimate = *row.own.estimate(measure);
        if !estimate.is_empty() {
            put(rows.entry(names(side.profile, row)).or_default(), estimate);
        }
    }
}

/// The names that rows are matched by.
pub(super) fn names(profile: &Profile, row: &Row<Figures>) -> (String, String) {
    let label = row.label.or(row.part);
    let object = label.and_then(|label| label.object(profile));
    (
        label.map(|label| label.name(profile)).unwrap_or_default(),
        object.map(|object| profile.objects[object].name().to_owned()).unwrap_or_default(),
    )
}

pub(super) fn finish(rows: Rows, (first, last): (u64, u64), measure: Measure) -> MemoryDiff {
    // A side without samples still has its limits: those of the interval at which it was looked at.
    let row = |(name, object): (String, String), pair: &Pair| {
        let unit = |interval: u64| match measure {
            Measure::Blocks => pair.before.unseen.max(pair.after.unseen),
            _ => float(interval),
        };
        let (before, after) = (Estimate::nothing(unit(first)), Estimate::nothing(unit(last)));
        GrowthRow {
            name,
            object,
            before: pair.before + before,
            after: pair.after + after,
            growth: Growth::between(&(pair.gone + before), &(pair.new + after)),
        }
    };
    let mut all = Pair::default();
    for pair in rows.values() {
        all.before += pair.before;
        all.after += pair.after;
        all.gone += pair.gone;
        all.new += pair.new;
    }
    let total = row((String::new(), String::new()), &all);
    let mut rows: Vec<GrowthRow> = rows.iter().map(|(names, pair)| row(names.clone(), pair)).collect();
    rows.sort_by(|a, b| {
        b.growth
            .is_clear()
            .cmp(&a.growth.is_clear())
            .then(b.growth.amount.abs().total_cmp(&a.growth.amount.abs()))
            .then_with(|| a.name.cmp(&b.name))
    });
    MemoryDiff { measure, rows, total }
}
