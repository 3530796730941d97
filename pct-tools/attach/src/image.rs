//! ELF images as they lie in the target's memory: dynamic symbols and the PCT note.
//!
//! The image in memory is right where the file may be replaced, deleted, or in another mount namespace. glibc has relocated
//! the pointers of the dynamic section in place; musl and the vdso have not: a value below the load bias is an offset.
//! Symbols are looked up by DT_GNU_HASH, or DT_HASH; nothing is scanned but one bucket's chain.

use crate::memory::Memory;
use procfs::process::{MMPermissions, MemoryMap};
use std::io;

const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const PT_PHDR: u32 = 6;
const PT_LOAD: u32 = 1;
const DT_NULL: u64 = 0;
const DT_HASH: u64 = 4;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_SONAME: u64 = 14;
const DT_DEBUG: u64 = 21;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const STT_GNU_IFUNC: u8 = 10;
/// No image that we look into has more program headers, dynamic entries or symbols in one chain than this.
const BOUND: u64 = 4096;

/// A program header of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    kind: u32,
    flags: u32,
    vaddr: u64,
    size: u64,
}

/// One ELF image in memory.
#[derive(Debug, Clone, Default)]
pub struct Image {
    /// Added to the image's own addresses to get the target's.
    pub bias: u64,
    segments: Vec<Segment>,
    dynamic: Dynamic,
}

#[derive(Debug, Clone, Copy, Default)]
struct Dynamic {
    symbols: u64,
    strings: u64,
    gnu_hash: u64,
    hash: u64,
    soname: Option<u64>,
    debug: Option<u64>,
    relocations: u64,
    relocations_size: u64,
}

/// The PCT note of libpct.so and libpct.a: the absolute addresses it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PctNote {
    /// Version of the interface; this crate speaks 1.
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
    /// When the memory cannot be read or is no 64-bit ELF image.
    pub fn at_header(memory: &impl Memory, start: u64) -> io::Result<Image> {
        let mut header = [0u8; 64];
        memory.read(start, &mut header)?;
        if header[..5] != *b"\x7fELF\x02" {
            return Err(invalid("no 64-bit ELF header", start));
        }
        let at = |o: usize| u64::from_ne_bytes(header[o..o + 8].try_into().unwrap_or_default());
        let count = u64::from(u16::from_ne_bytes([header[56], header[57]]));
        let phoff = at(32);
        let mut image = Image::from_headers(memory, start.wrapping_add(phoff), count, Some(start))?;
        image.read_dynamic(memory)?;
        Ok(image)
    }

    /// Reads the program's own image from the auxiliary vector's AT_PHDR and AT_PHNUM.
    ///
    /// # Errors
    /// As [`Image::at_header`].
    pub fn of_program(memory: &impl Memory, phdr: u64, phnum: u64) -> io::Result<Image> {
        let mut image = Image::from_headers(memory, phdr, phnum, None)?;
        image.read_dynamic(memory)?;
        Ok(image)
    }

    /// The image of the program that `pid` runs, by the kernel's auxiliary vector.
    pub fn program_of(pid: i32, memory: &impl Memory) -> Option<Image> {
        const AT_PHDR: u64 = 3;
        const AT_PHNUM: u64 = 5;
        let auxv = std::fs::read(format!("/proc/{pid}/auxv")).ok()?;
        let value = |tag: u64| {
            auxv.chunks_exact(16).find_map(|c| {
                let word = |b: &[u8]| u64::from_ne_bytes(b.try_into().unwrap_or_default());
                (word(&c[..8]) == tag).then(|| word(&c[8..]))
            })
        };
        Image::of_program(memory, value(AT_PHDR)?, value(AT_PHNUM)?).ok()
    }

    fn from_headers(memory: &impl Memory, phdr: u64, count: u64, start: Option<u64>) -> io::Result<Image> {
        let raw = memory.bytes(phdr, count.saturating_mul(56), BOUND * 56)?;
        let mut image = Image::default();
        let (mut own, mut first_load) = (None, None);
        for h in raw.chunks_exact(56) {
            let word = |o: usize| u64::from_ne_bytes(h[o..o + 8].try_into().unwrap_or_default());
            let kind = u32::from_ne_bytes(h[0..4].try_into().unwrap_or_default());
            let flags = u32::from_ne_bytes(h[4..8].try_into().unwrap_or_default());
            let segment = Segment { kind, flags, vaddr: word(16), size: word(40) };
            match kind {
                PT_PHDR => own = Some(segment.vaddr),
                PT_LOAD if first_load.is_none() => first_load = Some(segment.vaddr & !0xfff),
                _ => {}
            }
            image.segments.push(segment);
        }
        image.bias = match (start, own, first_load) {
            (Some(start), _, Some(load)) => start.wrapping_sub(load),
            (None, Some(own), _) => phdr.wrapping_sub(own),
            // a static-pie names no place for its headers: they are in the first page of its first segment
            (None, None, Some(load)) => (phdr & !0xfff).wrapping_sub(load),
            _ => 0,
        };
        Ok(image)
    }

    fn address(&self, value: u64) -> u64 {
        if value < self.bias { value.wrapping_add(self.bias) } else { value }
    }

    fn read_dynamic(&mut self, memory: &impl Memory) -> io::Result<()> {
        let Some(seg) = self.segments.iter().find(|s| s.kind == PT_DYNAMIC).copied() else { return Ok(()) };
        let at = self.bias.wrapping_add(seg.vaddr);
        let raw = memory.bytes(at, seg.size, BOUND * 16)?;
        for pair in raw.chunks_exact(16) {
            let tag = u64::from_ne_bytes(pair[..8].try_into().unwrap_or_default());
            let value = u64::from_ne_bytes(pair[8..].try_into().unwrap_or_default());
            match tag {
                DT_NULL => break,
                DT_SYMTAB => self.dynamic.symbols = self.address(value),
                DT_STRTAB => self.dynamic.strings = self.address(value),
                DT_GNU_HASH => self.dynamic.gnu_hash = self.address(value),
                DT_HASH => self.dynamic.hash = self.address(value),
                DT_RELA => self.dynamic.relocations = self.address(value),
                DT_RELASZ => self.dynamic.relocations_size = value,
                DT_SONAME => self.dynamic.soname = Some(value),
                DT_DEBUG => self.dynamic.debug = (value != 0).then_some(value),
                _ => {}
            }
        }
        Ok(())
    }

    /// The path in PT_INTERP: which loader, or `None` for a static image.
    pub fn interpreter(&self, memory: &impl Memory) -> Option<Vec<u8>> {
        let s = self.segments.iter().find(|s| s.kind == PT_INTERP)?;
        let text = memory.bytes(self.bias.wrapping_add(s.vaddr), s.size, BOUND).ok()?;
        Some(text.split(|b| *b == 0).next().unwrap_or_default().to_vec())
    }

    /// There is a dynamic section: a shared object, a dynamic program, or a static-pie.
    pub fn has_dynamic(&self) -> bool {
        self.segments.iter().any(|s| s.kind == PT_DYNAMIC)
    }

    /// DT_SONAME.
    pub fn soname(&self, memory: &impl Memory) -> Option<Vec<u8>> {
        memory.string(self.dynamic.strings.wrapping_add(self.dynamic.soname?), 256).ok()
    }

    /// Its segments are mapped as they must be: code is executable, data can be written. A loader maps the whole file first, as
    /// it maps the first segment; what lies where the data will be is then something else.
    pub fn is_mapped(&self, maps: &[MemoryMap]) -> bool {
        const PF_X: u32 = 1;
        const PF_W: u32 = 2;
        let allows = |at: u64, what: MMPermissions| {
            maps.iter().any(|m| (m.address.0..m.address.1).contains(&at) && m.perms.contains(what))
        };
        self.segments.iter().filter(|s| s.kind == PT_LOAD && s.size > 0).all(|s| {
            let start = self.bias.wrapping_add(s.vaddr);
            // the start of the data may have been protected again
            let end = start.wrapping_add(s.size - 1);
            (s.flags & PF_X == 0 || allows(start, MMPermissions::EXECUTE))
                && (s.flags & PF_W == 0 || allows(end, MMPermissions::WRITE))
        })
    }

    /// The loader has done its work on this object: the last of its relocations is in place. (A dlopen may be under way in
    /// another thread; the object is in the map long before its code may be called.) Of an object that [`Image::is_mapped`].
    pub fn is_relocated(&self, memory: &impl Memory) -> bool {
        const ENTRY: u64 = 24;
        const RELATIVE: u64 = 8;
        let (table, count) = (self.dynamic.relocations, self.dynamic.relocations_size / ENTRY);
        if table == 0 {
            return true;
        }
        // loaders go through the table from its start
        for index in (0..count).rev().take(BOUND as usize) {
            let at = table.wrapping_add(index.saturating_mul(ENTRY));
            let words = [at, at.wrapping_add(8), at.wrapping_add(16)].map(|at| memory.word(at));
            let [Ok(place), Ok(info), Ok(addend)] = words else { return false };
            let Ok(value) = memory.word(self.bias.wrapping_add(place)) else { return false };
            if info & 0xffff_ffff == RELATIVE {
                return value != 0 && value != addend;
            }
            if value != 0 {
                return true;
            }
            // a weak symbol that nobody defines is 0 for good
            let section = self.dynamic.symbols.wrapping_add((info >> 32).saturating_mul(24)).wrapping_add(4);
            match memory.half(section) {
                Ok(word) if word >> 16 == 0 => {}
                _ => return false,
            }
        }
        true
    }

    /// The address of the loader's `struct r_debug`, through DT_DEBUG.
    pub fn debug(&self) -> Option<u64> {
        self.dynamic.debug
    }

    /// The address of the dynamic symbol `name`. An IFUNC's resolver is not the function: refused.
    pub fn symbol(&self, memory: &impl Memory, name: &str) -> Option<u64> {
        self.function(memory, name).map(|(address, _)| address)
    }

    /// The loaded segments as address ranges.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let loads = self.segments.iter().filter(|s| s.kind == PT_LOAD);
        loads.map(|s| {
            let from = self.bias.wrapping_add(s.vaddr);
            (from, from.wrapping_add(s.size))
        })
    }

    /// Room behind the end of executable segments, up to the end of the page: (address, octets). It is mapped executable, and
    /// nothing of the image lies there.
    pub fn padding(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        const PF_X: u32 = 1;
        let code = self.segments.iter().filter(|s| s.kind == PT_LOAD && s.flags & PF_X != 0);
        code.filter_map(|s| {
            let end = self.bias.checked_add(s.vaddr)?.checked_add(s.size)?;
            Some((end, end.checked_next_multiple_of(4096)? - end))
        })
    }

    /// Address and size of the dynamic symbol `name`.
    pub fn function(&self, memory: &impl Memory, name: &str) -> Option<(u64, u64)> {
        if self.dynamic.symbols == 0 || self.dynamic.strings == 0 {
            return None;
        }
        if self.dynamic.gnu_hash != 0 {
            self.by_gnu_hash(memory, name)
        } else if self.dynamic.hash != 0 {
            self.by_hash(memory, name)
        } else {
            None
        }
    }

    /// DT_GNU_HASH: buckets, symbol offset, bloom words, shift; then bloom filter, buckets, chains.
    fn by_gnu_hash(&self, memory: &impl Memory, name: &str) -> Option<(u64, u64)> {
        let table = self.dynamic.gnu_hash;
        let buckets = u64::from(memory.half(table).ok()?);
        let first = u64::from(memory.half(table + 4).ok()?);
        let bloom = u64::from(memory.half(table + 8).ok()?);
        if buckets == 0 {
            return None;
        }
        let hash = name.bytes().fold(5381u32, |h, c| h.wrapping_mul(33).wrapping_add(u32::from(c)));
        let bucket_table = table.checked_add(16)?.checked_add(bloom.checked_mul(8)?)?;
        let chains = bucket_table.checked_add(buckets * 4)?;
        let start = u64::from(memory.half(bucket_table + 4 * (u64::from(hash) % buckets)).ok()?);
        if start < first {
            return None;
        }
        for index in start..start + BOUND {
            let entry = memory.half(chains.checked_add(4 * (index - first))?).ok()?;
            if entry | 1 == hash | 1
                && let Some(found) = self.matches(memory, index, name)
            {
                return Some(found);
            }
            if entry & 1 != 0 {
                return None;
            }
        }
        None
    }

    /// DT_HASH: bucket count, chain count, buckets, chains.
    fn by_hash(&self, memory: &impl Memory, name: &str) -> Option<(u64, u64)> {
        let table = self.dynamic.hash;
        let buckets = u64::from(memory.half(table).ok()?);
        if buckets == 0 {
            return None;
        }
        let hash = name.bytes().fold(0u32, |h, c| {
            let h = (h << 4).wrapping_add(u32::from(c));
            let top = h & 0xf000_0000;
            (h ^ (top >> 24)) & !top
        });
        let mut index = memory.half(table + 8 + 4 * (u64::from(hash) % buckets)).ok()?;
        for _ in 0..BOUND {
            if index == 0 {
                return None;
            }
            if let Some(found) = self.matches(memory, u64::from(index), name) {
                return Some(found);
            }
            index = memory.half(table + 8 + 4 * buckets + 4 * u64::from(index)).ok()?;
        }
        None
    }

    fn matches(&self, memory: &impl Memory, index: u64, name: &str) -> Option<(u64, u64)> {
        let mut sym = [0u8; 24];
        memory.read(self.dynamic.symbols.checked_add(24 * index)?, &mut sym).ok()?;
        let string = u64::from(u32::from_ne_bytes(sym[..4].try_into().ok()?));
        let section = u16::from_ne_bytes([sym[6], sym[7]]);
        let value = u64::from_ne_bytes(sym[8..16].try_into().ok()?);
        let size = u64::from_ne_bytes(sym[16..24].try_into().ok()?);
        if section == 0 || sym[4] & 15 == STT_GNU_IFUNC {
            return None;
        }
        let text =
            memory.bytes(self.dynamic.strings.checked_add(string)?, name.len() as u64 + 1, BOUND).ok()?;
        (text[..name.len()] == *name.as_bytes() && text[name.len()] == 0)
            .then(|| (self.bias.wrapping_add(value), size))
    }

    /// The build-id (the GNU note of type 3), when the image's note segments are readable.
    pub fn build_id(&self, memory: &impl Memory) -> Option<Vec<u8>> {
        self.notes(memory).find_map(|(raw, _)| {
            notes(&raw)
                .find(|n| n.owner == b"GNU\0" && n.kind == 3 && n.desc.len() <= 32)
                .map(|n| n.desc.to_vec())
        })
    }

    /// The note segments' octets and where they lie.
    fn notes<'a>(&'a self, memory: &'a impl Memory) -> impl Iterator<Item = (Vec<u8>, u64)> + 'a {
        self.segments.iter().filter(|s| s.kind == PT_NOTE).filter_map(move |s| {
            let at = self.bias.wrapping_add(s.vaddr);
            Some((memory.bytes(at, s.size, 1 << 16).ok()?, at))
        })
    }

    /// The PCT note, when this image carries the sampler (docs: attach, "the note").
    pub fn pct_note(&self, memory: &impl Memory) -> Option<PctNote> {
        self.notes(memory).find_map(|(raw, at)| find_note(&raw, at))
    }
}

/// The PCT note of an object file as it is on disk, with addresses as the object numbers them.
pub fn note_of_file(bytes: &[u8]) -> Option<PctNote> {
    let long = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?));
    let half = |at: usize| Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?));
    let phoff = usize::try_from(long(32)?).ok()?;
    (0..usize::from(half(56)?)).find_map(|i| {
        let at = phoff.checked_add(56 * i)?;
        if bytes.get(at..at.checked_add(4)?)? != PT_NOTE.to_le_bytes() {
            return None;
        }
        let (offset, vaddr) = (usize::try_from(long(at + 8)?).ok()?, long(at + 16)?);
        let size = usize::try_from(long(at + 32)?).ok()?;
        find_note(bytes.get(offset..offset.checked_add(size)?)?, vaddr)
    })
}

/// One ELF note.
struct Note<'a> {
    owner: &'a [u8],
    kind: u32,
    desc: &'a [u8],
    /// Offset of the descriptor in the segment.
    offset: usize,
}

/// Walks the notes in `raw`; every length is checked.
fn notes(raw: &[u8]) -> impl Iterator<Item = Note<'_>> {
    let mut o = 0usize;
    std::iter::from_fn(move || {
        let half = |o: usize| raw.get(o..o + 4).map(|b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
        let (names, descs, kind) = (half(o)? as usize, half(o + 4)? as usize, half(o + 8)?);
        let name = o + 12;
        let desc = name.checked_add(names)?.checked_next_multiple_of(4)?;
        let end = desc.checked_add(descs)?;
        let note =
            Note { owner: raw.get(name..name + names)?, kind, desc: raw.get(desc..end)?, offset: desc };
        o = end.checked_next_multiple_of(4)?;
        Some(note)
    })
}

/// The PCT note in `raw`, which lies at `at`: the version and three offsets, each relative to its own word.
fn find_note(raw: &[u8], at: u64) -> Option<PctNote> {
    let note = notes(raw).find(|n| n.owner == b"PCT\0" && n.kind == 1 && n.desc.len() >= 32)?;
    let word = |i: usize| Some(u64::from_ne_bytes(note.desc.get(8 * i..8 * i + 8)?.try_into().ok()?));
    let target = |i: usize| Some(at.wrapping_add((note.offset + 8 * i) as u64).wrapping_add(word(i)?));
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
        let load = |flags, vaddr, size| Segment { kind: PT_LOAD, flags, vaddr, size };
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
        (image.dynamic.relocations, image.dynamic.relocations_size) = (bias + 0x100, 48);
        let words = |words: &[u64]| words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<u8>>();
        for (value, whole) in [(0, false), (0x300, false), (bias + 0x300, true)] {
            let table = words(&[0x800, 8, 0x200, 0x808, 8, 0x300]);
            let data = words(&[bias + 0x200, value]);
            let memory = FakeMemory { areas: vec![(bias + 0x100, table), (bias + 0x800, data)] };
            assert_eq!(image.is_relocated(&memory), whole, "{value:#x}");
        }
        image.dynamic.relocations = u64::MAX - 10;
        assert!(!image.is_relocated(&FakeMemory::default()), "it cannot be read");
        // behind it an unresolved symbol: weak, or one that is still to be bound
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
