//! `pct report`: where the time went, as a flat table or a call tree.

mod memory;

pub(crate) use memory::run as of_memory;

use crate::face::Face;
use crate::look::{self, Format, Look, Usage};
use crate::memory::MemoryLook;
use anyhow::{Context as _, Result};
use pct_profile::flat::Order;
use pct_profile::load::Options;
use pct_profile::memory::Measure;
use pct_profile::model::Cell;
use pct_profile::text::flat::Columns;
use pct_profile::text::tree::Prune;
use pct_profile::text::{Layout, account, digest, flat, tree};
use pct_profile::{By, CallTree, Flat, Latency, Pattern, Profile, Split};
use std::path::PathBuf;
use std::process::ExitCode;

/// What can be typed after `pct report`.
#[derive(clap::Args, Debug, Default)]
#[command(after_help = "Examples:
  pct report                               the newest run in this folder
  pct report pct-render-4711 --tree        its call tree
  pct report --by thread,function -n 30    functions of each thread
  pct report --callers memmove             who calls it
  pct report --focus parse --from 2s       only samples under parse, from 2 s on
  pct report --latency                     by the time that it cost, not the CPU time
  pct report --budget 40                   what matters most, in 40 lines
  pct report --alloc                       where live memory was allocated (after pct run --alloc)
  pct report --alloc --by bytes --tree     the call tree of everything that was allocated
  pct report --format csv > prof.csv       samples,cpu_seconds,share,pid,process,tid,object,function")]
pub struct Args {
    /// Run folders and .pct files; the newest run here if none.
    #[arg(value_name = "DIR|FILE")]
    pub paths: Vec<PathBuf>,
    /// What a row is: function, line, pc, object (of Python code its module), thread, process; two of them with a comma
    /// [default: function, of memory line]. With --alloc also what it is ranked by: live, peak, bytes, blocks, age, size.
    #[arg(long, value_name = "WHAT", value_parser = by, help_heading = "Which table")]
    pub by: Option<Rows>,
    /// The call tree, from the outermost function inwards.
    #[arg(long, group = "view", help_heading = "Which table")]
    pub tree: bool,
    /// The call tree from the hot functions outwards.
    #[arg(long, group = "view", help_heading = "Which table")]
    pub bottom_up: bool,
    /// Who calls this function, as a tree.
    #[arg(long, group = "view", value_name = "FUNCTION", help_heading = "Which table")]
    pub callers: Option<Pattern>,
    /// What this function calls, as a tree.
    #[arg(long, group = "view", value_name = "FUNCTION", help_heading = "Which table")]
    pub callees: Option<Pattern>,
    /// Rank by the time in a function and all it calls.
    #[arg(long, conflicts_with = "view", help_heading = "Which table")]
    pub total: bool,
    /// Weigh each sample by 1 / (threads that ran then): what the time cost the one who waited for the run.
    #[arg(long, conflicts_with_all = ["html", "alloc"], help_heading = "Which table")]
    pub latency: bool,
    /// At most this many lines: the hottest functions, the heaviest call paths, the account.
    #[arg(long, value_name = "LINES", value_parser = look::number, conflicts_with_all = ["view", "format", "total", "html", "latency", "by", "rows", "alloc"], help_heading = "Which table")]
    pub budget: Option<usize>,
    /// Rows of a table, lines of a tree [default: 40, or 200 for trees; csv and json: all].
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = look::number, help_heading = "Which table")]
    pub rows: Option<usize>,
    /// Leave branches below this share of the total out of a tree, in percent.
    #[arg(long, value_name = "PERCENT", default_value = "0.5", allow_negative_numbers = true, requires = "view", value_parser = look::percent, help_heading = "Which table")]
    pub least: f64,
    /// Levels of a tree.
    #[arg(long, value_name = "LEVELS", requires = "view", allow_negative_numbers = true, value_parser = look::number, help_heading = "Which table")]
    pub depth: Option<usize>,
    /// In which form.
    #[arg(long, value_enum, default_value = "text", help_heading = "Which table")]
    pub format: Format,
    /// Write one self-contained page (flame graph, tables with a filter) to this file instead; - is stdout.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["view", "format", "total"], help_heading = "Which table")]
    pub html: Option<PathBuf>,
    /// Memory.
    #[command(flatten)]
    pub memory: MemoryLook,
    /// Which samples.
    #[command(flatten)]
    pub look: Look,
}

/// What a row stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rows {
    /// Places in code, if they are told apart.
    pub by: Option<By>,
    /// Processes or threads, if they are told apart.
    pub split: Split,
    /// Of memory: by what they are ranked.
    pub measure: Option<Measure>,
}

/// What was typed as rows.
///
/// # Errors
/// Says what could be typed.
pub(crate) fn by(text: &str) -> Result<Rows, String> {
    let (mut place, mut part, mut measure) = (None, None, None);
    for word in text.split(',') {
        let before = match word {
            "function" => place.replace(By::Function).map(drop),
            "line" => place.replace(By::Line).map(drop),
            "pc" | "address" => place.replace(By::Pc).map(drop),
            "object" | "module" => place.replace(By::Object).map(drop),
            "thread" => part.replace(Split::Thread).map(drop),
            "process" => part.replace(Split::Process).map(drop),
            word => match crate::memory::measure(word) {
                Ok(known) => measure.replace(known).map(drop),
                Err(_) => return Err("expected function, line, pc, object, thread or process".into()),
            },
        };
        if before.is_some() {
            return Err("expected one of function, line, pc, object, and one of thread, process".into());
        }
    }
    Ok(Rows { by: place, split: part.unwrap_or(Split::Merged), measure })
}

/// Prints it.
///
/// # Errors
/// When no profile could be read, or no function matches.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    let paths = look::paths(&args.paths)?;
    if args.memory.alloc {
        return of_memory(args, &paths, face);
    }
    let rows = args.rows_of_cpu()?;
    let names =
        rows.by.is_some() || tree_is_wanted(args) || args.look.focus.is_some() || args.look.ignore.is_some();
    let lines = matches!(rows.by, Some(By::Line | By::Pc)) || needs_inlines(args, rows);
    let options = Options { symbols: names, lines, timeline: args.latency, ..args.look.options() };
    let profile = look::load(&paths, &options, face)?;
    let cells = args.look.cells(&profile);
    if let Some(path) = &args.html {
        let page = pct_formats::html::page(&profile, &cells, &account::closing(&profile, &cells));
        if path.as_os_str() == "-" {
            face.print(&page)?;
        } else {
            std::fs::write(path, page).with_context(|| path.display().to_string())?;
            face.hint(path.display());
        }
        return Ok(look::status(&profile.account));
    }
    if let Some(lines) = args.budget {
        face.print(&digest::digest(&profile, &cells, lines, &face.layout()))?;
        return Ok(look::status(&profile.account));
    }
    let latency = args.latency.then(|| look::latency(&profile, &cells)).transpose()?;
    let text = if tree_is_wanted(args) {
        let cells = latency.as_ref().map_or(&cells, |latency| &latency.cells);
        tree_text(args, rows, &profile, cells, face)?
    } else {
        flat_text(args, rows, &profile, &cells, latency.as_ref(), face)
    };
    face.print(&text)?;
    if args.format == Format::Text {
        if let Some(why) = account::why_nothing(&profile, &cells) {
            crate::face::say(&format!("pct: {why}\n"));
        }
        if !face.quiet {
            let mut lines = account::closing(&profile, &cells);
            lines.extend(latency.as_ref().map(account::latency));
            face.print(&format!("\n{}\n", lines.join("\n")))?;
            if args.paths.is_empty() && !cells.is_empty() {
                face.hint(hint(args, &paths));
            }
        }
    }
    Ok(look::status(&profile.account))
}

impl Args {
    /// What a row of CPU time is: a function, unless something else was typed.
    fn rows_of_cpu(&self) -> Result<Rows> {
        let rows = self.by.unwrap_or(Rows { by: Some(By::Function), ..Rows::default() });
        match rows.measure {
            None => Ok(rows),
            Some(measure) => {
                Err(Usage(format!("--by {} ranks memory: it needs --alloc", measure.name())).into())
            }
        }
    }
}

fn tree_is_wanted(args: &Args) -> bool {
    args.tree || args.bottom_up || args.callers.is_some() || args.callees.is_some()
}

/// Inlined functions are frames of their own in every view by functions.
fn needs_inlines(args: &Args, rows: Rows) -> bool {
    rows.by == Some(By::Function) || tree_is_wanted(args)
}

fn hint(args: &Args, paths: &[PathBuf]) -> String {
    let run = paths.first().map(|path| path.display().to_string()).unwrap_or_default();
    if tree_is_wanted(args) {
        format!("{run}/   {}", crate::cli::next_step(&run, &["flame", "view"]))
    } else {
        format!("{run}/   try: pct report --tree {run}")
    }
}

fn flat_text(
    args: &Args,
    rows: Rows,
    profile: &Profile,
    cells: &[Cell],
    latency: Option<&Latency>,
    face: &Face,
) -> String {
    let order = if args.total { Order::Total } else { Order::Own };
    let of = |cells: &[Cell]| Flat::of(profile, cells, rows.by, rows.split, order);
    let table = match latency {
        Some(latency) => of(&latency.cells).beside(&of(cells)),
        None => of(cells),
    };
    match args.format {
        Format::Csv => flat::csv(profile, &table, args.rows.unwrap_or(usize::MAX)),
        Format::Json => format!("{}\n", flat::json(profile, &table, args.rows.unwrap_or(usize::MAX))),
        Format::Text => {
            let mut text = String::new();
            if !face.quiet {
                text = format!("{}\n\n", account::headline(profile));
            }
            if !cells.is_empty() {
                let columns = columns(args, rows, profile, face.out.width);
                text += &flat::table(profile, &table, columns, &face.layout());
            }
            text
        }
    }
}

/// Terminals without much room get fewer columns; pipes get all.
fn columns(args: &Args, rows: Rows, profile: &Profile, width: Option<usize>) -> Columns {
    let wide = width.is_none_or(|width| width >= 100);
    let stacks = profile.stacks.iter().any(|stack| stack.parent.is_some());
    let by_code = matches!(rows.by, Some(By::Function | By::Line | By::Pc));
    Columns {
        rows: args.rows.unwrap_or(40),
        total: rows.by.is_some() && (stacks && wide || args.total),
        split_system: !by_code,
        samples: wide,
    }
}

fn tree_text(args: &Args, rows: Rows, profile: &Profile, cells: &[Cell], face: &Face) -> Result<String> {
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
        Format::Json => format!("{}\n", tree::json(profile, &tree)),
        Format::Text => tree_table(args, profile, &tree, cells, &face.layout()),
    })
}

fn tree_table(args: &Args, profile: &Profile, drawn: &CallTree, cells: &[Cell], layout: &Layout) -> String {
    let whole = cells.iter().map(|cell| cell.weight.cpu_ns()).sum();
    let prune = Prune {
        least_share: args.least,
        lines: args.rows.unwrap_or(200),
        depth: args.depth.unwrap_or(usize::MAX),
    };
    tree::table(profile, drawn, whole, &prune, layout)
}
