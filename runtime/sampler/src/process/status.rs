//! What the user should hear of after the start: lines in the run directory, since stderr is the host's.
//!
//! `PID cause`: `pct run` prints each distinct cause once. `PID<TAB>NANOSECONDS<TAB>ALL<TAB>NAME`: an image
//! of a process ended without a sample. It used so much CPU time while sampling was on, the process used so
//! much since its birth, and NAME is what it was called by. `PID<TAB>resumed`: sampling paused, and goes on.
//! Lines are appended whole; nothing is written that is longer than a pipe would take at once.
//!
//! Signal safety: open, write, close; not under a system call filter.

use crate::sys;
use crate::sys::text::Buf;

/// Name of the file in the run directory.
pub const NAME: &[u8] = b"pct.status";

/// Appends `PID cause` to the status file of the first directory that has one: `pct run` makes it. False:
/// neither directory has a status file.
pub fn report(places: [&[u8]; 2], cause: &[u8]) -> bool {
    report_of(sys::getpid(), places, cause)
}

/// The same, of another process.
pub fn report_of(pid: u32, places: [&[u8]; 2], cause: &[u8]) -> bool {
    let mut line = Buf::<400>::new();
    line.push_number(u64::from(pid))
        .push(b" ")
        .push(cause.get(..cause.len().min(350)).unwrap_or(cause))
        .push(b"\n");
    append(places, line.bytes())
}

/// Appends that this image of the process, `called` so, ends without a sample: `used_ns` of CPU time while
/// sampling was on, `all_ns` since the birth of the process.
pub fn without_sample(places: [&[u8]; 2], pid: u32, called: &[u8], used_ns: u64, all_ns: u64) {
    let mut line = Buf::<160>::new();
    line.push_number(u64::from(pid)).push(b"\t").push_number(used_ns);
    line.push(b"\t").push_number(all_ns).push(b"\t");
    for byte in called.iter().take(MOST_NAME) {
        let shown = if byte.is_ascii_control() { b"?" } else { core::slice::from_ref(byte) };
        line.push(shown);
    }
    line.push(b"\n");
    append(places, line.bytes());
}

/// Appends that what kept this process from being sampled for a while is over.
pub fn resumed(places: [&[u8]; 2]) {
    let mut line = Buf::<40>::new();
    line.push_number(u64::from(sys::getpid())).push(b"\tresumed\n");
    append(places, line.bytes());
}

/// Octets of a name: the line fits into its buffer.
const MOST_NAME: usize = 80;

fn append(places: [&[u8]; 2], line: &[u8]) -> bool {
    places.into_iter().any(|directory| !directory.is_empty() && append_to(directory, line))
}

/// Room below the limit for files at which nobody can reach it meanwhile.
const FAR_BELOW: u64 = 1 << 20;

fn append_to(directory: &[u8], line: &[u8]) -> bool {
    let mut path = Buf::<1200>::new();
    path.push(directory).push(b"/").push(NAME);
    let Some(name) = path.with_nul() else { return false };
    let appended = sys::with_descriptor(|| {
        let fd = sys::open(name, sys::O_WRONLY | sys::O_APPEND | sys::O_NOFOLLOW, 0)?;
        // Beyond the host's limit for files the kernel sends it a signal that ends it.
        let end = sys::regular_size(&fd)?.ok_or(sys::Errno::EINVAL)?.saturating_add(line.len() as u64);
        match sys::soft_limit(sys::RLIMIT_FSIZE).checked_sub(end) {
            None => Err(sys::Errno::EFBIG),
            // Others append at the same time, but not so much.
            Some(room) if room > FAR_BELOW => sys::write_below_limit(&fd, line),
            Some(_) => sys::write(&fd, line),
        }
    });
    appended.is_ok()
}
