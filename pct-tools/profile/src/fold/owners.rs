//! Whose time a sample is: the function of the program's own language that ran, or that called what ran.
//!
//! A stack has an *owner* and, where the owner had called something, a *callee*:
//!
//! ```text
//! main > pack > zlib_compress > deflate > memcpy      pack: Python               owner pack, callee zlib_compress
//! main > parse > json.loads > scanner_call            parse: Python              owner parse, callee json.loads
//! main > handle > std::string::append > memcpy        handle: the program's own  owner handle, callee append
//! main > handle > deflate > [libz+0x10]               libz is no runtime        owner deflate, callee [libz+0x10]
//! ```
//!
//! On a stack with frames of an interpreted language the innermost of them owns all that lies within it. Else a
//! function owns what the C library, the kernel or an allocator (whatever that calls) does below it, and what functions
//! without a name do below it in its own object. In each language functions of its standard library
//! ([`super::standard`]) own only what no other function of the language called. The callee is the first frame with a
//! name, if one has. All frames are kept in the stacks: an owner is a stack that the sample's stack goes through, so
//! inclusive times are as in every other table.

use super::roles::{FrameClass, Role, Roles, is_nameless, programs_in_go, walk};
use super::spent::{OwnWork, ThreadsOfMachines, work_of_stack};
use super::standard::is_standard;
use crate::allocator_names::allocates_or_frees;
use crate::model::{
    Cell, Frame, FrameId, Function, FunctionId, Id, ObjectId, ObjectKind, Profile, StackId, StackNode,
};
use crate::tree::Label;
use rustc_hash::FxHashMap;

/// Which function of its stack a sample is given to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Whose {
    /// The innermost one.
    #[default]
    Leaf,
    /// The owner.
    Owner,
    /// The first function that the owner called; the owner where it called none.
    Library,
}

/// What a stack's time is given to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owned {
    /// The stack that ends in the owner's frame.
    pub owner: StackId,
    /// The stack that ends in the first frame within it that has a name (if none has, the first), if time was spent
    /// there.
    pub callee: Option<StackId>,
}

/// The owners of all stacks of a profile.
#[derive(Clone, Debug)]
pub struct Owners {
    of_stack: Vec<Owned>,
}

impl Owners {
    /// Finds them. See the module's text for the rules.
    #[must_use]
    pub fn from_profile(profile: &Profile) -> Self {
        let roles = Roles::from_profile(profile);
        let serves = serving_functions(profile, &roles);
        let nameless: Vec<bool> = profile.functions.iter().map(|f| is_nameless(&f.name)).collect();
        let is_nameless = |stack: StackId| nameless[profile.leaf(stack).index()];
        let object = |stack: StackId| profile.functions[profile.leaf(stack)].object;
        let walked = walk(profile, &roles);
        let allocates: Vec<bool> = profile.functions.iter().map(|f| allocates_or_frees(&f.name)).collect();
        // By stack: it goes through an allocator, which calls nothing but functions of its own.
        let mut allocating: Vec<bool> = Vec::with_capacity(walked.len());
        // `None`: only functions that serve others so far.
        let mut owners: Vec<Option<Owned>> = Vec::with_capacity(walked.len());
        for ((id, node), seen) in profile.stacks.enumerate().zip(&walked) {
            let above = node.parent.and_then(|parent| owners[parent.index()]);
            let within_allocator = node.parent.is_some_and(|parent| allocating[parent.index()]);
            let is_native = seen.kind != FrameClass::Spoken;
            allocating.push(is_native && (within_allocator || allocates[profile.leaf(id).index()]));
            let serving = serves[profile.leaf(id).index()] || is_native && within_allocator;
            let is_part = |above: Owned| {
                is_nameless(id) && !is_nameless(above.owner) && object(id) == object(above.owner)
            };
            let is_own_of_language = |above: Owned| {
                walked[above.owner.index()].kind == FrameClass::Spoken
                    && !serves[profile.leaf(above.owner).index()]
            };
            let works_for_above = match seen.kind {
                FrameClass::Spoken => serving && above.is_some_and(is_own_of_language),
                _ => seen.spoken.is_some() || serving || above.is_some_and(is_part),
            };
            let carries = seen.runs_it
                || seen.spoken.is_some()
                    && matches!(seen.kind, FrameClass::Interpreter(Role::Carrier | Role::Loop));
            owners.push(match above {
                _ if !works_for_above => Some(Owned { owner: id, callee: None }),
                Some(above) if !carries => {
                    let first = above.callee.filter(|callee| !is_nameless(*callee) || is_nameless(id));
                    Some(Owned { callee: first.or(Some(id)), ..above })
                }
                above => above,
            });
        }
        let of_stack = profile.stacks.ids().zip(owners);
        let found =
            |(id, owned): (StackId, Option<Owned>)| owned.unwrap_or(Owned { owner: id, callee: None });
        Self { of_stack: of_stack.map(found).collect() }
    }

    /// What the time of a stack is given to.
    #[must_use]
    pub fn of_stack(&self, stack: StackId) -> Owned {
        self.of_stack[stack.index()]
    }

    /// The cells, each moved to the stack of the function that it is given to.
    #[must_use]
    pub fn give(&self, cells: &[Cell], whose: Whose) -> Vec<Cell> {
        let stack = |cell: &Cell| {
            let owned = self.of_stack(cell.stack);
            match whose {
                Whose::Leaf => cell.stack,
                Whose::Owner => owned.owner,
                Whose::Library => owned.callee.unwrap_or(owned.owner),
            }
        };
        cells.iter().map(|cell| Cell { stack: stack(cell), ..*cell }).collect()
    }

    /// The row of a callee: functions without names are one for each object.
    #[must_use]
    pub fn callee_label(profile: &Profile, callee: StackId) -> Label {
        let function = profile.leaf(callee);
        if is_nameless(&profile.functions[function].name) {
            Label::Object(profile.functions[function].object)
        } else {
            Label::Function(function)
        }
    }
}

/// By function: it works for whoever calls it.
pub(super) fn serving_functions(profile: &Profile, roles: &Roles) -> Vec<bool> {
    let of_go = programs_in_go(profile);
    let serves = |id: FunctionId| {
        let function = &profile.functions[id];
        let object = &profile.objects[function.object];
        let is_standard = || is_standard(function, object, of_go.contains(&function.object));
        match roles.class(id) {
            FrameClass::Servant => true,
            // Nothing is known of it: nor is it the owner of what lies within a stack that is cut.
            _ if object.kind == ObjectKind::Unknown => true,
            FrameClass::Interpreter(_) => false,
            FrameClass::Spoken | FrameClass::Other => is_standard(),
        }
    };
    profile.functions.ids().map(serves).collect()
}

/// Gives what a runtime does for itself, outside of any function of its language, to a row for each kind of work:
/// `[compiling]`, `[garbage collector]`. The stacks for them are added to the profile.
#[must_use]
pub fn with_own_work(profile: &mut Profile, cells: &[Cell]) -> Vec<Cell> {
    let mut rows = RowsOfWork::from_profile(profile);
    let mut moved = cells.to_vec();
    for (at, node, object) in own_work(profile, cells) {
        moved[at].stack = rows.stack(profile, node, object);
    }
    moved
}

/// The owners of a profile that does not change any more: found once, and asked for any part of its cells. In it
/// [`with_own_work`] has seen all of them.
#[derive(Debug)]
pub struct KnownOwners {
    owners: Owners,
    /// By stack: where a runtime's own work that its functions tell is given to.
    stacks: Vec<StackId>,
    /// By stack: a function of a language runs on it.
    speaks: Vec<bool>,
    /// By thread: what a runtime has it for.
    threads: Vec<Option<OwnWork>>,
    roles: Roles,
    rows: RowsOfWork,
}

impl KnownOwners {
    /// Finds them.
    #[must_use]
    pub fn from_profile(profile: &Profile) -> Self {
        let (roles, rows) = (Roles::from_profile(profile), RowsOfWork::from_profile(profile));
        let walked = walk(profile, &roles);
        let speaks: Vec<bool> = walked.iter().map(|seen| seen.spoken.is_some()).collect();
        let stack = |id: StackId| {
            let found = (!speaks[id.index()]).then(|| work_of_stack(profile, &walked, id)).flatten();
            let (work_stack, work) = found?;
            rows.known((work, profile.stacks[work_stack].parent), machine_of(profile, &roles, id))
        };
        let stacks = profile.stacks.ids().map(|id| stack(id).unwrap_or(id)).collect();
        let of_machines = ThreadsOfMachines::from_profile(profile);
        let threads = profile.threads.ids().map(|thread| of_machines.work(profile, thread)).collect();
        Self { owners: Owners::from_profile(profile), stacks, speaks, threads, roles, rows }
    }

    /// The cells with runtimes' own work in rows of its own, as [`with_own_work`] gives them.
    #[must_use]
    pub fn with_own_work(&self, profile: &Profile, cells: &[Cell]) -> Vec<Cell> {
        let stack = |cell: &Cell| match self.threads.get(cell.thread.index()) {
            Some(Some(work)) if !self.speaks[cell.stack.index()] => {
                let object = machine_of(profile, &self.roles, cell.stack);
                self.rows.known((*work, None), object).unwrap_or(cell.stack)
            }
            _ => self.stacks[cell.stack.index()],
        };
        cells.iter().map(|cell| Cell { stack: stack(cell), ..*cell }).collect()
    }

    /// The owners of all stacks.
    #[must_use]
    pub fn owners(&self) -> &Owners {
        &self.owners
    }
}

/// What a runtime did for itself, and for whom.
type NodeOfWork = (OwnWork, Option<StackId>);

/// The cells in which a runtime works for itself, by their places: the work, and the object of the runtime.
fn own_work(profile: &Profile, cells: &[Cell]) -> Vec<(usize, NodeOfWork, ObjectId)> {
    let roles = Roles::from_profile(profile);
    let walked = walk(profile, &roles);
    let threads = ThreadsOfMachines::from_profile(profile);
    let work = |(at, cell): (usize, &Cell)| {
        if walked.get(cell.stack.index()).is_none_or(|seen| seen.spoken.is_some()) {
            return None;
        }
        let by_thread = threads.work(profile, cell.thread).map(|work| (work, None));
        let by_function = || {
            let (stack, work) = work_of_stack(profile, &walked, cell.stack)?;
            Some((work, profile.stacks[stack].parent))
        };
        Some((at, by_thread.or_else(by_function)?, machine_of(profile, &roles, cell.stack)))
    };
    cells.iter().enumerate().filter_map(work).collect()
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

    fn stack(&mut self, profile: &mut Profile, (work, parent): NodeOfWork, object: ObjectId) -> StackId {
        let frame =
            *self.frames.entry((work, object)).or_insert_with(|| frame_of_work(profile, work, object));
        let node = StackNode { parent, frame };
        *self.stacks.entry(node).or_insert_with(|| profile.stacks.push(node))
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
