//! The comparison of two profiles.

use super::Layout;
use super::numbers::{count, seconds, share, signed_seconds};
use super::table::{Column, Rank, Table, tame};
use crate::diff::{Delta, Diff, Growth};
use crate::flat::Order;
use pct_num::float;
use serde_json::{Value, json};

/// The table for people: clear differences first, the rest summed up after `rows`.
#[must_use]
pub fn table(diff: &Diff, rows: usize, layout: &Layout) -> String {
    let mut table = Table::new(vec![
        Column::number("before s"),
        Column::number("after s"),
        Column::number("change"),
        Column::number("sure"),
        Column::name("function", 16),
        Column::name("object", 8),
    ]);
    let shown = diff.rows.len().min(rows);
    let whole = diff.before.cpu_ns();
    for row in &diff.rows[..shown] {
        let rank =
            if row.is_clear() { Rank::from_share(row.change_ns().unsigned_abs(), whole) } else { Rank::Low };
        table.row(
            rank,
            vec![
                seconds(row.before.cpu_ns()),
                seconds(row.after.cpu_ns()),
                signed_seconds(row.change_ns()),
                sureness(row).to_owned(),
                tame(&row.name),
                tame(&row.object),
            ],
        );
    }
    let mut text = format!(
        "  {} s before, {} s after: {} ({})\n",
        seconds(diff.before.cpu_ns()),
        seconds(diff.after.cpu_ns()),
        signed_seconds(diff.after.cpu_ns().cast_signed().saturating_sub(diff.before.cpu_ns().cast_signed())),
        match diff.z.abs() {
            z if z >= 3.3 => "clear",
            z if z >= 2.0 => "perhaps chance",
            _ => "within chance",
        },
    );
    if (diff.scale - 1.0).abs() > 1e-12 {
        text += &format!("  compared by shares: the second profile is scaled by {:.3}\n", diff.scale);
    }
    if diff.order == Order::Total {
        text += "  seconds of functions with all that they call\n";
    }
    text += &table.render(layout);
    let rest = &diff.rows[shown..];
    // Functions that call each other share their time, so there is no sum of it.
    if diff.order == Order::Total && !rest.is_empty() {
        text += &format!("  ... {} more\n", count(rest.len() as u64, "row", "rows"));
    } else if !rest.is_empty() {
        let before: u64 = rest.iter().map(|row| row.before.cpu_ns()).sum();
        let after: u64 = rest.iter().map(|row| row.after.cpu_ns()).sum();
        text += &format!(
            "  ... {} more: {} s before ({}), {} s after\n",
            count(rest.len() as u64, "row", "rows"),
            seconds(before),
            share(before, whole),
            seconds(after)
        );
    }
    text
}

/// What grew over a limit, as a line: `parse grew by 0.51 s, 8.2% of the total before (limit 5%)`.
#[must_use]
pub fn growth(growth: &Growth<'_>, limit: f64) -> String {
    let name = growth.row.map_or_else(|| "the total".to_owned(), |row| tame(&row.name));
    let share = match growth.share {
        share if share.is_finite() => format!("{:.1}% of the total before", share * 100.0),
        _ => "where there was nothing before".to_owned(),
    };
    format!("{name} grew by {} s, {share} (limit {}%)", seconds(growth.ns), limit * 100.0)
}

fn sureness(row: &Delta) -> &'static str {
    match row.z.abs() {
        z if z >= 5.0 => "***",
        z if z >= 3.3 => "**",
        z if z >= 2.0 => "?",
        _ => "-",
    }
}

/// Header of the CSV form.
pub const CSV_HEADER: &str =
    "before_samples,before_seconds,after_samples,after_seconds,change_seconds,z,object,function";

/// All rows as CSV.
#[must_use]
pub fn csv(diff: &Diff) -> String {
    let mut out = format!("{CSV_HEADER}\n");
    for row in &diff.rows {
        out += &format!(
            "{},{:.6},{},{:.6},{:.6},{:.2},{},{}\n",
            row.before.samples,
            float(row.before.cpu_ns()) / 1e9,
            row.after.samples,
            float(row.after.cpu_ns()) / 1e9,
            row.change_ns() as f64 / 1e9,
            row.z,
            pct_text::csv_field(&row.object),
            pct_text::csv_field(&row.name),
        );
    }
    out
}

/// All rows as JSON.
#[must_use]
pub fn json(diff: &Diff) -> Value {
    let rows: Vec<Value> = diff
        .rows
        .iter()
        .map(|row| {
            json!({
                "function": row.name, "object": row.object,
                "before": super::flat::weight_json(row.before), "after": super::flat::weight_json(row.after),
                "change_seconds": row.change_ns() as f64 / 1e9, "z": row.z, "clear": row.is_clear(),
            })
        })
        .collect();
    json!({
        "version": 1, "before": super::flat::weight_json(diff.before), "after": super::flat::weight_json(diff.after),
        "scale": diff.scale, "z": diff.z, "total": diff.order == Order::Total, "rows": rows,
    })
}
