//! Folded stacks: one line a stack, outermost function first, and how many samples it has.
//!
//! The format has no unit, and everybody who reads it takes the counts for samples.

use pct_profile::model::{Cell, Profile};
use pct_profile::text::table::tame;
use pct_profile::{By, CallTree, Split};
use std::fmt::Write as _;

/// The lines, in the order of the call tree, heaviest branch first. `;` in a name becomes `:`, hidden characters are written out.
pub fn write(profile: &Profile, cells: &[Cell]) -> String {
    let tree = CallTree::top_down(profile, cells, By::Function, Split::Merged);
    let mut out = String::new();
    let mut names: Vec<String> = Vec::new();
    tree.walk(|id, depth| {
        let node = &tree.nodes[id];
        names.truncate(depth);
        names.push(tame(&node.label.name(profile)).replace(';', ":"));
        // What was imported without a number of samples is still there.
        if !node.own.is_zero() {
            let _ = writeln!(out, "{} {}", names.join(";"), node.own.samples.max(1));
        }
        true
    });
    out
}
