//! The functions that are wrapped, as tables: which argument is the size, where the host's function is, where calls go.
//!
//! [`super::entry`] fills the tables, because they hold the addresses of its machine code. What decides about a call
//! is handed them, so it needs no machine code.

use core::arch::naked_asm;
use core::sync::atomic::{AtomicPtr, Ordering};

/// Which argument says how much is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The first one.
    SizeFirst,
    /// The second one.
    SizeSecond,
    /// The third one, and the block comes by the first one: posix_memalign.
    SizeThird,
    /// The product of both: calloc.
    Product,
    /// The second one; the first one is the block before: realloc.
    Moves,
    /// Nothing: the first one is a block that goes.
    Frees,
    /// Python's own allocator, where a context comes before the arguments: malloc.
    ObjectSize,
    /// The same: calloc.
    ObjectProduct,
    /// The same: realloc.
    ObjectMoves,
}

/// A function that is wrapped.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// What may be called instead where the host has no such function; empty = nothing.
    pub(crate) instead: &'static str,
    /// Code that counts.
    pub(crate) counted: unsafe extern "C" fn(),
}

/// How many functions are wrapped.
pub(crate) const ROWS: usize = 33;

/// Address of a function, exchanged while the program runs.
pub(crate) type Code = AtomicPtr<()>;

/// All wrapped functions. A function has the same number in each table.
pub(crate) struct Wrapped {
    /// What each function is.
    pub(crate) rows: &'static [Row; ROWS],
    /// The host's functions; before they were found, code that finds them.
    pub(crate) hosts: &'static [Code; ROWS],
    /// Where the exported functions jump to: what counts, or the host's.
    pub(crate) targets: &'static [Code; ROWS],
}

impl Wrapped {
    /// Address of the host's function; 0: there is no such number.
    pub(crate) fn host(&self, which: usize) -> usize {
        self.hosts.get(which).map_or(0, |host| host.load(Ordering::Relaxed) as usize)
    }

    /// Sets the host's function.
    pub(crate) fn set_host(&self, which: usize, to: usize) {
        if let Some(host) = self.hosts.get(which) {
            host.store(to as *mut (), Ordering::Relaxed);
        }
    }

    /// Sets where an exported function jumps to.
    pub(crate) fn set_target(&self, which: usize, to: usize) {
        if let Some(target) = self.targets.get(which) {
            target.store(to as *mut (), Ordering::Relaxed);
        }
    }
}

/// What stands for a function that gives memory where the host has none.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn no_memory() {
    naked_asm!("xor eax, eax", "ret")
}
