//! `test-guard PROGRAM ARGUMENTS...`: what `tests/run` starts each test program by (`pct_runner::guard`).
#![forbid(unsafe_code)]

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};
use nix::sys::signal;
use pct_runner::guard::{self, Ended};

fn main() -> Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let program = PathBuf::from(arguments.next().context("usage: test-guard PROGRAM ARGUMENTS...")?);
    let arguments: Vec<String> = arguments.collect();
    if arguments.iter().any(|argument| argument == "--list") {
        // Nothing runs: the runner only asks for names.
        return Err(Command::new(program).args(arguments).exec().into());
    }
    match guard::run(&program, &arguments)? {
        Ended::Exited(status) => Ok(u8::try_from(status).map_or(ExitCode::FAILURE, ExitCode::from)),
        Ended::Killed(by) => {
            // So the runner says by which signal. Rust's own handler of SIGSEGV takes the first one, and then is no
            // more.
            signal::raise(by)?;
            signal::raise(by)?;
            Ok(ExitCode::FAILURE)
        }
    }
}
