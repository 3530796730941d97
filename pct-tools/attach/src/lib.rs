//! Attaching to running processes: facts, choice of method, remote calls, injection, sampling from outside.
//!
//! One attach goes through three stages, and each is a value that can be looked at:
//!
//! ```text
//! facts::read(pid) -> Target      everything that /proc and the target's memory tell; stops nothing
//! choose(&Facts, &Wish) -> Plan   pure: which method, and what speaks against each other one
//! executor(Target, Plan)          ptrace, with an undo list
//! ```
//!
//! Reading order: [`choose`], [`facts`], [`image`], [`memory`], [`gadgets`], [`ptrace`].
//!
//! Do no harm: the target must survive `kill -9` of the controller at any instruction; every remote call is therefore a
//! chain that restores the thread by itself ([`ptrace::frame`]).
#![deny(unsafe_code)]

pub mod blob;
pub mod children;
pub mod choose;
pub mod entry;
pub mod facts;
pub mod gadgets;
mod go;
pub mod image;
pub mod inject;
pub mod inject_error;
pub mod linger;
#[expect(unsafe_code, reason = "the fence around mmap(2)")]
pub mod mapped;
pub mod memory;
pub mod objects;
pub mod outside;
pub mod ptrace;
pub mod recording;
pub mod regions;
pub mod safe;
pub mod stack;
pub mod subject;
pub mod tasks;
pub mod unwind;
