//! The `pct` command: parse, call, exit. Everything is in the library.

fn main() -> std::process::ExitCode {
    pct_cli::main()
}
