//! The program `pct-fleet`.

fn main() -> std::process::ExitCode {
    pct_fleet::cli::main()
}
