//! Folded stacks: one line a stack, outermost function first, and its weight in microseconds of CPU time.

use pct_profile::model::{Cell, Profile};
use pct_profile::{By, CallTree, Split};
use std::fmt::Write as _;

/// The lines, in the order of the call tree, heaviest branch first. `;` in a name becomes `:`.
pub fn write(profile: &Profile, cells: &[Cell]) -> String {
    let tree = CallTree::top_down(profile, cells, By::Function, Split::Merged);
    let mut out = String::new();
    let mut names: Vec<String> = Vec::new();
    tree.walk(|id, depth| {
        let node = &tree.nodes[id];
        names.truncate(depth);
        names.push(node.label.name(profile).replace(';', ":").replace(['\n', '\r'], " "));
        // sums are rounded once per line, so no line is lost for being short: it shows at least 1
        let us = node.own.cpu_ns().saturating_add(500) / 1000;
        if !node.own.is_zero() {
            let _ = writeln!(out, "{} {}", names.join(";"), us.max(1));
        }
        true
    });
    out
}
