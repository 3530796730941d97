//! `mdprof_merge`: deep profiles of several runs of a program as one.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    pct_server::merge::main()
}
