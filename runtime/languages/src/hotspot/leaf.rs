//! The innermost Java frame: where the interrupted instruction itself is in Java code.
//!
//! What stage the frame is in is read from the instructions, not tried. Where instructions do not tell, the words at
//! which a return address may stand are all asked, and one is believed only if it is the only one that is proved.

use crate::ThreadMemory;

use super::code::{Call, Stage, call_before, stage};
use super::compiled::Debug;
use super::find::Codelet;
use super::frame::{JavaFrame, JavaFrames};
use super::heap::{Blob, Kind};
use super::layout::{INTERPRETED_BYTECODE, INTERPRETED_METHOD};
use super::method::{Method, unproved};
use super::walk::{JavaEnd, Next, Spot, Walker, Way};

/// The registers of a thread that was interrupted in Java code, and its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "registers")]
pub struct Registers {
    pub pc: u64,
    pub sp: u64,
    pub bp: u64,
    pub rax: u64,
    pub rbx: u64,
    pub r13: u64,
    pub r15: u64,
    /// The kernel's number of the thread.
    pub tid: u32,
}

/// Octets of a frame of the interpreter that is being made.
const YOUNG_FRAME: u64 = 72;

impl<M: ThreadMemory> Walker<'_, M> {
    /// Gives `out` the frames of a thread that was interrupted in the code cache.
    pub fn interrupted(&self, registers: &Registers, most: u32, out: &mut impl JavaFrames) -> JavaEnd {
        match self.innermost(registers, out) {
            Some(Next::Caller(spot, way)) if spot.sp >= registers.sp => self.callers(spot, way, most, out),
            Some(Next::End(end)) => end,
            _ => JavaEnd::Torn,
        }
    }

    fn innermost(&self, r: &Registers, out: &mut impl JavaFrames) -> Option<Next> {
        if let Some(codelet) = self.jvm.codelet(r.pc) {
            return self.in_interpreter(codelet, r, out);
        }
        let blob = self.jvm.blob(self.memory, r.pc)?;
        match blob.kind {
            Kind::Compiled => self.in_compiled(&blob, r, out),
            Kind::Native => self.in_native_wrapper(&blob, r, out),
            Kind::Dispatch => self.bare(r).map(|spot| Next::Caller(spot, Way::Java)),
            Kind::Adapter => {
                let moved = Spot { pc: r.rax, sp: r.r13, bp: r.bp };
                self.only([self.bare(r), Some(moved), None, None], Way::Java)
            }
            Kind::Stubs => self.in_stubs(&blob, r),
            Kind::Runtime | Kind::Interrupting | Kind::Other => self.in_runtime(&blob, r),
            Kind::Safepoint => self.in_safepoint(&blob, r, out),
        }
    }

    /// The return address is at the stack pointer.
    fn bare(&self, r: &Registers) -> Option<Spot> {
        Some(Spot { pc: self.stack_word(r.sp)?, sp: r.sp.checked_add(8)?, bp: r.bp })
    }

    /// rbp was pushed behind it.
    fn pushed(&self, r: &Registers) -> Option<Spot> {
        let sp = r.sp.checked_add(16)?;
        Some(Spot { pc: self.stack_word(sp - 8)?, sp, bp: self.stack_word(r.sp)? })
    }

    fn in_compiled(&self, blob: &Blob, r: &Registers, out: &mut impl JavaFrames) -> Option<Next> {
        let debug = Debug::read_from(self.memory, self.jvm, blob)?;
        let caller = match stage(self.memory, r.pc, blob.code.0, blob.complete)? {
            Stage::Bare => self.bare(r),
            Stage::Pushed => self.pushed(r),
            Stage::Unsaved => self.by_size(blob, r.sp).map(|spot| Spot { bp: r.bp, ..spot }),
            Stage::Full => {
                // Some intrinsics push one or two words.
                let sizes = [0, 8, 16].map(|more| self.by_size(blob, r.sp.checked_add(more)?));
                sizes.into_iter().flatten().find(|spot| self.is_proved(spot, Way::Java))
            }
        };
        let caller = caller.filter(|spot| self.is_proved(spot, Way::Java))?;
        let shown = debug
            .next(self.memory, r.pc - blob.code.0)
            .and_then(|desc| debug.frames(self.memory, self.jvm, desc, out));
        let shown = shown.unwrap_or_else(|| out.push(JavaFrame { method: debug.method, bci: None }));
        Some(if shown { Next::Caller(caller, Way::Java) } else { Next::End(JavaEnd::Full) })
    }

    fn in_native_wrapper(&self, blob: &Blob, r: &Registers, out: &mut impl JavaFrames) -> Option<Next> {
        let caller = match stage(self.memory, r.pc, blob.code.0, blob.complete.max(64))? {
            Stage::Bare => self.bare(r)?,
            Stage::Pushed => self.pushed(r)?,
            Stage::Unsaved => return None,
            // What leads to the target of a method handle has no frame.
            Stage::Full if blob.frame < 16 => self.bare(r)?,
            Stage::Full => {
                if r.bp < r.sp || r.bp - r.sp > blob.frame {
                    return None;
                }
                self.by_rbp(r.bp)?
            }
        };
        if !self.is_proved(&caller, Way::Java) {
            return None;
        }
        let method = self.memory.read_word(blob.at + self.jvm.layout.compiled_method)?;
        if !out.push(JavaFrame { method, bci: None }) {
            return Some(Next::End(JavaEnd::Full));
        }
        Some(Next::Caller(caller, Way::Java))
    }

    fn in_interpreter(&self, codelet: Codelet, r: &Registers, out: &mut impl JavaFrames) -> Option<Next> {
        let code = self.memory.bytes::<3>(r.pc)?;
        // The end of a frame: the return address is popped into r13, then the caller's stack pointer comes from rbx.
        match code {
            [0x41, 0x5d, _] => {
                let pc = self.stack_word(r.sp)?;
                return Some(Next::Caller(Spot { pc, sp: r.rbx, bp: r.bp }, Way::Java));
            }
            [0x48, 0x8b, 0xe3] => {
                let spot = Spot { pc: r.r13, sp: r.rbx, bp: r.bp };
                return Some(Next::Caller(spot, Way::Java));
            }
            [0x41, 0xff, 0xe5] => {
                let spot = Spot { pc: r.r13, sp: r.sp, bp: r.bp };
                return Some(Next::Caller(spot, Way::Java));
            }
            _ => {}
        }
        let layout = &self.jvm.layout;
        if codelet == Codelet::Entry
            && let Some(entered) = self.entering(r, out)
        {
            return entered;
        }
        if r.bp < r.sp {
            return None;
        }
        let method = self.slot(r.bp, INTERPRETED_METHOD)?;
        let method = unproved(self.memory, self.jvm, method)?;
        let live = Method::bci(self.memory, layout, method.constant, r.r13).map(|_| r.r13);
        let bytecode = match live {
            Some(bytecode) => bytecode,
            None => self.slot(r.bp, INTERPRETED_BYTECODE)?,
        };
        let caller = self.by_rbp(r.bp)?;
        if !self.is_proved(&caller, Way::Java) {
            return None;
        }
        self.interpreted_at(r.bp, method.at, bytecode, out)
    }

    /// The entry of an interpreted method whose frame is not made yet. Outer `None`: it is made.
    fn entering(&self, r: &Registers, out: &mut impl JavaFrames) -> Option<Option<Next>> {
        let layout = &self.jvm.layout;
        let method = unproved(self.memory, self.jvm, r.rbx);
        if r.bp >= r.sp && self.slot(r.bp, INTERPRETED_METHOD) == Some(r.rbx) {
            let bytecode = self.slot(r.bp, INTERPRETED_BYTECODE)?;
            let is_built = method.is_some_and(|method| {
                bytecode == 0 || Method::bci(self.memory, layout, method.constant, bytecode).is_some()
            });
            if is_built && self.slot(r.bp, -8).is_some_and(|sender| sender >= r.bp + 8) {
                return None;
            }
        }
        let caller = if r.bp >= r.sp && r.bp - r.sp <= YOUNG_FRAME && self.slot(r.bp, 8) == Some(r.rax) {
            let sender = if r.bp - 8 >= r.sp { self.slot(r.bp, -8) } else { Some(r.r13) };
            let (spot, sender) = (self.by_rbp(r.bp), sender);
            spot.zip(sender).map(|(spot, sp)| Spot { sp, ..spot })
        } else {
            let sender = |spot: Option<Spot>| spot.map(|spot| Spot { sp: r.r13, ..spot });
            let popped = Spot { pc: r.rax, sp: r.r13, bp: r.bp };
            let choices = [sender(self.bare(r)), Some(popped), sender(self.pushed(r)), None];
            match self.only(choices, Way::Java) {
                Some(Next::Caller(spot, _)) => Some(spot),
                _ => None,
            }
        };
        let Some(caller) = caller.filter(|spot| spot.sp >= r.sp && self.is_proved(spot, Way::Java)) else {
            // A method that was entered long ago has no rbx of its own: its frame decides.
            return if method.is_none() { None } else { Some(None) };
        };
        let Some(method) = method else { return Some(None) };
        if !out.push(JavaFrame { method: method.at, bci: None }) {
            return Some(Some(Next::End(JavaEnd::Full)));
        }
        Some(Some(Next::Caller(caller, Way::Java)))
    }

    fn in_stubs(&self, blob: &Blob, r: &Registers) -> Option<Next> {
        let way = Way::Stub(blob.code.0, blob.code.1);
        let by_rbp = if r.bp >= r.sp { self.by_rbp(r.bp) } else { None };
        let choices = match stage(self.memory, r.pc, r.pc, 0)? {
            Stage::Bare => [self.bare(r), None, None, None],
            Stage::Pushed => [self.pushed(r), None, None, None],
            _ => [self.bare(r), by_rbp, self.pushed(r), None],
        };
        // Native code calls some stubs, which have no frame then.
        let is_proved = choices.iter().flatten().any(|spot| self.is_proved(spot, way));
        if let Some(spot) = choices[0]
            && !is_proved
            && self.is_native_call(&spot, blob)
        {
            return Some(Next::End(JavaEnd::Native(spot)));
        }
        self.only(choices, way)
    }

    /// Whether a return address lies outside of all Java code, behind a call that can lead to this code.
    fn is_native_call(&self, spot: &Spot, blob: &Blob) -> bool {
        if self.jvm.contains(spot.pc) || spot.pc < 4096 || !self.memory.look_again(spot.pc - 8) {
            return false;
        }
        match call_before(self.memory, spot.pc) {
            Some(Call::Direct(target)) => target >= blob.code.0 && target < blob.code.1,
            Some(Call::Indirect) => true,
            None => false,
        }
    }

    fn in_runtime(&self, blob: &Blob, r: &Registers) -> Option<Next> {
        let begin = self.memory.bytes::<4>(blob.code.0)?;
        let keeps_rbp = begin == [0x55, 0x48, 0x8b, 0xec];
        let choices = match stage(self.memory, r.pc, blob.code.0, blob.complete.max(8))? {
            Stage::Bare => [self.bare(r), None, None, None],
            Stage::Pushed => [self.pushed(r), None, None, None],
            _ if keeps_rbp && r.bp >= r.sp => [self.by_rbp(r.bp), None, None, None],
            _ if blob.kind == Kind::Other => {
                // Native code calls what flushes the processor's caches.
                let native = self.bare(r).filter(|spot| self.is_native_call(spot, blob))?;
                return Some(Next::End(JavaEnd::Native(native)));
            }
            _ => [self.by_size(blob, r.sp), self.bare(r), None, None],
        };
        if blob.kind == Kind::Interrupting {
            return self.only(choices, Way::Interruption);
        }
        // Barriers of the collector are called without debugging data.
        self.only(choices, Way::Java).or_else(|| self.only(choices, Way::Stub(blob.code.0, blob.code.1)))
    }

    fn in_safepoint(&self, blob: &Blob, r: &Registers, out: &mut impl JavaFrames) -> Option<Next> {
        let full = self.by_size(blob, r.sp).filter(|spot| self.is_proved(spot, Way::Interruption));
        if let Some(spot) = full {
            return Some(Next::Caller(spot, Way::Interruption));
        }
        // It was not called: the thread remembers where it was.
        if r.pc != blob.code.0 {
            return None;
        }
        let pc = self.saved_pc(r)?;
        let interrupted = self.jvm.blob(self.memory, pc)?;
        if interrupted.kind != Kind::Compiled {
            return None;
        }
        self.in_compiled(&interrupted, &Registers { pc, ..*r }, out)
    }

    /// The pc that the thread saved when a fault or a poll took it away. r15 is the thread in Java code.
    fn saved_pc(&self, r: &Registers) -> Option<u64> {
        let layout = &self.jvm.layout;
        let thread = r.r15;
        if !super::method::plausible(thread) || !self.memory.look_again(thread + layout.thread_os) {
            return None;
        }
        let os = self.memory.read_word(thread + layout.thread_os)?;
        if !super::method::plausible(os) || !self.memory.look_again(os + layout.os_thread_id) {
            return None;
        }
        if self.memory.half(os + layout.os_thread_id)? != r.tid {
            return None;
        }
        let at = thread + layout.thread_saved_pc;
        if !self.memory.look_again(at) {
            return None;
        }
        self.memory.read_word(at)
    }

    /// The one of some places at which a return address may stand that is proved, if only one is.
    fn only(&self, choices: [Option<Spot>; 4], way: Way) -> Option<Next> {
        let mut proved = None;
        for spot in choices.into_iter().flatten().filter(|spot| self.is_proved(spot, way)) {
            if proved.is_some_and(|other: Spot| other != spot) {
                return None;
            }
            proved = Some(spot);
        }
        proved.map(|spot| Next::Caller(spot, way))
    }

    /// Whether a return address is proved. (The step from it asks again, with more.)
    fn is_proved(&self, spot: &Spot, way: Way) -> bool {
        let enters = |blob: Blob| self.entry_of_virtual_thread(&blob, spot).is_some();
        self.is_proved_caller(spot, way)
            || way == Way::Java && self.jvm.blob(self.memory, spot.pc).is_some_and(enters)
    }

    /// The same of what is no virtual thread's outermost frame on its carrier's stack.
    pub(super) fn is_proved_caller(&self, spot: &Spot, way: Way) -> bool {
        let pc = spot.pc;
        if !self.jvm.contains(pc) {
            return false;
        }
        if pc == self.jvm.call_stub_return {
            return true;
        }
        if let Some(codelet) = self.jvm.codelet(pc) {
            return match way {
                Way::Stub(..) => call_before(self.memory, pc).is_some(),
                _ => codelet == Codelet::Return,
            };
        }
        let Some(blob) = self.jvm.blob(self.memory, pc) else { return false };
        if blob.kind != Kind::Compiled {
            return false;
        }
        match (way, call_before(self.memory, pc)) {
            (Way::Stub(low, high), Some(Call::Direct(target))) => target >= low && target < high,
            (Way::Stub(..), call) => call.is_some(),
            (_, call) => {
                let is_handler = self.jvm.is_deopt_handler(self.memory, &blob, pc);
                let is_exact = || {
                    let debug = Debug::read_from(self.memory, self.jvm, &blob)?;
                    let offset = pc - blob.code.0;
                    let desc = debug.next(self.memory, offset)?;
                    Some(u64::try_from(desc.offset) == Ok(offset))
                };
                is_handler || (call.is_some() || way == Way::Interruption) && is_exact() == Some(true)
            }
        }
    }
}
