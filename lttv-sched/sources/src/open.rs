//! Finds out what a path is and opens all traces there.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lttv_ctf::{CtfSource, PACKET_MAGIC};
use lttv_engine::source::{ReadError, Source};

use crate::pct::{PctError, PctSource};

/// Most .pct files that are opened in a directory.
const MOST_FILES: usize = 100_000;

/// A trace that was opened.
pub struct Opened {
    /// The source for the engine.
    pub source: Arc<dyn Source>,
    /// The recording, if it is one.
    pub recording: Option<Arc<PctSource>>,
    /// Parts of it that cannot be read. The rest can.
    pub lost: Vec<ReadError>,
    /// Names by which users may refer to it: its path, its folder or file, its host.
    pub names: Vec<String>,
    /// What all copies of the trace share and no other trace has, if there is such a thing.
    pub fingerprint: Option<Vec<u8>>,
    /// Name of its clock, if its origin is not the Unix epoch. Such times can only be compared with those of the same
    /// clock.
    pub foreign_clock: Option<String>,
}

/// Why a path cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A CTF trace is damaged, or there is none.
    #[error(transparent)]
    Ctf(#[from] lttv_ctf::OpenError),
    /// A sample log is damaged.
    #[error(transparent)]
    Pct(#[from] PctError),
    /// The path holds neither.
    #[error("{0}: neither a CTF trace nor a .pct file, nor a directory with one of them")]
    Unknown(PathBuf),
    /// The path is a stream of a trace and not the trace.
    #[error("{0}: a stream of a CTF trace; name the folder that it is in")]
    Stream(PathBuf),
    /// The file system returned an error.
    #[error("{path}: {error}", path = .path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
}

/// Opens everything at a path: a .pct file, a directory with such files, a CTF trace, or a directory with CTF traces
/// below. There is one result per trace, so that a damaged one does not hide the others.
pub fn open(path: &Path, options: &lttv_ctf::Options) -> Vec<Result<Opened, OpenError>> {
    let meta = match std::fs::metadata(path) {
        Ok(m) => m,
        Err(error) => return vec![Err(OpenError::Io { path: path.to_path_buf(), error })],
    };
    if meta.is_file() {
        return match is_pct(path) {
            true => vec![pct(path)],
            // The metadata file stands for its directory.
            false if path.file_name().is_some_and(|n| n == "metadata") => {
                ctf(path.parent().unwrap_or(Path::new(".")), options)
            }
            false if is_stream(path) => vec![Err(OpenError::Stream(path.to_path_buf()))],
            false => vec![Err(OpenError::Unknown(path.to_path_buf()))],
        };
    }
    let mut found: Vec<_> = logs(path).iter().map(|p| pct(p)).collect();
    match CtfSource::open(path, options) {
        Ok(all) => found.extend(all.into_iter().map(|t| t.map(of_ctf).map_err(OpenError::Ctf))),
        Err(lttv_ctf::OpenError::NoTrace { path }) if found.is_empty() => {
            found.push(Err(OpenError::Unknown(path)))
        }
        Err(lttv_ctf::OpenError::NoTrace { .. }) => {}
        Err(e) => found.push(Err(OpenError::Ctf(e))),
    }
    found
}

fn ctf(dir: &Path, options: &lttv_ctf::Options) -> Vec<Result<Opened, OpenError>> {
    match CtfSource::open(dir, options) {
        Ok(all) => all.into_iter().map(|t| t.map(of_ctf).map_err(OpenError::Ctf)).collect(),
        Err(e) => vec![Err(OpenError::Ctf(e))],
    }
}

fn of_ctf(source: CtfSource) -> Opened {
    Opened {
        recording: None,
        lost: source.lost(),
        names: source.trace().names(),
        fingerprint: source.fingerprint(),
        foreign_clock: source.foreign_clock(),
        source: Arc::new(source),
    }
}

fn pct(path: &Path) -> Result<Opened, OpenError> {
    let source = Arc::new(PctSource::open(path)?);
    let file = path.file_name().unwrap_or(path.as_os_str());
    let names = [path.as_os_str(), file].map(|name| name.to_string_lossy().into_owned()).into();
    Ok(Opened {
        recording: Some(source.clone()),
        source,
        lost: Vec::new(),
        names,
        fingerprint: None,
        foreign_clock: None,
    })
}

fn is_pct(path: &Path) -> bool {
    begins(path) == Some(pct_format::layout::MAGIC.to_le_bytes())
}

/// Whether it begins as a packet does, in either byte order.
fn is_stream(path: &Path) -> bool {
    begins(path)
        .is_some_and(|head| [PACKET_MAGIC, PACKET_MAGIC.swap_bytes()].contains(&u32::from_le_bytes(head)))
}

/// The first octets of a file.
fn begins<const N: usize>(path: &Path) -> Option<[u8; N]> {
    let mut head = [0; N];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head)).ok()?;
    Some(head)
}

/// Sample logs in a directory (not below it), sorted.
fn logs(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let paths = entries.flatten().map(|e| e.path());
    let mut found: Vec<PathBuf> =
        paths.filter(|p| p.extension().is_some_and(|e| e == "pct") && p.is_file()).take(MOST_FILES).collect();
    found.sort();
    found
}
