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
//! Reading order: [`sys`] and [`arch`] (the kernel and the processor), [`text`], [`options`], [`argv`], [`maps`], [`elf`],
//! [`time`] (tools), [`lock`], [`log`], [`rings`], [`stacks`], [`regions`] (data), [`clock`], [`threads`], [`mod@file`],
//! [`housekeeper`], [`handler`], [`session`] (what happens).
//!
//! Invariants: what a handler decides by is private memory, never the mapped file; a handler waits for nothing; every sample
//! that was due is written or counted under a cause.
#![cfg_attr(not(test), no_std)]

pub mod api;
pub mod arch;
pub mod sys;

pub mod argv;
pub mod elf;
pub mod maps;
pub mod options;
pub mod text;
pub mod time;

pub mod lock;
pub mod log;
pub mod regions;
pub mod rings;
pub mod spent;
pub mod stacks;

pub mod boot;
pub mod callers;
pub mod clock;
pub mod file;
pub mod handler;
pub mod housekeeper;
pub mod leaving;
pub mod mark;
pub mod masks;
pub mod note;
pub mod session;
pub mod status;
pub mod threads;

pub mod unwind;
