//! What runtimes do for themselves, outside of any function of their language, as rows of its own in tables.

use super::roles::{FrameClass, Roles, Walked, walk};
use super::spent::{OwnWork, ThreadsOfMachines, work_of_stack};
use crate::model::{Cell, Frame, FrameId, Function, Id, ObjectId, Profile, StackId, StackNode};
use rustc_hash::{FxHashMap, FxHashSet};

/// Adds to a profile the stacks of rows for what runtimes do for themselves in these cells, outside of any function of
/// their language: `[compiling]`, `[garbage collector]`.
pub fn add_own_work(profile: &mut Profile, cells: &[Cell]) {
    let mut rows = RowsOfWork::from_profile(profile);
    for (node, object) in own_work(profile, cells) {
        rows.add(profile, node, object);
    }
}

/// Where the cells of a profile are, if what runtimes do for themselves has the rows that [`add_own_work`] has added.
#[derive(Debug)]
pub(super) struct OwnWorkOfStacks {
    /// By stack: the row of the work that its functions tell, else the stack itself.
    stacks: Vec<StackId>,
    /// By stack: a function of a language runs on it.
    speaks: Vec<bool>,
    /// By thread: what a runtime has it for.
    threads: Vec<Option<OwnWork>>,
    roles: Roles,
    rows: RowsOfWork,
}

impl OwnWorkOfStacks {
    pub(super) fn from_walked(profile: &Profile, roles: Roles, walked: &[Walked]) -> Self {
        let rows = RowsOfWork::from_profile(profile);
        let speaks: Vec<bool> = walked.iter().map(|seen| seen.spoken.is_some()).collect();
        // By stack: its innermost function that works for the runtime, by that function's caller.
        let mut innermost: Vec<Option<NodeOfWork>> = Vec::with_capacity(walked.len());
        for (node, seen) in profile.stacks.iter().zip(walked) {
            let above = || node.parent.and_then(|parent| innermost[parent.index()]);
            innermost.push(seen.own_work().map(|work| (work, node.parent)).or_else(above));
        }
        let row = |id: StackId| {
            let work = innermost[id.index()].filter(|_| !speaks[id.index()])?;
            rows.known(work, machine_of(profile, &roles, id))
        };
        let stacks = profile.stacks.ids().map(|id| row(id).unwrap_or(id)).collect();
        let of_machines = ThreadsOfMachines::from_profile(profile);
        let threads = profile.threads.ids().map(|thread| of_machines.work(profile, thread)).collect();
        Self { stacks, speaks, threads, roles, rows }
    }

    /// The stack that a cell counts for.
    pub(super) fn stack(&self, profile: &Profile, cell: &Cell) -> StackId {
        match self.threads.get(cell.thread.index()) {
            Some(Some(work)) if !self.speaks[cell.stack.index()] => {
                let object = machine_of(profile, &self.roles, cell.stack);
                self.rows.known((*work, None), object).unwrap_or(cell.stack)
            }
            _ => self.stacks[cell.stack.index()],
        }
    }
}

/// What a runtime did for itself, and for whom.
type NodeOfWork = (OwnWork, Option<StackId>);

/// What runtimes do for themselves in cells, each with the object of the runtime.
fn own_work(profile: &Profile, cells: &[Cell]) -> FxHashSet<(NodeOfWork, ObjectId)> {
    let roles = Roles::from_profile(profile);
    let walked = walk(profile, &roles);
    let threads = ThreadsOfMachines::from_profile(profile);
    let work = |cell: &Cell| {
        if walked[cell.stack.index()].spoken.is_some() {
            return None;
        }
        let by_thread = threads.work(profile, cell.thread).map(|work| (work, None));
        let by_function = || {
            let (stack, work) = work_of_stack(profile, &walked, cell.stack)?;
            Some((work, profile.stacks[stack].parent))
        };
        Some((by_thread.or_else(by_function)?, machine_of(profile, &roles, cell.stack)))
    };
    cells.iter().filter_map(work).collect()
}

/// The object of the runtime that a stack goes through: that of its outermost function that serves nobody.
fn machine_of(profile: &Profile, roles: &Roles, stack: StackId) -> ObjectId {
    let mut object = profile.functions[profile.leaf(stack)].object;
    for (_, frame) in profile.outwards(stack) {
        if roles.class(frame.function) != FrameClass::Servant {
            object = profile.functions[frame.function].object;
        }
    }
    object
}

/// The stacks that stand for a runtime's own work.
#[derive(Debug)]
struct RowsOfWork {
    frames: FxHashMap<(OwnWork, ObjectId), FrameId>,
    stacks: FxHashMap<StackNode, StackId>,
}

impl RowsOfWork {
    /// Those that were added before.
    fn from_profile(profile: &Profile) -> Self {
        let key = |frame: &Frame| {
            let function = &profile.functions[frame.function];
            let work =
                [OwnWork::Compiling, OwnWork::Garbage].into_iter().find(|w| function.name == row_name(*w));
            work.map(|work| (work, function.object))
        };
        let frames: FxHashMap<_, _> =
            profile.frames.enumerate().filter_map(|(id, frame)| Some((key(frame)?, id))).collect();
        let is_known = |node: &StackNode| frames.values().any(|frame| *frame == node.frame);
        let stacks = match frames.is_empty() {
            true => FxHashMap::default(),
            false => {
                let nodes = profile.stacks.enumerate().filter(|(_, node)| is_known(node));
                nodes.map(|(id, node)| (*node, id)).collect()
            }
        };
        Self { frames, stacks }
    }

    fn add(&mut self, profile: &mut Profile, (work, parent): NodeOfWork, object: ObjectId) {
        let frame =
            *self.frames.entry((work, object)).or_insert_with(|| frame_of_work(profile, work, object));
        let node = StackNode { parent, frame };
        self.stacks.entry(node).or_insert_with(|| profile.stacks.push(node));
    }

    fn known(&self, (work, parent): NodeOfWork, object: ObjectId) -> Option<StackId> {
        let frame = *self.frames.get(&(work, object))?;
        self.stacks.get(&StackNode { parent, frame }).copied()
    }
}

fn frame_of_work(profile: &mut Profile, work: OwnWork, object: ObjectId) -> FrameId {
    let function =
        profile.functions.push(Function { name: row_name(work).to_owned(), object, declared: None });
    profile.frames.push(Frame { function, file: None, line: 0, address: None, inlined: false })
}

fn row_name(work: OwnWork) -> &'static str {
    match work {
        OwnWork::Compiling => "[compiling]",
        OwnWork::Garbage => "[garbage collector]",
    }
}
