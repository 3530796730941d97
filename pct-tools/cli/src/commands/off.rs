//! `pct off`: turns the sampler off in a process that `pct attach` (or `pct run`) turned it on in.

use crate::commands::run::Java;
use crate::face::Face;
use crate::launch::maps::{Watch, Watched};
use anyhow::{Result, bail};
use pct_attach::choose::{Wish, choose};
use pct_attach::memory::ProcessMemory;
use pct_attach::{facts, inject, tasks};
use std::path::Path;
use std::process::ExitCode;

/// What can be typed after `pct off`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:
  pct off 4711")]
pub struct Args {
    /// The process.
    #[arg(value_name = "PID", allow_negative_numbers = true, value_parser = crate::look::pid)]
    pub pid: i32,
    /// Ask Java programs for the names of their compiled functions (Java 17 and later) [default: on].
    #[arg(long, value_enum)]
    pub java: Option<Java>,
}

/// Does it.
///
/// # Errors
/// When the process is gone, may not be attached to, or has no sampler in it.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    let target = facts::read(args.pid)?;
    choose(&target.facts, &Wish::default())?;
    if target.note.is_none() {
        bail!("process {} has no sampler in it", args.pid);
    }
    let memory = ProcessMemory::open(args.pid, true)?;
    // Its recording is mapped until it is off.
    let recording = tasks::mapped_file(args.pid, "pct").filter(|_| target.facts.same_files);
    let stopped = match inject::off(&target, &memory) {
        Err(_) if facts::start_time(args.pid) != Some(target.start_time) => {
            bail!("process {} has ended meanwhile", args.pid)
        }
        stopped => stopped?,
    };
    face.hint(format_args!(
        "off; process {} was stopped for {:.1} ms",
        args.pid,
        stopped.as_secs_f64() * 1e3
    ));
    // An attach without a time has nobody who keeps these names.
    if let Some(folder) = recording.as_deref().and_then(Path::parent) {
        let mut maps = Watch::begin(folder, args.java != Some(Java::Off)).and_then(Watch::end);
        if let Some(Err(why)) = maps.as_mut().map(|maps| maps.copy(folder)) {
            face.warn(format_args!("names of code made at run time are not kept: {why}"));
        }
        for line in maps.iter().flat_map(Watched::java_without_names) {
            face.hint(line);
        }
    }
    Ok(ExitCode::SUCCESS)
}
