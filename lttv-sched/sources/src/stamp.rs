//! Detects whether files have changed since they were read.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Most files that are checked.
const MOST_FILES: usize = 2000;
/// Deepest folder below a path that is checked: a session's `kernel/` and `ust/uid/0/64-bit/index/`.
const DEEPEST: usize = 6;

/// A number that changes with the files at paths: with their names, sizes and modification times. Writes through a
/// mapping need not change any of these, so it does not show whether a file is still being written.
pub fn stamp(paths: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut left = MOST_FILES;
    for path in paths {
        add(path, 0, &mut left, &mut hasher);
    }
    hasher.finish()
}

fn add(path: &Path, depth: usize, left: &mut usize, hasher: &mut DefaultHasher) {
    *left = left.saturating_sub(1);
    let Ok(meta) = std::fs::metadata(path) else { return path.hash(hasher) };
    (meta.dev(), meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()).hash(hasher);
    if !meta.is_dir() || depth >= DEEPEST {
        return;
    }
    let inside = std::fs::read_dir(path).into_iter().flatten().flatten().take(*left);
    let mut inside: Vec<PathBuf> = inside.map(|entry| entry.path()).collect();
    inside.sort();
    for path in inside {
        add(&path, depth + 1, left, hasher);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_change_when_files_grow_are_replaced_or_gone() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("kernel/index");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join("a"), "1").unwrap();
        let now = || stamp(&[dir.path().to_owned()]);
        let mut seen = vec![now()];
        assert_eq!(now(), seen[0]);
        let mut changed = || {
            let stamp = now();
            assert!(!seen.contains(&stamp));
            seen.push(stamp);
        };
        std::fs::write(deep.join("a"), "12").unwrap();
        changed();
        std::fs::write(dir.path().join("new"), "34").unwrap();
        std::fs::rename(dir.path().join("new"), deep.join("a")).unwrap();
        changed();
        std::fs::remove_dir_all(dir.path()).unwrap();
        changed();
    }
}
