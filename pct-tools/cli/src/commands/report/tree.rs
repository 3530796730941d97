//! Call trees, of whatever is measured in cells.

use super::args::{Args, Rows};
use crate::face::Face;
use crate::look::{self, Format};
use anyhow::Result;
use pct_profile::model::Cell;
use pct_profile::text::tree::{self, Prune};
use pct_profile::text::{Layout, json_line};
use pct_profile::{CallTree, Profile};

/// The tree that was asked for, of these cells.
///
/// # Errors
/// When no function matches.
pub(super) fn text(
    args: &Args,
    rows: Rows,
    profile: &Profile,
    cells: &[Cell],
    face: &Face,
) -> Result<String> {
    let by = rows.by.unwrap_or_default();
    let tree = if let Some(pattern) = args.callers.as_ref() {
        CallTree::callers(profile, cells, look::functions_named(profile, pattern)?, by)
    } else if let Some(pattern) = args.callees.as_ref() {
        CallTree::callees(profile, cells, look::functions_named(profile, pattern)?, by)
    } else if args.bottom_up {
        CallTree::bottom_up(profile, cells, by, rows.split)
    } else {
        CallTree::top_down(profile, cells, by, rows.split)
    };
    Ok(match args.format {
        Format::Csv => tree::csv(profile, &tree),
        Format::Json => json_line(&tree::json(profile, &tree)),
        Format::Text => table(args, profile, &tree, cells, &face.layout()),
    })
}

fn table(args: &Args, profile: &Profile, drawn: &CallTree, cells: &[Cell], layout: &Layout) -> String {
    let whole = cells.iter().map(|cell| cell.weight.cpu_ns()).sum();
    let prune = Prune {
        least_share: args.least,
        lines: args.rows.unwrap_or(200),
        depth: args.depth.unwrap_or(usize::MAX),
    };
    tree::table(profile, drawn, whole, &prune, layout)
}
