//! `mdprof`: runs the `mdprof_cgi` beside it, without arguments. A web server may run it in place of `mdprof_cgi`.
#![forbid(unsafe_code)]

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let Some(dir) = std::env::current_exe().ok().and_then(|p| p.parent().map(std::path::Path::to_owned))
    else {
        eprintln!("mdprof: its own directory is not known");
        return ExitCode::FAILURE;
    };
    let mut path = dir.clone().into_os_string();
    if let Some(rest) = std::env::var_os("PATH").filter(|p| !p.is_empty()) {
        path.push(":");
        path.push(rest);
    }
    // Arguments are ignored: the query is in QUERY_STRING.
    let error = Command::new(dir.join("mdprof_cgi")).env("PATH", path).exec();
    eprintln!("mdprof: {}: {error}", dir.join("mdprof_cgi").display());
    ExitCode::FAILURE
}
