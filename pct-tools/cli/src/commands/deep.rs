//! `pct deep`: a recording as a deep profile file, for `pct view`, mdprof_cgi, mdprof_dump and the rest.

use crate::commands::view;
use crate::contexts::{Fold, made, options};
use crate::face::Face;
use crate::look::{self, Look};
use crate::store::Choice;
use anyhow::{Context as _, Result, bail};
use pct_deep::native::{Allocated, Side, fnv};
use pct_deep::{DeepData, Version, to_octets};
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
    /// Run folders and .pct files (or another profiler's file: pprof, perf.data, folded, callgrind,
    /// JSON), or deep profiles of one program; the newest run here if none.
    #[arg(value_name = "DIR|FILE")]
    pub paths: Vec<PathBuf>,
    /// The file to write. What its format has no place for goes into NAME.native beside it. If allocations
    /// were sampled, NAME.live.data and NAME.peak.data show what was live at the end and at the peak, as
    /// allocations of the same contexts, each with a .native file of its own.
    #[arg(short, long, value_name = "FILE.data", default_value = "Deep.data")]
    pub out: PathBuf,
    /// How contexts are made.
    #[command(flatten)]
    pub fold: Fold,
    /// Which recordings.
    #[command(flatten)]
    pub choice: Choice,
    /// Which samples.
    #[command(flatten)]
    pub look: Look,
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
    let paths = args.choice.paths(&args.paths)?;
    let mut profile = look::load_any_quantity(&paths, &args.choice.narrow(options(&args.look)), face)?;
    let mut made = made(&mut profile, &args.look, &args.fold)?;
    let side = &mut made.recorded.side;
    store_both(&args.out, &made.data, side)?;
    if let Some(sisters) = &made.sisters {
        let mut side = side.clone();
        for (memory, data) in [(Allocated::Live, &sisters.live), (Allocated::Peak, &sisters.peak)] {
            side.memory = Some(memory);
            store_both(&args.out.with_extension(format!("{}.data", memory.as_word())), data, &mut side)?;
        }
    }
    let side = &made.recorded.side;
    if side.folded_ns > 0 {
        let decimals = if side.measured.is_time() { 3 } else { 0 };
        face.warn(format_args!(
            "{:.decimals$} {} are in contexts that were folded: more than {} call edges",
            side.measured.scaled(side.folded_ns),
            side.measured.unit(),
            args.fold.nodes
        ));
    }
    face.hint(format_args!("{}   try: pct view {}", args.out.display(), args.out.display()));
    Ok(look::status(&profile.account))
}

/// Writes a deep profile, and beside it what the format has no place for.
fn store_both(path: &Path, data: &DeepData, side: &mut Side) -> Result<()> {
    let octets = to_octets(data, Version::V9)?;
    (side.length, side.hash) = (octets.len() as u64, fnv(&octets));
    store(path, &octets)?;
    store(&path.with_extension("native"), side.to_text().as_bytes())
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
