//! What `/proc` says of the threads of this process, and of who traces it.
//!
//! Signal safety: system calls; two kilobytes of stack.

use core::sync::atomic::Ordering;

use crate::process::session::Session;
use crate::sys;
use crate::sys::text::{Buf, parse_number};

/// Whether /proc numbers processes as this one sees itself. It does not in a process namespace of its own
/// under the /proc of another one (unshare without a mount): there the names of our tasks are the numbers of
/// strangers, or of nobody.
pub(super) fn proc_is_ours(session: &Session) -> bool {
    let mut buffer = [0u8; 16];
    let own = sys::readlink(sys::c(c"/proc/self"), &mut buffer).ok().and_then(parse_number);
    own == Some(u64::from(session.pid.load(Ordering::Relaxed)))
}

/// The number that one of this process's threads has in its own namespace, by its name in /proc.
pub(super) fn own_number(name: &[u8]) -> Option<u64> {
    let mut path = Buf::<64>::new();
    path.push(b"/proc/self/task/").push(name).push(b"/status");
    let mut buffer = [0u8; 2048];
    let status = sys::read_file(path.with_nul()?, &mut buffer).ok()?;
    // From the outermost namespace that this /proc knows to the task's own.
    let numbers = status.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(b"NSpid:"))?;
    parse_number(numbers.rsplit(|b| *b == b'\t').next()?)
}

/// A number from a line `KEY:\tNUMBER` of a status file.
fn status_number(path: sys::CStr<'_>, key: &[u8], hexadecimal: bool) -> Option<u64> {
    let mut buffer = [0u8; 2048];
    let status = sys::read_file(path, &mut buffer).ok()?;
    let line = status.split(|b| *b == b'\n').find(|l| l.starts_with(key))?;
    let text = line.get(key.len()..)?.strip_prefix(b":\t")?;
    if hexadecimal { crate::sys::text::parse_hex(text).map(|(n, _)| n) } else { parse_number(text) }
}

/// Whether a thread blocks one of `signals`.
#[must_use]
pub(crate) fn blocks(tid: u32, signals: sys::SignalSet) -> bool {
    let mut path = Buf::<64>::new();
    path.push(b"/proc/self/task/").push_number(u64::from(tid)).push(b"/status");
    let blocked = path.with_nul().and_then(|path| status_number(path, b"SigBlk", true));
    blocked.is_some_and(|set| set & signals != 0)
}

/// Whether a debugger or the like traces this process.
#[must_use]
pub(crate) fn is_traced() -> bool {
    status_number(sys::c(c"/proc/self/status"), b"TracerPid", false).is_some_and(|pid| pid != 0)
}

/// The name of any thread of this process, NUL-padded.
#[must_use]
pub(crate) fn name_of(tid: u32) -> Option<[u64; 2]> {
    let mut path = Buf::<64>::new();
    path.push(b"/proc/self/task/").push_number(u64::from(tid)).push(b"/comm");
    let mut name = [0u8; 32];
    let mut words = [0u64; 2];
    for (i, byte) in sys::read_file(path.with_nul()?, &mut name).ok()?.iter().take(15).enumerate() {
        if *byte == b'\n' {
            break;
        }
        if let Some(word) = words.get_mut(i / 8) {
            *word |= u64::from(*byte) << (8 * (i % 8));
        }
    }
    Some(words)
}

/// Whether the calling thread is the only one of the process, as far as /proc can be read.
pub(super) fn is_only_thread() -> bool {
    status_number(sys::c(c"/proc/self/status"), b"Threads", false) == Some(1)
}
