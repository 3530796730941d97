//! One ELF image: the file (or the vdso's bytes), its build-id, its segments, its sections on demand.
//!
//! Nothing is kept that borrows from the bytes. Parsing the headers is cheap, so each question parses them anew,
//! and an [`Image`] is a plain value that threads can share.
//!
//! There are two kinds of address here. A *file offset* says from where in the file a sampled instruction was mapped;
//! a profile's region gives it. An *image address* is the address that the linker wrote into symbols and debug
//! information. [`Image::address_of_offset`] converts the first into the second by means of the segments.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use object::{Object, ObjectSection, ObjectSegment};
use pct_elf::{FIRST_PAGE_BYTES, FileVersion, hash_first_page, maps_device};

use crate::map::FileMap;
use crate::sections;

/// A build-id: the linker's fingerprint of an object, 1 to 64 bytes (usually 20).
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BuildId(Vec<u8>);

impl BuildId {
    /// A build-id from the bytes of the note's description. None if there are none, more than 64, or all are zero.
    pub fn new(bytes: &[u8]) -> Option<BuildId> {
        let sane = (1..=64).contains(&bytes.len()) && bytes.iter().any(|b| *b != 0);
        sane.then(|| BuildId(bytes.to_vec()))
    }

    /// Reads the usual hexadecimal form.
    pub fn parse(text: &str) -> Option<BuildId> {
        if !text.is_ascii() || !text.len().is_multiple_of(2) {
            return None;
        }
        let bytes: Option<Vec<u8>> =
            (0..text.len()).step_by(2).map(|i| u8::from_str_radix(text.get(i..i + 2)?, 16).ok()).collect();
        BuildId::new(&bytes?)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

/// Why an image could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The file could not be opened or mapped.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not an ELF file that pct can read.
    #[error("{path}: not a readable ELF file: {reason}", path = path.display())]
    NotElf {
        /// The file.
        path: PathBuf,
        /// The parser's error.
        reason: String,
    },
}

/// A loadable segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) address: u64,
    pub(crate) offset: u64,
    pub(crate) file_size: u64,
    pub(crate) mem_size: u64,
    pub(crate) executable: bool,
}

#[derive(Debug)]
enum Bytes {
    Map(FileMap),
    Owned(Vec<u8>),
}

/// One ELF image. See the module's text.
#[derive(Debug)]
pub struct Image {
    path: PathBuf,
    bytes: Bytes,
    build_id: Option<BuildId>,
    segments: Vec<Segment>,
    dev_ino: Option<(u64, u64)>,
    changed_ns: u64,
    /// Octets of the file, and the hash of its first page, before a section table was added.
    before: Option<(u64, u64)>,
    /// Sections after decompression, in the order of [`PACKABLE`].
    unpacked: [OnceLock<Vec<u8>>; PACKABLE.len()],
}

/// The hash of a file's first page.
fn first_page(file: &[u8]) -> u64 {
    let mut page = [0; FIRST_PAGE_BYTES];
    let there = file.len().min(FIRST_PAGE_BYTES);
    page[..there].copy_from_slice(&file[..there]);
    hash_first_page(&page.as_slice(), 0).unwrap_or(0)
}

/// Sections that are read and that may be compressed.
const PACKABLE: [&str; 15] = [
    ".debug_abbrev",
    ".debug_addr",
    ".debug_aranges",
    ".debug_info",
    ".debug_line",
    ".debug_line_str",
    ".debug_ranges",
    ".debug_rnglists",
    ".debug_str",
    ".debug_str_offsets",
    ".debug_types",
    ".debug_frame",
    ".symtab",
    ".strtab",
    ".gnu_debugdata",
];

impl Image {
    /// Opens and checks an ELF file.
    ///
    /// # Errors
    /// [`ImageError`]: it cannot be opened, or it is not ELF.
    pub fn open(path: &Path) -> Result<Image, ImageError> {
        use std::os::unix::fs::MetadataExt;
        let (map, meta) =
            FileMap::open(path).map_err(|source| ImageError::Io { path: path.to_path_buf(), source })?;
        let mut image = Image::of_bytes(path, Bytes::Map(map))?;
        image.dev_ino = Some((maps_device(meta.dev()), meta.ino()));
        image.changed_ns = FileVersion::changed_ns(meta.mtime(), meta.mtime_nsec());
        Ok(image)
    }

    /// An image that is already in memory (the vdso). `path` is used in messages only.
    ///
    /// # Errors
    /// [`ImageError::NotElf`].
    pub fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<Image, ImageError> {
        Image::of_bytes(path, Bytes::Owned(bytes))
    }

    fn of_bytes(path: &Path, bytes: Bytes) -> Result<Image, ImageError> {
        let mut image = Image {
            path: path.to_path_buf(),
            bytes,
            build_id: None,
            segments: Vec::new(),
            dev_ino: None,
            changed_ns: 0,
            before: None,
            unpacked: Default::default(),
        };
        let not_elf = |reason: String| ImageError::NotElf { path: path.to_path_buf(), reason };
        if !image.data().starts_with(b"\x7fELF") {
            return Err(not_elf("no ELF magic".into()));
        }
        if sections::are_missing(image.data())
            && let Some(whole) = sections::with_table(image.data())
        {
            image.before = Some((image.data().len() as u64, first_page(image.data())));
            image.bytes = Bytes::Owned(whole);
        }
        let file = object::File::parse(image.data()).map_err(|e| not_elf(e.to_string()))?;
        let build_id = file.build_id().ok().flatten().and_then(BuildId::new);
        let segments = file
            .segments()
            .map(|s| {
                let (offset, file_size) = s.file_range();
                let executable = match s.flags() {
                    object::SegmentFlags::Elf { p_flags, .. } => p_flags.0 & 1 != 0,
                    _ => false,
                };
                Segment { address: s.address(), offset, file_size, mem_size: s.size(), executable }
            })
            .collect();
        image.build_id = build_id;
        image.segments = segments;
        Ok(image)
    }

    /// The path of the image.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its build-id, if it has one.
    pub fn build_id(&self) -> Option<&BuildId> {
        self.build_id.as_ref()
    }

    /// Device (as [`ObjectInfo::dev_ino`](crate::ObjectInfo::dev_ino) has it) and inode, for a file.
    pub fn dev_ino(&self) -> Option<(u64, u64)> {
        self.dev_ino
    }

    /// What tells the contents of the image's file from others.
    pub(crate) fn version(&self) -> FileVersion {
        let (bytes, first_page) =
            self.before.unwrap_or_else(|| (self.data().len() as u64, first_page(self.data())));
        FileVersion { bytes, changed_ns: self.changed_ns, first_page }
    }

    pub(crate) fn data(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Map(map) => map,
            Bytes::Owned(bytes) => bytes,
        }
    }

    /// The parsed headers. `None` is impossible for an image that `open` accepted, unless the file changes meanwhile.
    pub(crate) fn elf(&self) -> Option<object::File<'_>> {
        object::File::parse(self.data()).ok()
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The image address of the instruction at a file offset. None: no segment contains that offset.
    ///
    /// If two segments share a page of the file, the executable one is preferred.
    pub fn address_of_offset(&self, offset: u64) -> Option<u64> {
        let inside = |s: &&Segment| offset >= s.offset && offset - s.offset < s.file_size;
        let exact = self
            .segments
            .iter()
            .filter(|s| s.executable)
            .find(inside)
            .or_else(|| self.segments.iter().find(inside));
        if let Some(s) = exact {
            return s.address.checked_add(offset - s.offset);
        }
        // Mappings are whole pages, so the bytes around a segment in its pages are mapped too.
        const PAGE: u64 = 4096;
        self.segments.iter().filter(|s| s.executable && s.file_size > 0).find_map(|s| {
            let start = s.offset & !(PAGE - 1);
            let end = s.offset.checked_add(s.file_size)?.checked_next_multiple_of(PAGE)?;
            (offset >= start && offset < end).then(|| s.address.wrapping_add(offset).wrapping_sub(s.offset))
        })
    }

    /// The file offset of an image address.
    pub fn offset_of_address(&self, address: u64) -> Option<u64> {
        let s = self.segments.iter().find(|s| address >= s.address && address - s.address < s.file_size)?;
        s.offset.checked_add(address - s.address)
    }

    /// The image address of a file offset, computed from the one executable segment and the file offset at which its
    /// mapping began. Debug files need this, because their own segments do not give offsets.
    pub(crate) fn address_by_mapping(&self, offset: u64, map_offset: u64) -> Option<u64> {
        let mut executable = self.segments.iter().filter(|s| s.executable && s.mem_size > 0);
        let only = executable.next()?;
        if executable.next().is_some() {
            return None;
        }
        let address = (only.address & !4095).checked_add(offset.checked_sub(map_offset)?)?;
        (address < only.address.checked_add(only.mem_size)?).then_some(address)
    }

    /// Whether the image itself contains line and function information.
    pub fn has_debug_info(&self) -> bool {
        self.section_range(".debug_info").is_some_and(|(_, size)| size > 0)
            || self.elf().is_some_and(|e| e.section_by_name(".zdebug_info").is_some())
    }

    /// Address and file size of a section that has bytes in the file.
    pub(crate) fn section_range(&self, name: &str) -> Option<(u64, u64)> {
        let elf = self.elf()?;
        let section = elf.section_by_name(name)?;
        section.file_range()?;
        Some((section.address(), section.size()))
    }

    /// The bytes of a section, decompressed if necessary. Empty if there is no such section or it is damaged.
    pub(crate) fn section(&self, name: &str) -> &[u8] {
        let Some(elf) = self.elf() else { return &[] };
        let Some(section) = elf.section_by_name(name) else { return &[] };
        let Ok(packed) = section.compressed_data() else { return &[] };
        if packed.format == object::CompressionFormat::None {
            return section.data().unwrap_or(&[]);
        }
        match PACKABLE.iter().position(|n| *n == name) {
            Some(i) => {
                self.unpacked[i].get_or_init(|| unpack(&packed).map_or_else(Vec::new, Cow::into_owned))
            }
            None => &[],
        }
    }
}

/// Decompresses a section if its compressed bytes can hold the size that its header promises: deflate cannot do
/// better than 1032 to 1, and more is not believed of zstd either.
fn unpack<'a>(packed: &object::CompressedData<'a>) -> Option<Cow<'a, [u8]>> {
    let most = (packed.data.len() as u64).checked_mul(1100)?.checked_add(4096)?;
    if packed.uncompressed_size > most {
        return None;
    }
    packed.decompress().ok()
}
