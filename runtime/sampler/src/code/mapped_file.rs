//! The files behind mappings, and what tells their contents from later ones.
//!
//! Not for handlers: system calls.

use crate::code::maps::Mapping;
use crate::sys::loaded::MemoryFile;
use crate::sys::text::Buf;
use crate::sys::{self, Fd};
use pct_elf::{FileVersion, hash_first_page, maps_device};

/// Opens the file of a mapping by its path. `None`: it is gone, it cannot be read, it is no regular file, or the path
/// is too long. Another file may have that path by now.
pub(super) fn open(m: &Mapping<'_>) -> Option<Fd> {
    let (path, is_deleted) = m.file();
    if is_deleted || !path.starts_with(b"/") || path.starts_with(b"/dev/") {
        return None;
    }
    let file =
        sys::open(Buf::<1024>::new().push(path).with_nul()?, sys::O_RDONLY | sys::O_NONBLOCK, 0).ok()?;
    sys::regular_size(&file).ok()??;
    Some(file)
}

/// What tells the contents of the mapping's file from later ones. `first_page`: where its first page is mapped.
pub(super) fn version(m: &Mapping<'_>, first_page: Option<u64>, memory: &Fd) -> FileVersion {
    let hash = first_page.and_then(|at| hash_first_page(&MemoryFile(memory), at)).unwrap_or(0);
    let (bytes, changed_ns) = open(m).and_then(|file| size_and_change(&file, m, hash)).unwrap_or((0, 0));
    FileVersion { bytes, changed_ns, first_page: hash }
}

/// Size and time of the last change of an open file, if it is the mapping's and not one that took its path.
fn size_and_change(file: &Fd, m: &Mapping<'_>, first_page: u64) -> Option<(u64, u64)> {
    let [device, inode, bytes, seconds, nanoseconds] = sys::version_of_file(file).ok()?;
    let is_same = if maps_device(device) == m.device {
        inode == m.inode
    } else {
        // Some file systems (btrfs, overlayfs) show mappings another device than stat(2).
        first_page != 0 && hash_first_page(&MemoryFile(file), 0) == Some(first_page)
    };
    let changed_ns = FileVersion::changed_ns(seconds.cast_signed(), nanoseconds.cast_signed());
    is_same.then_some((bytes, changed_ns))
}
