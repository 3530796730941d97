//! `pct archive`: names beside the data, so that the report is the same on another machine or after a rebuild.

use super::annotate;
use crate::face::Face;
use crate::look;
use anyhow::Result;
use pct_profile::load;
use std::path::PathBuf;
use std::process::ExitCode;

/// What can be typed after `pct archive`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct archive pct-render-4711 && tar czf run.tar.gz pct-render-4711
  pct run --keep-symbols -- ./render      the same at the end of a run

  pct archive --code pct-render-4711      pct annotate works elsewhere too

Programs and libraries are not copied: only what the sampled addresses need.")]
pub struct Args {
    /// Copy the instructions of sampled functions and the source files too, for pct annotate and the pages.
    #[arg(long)]
    pub code: bool,
    /// Run folders; the newest run here if none.
    #[arg(value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
}

/// Writes the archives.
///
/// # Errors
/// When nothing could be archived; of several folders the others are still done.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    let mut failed = false;
    for dir in look::paths(&args.dirs)? {
        let mut progress = face.progress();
        if dir.is_file() {
            failed = true;
            face.warn(format_args!(
                "{}: a file; name the run's folder, in which the archive belongs",
                dir.display()
            ));
            continue;
        }
        match load::archive(&dir, &mut |what, done, all| progress.step(what, done, all)) {
            Ok(path) => face.hint(format_args!("{}", path.display())),
            Err(why) => {
                failed = true;
                face.warn(why);
                continue;
            }
        }
        if args.code
            && let Err(why) =
                annotate::copy_beside(&dir, face, &mut |remark| face.hint(format_args!("note: {remark}")))
        {
            failed = true;
            face.warn(crate::errors::chain(&why));
        }
    }
    Ok(ExitCode::from(u8::from(failed)))
}
