//! Call frame information: what `.eh_frame` says about one instruction.
//!
//! An FDE covers a range of instructions; its CIE has what many FDEs share. Each contains a small program. Run up to an
//! instruction, it gives a [`Row`]: where the caller's stack pointer (the CFA) was and where its registers are. Source
//! of the format: DWARF 5 section 6.4 and the Linux Standard Base's chapter on exception frames.
//!
//! Invariant: the work for a row is bounded by the length of the two programs, whatever their bytes.
//! Signal safety: it needs only the caller's stack (well under 1 KiB, as signal stacks are small) and has no panic
//! path.

use super::reader::{Cursor, Lack, Section, Source, pe};

/// DWARF numbers of the x86-64 registers that matter here.
pub mod reg {
    /// Frame pointer.
    pub const RBP: u8 = 6;
    /// Stack pointer.
    pub const RSP: u8 = 7;
    /// Column of the return address.
    pub const RA: u8 = 16;
    /// How many columns a row has: sixteen registers and the return address.
    pub const COLUMNS: usize = 17;
}

/// Where the CFA is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cfa {
    /// Not set yet.
    None,
    /// Register plus bytes.
    Reg(u8, i32),
    /// The value of this expression ([`Fde::expression`]).
    Expr(u32),
}

/// Where the caller's value of a register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterLocation {
    /// Unchanged, or not mentioned.
    Same,
    /// Lost. For the return address: there is no caller.
    Undefined,
    /// In memory at CFA plus bytes.
    At(i32),
    /// The value is CFA plus bytes.
    Value(i32),
    /// In another register.
    Reg(u8),
    /// In memory at the address that this expression gives ([`Fde::expression`]).
    AtExpr(u32),
    /// The value is that of this expression.
    ValueExpr(u32),
}

impl RegisterLocation {
    /// Packs it into one word, because rows are stored on small signal stacks: three bits for the kind, the rest for a
    /// number. `None`: the number does not fit (a frame of more than 256 MB).
    fn pack(self) -> Option<u32> {
        let (kind, number) = match self {
            RegisterLocation::Same => (0, 0),
            RegisterLocation::Undefined => (1, 0),
            RegisterLocation::At(k) => (2, k),
            RegisterLocation::Value(k) => (3, k),
            RegisterLocation::Reg(r) => (4, i32::from(r)),
            RegisterLocation::AtExpr(at) => (5, i32::try_from(at).ok()?),
            RegisterLocation::ValueExpr(at) => (6, i32::try_from(at).ok()?),
        };
        let word = number << 3 | kind;
        (word >> 3 == number).then_some(word as u32)
    }

    fn unpack(word: u32) -> RegisterLocation {
        let number = word as i32 >> 3;
        match word & 7 {
            1 => RegisterLocation::Undefined,
            2 => RegisterLocation::At(number),
            3 => RegisterLocation::Value(number),
            4 => RegisterLocation::Reg(number as u8),
            5 => RegisterLocation::AtExpr(number as u32),
            6 => RegisterLocation::ValueExpr(number as u32),
            _ => RegisterLocation::Same,
        }
    }
}

/// The locations that are valid at one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Where the CFA is.
    pub cfa: Cfa,
    /// The packed locations of the registers by DWARF number. The last is the return address.
    regs: [u32; reg::COLUMNS],
}

impl Row {
    const EMPTY: Row = Row { cfa: Cfa::None, regs: [0; reg::COLUMNS] };

    /// Location of the register with number `n`. Columns that are not stored count as unchanged.
    pub fn place(&self, n: u8) -> RegisterLocation {
        self.regs.get(usize::from(n)).map_or(RegisterLocation::Same, |&word| RegisterLocation::unpack(word))
    }
}

/// An entry of an `.eh_frame`: its bytes from the length field to its end, and where in them its id field is.
struct Entry<'a> {
    bytes: Section<'a>,
    id: usize,
}

impl<'a> Entry<'a> {
    fn read(source: &mut impl Source<'a>, at: usize) -> Result<Self, Lack> {
        let mut id = 4;
        let mut some = source.bytes(at, id)?;
        let mut len = u64::from(some.cursor(0).u32().ok_or(Lack::Nothing)?);
        if len == 0xffff_ffff {
            id = 12;
            some = source.bytes(at, id)?;
            len = some.cursor(4).u64().ok_or(Lack::Nothing)?;
        }
        let len = usize::try_from(len).ok().filter(|&len| len != 0).and_then(|len| len.checked_add(id));
        let len = len.ok_or(Lack::Nothing)?;
        if some.bytes.len() < len {
            some = source.bytes(at, len)?;
        }
        Ok(Entry { bytes: some.until(len), id })
    }
}

/// The instructions at the end of an entry.
#[derive(Clone, Copy, Debug)]
struct Program<'a> {
    entry: Section<'a>,
    at: usize,
}

/// An FDE with the contents of its CIE.
#[derive(Clone, Copy, Debug)]
pub struct Fde<'a> {
    /// First address of the instructions it covers.
    pub begin: u64,
    /// Length in bytes.
    pub len: u64,
    /// Whether the kernel made the frame to deliver a signal.
    pub signal: bool,
    code_align: u64,
    data_align: i64,
    encoding: u8,
    shared: Program<'a>,
    own: Program<'a>,
    usual: bool,
}

/// The CIE that compilers write for nearly every function, from its version to its end: version 1, "zR", code 1, data
/// -8, return address in 16, pointers pc-relative of four bytes; CFA = rsp + 8, return address at CFA - 8. The last two
/// bytes are padding. It is recognised as a whole. Reading it byte by byte gives the same result (see the test).
const USUAL: [u8; 16] = [1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0];

#[derive(Debug, PartialEq, Eq)]
struct Cie {
    code_align: u64,
    data_align: i64,
    encoding: u8,
    signal: bool,
    augmented: bool,
    /// Where in the entry the program begins.
    program: usize,
    usual: bool,
}

fn cie(entry: &Entry<'_>) -> Option<Cie> {
    // Length 20, id 0, and the sixteen bytes.
    if let Some(bytes) = entry.bytes.bytes.first_chunk::<24>()
        && bytes.starts_with(&[20, 0, 0, 0, 0, 0, 0, 0])
        && bytes.ends_with(&USUAL)
    {
        return Some(Cie {
            code_align: 1,
            data_align: -8,
            encoding: 0x1b,
            signal: false,
            augmented: true,
            program: 17,
            usual: true,
        });
    }
    cie_by_bytes(entry)
}

/// Where the entry after the CIE at byte `at` starts. `None`: there is no well-formed CIE.
pub(super) fn behind_cie(eh: &Section<'_>, at: usize) -> Option<usize> {
    let entry = Entry::read(&mut { *eh }, at).ok()?;
    cie(&entry)?;
    at.checked_add(entry.bytes.bytes.len())
}

/// Where the entry after the one at byte `at` starts. `None`: there is no entry at `at`.
pub(super) fn behind_entry(eh: &Section<'_>, at: usize) -> Option<usize> {
    let entry = Entry::read(&mut { *eh }, at).ok()?;
    at.checked_add(entry.bytes.bytes.len())
}

fn cie_by_bytes(entry: &Entry<'_>) -> Option<Cie> {
    let mut c = entry.bytes.cursor(entry.id);
    if c.u32()? != 0 {
        return None;
    }
    let version = c.u8()?;
    if version != 1 && version != 3 {
        return None;
    }
    let augmentation = c.cstr()?;
    let code_align = c.uleb()?;
    let data_align = c.sleb()?;
    let ra = if version == 1 { u64::from(c.u8()?) } else { c.uleb()? };
    if ra != u64::from(reg::RA) {
        return None;
    }
    let mut out = Cie {
        code_align,
        data_align,
        encoding: pe::ABSPTR,
        signal: false,
        augmented: false,
        program: 0,
        usual: false,
    };
    let mut letters = augmentation.iter();
    match letters.next() {
        None => {}
        Some(b'z') => {
            out.augmented = true;
            let len = usize::try_from(c.uleb()?).ok()?;
            let mut data = c;
            c.skip(len)?;
            for letter in letters {
                match letter {
                    b'R' => out.encoding = data.u8()?,
                    b'L' => {
                        data.u8()?;
                    }
                    b'P' => {
                        let enc = data.u8()?;
                        data.pointer(enc & 0x7f, 0)?;
                    }
                    b'S' => out.signal = true,
                    // Letters of other machines, or future ones: the length says where the program starts.
                    _ => break,
                }
            }
        }
        Some(_) => return None,
    }
    out.program = c.pos();
    Some(out)
}

impl<'a> Fde<'a> {
    /// Reads the FDE at byte `at`. `None`: there is no FDE, or it is malformed.
    pub fn parse(eh: &Section<'a>, at: usize) -> Option<Fde<'a>> {
        Fde::read(&mut { *eh }, at).ok()
    }

    /// Reads the FDE at byte `at` of `source`, and its CIE.
    ///
    /// # Errors
    /// There is no FDE, it is malformed, or the bytes are not to be had.
    pub fn read(source: &mut impl Source<'a>, at: usize) -> Result<Fde<'a>, Lack> {
        let own = Entry::read(source, at)?;
        let back = own.bytes.cursor(own.id).u32().ok_or(Lack::Nothing)? as usize;
        if back == 0 {
            return Err(Lack::Nothing);
        }
        let shared = at.checked_add(own.id).and_then(|id| id.checked_sub(back)).ok_or(Lack::Nothing)?;
        let shared = Entry::read(source, shared)?;
        Fde::of_entries(&own, &shared).ok_or(Lack::Nothing)
    }

    fn of_entries(own: &Entry<'a>, shared: &Entry<'a>) -> Option<Fde<'a>> {
        let cie = cie(shared)?;
        let mut c = own.bytes.cursor(own.id);
        c.u32()?;
        let begin = c.pointer(cie.encoding, 0)?;
        let len = c.pointer(cie.encoding & 0x0f, 0)?;
        if cie.augmented {
            let skip = usize::try_from(c.uleb()?).ok()?;
            c.skip(skip)?;
        }
        Some(Fde {
            begin,
            len,
            signal: cie.signal,
            code_align: cie.code_align,
            data_align: cie.data_align,
            encoding: cie.encoding,
            shared: Program { entry: shared.bytes, at: cie.program },
            own: Program { entry: own.bytes, at: c.pos() },
            usual: cie.usual,
        })
    }

    /// Whether it covers `pc`.
    pub fn covers(&self, pc: u64) -> bool {
        pc.wrapping_sub(self.begin) < self.len
    }

    /// The row that is valid just before the instruction at `pc` runs.
    #[inline(never)]
    pub fn row(&self, pc: u64) -> Option<Row> {
        let mut machine = Machine::new(self);
        machine.run_both(pc, &mut |_, _| {})?;
        Some(machine.row)
    }

    /// Calls `each` with the first address of each row and the row, in order. `None`: the program is malformed.
    pub fn each_row(&self, mut each: impl FnMut(u64, &Row)) -> Option<()> {
        let mut machine = Machine::new(self);
        machine.run_both(u64::MAX, &mut each)?;
        each(machine.pc, &machine.row);
        Some(())
    }

    /// The bytes that hold an expression of one of its rows, and the position of its length field in them.
    pub(super) fn expression(&self, number: u32) -> (&Section<'a>, u32) {
        let entry = if number & IN_CIE == 0 { &self.own.entry } else { &self.shared.entry };
        (entry, number & !IN_CIE)
    }
}

/// Set in the number of an expression that the CIE has. The rest is its position in the entry.
const IN_CIE: u32 = 1 << 27;

/// Deepest nesting of `remember_state` that is supported. Compilers use one level.
const SAVED: usize = 4;

struct Machine<'f> {
    row: Row,
    initial: Row,
    saved: [Row; SAVED],
    depth: usize,
    pc: u64,
    last: u64,
    /// [`IN_CIE`] or 0.
    holder: u32,
    fde: &'f Fde<'f>,
}

impl<'f> Machine<'f> {
    fn new(fde: &'f Fde<'f>) -> Self {
        let (row, saved) = (Row::EMPTY, [Row::EMPTY; SAVED]);
        Machine { row, initial: row, saved, depth: 0, pc: fde.begin, last: u64::MAX, holder: IN_CIE, fde }
    }

    /// Runs both programs until the row that is valid at `last` is complete.
    #[inline(always)]
    fn run_both(&mut self, last: u64, each: &mut impl FnMut(u64, &Row)) -> Option<()> {
        let fde = self.fde;
        if fde.usual {
            self.row.cfa = Cfa::Reg(reg::RSP, 8);
            self.set(u64::from(reg::RA), RegisterLocation::At(-8))?;
        } else {
            self.run(fde.shared, &mut |_, _| {})?;
        }
        self.initial = self.row;
        self.pc = fde.begin;
        self.last = last;
        self.holder = 0;
        self.run(fde.own, each)
    }

    /// Runs a program to its end or past `last`.
    #[inline(always)]
    fn run(&mut self, program: Program<'_>, each: &mut impl FnMut(u64, &Row)) -> Option<()> {
        let mut c = program.entry.cursor(program.at);
        while !c.at_end() {
            let op = c.u8()?;
            let low = op & 0x3f;
            let to = match op >> 6 {
                1 => self.after(u64::from(low)),
                2 => {
                    let offset = self.factored(c.uleb()? as i64)?;
                    self.set(u64::from(low), RegisterLocation::At(offset))?;
                    continue;
                }
                3 => {
                    self.restore(u64::from(low));
                    continue;
                }
                _ => match op {
                    0x01 => c.pointer(self.fde.encoding, 0)?,
                    0x02 => self.after(u64::from(c.u8()?)),
                    0x03 => self.after(u64::from(c.u16()?)),
                    0x04 => self.after(u64::from(c.u32()?)),
                    _ => {
                        self.other(op, &mut c)?;
                        continue;
                    }
                },
            };
            if to > self.last || to < self.pc {
                // The row that is valid at `last` is complete, or the program runs backwards: nothing more is needed.
                return Some(());
            }
            if to != self.pc {
                each(self.pc, &self.row);
            }
            self.pc = to;
        }
        Some(())
    }

    fn after(&self, step: u64) -> u64 {
        self.pc.wrapping_add(step.wrapping_mul(self.fde.code_align))
    }

    fn other(&mut self, op: u8, c: &mut Cursor<'_>) -> Option<()> {
        match op {
            0x00 => {}
            0x05 => {
                let r = c.uleb()?;
                let offset = self.factored(c.uleb()? as i64)?;
                self.set(r, RegisterLocation::At(offset))?;
            }
            0x06 => {
                let r = c.uleb()?;
                self.restore(r);
            }
            0x07 => self.set(c.uleb()?, RegisterLocation::Undefined)?,
            0x08 => self.set(c.uleb()?, RegisterLocation::Same)?,
            0x09 => {
                let r = c.uleb()?;
                let from = u8::try_from(c.uleb()?).ok()?;
                self.set(r, RegisterLocation::Reg(from))?;
            }
            0x0a => {
                *self.saved.get_mut(self.depth)? = self.row;
                self.depth += 1;
            }
            0x0b => {
                self.depth = self.depth.checked_sub(1)?;
                self.row = *self.saved.get(self.depth)?;
            }
            0x0c => {
                let r = u8::try_from(c.uleb()?).ok()?;
                self.row.cfa = Cfa::Reg(r, i32::try_from(c.uleb()?).ok()?);
            }
            0x0d => {
                let Cfa::Reg(_, offset) = self.row.cfa else { return None };
                self.row.cfa = Cfa::Reg(u8::try_from(c.uleb()?).ok()?, offset);
            }
            0x0e => {
                let Cfa::Reg(r, _) = self.row.cfa else { return None };
                self.row.cfa = Cfa::Reg(r, i32::try_from(c.uleb()?).ok()?);
            }
            0x0f => self.row.cfa = Cfa::Expr(self.block(c)?),
            0x10 => {
                let r = c.uleb()?;
                let at = self.block(c)?;
                self.set(r, RegisterLocation::AtExpr(at))?;
            }
            0x11 => {
                let r = c.uleb()?;
                let offset = self.factored(c.sleb()?)?;
                self.set(r, RegisterLocation::At(offset))?;
            }
            0x12 => {
                let r = u8::try_from(c.uleb()?).ok()?;
                let offset = self.factored(c.sleb()?)?;
                self.row.cfa = Cfa::Reg(r, offset);
            }
            0x13 => {
                let Cfa::Reg(r, _) = self.row.cfa else { return None };
                let offset = self.factored(c.sleb()?)?;
                self.row.cfa = Cfa::Reg(r, offset);
            }
            0x14 => {
                let r = c.uleb()?;
                let offset = self.factored(c.uleb()? as i64)?;
                self.set(r, RegisterLocation::Value(offset))?;
            }
            0x15 => {
                let r = c.uleb()?;
                let offset = self.factored(c.sleb()?)?;
                self.set(r, RegisterLocation::Value(offset))?;
            }
            0x16 => {
                let r = c.uleb()?;
                let at = self.block(c)?;
                self.set(r, RegisterLocation::ValueExpr(at))?;
            }
            // GNU: the size of pushed arguments, which does not matter here; an offset with negated sign.
            0x2e => {
                c.uleb()?;
            }
            0x2f => {
                let r = c.uleb()?;
                let offset = self.factored((c.uleb()? as i64).checked_neg()?)?;
                self.set(r, RegisterLocation::At(offset))?;
            }
            _ => return None,
        }
        Some(())
    }

    /// Skips an expression and returns its number.
    fn block(&self, c: &mut Cursor<'_>) -> Option<u32> {
        let at = u32::try_from(c.pos()).ok().filter(|at| *at < IN_CIE)?;
        let len = usize::try_from(c.uleb()?).ok()?;
        c.skip(len)?;
        Some(at | self.holder)
    }

    fn factored(&self, n: i64) -> Option<i32> {
        i32::try_from(n.checked_mul(self.fde.data_align)?).ok()
    }

    fn set(&mut self, r: u64, place: RegisterLocation) -> Option<()> {
        // Vector and segment registers have numbers from 17 on. They are not needed here.
        if let Some(slot) = self.row.regs.get_mut(r as usize) {
            *slot = place.pack()?;
        }
        Some(())
    }

    fn restore(&mut self, r: u64) {
        let word = self.initial.regs.get(r as usize).copied().unwrap_or(0);
        if let Some(slot) = self.row.regs.get_mut(r as usize) {
            *slot = word;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_usual_cie_means_what_its_bytes_say() {
        let (bytes, at) = crate::testing::eh_frame(&[(0x1000, 64)], 0x8000);
        let eh = Section { bytes: &bytes, addr: 0x8000 };
        let entry = Entry::read(&mut { eh }, 0).expect("an entry");
        let (quick, slow) = (cie(&entry).expect("a CIE"), cie_by_bytes(&entry).expect("a CIE"));
        assert!(quick.usual);
        assert_eq!(Cie { usual: false, ..quick }, slow);
        let fde = Fde::parse(&eh, at[0]).expect("an FDE");
        let by_bytes = Fde { usual: false, ..fde };
        for pc in [0x1000, 0x1001, 0x103f] {
            assert_eq!(fde.row(pc), by_bytes.row(pc));
            assert!(fde.row(pc).is_some_and(|r| r.place(reg::RA) == RegisterLocation::At(-8)));
        }
    }

    #[test]
    fn rows_follow_the_program() {
        let (bytes, at) = crate::testing::eh_frame(&[(0x1000, 64)], 0x8000);
        let eh = Section { bytes: &bytes, addr: 0x8000 };
        let fde = Fde::parse(&eh, at[0]).expect("an FDE");
        let mut rows = Vec::new();
        fde.each_row(|from, row| rows.push((from, row.cfa, row.place(reg::RBP)))).expect("well formed");
        assert_eq!(
            rows,
            [
                (0x1000, Cfa::Reg(7, 8), RegisterLocation::Same),
                (0x1001, Cfa::Reg(7, 16), RegisterLocation::At(-16))
            ]
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]
        #[test]
        fn a_row_is_the_last_of_all_rows_that_starts_at_or_before_it(program in proptest::collection::vec(any::<u8>(), 0..60), ask in 0u64..400) {
            let (mut bytes, at) = crate::testing::eh_frame(&[(0x1000, 400)], 0x8000);
            // Replaces the program of the only FDE by the given bytes.
            bytes.truncate(at[0] + 17);
            bytes.extend_from_slice(&program);
            let len = bytes.len() - at[0] - 4;
            bytes[at[0]..at[0] + 4].copy_from_slice(&(len as u32).to_le_bytes());
            let eh = Section { bytes: &bytes, addr: 0x8000 };
            let fde = Fde::parse(&eh, at[0]).expect("an FDE");
            let mut last = None;
            let mut from = 0;
            let whole = fde.each_row(|start, row| {
                assert!(start >= from);
                from = start;
                if start <= 0x1000 + ask {
                    last = Some(*row);
                }
            });
            if whole.is_some() {
                prop_assert_eq!(fde.row(0x1000 + ask), last);
            } else {
                let _ = fde.row(0x1000 + ask);
            }
        }
    }
}
