//! From the registers of an interrupted thread to its return addresses.
//!
//! For each frame: find the rule for its instruction (in the cache, or else in the unwind data), take the step, store
//! the return address. Three values are passed on: the address to look up, rsp and rbp. If a frame's rule needs more,
//! the walk catches up with all registers from the last point where they were known (the interrupted instruction, or a
//! signal frame). That is exact and rare.
//!
//! ```text
//!  stack       what is stored           what is looked up
//!  leaf        (the sample's own PC)    pc
//!  caller      return address           return address - 1: the call, which may be the function's last instruction
//!  restorer    address, EXACT bit      its address - 1 (nothing called it: the names are those of the address itself)
//!  interrupted pc with the EXACT bit   pc
//! ```
//!
//! Invariant: a walk ends, because each frame costs at least one unit of the budget and the number of frames is
//! limited. Signal safety: allocates nothing, takes no lock, calls no libc, cannot panic.

mod crossed;
mod other_stack;
mod without_data;

use super::cache::Cache;
use super::cfi::{Fde, reg};
use super::emulate;
use super::full::{Failed, Gregs, Regs};
use super::reader::Lack;
use super::rule::{Rule, RuleKind};
use super::set::Set;
use super::stack::Memory;
use crossed::Crossed;
use pct_format::CutCause;

/// How a stack ends. In all cases but [`WalkEnd::Whole`] the stack is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum WalkEnd {
    /// The outermost frame is the program's or the thread's entry.
    Whole = 0,
    /// There were more frames than room; the innermost are stored.
    Depth = 1,
    /// The budget of the handler was used up.
    Time = 2,
    /// A saved value is at an unreadable address.
    BadRead = 3,
    /// The code has no unwind data, and the chain of frame pointers ends too.
    NoData = 4,
    /// The unwind data is malformed.
    BadData = 5,
    /// The stack pointer does not advance towards the stack's base.
    Loop = 6,
    /// The thread's current stack is unknown and cannot be read.
    NoStack = 7,
    /// There are too many handlers at once, or the modules are not known yet.
    NotReady = 8,
    /// It came to code that somebody else walks ([`walk_to`]).
    Foreign = 9,
    /// It needs unwind data that were not copied yet and may not be copied now.
    NotRead = 10,
}

impl WalkEnd {
    /// The cause that a recording stores for such an end; `None`: the stack is complete.
    #[inline]
    #[must_use]
    pub const fn cut_cause(self) -> Option<CutCause> {
        Some(match self {
            WalkEnd::Whole => return None,
            WalkEnd::Depth => CutCause::Depth,
            WalkEnd::Time => CutCause::Time,
            WalkEnd::BadRead | WalkEnd::NoStack => CutCause::BadRead,
            WalkEnd::NoData => CutCause::NoUnwindData,
            WalkEnd::BadData => CutCause::Unsupported,
            WalkEnd::Loop => CutCause::Loop,
            WalkEnd::NotRead => CutCause::NotRead,
            WalkEnd::NotReady | WalkEnd::Foreign => CutCause::Other,
        })
    }
}

/// Set in an entry that is the exact address of an instruction which a signal interrupted. All other entries are return
/// addresses. So entries are frame words of a `.pct` file.
pub use pct_format::record::EXACT;

/// User addresses are below two to the power of this.
const ADDRESS_BITS: u32 = 47;

/// The address to look up for an entry.
const fn look_up(entry: u64) -> u64 {
    if entry & EXACT == 0 { entry.wrapping_sub(1) } else { entry & !EXACT }
}

/// What a walk stores for each caller: only its entry, or more.
pub trait Slot: Copy {
    /// Stores the entry, and the canonical frame address of the frame in which it was found: the caller's stack
    /// pointer.
    fn new(entry: u64, cfa: u64) -> Self;

    /// The entry.
    fn entry(self) -> u64;
}

impl Slot for u64 {
    #[inline(always)]
    fn new(entry: u64, _: u64) -> u64 {
        entry
    }

    #[inline(always)]
    fn entry(self) -> u64 {
        self
    }
}

/// A caller with its position on the stack, for weaving other frames between those of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Placed {
    /// The entry, see [`EXACT`].
    pub entry: u64,
    /// Address at which the called frame ends and this one begins.
    pub cfa: u64,
}

impl Slot for Placed {
    #[inline(always)]
    fn new(entry: u64, cfa: u64) -> Placed {
        Placed { entry, cfa }
    }

    #[inline(always)]
    fn entry(self) -> u64 {
        self.entry
    }
}

/// What a walk may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Units of about 8 ns. A frame with a cached rule costs one, a frame whose rule must be found costs twelve.
    pub units: u32,
}

impl Default for Budget {
    /// 50 microseconds, 5 % of a period at 1 kHz.
    fn default() -> Self {
        Budget { units: 6250 }
    }
}

const COLD: u32 = 12;
/// Most changes to another stack in one walk.
const SWITCHES: u32 = 16;

/// The result of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked {
    /// Number of return addresses stored.
    pub frames: usize,
    /// How the stack ends.
    pub end: WalkEnd,
    /// Whether an address was in no region of the set, so that the set may be outdated.
    pub unknown: bool,
    /// Whether it needed unwind data of an object that is to be looked at once more ([`Entry::unsure`]).
    ///
    /// [`Entry::unsure`]: crate::set::Entry::unsure
    pub unsure: bool,
}

/// Walks the stack of the thread interrupted with `regs` and stores its return addresses (see [`EXACT`]), innermost
/// first, without the interrupted PC itself. `out` decides what is stored for each ([`Slot`]).
pub fn walk<M: Memory, S: Slot>(
    set: &Set<'_>,
    cache: &Cache,
    regs: &Gregs,
    memory: &mut M,
    out: &mut [S],
    budget: Budget,
) -> Walked {
    let (sp, bp) = (regs.get(reg::RSP), regs.get(reg::RBP));
    if !memory.enter(sp) {
        return Walked { frames: 0, end: WalkEnd::NoStack, unknown: false, unsure: false };
    }
    let mut walk = Walk {
        foreign: (0, 0),
        set,
        cache,
        memory,
        out,
        frames: 0,
        at: WalkPoint { look: regs.get(reg::RA), sp, bp },
        units: budget.units,
        switches: SWITCHES,
        first: regs,
        base: None,
        by: By::Context,
        unknown: false,
        unsure: false,
        instructions: emulate::MOST,
        crossed: None,
    };
    let end = walk.run();
    Walked { frames: walk.frames, end, unknown: walk.unknown, unsure: walk.unsure }
}

/// Where a walk begins that may come to code without unwind data which somebody else knows how to walk.
#[derive(Clone, Copy, Debug)]
pub enum Start<'r> {
    /// A thread that was interrupted with these registers.
    Interrupted(&'r Gregs),
    /// A return address, which becomes the first entry, and the two registers behind the return.
    Return {
        /// The address.
        pc: u64,
        /// rsp.
        sp: u64,
        /// rbp.
        bp: u64,
    },
}

/// Where a walk met such code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    /// Its return address, which is the last entry; an exact one if `is_exact`.
    pub pc: u64,
    /// rsp there.
    pub sp: u64,
    /// rbp there.
    pub bp: u64,
    /// A signal interrupted it there.
    pub is_exact: bool,
}

/// As [`walk`], up to code at an address from `foreign.0` to before `foreign.1` that has no unwind data. The end is
/// [`WalkEnd::Foreign`] exactly if there is a [`Met`].
pub fn walk_to<M: Memory, S: Slot>(
    (set, cache): (&Set<'_>, &Cache),
    start: Start<'_>,
    memory: &mut M,
    out: &mut [S],
    budget: Budget,
    foreign: (u64, u64),
) -> (Walked, Option<Met>) {
    let nothing = Gregs::default();
    let (first, at) = match start {
        Start::Interrupted(regs) => {
            (regs, WalkPoint { look: regs.get(reg::RA), sp: regs.get(reg::RSP), bp: regs.get(reg::RBP) })
        }
        Start::Return { pc, sp, bp } => (&nothing, WalkPoint { look: pc.wrapping_sub(1), sp, bp }),
    };
    if !memory.enter(at.sp) {
        return (Walked { frames: 0, end: WalkEnd::NoStack, unknown: false, unsure: false }, None);
    }
    let mut walk = Walk {
        foreign,
        set,
        cache,
        memory,
        out,
        frames: 0,
        at,
        units: budget.units,
        switches: SWITCHES,
        first,
        base: None,
        by: By::Context,
        unknown: false,
        unsure: false,
        instructions: emulate::MOST,
        crossed: None,
    };
    if let Start::Return { pc, sp, bp } = start {
        if !walk.store(pc, sp) {
            return (Walked { frames: 0, end: WalkEnd::Depth, unknown: false, unsure: false }, None);
        }
        walk.base = Some(Base { frame: 1, regs: Regs::three(pc, sp, bp) });
        walk.by = By::Data;
    }
    let end = walk.run();
    let met = (end == WalkEnd::Foreign).then(|| {
        let is_exact = walk.by == By::Context;
        let WalkPoint { look, sp, bp } = walk.at;
        Met { pc: if is_exact { look } else { look.wrapping_add(1) }, sp, bp, is_exact }
    });
    (Walked { frames: walk.frames, end, unknown: walk.unknown, unsure: walk.unsure }, met)
}

/// A frame: the address to look up and the two registers.
#[derive(Clone, Copy)]
struct WalkPoint {
    look: u64,
    sp: u64,
    bp: u64,
}

/// How the walk reached its current frame.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// From a register context, so the PC is exact.
    Context,
    /// By unwind data.
    Data,
    /// By the chain of frame pointers, so it may not be a frame at all.
    Chain,
}

/// All registers at frame number `frame`.
#[derive(Clone, Copy)]
struct Base {
    frame: usize,
    regs: Regs,
}

struct Walk<'a, M, S> {
    set: &'a Set<'a>,
    cache: &'a Cache,
    memory: &'a mut M,
    out: &'a mut [S],
    frames: usize,
    at: WalkPoint,
    units: u32,
    switches: u32,
    first: &'a Gregs,
    base: Option<Base>,
    by: By,
    unknown: bool,
    unsure: bool,
    /// Instructions that may be followed, where there are no unwind data.
    instructions: u32,
    crossed: Option<Crossed>,
    /// Code that somebody else walks.
    foreign: (u64, u64),
}

/// The result of a step: a caller, or the end.
type StepResult = Result<WalkPoint, WalkEnd>;

impl<'a, M: Memory, S: Slot> Walk<'a, M, S> {
    /// Walks frames with cached rules and readable stack, which are nearly all. Meanwhile everything is in registers.
    /// The first other frame is left to [`Walk::run`]. Some: the stack ends there.
    #[inline(always)]
    fn easy(&mut self) -> Option<WalkEnd> {
        let WalkPoint { mut look, mut sp, mut bp } = self.at;
        let (mut frames, mut units) = (self.frames, self.units);
        let mut end = None;
        while units != 0 {
            let rule = self.cache.get(self.set.generation, look);
            let base = match rule.kind() {
                RuleKind::Sp => sp,
                RuleKind::Bp => bp,
                RuleKind::End => {
                    end = Some(WalkEnd::Whole);
                    break;
                }
                _ => break,
            };
            let cfa = base.wrapping_add(rule.offset() as u64);
            let Some(ra) = self.memory.peek(cfa.wrapping_sub(8)) else { break };
            let mut caller_bp = bp;
            if rule.bp() != 0 {
                let Some(saved) = self.memory.peek(cfa.wrapping_add(rule.bp() as u64)) else { break };
                caller_bp = saved;
            }
            let user = ra != 0 && ra >> ADDRESS_BITS == 0;
            let (true, true, Some(slot)) = (user, cfa > sp, self.out.get_mut(frames)) else { break };
            *slot = S::new(ra, cfa);
            frames += 1;
            units -= 1;
            (look, sp, bp) = (ra.wrapping_sub(1), cfa, caller_bp);
        }
        if frames != self.frames {
            self.by = By::Data;
        }
        (self.frames, self.units) = (frames, units);
        self.at = WalkPoint { look, sp, bp };
        end
    }

    #[inline(always)]
    fn run(&mut self) -> WalkEnd {
        loop {
            if let Some(end) = self.easy() {
                return end;
            }
            let WalkPoint { look, sp, bp } = self.at;
            let mut rule = self.cache.get(self.set.generation, look);
            let Some(left) = self.units.checked_sub(1) else {
                return WalkEnd::Time;
            };
            self.units = left;
            if rule.kind() == RuleKind::Empty {
                rule = match self.find(look) {
                    Ok(rule) => rule,
                    Err(end) => return end,
                };
            }
            let cfa = match rule.kind() {
                RuleKind::Sp => sp.wrapping_add(rule.offset() as u64),
                RuleKind::Bp => bp.wrapping_add(rule.offset() as u64),
                RuleKind::End => return WalkEnd::Whole,
                _ => match self.seldom(rule) {
                    Ok(cfa) => cfa,
                    Err(Some(end)) => return end,
                    Err(None) => continue,
                },
            };
            // The common step: return address below the CFA, rbp unchanged or saved.
            if cfa <= sp && !self.switch(cfa) {
                return WalkEnd::Loop;
            }
            let ra = match self.memory.read(cfa.wrapping_sub(8)) {
                Some(ra) => ra,
                None => {
                    if !self.switch(cfa) {
                        return WalkEnd::BadRead;
                    }
                    match self.memory.read(cfa.wrapping_sub(8)) {
                        Some(ra) => ra,
                        None => return WalkEnd::BadRead,
                    }
                }
            };
            let mut caller_bp = bp;
            if rule.bp() != 0 {
                let slot = cfa.wrapping_add(rule.bp() as u64);
                match self.memory.read(slot) {
                    Some(v) => caller_bp = v,
                    // An epilogue has popped it, and rbp has the caller's value again.
                    None if slot < sp => {}
                    None => {
                        return WalkEnd::BadRead;
                    }
                }
            }
            if ra == 0 {
                return WalkEnd::Whole;
            }
            if ra >> ADDRESS_BITS != 0 {
                return WalkEnd::BadData;
            }
            if !self.store(ra, cfa) {
                return WalkEnd::Depth;
            }
            self.by = By::Data;
            self.at = WalkPoint { look: ra.wrapping_sub(1), sp: cfa, bp: caller_bp };
        }
    }

    /// Stores an entry. Returns false if there is no room.
    #[inline(always)]
    fn store(&mut self, entry: u64, cfa: u64) -> bool {
        match self.out.get_mut(self.frames) {
            Some(slot) => {
                *slot = S::new(entry, cfa);
                self.frames += 1;
                true
            }
            None => false,
        }
    }

    /// Changes to the stack that ends frame `cfa`. Code that runs a function on a separate stack needs this.
    #[cold]
    fn switch(&mut self, cfa: u64) -> bool {
        let Some(left) = self.switches.checked_sub(1) else { return false };
        self.switches = left;
        self.units = self.units.saturating_sub(COLD);
        self.memory.enter(cfa.wrapping_sub(16))
    }

    /// Finds a rule that is not in the cache.
    #[cold]
    #[inline(never)]
    fn find(&mut self, look: u64) -> Result<Rule, WalkEnd> {
        self.units = self.units.checked_sub(COLD).ok_or(WalkEnd::Time)?;
        let (mut rule, mut is_known) = match self.set.rule(look, || self.memory.may_copy()) {
            Ok(rule) => (rule, true),
            Err(Lack::NotNow) => return Err(WalkEnd::NotRead),
            // (Another time the data may be readable.)
            Err(_) => (Rule::plain(RuleKind::Fp), false),
        };
        let unsure = rule.kind() == RuleKind::Fp && self.set.region(look).is_some_and(|entry| entry.unsure);
        self.unsure |= unsure;
        is_known &= !unsure;
        if rule.kind() == RuleKind::Fp && self.by != By::Context {
            let ra = look.wrapping_add(1);
            if self.is_restorer(ra) {
                rule = Rule::plain(RuleKind::Signal);
            } else if self.fde(ra)?.is_some_and(|fde| fde.begin == ra) {
                // A function's first byte, with no function before it: no call returns there. The maker of this stack
                // (makecontext) stored it there as the stack's base.
                rule = Rule::plain(RuleKind::End);
            }
        }
        if rule.kind() == RuleKind::Fp {
            let (by_code, is_final) = self.rule_by_code(look)?;
            rule = by_code;
            is_known &= is_final;
        }
        if is_known {
            self.cache.remember(self.set.generation, look, rule);
        }
        Ok(rule)
    }

    /// The FDE that covers `pc`. `None`: no FDE covers it, or it cannot be read.
    fn fde(&mut self, pc: u64) -> Result<Option<Fde<'a>>, WalkEnd> {
        match self.set.fde(pc, || self.memory.may_copy()) {
            Ok(fde) => Ok(Some(fde)),
            Err(Lack::NotNow) => Err(WalkEnd::NotRead),
            Err(_) => Ok(None),
        }
    }

    /// Whether the code at `addr` is `rt_sigreturn`: that of a C library without unwind data for it (musl), or pct's
    /// own restorer.
    #[inline(never)]
    fn is_restorer(&mut self, addr: u64) -> bool {
        let Some(code) = self.memory.code(addr) else { return false };
        // mov $15, %rax (or %eax); syscall
        code.starts_with(&[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05])
            || code.starts_with(&[0xb8, 15, 0, 0, 0, 0x0f, 0x05])
    }

    /// Handles the rules that are not common. `Ok`: the CFA, and the walk goes on as usual. `Err(None)`: the step is
    /// done. `Err(Some)`: the end.
    #[cold]
    #[inline(never)]
    fn seldom(&mut self, rule: Rule) -> Result<u64, Option<WalkEnd>> {
        let WalkPoint { look, sp, bp } = self.at;
        if matches!(rule.kind(), RuleKind::Fp | RuleKind::Unknown)
            && look >= self.foreign.0
            && look < self.foreign.1
        {
            return Err(Some(WalkEnd::Foreign));
        }
        let step = match rule.kind() {
            RuleKind::LoadSp | RuleKind::LoadBp => {
                let from = if rule.kind() == RuleKind::LoadSp { sp } else { bp };
                let word =
                    self.memory.read(from.wrapping_add(rule.load() as u64)).ok_or(Some(WalkEnd::BadRead))?;
                return Ok(word.wrapping_add(rule.offset() as u64));
            }
            RuleKind::Signal => self.signal(sp),
            RuleKind::Fp => self.chain(sp, bp),
            RuleKind::Unknown => self.unknown(sp, bp),
            RuleKind::Full => self.full(look),
            RuleKind::Emulated => self.emulated(rule.emulation()),
            RuleKind::OtherStack => self.other_stack(),
            _ => Err(WalkEnd::BadData),
        };
        match step {
            Ok(at) => {
                self.at = at;
                Err(None)
            }
            Err(end) => Err(Some(end)),
        }
    }

    /// Crosses a frame that the kernel made. It contains the interrupted context.
    #[inline(never)]
    fn signal(&mut self, sp: u64) -> StepResult {
        let gregs = Gregs::of_signal_frame(self.memory, sp).ok_or(WalkEnd::BadRead)?;
        let pc = gregs.get(reg::RA);
        let at = WalkPoint { look: pc, sp: gregs.get(reg::RSP), bp: gregs.get(reg::RBP) };
        self.switches = self.switches.checked_sub(1).ok_or(WalkEnd::Loop)?;
        if !self.memory.enter(at.sp) {
            return Err(WalkEnd::NoStack);
        }
        if pc >> ADDRESS_BITS != 0 {
            return Err(WalkEnd::BadData);
        }
        // The restorer was not called: the byte before it belongs to another function.
        if self.by != By::Context
            && let Some(slot) = self.frames.checked_sub(1).and_then(|last| self.out.get_mut(last))
        {
            *slot = S::new(slot.entry() | EXACT, sp);
        }
        if !self.store(pc | EXACT, at.sp) {
            return Err(WalkEnd::Depth);
        }
        self.base = Some(Base { frame: self.frames, regs: Regs::all(&gregs) });
        self.by = By::Context;
        Ok(at)
    }

    /// A step with all registers.
    #[inline(never)]
    fn full(&mut self, look: u64) -> StepResult {
        self.catch_up()?;
        let fde = self.fde(look)?.ok_or(WalkEnd::BadData)?;
        let base = self.base.as_ref().ok_or(WalkEnd::BadData)?;
        let caller = base.regs.caller(&fde, look, self.memory).map_err(cause)?;
        let Some(caller) = caller else { return Err(WalkEnd::Whole) };
        let (Some(pc), Some(sp)) = (caller.get(reg::RA), caller.get(reg::RSP)) else {
            return Err(WalkEnd::BadData);
        };
        if pc == 0 {
            return Err(WalkEnd::Whole);
        }
        if (sp <= self.at.sp || self.memory.read(sp.wrapping_sub(8)).is_none())
            && !self.switch(sp.wrapping_add(16))
        {
            return Err(WalkEnd::Loop);
        }
        if pc >> ADDRESS_BITS != 0 {
            return Err(WalkEnd::BadData);
        }
        let entry = if fde.signal { pc | EXACT } else { pc };
        if !self.store(entry, sp) {
            return Err(WalkEnd::Depth);
        }
        self.base = Some(Base { frame: self.frames, regs: caller });
        self.by = if fde.signal { By::Context } else { By::Data };
        Ok(WalkPoint { look: look_up(entry), sp, bp: caller.get(reg::RBP).unwrap_or(0) })
    }

    /// Makes [`Walk::base`] that of the current frame, by steps from where all registers were last known.
    ///
    /// Here and in the steps nothing is copied that is not needed: a signal's stack may be small.
    #[inline(never)]
    fn catch_up(&mut self) -> Result<(), WalkEnd> {
        loop {
            let frame = match &self.base {
                Some(base) => base.frame,
                None => self.base.insert(Base { frame: 0, regs: Regs::all(self.first) }).frame,
            };
            if frame >= self.frames {
                break;
            }
            self.units = self.units.checked_sub(COLD).ok_or(WalkEnd::Time)?;
            let look = match frame.checked_sub(1) {
                None => self.first.get(reg::RA),
                Some(i) => look_up(self.out.get(i).ok_or(WalkEnd::BadData)?.entry()),
            };
            match self.fde(look)? {
                Some(fde) => self.base_by_data(&fde, look)?,
                None => self.base_by_code(look)?,
            }
        }
        // Both ways of walking must have reached the same frame.
        let is_same = self.base.as_ref().is_some_and(|base| base.regs.get(reg::RSP) == Some(self.at.sp));
        if is_same { Ok(()) } else { Err(WalkEnd::BadData) }
    }

    /// Steps the base to the caller of a function that has unwind data.
    #[inline(never)]
    fn base_by_data(&mut self, fde: &Fde<'_>, look: u64) -> Result<(), WalkEnd> {
        let base = self.base.as_mut().ok_or(WalkEnd::BadData)?;
        let caller = base.regs.caller(fde, look, self.memory).map_err(cause)?;
        base.regs = caller.ok_or(WalkEnd::BadData)?;
        base.frame += 1;
        Ok(())
    }
}

fn cause(failed: Failed) -> WalkEnd {
    match failed {
        Failed::NoData | Failed::Data | Failed::Lost => WalkEnd::BadData,
        Failed::Memory => WalkEnd::BadRead,
    }
}
