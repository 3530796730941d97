//! What the classic programs share: help, version, wrong usage, a closed output pipe.

use pct_text::complain;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// A program: its name and its `--help` text.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) usage: &'static str,
}

impl Program {
    /// Runs it with the command line. Wrong usage prints an error and the right usage.
    pub(crate) fn run(&self, body: fn(lexopt::Parser) -> Result<ExitCode, lexopt::Error>) -> ExitCode {
        body(lexopt::Parser::from_env()).unwrap_or_else(|e| {
            complain!("{}: {e}", self.name);
            let _ = writeln!(io::stderr(), "{}", self.usage);
            ExitCode::from(2)
        })
    }

    /// Prints `--help`.
    pub(crate) fn help(&self) -> ExitCode {
        self.finish(writeln!(io::stdout(), "{}", self.usage))
    }

    /// Prints `--version`.
    pub(crate) fn version(&self) -> ExitCode {
        self.finish(writeln!(io::stdout(), "{} {}", self.name, env!("CARGO_PKG_VERSION")))
    }

    /// The exit code after writing to stdout. A closed pipe is no failure.
    pub(crate) fn finish(&self, written: io::Result<()>) -> ExitCode {
        match written {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
                complain!("{}: stdout: {e}", self.name);
                ExitCode::FAILURE
            }
            _ => ExitCode::SUCCESS,
        }
    }
}
