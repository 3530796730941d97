//! What can be typed after `pct diff`.

use crate::look::{Format, Look};
use crate::memory::MemoryLook;
use pct_profile::By;
use pct_profile::fold::Whose;
use pct_profile::memory::Measure;
use std::path::PathBuf;

/// What can be typed after `pct diff`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct diff pct-render-4711 pct-render-4802
  pct diff --base pct-render-4711 pct-render-4802   the same
  pct diff --shares before/ after/            runs of different length
  pct diff --total before/ after/             functions with all that they call
  pct diff --by leaf before/ after/           each function of libraries and runtimes
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
    /// Compare functions with all that they call, instead of what they spend themselves.
    #[arg(long)]
    pub total: bool,
    /// What a row is: owner (the function of the program's own language that ran or called what ran), library (the
    /// first function that it called), leaf or function (the machine's function that ran), line or object. With --alloc
    /// function, line or object, and what is compared: live, peak, bytes or blocks [default: owner; with --total,
    /// --alloc, --format csv or json: function].
    #[arg(long, value_name = "WHAT", value_parser = rows)]
    pub by: Option<Rows>,
    /// Rows of the table.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 30, allow_negative_numbers = true, value_parser = crate::look::number)]
    pub rows: usize,
    /// End with status 3 if the total or a row grew by more than this share of the total before, in percent.
    #[arg(long, value_name = "PERCENT", value_parser = crate::look::percent)]
    pub fail_over: Option<f64>,
    /// With --fail-over: only growth that is more than chance counts.
    #[arg(long, requires = "fail_over")]
    pub significant: bool,
    /// Output format.
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
    /// Which function of its stack a sample is given to, if functions were typed.
    pub whose: Option<Whose>,
    /// What is compared, if it was typed.
    pub measure: Option<Measure>,
}

fn rows(text: &str) -> Result<Rows, String> {
    let mut rows = Rows::default();
    for word in text.split(',') {
        let before = match word {
            "function" | "leaf" | "owner" | "library" => {
                rows.whose = Some(match word {
                    "owner" => Whose::Owner,
                    "library" => Whose::Library,
                    _ => Whose::Leaf,
                });
                rows.by.replace(By::Function).map(drop)
            }
            "line" => rows.by.replace(By::Line).map(drop),
            "object" => rows.by.replace(By::Object).map(drop),
            _ => match crate::memory::measure(word) {
                Ok(known) if !matches!(known, Measure::Age | Measure::Size) => {
                    rows.measure.replace(known).map(drop)
                }
                _ => {
                    return Err(
                        "expected owner, library, leaf, function, line or object; of memory also live, peak, bytes \
                         or blocks"
                            .into(),
                    );
                }
            },
        };
        if before.is_some() {
            return Err("expected one of owner, library, leaf, function, line, object, and one of live, peak, bytes, \
                        blocks"
                .into());
        }
    }
    Ok(rows)
}

/// Exit status when something grew over the limit of --fail-over.
pub(super) const OVER_LIMIT: u8 = 3;
