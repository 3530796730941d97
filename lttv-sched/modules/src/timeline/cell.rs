//! What one lane has in one bucket of time.

use super::lanes::{is_state, runs};

/// What one lane has in one bucket, or the same in each of `len` buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// Number of the bucket: its first time divided by its width.
    pub bucket: i64,
    /// Items that begin in it.
    pub n: u64,
    /// Weight: ns of CPU time for samples, ns for states, the number of events.
    pub w: u64,
    /// Weight of the heaviest key.
    pub tw: u64,
    /// Buckets with these very values; more than 1 only where a state fills them.
    pub len: u32,
    /// The heaviest key; of several the least. The top bit: see [`Cell::is_approximate`].
    top: u32,
    running: Running,
}

/// The part of a bucket in which a thread, or a thread on a CPU, ran. A thread that waits most of the time has the top
/// key `blocked` in each bucket, however often it runs in between; this tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Running {
    /// ns; 0 for samples and events, which have no states.
    pub ns: u64,
    /// The state in which most of it was spent, one of those of [`runs`]; of several the least. 0 if it never ran.
    pub top: u32,
    /// The heaviest of the other states, of several the least. None: it ran all the time, or there are no states.
    pub rest: Option<u32>,
}

impl Running {
    /// What a key with so much weight tells by itself.
    pub(super) fn of_key(key: u32, w: u64) -> Running {
        match w {
            0 => Running::default(),
            ns if runs(key) => Running { ns, top: key, rest: None },
            _ => Running { rest: is_state(key).then_some(key), ..Running::default() },
        }
    }
}

const APPROXIMATE: u32 = 1 << 31;

impl Cell {
    /// The heaviest key; of several the least one.
    pub fn top(&self) -> u32 {
        self.top & !APPROXIMATE
    }

    /// Another key may be heavier than `top`: there were too many keys to tell all apart.
    pub fn is_approximate(&self) -> bool {
        self.top & APPROXIMATE != 0
    }

    /// A cell of one bucket: items and weight, weight and number of the heaviest key, and whether it surely is that.
    pub(super) fn new(bucket: i64, (n, w): (u64, u64), (tw, top): (u64, u32), is_sure: bool) -> Cell {
        let mark = if is_sure { 0 } else { APPROXIMATE };
        let running = Running::of_key(top, tw);
        Cell { bucket, n, w, tw, len: 1, top: top & !APPROXIMATE | mark, running }
    }

    /// A cell with the key as [`Cell::raw_key`] gives it. What ran in it is what that key tells.
    pub(super) fn from_raw(bucket: i64, len: u32, (n, w): (u64, u64), (top, tw): (u32, u64)) -> Cell {
        Cell { bucket, n, w, tw, len, top, running: Running::of_key(top, tw) }
    }

    /// The same cell with what ran in it.
    pub(super) fn with_running(self, running: Running) -> Cell {
        Cell { running, ..self }
    }

    /// What ran in it. In a cell of several buckets: in each of them.
    pub fn running(&self) -> Running {
        self.running
    }

    /// The key with the mark for one that is not sure.
    pub(super) fn raw_key(&self) -> u32 {
        self.top
    }

    /// The bucket after it.
    pub(super) fn end(&self) -> i64 {
        self.bucket.saturating_add(i64::from(self.len))
    }

    /// Whether one state fills the whole bucket, so that equal neighbours can be one run.
    pub(super) fn is_filled(&self, width: u64) -> bool {
        self.n == 0 && self.w == width && self.tw == width
    }
}
