//! `pct diff`: two profiles, and which differences are more than chance.

mod memory;

use crate::face::Face;
use crate::look::{self, Format, Look, Usage};
use crate::memory::MemoryLook;
use anyhow::Result;
use pct_profile::diff::{Compare, Diff};
use pct_profile::flat::Order;
use pct_profile::memory::Measure;
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
  pct diff --alloc before/ after/             live memory: what grew
  pct diff --alloc run/@10s run/@600s         two instants of one run

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
    /// What a row is: function, line or object. With --alloc also what is compared: live, peak, bytes or blocks.
    #[arg(long, value_name = "WHAT", default_value = "function", value_parser = rows)]
    pub by: Rows,
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
    /// Memory.
    #[command(flatten)]
    pub memory: MemoryLook,
    /// Which samples.
    #[command(flatten)]
    pub look: Look,
}

/// What a row of the comparison is, and of memory what is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rows {
    /// Function, line or object, if it was typed.
    pub by: Option<By>,
    /// What is compared, if it was typed.
    pub measure: Option<Measure>,
}

fn rows(text: &str) -> Result<Rows, String> {
    let mut rows = Rows::default();
    for word in text.split(',') {
        let before = match word {
            "function" => rows.by.replace(By::Function).map(drop),
            "line" => rows.by.replace(By::Line).map(drop),
            "object" => rows.by.replace(By::Object).map(drop),
            _ => match crate::memory::measure(word) {
                Ok(known) if !matches!(known, Measure::Age | Measure::Size) => {
                    rows.measure.replace(known).map(drop)
                }
                _ => {
                    return Err(
                        "expected function, line or object; of memory also live, peak, bytes or blocks"
                            .into(),
                    );
                }
            },
        };
        if before.is_some() {
            return Err("expected one of function, line, object, and one of live, peak, bytes, blocks".into());
        }
    }
    Ok(rows)
}

/// Exit status when something grew over the limit of --fail-over.
const OVER_LIMIT: u8 = 3;

/// Prints it.
///
/// # Errors
/// When one of the profiles cannot be read.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    let (before_path, after_path) = match (&args.base, &args.second) {
        (Some(base), _) => (base, &args.first),
        (None, Some(second)) => (&args.first, second),
        // The parser asks for one of the two.
        (None, None) => (&args.first, &args.first),
    };
    if args.memory.alloc {
        return memory::run(args, (before_path, after_path), face);
    }
    if let Some(measure) = args.by.measure {
        return Err(Usage(format!("--by {} compares memory: it needs --alloc", measure.name())).into());
    }
    let by = args.by.by.unwrap_or_default();
    let load = |path: &PathBuf| -> Result<(Profile, Flat)> {
        let profile = look::load(std::slice::from_ref(path), &args.look.options(), face)?;
        let flat = Flat::of(&profile, &args.look.cells(&profile), Some(by), Split::Merged, Order::Own);
        Ok((profile, flat))
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
