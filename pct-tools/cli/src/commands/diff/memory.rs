//! `pct diff --alloc`: what memory grew, between two recordings or two instants of one (`run/@10s run/@600s`).

use super::args::{Args, OVER_LIMIT};
use crate::errors::Usage;
use crate::face::Face;
use crate::look::{self, Format};
use crate::memory::{load, warn_of_incomplete_log};
use anyhow::Result;
use pct_profile::Profile;
use pct_profile::fold::Whose;
use pct_profile::load::WantedMemory;
use pct_profile::memory::growth::{Side, between, over_time};
use pct_profile::memory::{Measure, MemoryDiff, Selection, When};
use pct_profile::text::{growth, json_line};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// A recording, and the instant of it that is meant, in nanoseconds after its start.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Instant {
    path: PathBuf,
    at: Option<u64>,
}

impl Instant {
    /// `run/@10s` is ten seconds after the start of run/, unless there is a file of that name.
    fn parse(typed: &Path) -> Self {
        let whole = Self { path: typed.to_owned(), at: None };
        let Some(text) = typed.to_str().filter(|_| !typed.exists()) else { return whole };
        let Some((path, time)) = text.rsplit_once('@') else { return whole };
        match look::time(time) {
            Ok(at) => Self { path: PathBuf::from(path), at: Some(at) },
            Err(_) => whole,
        }
    }
}

/// Compares and prints.
///
/// # Errors
/// When one of the recordings cannot be read or has no allocation samples.
pub(super) fn run(args: &Args, (before, after): (&Path, &Path), face: &Face) -> Result<ExitCode> {
    if args.shares {
        return Err(Usage("memory is compared by what it is, not by shares".into()).into());
    }
    if args.memory.at.is_some() {
        return Err(Usage("with diff an instant is named behind its recording: run/@10s".into()).into());
    }
    let typed = args.by.unwrap_or_default();
    if matches!(typed.whose, Some(Whose::Owner | Whose::Library)) {
        return Err(Usage("--by owner and --by library compare CPU time, not memory".into()).into());
    }
    let (before, after) = (Instant::parse(before), Instant::parse(after));
    let measure = typed.measure.unwrap_or_default();
    if measure != Measure::Live && (before.at.is_some() || after.at.is_some()) {
        return Err(Usage(
            "at an instant it is known what was live, not what was allocated until then".into(),
        )
        .into());
    }
    let diff = compare(args, &before, &after, measure, face)?;
    face.print(&match args.format {
        Format::Text => growth::table(&diff, args.rows, &face.layout()),
        Format::Csv => growth::csv(&diff),
        Format::Json => json_line(&growth::json(&diff)),
    })?;
    let Some(limit) = args.fail_over else { return Ok(ExitCode::SUCCESS) };
    let grown = diff.grown(limit, args.significant);
    for row in &grown {
        crate::face::say(&format!("pct: {}\n", growth::grown(row, limit)));
    }
    Ok(if grown.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(OVER_LIMIT) })
}

fn compare(
    args: &Args,
    before: &Instant,
    after: &Instant,
    measure: Measure,
    face: &Face,
) -> Result<MemoryDiff> {
    let by = args.by.and_then(|typed| typed.by).unwrap_or_default();
    let selection = args.memory.selection(&args.look, measure);
    if before.path == after.path && (before.at.is_some() || after.at.is_some()) {
        let profile = loaded(args, before, WantedMemory::Log, face)?;
        let end = profile.memory.processes.iter().map(|process| process.end_ns).max().unwrap_or(0);
        let instants = (before.at.unwrap_or(end), after.at.unwrap_or(end));
        warn_of_incomplete_log(&profile, instants.0.min(instants.1), face);
        return Ok(over_time(&profile, &profile.memory, &selection, instants, by));
    }
    let side = |instant: &Instant| -> Result<_> {
        let wanted = if instant.at.is_some() { WantedMemory::Log } else { WantedMemory::Tables };
        let profile = loaded(args, instant, wanted, face)?;
        if let Some(at) = instant.at {
            warn_of_incomplete_log(&profile, at, face);
        }
        let when = instant.at.map_or(When::End, When::At);
        let cells = Selection { when, ..selection.clone() }.cells(&profile, &profile.memory);
        Ok((profile, cells))
    };
    let ((old, old_cells), (new, new_cells)) = (side(before)?, side(after)?);
    let before = Side { profile: &old, cells: &old_cells, interval: old.memory.interval() };
    let after = Side { profile: &new, cells: &new_cells, interval: new.memory.interval() };
    Ok(between(before, after, by, measure))
}

fn loaded(args: &Args, instant: &Instant, wanted: WantedMemory, face: &Face) -> Result<Profile> {
    let profile = load(std::slice::from_ref(&instant.path), &args.look, wanted, face)?;
    if args.format == Format::Text {
        for note in &profile.account.notes {
            face.hint(format_args!("note: {}: {note}", instant.path.display()));
        }
    }
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_stands_behind_the_recording() {
        let parsed = |text: &str| Instant::parse(Path::new(text));
        let at = |path: &str, at| Instant { path: path.into(), at };
        assert_eq!(parsed("run/@10s"), at("run/", Some(10_000_000_000)));
        assert_eq!(parsed("a@b@2m"), at("a@b", Some(120_000_000_000)));
        assert_eq!(parsed("run@host"), at("run@host", None));
        assert_eq!(parsed("run"), at("run", None));
    }
}
