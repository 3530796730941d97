//! How many threads ran beside each function, as text, CSV and JSON.

use super::Layout;
use super::numbers::{seconds, share};
use super::table::{Column, Rank, Table};
use crate::model::Profile;
use crate::parallelism::FunctionRow;
use pct_num::float;
use pct_text::csv_field;
use serde_json::{Value, json};

/// Classes that a table for people has; the last one stands for all above.
const CLASSES: u32 = 6;
const HEADS: [&str; CLASSES as usize] = ["alone", "2", "3", "4", "5", "6+"];

/// The table for people: `most` rows.
#[must_use]
pub fn table(profile: &Profile, rows: &[FunctionRow], most: usize, layout: &Layout) -> String {
    let classes = |row: &FunctionRow| row.cpu_by_threads.last_key_value().map_or(1, |(threads, _)| *threads);
    let shown = rows.iter().map(classes).max().unwrap_or(1).min(CLASSES);
    let whole: u64 = rows.iter().map(|row| row.latency_ns).sum();
    let mut columns = vec![Column::number("latency s"), Column::number("share"), Column::number("CPU s")];
    columns.extend(HEADS.iter().take(shown as usize).map(|head| Column::number(head)));
    columns.push(Column::name("function", 12));
    let mut table = Table::new(columns);
    for row in rows.iter().take(most) {
        let cpu = row.cpu_ns();
        let mut cells = vec![seconds(row.latency_ns), share(row.latency_ns, whole), seconds(cpu)];
        for class in 1..=shown {
            let in_class = |threads: u32| threads == class || class == CLASSES && threads > class;
            let ns = row.cpu_by_threads.iter().filter(|(threads, _)| in_class(**threads));
            cells.push(share(ns.map(|(_, ns)| ns).sum(), cpu));
        }
        cells.push(profile.functions[row.function].name.clone());
        table.row(Rank::from_share(row.latency_ns, whole), cells);
    }
    let mut out =
        String::from("CPU time of each function by the number of threads that ran then, itself counted\n");
    out += &table.render(layout);
    if rows.len() > most {
        out += &format!("  ... and {} more (-n shows more)\n", rows.len() - most);
    }
    out
}

/// A line for each function and number of threads.
#[must_use]
pub fn csv(profile: &Profile, rows: &[FunctionRow], most: usize) -> String {
    let mut out = String::from("latency_seconds,threads,cpu_seconds,function\n");
    for row in rows.iter().take(most) {
        let name = csv_field(&profile.functions[row.function].name);
        for (threads, ns) in &row.cpu_by_threads {
            let (latency, cpu) = (float(row.latency_ns) / 1e9, float(*ns) / 1e9);
            out += &format!("{latency:.9},{threads},{cpu:.9},{name}\n");
        }
    }
    out
}

/// Everything as JSON.
#[must_use]
pub fn json(profile: &Profile, rows: &[FunctionRow], most: usize) -> Value {
    let row = |row: &FunctionRow| {
        let classes = row.cpu_by_threads.iter();
        let classes: Vec<Value> = classes
            .map(|(threads, ns)| json!({ "threads": threads, "cpu_seconds": float(*ns) / 1e9 }))
            .collect();
        json!({
            "function": profile.functions[row.function].name,
            "latency_seconds": float(row.latency_ns) / 1e9,
            "cpu_seconds": float(row.cpu_ns()) / 1e9,
            "by_threads": classes,
        })
    };
    json!({ "rows": rows.iter().take(most).map(row).collect::<Vec<_>>() })
}
