//! Steps out of code without unwind data that returns on another stack: by the values of registers and memory.

use super::without_data::NO_POINTER;
use super::{ADDRESS_BITS, Base, By, Slot, StepResult, Walk, WalkEnd, WalkPoint};
use crate::cfi::reg;
use crate::emulate::{self, ReturnPlace};
use crate::full::Regs;
use crate::stack::Memory;

/// What such a step costs of a walk's budget: three microseconds, for what the kernel copies.
const UNITS: u32 = 400;
/// Most bytes of a stack between two changes of stacks. What seems to be more are two stacks.
const MOST_PART: u64 = 16 << 20;

impl<M: Memory, S: Slot> Walk<'_, M, S> {
    /// A step out of code without unwind data that returns on another stack; where that is not found, by frame pointer.
    #[inline(never)]
    pub(super) fn other_stack(&mut self) -> StepResult {
        if let Some(to) = self.behind_other_stack()? {
            let cfa = to.sp.wrapping_add(8);
            if self.switch(cfa)
                && let Some(ra) = to.ra.or_else(|| self.memory.read(to.sp))
                && ra >> ADDRESS_BITS == 0
                && self.may_return_to(ra)
            {
                if !self.store(ra, cfa) {
                    return Err(WalkEnd::Depth);
                }
                self.by = By::Data;
                let bp = to.bp.unwrap_or(NO_POINTER);
                // From here on, as the frames below are on another stack.
                self.base = Some(Base { frame: self.frames, regs: Regs::three(ra, cfa, bp) });
                return Ok(WalkPoint { look: ra.wrapping_sub(1), sp: cfa, bp });
            }
            if !self.memory.enter(self.at.sp) {
                return Err(WalkEnd::BadRead);
            }
        }
        self.crossed.get_or_insert_default().is_lost = true;
        self.by_pointer()
    }

    /// How the code seems to return. `None`: it did something else than it seemed to do.
    fn behind_other_stack(&mut self) -> Result<Option<ReturnPlace>, WalkEnd> {
        let WalkPoint { look, sp, bp } = self.at;
        if self.crossed.as_ref().is_some_and(|crossed| crossed.is_lost) {
            return Ok(None);
        }
        let Some(range) = self.gap(look)? else { return Ok(None) };
        // Up to the frame whose registers were known last, or less.
        let from = match &self.base {
            Some(base) => base.regs.get(reg::RSP).unwrap_or(sp),
            None => self.first.get(reg::RSP),
        };
        let part = if from <= sp && sp - from < MOST_PART { (from, sp) } else { (sp, sp) };
        let is_exact = self.by == By::Context;
        if is_exact {
            self.catch_up()?;
        }
        let start = if is_exact { look } else { look.wrapping_add(1) };
        // Most of such code needs no other registers of those that a called function gives back.
        let registers = match &self.base {
            Some(base) if base.frame == self.frames => emulate::DWARF.map(|number| base.regs.get(number)),
            _ => emulate::DWARF.map(|number| match number {
                reg::RSP => Some(sp),
                reg::RBP => Some(bp),
                _ => None,
            }),
        };
        let crossed = self.crossed.get_or_insert_default();
        self.units = self.units.checked_sub(UNITS).ok_or(WalkEnd::Time)?;
        let (kept, left) = (&mut crossed.kept, &mut self.instructions);
        let to = emulate::to_other_stack(self.memory, start, range, registers, kept, left);
        let Some(to) = to else { return Ok(None) };
        // At the end of this part, where `sp` points to the return address, nothing has been passed yet.
        let is_back = crossed.has_passed(to.sp) || (part.0..part.1).contains(&to.sp);
        crossed.leave(part);
        if is_back { Err(WalkEnd::Loop) } else { Ok(Some(to)) }
    }
}
