//! `mdprof_create_feedback`: makes feedback for a compiler from a deep profile.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use pct_feedback::create;

fn main() -> ExitCode {
    let mut args = std::env::args_os().map(|a| a.to_string_lossy().into_owned());
    let program = args.next().unwrap_or_default();
    let program =
        Path::new(&program).file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let mut out = io::stdout().lock();
    let mut err = io::stderr();
    let status = create::run(&program, args, &mut out, &mut err).and_then(|s| out.flush().map(|()| s));
    match status {
        Ok(status) => ExitCode::from(status),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{program}: {e}");
            ExitCode::FAILURE
        }
    }
}
