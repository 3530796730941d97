//! The chain of frames of one thread, innermost first.
//!
//! A chain can be torn: the compiler stores the new head some instructions before what it points to, and a signal can
//! come between. So each frame is checked before it is followed: its place (the thread's frame stack, or a
//! generator's object), its owner, and its code object by the exact type. A chain with a frame that fails is
//! [`Torn`], and nothing of it is used.
//!
//! That is not enough. What a new frame's words held before are links and functions too, of frames that have ended:
//! a stale link can lead to another living frame. So each link of the innermost group, the only one that can be half
//! built, must be proved by something else that the interpreter stores (from 3.11 on):
//!
//! ```text
//! frame stack   | main    | parse      | leaf |   within the group a frame begins where its
//!               ^         ^ = main + its size          caller's ends
//! C stack       CFrame of the loop {current frame, previous}   what called the group is the current frame of the next
//!                                                        outer loop (3.11, 3.12)
//! ```
//!
//! The frames of one call of the bytecode loop form a group, and for 3.11 and later the outermost of a group comes
//! with an address on the C stack that lies inside that call's native frame ([`Owner`]): this is how both stacks are
//! woven without knowing any function's name or extent.

use crate::ThreadMemory;

use super::find::Interpreter;
use super::layout::{Entries, FirstFrame, FrameSize, plausible};

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
pub struct PythonFrame {
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
/// No thread's state is larger.
const LARGEST_STATE: u64 = 4096;
/// Bytes before the frames of a chunk: {previous, size, top}.
const CHUNK_HEAD: u64 = 24;
/// Boundaries between groups that one walk passes. They take no room, and a damaged chain may lead back to one.
const MOST_BOUNDARIES: u32 = 4096;
/// Chunks that one walk looks at. A frame that lies in none of them, as those of generators do, has all looked at.
const MOST_CHUNK_LOOKS: u32 = 1 << 14;

/// Longest distance on the C stack between two calls of the bytecode loop that is believed.
const LONGEST_STRETCH: u64 = 64 << 20;

/// Where a thread stands.
#[derive(Clone, Copy, Debug)]
pub struct Standing<R> {
    /// Its stack pointer.
    pub stack_pointer: u64,
    /// What its registers hold, in any order: general ones, and halves of vector registers. A chain that was met half
    /// built is repaired by them.
    pub registers: R,
}

/// Reads the frames of the thread with this state into `out`, innermost first.
///
/// In 3.11 and 3.12 the compiler tells the state of a new call of the bytecode loop, or of an inlined call, some
/// instructions before what that call needs is stored. What is to be stored is in registers then, and what was
/// running is still whole: the stack just before the call is given.
///
/// # Errors
/// The chain was met half built.
pub fn walk<M: ThreadMemory, R: Iterator<Item = u64> + Clone>(
    memory: &M,
    interpreter: &Interpreter,
    state: u64,
    thread: &Standing<R>,
    out: &mut [PythonFrame],
) -> Result<Chain, Torn> {
    if !plausible(state) {
        return Err(Torn);
    }
    let mut walk = Walk {
        memory,
        interpreter,
        state,
        out,
        frames: 0,
        stack: FrameStack::default(),
        boundaries_left: MOST_BOUNDARIES,
        chunk_looks_left: MOST_CHUNK_LOOKS,
    };
    match interpreter.layout.first {
        FirstFrame::Object { at } => {
            let head = walk.read_word(state + at)?;
            walk.chain_from(head, None, None)
        }
        FirstFrame::Current { at } => {
            let head = walk.read_word(state + at)?;
            walk.chain_from(head, None, None).or_else(|Torn| walk.caller_of(head, None, thread))
        }
        FirstFrame::ByCFrame { at, current, previous } => {
            let loops = |address| Some(Loop { address, current, previous });
            let c_frame = walk.read_word(state + at)?;
            let head = walk.read_word(c_frame.wrapping_add(current))?;
            if let Ok(chain) = walk.chain_from(head, loops(c_frame), None) {
                return Ok(chain);
            }
            if c_frame < thread.stack_pointer {
                return Err(Torn);
            }
            if let Ok(chain) = walk.caller_of(head, loops(c_frame), thread) {
                return Ok(chain);
            }
            // A call of the loop: what ran before is named by the CFrame of the loop that calls.
            let named = memory.read_word(c_frame.wrapping_add(previous));
            let near = named.into_iter().chain(thread.registers.clone()).filter(|address| {
                let stretch = address.wrapping_sub(c_frame);
                address & 7 == 0 && stretch != 0 && stretch < LONGEST_STRETCH
            });
            let outer = near.filter(|address| walk.names_frame(address.wrapping_add(current))).min();
            let outer = outer.ok_or(Torn)?;
            let head = walk.read_word(outer.wrapping_add(current))?;
            walk.chain_from(head, loops(outer), None)
        }
    }
}

/// The CFrame of a call of the bytecode loop (3.11, 3.12).
#[derive(Clone, Copy)]
struct Loop {
    address: u64,
    /// Offset of its current frame.
    current: u64,
    /// Offset of the CFrame of the next outer loop.
    previous: u64,
}

struct Walk<'a, M> {
    memory: &'a M,
    interpreter: &'a Interpreter,
    state: u64,
    out: &'a mut [PythonFrame],
    frames: usize,
    stack: FrameStack,
    /// Counted over all chains that are tried: each register may lead to one.
    boundaries_left: u32,
    chunk_looks_left: u32,
}

/// A chunk of the thread's frame stack. Frames lie in it from `low` on, below `high`.
#[derive(Clone, Copy, Default)]
struct FrameStack {
    chunk: u64,
    low: u64,
    high: u64,
}

/// Longest chunk that is believed.
const LONGEST_CHUNK: u64 = 1 << 32;

impl<M: ThreadMemory> Walk<'_, M> {
    fn read_word(&self, at: u64) -> Result<u64, Torn> {
        self.memory.read_word(at).ok_or(Torn)
    }

    /// The chain from its innermost frame. `end`: where that one must end on the frame stack, if this is known.
    fn chain_from(&mut self, head: u64, inner: Option<Loop>, end: Option<u64>) -> Result<Chain, Torn> {
        self.frames = 0;
        self.stack = self.frame_stack().ok_or(Torn)?;
        self.chain(head, inner, end)
    }

    /// The chain from the frame that is calling `head`, or that `head` is returning to: a register holds it.
    /// It is the frame that ends where `head` begins, or where the frame stack ends if `head` is not on it.
    fn caller_of<R: Iterator<Item = u64> + Clone>(
        &mut self,
        head: u64,
        inner: Option<Loop>,
        thread: &Standing<R>,
    ) -> Result<Chain, Torn> {
        let FrameStack { low, high, .. } = self.frame_stack().ok_or(Torn)?;
        let on_stack = |address: u64| address >= low && address < high;
        let end = if on_stack(head) { head } else { high };
        for register in thread.registers.clone().filter(|address| plausible(*address) && *address != head) {
            let is_generator = || self.is_generator(register);
            if (on_stack(register) || is_generator())
                && let Ok(chain) = self.chain_from(register, inner, Some(end))
            {
                return Ok(chain);
            }
        }
        Err(Torn)
    }

    /// Is there the frame of a generator?
    fn is_generator(&self, frame: u64) -> bool {
        self.memory.look_again(frame)
            && self.interpreter.layout.owner.and_then(|at| self.memory.bytes(frame + at))
                == Some([OWNED_BY_GENERATOR])
            && self.has_code(frame)
    }

    /// Is the address of a frame stored at `place`?
    fn names_frame(&mut self, place: u64) -> bool {
        let Some(frame) = self.memory.read_word(place).filter(|frame| plausible(*frame)) else {
            return false;
        };
        let on_stack = self.on_frame_stack(frame);
        if !on_stack && !self.memory.look_again(frame) {
            return false;
        }
        let owner = self.interpreter.layout.owner.and_then(|at| self.memory.bytes(frame + at));
        self.has_code(frame) && (on_stack || owner == Some([OWNED_BY_GENERATOR]))
    }

    /// `inner`: the innermost loop. `end`: see [`Self::chain_from`].
    fn chain(&mut self, head: u64, inner: Option<Loop>, mut end: Option<u64>) -> Result<Chain, Torn> {
        let layout = self.interpreter.layout;
        let read = &layout.read;
        let mut frame = head;
        // Where the innermost group lies; the loops whose groups come next, and what called the first.
        let mut innermost = layout.frame_size.is_some();
        let top = self.stack.high;
        let mut c_frame = inner;
        while frame != 0 {
            if !plausible(frame) {
                return Err(Torn);
            }
            let on_stack = layout.owner.is_some() && self.on_frame_stack(frame);
            // Only the first two links are ever met half built. What they name may be gone: it is not believed to
            // be as it was a moment ago.
            if layout.owner.is_some() && !on_stack && self.frames < 2 && !self.memory.look_again(frame) {
                return Err(Torn);
            }
            let [code, previous, instruction, marks] =
                self.memory.read_fields(frame, &read.frame).ok_or(Torn)?;
            if layout.owner.is_some() {
                let owner = (marks >> read.owner_shift) as u8;
                if owner == OWNED_BY_C_STACK && layout.entries == Entries::Boundary {
                    // The frames before it are a group that this address belongs to.
                    if let Some(last) = self.frames.checked_sub(1).and_then(|last| self.out.get_mut(last))
                        && last.owner == Owner::Outer
                    {
                        last.owner = Owner::Holding(frame);
                    }
                    self.boundaries_left = self.boundaries_left.checked_sub(1).ok_or(Torn)?;
                    frame = previous;
                    if core::mem::take(&mut innermost) {
                        self.must_be_current(frame, inner)?;
                    }
                    continue;
                }
                if owner > OWNED_BY_GENERATOR || (owner != OWNED_BY_GENERATOR && !on_stack) {
                    return Err(Torn);
                }
            }
            let words = self.frame_words(code)?;
            if innermost && on_stack {
                self.must_end(frame, words, end, top)?;
                end = Some(frame);
            }
            let owner = match layout.entries {
                Entries::Each => Owner::NextLoop,
                Entries::Boundary => Owner::Outer,
                Entries::Flag { .. } => match ((marks >> read.flag_shift) as u8, &mut c_frame) {
                    (0, _) | (_, None) => Owner::Outer,
                    (_, Some(holding)) => {
                        if core::mem::take(&mut innermost) {
                            self.must_be_current(previous, inner)?;
                        }
                        let held = holding.address;
                        holding.address = self.read_word(held.wrapping_add(holding.previous))?;
                        Owner::Holding(held)
                    }
                },
            };
            let Some(place) = self.out.get_mut(self.frames) else {
                return Ok(Chain { frames: self.frames, cut: true });
            };
            *place = PythonFrame { code, offset: layout.offset(code, instruction), owner };
            self.frames += 1;
            frame = previous;
        }
        match self.frames.checked_sub(1).and_then(|last| self.out.get(last)) {
            // Each group ends with what tells its loop: a link was not stored yet.
            Some(last) if last.owner == Owner::Outer => Err(Torn),
            // A loop that runs has a frame. Only the thread's own CFrame, which is a part of its state, has none.
            None if inner.is_some_and(|inner| inner.address.wrapping_sub(self.state) >= LARGEST_STATE) => {
                Err(Torn)
            }
            _ => Ok(Chain { frames: self.frames, cut: false }),
        }
    }

    /// A frame of so many words on the frame stack ends where the one that it called begins (`end`), if it called
    /// one in the same chunk; else before the stack's top.
    fn must_end(&self, frame: u64, words: u64, end: Option<u64>, top: u64) -> Result<(), Torn> {
        let ends = frame.wrapping_add(words.wrapping_mul(8));
        let in_chunk = |address: u64| address >= self.stack.low && address <= self.stack.high;
        match end {
            Some(end) if in_chunk(end) && ends != end => Err(Torn),
            None if in_chunk(top) && ends > top => Err(Torn),
            _ => Ok(()),
        }
    }

    /// What called the innermost group is the current frame of the next outer loop.
    fn must_be_current(&self, frame: u64, inner: Option<Loop>) -> Result<(), Torn> {
        let Some(Loop { address, current, previous }) = inner else { return Ok(()) };
        let outer = self.read_word(address.wrapping_add(previous))?;
        if self.read_word(outer.wrapping_add(current))? == frame { Ok(()) } else { Err(Torn) }
    }

    /// Does a frame of living code lie there, as far as its type says?
    fn has_code(&self, frame: u64) -> bool {
        let code = self.memory.read_word(frame.wrapping_add(self.interpreter.layout.code));
        plausible(frame) && code.is_some_and(|code| self.frame_words(code).is_ok())
    }

    /// How many words the frames of a code object take, where frames lie on a stack of their own. The object is
    /// known by its type.
    #[inline(always)]
    fn frame_words(&self, code: u64) -> Result<u64, Torn> {
        let layout = self.interpreter.layout;
        if !plausible(code) {
            return Err(Torn);
        }
        let [kind, one, other] = self.memory.read_fields(code, &layout.read.code).ok_or(Torn)?;
        if kind != self.interpreter.code_type {
            return Err(Torn);
        }
        let half = |word: u64| word & 0xffff_ffff;
        Ok(match layout.frame_size {
            None => 0,
            Some(FrameSize::Words { .. }) => half(one),
            Some(FrameSize::Sum { head, .. }) => head + half(one) + half(other),
        })
    }

    /// The current chunk of the thread's frame stack; one without addresses where the version has no such stack.
    fn frame_stack(&self) -> Option<FrameStack> {
        let Some((chunk_at, top_at)) = self.interpreter.layout.datastack else {
            return Some(FrameStack::default());
        };
        let chunk = self.memory.read_word(self.state + chunk_at)?;
        if chunk == 0 {
            // No frame was made yet.
            return Some(FrameStack::default());
        }
        let top = self.memory.read_word(self.state + top_at)?;
        let mut stack = self.chunk(chunk)?;
        // Between two stores of the interpreter the top is another chunk's: then all of this one counts.
        if stack.low <= top && top < stack.high {
            stack.high = top;
        }
        Some(stack)
    }

    /// The chunk at this address: the thread's state, or a younger chunk, says that it is one.
    fn chunk(&self, chunk: u64) -> Option<FrameStack> {
        if !plausible(chunk) {
            return None;
        }
        self.memory.trust(chunk, chunk + CHUNK_HEAD);
        let size = self.memory.read_word(chunk + 8).filter(|size| *size < LONGEST_CHUNK)?;
        self.memory.trust(chunk, chunk + size);
        Some(FrameStack { chunk, low: chunk + CHUNK_HEAD, high: chunk + size })
    }

    /// Does the frame lie in the thread's frame stack, and in use?
    #[inline(always)]
    fn on_frame_stack(&mut self, frame: u64) -> bool {
        (frame >= self.stack.low && frame < self.stack.high) || self.on_older_chunk(frame)
    }

    #[inline(never)]
    fn on_older_chunk(&mut self, frame: u64) -> bool {
        let current = self.stack;
        if current.chunk == 0 {
            return false;
        }
        // Outwards to older chunks; the younger ones are not needed any more.
        let mut chunk = current.chunk;
        for _ in 0..MOST_CHUNKS {
            let Some(left) = self.chunk_looks_left.checked_sub(1) else { break };
            self.chunk_looks_left = left;
            let Some(older) = self.memory.read_word(chunk).filter(|older| *older != 0) else { break };
            let Some(stack) = self.chunk(older) else { break };
            if frame >= stack.low && frame < stack.high {
                self.stack = stack;
                return true;
            }
            chunk = older;
        }
        // The memory believes in the last chunk that it was told of.
        self.memory.trust(current.low, current.high);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::{LAYOUTS, Layout};
    use super::*;
    use pct_elf::BytesAt;

    impl ThreadMemory for BytesAt<'_> {}

    /// Words at addresses; what else is there is 0. How many were read.
    struct Sparse<const N: usize> {
        words: [(u64, u64); N],
        reads: core::cell::Cell<u32>,
    }

    impl<const N: usize> pct_elf::Memory for Sparse<N> {
        fn copy(&self, at: u64, into: &mut [u8]) -> bool {
            self.reads.set(self.reads.get() + 1);
            let word = self.words.iter().find(|(place, _)| *place == at & !7).map_or(0, |(_, word)| *word);
            let octets = word.to_le_bytes().into_iter().cycle().skip((at & 7) as usize);
            into.iter_mut().zip(octets).for_each(|(to, from)| *to = from);
            true
        }
    }

    impl<const N: usize> ThreadMemory for Sparse<N> {}

    /// Every register holds the frame of a generator, which leads to a boundary that comes next to itself; the frame
    /// stack's only chunk comes next to itself too.
    #[test]
    fn rings_cost_no_more_the_more_registers_lead_to_them() {
        let (state, chunk, generator, boundary, code) = (0x20000, 0x30000, 0x40000, 0x50000, 0x60000);
        let layout = Layout::for_minor(13).expect("a layout");
        let code_type = 0x70000;
        let interpreter =
            Interpreter { layout, version: 0, runtime: 0x10000, code_type, bytecode_loop: (0, 0) };
        let owner = layout.owner.expect("3.13 has owners");
        let owned_by = |owner_kind: u8| u64::from(owner_kind) << (8 * (owner & 7));
        let (datastack, _) = layout.datastack.expect("3.13 has a frame stack");
        let FirstFrame::Current { at } = layout.first else { panic!("{:?}", layout.first) };
        let words = [
            (state + at, boundary + 8),
            (state + datastack, chunk),
            (chunk, chunk),
            (chunk + 8, 0x100),
            (generator + layout.code, code),
            (generator + layout.previous, boundary),
            (generator + (owner & !7), owned_by(OWNED_BY_GENERATOR)),
            (boundary + layout.previous, boundary),
            (boundary + (owner & !7), owned_by(OWNED_BY_C_STACK)),
            (code + 8, code_type),
        ];
        let memory = Sparse { words, reads: 0.into() };
        let standing = Standing { stack_pointer: 0, registers: core::iter::repeat_n(generator, 48) };
        let mut out = [PythonFrame::default(); 8];
        assert_eq!(walk(&memory, &interpreter, state, &standing, &mut out), Err(Torn));
        let most = 8 * MOST_BOUNDARIES + 2 * MOST_CHUNK_LOOKS + 48 * 100;
        assert!(memory.reads.get() <= most, "{} reads", memory.reads.get());
    }

    #[test]
    fn a_state_that_cannot_be_one_is_not_read() {
        let memory = BytesAt { at: u64::MAX - 0xfff, bytes: &[0; 0xfff] };
        for layout in &LAYOUTS {
            let interpreter = Interpreter {
                layout,
                version: 0,
                runtime: 0x10000,
                code_type: 0x20000,
                bytecode_loop: (0, 0),
            };
            let standing = Standing { stack_pointer: 0, registers: core::iter::empty() };
            for state in [u64::MAX, u64::MAX - 7, u64::MAX - 0x7ff, 1 << 63, 0] {
                assert_eq!(walk(&memory, &interpreter, state, &standing, &mut []), Err(Torn), "{state:#x}");
            }
        }
    }
}
