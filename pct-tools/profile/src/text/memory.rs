//! Tables of memory: what is live, what was live at the peak, what was allocated, every figure with its interval.
//!
//! Rows whose intervals are too wide for their estimates are below a line: what is known of them together is more than
//! what is known of each.

use super::Layout;
use super::memory_words::{TOO_WIDE, amount, duration, interval, interval_of_count, is_sure, is_the_peak};
use super::numbers::{bytes, count, thousands};
use super::table::{Column, Rank, Table, tame};
use super::tree::{self, Prune};
use crate::flat::{Flat, Row};
use crate::ids::ProcessId;
use crate::load::NOBODY;
use crate::memory::{Figures, Lifetimes, Measure, Memory, MemoryAmount, ProcessMemory};
use crate::model::Profile;
use crate::tree::{CallTree, Label, Node};
use pct_num::{Estimate, float, rounded};

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
struct Context {
    measure: Measure,
    wanted: Columns,
}

type Figure = fn(&Context, &Figures) -> String;

/// A column, declared once: when it is shown, its head, its cell.
struct Field {
    shown: fn(&Context) -> bool,
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
        cell: |_, f| temporary_share(f).map_or_else(String::new, |share| format!("{:.0}%", share * 100.0)),
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

fn mean_size(held: &MemoryAmount) -> String {
    held.mean_size().map_or_else(String::new, bytes)
}

/// A median lifetime. The shortest ones are not told apart.
fn lifetime(ns: f64) -> String {
    let shortest = Lifetimes::limit_ns(1);
    if ns < shortest { format!("< {}", duration(shortest)) } else { duration(ns) }
}

/// The share of what was allocated that was freed within a millisecond.
pub(crate) fn temporary_share(figures: &Figures) -> Option<f64> {
    let short = figures.lifetimes.share_below(TEMPORARY_NS)?;
    let samples = figures.allocated.samples();
    (samples > 0).then(|| (short * float(figures.lifetimes.samples()) / float(samples)).min(1.0))
}

/// The rows that a measure has something of, those that are sure enough to be told each, and the others.
fn told_apart<'f>(
    flat: &'f Flat<Figures>,
    wanted: &Columns,
    measure: Measure,
) -> (Vec<&'f Row<Figures>>, Vec<&'f Row<Figures>>) {
    let estimate = |row: &Row<Figures>| *figures_of(row, wanted).estimate(measure);
    let rows = flat.rows.iter().filter(|row| !estimate(row).is_empty());
    rows.partition(|row| is_sure(&estimate(row)))
}

fn figures_of<'f>(row: &'f Row<Figures>, wanted: &Columns) -> &'f Figures {
    if wanted.total { &row.total } else { &row.own }
}

/// A table as texts, for any face: what people read on a terminal and in a browser is the same.
#[derive(Clone, PartialEq, Debug)]
pub struct Texts {
    /// Heads of the columns of numbers.
    pub numbers: Vec<&'static str>,
    /// Heads of the columns of names, which follow.
    pub names: Vec<&'static str>,
    /// The rows that are shown.
    pub rows: Vec<TextRow>,
    /// The others, summed up: a sentence each.
    pub rest: Vec<String>,
    /// What all rows have of the measure, in octets (or blocks).
    pub whole: u64,
}

/// A row of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct TextRow {
    /// What it has of the measure.
    pub amount: u64,
    /// Cells of numbers.
    pub numbers: Vec<String>,
    /// Cells of names, as they are in the program's files.
    pub names: Vec<String>,
}

/// What the table for people says.
#[must_use]
pub fn texts(profile: &Profile, flat: &Flat<Figures>, measure: Measure, wanted: Columns) -> Texts {
    let parts = flat.rows.iter().any(|row| row.part.is_some());
    let labels = flat.rows.iter().find_map(|row| row.label);
    let context = Context { measure, wanted };
    let fields: Vec<&Field> = FIELDS.iter().filter(|field| (field.shown)(&context)).collect();
    let mut names = Vec::new();
    names.extend(parts.then_some("process"));
    match labels {
        Some(Label::Object(_)) => names.push("object"),
        Some(_) => names.extend(["site", "object"]),
        None => {}
    }
    let (told, rough) = told_apart(flat, &wanted, measure);
    let visible = told.len().min(wanted.rows);
    let row = |row: &&Row<Figures>| {
        let figures = figures_of(row, &wanted);
        let mut cells = Vec::new();
        if parts {
            cells.push(row.part.map(|part| part.name(profile)).unwrap_or_default());
        }
        cells.push(row.label.map(|label| label.name(profile)).unwrap_or_default());
        cells.push(row.label.and_then(|label| label.whereabouts(profile)).unwrap_or_default());
        cells.truncate(names.len());
        TextRow {
            amount: rounded(figures.estimate(measure).amount),
            numbers: fields.iter().map(|field| (field.cell)(&context, figures)).collect(),
            names: cells,
        }
    };
    let rows = told[..visible].iter().map(row).collect();
    let mut rest = Vec::new();
    for (rows, what) in [(&told[visible..], String::new()), (&rough[..], format!(" {TOO_WIDE}"))] {
        // What is inclusive does not add.
        if rows.is_empty() || wanted.total {
            continue;
        }
        let sum: Estimate = rows.iter().map(|row| *row.own.estimate(measure)).sum();
        rest.push(format!(
            "{}{what}: {}",
            count(rows.len() as u64, "more site", "more sites"),
            sum_in_words(&sum, measure)
        ));
    }
    let numbers = fields.iter().map(|field| (field.head)(measure)).collect();
    Texts { numbers, names, rows, rest, whole: rounded(flat.total.estimate(measure).amount) }
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
    let texts = texts(profile, flat, measure, wanted);
    let mut columns: Vec<Column> = texts.numbers.iter().map(|head| Column::number(head)).collect();
    columns.extend(texts.names.iter().map(|head| Column::name(head, least_width(head))));
    let mut table = Table::new(columns);
    for row in &texts.rows {
        let names = row.names.iter().map(|name| tame(name));
        table.row(
            Rank::from_share(row.amount, texts.whole),
            row.numbers.iter().cloned().chain(names).collect(),
        );
    }
    let mut text = table.render(layout);
    for line in &texts.rest {
        let line = format!("  ... {line}");
        text += &if layout.color { format!("\x1b[2m{line}\x1b[0m\n") } else { line + "\n" };
    }
    text
}

/// Characters that a column of names keeps when there is no room.
fn least_width(head: &str) -> usize {
    match head {
        "process" => 12,
        "site" => 16,
        _ => 8,
    }
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
        (
            Rank::from_share(rounded(own.amount), rounded(whole)),
            vec![own_text, in_words(total), limits, share],
        )
    };
    let hidden = |sum: Figures| sum_in_words(sum.estimate(measure), measure);
    // Ranks are in thousandths.
    let least = rounded((drawn.total.rank() * 1000.0 * prune.least_share).floor().min(1e18));
    tree::draw(profile, drawn, (least, prune), layout, (heads, &numbers, &hidden))
}

/// What was allocated, what is live, what was at the peak, by how many samples: two lines.
#[must_use]
pub fn headline(profile: &Profile, memory: &Memory, all: &Figures) -> String {
    let allocated: MemoryAmount =
        memory.processes.iter().fold(MemoryAmount::default(), |sum, process| sum + process.allocated);
    let in_words = |estimate: &Estimate| {
        let estimate = *estimate + Estimate::nothing(float(memory.interval()));
        format!("{} ({})", bytes(estimate.amount), interval(&estimate))
    };
    // Of the whole program: a site that was picked may have had less at the program's peak than it has at the end.
    let whole = memory.sums.iter().map(|sum| sum.allocated.samples()).sum::<u64>() == all.allocated.samples();
    let peak = if whole && is_the_peak(all.live.bytes.amount, all.peak.bytes.amount) {
        "which is the peak".to_owned()
    } else {
        let at = match &memory.processes[..] {
            [ProcessMemory { peak_ns: Some(ns), .. }] => format!(" at {} s", super::numbers::seconds(*ns)),
            _ => String::new(),
        };
        format!("peak {}{at}", in_words(&all.peak.bytes))
    };
    let is_sampled = |id: ProcessId| memory.processes.iter().any(|process| process.process == id);
    let others = profile.processes.enumerate().any(|(id, process)| process.name != NOBODY && !is_sampled(id));
    format!(
        "live {}, {peak}\nallocated {} in {} blocks; {} in {}, one per {}{}",
        in_words(&all.live.bytes),
        in_words(&allocated.bytes),
        amount(allocated.blocks.amount),
        count(allocated.samples(), "sample", "samples"),
        count(memory.processes.len() as u64, "process", "processes"),
        pct_num::bytes_binary(memory.interval_asked()),
        if others { "; others were not sampled" } else { "" },
    )
}
