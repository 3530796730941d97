//! `pct run --continuous`: the program in place of pct, with the library in it that samples for weeks.
//!
//! Nothing stays beside the program: it has pct's process id, which is what a service manager watches. The
//! library begins new files and deletes old ones by itself.

use super::args::Args;
use super::start::{environment, not_executed};
use crate::errors::chain;
use crate::face::Face;
use crate::launch::check::FoundProgram;
use crate::launch::{objects, spawn};
use crate::store;
use anyhow::{Context as _, Result};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Becomes the program.
///
/// # Errors
/// When the command cannot be handed to the kernel (a NUL in it).
pub(super) fn run(
    args: &Args,
    found: Option<&FoundProgram>,
    library: Option<&Path>,
    face: &Face,
) -> Result<ExitCode> {
    let folder = match folder(args) {
        Ok(folder) => Some(folder),
        Err(why) => {
            face.warn(format_args!("{}; the program runs unprofiled", chain(&why)));
            None
        }
    };
    let obstacle = found.filter(|found| found.obstacle.is_some());
    if let Some(obstacle) = obstacle {
        face.warn(format_args!("{obstacle}; the program runs unprofiled"));
    }
    let library = library.filter(|_| obstacle.is_none());
    if library.is_some() {
        objects::make_file();
    }
    let failed = spawn::become_with_environment(
        &args.command,
        environment(args, library, folder.as_deref(), None, None),
    )?;
    Ok(not_executed(args, found, failed.errno, face))
}

/// The folder of recordings, made if need be.
fn folder(args: &Args) -> Result<PathBuf> {
    let folder = match &args.out {
        Some(folder) => std::path::absolute(folder)?,
        None => store::folder().context("no home for the recordings (--out names a folder)")?,
    };
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .with_context(|| folder.display().to_string())?;
    Ok(folder)
}
