//! `pct off`: turns the sampler off in a process that `pct attach` (or `pct run`) turned it on in.

use crate::face::Face;
use anyhow::{Result, bail};
use pct_attach::choose::{Wish, choose};
use pct_attach::memory::ProcessMemory;
use pct_attach::{facts, inject};
use std::process::ExitCode;

/// What can be typed after `pct off`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:
  pct off 4711")]
pub struct Args {
    /// The process.
    #[arg(value_name = "PID", allow_negative_numbers = true, value_parser = crate::look::pid)]
    pub pid: i32,
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
    let stopped = inject::off(&target, &memory)?;
    face.hint(format_args!(
        "off; process {} was stopped for {:.1} ms",
        args.pid,
        stopped.as_secs_f64() * 1e3
    ));
    Ok(ExitCode::SUCCESS)
}
