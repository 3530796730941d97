//! The folder of recordings of continuous sampling, kept below a bound: the oldest recordings are deleted.
//!
//! Each process does this when it begins a file, so nobody else needs to run. What somebody still writes to
//! is kept, whatever its age.
//!
//! Signal safety: system calls; some 10 KiB of stack, so the housekeeper's own.

use crate::process::session::House;
use crate::sys::text::Buf;
use crate::sys::{self, Fd};
use pct_format::State;
use pct_format::layout::{self, header as at};

/// Recordings that one look can delete.
const MOST_DELETED: usize = 32;
/// Longest name that is looked at.
const NAME_BYTES: usize = 192;

/// A recording that may be deleted.
struct Recording {
    modified_s: u64,
    bytes: u64,
    name: Buf<NAME_BYTES>,
}

/// Deletes the oldest recordings beside the file `own` until all together take at most `keep` bytes on the disk.
pub(super) fn enforce(own: &[u8], keep: u64, house: &mut House) {
    let Some(slash) = own.iter().rposition(|byte| *byte == b'/') else { return };
    let (folder, own) = (own.get(..slash).unwrap_or(&[]), own.get(slash + 1..).unwrap_or(&[]));
    let mut path = Buf::<1536>::new();
    path.push(folder);
    let Some(name) = path.with_nul() else { return };
    let Ok(directory) = sys::open(name, sys::O_RDONLY | sys::O_DIRECTORY, 0) else { return };
    let here = Here { boot: sys::boot_id(), namespace: sys::pid_namespace() };
    let mut oldest = Oldest { rows: [const { None }; MOST_DELETED], total: 0 };
    while let Ok(bytes @ 1..) = sys::getdents(&directory, &mut house.buffer) {
        let read = house.buffer.get(..bytes).unwrap_or(&[]);
        sys::names(read, |name| {
            if name.ends_with(b".pct") && name != own && name.len() < NAME_BYTES {
                oldest.see(folder, name);
            }
        });
    }
    for row in oldest.rows.iter().flatten() {
        if oldest.total <= keep {
            return;
        }
        let mut path = path_of(folder, row.name.bytes());
        if let Some(path) = path.with_nul()
            && !here.is_written(path, row.modified_s)
            && sys::unlink(path).is_ok()
        {
            oldest.total = oldest.total.saturating_sub(row.bytes);
        }
    }
}

/// The oldest recordings, the oldest first, and the bytes of all.
struct Oldest {
    rows: [Option<Recording>; MOST_DELETED],
    total: u64,
}

impl Oldest {
    fn see(&mut self, folder: &[u8], name: &[u8]) {
        let mut path = path_of(folder, name);
        let Some(facts) = path.with_nul().and_then(|path| sys::stat(path).ok()) else { return };
        self.total = self.total.saturating_add(facts.bytes_on_disk);
        let mut kept = Buf::new();
        kept.push(name);
        let mut moving =
            Some(Recording { modified_s: facts.modified_s, bytes: facts.bytes_on_disk, name: kept });
        for row in &mut self.rows {
            let is_older = match (&moving, &*row) {
                (Some(moving), Some(row)) => moving.modified_s < row.modified_s,
                (moving, None) => moving.is_some(),
                (None, _) => return,
            };
            if is_older {
                core::mem::swap(row, &mut moving);
            }
        }
    }
}

fn path_of(folder: &[u8], name: &[u8]) -> Buf<1536> {
    let mut path = Buf::new();
    path.push(folder).push(b"/").push(name);
    path
}

/// After so many seconds without a change an open recording of a process that cannot be seen from here counts as
/// left behind. A process that was idle for longer loses what it wrote: its next file begins with the next rotation.
const ABANDONED_S: u64 = 3600;

/// Where this process runs.
struct Here {
    boot: [u64; 2],
    namespace: u64,
}

impl Here {
    /// Whether a process that lives writes the recording, as far as its header says. In another PID namespace
    /// (containers that share the folder) the process id says nothing: there the last change decides. What is
    /// no recording counts as written: it is not pct's to delete.
    fn is_written(&self, path: sys::CStr<'_>, modified_s: u64) -> bool {
        let flags = sys::O_RDONLY | sys::O_NOFOLLOW | sys::O_NONBLOCK;
        let Ok(file) = sys::open(path, flags, 0) else { return true };
        let words = [at::MAGIC, at::STATE, at::PID, at::PID_NAMESPACE, at::BOOT_ID, at::BOOT_ID + 1];
        let [Some(layout::MAGIC), Some(state), Some(pid), Some(namespace), Some(first), Some(second)] =
            words.map(|index| header_word(&file, index))
        else {
            return true;
        };
        if state != State::Armed as u64 || pid == 0 || [first, second] != self.boot {
            return false;
        }
        if namespace == 0 || namespace != self.namespace {
            let now_s = sys::clock_ns(sys::CLOCK_REALTIME) / 1_000_000_000;
            return now_s.saturating_sub(modified_s) < ABANDONED_S;
        }
        let mut process = Buf::<32>::new();
        process.push(b"/proc/").push_number(pid);
        process.with_nul().is_none_or(|process| sys::stat(process).is_ok())
    }
}

fn header_word(file: &Fd, index: usize) -> Option<u64> {
    let mut word = [0u8; 8];
    let read = sys::pread(file, &mut word, 8 * index as u64).ok()?;
    (read == word.len()).then(|| u64::from_le_bytes(word))
}
