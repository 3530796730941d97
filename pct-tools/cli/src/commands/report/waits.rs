//! `pct report --wait`: what threads waited for, where, and who held it.

use super::args::{Args, Rows, tree_is_wanted};
use super::tree;
use crate::errors::Usage;
use crate::face::Face;
use crate::look::{self, Format, Look};
use anyhow::{Result, bail};
use pct_profile::fold::Whose;
use pct_profile::load::Options;
use pct_profile::text::{json_line, path as path_text, waits as text};
use pct_profile::wait_views::WaitsShown;
use pct_profile::{By, Profile, Split};
use std::path::PathBuf;
use std::process::ExitCode;

/// Loads recordings with their waits, those that were asked for.
///
/// # Errors
/// When none can be read, or waits were not recorded.
pub(crate) fn load(paths: &[PathBuf], look: &Look, face: &Face) -> Result<Profile> {
    load_as(paths, look, &Options { waits: true, ..look.options() }, face)
}

fn load_as(paths: &[PathBuf], look: &Look, options: &Options, face: &Face) -> Result<Profile> {
    let mut profile = look::load(paths, options, face)?;
    if profile.waits.is_empty() {
        let name = paths.first().map_or_else(|| profile.title.clone(), |path| path.display().to_string());
        if profile.waits.asked_in_vain > 0 {
            bail!(
                "{name}: its waits were not recorded: --wait records those of programs that load pct's library, and this one \
                 did not"
            );
        }
        bail!("{name}: its waits were not recorded; record them by: pct run --wait -- COMMAND");
    }
    look.retain_waits(&mut profile);
    Ok(profile)
}

/// Prints it.
///
/// # Errors
/// As [`load`]; [`Usage`] for rows that waits do not have.
pub(super) fn run(args: &Args, shown: WaitsShown, paths: &[PathBuf], face: &Face) -> Result<ExitCode> {
    if args.path {
        return run_path(args, paths, face);
    }
    let rows =
        args.by.unwrap_or(Rows { lock: true, ..Rows::default() }).with_one_of_each("a table of waits")?;
    let of_tree = tree_is_wanted(args);
    let known = match rows {
        Rows { measure: Some(_), .. } | Rows { whose: Whose::Library, .. } => false,
        Rows { by: None | Some(By::Function), split: Split::Merged, .. } => true,
        Rows { by: None, split: Split::Thread, lock: false, .. } => true,
        _ => of_tree,
    };
    if !known {
        return Err(Usage("with --wait a row is a lock, a function, a leaf or a thread".into()).into());
    }
    let mut profile = load(paths, &args.look, face)?;
    let most = args.rows.unwrap_or(usize::MAX);
    let people = args.format == Format::Text;
    let body = match args.format {
        _ if of_tree => {
            let rows = Rows { by: rows.by.or(Some(By::Function)), ..rows };
            profile.cells = shown.cells(&profile.waits);
            if people {
                face.print(heading(shown))?;
            }
            tree::text(args, rows, &profile, &profile.cells, face)?
        }
        Format::Csv => text::csv(&profile, &profile.waits, most),
        Format::Json => json_line(&text::json(&profile, &profile.waits, most)),
        Format::Text => {
            let most = args.rows.unwrap_or(20);
            let layout = face.layout();
            let by = match rows {
                Rows { by: None, .. } => text::Rows::Objects,
                Rows { leaf: true, .. } => text::Rows::MachineFunctions,
                Rows { .. } => text::Rows::Functions,
            };
            let only_threads = rows.split == Split::Thread;
            let tables = if only_threads {
                String::new()
            } else {
                text::tables(&profile, &profile.waits, by, most, &layout)
            };
            tables + &text::threads(&profile, &profile.waits, most, &layout)
        }
    };
    face.print(&body)?;
    if people && !face.quiet {
        face.print(&format!("\n{}", face.prose(&text::closing(&profile.waits))))?;
    }
    Ok(look::status(&profile.account))
}

/// What stands above a tree.
const fn heading(shown: WaitsShown) -> &'static str {
    match shown {
        WaitsShown::Locks => "Waits for locks (--wait=work and --wait=all show the others):\n",
        WaitsShown::Work => "Waits for work (--wait shows those for locks):\n",
        WaitsShown::All => "Waits for locks and for work (--wait shows those for locks alone):\n",
    }
}

/// Prints the critical path.
///
/// # Errors
/// As [`load`]; [`Usage`] for a selection: a path goes through all threads.
fn run_path(args: &Args, paths: &[PathBuf], face: &Face) -> Result<ExitCode> {
    if !args.look.is_everything() || args.look.window().is_some() {
        return Err(Usage("--path is about the whole run: it cannot be shown of a part".into()).into());
    }
    let options = Options { waits: true, timeline: true, ..args.look.options() };
    let profile = load_as(paths, &args.look, &options, face)?;
    let waits = &profile.waits;
    let Some(chain) = path_text::longest(waits) else { bail!("the recording knows no thread") };
    let most = args.rows.unwrap_or(usize::MAX);
    let body = match args.format {
        Format::Csv => path_text::csv(&profile, chain, most),
        Format::Json => json_line(&path_text::json(&profile, waits, chain, most)),
        Format::Text => path_text::tables(&profile, waits, chain, args.rows.unwrap_or(20), &face.layout()),
    };
    face.print(&body)?;
    if args.format == Format::Text && !face.quiet {
        face.print(&face.prose(&path_text::closing(&profile, waits, chain)))?;
    }
    Ok(look::status(&profile.account))
}
