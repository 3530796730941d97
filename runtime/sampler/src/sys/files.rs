//! Files: descriptors that do not outlive the function that opened them.

use super::{
    CStr, Errno, Mask, Result, call, check, nr, pending, sigmask, signal_bit, take_pending, with_descriptor,
};

/// An open descriptor, closed when it is dropped: none outlives the function that opened it.
#[derive(Debug)]
pub struct Fd(pub(super) i32);

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
/// open(2): return at once.
pub const O_NONBLOCK: i32 = 0o4000;
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
    let used = with_descriptor(|| {
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
        Ok(used)
    })?;
    Ok(buffer.get(..used).unwrap_or(&[]))
}

/// A write that fails may come with a signal that ends the program: SIGXFSZ at its file size limit, SIGPIPE
/// where nobody reads its stderr. The program wrote nothing, so it gets no signal.
fn write_all(fd: i32, bytes: &[u8]) -> Result<()> {
    const SIGPIPE: i32 = 13;
    const SIGXFSZ: i32 = 25;
    let ours = signal_bit(SIGPIPE) | signal_bit(SIGXFSZ);
    let blocked = sigmask(Mask::Block, ours);
    // Only a signal that the program blocks itself may wait for it already.
    let its_own = if blocked & ours == 0 { 0 } else { pending() };
    let written = write_until_done(fd, bytes);
    let signal = match written {
        Err(Errno(EPIPE)) => signal_bit(SIGPIPE),
        Err(Errno(EFBIG)) => signal_bit(SIGXFSZ),
        _ => 0,
    } & !its_own;
    if signal != 0 {
        take_pending(signal);
    }
    sigmask(Mask::Set, blocked);
    written
}

const EPIPE: i32 = 32;
const EFBIG: i32 = 27;

fn write_until_done(fd: i32, mut bytes: &[u8]) -> Result<()> {
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

/// The same for a regular file that stays below its size limit: no signal can come with it.
///
/// # Errors
/// The kernel's.
pub fn write_below_limit(file: &Fd, bytes: &[u8]) -> Result<()> {
    write_until_done(file.0, bytes)
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

/// Whether an open file is a regular one, and its size.
///
/// # Errors
/// The kernel's.
pub fn regular_size(fd: &Fd) -> Result<Option<u64>> {
    const S_IFMT: u32 = 0o170_000;
    const S_IFREG: u32 = 0o100_000;
    let stat = stat_words(fd)?;
    // The mode is at 24 on x86-64, behind the number of links, and at 16 on aarch64, before it.
    let mode = if cfg!(target_arch = "x86_64") { stat[3] as u32 } else { stat[2] as u32 };
    Ok((mode & S_IFMT == S_IFREG).then_some(stat[6]))
}

/// Identity and size of an open file.
///
/// # Errors
/// The kernel's.
pub fn fstat(fd: &Fd) -> Result<(FileId, u64)> {
    let stat = stat_words(fd)?;
    Ok((FileId { device: stat[0], inode: stat[1] }, stat[6]))
}

/// What tells a file and its contents from others: device, inode, size, seconds and nanoseconds of the last change of
/// its contents.
///
/// # Errors
/// The kernel's.
pub fn version_of_file(fd: &Fd) -> Result<[u64; 5]> {
    let stat = stat_words(fd)?;
    Ok([stat[0], stat[1], stat[6], stat[11], stat[12]])
}

/// struct stat: dev at 0, ino at 8, size at 48 on both architectures.
fn stat_words(fd: &Fd) -> Result<[u64; 18]> {
    let mut stat = [0u64; 18];
    // SAFETY: `stat` has the 144 bytes of struct stat.
    check(unsafe { call(nr::FSTAT, [fd.0 as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0]) })?;
    Ok(stat)
}

/// What [`stat`] tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Bytes that the file takes on the disk.
    pub bytes_on_disk: u64,
    /// Seconds since 1970 of the last change of its contents.
    pub modified_s: u64,
}

/// Facts of the file of a path; of a link, not of what it leads to.
///
/// # Errors
/// The kernel's.
pub fn stat(path: CStr<'_>) -> Result<Facts> {
    const AT_SYMLINK_NOFOLLOW: usize = 0x100;
    // struct stat: blocks of 512 bytes at 64, mtime at 88 on both architectures.
    let mut stat = [0u64; 18];
    // SAFETY: the path ends with NUL, and `stat` has the 144 bytes of struct stat.
    check(unsafe {
        let to = stat.as_mut_ptr() as usize;
        call(nr::NEWFSTATAT, [AT_FDCWD, path.0.as_ptr() as usize, to, AT_SYMLINK_NOFOLLOW, 0, 0])
    })?;
    Ok(Facts { bytes_on_disk: stat[8].saturating_mul(512), modified_s: stat[11] })
}

/// Calls `see` with the name of each directory entry that [`getdents`] has read.
pub fn names(mut entries: &[u8], mut see: impl FnMut(&[u8])) {
    // linux_dirent64: inode 8, offset 8, length 2, type 1, name.
    while let Some(entry) = entries.get(16..18).and_then(|length| {
        let length = usize::from(u16::from_le_bytes(length.try_into().ok()?));
        entries.get(..length).filter(|_| length > 19)
    }) {
        let name = entry.get(19..).unwrap_or(&[]);
        see(name.split(|byte| *byte == 0).next().unwrap_or(&[]));
        entries = entries.get(entry.len()..).unwrap_or(&[]);
    }
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
