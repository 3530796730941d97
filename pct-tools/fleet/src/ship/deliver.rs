//! From the spool to the root.

use super::config::Steps;
use super::spool::Batch;
use crate::columns;
use crate::root;
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeSet;
use std::path::Path;

/// Brings all files of a batch to their places. May be called again after it failed or was killed.
///
/// # Errors
/// When the root is not there, or what the system says.
pub(super) fn deliver(batch: &Batch, to: &Path, step: Steps<'_>) -> Result<()> {
    if !to.is_dir() {
        bail!("{}: it is not there; recordings wait in the spool", to.display());
    }
    let again = batch.is_sent();
    if !again {
        batch.mark_sent(step)?;
    }
    for (from, place) in batch.files()? {
        let octets = std::fs::read(&from).with_context(|| from.display().to_string())?;
        let target = to.join(&place);
        if again {
            clear_unfinished(&target, &octets);
            // What arrived may have been merged with files of others since.
            let segments = &batch.manifest.segments;
            if place.starts_with("samples") && !segments.is_empty() && is_merged(&target, segments)? {
                continue;
            }
        }
        // A file of this name has these contents.
        if std::fs::metadata(&target).is_ok_and(|meta| meta.len() == octets.len() as u64) {
            continue;
        }
        root::replace_file(&target, &octets, step)?;
    }
    Ok(())
}

/// Removes what a killed process left of a file that it was writing.
fn clear_unfinished(target: &Path, octets: &[u8]) {
    let unfinished = format!(".part-{}-", root::content_hash(octets));
    let entries = target.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    for entry in entries.into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&unfinished) {
            // Engines pass over it, so it does no harm if it stays.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Whether another file in a target's folder has the rows of all these recordings.
fn is_merged(target: &Path, segments: &[String]) -> Result<bool> {
    let Some(entries) = target.parent().and_then(|folder| std::fs::read_dir(folder).ok()) else {
        return Ok(false);
    };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path == target || name.starts_with('.') || !name.ends_with(".parquet") {
            continue;
        }
        // A file that cannot be read is not what has these rows; `pct-fleet check` names it.
        let Ok(claimed) = columns::segments_of(&path) else { continue };
        let claimed: BTreeSet<String> = claimed.into_iter().collect();
        if segments.iter().all(|segment| claimed.contains(segment)) {
            return Ok(true);
        }
    }
    Ok(false)
}
