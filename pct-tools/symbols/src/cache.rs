//! Answers cached from one run to the next, for objects with much debug information: one archive per build-id.
//!
//! Only what cannot change is cached: answers without a problem, of an object whose build-id proved that it is the one
//! that was sampled. A cache that cannot be read or written is ignored.
//!
//! Invariant: the folder belongs to this user, and pct's files in it soon shrink to at most [`MOST_BYTES`], because
//! the files that were written longest ago are removed first.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::archive::Archive;
use crate::objects::ObjectInfo;

/// Largest size of all files together.
const MOST_BYTES: u64 = 256 << 20;
/// Largest size of one file.
const MOST_OF_ONE: u64 = 64 << 20;
/// Suffix of these files. The number changes whenever a new version finds better answers.
const SUFFIX: &str = concat!(".", env!("CARGO_PKG_VERSION"), "-2.pctsym");

fn file(dir: &Path, info: &ObjectInfo) -> Option<PathBuf> {
    let id = info.build_id.as_ref().filter(|id| id.as_bytes().len() >= 8)?;
    Some(dir.join(format!("{id}{SUFFIX}")))
}

/// The cached answers of an object; an empty archive if there are none.
pub(crate) fn read(dir: &Path, info: &ObjectInfo) -> Archive {
    let kept = || {
        let path = file(dir, info)?;
        let meta = fs::symlink_metadata(&path).ok()?;
        let ours =
            meta.is_file() && meta.len() <= MOST_OF_ONE && meta.uid() == nix::unistd::geteuid().as_raw();
        let archive = Archive::read_file(&path).ok().flatten().filter(|_| ours)?;
        (archive.counts().0 == 1 && archive.find(info) == Some(0)).then_some(archive)
    };
    kept().unwrap_or_default()
}

/// Caches the archive of one object.
pub(crate) fn write(dir: &Path, info: &ObjectInfo, archive: &Archive) {
    let Some(path) = file(dir, info) else { return };
    if !dir.is_dir() && fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).is_err() {
        return;
    }
    if archive.write_file(&path).is_ok() {
        tidy(dir);
    }
}

fn tidy(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut files: Vec<_> = entries
        .filter_map(|e| {
            let path = e.ok()?.path();
            let named = path.file_name()?.to_str().is_some_and(|n| n.contains(".pctsym"));
            let meta = fs::symlink_metadata(&path).ok().filter(|m| named && m.is_file())?;
            Some((meta.modified().ok()?, meta.len(), path))
        })
        .collect();
    files.sort_unstable();
    let mut total: u64 = files.iter().map(|f| f.1).sum();
    for (_, len, path) in files {
        if total <= MOST_BYTES && len <= MOST_OF_ONE {
            continue;
        }
        if fs::remove_file(path).is_ok() {
            total -= len;
        }
    }
}
