//! What to load, and why nothing could be.

use std::io;
use std::path::PathBuf;

use crate::fold::Frames;

/// How much of memory is loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WantedMemory {
    /// Nothing: the recording is read as if allocations had not been sampled.
    #[default]
    Nothing,
    /// Sums and blocks: what is live at the end and was at the peak.
    Tables,
    /// Also what the log still has of blocks that were freed: what was live at any instant.
    Log,
}

/// What to load and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Keep samples in order of time ([`crate::Profile::timeline`]).
    pub timeline: bool,
    /// Keep samples by thread instead ([`crate::Profile::by_thread`]), and sum the threads of each file: their cells
    /// stand at the file's first thread. With a window samples are kept in order of time.
    pub by_thread: bool,
    /// Translate addresses; without, functions are `[no symbol]` and frames have addresses only.
    pub symbols: bool,
    /// Read lines and inlined calls from debug information, not only names.
    pub lines: bool,
    /// Count only samples in this half-open window, nanoseconds since the first process's start.
    pub window: Option<(u64, u64)>,
    /// Count only samples from this time on, in nanoseconds since 1970; 0 = all.
    pub since_realtime_ns: u64,
    /// Which frames of programs of interpreted languages are kept.
    pub frames: Frames,
    /// How much of allocation samples is loaded ([`crate::Profile::memory`]).
    pub memory: WantedMemory,
    /// Waits are loaded ([`crate::Profile::waits`]).
    pub waits: bool,
    /// What was spent when is counted in slots of time ([`crate::Profile::over_time`]).
    pub over_time: bool,
    /// The sample type of another profiler's file that is read; `None`: the file's default. Recordings by pct have
    /// none.
    pub sample_type: Option<String>,
    /// Folder in which names from big debug information are kept for the next time.
    pub cache: Option<PathBuf>,
}

impl Options {
    /// How samples are kept one by one: not at all, in order of time, or by thread.
    pub(crate) fn kept_samples(&self) -> KeptSamples {
        match self {
            Self { by_thread: true, window: None, .. } => KeptSamples::ByThread,
            Self { timeline: false, by_thread: false, window: None, .. } => KeptSamples::Nowhere,
            _ => KeptSamples::InOrder,
        }
    }
}

/// How samples are kept one by one, beside their sums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeptSamples {
    /// Not at all.
    Nowhere,
    /// All in order of time.
    InOrder,
    /// Those of each thread.
    ByThread,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            timeline: false,
            by_thread: false,
            symbols: true,
            lines: true,
            window: None,
            since_realtime_ns: 0,
            frames: Frames::default(),
            memory: WantedMemory::default(),
            waits: false,
            over_time: false,
            sample_type: None,
            cache: None,
        }
    }
}

/// Nothing could be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A path could not be read.
    #[error("{}: {why}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        why: io::Error,
    },
    /// A folder without .pct files.
    #[error("{}: no .pct file in it{}", path.display(), hint)]
    Empty {
        /// The folder.
        path: PathBuf,
        /// Why that may be; empty, or starts with `: `.
        hint: String,
    },
    /// A file that is no profile.
    #[error("{}: {why}", path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// What was expected and found, and where.
        why: pct_format::Error,
    },
    /// An archive of names could not be written.
    #[error("{why}")]
    Archive {
        /// What failed, and where.
        why: pct_symbols::archive::ArchiveError,
    },
    /// No run in the current folder.
    #[error("no pct-NAME-PID folder here; name a folder or file, or make one by: pct run -- COMMAND")]
    NoRun,
}
