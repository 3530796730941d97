//! Allocations are sampled: the functions that give and take memory, wrapped.
//!
//! A wrapper lowers the thread's countdown by the bytes requested and jumps to the host's function
//! ([`entry`]); it leaves no frame. Only when the countdown has run out, or the tag of an address is set,
//! Rust code runs: [`call::decide`] before the host's function, [`call::finish`] after it, [`call::freed`]
//! before a free. While the host's function runs no Rust frame is on the stack, so what it throws passes.
//!
//! Each function is forwarded to *the same* function of the next object that has it: blocks of two allocators
//! never mix. A function that only calls another one that is wrapped too (libstdc++'s `operator new` calls
//! `malloc`) is passed on uncounted: the innermost call counts.
//!
//! Python's objects do not come from malloc: [`python`] stands in front of their allocator.
//!
//! Before the constructor has run a call finds the host's function by itself and is not counted; the loader
//! makes such calls.

mod call;
mod entry;
mod hosts;
mod objects;
mod python;
mod said;
mod start;
mod wrapped;

pub(crate) use python::tell_at_end;
pub(crate) use start::{prepare, tell};
