//! Batches that were taken and have not arrived: a folder each, `spool/NUMBER`.
//!
//! A folder is made as `NUMBER.new` and gets its name when all in it is on the disk. `NUMBER.dropped` takes
//! the place of `NUMBER`: the same batch with its samples replaced by what is lost without them. A file
//! `sent` in a folder says that some files may have arrived.

use super::config::{Limits, Steps};
use super::state::Manifest;
use super::sum::Sum;
use crate::ids::NO_STACK;
use crate::root::{self, TableFile};
use crate::tables::Sample;
use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const MANIFEST: &str = "manifest.json";
const SENT: &str = "sent";
/// Folder of the table files in a batch.
const FILES: &str = "files";

/// A batch that is to be added: its manifest without a number, and its files.
#[derive(Default)]
pub(super) struct NewBatch {
    pub(super) manifest: Manifest,
    pub(super) files: Vec<TableFile>,
}

/// A batch in the spool.
pub(super) struct Batch {
    pub(super) folder: PathBuf,
    pub(super) manifest: Manifest,
    bytes: u64,
}

impl Batch {
    fn read(folder: PathBuf) -> Result<Self> {
        let path = folder.join(MANIFEST);
        let text = std::fs::read(&path).with_context(|| path.display().to_string())?;
        let manifest = serde_json::from_slice(&text).with_context(|| path.display().to_string())?;
        let mut batch = Self { folder, manifest, bytes: 0 };
        for (path, _) in batch.files()? {
            let len = std::fs::metadata(&path).with_context(|| path.display().to_string())?.len();
            batch.bytes = batch.bytes.saturating_add(len);
        }
        Ok(batch)
    }

    /// The root that its table files are below.
    pub(super) fn root(&self) -> PathBuf {
        self.folder.join(FILES)
    }

    /// Its table files: where they are, and where below a root they belong. Samples are the last ones.
    pub(super) fn files(&self) -> Result<Vec<(PathBuf, PathBuf)>> {
        let base = self.root();
        let (mut found, mut pending) = (Vec::new(), vec![base.clone()]);
        while let Some(folder) = pending.pop() {
            if !folder.exists() {
                continue;
            }
            for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let path = entry.with_context(|| folder.display().to_string())?.path();
                if path.is_dir() {
                    pending.push(path);
                } else if let Ok(place) = path.strip_prefix(&base) {
                    found.push((path.clone(), place.to_owned()));
                }
            }
        }
        found.sort_by_key(|(_, place)| (place.starts_with("samples"), place.clone()));
        Ok(found)
    }

    /// Whether some of its files may have arrived.
    pub(super) fn is_sent(&self) -> bool {
        self.folder.join(SENT).exists()
    }

    /// Notes that from now on some may have.
    pub(super) fn mark_sent(&self, step: Steps<'_>) -> Result<()> {
        root::replace_file(&self.folder.join(SENT), &[], step)
    }
}

/// The spool.
pub(super) struct Spool {
    folder: PathBuf,
    /// What waits, the oldest first.
    pub(super) batches: Vec<Batch>,
    /// Number of the next batch.
    next: u64,
}

impl Spool {
    /// Opens the spool in a folder, and removes what a killed process left there unfinished, or delivered.
    ///
    /// # Errors
    /// What the system says, or when a manifest is damaged.
    pub(super) fn open(state: &Path, delivered: u64) -> Result<Self> {
        let folder = state.join("spool");
        root::make_folder(&folder)?;
        let mut whole: BTreeMap<u64, PathBuf> = BTreeMap::new();
        let mut dropped = Vec::new();
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry.with_context(|| folder.display().to_string())?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            match name.split_once('.') {
                None => {
                    let Ok(number) = name.parse() else { continue };
                    whole.insert(number, path);
                }
                Some((number, "dropped")) => dropped.extend(number.parse::<u64>().ok().map(|n| (n, path))),
                Some(_) => root::remove_folder(&path)?,
            }
        }
        for (number, path) in dropped {
            if let Some(old) = whole.insert(number, path) {
                root::remove_folder(&old)?;
            }
        }
        let mut spool = Self { folder, batches: Vec::new(), next: delivered + 1 };
        for (number, path) in whole {
            if number <= delivered {
                root::remove_folder(&path)?;
                continue;
            }
            spool.batches.push(Batch::read(path)?);
            spool.next = spool.next.max(number + 1);
        }
        Ok(spool)
    }

    /// Bytes of all batches.
    pub(super) fn bytes(&self) -> u64 {
        self.batches.iter().map(|batch| batch.bytes).sum()
    }

    /// Puts a batch into the spool.
    ///
    /// # Errors
    /// What the system says; then it is not there.
    pub(super) fn add(&mut self, mut batch: NewBatch, step: Steps<'_>) -> Result<Manifest> {
        batch.manifest.number = self.next;
        let place = self.folder.join(self.next.to_string());
        self.write(&batch, &place, step)?;
        self.next += 1;
        self.batches.push(Batch::read(place)?);
        Ok(batch.manifest)
    }

    /// Writes a batch aside and renames it.
    fn write(&self, batch: &NewBatch, place: &Path, step: Steps<'_>) -> Result<()> {
        let aside = self.folder.join(format!("{}.new", batch.manifest.number));
        let write = |step: Steps<'_>| -> Result<()> {
            root::remove_folder(&aside)?;
            for (path, octets) in &batch.files {
                root::replace_file(&aside.join(FILES).join(path), octets, step)?;
            }
            root::replace_file(&aside.join(MANIFEST), &serde_json::to_vec(&batch.manifest)?, step)?;
            std::fs::rename(&aside, place).with_context(|| place.display().to_string())?;
            root::sync_folder(&self.folder).with_context(|| self.folder.display().to_string())
        };
        write(step).inspect_err(|_| {
            // The error that is told is the first one.
            let _ = root::remove_folder(&aside);
        })?;
        step("a batch in the spool");
        Ok(())
    }

    /// Removes the oldest batch, which has arrived.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn remove_first(&mut self, step: Steps<'_>) -> Result<()> {
        let batch = self.batches.remove(0);
        root::remove_folder(&batch.folder)?;
        step("a batch removed");
        Ok(())
    }

    /// Drops samples of the oldest batches until the limits are kept. Gives the CPU nanoseconds that are
    /// newly lost by that.
    ///
    /// Stacks stay: later batches refer to them. Of a batch that was sent in part nothing is dropped, since
    /// its samples may have arrived.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn shrink(&mut self, limits: Limits, now_ns: u64, step: Steps<'_>) -> Result<u64> {
        let mut lost = 0u64;
        for at in 0..self.batches.len() {
            let too_much = self.bytes() > limits.bytes;
            let batch = &self.batches[at];
            let too_old = now_ns.saturating_sub(batch.manifest.made_ns) > limits.age_ns;
            if !(too_much || too_old) || batch.manifest.dropped || batch.is_sent() {
                continue;
            }
            let manifest = Manifest { dropped: true, ..batch.manifest.clone() };
            let mut files = Vec::new();
            for (path, place) in batch.files()? {
                if !place.starts_with("samples") {
                    files.push((place, std::fs::read(&path).with_context(|| path.display().to_string())?));
                }
            }
            files.extend(root::files(&lost_rows(&manifest.sums), &manifest.segments)?);
            let place = self.folder.join(format!("{}.dropped", manifest.number));
            let sums = manifest.sums.iter().map(|sum| u64::try_from(sum.ns).unwrap_or(0));
            lost = sums.fold(lost, u64::saturating_add);
            self.write(&NewBatch { manifest, files }, &place, step)?;
            let smaller = Batch::read(place)?;
            let whole = std::mem::replace(&mut self.batches[at], smaller);
            root::remove_folder(&whole.folder)?;
            step("a batch dropped");
        }
        Ok(lost)
    }
}

/// Rows that say what is lost.
fn lost_rows(sums: &[Sum]) -> crate::gather::Tables {
    let row = |sum: &Sum| Sample {
        service: sum.service.clone(),
        version: sum.version.clone(),
        stack_id: NO_STACK,
        host: sum.host.clone(),
        ts: sum.ts,
        thread: String::new(),
        kind: sum.kind.clone(),
        env: sum.env.clone(),
        samples: 0,
        value: 0,
        lost: sum.ns,
    };
    crate::gather::Tables { samples: sums.iter().map(row).collect(), ..Default::default() }
}
