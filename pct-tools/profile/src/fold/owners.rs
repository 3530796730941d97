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
//! function owns what the C library, the kernel or an allocator (whatever that calls) does below it, what functions
//! that only lead to a lock do there, and what functions without a name do below it in its own object. In each language
//! functions of its standard library ([`super::standard`]) own only what no other function of the language called. The
//! callee is the first frame with a name, if one has. All frames are kept in the stacks: an owner is a stack that the
//! sample's stack goes through, so inclusive times are as in every other table.

use super::own_work::OwnWorkOfStacks;
use super::roles::{FrameClass, Role, Roles, is_nameless, programs_in_go, walk};
use super::standard::is_standard;
use crate::allocator_names::allocates_or_frees;
use crate::lock_names::only_leads_in_runtime;
use crate::model::{Cell, FunctionId, Id, ObjectKind, Profile, StackId};
use crate::tree::Label;

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

/// The owners of all stacks of a profile: found once, and asked for any of its cells.
#[derive(Debug)]
pub struct Owners {
    of_stack: Vec<Owned>,
    own_work: OwnWorkOfStacks,
}

impl Owners {
    /// Finds them. See the module's text for the rules. What runtimes do for themselves has rows of its own where
    /// [`add_own_work`](super::add_own_work) has added these.
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
        let of_stack = of_stack.map(found).collect();
        Self { of_stack, own_work: OwnWorkOfStacks::from_walked(profile, roles, &walked) }
    }

    /// What the time of a stack is given to.
    #[must_use]
    pub fn of_stack(&self, stack: StackId) -> Owned {
        self.of_stack[stack.index()]
    }

    /// The cells, with what runtimes do for themselves moved to rows of its own: what [`Owners::give`] is asked about.
    #[must_use]
    pub fn with_own_work(&self, profile: &Profile, cells: &[Cell]) -> Vec<Cell> {
        let moved = |cell: &Cell| Cell { stack: self.own_work.stack(profile, cell), ..*cell };
        cells.iter().map(moved).collect()
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
            FrameClass::Spoken => is_standard(),
            FrameClass::Other => is_standard() || only_leads_in_runtime(object.name(), &function.name),
        }
    };
    profile.functions.ids().map(serves).collect()
}
