//! A new file, mapped shared and grown by fallocate: the fence around `mmap(2)` for recordings made from outside.
//!
//! The whole limit is mapped at once; only what [`MappedFile::grow`] has allocated is given out, so that no store can meet
//! a hole (SIGBUS) or a full disk.

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
    /// Creates `path` (it must not exist; mode 0600, 0400 once open) and maps `limit` bytes of it, none of them allocated.
    ///
    /// # Errors
    /// When the file exists, cannot be made, or cannot be mapped.
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

    /// Bytes that may be touched.
    pub fn allocated(&self) -> usize {
        self.allocated
    }

    /// Allocates up to `bytes` in all.
    ///
    /// # Errors
    /// ENOSPC, EFBIG or the limit of the mapping; nothing has changed then.
    pub fn grow(&mut self, bytes: usize) -> io::Result<()> {
        if bytes > self.limit {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        let (from, len) =
            (self.allocated as libc::off_t, bytes.saturating_sub(self.allocated) as libc::off_t);
        // SAFETY: fallocate takes integers and a descriptor that is open.
        if len > 0 && unsafe { libc::fallocate(self.file.as_raw_fd(), 0, from, len) } != 0 {
            return Err(io::Error::last_os_error());
        }
        self.allocated = self.allocated.max(bytes);
        Ok(())
    }

    /// The allocated words.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, lives as long as `self`, and its first `allocated` bytes are backed by the
        // file, which we never shrink. Atomics may be changed by others at any time.
        unsafe { std::slice::from_raw_parts(self.base, self.allocated / 8) }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and no borrow of it outlives `self`.
        unsafe { libc::munmap(self.base.cast(), self.limit) };
    }
}
