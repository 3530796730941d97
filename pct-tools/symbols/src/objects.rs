//! What callers tell the symbolizer about objects and addresses, and what it notes about them.

use std::fmt;
use std::path::{Path, PathBuf};

use pct_elf::FileVersion;

use crate::difference::Difference;
use crate::image::BuildId;

/// Number of an object in its [`Symbolizer`](crate::Symbolizer).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(pub(crate) u32);

impl ObjectId {
    /// Position in the order of registration, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The kind of an object's code. It also says what the addresses are relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ObjectKind {
    /// An ELF file: addresses are file offsets.
    #[default]
    File,
    /// The kernel's vdso: addresses count from the region's start.
    Vdso,
    /// Anonymous memory of a process: addresses are the process's own. Names come from `perf-PID.map`, or from the
    /// jitdump at [`ObjectInfo::path`] if that is one.
    Jit {
        /// Process id of the process that made the code, in its own pid namespace.
        pid: u32,
    },
    /// The kernel, of one boot ([`crate::kallsyms::object_of_boot`]): addresses are its own.
    Kernel,
    /// Nothing can be read of it (`[vsyscall]`): addresses stay addresses.
    Opaque,
}

/// The facts about an object, from a region of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ObjectInfo {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its path as the region names it. A trailing ` (deleted)` is accepted.
    pub path: PathBuf,
    /// The build-id that was in memory while the samples were taken.
    pub build_id: Option<BuildId>,
    /// Device (major number in the upper half, minor in the lower) and inode at that time. They only serve to notice a
    /// replaced file that has no build-id, if there is no version either.
    pub dev_ino: Option<(u64, u64)>,
    /// What tells the file's contents from others if it has no build-id.
    pub version: FileVersion,
    /// File offset at which the executable mapping began. With it a debug file can answer for an object that is gone.
    pub map_offset: Option<u64>,
    /// Other paths of the same object, in order: `/proc/PID/root/...`, a saved copy. A copy must have the build-id. For
    /// generated code: jitdumps and copies of maps that are certainly the process's.
    pub also_try: Vec<PathBuf>,
    /// Start of the process in nanoseconds since 1970, if known. A map last written before that is another process's.
    pub since_realtime_ns: Option<u64>,
    /// The executable of the process that made the code at run time, if known: it decides what would name that code.
    pub program: PathBuf,
    /// Added to a jitdump's times to get nanoseconds since 1970.
    pub realtime_minus_monotonic_ns: i64,
}

impl ObjectInfo {
    /// An ELF file of which only the path is known.
    pub fn file(path: impl Into<PathBuf>) -> ObjectInfo {
        ObjectInfo { path: path.into(), ..ObjectInfo::default() }
    }
}

/// An object whose file has no symbols of its own functions, and of which no debug file was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stripped {
    /// Its path as the profile names it.
    pub path: PathBuf,
    /// By this a debug file is found.
    pub build_id: Option<BuildId>,
    /// The name of its debug file, if it has one.
    pub debug_file: Option<PathBuf>,
}

impl fmt::Display for Stripped {
    /// What is missing, and what would help.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it has no symbols, and its debug file is not here. ")?;
        match (&self.debug_file, &self.build_id) {
            (Some(file), Some(id)) => write!(
                f,
                "What helps: the debug package that has {}, or debuginfod-find debuginfo {id}; then pct report",
                file.display()
            ),
            (Some(file), None) => {
                write!(f, "What helps: the debug package that has {}; then pct report", file.display())
            }
            (None, Some(id)) => write!(f, "What helps: debuginfod-find debuginfo {id}; then pct report"),
            (None, None) => f.write_str("What helps: a build that is not stripped"),
        }
    }
}

/// An address to look up. Its type says which kind of address it is, so that nobody forgets the minus one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CodeAddr {
    /// The interrupted instruction itself.
    Pc(u64),
    /// A return address from a stack: the call is the instruction before it.
    Return(u64),
}

impl CodeAddr {
    /// The address to look up.
    pub fn lookup(self) -> u64 {
        match self {
            CodeAddr::Pc(a) => a,
            CodeAddr::Return(a) => a.saturating_sub(1),
        }
    }
}

/// What a reader of the report should know about an object's translation. Each note is given once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Which object.
    pub object: ObjectId,
    /// Its path.
    pub path: PathBuf,
    /// What happened.
    pub problem: Problem,
}

/// See [`Note`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// There is a file, but it is not the one that was sampled.
    Replaced {
        /// The file that was examined.
        file: PathBuf,
        /// What shows it.
        difference: Difference,
    },
    /// The object could not be opened.
    Missing {
        /// Why.
        reason: String,
    },
    /// A debug file has the right path but does not belong to the object.
    DebugFileRefused {
        /// The debug file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file to which dwz moved common names is missing. Some names are short or come from the symbol table.
    NoSupplement {
        /// As the object names it.
        file: PathBuf,
    },
    /// The debug information is damaged or of an unknown kind. Names come from the symbol table.
    BadDebugInfo {
        /// What is wrong.
        reason: String,
    },
    /// The map of a JIT could not be used.
    NoJitMap {
        /// The map's file.
        file: PathBuf,
        /// Why.
        reason: String,
        /// The executable of the process that made the code; empty if that is not known.
        program: PathBuf,
    },
    /// A note from the time when the names were archived.
    Archived {
        /// The note.
        text: String,
    },
    /// A co-process failed. Its answers before that are used.
    Translator {
        /// What happened.
        reason: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.problem {
            Problem::Replaced { file, difference } => {
                let other = if *file == shown_path(&self.path) {
                    "replaced or rebuilt since it was sampled".into()
                } else {
                    format!("{} is another file than was sampled", file.display())
                };
                write!(
                    f,
                    "{path}: {other} ({difference}): its names are not used \
                     (pct run --keep-symbols keeps names beside the recording)"
                )
            }
            Problem::Missing { reason } => write!(f, "{path}: no names: {reason}"),
            Problem::DebugFileRefused { file, reason } => {
                write!(f, "{path}: debug file {} not used: {reason}", file.display())
            }
            Problem::NoSupplement { file } => {
                write!(f, "{path}: {} is missing, to which dwz moved a part of the names", file.display())
            }
            Problem::BadDebugInfo { reason } => write!(f, "{path}: debug information not used: {reason}"),
            Problem::NoJitMap { file, reason, program } => {
                if !self.path.as_os_str().is_empty() {
                    write!(f, "{path}: ")?;
                }
                write!(f, "no names for code made at run time: {}: {reason}", file.display())?;
                who_names_code(program).map_or(Ok(()), |how| write!(f, " ({how})"))
            }
            Problem::Archived { text } => f.write_str(text),
            Problem::Translator { reason } => write!(f, "{path}: translator: {reason}"),
        }
    }
}

/// What names the code that a program makes at run time, where that is known.
fn who_names_code(program: &Path) -> Option<&'static str> {
    let shown = shown_path(program);
    let name = shown.file_name()?.to_str()?;
    match name {
        "node" | "nodejs" => Some("node writes it with --perf-basic-prof"),
        "java" => {
            Some("Java 17 and later is asked for them where its frames cannot be read, unless by --java off")
        }
        _ if name.starts_with("python") => Some("what ctypes and libffi make for callbacks has no names"),
        _ => None,
    }
}

/// A region's path without the kernel's ` (deleted)`.
pub(crate) fn shown_path(path: &Path) -> PathBuf {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let bytes = path.as_os_str().as_bytes();
    PathBuf::from(OsStr::from_bytes(bytes.strip_suffix(b" (deleted)").unwrap_or(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_rebuilt_says_what_would_have_kept_its_names() {
        let (file, difference) = ("/x".into(), Difference::Inode);
        let problem = Problem::Replaced { file, difference };
        let note = Note { object: ObjectId(0), path: "/x".into(), problem }.to_string();
        assert!(
            note.starts_with("/x: replaced or rebuilt") && note.contains("pct run --keep-symbols"),
            "{note}"
        );
    }

    #[test]
    fn what_names_code_made_at_run_time_is_told_of_the_runtime_that_made_it() {
        let note = |program: &str| {
            let (file, program) = ("/tmp/perf-7.map".into(), program.into());
            let problem = Problem::NoJitMap { file, reason: "not there".into(), program };
            Note { object: ObjectId(0), path: PathBuf::new(), problem }.to_string()
        };
        const PLAIN: &str = "no names for code made at run time: /tmp/perf-7.map: not there";
        assert_eq!(note("/usr/bin/node"), format!("{PLAIN} (node writes it with --perf-basic-prof)"));
        assert!(note("/opt/node (deleted)").contains("--perf-basic-prof"));
        assert!(note("/usr/lib/jvm/bin/java").contains("--java off"));
        assert!(note("/usr/bin/python3.11").contains("ctypes"));
        for other in ["/usr/lib/chromium/chromium", ""] {
            assert_eq!(note(other), PLAIN, "{other}");
        }
    }
}
