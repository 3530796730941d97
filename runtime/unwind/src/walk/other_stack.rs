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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Section;
    use crate::set::{AnyTable, Entry, Set};
    use crate::table::{FdeRef, Table, buckets_for};
    use crate::{Budget, Cache, Gregs, walk};
    use std::collections::HashMap;

    /// Where the region begins, where the code is, and where the one function with unwind data is.
    const BEGIN: u64 = 0xf00;
    const AT: u64 = 0x1000;
    const FUNCTION: u64 = 0x1800;
    const ENTRY_SP: u64 = 0x5000;
    /// Words that lead to the other stack, and to the first one.
    const OTHER: u64 = 0x300;
    const FIRST: u64 = 0x308;
    /// ```text
    /// 1000  call + 0 ; mov 0x300, %rsp ; ret
    /// 100e  call + 0 ; mov 0x308, %rsp ; ret
    /// 101c  call + 0 ; ret
    /// ```
    const CODE: &[u8] = b"\xe8\x00\x00\x00\x00\x48\x8b\x24\x25\x00\x03\x00\x00\xc3\
        \xe8\x00\x00\x00\x00\x48\x8b\x24\x25\x08\x03\x00\x00\xc3\xe8\x00\x00\x00\x00\xc3";
    /// Behind the calls.
    const TO_OTHER: u64 = AT + 5;
    const TO_FIRST: u64 = AT + 0x13;
    const LAST: u64 = AT + 0x21;

    struct Image(HashMap<u64, u64>);

    impl Memory for Image {
        fn enter(&mut self, _: u64) -> bool {
            true
        }

        fn peek(&self, address: u64) -> Option<u64> {
            self.0.get(&address).copied()
        }

        fn read(&mut self, address: u64) -> Option<u64> {
            self.peek(address)
        }

        fn code_bytes(&mut self, addr: u64, into: &mut [u8]) -> bool {
            let code = |at: u64| CODE.get(usize::try_from(at.checked_sub(AT)?).ok()?).copied();
            into.iter_mut().zip(addr..).for_each(|(byte, at)| *byte = code(at).unwrap_or(0));
            true
        }
    }

    /// The callers of what is interrupted at [`TO_OTHER`], with these words in memory, and how the walk ended.
    fn callers(words: &[(u64, u64)]) -> (Vec<u64>, WalkEnd) {
        let (eh, at) = crate::testing::eh_frame(&[(FUNCTION, 16)], 0x9000);
        let index = [FdeRef { pc: (FUNCTION - BEGIN) as u32, fde: u32::try_from(at[0]).expect("small") }];
        let mut buckets = vec![0; buckets_for(1)];
        let table = Table::new(BEGIN, Section { bytes: &eh, addr: 0x9000 }, &index, &mut buckets);
        let table = Some(AnyTable::Whole(&table));
        let entries = [Entry { start: BEGIN, end: FUNCTION + 16, table, unsure: false, of_file: true }];
        let mut registers = Gregs([0; 17]);
        (registers.0[15], registers.0[16]) = (ENTRY_SP, TO_OTHER);
        let mut memory = Image(words.iter().copied().collect());
        let mut out = [0; 64];
        let set = Set { entries: &entries, generation: 1 };
        let budget = Budget { units: u32::MAX };
        let walked = walk(&set, &Cache::new(), &registers, &mut memory, &mut out, budget);
        (out[..walked.frames].to_vec(), walked.end)
    }

    #[test]
    fn stacks_that_lead_to_each_other_are_walked_on_and_not_again() {
        // To the other stack, and back to the first one behind what was walked there.
        let back = [(OTHER, 0x6000), (0x6000, TO_FIRST), (FIRST, ENTRY_SP + 8), (ENTRY_SP + 8, LAST)];
        assert_eq!(callers(&back), (vec![TO_FIRST, LAST], WalkEnd::Whole));
        // Back to where the walk has been.
        let again = [(OTHER, 0x6000), (0x6000, TO_FIRST), (FIRST, ENTRY_SP), (ENTRY_SP, TO_OTHER)];
        assert_eq!(callers(&again), (vec![TO_FIRST], WalkEnd::Loop));
        // The return address where the code was interrupted: nothing of that stack has been passed.
        let here = [(OTHER, ENTRY_SP), (ENTRY_SP, LAST)];
        assert_eq!(callers(&here), (vec![LAST], WalkEnd::Whole));
    }
}
