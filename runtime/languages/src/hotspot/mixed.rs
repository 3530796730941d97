//! A stack in which native code and Java call each other.
//!
//! A walk changes between two walkers: native frames go by unwind data until a return address lies in the code cache,
//! Java frames by [`super::walk`] until native code called Java. A Java link that is not proved ends the stack:
//! [`LostCode::Torn`] stands there.

use pct_format::CutCause;
use pct_format::record::{Frame, LostCode};
use pct_unwind::{Met, Start, WalkEnd, Walked};

use crate::ThreadMemory;

use super::frame::{JavaFrame, JavaFrames};
use super::leaf::Registers;
use super::walk::{JavaEnd, Spot, Walker, Way};

/// Most changes between native and Java code in one stack.
const CHANGES: u32 = 64;

/// Walks through native frames of one thread, with the modules as they are now.
pub trait NativeWalks {
    /// A walk up to code in the range `foreign`, from its first address to the one behind its last.
    fn walk_to(&mut self, start: Start<'_>, out: &mut [u64], foreign: (u64, u64)) -> (Walked, Option<Met>);
}

/// Knows the words by which Java frames are recorded.
pub trait JavaCodes {
    /// The word of a frame. `None`: its method is not written down now.
    fn frame_word(&mut self, frame: JavaFrame) -> Option<u64>;
}

/// The words of one stack, innermost first.
#[derive(Debug)]
pub struct StackWords<'o, C> {
    codes: C,
    out: &'o mut [u64],
    used: usize,
}

impl<'o, C: JavaCodes> StackWords<'o, C> {
    /// Words are stored into `out`.
    pub fn new(codes: C, out: &'o mut [u64]) -> Self {
        StackWords { codes, out, used: 0 }
    }

    /// Room that is left.
    fn rest(&mut self) -> &mut [u64] {
        self.out.get_mut(self.used..).unwrap_or(&mut [])
    }

    /// Stores a word; false: there is no room.
    fn store(&mut self, word: u64) -> bool {
        match self.out.get_mut(self.used) {
            Some(place) => {
                *place = word;
                self.used += 1;
                true
            }
            None => false,
        }
    }

    /// What there is, and that the rest is not known.
    fn torn(mut self) -> (usize, Option<CutCause>) {
        let stored = self.store(Frame::NoCode(LostCode::Torn).encode());
        (self.used, Some(if stored { CutCause::NoUnwindData } else { CutCause::Depth }))
    }
}

impl<C: JavaCodes> JavaFrames for StackWords<'_, C> {
    fn push(&mut self, frame: JavaFrame) -> bool {
        let word = self.codes.frame_word(frame).unwrap_or(Frame::NoCode(LostCode::NotWritten).encode());
        self.store(word)
    }

    fn push_heap(&mut self) -> bool {
        self.store(Frame::NoCode(LostCode::InHeap).encode())
    }
}

impl<M: ThreadMemory> Walker<'_, M> {
    /// Stores the stack of the thread with these registers, of which `start` has those that native walks need: how many
    /// words, and why it is cut. At most `most` steps through the Java frames of each change. `None`: the virtual
    /// machine is not as it was found, so there may be Java code of which nothing is known.
    pub fn mixed<C: JavaCodes>(
        &self,
        registers: &Registers,
        start: Start<'_>,
        natives: &mut impl NativeWalks,
        most: u32,
        mut words: StackWords<'_, C>,
    ) -> Option<(usize, Option<CutCause>)> {
        let is_java = self.jvm.contains(registers.pc);
        if is_java && !self.jvm.is_current(self.memory) {
            return None;
        }
        let mut start = start;
        let mut end = if is_java { Some(self.interrupted(registers, most, &mut words)) } else { None };
        for _ in 0..CHANGES {
            match end {
                None => {}
                Some(JavaEnd::Native(Spot { pc, sp, bp })) => start = Start::Return { pc, sp, bp },
                Some(JavaEnd::Torn) => return Some(words.torn()),
                Some(JavaEnd::Full) => {
                    let is_full = words.rest().is_empty();
                    return Some((words.used, Some(if is_full { CutCause::Depth } else { CutCause::Time })));
                }
            }
            let (walked, met) = natives.walk_to(start, words.rest(), self.jvm.bounds);
            words.used += walked.frames;
            let Some(Met { pc, sp, bp, is_exact }) = met else {
                return Some((words.used, native_end(&walked)));
            };
            if is_exact || walked.frames == 0 {
                return Some(words.torn());
            }
            if !self.jvm.is_current(self.memory) {
                return None;
            }
            // Its frames say more than its address.
            words.used -= 1;
            end = Some(self.callers(Spot { pc, sp, bp }, Way::Native, most, &mut words));
        }
        Some((words.used, Some(CutCause::Loop)))
    }
}

fn native_end(walked: &Walked) -> Option<CutCause> {
    if walked.end == WalkEnd::NotReady && walked.unknown {
        return Some(CutCause::NotRead);
    }
    walked.end.cut_cause()
}
