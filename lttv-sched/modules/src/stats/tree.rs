//! Statistics as an attribute tree, summed upwards: submode, mode, function, CPU of process, process, CPU, trace.
//!
//! ```text
//! statistics/
//!   modes/                        over all
//!   cpu/<cpu>/                    of a CPU
//!   processes/<tid>-<start>/      exec_file_name, parent, start_time, end_time
//!       modes/  cpu/<cpu>/{modes, functions/<address>/modes}  functions/<address>/modes
//! ```
//!
//! Each `modes` (and each CPU) holds `mode_types/<mode>/submodes/<submode>`, `mode_types/<mode>/events` and
//! `events`; at the end of each stand `event_types/<name>`, `events_count`, `cpu_time`,
//! `cumulative_cpu_time`, `elapsed_time`.
//!
//! A tree is formed from the branches in one go, so nothing is ever summed twice; trees of several traces are
//! added with [`Attribute::recursive_add`].

use std::sync::Arc;

use lttv_engine::attribute::{Attribute, AttributeName, AttributeType, AttributeValue};
use lttv_engine::time::Time;

use super::{Branch, Stats, ThreadInfo};

/// Function of all branches: no event tells of functions yet.
const UNKNOWN_FUNCTION: u64 = 0;

/// The tree of a trace's statistics.
pub fn tree_of_stats(stats: &Stats) -> Attribute {
    let mut tree = Attribute::new();
    add_branch(&mut tree, &["modes".into()], stats, None);
    let threads = stats.branches.threads();
    for branch in stats.branches.iter() {
        let cpu = branch.cpu.map_or_else(|| "unknown".into(), |cpu| AttributeName::Number(u64::from(cpu)));
        let process = branch.thread.map_or_else(
            || AttributeName::from("unknown"),
            |thread| process_name(&threads[thread]).as_str().into(),
        );
        let function = AttributeName::Number(UNKNOWN_FUNCTION);
        let words = |words: &[&str]| words.iter().map(|word| AttributeName::from(*word)).collect::<Vec<_>>();
        let in_process = [words(&["processes"]), vec![process]].concat();
        let in_cpu = [in_process.clone(), words(&["cpu"]), vec![cpu.clone()]].concat();
        let in_function = [words(&["functions"]), vec![function], words(&["modes"])].concat();
        for path in [
            words(&["modes"]),
            [words(&["cpu"]), vec![cpu]].concat(),
            [in_process.clone(), words(&["modes"])].concat(),
            [in_cpu.clone(), words(&["modes"])].concat(),
            [in_cpu, in_function.clone()].concat(),
            [in_process, in_function].concat(),
        ] {
            add_branch(&mut tree, &path, stats, Some(&branch));
        }
    }
    for info in threads {
        let name = process_name(info);
        let process = tree.find_subdir("processes").and_then(|dir| dir.find_subdir(name.as_str()));
        if let Some(process) = process {
            process.set("exec_file_name", AttributeValue::String(info.name.to_string()));
            process.set("start_time", AttributeValue::String(info.start.to_string()));
            if let Some(parent) = info.parent {
                process.set("parent", AttributeValue::String(parent.to_string()));
            }
            if let Some(end) = info.end {
                process.set("end_time", AttributeValue::String(end.to_string()));
            }
        }
    }
    tree
}

/// The idle threads share a number; their CPU tells them apart.
fn process_name(thread: &ThreadInfo) -> String {
    let (key, start) = (thread.key, thread.start);
    if key.tid == 0 { format!("0.{}-{start}", key.cpu) } else { format!("{}-{start}", key.tid) }
}

/// Adds a branch to the tree of modes at a path; without a branch the path is only made.
fn add_branch(tree: &mut Attribute, path: &[AttributeName], stats: &Stats, branch: Option<&Branch<'_>>) {
    let mut node = tree;
    for name in path {
        let Some(next) = node.find_subdir(name.clone()) else { return };
        node = next;
    }
    let Some(branch) = branch else { return };
    if let Some(events) = node.find_subdir("events") {
        add_events(events, stats, branch);
    }
    let mode =
        node.find_subdir("mode_types").and_then(|dir| dir.find_subdir(branch.mode.to_string().as_str()));
    let Some(mode) = mode else { return };
    if let Some(events) = mode.find_subdir("events") {
        add_events(events, stats, branch);
    }
    let submode = mode
        .find_subdir("submodes")
        .and_then(|dir| dir.find_subdir(AttributeName::Word(branch.submode.clone())));
    if let Some(events) = submode {
        add_events(events, stats, branch);
    }
}

fn add_events(node: &mut Attribute, stats: &Stats, branch: &Branch<'_>) {
    let mut total = 0;
    if let Some(types) = node.find_subdir("event_types") {
        for (name, count) in branch.events() {
            let name: Arc<str> = stats.names.get(name as usize).cloned().unwrap_or_else(|| "?".into());
            if let Some(AttributeValue::Ulong(sum)) =
                types.find(AttributeName::Word(name), AttributeType::Ulong)
            {
                *sum += count;
            }
            total += count;
        }
    }
    if let Some(AttributeValue::Ulong(sum)) = node.find("events_count", AttributeType::Ulong) {
        *sum += total;
    }
    for (name, ns) in [
        ("cpu_time", branch.cpu_time),
        ("cumulative_cpu_time", branch.cumulative_cpu_time),
        ("elapsed_time", branch.elapsed_time),
    ] {
        if let Some(AttributeValue::Time(sum)) = node.find(name, AttributeType::Time) {
            *sum = sum.saturating_add(Time(ns).ns());
        }
    }
}
