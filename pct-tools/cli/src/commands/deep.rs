//! `pct deep`: a recording as a deep profile file, for `pct view`, mdprof_cgi, mdprof_dump and the rest.

use crate::commands::view;
use crate::face::Face;
use crate::look::{self, Look};
use anyhow::{Context as _, Result, bail};
use pct_deep::native::fnv;
use pct_deep::{Version, to_octets};
use pct_native::{Apart, Made, graph::MOST_EDGES, make_with_memory};
use pct_profile::Profile;
use pct_profile::load::{Options, WantedMemory};
use pct_profile::memory::{Measure, MemoryCell, Selection};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What can be typed after `pct deep`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct deep pct-render-4711 -o Deep.data      then: pct view Deep.data, mdprof_dump Deep.data
  pct deep pct-a-1 pct-a-2 -o ALL.data       the sum of two runs
  pct deep A.data B.data -o ALL.data         likewise of deep profiles of one (Mercury) program
  pct deep --thread worker -o worker.data    only some threads
  pct deep --threads split                   each thread's contexts apart, below its name")]
pub struct Args {
    /// Run folders and .pct files (or perf.data, folded, pprof, perf script text), or deep profiles of one program; the
    /// newest run here if none.
    #[arg(value_name = "DIR|FILE")]
    pub paths: Vec<PathBuf>,
    /// The file to write; what its format cannot say goes into NAME.native beside it. If allocations were sampled, NAME.live.data
    /// and NAME.peak.data have what was live at the end and at the peak as allocations of the same contexts.
    #[arg(short, long, value_name = "FILE.data", default_value = "Deep.data")]
    pub out: PathBuf,
    /// How contexts are made.
    #[command(flatten)]
    pub fold: Fold,
    /// Which samples.
    #[command(flatten)]
    pub look: Look,
}

/// How stacks become call contexts.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "How call contexts are made")]
pub struct Fold {
    /// Whether threads share their contexts, or each has its own below its name (threads of one name are one).
    #[arg(long, value_enum, default_value_t)]
    pub threads: Share,
    /// Whether processes share their contexts, or each has its own below its name.
    #[arg(long, value_enum, default_value_t)]
    pub processes: Share,
    /// Most call edges; contexts beyond are folded, and their time is told.
    #[arg(long, value_name = "N", default_value_t = MOST_EDGES)]
    pub nodes: usize,
}

/// Together or apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Share {
    /// Together.
    #[default]
    Merge,
    /// Each by itself.
    Split,
}

/// Writes it.
///
/// # Errors
/// When no profile could be read, it has no samples, or the files cannot be written.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    let beside = args.out.with_extension("native");
    if beside == args.out {
        bail!("{}: the name must not end in .native", args.out.display());
    }
    if args.paths.iter().any(|p| view::is_deep(p)) {
        return merged(args, face);
    }
    let paths = look::paths(&args.paths)?;
    let profile = look::load(&paths, &options(&args.look), face)?;
    let mut made = made(&profile, &args.look, &args.fold)?;
    let octets = to_octets(&made.data, Version::V9)?;
    let side = &mut made.recorded.side;
    (side.length, side.hash) = (octets.len() as u64, fnv(&octets));
    store(&args.out, &octets)?;
    store(&beside, side.to_text().as_bytes())?;
    if let Some(sisters) = &made.sisters {
        for (name, data) in [("live.data", &sisters.live), ("peak.data", &sisters.peak)] {
            store(&args.out.with_extension(name), &to_octets(data, Version::V9)?)?;
        }
    }
    let side = &made.recorded.side;
    if side.folded_ns > 0 {
        let s = std::time::Duration::from_nanos(side.folded_ns).as_secs_f64();
        face.warn(format_args!(
            "{s:.3} CPU s are in contexts that were folded: more than {} call edges",
            args.fold.nodes
        ));
    }
    face.hint(format_args!("{}   try: pct view {}", args.out.display(), args.out.display()));
    Ok(look::status(&profile.account))
}

/// Deep profiles of one program become one; recordings do so as they are read.
fn merged(args: &Args, face: &Face) -> Result<ExitCode> {
    if let Some(other) = args.paths.iter().find(|p| !view::is_deep(p)) {
        bail!("{}: is no deep profile, others are; give recordings or deep profiles", other.display());
    }
    pct_server::merge::merge_files(&args.paths, &args.out)?;
    face.hint(format_args!("{}   try: pct view {}", args.out.display(), args.out.display()));
    Ok(ExitCode::SUCCESS)
}

/// Writes a file whole or not at all.
fn store(path: &Path, octets: &[u8]) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut name = path.file_name().with_context(|| format!("{} names no file", path.display()))?.to_owned();
    name.push(format!(".{}", std::process::id()));
    let temporary = path.with_file_name(name);
    let mut options = std::fs::OpenOptions::new();
    let written = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| file.write_all(octets))
        .and_then(|()| std::fs::rename(&temporary, path));
    written
        .inspect_err(|_| drop(std::fs::remove_file(&temporary)))
        .with_context(|| path.display().to_string())
}

/// The deep profile of a profile.
///
/// # Errors
/// When it has no samples.
pub fn made(profile: &Profile, look: &Look, fold: &Fold) -> Result<Made> {
    let cells = look.cells(profile);
    let apart = Apart { threads: fold.threads == Share::Split, processes: fold.processes == Share::Split };
    let memory = memory(profile, look, apart);
    if cells.is_empty() && !profile.cells.is_empty() && memory.is_empty() {
        bail!("none of the {} samples is in the part that was asked for", profile.total().samples);
    }
    let mut made = make_with_memory(profile, &cells, &memory, apart, fold.nodes)?;
    if !memory.is_empty() {
        made.recorded.side.account.extend(about_memory(profile));
    }
    Ok(made)
}

/// How a recording is loaded for a deep profile: with what is known of memory.
#[must_use]
pub fn options(look: &Look) -> Options {
    Options { memory: WantedMemory::Tables, ..look.options() }
}

/// What was allocated in the part that is looked at. Memory is counted by stack: of one thread or a time it is not known.
fn memory(profile: &Profile, look: &Look, apart: Apart) -> Vec<MemoryCell> {
    if apart != Apart::default() || look.thread.is_some() || look.window().is_some() {
        return Vec::new();
    }
    let filter = look.filter();
    Selection { by: Measure::Bytes, filter, ..Selection::default() }.cells(profile, &profile.memory)
}

/// What readers must know of the columns of allocations.
fn about_memory(profile: &Profile) -> Vec<String> {
    let seeds: Vec<String> =
        profile.memory.processes.iter().map(|process| process.seed.to_string()).collect();
    vec![format!(
        "allocations and words (of 8 bytes) are estimates from samples (seed {}): {}",
        seeds.join(", "),
        pct_profile::text::memory_words::limit(&profile.memory)
    )]
}
