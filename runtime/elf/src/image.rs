//! The program headers of an image, and what they lead to.

use crate::Memory;

/// Types of segments (ELF gABI, "Program Header").
pub mod segment_kind {
    /// Loaded from the file.
    pub const LOAD: u32 = 1;
    /// The dynamic section.
    pub const DYNAMIC: u32 = 2;
    /// Notes.
    pub const NOTE: u32 = 4;
    /// The program headers themselves.
    pub const HEADERS: u32 = 6;
}

/// Bytes of a program header.
const HEADER_BYTES: u64 = 56;
/// Most program headers that are looked at.
const MOST_HEADERS: u64 = 1000;
/// Most bytes of notes that are looked at in one segment.
const NOTE_BYTES: usize = 512;

/// A program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// One of [`segment_kind`].
    pub kind: u32,
    /// PF_X = 1, PF_W = 2, PF_R = 4.
    pub flags: u32,
    /// Offset in the file.
    pub offset: u64,
    /// Address before relocation.
    pub address: u64,
    /// Bytes in the file.
    pub file_bytes: u64,
    /// Bytes in memory.
    pub memory_bytes: u64,
}

/// An image that is mapped, or the file of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// What to add to the image's own addresses.
    pub bias: u64,
    headers: u64,
    count: u64,
}

impl Image {
    /// The image whose ELF header lies at `base`, where its file's first byte is mapped.
    #[must_use]
    pub fn at_base<M: Memory>(memory: &M, base: u64) -> Option<Image> {
        let ident: [u8; 6] = memory.bytes(base)?;
        // 64-bit, little-endian.
        if ident != *b"\x7fELF\x02\x01" {
            return None;
        }
        let offset = memory.word(base.checked_add(32)?)?;
        let (size, count) = (memory.quarter(base.checked_add(54)?)?, memory.quarter(base.checked_add(56)?)?);
        if u64::from(size) != HEADER_BYTES {
            return None;
        }
        let mut image = Image {
            bias: base,
            headers: base.checked_add(offset)?,
            count: u64::from(count).min(MOST_HEADERS),
        };
        let first = image.segments(memory).find(|s| s.kind == segment_kind::LOAD)?;
        image.bias = base.wrapping_sub(first.address.wrapping_sub(first.offset));
        Some(image)
    }

    /// The program headers that can be read.
    pub fn segments<'m, M: Memory>(&self, memory: &'m M) -> impl Iterator<Item = Segment> + use<'m, M> {
        let headers = self.headers;
        (0..self.count).map_while(move |index| {
            let at = headers.checked_add(index * HEADER_BYTES)?;
            let bytes: [u8; 56] = memory.bytes(at)?;
            let half = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
            let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
            Some(Segment {
                kind: half(0)?,
                flags: half(4)?,
                offset: word(8)?,
                address: word(16)?,
                file_bytes: word(32)?,
                memory_bytes: word(40)?,
            })
        })
    }

    /// Address of the dynamic section.
    #[must_use]
    pub fn dynamic<M: Memory>(&self, memory: &M) -> Option<u64> {
        let dynamic = self.segments(memory).find(|s| s.kind == segment_kind::DYNAMIC)?;
        Some(self.bias.wrapping_add(dynamic.address))
    }

    /// The GNU build-id, into `to`; its length. `None`: the first notes of each segment hold no build-id.
    pub fn build_id<M: Memory>(&self, memory: &M, to: &mut [u8; 32]) -> Option<usize> {
        let mut notes = [0; NOTE_BYTES];
        for segment in self.segments(memory).filter(|s| s.kind == segment_kind::NOTE) {
            let bytes = usize::try_from(segment.memory_bytes).unwrap_or(usize::MAX).min(NOTE_BYTES);
            let Some(notes) = notes.get_mut(..bytes) else { continue };
            if memory.copy(self.bias.wrapping_add(segment.address), notes)
                && let Some(len) = build_id_in(notes, to)
            {
                return Some(len);
            }
        }
        None
    }
}

/// Type of the note that holds a build-id, of the owner "GNU".
const NT_GNU_BUILD_ID: u32 = 3;

fn build_id_in(notes: &[u8], to: &mut [u8; 32]) -> Option<usize> {
    let half = |at: usize| Some(u32::from_le_bytes(*notes.get(at..)?.first_chunk()?));
    let padded = |len: u32| usize::try_from(len).ok()?.checked_next_multiple_of(4);
    let mut at = 0_usize;
    loop {
        let (name, desc, kind) = (half(at)?, half(at.checked_add(4)?)?, half(at.checked_add(8)?)?);
        let name_at = at.checked_add(12)?;
        let desc_at = name_at.checked_add(padded(name)?)?;
        if kind == NT_GNU_BUILD_ID && notes.get(name_at..)?.starts_with(b"GNU\0") {
            let len = usize::try_from(desc).ok()?.min(to.len());
            to.get_mut(..len)?.copy_from_slice(notes.get(desc_at..desc_at.checked_add(len)?)?);
            return Some(len);
        }
        at = desc_at.checked_add(padded(desc)?)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_behind_another_note_is_found() {
        let mut notes = [0u8; 64];
        // A note of 4 bytes by "GNU", type 1, then the build-id.
        notes[0] = 4;
        notes[4] = 4;
        notes[8] = 1;
        notes[12..16].copy_from_slice(b"GNU\0");
        notes[20] = 4;
        notes[24] = 3;
        notes[28] = 3;
        notes[32..36].copy_from_slice(b"GNU\0");
        notes[36..39].copy_from_slice(&[7, 8, 9]);
        let mut to = [0; 32];
        assert_eq!(build_id_in(&notes, &mut to), Some(3));
        assert_eq!(to[..3], [7, 8, 9]);
        assert_eq!(build_id_in(&notes[..30], &mut to), None);
    }

    #[test]
    fn nothing_is_read_beyond_the_end() {
        let bytes: &[u8] = b"\x7fELF\x02\x01\0\0";
        assert_eq!(Image::at_base(&bytes, 0), None);
        assert_eq!(Image::at_base(&bytes, u64::MAX - 3), None);
    }
}
