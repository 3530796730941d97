//! x86-64: the system call instruction and the numbers.

use core::arch::asm;

/// System call with up to six arguments.
///
/// # Safety
/// What the kernel does with the arguments must be allowed: pointers valid for its reads and writes, nothing
/// unmapped or closed that is still in use.
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
    super::super::numbers::numbers! {
        READ = 0;
        WRITE = 1;
        CLOSE = 3;
        FSTAT = 5;
        NEWFSTATAT = 262;
        MMAP = 9;
        MUNMAP = 11;
        RT_SIGACTION = 13;
        RT_SIGPROCMASK = 14;
        RT_SIGRETURN = 15;
        PREAD64 = 17;
        PWRITE64 = 18;
        SCHED_YIELD = 24;
        MADVISE = 28;
        SETITIMER = 38;
        CLONE = 56;
        EXIT = 60;
        CLOSE_RANGE = 436;
        GETPID = 39;
        UNAME = 63;
        FCNTL = 72;
        IOCTL = 16;
        FCHMOD = 91;
        GETRUSAGE = 98;
        GETUID = 102;
        GETEUID = 107;
        GETPPID = 110;
        RT_SIGPENDING = 127;
        RT_SIGTIMEDWAIT = 128;
        RT_SIGQUEUEINFO = 129;
        RT_TGSIGQUEUEINFO = 297;
        SIGALTSTACK = 131;
        PRCTL = 157;
        ARCH_PRCTL = 158;
        GETTID = 186;
        GETDENTS64 = 217;
        TIMER_CREATE = 222;
        TIMER_SETTIME = 223;
        TIMER_GETTIME = 224;
        TIMER_DELETE = 226;
        CLOCK_GETTIME = 228;
        CLOCK_GETRES = 229;
        KILL = 62;
        TGKILL = 234;
        OPENAT = 257;
        MKDIRAT = 258;
        UNLINKAT = 263;
        READLINKAT = 267;
        FCHMODAT = 268;
        FALLOCATE = 285;
        PERSONALITY = 135;
        PERF_EVENT_OPEN = 298;
        PRLIMIT64 = 302;
        GET_ROBUST_LIST = 274;
    }
}
