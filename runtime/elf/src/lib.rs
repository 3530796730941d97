//! ELF images where they lie: in our own memory, in another process, in a file.
//!
//! The caller gives a [`Memory`]; [`Image`] finds the program headers, [`Symbols`] looks names up by the hash table that the
//! loader uses, [`Image::build_id`] finds the note. Everything read is hostile: another thread may unmap the object at any
//! instant, and a file may hold anything. Every loop is bounded, and what cannot be read ends the search with `None`.
//!
//! Only 64-bit little-endian images are read. Signal safety: as the given memory; nothing here allocates, locks or panics.
#![no_std]
#![forbid(unsafe_code)]

mod image;
mod symbols;

pub use image::{Image, Segment, segment_kind};
pub use symbols::{Symbol, Symbols};

/// Bytes at addresses (of a process) or offsets (of a file).
pub trait Memory {
    /// Copies what lies at `at`; false when not all of it can be read. Never faults.
    fn copy(&self, at: u64, into: &mut [u8]) -> bool;

    /// A number of `N` bytes, little-endian.
    fn bytes<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.copy(at, &mut bytes).then_some(bytes)
    }

    /// Eight bytes.
    fn word(&self, at: u64) -> Option<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    /// Four bytes.
    fn half(&self, at: u64) -> Option<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    /// Two bytes.
    fn quarter(&self, at: u64) -> Option<u16> {
        self.bytes(at).map(u16::from_le_bytes)
    }

    /// Does the text at `at`, ended by NUL, equal `text`?
    fn text_is(&self, at: u64, text: &[u8]) -> bool {
        let mut at = at;
        for part in text.chunks(32) {
            let mut found = [0; 32];
            let Some(found) = found.get_mut(..part.len()) else { return false };
            if !self.copy(at, found) || found != part {
                return false;
            }
            let Some(next) = at.checked_add(part.len() as u64) else { return false };
            at = next;
        }
        self.bytes::<1>(at) == Some([0])
    }
}

/// A file's or test's bytes, addressed by their offset.
impl Memory for &[u8] {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        let Ok(at) = usize::try_from(at) else { return false };
        let Some(end) = at.checked_add(into.len()) else { return false };
        match self.get(at..end) {
            Some(bytes) => {
                into.copy_from_slice(bytes);
                true
            }
            None => false,
        }
    }
}
