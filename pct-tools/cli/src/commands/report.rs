//! `pct report`: where the time went, as a flat table or a call tree.

mod args;
mod html;
mod memory;
mod tree;
pub(super) mod waits;

pub(crate) use args::by;
pub use args::{Args, Rows};
pub(crate) use memory::run as of_memory;

use crate::face::Face;
use crate::look::{self, Format};
use anyhow::{Result, bail};
use args::tree_is_wanted;
use pct_profile::flat::Order;
use pct_profile::fold::Whose;
use pct_profile::load::Options;
use pct_profile::model::Cell;
use pct_profile::text::flat::Columns;
use pct_profile::text::nested::NestedColumns;
use pct_profile::text::{account, digest, flat, json_line, nested, parallelism as parallelism_text};
use pct_profile::{By, Flat, Latency, Level, Nested, Profile, parallelism};
use std::path::PathBuf;
use std::process::ExitCode;

/// Prints it.
///
/// # Errors
/// When no profile could be read, or no function matches.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    let paths = args.choice.paths(&args.paths)?;
    if args.memory.alloc {
        return of_memory(args, &paths, face);
    }
    if let Some(shown) = args.wait {
        return waits::run(args, shown, &paths, face);
    }
    let rows = args.rows_of_cpu()?;
    let names =
        rows.by.is_some() || tree_is_wanted(args) || args.look.focus.is_some() || args.look.ignore.is_some();
    let lines = rows.tells_lines() || needs_inlines(args, rows);
    let waits = args.html.is_some();
    let options = Options { symbols: names, lines, timeline: args.latency, waits, ..args.look.options() };
    let options = args.choice.narrow(options);
    let load = if args.latency { look::load } else { look::load_any_quantity };
    let mut profile = load(&paths, &options, face)?;
    if rows.has(Level::Place(By::Cause)) && !profile.by_wall_clock() {
        bail!("what threads waited for is in recordings by the wall clock: pct run --clock wall -- COMMAND");
    }
    let cells = args.look.cells(&profile);
    if let Some(path) = &args.html {
        args.look.retain_waits(&mut profile);
        let owners =
            Flat::count_owners(&mut profile, &cells, Whose::Owner, pct_profile::Split::Merged, Order::Own);
        let page = pct_formats::html::page(&profile, &cells, &owners, &account::for_pages(&profile, &cells));
        html::write(path, &page, face)?;
        return Ok(look::status(&profile.account));
    }
    if let Some(lines) = args.budget {
        face.print(&digest::digest(&mut profile, &cells, lines, &face.layout()))?;
        return Ok(look::status(&profile.account));
    }
    let latency = args.latency.then(|| look::latency(&profile, &cells)).transpose()?;
    let text = if rows.is_nested(args) {
        nested_text(args, rows, &mut profile, &cells, face)
    } else if tree_is_wanted(args) {
        let cells = latency.as_ref().map_or(&cells, |latency| &latency.cells);
        tree::text(args, rows, &profile, cells, face)?
    } else {
        flat_text(args, rows, &mut profile, &cells, latency.as_ref(), face)
    };
    face.print(&text)?;
    if args.format == Format::Text {
        if let Some(why) = account::why_nothing(&profile, &cells) {
            crate::face::say(&format!("pct: {why}\n"));
        }
        if !face.quiet {
            // A tree has nothing above it.
            let account = if tree_is_wanted(args) { account::for_pages } else { account::closing };
            let mut lines = account(&profile, &cells);
            lines.extend(latency.as_ref().map(account::latency));
            face.print(&format!("\n{}", face.prose(&lines)))?;
            if args.paths.is_empty() && !cells.is_empty() {
                face.hint(hint(args, &paths));
            }
        }
    }
    Ok(look::status(&profile.account))
}

/// Inlined functions are frames of their own in every view by functions.
fn needs_inlines(args: &Args, rows: Rows) -> bool {
    rows.tells_functions() || tree_is_wanted(args)
}

fn hint(args: &Args, paths: &[PathBuf]) -> String {
    let run = paths.first().map(|path| path.display().to_string()).unwrap_or_default();
    if tree_is_wanted(args) {
        format!("{run}/   {}", crate::cli::next_step(&run, &["flame", "view"]))
    } else {
        format!("{run}/   try: pct report --tree {run}")
    }
}

/// Rows within rows.
fn nested_text(args: &Args, rows: Rows, profile: &mut Profile, cells: &[Cell], face: &Face) -> String {
    let levels = rows.levels();
    let table = Nested::count_levels(profile, cells, &levels);
    let most = args.rows.unwrap_or(if args.format == Format::Text { 40 } else { usize::MAX });
    match args.format {
        Format::Csv => nested::csv(profile, &levels, &table, most),
        Format::Json => json_line(&nested::json(profile, &levels, &table, most)),
        Format::Text => {
            let mut text = String::new();
            if !face.quiet {
                text = face.prose(&account::heading(profile)) + "\n";
            }
            if !cells.is_empty() {
                let samples = is_wide(face.out.width);
                text += &nested::table(
                    profile,
                    &levels,
                    &table,
                    NestedColumns { rows: most, samples },
                    &face.layout(),
                );
            }
            text
        }
    }
}

fn flat_text(
    args: &Args,
    rows: Rows,
    profile: &mut Profile,
    cells: &[Cell],
    latency: Option<&Latency>,
    face: &Face,
) -> String {
    let order = if args.total { Order::Total } else { Order::Own };
    let mut of = |cells: &[Cell]| match rows.whose {
        Whose::Leaf => Flat::count_cells(profile, cells, rows.by, rows.split, order),
        whose => Flat::count_owners(profile, cells, whose, rows.split, order),
    };
    let table = match latency {
        Some(latency) => {
            let by_latency = of(&latency.cells);
            by_latency.beside(&of(cells))
        }
        None => of(cells),
    };
    if let Some(latency) = latency.filter(|_| args.parallelism) {
        let rows = parallelism::by_function(profile, latency);
        let most = args.rows.unwrap_or(if args.format == Format::Text { 40 } else { usize::MAX });
        return match args.format {
            Format::Csv => parallelism_text::csv(profile, &rows, most),
            Format::Json => json_line(&parallelism_text::json(profile, &rows, most)),
            Format::Text => parallelism_text::table(profile, &rows, most, &face.layout()),
        };
    }
    match args.format {
        Format::Csv => flat::csv(profile, &table, args.rows.unwrap_or(usize::MAX)),
        Format::Json => json_line(&flat::json(profile, &table, args.rows.unwrap_or(usize::MAX))),
        Format::Text => {
            let mut text = String::new();
            if !face.quiet {
                text = face.prose(&account::heading(profile)) + "\n";
            }
            if !cells.is_empty() {
                let columns = columns(args, rows, profile, face.out.width);
                text += &flat::table(profile, &table, columns, &face.layout());
            }
            text
        }
    }
}

/// Whether there is room for all columns.
fn is_wide(width: Option<usize>) -> bool {
    width.is_none_or(|width| width >= 100)
}

/// Terminals without much room get fewer columns; pipes get all.
fn columns(args: &Args, rows: Rows, profile: &Profile, width: Option<usize>) -> Columns {
    let wide = is_wide(width);
    let stacks = profile.stacks.iter().any(|stack| stack.parent.is_some());
    let by_code = matches!(rows.by, Some(By::Function | By::Line | By::Pc));
    Columns {
        rows: args.rows.unwrap_or(40),
        total: rows.by.is_some_and(|by| by != By::Cause) && (stacks && wide || args.total),
        split_system: !by_code,
        samples: wide,
    }
}
