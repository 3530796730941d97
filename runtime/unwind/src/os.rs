//! The few system calls that unwinding makes, without libc.

#![expect(unsafe_code, reason = "system calls")]

use core::arch::asm;
use core::ptr;

#[cfg(target_arch = "x86_64")]
mod number {
    pub(super) const MMAP: u64 = 9;
    #[cfg(test)]
    pub(super) const MPROTECT: u64 = 10;
    pub(super) const MUNMAP: u64 = 11;
    pub(super) const RT_SIGPROCMASK: u64 = 14;
    pub(super) const PREAD64: u64 = 17;
    pub(super) const GETTID: u64 = 186;
    pub(super) const OPENAT: u64 = 257;
    pub(super) const CLOSE: u64 = 3;
    pub(super) const PROCESS_VM_READV: u64 = 310;
}

#[cfg(target_arch = "aarch64")]
mod number {
    pub(super) const MMAP: u64 = 222;
    #[cfg(test)]
    pub(super) const MPROTECT: u64 = 226;
    pub(super) const MUNMAP: u64 = 215;
    pub(super) const RT_SIGPROCMASK: u64 = 135;
    pub(super) const PREAD64: u64 = 67;
    pub(super) const GETTID: u64 = 178;
    pub(super) const OPENAT: u64 = 56;
    pub(super) const CLOSE: u64 = 57;
    pub(super) const PROCESS_VM_READV: u64 = 270;
}

use number::*;

/// All calls that unwinding makes in a program.
pub const CALLS: &[usize] = &[
    MMAP as usize,
    MUNMAP as usize,
    RT_SIGPROCMASK as usize,
    PREAD64 as usize,
    GETTID as usize,
    OPENAT as usize,
    CLOSE as usize,
    PROCESS_VM_READV as usize,
];

const EINVAL: i64 = -22;
/// `AT_FDCWD`: paths are relative to the working directory.
const HERE: u64 = -100i64 as u64;

/// # Safety
/// The call with these arguments must not break what safe code relies on.
#[cfg(target_arch = "x86_64")]
unsafe fn call(number: u64, args: [u64; 6]) -> i64 {
    let out: i64;
    let [a, b, c, d, e, f] = args;
    // SAFETY: the kernel keeps all registers but rax, rcx and r11; what the call does is the caller's promise.
    unsafe {
        asm!("syscall", inlateout("rax") number => out, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e,
            in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    out
}

/// # Safety
/// The call with these arguments must not break what safe code relies on.
#[cfg(target_arch = "aarch64")]
unsafe fn call(number: u64, args: [u64; 6]) -> i64 {
    let out: i64;
    let [a, b, c, d, e, f] = args;
    // SAFETY: the kernel keeps all registers but x0; what the call does is the caller's promise.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a as i64 => out, in("x1") b, in("x2") c, in("x3") d, in("x4") e,
            in("x5") f, options(nostack));
    }
    out
}

/// Fresh zeroed memory of at least `len` bytes, or `None`. Pages cost nothing until they are written.
pub fn map(len: usize) -> Option<*mut u8> {
    // PROT_READ | PROT_WRITE; MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE.
    // SAFETY: a new private mapping at an address of the kernel's choice touches nothing that exists.
    let at = unsafe { call(MMAP, [0, len as u64, 3, 0x4022, u64::MAX, 0]) };
    (at > 0).then(|| ptr::with_exposed_provenance_mut(at as usize))
}

/// Unmaps memory of [`map`]. The caller has no reference into it any more.
pub(super) fn unmap(at: *mut u8, len: usize) {
    // SAFETY: only called with mappings of `map` by their only owner (the registry, tests).
    unsafe { call(MUNMAP, [at.expose_provenance() as u64, len as u64, 0, 0, 0, 0]) };
}

/// Makes pages unreadable, for tests.
#[cfg(test)]
pub(super) fn protect_none(at: u64, len: u64) -> bool {
    // SAFETY: tests call it with pages of their own.
    unsafe { call(MPROTECT, [at, len, 0, 0, 0, 0]) == 0 }
}

/// Whether the eight bytes at `addr` can be read.
pub fn readable(addr: u64) -> bool {
    // The kernel reads the new mask before it checks `how`, which is invalid here: it returns EFAULT or EINVAL and has
    // no other effect. SAFETY: the kernel reads `addr` itself and writes nothing.
    unsafe { call(RT_SIGPROCMASK, [u64::MAX, addr, 0, 8, 0, 0]) == EINVAL }
}

/// Copies from any address. Returns false if not all of it could be read. Never faults.
pub fn copy(addr: u64, into: &mut [u8]) -> bool {
    let len = into.len() as u64;
    let to = into.as_mut_ptr().expose_provenance() as u64;
    let local = [to, len];
    let remote = [addr, len];
    // SAFETY: the kernel writes at most `len` bytes into `into` and copies from `addr` with a check of each page.
    let got = unsafe {
        // the thread's own id: a first thread that has ended keeps the process's id, but has no memory any more
        let pid = call(GETTID, [0; 6]) as u64;
        call(
            PROCESS_VM_READV,
            [
                pid,
                local.as_ptr().expose_provenance() as u64,
                1,
                remote.as_ptr().expose_provenance() as u64,
                1,
                0,
            ],
        )
    };
    // EPERM, ENOSYS: a system call filter refused only this call; reading the file gives the same.
    if got == -1 || got == -38 { copy_by_file(addr, to, len) } else { got == len as i64 }
}

/// The memory of this process, read by [`copy`].
pub(super) struct OwnMemory;

impl pct_elf::Memory for OwnMemory {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        copy(at, into)
    }
}

fn copy_by_file(addr: u64, to: u64, len: u64) -> bool {
    let path = c"/proc/thread-self/mem";
    // SAFETY: opens a file for reading with O_CLOEXEC, reads at most `len` bytes into the caller's slice and closes it.
    unsafe {
        let fd = call(OPENAT, [HERE, path.as_ptr().expose_provenance() as u64, 0x8_0000, 0, 0, 0]);
        if fd < 0 {
            return false;
        }
        let got = call(PREAD64, [fd as u64, to, len, addr, 0, 0]);
        call(CLOSE, [fd as u64, 0, 0, 0, 0, 0]);
        got == len as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copying_from_nowhere_is_refused_by_both_ways() {
        let source = *b"some bytes here!";
        let at = source.as_ptr().expose_provenance() as u64;
        let mut out = [0; 16];
        assert!(copy(at, &mut out));
        assert_eq!(out, source);
        let mut out = [0u8; 16];
        assert!(copy_by_file(at, out.as_mut_ptr().expose_provenance() as u64, 16));
        assert_eq!(out, source);
        assert!(!copy(8, &mut out));
        assert!(!copy_by_file(8, out.as_mut_ptr().expose_provenance() as u64, 16));
        assert!(readable(at) && !readable(8));
    }
}
