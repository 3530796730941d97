//! The commands as programs, from outside.
//!
//! `live::` are real servers and profiled programs. All others are exact: what a command says of a file that was made
//! here.

mod addr2func;
mod beside;
mod deep_memory;
mod foreign;
mod foreign_matrix;
mod golden;
mod hidden;
mod mcp;
#[allow(dead_code, reason = "the tests of pct-profile use more of it")]
#[path = "../../../profile/tests/it/memory/program.rs"]
mod program;
mod support;
mod view;
mod view_waits;

mod live {
    mod charts;
    mod parts;
    mod run;
    mod timeline;
    mod view_server;
}
