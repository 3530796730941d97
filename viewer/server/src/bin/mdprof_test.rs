//! `mdprof_test`: every page of a deep profile, every link on it.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    pct_server::sweep::main()
}
