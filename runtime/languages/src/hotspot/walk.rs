//! From a Java frame to its callers, up to the native code that called Java.
//!
//! Java code keeps no chain of frame pointers. Compiled frames have a fixed size; interpreted ones are found by rbp. So
//! a walk carries three values: pc, the stack pointer as the caller had it before the call, and rbp.
//!
//! ```text
//!  code             method          next pc       next stack pointer     next rbp
//!  compiled         scopes          [s - 8]       s = sp + frame size    [s - 16]
//!  interpreted      [rbp - 24]      [rbp + 8]     [rbp - 8]              [rbp]
//!  stub with frame  -               [rbp + 8]     rbp + 16               [rbp]
//!  call stub        -               native code goes on at [rbp + 8], rbp + 16, [rbp]
//!  continuation     enterSpecial    as compiled
//! ```
//!
//! A virtual thread runs on the stack of a carrier thread, above a frame of `Continuation.enterSpecial`. When it goes
//! on after a wait, only its innermost frames are put there at first. The outermost of them returns to a stub that
//! fetches more, and lies where that frame ends.
//!
//! Plausible is not enough: words that were return addresses lie all over a stack. A link is proved if its pc is where
//! the call stub is returned to; or lies in a piece of the interpreter that is made to be returned to; or in compiled
//! code, directly behind a call instruction, where a PcDesc stands for exactly this offset. [`Way`] says which of the
//! three hold by the way on which the pc was come to.
//!
//! A walk ends: every step moves the stack pointer outwards, within the thread's own stack.

use crate::ThreadMemory;

use super::code::{Call, call_before};
use super::compiled::Debug;
use super::find::{Codelet, Jvm};
use super::frame::{JavaFrame, JavaFrames};
use super::heap::{Blob, Kind};
use super::layout::{INTERPRETED_BYTECODE, INTERPRETED_METHOD, INTERPRETED_SENDER};
use super::method::{Method, plausible};

/// A return address and the two registers as its function finds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// Where the call returns to.
    pub pc: u64,
    /// Stack pointer behind the return address.
    pub sp: u64,
    /// rbp.
    pub bp: u64,
}

/// How a walk came to a return address: what is asked for as proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From Java code.
    Java,
    /// By unwind data, from native code.
    Native,
    /// From code that stands for a call which the compiled code did not make: polls, exceptions, deoptimisation.
    Interruption,
    /// From the stubs with this code, whose calls have no debugging data.
    Stub(u64, u64),
}

/// Where a walk leaves Java.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JavaEnd {
    /// Native code called Java; it goes on there.
    Native(Spot),
    /// A link is not proved.
    Torn,
    /// The taker wants no more, or there are too many.
    Full,
}

/// One step.
pub(super) enum Next {
    Caller(Spot, Way),
    End(JavaEnd),
}

/// The frame by which a virtual thread was entered.
pub(super) struct Entry {
    frame: JavaFrame,
    caller: Spot,
}

/// A walk in one thread.
#[derive(Debug)]
pub struct Walker<'a, M> {
    pub(super) memory: &'a M,
    pub(super) jvm: &'a Jvm,
    /// The thread's own stack: lowest address, and behind the highest.
    pub(super) stack: (u64, u64),
}

impl<'a, M: ThreadMemory> Walker<'a, M> {
    /// In the thread with this stack.
    pub fn new(memory: &'a M, jvm: &'a Jvm, stack: (u64, u64)) -> Self {
        Walker { memory, jvm, stack }
    }

    /// Gives `out` the frames from a return address on, which was come to on this way. At most `most` steps.
    pub fn callers(&self, spot: Spot, way: Way, most: u32, out: &mut impl JavaFrames) -> JavaEnd {
        let (mut spot, mut way) = (spot, way);
        for _ in 0..most {
            match self.step(spot, way, out) {
                Some(Next::Caller(next, by)) if next.sp > spot.sp => (spot, way) = (next, by),
                Some(Next::End(end)) => return end,
                _ => return JavaEnd::Torn,
            }
        }
        JavaEnd::Full
    }

    /// A word of the own stack.
    #[inline]
    pub(super) fn stack_word(&self, at: u64) -> Option<u64> {
        let (low, high) = self.stack;
        if at >= low && at & 7 == 0 && at.checked_add(8)? <= high { self.memory.read_word(at) } else { None }
    }

    fn step(&self, spot: Spot, way: Way, out: &mut impl JavaFrames) -> Option<Next> {
        let Spot { pc, sp, bp } = spot;
        if pc == self.jvm.call_stub_return {
            return self.call_stub(sp, bp).map(|native| Next::End(JavaEnd::Native(native)));
        }
        if let Some(codelet) = self.jvm.codelet(pc) {
            let proved = match way {
                Way::Java | Way::Interruption => codelet == Codelet::Return,
                Way::Native | Way::Stub(..) => call_before(self.memory, pc).is_some(),
            };
            return if proved && bp >= sp { self.interpreted(bp, out) } else { None };
        }
        let blob = self.jvm.blob(self.memory, pc)?;
        match blob.kind {
            Kind::Compiled => self.compiled(&blob, spot, way, out),
            Kind::Native | Kind::Stubs if way == Way::Java => {
                let entry = self.entry_of_virtual_thread(&blob, &spot)?;
                if blob.kind == Kind::Stubs && !out.push_heap() || !out.push(entry.frame) {
                    return Some(Next::End(JavaEnd::Full));
                }
                Some(Next::Caller(entry.caller, Way::Java))
            }
            Kind::Native if way == Way::Native => {
                call_before(self.memory, pc)?;
                let frame_end = sp.checked_add(blob.frame)?;
                if blob.frame < 16 || bp != frame_end - 16 {
                    return None;
                }
                self.native_method(&blob, bp, out)
            }
            Kind::Stubs | Kind::Other if way == Way::Native => {
                call_before(self.memory, pc)?;
                if bp < sp {
                    return None;
                }
                let caller = self.by_rbp(bp)?;
                Some(Next::Caller(caller, Way::Stub(blob.code.0, blob.code.1)))
            }
            Kind::Runtime | Kind::Safepoint | Kind::Interrupting if way == Way::Native => {
                call_before(self.memory, pc)?;
                let by = if blob.kind == Kind::Runtime { Way::Java } else { Way::Interruption };
                self.by_size(&blob, sp).map(|caller| Next::Caller(caller, by))
            }
            _ => None,
        }
    }

    /// The caller of a frame whose size is known.
    pub(super) fn by_size(&self, blob: &Blob, sp: u64) -> Option<Spot> {
        if blob.frame < 16 {
            return None;
        }
        let end = sp.checked_add(blob.frame)?;
        Some(Spot { pc: self.stack_word(end - 8)?, sp: end, bp: self.stack_word(end - 16)? })
    }

    /// The caller of a frame that rbp points to.
    pub(super) fn by_rbp(&self, bp: u64) -> Option<Spot> {
        Some(Spot { pc: self.stack_word(bp.checked_add(8)?)?, sp: bp + 16, bp: self.stack_word(bp)? })
    }

    fn compiled(&self, blob: &Blob, spot: Spot, way: Way, out: &mut impl JavaFrames) -> Option<Next> {
        let Spot { mut pc, sp, .. } = spot;
        let debug = Debug::read_from(self.memory, self.jvm, blob)?;
        let mut needs_call = way == Way::Java;
        if self.jvm.is_deopt_handler(self.memory, blob, pc) {
            let field = self.jvm.layout.original_pc;
            let at = u64::from(self.memory.half(blob.at + field)?);
            pc = self.stack_word(sp.checked_add(at)?)?;
            if pc < blob.code.0 || pc >= blob.code.1 {
                return None;
            }
            needs_call = false;
        }
        let offset = pc.checked_sub(blob.code.0)?;
        let desc = debug.next(self.memory, offset)?;
        let is_exact = u64::try_from(desc.offset) == Ok(offset);
        let call = call_before(self.memory, pc);
        let proved = match way {
            Way::Java => is_exact && (call.is_some() || !needs_call),
            Way::Interruption => is_exact,
            Way::Native => call.is_some(),
            Way::Stub(low, high) => match call {
                Some(Call::Direct(target)) => target >= low && target < high,
                Some(Call::Indirect) => true,
                None => false,
            },
        };
        if !proved {
            return None;
        }
        let caller = self.by_size(blob, sp)?;
        if !debug.frames(self.memory, self.jvm, desc, out)? {
            return Some(Next::End(JavaEnd::Full));
        }
        Some(Next::Caller(caller, Way::Java))
    }

    /// The frame of a native method: its wrapper keeps rbp.
    pub(super) fn native_method(&self, blob: &Blob, bp: u64, out: &mut impl JavaFrames) -> Option<Next> {
        let method = self.memory.read_word(blob.at + self.jvm.layout.compiled_method)?;
        let caller = self.by_rbp(bp)?;
        if !out.push(JavaFrame { method, bci: None }) {
            return Some(Next::End(JavaEnd::Full));
        }
        Some(Next::Caller(caller, Way::Java))
    }

    /// What entered the virtual thread whose outermost frame on the stack returns to `spot`, in the code `blob`: a
    /// native method, of whose frame the virtual machine knows the size. A stub is where frames return whose callers
    /// are in the heap. It proves nothing, so the caller has to.
    pub(super) fn entry_of_virtual_thread(&self, blob: &Blob, spot: &Spot) -> Option<Entry> {
        let entry = self.jvm.blob(self.memory, self.jvm.continuation_return(self.memory)?)?;
        let returns_there = match blob.kind {
            Kind::Stubs => true,
            Kind::Native => entry.at == blob.at && call_before(self.memory, spot.pc).is_some(),
            _ => false,
        };
        if entry.kind != Kind::Native || !returns_there {
            return None;
        }
        let caller =
            self.by_size(&entry, spot.sp).filter(|caller| self.is_proved_caller(caller, Way::Java))?;
        let method = self.memory.read_word(entry.at + self.jvm.layout.compiled_method)?;
        Some(Entry { frame: JavaFrame { method, bci: None }, caller })
    }

    /// The interpreted frame that rbp points to: its method holds the bytecode that it is at.
    fn interpreted(&self, bp: u64, out: &mut impl JavaFrames) -> Option<Next> {
        let method = self.slot(bp, INTERPRETED_METHOD)?;
        let bytecode = self.slot(bp, INTERPRETED_BYTECODE)?;
        self.interpreted_at(bp, method, bytecode, out)
    }

    pub(super) fn slot(&self, bp: u64, offset: i64) -> Option<u64> {
        self.stack_word(bp.checked_add_signed(offset)?)
    }

    /// The same with its method and bytecode.
    pub(super) fn interpreted_at(
        &self,
        bp: u64,
        method: u64,
        bytecode: u64,
        out: &mut impl JavaFrames,
    ) -> Option<Next> {
        let layout = &self.jvm.layout;
        let mut caller = self.by_rbp(bp)?;
        let sender = self.slot(bp, INTERPRETED_SENDER)?;
        // A call through a method handle's linker takes its last argument, one word, off the stack.
        if sender < caller.sp - 8 || sender >= self.stack.1 || sender & 7 != 0 {
            return None;
        }
        caller.sp = sender;
        if !plausible(method) || !self.memory.look_again(method + layout.method_const) {
            return None;
        }
        let constant = self.memory.read_word(method + layout.method_const)?;
        if !plausible(constant) || !self.memory.look_again(constant + layout.const_code_size) {
            return None;
        }
        let bci = Method::bci(self.memory, layout, constant, bytecode);
        // A native method has no bytecodes.
        if bci.is_none() && self.memory.quarter(constant + layout.const_code_size)? != 0 {
            return None;
        }
        if !out.push(JavaFrame { method, bci }) {
            return Some(Next::End(JavaEnd::Full));
        }
        Some(Next::Caller(caller, Way::Java))
    }

    /// Where native code called Java.
    fn call_stub(&self, sp: u64, bp: u64) -> Option<Spot> {
        let layout = &self.jvm.layout;
        if bp < sp {
            return None;
        }
        let wrapper = self.slot(bp, layout.entry_wrapper)?;
        let anchor = self.stack_word(wrapper.checked_add(layout.wrapper_anchor + layout.anchor_sp)?)?;
        let outside = anchor > bp && anchor < self.stack.1 && anchor & 7 == 0;
        if anchor != 0 && !outside {
            return None;
        }
        self.by_rbp(bp)
    }
}
