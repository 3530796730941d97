//! `pct diff`: two profiles, and which differences are more than chance.

use crate::face::Face;
use crate::look::{self, Format, Look};
use anyhow::Result;
use pct_profile::diff::{Compare, Diff};
use pct_profile::flat::Order;
use pct_profile::text::diff;
use pct_profile::{By, Flat, Profile, Split};
use std::path::PathBuf;
use std::process::ExitCode;

/// What can be typed after `pct diff`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct diff pct-render-4711 pct-render-4802
  pct diff --base pct-render-4711 pct-render-4802   the same
  pct diff --shares before/ after/            runs of different length
  pct diff --by object --format csv a.pct b.pct
  pct diff --fail-over 5% --significant main/ branch/   a gate for CI: status 3 if more

The column 'sure': *** and ** more than chance, ? perhaps chance, - within chance.")]
pub struct Args {
    /// The profile before; with --base, the one after.
    #[arg(value_name = "BEFORE")]
    pub first: PathBuf,
    /// The profile after.
    #[arg(value_name = "AFTER", required_unless_present = "base")]
    pub second: Option<PathBuf>,
    /// The profile before, as in `pct flame` and `pct view`.
    #[arg(long, value_name = "DIR|FILE", conflicts_with = "second")]
    pub base: Option<PathBuf>,
    /// Compare shares of the total instead of CPU seconds.
    #[arg(long)]
    pub shares: bool,
    /// What a row is.
    #[arg(long, value_enum, default_value = "function")]
    pub by: What,
    /// Rows of the table.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 30, allow_negative_numbers = true, value_parser = crate::look::number)]
    pub rows: usize,
    /// End with status 3 if the total or a row grew by more than this share of the total before, in percent.
    #[arg(long, value_name = "PERCENT", value_parser = crate::look::percent)]
    pub fail_over: Option<f64>,
    /// With --fail-over: only growth that is more than chance counts.
    #[arg(long, requires = "fail_over")]
    pub significant: bool,
    /// In which form.
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
    /// Which samples.
    #[command(flatten)]
    pub look: Look,
}

/// What a row of the comparison is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum What {
    /// A function.
    Function,
    /// A source line.
    Line,
    /// A program or library.
    Object,
}

/// Exit status when something grew over the limit of --fail-over.
const OVER_LIMIT: u8 = 3;

/// Prints it.
///
/// # Errors
/// When one of the profiles cannot be read.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    let by = match args.by {
        What::Function => By::Function,
        What::Line => By::Line,
        What::Object => By::Object,
    };
    let load = |path: &PathBuf| -> Result<(Profile, Flat)> {
        let profile = look::load(std::slice::from_ref(path), &args.look.options(), face)?;
        let flat = Flat::of(&profile, &args.look.cells(&profile), Some(by), Split::Merged, Order::Own);
        Ok((profile, flat))
    };
    let (before_path, after_path) = match (&args.base, &args.second) {
        (Some(base), _) => (base, &args.first),
        (None, Some(second)) => (&args.first, second),
        // The parser asks for one of the two.
        (None, None) => (&args.first, &args.first),
    };
    let (before, after) = (load(before_path)?, load(after_path)?);
    let compare = if args.shares { Compare::Shares } else { Compare::Seconds };
    let compared = Diff::of((&before.0, &before.1), (&after.0, &after.1), compare);
    face.print(&match args.format {
        Format::Text => diff::table(&compared, args.rows, &face.layout()),
        Format::Csv => diff::csv(&compared),
        Format::Json => format!("{}\n", diff::json(&compared)),
    })?;
    for (path, profile) in [(before_path, &before.0), (after_path, &after.0)] {
        for note in profile.account.notes.iter().filter(|_| args.format == Format::Text) {
            face.hint(format_args!("note: {}: {note}", path.display()));
        }
    }
    let Some(limit) = args.fail_over else { return Ok(ExitCode::SUCCESS) };
    let grown = compared.grown(limit, args.significant);
    for growth in &grown {
        crate::face::say(&format!("pct: {}\n", diff::growth(growth, limit)));
    }
    Ok(if grown.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(OVER_LIMIT) })
}
