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
    super::super::numbers::numbers! {
        READ = 63;
        WRITE = 64;
        CLOSE = 57;
        FSTAT = 80;
        NEWFSTATAT = 79;
        MMAP = 222;
        MUNMAP = 215;
        RT_SIGACTION = 134;
        RT_SIGPROCMASK = 135;
        RT_SIGRETURN = 139;
        PREAD64 = 67;
        PWRITE64 = 68;
        SCHED_YIELD = 124;
        MADVISE = 233;
        SETITIMER = 103;
        CLONE = 220;
        EXIT = 93;
        CLOSE_RANGE = 436;
        GETPID = 172;
        UNAME = 160;
        FCNTL = 25;
        IOCTL = 29;
        FCHMOD = 52;
        GETRUSAGE = 165;
        GETUID = 174;
        GETEUID = 175;
        GETPPID = 173;
        RT_SIGPENDING = 136;
        RT_SIGTIMEDWAIT = 137;
        RT_SIGQUEUEINFO = 138;
        RT_TGSIGQUEUEINFO = 240;
        SIGALTSTACK = 132;
        PRCTL = 167;
        GETTID = 178;
        GETDENTS64 = 61;
        TIMER_CREATE = 107;
        TIMER_SETTIME = 110;
        TIMER_GETTIME = 108;
        TIMER_DELETE = 111;
        CLOCK_GETTIME = 113;
        CLOCK_GETRES = 114;
        KILL = 129;
        TGKILL = 131;
        OPENAT = 56;
        MKDIRAT = 34;
        UNLINKAT = 35;
        READLINKAT = 78;
        FCHMODAT = 53;
        FALLOCATE = 47;
        PERSONALITY = 92;
        PERF_EVENT_OPEN = 241;
        PRLIMIT64 = 261;
        GET_ROBUST_LIST = 100;
    }
}
