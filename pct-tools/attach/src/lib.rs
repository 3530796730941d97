//! Attaching to running processes: facts, choice of method, calls in the target, injection, sampling from outside.
//!
//! An attach has three stages. The result of each is a value that can be printed:
//!
//! ```text
//! facts::read(pid) -> Target      everything that /proc and the target's memory tell; stops nothing
//! choose(&Facts, &Wish) -> Plan   pure: which method, and what speaks against each other one
//! executor(Target, Plan)          ptrace, with an undo list
//! ```
//!
//! Reading order: [`choose`], [`facts`], [`image`], [`memory`], [`gadgets`], [`ptrace`].
//!
//! Do no harm: the target must survive `kill -9` of the controller at any instruction. Every call in the target is
//! therefore a chain that restores the thread by itself ([`ptrace::frame`]).
#![deny(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

pub mod blob;
pub mod children;
pub mod choose;
mod delays;
mod dispatch;
pub mod facts;
pub mod gadgets;
mod go;
mod headers;
pub mod hotspot;
pub mod image;
pub mod inject;
pub mod inject_error;
pub mod limits;
pub mod loaded;
pub mod loading;
#[expect(unsafe_code, reason = "the fence around mmap(2)")]
pub mod mapped;
pub mod memory;
pub mod objects;
pub mod outside;
#[cfg_attr(
    not(test),
    expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_possible_wrap,
        reason = "the fence around ptrace(2): registers hold ints, negated errnos and addresses alike"
    )
)]
pub mod ptrace;
pub mod recording;
pub mod regions;
pub mod rights;
pub mod safe;
pub mod script;
pub mod subject;
pub mod tasks;
mod turn;
pub mod unlinked;
pub mod unwind;
