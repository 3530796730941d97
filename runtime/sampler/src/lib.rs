//! The sampler core: what runs inside a profiled program.
//!
//! One core for all ways in: preloaded, linked, dlopened by attach, injected as a blob. It talks to the kernel by raw
//! system calls, has no thread-local storage, allocates by mapping memory beforehand, and has no panic path; tests of
//! the shells check the finished objects for that.
//!
//! ```text
//! signal -> handler -> rings (whose ring?) -> log (segments in the mapped file)
//!              |  \-> regions, counters        ^
//!              |                               | keep chain: regions, stacks, threads
//!            tick ---> housekeeper -> threads, regions, file
//! ```
//!
//! The folders are the way of a sample, from the ground up:
//!
//! - [`sys`]: the kernel by raw calls, the processor ([`sys::arch`]), locks, text without allocation;
//! - [`record`]: what is written: [`record::log`], [`record::rings`], [`record::stacks`], [`record::time`];
//! - [`code`]: which code there is: [`code::maps`], [`code::regions`], [`code::callers`];
//! - [`pct_unwind`], a crate of its own: stacks by the objects' unwind data;
//! - [`signal`]: [`signal::clock`] expires, [`signal::handler`] records a sample;
//! - [`heap`]: samples of allocations, taken in wrappers and not in a handler;
//! - [`waits`]: who waits for what, told by wrappers of locks;
//! - [`process`]: start, threads, the housekeeper, exec and end: [`process::session`].
//!
//! Invariants: what a handler decides by is private memory, never the mapped file; a handler waits for
//! nothing; every sample that was due is written or counted under a cause.
#![cfg_attr(not(test), no_std)]

pub mod api;

pub mod code;
pub mod heap;
pub mod process;
pub mod record;
pub mod signal;
pub mod sys;
pub mod waits;
