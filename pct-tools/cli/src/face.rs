//! The face towards people: colour, width, quiet, a closed pipe.
//!
//! Stdout is the answer, stderr the rest. What is written to a pipe has no colour and is not cut to a width.

use anyhow::{Context as _, Result};
pub use pct_profile::text::numbers::in_words;
use std::io::{self, IsTerminal as _, Write as _};

/// When to colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How one output stream is written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Style {
    /// ANSI colours.
    pub color: bool,
    /// Columns of the terminal; `None` for a pipe or file.
    pub width: Option<usize>,
    /// Bars and lines may use Unicode.
    pub unicode: bool,
}

impl Style {
    /// What tables on this stream may look like.
    #[must_use]
    pub fn layout(&self) -> pct_profile::text::Layout {
        pct_profile::text::Layout { width: self.width, color: self.color, unicode: self.unicode }
    }
}

/// Shows how far long work is.
#[derive(Debug)]
pub struct Progress {
    bar: Option<indicatif::ProgressBar>,
    began: std::time::Instant,
    shown: bool,
}

impl Progress {
    /// `done` of `all` of `what`.
    pub fn step(&mut self, what: &str, done: u64, all: u64) {
        // Work that is over in a moment needs no bar.
        if !self.shown || self.began.elapsed().as_millis() < 400 {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = indicatif::ProgressBar::new(all);
            if let Ok(style) = indicatif::ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len}") {
                bar.set_style(style.progress_chars("##."));
            }
            bar
        });
        bar.set_length(all);
        bar.set_message(what.to_owned());
        bar.set_position(done);
        bar.tick();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The two streams and what the user said about them.
#[derive(Clone, Copy, Debug)]
pub struct Face {
    /// For the answer.
    pub out: Style,
    /// For everything else.
    pub err: Style,
    /// No hints, no closing lines, no progress.
    pub quiet: bool,
}

impl Face {
    /// Looks at the streams and the environment.
    #[must_use]
    pub fn new(color: ColorChoice, quiet: bool) -> Self {
        let env = |name: &str| std::env::var(name).unwrap_or_default();
        let plain = !env("NO_COLOR").is_empty() || env("TERM") == "dumb";
        let locale =
            [env("LC_ALL"), env("LC_CTYPE"), env("LANG")].into_iter().find(|value| !value.is_empty());
        let utf8 = locale.is_some_and(|value| {
            let value = value.to_ascii_lowercase();
            value.contains("utf-8") || value.contains("utf8")
        });
        let style = |terminal: bool, columns: Option<usize>| Style {
            color: match color {
                ColorChoice::Auto => terminal && !plain,
                ColorChoice::Always => true,
                ColorChoice::Never => false,
            },
            width: if terminal { Some(columns.unwrap_or(80).max(40)) } else { None },
            unicode: utf8 && terminal,
        };
        let out = io::stdout();
        let err = io::stderr();
        Self {
            out: style(out.is_terminal(), crate::term::columns(&out)),
            err: style(err.is_terminal(), crate::term::columns(&err)),
            quiet,
        }
    }

    /// What tables on stdout may look like.
    #[must_use]
    pub fn layout(&self) -> pct_profile::text::Layout {
        self.out.layout()
    }

    /// A progress bar on stderr: only on a terminal, not when quiet, and only once work takes long.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let shown = !self.quiet && io::stderr().is_terminal();
        Progress { bar: None, began: std::time::Instant::now(), shown }
    }

    /// Writes the answer.
    ///
    /// # Errors
    /// What the stream says; a closed pipe is turned into success by the caller of the command.
    pub fn print(&self, text: &str) -> Result<()> {
        self.print_bytes(text.as_bytes())
    }

    /// Writes the answer, which need not be text.
    ///
    /// # Errors
    /// As [`Self::print`].
    pub fn print_bytes(&self, bytes: &[u8]) -> Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).context("stdout")
    }

    /// One line about a problem that does not stop the command.
    pub fn warn(&self, line: impl std::fmt::Display) {
        say(&format!("pct: {}\n", in_words(&line.to_string())));
    }

    /// A hint or closing line on stderr; not when quiet.
    pub fn hint(&self, line: impl std::fmt::Display) {
        if !self.quiet {
            say(&format!("{line}\n"));
        }
    }
}

/// Writes to stderr; nobody can be told when that fails.
pub fn say(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Did the command fail only because the reader of its output has seen enough?
#[must_use]
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}
