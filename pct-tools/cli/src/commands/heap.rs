//! `pct heap`: where the live memory of a running program was allocated, from the file that it writes.
//! Nothing is stopped.

use crate::commands::{report, top};
use crate::face::Face;
use crate::look::{Format, Look};
use crate::memory::MemoryLook;
use anyhow::Result;
use pct_profile::Pattern;
use std::process::ExitCode;

/// What can be typed after `pct heap`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct heap 4711                  what is live in a program that runs under pct run --alloc
  pct heap 4711 --by age         what is large and old comes first
  pct heap 4711 --tree           the call tree of what is live
  pct heap pct-render-4711 --format json | jq '.rows[0]'")]
pub struct Args {
    /// Process id, .pct file or run folder; the newest run here if none.
    #[arg(value_name = "PID|FILE|DIR")]
    pub target: Option<String>,
    /// What rows are ranked by (live, peak, bytes, blocks, age, size), and what a row is (line, function,
    /// object, process); both may be joined with a comma.
    #[arg(long, value_name = "WHAT", value_parser = report::by)]
    pub by: Option<report::Rows>,
    /// The call tree, from the outermost function inwards.
    #[arg(long)]
    pub tree: bool,
    /// Rows of the table, lines of the tree [default: 40, or 200; csv and json: all].
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = crate::look::number)]
    pub rows: Option<usize>,
    /// Show also the frames of malloc, of operator new, of the standard libraries that call them, and of functions that
    /// only pass requests on (zmalloc, xstrdup).
    #[arg(long)]
    pub all_frames: bool,
    /// Functions that allocate for their callers, beside those that are known by name: their callers are shown.
    #[arg(long, value_name = "REGEX", conflicts_with = "all_frames")]
    pub hide: Option<Pattern>,
    /// Output format.
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Which samples.
    #[command(flatten)]
    pub look: Look,
}

/// Branches of a smaller share of the total are summed up, as in `pct report`.
const LEAST_SHARE: f64 = 0.005;

/// Prints it.
///
/// # Errors
/// When the process is not profiled, or its allocations are not sampled.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    let paths = top::target(args.target.as_deref())?;
    let report = report::Args {
        paths: paths.clone(),
        by: args.by,
        tree: args.tree,
        rows: args.rows,
        least: LEAST_SHARE,
        format: args.format,
        memory: MemoryLook { alloc: true, at: None, all_frames: args.all_frames, hide: args.hide.clone() },
        look: args.look.clone(),
        ..report::Args::default()
    };
    report::of_memory(&report, &paths, face)
}
