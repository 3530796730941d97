//! Steps out of code without unwind data: by what the code does up to its return, where its object has unwind data for
//! other code; else by frame pointer.

use super::{ADDRESS_BITS, By, Slot, StepResult, Walk, WalkEnd, WalkPoint};
use crate::cfi::reg;
use crate::emulate::{self, Followed, Returned};
use crate::full::Regs;
use crate::instructions::is_behind_call;
use crate::reader::Lack;
use crate::rule::{Emulated, Rule, RuleKind};
use crate::stack::Memory;

/// As rbp: not known. A step that needs it ends the walk, as there is no stack below it.
pub(super) const NO_POINTER: u64 = 1;

/// What following the code may use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Rules of instructions that it comes to. They tell only rsp and rbp.
    Rules,
    Nothing,
}

/// Where a rule of followed code leads to.
enum Emulation {
    /// To this return address, with the CFA and the caller's rbp.
    Caller(u64, u64, u64),
    /// Not further up on this stack.
    OtherStack,
    /// The code did something else than it seemed to do.
    Nothing,
}

impl<M: Memory, S: Slot> Walk<'_, M, S> {
    /// A step by frame pointer: rbp points to the caller's rbp, and the return address is above it.
    pub(super) fn chain(&mut self, sp: u64, bp: u64) -> StepResult {
        // The ABI's mark of the outermost frame, which entry code without unwind data sets. In the interrupted function
        // itself it proves nothing: code without frame pointers keeps its callers' value.
        let outermost = if self.by == By::Context { WalkEnd::NoData } else { WalkEnd::Whole };
        if bp == 0 {
            return Err(outermost);
        }
        if bp < sp || bp & 7 != 0 {
            return Err(WalkEnd::NoData);
        }
        let (Some(up), Some(ra)) = (self.memory.read(bp), self.memory.read(bp.wrapping_add(8))) else {
            return Err(WalkEnd::NoData);
        };
        if ra == 0 {
            return Err(outermost);
        }
        if ra >> ADDRESS_BITS != 0 {
            return Err(WalkEnd::NoData);
        }
        let cfa = bp.wrapping_add(16);
        if !self.store(ra, cfa) {
            return Err(WalkEnd::Depth);
        }
        self.by = By::Chain;
        Ok(WalkPoint { look: ra.wrapping_sub(1), sp: cfa, bp: up })
    }

    /// Handles an address in no known region.
    pub(super) fn unknown(&mut self, sp: u64, bp: u64) -> StepResult {
        self.unknown = true;
        if self.by == By::Chain {
            // What looked like a frame pointer was none.
            self.frames = self.frames.saturating_sub(1);
            return Err(WalkEnd::NoData);
        }
        self.chain(sp, bp)
    }

    /// The rule for an instruction without unwind data, and whether it is so in each walk: another one may follow the
    /// code further.
    pub(super) fn rule_by_code(&mut self, look: u64) -> Result<(Rule, bool), WalkEnd> {
        let had_all = self.instructions == emulate::MOST;
        let followed = self.emulate(look, self.by == By::Context, Known::Rules)?;
        let rule = match followed {
            Followed::Returned(returned) => returned.rule(),
            Followed::OtherStack => Some(Rule::plain(RuleKind::OtherStack)),
            Followed::Nowhere => None,
        };
        let is_final = rule.is_some() || had_all || self.instructions > 0;
        Ok((rule.unwrap_or(Rule::plain(RuleKind::Fp)), is_final))
    }

    /// The code around `look`, if it lies between functions that have unwind data.
    pub(super) fn gap(&mut self, look: u64) -> Result<Option<(u64, u64)>, WalkEnd> {
        match self.set.gap(look, || self.memory.may_copy()) {
            Ok(range) => Ok(Some(range)),
            Err(Lack::NotNow) => Err(WalkEnd::NotRead),
            Err(_) => Ok(None),
        }
    }

    /// What the code at `look` does up to its return, if it lies between functions that have unwind data.
    #[inline(never)]
    fn emulate(&mut self, look: u64, is_exact: bool, known: Known) -> Result<Followed, WalkEnd> {
        let Some(range) = self.gap(look)? else { return Ok(Followed::Nowhere) };
        let start = if is_exact { look } else { look.wrapping_add(1) };
        let (cache, generation) = (self.cache, self.set.generation);
        Ok(emulate::to_return(self.memory, start, range, &mut self.instructions, |at| match known {
            // (What is cached for a call is cached for an address before its end.)
            Known::Rules => cache.get(generation, at),
            Known::Nothing => Rule::EMPTY,
        }))
    }

    /// A step out of code without unwind data, by what it does up to its return. Only where that leads to an address
    /// behind a call; else by frame pointer.
    #[inline(never)]
    pub(super) fn emulated(&mut self, rule: Emulated) -> StepResult {
        match self.behind_emulated(rule) {
            Emulation::Caller(ra, cfa, caller_bp) => {
                if !self.store(ra, cfa) {
                    return Err(WalkEnd::Depth);
                }
                self.by = By::Data;
                Ok(WalkPoint { look: ra.wrapping_sub(1), sp: cfa, bp: caller_bp })
            }
            Emulation::OtherStack => self.other_stack(),
            Emulation::Nothing => self.by_pointer(),
        }
    }

    /// A step by frame pointer, where nothing else has led on.
    pub(super) fn by_pointer(&mut self) -> StepResult {
        let WalkPoint { look, sp, bp } = self.at;
        if look >= self.foreign.0 && look < self.foreign.1 {
            return Err(WalkEnd::Foreign);
        }
        self.chain(sp, bp)
    }

    /// Where such a rule leads to.
    fn behind_emulated(&mut self, rule: Emulated) -> Emulation {
        let sum = |base: u64, bytes: i32| base.wrapping_add_signed(i64::from(bytes));
        let base = match emulate::DWARF.get(usize::from(rule.base)).copied() {
            Some(reg::RSP) => Some(self.at.sp),
            Some(reg::RBP) => Some(self.at.bp),
            Some(other) if self.catch_up().is_ok() => {
                self.base.as_ref().and_then(|base| base.regs.get(other))
            }
            _ => None,
        };
        let Some(base) = base else { return Emulation::Nothing };
        let base = match rule.load {
            Some(load) => self.memory.read(sum(base, load)),
            None => Some(base),
        };
        let Some(base) = base else { return Emulation::OtherStack };
        let cfa = sum(base, rule.offset);
        if cfa <= self.at.sp {
            return Emulation::OtherStack;
        }
        let Some(ra) = self.memory.read(cfa.wrapping_sub(8)) else { return Emulation::OtherStack };
        let caller_bp = match rule.bp {
            0 => Some(self.at.bp),
            Emulated::LOST => Some(NO_POINTER),
            saved => self.memory.read(sum(cfa, saved)),
        };
        match caller_bp {
            Some(caller_bp) if ra >> ADDRESS_BITS == 0 && self.may_return_to(ra) => {
                Emulation::Caller(ra, cfa, caller_bp)
            }
            _ => Emulation::Nothing,
        }
    }

    /// Whether the instruction before this address is a call. The answer is cached where code does not change, as the
    /// rule of a set that no process has.
    #[inline(never)]
    pub(super) fn may_return_to(&mut self, ra: u64) -> bool {
        let from = ra.wrapping_sub(8);
        let Some(region) = self.set.region(ra.wrapping_sub(1)).filter(|region| from >= region.start) else {
            return false;
        };
        let answers = !self.set.generation;
        match self.cache.get(answers, ra).kind() {
            RuleKind::End => return true,
            RuleKind::Bad => return false,
            _ => {}
        }
        let Some(code) = self.memory.code(from) else { return false };
        let is_call = code.first_chunk().is_some_and(is_behind_call);
        if region.table.is_some() {
            let answer = if is_call { RuleKind::End } else { RuleKind::Bad };
            self.cache.remember(answers, ra, Rule::plain(answer));
        }
        is_call
    }

    /// Steps the base to the caller of a function that has none: as [`Walk::emulated`] steps, else as [`Walk::chain`].
    #[inline(never)]
    pub(super) fn base_by_code(&mut self, look: u64) -> Result<(), WalkEnd> {
        let base = self.base.as_ref().ok_or(WalkEnd::BadData)?;
        let is_exact = base.regs.get(reg::RA) == Some(look);
        let caller = match self.emulate(look, is_exact, Known::Nothing)? {
            Followed::Returned(returned) => self.regs_at_return(&returned),
            Followed::OtherStack | Followed::Nowhere => None,
        };
        let base = self.base.as_mut().ok_or(WalkEnd::BadData)?;
        base.regs = match caller {
            Some(caller) => caller,
            None => {
                let bp = base.regs.get(reg::RBP).ok_or(WalkEnd::BadData)?;
                let (up, ra) = (self.memory.read(bp), self.memory.read(bp.wrapping_add(8)));
                let (Some(up), Some(ra)) = (up, ra) else { return Err(WalkEnd::BadRead) };
                Regs::three(ra, bp.wrapping_add(16), up)
            }
        };
        base.frame += 1;
        Ok(())
    }

    /// The registers behind that return. `None`: the code did something else than it seemed to do.
    #[inline(never)]
    fn regs_at_return(&mut self, returned: &Returned) -> Option<Regs> {
        let regs = &self.base.as_ref()?.regs;
        let at_start = |register: u8| emulate::DWARF.get(usize::from(register)).and_then(|n| regs.get(*n));
        let mut caller = Regs::default();
        for (number, dwarf) in (0u8..).zip(emulate::DWARF) {
            if let Some(value) = returned.register(number, at_start, |at| self.memory.read(at)) {
                caller.set(dwarf, value);
            }
        }
        let ra = self.memory.read(caller.get(reg::RSP)?.wrapping_sub(8))?;
        caller.set(reg::RA, ra);
        self.may_return_to(ra).then_some(caller)
    }
}
