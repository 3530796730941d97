//! `pct export`: a recording in the format of another tool.

use crate::commands::flame::write_beside;
use crate::face::Face;
use crate::look::{self, Look};
use anyhow::Result;
use pct_formats::Format;
use pct_profile::load::Options;
use std::path::PathBuf;
use std::process::ExitCode;

/// What can be typed after `pct export`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct export --format pprof -o prof.pb.gz && go tool pprof -top prof.pb.gz
  pct export --format speedscope pct-render-4711      then open the file on a speedscope page
  pct export --format folded -o - | flamegraph.pl > x.svg
  pct export --format callgrind -o - > callgrind.out && callgrind_annotate callgrind.out")]
pub struct Args {
    /// Run folders and .pct files (or perf.data, folded, pprof, perf script text); the newest run here if none.
    #[arg(value_name = "DIR|FILE")]
    pub paths: Vec<PathBuf>,
    /// In which format: folded, pprof, speedscope, callgrind, chrome, firefox (and otlp, if built with that feature).
    #[arg(short, long, value_name = "FORMAT", value_parser = format)]
    pub format: Format,
    /// The file to write; - is stdout [default: profile.SUFFIX in the run's folder, or here].
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Which samples.
    #[command(flatten)]
    pub look: Look,
}

fn format(text: &str) -> Result<Format, String> {
    Format::ALL.iter().find(|(name, _)| *name == text).map(|(_, f)| *f).ok_or_else(|| {
        let names: Vec<&str> = Format::ALL.iter().map(|(name, _)| *name).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// Writes it.
///
/// # Errors
/// When no profile could be read or the file cannot be written.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    let paths = look::paths(&args.paths)?;
    let options = Options { timeline: args.format.wants_timeline(), ..args.look.options() };
    let profile = look::load(&paths, &options, face)?;
    let cells = args.look.cells(&profile);
    let bytes = pct_formats::export(&profile, &cells, args.format);
    match &args.out {
        Some(path) if path.as_os_str() == "-" => face.print_file(&bytes)?,
        given => {
            let name = format!("profile.{}", args.format.suffix());
            let path = write_beside(given.as_deref(), &paths, &name, &bytes)?;
            face.hint(path.display());
        }
    }
    Ok(look::status(&profile.account))
}
