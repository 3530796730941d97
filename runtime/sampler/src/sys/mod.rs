//! The kernel, by raw system calls: no libc, no errno, no cancellation point, nothing that a host could have wrapped.
//!
//! Every function here is async-signal-safe: it is one system call (or a loop of one over short reads). Errors are the
//! kernel's numbers ([`Errno`]). Nothing here panics.
//!
//! The faces are safe where the arguments cannot harm the host (paths are C strings in slices, buffers are slices); those
//! that take or give memory mappings are `unsafe` or hand out raw pointers.

/// Numbers of the system calls that we make, each with a name, and all of them.
macro_rules! numbers {
    ($($name:ident = $number:literal;)*) => {
        $(pub(crate) const $name: usize = $number;)*
        pub(crate) const ALL: &[usize] = &[$($number),*];
    };
}
use numbers;

#[cfg(target_arch = "aarch64")]
mod aarch64;
pub mod arch;
pub mod auxv;
mod c_string;
mod clocks;
mod files;
pub mod filter;
pub mod loaded;
pub mod lock;
pub mod text;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub use c_string::{CStr, c};
pub use clocks::*;
pub use files::*;

#[cfg(target_arch = "aarch64")]
use aarch64::{call, nr};
#[cfg(target_arch = "x86_64")]
use x86_64::{call, nr};

/// A kernel error number, positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// Operation not permitted.
    pub const EPERM: Errno = Errno(1);
    /// No such file or directory.
    pub const ENOENT: Errno = Errno(2);
    /// No such process.
    pub const ESRCH: Errno = Errno(3);
    /// Interrupted.
    pub const EINTR: Errno = Errno(4);
    /// Try again.
    pub const EAGAIN: Errno = Errno(11);
    /// Out of memory.
    pub const ENOMEM: Errno = Errno(12);
    /// Permission denied.
    pub const EACCES: Errno = Errno(13);
    /// Exists.
    pub const EEXIST: Errno = Errno(17);
    /// Invalid argument.
    pub const EINVAL: Errno = Errno(22);
    /// Too many open files in the system.
    pub const ENFILE: Errno = Errno(23);
    /// Too many open files in the process.
    pub const EMFILE: Errno = Errno(24);
    /// File too large.
    pub const EFBIG: Errno = Errno(27);
    /// Read-only file system.
    pub const EROFS: Errno = Errno(30);
    /// Stale file handle: used where a path leads to another file than it did.
    pub const ESTALE: Errno = Errno(116);
    /// Operation not supported.
    pub const EOPNOTSUPP: Errno = Errno(95);

    /// Whether it may be gone in a moment: descriptors that are all in use, memory that is short.
    #[must_use]
    pub const fn passes(self) -> bool {
        matches!(self, Self::EAGAIN | Self::ENOMEM | Self::ENFILE | Self::EMFILE)
    }

    /// The kernel's symbol, for messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            1 => "EPERM (not permitted)",
            2 => "ENOENT (no such file or directory)",
            3 => "ESRCH",
            11 => "EAGAIN (no more timers or signals may be queued, or locked memory)",
            12 => "ENOMEM (out of memory)",
            13 => "EACCES (permission denied)",
            17 => "EEXIST (exists)",
            20 => "ENOTDIR (not a directory)",
            22 => "EINVAL",
            23 => "ENFILE (too many open files)",
            24 => "EMFILE (too many open files)",
            27 => "EFBIG (file size limit)",
            28 => "ENOSPC (no space left on device)",
            30 => "EROFS (read-only file system)",
            36 => "ENAMETOOLONG",
            38 => "ENOSYS (not in this kernel)",
            40 => "ELOOP (symbolic link)",
            95 => "EOPNOTSUPP",
            116 => "ESTALE (another file)",
            122 => "EDQUOT (quota)",
            _ => "system error",
        }
    }
}

/// Result of a system call.
pub type Result<T> = core::result::Result<T, Errno>;

#[inline(always)]
fn check(result: isize) -> Result<usize> {
    if (-4095..0).contains(&result) { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

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
/// The range is a mapping of ours whose contents nobody wants any more.
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

/// Process id as the process sees itself.
#[must_use]
pub fn getpid() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(nr::GETPID, [0; 6]) as u32 }
}

/// Parent's process id.
#[must_use]
pub fn getppid() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(nr::GETPPID, [0; 6]) as u32 }
}

/// Thread id.
#[must_use]
pub fn gettid() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(nr::GETTID, [0; 6]) as u32 }
}

/// Real and effective user id.
#[must_use]
pub fn user_ids() -> (u32, u32) {
    // SAFETY: no arguments.
    unsafe { (call(nr::GETUID, [0; 6]) as u32, call(nr::GETEUID, [0; 6]) as u32) }
}

/// Lets another thread run.
pub fn sched_yield() {
    // SAFETY: no arguments.
    unsafe { call(nr::SCHED_YIELD, [0; 6]) };
}

/// Whether a thread of process `pid` lives. A zombie leader counts as living.
#[must_use]
pub fn thread_lives(pid: u32, tid: u32) -> bool {
    // SAFETY: signal 0 is only a check.
    check(unsafe { call(nr::TGKILL, [pid as usize, tid as usize, 0, 0, 0, 0]) }) != Err(Errno::ESRCH)
}

/// Sends a signal to a thread of this process.
///
/// # Errors
/// The kernel's.
pub fn tgkill(pid: u32, tid: u32, signal: i32) -> Result<()> {
    // SAFETY: a signal, no memory.
    check(unsafe { call(nr::TGKILL, [pid as usize, tid as usize, signal as usize, 0, 0, 0]) }).map(|_| ())
}

/// Sends a signal of this process once more, to whom it was for: to the calling thread (`si_code` of tkill), or to the process.
///
/// # Safety
/// `info` is a siginfo_t with this signal and `code`.
pub unsafe fn send_again(signal: i32, info: *const u8, code: i32) {
    const SI_TKILL: i32 = -6;
    let (pid, signal, info) = (getpid() as usize, signal as usize, info as usize);
    // SAFETY: the kernel reads the siginfo of 128 bytes.
    unsafe {
        if code == SI_TKILL {
            call(nr::RT_TGSIGQUEUEINFO, [pid, gettid() as usize, signal, info, 0, 0]);
        } else if check(call(nr::RT_SIGQUEUEINFO, [pid, signal, info, 0, 0, 0])).is_err() {
            // Only the first thread may say that a signal is of kill(2): the sender becomes this process.
            call(nr::KILL, [pid, signal, 0, 0, 0, 0]);
        }
    }
}

/// CLOCK_REALTIME.
pub const CLOCK_REALTIME: i32 = 0;
/// CLOCK_MONOTONIC.
pub const CLOCK_MONOTONIC: i32 = 1;
/// CPU time of the process.
pub const CLOCK_PROCESS_CPU: i32 = 2;
/// CPU time of the calling thread.
pub const CLOCK_THREAD_CPU: i32 = 3;
/// Its resolution is the kernel's tick.
pub const CLOCK_MONOTONIC_COARSE: i32 = 6;

/// The clock id of another thread's CPU time.
#[must_use]
pub const fn thread_cpu_clock(tid: u32) -> i32 {
    !(tid as i32) << 3 | 6
}

/// Nanoseconds of a clock; 0 when the clock is not there (its thread ended).
#[must_use]
pub fn clock_ns(clock: i32) -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: `time` has the 16 bytes of struct timespec.
    let r =
        unsafe { call(nr::CLOCK_GETTIME, [clock as isize as usize, time.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    if r < 0 { 0 } else { time[0] * 1_000_000_000 + time[1] }
}

/// Kernel ticks a second, from the resolution of the coarse clock; 0 = not known.
#[must_use]
pub fn tick_hz() -> u64 {
    let mut time = [0u64; 2];
    // SAFETY: `time` has the 16 bytes of struct timespec.
    let r = unsafe {
        call(nr::CLOCK_GETRES, [CLOCK_MONOTONIC_COARSE as usize, time.as_mut_ptr() as usize, 0, 0, 0, 0])
    };
    if r < 0 { 0 } else { 1_000_000_000u64.checked_div(time[1]).unwrap_or(0) }
}

/// Whether the process runs with fixed addresses, as debuggers start the programs that they run.
#[must_use]
pub fn addresses_are_fixed() -> bool {
    const ONLY_READ: usize = 0xffff_ffff;
    const ADDR_NO_RANDOMIZE: isize = 0x0004_0000;
    // SAFETY: this value changes nothing.
    let personality = unsafe { call(nr::PERSONALITY, [ONLY_READ, 0, 0, 0, 0, 0]) };
    personality >= 0 && personality & ADDR_NO_RANDOMIZE != 0
}

/// Of the process.
pub const RUSAGE_SELF: i32 = 0;
/// Of the calling thread.
pub const RUSAGE_THREAD: i32 = 1;

/// User and system CPU ns.
#[must_use]
pub fn rusage_ns(who: i32) -> (u64, u64) {
    let mut usage = [0u64; 18];
    // SAFETY: `usage` has the 144 bytes of struct rusage.
    let r = unsafe { call(nr::GETRUSAGE, [who as isize as usize, usage.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    if r < 0 {
        return (0, 0);
    }
    let ns = |i: usize| usage[i] * 1_000_000_000 + usage[i + 1] * 1000;
    (ns(0), ns(2))
}

/// How often threads of this process, also those that have ended, gave up their CPU to wait.
#[must_use]
pub fn waits() -> u64 {
    let mut usage = [0u64; 18];
    // SAFETY: `usage` has the 144 bytes of struct rusage.
    unsafe { call(nr::GETRUSAGE, [RUSAGE_SELF as usize, usage.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    // ru_nvcsw
    usage[16]
}

/// Soft limit of a resource; `u64::MAX` = none.
#[must_use]
pub fn soft_limit(resource: i32) -> u64 {
    let mut limit = [u64::MAX; 2];
    // SAFETY: `limit` has the 16 bytes of struct rlimit64; no new limit is given.
    unsafe { call(nr::PRLIMIT64, [0, resource as usize, 0, limit.as_mut_ptr() as usize, 0, 0]) };
    limit[0]
}

/// Size of files.
pub const RLIMIT_FSIZE: i32 = 1;
/// Size of the address space.
pub const RLIMIT_AS: i32 = 9;

/// The host's name in `buffer`.
pub fn host_name(buffer: &mut [u8; 65]) -> &[u8] {
    let mut names = [0u8; 390];
    // SAFETY: `names` has the six 65-byte fields of struct new_utsname.
    unsafe { call(nr::UNAME, [names.as_mut_ptr() as usize, 0, 0, 0, 0, 0]) };
    for (to, from) in buffer.iter_mut().zip(names.iter().skip(65)) {
        *to = *from;
    }
    let len = buffer.iter().position(|b| *b == 0).unwrap_or(65);
    buffer.get(..len).unwrap_or(&[])
}

/// The kernel's version; 0, 0 if it does not say.
#[must_use]
pub fn kernel_version() -> (u64, u64) {
    let mut names = [0u8; 390];
    // SAFETY: `names` has the six 65-byte fields of struct new_utsname.
    unsafe { call(nr::UNAME, [names.as_mut_ptr() as usize, 0, 0, 0, 0, 0]) };
    version(names.get(2 * 65..3 * 65).unwrap_or(&[]))
}

/// `6.1.0-13-amd64`: 6 and 1.
fn version(release: &[u8]) -> (u64, u64) {
    let mut parts = release.split(|b| !b.is_ascii_digit()).map(text::parse_number);
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor),
        _ => (0, 0),
    }
}

/// Base address of the thread's control block by system call, where there is no instruction for it.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn fs_base() -> u64 {
    let mut base = 0u64;
    // SAFETY: ARCH_GET_FS writes one word.
    unsafe { call(nr::ARCH_PRCTL, [0x1003, (&raw mut base) as usize, 0, 0, 0, 0]) };
    base
}

// --- signals ----------------------------------------------------------------------------------------------------------

/// A set of signals: bit n-1 is signal n.
pub type SignalSet = u64;

/// The set of one signal; empty for numbers that are none.
#[must_use]
pub const fn signal_bit(signal: i32) -> SignalSet {
    if signal >= 1 && signal <= 64 { 1 << (signal - 1) } else { 0 }
}

/// SIGILL, SIGBUS, SIGFPE and SIGSEGV: blocked or not, a fault comes, and a blocked one kills.
pub const FAULTS: SignalSet = signal_bit(4) | signal_bit(7) | signal_bit(8) | signal_bit(11);

/// What the kernel holds for a signal.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SigAction {
    /// Handler's address; 0 default, 1 ignore.
    pub handler: usize,
    /// SA_* flags.
    pub flags: u64,
    /// Address of the return trampoline (x86-64).
    pub restorer: usize,
    /// Signals blocked while it runs.
    pub mask: SignalSet,
}

/// Handler takes siginfo and context.
pub const SA_SIGINFO: u64 = 4;
/// Runs on the alternate stack if the thread has one.
pub const SA_ONSTACK: u64 = 0x0800_0000;
/// Interrupted calls go on.
pub const SA_RESTART: u64 = 0x1000_0000;
/// Has a restorer.
#[cfg(target_arch = "x86_64")]
pub const SA_RESTORER: u64 = 0x0400_0000;
/// No restorer on this machine.
#[cfg(target_arch = "aarch64")]
pub const SA_RESTORER: u64 = 0;
/// Not blocked while its handler runs.
pub const SA_NODEFER: u64 = 0x4000_0000;
/// One shot.
pub const SA_RESETHAND: u64 = 0x8000_0000;

/// Reads, and perhaps sets, the kernel's action of a signal.
///
/// # Errors
/// The kernel's.
///
/// # Safety
/// A handler that is set must be right to run at any instant in any thread.
pub unsafe fn sigaction(signal: i32, new: Option<&SigAction>) -> Result<SigAction> {
    let mut old = SigAction::default();
    let new = new.map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: both are kernel_sigaction structures (x86-64 and aarch64 have the same), or null; the handler is the
    // caller's promise.
    check(unsafe {
        call(nr::RT_SIGACTION, [signal as usize, new as usize, (&raw mut old) as usize, 8, 0, 0])
    })?;
    Ok(old)
}

/// How to change the mask.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub enum Mask {
    /// Adds.
    Block = 0,
    /// Takes away.
    Unblock = 1,
    /// Replaces.
    Set = 2,
}

/// Changes the thread's signal mask; gives the old one.
pub fn sigmask(how: Mask, set: SignalSet) -> SignalSet {
    let mut old: SignalSet = 0;
    // SAFETY: both sets have 8 bytes.
    unsafe {
        call(nr::RT_SIGPROCMASK, [how as usize, (&raw const set) as usize, (&raw mut old) as usize, 8, 0, 0])
    };
    old
}

/// A siginfo_t, as the kernel fills it.
pub type RawInfo = [u64; 16];

/// Takes one pending signal of `set` away without waiting.
pub fn take_pending_info(set: SignalSet) -> Option<RawInfo> {
    let mut info: RawInfo = [0; 16];
    let zero = [0u64; 2];
    // SAFETY: the set has 8 bytes, the timeout 16, the siginfo 128.
    let r = unsafe {
        call(
            nr::RT_SIGTIMEDWAIT,
            [(&raw const set) as usize, info.as_mut_ptr() as usize, zero.as_ptr() as usize, 8, 0, 0],
        )
    };
    (r > 0).then_some(info)
}

/// Signals that wait for this thread to unblock them.
pub fn pending() -> SignalSet {
    let mut set: SignalSet = 0;
    // SAFETY: the set has 8 bytes.
    unsafe { call(nr::RT_SIGPENDING, [(&raw mut set) as usize, 8, 0, 0, 0, 0]) };
    set
}

/// Takes one pending signal of `set` away without waiting; whether there was one.
pub fn take_pending(set: SignalSet) -> bool {
    let zero = [0u64; 2];
    // SAFETY: the set has 8 bytes, the timeout 16; no siginfo is wanted.
    let r =
        unsafe { call(nr::RT_SIGTIMEDWAIT, [(&raw const set) as usize, 0, zero.as_ptr() as usize, 8, 0, 0]) };
    r > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(version(b"6.1.0-13-amd64\0\0"), (6, 1));
        assert_eq!(version(b"5.19+\0"), (5, 19));
        assert_eq!(version(b"6.18.44-fc-v595"), (6, 18));
        assert_eq!(version(b"linux"), (0, 0));
        assert_eq!(version(b""), (0, 0));
        assert!(kernel_version() > (2, 6), "{:?}", kernel_version());
    }
}
