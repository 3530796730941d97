//! Two stacks of one thread made one: an interpreter's frames at their places among the native ones.
//!
//! The frames that one call of the bytecode loop runs are a *group*. For CPython 3.11 and later each group comes with
//! an address on the C stack that lies inside that call's native frame, so its place needs no names: it is the native
//! frame whose part of the stack holds the address. For 3.8 to 3.10 each frame has a call of the loop for itself, and
//! calls are counted.
//!
//! ```text
//!  native frames, innermost first        groups               woven
//!    list_sort (pc)                                             list_sort
//!    builtin_sorted                                             builtin_sorted
//!    bytecode loop   [sp .. cfa)          key, helper   ->       bytecode loop, key, helper
//!    _PyEval_Vector                                             _PyEval_Vector
//!    bytecode loop   [sp .. cfa)          main          ->       bytecode loop, main
//! ```
//!
//! What does not fit is not shown: a call of the loop without frames may only be the innermost one (it is being
//! entered or left), and each group must find its frame if the native stack is whole. Else [`LostCode::Torn`] stands
//! there and the native half stays.
//!
//! A greenlet's frames end at its own root, but its C stack lies where it was begun: calls of the loop further out are
//! other greenlets', which may have moved on since. The stack ends before them, and is whole. Where frames are matched
//! by counting, greenlet's own code must lie between the two: it is what begins a greenlet.
//!
//! Signal safety: nothing here allocates, locks, calls or panics.

use pct_format::record::{Frame, LostCode};
use pct_unwind::{EXACT, Placed};

use crate::ThreadMemory;
use crate::cpython::{Interpreter, Owner, PythonFrame, Standing, ThreadData, Torn, walk};

/// The native half.
#[derive(Clone, Copy, Debug)]
pub struct Native<'a> {
    /// Where the thread stands.
    pub pc: u64,
    /// Its stack pointer.
    pub sp: u64,
    /// Its callers, innermost first.
    pub callers: &'a [Placed],
    /// The outermost caller is the thread's or the program's entry.
    pub whole: bool,
}

/// The interpreter's half.
#[derive(Clone, Copy, Debug)]
pub struct Interpreted<'a> {
    /// Its frames, innermost first.
    pub frames: &'a [PythonFrame],
    /// There are more.
    pub cut: bool,
    /// Calls of the bytecode loop outside of these frames may run other interpreters of the process.
    pub others: bool,
}

impl<'f> Interpreted<'f> {
    /// What the thread whose control block is at `thread` runs of CPython. `None`: nothing.
    ///
    /// # Errors
    /// Why its frames are missing.
    #[inline]
    pub fn of_cpython<M: ThreadMemory, R: Iterator<Item = u64> + Clone>(
        memory: &M,
        (interpreter, data): (&Interpreter, &ThreadData),
        thread: u64,
        standing: &Standing<R>,
        frames: &'f mut [PythonFrame],
    ) -> Option<Result<Interpreted<'f>, LostCode>> {
        let (state, attached) = interpreter.state(memory, data, thread)?;
        let others = interpreter.has_several(memory);
        if attached == Some(false) && others {
            // The state that the thread's key names is the main interpreter's, whichever it runs.
            return Some(Err(LostCode::Several));
        }
        Some(match walk(memory, interpreter, state, standing, frames) {
            Ok(chain) => {
                let frames = frames.get(..chain.frames).unwrap_or(&[]);
                Ok(Interpreted { frames, cut: chain.cut, others })
            }
            Err(Torn) => Err(LostCode::Torn),
        })
    }
}

/// Where code lies that tells calls of the interpreter apart: first addresses, and those behind the last. Both are
/// equal if an interpreter has no such code, or the code was not found.
#[derive(Clone, Copy, Debug, Default)]
pub struct InterpreterCode {
    /// The bytecode loop.
    pub bytecode_loop: (u64, u64),
    /// The module that begins greenlets and switches between them.
    pub greenlets: (u64, u64),
}

/// What is written for the frames of an interpreter.
pub trait Words {
    /// The word of a frame; `None`: it is part of the machinery and hidden.
    fn frame(&mut self, frame: &PythonFrame) -> Option<u64>;
}

/// What [`weave`] wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Woven {
    /// Words written.
    pub words: usize,
    /// There was no room for all.
    pub full: bool,
    /// The stack begins where the interpreter's frames do. What lies outside on the native stack called
    /// something else: a greenlet runs where another one was when it was begun.
    pub has_own_root: bool,
}

/// Writes both halves into `out`, innermost first, without the sampled PC.
pub fn weave<W: Words>(
    native: &Native<'_>,
    interpreted: Result<Interpreted<'_>, LostCode>,
    code: InterpreterCode,
    words: &mut W,
    out: &mut [u64],
) -> Woven {
    let mut weaver = Weaver { native, code, words, out, used: 0, full: false };
    let lost = match interpreted {
        Ok(interpreted) => match weaver.both(interpreted) {
            Some(has_own_root) => {
                return Woven { words: weaver.used, full: weaver.full, has_own_root };
            }
            None => LostCode::Torn,
        },
        Err(lost) => lost,
    };
    weaver.native_alone(lost);
    Woven { words: weaver.used, full: weaver.full, has_own_root: false }
}

struct Weaver<'a, W> {
    native: &'a Native<'a>,
    code: InterpreterCode,
    words: &'a mut W,
    out: &'a mut [u64],
    used: usize,
    full: bool,
}

/// A native frame: where it runs and its part of the stack.
#[derive(Clone, Copy)]
struct Spot {
    pc: u64,
    low: u64,
    high: u64,
}

impl Spot {
    fn is_in(&self, (first, end): (u64, u64)) -> bool {
        self.pc >= first && self.pc < end
    }
}

/// The frames from the next one to the end of its group.
#[derive(Clone, Copy)]
enum Group {
    /// No frame is left.
    None,
    /// One frame, in the next call of the loop.
    Next,
    /// So many frames, in the native frame that holds the address.
    At(usize, u64),
    /// The chain was cut within the group: its frames are in the next call of the loop.
    Partial,
}

impl Group {
    fn from_frames(frames: &[PythonFrame]) -> Group {
        let Some(end) = frames.iter().position(|frame| frame.owner != Owner::Outer) else {
            return if frames.is_empty() { Group::None } else { Group::Partial };
        };
        match frames.get(end).map(|frame| frame.owner) {
            Some(Owner::Holding(address)) => Group::At(end + 1, address),
            _ => Group::Next,
        }
    }
}

/// Whether the frames end with one that tells its place on the C stack.
fn has_places(frames: &[PythonFrame]) -> bool {
    matches!(frames.last(), Some(PythonFrame { owner: Owner::Holding(_), .. }))
}

impl<W: Words> Weaver<'_, W> {
    fn push(&mut self, word: u64) {
        match self.out.get_mut(self.used) {
            Some(place) => {
                *place = word;
                self.used += 1;
            }
            None => self.full = true,
        }
    }

    fn push_frames(&mut self, frames: &[PythonFrame]) {
        for frame in frames {
            if self.used == self.out.len() {
                self.full = true;
                return;
            }
            if let Some(word) = self.words.frame(frame) {
                self.push(word);
            }
        }
    }

    /// The native frame number `index`; 0 is where the thread stands.
    fn spot(&self, index: usize) -> Option<Spot> {
        let callers = self.native.callers;
        let high = callers.get(index).map_or(u64::MAX, |caller| caller.cfa);
        let Some(before) = index.checked_sub(1) else {
            return Some(Spot { pc: self.native.pc, low: self.native.sp, high });
        };
        let Placed { entry, cfa } = *callers.get(before)?;
        let pc = if entry & EXACT == 0 { entry.wrapping_sub(1) } else { entry & !EXACT };
        Some(Spot { pc, low: cfa, high })
    }

    fn in_loop(&self, spot: Spot) -> bool {
        spot.is_in(self.code.bytecode_loop)
    }

    /// How many calls of the loop there are, and the native frame that began the greenlet in which they are made, if
    /// one did. `None`: greenlets are being switched, so the halves may be two greenlets'.
    fn loops(&self) -> Option<(usize, Option<usize>)> {
        let mut loops = 0;
        for index in 0.. {
            let Some(spot) = self.spot(index) else { break };
            if spot.is_in(self.code.greenlets) {
                return (loops > 0).then_some((loops, Some(index)));
            }
            loops += usize::from(self.in_loop(spot));
        }
        Some((loops, None))
    }

    /// Whether the stack begins where the interpreter's frames do ([`Woven::has_own_root`]). `None`: the
    /// halves do not fit together.
    fn both(&mut self, interpreted: Interpreted<'_>) -> Option<bool> {
        let Interpreted { frames, cut, others } = interpreted;
        let mut others_said = false;
        let mut rest = frames;
        let mut group = Group::from_frames(rest);
        // Calls of the loop that may have no frames: the innermost one.
        let mut bare = 1_usize;
        let mut root = None;
        if matches!(group, Group::Next) {
            let (loops, begun_by) = self.loops()?;
            root = begun_by;
            let all_there = (self.native.whole || root.is_some()) && !cut && !others;
            bare = match (all_there, loops.checked_sub(rest.len())) {
                (true, Some(more @ 0..=1)) => more,
                (true, _) => return None,
                (false, _) => 0,
            };
        }
        for index in 0.. {
            let Some(spot) = self.spot(index) else { break };
            if let Some(caller) = index.checked_sub(1).and_then(|before| self.native.callers.get(before)) {
                self.push(caller.entry);
            }
            if root == Some(index) {
                break;
            }
            let in_loop = self.in_loop(spot);
            let mut has_frames = false;
            loop {
                let length = match group {
                    Group::Next if in_loop && !has_frames && bare == 0 => 1,
                    Group::At(length, address) if spot.low <= address && address < spot.high => length,
                    Group::Partial if in_loop && !has_frames => rest.len(),
                    _ => break,
                };
                let (inner, outer) = rest.split_at_checked(length)?;
                self.push_frames(inner);
                rest = outer;
                has_frames = true;
                // Inner calls of the loop have frames: an outer one has.
                bare = 0;
                group = Group::from_frames(rest);
            }
            let ended = cut && rest.is_empty();
            if in_loop && !has_frames && !ended {
                match (group, bare.checked_sub(1)) {
                    (_, Some(left)) => bare = left,
                    // What comes out of order on a native stack that was cut.
                    (Group::Next, None) if !self.native.whole => {}
                    (Group::None, None) if others => {
                        if !others_said {
                            self.push(Frame::NoCode(LostCode::Several).encode());
                        }
                        others_said = true;
                    }
                    // All frames found their places, and a call of the loop lies further out. (Where frames
                    // are matched by counting this cannot be told from a chain that lacks frames.)
                    (Group::None, None) if has_places(frames) => {
                        self.used = self.used.saturating_sub(usize::from(!self.full));
                        return Some(true);
                    }
                    _ => return None,
                }
            }
        }
        match group {
            // Frames outside of all that was walked, in their order.
            _ if !self.native.whole && root.is_none() => self.push_frames(rest),
            // Their place is not known, and the rest of them was cut.
            Group::Partial if cut => {}
            Group::None => {}
            _ => return None,
        }
        if cut {
            self.push(Frame::NoCode(LostCode::Cut).encode());
        }
        Some(root.is_some())
    }

    fn native_alone(&mut self, lost: LostCode) {
        (self.used, self.full) = (0, false);
        let mut said = false;
        for index in 0.. {
            let Some(spot) = self.spot(index) else { break };
            if let Some(caller) = index.checked_sub(1).and_then(|before| self.native.callers.get(before)) {
                self.push(caller.entry);
            }
            if !said && self.in_loop(spot) {
                self.push(Frame::NoCode(lost).encode());
                said = true;
            }
        }
        if !said {
            self.push(Frame::NoCode(lost).encode());
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// Code words are the code's number, 1000 and up.
    struct Plain;

    impl Words for Plain {
        fn frame(&mut self, frame: &PythonFrame) -> Option<u64> {
            (frame.code != HIDDEN).then_some(1000 + frame.code)
        }
    }

    const HIDDEN: u64 = 99;
    const CODE: InterpreterCode = InterpreterCode { bytecode_loop: (100, 200), greenlets: (300, 400) };
    const TORN: u64 = Frame::NoCode(LostCode::Torn).encode();
    const CUT: u64 = Frame::NoCode(LostCode::Cut).encode();

    /// Native frames of 100 bytes each on a stack from 10,000 up; the numbers are where they run.
    fn native(pcs: &[u64]) -> Vec<Placed> {
        (1..).zip(&pcs[1..]).map(|(i, pc)| Placed { entry: pc + 1, cfa: 10_000 + 100 * i }).collect()
    }

    fn frame(code: u64, owner: Owner) -> PythonFrame {
        PythonFrame { code, offset: None, owner }
    }

    fn woven(pcs: &[u64], whole: bool, frames: &[PythonFrame], cut: bool) -> Vec<u64> {
        let callers = native(pcs);
        let native = Native { pc: pcs[0], sp: 10_000, callers: &callers, whole };
        let mut out = [0; 64];
        let interpreted = Interpreted { frames, cut, others: false };
        let woven = weave(&native, Ok(interpreted), CODE, &mut Plain, &mut out);
        assert!(!woven.full);
        // Return addresses as where they run.
        out[..woven.words].iter().map(|word| if *word < 1000 { word - 1 } else { *word }).collect()
    }

    /// An address in native frame number `index`.
    fn within(index: u64) -> Owner {
        Owner::Holding(10_000 + 100 * index + 40)
    }

    #[test]
    fn groups_stand_behind_the_native_frame_that_holds_their_address() {
        let frames =
            [frame(1, Owner::Outer), frame(2, within(1)), frame(HIDDEN, Owner::Outer), frame(3, within(3))];
        assert_eq!(woven(&[7, 110, 8, 120, 9], true, &frames, false), [110, 1001, 1002, 8, 120, 1003, 9]);
        // Where the thread stands in the loop itself, its frames come first; names of the loop are not needed.
        let frames = [frame(1, within(0)), frame(2, within(2))];
        assert_eq!(woven(&[50, 8, 50, 9], true, &frames, false), [1001, 8, 50, 1002, 9]);
        // Two groups in one native frame, as a compiler that inlines the loop into itself would make them.
        let frames = [frame(1, within(1)), frame(2, within(1))];
        assert_eq!(woven(&[7, 110, 9], true, &frames, false), [110, 1001, 1002, 9]);
    }

    #[test]
    fn the_innermost_call_of_the_loop_may_be_without_frames_and_no_other() {
        assert_eq!(woven(&[110, 8, 120, 9], true, &[frame(1, within(2))], false), [8, 120, 1001, 9]);
        assert_eq!(woven(&[110, 8, 120, 9], true, &[frame(1, within(0))], false), [1001, 8], "another root");
        let two = [110, 8, 120, 9, 130, 9];
        assert_eq!(woven(&two, true, &[frame(1, within(4))], false), [TORN, 8, 120, 9, 130, 9]);
        assert_eq!(woven(&two, true, &[], false), [TORN, 8, 120, 9, 130, 9]);
        assert_eq!(woven(&[7, 8, 9], true, &[], false), [8, 9], "a thread that runs no Python");
    }

    #[test]
    fn a_group_without_a_place_is_not_shown_if_the_native_stack_is_whole() {
        let frames = [frame(1, within(1)), frame(2, Owner::Holding(9_000))];
        assert_eq!(woven(&[7, 110, 9], true, &frames, false), [110, TORN, 9]);
        assert_eq!(
            woven(&[7, 110, 9], false, &frames, false),
            [110, 1001, 9, 1002],
            "cut: it lies further out"
        );
    }

    #[test]
    fn calls_are_counted_where_each_frame_has_one() {
        let next = |code| frame(code, Owner::NextLoop);
        let pcs = [110, 7, 120, 8, 130, 9];
        assert_eq!(
            woven(&pcs, true, &[next(1), next(2), next(3)], false),
            [1001, 7, 120, 1002, 8, 130, 1003, 9]
        );
        assert_eq!(woven(&pcs, true, &[next(2), next(3)], false), [7, 120, 1002, 8, 130, 1003, 9]);
        assert_eq!(woven(&pcs, true, &[next(3)], false), [TORN, 7, 120, 8, 130, 9]);
        assert_eq!(woven(&pcs, true, &[1, 2, 3, 4].map(next), false), [TORN, 7, 120, 8, 130, 9]);
        assert_eq!(
            woven(&pcs, false, &[1, 2, 3, 4].map(next), false),
            [1001, 7, 120, 1002, 8, 130, 1003, 9, 1004]
        );
        assert_eq!(woven(&pcs, true, &[next(1)], true), [1001, 7, 120, 8, 130, 9, CUT]);
    }

    #[test]
    fn a_greenlets_stack_ends_before_the_loops_in_which_it_was_begun() {
        let callers = native(&[7, 110, 8, 9, 120, 9, 130]);
        let native = |whole| Native { pc: 7, sp: 10_000, callers: &callers, whole };
        let frames = [frame(1, Owner::Outer), frame(2, within(1))];
        let interpreted = |frames| Interpreted { frames, cut: false, others: false };
        for whole in [true, false] {
            let mut out = [0; 9];
            let woven = weave(&native(whole), Ok(interpreted(&frames)), CODE, &mut Plain, &mut out);
            assert_eq!(woven, Woven { words: 5, full: false, has_own_root: true });
            assert_eq!(out[..5], [111, 1001, 1002, 9, 10]);
            // No room for the loop that is left out again.
            let woven = weave(&native(whole), Ok(interpreted(&frames)), CODE, &mut Plain, &mut out[..5]);
            assert_eq!((woven.words, woven.has_own_root), (5, true));
        }
        // Frames that are only counted may as well be missing.
        let mut out = [0; 9];
        let frames = [frame(1, Owner::NextLoop)];
        let woven = weave(&native(true), Ok(interpreted(&frames)), CODE, &mut Plain, &mut out);
        assert!(out[..woven.words].contains(&TORN) && !woven.has_own_root);
    }

    #[test]
    fn a_greenlet_whose_frames_are_counted_ends_where_greenlets_code_began_it() {
        let next = |code| frame(code, Owner::NextLoop);
        // spin < work < greenlet's code < where it was begun.
        let pcs = [7, 110, 8, 120, 9, 310, 320, 130, 9, 140, 9];
        for whole in [true, false] {
            let callers = native(&pcs);
            let native = Native { pc: pcs[0], sp: 10_000, callers: &callers, whole };
            let woven = |frames: &[PythonFrame], cut| {
                let mut out = [0; 64];
                let interpreted = Interpreted { frames, cut, others: false };
                let woven = weave(&native, Ok(interpreted), CODE, &mut Plain, &mut out);
                (out[..woven.words].to_vec(), woven.has_own_root)
            };
            assert_eq!(
                woven(&[next(1), next(2)], false),
                (std::vec![111, 1001, 9, 121, 1002, 10, 311], true)
            );
            // The innermost call of the loop is being entered or left.
            assert_eq!(woven(&[next(2)], false), (std::vec![111, 9, 121, 1002, 10, 311], true));
            // Frames of another greenlet, or of none.
            for frames in [&[next(1), next(2), next(3)][..], &[1, 2, 3, 4].map(next)] {
                let (words, has_own_root) = woven(frames, false);
                assert!(words.contains(&TORN) && !has_own_root && !words.contains(&1001), "{words:?}");
            }
            assert_eq!(woven(&[next(1)], true), (std::vec![111, 1001, 9, 121, 10, 311, CUT], true));
        }
        // While greenlets are switched the frames may be the other one's.
        let switched = [310, 320, 110, 8, 330, 130, 9];
        assert_eq!(self::woven(&switched, true, &[next(1)], false), [320, 110, TORN, 8, 330, 130, 9]);
    }

    #[test]
    fn an_interpreter_that_another_one_runs_is_shown_and_the_other_is_said() {
        let callers = native(&[110, 7, 120, 8, 130, 9, 140]);
        let native = Native { pc: 110, sp: 10_000, callers: &callers, whole: true };
        for owner in [Owner::NextLoop, within(0)] {
            let frames = [frame(1, owner)];
            let mut out = [0; 9];
            let interpreted = Interpreted { frames: &frames, cut: false, others: true };
            let woven = weave(&native, Ok(interpreted), CODE, &mut Plain, &mut out);
            assert_eq!(
                &out[..woven.words],
                [1001, 8, 121, Frame::NoCode(LostCode::Several).encode(), 9, 131, 10, 141]
            );
        }
    }

    #[test]
    fn a_chain_that_was_cut_says_so() {
        let frames = [frame(1, Owner::Outer), frame(2, Owner::Outer)];
        assert_eq!(woven(&[7, 110, 9], true, &frames, true), [110, 1001, 1002, 9, CUT]);
        let frames = [frame(1, within(0)), frame(2, Owner::Outer)];
        assert_eq!(
            woven(&[110, 7, 120, 8, 130, 9], true, &frames, true),
            [1001, 7, 120, 1002, 8, 130, 9, CUT]
        );
    }

    #[test]
    fn what_has_no_room_is_said() {
        let callers = native(&[7, 110, 8, 9]);
        let native = Native { pc: 7, sp: 10_000, callers: &callers, whole: true };
        let frames = [frame(1, Owner::Outer), frame(2, within(1))];
        for room in 0..6 {
            for interpreted in
                [Ok(Interpreted { frames: &frames, cut: false, others: false }), Err(LostCode::Several)]
            {
                let mut out = [0; 6];
                let words = if interpreted.is_ok() { 5 } else { 4 };
                let woven = weave(&native, interpreted, CODE, &mut Plain, &mut out[..room]);
                let (words, full) = (room.min(words), room < words);
                assert_eq!(woven, Woven { words, full, has_own_root: false });
            }
        }
    }
}
