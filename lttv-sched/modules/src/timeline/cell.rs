//! What one lane has in one bucket of time.

use super::lanes::{STATES, is_state, runs};

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
    /// Of [`Running`] the time, and its states as [`Running::code`] has them; both 0 where the heaviest key tells them.
    ran_ns: u64,
    ran: u16,
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
    pub fn of_key(key: u32, w: u64) -> Running {
        match w {
            0 => Running::default(),
            ns if runs(key) => Running { ns, top: key, rest: None },
            _ => Running { rest: is_state(key).then_some(key), ..Running::default() },
        }
    }

    /// Its states as [`Cell::ran`] gives them.
    fn code(&self) -> u16 {
        let number = self.top * CODES + self.rest.map_or(0, |rest| rest + 1) + 1;
        u16::try_from(number).unwrap_or(u16::MAX)
    }

    /// The other way round.
    fn from_code(ns: u64, code: u16) -> Running {
        let number = u32::from(code.saturating_sub(1));
        Running { ns, top: number / CODES, rest: (number % CODES).checked_sub(1) }
    }
}

/// Values of the state without a CPU in [`Running::code`].
#[expect(clippy::cast_possible_truncation, reason = "a dozen")]
const CODES: u32 = STATES.len() as u32 + 1;

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
        Cell { bucket, n, w, tw, len: 1, top: top & !APPROXIMATE | mark, ran_ns: 0, ran: 0 }
    }

    /// A cell with the key as [`Cell::raw_key`] gives it. What ran in it is what that key tells.
    pub(super) fn from_raw(bucket: i64, len: u32, (n, w): (u64, u64), (top, tw): (u32, u64)) -> Cell {
        Cell { bucket, n, w, tw, len, top, ran_ns: 0, ran: 0 }
    }

    /// The same cell in other buckets.
    pub(super) fn moved(self, bucket: i64, len: u32) -> Cell {
        Cell { bucket, len, ..self }
    }

    /// The same cell with what ran in it.
    pub(super) fn with_running(self, running: Running) -> Cell {
        if running == Running::of_key(self.top(), self.tw) {
            return Cell { ran_ns: 0, ran: 0, ..self };
        }
        Cell { ran_ns: running.ns, ran: running.code(), ..self }
    }

    /// The same cell with what [`Cell::ran`] gave.
    pub(super) fn with_ran(self, (ran_ns, ran): (u64, u16)) -> Cell {
        Cell { ran_ns, ran, ..self }
    }

    /// What ran, in ns, and the states as a number: `1 + top * (1 + S) + (1 + rest, or 0)`, where `S` is the number of
    /// states. None where the heaviest key tells both.
    pub fn ran(&self) -> Option<(u64, u16)> {
        (self.ran > 0).then_some((self.ran_ns, self.ran))
    }

    /// What ran in it. In a cell of several buckets: in each of them.
    pub fn running(&self) -> Running {
        match self.ran() {
            Some((ns, code)) => Running::from_code(ns, code),
            None => Running::of_key(self.top(), self.tw),
        }
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
