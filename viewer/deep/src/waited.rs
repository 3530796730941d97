//! What the threads of a recording waited for. Deep.data has no place for it: it is known where the recording itself is
//! viewed.

/// What threads waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitFacts {
    /// Nanoseconds of waits for locks.
    pub lock_ns: u64,
    /// Waits for locks.
    pub lock_waits: u64,
    /// The locks that were waited for longest.
    pub locks: Vec<LockFacts>,
    /// Number of locks beside those.
    pub locks_beyond: u64,
    /// One line about what else was waited for; `None`: nothing.
    pub work: Option<String>,
    /// The tree of stacks that waited for locks, the longest waits first, callers before callees. Small branches may be
    /// missing.
    pub stacks: Vec<WaitStack>,
    /// Number of stacks without a node.
    pub stacks_left_out: usize,
}

/// A lock that was waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockFacts {
    /// Nanoseconds.
    pub ns: u64,
    /// Waits.
    pub waits: u64,
    /// Which lock it is.
    pub what: String,
    /// The function that waited longest, and how many others there are.
    pub waited_in: String,
    /// The function that held it longest meanwhile, and how many others there are; `-`: nobody is known.
    pub held_by: String,
}

/// A node of the tree of stacks that waited. Its function may have no procedure, because a thread that waits takes no
/// samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitStack {
    /// Index of the caller's node; `None`: outermost.
    pub parent: Option<u32>,
    /// The number of the procedure; 0: it has none.
    pub ps: u32,
    /// The function's name.
    pub name: String,
    /// The language of an interpreted function, or the object that the function is in: functions of one group have one
    /// colour.
    pub group: String,
    /// Nanoseconds of waiting with this stack or one that begins with it.
    pub total_ns: u64,
}
