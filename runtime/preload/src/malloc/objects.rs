//! The allocators of objects that a Python interpreter had before ours were put in front of them.

use core::sync::atomic::{AtomicUsize, Ordering};

use super::wrapped::ROWS;

/// The functions of a domain, as CPython's `PyMemAllocatorEx` has them.
#[repr(C)]
pub(super) struct Allocator {
    context: AtomicUsize,
    malloc: AtomicUsize,
    calloc: AtomicUsize,
    realloc: AtomicUsize,
    free: AtomicUsize,
}

/// The same as plain words, for calls.
pub(super) type Words = [usize; 5];

impl Allocator {
    const fn none() -> Allocator {
        Allocator { context: zero(), malloc: zero(), calloc: zero(), realloc: zero(), free: zero() }
    }

    /// Keeps what the interpreter has.
    pub(super) fn set(&self, words: Words) {
        let places = [&self.context, &self.malloc, &self.calloc, &self.realloc, &self.free];
        for (place, word) in places.into_iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
    }
}

const fn zero() -> AtomicUsize {
    AtomicUsize::new(0)
}

/// What the domains had before us: `mem`, `obj`. Their addresses are the contexts of our functions.
pub(super) static BEFORE: [Allocator; 2] = [const { Allocator::none() }; 2];

/// Numbers of our functions, behind those of the table of exported ones.
pub(super) const MALLOC: usize = ROWS;
pub(super) const CALLOC: usize = ROWS + 1;
pub(super) const REALLOC: usize = ROWS + 2;

/// The function before us for a request by number, and its context. `context` is what our function was given.
pub(super) fn before(which: usize, context: u64) -> Option<(usize, u64)> {
    let allocator = BEFORE.iter().find(|before| &raw const **before as u64 == context)?;
    let function = match which {
        MALLOC => &allocator.malloc,
        CALLOC => &allocator.calloc,
        REALLOC => &allocator.realloc,
        _ => return None,
    };
    Some((function.load(Ordering::Relaxed), allocator.context.load(Ordering::Relaxed) as u64))
}
