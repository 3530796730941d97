//! `pct ship`: the program `pct-fleet` does it, which is built apart, since most people need no Parquet.

use crate::face::Face;
use anyhow::{Result, bail};
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

const PROGRAM: &str = "pct-fleet";

/// What can be typed after `pct ship`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct ship --to /srv/profiles                 write finished recordings there, once
  pct ship --to /srv/profiles --every 10m     the same again every ten minutes
  pct-fleet ship --help                       all options

This runs the program pct-fleet, from pct's own folder or else from PATH
(cargo install --path pct-tools/fleet). Its tables are Parquet files.")]
pub struct Args {
    /// Options of `pct-fleet ship`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS", required = true)]
    pub words: Vec<OsString>,
}

/// Becomes `pct-fleet ship`.
///
/// # Errors
/// When there is no `pct-fleet`, or it cannot be executed.
pub fn run(args: &Args, _face: &Face) -> Result<ExitCode> {
    become_fleet(std::iter::once(OsStr::new("ship")).chain(args.words.iter().map(OsString::as_os_str)))
}

/// Becomes `pct-fleet` with these arguments.
///
/// # Errors
/// As [`run`].
pub fn become_fleet<'a>(words: impl Iterator<Item = &'a OsStr>) -> Result<ExitCode> {
    let beside = std::env::current_exe().ok().map(|exe| exe.with_file_name(PROGRAM));
    let program = beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(PROGRAM));
    let why = Command::new(&program).args(words).exec();
    if why.kind() == std::io::ErrorKind::NotFound {
        bail!("no {PROGRAM} beside pct and none in PATH (cargo install --path pct-tools/fleet)");
    }
    bail!("{}: {why}", program.display());
}
