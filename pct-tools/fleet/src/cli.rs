//! What can be typed after `pct-fleet`.

use crate::gather::{Origin, gather};
use crate::questions::{Engine, Question, Which, sql};
use crate::root;
use anyhow::{Context as _, Result, bail};
use clap::Parser as _;
use pct_profile::Profile;
use pct_profile::load::{self, Options};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Profiles of many hosts and weeks, as Parquet tables that engines ask.
#[derive(clap::Parser, Debug)]
#[command(name = "pct-fleet", version, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "Examples:
  pct-fleet export pct-server-4711 -o /srv/profiles --service shop --release 1.42.0
  pct-fleet sql top --root /srv/profiles --service shop --by host | duckdb
  pct-fleet sql diff 1.41.0 1.42.0 --root /srv/profiles --engine spark
  pct-fleet sql flame --root /srv/profiles --from 2026-11-20T14:00 --to 2026-11-20T15:00

docs/fleet.md describes the tables.

Exit status: 0 done, 1 could not, 2 wrong usage.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Write recordings into the tables below a folder
    Export(Export),
    /// Print the SQL text of a question
    Sql(Sql),
}

#[derive(clap::Args, Debug)]
struct Export {
    /// Run folders, .pct files, perf.data, pprof or folded text.
    #[arg(value_name = "DIR|FILE", required = true)]
    paths: Vec<PathBuf>,
    /// The folder of the tables; it is made if it is not there.
    #[arg(short = 'o', long, value_name = "ROOT")]
    root: PathBuf,
    /// The service that the recordings are of [default: each process's name].
    #[arg(long, default_value = "", hide_default_value = true)]
    service: String,
    /// Which version of the service ran.
    #[arg(long, default_value = "", hide_default_value = true)]
    release: String,
    /// The environment: prod, test.
    #[arg(long, default_value = "", hide_default_value = true)]
    env: String,
    /// The host that the recordings are from [default: this one].
    #[arg(long)]
    host: Option<String>,
    /// Write no names of threads.
    #[arg(long)]
    without_threads: bool,
}

#[derive(clap::Args, Debug)]
struct Sql {
    #[command(subcommand)]
    question: Asked,
}

#[derive(clap::Subcommand, Debug)]
enum Asked {
    /// The functions that most time was spent in
    Top {
        /// Tell these apart: host, service, version; several with commas.
        #[arg(long, value_delimiter = ',', value_parser = ["host", "service", "version"])]
        by: Vec<String>,
        /// Rows.
        #[arg(short = 'n', long, default_value_t = 20)]
        rows: u32,
        #[command(flatten)]
        of: Of,
    },
    /// What changed between two versions, with what functions call, as shares of each version's time
    Diff {
        /// The older version.
        old: String,
        /// The newer version.
        new: String,
        /// Rows.
        #[arg(short = 'n', long, default_value_t = 20)]
        rows: u32,
        #[command(flatten)]
        of: Of,
    },
    /// Stacks as folded lines, for flame graphs
    Flame {
        #[command(flatten)]
        of: Of,
    },
}

#[derive(clap::Args, Debug)]
struct Of {
    /// The folder of the tables.
    #[arg(long, value_name = "ROOT")]
    root: String,
    /// Whose dialect.
    #[arg(long, value_enum, default_value = "duckdb")]
    engine: Engine,
    #[command(flatten)]
    which: Which,
}

/// Runs `pct-fleet` with this process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Export(args) => export(&args),
        Command::Sql(args) => print(&args),
    };
    match done {
        Ok(code) => code,
        Err(why) => {
            eprintln!("pct-fleet: {why:#}");
            ExitCode::FAILURE
        }
    }
}

fn export(args: &Export) -> Result<ExitCode> {
    let host = match &args.host {
        Some(host) => host.clone(),
        None => nix::unistd::gethostname().context("the host's name")?.to_string_lossy().into_owned(),
    };
    let origin = Origin {
        service: args.service.clone(),
        version: args.release.clone(),
        host,
        env: args.env.clone(),
        without_threads: args.without_threads,
    };
    let mut failed = false;
    for path in &args.paths {
        match export_one(path, &args.root, &origin) {
            Ok(rows) => eprintln!("{}: {rows} rows of samples", path.display()),
            // One bad file does not stop the next.
            Err(why) => {
                failed = true;
                eprintln!("pct-fleet: {}: {why:#}", path.display());
            }
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn export_one(path: &Path, root: &Path, origin: &Origin) -> Result<usize> {
    let profile = read(path)?;
    let tables = gather(&profile, origin);
    if tables.samples.is_empty() {
        bail!("no sample in it");
    }
    root::write(root, &tables)?;
    Ok(tables.samples.len())
}

/// Reads a recording of any kind, with the times of its samples.
fn read(path: &Path) -> Result<Profile> {
    let options = Options { timeline: true, ..Options::default() };
    if path.is_file() && path.extension().is_none_or(|extension| extension != "pct") {
        return Ok(pct_formats::import_with(path, true)?);
    }
    Ok(load::load(&[path.to_owned()], &options)?)
}

fn print(args: &Sql) -> Result<ExitCode> {
    use std::io::Write as _;
    let (of, question) = match &args.question {
        Asked::Top { by, rows, of } => (of, Question::Top { by: by.clone(), limit: *rows }),
        Asked::Diff { old, new, rows, of } => {
            (of, Question::Diff { old: old.clone(), new: new.clone(), limit: *rows })
        }
        Asked::Flame { of } => (of, Question::Flame),
    };
    let text = sql(of.engine, of.root.trim_end_matches('/'), &of.which, &question);
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(why) if why.kind() != std::io::ErrorKind::BrokenPipe => Err(why).context("stdout"),
        _ => Ok(ExitCode::SUCCESS),
    }
}
