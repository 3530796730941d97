//! x86-64: the system call instruction and the numbers.

use core::arch::asm;

/// System call with up to six arguments.
///
/// # Safety
/// What the kernel does with the arguments must be allowed: pointers valid for its reads and writes, nothing unmapped or
/// closed that is still in use.
#[inline(always)]
pub(crate) unsafe fn call(number: usize, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the instruction clobbers rcx and r11 only; what it does in memory is the caller's promise.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a[0],
            in("rsi") a[1],
            in("rdx") a[2],
            in("r10") a[3],
            in("r8") a[4],
            in("r9") a[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    result
}

pub(crate) mod nr {
    pub(crate) const READ: usize = 0;
    pub(crate) const WRITE: usize = 1;
    pub(crate) const CLOSE: usize = 3;
    pub(crate) const FSTAT: usize = 5;
    pub(crate) const MMAP: usize = 9;
    pub(crate) const MUNMAP: usize = 11;
    pub(crate) const RT_SIGACTION: usize = 13;
    pub(crate) const RT_SIGPROCMASK: usize = 14;
    pub(crate) const PREAD64: usize = 17;
    pub(crate) const PWRITE64: usize = 18;
    pub(crate) const SCHED_YIELD: usize = 24;
    pub(crate) const MADVISE: usize = 28;
    pub(crate) const SETITIMER: usize = 38;
    pub(crate) const GETPID: usize = 39;
    pub(crate) const UNAME: usize = 63;
    pub(crate) const FCNTL: usize = 72;
    pub(crate) const FCHMOD: usize = 91;
    pub(crate) const GETRUSAGE: usize = 98;
    pub(crate) const GETUID: usize = 102;
    pub(crate) const GETEUID: usize = 107;
    pub(crate) const GETPPID: usize = 110;
    pub(crate) const RT_SIGPENDING: usize = 127;
    pub(crate) const RT_SIGTIMEDWAIT: usize = 128;
    pub(crate) const RT_SIGQUEUEINFO: usize = 129;
    pub(crate) const RT_TGSIGQUEUEINFO: usize = 297;
    pub(crate) const ARCH_PRCTL: usize = 158;
    pub(crate) const GETTID: usize = 186;
    pub(crate) const GETDENTS64: usize = 217;
    pub(crate) const TIMER_CREATE: usize = 222;
    pub(crate) const TIMER_SETTIME: usize = 223;
    pub(crate) const TIMER_GETTIME: usize = 224;
    pub(crate) const TIMER_DELETE: usize = 226;
    pub(crate) const CLOCK_GETTIME: usize = 228;
    pub(crate) const CLOCK_GETRES: usize = 229;
    pub(crate) const KILL: usize = 62;
    pub(crate) const TGKILL: usize = 234;
    pub(crate) const OPENAT: usize = 257;
    pub(crate) const MKDIRAT: usize = 258;
    pub(crate) const UNLINKAT: usize = 263;
    pub(crate) const READLINKAT: usize = 267;
    pub(crate) const FCHMODAT: usize = 268;
    pub(crate) const FALLOCATE: usize = 285;
    pub(crate) const PERSONALITY: usize = 135;
    pub(crate) const PERF_EVENT_OPEN: usize = 298;
    pub(crate) const PRLIMIT64: usize = 302;
}
