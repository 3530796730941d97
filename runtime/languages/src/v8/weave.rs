//! Functions of JavaScript put in the places of native frames.
//!
//! V8 keeps frame pointers, so that native walks go through its frames. A frame whose code has no unwind data, and in
//! which a function with a script runs, becomes a frame of that function: its address is in V8's interpreter, or in
//! code that V8 made and will free. A frame of a function of V8's own stays as it is: its symbol is its name.

use pct_unwind::{EXACT, Placed};

use super::function::Function;
use super::layout::Layout;
use crate::ThreadMemory;

/// Octets between the frame pointer and the end of its frame: the caller's frame pointer and the return address.
const ABOVE_POINTER: u64 = 16;
/// Octets below the frame pointer that must have been written: the context and the function.
const BELOW_POINTER: u64 = 16;
/// What of an entry is its address.
const ADDRESS: u64 = (1 << 56) - 1;

/// What puts functions of JavaScript in their places.
#[derive(Debug)]
pub struct Weaver<'s, M, C> {
    /// The thread's memory.
    pub memory: &'s M,
    /// Of the V8 that runs in it.
    pub layout: &'s Layout,
    /// Whether code at an address may be V8's: its own, or some that it made.
    pub is_of_v8: C,
    /// Most frames that are looked at.
    pub most: u32,
}

impl<M: ThreadMemory, C: Fn(u64) -> bool> Weaver<'_, M, C> {
    /// Writes the callers of the place `pc`, where the stack pointer is `sp`, into `out`: native frames, and functions
    /// of JavaScript in the place of theirs, with the words that `frame_word` has for them. How many words, and whether
    /// all had room.
    pub fn weave(
        &self,
        (pc, sp): (u64, u64),
        callers: &[Placed],
        mut frame_word: impl FnMut(&Function) -> u64,
        out: &mut [u64],
    ) -> (usize, bool) {
        let mut places = out.iter_mut();
        let mut used = 0;
        let mut store = |word: u64| {
            let Some(place) = places.next() else { return false };
            *place = word;
            used += 1;
            true
        };
        let (mut left, mut is_sure) = (self.most, false);
        let mut own: Option<u64> = None;
        let (mut look, mut low) = (pc, sp);
        let mut rest = callers.iter();
        loop {
            let next = rest.next();
            // A frame ends where the one of its caller begins.
            let frame = next.and_then(|next| next.cfa.checked_sub(ABOVE_POINTER));
            let mut spoken = None;
            if let Some(frame) = frame
                && frame.checked_sub(BELOW_POINTER).is_some_and(|lowest| lowest >= low)
                && left > 0
                && (self.is_of_v8)(look)
            {
                left -= 1;
                if let Some(function) = Function::of_frame(self.memory, self.layout, frame, is_sure) {
                    is_sure = true;
                    spoken = Some(frame_word(&function));
                }
            }
            if let Some(word) = spoken.or(own)
                && !store(word)
            {
                return (used, false);
            }
            let Some(next) = next else { return (used, true) };
            own = Some(next.entry);
            let address = next.entry & ADDRESS;
            look = if next.entry & EXACT == EXACT { address } else { address.wrapping_sub(1) };
            low = next.cfa;
        }
    }
}
