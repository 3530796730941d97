//! What recordings say of themselves in their headers: enough to choose among thousands of files without
//! reading them.

use super::alive;
use pct_format::header::State;
use pct_format::layout::{BLOCK_BYTES, Text, header as at};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A process image, by what no other one has in common with it. (An image that executes the same program
/// again is the same here; the numbers of its files begin anew.)
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ImageKey {
    /// The boot of the machine.
    pub boot_id: [u8; 16],
    /// Process id.
    pub pid: u32,
    /// When the process began, in the kernel's ticks since the boot.
    pub start_ticks: u64,
    /// Path of the executable.
    pub exe: Vec<u8>,
}

/// A recording, as its header describes it.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The file.
    pub path: PathBuf,
    /// The service: what was said when it was recorded, else the program's name.
    pub service: String,
    /// Its version; empty if nothing was said.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// The process image that it is of.
    pub image: ImageKey,
    /// Number of files of the same image before this one.
    pub number: u64,
    /// Nanoseconds since 1970 of its begin, and of the last time that it wrote down.
    pub start_ns: u64,
    /// See `start_ns`.
    pub end_ns: u64,
    /// CPU nanoseconds that the process had used when this file was begun; 0 = not known.
    pub cpu_at_start_ns: u64,
    /// CPU nanoseconds that the process had used at `end_ns`; 0 = not known.
    pub cpu_at_end_ns: u64,
    /// Bytes on the disk.
    pub bytes: u64,
    /// A living process writes it.
    pub running: bool,
    /// What its writer noted of itself.
    pub state: State,
    /// Its process is seen to live, though it may write another file by now.
    pub process_lives: bool,
}

/// Why a file's header could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The file could not be read.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    /// It is no recording.
    #[error(transparent)]
    Bad(#[from] pct_format::Error),
}

impl Recording {
    /// Reads the header of a file.
    ///
    /// # Errors
    /// [`HeaderError`].
    pub fn read(path: &Path) -> Result<Self, HeaderError> {
        let file = File::open(path)?;
        let bytes = file.metadata()?.blocks().saturating_mul(512);
        let mut head = Vec::new();
        file.take(BLOCK_BYTES as u64).read_to_end(&mut head)?;
        let header = pct_format::File::parse(&head)?.header();
        let options = String::from_utf8_lossy(header.text(Text::Options)).into_owned();
        let said = |key: &str| {
            let mut values = options.split(',').filter_map(|item| item.strip_prefix(key)?.strip_prefix('='));
            values.next_back().map(str::to_owned)
        };
        let exe = String::from_utf8_lossy(header.text(Text::Exe)).into_owned();
        let name = exe.rsplit('/').next().unwrap_or_default().to_owned();
        let start_ns = header.first_anchor().realtime_ns;
        let process_lives = alive::is_alive(&header);
        let used = header.cpu_ns().map(|(user, system)| user.saturating_add(system));
        Ok(Self {
            path: path.to_owned(),
            service: said("service").unwrap_or(name),
            version: said("version").unwrap_or_default(),
            pid: header.pid(),
            image: ImageKey {
                boot_id: header.boot_id(),
                pid: header.pid(),
                start_ticks: header.start_ticks(),
                exe: header.text(Text::Exe).to_vec(),
            },
            number: header.header_word(at::ROTATIONS),
            start_ns,
            end_ns: header.latest_anchor().map_or(start_ns, |anchor| anchor.realtime_ns.max(start_ns)),
            cpu_at_start_ns: header.header_word(at::BEFORE_NS),
            cpu_at_end_ns: used.map_or(0, |used| used.saturating_add(header.header_word(at::OFF_NS))),
            bytes,
            running: process_lives && matches!(header.state(), State::Armed | State::Making),
            state: header.state(),
            process_lives,
        })
    }
}

/// The folder of continuous sampling, if nothing else was said: `pct` in `XDG_STATE_HOME`, or in
/// `.local/state` of the home.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).filter(|path| Path::new(path).is_absolute());
    absolute("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| absolute("HOME").map(|home| Path::new(&home).join(".local/state")))
        .map(|state| state.join("pct"))
}
