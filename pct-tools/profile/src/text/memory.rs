//! Tables of memory: what is live, what was live at the peak, what was allocated, every figure with its interval.
//!
//! Rows of fewer than three samples are below a line: what is known of them together is more than what is known of each.

use super::Layout;
use super::flat::csv_field;
use super::memory_words::{amount, duration, estimate_json, interval, interval_of_count};
use super::numbers::{bytes, count, thousands};
use super::table::{Column, Rank, Table, tame};
use super::tree::{self, Prune};
use crate::flat::{Flat, Row};
use crate::memory::{Figures, Held, Lifetimes, Measure, Memory};
use crate::model::{Id as _, Profile};
use crate::tree::{CallTree, Label, Node, NodeId};
use pct_num::{Estimate, float, rounded};
use serde_json::{Value, json};

/// Rows of fewer samples are summed up.
pub const FEWEST_SAMPLES: u64 = 3;
/// What lives shorter is called temporary.
const TEMPORARY_NS: f64 = 1e6;

/// Which columns are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Columns {
    /// Rows at most.
    pub rows: usize,
    /// There is room for the columns that explain a row.
    pub wide: bool,
    /// Ranked by what is allocated in and under a row.
    pub total: bool,
}

/// What all cells of a table need to know.
struct Context<'a> {
    profile: &'a Profile,
    measure: Measure,
    wanted: Columns,
    parts: bool,
}

type Figure = fn(&Context<'_>, &Figures) -> String;

/// A column, declared once: when it is shown, its head, its cell.
struct Field {
    shown: fn(&Context<'_>) -> bool,
    head: fn(Measure) -> &'static str,
    cell: Figure,
}

fn of_live(measure: Measure) -> bool {
    matches!(measure, Measure::Live | Measure::Age)
}

fn of_allocated(measure: Measure) -> bool {
    matches!(measure, Measure::Bytes | Measure::Blocks | Measure::Size)
}

const FIELDS: &[Field] = &[
    Field {
        shown: |c| c.measure == Measure::Size,
        head: |_| "mean size",
        cell: |c, f| mean_size(f.held(c.measure)),
    },
    Field {
        shown: |c| c.measure == Measure::Blocks,
        head: |_| "blocks",
        cell: |_, f| amount(f.allocated.blocks.amount),
    },
    Field {
        shown: |c| c.measure != Measure::Blocks,
        head: head_of,
        cell: |c, f| bytes(f.held(c.measure).bytes.amount),
    },
    Field {
        shown: |_| true,
        head: |_| "95 % interval",
        cell: |c, f| match c.measure {
            Measure::Blocks => interval_of_count(&f.allocated.blocks),
            _ => interval(&f.held(c.measure).bytes),
        },
    },
    Field {
        shown: |c| c.measure == Measure::Blocks,
        head: |_| "allocated",
        cell: |_, f| bytes(f.allocated.bytes.amount),
    },
    Field {
        shown: |c| c.measure != Measure::Blocks,
        head: |_| "blocks",
        cell: |c, f| amount(f.held(c.measure).blocks.amount),
    },
    Field {
        shown: |c| c.wanted.wide && c.measure != Measure::Size,
        head: |_| "mean size",
        cell: |c, f| mean_size(f.held(c.measure)),
    },
    Field {
        shown: |c| of_live(c.measure) && (c.wanted.wide || c.measure == Measure::Age),
        head: |_| "mean age",
        cell: |_, f| f.mean_age().map_or_else(String::new, |age| duration(age * 1e9)),
    },
    Field {
        shown: |c| c.wanted.wide && of_allocated(c.measure),
        head: |_| "lifetime",
        cell: |_, f| f.lifetimes.median_ns().map_or_else(String::new, lifetime),
    },
    Field {
        shown: |c| c.wanted.wide && of_allocated(c.measure),
        head: |_| "temporary",
        cell: |_, f| temporary(f).map_or_else(String::new, |share| format!("{:.0}%", share * 100.0)),
    },
    Field {
        shown: |c| c.wanted.wide,
        head: |_| "samples",
        cell: |c, f| thousands(f.held(c.measure).samples()),
    },
];

fn head_of(measure: Measure) -> &'static str {
    match measure {
        Measure::Live | Measure::Age => "live",
        Measure::Peak => "at peak",
        Measure::Bytes | Measure::Blocks | Measure::Size => "allocated",
    }
}

fn mean_size(held: &Held) -> String {
    held.mean_size().map_or_else(String::new, bytes)
}

/// A median lifetime. The shortest ones are not told apart.
fn lifetime(ns: f64) -> String {
    let shortest = Lifetimes::limit_ns(1);
    if ns < shortest { format!("< {}", duration(shortest)) } else { duration(ns) }
}

/// The share of what was allocated that was freed within a millisecond.
fn temporary(figures: &Figures) -> Option<f64> {
    let short = figures.lifetimes.share_below(TEMPORARY_NS)?;
    let samples = figures.allocated.samples();
    (samples > 0).then(|| (short * float(figures.lifetimes.samples()) / float(samples)).min(1.0))
}

/// The rows that a measure has something of, with enough samples to be told each, and the others.
fn told_apart<'f>(
    flat: &'f Flat<Figures>,
    wanted: &Columns,
    measure: Measure,
) -> (Vec<&'f Row<Figures>>, Vec<&'f Row<Figures>>) {
    let samples = |row: &&Row<Figures>| figures_of(row, wanted).held(measure).samples();
    let rows = flat.rows.iter().filter(|row| samples(row) > 0);
    rows.partition(|row| samples(row) >= FEWEST_SAMPLES)
}

fn figures_of<'f>(row: &'f Row<Figures>, wanted: &Columns) -> &'f Figures {
    if wanted.total { &row.total } else { &row.own }
}

/// The table for people.
#[must_use]
pub fn table(
    profile: &Profile,
    flat: &Flat<Figures>,
    measure: Measure,
    wanted: Columns,
    layout: &Layout,
) -> String {
    let parts = flat.rows.iter().any(|row| row.part.is_some());
    let labels = flat.rows.iter().find_map(|row| row.label);
    let context = Context { profile, measure, wanted, parts };
    let fields: Vec<&Field> = FIELDS.iter().filter(|field| (field.shown)(&context)).collect();
    let mut columns: Vec<Column> = fields.iter().map(|field| Column::number((field.head)(measure))).collect();
    if context.parts {
        columns.push(Column::name("process", 12));
    }
    if let Some(label) = labels {
        let site = if matches!(label, Label::Object(_)) { "object" } else { "site" };
        columns.push(Column::name(site, 16));
        if !matches!(label, Label::Object(_)) {
            columns.push(Column::name("object", 8));
        }
    }
    let mut table = Table::new(columns);
    let whole = rounded(flat.total.estimate(measure).amount);
    let (told, few) = told_apart(flat, &wanted, measure);
    let visible = told.len().min(wanted.rows);
    for row in &told[..visible] {
        let figures = figures_of(row, &wanted);
        let mut cells: Vec<String> = fields.iter().map(|field| (field.cell)(&context, figures)).collect();
        if context.parts {
            cells.push(row.part.map(|part| tame(&part.name(context.profile))).unwrap_or_default());
        }
        cells.push(row.label.map(|label| tame(&label.name(profile))).unwrap_or_default());
        cells.push(
            row.label.and_then(|label| label.whereabouts(profile)).map(|p| tame(&p)).unwrap_or_default(),
        );
        table.row(Rank::of(rounded(figures.estimate(measure).amount), whole), cells);
    }
    let mut text = table.render(layout);
    for (rows, what) in [(&told[visible..], ""), (&few[..], " with fewer than 3 samples each")] {
        // What is inclusive does not add.
        if rows.is_empty() || wanted.total {
            continue;
        }
        let sum: Estimate = rows.iter().map(|row| *row.own.estimate(measure)).sum();
        let line = format!(
            "  ... {}{what}: {}",
            count(rows.len() as u64, "more site", "more sites"),
            sum_in_words(&sum, measure)
        );
        text += &if layout.color { format!("\x1b[2m{line}\x1b[0m\n") } else { line + "\n" };
    }
    text
}

fn sum_in_words(sum: &Estimate, measure: Measure) -> String {
    match measure {
        Measure::Blocks => format!("{} blocks ({})", amount(sum.amount), interval_of_count(sum)),
        _ => format!("{} ({})", bytes(sum.amount), interval(sum)),
    }
}

/// The call tree for people: what was allocated in a function itself, and with everything below.
#[must_use]
pub fn tree(
    profile: &Profile,
    drawn: &CallTree<Figures>,
    measure: Measure,
    prune: &Prune,
    layout: &Layout,
) -> String {
    let whole = drawn.total.estimate(measure).amount;
    let in_words = |estimate: &Estimate| match measure {
        Measure::Blocks => amount(estimate.amount),
        _ => bytes(estimate.amount),
    };
    let heads = vec![
        Column::number("self"),
        Column::number("total"),
        Column::number("95 % interval"),
        Column::number("share"),
    ];
    let numbers = |node: &Node<Figures>| {
        let (own, total) = (node.own.estimate(measure), node.total.estimate(measure));
        let limits = if measure == Measure::Blocks { interval_of_count(total) } else { interval(total) };
        let share = if whole > 0.0 { format!("{:.1}%", total.amount / whole * 100.0) } else { String::new() };
        let own_text = if own.is_empty() { String::new() } else { in_words(own) };
        (Rank::of(rounded(own.amount), rounded(whole)), vec![own_text, in_words(total), limits, share])
    };
    let hidden = |sum: Figures| sum_in_words(sum.estimate(measure), measure);
    // Ranks are in thousandths.
    let least = rounded((drawn.total.rank() * 1000.0 * prune.least_share).floor().min(1e18));
    tree::draw(profile, drawn, (least, prune), layout, (heads, &numbers, &hidden))
}

/// Header of the CSV form.
pub const CSV_HEADER: &str = "samples,live_bytes,live_low,live_high,live_blocks,peak_bytes,peak_low,peak_high,peak_blocks,\
     allocated_bytes,allocated_low,allocated_high,allocated_blocks,allocated_blocks_low,allocated_blocks_high,freed_bytes,\
     mean_age_seconds,median_lifetime_seconds,temporary_share,pid,process,object,function";

/// All rows as CSV, each with all figures whatever they are ranked by. Sites of few samples are there too: `samples` says so.
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
        fields.push(fraction(temporary(f), 4));
        let (pid, process) = process_of(profile, row);
        fields.push(pid.map(|pid| pid.to_string()).unwrap_or_default());
        fields.push(csv_field(process));
        fields.push(csv_field(object_of(profile, row).unwrap_or_default()));
        fields.push(csv_field(&row.label.map(|label| label.name(profile)).unwrap_or_default()));
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

fn held_json(held: &Held) -> Value {
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
        "temporary_share": temporary(figures),
    })
}

/// What was allocated, what is live, what was at the peak, by how many samples: two lines.
#[must_use]
pub fn headline(profile: &Profile, memory: &Memory, all: &Figures) -> String {
    let peak = memory.processes.iter().filter_map(|process| process.peak_ns).max();
    let at = match peak {
        Some(ns) if memory.processes.len() == 1 => format!(" at {} s", super::numbers::seconds(ns)),
        _ => String::new(),
    };
    let allocated: Held =
        memory.processes.iter().fold(Held::default(), |sum, process| sum + process.allocated);
    let in_words = |estimate: &Estimate| {
        let estimate = *estimate + Estimate::nothing(float(memory.interval()));
        format!("{} ({})", bytes(estimate.amount), interval(&estimate))
    };
    let others =
        if profile.processes.len() > memory.processes.len() { "; others were not sampled" } else { "" };
    format!(
        "live {}, peak {}{at}\nallocated {} in {} blocks; {} in {}, one per {}{others}",
        in_words(&all.live.bytes),
        in_words(&all.peak.bytes),
        in_words(&allocated.bytes),
        amount(allocated.blocks.amount),
        count(allocated.samples(), "sample", "samples"),
        count(memory.processes.len() as u64, "process", "processes"),
        pct_num::bytes_binary(memory.interval_asked()),
    )
}
