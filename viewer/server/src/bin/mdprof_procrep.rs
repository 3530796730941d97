//! `mdprof_procrep`: procedure bodies as text.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    pct_server::procrep::main()
}
