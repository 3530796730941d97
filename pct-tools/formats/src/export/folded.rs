//! Folded stacks: one line per stack, outermost function first, then its number of samples.
//!
//! The format has no unit, and all readers take the counts for samples. Of a profile that measures no CPU time, or
//! whose number of samples is not known, the lines have its own amounts: bytes, counts, nanoseconds of its time.

use pct_num::round_to_sum;
use pct_profile::memory::{Measure, MemoryCell};
use pct_profile::model::{Cell, Id as _, ObjectKind, Profile};
use pct_profile::text::table::tame;
use pct_profile::tree::{Amount, NodeId};
use pct_profile::{By, CallTree, Split};
use std::fmt::Write as _;

/// The lines, in the order of the call tree, heaviest branch first. `;` in a name becomes `:`, and hidden
/// characters are escaped.
pub fn write(profile: &Profile, cells: &[Cell]) -> String {
    let tree = CallTree::top_down(profile, cells, By::Function, Split::Merged);
    // What was not sampled has no number of samples. Imported stacks without their number are kept.
    let is_sampled = |id: NodeId| {
        let object = tree.nodes[id].label.object(profile);
        object.is_none_or(|object| profile.objects[object].kind != ObjectKind::NotSampled)
    };
    let is_counted = profile.is_of_cpu_time() && !profile.is_sampled_without_number();
    lines(profile, &tree, |id, own| {
        let count = if is_counted { own.samples.max(1) } else { own.cpu_ns() };
        (!own.is_zero() && is_sampled(id) && count > 0).then_some(count)
    })
}

/// The same for memory: octets or blocks, as whole numbers that add up to the sum of the estimates.
pub fn write_memory(profile: &Profile, cells: &[MemoryCell], measure: Measure) -> String {
    let tree = CallTree::top_down(profile, cells, By::Function, Split::Merged);
    let own: Vec<f64> = tree.nodes.iter().map(|node| node.own.estimate(measure).amount).collect();
    let own = round_to_sum(&own);
    lines(profile, &tree, |id, _| Some(own[id.index()]).filter(|&amount| amount > 0))
}

fn lines<W: Amount>(
    profile: &Profile,
    tree: &CallTree<W>,
    count: impl Fn(NodeId, &W) -> Option<u64>,
) -> String {
    let mut out = String::new();
    let mut names: Vec<String> = Vec::new();
    tree.walk(|id, depth| {
        let node = &tree.nodes[id];
        names.truncate(depth);
        names.push(tame(&node.label.name(profile)).replace(';', ":"));
        if let Some(count) = count(id, &node.own) {
            let _ = writeln!(out, "{} {count}", names.join(";"));
        }
        true
    });
    out
}
