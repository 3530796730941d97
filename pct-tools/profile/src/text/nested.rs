//! Tables of rows within rows.
//!
//! CSV has a row for each row of the last level, with the columns `samples,cpu_seconds,share` and one for each level,
//! called by its word. JSON has the same as objects, and the words of the levels in `levels`. `share` is a fraction
//! of 1.

use super::Layout;
use super::flat::{account_json, samples, weight_json};
use super::numbers::{count, share, share_error, thousands};
use super::table::{Column, Rank, Table, tame};
use crate::fold::Whose;
use crate::model::{Profile, Weight};
use crate::nested::{Level, Line, Nested, NestedRow};
use crate::tree::{By, Label, Split};
use pct_num::float;
use pct_text::csv_field;
use serde_json::{Value, json};

impl Level {
    /// The word for it on command lines and in CSV and JSON.
    #[must_use]
    pub fn as_word(self) -> &'static str {
        match self {
            Self::Part(Split::Merged) => "all",
            Self::Part(Split::Process) => "process",
            Self::Part(Split::Thread) => "thread",
            Self::Part(Split::Command) => "command",
            Self::Part(Split::ThreadName) => "thread-name",
            Self::Function(Whose::Leaf) | Self::Place(By::Function) => "function",
            Self::Function(Whose::Owner) => "owner",
            Self::Function(Whose::Library) => "library",
            Self::Place(By::Line) => "line",
            Self::Place(By::Pc) => "pc",
            Self::Place(By::Cause) => "cause",
            Self::Place(By::Object) => "object",
        }
    }
}

/// Which rows and columns a table has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NestedColumns {
    /// Rows at most. Below those within a row stands the sum of what is left out.
    pub rows: usize,
    /// Number of samples.
    pub samples: bool,
}

/// The table for people: rows within a row stand below it, indented.
#[must_use]
pub fn table(
    profile: &Profile,
    levels: &[Level],
    nested: &Nested,
    wanted: NestedColumns,
    layout: &Layout,
) -> String {
    let whole = nested.total.cpu_ns();
    let sampled: Weight = nested.innermost().map(|row| row.own).filter(|own| own.samples > 0).sum();
    let has_error = (1..super::flat::MANY_SAMPLES).contains(&nested.total.samples);
    let has_samples = wanted.samples && nested.total.samples > 0 && !profile.quantity.is_number_of_samples();
    let mut columns = vec![Column::number("share")];
    columns.extend(has_error.then(|| Column::number("+-")));
    columns.push(Column::number(profile.unit()));
    columns.extend(has_samples.then(|| Column::number("samples")));
    columns.extend([Column::name("name", 24), Column::text("object", 8)]);
    let mut table = Table::new(columns);
    for line in nested.lines(wanted.rows) {
        let (level, own) = match line {
            Line::Row(at) => (nested.rows[at].level, nested.rows[at].own),
            Line::Rest { level, own, .. } => (level, own),
        };
        let (name, object, rank) = match line {
            Line::Row(at) => {
                let label = nested.rows[at].label;
                let object = label.whereabouts(profile).filter(|_| !matches!(label, Label::Object(_)));
                let rank = Rank::from_share(own.cpu_ns(), whole);
                (name(profile, levels, level, label), object.unwrap_or_default(), rank)
            }
            Line::Rest { rows, .. } => {
                (format!("... {}", count(rows, "more row", "more rows")), String::new(), Rank::Low)
            }
        };
        let mut cells = vec![share(own.cpu_ns(), whole)];
        cells.extend(has_error.then(|| match (line, own.samples) {
            (Line::Rest { .. }, _) | (_, 0) => String::new(),
            _ => format!("{:.1}", share_error(own, sampled, whole)),
        }));
        cells.push(profile.amount(own.cpu_ns()));
        cells.extend(has_samples.then(|| thousands(own.samples)));
        cells.extend([format!("{}{}", "  ".repeat(level), tame(&name)), tame(&object)]);
        table.row(rank, cells);
    }
    table.render(layout)
}

/// The name of a row for people. What the rows above it say is left out.
fn name(profile: &Profile, levels: &[Level], level: usize, label: Label) -> String {
    let above = &levels[..level.min(levels.len())];
    let is_process = |level: &Level| matches!(level, Level::Part(Split::Process | Split::Command));
    let name = label.name(profile);
    match label {
        Label::Thread(id) if !above.iter().any(is_process) => {
            format!("{name} of {}", profile.process_of(id).name)
        }
        Label::Place(frame) | Label::Address(frame)
            if above.iter().any(|l| matches!(l, Level::Function(_))) =>
        {
            let function = &profile.functions[profile.frames[frame].function].name;
            let place = name.strip_prefix(function.as_str()).map(str::trim_start);
            place.filter(|place| !place.is_empty()).unwrap_or(&name).to_owned()
        }
        _ => name,
    }
}

/// The rows of the last level as CSV, all of them unless `rows` says fewer: then the heaviest.
#[must_use]
pub fn csv(profile: &Profile, levels: &[Level], nested: &Nested, rows: usize) -> String {
    let whole = float(nested.total.cpu_ns().max(1));
    let words: Vec<&str> = levels.iter().map(|level| level.as_word()).collect();
    let mut out = format!("samples,{},share,{}\n", csv_field(&profile.quantity.column()), words.join(","));
    for row in heaviest(nested, rows) {
        let own = row.own;
        let names: Vec<String> =
            path(nested, row).map(|label| csv_field(&label.name(profile)).into_owned()).collect();
        out += &format!(
            "{},{:.6},{:.6},{}\n",
            samples(profile, own),
            profile.quantity.scaled(own.cpu_ns()),
            float(own.cpu_ns()) / whole,
            names.join(",")
        );
    }
    out
}

/// The rows of the last level as JSON, and the account.
#[must_use]
pub fn json(profile: &Profile, levels: &[Level], nested: &Nested, rows: usize) -> Value {
    let whole = float(nested.total.cpu_ns().max(1));
    let row = |row: &NestedRow| {
        let mut value = weight_json(&profile.quantity, row.own);
        value["share"] = json!(float(row.own.cpu_ns()) / whole);
        for (level, label) in levels.iter().zip(path(nested, row)) {
            value[level.as_word()] = json!(label.name(profile));
        }
        value
    };
    json!({
        "version": 1,
        "title": profile.title,
        "total": weight_json(&profile.quantity, nested.total),
        "levels": levels.iter().map(|level| level.as_word()).collect::<Vec<_>>(),
        "rows": heaviest(nested, rows).into_iter().map(row).collect::<Vec<_>>(),
        "account": account_json(profile),
    })
}

/// The labels of a row and of those that it is within, the outermost first.
fn path<'n>(nested: &'n Nested, row: &'n NestedRow) -> impl Iterator<Item = Label> + use<> {
    let above = std::iter::successors(Some(row), |row| nested.rows.get(row.parent?));
    let mut labels: Vec<Label> = above.map(|row| row.label).collect();
    labels.reverse();
    labels.into_iter()
}

/// The heaviest rows of the last level, in the order of the table.
fn heaviest(nested: &Nested, most: usize) -> Vec<&NestedRow> {
    let mut rows: Vec<(usize, &NestedRow)> = nested.innermost().enumerate().collect();
    rows.sort_by_key(|(_, row)| std::cmp::Reverse(row.own.cpu_ns()));
    rows.truncate(most);
    rows.sort_by_key(|(at, _)| *at);
    rows.into_iter().map(|(_, row)| row).collect()
}
