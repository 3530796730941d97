//! Read-only memory maps of files: the one fence of this crate around `unsafe`.
//!
//! Object files and name lists are mapped and not read. If a report needs a few pages of a debug binary of 250 MB, it
//! costs a few pages. The price: if somebody truncates such a file while pct reads it, the kernel sends pct SIGBUS.
//! Compilers and package managers replace files by rename, which leaves the mapping intact. Files that programs rewrite
//! in place (perf-PID.map, jitdump) are read into memory instead.
//!
//! Invariant: a [`FileMap`] is only ever read, through `&[u8]`.
#![expect(unsafe_code, reason = "memory maps")]

use std::fs::File;
use std::io;
use std::path::Path;

/// A file, mapped read-only and private. An empty file gives an empty slice.
#[derive(Debug)]
pub(crate) struct FileMap(Option<memmap2::Mmap>);

impl FileMap {
    /// Maps a regular file.
    ///
    /// # Errors
    /// The errors of opening and mapping, and `InvalidInput` for anything but a regular file (a fifo would block).
    pub(crate) fn open(path: &Path) -> io::Result<(FileMap, std::fs::Metadata)> {
        use std::os::unix::fs::OpenOptionsExt;
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        if meta.len() == 0 {
            return Ok((FileMap(None), meta));
        }
        // SAFETY: the mapping is private and read-only and is handed out as `&[u8]` only. Nobody may shrink the file or
        // write into it in place meanwhile. The module's text discusses that: a shrunk file means a SIGBUS, which ends
        // this reading process and never writes anywhere.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok((FileMap(Some(map)), meta))
    }
}

impl std::ops::Deref for FileMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or(&[])
    }
}
