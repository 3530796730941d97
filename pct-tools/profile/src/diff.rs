//! Two profiles side by side, and which differences are more than chance.
//!
//! How sure a difference is, [`pct_num::significance`] says; [`Delta::is_clear`] asks for one in a thousand rows.
//!
//! Rows are matched by names, not ids: the two profiles may be of different builds.

use crate::flat::{Flat, Order, Row};
use crate::model::{Profile, Weight};
use crate::quantity::Quantity;
use pct_num::{CLEAR, Sampled};
use pct_num::{float, rounded};

/// What differs, in a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Delta {
    /// Name of the function (object, ...).
    pub name: String,
    /// Name of its object; empty where the row is no place in code.
    pub object: String,
    /// Weight before: own, or of all that is called, as [`Diff::order`] says.
    pub before: Weight,
    /// The same after; nanoseconds scaled by [`Diff::scale`].
    pub after: Weight,
    /// Standard deviations that the difference is away from none; 0 where both are 0.
    pub z: f64,
}

impl Delta {
    /// After minus before, nanoseconds of CPU time.
    #[must_use]
    pub fn change_ns(&self) -> i64 {
        let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        signed(self.after.cpu_ns()).saturating_sub(signed(self.before.cpu_ns()))
    }
    /// Is it more than chance, even for one row of a thousand?
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.z.abs() >= CLEAR
    }
}

/// What the two profiles are compared by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compare {
    /// CPU seconds as they are: for two runs of the same work.
    #[default]
    Seconds,
    /// Shares of the total: the second profile is scaled to the first one's total, for runs of different length.
    Shares,
}

/// The comparison, clear differences first, then by size.
#[derive(Clone, Debug, PartialEq)]
pub struct Diff {
    /// The rows of either profile.
    pub rows: Vec<Delta>,
    /// Total before.
    pub before: Weight,
    /// Total after, unscaled.
    pub after: Weight,
    /// What nanoseconds of the second profile were multiplied by.
    pub scale: f64,
    /// z of the totals.
    pub z: f64,
    /// Which weights of rows are compared.
    pub order: Order,
    /// What the weights of both profiles measure; weights are called nanoseconds here whatever they are.
    pub quantity: Quantity,
}

impl Diff {
    /// Compares two tables of the same kind, of profiles that measure the same [`Quantity`]: what functions spend
    /// themselves, or with all that they call, by the tables' order.
    #[must_use]
    pub fn compare(before: (&Profile, &Flat), after: (&Profile, &Flat), compare: Compare) -> Self {
        let scale = match compare {
            Compare::Seconds => 1.0,
            Compare::Shares if after.1.total.cpu_ns() == 0 => 1.0,
            Compare::Shares => float(before.1.total.cpu_ns()) / float(after.1.total.cpu_ns()),
        };
        let order = before.1.order;
        let weight = |row: &Row| if order == Order::Own { row.own } else { row.total };
        let mut rows: std::collections::BTreeMap<(String, String), (Weight, Weight)> = Default::default();
        for row in &before.1.rows {
            rows.entry(key(before.0, row)).or_default().0 += weight(row);
        }
        for row in &after.1.rows {
            let scaled = |ns: u64| rounded(float(ns) * scale);
            let found = weight(row);
            rows.entry(key(after.0, row)).or_default().1 += Weight {
                samples: found.samples,
                user_ns: scaled(found.user_ns),
                system_ns: scaled(found.system_ns),
            };
        }
        let mut rows: Vec<Delta> = rows
            .into_iter()
            .map(|((name, object), (before, after))| Delta {
                name,
                object,
                before,
                after,
                z: significance(before, after),
            })
            .collect();
        rows.sort_by(|a, b| {
            b.is_clear()
                .cmp(&a.is_clear())
                .then(b.change_ns().unsigned_abs().cmp(&a.change_ns().unsigned_abs()))
                .then_with(|| a.name.cmp(&b.name))
        });
        Self {
            rows,
            before: before.1.total,
            after: after.1.total,
            scale,
            z: significance(before.1.total, after.1.total),
            order,
            quantity: before.0.quantity.clone(),
        }
    }
}

/// What grew by too much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth<'d> {
    /// The row; `None`: the total.
    pub row: Option<&'d Delta>,
    /// By how much, in nanoseconds.
    pub ns: u64,
    /// The same as a fraction of the total before; infinite if that was 0.
    pub share: f64,
}

impl Diff {
    /// The total and the rows that grew by more than `limit` (a fraction of the total before), worst first;
    /// the total before its rows. `clear_only`: only where the growth is more than chance.
    #[must_use]
    pub fn grown(&self, limit: f64, clear_only: bool) -> Vec<Growth<'_>> {
        let whole = float(self.before.cpu_ns());
        let growth = |row, ns: u64| Growth {
            row,
            ns,
            share: if whole > 0.0 { float(ns) / whole } else { f64::INFINITY },
        };
        // By shares both totals are equal.
        let after = float(self.after.cpu_ns()) * self.scale;
        let grown = rounded((after - whole).min(9e18));
        let total = (grown > 0 && (!clear_only || self.z >= CLEAR)).then(|| growth(None, grown));
        let mut rows: Vec<Growth<'_>> = self
            .rows
            .iter()
            .filter(|row| row.change_ns() > 0 && (!clear_only || row.is_clear()))
            .map(|row| growth(Some(row), row.change_ns().unsigned_abs()))
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.ns));
        total.into_iter().chain(rows).filter(|growth| growth.share > limit).collect()
    }
}

fn key(profile: &Profile, row: &Row) -> (String, String) {
    let label = row.label.or(row.part);
    let object = label.and_then(|label| label.object(profile));
    (
        label.map(|label| label.name(profile)).unwrap_or_default(),
        object.map(|object| profile.objects[object].name().to_owned()).unwrap_or_default(),
    )
}

fn significance(before: Weight, after: Weight) -> f64 {
    let sampled = |w: Weight| Sampled { samples: w.samples, amount: float(w.cpu_ns()) };
    pct_num::significance(sampled(before), sampled(after))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::folded;
    use crate::tree::{By, Split};

    fn diff(before: &str, after: &str, compare: Compare) -> Diff {
        let flat =
            |p: &Profile| Flat::count_cells(p, &p.cells, Some(By::Function), Split::Merged, Order::Own);
        let (a, b) = (folded(before), folded(after));
        Diff::compare((&a, &flat(&a)), (&b, &flat(&b)), compare)
    }

    #[test]
    fn a_doubled_function_stands_out_and_noise_does_not() {
        let d = diff("main;a 1000\nmain;b 500", "main;a 2000\nmain;b 510\nmain;new 4", Compare::Seconds);
        let clear: Vec<&str> = d.rows.iter().filter(|r| r.is_clear()).map(|r| r.name.as_str()).collect();
        assert_eq!(clear, ["a"]);
        assert_eq!(d.rows[0].change_ns(), 1_000_000_000);
        assert!(d.rows.iter().any(|r| r.name == "new" && r.before.is_zero()));
    }

    #[test]
    fn shares_are_compared_at_the_first_total() {
        let d = diff("main;a 300\nmain;b 700", "main;a 600\nmain;b 1400", Compare::Shares);
        assert!(d.rows.iter().all(|row| row.change_ns() == 0), "{:?}", d.rows);
        assert!((d.scale - 0.5).abs() < 1e-9);
    }

    #[test]
    fn what_grew_over_a_limit_is_found_and_chance_is_not() {
        let d = diff("main;a 1000\nmain;b 1000", "main;a 1600\nmain;b 980\nmain;c 30", Compare::Seconds);
        let names = |limit, clear| -> Vec<String> {
            let name = |g: &Growth<'_>| g.row.map_or("total".to_owned(), |row| row.name.clone());
            d.grown(limit, clear).iter().map(name).collect()
        };
        assert_eq!(names(0.05, false), ["total", "a"]);
        assert_eq!(names(0.3, false), ["total"]);
        assert_eq!(names(0.001, true), ["total", "a", "c"]);
        let noise = diff("main;a 100", "main;a 110", Compare::Seconds);
        assert_eq!((noise.grown(0.05, false).len(), noise.grown(0.05, true).len()), (2, 0));
        // By shares a longer run is no growth.
        let longer = diff("main;a 100\nmain;b 100", "main;a 1000\nmain;b 1000", Compare::Shares);
        assert_eq!(longer.grown(0.0, false), []);
        assert_eq!(diff("", "main;a 5", Compare::Seconds).grown(0.5, false).len(), 2);
    }

    #[test]
    fn equal_profiles_have_no_z() {
        let d = diff("main;a 300", "main;a 300", Compare::Seconds);
        assert_eq!(d.z, 0.0);
        assert_eq!(diff("", "", Compare::Shares).rows, []);
    }
}
