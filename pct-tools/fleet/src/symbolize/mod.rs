//! Names for code that had none when it was sampled, brought later, by build-id.
//!
//! Hosts write the names that they know. For the rest they write `[object+0x1234]`. This finds those places, asks each
//! source for them in turn ([`sources`]), and adds rows to `locations`. Readers prefer a name to `[object+0x1234]`,
//! so no row is rewritten, and engines need nothing but an equi-join.
//!
//! A place that no file of `locations` has gets a row `[object+0x1234]`: without one, an engine's join would leave out
//! its time.
//!
//! Each file that is written has a name by its contents and comes into its place by one rename, `builds` before
//! `locations`. Killed at any instant, the next call finds the places that still have no name and writes what is
//! missing. The same root and the same sources give the same files.

mod search;
mod sources;

pub use search::{NamelessBuild, Outcome};
pub use sources::Sources;

use crate::compact::{Steps, Work};
use anyhow::Result;
use search::Search;
use std::path::Path;

/// Names what has no name, from the sources. `step` is told before each change of a file.
///
/// # Errors
/// When the root cannot be written, or somebody else changes it.
pub fn symbolize(root: &Path, sources: &Sources, step: Steps<'_>) -> Result<Outcome> {
    let mut work = Work::open(root)?;
    let mut search = Search::begin(root, std::mem::take(&mut work.outcome.problems));
    sources.ask(&mut search, work.folder(), step)?;
    search.name_by_object();
    search.write(root, work.folder(), step)?;
    Ok(search.finish())
}
