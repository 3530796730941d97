//! Figures of memory for programs: CSV and JSON, with every figure of a row whatever it is ranked by.

use super::memory::temporary_share;
use super::memory_words::estimate_json;
use crate::flat::{Flat, Row};
use crate::memory::{Figures, Measure, Memory, MemoryAmount};
use crate::model::{Id as _, Profile};
use crate::tree::{CallTree, Label, Node, NodeId};
use pct_num::Estimate;
use pct_text::csv_field;
use serde_json::{Value, json};

/// Header of the CSV form.
pub const CSV_HEADER: &str = "samples,live_bytes,live_low,live_high,live_blocks,peak_bytes,peak_low,peak_high,peak_blocks,\
     allocated_bytes,allocated_low,allocated_high,allocated_blocks,allocated_blocks_low,allocated_blocks_high,freed_bytes,\
     mean_age_seconds,median_lifetime_seconds,temporary_share,pid,process,object,function";

/// All rows as CSV, each with all figures whatever they are ranked by. Sites of few samples are there too:
/// `samples` says so.
#[must_use]
pub fn csv(profile: &Profile, flat: &Flat<Figures>, rows: usize) -> String {
    let mut out = format!("{CSV_HEADER}\n");
    let whole = |number: f64| format!("{number:.0}");
    let limits = |estimate: &Estimate| {
        let limits = estimate.interval();
        [estimate.amount, limits.low, limits.high].map(whole)
    };
    let fraction =
        |number: Option<f64>, digits: usize| number.map_or_else(String::new, |n| format!("{n:.digits$}"));
    for row in flat.rows.iter().take(rows) {
        let f = &row.own;
        let mut fields = vec![f.held(f.by).samples().to_string()];
        for held in [&f.live, &f.peak] {
            fields.extend(limits(&held.bytes));
            fields.push(whole(held.blocks.amount));
        }
        fields.extend(limits(&f.allocated.bytes));
        fields.extend(limits(&f.allocated.blocks));
        fields.push(whole(f.freed.1));
        fields.push(fraction(f.mean_age(), 3));
        fields.push(fraction(f.lifetimes.median_ns().map(|ns| ns / 1e9), 9));
        fields.push(fraction(temporary_share(f), 4));
        let (pid, process) = process_of(profile, row);
        fields.push(pid.map(|pid| pid.to_string()).unwrap_or_default());
        fields.push(csv_field(process).into_owned());
        fields.push(csv_field(object_of(profile, row).unwrap_or_default()).into_owned());
        fields.push(csv_field(&row.label.map(|label| label.name(profile)).unwrap_or_default()).into_owned());
        out += &fields.join(",");
        out.push('\n');
    }
    out
}

fn process_of<'p>(profile: &'p Profile, row: &Row<Figures>) -> (Option<u32>, &'p str) {
    match row.part {
        Some(Label::Process(id)) => (Some(profile.processes[id].pid), &profile.processes[id].name),
        Some(Label::Command(id)) => (None, &profile.processes[id].name),
        _ => (None, ""),
    }
}

fn object_of<'p>(profile: &'p Profile, row: &Row<Figures>) -> Option<&'p str> {
    row.label.and_then(|label| label.object(profile)).map(|object| profile.objects[object].name())
}

/// The rows as JSON, with what is known of the processes.
#[must_use]
pub fn json(profile: &Profile, memory: &Memory, flat: &Flat<Figures>, rows: usize) -> Value {
    let row = |row: &Row<Figures>| {
        let (pid, process) = process_of(profile, row);
        let mut value = figures_json(&row.own);
        value["total"] = figures_json(&row.total);
        value["pid"] = json!(pid);
        value["process"] = json!(pid.map(|_| process));
        value["object"] = json!(object_of(profile, row));
        value["site"] = json!(row.label.map(|label| label.name(profile)));
        value["function"] = json!(
            row.label.and_then(|label| label.function(profile)).map(|f| profile.functions[f].name.clone())
        );
        value
    };
    json!({
        "version": 1,
        "title": profile.title,
        "total": figures_json(&flat.total),
        "rows": flat.rows.iter().take(rows).map(row).collect::<Vec<_>>(),
        "memory": super::memory_account::json(profile, memory),
    })
}

/// All nodes of a tree as JSON, callers before callees.
#[must_use]
pub fn tree_json(profile: &Profile, memory: &Memory, tree: &CallTree<Figures>) -> Value {
    let node = |(id, node): (NodeId, &Node<Figures>)| {
        json!({
            "node": id.index(),
            "parent": node.parent.map(crate::model::Id::index),
            "self": figures_json(&node.own),
            "total": figures_json(&node.total),
            "object": node.label.object(profile).map(|object| profile.objects[object].name()),
            "function": node.label.name(profile),
        })
    };
    json!({
        "version": 1,
        "title": profile.title,
        "total": figures_json(&tree.total),
        "nodes": tree.nodes.enumerate().map(node).collect::<Vec<_>>(),
        "memory": super::memory_account::json(profile, memory),
    })
}

/// All nodes of a tree as CSV, callers before callees: the measure that it is ranked by.
#[must_use]
pub fn tree_csv(profile: &Profile, tree: &CallTree<Figures>, measure: Measure) -> String {
    let mut out = String::from("node,parent,samples,self,total,total_low,total_high,object,function\n");
    for (id, node) in tree.nodes.enumerate() {
        let (own, total) = (node.own.estimate(measure), node.total.estimate(measure));
        let limits = total.interval();
        out += &format!(
            "{},{},{},{:.0},{:.0},{:.0},{:.0},{},{}\n",
            id.index(),
            node.parent.map(|parent| parent.index().to_string()).unwrap_or_default(),
            total.samples,
            own.amount,
            total.amount,
            limits.low,
            limits.high,
            csv_field(node.label.object(profile).map_or("", |object| profile.objects[object].name())),
            csv_field(&node.label.name(profile)),
        );
    }
    out
}

fn held_json(held: &MemoryAmount) -> Value {
    json!({"bytes": estimate_json(&held.bytes), "blocks": estimate_json(&held.blocks)})
}

fn figures_json(figures: &Figures) -> Value {
    json!({
        "live": held_json(&figures.live),
        "peak": held_json(&figures.peak),
        "allocated": held_json(&figures.allocated),
        "freed": {"samples": figures.freed.0, "bytes": figures.freed.1, "blocks": figures.freed.2},
        "mean_age_seconds": figures.mean_age(),
        "median_lifetime_seconds": figures.lifetimes.median_ns().map(|ns| ns / 1e9),
        "temporary_share": temporary_share(figures),
    })
}
