//! What a walk keeps that has gone over to another stack.

use crate::emulate::Kept;

/// Parts that are remembered.
const PARTS: usize = 4;

/// See above.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Crossed {
    pub(super) kept: Kept,
    /// The last parts of stacks that were walked before a change: the first address, and the last.
    parts: [(u64, u64); PARTS],
    count: usize,
    /// A return was not found, and what it has put back is not known.
    pub(super) is_lost: bool,
}

impl Crossed {
    /// Whether the walk has been there. Where the code was interrupted while it was putting things back, what lies in
    /// memory may lead to the same place again.
    pub(super) fn has_passed(&self, address: u64) -> bool {
        self.parts.iter().any(|(first, last)| address >= *first && address <= *last)
    }

    pub(super) fn leave(&mut self, part: (u64, u64)) {
        if let Some(slot) = self.parts.get_mut(self.count % PARTS) {
            *slot = part;
        }
        self.count += 1;
    }
}
