//! Tests the command on traces by the naive writer of the CTF tests, and on the shared data if it is available.

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
