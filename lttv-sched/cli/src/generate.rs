//! `lttv generate`: manual pages and completions.

use std::io::Write;

use clap::CommandFactory;
use pct_manual::What;

use crate::args::Args;

/// Writes them.
///
/// # Errors
/// The folder or a page cannot be written.
pub fn run(what: &What) -> anyhow::Result<()> {
    let out = pct_manual::generate(what, Args::command(), "lttv")?;
    std::io::stdout().write_all(&out)?;
    Ok(())
}
