//! What can be typed after `pct-fleet`.

mod ask;
mod host;
mod keep;
pub mod ship;
mod symbolize;

use crate::gather::{Origin, gather};
use crate::questions::{Engine, Question, Which, sql};
use crate::root;
use anyhow::{Context as _, Result, bail};
use clap::Parser as _;
use pct_profile::Profile;
use pct_profile::load::recordings::Recording;
use pct_profile::load::{self, Options};
use pct_text::complain;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Profiles of many hosts and weeks, as Parquet tables that engines ask.
#[derive(clap::Parser, Debug)]
#[command(name = "pct-fleet", version, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "Examples:
  pct-fleet export pct-server-4711 -o /srv/profiles --service shop --release 1.42.0
  pct-fleet ship --to /srv/profiles --every 10m
  pct-fleet top /srv/profiles --service shop --last 1h --by host
  pct-fleet flame /srv/profiles --service shop --older 1.41.0 --newer 1.42.0 -o shop.svg
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
    /// Bring the recordings of continuous sampling into the tables, each once
    Ship(ship::Args),
    /// The functions that most time was spent in
    Top(ask::Top),
    /// What changed between two versions of a service
    Diff(ask::Diff),
    /// Draw a flame graph, or the difference of two versions
    Flame(ask::Flame),
    /// Write what was asked for as a recording that pct report, flame, diff and view read
    Get(ask::Get),
    /// What there is: services, versions and hosts, with their time and what was lost
    Hosts(ask::Hosts),
    /// Read every file, and say what is wrong
    Check(keep::Check),
    /// Merge the many small files of past hours
    Compact(keep::Compact),
    /// Sum up past hours over all hosts and longer intervals, into a root that is kept for long
    Rollup(keep::Rollup),
    /// Remove the rows of a host or service
    Forget(keep::Forget),
    /// Find names for code that had none when it was sampled
    Symbolize(symbolize::Symbolize),
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
        Command::Ship(args) => ship::run(&args),
        Command::Top(args) => ask::top(&args),
        Command::Diff(args) => ask::diff(&args),
        Command::Flame(args) => ask::flame(&args),
        Command::Get(args) => ask::get(&args),
        Command::Hosts(args) => ask::hosts(&args),
        Command::Check(args) => keep::check(&args),
        Command::Compact(args) => keep::compact(&args),
        Command::Rollup(args) => keep::rollup(&args),
        Command::Forget(args) => keep::forget(&args),
        Command::Symbolize(args) => symbolize::run(&args),
        Command::Sql(args) => print(&args),
    };
    match done {
        Ok(code) => code,
        Err(why) => {
            complain!("pct-fleet: {why:#}");
            ExitCode::FAILURE
        }
    }
}

fn export(args: &Export) -> Result<ExitCode> {
    let host = host::named_or_own(args.host.as_deref())?;
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
            Ok(rows) => complain!("{}: {rows} rows of samples", path.display()),
            // One bad file does not stop the next.
            Err(why) => {
                failed = true;
                complain!("pct-fleet: {}: {why:#}", path.display());
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
    root::write(root, &tables, &ids_of(path)?)?;
    Ok(tables.samples.len())
}

/// The ids of the recordings below a path, so that one that is exported and shipped too can be told; none of
/// other formats.
fn ids_of(path: &Path) -> Result<Vec<String>> {
    if is_foreign(path) {
        return Ok(Vec::new());
    }
    let recordings = load::files_of(path)?.into_iter().filter_map(|file| Recording::read(&file).ok());
    let mut ids: Vec<String> = recordings.map(|recording| crate::ship::segment_id(&recording)).collect();
    ids.sort();
    Ok(ids)
}

/// Whether a path is a file of another tool, or a folder of perf's.
fn is_foreign(path: &Path) -> bool {
    let Some(path) = pct_formats::import::perf_data::folder::main_file(path) else { return false };
    path.is_file() && path.extension().is_none_or(|extension| extension != "pct")
}

/// Reads a recording of any kind, with the times of its samples.
fn read(path: &Path) -> Result<Profile> {
    let options = Options { timeline: true, ..Options::default() };
    if is_foreign(path) {
        let wanted = pct_formats::import::Wanted { timeline: true, sample_type: None };
        let profile = pct_formats::import_with(path, wanted)?;
        if let Some(instead) = profile.quantity.instead_of_cpu_time() {
            bail!("{}: {instead}; tables are of CPU time", path.display());
        }
        return Ok(profile);
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
    let which = Which { interval_s: root::interval_s(Path::new(&of.root)), ..of.which.clone() };
    let text = sql(of.engine, of.root.trim_end_matches('/'), &which, &question);
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(why) if why.kind() != std::io::ErrorKind::BrokenPipe => Err(why).context("stdout"),
        _ => Ok(ExitCode::SUCCESS),
    }
}
