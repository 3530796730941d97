//! Which frames of a mixed stack are shown: those of the interpreter that only carry calls are noise between
//! the program's own.
//!
//! A recording holds, outwards of each native frame of the interpreter's loop, the frames of the language
//! that this loop runs:
//!
//! ```text
//! <module>   <-- Py_RunMain ... _PyEval_EvalFrameDefault          mixed:  <module>
//!   parse    <-- _PyEval_EvalFrameDefault                                   parse
//!     list_sort_impl                                                          list_sort_impl
//!       key  <-- _PyObject_Call, _PyEval_EvalFrameDefault                       key
//! ```
//!
//! What always holds: no sample is lost or moved to another thread; the innermost frame of a sample stays,
//! unless it is the interpreter's loop itself, for which the function that it runs stands; samples without a
//! frame of an interpreted language are left as they are (but by [`Frames::Python`]).

mod beginnings;
mod own_work;
mod owners;
mod roles;
mod spent;
mod standard;
#[cfg(test)]
mod tests;

use crate::model::{
    Cell, Frame, FrameId, Function, Id, IdVec, ObjectId, Profile, StackId, StackNode, ThreadId,
};
use roles::{FrameClass, Role, Roles, Walked, walk};
use rustc_hash::FxHashMap;

pub use beginnings::beginnings;
pub use own_work::add_own_work;
pub use owners::{Owned, Owners, Whose};
pub(crate) use roles::{interpreters, is_spoken};
pub use spent::account_of_languages;

/// Which frames are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Frames {
    /// All that were recorded.
    All,
    /// Those of machine code.
    Native,
    /// Those of interpreted languages.
    Python,
    /// Both, without the interpreter's own that only carry calls.
    #[default]
    Mixed,
}

/// The profile with these frames only. Nothing changes in a recording without frames of an interpreted language.
#[must_use]
pub fn fold(mut profile: Profile, frames: Frames) -> Profile {
    let roles = Roles::from_profile(&profile);
    if frames == Frames::All || !roles.any_spoken() {
        return profile;
    }
    let walked = walk(&profile, &roles);
    let mut folding =
        Folding { stacks: IdVec::new(), known: FxHashMap::default(), nothing: FxHashMap::default() };
    let new = folding.fold(&mut profile, &walked, frames);
    folding.take_over(&mut profile, &new);
    profile
}

/// The new stacks, which are built beside the old ones.
struct Folding {
    stacks: IdVec<StackId, StackNode>,
    known: FxHashMap<StackNode, StackId>,
    /// By object: the frame that stands for a sample of which no frame is shown.
    nothing: FxHashMap<ObjectId, FrameId>,
}

/// What an old stack is among the new ones.
#[derive(Clone, Copy)]
struct Folded {
    /// For samples that end in it.
    leaf: StackId,
    /// For stacks that go on from it inwards with more native code.
    on: Option<StackId>,
    /// For stacks that go on from it to a frame of a language: without the interpreter's nameless functions.
    between: Option<StackId>,
    /// With nothing left out: for samples without a frame of a language.
    whole: Option<StackId>,
}

impl Folding {
    fn stack(&mut self, parent: Option<StackId>, frame: FrameId) -> StackId {
        let node = StackNode { parent, frame };
        *self.known.entry(node).or_insert_with(|| self.stacks.push(node))
    }

    /// The new stack of each old one.
    fn fold(&mut self, profile: &mut Profile, walked: &[Walked], frames: Frames) -> Vec<StackId> {
        let mut folded: Vec<Folded> = Vec::with_capacity(walked.len());
        for (id, seen) in profile.stacks.ids().zip(walked) {
            let node = profile.stacks[id];
            let above = node.parent.map(|parent| folded[parent.index()]);
            let next = match frames {
                Frames::Mixed | Frames::All => self.mixed(above, node.frame, seen),
                Frames::Native | Frames::Python => {
                    let wanted = (seen.kind == FrameClass::Spoken) == (frames == Frames::Python);
                    self.one_kind(profile, above, node.frame, wanted)
                }
            };
            folded.push(next);
        }
        folded.into_iter().map(|f| f.leaf).collect()
    }

    fn mixed(&mut self, above: Option<Folded>, frame: FrameId, seen: &Walked) -> Folded {
        let (on, between) = (above.and_then(|a| a.on), above.and_then(|a| a.between));
        let whole = Some(self.stack(above.and_then(|a| a.whole), frame));
        if seen.kind == FrameClass::Spoken {
            let shown = self.stack(between, frame);
            return Folded { leaf: shown, on: Some(shown), between: Some(shown), whole };
        }
        let carries =
            matches!(seen.kind, FrameClass::Interpreter(Role::Carrier | Role::Loop)) || seen.runs_it;
        let nameless = seen.kind == FrameClass::Interpreter(Role::Nameless) && seen.spoken.is_some();
        let leaf = match (on, whole) {
            (_, Some(whole)) if seen.spoken.is_none() => whole,
            (Some(shown), _) if seen.runs_it => shown,
            _ => self.stack(on, frame),
        };
        let on = if carries { on } else { Some(self.stack(on, frame)) };
        let between = if carries || nameless { between } else { Some(self.stack(between, frame)) };
        Folded { leaf, on, between, whole }
    }

    /// For views of one kind of frames, of which this one is one (`wanted`) or not.
    fn one_kind(
        &mut self,
        profile: &mut Profile,
        above: Option<Folded>,
        frame: FrameId,
        wanted: bool,
    ) -> Folded {
        let on = above.and_then(|a| a.on);
        let on = if wanted { Some(self.stack(on, frame)) } else { on };
        let leaf = match on {
            Some(shown) => shown,
            None => {
                let frame = self.nothing(profile, frame);
                self.stack(None, frame)
            }
        };
        Folded { leaf, on, between: on, whole: None }
    }

    /// The frame that stands for a sample that ends in `frame` and has no frame that is shown.
    fn nothing(&mut self, profile: &mut Profile, frame: FrameId) -> FrameId {
        let object = profile.functions[profile.frames[frame].function].object;
        *self.nothing.entry(object).or_insert_with(|| {
            let function =
                profile.functions.push(Function { name: "[not shown]".to_owned(), object, declared: None });
            profile.frames.push(Frame { function, file: None, line: 0, address: None, inlined: false })
        })
    }

    /// Gives the profile the new stacks, those that samples end in or pass through.
    fn take_over(self, profile: &mut Profile, new: &[StackId]) {
        let ends = || {
            let cells = profile.cells.iter().map(|cell| cell.stack);
            cells
                .chain(profile.timeline.iter().map(|sample| sample.stack))
                .chain(profile.over_time.iter().flat_map(|sums| &sums.cells).map(|cell| cell.stack))
                .chain(profile.memory.stacks())
                .chain(profile.waits.stacks())
        };
        let mut used = vec![false; self.stacks.len()];
        for stack in ends() {
            used[new[stack.index()].index()] = true;
        }
        for (id, node) in self.stacks.enumerate().rev() {
            if let Some(parent) = node.parent.filter(|_| used[id.index()]) {
                used[parent.index()] = true;
            }
        }
        let mut stacks = IdVec::new();
        let mut kept: Vec<Option<StackId>> = Vec::with_capacity(used.len());
        for (id, node) in self.stacks.enumerate() {
            let parent = node.parent.and_then(|parent| kept[parent.index()]);
            kept.push(used[id.index()].then(|| stacks.push(StackNode { parent, frame: node.frame })));
        }
        let of = |old: StackId| kept[new[old.index()].index()].expect("where samples end is used");
        for sample in &mut profile.timeline {
            sample.stack = of(sample.stack);
        }
        for cell in profile.over_time.iter_mut().flat_map(|sums| &mut sums.cells) {
            cell.stack = of(cell.stack);
        }
        for stack in &mut profile.by_thread.stacks {
            *stack = stack.and_then(|old| kept[new[old.index()].index()]);
        }
        for stack in profile.memory.stacks_mut().chain(profile.waits.stacks_mut()) {
            *stack = of(*stack);
        }
        let mut sums: FxHashMap<(ThreadId, StackId), usize> = FxHashMap::default();
        let mut cells: Vec<Cell> = Vec::with_capacity(profile.cells.len());
        for cell in &profile.cells {
            let cell = Cell { stack: of(cell.stack), ..*cell };
            let at = *sums.entry((cell.thread, cell.stack)).or_insert(cells.len());
            match cells.get_mut(at) {
                Some(known) => known.weight += cell.weight,
                None => cells.push(cell),
            }
        }
        profile.cells = cells;
        profile.stacks = stacks;
    }
}
