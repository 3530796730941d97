//! `pct print` and the classic `pct-print`: counts, addresses and their translations, one per line, for pipelines.

use crate::face::Face;
use crate::look;
use anyhow::{Context as _, Result, bail};
use pct_num::{Layout, num2str_into};
use pct_profile::flat::Order;
use pct_profile::load::Options;
use pct_profile::load::pcs::{Pcs, Row};
use pct_profile::{By, Flat, Split};
use pct_symbols::translator::Template;
use pct_symbols::{ObjectId, ObjectKind};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// What can be typed after `pct print`.
#[derive(clap::Args, Debug, Default)]
#[command(after_help = "Examples:
  pct print prog-4711.pct | head
  pct print --just-pcs prog-4711.pct | addr2line -f -e prog
  pct print -t 'addr2line -f -C -e %o' prog-4711.pct
  pct print -F 3 prog-4711.pct 3>counts
  pct print --by line -n 20 pct-prog-4711/

A line is COUNT PC TRANSLATION; PC is the address within the object, as objdump and addr2line
print it.
A file may name its preferred translator. It is used by itself only if it is addr2line,
llvm-addr2line, eu-addr2line or addr2func, because a data file should not start any other program;
for others give -t header.")]
pub struct Args {
    /// .pct files and run folders; the newest run here if none.
    #[arg(value_name = "FILE|DIR")]
    pub paths: Vec<PathBuf>,
    /// What is counted.
    #[arg(long, value_enum, default_value = "pc")]
    pub by: What,
    /// Lines at most.
    #[arg(short = 'n', value_name = "N", allow_negative_numbers = true, value_parser = look::number)]
    pub lines: Option<usize>,
    /// Sort keys, the most important first: count, pc, name, object.
    #[arg(short = 's', long = "sort", value_name = "KEYS", value_delimiter = ',', value_enum)]
    pub sort: Vec<Key>,
    /// Only the column of addresses.
    #[arg(long, visible_alias = "just_pcs", conflicts_with = "just_cts")]
    pub just_pcs: bool,
    /// Only the column of counts.
    #[arg(long, visible_alias = "just_cts")]
    pub just_cts: bool,
    /// Translate with this program. It reads addresses and answers each of them in order; %o stands for the
    /// object, %b for its build-id. The word 'header' takes the translator that the file names.
    #[arg(short = 't', long, value_name = "COMMAND")]
    pub translator: Option<String>,
    /// Write the counts to this descriptor or fifo, and the rest to stdout.
    #[arg(short = 'F', value_name = "FD|FIFO")]
    pub fifo: Option<String>,
}

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum What {
    /// Addresses.
    #[default]
    Pc,
    /// Functions.
    Function,
    /// Source lines.
    Line,
    /// Programs and libraries.
    Object,
    /// Threads.
    Thread,
}

/// A sort key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Key {
    /// Most first.
    Count,
    /// Lowest first.
    Pc,
    /// By translation.
    Name,
    /// By object.
    Object,
}

/// One line to print.
struct Line {
    count: u64,
    pc: Option<u64>,
    object: String,
    words: String,
}

/// What there is to print, and what to say about it.
struct Printout {
    lines: Vec<Line>,
    notes: Vec<String>,
    /// Something could not be read or translated.
    failed: bool,
}

/// Prints.
///
/// # Errors
/// When no file could be read, or the fifo not be written.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    let paths = look::paths(&args.paths)?;
    let Printout { mut lines, notes, failed } = match args.by {
        What::Pc => addresses(args, &paths, face)?,
        _ => merged(args, &paths, face)?,
    };
    sort(&mut lines, &args.sort);
    lines.truncate(args.lines.unwrap_or(usize::MAX));
    let (counts, rest) = text(args, &lines);
    if let Some(target) = &args.fifo {
        // Two readers behind two pipes: whoever is slow must not keep the other waiting.
        let mut fifo = open(target)?;
        let writer = std::thread::spawn(move || fifo.write_all(&counts).and_then(|()| fifo.flush()));
        face.print_bytes(&rest)?;
        let written = writer.join().unwrap_or_else(|_| Err(std::io::Error::other("its writer ended early")));
        match written {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                return Err(error).with_context(|| format!("{target}: cannot write the counts"));
            }
            _ => {}
        }
    } else {
        face.print_bytes(&rest)?;
    }
    for note in notes {
        face.warn(note);
    }
    Ok(ExitCode::from(u8::from(failed)))
}

fn addresses(args: &Args, paths: &[PathBuf], face: &Face) -> Result<Printout> {
    let mut progress = face.progress();
    let mut pcs = Pcs::load(paths, &mut |what, done, all| progress.step(what, done, all))?;
    let words = !args.just_pcs && !args.just_cts || args.sort.contains(&Key::Name);
    let rows: Vec<Row> = pcs.rows.clone();
    let mut notes = pcs.account.notes.clone();
    let mut failed = pcs.account.unreadable > 0;
    let said = if words { translate(args, &rows, &mut pcs, &mut notes, &mut failed)? } else { Vec::new() };
    let lines = rows
        .iter()
        .map(|row| Line {
            count: row.samples,
            pc: Some(pcs.address(row)),
            object: row
                .object
                .map(|id| pcs.symbols.object(id).path.display().to_string())
                .unwrap_or_default(),
            words: String::new(),
        })
        .zip(said.into_iter().chain(std::iter::repeat(String::new())))
        .map(|(line, words)| Line { words, ..line })
        .collect();
    notes.extend(pcs.symbols.notes().iter().map(ToString::to_string));
    Ok(Printout { lines, notes, failed })
}

/// The words for each row: by the translator that was asked for or that the file names, else by the built-in one.
fn translate(
    args: &Args,
    rows: &[Row],
    pcs: &mut Pcs,
    notes: &mut Vec<String>,
    failed: &mut bool,
) -> Result<Vec<String>> {
    let mut by_object: BTreeMap<ObjectId, Vec<usize>> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        if let Some(object) = row.object.filter(|&id| pcs.symbols.object(id).kind == ObjectKind::File) {
            by_object.entry(object).or_default().push(at);
        }
    }
    let mut said: Vec<Option<String>> = vec![None; rows.len()];
    let mut foreign = false;
    for (object, mut ats) in by_object {
        let Some(template) = template_for(args, pcs.translators.get(&object), notes)? else { continue };
        foreign = true;
        ats.sort_by_key(|&at| rows[at].offset);
        let addresses: Vec<u64> = ats.iter().map(|&at| pcs.address(&rows[at])).collect();
        let info = pcs.symbols.object(object);
        let translation = template.translate(&info.path, info.build_id.as_ref(), &addresses);
        let name = info.path.file_name().unwrap_or(info.path.as_os_str()).to_string_lossy().into_owned();
        for (&at, answer) in ats.iter().zip(translation.answers) {
            said[at] = Some(match answer {
                Some(lines) => lines.join(" "),
                None => format!("?? ({name})"),
            });
        }
        if let Some(error) = translation.error {
            *failed = true;
            notes.push(format!("{}: {error}", info.path.display()));
        }
    }
    if !foreign {
        pcs.resolve();
    }
    Ok(rows.iter().zip(said).map(|(row, said)| said.unwrap_or_else(|| pcs.words(row))).collect())
}

/// Translators that a file may start unasked: they read addresses and nothing else.
const HARMLESS: [&str; 4] = ["addr2line", "llvm-addr2line", "eu-addr2line", "addr2func"];

fn template_for(args: &Args, named: Option<&String>, notes: &mut Vec<String>) -> Result<Option<Template>> {
    let text = match (args.translator.as_deref(), named) {
        (Some("header"), named) => named.map(String::as_str),
        (Some(typed), _) => Some(typed),
        (None, Some(named)) => {
            let program = named.split_whitespace().next().unwrap_or_default();
            if HARMLESS.contains(&program) {
                Some(named.as_str())
            } else {
                let note = format!("the file prefers the translator {named:?}; -t header starts it");
                if !notes.contains(&note) {
                    notes.push(note);
                }
                None
            }
        }
        (None, None) => None,
    };
    text.map(|text| Template::parse(text).with_context(|| format!("{text:?}"))).transpose()
}

fn merged(args: &Args, paths: &[PathBuf], face: &Face) -> Result<Printout> {
    let (by, split) = match args.by {
        What::Pc => (Some(By::Pc), Split::Merged),
        What::Function => (Some(By::Function), Split::Merged),
        What::Line => (Some(By::Line), Split::Merged),
        What::Object => (Some(By::Object), Split::Merged),
        What::Thread => (None, Split::Thread),
    };
    let options = Options { symbols: by.is_some(), ..look::defaults() };
    let profile = look::load(paths, &options, face)?;
    let flat = Flat::count_cells(&profile, &profile.cells, by, split, Order::Own);
    let lines = flat
        .rows
        .iter()
        .filter(|row| !row.own.is_zero())
        .map(|row| {
            let label = row.label.or(row.part);
            let object = label.and_then(|label| label.object(&profile));
            let mut words = label.map(|label| label.name(&profile)).unwrap_or_default();
            let object = object.map(|object| profile.objects[object].name().to_owned()).unwrap_or_default();
            if !object.is_empty() && args.by != What::Object {
                words += &format!(" ({object})");
            }
            Line { count: row.own.samples, pc: None, object, words }
        })
        .collect();
    let account = &profile.account;
    Ok(Printout { lines, notes: account.notes.clone(), failed: account.unreadable > 0 })
}

fn sort(lines: &mut [Line], keys: &[Key]) {
    let keys = if keys.is_empty() { &[Key::Count][..] } else { keys };
    lines.sort_by(|a, b| {
        keys.iter()
            .map(|key| match key {
                Key::Count => Reverse(a.count).cmp(&Reverse(b.count)),
                Key::Pc => a.pc.cmp(&b.pc),
                Key::Name => a.words.cmp(&b.words),
                Key::Object => a.object.cmp(&b.object),
            })
            .fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    });
}

/// The counts for the fifo, and what goes to stdout.
fn text(args: &Args, lines: &[Line]) -> (Vec<u8>, Vec<u8>) {
    let (mut counts, mut rest) = (Vec::new(), Vec::new());
    let width = lines.iter().map(|line| pct_num::ndigits::<10>(line.count)).max().unwrap_or(1);
    for line in lines {
        if args.fifo.is_some() {
            num2str_into::<10>(line.count, Layout::BARE, &mut counts);
            counts.push(b'\n');
        }
        if args.just_cts {
            num2str_into::<10>(line.count, Layout::BARE, &mut rest);
        } else if args.just_pcs {
            pc(line.pc, &mut rest);
        } else {
            if args.fifo.is_none() {
                num2str_into::<10>(line.count, Layout::column(width), &mut rest);
                rest.push(b' ');
            }
            if line.pc.is_some() {
                pc(line.pc, &mut rest);
                rest.push(b' ');
            }
            rest.extend_from_slice(pct_profile::text::table::tame(&line.words).as_bytes());
        }
        rest.push(b'\n');
    }
    (counts, rest)
}

fn pc(address: Option<u64>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"0x");
    num2str_into::<16>(address.unwrap_or(0), Layout::zeros(8), out);
}

fn open(target: &str) -> Result<File> {
    let path = match target.parse::<u32>() {
        Ok(number) => {
            let path = PathBuf::from(format!("/proc/self/fd/{number}"));
            if path.symlink_metadata().is_err() {
                bail!(
                    "-F {number}: no such descriptor is open (in a shell: {number}>FILE behind the command)"
                );
            }
            path
        }
        Err(_) => PathBuf::from(target),
    };
    std::fs::OpenOptions::new()
        .write(true)
        .create(!target.bytes().all(|byte| byte.is_ascii_digit()))
        .truncate(true)
        .open(&path)
        .with_context(|| format!("{target}: cannot open it for the counts"))
}
