//! Two profiles of one program in one tree: each node's old and new cost, and the colour of the change.
//!
//! One cost is chosen ([`DiffBy`]): the tooltip shows it and the colour is of it. Colours are relative to the largest
//! change in the tree, which the legend gives in numbers.

use crate::colour::{self, Key, Rgb};
use crate::layout::DiffBy;
use crate::options::Options;
use crate::tree::Tree;

/// The costs of all nodes in both profiles.
pub(crate) struct Differences<'a> {
    options: &'a Options,
    by: DiffBy,
    /// Whole subtrees, now and before.
    totals: (&'a [u64], &'a [u64]),
    /// The chosen cost, now and before.
    chosen: Vec<(u64, u64)>,
    /// The total that the chosen cost is a share of, now and before.
    whole: (f64, f64),
    largest: f64,
}

impl<'a> Differences<'a> {
    pub(crate) fn new(
        tree: &Tree,
        totals: (&'a [u64], &'a [u64]),
        by: DiffBy,
        options: &'a Options,
    ) -> Differences<'a> {
        let chosen: Vec<(u64, u64)> = (0..totals.0.len())
            .map(|i| match by {
                DiffBy::Total => (totals.0[i], totals.1[i]),
                DiffBy::Own => (tree.nodes[i].own, tree.nodes[i].base),
            })
            .collect();
        let whole = match options.normalize {
            true => ((totals.0[0] as f64).max(1.0), (totals.1[0] as f64).max(1.0)),
            false => (1.0, 1.0),
        };
        let mut all = Differences { options, by, totals, chosen, whole, largest: 0.0 };
        all.largest = (0..all.chosen.len()).map(|i| all.change(i).abs()).fold(0.0, f64::max);
        all
    }

    /// The increase of a node's cost: a weight, or a share of the total.
    fn change(&self, node: usize) -> f64 {
        let (now, before) = self.chosen[node];
        now as f64 / self.whole.0 - before as f64 / self.whole.1
    }

    pub(crate) fn colour(&self, node: usize) -> Rgb {
        colour::difference(if self.largest == 0.0 { 0.0 } else { self.change(node) / self.largest })
    }

    /// Whether only one of the two profiles contains the node.
    pub(crate) fn is_in_one(&self, node: usize) -> bool {
        (self.totals.0[node] == 0) != (self.totals.1[node] == 0)
    }

    /// A change with its sign and unit.
    fn signed(&self, change: f64) -> String {
        if self.options.normalize {
            return format!("{:+.2}% of all", change * 100.0);
        }
        let sign = match change {
            c if c > 0.0 => "+",
            c if c < 0.0 => "-",
            _ => "",
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a weight without its sign"
        )]
        let weight = change.abs().round() as u64;
        format!("{sign}{}", self.amount(weight))
    }

    fn amount(&self, weight: u64) -> String {
        let text = (self.options.weight)(weight);
        if self.options.unit.is_empty() { text } else { format!("{text} {}", self.options.unit) }
    }

    /// The tooltip's text about a node.
    pub(crate) fn words(&self, node: usize) -> String {
        let (now, before) = self.chosen[node];
        let mut out = match self.by {
            DiffBy::Total => String::new(),
            DiffBy::Own => format!("{} with all below; itself ", self.amount(self.totals.0[node])),
        };
        out.push_str(&match self.options.normalize {
            true => format!(
                "{}, {:.2}%, before {:.2}%: {}",
                self.amount(now),
                now as f64 * 100.0 / self.whole.0,
                before as f64 * 100.0 / self.whole.1,
                self.signed(self.change(node))
            ),
            false => format!(
                "{}, before {}: {}",
                self.amount(now),
                self.amount(before),
                self.signed(self.change(node))
            ),
        });
        if !self.options.normalize && now > 0 && before > 0 {
            out.push_str(&format!(", {:+.1}%", (now as f64 / before as f64 - 1.0) * 100.0));
        }
        match (self.totals.0[node], self.totals.1[node]) {
            (0, b) if b > 0 => out.push_str("; only before"),
            (a, 0) if a > 0 => out.push_str("; only now"),
            _ => {}
        }
        out
    }

    /// The colours of some changes.
    pub(crate) fn keys(&self) -> Vec<Key> {
        if self.largest == 0.0 {
            return vec![Key { colour: Some(colour::difference(0.0)), label: "no change".to_owned() }];
        }
        [-1.0, -0.25, 0.0, 0.25, 1.0]
            .into_iter()
            .map(|x| Key {
                colour: Some(colour::difference(x)),
                label: if x == 0.0 { "no change".to_owned() } else { self.signed(x * self.largest) },
            })
            .collect()
    }
}
