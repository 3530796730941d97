//! The commands as programs, from outside.
//!
//! `live::` are real servers and profiled programs. All others are exact: what a command says of a file that was made
//! here.

mod addr2func;
mod beside;
mod golden;
mod mcp;
mod view;

mod live {
    mod run;
    mod timeline;
    mod view_server;
}
