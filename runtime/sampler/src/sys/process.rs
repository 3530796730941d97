//! What the kernel says of this process, its threads and the machine.

use super::{Errno, call, check, nr, text};

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

/// Lets process `pid`, and what it makes, trace this process, where the kernel lets only ancestors do so (Yama,
/// `PR_SET_PTRACER`). Other kernels refuse, and need it not.
pub fn let_trace(pid: u32) {
    const SET_PTRACER: usize = 0x5961_6d61;
    // SAFETY: two numbers.
    unsafe { call(nr::PRCTL, [SET_PTRACER, pid as usize, 0, 0, 0, 0]) };
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

/// Whether the process runs with fixed addresses, as debuggers start the programs that they run.
///
/// Where addresses are random, this library is in the uppermost 4 GiB by a chance of 1 in 256: elsewhere nobody is
/// asked.
#[must_use]
pub fn addresses_are_fixed() -> bool {
    let here = addresses_are_fixed as *const () as u64;
    if cfg!(target_arch = "x86_64") && here >> 40 >= 0x70 && here >> 32 != 0x7fff {
        return false;
    }
    const ONLY_READ: usize = 0xffff_ffff;
    const ADDR_NO_RANDOMIZE: isize = 0x0004_0000;
    // SAFETY: this value changes nothing.
    let personality = unsafe { call(nr::PERSONALITY, [ONLY_READ, 0, 0, 0, 0, 0]) };
    personality >= 0 && personality & ADDR_NO_RANDOMIZE != 0
}

/// Of the process.
pub const RUSAGE_SELF: i32 = 0;
/// Of the children that the process has waited for, and of theirs.
pub const RUSAGE_CHILDREN: i32 = -1;
/// Of the calling thread.
pub const RUSAGE_THREAD: i32 = 1;

/// What the kernel counts of a thread, or of all of a process, also of those that have ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CPU time in user mode, ns.
    pub user_ns: u64,
    /// CPU time in the kernel, ns.
    pub system_ns: u64,
    /// How often the processor was given up to wait.
    pub waits: u64,
    /// How often it was given to another thread although there was work left.
    pub switches: u64,
    /// Page faults, those that read from a disk or not.
    pub faults: u64,
}

/// What the kernel counts; zeros if it refuses.
#[must_use]
pub fn usage(who: i32) -> Usage {
    let mut usage = [0u64; 18];
    // SAFETY: `usage` has the 144 bytes of struct rusage.
    let r = unsafe { call(nr::GETRUSAGE, [who as isize as usize, usage.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    if r < 0 {
        return Usage::default();
    }
    // Of the 14 counts behind the times the 5th and 6th are page faults.
    let [user_s, user_us, system_s, system_us, _, _, _, _, minor, major, .., waits, switches] = usage;
    let ns = |s: u64, us: u64| s * 1_000_000_000 + us * 1000;
    let (user_ns, system_ns) = (ns(user_s, user_us), ns(system_s, system_us));
    Usage { user_ns, system_ns, waits, switches, faults: minor.wrapping_add(major) }
}

/// User and system CPU ns.
#[must_use]
pub fn rusage_ns(who: i32) -> (u64, u64) {
    let usage = usage(who);
    (usage.user_ns, usage.system_ns)
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
/// Timers and queued signals of a user.
pub const RLIMIT_SIGPENDING: i32 = 11;
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

/// Where a thread of this process has its list of robust locks: the C library keeps it in the thread's control block. 0
/// where it told the kernel of none.
///
/// # Errors
/// The thread has ended.
pub fn robust_list(tid: u32) -> super::Result<u64> {
    let (mut head, mut length) = (0u64, 0usize);
    let [head_at, length_at] = [(&raw mut head) as usize, (&raw mut length) as usize];
    // SAFETY: the kernel writes one word to each.
    check(unsafe { call(nr::GET_ROBUST_LIST, [tid as usize, head_at, length_at, 0, 0, 0]) })?;
    Ok(head)
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
