//! What grew, as a table: estimates before and after, the change with its interval, and whether it is more than chance.

use super::Layout;
use super::memory_words::{TOO_WIDE, estimate_json, interval, is_sure, thousandths};
use super::numbers::{bytes, count};
use super::table::{Column, Rank, Table, cut_middle, name_in, tame};
use crate::memory::growth::{GrowthRow, MemoryDiff};
use pct_num::{Estimate, Growth, rounded};
use pct_text::csv_field;
use serde_json::{Value, json};

/// The table for people: clear changes first; the rest is summed up after `rows`. Summed up are also sites that are
/// known too little on both sides, where the change is not clear either.
#[must_use]
pub fn table(diff: &MemoryDiff, rows: usize, layout: &Layout) -> String {
    let mut table = Table::new(vec![
        Column::number("before"),
        Column::number("after"),
        Column::number("change"),
        Column::number("95 % interval"),
        Column::number("sure"),
        Column::name("site", 16),
        Column::text("object", 8),
    ]);
    let whole = rounded(diff.total.before.amount.max(diff.total.after.amount));
    let (told, rough): (Vec<&GrowthRow>, Vec<&GrowthRow>) = diff
        .rows
        .iter()
        .partition(|row| row.growth.is_clear() || is_sure(&row.before) || is_sure(&row.after));
    let shown = told.len().min(rows);
    for row in &told[..shown] {
        let size = rounded(row.growth.amount.abs());
        let rank = if row.growth.is_clear() { Rank::from_share(size, whole) } else { Rank::Low };
        table.row(
            rank,
            vec![
                bytes(row.before.amount),
                bytes(row.after.amount),
                signed(row.growth.amount),
                limits(&row.growth),
                sureness(&row.growth).to_owned(),
                site(row, layout),
                tame(&row.object),
            ],
        );
    }
    let total = &diff.total;
    let mut text = format!(
        "  {}: {} ({}) before, {} ({}) after: {} ({}), {}\n",
        diff.measure.name(),
        bytes(total.before.amount),
        interval(&total.before),
        bytes(total.after.amount),
        interval(&total.after),
        signed(total.growth.amount),
        limits(&total.growth),
        in_words(&total.growth),
    );
    text += &table.render(layout);
    for (rest, what) in [(&told[shown..], String::new()), (&rough[..], format!(" {TOO_WIDE}"))] {
        if rest.is_empty() {
            continue;
        }
        let sum = |side: fn(&GrowthRow) -> &Estimate| rest.iter().map(|row| side(row).amount).sum::<f64>();
        text += &format!(
            "  ... {}{what}: {} before, {} after\n",
            count(rest.len() as u64, "more site", "more sites"),
            bytes(sum(|row| &row.before)),
            bytes(sum(|row| &row.after)),
        );
    }
    text
}

/// The name of a site, cut where templates make it longer than a line. CSV and JSON have it whole.
fn site(row: &GrowthRow, layout: &Layout) -> String {
    const LONGEST: usize = 120;
    let name = tame(&row.name);
    if layout.wide { name } else { cut_middle(&name_in(layout, &name), LONGEST) }
}

/// What grew over a limit, as a line: `insert grew by 4.1 MB (3.9 .. 4.3 MB) (limit 5%)`.
#[must_use]
pub fn grown(row: &GrowthRow, limit: f64) -> String {
    let name = if row.name.is_empty() { "the total".to_owned() } else { site(row, &Layout::default()) };
    format!("{name} grew by {} ({}; limit {}%)", bytes(row.growth.amount), limits(&row.growth), limit * 100.0)
}

/// A change of memory with its sign.
fn signed(amount: f64) -> String {
    let text = bytes(amount);
    if text.starts_with('-') || amount < 0.5 { text } else { format!("+{text}") }
}

fn limits(growth: &Growth) -> String {
    format!("{} .. {}", signed(growth.interval.low), signed(growth.interval.high))
}

/// The same marks as for CPU time, by the same limits as probabilities.
fn sureness(growth: &Growth) -> &'static str {
    match growth.by_chance {
        p if p < 6e-7 => "***",
        _ if growth.is_clear() => "**",
        p if p < 0.05 => "?",
        _ => "-",
    }
}

fn in_words(growth: &Growth) -> &'static str {
    match sureness(growth) {
        "-" => "within chance",
        "?" => "perhaps chance",
        _ => "clear",
    }
}

/// All rows as CSV.
#[must_use]
pub fn csv(diff: &MemoryDiff) -> String {
    let mut out = String::from(
        "before_samples,before,after_samples,after,change,change_low,change_high,by_chance,object,function\n",
    );
    for row in &diff.rows {
        out += &format!(
            "{},{:.0},{},{:.0},{:.0},{:.0},{:.0},{:.3e},{},{}\n",
            row.before.samples,
            row.before.amount,
            row.after.samples,
            row.after.amount,
            row.growth.amount,
            row.growth.interval.low,
            row.growth.interval.high,
            row.growth.by_chance,
            csv_field(&row.object),
            csv_field(&row.name),
        );
    }
    out
}

/// All rows as JSON.
#[must_use]
pub fn json(diff: &MemoryDiff) -> Value {
    let row = |row: &GrowthRow| {
        json!({
            "function": row.name,
            "object": row.object,
            "before": estimate_json(&row.before),
            "after": estimate_json(&row.after),
            "change": row.growth.amount,
            "low": thousandths(row.growth.interval.low),
            "high": thousandths(row.growth.interval.high),
            "by_chance": row.growth.by_chance,
            "clear": row.growth.is_clear(),
        })
    };
    json!({
        "version": 1,
        "measure": diff.measure.name(),
        "total": row(&diff.total),
        "rows": diff.rows.iter().map(row).collect::<Vec<_>>(),
    })
}
