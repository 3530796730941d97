//! `pct ls`: what continuous sampling has recorded, a row for each service and version.

use crate::face::Face;
use crate::look::Format;
use crate::store;
use anyhow::Result;
use pct_profile::load::recordings::Recording;
use pct_profile::text::json_line;
use pct_profile::text::table::{Column, Rank, Table};
use pct_text::csv_field;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

/// What can be typed after `pct ls`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct ls                                   what pct run --continuous has recorded
  pct ls /var/lib/pct --format json        of another folder, for programs
  pct report --last 1h --service shop      where the time of the last hour went")]
pub struct Args {
    /// Folders and .pct files [default: pct in XDG_STATE_HOME, or ~/.local/state/pct].
    #[arg(value_name = "DIR|FILE")]
    pub paths: Vec<PathBuf>,
    /// Output format.
    #[arg(long, value_enum, default_value = "text")]
    pub format: Format,
}

/// All recordings of a service's version.
#[derive(Default)]
struct Sum {
    start_ns: u64,
    end_ns: u64,
    files: u64,
    bytes: u64,
    running: u64,
}

impl Sum {
    fn add(&mut self, recording: &Recording) {
        self.start_ns =
            if self.files == 0 { recording.start_ns } else { self.start_ns.min(recording.start_ns) };
        self.end_ns = self.end_ns.max(recording.end_ns);
        self.files += 1;
        self.bytes = self.bytes.saturating_add(recording.bytes);
        self.running += u64::from(recording.running);
    }
}

/// Prints the list.
///
/// # Errors
/// When a folder cannot be listed or has no recording.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    let (recordings, failed) = store::recordings(&args.paths)?;
    let mut sums: BTreeMap<(&str, &str), Sum> = BTreeMap::new();
    for recording in &recordings {
        sums.entry((&recording.service, &recording.version)).or_default().add(recording);
    }
    let text = match args.format {
        Format::Text => table(&sums).render(&face.layout()),
        Format::Csv => csv(&sums),
        Format::Json => json_line(&json(&sums)),
    };
    face.print(&text)?;
    for why in &failed {
        face.warn(why);
    }
    if args.format == Format::Text
        && !args.paths.is_empty()
        && let Some((service, _)) = sums.keys().next()
    {
        let folder = args.paths[0].display();
        face.hint(format_args!("try: pct report {folder} --last 1h --service {service}"));
    } else if args.format == Format::Text
        && let Some((service, _)) = sums.keys().next()
    {
        face.hint(format_args!("try: pct report --last 1h --service {service}"));
    }
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn table(sums: &BTreeMap<(&str, &str), Sum>) -> Table {
    let mut table = Table::new(vec![
        Column::text("service", 12),
        Column::text("version", 8),
        Column::number("first (UTC)"),
        Column::number("last"),
        Column::number("files"),
        Column::number("size"),
        Column::number("written now"),
    ]);
    for ((service, version), sum) in sums {
        table.row(
            Rank::Plain,
            vec![
                (*service).to_owned(),
                (*version).to_owned(),
                utc(sum.start_ns),
                utc(sum.end_ns),
                sum.files.to_string(),
                pct_num::bytes_binary(sum.bytes),
                sum.running.to_string(),
            ],
        );
    }
    table
}

fn csv(sums: &BTreeMap<(&str, &str), Sum>) -> String {
    let rows = sums.iter().map(|((service, version), sum)| {
        format!(
            "{},{},{},{},{},{},{}\n",
            csv_field(service),
            csv_field(version),
            utc(sum.start_ns),
            utc(sum.end_ns),
            sum.files,
            sum.bytes,
            sum.running
        )
    });
    std::iter::once("service,version,first,last,files,bytes,running\n".to_owned()).chain(rows).collect()
}

fn json(sums: &BTreeMap<(&str, &str), Sum>) -> serde_json::Value {
    let rows = sums.iter().map(|((service, version), sum)| {
        serde_json::json!({
            "service": service, "version": version, "first": utc(sum.start_ns), "last": utc(sum.end_ns),
            "files": sum.files, "bytes": sum.bytes, "running": sum.running,
        })
    });
    serde_json::json!({ "recordings": rows.collect::<Vec<_>>() })
}

/// A time as 2026-11-20T14:03:12Z; empty if it is outside of the calendar.
fn utc(ns: u64) -> String {
    let seconds = i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map_or_else(|_| String::new(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_services_name_is_no_formula_in_csv() {
        let sums = BTreeMap::from([(("=1+1", "a,b"), Sum::default())]);
        let line = csv(&sums).lines().nth(1).map(str::to_owned);
        assert!(line.as_deref().is_some_and(|line| line.starts_with("'=1+1,\"a,b\",")), "{line:?}");
    }
}
