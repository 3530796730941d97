//! The command on traces that the naive writer of the CTF tests makes, and on the shared data where it is there.

#[path = "../../../ctf/tests/common/mod.rs"]
mod common;

mod command;
mod costs;
mod events;
mod info;
mod recordings;
mod states;
mod stats;
mod support;
mod threads;
