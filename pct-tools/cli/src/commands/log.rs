//! `pct log`: a circular log as text, oldest first; and the plain one-word log of the founding notes, both ways.

use crate::face::{Face, open_stdout};
use anyhow::{Context as _, Result, bail};
use pct_format::circular::{self, CircularLog};
use pct_format::record::{Frame, Stack};
use pct_format::{File, Index};
use pct_profile::load::whole;
use std::io::{BufRead as _, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What can be typed after `pct log`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct log prog-4711.pct | head          time, thread, user or system, weight, pc, callers
  pct log pcs.log                       a plain circular log: one word per line, oldest first
  seq 1 100 | pct log --append pcs.log --words 64

A file that is no .pct file is read as a plain circular log: 64-bit words with a zero behind the
newest.")]
pub struct Args {
    /// The log.
    pub file: PathBuf,
    /// Append numbers from stdin (one per line, decimal or 0x) to a plain log, made if it is not there.
    #[arg(long)]
    pub append: bool,
    /// Size of a new plain log in words.
    #[arg(long, value_name = "N", default_value_t = 4096, requires = "append", value_parser = clap::value_parser!(u64).range(2..=1 << 32))]
    pub words: u64,
}

/// Prints or appends.
///
/// # Errors
/// When the file cannot be read or is no log.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    if args.append {
        append(&args.file, args.words)?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = args.file.display();
    if args.file.is_dir() {
        bail!("{name}: a folder; name one of the .pct files in it");
    }
    let bytes = whole::read(&args.file).with_context(|| format!("{name}: cannot read it"))?;
    match File::parse(&bytes) {
        Ok(file) => samples(&Index::new(&file), face)?,
        Err(
            pct_format::Error::NotPct { .. }
            | pct_format::Error::TooShort { .. }
            | pct_format::Error::Unfinished,
        ) if !bytes.is_empty() && bytes.len().is_multiple_of(8) && !bytes.starts_with(b"\x89") => {
            plain(&bytes)?;
        }
        Err(pct_format::Error::NotPct { .. }) if !bytes.len().is_multiple_of(8) => {
            bail!(
                "{name}: neither a .pct file nor a plain log, which has a whole number of 8-byte words ({} bytes)",
                bytes.len()
            )
        }
        Err(why) => bail!("{name}: {why}"),
    }
    Ok(ExitCode::SUCCESS)
}

fn plain(bytes: &[u8]) -> Result<()> {
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let mut out = BufWriter::new(open_stdout()?);
    for word in CircularLog::new(&words).iter() {
        writeln!(out, "0x{word:x}")?;
    }
    out.flush().context("stdout")
}

fn samples(index: &Index<'_>, face: &Face) -> Result<()> {
    let start = index.timeline.monotonic_ns(index.file().header().first_anchor().raw);
    let mut out = BufWriter::new(open_stdout()?);
    for (thread, sample) in index.samples_by_time() {
        let ns = index.timeline.monotonic_ns(sample.time).saturating_sub(start);
        let tid = index.threads.get(thread).map_or(0, |thread| thread.tid);
        let side = if sample.system { 's' } else { 'u' };
        write!(
            out,
            "{}.{:09} {tid} {side} {} 0x{:x}",
            ns / 1_000_000_000,
            ns % 1_000_000_000,
            sample.weight,
            sample.pc
        )?;
        let mut frame = |frame: Frame| match frame {
            Frame::Return(pc) => write!(out, " 0x{pc:x}"),
            Frame::Exact(pc) => write!(out, " =0x{pc:x}"),
            Frame::Code(code) => match index.codes.get(code.id()) {
                Some(known) => write!(out, " {}", pct_text::Visible(&known.facts.name)),
                None => write!(out, " code-{}", code.id()),
            },
            Frame::NoCode(why) => write!(out, " ({})", why.name()),
            Frame::Boundary(boundary) => write!(out, " [{}]", boundary.entry.name()),
            Frame::Kernel(pc) => write!(out, " 0x{pc:x}"),
            Frame::Blocked(blocked) => write!(out, " [{}]", blocked.by.name()),
            Frame::Cut(cause) => write!(out, " (cut: {})", cause.name()),
        };
        match sample.stack {
            Stack::None => {}
            Stack::Id(id) => index.stacks.frames(id).try_for_each(&mut frame)?,
            Stack::Frames(frames) => frames.iter().try_for_each(&mut frame)?,
        }
        writeln!(out)?;
    }
    out.flush()?;
    for loss in index.file().header().losses() {
        face.hint(format_args!("{} {}", loss.samples, loss.cause.name()));
    }
    Ok(())
}

fn append(path: &Path, words: u64) -> Result<()> {
    let name = path.display();
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .with_context(|| format!("{name}: cannot open it"))?;
    if file.metadata()?.len() == 0 {
        file.set_len(words * 8).with_context(|| format!("{name}: cannot make it {words} words long"))?;
    }
    let size = file.metadata()?.len();
    if !size.is_multiple_of(8) || !(16..=1 << 35).contains(&size) {
        bail!("{name}: {size} bytes: a plain log has two words of 8 bytes or more");
    }
    let bytes = std::fs::read(path)?;
    if File::parse(&bytes).is_ok() {
        bail!("{name}: a .pct file; only a sampled process writes those");
    }
    let all: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let log = CircularLog::new(&all);
    if log.zero() >= all.len() {
        bail!("{name}: no zero word in it, and a circular log has one");
    }
    let mut zero = log.zero() as u64 * 8;
    for (at, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line?;
        let word = pct_num::str2num_any(line.trim().as_bytes()).ok().filter(|&word| word != 0);
        let Some(word) = word else {
            bail!("stdin: line {}: expected a number above 0, found {:?}", at + 1, line);
        };
        let Some(step) = circular::step(zero, size / 8, word) else {
            bail!("{name}: damaged while it was written")
        };
        if step.zero_first {
            file.write_all_at(&[0; 8], 0)?;
        }
        file.write_all_at(&step.bytes[..step.len], step.at)?;
        zero = step.next;
    }
    Ok(())
}
