//! How to symbolize.

use std::path::PathBuf;

use crate::debugfile::DebugDirs;
use crate::translator::Template;

/// So much debug information makes an object everybody's work.
pub(crate) const HEAVY_BYTES: u64 = 4 << 20;

/// Where answers are kept, and of which objects. See [`Options::cache`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// The folder; made when it is needed.
    pub dir: PathBuf,
    /// Only objects with so many bytes of debug information or more.
    pub least_bytes: u64,
}

impl Cache {
    /// A cache in a folder, for objects that take a noticeable time.
    pub fn new(dir: impl Into<PathBuf>) -> Cache {
        Cache { dir: dir.into(), least_bytes: HEAVY_BYTES }
    }
}

/// How to symbolize.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where separate debug files lie.
    pub debug_dirs: DebugDirs,
    /// Directories where `perf-PID.map` files lie (`/tmp`).
    pub jit_dirs: Vec<PathBuf>,
    /// Read debug information: functions from symbol tables only if not.
    pub lines: bool,
    /// A co-process for ELF objects instead of the built-in translator.
    pub translator: Option<Template>,
    /// Where answers for big objects are kept from one run to the next; nowhere if absent.
    pub cache: Option<Cache>,
    /// Threads to work with; 0: as many as there are processors, at most 8.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            debug_dirs: DebugDirs::default(),
            jit_dirs: vec![PathBuf::from("/tmp")],
            lines: true,
            translator: None,
            cache: None,
            threads: 0,
        }
    }
}
