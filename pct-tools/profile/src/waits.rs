//! Waits: who waited for what, who held it meanwhile, and what of a thread's time they do not explain.
//!
//! A wait for a lock is cut at each change of hands ([`cut`]): to each holder the time for which it made the others
//! wait, and to nobody what passed between a release and the next taking (*hand-over*: the next thread was woken and
//! did not run yet). No change of a critical section removes that part, so it is a figure of its own.
//!
//! Waiting for work (a condition, a semaphore, a barrier, a thread's end) is not contention: it is never added to the
//! time of locks. There the other side is who woke the thread. Locks of Java and Python are made of such objects, and
//! told from them by who waits ([`LanguageLock`]).
//!
//! Invariant: the parts of a wait sum up to its length.

pub mod cut;
pub mod futexes;
mod language_lock;
pub mod path;

use crate::ids::{ProcessId, StackId, ThreadId};
use pct_format::WaitKind;
use std::ops::AddAssign;

pub use language_lock::LanguageLock;

/// What a recording says of waits. Empty, if they were not recorded or not asked for.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// The objects that threads waited for, the longest waited for first.
    pub objects: Vec<Object>,
    /// Sums of one thread in one stack for one object.
    pub rows: Vec<WaitRow>,
    /// What is known of the threads of recordings that have waits.
    pub threads: Vec<ThreadTime>,
    /// What the critical paths of the processes are found in, if that was asked for.
    pub chains: Vec<path::Chain>,
    /// Recordings in which waits were recorded.
    pub recordings: u64,
    /// Recordings in which they were not, although that was asked for: the program did not load pct's library.
    pub asked_in_vain: u64,
    /// Waits for futexes of the programs' own were recorded in all of them.
    pub sees_futexes: bool,
    /// Records that could not be written.
    pub lost: u64,
    /// Records that were overwritten in full logs.
    pub overwritten: u64,
    /// Records that cannot be.
    pub damaged: u64,
}

/// A lock, or whatever else threads wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object {
    /// Whose it is.
    pub process: ProcessId,
    /// What it is; of a read-write lock what it was first waited for.
    pub kind: WaitKind,
    /// The lock of a language that is made of such ones; `None`: it is what `kind` says.
    pub of_language: Option<LanguageLock>,
    /// Its address; of a thread its id (0 = not known).
    pub address: u64,
    /// Where it was first waited for: a name that says more than an address.
    pub first_stack: StackId,
}

impl Object {
    /// What kind of waiting waits for it are.
    #[must_use]
    pub fn class(&self) -> WaitClass {
        if self.of_language.is_some() { WaitClass::Lock } else { WaitClass::of_kind(self.kind) }
    }

    /// Whether somebody holds it while others wait.
    #[must_use]
    pub fn is_lock(&self) -> bool {
        self.class() == WaitClass::Lock
    }
}

/// How long a thread waited for an object in one stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitRow {
    /// Who waited.
    pub thread: ThreadId,
    /// Where.
    pub stack: StackId,
    /// For what: its place in [`Waits::objects`].
    pub object: usize,
    /// To do what with it: a read-write lock is waited for to read or to write.
    pub kind: WaitKind,
    /// How often and how long.
    pub figures: WaitFigures,
    /// Who held it meanwhile, or who ended the waits, the longest first.
    pub holders: Vec<Holder>,
}

/// Who held an object while others waited, or who woke them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    /// The thread.
    pub thread: ThreadId,
    /// Where it released the object, or woke the others.
    pub stack: StackId,
    /// Nanoseconds of waiting for it.
    pub ns: u64,
}

/// How often, and how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WaitFigures {
    /// Waits.
    pub waits: u64,
    /// Nanoseconds in all.
    pub ns: u64,
    /// Nanoseconds of the longest wait.
    pub longest_ns: u64,
    /// Nanoseconds between a release or wake-up and the end of the wait, in which nobody had the object.
    pub hand_over_ns: u64,
    /// Nanoseconds of which the holder is not known.
    pub unknown_ns: u64,
    /// Waits that were not over when the recording was.
    pub open: u64,
}

impl AddAssign for WaitFigures {
    fn add_assign(&mut self, more: Self) {
        self.waits = self.waits.saturating_add(more.waits);
        self.ns = self.ns.saturating_add(more.ns);
        self.longest_ns = self.longest_ns.max(more.longest_ns);
        self.hand_over_ns = self.hand_over_ns.saturating_add(more.hand_over_ns);
        self.unknown_ns = self.unknown_ns.saturating_add(more.unknown_ns);
        self.open = self.open.saturating_add(more.open);
    }
}

/// A thread's time, as far as the recording knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadTime {
    /// The thread.
    pub thread: ThreadId,
    /// Nanoseconds from its begin to its end, or to the end of the recording.
    pub wall_ns: u64,
    /// Nanoseconds of CPU time that it had used when it was last looked at, some time before its end; `None`: only
    /// what its samples stand for is known.
    pub cpu_ns: Option<u64>,
    /// Nanoseconds of waits for locks.
    pub locks_ns: u64,
    /// Nanoseconds of waits for work.
    pub work_ns: u64,
    /// Nanoseconds of waits for futexes of which it is not known what they are.
    pub futexes_ns: u64,
}

/// What kind of waiting it is. Times of different classes are never added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitClass {
    /// Contention: somebody holds what is waited for.
    Lock,
    /// Somebody else has to do something first.
    Work,
    /// A futex that may be either.
    Futex,
}

impl WaitClass {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 3] = [Self::Lock, Self::Work, Self::Futex];

    /// The class of what is waited for.
    #[must_use]
    pub fn of_kind(kind: WaitKind) -> Self {
        match kind {
            WaitKind::Futex => Self::Futex,
            kind if kind.is_lock() => Self::Lock,
            _ => Self::Work,
        }
    }
}

impl Waits {
    /// No waits were recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.recordings == 0
    }

    /// The stacks that its rows name, to be replaced by others.
    pub fn stacks_mut(&mut self) -> impl Iterator<Item = &mut StackId> {
        let objects = self.objects.iter_mut().map(|object| &mut object.first_stack);
        let rows = self.rows.iter_mut().flat_map(|row| {
            std::iter::once(&mut row.stack).chain(row.holders.iter_mut().map(|holder| &mut holder.stack))
        });
        let chains = self.chains.iter_mut().flat_map(path::Chain::stacks_mut);
        objects.chain(rows).chain(chains)
    }

    /// The stacks that its rows name.
    pub fn stacks(&self) -> impl Iterator<Item = StackId> {
        let objects = self.objects.iter().map(|object| object.first_stack);
        let rows = self
            .rows
            .iter()
            .flat_map(|row| std::iter::once(row.stack).chain(row.holders.iter().map(|holder| holder.stack)));
        objects.chain(rows).chain(self.chains.iter().flat_map(path::Chain::stacks))
    }
}
