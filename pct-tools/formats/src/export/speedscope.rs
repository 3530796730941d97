//! speedscope's file format: <https://www.speedscope.app/file-format-schema.json>. There is one sampled profile per
//! thread, in order of time if the recording has it.

use super::json;
use super::threads::{events, path, thread_name};
use pct_profile::model::{Cell, Id};
use pct_profile::{Profile, Quantity, Unit};
use serde_json::json;
use std::collections::HashMap;

/// The format's word for the unit of weights.
fn unit(profile: &Profile) -> &'static str {
    match profile.quantity {
        Quantity::Foreign { unit: Unit::Bytes, .. } => "bytes",
        _ if profile.quantity.is_time() => "nanoseconds",
        Quantity::Foreign { .. } | Quantity::Processor => "none",
    }
}

/// The octets of the JSON file.
pub fn write(profile: &Profile, cells: &[Cell]) -> Vec<u8> {
    // The page treats frames with different lines as different functions, so here a frame is a function.
    let files: HashMap<_, _> = profile.frames.iter().filter_map(|f| Some((f.function, f.file?))).collect();
    let frames: Vec<_> = profile
        .functions
        .enumerate()
        .map(|(id, function)| match files.get(&id) {
            Some(file) => json!({ "name": function.name, "file": profile.files[*file] }),
            None => json!({ "name": function.name, "file": profile.objects[function.object].path }),
        })
        .collect();
    let profiles: Vec<_> = events(profile, cells)
        .into_iter()
        .map(|(thread, events)| {
            let samples: Vec<Vec<usize>> = events
                .iter()
                .map(|e| path(profile, e.stack).iter().map(|f| profile.frames[*f].function.index()).collect())
                .collect();
            let weights: Vec<u64> = events.iter().map(|e| e.weight_ns).collect();
            let total = weights.iter().fold(0u64, |sum, w| sum.saturating_add(*w));
            json!({
                "type": "sampled", "name": thread_name(profile, thread), "unit": unit(profile),
                "startValue": 0, "endValue": total, "samples": samples, "weights": weights,
            })
        })
        .collect();
    // The format has no place for what is measured, only for its unit.
    let (name, unit) = profile.quantity.sample_type();
    let file = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": format!("pct {}: {name} in {unit}", env!("CARGO_PKG_VERSION")),
        "name": profile.title, "activeProfileIndex": 0,
        "shared": { "frames": frames }, "profiles": profiles,
    });
    json::octets(file)
}
