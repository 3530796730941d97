//! The function table of every Go program (`.gopclntab`), stripped or not: names, and how far the stack pointer is
//! below the return address at each instruction.
//!
//! Go programs have no `.eh_frame`. Their functions keep frame pointers, but assembly (hashes, copies, comparisons)
//! uses that register for other values or makes no frame, so frame pointers alone lose its callers. The Go runtime
//! walks with this table, and so does pct: [`eh_frame`] turns [`Rows`] into rules of an `.eh_frame`.
//!
//! ```text
//!  header   magic, 0, 0, minimum instruction, word size | counts | text start | offsets of the parts below
//!  names    texts that end with NUL
//!  pctab    per function: pairs of LEB128 numbers (change of the value, zigzag; octets of code that it holds for)
//!  functab  (start, place of the function's entry) of 32 bits each, ascending; a last start ends the text
//! ```
//!
//! It reads the layouts of Go 1.18 and of Go 1.20 to today, little-endian, 64 bits. Invariant: every number is checked
//! against the number of bytes; nothing is allocated.

use super::instructions::{Opcode, decode};
use super::reader::Section;

/// Go 1.18 and 1.19; Go 1.20 and later.
const MAGICS: [u32; 2] = [0xffff_fff0, 0xffff_fff1];
/// Octets of the header.
const HEADER: usize = 72;
/// The function is the outermost frame of its stack.
const TOP_FRAME: u8 = 1;
/// The function changes to another stack: the caller is not where the table says.
const WRITES_SP: u8 = 2;

/// The table.
#[derive(Clone, Copy, Debug)]
pub struct PcLineTable<'a> {
    bytes: Section<'a>,
    newer: bool,
    step: u32,
    count: usize,
    text: u64,
    names: usize,
    pctab: usize,
    functab: usize,
}

/// One function.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    /// Address of its first instruction, as linked (as relocated, where the table comes from memory).
    pub begin: u64,
    /// Address behind its last one.
    pub end: u64,
    /// Its name, as Go writes it: `crypto/sha256.block`.
    pub name: &'a [u8],
    flags: u8,
    pcsp: usize,
}

impl Function<'_> {
    /// Whether nothing called it, so that a stack ends there.
    #[must_use]
    pub fn is_outermost(&self) -> bool {
        self.flags & TOP_FRAME != 0
    }

    /// Whether it goes over to another stack and calls there what does not return to it: the scheduler goes on with any
    /// goroutine, and what has made the stack larger starts the function anew. So a stack ends there.
    #[must_use]
    pub fn never_returns(&self) -> bool {
        self.changes_stack() && matches!(self.name, b"runtime.mcall" | b"runtime.morestack")
    }

    /// Whether it runs on two stacks, one after the other.
    #[must_use]
    pub fn changes_stack(&self) -> bool {
        self.flags & WRITES_SP != 0
    }
}

/// Where a table begins in `bytes`, searched from `from` on: at its magic number, at a multiple of 16.
#[must_use]
pub fn find(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from.next_multiple_of(16);
    while let Some(head) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let [a, b, c, d, 0, 0, 1 | 4, 8] = *head else {
            at += 16;
            continue;
        };
        if MAGICS.contains(&u32::from_le_bytes([a, b, c, d])) {
            return Some(at);
        }
        at += 16;
    }
    None
}

impl<'a> PcLineTable<'a> {
    /// Reads the header at the beginning of `bytes`, which extend to the table's end or beyond. `text`: where the code
    /// begins, for tables that lack this.
    #[must_use]
    pub fn parse(bytes: &'a [u8], text: u64) -> Option<PcLineTable<'a>> {
        let bytes = Section { bytes, addr: 0 };
        let mut header = bytes.cursor(0);
        let magic = header.u32()?;
        let newer = MAGICS.iter().position(|m| *m == magic)? == 1;
        let (0, step, 8) = (header.u16()?, header.u8()?, header.u8()?) else { return None };
        let word = |at: usize| usize::try_from(bytes.cursor(at).u64()?).ok();
        let (count, names, pctab, functab) = (word(8)?, word(32)?, word(56)?, word(64)?);
        let said = bytes.cursor(24).u64()?;
        let last = functab.checked_add(count.checked_mul(8)?)?.checked_add(4)?;
        if names < HEADER || pctab < HEADER || functab < HEADER || last > bytes.bytes.len() || count == 0 {
            return None;
        }
        let text = if said == 0 { text } else { said };
        Some(PcLineTable { bytes, newer, step: u32::from(step), count, text, names, pctab, functab })
    }

    /// Number of functions.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// All functions in order of their addresses. Damaged entries are left out.
    pub fn functions(&self) -> impl Iterator<Item = Function<'a>> + use<'a> {
        let table = *self;
        (0..self.count).filter_map(move |number| table.function(number))
    }

    fn function(&self, number: usize) -> Option<Function<'a>> {
        let mut pair = self.bytes.cursor(self.functab + number * 8);
        let (begin, entry, end) = (pair.u32()?, pair.u32()?, pair.u32()?);
        let at = self.functab.checked_add(entry as usize)?;
        let half = |offset: usize| self.bytes.cursor(at.checked_add(offset)?).u32();
        let name = self.names.checked_add(half(4)? as usize)?;
        let pcsp = half(16)? as usize;
        let flags = self.bytes.cursor(at.checked_add(if self.newer { 41 } else { 37 })?).u8()?;
        (begin < end && half(0)? == begin).then_some(())?;
        Some(Function {
            begin: self.text.checked_add(u64::from(begin))?,
            end: self.text.checked_add(u64::from(end))?,
            name: self.bytes.cursor(name).cstr()?,
            flags,
            pcsp,
        })
    }

    /// How far the stack pointer is below the return address, for each of a function's instructions.
    #[must_use]
    pub fn rows(&self, function: &Function<'a>) -> Rows<'a> {
        let at = if function.pcsp == 0 { self.bytes.bytes.len() } else { self.pctab + function.pcsp };
        Rows {
            bytes: self.bytes,
            at,
            step: self.step,
            begin: function.begin,
            end: function.end,
            depth: -1,
            first: true,
        }
    }
}

/// A range of instructions with one stack depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Address of the first instruction.
    pub begin: u64,
    /// Address behind the last one.
    pub end: u64,
    /// Octets between the stack pointer and the return address.
    pub depth: u32,
}

/// See [`PcLineTable::rows`].
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    bytes: Section<'a>,
    at: usize,
    step: u32,
    begin: u64,
    end: u64,
    depth: i64,
    first: bool,
}

impl Iterator for Rows<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        let mut pair = self.bytes.cursor(self.at);
        let (change, length) = (pair.uleb()?, pair.uleb()?);
        if change == 0 && !self.first || self.begin >= self.end {
            return None;
        }
        self.first = false;
        self.at = pair.pos();
        let change = u32::try_from(change).ok()?;
        let half = i64::from(change >> 1);
        self.depth = self.depth.checked_add(if change & 1 == 1 { !half } else { half })?;
        let begin = self.begin;
        self.begin = begin.checked_add(length.checked_mul(u64::from(self.step))?)?.min(self.end);
        Some(Row { begin, end: self.begin, depth: u32::try_from(self.depth).ok()? })
    }
}

/// Longest entry of a function. Functions with more rows are walked by frame pointers.
const MOST_ENTRY: usize = 4096;
const RSP: u8 = 7;
const RBP: u8 = 6;
const RA: u8 = 16;

/// Writes the table as an `.eh_frame` at address `at`. `out` gets one piece after another, the common entry first, and
/// with each function's piece the address where the function begins.
///
/// Functions that change the stack are left out, as their callers depend on values in memory; but for those that never
/// return, for which `code` fills the octets with code from an address on. False: it cannot be read.
pub fn eh_frame(
    table: &PcLineTable<'_>,
    at: u64,
    mut code: impl FnMut(u64, &mut [u8]) -> bool,
    mut out: impl FnMut(&[u8], Option<u64>),
) {
    let common = [
        // length 20, no CIE before it, version 1, "zR", code 1, data -8, return address in 16
        20,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        1,
        b'z',
        b'R',
        0,
        1,
        0x78,
        RA,
        // one octet of augmentation: pointers are relative, 32 bits; CFA = rsp + 8, return address below it
        1,
        0x1b,
        0x0c,
        RSP,
        8,
        0x80 | RA,
        1,
        0,
        0,
    ];
    out(&common, None);
    let mut place = common.len();
    for function in table.functions() {
        let mut switch = None;
        if !function.is_outermost() && function.changes_stack() {
            switch = behind_switch(&function, &mut code);
            if switch.is_none() {
                continue;
            }
        }
        let mut entry = Entry { bytes: [0; MOST_ENTRY], len: 4, whole: true };
        let begin = at.wrapping_add(place as u64 + 8);
        let (Ok(start), Ok(length), Ok(back)) = (
            i32::try_from(function.begin.wrapping_sub(begin).cast_signed()),
            u32::try_from(function.end - function.begin),
            u32::try_from(place + 4),
        ) else {
            continue;
        };
        entry.append(&back.to_le_bytes());
        entry.append(&start.to_le_bytes());
        entry.append(&length.to_le_bytes());
        entry.append(&[0]);
        if function.is_outermost() {
            entry.append(&[0x07, RA]);
        } else if let Some(switch) = switch {
            // Without a frame before.
            entry.advance(&mut function.begin.clone(), switch);
            entry.append(&[0x07, RA]);
        } else {
            entry.rows(function.begin, table.rows(&function));
        }
        if let Some(bytes) = entry.finish() {
            out(bytes, Some(function.begin));
            place += bytes.len();
        }
    }
}

/// In a function that never returns: the address behind the instruction that loads the other stack's pointer.
fn behind_switch(function: &Function<'_>, code: &mut impl FnMut(u64, &mut [u8]) -> bool) -> Option<u64> {
    const RSP_IN_CODE: u8 = 4;
    let mut bytes = [0; 512];
    let length = usize::try_from(function.end - function.begin).ok().filter(|_| function.never_returns())?;
    let bytes = bytes.get_mut(..length)?;
    code(function.begin, bytes).then_some(())?;
    let mut at = 0;
    loop {
        let rest = bytes.get(at..)?;
        let instruction = decode(rest)?;
        let opcode = Opcode::new(rest, instruction);
        at += instruction.length;
        if opcode.byte(0) == 0x8b && opcode.other(1) == RSP_IN_CODE {
            return Some(function.begin + at as u64);
        }
    }
}

/// An entry that is being written.
struct Entry {
    bytes: [u8; MOST_ENTRY],
    len: usize,
    whole: bool,
}

impl Entry {
    fn append(&mut self, bytes: &[u8]) {
        match self.bytes.get_mut(self.len..self.len + bytes.len()) {
            Some(to) => {
                to.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            None => self.whole = false,
        }
    }

    fn advance(&mut self, from: &mut u64, to: u64) {
        if let Ok(by) = u32::try_from(to.saturating_sub(*from))
            && by > 0
        {
            self.append(&[0x04]);
            self.append(&by.to_le_bytes());
            *from = to;
        }
    }

    /// The frame pointer is saved right below the return address by `push`, which makes the stack 8 deep, or by a `mov`
    /// of at most 8 octets after the instruction that makes the frame.
    fn rows(&mut self, begin: u64, rows: Rows<'_>) {
        let (mut at, mut rows_seen, mut saved) = (begin, false, false);
        for row in rows {
            self.advance(&mut at, row.begin);
            rows_seen = true;
            self.append(&[0x0e]);
            let mut depth = row.depth.saturating_add(8);
            while depth >= 0x80 {
                self.append(&[(depth & 0x7f) as u8 | 0x80]);
                depth >>= 7;
            }
            self.append(&[depth as u8]);
            if row.depth == 0 && saved {
                self.append(&[0x08, RBP]);
                saved = false;
            } else if row.depth > 0 && !saved {
                let from = if row.depth == 8 { row.begin } else { row.begin.saturating_add(8) };
                if from < row.end {
                    self.advance(&mut at, from);
                    self.append(&[0x80 | RBP, 2]);
                    saved = true;
                }
            }
        }
        // Without rows nothing is known about the function.
        self.whole &= rows_seen;
    }

    /// Returns the entry with its length, a multiple of 4.
    fn finish(&mut self) -> Option<&[u8]> {
        let len = self.len.next_multiple_of(4);
        let size = u32::try_from(len - 4).ok()?;
        self.bytes.get_mut(..4)?.copy_from_slice(&size.to_le_bytes());
        self.bytes.get(..len).filter(|_| self.whole)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cfi::Fde;

    /// A table of Go 1.20: `name`, first and last octet, flags, pairs of pctab.
    fn table(functions: &[(&str, u32, u32, u8, &[u8])]) -> Vec<u8> {
        let (mut names, mut pctab, mut entries) = (vec![0u8], vec![0u8], Vec::new());
        let functab_len = functions.len() * 8 + 4;
        let mut functab = Vec::new();
        for (name, begin, _, flags, pairs) in functions {
            functab.extend(begin.to_le_bytes());
            functab.extend(((functab_len + entries.len()) as u32).to_le_bytes());
            let mut entry = [0u8; 44];
            entry[..4].copy_from_slice(&begin.to_le_bytes());
            entry[4..8].copy_from_slice(&(names.len() as u32).to_le_bytes());
            entry[16..20]
                .copy_from_slice(&(if pairs.is_empty() { 0 } else { pctab.len() as u32 }).to_le_bytes());
            entry[41] = *flags;
            entries.extend(entry);
            names.extend(name.bytes().chain([0]));
            pctab.extend(pairs.iter().chain(&[0]));
        }
        functab.extend(functions.last().map_or(0, |f| f.2).to_le_bytes());
        let mut out = vec![0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8];
        let names_at = HEADER;
        let pctab_at = names_at + names.len();
        let functab_at = pctab_at + pctab.len();
        let words = [functions.len(), 0, 0x40_1000, names_at, 0, 0, pctab_at, functab_at];
        out.extend(words.iter().flat_map(|w| (*w as u64).to_le_bytes()));
        for part in [names, pctab, functab, entries] {
            out.extend(part);
        }
        out
    }

    /// depth 0 for 4 octets, 24 for 16, 0 for 4
    const FRAME: &[u8] = &[2, 4, 48, 16, 47, 4];

    #[test]
    fn functions_names_and_depths_are_read() {
        let bytes = table(&[("main.main", 0, 24, 0, FRAME), ("runtime.goexit", 24, 32, TOP_FRAME, &[])]);
        let table = PcLineTable::parse(&bytes, 0).expect("a table");
        let functions: Vec<Function<'_>> = table.functions().collect();
        assert_eq!(functions[0].name, b"main.main");
        assert_eq!((functions[0].begin, functions[0].end), (0x40_1000, 0x40_1018));
        assert!(functions[1].is_outermost());
        let rows: Vec<_> =
            table.rows(&functions[0]).map(|r| (r.begin - 0x40_1000, r.end - 0x40_1000, r.depth)).collect();
        assert_eq!(rows, [(0, 4, 0), (4, 20, 24), (20, 24, 0)]);
        assert_eq!(table.rows(&functions[1]).count(), 0);
        assert_eq!(find(&[&[0; 32][..], &bytes].concat(), 0), Some(32));
    }

    #[test]
    fn the_rules_lead_to_the_caller() {
        let bytes = table(&[
            ("main.main", 0, 24, 0, FRAME),
            ("runtime.gogo", 24, 32, WRITES_SP, FRAME),
            ("runtime.goexit", 32, 40, TOP_FRAME, &[]),
            ("runtime.mcall", 40, 56, WRITES_SP, &[2, 16]),
        ]);
        let table = PcLineTable::parse(&bytes, 0).expect("a table");
        let (mut frame, mut places) = (Vec::new(), Vec::new());
        // mov rbx, [rsp]; mov rsp, [r14 + 0x38]; push rax; call r12; pop rax; ret
        const MCALL: &[u8; 16] = b"\x48\x8b\x1c\x24\x49\x8b\x66\x38\x50\x41\xff\xd4\x58\xc3\xcc\xcc";
        let code = |at: u64, into: &mut [u8]| {
            into.copy_from_slice(MCALL);
            at == 0x40_1028
        };
        eh_frame(&table, 0x50_0000, code, |piece, function| {
            places.extend(function.map(|f| (f, frame.len())));
            frame.extend(piece);
        });
        assert_eq!(places.iter().map(|p| p.0).collect::<Vec<_>>(), [0x40_1000, 0x40_1020, 0x40_1028]);
        let section = Section { bytes: &frame, addr: 0x50_0000 };
        let fde = Fde::parse(&section, places[0].1).expect("well formed");
        assert_eq!((fde.begin, fde.len), (0x40_1000, 24));
        let rule = |pc| crate::rule::Rule::compile(&fde, pc);
        assert_eq!((rule(0x40_1000).offset(), rule(0x40_1000).bp()), (8, 0));
        assert_eq!((rule(0x40_1004).offset(), rule(0x40_1004).bp()), (32, 0));
        assert_eq!((rule(0x40_100c).offset(), rule(0x40_100c).bp()), (32, -16));
        assert_eq!((rule(0x40_1014).offset(), rule(0x40_1014).bp()), (8, 0));
        let outermost = Fde::parse(&section, places[1].1).expect("well formed");
        let kind = |fde: &Fde<'_>, pc| crate::rule::Rule::compile(fde, pc).kind();
        assert_eq!(kind(&outermost, 0x40_1021), crate::rule::RuleKind::End);
        // Before it goes over to the other stack its caller is where that of any function is.
        let mcall = Fde::parse(&section, places[2].1).expect("well formed");
        assert_eq!(kind(&mcall, 0x40_1028 + 4), crate::rule::RuleKind::Sp);
        assert_eq!(kind(&mcall, 0x40_1028 + 11), crate::rule::RuleKind::End);
    }

    #[test]
    fn damaged_tables_end() {
        let whole = table(&[("main.main", 0, 24, 0, FRAME), ("main.b", 24, 40, 0, FRAME)]);
        for at in 0..whole.len() {
            for value in [0, 0xff, 0x80] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                if let Some(table) = PcLineTable::parse(&bytes, 0).filter(|t| t.count() < 100) {
                    eh_frame(&table, 0, |_, _| true, |piece, _| assert!(piece.len() <= MOST_ENTRY));
                    let _ = table.functions().map(|f| table.rows(&f).count()).sum::<usize>();
                }
            }
            let _ = PcLineTable::parse(&whole[..at], 0).map(|t| t.functions().count());
        }
    }
}
