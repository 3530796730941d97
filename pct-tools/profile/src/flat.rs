//! The flat table: how much of the time is spent *in* each function (object, line, address, thread, process), and
//! how much *under* it.
//!
//! Under a function means: somewhere on the stack; a sample in a recursion counts once. That is found in one
//! depth-first walk of the stacks with a counter per function of how often it is on the current path.

use crate::fold::{Owners, Whose, add_own_work};
use crate::model::{Cell, Id, Profile, StackId, Weight};
use crate::tree::{Amount, By, Label, Labels, Measured, Split, for_each_part, used_stacks};
use rustc_hash::FxHashMap;

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<W = Weight> {
    /// The process or thread that it is about, when the table is split.
    pub part: Option<Label>,
    /// What it is about; `None` when the table is only split.
    pub label: Option<Label>,
    /// Measured right there.
    pub own: W,
    /// Measured there or in what it called.
    pub total: W,
    /// Its own CPU time, if the table is weighed by something else ([`Flat::beside`]).
    pub cpu: Option<Weight>,
}

/// The table, heaviest row first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flat<W = Weight> {
    /// The rows.
    pub rows: Vec<Row<W>>,
    /// Sum of all rows' own weights.
    pub total: W,
    /// What rows are ordered by.
    pub order: Order,
    /// By row, where rows are owners: what of its own it spent in functions that it called, the heaviest first. Else
    /// empty.
    pub callees: Vec<Vec<(Label, W)>>,
}

/// How rows are ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// By what is spent in them.
    #[default]
    Own,
    /// By what is spent in and under them.
    Total,
}

impl<W: Amount> Flat<W> {
    /// Counts the cells. `by` = `None` gives one row per part.
    #[must_use]
    pub fn count_cells<C: Measured<Amount = W>>(
        profile: &Profile,
        cells: &[C],
        by: Option<By>,
        split: Split,
        order: Order,
    ) -> Self {
        let mut rows = Vec::new();
        let labels = Labels::from_profile(profile, by.unwrap_or_default());
        let callees = Callees::from_profile(profile);
        for_each_part(profile, cells, split, |part, stacks| match by {
            None => {
                let own = stacks.iter().copied().sum();
                rows.push(Row { part, label: None, own, total: own, cpu: None });
            }
            Some(_) => {
                let sums = sums(profile, stacks, &labels, &callees);
                rows.extend(sums.into_iter().map(|(label, (own, total))| Row {
                    part,
                    label: Some(label),
                    own,
                    total,
                    cpu: None,
                }));
            }
        });
        // What is only on the way to where time is spent has no place in a ranking by own time.
        if order == Order::Own {
            rows.retain(|row: &Row<W>| !row.own.is_nothing());
        }
        let key = |row: &Row<W>| match order {
            Order::Own => (row.own.heaviness(), row.total.heaviness().0),
            Order::Total => (row.total.heaviness(), row.own.heaviness().0),
        };
        // Names only where numbers do not decide, so that equal profiles give equal tables.
        rows.sort_by(|a, b| {
            key(b).cmp(&key(a)).then_with(|| {
                let names = match (a.label, b.label) {
                    (Some(a), Some(b)) => a.cmp_names(b, profile),
                    (a, b) => a.is_some().cmp(&b.is_some()),
                };
                names.then(a.part.cmp(&b.part)).then(a.label.cmp(&b.label))
            })
        });
        Self { total: rows.iter().map(|row| row.own).sum(), rows, order, callees: Vec::new() }
    }
}

impl Flat {
    /// Counts the cells by owners ([`Owners`]), or by what these called. Adds to the profile the stacks that stand for
    /// what runtimes do for themselves.
    #[must_use]
    pub fn count_owners(
        profile: &mut Profile,
        cells: &[Cell],
        whose: Whose,
        split: Split,
        order: Order,
    ) -> Self {
        add_own_work(profile, cells);
        Self::count_found(profile, &Owners::from_profile(profile), cells, whose, split, order)
    }

    /// [`Flat::count_owners`] in a profile that has the rows of runtimes' own work, by owners that were found before.
    #[must_use]
    pub fn count_found(
        profile: &Profile,
        owners: &Owners,
        cells: &[Cell],
        whose: Whose,
        split: Split,
        order: Order,
    ) -> Self {
        let cells = owners.with_own_work(profile, cells);
        let given = owners.give(&cells, whose);
        let mut flat = Self::count_cells(profile, &given, Some(By::Function), split, order);
        if whose == Whose::Owner {
            flat.callees = callees_of_rows(profile, &flat.rows, &cells, owners, split);
        }
        flat
    }

    /// How many rows, from the first one on, are worth a glance.
    #[must_use]
    pub fn rows_worth_a_glance(&self) -> usize {
        let least = (self.total.cpu_ns() / WORTH_A_ROW).max(1);
        self.rows.iter().take_while(|row| row.own.cpu_ns() >= least).count()
    }

    /// What an owner's row called that took more than a tenth of its time, and a hundredth of all.
    pub fn callees_worth_a_line(&self, at: usize) -> impl Iterator<Item = &(Label, Weight)> {
        let own = self.rows.get(at).map_or(0, |row| row.own.cpu_ns());
        let least = (own / 10).max(self.total.cpu_ns() / 100);
        self.callees.get(at).into_iter().flatten().take_while(move |(_, weight)| weight.cpu_ns() > least)
    }

    /// Gives each row the CPU time that the same row has in `cpu`, a table of the same kind over the cells as measured.
    #[must_use]
    pub fn beside(mut self, cpu: &Flat) -> Self {
        let own: FxHashMap<_, Weight> = cpu.rows.iter().map(|row| ((row.part, row.label), row.own)).collect();
        for row in &mut self.rows {
            row.cpu = Some(own.get(&(row.part, row.label)).copied().unwrap_or_default());
        }
        self
    }
}

/// A row below this part of the total, one in so many, has no place in a table that is to be read at a glance.
const WORTH_A_ROW: u64 = 200;

/// For each row what its function spent in those that it called.
fn callees_of_rows(
    profile: &Profile,
    rows: &[Row],
    cells: &[Cell],
    owners: &Owners,
    split: Split,
) -> Vec<Vec<(Label, Weight)>> {
    type Key = (Option<Label>, Option<Label>);
    let mut sums: FxHashMap<Key, FxHashMap<Label, Weight>> = FxHashMap::default();
    for_each_part(profile, cells, split, |part, stacks| {
        for (id, weight) in profile.stacks.ids().zip(stacks).filter(|(_, weight)| !weight.is_nothing()) {
            let owned = owners.of_stack(id);
            if let Some(callee) = owned.callee {
                let row = (part, Some(Label::Function(profile.leaf(owned.owner))));
                *sums.entry(row).or_default().entry(Owners::callee_label(profile, callee)).or_default() +=
                    *weight;
            }
        }
    });
    let callees = |row: &Row| {
        let of_row = sums.remove(&(row.part, row.label)).unwrap_or_default();
        let mut of_row: Vec<(Label, Weight)> = of_row.into_iter().collect();
        of_row.sort_by(|(a, x), (b, y)| {
            y.heaviness().cmp(&x.heaviness()).then_with(|| a.cmp_names(*b, profile)).then(a.cmp(b))
        });
        of_row
    };
    rows.iter().map(callees).collect()
}

fn sums<W: Amount>(
    profile: &Profile,
    stacks: &[W],
    labels: &Labels,
    callees: &Callees,
) -> FxHashMap<Label, (W, W)> {
    let mut sums: FxHashMap<Label, (W, W)> = FxHashMap::default();
    let used = used_stacks(profile, stacks);
    // Weight at and below each stack.
    let mut below = stacks.to_vec();
    for (id, node) in profile.stacks.enumerate().rev() {
        if let Some(parent) = node.parent.filter(|_| used[id.index()]) {
            let weight = below[id.index()];
            below[parent.index()] += weight;
        }
    }
    let label = |stack: StackId| labels.of_frame(profile.stacks[stack].frame);
    let mut on_path: FxHashMap<Label, u32> = FxHashMap::default();
    enum Visit {
        Enter(StackId),
        Leave(Label),
    }
    let mut pending: Vec<Visit> =
        callees.roots.iter().rev().filter(|id| used[id.index()]).map(|&id| Visit::Enter(id)).collect();
    while let Some(step) = pending.pop() {
        match step {
            Visit::Leave(label) => {
                if let Some(count) = on_path.get_mut(&label) {
                    *count -= 1;
                }
            }
            Visit::Enter(id) => {
                let label = label(id);
                let sum = sums.entry(label).or_default();
                sum.0 += stacks[id.index()];
                let count = on_path.entry(label).or_default();
                if *count == 0 {
                    sum.1 += below[id.index()];
                }
                *count += 1;
                pending.push(Visit::Leave(label));
                pending.extend(
                    callees.of_stack(id).iter().filter(|c| used[c.index()]).map(|&c| Visit::Enter(c)),
                );
            }
        }
    }
    sums
}

/// The stacks that each stack is the parent of.
struct Callees {
    roots: Vec<StackId>,
    first: Vec<u32>,
    all: Vec<StackId>,
}

impl Callees {
    fn from_profile(profile: &Profile) -> Self {
        let n = profile.stacks.len();
        let mut first = vec![0_u32; n + 1];
        let mut roots = Vec::new();
        for (id, node) in profile.stacks.enumerate() {
            match node.parent {
                Some(parent) => first[parent.index() + 1] += 1,
                None => roots.push(id),
            }
        }
        for at in 0..n {
            first[at + 1] += first[at];
        }
        let mut next = first.clone();
        let mut all = vec![StackId::from_index(0); n - roots.len()];
        for (id, node) in profile.stacks.enumerate() {
            if let Some(parent) = node.parent {
                let at = &mut next[parent.index()];
                all[*at as usize] = id;
                *at += 1;
            }
        }
        Self { roots, first, all }
    }
    fn of_stack(&self, id: StackId) -> &[StackId] {
        &self.all[self.first[id.index()] as usize..self.first[id.index() + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::folded;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn lines(profile: &Profile, flat: &Flat) -> Vec<String> {
        let line = |row: &Row| {
            let name = row.label.map(|label| label.name(profile)).unwrap_or_default();
            format!("{name} {}/{}", row.own.samples, row.total.samples)
        };
        flat.rows.iter().map(line).collect()
    }

    #[test]
    fn own_time_ranks_and_inclusive_time_counts_recursion_once() {
        let p = folded("main;f;f;f 3\nmain;f;g;f 2\nmain;g 4");
        let flat = Flat::count_cells(&p, &p.cells, Some(By::Function), Split::Merged, Order::Own);
        assert_eq!(lines(&p, &flat), ["f 5/5", "g 4/6"]);
        assert_eq!(flat.total.samples, 9);
        let flat = Flat::count_cells(&p, &p.cells, Some(By::Function), Split::Merged, Order::Total);
        assert_eq!(lines(&p, &flat), ["main 0/9", "g 4/6", "f 5/5"]);
        let flat = Flat::count_cells(&p, &p.cells, None, Split::Thread, Order::Own);
        assert_eq!(lines(&p, &flat), [" 9/9"]);
        assert!(flat.rows[0].part.is_some());
    }

    #[test]
    fn nothing_gives_an_empty_table() {
        let p = folded("");
        assert_eq!(
            Flat::count_cells(&p, &p.cells, Some(By::Function), Split::Merged, Order::Own),
            Flat::default()
        );
    }

    proptest! {
        #[test]
        fn sums_agree_with_the_naive_twin(stacks in proptest::collection::vec(
            (proptest::collection::vec(0_u8..5, 1..10), 1_u64..9), 1..30)) {
            let text: String = stacks.iter().map(|(frames, n)| {
                let names: Vec<String> = frames.iter().map(|f| format!("f{f}")).collect();
                format!("{} {n}\n", names.join(";"))
            }).collect();
            let p = folded(&text);
            let mut naive: BTreeMap<String, (u64, u64)> = BTreeMap::new();
            for (frames, n) in &stacks {
                naive.entry(format!("f{}", frames.last().unwrap())).or_default().0 += n;
                for f in frames.iter().collect::<BTreeSet<_>>() {
                    naive.entry(format!("f{f}")).or_default().1 += n;
                }
            }
            let flat = Flat::count_cells(&p, &p.cells, Some(By::Function), Split::Merged, Order::Total);
            let got: BTreeMap<String, (u64, u64)> = flat.rows.iter().map(|row| {
                (row.label.unwrap().name(&p), (row.own.samples, row.total.samples))
            }).collect();
            prop_assert_eq!(got, naive);
        }
    }
}
