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
    let fits = meta.is_file() && (meta.uid() == owner || meta.uid() == 0) && meta.len() <= most;
    let why = "not a regular file of the JVM's user, or too large";
    fits.then_some(file).ok_or_else(|| io::Error::other(why))
}
