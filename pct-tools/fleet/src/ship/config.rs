//! What is shipped where, and what came of it.

use super::receiver::Receiver;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// Called before each change that a crash could separate from the next one, with what was done last. Tests
/// kill the process there.
pub type Steps<'a> = &'a mut dyn FnMut(&str);

/// What is shipped where.
#[derive(Clone, Debug)]
pub struct Config {
    /// Folders of recordings.
    pub from: Vec<PathBuf>,
    /// Where they go.
    pub to: Target,
    /// Folder of the spool and the state.
    pub state: PathBuf,
    /// The host's name in the tables.
    pub host: String,
    /// The environment in the tables.
    pub env: String,
    /// Write no names of threads.
    pub without_threads: bool,
    /// Bounds of the spool.
    pub limits: Limits,
    /// Folder in which names from large debug information are kept.
    pub symbol_cache: Option<PathBuf>,
}

/// Where batches go.
#[derive(Clone, Debug)]
pub enum Target {
    /// The root of the tables. It must be there: a root that is not there may be one that is not mounted.
    Root(PathBuf),
    /// A server.
    Receiver(Receiver),
}

impl Target {
    /// What a state says that it is of.
    ///
    /// # Errors
    /// When there is no current folder.
    pub(super) fn title(&self) -> Result<String> {
        Ok(match self {
            Self::Root(root) => std::path::absolute(root)?.to_string_lossy().into_owned(),
            Self::Receiver(receiver) => receiver.title(),
        })
    }
}

impl From<&Path> for Target {
    fn from(root: &Path) -> Self {
        Self::Root(root.to_owned())
    }
}

/// What a pass did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Recordings that were taken into the spool.
    pub recordings: u64,
    /// Rows of samples in them.
    pub rows: u64,
    /// CPU nanoseconds that were found lost: recordings that are gone, batches that were dropped, and what a server
    /// refused.
    pub lost_ns: u64,
    /// CPU nanoseconds that were sent to a server, of which nobody knows whether they arrived.
    pub unsure_ns: u64,
    /// Batches that arrived.
    pub delivered: u64,
    /// Batches in the spool that did not.
    pub waiting: u64,
    /// Recordings that were left for a later pass, because a process may still write to them.
    pub open: u64,
    /// What went wrong, a line each. The pass went on.
    pub problems: Vec<String>,
}

impl Outcome {
    /// Notes what went wrong, each line once.
    pub(super) fn add_problem(&mut self, line: String) {
        if !self.problems.contains(&line) {
            self.problems.push(line);
        }
    }
}

/// Bounds of the spool. What exceeds them is dropped, the oldest first, and counted.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of all batches that wait.
    pub bytes: u64,
    /// Age of a batch, in nanoseconds.
    pub age_ns: u64,
}

impl Default for Limits {
    /// 256 MiB, a week.
    fn default() -> Self {
        Self { bytes: 256 << 20, age_ns: 7 * 86_400 * 1_000_000_000 }
    }
}
