//! Questions that are answered here, from the files of a root.

use crate::ask::{self, Answer, Part};
use crate::questions::Which;
use anyhow::{Context as _, Result, bail};
use pct_formats::Format;
use pct_icicle::{DiffBy, Options, svg};
use pct_profile::diff::{self as differences, Compare};
use pct_profile::flat::Order;
use pct_profile::text::flat::{self, Columns};
use pct_profile::text::table::{Column, Rank, Table};
use pct_profile::text::{Layout, diff as diff_text, json_line};
use pct_profile::{By, Flat, Split};
use pct_text::complain;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

/// Which root, and which of its rows.
#[derive(clap::Args, Debug)]
pub(super) struct Of {
    /// The folder of the tables.
    #[arg(value_name = "ROOT")]
    root: PathBuf,
    #[command(flatten)]
    which: Which,
    /// Only this time up to now: 30m, 1h, 7d.
    #[arg(long, value_name = "TIME", value_parser = super::ship::time, conflicts_with_all = ["from", "to"])]
    last: Option<std::time::Duration>,
}

/// In which form.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Form {
    Text,
    Csv,
    Json,
}

#[derive(clap::Args, Debug)]
pub(super) struct Top {
    #[command(flatten)]
    of: Of,
    /// Tell these apart: service, version, host, env; several with commas.
    #[arg(long, value_delimiter = ',', value_parser = part)]
    by: Vec<Part>,
    /// Rows.
    #[arg(short = 'n', long, default_value_t = 20)]
    rows: usize,
    /// In which form.
    #[arg(long, value_enum, default_value = "text")]
    format: Form,
    /// Names of functions whole, also with more than 60 characters.
    #[arg(long)]
    wide: bool,
}

#[derive(clap::Args, Debug)]
pub(super) struct Diff {
    /// The older version.
    older: String,
    /// The newer version.
    newer: String,
    #[command(flatten)]
    of: Of,
    /// Compare seconds, not shares of each version's time.
    #[arg(long)]
    seconds: bool,
    /// Compare functions with all that they call, instead of what they spend themselves.
    #[arg(long)]
    total: bool,
    /// Rows.
    #[arg(short = 'n', long, default_value_t = 20)]
    rows: usize,
    /// In which form.
    #[arg(long, value_enum, default_value = "text")]
    format: Form,
    /// Names of functions whole, also with more than 60 characters.
    #[arg(long)]
    wide: bool,
}

#[derive(clap::Args, Debug)]
pub(super) struct Flame {
    #[command(flatten)]
    of: Of,
    /// The SVG file to write; - is stdout.
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Compare with this version: red is more, blue is less.
    #[arg(long, value_name = "VERSION", requires = "newer", conflicts_with = "release")]
    older: Option<String>,
    /// The version that is compared.
    #[arg(long, value_name = "VERSION", requires = "older")]
    newer: Option<String>,
}

#[derive(clap::Args, Debug)]
pub(super) struct Get {
    #[command(flatten)]
    of: Of,
    /// Tell these apart, as processes: service, version, host, env; several with commas.
    #[arg(long, value_delimiter = ',', value_parser = part)]
    by: Vec<Part>,
    /// The pprof file to write (NAME.pb.gz); - is stdout.
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(clap::Args, Debug)]
pub(super) struct Hosts {
    #[command(flatten)]
    of: Of,
    /// In which form.
    #[arg(long, value_enum, default_value = "text")]
    format: Form,
}

fn part(text: &str) -> Result<Part, String> {
    let found = Part::ALL.iter().find(|(name, _)| *name == text);
    found.map(|(_, part)| *part).ok_or_else(|| "expected service, version, host or env".to_owned())
}

impl Of {
    fn ask(&self, parts: &[Part]) -> Result<Answer> {
        self.ask_of(self.which.release.clone(), parts)
    }

    /// Asks for one version.
    fn ask_of(&self, release: Option<String>, parts: &[Part]) -> Result<Answer> {
        let mut which = Which { release, ..self.which.clone() };
        if let Some(last) = self.last {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let from = now.saturating_sub(last).as_micros();
            which.from = Some(i64::try_from(from).unwrap_or(i64::MAX));
        }
        if !self.root.join("samples").is_dir() {
            bail!("{}: no tables in it (pct ship and pct-fleet export write them)", self.root.display());
        }
        let answer = ask::ask(&self.root, &which, parts);
        for problem in &answer.problems {
            complain!("pct-fleet: {problem}");
        }
        if answer.profile.cells.is_empty() {
            let version = which.release.as_deref().unwrap_or_default();
            bail!(
                "{}: no row of {} {version} (pct-fleet hosts shows what there is)",
                self.root.display(),
                which.title()
            );
        }
        Ok(answer)
    }
}

/// What is missing in an answer, on stderr.
fn close(answer: &Answer) -> ExitCode {
    if answer.lost_ns > 0 {
        let lost = pct_num::seconds(u64::try_from(answer.lost_ns).unwrap_or(0));
        complain!("{lost} s more were lost on hosts or on the way");
    }
    if answer.unknown_ns > 0 {
        complain!("{} s are of stacks that no file has", pct_num::seconds(answer.unknown_ns));
    }
    if answer.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print_octets(text: &[u8]) -> Result<()> {
    match std::io::stdout().lock().write_all(text) {
        Err(why) if why.kind() != std::io::ErrorKind::BrokenPipe => Err(why).context("stdout"),
        _ => Ok(()),
    }
}

/// Writes a file for its owner alone, or to stdout. What is there is replaced.
fn write(path: &Path, octets: &[u8]) -> Result<()> {
    if path.as_os_str() == "-" {
        return print_octets(octets);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if folder.is_some_and(|folder| !folder.is_dir()) {
        bail!("{}: its folder is not there", path.display());
    }
    let path = std::path::absolute(path)?;
    crate::root::replace_file(&path, octets, &mut |_| {})
}

pub(super) fn top(args: &Top) -> Result<ExitCode> {
    let answer = args.of.ask(&args.by)?;
    let profile = &answer.profile;
    let split = if args.by.is_empty() { Split::Merged } else { Split::Command };
    let flat = Flat::count_cells(profile, &profile.cells, Some(By::Function), split, Order::Own);
    let columns = Columns { rows: args.rows, total: true, split_system: false, samples: false };
    print_octets(
        match args.format {
            Form::Text => {
                flat::table(profile, &flat, columns, &Layout { wide: args.wide, ..Layout::default() })
            }
            Form::Csv => flat::csv(profile, &flat, args.rows),
            Form::Json => json_line(&flat::json(profile, &flat, args.rows)),
        }
        .as_bytes(),
    )?;
    Ok(close(&answer))
}

pub(super) fn diff(args: &Diff) -> Result<ExitCode> {
    let older = args.of.ask_of(Some(args.older.clone()), &[])?;
    let newer = args.of.ask_of(Some(args.newer.clone()), &[])?;
    let order = if args.total { Order::Total } else { Order::Own };
    let table = |answer: &Answer| {
        Flat::count_cells(&answer.profile, &answer.profile.cells, Some(By::Function), Split::Merged, order)
    };
    let (before, after) = (table(&older), table(&newer));
    let compare = if args.seconds { Compare::Seconds } else { Compare::Shares };
    let found = differences::Diff::compare((&older.profile, &before), (&newer.profile, &after), compare);
    print_octets(
        match args.format {
            Form::Text => {
                diff_text::table(&found, args.rows, &Layout { wide: args.wide, ..Layout::default() })
            }
            Form::Csv => diff_text::csv(&found),
            Form::Json => json_line(&diff_text::json(&found)),
        }
        .as_bytes(),
    )?;
    let (first, second) = (close(&older), close(&newer));
    Ok(if first == ExitCode::SUCCESS { second } else { first })
}

pub(super) fn flame(args: &Flame) -> Result<ExitCode> {
    let mut options = Options { unit: "us of CPU time".to_owned(), ..Options::default() };
    let release = args.newer.clone().or_else(|| args.of.which.release.clone());
    let answer = args.of.ask_of(release, &[])?;
    let profile = &answer.profile;
    options.title.clone_from(&profile.title);
    let tree = match &args.older {
        None => pct_formats::flame::tree(profile, &profile.cells, Split::Merged, false),
        Some(version) => {
            let older = args.of.ask_of(Some(version.clone()), &[])?.profile;
            options.normalize = true;
            options.diff = Some(DiffBy::Total);
            options.subtitle = format!("compared with {version}: red is more, blue is less");
            pct_formats::flame::difference((profile, &profile.cells), (&older, &older.cells))
        }
    };
    write(&args.out, svg(&tree, &options).as_bytes())?;
    Ok(close(&answer))
}

pub(super) fn get(args: &Get) -> Result<ExitCode> {
    let answer = args.of.ask(&args.by)?;
    write(&args.out, &pct_formats::export(&answer.profile, &answer.profile.cells, Format::Pprof))?;
    Ok(close(&answer))
}

pub(super) fn hosts(args: &Hosts) -> Result<ExitCode> {
    let parts = [Part::Service, Part::Version, Part::Host, Part::Env];
    let answer = args.of.ask(&parts)?;
    let mut table = Table::new(vec![Column::text("service version host env", 30), Column::number("CPU s")]);
    let (mut csv, mut json) = ("whose,cpu_seconds\n".to_owned(), Vec::new());
    let profile = &answer.profile;
    let flat = Flat::count_cells(profile, &profile.cells, None, Split::Command, Order::Own);
    for row in &flat.rows {
        let name = row.part.map(|part| part.name(profile)).unwrap_or_default();
        let seconds = pct_num::seconds(row.own.cpu_ns());
        csv += &format!("{},{seconds}\n", pct_text::csv_field(&name));
        json.push(serde_json::json!({ "whose": name, "cpu_ns": row.own.cpu_ns() }));
        table.row(Rank::Plain, vec![name, seconds]);
    }
    print_octets(
        match args.format {
            Form::Text => table.render(&Layout::default()),
            Form::Csv => csv,
            Form::Json => json_line(&serde_json::json!({ "hosts": json, "lost_ns": answer.lost_ns })),
        }
        .as_bytes(),
    )?;
    Ok(close(&answer))
}
