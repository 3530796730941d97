//! Waits for locks and for other threads' work, and the events that show who held an object meanwhile.
//!
//! ```text
//! waiter    |---- waited (begin .. end) --------------|
//! holders       released A    taken B      released B
//! belongs to  A    |  nobody  |     B           | nobody
//! ```
//!
//! A reader orders the events of one object by time and splits each wait at them. The first holder took the lock before
//! anybody waited, so no record shows that; its release does.
//!
//! Signal safety: writing is arithmetic.

use super::write::Encoder;
use crate::head::kind;
use crate::numbered::numbered;

numbered! {
    /// What a thread waits for.
    WaitKind {
        /// A mutex.
        Mutex = 1 "mutex",
        /// A read-write lock, to read.
        ReadLock = 2 "rwlock (read)",
        /// A read-write lock, to write.
        WriteLock = 3 "rwlock (write)",
        /// A condition variable.
        Condition = 4 "condition",
        /// A semaphore.
        Semaphore = 5 "semaphore",
        /// The other threads at a barrier.
        Barrier = 6 "barrier",
        /// The end of another thread.
        Join = 7 "thread's end",
        /// A futex that the program uses through its own system calls.
        Futex = 8 "futex",
        /// The begin of a thread. Nobody waits for it; a *released* says who made the thread.
        Start = 9 "thread's begin",
    }
}

impl WaitKind {
    /// Whether a thread holds the object while others wait for it. Otherwise they wait for work.
    #[must_use]
    pub const fn is_lock(self) -> bool {
        matches!(self, Self::Mutex | Self::ReadLock | Self::WriteLock)
    }
}

/// [`Wait::result`] of a wait that was not over when the recording ended.
pub const STILL_WAITING: u64 = 1 << 32;
/// [`Wait::result`] of a wait that ended because the thread was cancelled.
pub const CANCELLED: u64 = 1 << 33;

/// A wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Stack of the wait; 0 = none.
    pub stack: u32,
    /// Raw time of its begin.
    pub time: u64,
    /// Duration in units of raw time.
    pub length: u64,
    /// Kernel's id of the thread.
    pub tid: u32,
    /// The kind of the object ([`WaitKind`] number).
    pub kind: u64,
    /// Its address. For a join: kernel's id of the other thread; 0 = unknown.
    pub object: u64,
    /// For a condition: address of its mutex. Otherwise 0.
    pub mutex: u64,
    /// What the function returned (0, or an error number), [`STILL_WAITING`] or [`CANCELLED`].
    pub result: u64,
}

impl Wait {
    /// The record. `None`: the buffer is too small (10 words).
    #[must_use]
    pub fn record<'b>(&self, buffer: &'b mut [u64]) -> Option<&'b [u64]> {
        Encoder::new(buffer)
            .raw_word(self.time)
            .number(u64::from(self.tid))
            .number(self.kind)
            .number(self.object)
            .number(self.length)
            .number(self.result)
            .number(self.mutex)
            .finish(kind::WAITED, self.stack)
    }
}

/// What happened to an object for which another thread waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedOn {
    /// Stack of the call; 0 = none.
    pub stack: u32,
    /// Raw time.
    pub time: u64,
    /// Kernel's id of the thread.
    pub tid: u32,
    /// The kind of the object ([`WaitKind`] number).
    pub kind: u64,
    /// Its address.
    pub object: u64,
}

impl HandedOn {
    /// The record that the object was released, or its waiters woken. `None`: the buffer is too small.
    #[must_use]
    pub fn released<'b>(&self, buffer: &'b mut [u64]) -> Option<&'b [u64]> {
        self.record(buffer, kind::RELEASED)
    }

    /// The record that the thread took the object without waiting. `None`: the buffer is too small.
    #[must_use]
    pub fn taken<'b>(&self, buffer: &'b mut [u64]) -> Option<&'b [u64]> {
        self.record(buffer, kind::TAKEN)
    }

    fn record<'b>(&self, buffer: &'b mut [u64], kind: u8) -> Option<&'b [u64]> {
        Encoder::new(buffer)
            .raw_word(self.time)
            .number(u64::from(self.tid))
            .number(self.kind)
            .number(self.object)
            .finish(kind, self.stack)
    }
}
