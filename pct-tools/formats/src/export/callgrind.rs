//! The callgrind format: <https://valgrind.org/docs/manual/cl-format.html>. Costs are microseconds of CPU time, or what
//! another profiler's file measured; the event's name says which.
//!
//! Call counts are those of a deep profile. A sampler does not know them, but callgrind needs some, so the call edges
//! say 1. An edge's inclusive cost counts a sample once, however often the edge recurs on the sample's stack.

use super::threads::path;
use pct_profile::model::{Cell, FunctionId, Id};
use pct_profile::text::table::tame;
use pct_profile::{Profile, Quantity, Unit};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;

#[derive(Default)]
struct Costs {
    own: BTreeMap<u32, u64>,
    calls: BTreeMap<(u32, FunctionId), u64>,
}

/// The text of the file.
pub fn write(profile: &Profile, cells: &[Cell]) -> String {
    let mut costs: HashMap<FunctionId, Costs> = HashMap::new();
    for cell in cells {
        let ns = cell.weight.cpu_ns();
        let frames = path(profile, cell.stack);
        let frame = |i: usize| &profile.frames[frames[i]];
        if let Some(last) = frames.len().checked_sub(1) {
            let own = costs.entry(frame(last).function).or_default();
            let sum = own.own.entry(frame(last).line).or_default();
            *sum = sum.saturating_add(ns);
        }
        let mut seen = HashSet::new();
        for i in 1..frames.len() {
            let (caller, callee) = (frame(i - 1), frame(i).function);
            if seen.insert((caller.function, caller.line, callee)) {
                let calls = &mut costs.entry(caller.function).or_default().calls;
                let sum = calls.entry((caller.line, callee)).or_default();
                *sum = sum.saturating_add(ns);
            }
        }
    }
    let file_of: HashMap<FunctionId, &str> =
        profile.frames.iter().filter_map(|f| Some((f.function, profile.files[f.file?].as_str()))).collect();
    let mut out = String::new();
    let _ = writeln!(out, "# callgrind format\nversion: 1\ncreator: pct {}", env!("CARGO_PKG_VERSION"));
    let _ = writeln!(out, "cmd: {}", one_line(&profile.title));
    // The name of an event has no room for a unit.
    if let Quantity::Foreign { name, unit } = &profile.quantity {
        let unit = if *unit == Unit::Time { "microseconds" } else { unit.as_word() };
        let _ = writeln!(out, "desc: pct sample type: {} in {}", one_line(name), one_line(unit));
    }
    let _ = writeln!(out, "positions: line\nevents: {}", event(profile));
    let total = cells.iter().fold(0u64, |sum, c| sum.saturating_add(c.weight.cpu_ns()));
    let _ = writeln!(out, "summary: {}", us(profile, total));
    let mut functions: Vec<_> = costs.into_iter().collect();
    functions.sort_by_key(|(f, _)| f.index());
    for (function, costs) in functions {
        let _ = writeln!(out);
        name(&mut out, profile, &file_of, function, "");
        for (line, ns) in costs.own {
            let _ = writeln!(out, "{line} {}", us(profile, ns));
        }
        for ((line, callee), ns) in costs.calls {
            name(&mut out, profile, &file_of, callee, "c");
            let calls = profile.call_counts.get(&(function, line, callee)).copied().unwrap_or(1);
            let _ = writeln!(out, "calls={calls} 0\n{line} {}", us(profile, ns));
        }
    }
    out
}

fn name(
    out: &mut String,
    profile: &Profile,
    files: &HashMap<FunctionId, &str>,
    id: FunctionId,
    callee: &str,
) {
    let function = &profile.functions[id];
    let _ = writeln!(out, "{callee}ob={}", one_line(&profile.objects[function.object].path));
    let file = files.get(&id).copied().unwrap_or("???");
    let _ = writeln!(out, "{}={}", if callee.is_empty() { "fl" } else { "cfi" }, one_line(file));
    let _ = writeln!(out, "{callee}fn={}", one_line(&function.name));
}

fn one_line(text: &str) -> String {
    tame(text)
}

/// The name of the costs. It may have no space.
fn event(profile: &Profile) -> String {
    let name = |name: &str| name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-', "_");
    match &profile.quantity {
        Quantity::Processor => "us".into(),
        Quantity::Foreign { name: of, unit: Unit::Time } => name(of) + "_us",
        Quantity::Foreign { name: of, .. } => name(of),
    }
}

/// A cost: of time in microseconds.
fn us(profile: &Profile, weight: u64) -> u64 {
    if profile.quantity.is_time() { weight.saturating_add(500) / 1000 } else { weight }
}
