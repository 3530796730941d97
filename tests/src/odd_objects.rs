//! Shared objects that a loader accepts and that usual linkers do not make: as post-link optimizers, `patchelf`,
//! packers and hand-written linker scripts leave them.
//!
//! Each has the chain of calls of `tests/victims/odd_chain.c`, in functions with names of its own: [`Odd::names`]. A
//! linker script varies what is in the segments and in which order, how far apart they are, and where bss is. Then the
//! file is laid out anew: segments lie in it in any order, the program headers are elsewhere, the section table is
//! gone.

use crate::victims::{self, victim_with};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Names of functions in `odd_chain.c` begin so; the number is replaced by that of the object.
const PREFIX: &[u8] = b"c0000_";

/// An object with an odd layout.
#[derive(Debug)]
pub struct Odd {
    /// The file.
    pub path: PathBuf,
    /// Which one it is.
    pub number: usize,
    /// What is odd in it, for messages.
    pub layout: String,
    /// Its functions have names: it has a section table.
    pub has_names: bool,
}

impl Odd {
    /// The functions of the chain, outermost first, as their names are in this object.
    #[must_use]
    pub fn names(&self) -> [String; 3] {
        ["outer", "inner", "spin"].map(|name| format!("c{:04}_{name}", self.number))
    }
}

/// The first `count` objects of a fixed list, made in `folder`. `Err` has the words of the compiler or linker.
pub fn make(folder: &Path, count: usize) -> Result<Vec<Odd>, String> {
    let flags = "cc -O2 -fPIC -fno-stack-protector -fasynchronous-unwind-tables -c";
    let chain = victim_with("odd_chain.c", flags, "odd_chain.o")?;
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let mut odd = Vec::with_capacity(count);
    let mut linked = Linked::default();
    while odd.len() < count {
        if odd.len() % FILES_OF_A_LINK == 0 {
            linked = Linked::new(&chain, folder, odd.len(), &mut chance)?;
        }
        let number = odd.len();
        let file = Laid::out(&linked.bytes, &mut chance);
        let path = folder.join(format!("odd{number:04}.so"));
        file.store(&path, number).map_err(|why| format!("{}: {why}", path.display()))?;
        let layout = format!("{}; {}", linked.layout, file.layout);
        odd.push(Odd { path, number, layout, has_names: file.has_sections });
    }
    Ok(odd)
}

/// As many files are laid out from the result of each link.
const FILES_OF_A_LINK: usize = 5;

/// Numbers that are the same in each run (splitmix64, <https://prng.di.unimi.it/splitmix64.c>).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below a usize")
    }
    fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
    fn shuffle<T>(&mut self, all: &mut [T]) {
        for at in (1..all.len()).rev() {
            all.swap(at, self.below(at + 1));
        }
    }
}

/// Sections of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// A part of the code.
    Hot,
    /// The other part of it.
    Cold,
    /// Unwind data and constants.
    Frames,
    /// The dynamic section and data, with or without bss behind.
    Data,
    /// bss as a segment of its own.
    Bss,
}

/// A linked object, and what is odd in it.
#[derive(Default)]
struct Linked {
    bytes: Vec<u8>,
    layout: String,
}

impl Linked {
    fn new(chain: &Path, folder: &Path, number: usize, chance: &mut Chance) -> Result<Self, String> {
        let (script, layout) = script(chance);
        let [script_file, out] = ["ld", "linked"].map(|what| folder.join(format!("{number}.{what}")));
        std::fs::write(&script_file, script).map_err(|why| why.to_string())?;
        let mut link = Command::new("cc");
        link.args([
            "-shared",
            "-nostdlib",
            "-Wl,-z,norelro,--build-id=none,--eh-frame-hdr,--no-warn-rwx-segments",
        ]);
        let page = if chance.once_in(4) { 0x20_0000 } else { PAGE };
        link.arg(format!("-Wl,-z,max-page-size={page}"));
        link.arg(format!("-Wl,-T,{}", script_file.display())).arg("-o").arg(&out).arg(chain);
        victims::succeeded(&mut link)?;
        let layout = format!("{layout}, pages of {page:#x}");
        Ok(Self { bytes: std::fs::read(&out).map_err(|why| why.to_string())?, layout })
    }
}

/// A linker script, and what is odd in it.
fn script(chance: &mut Chance) -> (String, String) {
    let has_own_bss = chance.once_in(2);
    let mut parts = vec![Part::Hot, Part::Cold, Part::Frames, Part::Data];
    if has_own_bss {
        parts.push(Part::Bss);
    }
    chance.shuffle(&mut parts);
    // The first segment has the ELF header and the program headers, or nothing has them.
    let has_headers = !chance.once_in(4);
    // Unwind data lie between the code, as old linkers put them.
    let has_data_in_code = chance.once_in(4);
    let gap = [0, PAGE, 0x3000, 0x20_0000, 0x123_4000][chance.below(5)];
    let align = [PAGE, PAGE, 0x1_0000, 0x20_0000][chance.below(4)];
    let mut segments = String::from("PHDRS {\n");
    let own = if has_headers { " FILEHDR PHDRS" } else { "" };
    let _ = writeln!(segments, "  headers PT_LOAD{own} FLAGS(4);");
    let mut sections = String::from("SECTIONS {\n");
    let start = if has_headers { "SIZEOF_HEADERS".to_owned() } else { format!("{PAGE}") };
    let _ = writeln!(sections, "  . = {start};");
    for (section, from) in [
        ("gnu.hash", "gnu.hash"),
        ("hash", "hash"),
        ("dynsym", "dynsym"),
        ("dynstr", "dynstr"),
        ("rela", "rela.*"),
    ] {
        let _ = writeln!(sections, "  .{section} : {{ *(.{from}) }} :headers");
    }
    for (at, part) in parts.iter().enumerate() {
        let flags = match part {
            Part::Hot | Part::Cold => 5,
            Part::Frames if has_data_in_code => 5,
            Part::Frames => 4,
            Part::Data | Part::Bss => 6,
        };
        let _ = writeln!(segments, "  s{at} PT_LOAD FLAGS({flags});");
        let _ = writeln!(sections, "  . = ALIGN({align}) + {};", if chance.once_in(2) { gap } else { 0 });
        let _ = match part {
            Part::Hot => writeln!(sections, "  .text.hot : {{ *(.text.hot) }} :s{at}"),
            Part::Cold => writeln!(sections, "  .text : {{ *(.text.cold .text) }} :s{at}"),
            Part::Frames => writeln!(
                sections,
                "  .rodata : {{ *(.rodata .rodata.*) }} :s{at}\n  .eh_frame_hdr : {{ *(.eh_frame_hdr) }} :s{at} :eh\n  \
                 .eh_frame : {{ KEEP(*(.eh_frame)) }} :s{at}"
            ),
            Part::Data => {
                let bss = if has_own_bss { "" } else { "  .bss : { *(.bss .bss.*) }\n" };
                writeln!(
                    sections,
                    "  .dynamic : {{ *(.dynamic) }} :s{at} :dynamic\n  .data : {{ *(.data .data.* .got .got.plt) }} \
                     :s{at}\n{bss}"
                )
            }
            Part::Bss => writeln!(sections, "  .bss : {{ *(.bss .bss.*) }} :s{at}"),
        };
    }
    segments +=
        "  dynamic PT_DYNAMIC FLAGS(6);\n  eh PT_GNU_EH_FRAME FLAGS(4);\n  stack PT_GNU_STACK FLAGS(6);\n}\n";
    sections += "  /DISCARD/ : { *(.note.*) *(.comment) }\n}\n";
    let headers = if has_headers { "headers loaded" } else { "headers not loaded" };
    let layout = format!("{headers}, {parts:?}, aligned to {align:#x}, gaps {gap:#x}");
    (segments + &sections, layout)
}

/// Offsets in ELF headers (ELF-64 object file format, "ELF Header", "Program Header", "Section Header").
mod field {
    pub(super) const PROGRAM_HEADERS: usize = 32;
    pub(super) const SECTIONS: usize = 40;
    pub(super) const PROGRAM_HEADER_COUNT: usize = 56;
    pub(super) const SECTION_COUNT: usize = 60;
    pub(super) const SECTION_NAMES: usize = 62;
    pub(super) const PROGRAM_HEADER_BYTES: usize = 56;
    pub(super) const SECTION_BYTES: usize = 64;
    pub(super) const HEADER_BYTES: usize = 64;
}

const LOAD: u64 = 1;
const NO_BITS: u64 = 8;

/// A program header.
#[derive(Clone, Copy)]
struct Segment {
    kind: u64,
    flags: u64,
    offset: u64,
    address: u64,
    file_bytes: u64,
    memory_bytes: u64,
    align: u64,
}

impl Segment {
    fn parse(bytes: &[u8]) -> Self {
        Self {
            kind: number(bytes, 0, 4),
            flags: number(bytes, 4, 4),
            offset: number(bytes, 8, 8),
            address: number(bytes, 16, 8),
            file_bytes: number(bytes, 32, 8),
            memory_bytes: number(bytes, 40, 8),
            align: number(bytes, 48, 8),
        }
    }
    fn store(&self, to: &mut [u8]) {
        for (at, width, value) in [
            (0, 4, self.kind),
            (4, 4, self.flags),
            (8, 8, self.offset),
            (16, 8, self.address),
            (24, 8, self.address),
            (32, 8, self.file_bytes),
            (40, 8, self.memory_bytes),
            (48, 8, self.align),
        ] {
            put(to, at, width, value);
        }
    }
    /// Where a byte that is at `offset` in the old file is in the new one, if this segment has it: `from` is this
    /// segment in the old file.
    fn moved(&self, from: &Segment, offset: u64, bytes: u64) -> Option<u64> {
        let within = offset.checked_sub(from.offset)?;
        (within + bytes <= from.file_bytes).then_some(self.offset + within)
    }
}

fn number(bytes: &[u8], at: usize, width: usize) -> u64 {
    bytes[at..at + width].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

fn put(bytes: &mut [u8], at: usize, width: usize, value: u64) {
    bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("a small file")
}

/// A file as pieces at offsets; what is between them is a hole.
struct Laid {
    pieces: Vec<(u64, Vec<u8>)>,
    layout: String,
    has_sections: bool,
}

impl Laid {
    /// Lays a linked object out in another order.
    fn out(linked: &[u8], chance: &mut Chance) -> Self {
        let count = index(number(linked, field::PROGRAM_HEADER_COUNT, 2));
        let old_at = index(number(linked, field::PROGRAM_HEADERS, 8));
        let old: Vec<Segment> = linked[old_at..]
            .chunks_exact(field::PROGRAM_HEADER_BYTES)
            .take(count)
            .map(Segment::parse)
            .collect();
        let mut new = old.clone();
        let is_shuffled = !chance.once_in(3);
        let headers_are_last = chance.once_in(3);
        let has_sections = !chance.once_in(4);
        let mut pieces = Vec::new();
        let mut end = field::HEADER_BYTES as u64;
        if !headers_are_last {
            end = (old_at + count * field::PROGRAM_HEADER_BYTES) as u64;
        }
        // What begins the file stays there.
        let is_first =
            |segment: &&Segment| segment.kind == LOAD && segment.file_bytes > 0 && segment.offset == 0;
        let loads = |segment: &Segment| segment.kind == LOAD && segment.file_bytes > 0 && !is_first(&segment);
        let mut order: Vec<usize> = (0..count).filter(|at| loads(&old[*at])).collect();
        if let Some(first) = old.iter().find(is_first) {
            end = end.max(first.file_bytes);
            pieces.push((0, linked[..index(first.file_bytes)].to_vec()));
        } else {
            pieces.push((0, linked[..field::HEADER_BYTES].to_vec()));
        }
        if is_shuffled {
            chance.shuffle(&mut order);
        }
        for at in order {
            let (from, to) = (&old[at], &mut new[at]);
            // In the file as far from a border of a page as in memory.
            let page = from.align.max(PAGE);
            to.offset = end.next_multiple_of(page) + from.address % page;
            if chance.once_in(3) {
                to.offset += page * (chance.next() % 3);
            }
            end = to.offset + from.file_bytes;
            let bytes = &linked[index(from.offset)..index(from.offset + from.file_bytes)];
            pieces.push((to.offset, bytes.to_vec()));
        }
        for at in 0..count {
            let segment = old[at];
            if segment.kind != LOAD && segment.file_bytes > 0 {
                let inside = (0..count).filter(|load| old[*load].kind == LOAD);
                let moved = inside
                    .filter_map(|load| new[load].moved(&old[load], segment.offset, segment.file_bytes))
                    .next();
                new[at].offset = moved.expect("it is in a loaded segment");
            }
        }
        let mut laid = Self { pieces, layout: String::new(), has_sections };
        if has_sections {
            end = laid.add_sections(linked, (&old, &new), end);
        } else {
            laid.set(field::SECTIONS, 8, 0);
            laid.set(field::SECTION_COUNT, 2, 0);
            laid.set(field::SECTION_NAMES, 2, 0);
        }
        let headers_at = if headers_are_last { end.next_multiple_of(PAGE) } else { old_at as u64 };
        let are_loaded = headers_are_last && chance.once_in(2);
        if are_loaded {
            let last =
                old.iter().filter(|segment| segment.kind == LOAD).map(|s| s.address + s.memory_bytes).max();
            let bytes = ((count + 1) * field::PROGRAM_HEADER_BYTES) as u64;
            let address = last.unwrap_or(0).next_multiple_of(PAGE) + PAGE;
            let own = Segment {
                kind: LOAD,
                flags: 4,
                offset: headers_at,
                address,
                file_bytes: bytes,
                memory_bytes: bytes,
                align: PAGE,
            };
            // Behind the other loaded ones: loaders want them in order of their addresses.
            let behind = new.iter().rposition(|segment| segment.kind == LOAD).map_or(0, |at| at + 1);
            new.insert(behind, own);
        }
        let mut headers = vec![0; new.len() * field::PROGRAM_HEADER_BYTES];
        for (to, segment) in headers.chunks_exact_mut(field::PROGRAM_HEADER_BYTES).zip(&new) {
            segment.store(to);
        }
        laid.set(field::PROGRAM_HEADERS, 8, headers_at);
        laid.set(field::PROGRAM_HEADER_COUNT, 2, new.len() as u64);
        if headers_are_last {
            laid.pieces.push((headers_at, headers));
        } else {
            let first = &mut laid.pieces[0].1;
            first.resize(first.len().max(old_at + headers.len()), 0);
            first[old_at..old_at + headers.len()].copy_from_slice(&headers);
        }
        laid.layout = format!(
            "{}, program headers {}, {}",
            if is_shuffled { "shuffled in the file" } else { "in order in the file" },
            match (headers_are_last, are_loaded) {
                (false, _) => "first",
                (true, true) => "last and loaded",
                (true, false) => "last",
            },
            if has_sections { "a section table" } else { "no section table" }
        );
        laid
    }

    /// Sets a field of the ELF header.
    fn set(&mut self, at: usize, width: usize, value: u64) {
        put(&mut self.pieces[0].1, at, width, value);
    }

    /// Adds the sections that are not loaded, and the section table. Where they end.
    fn add_sections(&mut self, linked: &[u8], (old, new): (&[Segment], &[Segment]), mut end: u64) -> u64 {
        let table_at = index(number(linked, field::SECTIONS, 8));
        let count = index(number(linked, field::SECTION_COUNT, 2));
        let mut table = linked[table_at..table_at + count * field::SECTION_BYTES].to_vec();
        for section in table.chunks_exact_mut(field::SECTION_BYTES) {
            let (kind, offset, bytes) =
                (number(section, 4, 4), number(section, 24, 8), number(section, 32, 8));
            let in_file = if kind == NO_BITS { 0 } else { bytes };
            let loads = old.iter().zip(new).filter(|(segment, _)| segment.kind == LOAD);
            let is_loaded = number(section, 8, 8) & 2 != 0;
            let moved = loads.filter_map(|(from, to)| to.moved(from, offset, in_file)).next();
            let to = match moved.filter(|_| is_loaded) {
                Some(to) => to,
                None if is_loaded || in_file == 0 => offset,
                None => {
                    let to = end.next_multiple_of(16);
                    self.pieces.push((to, linked[index(offset)..index(offset + in_file)].to_vec()));
                    end = to + in_file;
                    to
                }
            };
            put(section, 24, 8, to);
        }
        let at = end.next_multiple_of(16);
        end = at + table.len() as u64;
        self.pieces.push((at, table));
        self.set(field::SECTIONS, 8, at);
        end
    }

    /// Writes it with the names of object `number`.
    fn store(&self, path: &Path, number: usize) -> std::io::Result<()> {
        use std::os::unix::fs::FileExt as _;
        let file = std::fs::File::create(path)?;
        for (at, bytes) in &self.pieces {
            let mut bytes = bytes.clone();
            let own = format!("c{number:04}_");
            for from in 0..bytes.len().saturating_sub(PREFIX.len() - 1) {
                if bytes[from..].starts_with(PREFIX) {
                    bytes[from..from + PREFIX.len()].copy_from_slice(own.as_bytes());
                }
            }
            file.write_all_at(&bytes, *at)?;
        }
        Ok(())
    }
}
