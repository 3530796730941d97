//! `mdprof_cgi`: pages of deep profiles for a web server.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    pct_server::cgi::main()
}
