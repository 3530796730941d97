//! Options of symbolizing.

use std::path::PathBuf;

use crate::debugfile::DebugDirs;
use crate::translator::Template;

/// Debug information of this size makes all threads work on the object together.
pub(crate) const HEAVY_BYTES: u64 = 4 << 20;

/// Where answers are cached, and for which objects. See [`Options::cache`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// The folder. It is created when needed.
    pub dir: PathBuf,
    /// Only objects with at least this much debug information, in bytes.
    pub least_bytes: u64,
}

impl Cache {
    /// A cache in a folder, for objects that take a noticeable time.
    pub fn new(dir: impl Into<PathBuf>) -> Cache {
        Cache { dir: dir.into(), least_bytes: HEAVY_BYTES }
    }
}

/// Options of symbolizing.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directories with separate debug files.
    pub debug_dirs: DebugDirs,
    /// Directories with `perf-PID.map` files (`/tmp`).
    pub jit_dirs: Vec<PathBuf>,
    /// Whether to read debug information. If not, functions come from symbol tables only.
    pub lines: bool,
    /// A co-process for ELF objects, instead of the built-in translator.
    pub translator: Option<Template>,
    /// Where answers for big objects are cached from one run to the next. None: they are not cached.
    pub cache: Option<Cache>,
    /// Number of threads; 0: as many as there are processors, at most 8.
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
