//! What the classic programs have in common: help, version, wrong usage, a reader that has seen enough.

use std::io::{self, Write as _};
use std::process::ExitCode;

/// A program: its name and what `--help` says.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) usage: &'static str,
}

impl Program {
    /// Runs it with the command line; wrong usage is said, with the right one.
    pub(crate) fn run(&self, body: fn(lexopt::Parser) -> Result<ExitCode, lexopt::Error>) -> ExitCode {
        body(lexopt::Parser::from_env()).unwrap_or_else(|e| {
            complain!("{}: {e}\n{}", self.name, self.usage);
            ExitCode::from(2)
        })
    }

    /// `--help`.
    pub(crate) fn help(&self) -> ExitCode {
        self.finish(writeln!(io::stdout(), "{}", self.usage))
    }

    /// `--version`.
    pub(crate) fn version(&self) -> ExitCode {
        self.finish(writeln!(io::stdout(), "{} {}", self.name, env!("CARGO_PKG_VERSION")))
    }

    /// How writing to stdout went; a reader that has seen enough is no failure.
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
