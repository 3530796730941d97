//! What the threads of a recording waited for. Deep.data has no place for it: it is known where the recording itself is
//! viewed.

/// What threads waited for. Waits for locks and for work are never added: a thread that waits for work is idle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitFacts {
    /// Waits for locks.
    pub locks: WaitTable,
    /// Waits for other threads' work: conditions, semaphores, barriers, ends of threads.
    pub work: WaitTable,
    /// One line about the latter; `None`: no thread waited for work.
    pub work_in_words: Option<String>,
}

/// Waits of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitTable {
    /// Nanoseconds of all.
    pub ns: u64,
    /// How many there were.
    pub waits: u64,
    /// What was waited for longest.
    pub rows: Vec<WaitedFacts>,
    /// Number of objects beside those.
    pub rows_beyond: u64,
    /// The tree of stacks that waited, the longest waits first, callers before callees. Small branches may be missing.
    pub stacks: Vec<WaitStack>,
    /// Number of stacks without a node.
    pub stacks_left_out: usize,
}

/// A lock, or whatever else was waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitedFacts {
    /// Nanoseconds.
    pub ns: u64,
    /// Waits.
    pub waits: u64,
    /// What it is.
    pub what: String,
    /// The function that waited longest, and how many others there are.
    pub waited_in: String,
    /// The function that held the lock longest meanwhile, or that ended most of the waiting, and how many others there
    /// are; `-`: it is not known.
    pub by: String,
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
