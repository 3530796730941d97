//! The program headers of an image, and what they refer to.

use crate::{Dynamic, Memory, Notes, Symbols};

/// Types of segments (ELF gABI, "Program Header").
pub mod segment_kind {
    /// Loaded from the file.
    pub const LOAD: u32 = 1;
    /// The dynamic section.
    pub const DYNAMIC: u32 = 2;
    /// The path of the dynamic linker.
    pub const INTERPRETER: u32 = 3;
    /// Notes.
    pub const NOTE: u32 = 4;
    /// The program headers themselves.
    pub const HEADERS: u32 = 6;
    /// `.eh_frame_hdr`, which refers to the unwind data.
    pub const UNWIND: u32 = 0x6474_e550;
}

/// Permissions of a segment's memory.
pub mod segment_flag {
    /// Executing it.
    pub const EXECUTE: u32 = 1;
    /// Writing it.
    pub const WRITE: u32 = 2;
    /// Reading it.
    pub const READ: u32 = 4;
}

/// Bytes of a program header.
pub(crate) const HEADER_BYTES: u64 = 56;

/// Bytes at the beginning of an image that are worth reading in one piece: the ELF header and the program headers of
/// nearly all objects.
pub const HEAD_BYTES: usize = 64 + 20 * 56;
/// Most program headers that are read.
const MOST_HEADERS: u64 = 1000;
/// Most bytes of notes that are read in one segment.
const NOTE_BYTES: usize = 512;
pub(crate) const PAGE: u64 = 4096;

/// A program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// One of [`segment_kind`].
    pub kind: u32,
    /// Of [`segment_flag`].
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

impl Segment {
    /// Whether it is loaded and contains the image's own address `address`.
    #[must_use]
    pub fn loads(&self, address: u64) -> bool {
        self.kind == segment_kind::LOAD && address.wrapping_sub(self.address) < self.memory_bytes
    }
}

/// A mapped image, or the file of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// What to add to the image's own addresses; 0 for a file.
    pub bias: u64,
    /// The machine it is for, by its number in ELF headers; 0 = unknown (the image has only program headers).
    pub machine: u16,
    headers: u64,
    count: u64,
}

impl Image {
    /// The image whose ELF header is at `base`, where its file's first byte is mapped.
    #[must_use]
    pub fn at_base<M: Memory>(memory: &M, base: u64) -> Option<Image> {
        let mut image = Image::with_header(memory, base)?;
        let first = image.segments(memory).find(Image::begins_file)?;
        image.bias = base.wrapping_sub(first.address.wrapping_sub(first.offset));
        Some(image)
    }

    /// The image in a file, or in the first bytes of a file. Its addresses are those that the linker gave.
    #[must_use]
    pub fn of_file<M: Memory>(file: &M) -> Option<Image> {
        Image::with_header(file, 0)
    }

    /// The image whose `count` program headers are at `headers`: the program, according to the kernel's auxiliary
    /// vector.
    ///
    /// The bias comes from the header that describes the headers. Static-pie programs lack it; their headers are in the
    /// first page of the segment that begins the file.
    #[must_use]
    pub fn with_headers<M: Memory>(memory: &M, headers: u64, count: u64) -> Image {
        let mut image = Image { bias: 0, machine: 0, headers, count: count.min(MOST_HEADERS) };
        if let Some(own) = image.segments(memory).find(|s| s.kind == segment_kind::HEADERS) {
            image.bias = headers.wrapping_sub(own.address);
        } else if let Some(first) = image.segments(memory).find(Image::begins_file) {
            image.bias = (headers & !(PAGE - 1)).wrapping_sub(first.address & !(PAGE - 1));
        }
        image
    }

    fn with_header<M: Memory>(memory: &M, base: u64) -> Option<Image> {
        let ident: [u8; 6] = memory.bytes(base)?;
        // 64-bit, little-endian.
        if ident != *b"\x7fELF\x02\x01" {
            return None;
        }
        let offset = memory.read_word(base.checked_add(32)?)?;
        let (size, count) = (memory.quarter(base.checked_add(54)?)?, memory.quarter(base.checked_add(56)?)?);
        if u64::from(size) != HEADER_BYTES {
            return None;
        }
        let headers = base.checked_add(offset)?;
        let machine = memory.quarter(base.checked_add(18)?)?;
        Some(Image { bias: 0, machine, headers, count: u64::from(count).min(MOST_HEADERS) })
    }

    pub(crate) fn begins_file(segment: &Segment) -> bool {
        segment.kind == segment_kind::LOAD && segment.offset < PAGE
    }

    /// Where its program headers are.
    #[must_use]
    pub fn headers(&self) -> u64 {
        self.headers
    }

    /// The number of program headers that it claims to have, at most a thousand.
    #[must_use]
    pub fn header_count(&self) -> u64 {
        self.count
    }

    /// Its readable program headers.
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

    /// The first segment of this kind, by [`segment_kind`].
    #[must_use]
    pub fn segment<M: Memory>(&self, memory: &M, kind: u32) -> Option<Segment> {
        self.segments(memory).find(|segment| segment.kind == kind)
    }

    /// Address of the dynamic section.
    #[must_use]
    pub fn dynamic<M: Memory>(&self, memory: &M) -> Option<u64> {
        let dynamic = self.segment(memory, segment_kind::DYNAMIC)?;
        Some(self.bias.wrapping_add(dynamic.address))
    }

    /// The symbols of its dynamic section.
    #[must_use]
    pub fn symbols<M: Memory>(&self, memory: &M) -> Option<Symbols> {
        Dynamic::read(memory, self.dynamic(memory)?, self.bias).symbols()
    }

    /// Copies the GNU build-id into `to` and returns its length. `None`: the first notes of each segment have no
    /// build-id.
    pub fn build_id<M: Memory>(&self, memory: &M, to: &mut [u8; 32]) -> Option<usize> {
        let mut notes = [0; NOTE_BYTES];
        for segment in self.segments(memory).filter(|s| s.kind == segment_kind::NOTE) {
            let bytes = usize::try_from(segment.memory_bytes).unwrap_or(usize::MAX).min(NOTE_BYTES);
            let Some(notes) = notes.get_mut(..bytes) else { continue };
            if memory.copy(self.bias.wrapping_add(segment.address), notes)
                && let Some(id) = Notes::new(notes).build_id()
            {
                for (to, from) in to.iter_mut().zip(id) {
                    *to = *from;
                }
                return Some(id.len().min(to.len()));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_read_beyond_the_end() {
        let bytes: &[u8] = b"\x7fELF\x02\x01\0\0";
        assert_eq!(Image::at_base(&bytes, 0), None);
        assert_eq!(Image::at_base(&bytes, u64::MAX - 3), None);
    }
}
