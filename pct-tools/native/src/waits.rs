//! What the threads of a recording waited for, for the pages of the viewer.

use crate::facts::{Branch, Trie};
use crate::graph::Proc;
use pct_deep::waited::{WaitFacts, WaitStack, WaitTable, WaitedFacts};
use pct_deep::{Id as _, PsId};
use pct_profile::Profile;
use pct_profile::model::{FunctionId, Id as _};
use pct_profile::text::wait_digest::{WaitedRow, digest, waited_rows};
use pct_profile::wait_views::WaitsShown;

/// Objects that are listed; the rest is counted.
const MOST_ROWS: usize = 100;
/// Nodes of the tree of stacks that are kept; small branches beyond are counted.
const MOST_STACKS: usize = 6000;

/// What is known of the waits of a profile; `procs` are the procedures of the deep profile in the order of their ids.
#[must_use]
pub fn waits(profile: &Profile, procs: &[Proc]) -> Option<WaitFacts> {
    if profile.waits.is_empty() {
        return None;
    }
    Some(WaitFacts {
        locks: table(profile, procs, WaitsShown::Locks),
        work: table(profile, procs, WaitsShown::Work),
        work_in_words: digest(profile, &profile.waits, 0).work,
    })
}

/// The waits of one kind.
fn table(profile: &Profile, procs: &[Proc], shown: WaitsShown) -> WaitTable {
    let found = waited_rows(profile, &profile.waits, shown, MOST_ROWS);
    let (stacks, stacks_left_out) = stacks(profile, procs, shown);
    let row = |row: WaitedRow| WaitedFacts {
        ns: row.ns,
        waits: row.waits,
        what: row.what,
        waited_in: row.waited_in,
        by: row.by,
    };
    WaitTable {
        ns: found.ns,
        waits: found.waits,
        rows: found.rows.into_iter().map(row).collect(),
        rows_beyond: found.more as u64,
        stacks,
        stacks_left_out,
    }
}

/// The stacks that waited.
fn stacks(profile: &Profile, procs: &[Proc], shown: WaitsShown) -> (Vec<WaitStack>, usize) {
    let mut number_of = vec![0; profile.functions.len()];
    for (at, proc) in procs.iter().enumerate() {
        if let Proc::Function(function) = proc {
            number_of[function.index()] = PsId::at(at).number();
        }
    }
    let mut weights = vec![(0, 0); profile.stacks.len()];
    for cell in shown.cells(&profile.waits) {
        let weight = &mut weights[cell.stack.index()];
        weight.0 += cell.weight.samples;
        weight.1 += cell.weight.cpu_ns();
    }
    let (tree, left_out) = Trie::new(profile, &weights).tree(MOST_STACKS);
    let node = |branch: Branch| {
        let id = FunctionId::from_index(branch.function);
        let function = &profile.functions[id];
        WaitStack {
            parent: branch.parent,
            ps: number_of[branch.function],
            name: function.name.clone(),
            group: profile.group(id).to_owned(),
            total_ns: branch.total_ns,
        }
    };
    (tree.into_iter().map(node).collect(), left_out)
}
