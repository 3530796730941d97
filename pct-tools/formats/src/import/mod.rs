//! Reads other recorders' data as a profile.
//!
//! A file is recognised by its first octets: `PERFILE2` is perf.data, `FLR` Java Flight Recorder's; what has a NUL
//! is protobuf and so pprof; the rest is text: JSON (speedscope, V8, Gecko, trace events), callgrind's lines,
//! Austin's, `perf script` output or folded stacks. `perf record --threads` writes a folder. What is packed by gzip
//! is unpacked first. A text is known by its form as a whole: a line that does not fit is an error, and what the
//! file seems to be is named (`kinds`).
//!
//! A number is shown in the unit that the file gives, or not at all: see [`pct_profile::Quantity`].

mod austin;
mod callgrind;
pub mod folded;
mod jfr;
mod json;
mod kinds;
mod objects;
pub mod perf_data;
pub mod perf_script;
pub mod pprof;
mod problem;
mod samples;
mod types;
mod unpack;
mod wanted;

use pct_profile::Profile;
use problem::Problem;
use std::path::{Path, PathBuf};

pub use wanted::Wanted;

/// Why a file could not be imported at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// It could not be read.
    #[error("{path}: {why}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        why: std::io::Error,
    },
    /// It is not what can be read, or no sample was found in it.
    #[error("{path}: {place}: {problem}", path = path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line or octet, or a part of the file.
        place: String,
        /// What was expected and what was found.
        problem: String,
    },
}

/// Reads a foreign profile: a file, or the folder of `perf record --threads`.
///
/// # Errors
/// When the file cannot be read, is of no known form, or holds no sample.
pub fn import(path: &Path) -> Result<Profile, ImportError> {
    import_with(path, Wanted::default())
}

/// Like [`import`], but reads what is wanted of it.
///
/// # Errors
/// As [`import`]; also when the file has not what is wanted.
pub fn import_with(path: &Path, wanted: Wanted<'_>) -> Result<Profile, ImportError> {
    let unreadable = |why| ImportError::Unreadable { path: path.to_owned(), why };
    let main = perf_data::folder::main_file(path).unwrap_or_else(|| path.to_owned());
    let bytes = pct_profile::load::whole::read(&main).map_err(unreadable)?;
    let threads =
        if main == path { Vec::new() } else { perf_data::folder::others(path).map_err(unreadable)? };
    parse_files(&bytes, &threads, path, wanted)
}

/// Reads a foreign profile from memory; `path` names it in messages.
///
/// # Errors
/// As [`import`].
pub fn parse(bytes: &[u8], path: &Path) -> Result<Profile, ImportError> {
    parse_with(bytes, path, Wanted::default())
}

/// Like [`parse`], but reads what is wanted of it.
///
/// # Errors
/// As [`import_with`].
pub fn parse_with(bytes: &[u8], path: &Path, wanted: Wanted<'_>) -> Result<Profile, ImportError> {
    parse_files(bytes, &[], path, wanted)
}

fn parse_files(
    bytes: &[u8],
    threads: &[(String, Vec<u8>)],
    path: &Path,
    wanted: Wanted<'_>,
) -> Result<Profile, ImportError> {
    let malformed =
        |p: Problem| ImportError::Malformed { path: path.to_owned(), place: p.place, problem: p.problem };
    let unpacked = unpack::gzip(bytes).map_err(malformed)?;
    let mut profile = recognised(&unpacked.bytes, threads, wanted).map_err(malformed)?;
    if profile.cells.iter().all(|cell| cell.weight.is_zero()) {
        let why = profile.account.notes.first().map(|n| format!(" ({n})")).unwrap_or_default();
        let problem = format!("no sample with a stack in it{why}");
        return Err(malformed(Problem { place: "the whole file".into(), problem }));
    }
    if unpacked.left_out > 0 {
        profile
            .account
            .note_gap(format!("{} octets behind the packed data were left out", unpacked.left_out));
    }
    profile.title = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(profile)
}

fn recognised(bytes: &[u8], threads: &[(String, Vec<u8>)], wanted: Wanted<'_>) -> Result<Profile, Problem> {
    if let Some(problem) = kinds::known_binary(bytes) {
        return Err(problem);
    }
    if bytes.starts_with(b"PERFILE2") || bytes.starts_with(b"2ELIFREP") {
        return perf_data::read(bytes, threads, wanted);
    }
    if bytes.starts_with(jfr::MAGIC) {
        return jfr::read(bytes, wanted);
    }
    if !kinds::is_text(bytes) {
        return pprof::read(bytes, wanted.sample_type);
    }
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut profile = if json::looks_like(text) {
        json::read(text, wanted)?
    } else if austin::looks_like(text) {
        only_default(wanted, "Austin's text").and_then(|()| austin::read(text))?
    } else if callgrind::looks_like(text) {
        callgrind::read(text, wanted)?
    } else if perf_script::looks_like(text) {
        let read = perf_script::read(text, wanted.timeline, wanted.sample_type);
        read.map_err(|problem| kinds::named(text, problem))?
    } else {
        let read = only_default(wanted, "folded text").and_then(|()| folded::read(text));
        read.map_err(|problem| kinds::named(text, problem))?
    };
    if text.contains('\u{fffd}') {
        profile.account.note("names with octets that are no UTF-8 are shown with \u{fffd} in their place");
    }
    Ok(profile)
}

/// Refuses the choice of a sample type where a file has but one, or none can be chosen.
fn only_default(wanted: Wanted<'_>, what: &str) -> Result<(), Problem> {
    if wanted.sample_type.is_none() {
        return Ok(());
    }
    let problem = format!("{what} has no sample types to choose from");
    Err(Problem { place: "--type".into(), problem })
}
