//! A step with all registers, for the few frames that a packed rule cannot express.
//!
//! These are assembler that keeps the CFA in rbx or rax, frames realigned for vector registers, functions with the
//! return address in a register, and expressions. Registers whose value is lost are marked as unknown. A step that
//! needs one of them fails.

use super::cfi::{Cfa, Fde, RegisterLocation, Row, reg};
use super::expr;
use super::rule::ucontext;
use super::stack::Memory;
use super::table::Table;

/// The general registers of an interrupted thread, in the kernel's order (`uc_mcontext.gregs` of the
/// handler's `ucontext`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Gregs(pub [u64; ucontext::COUNT]);

impl Gregs {
    /// The register with DWARF number `n` (16: rip).
    pub fn get(&self, n: u8) -> u64 {
        let at = ucontext::OF_DWARF.get(usize::from(n)).copied().unwrap_or(0);
        self.0.get(usize::from(at)).copied().unwrap_or(0)
    }

    /// The registers that the kernel saved for a signal handler with its `ucontext` at `at`.
    pub fn of_signal_frame(memory: &mut impl Memory, at: u64) -> Option<Gregs> {
        let mut out = Gregs::default();
        let mut addr = at.checked_add(ucontext::GREGS)?;
        for slot in &mut out.0 {
            *slot = memory.read(addr)?;
            addr = addr.checked_add(8)?;
        }
        Some(out)
    }
}

/// Register values by DWARF number, and which of them are known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Regs {
    values: [u64; reg::COLUMNS],
    known: u32,
}

impl Regs {
    /// All registers, from a `ucontext`.
    pub fn all(gregs: &Gregs) -> Regs {
        let mut values = [0; reg::COLUMNS];
        for (n, slot) in values.iter_mut().enumerate() {
            *slot = gregs.get(n as u8);
        }
        Regs { values, known: u32::MAX }
    }

    /// Registers from a copy that lacks some of them, by DWARF number.
    pub fn from_columns(values: [Option<u64>; reg::COLUMNS]) -> Regs {
        let mut out = Regs::default();
        for (number, value) in (0..).zip(values) {
            if let Some(value) = value {
                out.set(number, value);
            }
        }
        out
    }

    /// Only the three registers that a chain of frame pointers gives.
    pub fn three(pc: u64, sp: u64, bp: u64) -> Regs {
        let mut out = Regs::default();
        out.set(reg::RA, pc);
        out.set(reg::RSP, sp);
        out.set(reg::RBP, bp);
        out
    }

    /// A register's value, if known.
    pub fn get(&self, n: u8) -> Option<u64> {
        if self.known & 1u32.checked_shl(u32::from(n))? == 0 {
            return None;
        }
        self.values.get(usize::from(n)).copied()
    }

    pub(super) fn set(&mut self, n: u8, v: u64) {
        if let Some(slot) = self.values.get_mut(usize::from(n)) {
            *slot = v;
            self.known |= 1 << n;
        }
    }

    /// Steps to the caller with an object's table, which covers `pc` (the address to look up; for a caller, an address
    /// inside its call). A caller's stack is at higher addresses, unless a signal's frame leads to another stack.
    ///
    /// # Errors
    /// Something is missing or malformed.
    pub fn step(&self, table: &Table<'_>, pc: u64, memory: &mut impl Memory) -> Result<StepOut, Failed> {
        let fde = table.find(pc).ok_or(Failed::NoData)?;
        let Some(caller) = self.caller(&fde, pc, memory)? else {
            return Ok(StepOut::Outermost);
        };
        if caller.get(reg::RA) == Some(0) {
            return Ok(StepOut::Outermost);
        }
        if fde.signal {
            return Ok(StepOut::Interrupted(caller));
        }
        let rises = caller.get(reg::RSP) > self.get(reg::RSP);
        if rises { Ok(StepOut::Caller(caller)) } else { Err(Failed::Memory) }
    }

    /// The registers of the caller. `Ok(None)`: this is the outermost frame.
    pub fn caller(&self, fde: &Fde<'_>, pc: u64, memory: &mut impl Memory) -> Result<Option<Regs>, Failed> {
        let row = fde.row(pc).ok_or(Failed::Data)?;
        if row.place(reg::RA) == RegisterLocation::Undefined {
            return Ok(None);
        }
        let cfa = match row.cfa {
            Cfa::None => return Err(Failed::Data),
            Cfa::Reg(r, o) => self.get(r).ok_or(Failed::Lost)?.wrapping_add(o as i64 as u64),
            Cfa::Expr(number) => self.compute(fde, number, None, pc, memory).ok_or(Failed::Memory)?,
        };
        let mut out = Regs::default();
        for n in 0..reg::COLUMNS as u8 {
            if let Some(v) = self.restored(fde, &row, n, cfa, pc, memory) {
                out.set(n, v);
            }
        }
        match (out.get(reg::RA), out.get(reg::RSP)) {
            (Some(_), Some(_)) => Ok(Some(out)),
            _ => Err(Failed::Memory),
        }
    }

    fn restored(
        &self,
        fde: &Fde<'_>,
        row: &Row,
        n: u8,
        cfa: u64,
        pc: u64,
        memory: &mut impl Memory,
    ) -> Option<u64> {
        match row.place(n) {
            RegisterLocation::Same if n == reg::RSP => Some(cfa),
            RegisterLocation::Same if n == reg::RA => None,
            RegisterLocation::Same => self.get(n),
            RegisterLocation::Undefined => None,
            RegisterLocation::At(k) => load(memory, cfa.wrapping_add(k as i64 as u64)),
            RegisterLocation::Value(k) => Some(cfa.wrapping_add(k as i64 as u64)),
            RegisterLocation::Reg(r) => self.get(r),
            RegisterLocation::AtExpr(number) => {
                let addr = self.compute(fde, number, Some(cfa), pc, memory)?;
                load(memory, addr)
            }
            RegisterLocation::ValueExpr(number) => self.compute(fde, number, Some(cfa), pc, memory),
        }
    }

    fn compute(
        &self,
        fde: &Fde<'_>,
        number: u32,
        first: Option<u64>,
        pc: u64,
        memory: &mut impl Memory,
    ) -> Option<u64> {
        let mut register = |n: u8| if n == reg::RA { Some(pc) } else { self.get(n) };
        let (bytes, at) = fde.expression(number);
        expr::evaluate(bytes, at, first, &mut register, &mut |addr| load(memory, addr))
    }
}

fn load(memory: &mut impl Memory, addr: u64) -> Option<u64> {
    match memory.read(addr) {
        Some(v) => Some(v),
        None => memory.far(addr),
    }
}

/// The result of a step.
#[derive(Clone, Copy, Debug)]
pub enum StepOut {
    /// The caller. Its address is the one after a call.
    Caller(Regs),
    /// Code that a signal interrupted. Its address is that of its next instruction.
    Interrupted(Regs),
    /// There is no caller.
    Outermost,
}

/// Why a step was not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// There is no unwind data for the address.
    NoData,
    /// The unwind data is malformed.
    Data,
    /// The value of a register is unknown.
    Lost,
    /// Memory cannot be read.
    Memory,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Section;
    use crate::table::{FdeRef, buckets_for};
    use crate::testing::eh_frame;

    const CODE: u64 = 0x1000;
    const STACK: u64 = 0x7000;

    struct Words<'a>(&'a [u64]);

    impl Memory for Words<'_> {
        fn enter(&mut self, _: u64) -> bool {
            true
        }
        fn peek(&self, addr: u64) -> Option<u64> {
            let at = usize::try_from(addr.checked_sub(STACK)? / 8).ok()?;
            self.0.get(at).copied()
        }
    }

    /// A step at `pc` in a function that pushes rbp in its first byte, with these registers and stack words.
    fn step(pc: u64, known: &[(u8, u64)], stack: &[u64]) -> Result<StepOut, Failed> {
        let (bytes, fdes) = eh_frame(&[(CODE, 0x20)], 0x4000);
        let index = [FdeRef { pc: 0, fde: u32::try_from(fdes[0]).expect("small") }];
        let mut buckets = vec![0; buckets_for(1)];
        let section = Section { bytes: &bytes, addr: 0x4000 };
        let table = Table::new(CODE, section, &index, &mut buckets);
        let mut values = [None; reg::COLUMNS];
        for (number, value) in known {
            values[usize::from(*number)] = Some(*value);
        }
        Regs::from_columns(values).step(&table, pc, &mut Words(stack))
    }

    #[test]
    fn a_step_restores_what_the_function_saved() {
        let sp = (reg::RSP, STACK);
        let Ok(StepOut::Caller(caller)) = step(CODE + 8, &[sp], &[0x7100, 0x2222]) else {
            panic!("a caller")
        };
        let found = [reg::RA, reg::RSP, reg::RBP].map(|number| caller.get(number));
        assert_eq!(found, [Some(0x2222), Some(STACK + 16), Some(0x7100)]);
        assert_eq!(caller.get(3), None, "nobody said what rbx was");
        // In its first instruction nothing is pushed yet.
        let Ok(StepOut::Caller(caller)) = step(CODE, &[sp], &[0x2222]) else { panic!("a caller") };
        assert_eq!((caller.get(reg::RA), caller.get(reg::RBP)), (Some(0x2222), None));
    }

    #[test]
    fn what_a_step_lacks_is_told_apart() {
        let sp = (reg::RSP, STACK);
        assert!(matches!(step(CODE + 0x20, &[sp], &[1, 2]), Err(Failed::NoData)));
        assert!(matches!(step(CODE + 8, &[], &[1, 2]), Err(Failed::Lost)));
        assert!(matches!(step(CODE + 8, &[sp], &[1]), Err(Failed::Memory)));
        assert!(matches!(step(CODE + 8, &[sp], &[1, 0]), Ok(StepOut::Outermost)));
    }
}
