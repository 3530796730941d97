//! Tests the command on traces by the naive writer of the CTF tests, and on the shared data if it is available.
//!
//! Live are the modules `live` of `command` and `recordings`: processes that go on beside the test. All else is exact.

#[path = "../../../ctf/tests/it/common.rs"]
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
