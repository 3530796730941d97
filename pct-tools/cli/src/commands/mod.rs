//! One module per subcommand: `Args` is what was typed, `run` does it.

pub mod annotate;
pub mod archive;
pub mod attach;
pub mod deep;
pub mod diff;
pub mod doctor;
pub mod export;
pub mod flame;
pub mod generate;
pub mod heap;
pub mod lib;
pub mod log;
pub mod ls;
pub mod mcp;
pub mod off;
pub mod print;
pub mod report;
pub mod run;
pub mod ship;
mod sources;
mod timeline;
pub mod top;
pub mod view;
