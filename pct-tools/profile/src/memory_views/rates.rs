//! Two looks at recordings that grow: what is live, how fast it grows, how much is allocated in between, by site.
//!
//! The table of live blocks says what is there, and not what was there before. So the growth between two looks is
//! taken from the blocks that are in one of them alone. Blocks that are in both cancel exactly, unless the sampler
//! has thinned its table in between: then both sides are estimates of their own.

use super::cells::Selection;
use super::growth::{GrowthRow, Rows, Side, add, finish, names};
use crate::flat::{Flat, Order};
use crate::memory::{Block, Figures, Measure, Memory};
use crate::model::{ProcessId, Profile};
use crate::tree::{By, Split};
use pct_num::{Estimate, float};
use rustc_hash::{FxHashMap, FxHashSet};

/// A site at two looks.
#[derive(Clone, PartialEq, Debug)]
pub struct RateRow {
    /// What is live, before and after.
    pub live: GrowthRow,
    /// Octets allocated in between.
    pub allocated: Estimate,
}

/// What happened between two looks.
#[derive(Clone, PartialEq, Debug)]
pub struct Rates {
    /// By site, in no order.
    pub rows: Vec<RateRow>,
    /// The sum over all sites.
    pub total: RateRow,
}

/// Which process a block belongs to at every look: files of one process have the same pid and name.
type Owner<'p> = (u32, &'p str);

fn owner(profile: &Profile, process: ProcessId) -> Owner<'_> {
    let process = &profile.processes[process];
    (process.pid, process.file.as_str())
}

/// Compares the looks `before` and `after` at the same recordings. `by` is what a row stands for, or processes.
#[must_use]
pub fn between_looks(
    before: &Profile,
    after: &Profile,
    selection: &Selection,
    by: Option<By>,
    split: Split,
) -> Rates {
    let selection = Selection { by: Measure::Live, ..selection.clone() };
    let thinned = thinned_between(before, after);
    let gone = Memory { blocks: only_in(before, after, &thinned), ..Memory::default() };
    let new = Memory { blocks: only_in(after, before, &thinned), ..Memory::default() };
    let mut rows = Rows::new();
    let mut count = |profile: &Profile, memory: &Memory, put: &dyn Fn(&mut super::growth::Pair, Estimate)| {
        let cells = selection.cells(profile, memory);
        let side = Side { profile, cells: &cells, interval: after.memory.interval() };
        add(&mut rows, &side, (by, split), Measure::Live, put);
    };
    count(before, &before.memory, &|pair, estimate| pair.before += estimate);
    count(after, &after.memory, &|pair, estimate| pair.after += estimate);
    count(before, &gone, &|pair, estimate| pair.gone += estimate);
    count(after, &new, &|pair, estimate| pair.new += estimate);
    // A site of which nothing is live may allocate all the same.
    let allocated = allocated_between(before, after, &selection, (by, split));
    for names in allocated.keys() {
        rows.entry(names.clone()).or_default();
    }
    let diff = finish(rows, (before.memory.interval(), after.memory.interval()), Measure::Live);
    let nothing = Estimate::nothing(float(after.memory.interval()));
    let mut all = nothing;
    let rows = diff
        .rows
        .into_iter()
        .map(|live| {
            let names = (live.name.clone(), live.object.clone());
            let allocated = allocated.get(&names).map_or(nothing, |sum| *sum + nothing);
            all += allocated;
            RateRow { live, allocated }
        })
        .collect();
    Rates { rows, total: RateRow { live: diff.total, allocated: all } }
}

/// Processes whose table was thinned between the looks: what is missing afterwards was not freed.
fn thinned_between<'p>(before: &Profile, after: &'p Profile) -> FxHashSet<Owner<'p>> {
    let thinnings: FxHashMap<Owner<'_>, u64> = before
        .memory
        .processes
        .iter()
        .map(|process| (owner(before, process.process), process.thinnings))
        .collect();
    let changed = after.memory.processes.iter().filter(|process| {
        thinnings.get(&owner(after, process.process)).is_some_and(|&then| then != process.thinnings)
    });
    changed.map(|process| owner(after, process.process)).collect()
}

/// The live blocks of a look that the other one has not.
fn only_in(this: &Profile, other: &Profile, thinned: &FxHashSet<Owner<'_>>) -> Vec<Block> {
    let live = |block: &&Block| block.freed_ns.is_none();
    let there: FxHashSet<(Owner<'_>, (u64, u64))> = other
        .memory
        .blocks
        .iter()
        .filter(live)
        .map(|block| (owner(other, block.process), block.identity))
        .collect();
    let mut blocks: Vec<Block> = this
        .memory
        .blocks
        .iter()
        .filter(live)
        .filter(|block| {
            let owner = owner(this, block.process);
            thinned.contains(&owner) || !there.contains(&(owner, block.identity))
        })
        .copied()
        .collect();
    for block in &mut blocks {
        // Only what is live is asked for.
        block.at_peak = false;
    }
    blocks
}

/// What each row allocated between the looks: sums only grow.
fn allocated_between(
    before: &Profile,
    after: &Profile,
    selection: &Selection,
    by: (Option<By>, Split),
) -> FxHashMap<(String, String), Estimate> {
    let sums = |profile: &Profile| {
        let memory = Memory { sums: profile.memory.sums.clone(), ..Memory::default() };
        let cells = selection.cells(profile, &memory);
        let flat: Flat<Figures> = Flat::count_cells(profile, &cells, by.0, by.1, Order::Own);
        let mut rows: FxHashMap<(String, String), Estimate> = FxHashMap::default();
        for row in &flat.rows {
            *rows.entry(names(profile, row)).or_default() += row.own.allocated.bytes;
        }
        rows
    };
    let then = sums(before);
    let mut now = sums(after);
    for (names, sum) in &mut now {
        if let Some(then) = then.get(names) {
            *sum = sum.since(then);
        }
    }
    now.retain(|_, sum| !sum.is_empty());
    now
}
