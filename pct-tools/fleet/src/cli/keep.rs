//! Looking after a root: check, compact, forget.

use crate::{check, compact, rollup};
use anyhow::{Result, bail};
use pct_text::complain;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

#[derive(clap::Args, Debug)]
pub(super) struct Check {
    /// The folder of the tables.
    #[arg(value_name = "ROOT")]
    root: PathBuf,
}

#[derive(clap::Args, Debug)]
pub(super) struct Compact {
    /// The folder of the tables.
    #[arg(value_name = "ROOT")]
    root: PathBuf,
    /// Merge hours and days that ended so long ago.
    #[arg(long, value_name = "TIME", value_parser = super::ship::time, default_value = "1h")]
    older: Duration,
}

#[derive(clap::Args, Debug)]
pub(super) struct Rollup {
    /// The folder of the tables.
    #[arg(value_name = "ROOT")]
    root: PathBuf,
    /// The folder of the tables that are kept for long; it is made if it is not there.
    #[arg(long, value_name = "ROOT")]
    to: PathBuf,
    /// Sum up hours that ended so long ago.
    #[arg(long, value_name = "TIME", value_parser = super::ship::time, default_value = "1h")]
    older: Duration,
    /// The time that a row sums up: 1m to 1h, by which an hour can be divided.
    #[arg(long, value_name = "TIME", value_parser = super::ship::time, default_value = "10m")]
    interval: Duration,
}

#[derive(clap::Args, Debug)]
#[group(id = "what", required = true, multiple = true, args = ["host", "service"])]
pub(super) struct Forget {
    /// The folder of the tables.
    #[arg(value_name = "ROOT")]
    root: PathBuf,
    /// All of this host (with --service: only of that service there).
    #[arg(long)]
    host: Option<String>,
    /// All of this service.
    #[arg(long)]
    service: Option<String>,
}

pub(super) fn check(args: &Check) -> Result<ExitCode> {
    if !args.root.is_dir() {
        bail!("{}: it is not there", args.root.display());
    }
    let found = check::check(&args.root);
    for problem in &found.problems {
        complain!("pct-fleet: {problem}");
    }
    for (table, (files, rows)) in &found.tables {
        let (files, rows) = (pct_num::count(*files, "file", "files"), pct_num::count(*rows, "row", "rows"));
        println!("{table}: {files}, {rows}");
    }
    let seconds = |ns: i64| pct_num::seconds(u64::try_from(ns).unwrap_or(0));
    println!("{} s of CPU time, {} s lost", seconds(found.sums.0), seconds(found.sums.1));
    if found.unknown_stacks_ns > 0 {
        println!("{} s are of stacks that no file has", seconds(found.unknown_stacks_ns));
    }
    if found.nameless_places > 0 {
        println!("{} without a name", pct_num::count(found.nameless_places, "place", "places"));
    }
    Ok(if found.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tell(outcome: &compact::Outcome) -> ExitCode {
    for problem in &outcome.problems {
        complain!("pct-fleet: {problem}");
    }
    let folders = pct_num::count(outcome.folders, "folder", "folders");
    let (read, written) = outcome.files;
    complain!("{folders}: {} written in place of {read}", pct_num::count(written, "file", "files"));
    if outcome.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The time so long ago, in microseconds since 1970.
fn ago(time: Duration) -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.saturating_sub(time).as_micros()).unwrap_or(i64::MAX)
}

pub(super) fn compact(args: &Compact) -> Result<ExitCode> {
    Ok(tell(&compact::compact(&args.root, ago(args.older), &mut |_| {})?))
}

pub(super) fn rollup(args: &Rollup) -> Result<ExitCode> {
    let seconds = i64::try_from(args.interval.as_secs()).unwrap_or(i64::MAX);
    Ok(tell(&rollup::rollup(&args.root, &args.to, ago(args.older), seconds, &mut |_| {})?))
}

pub(super) fn forget(args: &Forget) -> Result<ExitCode> {
    let is = |wanted: &Option<String>, said: &str| wanted.as_ref().is_none_or(|wanted| wanted == said);
    let is_forgotten = |service: &str, host: &str| is(&args.host, host) && is(&args.service, service);
    let outcome = compact::forget(&args.root, &is_forgotten, &mut |_| {})?;
    let status = tell(&outcome);
    complain!("{} of samples removed", pct_num::count(outcome.removed, "row", "rows"));
    Ok(status)
}
