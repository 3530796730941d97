//! Decides when two names are the same trace.
//!
//! Two paths are one trace if they are equal after links, `..` and trailing slashes are resolved, or if they name the
//! same inode of the same device. Only this module of the crate asks the file system anything.

use std::io;
use std::path::{Path, PathBuf};

/// Identity of a trace. At most one open instance has it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TraceIdentity {
    path: PathBuf,
    inode: Option<(u64, u64)>,
}

impl TraceIdentity {
    /// Identity of a file or directory.
    ///
    /// # Errors
    /// The path does not exist or may not be read.
    pub fn of_path(path: &Path) -> io::Result<TraceIdentity> {
        let path = path.canonicalize()?;
        let meta = path.metadata()?;
        #[cfg(unix)]
        let inode = {
            use std::os::unix::fs::MetadataExt;
            Some((meta.dev(), meta.ino()))
        };
        #[cfg(not(unix))]
        let inode = {
            let _ = meta;
            None
        };
        Ok(TraceIdentity { path, inode })
    }

    /// Identity of a trace that is not in the file system, or of a part of a file (`run.pct#4711`).
    pub fn named(name: &str) -> TraceIdentity {
        TraceIdentity { path: PathBuf::from(name), inode: None }
    }

    /// The canonical path, or the name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Device and inode, if any.
    pub fn inode(&self) -> Option<(u64, u64)> {
        self.inode
    }

    /// Whether both name one trace.
    pub fn is_same(&self, other: &TraceIdentity) -> bool {
        self.path == other.path || (self.inode.is_some() && self.inode == other.inode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_dots_and_slashes_do_not_make_another_trace() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("trace");
        std::fs::create_dir(&real).unwrap();
        std::fs::create_dir(dir.path().join("other")).unwrap();
        std::os::unix::fs::symlink(&real, dir.path().join("link")).unwrap();
        let id = TraceIdentity::of_path(&real).unwrap();
        for name in ["trace/", "link", "other/../trace", "./link/."] {
            assert!(TraceIdentity::of_path(&dir.path().join(name)).unwrap().is_same(&id), "{name}");
        }
        assert!(!TraceIdentity::of_path(&dir.path().join("other")).unwrap().is_same(&id));
        assert!(TraceIdentity::of_path(&dir.path().join("absent")).is_err());
    }
}
