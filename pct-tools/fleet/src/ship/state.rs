//! What is known to have been shipped, in one small file that is replaced as a whole.

use super::config::Steps;
use super::sum::Sum;
use crate::root;
use anyhow::{Context as _, Result, bail};
use pct_profile::load::recordings::ImageKey;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

const NAME: &str = "state.json";
/// Version of the file.
const FORMAT: u32 = 1;
/// Dates whose stacks and hosts are remembered. A stack of an older date may be written again, which costs
/// some octets.
const DATES: usize = 4;

/// How far the files of a process image were taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Progress {
    /// Number of the file that is expected next.
    pub(super) next: u64,
    /// CPU nanoseconds that the process had used at the end of the last one; 0 = not known.
    pub(super) cpu_ns: u64,
    /// Its process, to see whether it may still write another file. (The state is private; no table has
    /// this.)
    pub(super) pid: u32,
}

/// What a batch adds to the state. It is in the spool beside the batch's files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// Number of the batch, from 1.
    pub(super) number: u64,
    /// When it was made, in nanoseconds since 1970.
    pub(super) made_ns: u64,
    /// Ids of its recordings.
    pub(super) segments: Vec<String>,
    /// Images that its recordings are of.
    pub(super) images: BTreeMap<String, Progress>,
    /// Ids of stacks that it writes, by date.
    pub(super) stacks: BTreeMap<String, BTreeSet<String>>,
    /// Rows of `hosts` that it writes, by date.
    pub(super) hosts: BTreeMap<String, BTreeSet<String>>,
    /// What is lost if its samples are dropped.
    pub(super) sums: Vec<Sum>,
    /// Its samples were dropped.
    pub(super) dropped: bool,
}

/// Where the time of rows went that were pushed to a server, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pushed {
    /// The server has them.
    pub(super) accepted_ns: u64,
    /// They will never arrive.
    pub(super) lost_ns: u64,
    /// Nobody knows whether the server has them.
    pub(super) unsure_ns: u64,
}

/// All that batches added.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct State {
    format: u32,
    /// The root or server that it is of.
    to: String,
    /// Number of the last batch that arrived; 0 = none.
    pub(super) delivered: u64,
    /// Something was shipped before: a first recording that is not a process's first one then has lost ones
    /// before it.
    pub(super) begun: bool,
    /// Ids of recordings that were taken and may still lie in their folder.
    pub(super) segments: BTreeSet<String>,
    /// Where the time of all batches went that were pushed to a server.
    #[serde(default)]
    pushed: Pushed,
    /// See [`Manifest::images`].
    pub(super) images: BTreeMap<String, Progress>,
    /// See [`Manifest::stacks`].
    pub(super) stacks: BTreeMap<String, BTreeSet<String>>,
    /// See [`Manifest::hosts`].
    pub(super) hosts: BTreeMap<String, BTreeSet<String>>,
}

impl State {
    /// Reads the state in a folder, or makes a new one if the folder has no state. `to` is the target's title.
    ///
    /// # Errors
    /// When it cannot be read, is of another version, or of another target.
    pub(super) fn read(folder: &Path, to: String) -> Result<Self> {
        let path = folder.join(NAME);
        let text = match std::fs::read(&path) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                return Ok(Self { format: FORMAT, to, ..Self::default() });
            }
            text => text.with_context(|| path.display().to_string())?,
        };
        let state: Self = serde_json::from_slice(&text).with_context(|| path.display().to_string())?;
        if state.format != FORMAT {
            bail!("{}: format {}, expected {FORMAT}", path.display(), state.format);
        }
        if state.to != to {
            bail!(
                "{}: it is of {}; --state names another folder for another target",
                path.display(),
                state.to
            );
        }
        Ok(state)
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn write(&self, folder: &Path, step: Steps<'_>) -> Result<()> {
        root::replace_file(&folder.join(NAME), &serde_json::to_vec(self)?, step)
    }

    /// A batch went to a server, or was dropped: it is not looked at again.
    pub(super) fn finish_batch(&mut self, batch: &Manifest, pushed: Pushed) {
        self.add_batch(batch);
        self.delivered = batch.number;
        let sums = &mut self.pushed;
        sums.accepted_ns = sums.accepted_ns.saturating_add(pushed.accepted_ns);
        sums.lost_ns = sums.lost_ns.saturating_add(pushed.lost_ns);
        sums.unsure_ns = sums.unsure_ns.saturating_add(pushed.unsure_ns);
    }

    /// What a batch adds.
    pub(super) fn add_batch(&mut self, batch: &Manifest) {
        self.begun = true;
        self.segments.extend(batch.segments.iter().cloned());
        self.images.extend(batch.images.clone());
        for (mine, new) in [(&mut self.stacks, &batch.stacks), (&mut self.hosts, &batch.hosts)] {
            for (date, keys) in new {
                mine.entry(date.clone()).or_default().extend(keys.iter().cloned());
            }
            while mine.len() > DATES {
                mine.pop_first();
            }
        }
    }

    /// Forgets what only recordings need that are no longer there. Says whether there was any.
    pub(super) fn forget_deleted(&mut self, there: &[(String, ImageKey)]) -> bool {
        let before = (self.segments.len(), self.images.len());
        let segments: BTreeSet<&str> = there.iter().map(|(segment, _)| segment.as_str()).collect();
        let images: BTreeSet<String> = there.iter().map(|(_, image)| image_id(image)).collect();
        self.segments.retain(|segment| segments.contains(segment.as_str()));
        // A process that lives goes on with the next file, though its last ones may be deleted.
        let lives = |pid: u32| Path::new(&format!("/proc/{pid}")).exists();
        self.images.retain(|image, progress| images.contains(image) || lives(progress.pid));
        before != (self.segments.len(), self.images.len())
    }
}

/// What the state calls a process image.
pub(super) fn image_id(image: &ImageKey) -> String {
    crate::ids::image_id(&image.boot_id, image.pid, image.start_ticks, &image.exe)
}
