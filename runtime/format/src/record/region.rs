//! Regions of code: their addresses and contents.

use super::write::Encoder;
use crate::head::kind;
use pct_elf::FileVersion;

/// A region of code: its addresses and contents. `T` holds octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionFacts<T> {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Offset of `start` in the file.
    pub offset: u64,
    /// Device, as `major << 32 | minor`.
    pub device: u64,
    /// Inode; 0 = no file.
    pub inode: u64,
    /// [`region_flag`].
    pub flags: u64,
    /// Build-id; may be empty.
    pub build_id: T,
    /// Path from the maps file, without ` (deleted)`; `[vdso]`; empty = anonymous.
    pub path: T,
    /// What tells the file's contents from others, if the object has no build-id. Older recordings say nothing.
    pub version: FileVersion,
}

impl<T> RegionFacts<T> {
    /// The same facts with their octets in another form.
    #[must_use]
    pub fn map<U>(self, mut octets: impl FnMut(T) -> U) -> RegionFacts<U> {
        let Self { start, end, offset, device, inode, flags, build_id, path, version } = self;
        let (build_id, path) = (octets(build_id), octets(path));
        RegionFacts { start, end, offset, device, inode, flags, build_id, path, version }
    }
}

impl<T: AsRef<[u8]>> RegionFacts<T> {
    /// The record that the region exists at raw time `time`, with number `id`. `None`: the buffer is too small.
    #[must_use]
    pub fn begin<'b>(&self, buffer: &'b mut [u64], id: u32, time: u64) -> Option<&'b [u64]> {
        Encoder::new(buffer)
            .raw_word(time)
            .number(self.start)
            .number(self.end)
            .number(self.offset)
            .number(self.device)
            .number(self.inode)
            .number(self.flags)
            .text(self.build_id.as_ref())
            .text(self.path.as_ref())
            .number(self.version.bytes)
            .number(self.version.changed_ns)
            .number(self.version.first_page)
            .finish(kind::REGION_BEGIN, id)
    }
}

/// Flags of a region.
pub mod region_flag {
    /// The file had been deleted or replaced when the region was found.
    pub const DELETED: u64 = 1;
    /// Writable as well (JIT code).
    pub const WRITABLE: u64 = 2;
    /// There is no file behind it.
    pub const ANONYMOUS: u64 = 4;
    /// The sampler's own code.
    pub const OURS: u64 = 8;
}
