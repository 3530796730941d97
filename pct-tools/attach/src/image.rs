//! ELF images in the target's memory, read by [`pct_elf`]: symbols, the PCT note, and the difference between a loaded
//! image and one that is being loaded.
//!
//! The image in memory is right even if the file was replaced, deleted, or is in another mount namespace.

use crate::memory::{Memory, Readable};
use pct_elf::{Dynamic, HEAD_BYTES, Notes, Segment, segment_flag, segment_kind};
use procfs::process::{MMPermissions, MemoryMap};
use std::io;

/// Most undefined relocations, and the longest path, that are read of an image.
const BOUND: u64 = 4096;
/// Most octets of notes that are read.
const MOST_NOTES: u64 = 1 << 16;
/// Octets of a dynamic section that are read in one piece.
const DYNAMIC: usize = 40 * 16;

/// One ELF image in memory.
#[derive(Debug, Clone, Default)]
pub struct Image {
    /// Difference between an address in the target and the image's own address.
    pub bias: u64,
    segments: Vec<Segment>,
    dynamic: Dynamic,
}

/// The PCT note of libpct.so and libpct.a, with absolute addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PctNote {
    /// Version of the interface. This crate supports version 1.
    pub abi: u64,
    /// `int pct_on(const char *options)`.
    pub on: u64,
    /// `int pct_off(void)`.
    pub off: u64,
    /// `int pct_stat(...)`.
    pub stat: u64,
}

fn invalid(what: &str, at: u64) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} at {at:#x} of the target"))
}

impl Image {
    /// Reads the image whose ELF header is mapped at `start`.
    ///
    /// # Errors
    /// When the memory cannot be read or holds no 64-bit ELF image.
    pub fn at_header(memory: &impl Memory, start: u64) -> io::Result<Image> {
        let readable = Readable(memory);
        let ahead = pct_elf::Ahead::<_, HEAD_BYTES>::new(&readable, start);
        let image = pct_elf::Image::at_base(&ahead, start);
        image.map(|image| Self::read(image, &ahead)).ok_or_else(|| invalid("no 64-bit ELF image", start))
    }

    /// Reads the program's own image, using AT_PHDR and AT_PHNUM of the auxiliary vector.
    pub fn of_program(memory: &impl Memory, phdr: u64, phnum: u64) -> Image {
        let readable = Readable(memory);
        let ahead = pct_elf::Ahead::<_, HEAD_BYTES>::new(&readable, phdr);
        Self::read(pct_elf::Image::with_headers(&ahead, phdr, phnum), &ahead)
    }

    fn read(image: pct_elf::Image, memory: &impl pct_elf::Memory) -> Image {
        let dynamic = image.dynamic(memory).map(|at| {
            let ahead = pct_elf::Ahead::<_, DYNAMIC>::new(memory, at);
            Dynamic::read(&ahead, at, image.bias)
        });
        Image {
            bias: image.bias,
            segments: image.segments(memory).collect(),
            dynamic: dynamic.unwrap_or_default(),
        }
    }

    /// The image of the program that `pid` runs, found through the kernel's auxiliary vector.
    pub fn program_of(pid: i32, memory: &impl Memory) -> Option<Image> {
        const AT_PHDR: u64 = 3;
        const AT_PHNUM: u64 = 5;
        let auxv = std::fs::read(crate::tasks::folder(pid).join("auxv")).ok()?;
        let value = |tag: u64| {
            auxv.chunks_exact(16).find_map(|c| {
                let word = |b: &[u8]| u64::from_ne_bytes(b.try_into().unwrap_or_default());
                (word(&c[..8]) == tag).then(|| word(&c[8..]))
            })
        };
        Some(Image::of_program(memory, value(AT_PHDR)?, value(AT_PHNUM)?))
    }

    /// The loader's path in PT_INTERP. `None`: a static image.
    pub fn interpreter(&self, memory: &impl Memory) -> Option<Vec<u8>> {
        let s = self.segments.iter().find(|s| s.kind == segment_kind::INTERPRETER)?;
        let text = memory.bytes(self.bias.wrapping_add(s.address), s.memory_bytes, BOUND).ok()?;
        Some(text.split(|b| *b == 0).next().unwrap_or_default().to_vec())
    }

    /// Whether there is a dynamic section: the image is a shared object, a dynamic program, or a static-pie.
    pub fn has_dynamic(&self) -> bool {
        self.segments.iter().any(|s| s.kind == segment_kind::DYNAMIC)
    }

    /// DT_SONAME.
    pub fn soname(&self, memory: &impl Memory) -> Option<Vec<u8>> {
        memory.string(self.dynamic.strings.wrapping_add(self.dynamic.soname?), 256).ok()
    }

    /// Whether its segments are mapped as they must be: code is executable, data is writable. A loader first maps the
    /// whole file like the first segment; the data's addresses then hold something else.
    pub fn is_mapped(&self, maps: &[MemoryMap]) -> bool {
        let allows = |at: u64, what: MMPermissions| {
            maps.iter().any(|m| (m.address.0..m.address.1).contains(&at) && m.perms.contains(what))
        };
        self.segments.iter().filter(|s| s.kind == segment_kind::LOAD && s.memory_bytes > 0).all(|s| {
            let start = self.bias.wrapping_add(s.address);
            // the start of the data may have been protected again
            let end = start.wrapping_add(s.memory_bytes - 1);
            (s.flags & segment_flag::EXECUTE == 0 || allows(start, MMPermissions::EXECUTE))
                && (s.flags & segment_flag::WRITE == 0 || allows(end, MMPermissions::WRITE))
        })
    }

    /// Whether the loader has finished this object: the last of its relocations is in place. (A dlopen may be running
    /// in another thread, and the object is in the map long before its code may be called.) [`Image::is_mapped`] must
    /// be true.
    pub fn is_relocated(&self, memory: &impl Memory) -> bool {
        const ENTRY: u64 = 24;
        const RELATIVE: u64 = 8;
        let (table, count) = (self.dynamic.relocations, self.dynamic.relocation_bytes / ENTRY);
        if table == 0 {
            return true;
        }
        // loaders process the table from its start
        for index in (count.saturating_sub(BOUND)..count).rev() {
            let at = table.wrapping_add(index.saturating_mul(ENTRY));
            let words = [at, at.wrapping_add(8), at.wrapping_add(16)].map(|at| memory.read_word(at));
            let [Ok(place), Ok(info), Ok(addend)] = words else { return false };
            let Ok(value) = memory.read_word(self.bias.wrapping_add(place)) else { return false };
            if info & 0xffff_ffff == RELATIVE {
                return value != 0 && value != addend;
            }
            if value != 0 {
                return true;
            }
            // a weak symbol that nobody defines stays 0
            let section = self.dynamic.symbols.wrapping_add((info >> 32).saturating_mul(24)).wrapping_add(4);
            match memory.half(section) {
                Ok(word) if word >> 16 == 0 => {}
                _ => return false,
            }
        }
        true
    }

    /// The address of the loader's `struct r_debug`, from DT_DEBUG.
    pub fn debug(&self) -> Option<u64> {
        Some(self.dynamic.debug).filter(|debug| *debug != 0)
    }

    /// Whether the loader writes, or has written, the address of its `struct r_debug` here.
    pub fn has_debug(&self) -> bool {
        self.dynamic.has_debug
    }

    /// Whether its dynamic section names at least one library.
    pub fn needs_library(&self) -> bool {
        self.dynamic.needs_library
    }

    /// The address of the dynamic symbol `name`. IFUNC symbols are refused, as a resolver is not the function itself.
    pub fn symbol(&self, memory: &impl Memory, name: &str) -> Option<u64> {
        self.function(memory, name).map(|(address, _)| address)
    }

    /// The loaded segments as address ranges.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let loads = self.segments.iter().filter(|s| s.kind == segment_kind::LOAD);
        loads.map(|s| {
            let from = self.bias.wrapping_add(s.address);
            (from, from.wrapping_add(s.memory_bytes))
        })
    }

    /// Unused bytes behind the end of executable segments, up to the end of the page: (address, octets). They are
    /// mapped executable and hold nothing of the image.
    pub fn padding(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let code = self
            .segments
            .iter()
            .filter(|s| s.kind == segment_kind::LOAD && s.flags & segment_flag::EXECUTE != 0);
        code.filter_map(|s| {
            let end = self.bias.checked_add(s.address)?.checked_add(s.memory_bytes)?;
            Some((end, end.checked_next_multiple_of(4096)? - end))
        })
    }

    /// Address and size of the dynamic symbol `name`.
    pub fn function(&self, memory: &impl Memory, name: &str) -> Option<(u64, u64)> {
        let symbol = self.dynamic.symbols()?.find(&Readable(memory), name.as_bytes())?;
        Some((symbol.address, symbol.bytes))
    }

    /// The build-id (the GNU note of type 3), if the image's note segments can be read.
    pub fn build_id(&self, memory: &impl Memory) -> Option<Vec<u8>> {
        let id_of = |raw: &[u8]| Notes::new(raw).build_id().filter(|id| id.len() <= 32).map(<[u8]>::to_vec);
        self.notes(memory).find_map(|(raw, _)| id_of(&raw))
    }

    /// The octets and addresses of the note segments.
    fn notes<'a>(&'a self, memory: &'a impl Memory) -> impl Iterator<Item = (Vec<u8>, u64)> + 'a {
        self.segments.iter().filter(|s| s.kind == segment_kind::NOTE).filter_map(move |s| {
            let at = self.bias.wrapping_add(s.address);
            Some((memory.bytes(at, s.memory_bytes, MOST_NOTES).ok()?, at))
        })
    }

    /// The PCT note, if this image contains the sampler (docs: attach, "the note").
    pub fn pct_note(&self, memory: &impl Memory) -> Option<PctNote> {
        self.notes(memory).find_map(|(raw, at)| find_note(&raw, at))
    }
}

/// Finds the PCT note in `raw`, which lies at `at`: the version and three offsets, each relative to its own address.
pub(crate) fn find_note(raw: &[u8], at: u64) -> Option<PctNote> {
    let note = Notes::new(raw).find(|n| n.owner == b"PCT\0" && n.kind == 1 && n.desc.len() >= 32)?;
    let word = |i: usize| Some(u64::from_ne_bytes(note.desc.get(8 * i..8 * i + 8)?.try_into().ok()?));
    let target = |i: usize| Some(at.wrapping_add((note.desc_at + 8 * i) as u64).wrapping_add(word(i)?));
    Some(PctNote { abi: word(0)?, on: target(1)?, off: target(2)?, stat: target(3)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::ProcessMemory;
    use proptest::prelude::*;

    fn note(abi: u64, offsets: [i64; 3]) -> Vec<u8> {
        let mut raw = Vec::new();
        for half in [4u32, 32, 1] {
            raw.extend(half.to_ne_bytes());
        }
        raw.extend(b"PCT\0");
        raw.extend(abi.to_ne_bytes());
        for o in offsets {
            raw.extend(o.to_ne_bytes());
        }
        raw
    }

    #[test]
    fn the_note_is_found_behind_other_notes_and_its_offsets_are_relative() {
        let mut raw = Vec::new();
        for half in [4u32, 5, 3] {
            raw.extend(half.to_ne_bytes());
        }
        raw.extend(b"GNU\0\x01\x02\x03\x04\x05\0\0\0");
        let start = raw.len() as u64;
        raw.extend(note(1, [-100, 200, 300]));
        let found = find_note(&raw, 0x10_000).unwrap();
        let word = 0x10_000 + start + 16;
        assert_eq!(
            found,
            PctNote { abi: 1, on: word + 8 - 100, off: word + 16 + 200, stat: word + 24 + 300 }
        );
    }

    #[test]
    fn an_object_whose_segments_are_still_to_be_mapped_is_not_whole() {
        use procfs::process::MMapPath;
        let load = |flags, address, memory_bytes| Segment {
            kind: segment_kind::LOAD,
            flags,
            offset: 0,
            address,
            file_bytes: 0,
            memory_bytes,
        };
        let segments = vec![load(4, 0, 0x800), load(5, 0x1000, 0x800), load(6, 0x3f00, 0x200)];
        let image = Image { bias: 0x10_0000, segments, ..Image::default() };
        let map = |from: u64, to: u64, perms| MemoryMap {
            address: (0x10_0000 + from, 0x10_0000 + to),
            perms,
            offset: 0,
            dev: (0, 0),
            inode: 0,
            pathname: MMapPath::Anonymous,
            extension: Default::default(),
        };
        let (r, w, x) = (MMPermissions::READ, MMPermissions::WRITE, MMPermissions::EXECUTE);
        let mut maps = vec![map(0, 0x5000, r)];
        assert!(!image.is_mapped(&maps), "the file as a whole");
        maps = vec![map(0, 0x1000, r), map(0x1000, 0x2000, r | x), map(0x2000, 0x5000, r)];
        assert!(!image.is_mapped(&maps), "no data yet");
        maps = vec![
            map(0, 0x1000, r),
            map(0x1000, 0x2000, r | x),
            map(0x3000, 0x4000, r),
            map(0x4000, 0x5000, r | w),
        ];
        assert!(image.is_mapped(&maps));
    }

    #[test]
    fn an_object_is_whole_when_its_last_relocation_is_in_place() {
        use crate::memory::FakeMemory;
        let bias = 0x10_0000u64;
        let mut image = Image { bias, ..Image::default() };
        assert!(image.is_relocated(&FakeMemory::default()), "nothing is to be relocated");
        (image.dynamic.relocations, image.dynamic.relocation_bytes) = (bias + 0x100, 48);
        let words = |words: &[u64]| words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<u8>>();
        for (value, whole) in [(0, false), (0x300, false), (bias + 0x300, true)] {
            let table = words(&[0x800, 8, 0x200, 0x808, 8, 0x300]);
            let data = words(&[bias + 0x200, value]);
            let memory = FakeMemory { areas: vec![(bias + 0x100, table), (bias + 0x800, data)] };
            assert_eq!(image.is_relocated(&memory), whole, "{value:#x}");
        }
        image.dynamic.relocations = u64::MAX - 10;
        assert!(!image.is_relocated(&FakeMemory::default()), "it cannot be read");
        // then comes an unresolved symbol: weak, or still to be bound
        (image.dynamic.relocations, image.dynamic.symbols) = (bias + 0x100, bias + 0x900);
        for (section, whole) in [(0u64, true), (5 << 48, false)] {
            let table = words(&[0x800, 8, 0x200, 0x808, 1 << 32 | 6, 0]);
            let data = words(&[bias + 0x200, 0]);
            let symbols = words(&[0, 0, 0, section, 0, 0]);
            let areas = vec![(bias + 0x100, table), (bias + 0x800, data), (bias + 0x900, symbols)];
            assert_eq!(image.is_relocated(&FakeMemory { areas }), whole);
        }
    }

    proptest! {
        #[test]
        fn damaged_notes_are_no_note_and_no_panic(mut raw in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..64) {
            find_note(&raw, u64::MAX - 10);
            raw.extend(note(1, [1, 2, 3]));
            raw.truncate(raw.len().saturating_sub(cut));
            find_note(&raw, 0);
        }
    }

    #[test]
    fn our_own_libc_has_dlopen_or_is_static() {
        let memory = ProcessMemory::open(std::process::id() as i32, false).unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let Some(line) = maps.lines().find(|l| l.contains("libc.so.6")) else { return };
        let start = u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
        let libc = Image::at_header(&memory, start).unwrap();
        assert_eq!(libc.soname(&memory).unwrap(), b"libc.so.6");
        assert!(libc.symbol(&memory, "malloc").is_some());
        assert_eq!(libc.symbol(&memory, "no_such_function"), None);
        assert!(libc.pct_note(&memory).is_none());
        assert!(libc.build_id(&memory).is_some_and(|id| id.len() == 20));
    }
}
