//! Where the ELF headers of the object are to which a mapping of code belongs.
//!
//! Usually they are in the file's first page, which is mapped below the code. Files may be mapped more than once, and
//! what tools have changed may have its headers in no mapping: then they are read from the file
//! ([`pct_elf::headers_apart`]).

use crate::memory::{Memory, Readable};
use pct_elf::{
    APART_BYTES, Ahead, BytesAt, FIRST_PAGE_BYTES, FileVersion, HEAD_BYTES, Image, hash_first_page,
    headers_apart,
};
use procfs::process::{MMPermissions, MMapPath, MemoryMap};
use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Where headers are that are in no mapping: no process has anything there.
const NOWHERE: u64 = 0xffff_f000_0000_0000;
/// Octets that a file has in common with its mapping, as a proof that it is that file.
const PROOF_OCTETS: usize = 64;

/// An object's headers.
pub(crate) struct Headers {
    /// Where [`Image::at_base`] finds them, in the memory that [`Headers::with`] gives.
    pub(crate) at: u64,
    /// Lowest address of the object.
    pub(crate) lowest: u64,
    apart: Option<Box<[u8; APART_BYTES]>>,
}

impl Headers {
    /// Those of the object to which `map` belongs, one of the `maps` of process `pid`. `None`: it is no object, or
    /// they cannot be read.
    pub(crate) fn of_mapping(
        map: &MemoryMap,
        maps: &[MemoryMap],
        pid: i32,
        memory: &impl Memory,
    ) -> Option<Headers> {
        if map.pathname == MMapPath::Vdso {
            return Some(Headers { at: map.address.0, lowest: map.address.0, apart: None });
        }
        if map.inode == 0 {
            return None;
        }
        let readable = Readable(memory);
        let mapped = first_pages(maps, map).find_map(|at| {
            let head = Ahead::<_, HEAD_BYTES>::new(&readable, at);
            let image = Image::at_base(&head, at)?;
            let is_of =
                image.has_mapping(&head, map.address.0, map.offset) && image.are_headers_loaded(&head);
            is_of.then_some(())?;
            Some(Headers { at, lowest: image.lowest(&head)?, apart: None })
        });
        mapped.or_else(|| Headers::apart(map, pid, memory))
    }

    fn apart(map: &MemoryMap, pid: i32, memory: &impl Memory) -> Option<Headers> {
        let file = FileOctets(open(map, pid)?);
        let mut there = [0; PROOF_OCTETS];
        memory.read(map.address.0, &mut there).ok()?;
        (pct_elf::Memory::bytes(&file, map.offset)? == there).then_some(())?;
        let mut octets = Box::new([0; APART_BYTES]);
        let lowest = headers_apart(&file, (map.address.0, map.offset), NOWHERE, &mut octets)?;
        Some(Headers { at: NOWHERE, lowest, apart: Some(octets) })
    }

    /// The object's build-id.
    pub(crate) fn build_id(&self, memory: &impl Memory) -> Option<Vec<u8>> {
        let (memory, mut id) = (self.with(memory), [0; 32]);
        let count = Image::at_base(&memory, self.at)?.build_id(&memory, &mut id)?;
        id.get(..count).map(<[u8]>::to_vec)
    }

    /// What tells the contents of the object's file from others. `map` is one of its mappings in process `pid`.
    pub(crate) fn version(&self, map: &MemoryMap, pid: i32, memory: &impl Memory) -> FileVersion {
        let mapped = self.apart.is_none().then(|| hash_first_page(&Readable(memory), self.at)).flatten();
        let first_page = mapped.unwrap_or(0);
        let file = open(map, pid).filter(|file| {
            file.metadata().is_ok_and(|facts| facts.ino() == map.inode)
                && (first_page == 0 || first_page_of(file) == Some(first_page))
        });
        let (bytes, changed_ns) = file.and_then(|file| file.metadata().ok()).map_or((0, 0), |facts| {
            (facts.len(), FileVersion::changed_ns(facts.mtime(), facts.mtime_nsec()))
        });
        FileVersion { bytes, changed_ns, first_page }
    }

    /// A process's memory, with these headers in it.
    pub(crate) fn with<'m, M: Memory>(&'m self, memory: &'m M) -> WithHeaders<'m, M> {
        let bytes = self.apart.as_deref().map_or(&[][..], <[u8; APART_BYTES]>::as_slice);
        WithHeaders { memory: Readable(memory), apart: BytesAt { at: NOWHERE, bytes } }
    }
}

/// Addresses at which the first page of this mapping's file is mapped, the nearest below it first.
fn first_pages<'m>(maps: &'m [MemoryMap], map: &'m MemoryMap) -> impl Iterator<Item = u64> + 'm {
    let file = |map: &MemoryMap| (map.dev.0, map.dev.1, map.inode);
    let of_file = move |m: &&MemoryMap| file(m) == file(map) && m.offset == 0;
    let readable = |m: &&MemoryMap| m.perms.contains(MMPermissions::READ);
    let below = move |at: &u64| *at <= map.address.0;
    maps.iter().rev().filter(of_file).filter(readable).map(|m| m.address.0).filter(below)
}

/// The file of a mapping: the one that is mapped where the kernel gives it to us, else that of its path.
fn open(map: &MemoryMap, pid: i32) -> Option<File> {
    const O_NONBLOCK: i32 = 0o4000;
    let MMapPath::Path(path) = &map.pathname else { return None };
    let is_file = !path.starts_with("/dev") && !path.as_os_str().as_bytes().ends_with(b" (deleted)");
    let folder = crate::tasks::folder(pid);
    let mapped = folder.join(format!("map_files/{:x}-{:x}", map.address.0, map.address.1));
    let named = folder.join("root").join(path.strip_prefix("/").unwrap_or(path));
    let regular = |path: &Path| {
        let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path).ok()?;
        file.metadata().is_ok_and(|facts| facts.is_file()).then_some(file)
    };
    let paths: [Option<PathBuf>; 2] = [Some(mapped), is_file.then_some(named)];
    paths.into_iter().flatten().find_map(|path| regular(&path))
}

/// [`hash_first_page`] of a file, which may be shorter than a page.
fn first_page_of(file: &File) -> Option<u64> {
    let mut page = Vec::with_capacity(FIRST_PAGE_BYTES);
    file.take(FIRST_PAGE_BYTES as u64).read_to_end(&mut page).ok()?;
    page.resize(FIRST_PAGE_BYTES, 0);
    hash_first_page(&page.as_slice(), 0)
}

/// The octets of a file, by their offsets.
struct FileOctets(File);

impl pct_elf::Memory for FileOctets {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        self.0.read_exact_at(into, at).is_ok()
    }
}

/// A process's memory, and headers that are not in it.
pub(crate) struct WithHeaders<'m, M> {
    memory: Readable<'m, M>,
    apart: BytesAt<'m>,
}

impl<M: Memory> pct_elf::Memory for WithHeaders<'_, M> {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        self.apart.copy(at, into) || self.memory.copy(at, into)
    }
}
