//! Images whose headers are not where the file's first page is mapped, or are in no mapping at all.
//!
//! Loaders read the headers from the file, and map only what they say. Tools that change linked files put the program
//! headers at the file's end, some linkers leave them out of all segments. Then they are read from the file, and
//! where the image lies follows from one of its mappings.

use crate::image::{HEADER_BYTES, PAGE};
use crate::{Image, Memory, Segment, segment_flag, segment_kind};

/// Bytes of an ELF header.
const ELF_HEADER_BYTES: usize = 64;
/// Offsets of fields in it.
const PROGRAM_HEADERS: usize = 32;
const PROGRAM_HEADER_COUNT: usize = 56;
/// Offset of the address in a program header.
const ADDRESS: usize = 16;

/// Room for headers that are put together anew. Images with more program headers are not read.
pub const APART_BYTES: usize = 4096;

impl Image {
    /// Whether the mapping of `offset` in its file at `start` is one of the image's: whether it is where a loader puts
    /// this part of the file.
    #[must_use]
    pub fn has_mapping<M: Memory>(&self, memory: &M, start: u64, offset: u64) -> bool {
        let mut segments = self.segments(memory);
        segments.any(|segment| bias_by(&segment, start, offset) == Some(self.bias))
    }

    /// Whether a loaded segment has the program headers where this image's are read. Elsewhere a loader may have left
    /// the file's bytes for a while, in memory that nobody may read.
    #[must_use]
    pub fn are_headers_loaded<M: Memory>(&self, memory: &M) -> bool {
        let at = self.headers().wrapping_sub(self.bias);
        let distance = |segment: &Segment| segment.address.wrapping_sub(segment.offset);
        let first = self.segments(memory).find(Self::begins_file);
        let mut segments = self.segments(memory);
        first.is_some_and(|first| {
            segments.any(|segment| segment.loads(at) && distance(&segment) == distance(&first))
        })
    }

    /// Lowest address of what is loaded of the image.
    #[must_use]
    pub fn lowest<M: Memory>(&self, memory: &M) -> Option<u64> {
        let loaded = |segment: &Segment| segment.kind == segment_kind::LOAD && segment.memory_bytes > 0;
        let addresses =
            self.segments(memory).filter(loaded).map(|segment| segment.address.wrapping_add(self.bias));
        addresses.min().map(|address| address & !(PAGE - 1))
    }

    /// What was added to the image's addresses, as a mapping of code shows it: that of `offset` in the file at
    /// `start`. `None`: it is none of this image's, or two segments have this page, so that it could be of either.
    #[must_use]
    pub fn bias_by_code<M: Memory>(&self, file: &M, start: u64, offset: u64) -> Option<u64> {
        let is_code = |segment: &Segment| segment.flags & segment_flag::EXECUTE != 0;
        let mut told =
            self.segments(file).filter(is_code).filter_map(|segment| bias_by(&segment, start, offset));
        let bias = told.next()?;
        told.all(|other| other == bias).then_some(bias)
    }
}

/// What is added to a segment's address if the page at `offset` in the file is mapped at `start` for it.
fn bias_by(segment: &Segment, start: u64, offset: u64) -> Option<u64> {
    let first = segment.offset & !(PAGE - 1);
    let end = segment.offset.checked_add(segment.file_bytes)?;
    let is_inside = segment.kind == segment_kind::LOAD && first <= offset && offset < end;
    is_inside.then(|| start.wrapping_sub(offset).wrapping_sub(segment.address.wrapping_sub(segment.offset)))
}

/// Puts an ELF header and program headers together that describe an image of `file` as it is mapped: who reads them at
/// `at` by [`Image::at_base`] finds its segments. `start` and `offset` are those of a mapping of its code. Gives the
/// lowest address of the image. `None`: the file is no image, the mapping is none of its code, or it has too many
/// headers.
///
/// Addresses in these headers are those in the process, so that the bias is 0.
pub fn headers_apart<M: Memory>(
    file: &M,
    (start, offset): (u64, u64),
    at: u64,
    to: &mut [u8; APART_BYTES],
) -> Option<u64> {
    let image = Image::of_file(file)?;
    let bias = image.bias_by_code(file, start, offset)?;
    let count = u16::try_from(image.header_count()).ok()?.checked_add(1)?;
    let (header, rest) = to.split_first_chunk_mut::<ELF_HEADER_BYTES>()?;
    if !file.copy(0, header) {
        return None;
    }
    set_bytes(header, PROGRAM_HEADERS, (ELF_HEADER_BYTES as u64).to_le_bytes())?;
    set_bytes(header, PROGRAM_HEADER_COUNT, count.to_le_bytes())?;
    let mut places = rest.chunks_exact_mut(HEADER_BYTES as usize);
    // The segment that begins the file is these headers: by it the bias is told.
    let own = places.next()?;
    own.fill(0);
    set_bytes(own, 0, segment_kind::LOAD.to_le_bytes())?;
    set_bytes(own, ADDRESS, at.to_le_bytes())?;
    let mut lowest = None;
    for index in 0..image.header_count() {
        let place = places.next()?;
        if !file.copy(image.headers().checked_add(index * HEADER_BYTES)?, place) {
            return None;
        }
        let address = u64::from_le_bytes(*place.get(ADDRESS..)?.first_chunk()?).wrapping_add(bias);
        set_bytes(place, ADDRESS, address.to_le_bytes())?;
        if place.first_chunk() == Some(&segment_kind::LOAD.to_le_bytes()) {
            lowest = Some(lowest.unwrap_or(u64::MAX).min(address & !(PAGE - 1)));
        }
    }
    lowest
}

fn set_bytes<const N: usize>(to: &mut [u8], at: usize, bytes: [u8; N]) -> Option<()> {
    *to.get_mut(at..)?.first_chunk_mut()? = bytes;
    Some(())
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::BytesAt;
    use std::vec::Vec;

    /// A file with these segments: flags, offset, address, bytes. Its program headers are at its end.
    fn file(segments: &[(u32, u64, u64, u64)]) -> Vec<u8> {
        let headers = segments.iter().map(|segment| segment.1 + segment.3).max().unwrap_or(64);
        let mut bytes = std::vec![0; headers as usize];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[32..40].copy_from_slice(&headers.to_le_bytes());
        bytes[54] = 56;
        bytes[56] = segments.len() as u8;
        for &(flags, offset, address, len) in segments {
            let words = [u64::from(flags) << 32 | 1, offset, address, address, len, len, PAGE];
            bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
        bytes
    }

    #[test]
    fn an_image_whose_headers_are_not_mapped_is_where_its_code_is() {
        let segments = [(5, 0x5000, 0x1000, 0x800), (6, 0x1000, 0x4000, 0x100), (5, 0x2040, 0x6040, 0x2000)];
        let bytes = file(&segments);
        const BIAS: u64 = 0x7f00_0000_0000;
        const AT: u64 = 0xffff_f000_0000_0000;
        let mut page = [0; APART_BYTES];
        for (start, offset) in [(0x1000, 0x5000), (0x6000, 0x2000), (0x7000, 0x3000)] {
            let lowest = headers_apart(&bytes.as_slice(), (BIAS + start, offset), AT, &mut page);
            assert_eq!(lowest, Some(BIAS + 0x1000), "{start:#x}");
            let memory = BytesAt { at: AT, bytes: &page };
            let image = Image::at_base(&memory, AT).expect("headers");
            assert_eq!(image.bias, 0);
            let addresses: Vec<u64> = image.segments(&memory).map(|segment| segment.address).collect();
            assert_eq!(addresses, [AT, BIAS + 0x1000, BIAS + 0x4000, BIAS + 0x6040]);
            assert!(image.has_mapping(&memory, BIAS + start, offset) && !image.are_headers_loaded(&memory));
            assert!(!image.has_mapping(&memory, BIAS + start + PAGE, offset));
        }
        let none = |bytes: &[u8], at| headers_apart(&bytes, at, AT, &mut [0; APART_BYTES]);
        assert_eq!(none(&bytes, (BIAS, 0x1000)), None, "data tell nothing");
        let twice = file(&[(5, 0x1000, 0x1000, 0x80), (5, 0x1080, 0x3080, 0x80)]);
        assert_eq!(none(&twice, (BIAS, 0x1000)), None, "two segments have this page");
    }

    #[test]
    fn what_is_no_image_has_no_headers() {
        let mut page = [0; APART_BYTES];
        let many: Vec<(u32, u64, u64, u64)> = (1..100).map(|n| (5, n << 12, n << 12, 16)).collect();
        for bytes in
            [&b"MZ"[..], b"\x7fELF\x02\x01", &file(&many), &file(&[(5, 0x1000, 0x1000, 16)])[..0x1020]]
        {
            assert_eq!(headers_apart(&bytes, (0x1000, 0x1000), 0, &mut page), None);
        }
    }
}
