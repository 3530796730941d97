//! Stack walking inside the signal handler.
//!
//! Compiled code says in `.eh_frame` how to get from any of its instructions to the caller. The linker's list of
//! functions and that data are *copied*, each page when a walk first reads it ([`object`]), so that neither a dlclose
//! nor a truncated file can remove what a walk reads. The handler then needs one look-up per frame ([`mod@walk`]),
//! nearly always in a cache of packed rules ([`cache`], [`rule`]). Assembly for which an object has no unwind data is
//! followed up to its return ([`emulate`]). Other code without them (JIT) is walked by frame pointers, frame by frame
//! in the same stack.
//!
//! In reading order: [`reader`] untrusted bytes; [`cfi`] and [`expr`] what the data means; [`rule`] one step in one
//! word; [`table`] and [`paged_table`] address to function; [`set`] the modules of a process; [`cache`]; [`full`] a
//! step with all registers; [`instructions`] and [`emulate`] assembly without unwind data; [`go`] Go programs, which
//! have another table; [`stack`] the only reads of foreign memory; [`mod@walk`] the loop; `locate` and [`object`]
//! finding the data and copying it; [`registry`] publishing and retiring.
//!
//! Invariants: the handler's side allocates nothing, takes no lock, calls no libc and has no panic path; each load is
//! checked; a walk ends within its budget whatever the bytes. All `unsafe` code is in [`stack`], [`os`], `pages`,
//! [`object`], [`registry`].
#![cfg_attr(not(test), no_std)]

pub mod cache;
pub mod cfi;
pub mod emulate;
pub mod expr;
pub mod full;
pub mod go;
pub mod instructions;
pub mod locate;
pub mod object;
pub mod os;
pub mod paged_table;
mod pages;
pub mod reader;
pub mod registry;
pub mod rule;
pub mod set;
pub mod stack;
pub mod table;
#[cfg(test)]
pub(crate) mod testing;
pub mod walk;

pub use cache::Cache;
pub use full::Gregs;
pub use registry::{Refreshed, Region, Registry};
pub use stack::{Extent, Live};
pub use walk::{Budget, EXACT, Met, Placed, Slot, Start, WalkEnd, Walked, walk, walk_to};
