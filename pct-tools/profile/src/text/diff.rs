//! The comparison of two profiles.

use super::Layout;
use super::flat::weight_json;
use super::numbers::{count, share};
use super::table::{Column, Rank, Table, tame};
use crate::diff::{Delta, Diff, Growth};
use crate::flat::Order;
use crate::model::Weight;
use crate::quantity::Quantity;
use pct_text::csv_field;
use serde_json::{Value, json};

/// The table for people: clear differences first, the rest summed up after `rows`.
#[must_use]
pub fn table(diff: &Diff, rows: usize, layout: &Layout) -> String {
    let mut table = Table::new(vec![
        Column::number(if diff.quantity.is_time() { "before s" } else { "before" }),
        Column::number(if diff.quantity.is_time() { "after s" } else { "after" }),
        Column::number("change"),
        Column::number("sure"),
        Column::name("function", 16),
        Column::text("object", 8),
    ]);
    let shown = diff.rows.len().min(rows);
    let whole = diff.before.cpu_ns();
    for row in &diff.rows[..shown] {
        let rank =
            if row.is_clear() { Rank::from_share(row.change_ns().unsigned_abs(), whole) } else { Rank::Low };
        table.row(
            rank,
            vec![
                diff.quantity.amount(row.before.cpu_ns()),
                diff.quantity.amount(row.after.cpu_ns()),
                diff.quantity.signed_amount(row.change_ns()),
                sureness(row).to_owned(),
                tame(&row.name),
                tame(&row.object),
            ],
        );
    }
    let signed = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
    let change = signed(diff.after.cpu_ns()).saturating_sub(signed(diff.before.cpu_ns()));
    let mut text = format!(
        "  {} before, {} after: {} ({})\n",
        with_unit(diff, diff.before),
        with_unit(diff, diff.after),
        diff.quantity.signed_amount(change),
        match diff.z.abs() {
            _ if diff.before.samples == 0 && diff.after.samples == 0 => "the number of samples is not known",
            z if z >= 3.3 => "clear",
            z if z >= 2.0 => "perhaps chance",
            _ => "within chance",
        },
    );
    if (diff.scale - 1.0).abs() > 1e-12 {
        text += &format!("  compared by shares: the second profile is scaled by {:.3}\n", diff.scale);
    }
    if diff.order == Order::Total {
        text += if diff.quantity.is_time() { "  seconds" } else { "  amounts" };
        text += " of functions with all that they call\n";
    }
    text += &table.render(layout);
    let rest = &diff.rows[shown..];
    // Functions that call each other share their time, so there is no sum of it.
    if diff.order == Order::Total && !rest.is_empty() {
        text += &format!("  ... {} more\n", count(rest.len() as u64, "row", "rows"));
    } else if !rest.is_empty() {
        let unit = if diff.quantity.is_time() { " s" } else { "" };
        let before: u64 = rest.iter().map(|row| row.before.cpu_ns()).sum();
        let after: u64 = rest.iter().map(|row| row.after.cpu_ns()).sum();
        text += &format!(
            "  ... {} more: {}{unit} before ({}), {}{unit} after\n",
            count(rest.len() as u64, "row", "rows"),
            diff.quantity.amount(before),
            share(before, whole),
            diff.quantity.amount(after)
        );
    }
    text
}

/// A total with its unit; of other profilers' sample types also their name.
fn with_unit(diff: &Diff, total: Weight) -> String {
    match diff.quantity {
        Quantity::Processor => format!("{} s", diff.quantity.amount(total.cpu_ns())),
        Quantity::Foreign { .. } => diff.quantity.in_words(total.cpu_ns()),
    }
}

/// What grew over a limit, as a line: `parse grew by 0.51 s, 8.2% of the total before (limit 5%)`.
#[must_use]
pub fn growth(diff: &Diff, growth: &Growth<'_>, limit: f64) -> String {
    let name = growth.row.map_or_else(|| "the total".to_owned(), |row| tame(&row.name));
    let share = match growth.share {
        share if share.is_finite() => format!("{:.1}% of the total before", share * 100.0),
        _ => "where there was nothing before".to_owned(),
    };
    let unit = if diff.quantity.is_time() { " s" } else { "" };
    format!("{name} grew by {}{unit}, {share} (limit {}%)", diff.quantity.amount(growth.ns), limit * 100.0)
}

fn sureness(row: &Delta) -> &'static str {
    match row.z.abs() {
        z if z >= 5.0 => "***",
        z if z >= 3.3 => "**",
        z if z >= 2.0 => "?",
        _ => "-",
    }
}

/// The change of a row in seconds, or in the file's unit.
fn change(diff: &Diff, row: &Delta) -> f64 {
    let size = diff.quantity.scaled(row.change_ns().unsigned_abs());
    if row.change_ns() < 0 { -size } else { size }
}

/// Header of the CSV form. Where weights are no CPU time, `seconds` is the sample type and its unit.
pub const CSV_HEADER: &str =
    "before_samples,before_seconds,after_samples,after_seconds,change_seconds,z,object,function";

/// All rows as CSV.
#[must_use]
pub fn csv(diff: &Diff) -> String {
    let column = csv_field(&diff.quantity.column()).into_owned();
    let head = if diff.quantity == Quantity::Processor { "seconds" } else { &column };
    let mut out = CSV_HEADER.replace("seconds", head) + "\n";
    for row in &diff.rows {
        out += &format!(
            "{},{:.6},{},{:.6},{:.6},{:.2},{},{}\n",
            row.before.samples,
            diff.quantity.scaled(row.before.cpu_ns()),
            row.after.samples,
            diff.quantity.scaled(row.after.cpu_ns()),
            change(diff, row),
            row.z,
            csv_field(&row.object),
            csv_field(&row.name),
        );
    }
    out
}

/// All rows as JSON.
#[must_use]
pub fn json(diff: &Diff) -> Value {
    let change_name = if diff.quantity == Quantity::Processor { "change_seconds" } else { "change" };
    let rows: Vec<Value> = diff
        .rows
        .iter()
        .map(|row| {
            json!({
                "function": row.name, "object": row.object,
                "before": weight_json(&diff.quantity, row.before), "after": weight_json(&diff.quantity, row.after),
                change_name: change(diff, row), "z": row.z, "clear": row.is_clear(),
            })
        })
        .collect();
    json!({
        "version": 1, "before": weight_json(&diff.quantity, diff.before), "after": weight_json(&diff.quantity, diff.after),
        "scale": diff.scale, "z": diff.z, "total": diff.order == Order::Total, "rows": rows,
    })
}
