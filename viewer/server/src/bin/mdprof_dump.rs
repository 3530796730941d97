//! `mdprof_dump`: a deep profile as text, or all its figures as JSON lines.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    pct_server::dump::main()
}
