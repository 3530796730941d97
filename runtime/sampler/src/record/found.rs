//! A thread that a round finds may arm itself at the same moment: which of the two does it.
//!
//! Each of them looks for a slot of the thread, sees none and takes one. Without more than that the thread would have
//! two, each with a clock, and twice its time would be told. So the round says which thread it has found before it
//! decides to arm it, and the thread takes its slot before it looks for that:
//!
//! ```text
//! round:   FOUND, no slot is the thread's,  FOUND -> DECIDED,  takes a slot, arms the thread,  NONE
//! thread:  takes a slot,  FOUND -> NONE: arms itself, and the round's step to DECIDED fails
//!                         DECIDED: gives its slot up
//!                         else: arms itself, unless another slot is its own too
//! ```
//!
//! With a full fence after the first step of both, the round sees the thread's slot, or the thread sees the round's
//! word. Nobody waits for the other. `tests/found_model.rs` tries every order, and with each of the rules broken.
//!
//! Signal safety: loads, stores and exchanges.

use super::sync::{AtomicU32, Ordering, fence};

/// No round is arming a thread. (Zero, as fresh memory is.)
const NONE: u32 = 0;
/// Beside twice the thread's id: the round will arm it.
const DECIDED: u32 = 1;

/// The thread that a round is about to arm. One round at a time: it holds the housekeeper's lock.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct FoundThread(pub(crate) AtomicU32);

impl FoundThread {
    /// The round has found thread `tid`. True: it takes a slot, arms the thread and calls [`FoundThread::armed`].
    /// `is_taken` looks whether any slot is the thread's, even one that is not set up yet.
    pub(crate) fn by_round(&self, tid: u32, is_taken: impl FnOnce() -> bool) -> bool {
        let found = tid << 1;
        self.0.store(found, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !is_taken()
            && self.0.compare_exchange(found, found | DECIDED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            return true;
        }
        self.0.store(NONE, Ordering::Relaxed);
        false
    }

    /// What [`FoundThread::by_round`] decided is done.
    pub(crate) fn armed(&self) {
        // Release: who sees no round here sees the slot.
        self.0.store(NONE, Ordering::Release);
    }

    /// The calling thread `tid` has taken a slot to arm itself. False: it gives the slot up, because a round is arming
    /// it or has done so. `is_taken_twice` looks whether another slot is the thread's too.
    pub(crate) fn by_itself(&self, tid: u32, is_taken_twice: impl FnOnce() -> bool) -> bool {
        let found = tid << 1;
        fence(Ordering::SeqCst);
        match self.0.compare_exchange(found, NONE, Ordering::Acquire, Ordering::Acquire) {
            Err(word) if word == found | DECIDED => false,
            _ => !is_taken_twice(),
        }
    }
}
