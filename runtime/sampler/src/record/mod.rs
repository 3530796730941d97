//! What is written, and where: segments of the mapped file, a ring for each thread, the table of stacks,
//! times and marks.

mod block;
pub mod chain;
pub mod codes;
mod found;
pub mod log;
pub mod mark;
pub(crate) mod rests;
pub mod rings;
mod slot;
pub mod stacks;
pub mod table;
pub mod time;

/// Atomics of what is also run as a model: `tests/block_model.rs`, `tests/found_model.rs` and `tests/slot_model.rs` put
/// a simulation of them in their place.
mod sync {
    pub(super) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

    /// Where a full fence would be, were it not too dear: see [`super::slot`].
    #[inline(always)]
    pub(super) fn light_fence() {
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
    }
}
