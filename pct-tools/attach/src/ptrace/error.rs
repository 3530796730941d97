//! Why a thread of the target did not do what it was asked.

use super::sys::{Errno, Tid};
use std::io;

/// Why a call in the target was not made, or did not end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The thread ended meanwhile.
    #[error("thread {0} ended meanwhile")]
    Gone(Tid),
    /// The thread did not stop in time (a vfork parent, or a sleep that no signal ends).
    #[error("thread {0} did not stop within {1} ms")]
    NoStop(Tid, u128),
    /// The call did not come back in time; where it was is told.
    #[error(
        "a call in thread {tid} did not return within {ms} ms (it was at {rip:#x}, in system call {call})"
    )]
    Timeout {
        /// The borrowed thread.
        tid: Tid,
        /// The limit.
        ms: u128,
        /// Its program counter then.
        rip: u64,
        /// The system call it was in, -1: none.
        call: i64,
        /// It waits for a lock and nobody has woken it: cutting it off takes nothing away from anybody.
        waits: bool,
    },
    /// The call raised a fault of its own.
    #[error("a call in thread {tid} raised signal {signal} at {rip:#x}")]
    Fault {
        /// The borrowed thread.
        tid: Tid,
        /// SIGSEGV, SIGBUS, SIGILL or SIGFPE.
        signal: i32,
        /// Where.
        rip: u64,
    },
    /// There is no room for the first frame on any stack of the target.
    #[error("no room on a stack of the target for the first call")]
    NoRoom,
    /// The target's text has no gadgets.
    #[error("the target's text has no instructions to build a self-restoring call from (any more)")]
    NoGadgets,
    /// A request to the kernel failed.
    #[error("{what} of thread {tid}: {source}")]
    Request {
        /// Which.
        what: &'static str,
        /// The thread.
        tid: Tid,
        /// The kernel's answer.
        source: Errno,
    },
    /// The target's memory could not be read or written.
    #[error("memory of the target: {0}")]
    Memory(#[from] io::Error),
    /// A system call of the target failed.
    #[error("{call} in the target: {source}")]
    SystemCall {
        /// Its name.
        call: &'static str,
        /// The kernel's answer to the target.
        source: Errno,
    },
}

impl CallError {
    /// What a refused request means: the thread may end at any time.
    pub(crate) fn from_refusal(what: &'static str, tid: Tid) -> impl FnOnce(Errno) -> CallError {
        move |source| match source.is_gone() {
            true => CallError::Gone(tid),
            false => CallError::Request { what, tid, source },
        }
    }
}
