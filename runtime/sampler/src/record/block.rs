//! A block of the log in private memory: who owns it, and what its next owner must know.
//!
//! ```text
//! not handed out -> CURRENT -> LEFT --------> CURRENT (of another ring, from the start)
//!                      ^ \-> RESTING -------> the same
//!                      |        |
//!                      \--------/ another ring goes on where the last one stopped
//! ```
//!
//! A block is given away by one store, after all that belongs to it. One that is left first and rests a moment later
//! may have had another owner in between, whose records would be cut off: `tests/block_model.rs` tries every order of
//! two threads, with this file's code and with that mistake.
//!
//! Signal safety: loads and stores.

use super::sync::{AtomicU32, AtomicU64, Ordering};

/// States of a block.
pub(crate) mod state {
    // 0: not handed out.
    /// A thread writes to it.
    pub(crate) const CURRENT: u32 = 1;
    /// Full; may be overwritten.
    pub(crate) const LEFT: u32 = 2;
    /// Never overwritten.
    pub(crate) const KEPT: u32 = 3;
    /// Its thread has ended before it was full: another may go on in it, or overwrite it.
    pub(crate) const RESTING: u32 = 4;
    /// The file ends before it: somebody cut it.
    pub(crate) const GONE: u32 = 5;
}

/// What we know of a block. All zeros is one that was not handed out.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Block {
    pub(crate) state: AtomicU32,
    /// Slot of the ring that wrote it.
    pub(crate) ring: AtomicU32,
    pub(crate) generation: AtomicU64,
    pub(crate) samples: AtomicU64,
    pub(crate) weight: AtomicU64,
    /// While it rests: next record's word in the segment.
    pub(crate) rest: AtomicU32,
}

/// Samples in a block and their weight.
pub(crate) type Held = [u64; 2];

impl Block {
    /// A ring begins in it.
    pub(crate) fn begin(&self, ring: u32) {
        self.ring.store(ring, Ordering::Relaxed);
        self.samples.store(0, Ordering::Relaxed);
        self.weight.store(0, Ordering::Relaxed);
        self.state.store(state::CURRENT, Ordering::Release);
    }

    /// Its owner has filled it.
    pub(crate) fn leave(&self, held: Held) {
        self.give_away(held, state::LEFT);
    }

    /// Its owner has ended, and the next record would have begun at word `next`. `resting` counts such blocks.
    pub(crate) fn rest(&self, resting: &AtomicU32, next: u32, held: Held) {
        self.rest.store(next, Ordering::Relaxed);
        // Before it can be taken: the number never falls below none.
        resting.fetch_add(1, Ordering::Relaxed);
        self.give_away(held, state::RESTING);
    }

    fn give_away(&self, [samples, weight]: Held, state: u32) {
        self.samples.store(samples, Ordering::Relaxed);
        self.weight.store(weight, Ordering::Relaxed);
        // Release: whoever takes it sees the counts, and where it goes on.
        self.state.store(state, Ordering::Release);
    }

    /// What is in it. Only for its owner, and for who has just taken it.
    pub(crate) fn held(&self) -> Held {
        [self.samples.load(Ordering::Relaxed), self.weight.load(Ordering::Relaxed)]
    }

    /// Takes it to go on in it, if it rests: the next record's word, and what is in it.
    pub(crate) fn take_resting(&self, resting: &AtomicU32) -> Option<(u32, Held)> {
        if self.state.load(Ordering::Relaxed) != state::RESTING || !self.claim(state::RESTING, resting) {
            return None;
        }
        // What is in it is of several threads: if it is overwritten, that is in the header's sum alone.
        self.ring.store(u32::MAX, Ordering::Relaxed);
        Some((self.rest.load(Ordering::Relaxed), self.held()))
    }

    /// Takes it to overwrite it, if it is still in this state: what was in it.
    pub(crate) fn steal(&self, was: u32, resting: &AtomicU32) -> Option<Held> {
        self.claim(was, resting).then(|| self.held())
    }

    fn claim(&self, was: u32, resting: &AtomicU32) -> bool {
        // Acquire: with `give_away`.
        let taken =
            self.state.compare_exchange(was, state::CURRENT, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if taken && was == state::RESTING {
            resting.fetch_sub(1, Ordering::Relaxed);
        }
        taken
    }

    /// Nobody goes on in it any more; it may be overwritten.
    pub(crate) fn stop_resting(&self, resting: &AtomicU32) {
        let left =
            self.state.compare_exchange(state::RESTING, state::LEFT, Ordering::Relaxed, Ordering::Relaxed);
        if left.is_ok() {
            resting.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The file ends before it: what was in it, if nobody writes to it at this moment.
    pub(crate) fn lose(&self, resting: &AtomicU32) -> Held {
        let was = self.state.swap(state::GONE, Ordering::Acquire);
        if was == state::RESTING {
            resting.fetch_sub(1, Ordering::Relaxed);
        }
        if matches!(was, state::LEFT | state::RESTING) { self.held() } else { [0; 2] }
    }
}
