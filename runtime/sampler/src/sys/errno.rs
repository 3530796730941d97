//! Error numbers of the kernel.

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
    /// Not in this kernel.
    pub const ENOSYS: Errno = Errno(38);
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
            11 => "EAGAIN (a limit on resources is reached)",
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

/// What a system call returned: a value, or an error number.
#[inline(always)]
pub(crate) fn check(result: isize) -> Result<usize> {
    if (-4095..0).contains(&result) { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}
