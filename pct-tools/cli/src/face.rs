//! The face towards people: colour, width, quiet, a closed pipe.
//!
//! Stdout is the answer, stderr the rest. What is written to a pipe has no colour, and is cut to a width only
//! if COLUMNS says one.

use anyhow::{Context as _, Result, bail};
pub use pct_profile::text::numbers::in_words;
use std::fs::File;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

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
    /// It is a terminal.
    pub terminal: bool,
    /// Columns of the terminal, or that were asked for; `None` for a pipe or file.
    pub width: Option<usize>,
    /// Bars and lines may use Unicode.
    pub unicode: bool,
    /// Names of functions are shown whole.
    pub wide: bool,
}

impl Style {
    /// What tables on this stream may look like.
    #[must_use]
    pub fn layout(&self) -> pct_profile::text::Layout {
        let Self { color, width, unicode, wide, .. } = *self;
        pct_profile::text::Layout { width: if wide { None } else { width }, color, unicode, wide }
    }
}

/// Shows how far long work is, in one line of a terminal that is written over and over.
#[derive(Debug)]
pub struct Progress {
    shown: bool,
    began: Instant,
    drawn: Option<Instant>,
}

impl Progress {
    /// `done` of `all` of `what`.
    pub fn step(&mut self, what: &str, done: u64, all: u64) {
        // Work that is over in a moment needs no bar.
        let wait = self.drawn.map_or(Duration::from_millis(400), |_| Duration::from_millis(50));
        if !self.shown || self.drawn.unwrap_or(self.began).elapsed() < wait {
            return;
        }
        self.drawn = Some(Instant::now());
        const WIDTH: u64 = 30;
        let full = done.min(all).saturating_mul(WIDTH).checked_div(all).unwrap_or(0);
        let bar: String = (0..WIDTH).map(|at| if at < full { '#' } else { '.' }).collect();
        say_to_terminal(&format!("\r{what} [{bar}] {done}/{all}\x1b[K"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            say_to_terminal("\r\x1b[K");
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
    pub fn new(color: ColorChoice, quiet: bool, wide: bool) -> Self {
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
            width: columns.map(|columns| columns.max(40)),
            terminal,
            unicode: utf8 && terminal,
            wide,
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

    /// Sentences for stdout, each in as many lines as the reader's terminal needs.
    #[must_use]
    pub fn prose(&self, lines: &[String]) -> String {
        let layout = self.layout();
        lines.iter().map(|line| layout.prose(line)).collect()
    }

    /// A progress bar on stderr: only on a terminal, not when quiet, and only once work takes long.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress { shown: !self.quiet && self.err.terminal, began: Instant::now(), drawn: None }
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
        let mut out = open_stdout()?;
        out.write_all(bytes).and_then(|()| out.flush()).context("stdout")
    }

    /// Writes the answer in a format that may be no text: not to a terminal then.
    ///
    /// # Errors
    /// As [`Self::print`], and [`crate::errors::Usage`] for a terminal.
    pub fn print_file(&self, bytes: &[u8]) -> Result<()> {
        let text = std::str::from_utf8(bytes).is_ok_and(|text| !text.contains('\0'));
        if self.out.terminal && !text {
            let why = "this format is no text for a terminal: name a file, or send stdout to one";
            return Err(crate::errors::Usage(why.into()).into());
        }
        self.print_bytes(bytes)
    }

    /// One line about a problem that does not stop the command.
    pub fn warn(&self, line: impl std::fmt::Display) {
        say(&self.err.layout().prose(&format!("pct: {}", one_line(&line))));
    }

    /// A hint or closing line on stderr; not when quiet.
    pub fn hint(&self, line: impl std::fmt::Display) {
        if !self.quiet {
            say(&self.err.layout().prose(&one_line(&line)));
        }
    }
}

/// A message for people, without the line ends that names may have.
fn one_line(line: &impl std::fmt::Display) -> String {
    pct_text::visible(&in_words(&line.to_string())).into_owned()
}

/// For an answer that is written bit by bit.
///
/// # Errors
/// When stdout was closed: std put /dev/null there, so that no write would fail.
pub fn open_stdout() -> Result<io::StdoutLock<'static>> {
    if crate::inherited::stdout_was_closed() {
        bail!("stdout is closed");
    }
    Ok(io::stdout().lock())
}

/// Where [`say`] writes when it is not descriptor 2.
static VOICE: OnceLock<File> = OnceLock::new();

/// Writes to stderr; nobody can be told when that fails. Hidden characters of names and paths are written out.
pub fn say(text: &str) {
    say_to_terminal(&pct_text::visible_lines(text));
}

/// As [`say()`], for text with escapes of our own, such as colours: its names have no hidden characters any more.
pub fn say_to_terminal(text: &str) {
    let _ = match VOICE.get() {
        Some(mut file) => file.write_all(text.as_bytes()),
        None => io::stderr().lock().write_all(text.as_bytes()),
    };
}

/// From now on [`say`] writes to this file: descriptor 2 is something else.
pub fn speak_through(stderr: File) {
    let _ = VOICE.set(stderr);
}

/// Did the command fail only because the reader of its output has seen enough?
#[must_use]
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}
