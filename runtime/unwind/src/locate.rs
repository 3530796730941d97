//! Finds the unwind data of a mapped object in what the kernel mapped of it.
//!
//! Usually a program header refers to `.eh_frame_hdr`, and that to `.eh_frame`. Static glibc programs lack that header
//! (they register their `.eh_frame` themselves at the start), and the section table of the file is not mapped. For
//! them, the first common entry (CIE) is searched in the read-only segments, once a walk needs it: a library that is
//! 30 MB of tables and no code lacks that header, too. A candidate is accepted if it is
//! well-formed as a CIE *and* the entry after it is an FDE that refers back to it and covers an address in an
//! executable segment.
//!
//! Invariant: whatever the bytes, the result is within a segment that the object claims to have; work and memory are
//! bounded.

use super::cfi::{self, Fde};
use super::reader::Section;
use super::table::{FdeRef, Header};
use pct_elf::{Ahead, HEAD_BYTES, Image, Memory, Segment, segment_flag, segment_kind};

const PAGE: usize = 4096;
/// Most bytes of an object that are searched for unwind data without a header.
const MOST_SCANNED: u64 = 64 << 20;
/// Length of the bytes that contain a CIE and the FDE after it.
const WINDOW: usize = 512;

/// Where an object's unwind data is in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// Lowest address of the object.
    pub lowest: u64,
    /// Address of `.eh_frame_hdr`, or of `.eh_frame` if there is no such section.
    pub hdr: u64,
    /// Address behind the last byte of the segment that contains it.
    pub hdr_end: u64,
    /// Address of `.eh_frame`.
    pub eh: u64,
    /// Address behind the last byte of the segment that contains it.
    pub eh_end: u64,
    /// The list in the header: byte where it starts, number of entries.
    pub list: Option<(usize, usize)>,
}

/// The number of x86-64 in ELF headers. Register numbers in unwind data depend on the machine.
const MACHINE: u16 = 62;

/// The segments of the object whose ELF header is at some address.
struct Segments<'m, M> {
    memory: &'m M,
    image: Image,
}

impl<'m, M: Memory> Segments<'m, M> {
    fn read_headers(memory: &'m M, base: u64) -> Option<Self> {
        let image = Image::at_base(memory, base)?;
        (image.machine == MACHINE).then_some(Segments { memory, image })
    }

    /// The loaded segments, their addresses as in the process.
    fn loaded(&self) -> impl Iterator<Item = Segment> + use<'m, M> {
        let bias = self.image.bias;
        let all = self.image.segments(self.memory).filter(|s| s.kind == segment_kind::LOAD);
        all.map(move |s| Segment { address: s.address.wrapping_add(bias), ..s })
    }

    /// The loaded segment that contains an address.
    fn holds(&self, addr: u64) -> Option<Segment> {
        self.loaded().find(|s| s.loads(addr))
    }

    fn end(&self, addr: u64) -> Option<u64> {
        let segment = self.holds(addr)?;
        segment.address.checked_add(segment.memory_bytes)
    }

    /// Finds it by the program header that refers to it.
    fn by_header(&self) -> Option<Located> {
        let hdr =
            self.image.segment(self.memory, segment_kind::UNWIND)?.address.wrapping_add(self.image.bias);
        let hdr_end = self.end(hdr)?;
        let mut bytes = [0u8; 12];
        if !self.memory.copy(hdr, &mut bytes) {
            return None;
        }
        let header = Header::parse(&Section { bytes: &bytes, addr: hdr })?;
        let eh_end = self.end(header.eh_frame)?;
        let list = header.list.filter(|&(at, n)| {
            n.checked_mul(size_of::<FdeRef>())
                .and_then(|len| len.checked_add(at))
                .is_some_and(|len| len as u64 <= hdr_end - hdr)
        });
        let lowest = self.image.lowest(self.memory)?;
        Some(Located { lowest, hdr, hdr_end, eh: header.eh_frame, eh_end, list })
    }

    /// Searches for it, first in data segments, then in segments with code (old linkers put both in one).
    fn by_scan(&self) -> Option<Located> {
        let mut left = MOST_SCANNED;
        for executable in [false, true] {
            for segment in self.loaded() {
                if segment.flags & segment_flag::WRITE != 0
                    || (segment.flags & segment_flag::EXECUTE != 0) != executable
                {
                    continue;
                }
                let bytes = segment.memory_bytes.min(left);
                let end = segment.address.checked_add(bytes)?;
                left -= bytes;
                if let Some(eh) = self.scan(segment.address, end) {
                    let lowest = self.image.lowest(self.memory)?;
                    return Some(Located { lowest, hdr: eh, hdr_end: end, eh, eh_end: end, list: None });
                }
            }
        }
        None
    }

    /// The first address from `start` on at which unwind data begins.
    fn scan(&self, start: u64, end: u64) -> Option<u64> {
        let mut page = [0u8; PAGE];
        let mut at = start.checked_next_multiple_of(4)?;
        // Pages overlap by the length that the check below needs.
        const STEP: usize = PAGE - 12;
        while at < end {
            let len = usize::try_from(end - at).unwrap_or(PAGE).min(PAGE);
            let bytes = page.get_mut(..len)?;
            if !self.memory.copy(at, bytes) {
                return None;
            }
            let mut offset = 0;
            while let Some(head) = bytes.get(offset..).and_then(|b| b.first_chunk::<10>()) {
                // Length, id 0, version, first letter of the augmentation.
                if let [length, 0, 0, 0, 0, 0, 0, 0, 1 | 3, b'z' | 0] = *head
                    && length >= 12
                    && length % 4 == 0
                    && self.begins(at + offset as u64, end)
                {
                    return Some(at + offset as u64);
                }
                offset += 4;
            }
            at += STEP as u64;
        }
        None
    }

    /// Whether a CIE and its FDE are there.
    fn begins(&self, at: u64, end: u64) -> bool {
        let mut window = [0u8; WINDOW];
        let len = usize::try_from(end - at).unwrap_or(WINDOW).min(WINDOW);
        let Some(bytes) = window.get_mut(..len).filter(|_| len > 24) else { return false };
        if !self.memory.copy(at, bytes) {
            return false;
        }
        let section = Section { bytes, addr: at };
        let Some(next) = cfi::behind_cie(&section, 0) else { return false };
        // The FDE's id refers back to this CIE, with none in between.
        let back = section.cursor(next + 4).u32();
        if back != u32::try_from(next + 4).ok() {
            return false;
        }
        Fde::parse(&section, next)
            .and_then(|fde| self.holds(fde.begin))
            .is_some_and(|segment| segment.flags & segment_flag::EXECUTE != 0)
    }
}

/// A loaded segment of an object: addresses in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Address of its first byte.
    pub start: u64,
    /// Address behind its last one.
    pub end: u64,
    /// It holds code.
    pub executable: bool,
}

/// Calls `each` for the loaded segments of the x86-64 object whose ELF header is at `base`.
pub fn each_segment<M: Memory>(memory: &M, base: u64, mut each: impl FnMut(Loaded)) {
    let memory = Ahead::<_, HEAD_BYTES>::new(memory, base);
    let Some(segments) = Segments::read_headers(&memory, base) else { return };
    for segment in segments.loaded() {
        if let Some(end) = segment.address.checked_add(segment.memory_bytes) {
            let executable = segment.flags & segment_flag::EXECUTE != 0;
            each(Loaded { start: segment.address, end, executable });
        }
    }
}

/// How hard unwind data are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Only the program header that refers to them is looked at.
    Header,
    /// If the object has no such header, its read-only segments are searched for bytes of their shape: up to 64 MB.
    Shape,
}

/// Finds the unwind data of the x86-64 object whose ELF header is at `base`.
pub fn locate<M: Memory>(memory: &M, base: u64, effort: Effort) -> Option<Located> {
    let memory = Ahead::<_, HEAD_BYTES>::new(memory, base);
    let segments = Segments::read_headers(&memory, base)?;
    let by_header = segments.by_header();
    if by_header.is_some() || effort == Effort::Header { by_header } else { segments.by_scan() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{EH, PHDR, program};
    use pct_elf::BytesAt;

    const BASE: u64 = 0x40_0000;

    fn found(image: &[u8]) -> Option<Located> {
        let memory = BytesAt { at: BASE, bytes: image };
        assert_eq!(locate(&memory, BASE, Effort::Header), None, "there is no header");
        locate(&memory, BASE, Effort::Shape)
    }

    #[test]
    fn unwind_data_that_nothing_leads_to_is_found_by_its_shape() {
        let located = found(&program(&[(BASE + 0x1010, 0x20), (BASE + 0x1100, 8)], BASE)).expect("found");
        assert_eq!((located.eh, located.eh_end, located.list), (BASE + EH as u64, BASE + 0x4000, None));
    }

    #[test]
    fn headers_beyond_the_first_few_are_read_too() {
        let mut image = program(&[(BASE + 0x1010, 0x20)], BASE);
        let headers = image[64..64 + 3 * PHDR].to_vec();
        let filler = (HEAD_BYTES - 64) / PHDR - 1; // of no kind, so that the segments lie on both sides of the limit
        image[56] = (filler + 3) as u8;
        image[64..64 + filler * PHDR].fill(0);
        image[64 + filler * PHDR..64 + (filler + 3) * PHDR].copy_from_slice(&headers);
        assert_eq!(found(&image).map(|l| l.eh), Some(BASE + EH as u64));
    }

    #[test]
    fn unwind_data_of_no_code_is_none() {
        assert_eq!(found(&program(&[(BASE + 0x3010, 0x20)], BASE)), None);
        assert_eq!(found(&program(&[], BASE)), None);
    }
}
