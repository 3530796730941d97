//! Feedback files as a whole.
//!
//! ```text
//! line 1   Mercury Compiler Feedback
//! line 2   19
//! line 3   the profiled program's name
//! then     one Mercury term, a list of components, and a full stop
//! ```

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::codec;
use crate::model::Feedback;
use crate::term::{self, Term, TermError, TermKind};

const LINE_1: &str = "Mercury Compiler Feedback";
const VERSION: &str = "19";
const ENDS: &str = "Unexpected end of file";

/// Why a feedback file was not read. `Display` gives the original tools' message, without the line feed at the end.
#[derive(Debug)]
pub struct ReadError {
    /// The file.
    pub file: PathBuf,
    /// What is wrong.
    pub cause: Cause,
}

/// What is wrong with a feedback file.
#[derive(Debug)]
#[non_exhaustive]
pub enum Cause {
    /// It cannot be opened.
    Open(io::Error),
    /// It cannot be read.
    Read(io::Error),
    /// The first line is not that of a feedback file.
    Format,
    /// Another version.
    Version,
    /// It ends too early.
    End,
    /// It is for another program.
    Program {
        /// The program that it should be for.
        expected: String,
        /// The program that it is for.
        got: String,
    },
    /// The term on this line is malformed.
    Term(String, u32),
    /// It has a component twice.
    Repeated,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file.display())?;
        match &self.cause {
            Cause::Open(e) | Cause::Read(e) => f.write_str(&system_message(e)),
            Cause::Format => f.write_str("Incorrect file format"),
            Cause::Version => write!(f, "Incorrect file format version; expected {VERSION}"),
            Cause::End => f.write_str(ENDS),
            Cause::Program { expected, got } => write!(
                f,
                "The name of the program the feedback is for didn't match, is this the right feedback file?\n\
                 Expected: '{expected}' Got: '{got}'"
            ),
            Cause::Term(message, line) => write!(f, "{message} on line {line}"),
            Cause::Repeated => {
                f.write_str("File contains more than one candidate_parallel_conjunctions component")
            }
        }
    }
}

impl std::error::Error for ReadError {}

/// Reads a feedback file. `program`: the program that it must be for.
///
/// # Errors
/// The first thing that is wrong.
pub fn read(file: &Path, program: Option<&str>) -> Result<Feedback, ReadError> {
    let read = || {
        let mut opened = fs::File::open(file).map_err(Cause::Open)?;
        let mut octets = Vec::new();
        io::Read::read_to_end(&mut opened, &mut octets).map_err(Cause::Read)?;
        parse(&String::from_utf8_lossy(&octets), program)
    };
    read().map_err(|cause| ReadError { file: file.to_owned(), cause })
}

/// Parses the text of a feedback file.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse(text: &str, program: Option<&str>) -> Result<Feedback, Cause> {
    let (first, rest) = line(text)?;
    if first != LINE_1 {
        return Err(Cause::Format);
    }
    let (second, rest) = line(rest)?;
    if second != VERSION {
        return Err(Cause::Version);
    }
    let (third, rest) = line(rest)?;
    let got = third.trim();
    if let Some(expected) = program
        && expected != got
    {
        return Err(Cause::Program { expected: expected.to_owned(), got: got.to_owned() });
    }
    let term = term::parse(rest, 4).map_err(|e| match e {
        TermError::End => Cause::End,
        TermError::Bad(message, line) => Cause::Term(message, line),
    })?;
    let TermKind::List(components) = &term.kind else {
        return Err(Cause::Term("Expected a list of components".to_owned(), term.line));
    };
    let mut feedback = Feedback { program: got.to_owned(), candidates: None };
    for component in components {
        let candidates = codec::to_component(component).map_err(|e| Cause::Term(e.0, e.1))?;
        if feedback.candidates.replace(candidates).is_some() {
            return Err(Cause::Repeated);
        }
    }
    Ok(feedback)
}

/// The first line, without its line feed, and what follows.
fn line(text: &str) -> Result<(&str, &str), Cause> {
    if text.is_empty() {
        return Err(Cause::End);
    }
    Ok(text.split_once('\n').unwrap_or((text, "")))
}

/// The text of a feedback file.
pub fn to_text(feedback: &Feedback) -> String {
    let components: Vec<Term> = feedback.candidates.iter().map(codec::component).collect();
    let term = Term::from(TermKind::List(components));
    format!("{LINE_1}\n{VERSION}\n{}\n{term}.\n", feedback.program)
}

/// The system's message for an error, without its number.
pub fn system_message(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// Writes a feedback file: first to a temporary file, which then replaces the old one and keeps its permissions. A
/// failure leaves the old file unchanged. If the path is a link, its target is written. Anything but a regular file (a
/// pipe, a device) is written directly.
///
/// # Errors
/// The system's.
pub fn write(file: &Path, feedback: &Feedback) -> io::Result<()> {
    let text = to_text(feedback);
    let there = fs::metadata(file);
    if there.as_ref().is_ok_and(|m| !m.is_file()) {
        return fs::OpenOptions::new().write(true).open(file)?.write_all(text.as_bytes());
    }
    let target = if there.is_ok() { fs::canonicalize(file)? } else { file.to_owned() };
    let folder = match target.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut aside = tempfile::NamedTempFile::new_in(folder)?;
    if let Ok(there) = there {
        // Without permission to write the file, it may not be replaced either.
        fs::OpenOptions::new().write(true).open(&target)?;
        aside.as_file().set_permissions(there.permissions())?;
    }
    aside.write_all(text.as_bytes())?;
    aside.as_file().sync_all()?;
    aside.persist(&target).map_err(|e| e.error)?;
    Ok(())
}
