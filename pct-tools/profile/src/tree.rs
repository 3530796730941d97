//! The call tree that people look at: stacks merged by function (or line, or address), split by process or thread.
//!
//! A [`Profile`]'s stacks are exact to the address; a view merges them by [`By`]. Weights go up by one backward
//! pass, because callers have smaller ids. Recursion is not folded in a tree (each level is a node), but wherever
//! one function's inclusive time is asked for, a sample counts once, at the outermost occurrence.

use crate::model::{
    Cell, Frame, FrameId, FunctionId, Id, IdVec, ObjectId, ObjectKind, ProcessId, Profile, StackId, ThreadId,
    Weight,
};
use rustc_hash::FxHashMap;

/// What makes two frames one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum By {
    /// The same function.
    #[default]
    Function,
    /// The same function, file and line.
    Line,
    /// The same address.
    Pc,
    /// The same object.
    Object,
}

/// How a view is split before anything else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Split {
    /// All processes and threads together.
    #[default]
    Merged,
    /// One part per process.
    Process,
    /// One part per thread.
    Thread,
    /// One part per program: processes of one name together.
    Command,
    /// Threads of one name together, of all processes.
    ThreadName,
}

/// What is summed over a tree: CPU time, or memory.
pub trait Amount: Copy + Default + std::ops::AddAssign + std::iter::Sum {
    /// Nothing was measured.
    fn is_nothing(&self) -> bool;
    /// By what nodes are ranked: the first number counts, the second decides between equal ones.
    fn heaviness(&self) -> (u64, u64);
}

impl Amount for Weight {
    fn is_nothing(&self) -> bool {
        self.is_zero()
    }
    fn heaviness(&self) -> (u64, u64) {
        (self.cpu_ns(), self.samples)
    }
}

/// Something that was measured in a stack: one row of what a tree is made of.
pub trait Measured {
    /// What was measured.
    type Amount: Amount;
    /// Where; its frame is the innermost one.
    fn stack(&self) -> StackId;
    /// How much.
    fn amount(&self) -> Self::Amount;
    /// Which part of a split it belongs to: a process or thread, one of many of its name where these are put together.
    fn part(&self, profile: &Profile, split: Split) -> Option<Label>;
}

impl Measured for Cell {
    type Amount = Weight;
    fn stack(&self) -> StackId {
        self.stack
    }
    fn amount(&self) -> Weight {
        self.weight
    }
    fn part(&self, profile: &Profile, split: Split) -> Option<Label> {
        match split {
            Split::Merged => None,
            Split::Process | Split::Command => Some(Label::Process(profile.threads[self.thread].process)),
            Split::Thread | Split::ThreadName => Some(Label::Thread(self.thread)),
        }
    }
}

/// What a row or node stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Label {
    /// Everything in a process.
    Process(ProcessId),
    /// Everything in a thread.
    Thread(ThreadId),
    /// Everything in processes of one name: the first of them.
    Command(ProcessId),
    /// Everything in threads of one name: the first of them.
    ThreadName(ThreadId),
    /// A function.
    Function(FunctionId),
    /// A line: the first of the frames that were merged.
    Place(FrameId),
    /// An address: the same.
    Address(FrameId),
    /// An object.
    Object(ObjectId),
}

crate::ids! {
    /// Names a node of a [`CallTree`].
    NodeId,
}

/// A node: a label in the context of its parents.
#[derive(Clone, Copy, Debug)]
pub struct Node<W = Weight> {
    /// The caller; `None` for roots.
    pub parent: Option<NodeId>,
    /// What it stands for.
    pub label: Label,
    /// What was measured in the function itself: in a tree of callers that of the root, on the way through no other node.
    pub own: W,
    /// Of the stacks that end at this node, wherever the tree begins: these sum up to the totals.
    pub ends: W,
    /// With everything below.
    pub total: W,
    first: u32,
    count: u32,
}

/// Nodes in an arena, callers before callees.
#[derive(Clone, Debug, Default)]
pub struct CallTree<W = Weight> {
    /// All nodes; a parent has a smaller id than its children.
    pub nodes: IdVec<NodeId, Node<W>>,
    /// The outermost nodes, heaviest first.
    pub roots: Vec<NodeId>,
    /// Sum over the roots.
    pub total: W,
    children: Vec<NodeId>,
}

impl<W: Amount> CallTree<W> {
    /// The tree of these cells from the outermost frame inwards.
    #[must_use]
    pub fn top_down<C: Measured<Amount = W>>(profile: &Profile, cells: &[C], by: By, split: Split) -> Self {
        let labels = Labels::of(profile, by);
        let mut grow = Grow::default();
        for_each_part(profile, cells, split, |part, stacks| {
            let root = part.map(|label| grow.node(None, label));
            let mut node_of: Vec<Option<NodeId>> = Vec::with_capacity(profile.stacks.len());
            let used = used_stacks(profile, stacks);
            for (id, stack) in profile.stacks.enumerate() {
                if !used[id.index()] {
                    node_of.push(None);
                    continue;
                }
                let parent = match stack.parent {
                    Some(parent) => node_of[parent.index()],
                    None => root,
                };
                let label = labels.of_frame(stack.frame);
                // Merging by object makes a run of frames of one object a single node.
                let node = match parent {
                    Some(above) if by == By::Object && grow.nodes[above].label == label => above,
                    _ => grow.node(parent, label),
                };
                grow.measure(node, stacks[id.index()]);
                node_of.push(Some(node));
            }
        });
        grow.finish(profile)
    }

    /// The tree of these cells from the innermost frame outwards: who called what is hot.
    #[must_use]
    pub fn bottom_up<C: Measured<Amount = W>>(profile: &Profile, cells: &[C], by: By, split: Split) -> Self {
        let labels = Labels::of(profile, by);
        let mut grow = Grow::default();
        for_each_part(profile, cells, split, |part, stacks| {
            let root = part.map(|label| grow.node(None, label));
            for (id, weight) in profile.stacks.ids().zip(stacks).filter(|(_, weight)| !weight.is_nothing()) {
                grow.outwards(profile, &labels, root, id, *weight);
                let innermost = grow.node(root, labels.of_frame(profile.stacks[id].frame));
                grow.nodes[innermost].own += *weight;
            }
        });
        grow.finish(profile)
    }

    /// What these functions call, with the weights of the samples that they are part of: a root per function.
    #[must_use]
    pub fn callees<C: Measured<Amount = W>>(
        profile: &Profile,
        cells: &[C],
        of: impl Fn(FunctionId) -> bool,
        by: By,
    ) -> Self {
        let labels = Labels::of(profile, by);
        let wanted: Vec<bool> = profile.functions.ids().map(of).collect();
        let mut grow = Grow::default();
        for_each_part(profile, cells, Split::Merged, |_, stacks| {
            let used = used_stacks(profile, stacks);
            let mut node_of: Vec<Option<NodeId>> = Vec::with_capacity(profile.stacks.len());
            for (id, stack) in profile.stacks.enumerate() {
                let above = stack.parent.and_then(|parent| node_of[parent.index()]);
                let function = profile.frames[stack.frame].function;
                let node = if !used[id.index()] {
                    None
                } else if above.is_some() {
                    Some(grow.node(above, labels.of_frame(stack.frame)))
                } else if wanted[function.index()] {
                    Some(grow.node(None, Label::Function(function)))
                } else {
                    None
                };
                if let Some(node) = node {
                    grow.measure(node, stacks[id.index()]);
                }
                node_of.push(node);
            }
        });
        grow.finish(profile)
    }

    /// Who calls these functions: a root per function, its children are callers, theirs the callers' callers. A
    /// sample in a recursion counts once, by the callers of the outermost occurrence.
    #[must_use]
    pub fn callers<C: Measured<Amount = W>>(
        profile: &Profile,
        cells: &[C],
        of: impl Fn(FunctionId) -> bool,
        by: By,
    ) -> Self {
        let labels = Labels::of(profile, by);
        let wanted: Vec<bool> = profile.functions.ids().map(of).collect();
        let mut grow = Grow::default();
        for_each_part(profile, cells, Split::Merged, |_, stacks| {
            // For each stack the outermost occurrence of a wanted function on it, itself included.
            let mut outermost: Vec<Option<StackId>> = Vec::with_capacity(profile.stacks.len());
            // What passes through each of them, and the part of it that was measured in the function itself.
            let mut at: FxHashMap<StackId, (W, W)> = FxHashMap::default();
            for (id, stack) in profile.stacks.enumerate() {
                let found = stack
                    .parent
                    .and_then(|parent| outermost[parent.index()])
                    .or_else(|| wanted[profile.frames[stack.frame].function.index()].then_some(id));
                if let Some(found) = found.filter(|_| !stacks[id.index()].is_nothing()) {
                    let (passing, own) = at.entry(found).or_default();
                    *passing += stacks[id.index()];
                    if profile.leaf(id) == profile.leaf(found) {
                        *own += stacks[id.index()];
                    }
                }
                outermost.push(found);
            }
            let mut at: Vec<_> = at.into_iter().collect();
            at.sort_by_key(|(stack, _)| *stack);
            for (stack, (weight, own)) in at {
                let root = grow.node(None, Label::Function(profile.leaf(stack)));
                grow.nodes[root].own += own;
                match profile.stacks[stack].parent {
                    Some(parent) => grow.outwards(profile, &labels, Some(root), parent, weight),
                    None => grow.nodes[root].ends += weight,
                }
            }
        });
        grow.finish(profile)
    }

    /// A node's children, heaviest first.
    #[must_use]
    pub fn children(&self, node: NodeId) -> &[NodeId] {
        let node = &self.nodes[node];
        &self.children[node.first as usize..][..node.count as usize]
    }

    /// Depth-first walk, heaviest first: `visit` gets the node and its depth from 0, and says whether to go below.
    pub fn walk(&self, mut visit: impl FnMut(NodeId, usize) -> bool) {
        let mut pending: Vec<(NodeId, usize)> = self.roots.iter().rev().map(|&root| (root, 0)).collect();
        while let Some((node, depth)) = pending.pop() {
            if visit(node, depth) {
                pending.extend(self.children(node).iter().rev().map(|&child| (child, depth + 1)));
            }
        }
    }
}

/// Words for a label.
impl Label {
    /// The name that tables show.
    #[must_use]
    pub fn name(self, profile: &Profile) -> String {
        match self {
            Self::Process(id) => {
                let process = &profile.processes[id];
                match process.stands_for {
                    0 => format!("{} ({})", process.name, process.pid),
                    1 => process.name.clone(),
                    n => format!("{} ({n} processes)", process.name),
                }
            }
            Self::Thread(id) => {
                let thread = &profile.threads[id];
                let name = if thread.name.is_empty() { "thread" } else { &thread.name };
                if thread.tid == 0 { name.to_owned() } else { format!("{name} ({})", thread.tid) }
            }
            Self::Command(id) => profile.processes[id].name.clone(),
            Self::ThreadName(id) => profile.threads[id].name.clone(),
            Self::Function(id) => profile.functions[id].name.clone(),
            Self::Place(id) => place_name(profile, &profile.frames[id], false),
            Self::Address(id) => place_name(profile, &profile.frames[id], true),
            Self::Object(id) => profile.objects[id].name().to_owned(),
        }
    }
    /// The object that it lies in, if it is a place in code.
    #[must_use]
    pub fn object(self, profile: &Profile) -> Option<ObjectId> {
        match self {
            Self::Process(_) | Self::Thread(_) | Self::Command(_) | Self::ThreadName(_) => None,
            Self::Function(id) => Some(profile.functions[id].object),
            Self::Place(id) | Self::Address(id) => {
                Some(profile.functions[profile.frames[id].function].object)
            }
            Self::Object(id) => Some(id),
        }
    }
    /// What the column of objects shows: its object; of a function of a module also the line.
    #[must_use]
    pub fn whereabouts(self, profile: &Profile) -> Option<String> {
        let object = &profile.objects[self.object(profile)?];
        let line = match (self, object.kind) {
            (Self::Function(id), ObjectKind::Module(_)) => profile.functions[id].declared,
            _ => None,
        };
        Some(match line {
            Some((_, line)) => format!("{}:{line}", object.name()),
            None => object.name().to_owned(),
        })
    }
    /// The function, if it is one or a place in one.
    #[must_use]
    pub fn function(self, profile: &Profile) -> Option<FunctionId> {
        match self {
            Self::Function(id) => Some(id),
            Self::Place(id) | Self::Address(id) => Some(profile.frames[id].function),
            _ => None,
        }
    }
}

fn place_name(profile: &Profile, frame: &Frame, with_address: bool) -> String {
    let mut name = profile.functions[frame.function].name.clone();
    let place = profile.place_of(frame);
    if let Some(address) = frame.address.filter(|_| with_address || place.is_none()) {
        name += &format!(" 0x{address:x}");
    }
    if let Some(place) = place {
        name += &format!(" {place}");
    }
    name
}

/// Frame to label, decided once for all frames.
pub(crate) struct Labels {
    of_frame: IdVec<FrameId, Label>,
}

impl Labels {
    pub(crate) fn of(profile: &Profile, by: By) -> Self {
        let mut first: FxHashMap<Frame, FrameId> = FxHashMap::default();
        let mut of_frame = IdVec::new();
        for (id, frame) in profile.frames.enumerate() {
            of_frame.push(match by {
                By::Function => Label::Function(frame.function),
                By::Object => Label::Object(profile.functions[frame.function].object),
                By::Line => {
                    let address = if frame.file.is_none() { frame.address } else { None };
                    let key = Frame { address, inlined: false, ..*frame };
                    Label::Place(*first.entry(key).or_insert(id))
                }
                By::Pc => {
                    let key = Frame { inlined: false, ..*frame };
                    Label::Address(*first.entry(key).or_insert(id))
                }
            });
        }
        Self { of_frame }
    }
    pub(crate) fn of_frame(&self, frame: FrameId) -> Label {
        self.of_frame[frame]
    }
}

/// Calls `f` for each part of the split that has cells, with the weights per stack of that part.
pub(crate) fn for_each_part<C: Measured>(
    profile: &Profile,
    cells: &[C],
    split: Split,
    mut f: impl FnMut(Option<Label>, &[C::Amount]),
) {
    let names = Names::of(profile, split);
    let part = |cell: &C| cell.part(profile, split).map(|part| names.part(part));
    let mut order: Vec<&C> = cells.iter().collect();
    order.sort_by_key(|cell| part(cell));
    let mut weights = vec![C::Amount::default(); profile.stacks.len()];
    for run in order.chunk_by(|a, b| part(a) == part(b)) {
        for cell in run {
            weights[cell.stack().index()] += cell.amount();
        }
        f(part(run[0]), &weights);
        for cell in run {
            weights[cell.stack().index()] = C::Amount::default();
        }
    }
}

/// Puts parts of one name together, if the split does.
enum Names {
    Apart,
    /// For each process the first one of its name.
    Commands(Vec<ProcessId>),
    /// For each thread the first one of its name.
    Threads(Vec<ThreadId>),
}

impl Names {
    fn of(profile: &Profile, split: Split) -> Self {
        match split {
            Split::Merged | Split::Process | Split::Thread => Self::Apart,
            Split::Command => Self::Commands(first_of_name(profile.processes.enumerate(), |p| &p.name)),
            Split::ThreadName => Self::Threads(first_of_name(profile.threads.enumerate(), |t| &t.name)),
        }
    }

    fn part(&self, part: Label) -> Label {
        match (self, part) {
            (Self::Commands(first), Label::Process(id)) => Label::Command(first[id.index()]),
            (Self::Threads(first), Label::Thread(id)) => Label::ThreadName(first[id.index()]),
            _ => part,
        }
    }
}

/// For each row the first one of the same name.
fn first_of_name<'a, I: Id, T: 'a>(
    rows: impl Iterator<Item = (I, &'a T)>,
    name: impl Fn(&T) -> &str,
) -> Vec<I> {
    let mut first: FxHashMap<&str, I> = FxHashMap::default();
    rows.map(|(id, row)| *first.entry(name(row)).or_insert(id)).collect()
}

/// Which stacks have weight at or below them.
pub(crate) fn used_stacks<W: Amount>(profile: &Profile, weights: &[W]) -> Vec<bool> {
    let mut used: Vec<bool> = weights.iter().map(|weight| !weight.is_nothing()).collect();
    for (id, node) in profile.stacks.enumerate().rev() {
        if let Some(parent) = node.parent.filter(|_| used[id.index()]) {
            used[parent.index()] = true;
        }
    }
    used
}

/// Levels that views from the inside outwards go: more than anybody reads.
const MOST_LEVELS: usize = 2000;

struct Grow<W> {
    nodes: IdVec<NodeId, Node<W>>,
    known: FxHashMap<(Option<NodeId>, Label), NodeId>,
}

impl<W> Default for Grow<W> {
    fn default() -> Self {
        Self { nodes: IdVec::new(), known: FxHashMap::default() }
    }
}

impl<W: Amount> Grow<W> {
    fn node(&mut self, parent: Option<NodeId>, label: Label) -> NodeId {
        *self.known.entry((parent, label)).or_insert_with(|| {
            self.nodes.push(Node {
                parent,
                label,
                own: W::default(),
                ends: W::default(),
                total: W::default(),
                first: 0,
                count: 0,
            })
        })
    }

    /// Adds a weight to a node of a tree from the outside inwards.
    fn measure(&mut self, node: NodeId, weight: W) {
        self.nodes[node].own += weight;
        self.nodes[node].ends += weight;
    }

    /// Adds the path from `stack` out to its root below `parent`; it ends at the far end, which has no further caller.
    fn outwards(
        &mut self,
        profile: &Profile,
        labels: &Labels,
        parent: Option<NodeId>,
        stack: StackId,
        weight: W,
    ) {
        let mut at = parent;
        let mut next = Some(stack);
        // Each stack is walked by itself here: without a limit a deep recursion would cost its depth squared.
        for _ in 0..MOST_LEVELS {
            let Some(id) = next else { break };
            let node = profile.stacks[id];
            at = Some(self.node(at, labels.of_frame(node.frame)));
            next = node.parent;
        }
        if let Some(end) = at {
            self.nodes[end].ends += weight;
        }
    }

    fn finish(mut self, profile: &Profile) -> CallTree<W> {
        let mut counts = vec![0_u32; self.nodes.len()];
        for id in self.nodes.ids().rev() {
            let ends = self.nodes[id].ends;
            self.nodes[id].total += ends;
            if let Some(parent) = self.nodes[id].parent {
                let total = self.nodes[id].total;
                self.nodes[parent].total += total;
                counts[parent.index()] += 1;
            }
        }
        let mut at = 0_u32;
        for id in self.nodes.ids() {
            let node = &mut self.nodes[id];
            node.first = at;
            at += counts[id.index()];
        }
        let mut children = vec![NodeId::from_index(0); at as usize];
        let mut roots = Vec::new();
        for id in self.nodes.ids() {
            match self.nodes[id].parent {
                Some(parent) => {
                    let parent = &mut self.nodes[parent];
                    children[(parent.first + parent.count) as usize] = id;
                    parent.count += 1;
                }
                None => roots.push(id),
            }
        }
        let nodes = &self.nodes;
        let heavier = |a: &NodeId, b: &NodeId| {
            let (a, b) = (&nodes[*a], &nodes[*b]);
            b.total
                .heaviness()
                .cmp(&a.total.heaviness())
                .then_with(|| a.label.name(profile).cmp(&b.label.name(profile)))
                .then(a.label.cmp(&b.label))
        };
        roots.sort_by(heavier);
        for node in nodes.iter() {
            children[node.first as usize..][..node.count as usize].sort_by(heavier);
        }
        let total = roots.iter().map(|&root| nodes[root].total).sum();
        CallTree { nodes: self.nodes, roots, total, children }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{add_folded, folded};
    use crate::model::{Builder, Process};
    use proptest::prelude::*;

    fn drawn(profile: &Profile, tree: &CallTree) -> String {
        let mut out = String::new();
        tree.walk(|id, depth| {
            let node = &tree.nodes[id];
            let name = node.label.name(profile);
            out += &format!("{}{name} {}/{}\n", " ".repeat(depth), node.own.samples, node.total.samples);
            true
        });
        out
    }

    #[test]
    fn own_and_total_go_up_the_tree() {
        let p = folded("main;a;b 1\nmain;a 2\nmain;c 4\nmain;c;[system] 1");
        let tree = CallTree::top_down(&p, &p.cells, By::Function, Split::Merged);
        assert_eq!(drawn(&p, &tree), "main 0/8\n c 4/5\n  [system] 1/1\n a 2/3\n  b 1/1\n");
        assert_eq!(tree.total.system_ns, 1_000_000);
    }

    #[test]
    fn bottom_up_starts_at_the_hot_end() {
        let p = folded("main;a;b 3\nmain;c;b 2\nmain 1");
        let tree = CallTree::bottom_up(&p, &p.cells, By::Function, Split::Merged);
        assert_eq!(drawn(&p, &tree), "b 5/5\n a 0/3\n  main 0/3\n c 0/2\n  main 0/2\nmain 1/1\n");
    }

    #[test]
    fn callers_and_callees_count_recursion_once() {
        let p = folded("main;f;f;f;g 3\nmain;x;f 2\nmain 5");
        let is_f = |id: FunctionId| p.functions[id].name == "f";
        let down = CallTree::callees(&p, &p.cells, is_f, By::Function);
        assert_eq!(drawn(&p, &down), "f 2/5\n f 0/3\n  f 0/3\n   g 3/3\n");
        let up = CallTree::callers(&p, &p.cells, is_f, By::Function);
        assert_eq!(drawn(&p, &up), "f 2/5\n main 0/3\n x 0/2\n  main 0/2\n");
    }

    #[test]
    fn commands_and_thread_names_are_sums_over_processes() {
        let mut b = Builder::new(false);
        for (pid, process, thread, lines) in [
            (1, "cc1", "cc1", "main;a 1"),
            (2, "make", "make", "main 2"),
            (3, "cc1", "worker", "main;a 4"),
            (4, "ld", "worker", "main 8"),
        ] {
            let process = b.process(Process { pid, name: process.into(), ..Process::default() });
            let thread = b.thread(process, pid, thread);
            add_folded(&mut b, thread, lines);
        }
        let p = b.finish();
        let tree = CallTree::top_down(&p, &p.cells, By::Function, Split::Command);
        assert_eq!(drawn(&p, &tree), "ld 0/8\n main 8/8\ncc1 0/5\n main 0/5\n  a 5/5\nmake 0/2\n main 2/2\n");
        let tree = CallTree::top_down(&p, &p.cells, By::Object, Split::ThreadName);
        assert_eq!(drawn(&p, &tree), "worker 0/12\n prog 12/12\nmake 0/2\n prog 2/2\ncc1 0/1\n prog 1/1\n");
    }

    #[test]
    fn a_split_gives_each_process_its_own_root() {
        let mut b = Builder::new(false);
        for (pid, lines) in [(1, "main;a 1"), (2, "main;a 2\nmain 1")] {
            let process = b.process(Process { pid, name: "p".into(), ..Process::default() });
            let thread = b.thread(process, pid, "t");
            add_folded(&mut b, thread, lines);
        }
        let p = b.finish();
        let tree = CallTree::top_down(&p, &p.cells, By::Function, Split::Process);
        assert_eq!(drawn(&p, &tree), "p (2) 0/3\n main 1/3\n  a 2/2\np (1) 0/1\n main 0/1\n  a 1/1\n");
        let tree = CallTree::top_down(&p, &p.cells, By::Object, Split::Merged);
        assert_eq!(drawn(&p, &tree), "prog 4/4\n");
    }

    proptest! {
        /// Whatever the stacks: nothing is lost or counted twice, children fit into their parents.
        #[test]
        fn trees_keep_the_sum(stacks in proptest::collection::vec(
            (proptest::collection::vec(0_u8..6, 1..12), 1_u64..9), 1..40)) {
            let lines: String = stacks.iter().map(|(frames, n)| {
                let names: Vec<String> = frames.iter().map(|f| format!("f{f}")).collect();
                format!("{} {n}\n", names.join(";"))
            }).collect();
            let p = folded(&lines);
            let want: u64 = stacks.iter().map(|(_, n)| n).sum();
            for tree in [
                CallTree::top_down(&p, &p.cells, By::Function, Split::Merged),
                CallTree::bottom_up(&p, &p.cells, By::Function, Split::Merged),
                CallTree::top_down(&p, &p.cells, By::Function, Split::Thread),
            ] {
                prop_assert_eq!(tree.total.samples, want);
                let mut seen = 0;
                tree.walk(|id, _| {
                    seen += 1;
                    let below: u64 = tree.children(id).iter().map(|&c| tree.nodes[c].total.samples).sum();
                    assert_eq!(tree.nodes[id].ends.samples + below, tree.nodes[id].total.samples);
                    true
                });
                prop_assert_eq!(seen, tree.nodes.len());
                let own: u64 = tree.nodes.iter().map(|node| node.own.samples).sum();
                prop_assert_eq!(own, want, "each sample is some function's own");
            }
            // The naive twin: a sample belongs to f0 when f0 is anywhere on its stack.
            let with: u64 = stacks.iter().filter(|(f, _)| f.contains(&0)).map(|(_, n)| n).sum();
            let is = |id: FunctionId| p.functions[id].name == "f0";
            prop_assert_eq!(CallTree::callers(&p, &p.cells, is, By::Function).total.samples, with);
            prop_assert_eq!(CallTree::callees(&p, &p.cells, is, By::Function).total.samples, with);
        }
    }
}
