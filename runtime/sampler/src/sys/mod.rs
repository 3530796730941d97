//! The kernel, by raw system calls: no libc, no errno, no cancellation point, nothing that a host could have wrapped.
//!
//! Every function here is async-signal-safe: it is one system call (or a loop of one over short reads). Errors are the
//! kernel's numbers ([`Errno`]). Nothing here panics.
//!
//! The faces are safe where the arguments cannot harm the host (paths are C strings in slices, buffers are slices); those
//! that take or give memory mappings are `unsafe` or hand out raw pointers.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

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
    /// Permission denied.
    pub const EACCES: Errno = Errno(13);
    /// Exists.
    pub const EEXIST: Errno = Errno(17);
    /// Invalid argument.
    pub const EINVAL: Errno = Errno(22);
    /// File too large.
    pub const EFBIG: Errno = Errno(27);
    /// Stale file handle: used where a path leads to another file than it did.
    pub const ESTALE: Errno = Errno(116);
    /// Operation not supported.
    pub const EOPNOTSUPP: Errno = Errno(95);

    /// The kernel's symbol, for messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            1 => "EPERM (not permitted)",
            2 => "ENOENT (no such file or directory)",
            3 => "ESRCH",
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

/// A path or other C string for the kernel: ends with exactly one NUL.
#[derive(Clone, Copy, Debug)]
pub struct CStr<'a>(&'a [u8]);

impl<'a> CStr<'a> {
    /// Checks that `bytes` end with a NUL.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        if let [.., 0] = bytes { Some(CStr(bytes)) } else { None }
    }

    /// The bytes without the NUL.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        match self.0 {
            [text @ .., _] => text,
            [] => self.0,
        }
    }
}

/// A C string from a literal.
#[must_use]
pub const fn c(text: &'static core::ffi::CStr) -> CStr<'static> {
    CStr(text.to_bytes_with_nul())
}

/// An open descriptor that is closed when it goes: none of ours outlives the function that opened it.
#[derive(Debug)]
pub struct Fd(i32);

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours alone.
        unsafe { call(nr::CLOSE, [self.0 as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Opens for reading.
pub const O_RDONLY: i32 = 0;
/// Opens for reading and writing.
pub const O_RDWR: i32 = 2;
/// Opens for writing.
pub const O_WRONLY: i32 = 1;
/// Creates.
pub const O_CREAT: i32 = 0o100;
/// Only if it does not exist.
pub const O_EXCL: i32 = 0o200;
/// Appends.
pub const O_APPEND: i32 = 0o2000;
/// Does not follow a symbolic link.
#[cfg(target_arch = "x86_64")]
pub const O_NOFOLLOW: i32 = 0o400_000;
/// Does not follow a symbolic link.
#[cfg(target_arch = "aarch64")]
pub const O_NOFOLLOW: i32 = 0o100_000;
/// Directory.
#[cfg(target_arch = "x86_64")]
pub const O_DIRECTORY: i32 = 0o200_000;
/// Directory.
#[cfg(target_arch = "aarch64")]
pub const O_DIRECTORY: i32 = 0o40_000;
const O_CLOEXEC: i32 = 0o2_000_000;
const O_NONBLOCK: i32 = 0o4000;
const AT_FDCWD: usize = -100isize as usize;

/// Opens a path, close-on-exec.
///
/// # Errors
/// The kernel's.
pub fn open(path: CStr<'_>, flags: i32, mode: u32) -> Result<Fd> {
    // SAFETY: the path ends with NUL and lives through the call.
    let fd = unsafe {
        call(
            nr::OPENAT,
            [AT_FDCWD, path.0.as_ptr() as usize, (flags | O_CLOEXEC) as usize, mode as usize, 0, 0],
        )
    };
    check(fd).map(|fd| Fd(fd as i32))
}

/// Reads once, at most `buffer`; 0 = end.
///
/// # Errors
/// The kernel's; EINTR is retried.
pub fn read(fd: &Fd, buffer: &mut [u8]) -> Result<usize> {
    loop {
        // SAFETY: the kernel writes at most `buffer.len()` bytes into it.
        let n =
            unsafe { call(nr::READ, [fd.0 as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0]) };
        match check(n) {
            Err(Errno::EINTR) => {}
            Ok(n) => return Ok(n.min(buffer.len())),
            Err(e) => return Err(e),
        }
    }
}

/// Reads a whole small file; gives what was read.
///
/// # Errors
/// The kernel's, of opening or reading.
pub fn read_file<'a>(path: CStr<'_>, buffer: &'a mut [u8]) -> Result<&'a [u8]> {
    let fd = open(path, O_RDONLY, 0)?;
    let mut used = 0;
    while let Some(rest) = buffer.get_mut(used..) {
        if rest.is_empty() {
            break;
        }
        match read(&fd, rest)? {
            0 => break,
            n => used += n,
        }
    }
    Ok(buffer.get(..used).unwrap_or(&[]))
}

fn write_all(fd: i32, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the kernel reads at most `bytes.len()` bytes.
        let n = unsafe { call(nr::WRITE, [fd as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]) };
        match check(n) {
            Err(Errno::EINTR) => {}
            Ok(0) => return Err(Errno(5)),
            Ok(n) => bytes = bytes.get(n..).unwrap_or(&[]),
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Writes all of `bytes`.
///
/// # Errors
/// The kernel's.
pub fn write(fd: &Fd, bytes: &[u8]) -> Result<()> {
    write_all(fd.0, bytes)
}

/// Writes to stderr; errors are nobody's business.
pub fn write_stderr(bytes: &[u8]) {
    let _ = write_all(2, bytes);
}

/// Device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FileId {
    /// Device as the kernel encodes it.
    pub device: u64,
    /// Inode.
    pub inode: u64,
}

/// Identity and size of an open file.
///
/// # Errors
/// The kernel's.
pub fn fstat(fd: &Fd) -> Result<(FileId, u64)> {
    // struct stat: dev at 0, ino at 8, size at 48 on both architectures.
    let mut stat = [0u64; 18];
    // SAFETY: `stat` has the 144 bytes of struct stat.
    check(unsafe { call(nr::FSTAT, [fd.0 as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0]) })?;
    Ok((FileId { device: stat[0], inode: stat[1] }, stat[6]))
}

/// Allocates `from..from + len` and makes the file that long.
///
/// # Errors
/// The kernel's.
pub fn fallocate(fd: &Fd, from: u64, len: u64) -> Result<()> {
    loop {
        // SAFETY: no memory is involved.
        let r = unsafe { call(nr::FALLOCATE, [fd.0 as usize, 0, from as usize, len as usize, 0, 0]) };
        match check(r) {
            Err(Errno::EINTR) => {}
            r => return r.map(|_| ()),
        }
    }
}

/// Writes at an offset.
///
/// # Errors
/// The kernel's.
pub fn pwrite(fd: &Fd, bytes: &[u8], at: u64) -> Result<usize> {
    // SAFETY: the kernel reads at most `bytes.len()` bytes.
    check(unsafe {
        call(nr::PWRITE64, [fd.0 as usize, bytes.as_ptr() as usize, bytes.len(), at as usize, 0, 0])
    })
}

/// Reads at an offset; as for /proc/self/mem, where a wrong address is an error and no fault.
///
/// # Errors
/// The kernel's.
pub fn pread(fd: &Fd, buffer: &mut [u8], at: u64) -> Result<usize> {
    // SAFETY: the kernel writes at most `buffer.len()` bytes.
    let n = check(unsafe {
        call(nr::PREAD64, [fd.0 as usize, buffer.as_mut_ptr() as usize, buffer.len(), at as usize, 0, 0])
    })?;
    Ok(n.min(buffer.len()))
}

/// Changes an open file's mode.
///
/// # Errors
/// The kernel's.
pub fn fchmod(fd: &Fd, mode: u32) -> Result<()> {
    // SAFETY: no memory is involved.
    check(unsafe { call(nr::FCHMOD, [fd.0 as usize, mode as usize, 0, 0, 0, 0]) }).map(|_| ())
}

/// Changes a file's mode by path.
///
/// # Errors
/// The kernel's.
pub fn chmod(path: CStr<'_>, mode: u32) -> Result<()> {
    // SAFETY: the path ends with NUL.
    check(unsafe { call(nr::FCHMODAT, [AT_FDCWD, path.0.as_ptr() as usize, mode as usize, 0, 0, 0]) })
        .map(|_| ())
}

/// Makes a directory.
///
/// # Errors
/// The kernel's.
pub fn mkdir(path: CStr<'_>, mode: u32) -> Result<()> {
    // SAFETY: the path ends with NUL.
    check(unsafe { call(nr::MKDIRAT, [AT_FDCWD, path.0.as_ptr() as usize, mode as usize, 0, 0, 0]) })
        .map(|_| ())
}

/// Removes a file.
///
/// # Errors
/// The kernel's.
pub fn unlink(path: CStr<'_>) -> Result<()> {
    // SAFETY: the path ends with NUL.
    check(unsafe { call(nr::UNLINKAT, [AT_FDCWD, path.0.as_ptr() as usize, 0, 0, 0, 0]) }).map(|_| ())
}

/// Reads a symbolic link; cut when longer than `buffer`.
///
/// # Errors
/// The kernel's.
pub fn readlink<'a>(path: CStr<'_>, buffer: &'a mut [u8]) -> Result<&'a [u8]> {
    // SAFETY: the path ends with NUL; at most `buffer.len()` bytes are written.
    let n = check(unsafe {
        let args = [AT_FDCWD, path.0.as_ptr() as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0];
        call(nr::READLINKAT, args)
    })?;
    Ok(buffer.get(..n).unwrap_or(&[]))
}

/// Directory entries into `buffer`; 0 = end.
///
/// # Errors
/// The kernel's.
pub fn getdents(fd: &Fd, buffer: &mut [u8]) -> Result<usize> {
    // SAFETY: at most `buffer.len()` bytes are written.
    let n = check(unsafe {
        call(nr::GETDENTS64, [fd.0 as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0])
    })?;
    Ok(n.min(buffer.len()))
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

/// Maps a file shared.
///
/// # Errors
/// The kernel's.
pub fn map_shared(fd: &Fd, bytes: usize, protection: usize) -> Result<*mut u8> {
    // SAFETY: a new mapping where the kernel likes it disturbs nobody.
    let at = unsafe { call(nr::MMAP, [0, bytes, protection, MAP_SHARED, fd.0 as usize, 0]) };
    check(at).map(|at| at as *mut u8)
}

/// Maps a file privately, for reading.
///
/// # Errors
/// The kernel's.
pub fn map_private(fd: &Fd, bytes: usize) -> Result<*const u8> {
    // SAFETY: a new mapping where the kernel likes it disturbs nobody.
    let at = unsafe { call(nr::MMAP, [0, bytes, PROT_READ, MAP_PRIVATE, fd.0 as usize, 0]) };
    check(at).map(|at| at as *const u8)
}

/// Unmaps.
///
/// # Safety
/// Nothing may use the range any more.
pub unsafe fn unmap(at: *mut u8, bytes: usize) {
    // SAFETY: by the caller's promise.
    unsafe { call(nr::MUNMAP, [at as usize, bytes, 0, 0, 0, 0]) };
}

/// The child of a fork finds zeros here.
pub const MADV_WIPEONFORK: usize = 18;
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

/// Name of the calling thread, NUL-padded, as two words.
#[must_use]
pub fn thread_name() -> [u64; 2] {
    let mut name = [0u64; 2];
    // SAFETY: PR_GET_NAME writes at most 16 bytes.
    unsafe { call(nr::PRCTL, [16, name.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    name
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

/// Takes one pending signal of `set` away without waiting; whether there was one.
pub fn take_pending(set: SignalSet) -> bool {
    let zero = [0u64; 2];
    // SAFETY: the set has 8 bytes, the timeout 16; no siginfo is wanted.
    let r =
        unsafe { call(nr::RT_SIGTIMEDWAIT, [(&raw const set) as usize, 0, zero.as_ptr() as usize, 8, 0, 0]) };
    r > 0
}

// --- timers -----------------------------------------------------------------------------------------------------------

/// A POSIX timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerId(pub i32);

/// Creates a timer whose expiry sends `signal` with `value`: to thread `tid`, or to the process.
///
/// # Errors
/// The kernel's.
pub fn timer_create(clock: i32, signal: i32, value: u64, tid: Option<u32>) -> Result<TimerId> {
    const SIGEV_SIGNAL: u64 = 0;
    const SIGEV_THREAD_ID: u64 = 4;
    let notify = if tid.is_some() { SIGEV_THREAD_ID } else { SIGEV_SIGNAL };
    // struct sigevent: value, signo and notify, tid.
    let event: [u64; 8] =
        [value, notify << 32 | signal as u32 as u64, u64::from(tid.unwrap_or(0)), 0, 0, 0, 0, 0];
    let mut id = 0i32;
    // SAFETY: the event has the 64 bytes of struct sigevent, the id is an int.
    check(unsafe {
        call(
            nr::TIMER_CREATE,
            [clock as isize as usize, event.as_ptr() as usize, (&raw mut id) as usize, 0, 0, 0],
        )
    })?;
    Ok(TimerId(id))
}

/// Starts a timer: first expiry and interval in ns; 0, 0 stops it.
///
/// # Errors
/// The kernel's.
pub fn timer_set(timer: TimerId, first_ns: u64, interval_ns: u64) -> Result<()> {
    let split = |ns: u64| [ns / 1_000_000_000, ns % 1_000_000_000];
    let ([is, in_], [fs, fn_]) = (split(interval_ns), split(first_ns));
    let spec = [is, in_, fs, fn_];
    // SAFETY: `spec` has the 32 bytes of struct itimerspec.
    check(unsafe { call(nr::TIMER_SETTIME, [timer.0 as usize, 0, spec.as_ptr() as usize, 0, 0, 0]) })
        .map(|_| ())
}

/// Deletes a timer.
pub fn timer_delete(timer: TimerId) {
    // SAFETY: no memory; a wrong id is refused.
    unsafe { call(nr::TIMER_DELETE, [timer.0 as usize, 0, 0, 0, 0, 0]) };
}

/// setitimer: `which` 0 real, 1 virtual, 2 prof; first expiry and interval in µs.
///
/// # Errors
/// The kernel's.
pub fn setitimer(which: i32, first_us: u64, interval_us: u64) -> Result<()> {
    let split = |us: u64| [us / 1_000_000, us % 1_000_000];
    let ([is, iu], [fs, fu]) = (split(interval_us), split(first_us));
    let spec = [is, iu, fs, fu];
    // SAFETY: `spec` has the 32 bytes of struct itimerval.
    check(unsafe { call(nr::SETITIMER, [which as usize, spec.as_ptr() as usize, 0, 0, 0, 0]) }).map(|_| ())
}

// --- perf -------------------------------------------------------------------------------------------------------------

/// struct perf_event_attr, version 7 (128 bytes), as words.
pub type PerfAttr = [u64; 16];

/// Opens a perf event on a thread (0 = the caller), any CPU, close-on-exec.
///
/// # Errors
/// The kernel's.
pub fn perf_event_open(attr: &PerfAttr, tid: u32) -> Result<Fd> {
    const PERF_FLAG_FD_CLOEXEC: usize = 8;
    // SAFETY: `attr` says its size in its second half-word, 128 at most.
    let fd = unsafe {
        call(
            nr::PERF_EVENT_OPEN,
            [attr.as_ptr() as usize, tid as usize, usize::MAX, usize::MAX, PERF_FLAG_FD_CLOEXEC, 0],
        )
    };
    check(fd).map(|fd| Fd(fd as i32))
}

/// Lets the event's file send `signal` to thread `tid`.
///
/// # Errors
/// The kernel's.
pub fn signal_owner(fd: &Fd, tid: u32, signal: i32) -> Result<()> {
    const F_SETFL: usize = 4;
    const F_SETSIG: usize = 10;
    const F_SETOWN_EX: usize = 15;
    const FASYNC: usize = 0o20_000;
    let owner = [0i32, tid as i32];
    let fcntl = |command: usize, argument: usize| {
        // SAFETY: the only pointer is `owner`, an f_owner_ex of 8 bytes.
        check(unsafe { call(nr::FCNTL, [fd.0 as usize, command, argument, 0, 0, 0]) })
    };
    fcntl(F_SETOWN_EX, owner.as_ptr() as usize)?;
    fcntl(F_SETSIG, signal as usize)?;
    fcntl(F_SETFL, FASYNC | O_NONBLOCK as usize)?;
    Ok(())
}
