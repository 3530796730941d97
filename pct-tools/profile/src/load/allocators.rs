//! Allocators inside the programs themselves, which no preloaded library stands in front of: found in the programs'
//! files.

use crate::model::Profile;
use pct_symbols::{Image, allocator};
use rustc_hash::FxHashMap;
use std::path::Path;

/// Finds out for each process whose allocations were sampled whether its program carries an allocator. A file that is
/// another one by now is not asked.
pub(super) fn find(profile: &mut Profile) {
    let mut known: FxHashMap<String, Option<allocator::Inside>> = FxHashMap::default();
    for process in &mut profile.memory.processes {
        let program = &process.program;
        if program.is_empty() {
            continue;
        }
        let build_id = profile.objects.iter().find(|object| object.path == *program);
        let build_id = build_id.and_then(|object| object.build_id.as_deref());
        let inside = known.entry(program.clone()).or_insert_with(|| inside(program, build_id));
        process.server.inside = inside.clone();
    }
}

fn inside(program: &str, build_id: Option<&str>) -> Option<allocator::Inside> {
    let image = Image::open(Path::new(program)).ok()?;
    let same = image.build_id().map(ToString::to_string).as_deref() == build_id;
    if same { allocator::of_image(&image) } else { None }
}
