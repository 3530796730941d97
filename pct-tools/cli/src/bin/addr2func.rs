//! `addr2func NAMES [ADDR...]`: addresses to `function+offset` by a name list; see `pct_symbols::addr2func`.
#![forbid(unsafe_code)]

use std::io;
use std::process::ExitCode;

fn main() -> ExitCode {
    pct_symbols::addr2func::main_with(std::env::args_os().skip(1), io::stdin(), io::stdout(), io::stderr())
}
