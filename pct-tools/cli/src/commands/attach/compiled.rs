//! What goes away when the target ends, or before: names of code that it compiles, programs and libraries that are
//! deleted while pct is attached to it.

use super::Args;
use crate::commands::run::Java;
use crate::face::Face;
use crate::launch::held_objects;
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
    say_kept(maps.copy_objects(folder), face);
    for line in maps.java_without_names() {
        face.hint(line);
    }
}

/// Copies programs and libraries that are deleted already, for a recording that goes on without us.
pub(super) fn keep_what_is_gone(pid: i32, folder: &Path, face: &Face) {
    say_kept(held_objects::copy_what_is_gone(pid, folder), face);
}

fn say_kept<L: AsRef<[String]>>(kept: std::io::Result<L>, face: &Face) {
    match kept {
        Ok(remarks) => remarks.as_ref().iter().for_each(|line| face.warn(line)),
        Err(why) => face.warn(format_args!("programs or libraries that were deleted are not kept: {why}")),
    }
}
