//! Flat tables.
//!
//! CSV has always the columns `samples,cpu_seconds,share,pid,process,tid,object,function`; what was merged is empty.
//! A line or address is appended to the function's name. With `--by thread-name` the name stands in the
//! column `tid`. `share` is a fraction of 1. Tables of latency have `latency_seconds` behind them, and
//! `share` is that of the latency. Where weights are no CPU time ([`crate::Quantity`]), the column `cpu_seconds` is
//! called by the sample type and its unit: `wall_seconds`, `inuse_space_bytes`. JSON then has the members `amount`,
//! `total_amount`, `of` and `unit` in the place of seconds.

use super::Layout;
use super::numbers::{count, seconds, share, share_error, thousands};
use super::table::{Column, Rank, Table, tame};
use crate::Language;
use crate::flat::{Flat, Row};
use crate::model::{Profile, Weight};
use crate::quantity::Quantity;
use crate::tree::Label;
use pct_num::float;
use pct_text::csv_field;
use serde_json::{Value, json};

/// How many samples make the sampling error of shares not worth a column.
pub(super) const MANY_SAMPLES: u64 = 2000;

/// Which columns are wanted beyond share and CPU seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Columns {
    /// Rows at most; the rest is summed up in one line.
    pub rows: usize,
    /// Inclusive share.
    pub total: bool,
    /// User and system seconds apart.
    pub split_system: bool,
    /// Number of samples.
    pub samples: bool,
}

/// What all cells of a table need to know.
struct Context<'a> {
    profile: &'a Profile,
    whole: Weight,
    /// What of that is in rows with samples.
    sampled: Weight,
    /// Weights are latency, and rows have their CPU time beside it.
    latency: bool,
    wanted: Columns,
    parts: Option<Label>,
    labels: Option<Label>,
    /// Rows are owners.
    owners: bool,
}

impl Context<'_> {
    fn name(&self, label: Option<Label>) -> String {
        label.map(|label| tame(&label.name(self.profile))).unwrap_or_default()
    }
    fn share(&self, weight: Weight) -> String {
        share(weight.cpu_ns(), self.whole.cpu_ns())
    }
    fn unit(&self) -> &'static str {
        unit(self.profile, self.latency)
    }
}

fn unit(profile: &Profile, latency: bool) -> &'static str {
    if latency { "latency s" } else { profile.unit() }
}

/// How many threads ran, on average, while this row ran: `1.0` alone, `2.0` beside one other thread.
fn parallelism(row: &Row) -> String {
    let cpu = row.cpu.unwrap_or_default();
    let latency = row.own.cpu_ns();
    if latency == 0 { String::new() } else { format!("{:.1}", float(cpu.cpu_ns()) / float(latency)) }
}

/// A column, declared once: when it is shown, its head, its cell.
struct Field {
    shown: fn(&Context<'_>) -> bool,
    column: fn(&Context<'_>) -> Column,
    cell: fn(&Context<'_>, &Row) -> String,
    /// What stands in it of a function that the row's called.
    callee: fn(&Context<'_>, Label, Weight) -> String,
}

/// A column in which nothing stands of functions that the row's called.
const NO_CALLEE: fn(&Context<'_>, Label, Weight) -> String = |_, _, _| String::new();

const FIELDS: &[Field] = &[
    Field {
        shown: |_| true,
        column: |c| Column::number(if c.owners && c.wanted.total { "self" } else { "share" }),
        cell: |c, row| c.share(row.own),
        callee: NO_CALLEE,
    },
    Field {
        shown: |c| (1..MANY_SAMPLES).contains(&c.whole.samples),
        column: |_| Column::number("+-"),
        cell: |c, row| match row.own.samples {
            // It was not sampled, but is what the kernel counted beyond the samples.
            0 => String::new(),
            _ => format!("{:.1}", share_error(row.own, c.sampled, c.whole.cpu_ns())),
        },
        callee: NO_CALLEE,
    },
    Field {
        shown: |c| c.wanted.total,
        column: |_| Column::number("total"),
        cell: |c, row| c.share(row.total),
        callee: NO_CALLEE,
    },
    Field {
        shown: |_| true,
        column: |c| Column::number(c.unit()),
        cell: |c, row| c.profile.amount(row.own.cpu_ns()),
        callee: NO_CALLEE,
    },
    Field {
        shown: |c| c.latency,
        column: |c| Column::number(c.profile.unit()),
        cell: |_, row| seconds(row.cpu.unwrap_or_default().cpu_ns()),
        callee: NO_CALLEE,
    },
    Field {
        shown: |c| c.latency,
        column: |_| Column::number("parallel"),
        cell: |_, row| parallelism(row),
        callee: NO_CALLEE,
    },
    Field {
        shown: |c| c.wanted.split_system && c.profile.is_of_cpu_time() && c.profile.tells_system_time(),
        column: |c| Column::number(if c.profile.by_wall_clock() { "running" } else { "user" }),
        cell: |_, row| seconds(row.own.user_ns),
        callee: NO_CALLEE,
    },
    Field {
        shown: |c| c.wanted.split_system && c.profile.is_of_cpu_time() && c.profile.tells_system_time(),
        column: |c| Column::number(if c.profile.by_wall_clock() { "waiting" } else { "system" }),
        cell: |_, row| seconds(row.own.system_ns),
        callee: NO_CALLEE,
    },
    Field {
        shown: |c| c.wanted.samples && c.whole.samples > 0 && !c.profile.quantity.is_number_of_samples(),
        column: |_| Column::number("samples"),
        cell: |_, row| thousands(row.own.samples),
        callee: NO_CALLEE,
    },
    Field {
        shown: |c| c.parts.is_some(),
        column: |c| {
            let head = match c.parts {
                Some(Label::Thread(_) | Label::ThreadName(_)) => "thread",
                Some(Label::Command(_)) => "command",
                _ => "process",
            };
            Column::text(head, 12)
        },
        cell: |c, row| c.name(row.part),
        callee: NO_CALLEE,
    },
    Field {
        shown: |c| matches!(c.parts, Some(Label::Thread(_))),
        column: |_| Column::text("of process", 10),
        cell: |c, row| match row.part {
            Some(Label::Thread(id)) => tame(&c.profile.process_of(id).name),
            _ => String::new(),
        },
        callee: NO_CALLEE,
    },
    Field {
        shown: |c| c.labels.is_some(),
        column: |c| {
            let head = match c.labels {
                Some(Label::Object(_)) => "object",
                Some(Label::Running) => "cause",
                Some(Label::Place(_) | Label::Address(_)) => "place",
                _ => "function",
            };
            Column::name(head, 16)
        },
        cell: |c, row| c.name(row.label),
        callee: |c, label, weight| format!("  {}  {}", c.name(Some(label)), c.share(weight)),
    },
    Field {
        shown: |c| c.labels.is_some_and(|label| !matches!(label, Label::Object(_))),
        column: |c| Column::text(if c.owners { "where" } else { "object" }, 8),
        cell: |c, row| {
            row.label
                .and_then(|label| label.whereabouts(c.profile))
                .map(|place| tame(&place))
                .unwrap_or_default()
        },
        callee: |c, label, _| match label {
            Label::Object(_) => "[no names]".to_owned(),
            _ => label.whereabouts(c.profile).map(|place| tame(&place)).unwrap_or_default(),
        },
    },
];

/// The table for people.
#[must_use]
pub fn table(profile: &Profile, flat: &Flat, wanted: Columns, layout: &Layout) -> String {
    let context = Context {
        profile,
        whole: flat.total,
        sampled: flat.rows.iter().map(|row| row.own).filter(|own| own.samples > 0).sum(),
        latency: flat.rows.iter().any(|row| row.cpu.is_some()),
        wanted,
        parts: flat.rows.iter().find_map(|row| row.part),
        labels: flat.rows.iter().filter_map(|row| row.label).max_by_key(|label| *label == Label::Running),
        owners: !flat.callees.is_empty(),
    };
    let fields: Vec<&Field> = FIELDS.iter().filter(|field| (field.shown)(&context)).collect();
    let mut table = Table::new(fields.iter().map(|field| (field.column)(&context)).collect());
    let visible = flat.rows.len().min(wanted.rows);
    for (at, row) in flat.rows[..visible].iter().enumerate() {
        let cells = fields.iter().map(|field| (field.cell)(&context, row)).collect();
        table.row(Rank::from_share(row.own.cpu_ns(), flat.total.cpu_ns()), cells);
        for &(label, weight) in flat.callees_worth_a_line(at) {
            let cells = fields.iter().map(|field| (field.callee)(&context, label, weight)).collect();
            table.row(Rank::Low, cells);
        }
    }
    let mut text = table.render(layout);
    let rest = &flat.rows[visible..];
    if !rest.is_empty() {
        let sum: Weight = rest.iter().map(|row| row.own).sum();
        let line = format!(
            "  ... {}: {} {}",
            count(rest.len() as u64, "more row", "more rows"),
            profile.amount(sum.cpu_ns()),
            context.unit()
        );
        text += &if layout.color { format!("\x1b[2m{line}\x1b[0m\n") } else { line + "\n" };
    }
    text
}

/// How many lines the first rows of the table take, with those of what they called.
#[must_use]
pub(super) fn lines_of_rows(flat: &Flat, rows: usize) -> usize {
    (0..rows.min(flat.rows.len())).map(|at| 1 + flat.callees_worth_a_line(at).count()).sum()
}

/// Header of the CSV form.
pub const CSV_HEADER: &str = "samples,cpu_seconds,share,pid,process,tid,object,function";

/// The rows as CSV, all of them unless `rows` says fewer.
#[must_use]
pub fn csv(profile: &Profile, flat: &Flat, rows: usize) -> String {
    let latency = flat.rows.iter().any(|row| row.cpu.is_some());
    let mut out = CSV_HEADER.replacen("cpu_seconds", &csv_field(&profile.quantity.column()), 1);
    out += if latency { ",latency_seconds\n" } else { "\n" };
    let whole = float(flat.total.cpu_ns().max(1));
    for row in flat.rows.iter().take(rows) {
        let fields = Fields::from_row(profile, row);
        out += &format!(
            "{},{:.6},{:.6},{},{},{},{},{}",
            samples(profile, row.own),
            profile.quantity.scaled(row.cpu.unwrap_or(row.own).cpu_ns()),
            float(row.own.cpu_ns()) / whole,
            fields.pid.map(|pid| pid.to_string()).unwrap_or_default(),
            csv_field(fields.process),
            fields.tid.map_or_else(|| csv_field(fields.thread).into_owned(), |tid| tid.to_string()),
            csv_field(&fields.object),
            csv_field(&fields.name),
        );
        if latency {
            out += &format!(",{:.6}", float(row.own.cpu_ns()) / 1e9);
        }
        out.push('\n');
    }
    out
}

/// A number of samples for CSV; empty where another profiler's file does not say it.
pub(super) fn samples(profile: &Profile, weight: Weight) -> String {
    let is_nothing = weight.is_zero() || !profile.is_imported();
    let is_known = weight.samples > 0 || (profile.is_of_cpu_time() && is_nothing);
    if is_known { weight.samples.to_string() } else { String::new() }
}

/// The rows and the account as JSON.
#[must_use]
pub fn json(profile: &Profile, flat: &Flat, rows: usize) -> Value {
    let whole = float(flat.total.cpu_ns().max(1));
    let rows: Vec<Value> = flat
        .rows
        .iter()
        .enumerate()
        .take(rows)
        .map(|(at, row)| {
            let fields = Fields::from_row(profile, row);
            let mut value = weight_json(&profile.quantity, row.cpu.unwrap_or(row.own));
            value["share"] = json!(float(row.own.cpu_ns()) / whole);
            let total = json!(profile.quantity.scaled(row.total.cpu_ns()));
            if !profile.is_of_cpu_time() {
                value["total_amount"] = total;
            } else if row.cpu.is_some() {
                value["latency_seconds"] = json!(float(row.own.cpu_ns()) / 1e9);
                value["total_latency_seconds"] = total;
            } else {
                value["total_seconds"] = total;
            }
            value["pid"] = json!(fields.pid);
            value["process"] = json!(Some(fields.process).filter(|name| !name.is_empty()));
            value["tid"] = json!(fields.tid);
            value["thread"] = json!(
                fields.tid.map(|_| fields.thread).or(Some(fields.thread).filter(|name| !name.is_empty()))
            );
            value["object"] = json!(fields.object);
            value["function"] = json!(fields.function);
            value["language"] = json!(fields.language.map(Language::name));
            value["file"] = json!(fields.file);
            value["line"] = json!(fields.line);
            value["address"] = json!(fields.address);
            if let Some(callees) = flat.callees.get(at) {
                value["callees"] =
                    callees.iter().map(|callee| callee_json(profile, *callee, whole)).collect();
            }
            value
        })
        .collect();
    json!({
        "version": 1,
        "title": profile.title,
        "total": weight_json(&profile.quantity, flat.total),
        "rows": rows,
        "account": account_json(profile),
    })
}

/// A function that a row's called; `function` is null for all those of the object that have no name.
fn callee_json(profile: &Profile, (label, weight): (Label, Weight), whole: f64) -> Value {
    let mut value = weight_json(&profile.quantity, weight);
    value["share"] = json!(float(weight.cpu_ns()) / whole);
    value["object"] = json!(label.object(profile).map(|object| profile.objects[object].name()));
    value["function"] = json!(label.function(profile).map(|function| &profile.functions[function].name));
    value
}

/// A weight's members.
#[must_use]
pub fn weight_json(quantity: &Quantity, weight: Weight) -> Value {
    if let Quantity::Foreign { name, unit } = quantity {
        let samples = (weight.samples > 0).then_some(weight.samples);
        return json!({
            "samples": samples, "amount": unit.scaled(weight.cpu_ns()), "of": name, "unit": unit.as_word(),
        });
    }
    json!({
        "samples": weight.samples,
        "cpu_seconds": float(weight.cpu_ns()) / 1e9,
        "user_seconds": float(weight.user_ns) / 1e9,
        "system_seconds": float(weight.system_ns) / 1e9,
    })
}

/// The closing account.
#[must_use]
pub fn account_json(profile: &Profile) -> Value {
    let account = &profile.account;
    let losses = |rows: &[crate::model::Loss]| -> Vec<Value> {
        rows.iter().map(|loss| json!({"cause": loss.cause, "samples": loss.samples})).collect()
    };
    let used = account.used.map(
        |(user, system)| json!({"user_seconds": float(user) / 1e9, "system_seconds": float(system) / 1e9}),
    );
    json!({
        "accounted_seconds": profile.is_of_cpu_time().then(|| float(profile.sampled().cpu_ns()) / 1e9),
        "used": used,
        "processes": profile.sampled_processes(),
        "processes_without_sample": account.without_sample,
        "without_sample_seconds": float(account.without_sample_ns) / 1e9,
        "lost": losses(&account.losses),
        "whole_stacks": account.whole_stacks,
        "cut_stacks": losses(&account.cut_stacks),
        "languages": account.languages.iter().map(|row| json!({
            "language": row.language.name(),
            "whole_samples": row.whole,
            "flawed": losses(&row.flawed),
            "inside": weight_json(&profile.quantity, row.spent.inside),
            "native": weight_json(&profile.quantity, row.spent.native),
            "waiting_for_lock": weight_json(&profile.quantity, row.spent.lock),
            "collecting_garbage": weight_json(&profile.quantity, row.spent.garbage),
            "compiling": weight_json(&profile.quantity, row.spent.compiling),
            "outside": weight_json(&profile.quantity, row.spent.outside),
        })).collect::<Vec<_>>(),
        "uncertain": account.uncertain,
        "notes": account.notes,
    })
}

/// What a row is about, field by field.
#[derive(Default)]
struct Fields<'a> {
    pid: Option<u32>,
    process: &'a str,
    tid: Option<u32>,
    thread: &'a str,
    object: String,
    /// With line or address.
    name: String,
    function: String,
    language: Option<Language>,
    file: Option<&'a str>,
    line: Option<u32>,
    address: Option<u64>,
}

impl<'a> Fields<'a> {
    fn from_row(profile: &'a Profile, row: &Row) -> Self {
        let mut fields = Self::default();
        let process = match row.part {
            Some(Label::Command(process)) => {
                fields.process = &profile.processes[process].name;
                None
            }
            Some(Label::ThreadName(thread)) => {
                fields.thread = &profile.threads[thread].name;
                None
            }
            Some(Label::Process(process)) => Some(process),
            Some(Label::Thread(thread)) => {
                let thread = &profile.threads[thread];
                (fields.tid, fields.thread) = (Some(thread.tid).filter(|&tid| tid != 0), &thread.name);
                Some(thread.process)
            }
            _ => None,
        };
        if let Some(process) = process {
            let process = &profile.processes[process];
            fields.pid = Some(process.pid).filter(|_| process.stands_for == 0);
            fields.process = &process.name;
        }
        if let Some(label) = row.label {
            if let Some(object) = label.object(profile) {
                fields.object = profile.objects[object].name().to_owned();
            }
            if let Some(function) = label.function(profile) {
                fields.function.clone_from(&profile.functions[function].name);
                fields.name = label.name(profile);
                fields.language = Some(profile.language(function));
                let declared = profile.functions[function].declared;
                if let Some((file, line)) = declared.filter(|_| matches!(label, Label::Function(_))) {
                    (fields.file, fields.line) = (Some(profile.files[file].as_str()), Some(line));
                }
            }
            if label == Label::Running {
                fields.function = label.name(profile);
                fields.name.clone_from(&fields.function);
            }
            if let Label::Place(frame) | Label::Address(frame) = label {
                let by_address = matches!(label, Label::Address(_));
                let frame = &profile.frames[frame];
                fields.file = frame.file.map(|file| profile.files[file].as_str());
                fields.line = Some(frame.line).filter(|&line| line != 0);
                // Of a line there are many.
                fields.address = frame.address.filter(|_| by_address || frame.file.is_none());
            }
        }
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flat::Order;
    use crate::fold::Whose;
    use crate::model::tests::folded;
    use crate::tree::{By, Split};

    const PLAIN: Columns = Columns { rows: 2, total: false, split_system: false, samples: false };

    #[test]
    fn the_table_names_the_rest() {
        let p = folded("main;a 600\nmain;b 300\nmain;c 80\nmain;d 20");
        let flat = Flat::count_cells(&p, &p.cells, Some(By::Function), Split::Merged, Order::Own);
        let text = table(&p, &flat, PLAIN, &Layout::default());
        assert_eq!(
            text,
            "  share   +-  CPU s  function  object\n  60.0%  1.5   0.60  a         prog\n  30.0%  1.4   0.30  b         prog\n  ... 2 more rows: 0.10 CPU s\n"
        );
    }

    #[test]
    fn what_an_owner_called_stands_below_it_when_it_is_more_than_a_tenth() {
        let text =
            "main;a;std::sort(int) 300\nmain;a;std::find(int) 30\nmain;a 270\nmain;b;std::sort(int) 400";
        let mut p = folded(text);
        let cells = p.cells.clone();
        let flat = Flat::count_owners(&mut p, &cells, Whose::Owner, Split::Merged, Order::Own);
        let wanted = Columns { total: true, ..PLAIN };
        assert_eq!(
            table(&p, &flat, wanted, &Layout::default()),
            "   self   +-  total  CPU s  function                 where\n  \
             60.0%  1.5  60.0%   0.60  a                        prog\n                              \
             std::sort(int)  30.0%  prog\n  \
             40.0%  1.5  40.0%   0.40  b                        prog\n                              \
             std::sort(int)  40.0%  prog\n"
        );
        let value = json(&p, &flat, usize::MAX);
        assert_eq!(value["rows"][0]["callees"][1]["function"], "std::find(int)");
        assert_eq!(value["rows"][0]["callees"][1]["share"], 0.03);
        let library = Flat::count_owners(&mut p, &cells, Whose::Library, Split::Merged, Order::Own);
        assert_eq!(json(&p, &library, 1)["rows"][0]["function"], "std::sort(int)");
    }

    #[test]
    fn csv_has_the_documented_header_and_quotes() {
        let p = folded("main;std::map<int,\"x\"> 1");
        let flat = Flat::count_cells(&p, &p.cells, Some(By::Function), Split::Process, Order::Own);
        assert_eq!(
            csv(&p, &flat, 1),
            "samples,cpu_seconds,share,pid,process,tid,object,function\n1,0.001000,1.000000,1,prog,,prog,\"std::map<int,\"\"x\"\">\"\n"
        );
    }

    #[test]
    fn json_holds_rows_and_account() {
        let p = folded("main;a 3\nmain;[system] 1");
        let flat = Flat::count_cells(&p, &p.cells, Some(By::Function), Split::Merged, Order::Own);
        let value = json(&p, &flat, usize::MAX);
        assert_eq!(value["rows"][0]["function"], "a");
        assert_eq!(value["rows"][1]["system_seconds"], 0.001);
        assert_eq!(value["total"]["samples"], 4);
        assert_eq!(value["account"]["lost"], serde_json::json!([]));
    }
}
