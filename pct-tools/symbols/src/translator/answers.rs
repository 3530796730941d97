//! How answers are separated, and what can go wrong.

use std::io;

/// How many lines an address's answer has. See [`super`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answers {
    /// Measured by a run with an unknown address.
    #[default]
    Auto,
    /// This many lines each, at least 1.
    Fixed(usize),
    /// One line or more, separated by a sentinel.
    Sentinel,
}

/// What went wrong with a translator.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TranslatorError {
    /// It could not be started.
    #[error("{program}: cannot be started: {source}")]
    Start {
        /// Its name.
        program: String,
        /// The system's error.
        source: io::Error,
    },
    /// The template asks for a build-id that the object does not have.
    #[error("%b in its command line, but the object has no build-id")]
    NoBuildId,
    /// It ended before all addresses were answered.
    #[error("{program}: ended ({status}) after {answered} of {asked} addresses{}", said(.stderr))]
    TooFew {
        /// Its name.
        program: String,
        /// How it ended.
        status: String,
        /// Number of complete answers.
        answered: usize,
        /// Number of all addresses.
        asked: usize,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    /// It gave more lines than there were addresses for.
    #[error(
        "{program}: answered more than it was asked ({lines} lines for {asked} addresses); nothing of it is used"
    )]
    TooMany {
        /// Its name.
        program: String,
        /// Number of lines received.
        lines: usize,
        /// Number of addresses that it had been given.
        asked: usize,
    },
    /// It was silent for too long.
    #[error("{program}: silent for {seconds} s after {answered} of {asked} addresses; stopped{}", said(.stderr))]
    Silent {
        /// Its name.
        program: String,
        /// How long.
        seconds: u64,
        /// Number of complete answers.
        answered: usize,
        /// Number of all addresses.
        asked: usize,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    /// A line did not end.
    #[error("{program}: a line of more than {MAX_LINE} bytes; stopped")]
    LongLine {
        /// Its name.
        program: String,
    },
    /// A pipe failed.
    #[error("{program}: {source}")]
    Pipe {
        /// Its name.
        program: String,
        /// The system's error.
        source: io::Error,
    },
}

fn said(stderr: &str) -> String {
    match stderr.trim().lines().last() {
        Some(line) => format!("; it said: {line}"),
        None => String::new(),
    }
}

/// Longest line that is accepted, in bytes.
pub(super) const MAX_LINE: usize = 1 << 20;
