//! Flame graphs of a profile, by pct-icicle.

pub mod memory;

use pct_icicle::{GroupWeights, Hint, Palette, Tree};
use pct_profile::model::{Cell, Profile};
use pct_profile::tree::NodeId;
use pct_profile::{By, CallTree, Quantity, Split, Unit};
use rustc_hash::FxHashMap;

/// The call tree as a tree of weighted names. Weights are in the [`unit()`] of the profile. With `reverse`, hot
/// functions are at the root.
pub fn tree(profile: &Profile, cells: &[Cell], split: Split, reverse: bool) -> Tree {
    let calls = if reverse {
        CallTree::bottom_up(profile, cells, By::Function, split)
    } else {
        CallTree::top_down(profile, cells, By::Function, split)
    };
    let mut tree = Tree::new("all");
    tree.set_palette(Palette::from_weights(&groups(profile)));
    add(&mut tree, profile, &calls, |tree, id, weight| tree.add(id, weight));
    tree
}

/// The difference between two profiles of one program. `base` is the older one.
pub fn difference(profile: (&Profile, &[Cell]), base: (&Profile, &[Cell])) -> Tree {
    let mut tree = Tree::new("all");
    let of = |(p, cells)| CallTree::top_down(p, cells, By::Function, Split::Merged);
    add(&mut tree, base.0, &of(base), |tree, id, weight| tree.add_base(id, weight));
    add(&mut tree, profile.0, &of(profile), |tree, id, weight| tree.add(id, weight));
    tree
}

/// What the weights of a profile's flame graph are: microseconds of time, and what is no time as it is.
pub fn unit(profile: &Profile) -> String {
    match &profile.quantity {
        Quantity::Processor => "us of CPU time".into(),
        Quantity::Foreign { name, unit: Unit::Time } => format!("us of {name}"),
        Quantity::Foreign { name, unit: Unit::Count } => name.clone(),
        Quantity::Foreign { name, unit } => format!("{} of {name}", unit.as_word()).trim_start().to_owned(),
    }
}

/// The weight of each group of functions in the whole profile, whichever part of it is shown: it decides the colours.
pub fn groups(profile: &Profile) -> GroupWeights {
    let mut of: FxHashMap<&str, u64> = FxHashMap::default();
    for cell in &profile.cells {
        *of.entry(profile.group(profile.leaf(cell.stack))).or_default() += cell.weight.cpu_ns();
    }
    let whole = of.values().sum();
    GroupWeights { whole, of: of.into_iter().map(|(name, weight)| (name.to_owned(), weight)).collect() }
}

fn add(
    tree: &mut Tree,
    profile: &Profile,
    calls: &CallTree,
    mut weigh: impl FnMut(&mut Tree, pct_icicle::NodeId, u64),
) {
    let weight = |ns: u64| if profile.quantity.is_time() { ns.saturating_add(500) / 1000 } else { ns };
    let mut pending: Vec<(NodeId, pct_icicle::NodeId)> =
        calls.roots.iter().rev().map(|r| (*r, tree.root())).collect();
    while let Some((id, parent)) = pending.pop() {
        let node = &calls.nodes[id];
        let at = tree.child(parent, &node.label.name(profile));
        match node.label.function(profile) {
            Some(function) => tree.set_group(at, profile.group(function)),
            None => tree.set_hint(at, Hint::Other),
        }
        weigh(tree, at, weight(node.ends.cpu_ns()));
        pending.extend(calls.children(id).iter().rev().map(|c| (*c, at)));
    }
}
