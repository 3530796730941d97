//! Where the stacks of threads are, found among the mappings.
//!
//! Under another root directory there may be no list of mappings. What was known of the first thread's stack is known
//! after a pause, and in the child of a fork, as well: it is kept outside of the session.
//!
//! Signal safety: loads and stores of memory.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::code::maps::Mapping;
use crate::process::session::Session;
use crate::record::rings::Ring;
use pct_format::StackMode;

/// A stack as it was known once. Threads that fork at the same time may write it together: a mixture of two stacks has
/// another sum than either, and is not taken for a stack.
struct KnownStack {
    lo: AtomicU64,
    hi: AtomicU64,
    sure: AtomicU64,
    sum: AtomicU64,
}

/// The stack of this process's first thread.
static FIRST: KnownStack = KnownStack::new();
/// The stack of the thread that is about to fork.
static FORKING: KnownStack = KnownStack::new();

impl KnownStack {
    const fn new() -> KnownStack {
        KnownStack {
            lo: AtomicU64::new(0),
            hi: AtomicU64::new(0),
            sure: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }

    fn sum([lo, hi, sure]: [u64; 3]) -> u64 {
        lo ^ hi.rotate_left(16) ^ sure.rotate_left(32)
    }

    /// (A store of what is there already would have the page copied, after each fork.)
    fn set(&self, known: [u64; 3]) {
        let [lo, hi, sure] = known;
        let words = [(&self.lo, lo), (&self.hi, hi), (&self.sure, sure), (&self.sum, Self::sum(known))];
        for (word, new) in words {
            if word.load(Ordering::Relaxed) != new {
                word.store(new, Ordering::Relaxed);
            }
        }
    }

    /// Zeros: none is known.
    fn get(&self) -> [u64; 3] {
        let known = [&self.lo, &self.hi, &self.sure].map(|word| word.load(Ordering::Relaxed));
        if self.sum.load(Ordering::Relaxed) == Self::sum(known) { known } else { [0; 3] }
    }
}

/// The calling thread is about to fork: in the child it is the first thread, on the same stack.
pub(crate) fn before_fork(session: &Session) {
    if let Some(ring) = session.rings.own(false) {
        FORKING.set(ring.stack.known());
    }
}

/// In the child of a fork, before anything is sampled there.
pub(crate) fn in_child() {
    let here = 0u8;
    let here = core::ptr::from_ref(&here).expose_provenance() as u64;
    // Another thread may have been about to fork too.
    let known @ [lo, hi, _] = FORKING.get();
    FIRST.set(if lo < here && here < hi { known } else { [0; 3] });
}

/// Finds the stacks of threads that are new, among the mappings as they pass by. By the housekeeper.
///
/// The first thread's is the kernel's `[stack]`, which grows down to its neighbour. Every other C library's
/// thread has its control block at the upper end of its stack's mapping, so the mapping that holds the block
/// is the stack, below the block. All other stacks (raw clone, alternate stacks, coroutines) are
/// looked at page by page when they are met.
pub(crate) struct StackFinder<'s> {
    session: &'s Session,
    wanted: bool,
    /// End of the mapping before.
    below: u64,
}

impl<'s> StackFinder<'s> {
    /// Before the first mapping.
    #[must_use]
    pub(crate) fn new(session: &'s Session) -> Self {
        let walks = session.settings.stack.load(Ordering::Relaxed) != StackMode::None as u32;
        StackFinder { session, wanted: walks && session.rings.living().any(unknown), below: 0 }
    }

    /// The next mapping, in order of addresses.
    pub(crate) fn see(&mut self, m: &Mapping<'_>) {
        let below = core::mem::replace(&mut self.below, m.end);
        if !self.wanted || !m.readable() || !m.writable() || m.path == b"[heap]" {
            return;
        }
        let main = m.path == b"[stack]";
        let pid = self.session.pid.load(Ordering::Relaxed);
        for ring in self.session.rings.living().filter(|ring| unknown(ring)) {
            let first = ring.tid.load(Ordering::Relaxed) == pid;
            let base = ring.base.load(Ordering::Relaxed);
            let (lo, hi) = match (first, main) {
                (true, true) => (below, m.end),
                (false, false) if m.inode == 0 && m.start < base && base < m.end => (m.start, base),
                _ => continue,
            };
            // The kernel joins the first thread's mapping with no other and never shrinks it.
            let sure = main.then_some(m.end - m.start);
            ring.stack.found(lo, hi, sure);
            if first {
                FIRST.set(ring.stack.known());
            }
        }
    }

    /// After the last mapping, or if there was no list of them.
    pub(crate) fn end(self) {
        let pid = self.session.pid.load(Ordering::Relaxed);
        let [lo, hi, sure] = FIRST.get();
        let first = self.session.rings.by_tid(pid).filter(|ring| self.wanted && unknown(ring));
        if let Some(ring) = first.filter(|_| hi != 0) {
            ring.stack.found(lo, hi, Some(sure));
        }
    }
}

/// Whether a thread's stack is not known yet.
fn unknown(ring: &Ring) -> bool {
    !ring.stack.is_found()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mixture_of_two_stacks_is_not_taken_for_one() {
        let stacks = [[0x7000_0001, 0x7008_0000, 0x4_0000], [0x7f00_0000_0000, 0x7f00_0080_0000, 0x2_0000]];
        for (one, other) in [(0, 1), (1, 0)] {
            let known = KnownStack::new();
            assert_eq!(known.get(), [0; 3]);
            known.set(stacks[one]);
            assert_eq!(known.get(), stacks[one]);
            // Another thread has written a part of its own.
            let words = [&known.lo, &known.hi, &known.sure, &known.sum];
            let [lo, hi, sure] = stacks[other];
            let new = [lo, hi, sure, KnownStack::sum(stacks[other])];
            for part in 1..0xf_usize {
                known.set(stacks[one]);
                for (i, word) in words.iter().enumerate().filter(|(i, _)| part >> i & 1 == 1) {
                    word.store(new[i], Ordering::Relaxed);
                }
                assert_eq!(known.get(), [0; 3], "{part:x}");
            }
            known.set(stacks[other]);
            assert_eq!(known.get(), stacks[other]);
        }
    }
}
