//! Frames of interpreted languages, read where the interpreter keeps them.
//!
//! The sampled thread stands still in our handler, so the interpreter's own chain of frames is whole there, but for a
//! few instructions at each call. Nothing is called, stopped or changed: everything is loads through
//! [`pct_elf::Memory`], so that the same code serves the handler, another process that is stopped, and tests.
//!
//! [`cpython`], [`hotspot`] and [`v8`] read one runtime each. [`mod@weave`] puts frames of CPython between the native
//! ones.
//!
//! Signal safety: as the given memory; nothing here allocates, locks, calls or panics.
#![no_std]
#![forbid(unsafe_code)]

pub mod cpython;
pub mod fields;
pub mod hotspot;
pub mod v8;
pub mod weave;

use fields::Fields;
use pct_elf::Memory;

/// The memory of a process in which a thread stands still.
///
/// Reading the own process wants to know what is mapped, which costs a system call a page. These methods say what the
/// kernel need not be asked for, what it must be asked for again, and what only the kernel can read without harm. A
/// memory whose reads are all made by the kernel needs none of them.
pub trait ThreadMemory: Memory {
    /// All from `from` to before `to` is mapped as long as the thread stands: the living owner of this memory names
    /// it. The memory may forget what it was told before.
    fn trust(&self, from: u64, to: u64) {
        let _ = (from, to);
    }

    /// Whether the page of `at` is mapped now, whatever it was before.
    fn look_again(&self, at: u64) -> bool {
        let _ = at;
        true
    }

    /// A word of what other threads own: they may give its memory back at any moment, also between a look at whether it
    /// is mapped and the load.
    fn read_of_others(&self, at: u64) -> Option<u64> {
        self.read_word(at)
    }

    /// These words of what lies at `object`; `None`: not all of them can be read.
    #[inline(always)]
    fn read_fields<const N: usize>(&self, object: u64, fields: &Fields<N>) -> Option<[u64; N]> {
        let first = object.checked_add(fields.span().0)?;
        let mut words = [0; N];
        for (word, offset) in words.iter_mut().zip(fields.offsets()) {
            *word = self.read_word(first.checked_add(offset)?)?;
        }
        Some(words)
    }
}
