//! What is summed over a tree, and the parts of a view that is split: one for each process, thread or name.

use super::label::Label;
use crate::model::{Cell, Id, ProcessId, Profile, StackId, ThreadId, Weight};
use rustc_hash::FxHashMap;

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

/// Calls `f` for each part of the split that has cells, with the weights per stack of that part.
pub(crate) fn for_each_part<C: Measured>(
    profile: &Profile,
    cells: &[C],
    split: Split,
    mut f: impl FnMut(Option<Label>, &[C::Amount]),
) {
    let names = Names::from_profile(profile, split);
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

/// The parts of a split, for one cell at a time.
pub(crate) struct Parts {
    split: Split,
    names: Names,
}

impl Parts {
    pub(crate) fn new(profile: &Profile, split: Split) -> Self {
        Self { split, names: Names::from_profile(profile, split) }
    }

    /// The process or thread of a cell; all are one where nothing is split.
    pub(crate) fn label(&self, profile: &Profile, cell: &Cell) -> Label {
        cell.part(profile, self.split).map_or(Label::Running, |part| self.names.part(part))
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
    fn from_profile(profile: &Profile, split: Split) -> Self {
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
