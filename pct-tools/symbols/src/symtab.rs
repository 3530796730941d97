//! Functions without debug information: from the symbol table, the dynamic one, PLT stubs, and where these have no
//! name, function borders from the unwind tables.
//!
//! The table of an object is built at the first address that needs it, sorted, and searched by bisection.
//! Names stay in the file: an entry stores where its name begins.

use std::path::Path;

use gimli::UnwindSection;
use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationFlags, RelocationTarget};

use crate::image::Image;
use crate::minidebug;

/// Where a function name comes from, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Source {
    /// Debug information: function, file, line, inlined calls.
    Debug = 0,
    /// The symbol table.
    Symbol = 1,
    /// The dynamic symbol table of a stripped object.
    Dynamic = 2,
    /// A PLT stub, named after the function that it jumps to: `malloc@plt`.
    Stub = 3,
    /// Code that the program generated, named in its perf map or jitdump.
    Jit = 4,
    /// No name is known, but the unwind tables have the function's borders: `[libfoo.so+0x1a40]` is its start.
    Unwind = 5,
    /// Nothing is known: `[libfoo.so+0x1a47]` is the address itself.
    Unknown = 6,
    /// A co-process gave the name.
    Translator = 7,
}

impl Source {
    /// All sources, in order of their numbers.
    pub const ALL: [Source; 8] = [
        Source::Debug,
        Source::Symbol,
        Source::Dynamic,
        Source::Stub,
        Source::Jit,
        Source::Unwind,
        Source::Unknown,
        Source::Translator,
    ];
}

/// One function: its extent and name.
#[derive(Debug, Clone)]
struct Entry {
    start: u64,
    /// Address behind the last byte. For symbols without a size: the next symbol's start or the section's end.
    end: u64,
    /// The symbol has a size.
    sized: bool,
    name: Name,
    source: Source,
}

#[derive(Debug, Clone)]
enum Name {
    /// Symbol number in the full (false) or dynamic (true) symbol table.
    Symbol(bool, object::SymbolIndex),
    Made(String),
}

/// What the tables say about an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundSymbol {
    pub(crate) name: String,
    pub(crate) start: u64,
    pub(crate) source: Source,
    /// The symbol has no size: the address may be in a nameless function behind it.
    pub(crate) open_ended: bool,
}

/// The functions of one object, sorted by start, not overlapping.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable {
    entries: Vec<Entry>,
}

impl SymbolTable {
    /// Reads all tables of an image: full or dynamic symbols and PLT stubs.
    pub(crate) fn read(image: &Image) -> SymbolTable {
        let Some(elf) = image.elf() else { return SymbolTable::default() };
        let mut raw: Vec<Raw> = Vec::new();
        let sections = executable_sections(&elf);
        if let Some(table) = elf.symbol_table() {
            collect(table.symbols(), Source::Symbol, &sections, &mut raw);
        }
        if let Some(table) = elf.dynamic_symbol_table() {
            collect(table.symbols(), Source::Dynamic, &sections, &mut raw);
        }
        if elf.symbol_table().is_none_or(|table| table.symbols().next().is_none())
            && let Some(mini) = minidebug::unpack(&elf)
        {
            collect_mini(&mini, &sections, &mut raw);
        }
        if !raw.iter().any(|r| r.source == Source::Symbol) {
            collect_go(&elf, &sections, &mut raw);
        }
        let mut entries = settle(raw, &sections);
        let stubs = stubs(&elf, &entries);
        if !stubs.is_empty() {
            entries.extend(stubs);
            entries.sort_by_key(|e| e.start);
        }
        SymbolTable { entries }
    }

    /// The function that contains an address.
    pub(crate) fn find(&self, elf: &object::File<'_>, address: u64) -> Option<FoundSymbol> {
        let next = self.entries.partition_point(|e| e.start <= address);
        let entry = self.entries.get(next.checked_sub(1)?)?;
        if address >= entry.end {
            return None;
        }
        Some(FoundSymbol {
            name: entry.name.text(elf)?,
            start: entry.start,
            source: entry.source,
            open_ended: !entry.sized,
        })
    }

    /// Number of functions in the table.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

impl Name {
    fn text(&self, elf: &object::File<'_>) -> Option<String> {
        match self {
            Name::Made(text) => Some(text.clone()),
            Name::Symbol(dynamic, index) => {
                let table = if *dynamic { elf.dynamic_symbol_table() } else { elf.symbol_table() }?;
                let bytes = table.symbol_by_index(*index).ok()?.name_bytes().ok()?;
                Some(String::from_utf8_lossy(without_version(bytes)).into_owned())
            }
        }
    }
}

/// A symbol's name without the version that linkers append in `.symtab` (`clock_gettime@@GLIBC_2.17`).
fn without_version(name: &[u8]) -> &[u8] {
    match memchr::memchr(b'@', name) {
        Some(at) if at > 0 => &name[..at],
        _ => name,
    }
}

/// A symbol that is not in the table yet, with what decides between several at one address.
struct Raw {
    start: u64,
    size: u64,
    rank: u32,
    name: Name,
    source: Source,
}

/// Address ranges that contain code, sorted.
fn executable_sections(elf: &object::File<'_>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = elf
        .sections()
        .filter(|s| s.kind() == object::SectionKind::Text && s.size() > 0)
        .filter_map(|s| Some((s.address(), s.address().checked_add(s.size())?)))
        .collect();
    if ranges.is_empty() {
        // Without section headers (sstrip) the segments serve.
        ranges = executable_segments(elf).collect();
    }
    ranges.sort_unstable();
    ranges
}

/// The executable segments' address ranges.
fn executable_segments(elf: &object::File<'_>) -> impl Iterator<Item = (u64, u64)> {
    use object::ObjectSegment;
    elf.segments().filter_map(|s| match s.flags() {
        object::SegmentFlags::Elf { p_flags, .. } if p_flags.0 & 1 != 0 => {
            Some((s.address(), s.address().checked_add(s.size())?))
        }
        _ => None,
    })
}

fn section_of(sections: &[(u64, u64)], address: u64) -> Option<(u64, u64)> {
    let next = sections.partition_point(|s| s.0 <= address);
    let found = *sections.get(next.checked_sub(1)?)?;
    (address < found.1).then_some(found)
}

fn collect<'a, S>(
    symbols: impl Iterator<Item = S>,
    source: Source,
    sections: &[(u64, u64)],
    out: &mut Vec<Raw>,
) where
    S: ObjectSymbol<'a>,
{
    for symbol in symbols {
        let function = symbol.kind() == object::SymbolKind::Text;
        // Hand-written assembly often lacks the type. Everything else (data, sections, files) is not code.
        if !function
            && symbol.kind() != object::SymbolKind::Unknown
            && symbol.kind() != object::SymbolKind::Label
        {
            continue;
        }
        if symbol.is_undefined() || section_of(sections, symbol.address()).is_none() {
            continue;
        }
        let Ok(name) = symbol.name_bytes() else { continue };
        // Mapping symbols of ARM and local labels of assemblers name no function.
        if name.is_empty() || name[0] == b'$' || name.starts_with(b".L") {
            continue;
        }
        let underscores = name.iter().take(15).take_while(|c| **c == b'_').fold(0, |n: u32, _| n + 1);
        let mut rank = 0u32;
        if function {
            rank += 1000;
        }
        if symbol.size() > 0 {
            rank += 400;
        }
        if symbol.is_global() {
            rank += 40;
        }
        if !symbol.is_weak() {
            rank += 1;
        }
        if !is_mangled(name) {
            rank += 2 * (15 - underscores);
        } else {
            rank += 30;
        }
        out.push(Raw {
            start: symbol.address(),
            size: symbol.size(),
            rank,
            name: Name::Symbol(source == Source::Dynamic, symbol.index()),
            source,
        });
    }
}

/// Collects the symbols of an unpacked MiniDebugInfo file. The file is freed afterwards, so names are copied.
fn collect_mini(file: &[u8], sections: &[(u64, u64)], out: &mut Vec<Raw>) {
    let Ok(mini) = object::File::parse(file) else { return };
    let Some(table) = mini.symbol_table() else { return };
    let first = out.len();
    collect(table.symbols(), Source::Symbol, sections, out);
    for raw in &mut out[first..] {
        raw.name = Name::Made(raw.name.text(&mini).unwrap_or_default());
    }
}

/// Collects the functions of a stripped Go program from the table that its runtime needs ([`pct_unwind::go`]).
fn collect_go(elf: &object::File<'_>, sections: &[(u64, u64)], out: &mut Vec<Raw>) {
    let Some(section) = [".gopclntab", ".data.rel.ro.gopclntab"].iter().find_map(|n| elf.section_by_name(n))
    else {
        return;
    };
    let Ok(bytes) = section.data() else { return };
    // In a program that may be loaded anywhere, a relocation of the table's fourth word holds the code's address.
    let place = section.address().wrapping_add(24);
    let relocated = elf.dynamic_relocations().and_then(|mut list| list.find(|(at, _)| *at == place));
    let text = relocated.map(|(_, relocation)| relocation.addend().cast_unsigned());
    let text = text.or_else(|| elf.section_by_name(".text").map(|s| s.address())).unwrap_or(0);
    let Some(table) = pct_unwind::go::PcLineTable::parse(bytes, text) else { return };
    out.extend(table.functions().filter(|f| section_of(sections, f.begin).is_some()).map(|function| Raw {
        start: function.begin,
        size: function.end - function.begin,
        rank: 0,
        name: Name::Made(String::from_utf8_lossy(function.name).into_owned()),
        source: Source::Symbol,
    }));
}

fn is_mangled(name: &[u8]) -> bool {
    name.starts_with(b"_Z") || name.starts_with(b"_R")
}

/// Makes one entry per start, with all ends set and nothing overlapping.
fn settle(mut raw: Vec<Raw>, sections: &[(u64, u64)]) -> Vec<Entry> {
    raw.sort_by(|a, b| a.start.cmp(&b.start).then(b.rank.cmp(&a.rank)).then(a.source.cmp(&b.source)));
    raw.dedup_by_key(|r| r.start);
    let mut entries: Vec<Entry> = Vec::with_capacity(raw.len());
    for i in 0..raw.len() {
        let r = &raw[i];
        let next = raw.get(i + 1).map(|n| n.start);
        let section_end = section_of(sections, r.start).map_or(r.start, |s| s.1);
        let mut end = match r.size {
            0 => next.unwrap_or(section_end),
            size => r.start.saturating_add(size),
        };
        end = end.min(section_end);
        if let Some(next) = next {
            // A symbol inside another function (an entry point in its middle) cuts that function there.
            end = end.min(next);
        }
        let sized = r.size != 0;
        entries.push(Entry { start: r.start, end, sized, name: r.name.clone(), source: r.source });
    }
    entries
}

/// Finds the PLT stubs. Each is decoded far enough to see which GOT slot it jumps through, and the relocation of
/// that slot names the function.
fn stubs(elf: &object::File<'_>, known: &[Entry]) -> Vec<Entry> {
    let Some(relocations) = elf.dynamic_relocations() else { return Vec::new() };
    let mut slots: Vec<(u64, String)> = Vec::new();
    let symbols = elf.dynamic_symbol_table();
    for (at, relocation) in relocations {
        let name = match relocation.target() {
            RelocationTarget::Symbol(index) => symbols
                .as_ref()
                .and_then(|t| t.symbol_by_index(index).ok())
                .and_then(|s| s.name_bytes().ok())
                .filter(|n| !n.is_empty())
                .map(|n| String::from_utf8_lossy(n).into_owned()),
            _ => irelative(elf, &relocation).and_then(|target| {
                let next = known.partition_point(|e| e.start <= target);
                let entry = known.get(next.checked_sub(1)?)?;
                if entry.start != target {
                    return None;
                }
                entry.name.text(elf)
            }),
        };
        if let Some(name) = name {
            slots.push((at, name));
        }
    }
    slots.sort();
    slots.dedup_by_key(|s| s.0);
    let mut out = Vec::new();
    if slots.is_empty() {
        return out;
    }
    for section in elf.sections() {
        let Ok(name) = section.name() else { continue };
        if !matches!(name, ".plt" | ".plt.sec" | ".plt.got" | ".plt.bnd" | ".iplt") {
            continue;
        }
        let Ok(data) = section.data() else { continue };
        // Stubs are 8 or 16 bytes long and begin at multiples of 8. Code that does not decode is not a stub.
        for at in (0..data.len()).step_by(8) {
            let code = &data[at..data.len().min(at + 16)];
            let address = section.address().wrapping_add(at as u64);
            let slot = match elf.architecture() {
                object::Architecture::X86_64 => x86_64_slot(code, address),
                object::Architecture::Aarch64 => aarch64_slot(code, address),
                _ => None,
            };
            let Some(slot) = slot else { continue };
            let Ok(at) = slots.binary_search_by_key(&slot, |s| s.0) else { continue };
            // An object with a full symbol table may itself name its stubs.
            let next = known.partition_point(|e| e.start <= address);
            if next.checked_sub(1).and_then(|k| known.get(k)).is_some_and(|e| address < e.end) {
                continue;
            }
            out.push(Entry {
                start: address,
                end: address.saturating_add(code.len() as u64),
                sized: true,
                name: Name::Made(format!("{}@plt", slots[at].1)),
                source: Source::Stub,
            });
        }
    }
    for i in 1..out.len() {
        let next = out[i].start;
        let before = &mut out[i - 1];
        if before.start < next {
            before.end = before.end.min(next);
        }
    }
    out
}

/// The resolver of an IRELATIVE relocation.
fn irelative(elf: &object::File<'_>, relocation: &object::Relocation) -> Option<u64> {
    let RelocationFlags::Elf { r_type } = relocation.flags() else { return None };
    let wanted = match elf.architecture() {
        object::Architecture::X86_64 => object::elf::R_X86_64_IRELATIVE,
        object::Architecture::Aarch64 => object::elf::R_AARCH64_IRELATIVE,
        _ => return None,
    };
    (r_type == wanted).then(|| relocation.addend().cast_unsigned())
}

/// Decodes `[endbr64] [bnd] jmp *disp32(%rip)` and returns the slot's address.
fn x86_64_slot(code: &[u8], address: u64) -> Option<u64> {
    let mut at = 0;
    if code.starts_with(&[0xf3, 0x0f, 0x1e, 0xfa]) {
        at = 4;
    }
    if code.get(at) == Some(&0xf2) {
        at += 1;
    }
    let jump = code.get(at..at + 6)?;
    if jump[..2] != [0xff, 0x25] {
        return None;
    }
    let disp = i32::from_le_bytes(jump[2..6].try_into().ok()?);
    Some(address.wrapping_add(at as u64 + 6).wrapping_add_signed(i64::from(disp)))
}

/// Decodes `adrp x16, page; ldr x17, [x16, #low]` and returns the slot's address.
fn aarch64_slot(code: &[u8], address: u64) -> Option<u64> {
    let word = |i: usize| Some(u32::from_le_bytes(code.get(i * 4..i * 4 + 4)?.try_into().ok()?));
    // With branch protection the stub begins with `bti c`.
    let first = if word(0)? == 0xd503_245f { 1 } else { 0 };
    let (adrp, ldr) = (word(first)?, word(first + 1)?);
    if adrp & 0x9f00_001f != 0x9000_0010 || ldr & 0xffc0_03ff != 0xf940_0211 {
        return None;
    }
    let imm = ((adrp >> 5) & 0x7_ffff) << 2 | (adrp >> 29) & 3;
    let pages = i64::from((imm << 11).cast_signed() >> 11);
    let page = (address.wrapping_add(first as u64 * 4) & !0xfff).wrapping_add_signed(pages << 12);
    Some(page.wrapping_add(u64::from((ldr >> 10) & 0xfff) * 8))
}

/// Whether the unwind tables show that an address is behind the end of a symbol without a size.
///
/// A stripped object has few symbols left. A symbol without a size (hand-written assembly) would give its name to
/// all functions behind it that have lost theirs.
pub(crate) fn is_behind(image: &Image, found: &FoundSymbol, address: u64) -> bool {
    match function_by_unwind(image, address) {
        Some((start, _)) => start > found.start,
        // Code without an unwind entry, behind a function that has one.
        None => function_by_unwind(image, found.start).is_some_and(|(start, _)| start == found.start),
    }
}

/// The function that contains an address according to the unwind tables (`.eh_frame`): start and end.
pub(crate) fn function_by_unwind(image: &Image, address: u64) -> Option<(u64, u64)> {
    let elf = image.elf()?;
    let endian =
        if elf.is_little_endian() { gimli::RunTimeEndian::Little } else { gimli::RunTimeEndian::Big };
    let section = |name: &str| {
        let s = elf.section_by_name(name)?;
        Some((s.address(), s.data().ok()?))
    };
    let (frame_at, frame) = section(".eh_frame")?;
    let (header_at, header) = section(".eh_frame_hdr")?;
    let text = elf.section_by_name(".text").map_or(0, |s| s.address());
    let bases =
        gimli::BaseAddresses::default().set_eh_frame(frame_at).set_eh_frame_hdr(header_at).set_text(text);
    let width = if elf.is_64() { 8 } else { 4 };
    let parsed = gimli::EhFrameHdr::new(header, endian).parse(&bases, width).ok()?;
    let mut eh_frame = gimli::EhFrame::new(frame, endian);
    eh_frame.set_address_size(width);
    let fde = fde_at(&parsed, &eh_frame, &bases, address)?;
    Some((fde.initial_address(), fde.end_address()))
}

/// Finds the unwind entry of an address in the search table. gimli's own search trusts the table's length, and
/// that its pointers are behind the section's start.
fn fde_at<R: gimli::Reader<Offset = usize>>(
    header: &gimli::ParsedEhFrameHdr<R>,
    eh_frame: &gimli::EhFrame<R>,
    bases: &gimli::BaseAddresses,
    address: u64,
) -> Option<gimli::FrameDescriptionEntry<R>> {
    use gimli::Section as _;
    const MOST_ROWS: usize = u32::MAX as usize;
    let table = header.table()?;
    if table.iter(bases).size_hint().1.is_none_or(|rows| rows > MOST_ROWS) {
        return None;
    }
    let start = header.eh_frame_ptr().direct().ok()?;
    let pointer = table.lookup(address, bases).ok()?.direct().ok()?;
    let offset = usize::try_from(pointer.checked_sub(start)?).ok()?;
    if offset >= eh_frame.reader().len() {
        return None;
    }
    let fde = eh_frame.fde_from_offset(bases, offset.into(), gimli::EhFrame::cie_from_offset).ok()?;
    fde.contains(address).then_some(fde)
}

/// The name for all nameless generated code: the borders of its functions are unknown, and a row for each address
/// would tell the reader nothing.
pub const NAMELESS_CODE: &str = "[no name]";

/// The text for an address without a name: `[libfoo.so+0x1a40]`.
pub(crate) fn nameless(object: &Path, address: u64) -> String {
    let name = object.file_name().map_or_else(|| object.to_string_lossy(), |n| n.to_string_lossy());
    format!("[{}+{address:#x}]", name.trim_start_matches('[').trim_end_matches(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_of_three_shapes_give_their_slot() {
        // jmp *0x2fe2(%rip) at 0x1030
        let classic = [0xff, 0x25, 0xe2, 0x2f, 0, 0, 0x68, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0];
        assert_eq!(x86_64_slot(&classic, 0x1030), Some(0x4018));
        // endbr64; jmp *0x2fc5(%rip) at 0x1050
        let ibt = [0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0xc5, 0x2f, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(x86_64_slot(&ibt, 0x1050), Some(0x401f));
        assert_eq!(x86_64_slot(&[0xff, 0x35, 0, 0, 0, 0], 0), None);
        assert_eq!(x86_64_slot(&[0xff], 0), None);
        // adrp x16, +0x10 pages; ldr x17, [x16, #0xf8]; add; br
        let arm: Vec<u8> = [0x9000_0090u32, 0xf940_7e11, 0x9103_e210, 0xd61f_0220]
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect();
        assert_eq!(aarch64_slot(&arm, 0x610), Some(0x1_0000 + 0xf8));
    }

    #[test]
    fn a_symbol_inside_another_takes_over_and_gaps_stay_gaps() {
        let entry = |start, size, rank, i| Raw {
            start,
            size,
            rank,
            name: Name::Made(format!("f{i}")),
            source: Source::Symbol,
        };
        let sections = [(0x100, 0x200)];
        let table = SymbolTable {
            entries: settle(
                vec![
                    entry(0x100, 0x20, 10, 0),
                    entry(0x100, 0x20, 11, 1),
                    entry(0x110, 4, 10, 2),
                    entry(0x140, 0, 10, 3),
                    entry(0x180, 0x4000, 10, 4),
                ],
                &sections,
            ),
        };
        let spans: Vec<(u64, u64)> = table.entries.iter().map(|e| (e.start, e.end)).collect();
        assert_eq!(spans, [(0x100, 0x110), (0x110, 0x114), (0x140, 0x180), (0x180, 0x200)]);
        assert!(matches!(&table.entries[0].name, Name::Made(n) if n == "f1"));
        assert_eq!(table.len(), 4);
    }
}
