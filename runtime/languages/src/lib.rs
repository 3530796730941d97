//! Frames of interpreted languages, read where the interpreter keeps them.
//!
//! The sampled thread stands still in our handler, so the interpreter's own chain of frames is whole there, but for a few
//! instructions at each call. Nothing is called, stopped or changed: everything is loads through [`pct_elf::Memory`], so
//! that the same code serves the handler, another process that is stopped, and tests.
//!
//! Only [`cpython`] so far.
//!
//! Signal safety: as the given memory; nothing here allocates, locks, calls or panics.
#![no_std]
#![forbid(unsafe_code)]

pub mod cpython;
