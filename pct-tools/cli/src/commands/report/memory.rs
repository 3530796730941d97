//! `pct report --alloc`: where memory was allocated, what of it is live, what was live at the peak.

use super::args::{Args, Rows, tree_is_wanted};
use super::html;
use crate::errors::Usage;
use crate::face::Face;
use crate::look::{self, Format};
use crate::memory::Loaded;
use anyhow::Result;
use pct_formats::html::memory::{self as of_memory, Shown};
use pct_profile::flat::Order;
use pct_profile::memory::{Figures, Measure};
use pct_profile::text::tree::Prune;
use pct_profile::text::{json_line, memory as text, memory_account as account, memory_data as data};
use pct_profile::{By, CallTree, Flat, Split};
use std::path::PathBuf;
use std::process::ExitCode;

/// What is ranked by what: sites by what is live, unless something else was typed.
#[derive(Clone, Copy)]
struct Ranked {
    measure: Measure,
    by: By,
    split: Split,
}

impl Ranked {
    fn from_rows(rows: Option<Rows>) -> Result<Self> {
        let rows = rows.unwrap_or_default().with_one_of_each("a table of memory")?;
        if matches!(rows.split, Split::Thread | Split::ThreadName) {
            return Err(Usage("memory is counted by stack, not by thread: --by process".into()).into());
        }
        // Where something is allocated is a line: one function may allocate for many things.
        let by = rows.by.unwrap_or(By::Line);
        Ok(Self { measure: rows.measure.unwrap_or_default(), by, split: rows.split })
    }
}

/// Prints it.
///
/// # Errors
/// When no recording could be read, it has no allocation samples, or no function matches.
pub(crate) fn run(args: &Args, paths: &[PathBuf], face: &Face) -> Result<ExitCode> {
    let ranked = Ranked::from_rows(args.by)?;
    let loaded = args.memory.load(paths, &args.look, ranked.measure, face)?;
    let Loaded { profile, cells, .. } = &loaded;
    if let Some(path) = &args.html {
        let live = |process: &_| account::live_of(cells, process);
        let closing = account::closing(profile, &profile.memory, &live);
        let shown = Shown { measure: ranked.measure, by: ranked.by, split: ranked.split };
        html::write(path, &of_memory::page(profile, cells, shown, &closing), face)?;
        return Ok(look::status(&profile.account));
    }
    let body = if tree_is_wanted(args) {
        tree(args, &loaded, ranked, face)?
    } else {
        table(args, &loaded, ranked, face)
    };
    let mut page = String::new();
    let people = args.format == Format::Text;
    if people && !face.quiet {
        let all: Figures = cells.iter().map(|cell| cell.figures).sum();
        page = format!("{}\n\n", text::headline(profile, &profile.memory, &all));
    }
    page += &body;
    if people && !face.quiet {
        let live = |process: &_| account::live_of(cells, process);
        page += &format!("\n{}\n", account::closing(profile, &profile.memory, &live).join("\n"));
    }
    face.print(&page)?;
    if people && !face.quiet && args.paths.is_empty() {
        let run = paths.first().map(|path| path.display().to_string()).unwrap_or_default();
        face.hint(format_args!("{run}/   try: pct flame --alloc {run}"));
    }
    Ok(look::status(&profile.account))
}

fn table(args: &Args, loaded: &Loaded, ranked: Ranked, face: &Face) -> String {
    let Loaded { profile, cells, .. } = loaded;
    let order = if args.total { Order::Total } else { Order::Own };
    let flat = Flat::count_cells(profile, cells, Some(ranked.by), ranked.split, order);
    let most = args.rows.unwrap_or(usize::MAX);
    match args.format {
        Format::Csv => data::csv(profile, &flat, most),
        Format::Json => json_line(&data::json(profile, &profile.memory, &flat, most)),
        Format::Text => {
            let wide = face.out.width.is_none_or(|width| width >= 100);
            let columns = text::Columns { rows: args.rows.unwrap_or(40), wide, total: args.total };
            text::table(profile, &flat, ranked.measure, columns, &face.layout())
        }
    }
}

fn tree(args: &Args, loaded: &Loaded, ranked: Ranked, face: &Face) -> Result<String> {
    let Loaded { profile, cells, .. } = loaded;
    // A tree by lines repeats each function for each of its calls.
    let by = args.by.and_then(|rows| rows.by).unwrap_or(By::Function);
    let drawn = if let Some(pattern) = args.callers.as_ref() {
        CallTree::callers(profile, cells, look::functions_named(profile, pattern)?, by)
    } else if let Some(pattern) = args.callees.as_ref() {
        CallTree::callees(profile, cells, look::functions_named(profile, pattern)?, by)
    } else if args.bottom_up {
        CallTree::bottom_up(profile, cells, by, ranked.split)
    } else {
        CallTree::top_down(profile, cells, by, ranked.split)
    };
    Ok(match args.format {
        Format::Csv => data::tree_csv(profile, &drawn, ranked.measure),
        Format::Json => json_line(&data::tree_json(profile, &profile.memory, &drawn)),
        Format::Text => {
            let prune = Prune {
                least_share: args.least,
                lines: args.rows.unwrap_or(200),
                depth: args.depth.unwrap_or(usize::MAX),
            };
            text::tree(profile, &drawn, ranked.measure, &prune, &face.layout())
        }
    })
}
