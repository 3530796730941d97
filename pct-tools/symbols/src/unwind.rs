//! An object's unwind data, for recordings that contain copies of registers and stack and leave the unwinding to
//! readers.
//!
//! The data is [`pct_unwind`]'s table over the file's own sections. Its addresses are the image's own. Like that
//! crate, it supports x86-64 only.

use std::fmt;

use object::Object as _;
use pct_unwind::reader::Section;
use pct_unwind::table::{self, FdeRef, Header, Table};
use self_cell::{MutBorrow, self_cell};

use crate::image::Image;

/// What a table refers to.
struct Parts {
    image: Image,
    index: Vec<FdeRef>,
    buckets: MutBorrow<Vec<u32>>,
    /// Address of `.eh_frame`.
    eh_frame: u64,
}

self_cell!(
    struct TableOfImage {
        owner: Parts,
        #[covariant]
        dependent: Table,
    }
);

/// The unwind data of an object's file.
pub struct UnwindData(TableOfImage);

impl fmt::Debug for UnwindData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnwindData")
            .field("path", &self.0.borrow_owner().image.path())
            .finish_non_exhaustive()
    }
}

impl UnwindData {
    /// The unwind data of an image. `None`: it has none, or is for another machine.
    pub fn from_image(image: Image) -> Option<UnwindData> {
        if image.elf()?.architecture() != object::Architecture::X86_64 {
            return None;
        }
        let (eh_frame, _) = image.section_range(".eh_frame")?;
        let lowest = image.segments().iter().map(|segment| segment.address).min()?;
        let index = listed(&image, eh_frame, lowest).unwrap_or_else(|| {
            let section = Section { bytes: image.section(".eh_frame"), addr: eh_frame };
            // The shortest entry has 16 bytes.
            let mut index = vec![FdeRef::default(); section.bytes.len() / 16];
            let entries = table::index_by_scan(&section, lowest, &mut index);
            index.truncate(entries);
            index
        });
        if index.is_empty() {
            return None;
        }
        let buckets = MutBorrow::new(vec![0; table::buckets_for(index.len())]);
        let parts = Parts { image, index, buckets, eh_frame };
        Some(UnwindData(TableOfImage::new(parts, |parts| {
            let section = Section { bytes: parts.image.section(".eh_frame"), addr: parts.eh_frame };
            Table::new(lowest, section, &parts.index, parts.buckets.borrow_mut())
        })))
    }

    /// The table. Its addresses are the image's own.
    pub fn table(&self) -> &Table<'_> {
        self.0.borrow_dependent()
    }

    /// The image address of the instruction at this file offset.
    pub fn address_of_offset(&self, offset: u64) -> Option<u64> {
        self.0.borrow_owner().image.address_of_offset(offset)
    }
}

/// The index that the linker wrote, if it is valid.
fn listed(image: &Image, eh_frame: u64, lowest: u64) -> Option<Vec<FdeRef>> {
    let (addr, _) = image.section_range(".eh_frame_hdr")?;
    let bytes = image.section(".eh_frame_hdr");
    let (at, entries) = Header::parse(&Section { bytes, addr })?.list?;
    let list = bytes.get(at..at.checked_add(entries.checked_mul(size_of::<FdeRef>())?)?)?;
    let word = |bytes: &[u8]| bytes.first_chunk().map(|word| u32::from_le_bytes(*word));
    let entry = |bytes: &[u8; 8]| Some(FdeRef { pc: word(bytes)?, fde: word(&bytes[4..])? });
    let mut index: Vec<FdeRef> = list.as_chunks().0.iter().map(entry).collect::<Option<_>>()?;
    table::adopt_list(&mut index, addr, lowest, eh_frame).then_some(index)
}
