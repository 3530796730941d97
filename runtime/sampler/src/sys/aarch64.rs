//! aarch64: the system call instruction and the numbers.

use core::arch::asm;

/// System call with up to six arguments.
///
/// # Safety
/// As on x86-64: pointers valid for what the kernel does with them, nothing unmapped or closed that is still in use.
#[inline(always)]
pub(crate) unsafe fn call(number: usize, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel keeps all registers but x0; what it does in memory is the caller's promise.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") a[0] as isize => result,
            in("x1") a[1],
            in("x2") a[2],
            in("x3") a[3],
            in("x4") a[4],
            in("x5") a[5],
            options(nostack)
        );
    }
    result
}

pub(crate) mod nr {
    pub(crate) const READ: usize = 63;
    pub(crate) const WRITE: usize = 64;
    pub(crate) const CLOSE: usize = 57;
    pub(crate) const FSTAT: usize = 80;
    pub(crate) const MMAP: usize = 222;
    pub(crate) const MUNMAP: usize = 215;
    pub(crate) const RT_SIGACTION: usize = 134;
    pub(crate) const RT_SIGPROCMASK: usize = 135;
    pub(crate) const PREAD64: usize = 67;
    pub(crate) const PWRITE64: usize = 68;
    pub(crate) const SCHED_YIELD: usize = 124;
    pub(crate) const MADVISE: usize = 233;
    pub(crate) const SETITIMER: usize = 103;
    pub(crate) const GETPID: usize = 172;
    pub(crate) const UNAME: usize = 160;
    pub(crate) const FCNTL: usize = 25;
    pub(crate) const FCHMOD: usize = 52;
    pub(crate) const GETRUSAGE: usize = 165;
    pub(crate) const GETUID: usize = 174;
    pub(crate) const GETEUID: usize = 175;
    pub(crate) const GETPPID: usize = 173;
    pub(crate) const RT_SIGPENDING: usize = 136;
    pub(crate) const RT_SIGTIMEDWAIT: usize = 137;
    pub(crate) const RT_SIGQUEUEINFO: usize = 138;
    pub(crate) const RT_TGSIGQUEUEINFO: usize = 240;
    pub(crate) const GETTID: usize = 178;
    pub(crate) const GETDENTS64: usize = 61;
    pub(crate) const TIMER_CREATE: usize = 107;
    pub(crate) const TIMER_SETTIME: usize = 110;
    pub(crate) const TIMER_GETTIME: usize = 108;
    pub(crate) const TIMER_DELETE: usize = 111;
    pub(crate) const CLOCK_GETTIME: usize = 113;
    pub(crate) const CLOCK_GETRES: usize = 114;
    pub(crate) const KILL: usize = 129;
    pub(crate) const TGKILL: usize = 131;
    pub(crate) const OPENAT: usize = 56;
    pub(crate) const MKDIRAT: usize = 34;
    pub(crate) const UNLINKAT: usize = 35;
    pub(crate) const READLINKAT: usize = 78;
    pub(crate) const FCHMODAT: usize = 53;
    pub(crate) const FALLOCATE: usize = 47;
    pub(crate) const PERSONALITY: usize = 92;
    pub(crate) const PERF_EVENT_OPEN: usize = 241;
    pub(crate) const PRLIMIT64: usize = 261;
}
