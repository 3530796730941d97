//! Parses the command line, runs the command, exits.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use lttv_cli::args::Args;

fn main() -> ExitCode {
    lttv_cli::run(&Args::parse())
}
