//! The signal by which a thread says that its call is done.

/// Synchronous signals (SIGSEGV and its kind) are never blocked, so that a fault in pct itself ends it.
pub(super) const SYNCHRONOUS: u64 =
    bit(libc::SIGSEGV) | bit(libc::SIGBUS) | bit(libc::SIGILL) | bit(libc::SIGFPE) | bit(libc::SIGTRAP);

pub(super) const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// A signal for which `process` has no handler, which does nothing then, and which a thread with this mask does not block.
pub(super) fn bell(process: i32, mask: u64) -> Option<i32> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let caught = text.lines().find_map(|l| l.strip_prefix("SigCgt:"))?;
    let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
    [libc::SIGURG, libc::SIGWINCH].into_iter().find(|s| (caught | mask) & bit(*s) == 0)
}
