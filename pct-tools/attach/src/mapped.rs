//! A new file, mapped shared and grown by fallocate: the fence around `mmap(2)` for recordings written from outside.
//!
//! The whole limit is mapped at once. Callers only get what [`MappedFile::grow`] has allocated, so that no store can
//! hit a hole (SIGBUS) or a full disk.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// A file under a shared mapping.
#[derive(Debug)]
pub struct MappedFile {
    file: File,
    base: *mut AtomicU64,
    limit: usize,
    allocated: usize,
}

// The pointer is to a shared mapping of atomics that lives as long as the value.
// SAFETY: all access goes through `words`, which gives out atomics; moving the owner to another thread changes nothing.
unsafe impl Send for MappedFile {}

impl MappedFile {
    /// Creates `path` and maps `limit` bytes of it, without allocating any. The file must not exist. Its mode is 0600,
    /// then 0400 once it is open.
    ///
    /// # Errors
    /// When the file exists, or cannot be created or mapped.
    pub fn create(path: &Path, limit: usize) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC)
            .open(path)?;
        file.set_permissions(Permissions::from_mode(0o400))?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice; no Rust object lies there.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), limit, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(MappedFile { file, base: base.cast(), limit, allocated: 0 })
    }

    /// Number of bytes that may be accessed.
    pub fn allocated(&self) -> usize {
        self.allocated
    }

    /// Allocates more of the file, up to `bytes` in total.
    ///
    /// # Errors
    /// ENOSPC, EFBIG or the limit of the mapping. Nothing has changed then.
    pub fn grow(&mut self, bytes: usize) -> io::Result<()> {
        if bytes > self.limit {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let too_large = |_| io::Error::from_raw_os_error(libc::EFBIG);
        let from = libc::off_t::try_from(self.allocated).map_err(too_large)?;
        let len = libc::off_t::try_from(bytes.saturating_sub(self.allocated)).map_err(too_large)?;
        // SAFETY: fallocate takes integers and a descriptor that is open.
        if len > 0 && unsafe { libc::fallocate(self.file.as_raw_fd(), 0, from, len) } != 0 {
            return Err(io::Error::last_os_error());
        }
        self.allocated = self.allocated.max(bytes);
        Ok(())
    }

    /// The allocated words.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, lives as long as `self`, and its first `allocated` bytes are
        // backed by the file, which pct never shrinks. Others may change atomics at any time.
        unsafe { std::slice::from_raw_parts(self.base, self.allocated / 8) }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no borrow of it outlives `self`.
        unsafe { libc::munmap(self.base.cast(), self.limit) };
    }
}
