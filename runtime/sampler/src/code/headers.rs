//! Where the headers of the object are whose mappings pass by in the maps file.
//!
//! Usually the file's first page is mapped, below the object's code, and has them. A file can be mapped more than once,
//! the first page too (small files have code and data in one page), and other mappings may lie between an object's:
//! anonymous ones where its bss is, other objects in its gaps. What tools have changed may have its headers elsewhere:
//! then they are read from the file, and put together in a page of ours.
//!
//! Not for handlers: system calls.

use crate::code::mapped_file;
use crate::code::maps::Mapping;
use crate::sys::loaded::MemoryFile;
use crate::sys::{self, Fd};
use pct_elf::{APART_BYTES, Ahead, HEAD_BYTES, Image, Memory, headers_apart};

/// First pages that are remembered: between two mappings of an object, so many others may begin.
const REMEMBERED: usize = 8;
/// Most objects whose headers are put together. Their pages stay.
const MOST_APART: usize = 512;
/// Bytes that a file has in common with its mapping, as a proof that it is that file.
const PROOF_BYTES: usize = 64;

/// A file's first page that is mapped at `start`.
#[derive(Clone, Copy, Debug, Default)]
struct FirstPage {
    device: u64,
    inode: u64,
    start: u64,
}

/// The first pages that passed by last.
#[derive(Debug, Default)]
pub(super) struct FirstPages {
    pages: [FirstPage; REMEMBERED],
    count: usize,
}

impl FirstPages {
    /// A mapping passes by.
    pub(super) fn note(&mut self, m: &Mapping<'_>, memory: Option<&Fd>) {
        if m.inode == 0 || m.offset != 0 || !m.readable() {
            return;
        }
        // The first page once more: another image begins, or a segment of the same one has it too.
        if let (Some(first), Some(memory)) = (self.nearest(m), memory)
            && image_at(&MemoryFile(memory), first)
                .is_some_and(|image| image.has_mapping(&MemoryFile(memory), m.start, 0))
        {
            return;
        }
        if let Some(place) = self.pages.get_mut(self.count % REMEMBERED) {
            *place = FirstPage { device: m.device, inode: m.inode, start: m.start };
            self.count += 1;
        }
    }

    /// Where the first page of this mapping's file is mapped: the nearest one below.
    pub(super) fn nearest(&self, m: &Mapping<'_>) -> Option<u64> {
        let same = self.pages.iter().filter(|page| (page.device, page.inode) == (m.device, m.inode));
        same.map(|page| page.start).max().filter(|start| m.inode != 0 && *start != 0)
    }
}

fn image_at<M: Memory>(memory: &M, base: u64) -> Option<Image> {
    Image::at_base(&Ahead::<_, HEAD_BYTES>::new(memory, base), base)
}

/// Headers that are in no mapping.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Apart {
    device: u64,
    inode: u64,
    /// Lowest address of the image.
    lowest: u64,
    /// Our page that has them, 0 = none.
    page: u64,
}

/// All that were put together. Zeros: none.
#[derive(Debug)]
#[repr(C)]
pub(super) struct HeadersApart {
    all: [Apart; MOST_APART],
}

impl HeadersApart {
    /// Where there are headers of the object to which this mapping of code belongs. `None`: its file cannot be read, or
    /// is another one now, or has none; or there are too many such objects.
    pub(super) fn page_for(&mut self, m: &Mapping<'_>, memory: &Fd) -> Option<u64> {
        let file = mapped_file::open(m)?;
        let (file, memory) = (MemoryFile(&file), MemoryFile(memory));
        Image::of_file(&file)?;
        if file.bytes::<PROOF_BYTES>(m.offset)? != memory.bytes::<PROOF_BYTES>(m.start)? {
            return None;
        }
        let page = sys::map_memory(APART_BYTES).ok()?;
        let at = page.expose_provenance() as u64;
        // SAFETY: fresh memory of that many bytes, page-aligned, which nobody else knows.
        let bytes = unsafe { &mut *page.cast::<[u8; APART_BYTES]>() };
        let lowest = headers_apart(&file, (m.start, m.offset), at, bytes);
        let kept =
            lowest.and_then(|lowest| self.keep(Apart { device: m.device, inode: m.inode, lowest, page: at }));
        if kept != Some(at) {
            // SAFETY: as above; nobody was told of it.
            unsafe { sys::unmap(page, APART_BYTES) };
        }
        kept
    }

    /// The page that has the headers of this object: that of another of its mappings, or this one. `None`: no room.
    fn keep(&mut self, new: Apart) -> Option<u64> {
        let is_same = |known: &&mut Apart| {
            known.page == 0
                || (known.device, known.inode, known.lowest) == (new.device, new.inode, new.lowest)
        };
        let place = self.all.iter_mut().find(is_same)?;
        if place.page == 0 {
            *place = new;
        }
        Some(place.page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(line: &str) -> Mapping<'_> {
        Mapping::parse(line.as_bytes()).expect("a line of the maps file")
    }

    #[test]
    fn an_object_goes_on_behind_what_lies_between_its_mappings() {
        let mut pages = FirstPages::default();
        for (line, want) in [
            ("1000-2000 r--p 00000000 08:01 5 /lib/a.so", Some(0x1000)),
            ("2000-3000 r-xp 00001000 08:01 5 /lib/a.so", Some(0x1000)),
            // Its bss, and another object in a gap.
            ("4000-5000 rw-p 00000000 00:00 0 ", None),
            ("5000-6000 r-xp 00000000 08:01 6 /lib/b.so", Some(0x5000)),
            ("7000-8000 r-xp 00004000 08:01 5 /lib/a.so", Some(0x1000)),
            // The same file once more.
            ("9000-a000 r--p 00000000 08:01 5 /lib/a.so", Some(0x9000)),
            ("a000-b000 r-xp 00001000 08:01 5 /lib/a.so", Some(0x9000)),
            ("b000-c000 r-xp 00000000 00:00 0 ", None),
            ("c000-d000 --xp 00000000 08:01 7 /lib/hidden.so", None),
            ("d000-e000 r-xp 00000000 08:02 5 /mnt/other.so", Some(0xd000)),
        ] {
            let m = mapping(line);
            pages.note(&m, None);
            assert_eq!(pages.nearest(&m), want, "{line}");
        }
    }

    #[test]
    fn a_page_with_headers_is_made_once_for_an_object() {
        let mut none = HeadersApart { all: [Apart::default(); MOST_APART] };
        let of = |inode, page| Apart { device: 1, inode, lowest: 0x1000, page };
        assert_eq!(none.keep(of(1, 0x10)), Some(0x10));
        assert_eq!(none.keep(of(1, 0x20)), Some(0x10), "another of its mappings");
        assert_eq!(none.keep(of(2, 0x30)), Some(0x30));
        assert_eq!(none.keep(Apart { lowest: 0x9000, ..of(1, 0x40) }), Some(0x40), "mapped once more");
        for inode in 3..1000 {
            none.keep(of(inode, inode << 12));
        }
        assert_eq!(none.keep(of(2000, 0x50)), None, "no room");
        assert_eq!(none.keep(of(2, 0x60)), Some(0x30));
    }
}
