//! Reads a process and its files without trusting them.

use crate::tasks;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The kernel's (cut) name of the thread that handles a JVM's signals ("Signal Dispatcher").
const DISPATCHER: &str = "Signal Dispatch";

/// Whether a process has the thread that handles a JVM's signals.
pub(super) fn has_dispatcher(pid: i32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks
        .map(|task| task.path().join("comm"))
        .any(|comm| tasks::read_text(comm).is_ok_and(|name| name.trim_end() == DISPATCHER))
}

/// A path of the process, reached through its root folder.
pub(super) fn within(root: &File, path: &Path) -> PathBuf {
    let root = PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd()));
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Reads a file. It must be a regular file, not a symbolic link, and belong to `owner` or root.
pub(super) fn read_file(path: &Path, owner: u32, most: u64) -> io::Result<Vec<u8>> {
    let mut octets = Vec::new();
    open_file(path, owner, most)?.take(most).read_to_end(&mut octets)?;
    Ok(octets)
}

/// Opens a file under the same conditions.
pub(super) fn open_file(path: &Path, owner: u32, most: u64) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let meta = file.metadata()?;
    let obstacle = if !meta.is_file() {
        "not a regular file"
    } else if meta.uid() != owner && meta.uid() != 0 {
        "it is another user's than the JVM's"
    } else if meta.len() > most {
        "too large"
    } else {
        return Ok(file);
    };
    Err(io::Error::other(obstacle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_file_is_told() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("file");
        std::fs::write(&path, "four").expect("written");
        let own = std::fs::metadata(&path).expect("there").uid();
        let told =
            |path: &Path, owner, most| open_file(path, owner, most).map(drop).map_err(|why| why.to_string());
        assert_eq!(told(&path, own, 4), Ok(()));
        assert_eq!(told(&path, own, 3), Err("too large".into()));
        assert_eq!(told(dir.path(), own, 4096), Err("not a regular file".into()));
        // Root's files are for everybody.
        assert!(own == 0 || told(&path, own + 1, 4).expect_err("refused").contains("another user's"));
    }
}
