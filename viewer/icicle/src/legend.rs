//! What the colours of a picture mean: objects with their share, or changes in numbers.

use crate::colour::{self, Key, Rgb};
use crate::difference::Differences;
use crate::options::Options;
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
    let colours = Groups::in_tree(tree);
    let mut keys: Vec<Key> = Vec::new();
    let mut grey = 0;
    for &(group, weight) in &colours.ranked {
        let Some(colour) = colours.of_group(group) else {
            grey += 1;
            continue;
        };
        let percent = if colours.whole == 0 { 0.0 } else { weight as f64 * 100.0 / colours.whole as f64 };
        keys.push(Key { colour, label: format!("{} {percent:.1}%", tree.groups[group as usize]) });
    }
    if grey > 0 {
        keys.push(Key { colour: colour::GREY, label: format!("{grey} more") });
    }
    keys
}

/// The colour of each group. The heaviest have their own.
pub(crate) struct Groups {
    /// Groups by their own weight, the heaviest first.
    ranked: Vec<(u32, u64)>,
    /// Rank of each group.
    place: Vec<usize>,
    whole: u64,
}

impl Groups {
    pub(crate) fn in_tree(tree: &Tree) -> Groups {
        let mut weights = vec![0u64; tree.groups.len()];
        let mut whole = 0u64;
        for node in &tree.nodes {
            whole = whole.saturating_add(node.own);
            if let Some(group) = node.group {
                let weight = &mut weights[group as usize];
                *weight = weight.saturating_add(node.own);
            }
        }
        let mut places: HashMap<&str, usize> = HashMap::new();
        if let Some(known) = &tree.weights {
            whole = known.whole;
            let mut all: Vec<(&str, u64)> =
                known.of.iter().map(|(name, weight)| (name.as_str(), *weight)).collect();
            all.sort_by_key(|&(name, weight)| (Reverse(weight), name));
            let of: HashMap<&str, u64> = all.iter().copied().collect();
            places.extend(all.iter().enumerate().map(|(place, (name, _))| (*name, place)));
            for (weight, name) in weights.iter_mut().zip(&tree.groups) {
                *weight = of.get(&**name).copied().unwrap_or(0);
            }
        }
        let mut ranked: Vec<(u32, u64)> = (0..).zip(weights).collect();
        ranked.sort_by_key(|&(group, weight)| (Reverse(weight), group));
        let mut place = vec![0; ranked.len()];
        // Groups whose weight in the whole is unknown come after the others.
        let mut next = places.len();
        for (group, _) in &ranked {
            let known = places.get(&*tree.groups[*group as usize]).copied();
            place[*group as usize] = known.unwrap_or(next);
            next += usize::from(known.is_none());
        }
        Groups { ranked, place, whole }
    }

    /// The colour of a group, without the shades of names. `None`: its weight is too small for its own colour.
    fn of_group(&self, group: u32) -> Option<Rgb> {
        colour::of_rank(self.place[group as usize], "")
    }

    /// The colour of a frame of a group.
    pub(crate) fn of_frame(&self, group: u32, name: &str) -> Rgb {
        colour::of_rank(self.place[group as usize], name).unwrap_or(colour::GREY)
    }
}
