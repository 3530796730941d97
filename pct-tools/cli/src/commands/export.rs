//! `pct export`: a recording in the format of another tool.

use crate::commands::flame::write_beside;
use crate::commands::ship::become_fleet;
use crate::errors::Usage;
use crate::face::Face;
use crate::foreign::AS_TIMES;
use crate::look::{self, Look};
use crate::memory::MemoryLook;
use crate::store::Choice;
use anyhow::Result;
use pct_formats::Format;
use pct_profile::Profile;
use pct_profile::load::Options;
use pct_profile::memory::Measure;
use pct_profile::model::Cell;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::ExitCode;

/// What can be typed after `pct export`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct export --format pprof -o prof.pb.gz && go tool pprof -top prof.pb.gz
  pct export --alloc --format pprof       a heap profile for go tool pprof
  pct export --format speedscope pct-render-4711      then open the file on a speedscope page
  pct export --format folded -o - | flamegraph.pl > x.svg
  pct export --format callgrind -o - > callgrind.out && callgrind_annotate callgrind.out
  pct export --format parquet -o /srv/profiles pct-shop-4711      tables for many hosts (pct-fleet)")]
pub struct Args {
    /// Run folders and .pct files (or another profiler's file: pprof, perf.data, folded, callgrind,
    /// JSON); the newest run here if none.
    #[arg(value_name = "DIR|FILE")]
    pub paths: Vec<PathBuf>,
    /// In which format: folded, pprof, speedscope, callgrind, chrome, firefox (and otlp, if built with that
    /// feature); parquet for tables below a folder, which the program pct-fleet writes.
    #[arg(short, long, value_name = "FORMAT", value_parser = format)]
    pub format: Target,
    /// The file to write (of parquet the folder); - is stdout [default: profile.SUFFIX in the run's folder,
    /// or here].
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// With --alloc and --format folded: live, peak, bytes or blocks [default: live]. A pprof file has all of
    /// them.
    #[arg(long, value_name = "WHAT", value_parser = crate::memory::measure, requires = "alloc")]
    pub by: Option<Measure>,
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

/// What a recording becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// A file.
    File(Format),
    /// Tables below a folder.
    Parquet,
}

const PARQUET: &str = "parquet";

fn format(text: &str) -> Result<Target, String> {
    if text == PARQUET {
        return Ok(Target::Parquet);
    }
    let found = Format::ALL.iter().find(|(name, _)| *name == text);
    found.map(|(_, format)| Target::File(*format)).ok_or_else(|| {
        let names: Vec<&str> = Format::ALL.iter().map(|(name, _)| *name).chain([PARQUET]).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// Writes it.
///
/// # Errors
/// When no profile could be read or the file cannot be written.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    let paths = args.choice.paths(&args.paths)?;
    let format = match args.format {
        Target::File(format) => format,
        Target::Parquet => return parquet(args, &paths),
    };
    if args.memory.alloc {
        return memory(args, format, &paths, face);
    }
    let options = args.choice.narrow(Options { timeline: format.wants_timeline(), ..args.look.options() });
    let profile = if format.holds_any_quantity() {
        look::load_any_quantity(&paths, &options, face)?
    } else {
        look::load(&paths, &options, face)?
    };
    let cells = args.look.cells(&profile);
    let bytes = pct_formats::export(&profile, &cells, format);
    store(args, format, &paths, "profile", &bytes, face)?;
    for note in profile.account.notes.iter().filter(|note| note.contains(AS_TIMES)) {
        face.hint(format_args!("note: {note}"));
    }
    if format.wants_timeline()
        && let Some(note) = without_time(&profile, &cells)
    {
        face.hint(format_args!("note: {note}"));
    }
    Ok(look::status(&profile.account))
}

/// What a file leaves out whose samples are in order of time.
fn without_time(profile: &Profile, cells: &[Cell]) -> Option<String> {
    let beside = cells.iter().filter(|cell| !profile.is_sampled(cell.stack));
    let left_out: u64 = beside.map(|cell| cell.weight.cpu_ns()).sum();
    (left_out > 0).then(|| {
        format!(
            "{} are in no sample, and when they were spent is not known: they are not in this file; pprof and callgrind \
             have them",
            profile.amount_in_words(left_out)
        )
    })
}

/// Tables of whole recordings: what would leave samples out is refused, since rows are to add up.
fn parquet(args: &Args, paths: &[PathBuf]) -> Result<ExitCode> {
    let Some(root) = args.out.as_deref().filter(|path| path.as_os_str() != "-") else {
        return Err(Usage("--format parquet writes below a folder: name it with -o".into()).into());
    };
    if args.memory.alloc || args.choice.last.is_some() || !args.look.is_everything() {
        return Err(Usage("--format parquet writes whole recordings of CPU time".into()).into());
    }
    let words = ["export", "-o"].map(OsStr::new).into_iter().chain([root.as_os_str()]);
    become_fleet(words.chain(paths.iter().map(|path| path.as_os_str())))
}

/// Memory in a format that has it.
fn memory(args: &Args, format: Format, paths: &[PathBuf], face: &Face) -> Result<ExitCode> {
    let measure = args.by.unwrap_or_default();
    let loaded = args.memory.load(paths, &args.look, measure, face)?;
    let (profile, cells) = (&loaded.profile, &loaded.cells[..]);
    let bytes = match format {
        Format::Pprof => pct_formats::export::pprof::write_memory(profile, cells),
        Format::Folded => pct_formats::export::folded::write_memory(profile, cells, measure).into_bytes(),
        _ => return Err(Usage("memory can be written as pprof or folded".into()).into()),
    };
    store(args, format, paths, "heap", &bytes, face)?;
    Ok(look::status(&profile.account))
}

/// Writes the file where it was asked for, or beside the recording by this name.
fn store(
    args: &Args,
    format: Format,
    paths: &[PathBuf],
    name: &str,
    bytes: &[u8],
    face: &Face,
) -> Result<()> {
    match &args.out {
        Some(path) if path.as_os_str() == "-" => face.print_file(bytes),
        given => {
            let name = format!("{name}.{}", format.suffix());
            let path = write_beside(given.as_deref(), paths, &name, bytes)?;
            face.hint(path.display());
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_profile::model::{Builder, Object, ObjectKind, Process, Weight};

    #[test]
    fn time_in_no_sample_is_told_of_where_samples_have_an_order() {
        let mut b = Builder::new(false);
        let process = b.process(Process::default());
        let thread = b.thread(process, 1, "");
        for (kind, samples, user_ns) in
            [(ObjectKind::File, 1, 5_000_000), (ObjectKind::NotSampled, 0, 46_000_000)]
        {
            let object = b.object(Object::new("x", kind));
            let function = b.function(object, "f");
            let frame = b.plain_frame(function);
            let stack = b.stack(None, frame);
            b.add(thread, stack, Weight { samples, user_ns, system_ns: 0 });
        }
        let profile = b.finish();
        let note = without_time(&profile, &profile.cells).expect("some is in no sample");
        assert!(note.starts_with("0.046 CPU s are in no sample"), "{note}");
        let sampled: Vec<Cell> =
            profile.cells.iter().filter(|cell| profile.is_sampled(cell.stack)).copied().collect();
        assert_eq!(without_time(&profile, &sampled), None);
    }
}
