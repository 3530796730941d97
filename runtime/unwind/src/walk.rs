//! From the registers of an interrupted thread to its return addresses.
//!
//! Each frame: find the rule for its instruction (cache, else the unwind data), take the step, store the return address.
//! Three values travel along: the address to look up, rsp and rbp. A frame whose rule needs more makes the walk catch up with
//! all registers from the last place where they were known (the interrupted instruction, or a signal frame), which is exact
//! and rare.
//!
//! ```text
//!  stack       what is stored           what is looked up
//!  leaf        (the sample's own PC)    pc
//!  caller      return address           return address - 1: the call, which may be the function's last instruction
//!  restorer    address, EXACT bit      its address - 1 (nothing called it: the names are those of the address itself)
//!  interrupted pc with the EXACT bit   pc
//! ```
//!
//! Invariant: a walk ends: each frame costs at least one unit of the budget, and there is room for so many frames only.
//! Signal safety: allocates nothing, takes no lock, calls no libc, cannot panic.

use super::cache::Cache;
use super::cfi::reg;
use super::full::{Failed, Gregs, Regs};
use super::rule::{Kind, Rule};
use super::set::Set;
use super::stack::Memory;

/// How a stack ends. Everything but [`End::Whole`] is a stack cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum End {
    /// The outermost frame is the program's or the thread's entry.
    Whole = 0,
    /// More frames than there was room for; the innermost are there.
    Depth = 1,
    /// The budget of the handler was used up.
    Time = 2,
    /// A saved value lies where nothing can be read.
    BadRead = 3,
    /// Code without unwind data, and the chain of frame pointers ends too.
    NoData = 4,
    /// Unwind data that is not well formed.
    BadData = 5,
    /// The stack pointer does not move towards the stack's top.
    Loop = 6,
    /// The stack that the thread runs on is not known and cannot be read.
    NoStack = 7,
    /// Too many handlers at once, or the modules are not known yet.
    NotReady = 8,
}

/// Set in an entry that is the exact address of an instruction which a signal interrupted, as frame words of a `.pct` file have
/// it. All other entries are return addresses.
pub const EXACT: u64 = 1 << 56;

/// User addresses have no bit from this one on.
const ADDRESS_BITS: u32 = 47;

/// The address to look up for an entry.
const fn look_up(entry: u64) -> u64 {
    if entry & EXACT == 0 { entry.wrapping_sub(1) } else { entry & !EXACT }
}

/// What a walk stores for each caller: its entry alone, or more.
pub trait Slot: Copy {
    /// The entry, and the canonical frame address of the frame that it was found in: the caller's stack pointer.
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

/// A caller with its place on the stack, for those who weave other frames between those of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Placed {
    /// The entry, see [`EXACT`].
    pub entry: u64,
    /// Where the frame that was called ends and this one begins.
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
    /// Units of about 8 ns: a frame whose rule is cached costs one, one whose rule must be found twelve.
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
    /// How many return addresses were stored.
    pub frames: usize,
    /// How the stack ends.
    pub end: End,
    /// An address was met that is in no region of the set: the set may be behind the times.
    pub unknown: bool,
}

/// Walks the stack of the thread interrupted with `regs` and stores its return addresses (see [`EXACT`]), innermost first,
/// without the interrupted PC itself. `out` decides what is stored with each ([`Slot`]).
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
        return Walked { frames: 0, end: End::NoStack, unknown: false };
    }
    let mut walk = Walk {
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
    };
    let end = walk.run();
    Walked { frames: walk.frames, end, unknown: walk.unknown }
}

/// A frame: the address to look up and the two registers.
#[derive(Clone, Copy)]
struct WalkPoint {
    look: u64,
    sp: u64,
    bp: u64,
}

/// How the walk came to the frame that it is at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// From a register context: the PC is exact.
    Context,
    /// By unwind data.
    Data,
    /// By the chain of frame pointers: perhaps it is no frame at all.
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
}

/// What a step leads to: a caller, or the end.
type Step = Result<WalkPoint, End>;

impl<M: Memory, S: Slot> Walk<'_, M, S> {
    /// Frames whose rules are at hand and whose stack is there: nearly all. Everything is in registers meanwhile; the first frame
    /// that is anything else is left to [`Walk::run`].
    /// Some: the stack ends there.
    #[inline(always)]
    fn easy(&mut self) -> Option<End> {
        let WalkPoint { mut look, mut sp, mut bp } = self.at;
        let (mut frames, mut units) = (self.frames, self.units);
        let mut end = None;
        while units != 0 {
            let rule = self.cache.get(self.set.generation, look);
            let base = match rule.kind() {
                Kind::Sp => sp,
                Kind::Bp => bp,
                Kind::End => {
                    end = Some(End::Whole);
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
    fn run(&mut self) -> End {
        loop {
            if let Some(end) = self.easy() {
                return end;
            }
            let WalkPoint { look, sp, bp } = self.at;
            let mut rule = self.cache.get(self.set.generation, look);
            let Some(left) = self.units.checked_sub(1) else {
                return End::Time;
            };
            self.units = left;
            if rule.kind() == Kind::Empty {
                rule = match self.find(look) {
                    Some(rule) => rule,
                    None => return End::Time,
                };
            }
            let cfa = match rule.kind() {
                Kind::Sp => sp.wrapping_add(rule.offset() as u64),
                Kind::Bp => bp.wrapping_add(rule.offset() as u64),
                Kind::End => return End::Whole,
                _ => match self.seldom(rule) {
                    Ok(cfa) => cfa,
                    Err(Some(end)) => return end,
                    Err(None) => continue,
                },
            };
            // The common step: return address below the CFA, rbp unchanged or saved.
            if cfa <= sp && !self.switch(cfa) {
                return End::Loop;
            }
            let ra = match self.memory.read(cfa.wrapping_sub(8)) {
                Some(ra) => ra,
                None => {
                    if !self.switch(cfa) {
                        return End::BadRead;
                    }
                    match self.memory.read(cfa.wrapping_sub(8)) {
                        Some(ra) => ra,
                        None => return End::BadRead,
                    }
                }
            };
            let mut caller_bp = bp;
            if rule.bp() != 0 {
                let slot = cfa.wrapping_add(rule.bp() as u64);
                match self.memory.read(slot) {
                    Some(v) => caller_bp = v,
                    // An epilogue popped it, and rbp is the caller's again.
                    None if slot < sp => {}
                    None => {
                        return End::BadRead;
                    }
                }
            }
            if ra == 0 {
                return End::Whole;
            }
            if ra >> ADDRESS_BITS != 0 {
                return End::BadData;
            }
            if !self.store(ra, cfa) {
                return End::Depth;
            }
            self.by = By::Data;
            self.at = WalkPoint { look: ra.wrapping_sub(1), sp: cfa, bp: caller_bp };
        }
    }

    /// Stores an entry; false when there is no room.
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

    /// Goes to another stack, the one that ends frame `cfa`. Code that runs a function on a stack of its own does that.
    #[cold]
    fn switch(&mut self, cfa: u64) -> bool {
        let Some(left) = self.switches.checked_sub(1) else { return false };
        self.switches = left;
        self.units = self.units.saturating_sub(COLD);
        self.memory.enter(cfa.wrapping_sub(16))
    }

    /// Finds a rule that the cache does not have.
    #[cold]
    #[inline(never)]
    fn find(&mut self, look: u64) -> Option<Rule> {
        self.units = self.units.checked_sub(COLD)?;
        let mut rule = self.set.rule(look);
        if rule.kind() == Kind::Fp && self.by != By::Context {
            let ra = look.wrapping_add(1);
            if self.is_restorer(ra) {
                rule = Rule::plain(Kind::Signal);
            } else if self.set.fde(ra).is_some_and(|(_, fde)| fde.begin == ra) {
                // A function's first byte, with none before it: no call returns there. Whoever made this stack (makecontext)
                // put it there as its bottom.
                rule = Rule::plain(Kind::End);
            }
        }
        self.cache.put(self.set.generation, look, rule);
        Some(rule)
    }

    /// True when the code at `addr` is `rt_sigreturn`: a C library without unwind data for it (musl), or our own restorer.
    #[inline(never)]
    fn is_restorer(&mut self, addr: u64) -> bool {
        let Some(code) = self.memory.code(addr) else { return false };
        // mov $15, %rax (or %eax); syscall
        code.starts_with(&[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05])
            || code.starts_with(&[0xb8, 15, 0, 0, 0, 0x0f, 0x05])
    }

    /// The rules that are not common. `Ok`: the CFA, go on as usual. `Err(None)`: the step is taken. `Err(Some)`: the end.
    #[cold]
    #[inline(never)]
    fn seldom(&mut self, rule: Rule) -> Result<u64, Option<End>> {
        let WalkPoint { look, sp, bp } = self.at;
        let step = match rule.kind() {
            Kind::LoadSp | Kind::LoadBp => {
                let from = if rule.kind() == Kind::LoadSp { sp } else { bp };
                let word =
                    self.memory.read(from.wrapping_add(rule.load() as u64)).ok_or(Some(End::BadRead))?;
                return Ok(word.wrapping_add(rule.offset() as u64));
            }
            Kind::Signal => self.signal(sp),
            Kind::Fp => self.chain(sp, bp),
            Kind::Unknown => self.unknown(sp, bp),
            Kind::Full => self.full(look),
            _ => Err(End::BadData),
        };
        match step {
            Ok(at) => {
                self.at = at;
                Err(None)
            }
            Err(end) => Err(Some(end)),
        }
    }

    /// Crosses a frame that the kernel made: the interrupted context is in it.
    #[inline(never)]
    fn signal(&mut self, sp: u64) -> Step {
        let gregs = Gregs::of_signal_frame(self.memory, sp).ok_or(End::BadRead)?;
        let pc = gregs.get(reg::RA);
        let at = WalkPoint { look: pc, sp: gregs.get(reg::RSP), bp: gregs.get(reg::RBP) };
        self.switches = self.switches.checked_sub(1).ok_or(End::Loop)?;
        if !self.memory.enter(at.sp) {
            return Err(End::NoStack);
        }
        if pc >> ADDRESS_BITS != 0 {
            return Err(End::BadData);
        }
        // The restorer was not called: the byte before it is another function's.
        if self.by != By::Context
            && let Some(slot) = self.frames.checked_sub(1).and_then(|last| self.out.get_mut(last))
        {
            *slot = S::new(slot.entry() | EXACT, sp);
        }
        if !self.store(pc | EXACT, at.sp) {
            return Err(End::Depth);
        }
        self.base = Some(Base { frame: self.frames, regs: Regs::all(&gregs) });
        self.by = By::Context;
        Ok(at)
    }

    /// A step by frame pointer: rbp points to the caller's rbp, the return address stands above it.
    fn chain(&mut self, sp: u64, bp: u64) -> Step {
        // The ABI's mark of the outermost frame, which entry code without unwind data sets. In the interrupted function itself
        // it proves nothing: code without frame pointers leaves what its callers had.
        let outermost = if self.by == By::Context { End::NoData } else { End::Whole };
        if bp == 0 {
            return Err(outermost);
        }
        if bp < sp || bp & 7 != 0 {
            return Err(End::NoData);
        }
        let (Some(up), Some(ra)) = (self.memory.read(bp), self.memory.read(bp.wrapping_add(8))) else {
            return Err(End::NoData);
        };
        if ra == 0 {
            return Err(outermost);
        }
        if ra >> ADDRESS_BITS != 0 {
            return Err(End::NoData);
        }
        let cfa = bp.wrapping_add(16);
        if !self.store(ra, cfa) {
            return Err(End::Depth);
        }
        self.by = By::Chain;
        Ok(WalkPoint { look: ra.wrapping_sub(1), sp: cfa, bp: up })
    }

    /// The address is in no region that is known.
    fn unknown(&mut self, sp: u64, bp: u64) -> Step {
        self.unknown = true;
        if self.by == By::Chain {
            // What looked like a frame pointer was none.
            self.frames = self.frames.saturating_sub(1);
            return Err(End::NoData);
        }
        self.chain(sp, bp)
    }

    /// A step with all registers.
    #[inline(never)]
    fn full(&mut self, look: u64) -> Step {
        let regs = self.catch_up()?;
        let (eh, fde) = self.set.fde(look).ok_or(End::BadData)?;
        let caller = regs.caller(&eh, &fde, look, self.memory).map_err(cause)?;
        let Some(caller) = caller else { return Err(End::Whole) };
        let (Some(pc), Some(sp)) = (caller.get(reg::RA), caller.get(reg::RSP)) else {
            return Err(End::BadData);
        };
        if pc == 0 {
            return Err(End::Whole);
        }
        if (sp <= self.at.sp || self.memory.read(sp.wrapping_sub(8)).is_none())
            && !self.switch(sp.wrapping_add(16))
        {
            return Err(End::Loop);
        }
        if pc >> ADDRESS_BITS != 0 {
            return Err(End::BadData);
        }
        let entry = if fde.signal { pc | EXACT } else { pc };
        if !self.store(entry, sp) {
            return Err(End::Depth);
        }
        self.base = Some(Base { frame: self.frames, regs: caller });
        self.by = if fde.signal { By::Context } else { By::Data };
        Ok(WalkPoint { look: look_up(entry), sp, bp: caller.get(reg::RBP).unwrap_or(0) })
    }

    /// All registers of the frame that the walk is at, by steps from where they were last known.
    #[inline(never)]
    fn catch_up(&mut self) -> Result<Regs, End> {
        let mut base = match self.base {
            Some(base) => base,
            None => Base { frame: 0, regs: Regs::all(self.first) },
        };
        while base.frame < self.frames {
            self.units = self.units.checked_sub(COLD).ok_or(End::Time)?;
            let look = match base.frame.checked_sub(1) {
                None => self.first.get(reg::RA),
                Some(i) => look_up(self.out.get(i).ok_or(End::BadData)?.entry()),
            };
            base.regs = match self.set.fde(look) {
                Some((eh, fde)) => {
                    base.regs.caller(&eh, &fde, look, self.memory).map_err(cause)?.ok_or(End::BadData)?
                }
                None => self.chained(&base.regs)?,
            };
            base.frame += 1;
        }
        self.base = Some(base);
        // Both ways of walking must have come to the same place.
        if base.regs.get(reg::RSP) == Some(self.at.sp) { Ok(base.regs) } else { Err(End::BadData) }
    }

    fn chained(&mut self, regs: &Regs) -> Result<Regs, End> {
        let bp = regs.get(reg::RBP).ok_or(End::BadData)?;
        let (Some(up), Some(ra)) = (self.memory.read(bp), self.memory.read(bp.wrapping_add(8))) else {
            return Err(End::BadRead);
        };
        Ok(Regs::three(ra, bp.wrapping_add(16), up))
    }
}

fn cause(failed: Failed) -> End {
    match failed {
        Failed::NoData | Failed::Data | Failed::Lost => End::BadData,
        Failed::Memory => End::BadRead,
    }
}
