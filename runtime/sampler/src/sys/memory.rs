//! Mappings of memory.

use super::{Fd, Result, call, check, nr};

/// Memory that can be read.
pub const PROT_READ: usize = 1;
/// Memory that can be written.
pub const PROT_WRITE: usize = 2;
const MAP_SHARED: usize = 1;
const MAP_PRIVATE: usize = 2;
const MAP_ANONYMOUS: usize = 0x20;
const MAP_NORESERVE: usize = 0x4000;

/// Fresh zeroed private memory, readable and writable, not accounted before it is touched.
///
/// # Errors
/// The kernel's.
pub fn map_memory(bytes: usize) -> Result<*mut u8> {
    // SAFETY: a new mapping where the kernel likes it disturbs nobody.
    let at = unsafe {
        call(
            nr::MMAP,
            [0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, usize::MAX, 0],
        )
    };
    check(at).map(|at| at as *mut u8)
}

/// Replaces a mapping by fresh zeroed private memory.
///
/// # Errors
/// The kernel's.
///
/// # Safety
/// The range is part of one of our own mappings, and nobody needs what it holds.
pub unsafe fn map_memory_over(at: *mut u8, bytes: usize) -> Result<()> {
    const MAP_FIXED: usize = 0x10;
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    // SAFETY: by the caller's promise.
    check(unsafe { call(nr::MMAP, [at as usize, bytes, PROT_READ | PROT_WRITE, flags, usize::MAX, 0]) })
        .map(|_| ())
}

/// Maps a file shared.
///
/// # Errors
/// The kernel's.
pub fn map_shared(fd: &Fd, bytes: usize, protection: usize) -> Result<*mut u8> {
    // SAFETY: a new mapping where the kernel likes it disturbs nobody.
    let at = unsafe { call(nr::MMAP, [0, bytes, protection, MAP_SHARED, fd.0 as usize, 0]) };
    check(at).map(|at| at as *mut u8)
}

/// Addresses that nobody else uses, with nothing there.
///
/// # Errors
/// The kernel's.
pub fn reserve(bytes: usize) -> Result<*mut u8> {
    // SAFETY: a new mapping where the kernel likes it disturbs nobody.
    let at =
        unsafe { call(nr::MMAP, [0, bytes, 0, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, usize::MAX, 0]) };
    check(at).map(|at| at as *mut u8)
}

/// Maps a file shared, in place of what is there.
///
/// # Errors
/// The kernel's.
///
/// # Safety
/// The range is ours, and nothing uses what is there.
pub unsafe fn map_shared_at(fd: &Fd, at: usize, bytes: usize, protection: usize) -> Result<()> {
    const MAP_FIXED: usize = 0x10;
    // SAFETY: by the caller's promise.
    check(unsafe { call(nr::MMAP, [at, bytes, protection, MAP_SHARED | MAP_FIXED, fd.0 as usize, 0]) })
        .map(|_| ())
}

/// Unmaps.
///
/// # Safety
/// Nothing may use the range any more.
pub unsafe fn unmap(at: *mut u8, bytes: usize) {
    // SAFETY: by the caller's promise.
    unsafe { call(nr::MUNMAP, [at as usize, bytes, 0, 0, 0, 0]) };
}

/// Of a file: zeros from now on, which take no room on the disk.
pub const MADV_REMOVE: usize = 9;
/// Zeros from now on.
pub const MADV_DONTNEED: usize = 4;
/// The child of a fork finds zeros here.
pub const MADV_WIPEONFORK: usize = 18;
/// No pages of two megabytes.
pub const MADV_NOHUGEPAGE: usize = 15;
/// The child of a fork finds nothing here.
pub const MADV_DONTFORK: usize = 10;

/// Advice on our own memory.
///
/// # Errors
/// The kernel's.
///
/// # Safety
/// The range is ours, and the advice loses no data that is still wanted.
pub unsafe fn madvise(at: *mut u8, bytes: usize, advice: usize) -> Result<()> {
    // SAFETY: by the caller's promise.
    check(unsafe { call(nr::MADVISE, [at as usize, bytes, advice, 0, 0, 0]) }).map(|_| ())
}
