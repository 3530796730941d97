//! `pct lib`: the library for use by hand.

use crate::face::Face;
use crate::runlib;
use anyhow::Result;
use std::process::ExitCode;

/// What can be typed after `pct lib`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  LD_PRELOAD=$(pct lib --path) PCT=hz=100,out=/tmp/prof ./server
  pct report /tmp/prof")]
pub struct Args {
    /// Print the path (the default).
    #[arg(long)]
    pub path: bool,
}

/// Lays the library out if need be and prints its path.
///
/// # Errors
/// When there is no library inside or no place for it.
pub fn run(_args: &Args, face: &Face) -> Result<ExitCode> {
    face.print(&format!("{}\n", runlib::path()?.display()))?;
    Ok(ExitCode::SUCCESS)
}
