//! The `pct` command: parse, call, exit. Everything is in the library.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    pct_cli::main()
}
