//! The chain of frames of one thread, innermost first.
//!
//! A chain can be torn: the compiler stores the new head some instructions before what it points to, and a signal can come
//! between. So each frame is checked before it is followed: its place (the thread's frame stack, or a generator's object),
//! its owner, and its code object by the exact type. A chain with a frame that fails is [`Torn`], and nothing of it is used.
//!
//! The frames of one call of the bytecode loop form a group, and for 3.11 and later the outermost of a group comes with an
//! address on the C stack that lies inside that call's native frame ([`Owner`]): this is how both stacks are woven without
//! knowing any function's name or extent.

use pct_elf::Memory;

use super::find::Interpreter;
use super::layout::{Entries, FirstFrame, Instruction};

/// Which native frame runs a Python frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Owner {
    /// The same as the next outer Python frame: the bytecode loop made no call of itself.
    #[default]
    Outer,
    /// The native frame in which this address of the C stack lies.
    Holding(u64),
    /// The next native frame of the bytecode loop: 3.8 to 3.10, where each Python frame has one.
    NextLoop,
}

/// A Python frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Frame {
    /// Address of the code object.
    pub code: u64,
    /// Offset in its bytecode, in bytes; `None`: before its first instruction.
    pub offset: Option<u32>,
    /// What runs it.
    pub owner: Owner,
}

/// The chain was met half built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn;

/// What a walk found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Frames stored.
    pub frames: usize,
    /// There were more than had room.
    pub cut: bool,
}

/// Owners of frames (`enum _frameowner`, 3.11 to 3.13).
const OWNED_BY_GENERATOR: u8 = 1;
const OWNED_BY_C_STACK: u8 = 3;

/// Longest list of chunks of a thread's frame stack.
const MOST_CHUNKS: usize = 64;
/// Bytes before the frames of a chunk: {previous, size, top}.
const CHUNK_HEAD: u64 = 24;
/// Groups and boundaries passed without storing a frame.
const MOST_EMPTY: usize = 4096;

/// Can `address` be that of an object or frame?
const fn plausible(address: u64) -> bool {
    address & 7 == 0 && address > 4096 && address >> 47 == 0
}

/// Reads the frames of the thread with this state into `out`, innermost first. `stack_pointer` is where the thread stands.
///
/// # Errors
/// The chain was met half built.
pub fn walk<M: Memory>(
    memory: &M,
    interpreter: &Interpreter,
    state: u64,
    stack_pointer: u64,
    out: &mut [Frame],
) -> Result<Chain, Torn> {
    let mut walk = Walk { memory, interpreter, state, out, frames: 0 };
    match interpreter.layout.first {
        FirstFrame::Object { at } => walk.chain(walk.word(state + at)?, None),
        FirstFrame::Current { at } => walk.chain(walk.word(state + at)?, None),
        FirstFrame::ByCFrame { at, current, previous } => {
            let mut c_frame = walk.word(state + at)?;
            let mut head = walk.word(c_frame.wrapping_add(current))?;
            if c_frame >= stack_pointer && head != 0 && walk.code_of(head).is_err() {
                // The loop is being entered: the state names its CFrame before that one names a frame. What was running
                // is still named by the one before.
                c_frame = walk.word(c_frame.wrapping_add(previous))?;
                head = walk.word(c_frame.wrapping_add(current))?;
            }
            let by_flag = matches!(interpreter.layout.entries, Entries::Flag { .. });
            walk.chain(head, by_flag.then_some((c_frame, previous)))
        }
    }
}

struct Walk<'a, M> {
    memory: &'a M,
    interpreter: &'a Interpreter,
    state: u64,
    out: &'a mut [Frame],
    frames: usize,
}

impl<M: Memory> Walk<'_, M> {
    fn word(&self, at: u64) -> Result<u64, Torn> {
        self.memory.word(at).ok_or(Torn)
    }

    /// The chain from its innermost frame. `c_frame`: address of the CFrame of the innermost group, and where it names the next.
    fn chain(&mut self, head: u64, mut c_frame: Option<(u64, u64)>) -> Result<Chain, Torn> {
        let layout = self.interpreter.layout;
        let mut frame = head;
        let mut empty = 0;
        while frame != 0 {
            if !plausible(frame) {
                return Err(Torn);
            }
            if let Some(owner_at) = layout.owner {
                let [owner] = self.memory.bytes(frame + owner_at).ok_or(Torn)?;
                if owner == OWNED_BY_C_STACK && layout.entries == Entries::Boundary {
                    // The frames before it are a group that this address belongs to.
                    if let Some(last) = self.frames.checked_sub(1).and_then(|last| self.out.get_mut(last))
                        && last.owner == Owner::Outer
                    {
                        last.owner = Owner::Holding(frame);
                    }
                    empty += 1;
                    if empty > MOST_EMPTY {
                        return Err(Torn);
                    }
                    frame = self.word(frame + layout.previous)?;
                    continue;
                }
                if owner > OWNED_BY_GENERATOR || (owner != OWNED_BY_GENERATOR && !self.on_frame_stack(frame))
                {
                    return Err(Torn);
                }
            }
            let code = self.code_of(frame)?;
            let offset = self.offset(frame, code)?;
            let owner = match layout.entries {
                Entries::Each => Owner::NextLoop,
                Entries::Boundary => Owner::Outer,
                Entries::Flag { at } => {
                    let [is_entry] = self.memory.bytes(frame + at).ok_or(Torn)?;
                    match (is_entry, &mut c_frame) {
                        (0, _) | (_, None) => Owner::Outer,
                        (_, Some((address, previous))) => {
                            let held = *address;
                            *address = self.word(held.wrapping_add(*previous))?;
                            Owner::Holding(held)
                        }
                    }
                }
            };
            let Some(place) = self.out.get_mut(self.frames) else {
                return Ok(Chain { frames: self.frames, cut: true });
            };
            *place = Frame { code, offset, owner };
            self.frames += 1;
            frame = self.word(frame + layout.previous)?;
        }
        Ok(Chain { frames: self.frames, cut: false })
    }

    /// The code object of a frame, known by its type.
    fn code_of(&self, frame: u64) -> Result<u64, Torn> {
        if !plausible(frame) {
            return Err(Torn);
        }
        let code = self.word(frame + self.interpreter.layout.code)?;
        if plausible(code) && self.word(code + 8)? == self.interpreter.code_type {
            Ok(code)
        } else {
            Err(Torn)
        }
    }

    /// Does the frame lie in the thread's frame stack, and in use?
    fn on_frame_stack(&self, frame: u64) -> bool {
        let Some((chunk_at, top_at)) = self.interpreter.layout.datastack else { return true };
        let memory = self.memory;
        let (Some(mut chunk), Some(top)) =
            (memory.word(self.state + chunk_at), memory.word(self.state + top_at))
        else {
            return false;
        };
        let mut end = Some(top);
        for _ in 0..MOST_CHUNKS {
            if !plausible(chunk) {
                return false;
            }
            let Some(end) = end.take().or_else(|| Some(chunk.wrapping_add(memory.word(chunk + 8)?))) else {
                return false;
            };
            if frame >= chunk + CHUNK_HEAD && frame < end {
                return true;
            }
            match memory.word(chunk) {
                Some(older) => chunk = older,
                None => return false,
            }
        }
        false
    }

    fn offset(&self, frame: u64, code: u64) -> Result<Option<u32>, Torn> {
        let layout = self.interpreter.layout;
        let bytes = match layout.instruction {
            Instruction::Index { at, scale } => {
                let index = i32::from_le_bytes(self.memory.bytes(frame + at).ok_or(Torn)?);
                i64::from(index) * scale
            }
            Instruction::Pointer { at } => {
                let pointer = self.word(frame + at)?;
                pointer.wrapping_sub(code.wrapping_add(layout.bytecode)).cast_signed()
            }
        };
        Ok(u32::try_from(bytes).ok())
    }
}
