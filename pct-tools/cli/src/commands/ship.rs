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
  pct-fleet ship --help                       the options at length

Options of pct-fleet ship:
  DIR...             folders of recordings [default: that of continuous sampling]
  --to ROOT          the folder of the tables
  --push KIND=URL    to a server instead: pyroscope=URL, parca=URL or otlp=URL
  --symbolize        with --push: the names of functions of machine code too
  --unencrypted      with --push: unencrypted to another machine
  --every TIME       again and again, with so much time between two passes
  --state DIR        folder of what waits and of what is known to have arrived
  --host NAME        the host's name in the tables [default: this one's]
  --env NAME         the environment: prod, test
  --without-threads  no names of threads
  --spool BYTES      drop the oldest samples when more than this waits [default: 256M]
  --patience TIME    drop samples that have waited for so long [default: 7d]

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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use std::collections::BTreeSet;

    #[test]
    fn the_help_has_the_options_of_the_program_that_does_it() {
        const SOURCE: &str = include_str!("../../../fleet/src/cli/ship.rs");
        let arguments = SOURCE.split("pub struct Args {").nth(1).and_then(|rest| rest.split("\n}").next());
        let lines: Vec<&str> = arguments.expect("the options").lines().map(str::trim).collect();
        let named = |pair: &[&str]| {
            let name = pair[1].strip_prefix("pub ")?.split(':').next()?;
            pair[0].starts_with("#[arg(long").then(|| format!("--{}", name.replace('_', "-")))
        };
        let options: BTreeSet<String> = lines.windows(2).filter_map(named).collect();
        assert!(options.len() > 5, "{options:?}");
        let cli = crate::cli::Cli::command();
        let help = cli.find_subcommand("ship").and_then(clap::Command::get_after_help).expect("a help");
        let help = help.to_string();
        let listed = help.split("Options of pct-fleet ship:").nth(1).expect("a list");
        let listed = listed.lines().filter_map(|line| line.split_whitespace().next());
        let listed: BTreeSet<String> =
            listed.filter(|word| word.starts_with("--")).map(str::to_owned).collect();
        assert_eq!(listed, options);
    }
}
