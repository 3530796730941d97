//! `pct generate`: manual pages and completions (hidden, for packagers).

use crate::cli::Cli;
use crate::face::Face;
use anyhow::Result;
use clap::CommandFactory as _;
use pct_manual::What;
use std::process::ExitCode;

/// What can be typed after `pct generate`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct generate man target/man
  pct generate completions bash > /etc/bash_completion.d/pct")]
pub struct Args {
    /// What to write.
    #[command(subcommand)]
    pub what: What,
}

/// Writes them.
///
/// # Errors
/// When the folder cannot be written.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    let out = pct_manual::generate(&args.what, Cli::command(), "pct")?;
    face.print(&String::from_utf8_lossy(&out))?;
    Ok(ExitCode::SUCCESS)
}
