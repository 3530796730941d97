//! Reads other recorders' data as a profile.
//!
//! A file is recognised by its first octets: `PERFILE2` is perf.data, gzip or protobuf is pprof, otherwise
//! text: `perf script` output or folded stacks.
//! Damage is reported with its position, and the rest is still read.

pub mod folded;
pub mod perf_data;
pub mod perf_script;
pub mod pprof;
mod problem;

use pct_profile::Profile;
use problem::Problem;
use std::path::{Path, PathBuf};

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
    /// No sample was found in it.
    #[error("{path}: {place}: {problem}", path = path.display())]
    Malformed {
        /// Position: a line or an octet.
        path: PathBuf,
        /// Line or octet.
        place: String,
        /// What was expected and what was found.
        problem: String,
    },
}

/// Most octets that are unpacked: a gzip of a few octets may promise any size.
const MOST: u64 = 1 << 30;

fn looks_like_text(head: &[u8]) -> bool {
    !head.is_empty()
        && !head.contains(&0)
        && head.iter().all(|b| *b >= 0x20 || matches!(b, b'\n' | b'\t' | b'\r'))
}

/// Reads a foreign profile.
///
/// # Errors
/// When the file cannot be read or holds no sample.
pub fn import(path: &Path) -> Result<Profile, ImportError> {
    import_with(path, false)
}

/// Like [`import`], but keeps samples in order of time if the format has an order.
///
/// # Errors
/// As [`import`].
pub fn import_with(path: &Path, timeline: bool) -> Result<Profile, ImportError> {
    let unreadable = |why| ImportError::Unreadable { path: path.to_owned(), why };
    let bytes = pct_profile::load::whole::read(path).map_err(unreadable)?;
    parse_with(&bytes, path, timeline)
}

/// Reads a foreign profile from memory; `path` names it in messages.
///
/// # Errors
/// As [`import`].
pub fn parse(bytes: &[u8], path: &Path) -> Result<Profile, ImportError> {
    parse_with(bytes, path, false)
}

/// Like [`parse`], but keeps samples in order of time if the format has an order.
///
/// # Errors
/// As [`import`].
pub fn parse_with(bytes: &[u8], path: &Path, timeline: bool) -> Result<Profile, ImportError> {
    use std::io::Read as _;
    let unreadable = |why| ImportError::Unreadable { path: path.to_owned(), why };
    let unpacked;
    let bytes = if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut out = Vec::new();
        flate2::read::MultiGzDecoder::new(bytes).take(MOST).read_to_end(&mut out).map_err(unreadable)?;
        if out.starts_with(b"\x89PCT") {
            let problem = "a .pct file inside; unpack it first (gunzip)".into();
            return Err(ImportError::Malformed { path: path.to_owned(), place: "gzip".into(), problem });
        }
        unpacked = out;
        &unpacked[..]
    } else {
        bytes
    };
    let result = if bytes.starts_with(b"PERFILE2") || bytes.starts_with(b"2ELIFREP") {
        perf_data::read(bytes, timeline)
    } else if looks_like_text(&bytes[..bytes.len().min(4096)]) {
        let text = String::from_utf8_lossy(bytes);
        if perf_script::looks_like(&text) { perf_script::read(&text) } else { folded::read(&text) }
    } else {
        pprof::read(bytes)
    };
    let malformed =
        |p: Problem| ImportError::Malformed { path: path.to_owned(), place: p.place, problem: p.problem };
    let mut profile = result.map_err(malformed)?;
    if profile.cells.iter().all(|cell| cell.weight.is_zero()) {
        let why = profile.account.notes.first().map(|n| format!(" ({n})")).unwrap_or_default();
        let problem = format!("no sample with a stack in it{why}");
        return Err(malformed(Problem { place: "the whole file".into(), problem }));
    }
    profile.title = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(profile)
}
