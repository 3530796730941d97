//! Flame graphs of memory. Widths are octets (or blocks) that were allocated in a stack, in green, each with its
//! interval.

use pct_icicle::{Hint, Tree};
use pct_num::round_to_sum;
use pct_profile::memory::{Figures, Measure, MemoryCell};
use pct_profile::model::{Id as _, Profile};
use pct_profile::text::memory_words::{interval, interval_of_count};
use pct_profile::tree::NodeId;
use pct_profile::{By, CallTree, Split};

/// The tree of a measure. Weights are octets or blocks. With `reverse`, allocating functions are at the root.
pub fn tree(profile: &Profile, cells: &[MemoryCell], measure: Measure, split: Split, reverse: bool) -> Tree {
    let calls = if reverse {
        CallTree::bottom_up(profile, cells, By::Function, split)
    } else {
        CallTree::top_down(profile, cells, By::Function, split)
    };
    let mut tree = Tree::new("all");
    add(&mut tree, profile, &calls, measure, |tree, id, weight| tree.add(id, weight), true);
    tree
}

/// The difference between two recordings of one program. `base` is the older one.
pub fn difference(
    profile: (&Profile, &[MemoryCell]),
    base: (&Profile, &[MemoryCell]),
    measure: Measure,
) -> Tree {
    let mut tree = Tree::new("all");
    let of = |(p, cells)| CallTree::top_down(p, cells, By::Function, Split::Merged);
    add(&mut tree, base.0, &of(base), measure, |tree, id, weight| tree.add_base(id, weight), false);
    add(&mut tree, profile.0, &of(profile), measure, |tree, id, weight| tree.add(id, weight), false);
    tree
}

fn add(
    tree: &mut Tree,
    profile: &Profile,
    calls: &CallTree<Figures>,
    measure: Measure,
    mut weigh: impl FnMut(&mut Tree, pct_icicle::NodeId, u64),
    with_intervals: bool,
) {
    // Whole numbers that add up to the estimate of the whole.
    let ends: Vec<f64> = calls.nodes.iter().map(|node| node.ends.estimate(measure).amount).collect();
    let weights = round_to_sum(&ends);
    let mut pending: Vec<(NodeId, pct_icicle::NodeId)> =
        calls.roots.iter().rev().map(|root| (*root, tree.root())).collect();
    while let Some((id, parent)) = pending.pop() {
        let node = &calls.nodes[id];
        let estimate = node.total.estimate(measure);
        if estimate.is_empty() {
            continue;
        }
        let at = tree.child(parent, &node.label.name(profile));
        tree.set_hint(at, if node.label.function(profile).is_some() { Hint::Memory } else { Hint::Other });
        if with_intervals {
            let limits =
                if measure == Measure::Blocks { interval_of_count(estimate) } else { interval(estimate) };
            tree.set_detail(at, &format!("95 %: {limits}"));
        }
        weigh(tree, at, weights[id.index()]);
        pending.extend(calls.children(id).iter().rev().map(|child| (*child, at)));
    }
}
