//! What the colours of a picture mean: objects with their share, or changes in numbers.

use crate::colour::{Key, Rgb};
use crate::difference::Differences;
use crate::options::Options;
use crate::palette::{GroupWeights, Palette};
use crate::tree::Tree;
use std::cmp::Reverse;
use std::collections::HashMap;

/// The colours of a picture, the heaviest first. Empty: colours only depend on the frames' names.
#[must_use]
pub fn legend(tree: &Tree, options: &Options) -> Vec<Key> {
    if let Some(by) = options.diff {
        let (totals, bases) = tree.totals();
        return Differences::new(tree, (&totals, &bases), by, options).keys();
    }
    let groups = Groups::in_tree(tree);
    let percent =
        |weight: u64| if groups.whole == 0 { 0.0 } else { weight as f64 * 100.0 / groups.whole as f64 };
    let (named, others) = groups.ranked.split_at(groups.ranked.len().min(MOST_NAMED));
    let mut keys: Vec<Key> = Vec::with_capacity(named.len() + 1);
    for &(group, weight) in named {
        let name = &tree.groups[group as usize];
        let label = format!("{name} {:.1}%", percent(weight));
        keys.push(Key { colour: Some(groups.palette.of_group(name)), label });
    }
    if !others.is_empty() {
        let weight = others.iter().fold(0, |sum: u64, (_, weight)| sum.saturating_add(*weight));
        keys.push(Key { colour: None, label: format!("{} more {:.1}%", others.len(), percent(weight)) });
    }
    keys
}

/// Most groups that a legend names.
const MOST_NAMED: usize = 8;

/// The groups of a picture with their weights and colours.
pub(crate) struct Groups {
    /// Groups by their own weight, the heaviest first.
    ranked: Vec<(u32, u64)>,
    whole: u64,
    palette: Palette,
}

impl Groups {
    pub(crate) fn in_tree(tree: &Tree) -> Groups {
        let (whole, weights) = match &tree.weights {
            Some(known) => {
                let of: HashMap<&str, u64> =
                    known.of.iter().map(|(name, weight)| (name.as_str(), *weight)).collect();
                let weight = |name: &str| of.get(name).copied().unwrap_or(0);
                (known.whole, tree.groups.iter().map(|name| weight(name)).collect())
            }
            None => own_weights(tree),
        };
        let palette = tree.palette.clone().unwrap_or_else(|| {
            let of = tree.groups.iter().map(|name| name.to_string()).zip(weights.iter().copied());
            Palette::from_weights(&GroupWeights { whole, of: of.collect() })
        });
        let mut ranked: Vec<(u32, u64)> = (0..).zip(weights).collect();
        ranked.sort_by_key(|&(group, weight)| (Reverse(weight), group));
        Groups { ranked, whole, palette }
    }

    /// The colour of a frame of a group.
    pub(crate) fn of_frame(&self, group: &str, name: &str) -> Rgb {
        self.palette.of_function(group, name)
    }
}

/// The weight of all nodes, and of those in each group.
fn own_weights(tree: &Tree) -> (u64, Vec<u64>) {
    let mut weights = vec![0u64; tree.groups.len()];
    let mut whole = 0u64;
    for node in &tree.nodes {
        whole = whole.saturating_add(node.own);
        if let Some(group) = node.group {
            let weight = &mut weights[group as usize];
            *weight = weight.saturating_add(node.own);
        }
    }
    (whole, weights)
}
