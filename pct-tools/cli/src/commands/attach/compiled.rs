//! Names of code that the target compiles while pct is attached to it.

use super::Args;
use crate::commands::run::Java;
use crate::face::Face;
use crate::launch::maps::{Watch, Watched};
use std::path::Path;

/// Watches the perf maps of the processes that record into `folder`, and asks Java for its names.
pub(super) fn watch(args: &Args, folder: &Path) -> Option<Watch> {
    Watch::begin(folder, args.java != Some(Java::Off))
}

/// Sampling has ended: asks Java once more. The target may run on.
pub(super) fn end(watch: Option<Watch>) -> Option<Watched> {
    watch.and_then(Watch::end)
}

/// Copies the maps to the folder in which the recordings are by now.
pub(super) fn keep(maps: Option<Watched>, folder: &Path, face: &Face) {
    let Some(mut maps) = maps else { return };
    if let Err(why) = maps.copy(folder) {
        face.warn(format_args!("names of code made at run time are not kept: {why}"));
    }
    for line in maps.java_without_names() {
        face.hint(line);
    }
}
