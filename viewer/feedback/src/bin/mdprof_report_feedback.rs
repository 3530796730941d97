//! `mdprof_report_feedback`: shows a feedback file.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use pct_feedback::options::{Opt, Takes, parse};
use pct_feedback::{file, report};

const USAGE: &str = "\
usage: mdprof_report_feedback [options] FILE

Prints what a feedback file says.

options:
  -h, --help          print this
  -V, --version       print the version
  -v, --verbosity N   has no effect; scripts of the original tool give it

example: mdprof_report_feedback prog.feedback";

const OPTIONS: &[Opt] = &[
    Opt { name: "help", aliases: &[], short: Some('h'), takes: Takes::Flag },
    Opt { name: "version", aliases: &[], short: Some('V'), takes: Takes::Flag },
    Opt { name: "verbosity", aliases: &[], short: Some('v'), takes: Takes::Int },
];

fn main() -> ExitCode {
    let mut args = std::env::args_os().map(|a| a.to_string_lossy().into_owned());
    let program = args.next().unwrap_or_default();
    let program =
        Path::new(&program).file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let parsed = match parse(OPTIONS, args) {
        Ok(parsed) => parsed,
        Err(message) => {
            eprintln!("{program}: error parsing options: {message}\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    match parsed.int("verbosity", 2) {
        ..0 => eprintln!("{program}: warning: verbosity level should not be negative."),
        5.. => eprintln!("{program}: warning: verbosity level should not exceed 4."),
        _ => {}
    }
    if parsed.flag("version", false) {
        let (version, arch) = (env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
        return print(&format!("{program}: Mercury deep profiler\nversion: {version}, on {arch}.\n"));
    }
    if parsed.flag("help", false) {
        return print(&format!("{USAGE}\n"));
    }
    let [name] = parsed.arguments.as_slice() else {
        eprintln!("{USAGE}");
        return ExitCode::FAILURE;
    };
    match file::read(Path::new(name), None) {
        Ok(feedback) => print(&pct_text::visible_lines(&report::report(&feedback))),
        Err(e) => {
            eprintln!("{program}: {e}\n");
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("stdout: {e}");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}
