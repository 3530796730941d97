//! Where the stacks of threads are, found among the mappings.
//!
//! Signal safety: loads and stores of memory.

use core::sync::atomic::Ordering;

use crate::code::maps::Mapping;
use crate::process::session::Session;
use crate::record::rings::Ring;
use pct_format::StackMode;

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
            ring.stack.lo.store(lo, Ordering::Relaxed);
            if main {
                // The kernel joins this mapping with no other and never shrinks it.
                ring.stack.sure.store(m.end - m.start, Ordering::Relaxed);
            }
            // Release: whoever sees the end sees the start (an end without its start is a wrong extent).
            ring.stack.hi.store(hi, Ordering::Release);
        }
    }
}

/// Whether a thread's stack is not known yet.
fn unknown(ring: &Ring) -> bool {
    ring.stack.hi.load(Ordering::Relaxed) == 0
}
