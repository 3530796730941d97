//! speedscope's file format: <https://www.speedscope.app/file-format-schema.json>. One sampled profile a thread, in order of
//! time where the recording has it.

use super::{events, path, thread_name};
use pct_profile::Profile;
use pct_profile::model::{Cell, Id};
use serde_json::json;

/// The octets of the JSON file.
pub fn write(profile: &Profile, cells: &[Cell]) -> Vec<u8> {
    let frames: Vec<_> = profile
        .frames
        .iter()
        .map(|f| {
            let mut frame = json!({ "name": profile.functions[f.function].name });
            if let Some(file) = f.file {
                frame["file"] = json!(profile.files[file]);
            }
            if f.line != 0 {
                frame["line"] = json!(f.line);
            }
            frame
        })
        .collect();
    let profiles: Vec<_> = events(profile, cells)
        .into_iter()
        .map(|(thread, events)| {
            let samples: Vec<Vec<usize>> =
                events.iter().map(|e| path(profile, e.stack).iter().map(|f| f.index()).collect()).collect();
            let weights: Vec<u64> = events.iter().map(|e| e.weight_ns).collect();
            let total: u64 = weights.iter().sum();
            json!({
                "type": "sampled", "name": thread_name(profile, thread), "unit": "nanoseconds",
                "startValue": 0, "endValue": total, "samples": samples, "weights": weights,
            })
        })
        .collect();
    let file = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": concat!("pct ", env!("CARGO_PKG_VERSION")),
        "name": profile.title, "activeProfileIndex": 0,
        "shared": { "frames": frames }, "profiles": profiles,
    });
    serde_json::to_vec(&file).unwrap_or_default()
}
