//! Section tables for objects without one: the symbols and unwind data that the loader uses are found by the program
//! headers.
//!
//! Files lose their table to `sstrip` and packers, and what is copied from a process's memory never had one. A table
//! with `.dynsym`, `.dynstr`, `.eh_frame_hdr`, `.eh_frame` and notes is put behind a copy of the file. With it all
//! other modules read the object as any other.
//!
//! Only 64-bit little-endian files. Numbers are taken from the file, so each range is checked against its segments.

use pct_elf::{Dynamic, Memory, Segment, segment_kind};
use pct_unwind::reader::Section;
use pct_unwind::table::Header;

/// Larger files are not copied, in octets.
const MOST_OCTETS: usize = 512 << 20;
/// Octets of an entry of the section table, and of a dynamic symbol.
const ENTRY: usize = 64;
const SYMBOL: u64 = 24;
/// Octets at the start of `.eh_frame_hdr` that say where the rest is.
const HEADER: usize = 24;

const SHT_PROGBITS: u32 = 1;
const SHT_STRTAB: u32 = 3;
const SHT_NOTE: u32 = 7;
const SHT_DYNSYM: u32 = 11;
const SHF_ALLOC: u64 = 2;

/// Whether an ELF file has no section table that can be read.
pub(crate) fn are_missing(file: &[u8]) -> bool {
    let table = (file.read_word(40), file.quarter(58), file.quarter(60));
    let (Some(at), Some(size), Some(count)) = table else { return false };
    let end = (u64::from(size) * u64::from(count)).checked_add(at);
    at == 0 || count == 0 || end.is_none_or(|end| end > file.len() as u64)
}

/// The file with a section table. `None`: it has neither symbols nor unwind data, is too large, or is not for 64-bit
/// little-endian machines.
pub(crate) fn with_table(file: &[u8]) -> Option<Vec<u8>> {
    let image = pct_elf::Image::of_file(&file).filter(|_| file.len() <= MOST_OCTETS)?;
    let segments: Vec<Segment> = image.segments(&file).collect();
    let loaded = FileByAddress { file, segments: &segments };
    let mut table = SectionTable::default();
    if let Some(dynamic) = segments.iter().find(|s| s.kind == segment_kind::DYNAMIC) {
        table.add_symbols(&loaded, &Dynamic::read(&loaded, dynamic.address, 0));
    }
    if let Some(header) = segments.iter().find(|s| s.kind == segment_kind::UNWIND) {
        table.add_unwind_data(&loaded, header);
    }
    if !table.0.is_empty() {
        segments.iter().filter(|s| s.kind == segment_kind::NOTE).for_each(|s| table.add_notes(&loaded, s));
    }
    table.written_behind(file)
}

/// A file's octets by the addresses that the linker gave.
struct FileByAddress<'f> {
    file: &'f [u8],
    segments: &'f [Segment],
}

impl FileByAddress<'_> {
    /// The offset of an address in the file, and the octets of the file from there to the segment's end.
    fn place(&self, address: u64) -> Option<(u64, u64)> {
        self.segments.iter().filter(|s| s.kind == segment_kind::LOAD).find_map(|s| {
            let into = address.checked_sub(s.address).filter(|into| *into < s.file_bytes)?;
            let offset = s.offset.checked_add(into)?;
            let octets = (s.file_bytes - into).min((self.file.len() as u64).checked_sub(offset)?);
            (octets > 0).then_some((offset, octets))
        })
    }
}

impl Memory for FileByAddress<'_> {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        self.place(at)
            .is_some_and(|(offset, octets)| into.len() as u64 <= octets && self.file.copy(offset, into))
    }
}

/// One section.
struct TableEntry {
    name: &'static str,
    kind: u32,
    address: u64,
    offset: u64,
    octets: u64,
    /// Number of the section that has its strings.
    link: u32,
    entry: u64,
}

/// The sections that were found, without the empty one that is the first of each table.
#[derive(Default)]
struct SectionTable(Vec<TableEntry>);

impl SectionTable {
    fn add_symbols(&mut self, loaded: &FileByAddress<'_>, dynamic: &Dynamic) {
        let add = || {
            let (offset, room) = loaded.place(dynamic.symbols)?;
            let (strings_at, string_room) = loaded.place(dynamic.strings)?;
            let count = symbol_count(loaded, dynamic)?.min(room / SYMBOL);
            let strings = dynamic.string_bytes.min(string_room);
            Some([
                TableEntry {
                    name: ".dynsym",
                    kind: SHT_DYNSYM,
                    address: dynamic.symbols,
                    offset,
                    octets: count * SYMBOL,
                    link: 2,
                    entry: SYMBOL,
                },
                TableEntry {
                    name: ".dynstr",
                    kind: SHT_STRTAB,
                    address: dynamic.strings,
                    offset: strings_at,
                    octets: strings,
                    link: 0,
                    entry: 0,
                },
            ])
        };
        self.0.extend(add().into_iter().flatten());
    }

    fn add_unwind_data(&mut self, loaded: &FileByAddress<'_>, header: &Segment) {
        let plain = |name, address, (offset, octets)| TableEntry {
            name,
            kind: SHT_PROGBITS,
            address,
            offset,
            octets,
            link: 0,
            entry: 0,
        };
        let add = || {
            let (offset, room) = loaded.place(header.address)?;
            let bytes: [u8; HEADER] = loaded.bytes(header.address)?;
            let data = Header::parse(&Section { bytes: &bytes, addr: header.address })?.eh_frame;
            let octets = header.file_bytes.min(room);
            Some([
                plain(".eh_frame_hdr", header.address, (offset, octets)),
                plain(".eh_frame", data, loaded.place(data)?),
            ])
        };
        self.0.extend(add().into_iter().flatten());
    }

    /// Among them is the build-id.
    fn add_notes(&mut self, loaded: &FileByAddress<'_>, notes: &Segment) {
        let Some((offset, room)) = loaded.place(notes.address) else { return };
        let (name, kind, address) = (".note", SHT_NOTE, notes.address);
        let octets = notes.file_bytes.min(room);
        self.0.push(TableEntry { name, kind, address, offset, octets, link: 0, entry: 0 });
    }

    /// The file with the table behind it, and a header that says where.
    fn written_behind(&self, file: &[u8]) -> Option<Vec<u8>> {
        if self.0.is_empty() {
            return None;
        }
        let mut out = file.to_vec();
        out.resize(file.len().next_multiple_of(8), 0);
        let mut names = vec![0];
        let names_at = out.len() as u64;
        let mut entries = vec![0; ENTRY];
        let mut write = |name: &str, e: &TableEntry| {
            let name_at = u32::try_from(names.len()).unwrap_or(0);
            names.extend(name.bytes().chain([0]));
            entries.extend(name_at.to_le_bytes());
            entries.extend(e.kind.to_le_bytes());
            for word in [if e.address == 0 { 0 } else { SHF_ALLOC }, e.address, e.offset, e.octets] {
                entries.extend(word.to_le_bytes());
            }
            // The first symbol that is not local, which nobody asks for.
            entries.extend(e.link.to_le_bytes());
            entries.extend(u32::from(e.kind == SHT_DYNSYM).to_le_bytes());
            entries.extend(if e.kind == SHT_NOTE { 4u64 } else { 8 }.to_le_bytes());
            entries.extend(e.entry.to_le_bytes());
        };
        self.0.iter().for_each(|entry| write(entry.name, entry));
        let own = ".shstrtab";
        let octets = 1 + self.0.iter().map(|e| e.name.len() as u64 + 1).sum::<u64>() + own.len() as u64 + 1;
        let (kind, offset) = (SHT_STRTAB, names_at);
        write(own, &TableEntry { name: own, kind, address: 0, offset, octets, link: 0, entry: 0 });
        out.extend(names);
        out.resize(out.len().next_multiple_of(8), 0);
        let table_at = out.len() as u64;
        let count = u16::try_from(entries.len() / ENTRY).ok()?;
        out.extend(entries);
        out.get_mut(40..48)?.copy_from_slice(&table_at.to_le_bytes());
        let sizes = [u16::try_from(ENTRY).ok()?, count, count - 1];
        for (place, number) in out.get_mut(58..64)?.chunks_exact_mut(2).zip(sizes) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        Some(out)
    }
}

/// Number of dynamic symbols. The loader does not need it, but its hash tables tell.
fn symbol_count(loaded: &FileByAddress<'_>, dynamic: &Dynamic) -> Option<u64> {
    if dynamic.hash != 0
        && let Some(count) = loaded.half(dynamic.hash.checked_add(4)?)
    {
        return Some(u64::from(count));
    }
    // buckets, first symbol, words of the filter, shift; filter; buckets; chains, whose last word is odd
    let head: [u8; 16] = loaded.bytes(dynamic.gnu_hash)?;
    let head = head.as_slice();
    let (buckets, first, filter) = (head.half(0)?, head.half(4)?, head.half(8)?);
    let buckets_at = dynamic.gnu_hash.checked_add(16 + 8 * u64::from(filter))?;
    let chains_at = buckets_at.checked_add(4 * u64::from(buckets))?;
    let (_, room) = loaded.place(buckets_at)?;
    let highest = (0..u64::from(buckets).min(room / 4))
        .filter_map(|bucket| loaded.half(buckets_at + 4 * bucket))
        .max()
        .filter(|highest| *highest >= first);
    let Some(highest) = highest else { return Some(u64::from(first)) };
    let mut symbol = highest;
    while loaded.half(chains_at.checked_add(4 * u64::from(symbol - first))?)? & 1 == 0 {
        symbol = symbol.checked_add(1)?;
    }
    Some(u64::from(symbol) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Image;
    use crate::symtab::{SymbolTable, function_by_unwind};
    use object::{Object as _, ObjectSymbol as _};
    use std::path::{Path, PathBuf};

    /// A library of this machine, without its section table.
    fn bare_library() -> (Vec<u8>, Vec<u8>) {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("this process");
        let path = maps.lines().filter_map(|l| Some(PathBuf::from(&l[l.find('/')?..])));
        let is_libc = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("libc.so"));
        let whole = std::fs::read(path.into_iter().find(is_libc).expect("a C library")).expect("read");
        let mut bare = whole.clone();
        bare[40..48].fill(0);
        bare[58..64].fill(0);
        (whole, bare)
    }

    #[test]
    fn an_object_without_sections_has_the_same_symbols_and_borders() {
        let (whole, bare) = bare_library();
        assert!(are_missing(&bare) && !are_missing(&whole));
        let read = |octets: &[u8]| Image::from_bytes(Path::new("x"), octets.to_vec()).expect("an image");
        let (whole, bare) = (read(&whole), read(&bare));
        assert_eq!(bare.build_id(), whole.build_id());
        let elf = whole.elf().expect("parsed before");
        let functions: Vec<(u64, String)> = elf
            .dynamic_symbols()
            .filter(|s| s.is_definition() && s.kind() == object::SymbolKind::Text && s.size() > 0)
            .map(|s| (s.address(), s.name().expect("text").to_owned()))
            .collect();
        assert!(functions.len() > 500, "{}", functions.len());
        let (table, parsed) = (SymbolTable::read(&bare), bare.elf().expect("parsed before"));
        let names = |address| functions.iter().filter(move |f| f.0 == address).map(|f| f.1.as_str());
        for (address, name) in &functions {
            let found = table.find(&parsed, *address).unwrap_or_else(|| panic!("{name} has no name"));
            assert!(names(*address).any(|name| name == found.name), "{name} is called {}", found.name);
            assert_eq!(function_by_unwind(&bare, *address), function_by_unwind(&whole, *address), "{name}");
        }
    }

    #[test]
    fn damaged_objects_are_read_without_a_panic() {
        let (_, bare) = bare_library();
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % below as u64) as usize
        };
        let image = pct_elf::Image::of_file(&bare.as_slice()).expect("an image");
        let dynamic = image.segment(&bare.as_slice(), segment_kind::DYNAMIC).expect("dynamic");
        let hot = [64..64 + 56 * 14, dynamic.offset as usize..(dynamic.offset + dynamic.file_bytes) as usize];
        for round in 0..2000 {
            let mut damaged = bare[..if round % 5 == 0 { next(bare.len()) } else { bare.len() }].to_vec();
            for _ in 0..=next(6) {
                let range = hot[next(2)].clone();
                let at = range.start + next(range.len());
                let value = [0, 0xff, 0x7f, next(256) as u8][next(4)];
                damaged.get_mut(at).into_iter().for_each(|octet| *octet = value);
            }
            if let Some(whole) = with_table(&damaged)
                && let Ok(image) = Image::from_bytes(Path::new("x"), whole)
                && let Some(elf) = image.elf()
                && round % 20 == 0
            {
                let table = SymbolTable::read(&image);
                table.find(&elf, 0x30000);
                function_by_unwind(&image, 0x30000);
            }
        }
    }
}
