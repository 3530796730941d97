//! `pct diff`: two profiles, and which differences are more than chance.

mod args;
mod memory;

pub use args::{Args, Rows};

use crate::errors::Usage;
use crate::face::Face;
use crate::foreign::same_quantity;
use crate::look::{self, Format};
use anyhow::Result;
use args::OVER_LIMIT;
use pct_profile::diff::{Compare, Diff};
use pct_profile::flat::Order;
use pct_profile::fold::Whose;
use pct_profile::text::{diff, json_line};
use pct_profile::{Flat, Profile, Split};
use std::path::PathBuf;
use std::process::ExitCode;

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
        if args.total {
            return Err(Usage("--total compares CPU time: it has no meaning with --alloc".to_owned()).into());
        }
        return memory::run(args, (before_path, after_path), face);
    }
    let typed = args.by.unwrap_or_default();
    if let Some(measure) = typed.measure {
        return Err(Usage(format!("--by {} compares memory: it needs --alloc", measure.name())).into());
    }
    let by = typed.by.unwrap_or_default();
    // What programs read stays as it was. Ranked by inclusive time each function has a row.
    let for_people = args.format == Format::Text && !args.total && typed.by.is_none();
    let whose = typed.whose.unwrap_or(if for_people { Whose::Owner } else { Whose::Leaf });
    let order = if args.total { Order::Total } else { Order::Own };
    let load = |path: &PathBuf| -> Result<(Profile, Flat)> {
        let mut profile = look::load_any_quantity(std::slice::from_ref(path), &args.look.options(), face)?;
        let cells = args.look.cells(&profile);
        let flat = match whose {
            Whose::Leaf => Flat::count_cells(&profile, &cells, Some(by), Split::Merged, order),
            whose => Flat::count_owners(&mut profile, &cells, whose, Split::Merged, order),
        };
        Ok((profile, flat))
    };
    let (before, after) = (load(before_path)?, load(after_path)?);
    same_quantity((before_path, &before.0), &after.0)?;
    let compare = if args.shares { Compare::Shares } else { Compare::Seconds };
    let compared = Diff::compare((&before.0, &before.1), (&after.0, &after.1), compare);
    face.print(&match args.format {
        Format::Text => diff::table(&compared, args.rows, &face.layout()),
        Format::Csv => diff::csv(&compared),
        Format::Json => json_line(&diff::json(&compared)),
    })?;
    for (path, profile) in [(before_path, &before.0), (after_path, &after.0)] {
        for note in profile.account.notes.iter().filter(|_| args.format == Format::Text) {
            face.hint(format_args!("note: {}: {note}", path.display()));
        }
    }
    let Some(limit) = args.fail_over else { return Ok(ExitCode::SUCCESS) };
    let grown = compared.grown(limit, args.significant);
    for growth in &grown {
        crate::face::say(&format!("pct: {}\n", diff::growth(&compared, growth, limit)));
    }
    Ok(if grown.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(OVER_LIMIT) })
}
