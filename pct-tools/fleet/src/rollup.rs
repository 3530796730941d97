//! Past hours summed up over all hosts and longer intervals, into a root of its own that is kept for long.
//!
//! It is a root like any other: each question, `compact`, `check` and `forget` work on it, and nothing is counted
//! twice, since the rows are not beside those that they sum up. An hour is made again only where its files are
//! others than when it was made (their names have hashes of their contents). An hour that the first root has no
//! more stays.

use crate::columns::{SOURCES, Table as _, footer_value};
use crate::compact::{Footer, Outcome, Steps, Work, begin, dates, hours};
use crate::merge::samples::{How, Samples};
use crate::merge::{InMemory, Merger};
use crate::root::{self, content_hash, interval_of_rows, interval_s, parts_of};
use crate::tables::{Build, Location, Sample, Stack};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};

/// Sums up all hours of `from` that begin before `before` (microseconds since 1970), in rows of so many seconds.
///
/// # Errors
/// When `to` cannot be written, somebody else changes it, or it has rows of another interval.
pub fn rollup(from: &Path, to: &Path, before: i64, seconds: i64, step: Steps<'_>) -> Result<Outcome> {
    if !from.join(Sample::NAME).is_dir() {
        bail!("{}: no tables in it (pct ship and pct-fleet export write them)", from.display());
    }
    root::make_folder(to)?;
    let same = |path: &Path| path.canonicalize().with_context(|| path.display().to_string());
    if same(from)? == same(to)? {
        bail!("{}: rows cannot be summed up into the root that they are from", to.display());
    }
    if seconds % interval_s(from) != 0 || 3600 % seconds != 0 {
        bail!("rows of {} s cannot be summed up to rows of {seconds} s within an hour", interval_s(from));
    }
    let mut work = Work::open(to)?;
    if let Some(there) = interval_of_rows(to).filter(|there| *there != seconds) {
        bail!("{}: its rows sum up {there} s, not {seconds} s", to.display());
    }
    // Names first: whoever finds samples finds all that they refer to.
    for folder in dates(&from.join(Stack::NAME), &mut work.outcome.problems) {
        work.sum_up(from, &folder, InMemory::<Stack>::new(&|_| true), Kept::Both, seconds, step)?;
    }
    for table in [Location::NAME, Build::NAME] {
        let folder = from.join(table);
        if table == Location::NAME {
            work.sum_up(from, &folder, InMemory::<Location>::new(&|_| true), Kept::Both, seconds, step)?;
        } else {
            work.sum_up(from, &folder, InMemory::<Build>::new(&|_| true), Kept::Both, seconds, step)?;
        }
    }
    for folder in hours(from, &mut work.outcome.problems) {
        if begin(&folder).is_some_and(|begin| begin + 3_600_000_000 <= before) {
            let how = How { interval: seconds * 1_000_000, without_hosts: true, ..How::default() };
            work.sum_up(from, &folder, Samples::new(how), Kept::New, seconds, step)?;
        }
    }
    Ok(work.outcome)
}

/// What of the second root stays in a folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// Nothing: all rows are made again.
    New,
    /// All that is there.
    Both,
}

impl Work<'_> {
    fn sum_up<M: Merger>(
        &mut self,
        from: &Path,
        folder: &Path,
        mut merger: M,
        kept: Kept,
        seconds: i64,
        step: Steps<'_>,
    ) -> Result<()> {
        let mut files = parts_of(folder, &mut self.outcome.problems);
        let Ok(name) = folder.strip_prefix(from) else { return Ok(()) };
        if files.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = files.iter().map(|file| file.file_name()).collect();
        let sources = content_hash(format!("{names:?}").as_bytes());
        let place = self.root().join(name);
        root::make_folder(&place)?;
        let there = parts_of(&place, &mut self.outcome.problems);
        let is_made =
            |file: &PathBuf| footer_value(file, SOURCES).is_ok_and(|said| said.as_ref() == Some(&sources));
        if there.iter().any(is_made) {
            return Ok(());
        }
        if kept == Kept::Both {
            files.extend(there.iter().cloned());
        }
        let problems = self.outcome.problems.len();
        let taken = self.take_files(&files, &mut merger);
        // With a file that cannot be read the hour has not all its rows, and is tried again.
        let sources = (self.outcome.problems.len() == problems).then_some(sources);
        let names = there.iter().filter_map(|file| Some(file.file_name()?.to_string_lossy().into_owned()));
        let footer = Footer { segments: taken.segments, interval_s: seconds, sources };
        self.put_in_place(&place, merger, &names.collect(), &footer, step)
    }
}
