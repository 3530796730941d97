//! What can be typed after `pct flame`, and where the picture goes.

use crate::face::Face;
use crate::look::Look;
use crate::memory::MemoryLook;
use crate::store::Choice;
use anyhow::{Context as _, Result};
use pct_icicle::{DiffBy, Direction, Drawn, Options, Tree};
use pct_profile::memory::Measure;
use pct_profile::wait_views::WaitsShown;
use std::path::{Path, PathBuf};

/// What can be typed after `pct flame`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct flame                              the newest run here, into its folder
  pct flame pct-render-4711 -o x.svg     then open x.svg in a browser: click zooms, / searches
  pct flame new --base old -o diff.svg   red: more than before, blue: less
  pct flame new --base old --older       the same by the older run's widths: shows what is gone
  pct flame --alloc                      live memory by where it was allocated, in green
  pct flame --alloc --by bytes           everything that was allocated
  pct flame --wait                       where threads waited for locks (after pct run --wait)
  pct flame --wait=all                   where threads waited for locks and for other threads' work
  pct flame --upwards --split thread     the root at the bottom, one part per thread")]
pub struct Args {
    /// Run folders and .pct files (or another profiler's file: pprof, perf.data, folded, callgrind,
    /// JSON); the newest run here if none.
    #[arg(value_name = "DIR|FILE")]
    pub paths: Vec<PathBuf>,
    /// The file to write; - is stdout [default: flame.svg in the run's folder, or here].
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The root at the bottom, what it calls above it.
    #[arg(long)]
    pub upwards: bool,
    /// Hot functions at the root, next to it their callers.
    #[arg(long, conflicts_with = "base")]
    pub reverse: bool,
    /// Divide each sample by the number of threads that ran at that time, as `pct report --latency`.
    #[arg(long, conflicts_with_all = ["base", "alloc"])]
    pub latency: bool,
    /// Waits, by where threads waited; of a recording by pct run --wait. locks, or work: conditions, semaphores,
    /// barriers, ends of threads; or all [default: locks].
    #[arg(long, value_name = "WAITS", num_args = 0..=1, require_equals = true, default_missing_value = "locks", conflicts_with_all = ["base", "alloc", "latency"])]
    pub wait: Option<WaitsShown>,
    /// The older recording to compare with.
    #[arg(long, value_name = "DIR|FILE")]
    pub base: Option<PathBuf>,
    /// Draw with the widths of the older recording, so that functions that are gone since then are visible.
    #[arg(long, requires = "base")]
    pub older: bool,
    /// One part per process or thread.
    #[arg(long, value_enum, conflicts_with = "base")]
    pub split: Option<Parts>,
    /// With --alloc: live, peak, bytes or blocks (allocated since the start) [default: live].
    #[arg(long, value_name = "WHAT", value_parser = crate::memory::measure, requires = "alloc")]
    pub by: Option<Measure>,
    /// Leave out what is narrower than this many pixels of 1200.
    #[arg(long, value_name = "PIXELS", default_value_t = 0.3, allow_negative_numbers = true, value_parser = pixels)]
    pub min_width: f64,
    /// Memory.
    #[command(flatten)]
    pub memory: MemoryLook,
    /// Which recordings.
    #[command(flatten)]
    pub choice: Choice,
    /// Which samples.
    #[command(flatten)]
    pub look: Look,
}

fn pixels(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| (0.0..=1200.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 1200".to_owned())
}

/// How a picture is split.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Parts {
    /// By process.
    Process,
    /// By thread.
    Thread,
}

impl Args {
    /// How the picture looks.
    pub(super) fn picture(&self, title: &str, unit: &str) -> Options {
        Options {
            title: title.to_owned(),
            unit: unit.to_owned(),
            direction: if self.upwards { Direction::Flame } else { Direction::Icicle },
            min_width: self.min_width,
            ..Options::default()
        }
    }

    /// Makes it the picture of a difference to `base`; `unit` follows a weight.
    pub(super) fn compare(&self, options: &mut Options, tree: &Tree, base: &Path, unit: &str) {
        options.diff = Some(DiffBy::Total);
        options.drawn = if self.older { Drawn::Before } else { Drawn::After };
        let mut words = format!("compared with {}: red is more, blue is less", base.display());
        match tree.vanished() {
            _ if self.older => words += "; widths are the older ones",
            0 => {}
            gone => {
                words += &format!(
                    "; {}{unit} of it in contexts that are gone (--older draws them)",
                    (options.weight)(gone)
                );
            }
        }
        options.subtitle = words;
    }

    /// Writes the picture where it was asked for, or beside the recording by this name.
    pub(super) fn write(&self, text: &str, paths: &[PathBuf], name: &str, face: &Face) -> Result<()> {
        match &self.out {
            Some(path) if path.as_os_str() == "-" => face.print(text),
            given => {
                let path = write_beside(given.as_deref(), paths, name, text.as_bytes())?;
                face.hint(format_args!("{}   open it in a browser: click zooms, / searches", path.display()));
                Ok(())
            }
        }
    }
}

/// Writes to the file that the user named, or else to a new file beside the recording. Returns its path.
///
/// Somebody else may have made the recording's folder and a link of our name in it. So a file whose name nobody typed
/// is made anew and takes the name's place: no link is followed.
///
/// # Errors
/// When it cannot be written.
pub fn write_beside(typed: Option<&Path>, paths: &[PathBuf], name: &str, bytes: &[u8]) -> Result<PathBuf> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    if let Some(path) = typed {
        std::fs::write(path, bytes).with_context(|| path.display().to_string())?;
        return Ok(path.to_owned());
    }
    let path = beside(paths, name);
    let fresh = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| std::fs::rename(&fresh, &path));
    if written.is_err() {
        // Ours or not there; a file of this name that existed before is somebody's leftover.
        let _ = std::fs::remove_file(&fresh);
    }
    written.with_context(|| path.display().to_string())?;
    Ok(path)
}

/// Where a file goes whose name was not typed: into the run's folder when one run is looked at, else here.
fn beside(paths: &[PathBuf], name: &str) -> PathBuf {
    match paths {
        [one] if one.is_dir() => one.join(name),
        _ => PathBuf::from(name),
    }
}
