//! Processes of a run that executed a program under another root (chroot, a container), where the loader does
//! not find our library: nobody in there can say so, so we look. A program that ignores LD_PRELOAD cannot say so
//! either.
//!
//! A process that changes its root and goes on has the library already; only a program that begins there lacks it.

use pct_attach::{children, tasks};
use pct_profile::load::status;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What is looked for, and who was named.
#[derive(Debug)]
pub struct Elsewhere {
    library: PathBuf,
    folder: PathBuf,
    named: HashSet<i32>,
    /// Whether the first process had the library when it was last looked at. `None`: it was not, or could not be.
    is_loaded: Option<bool>,
}

/// Which folder is the root of a process.
fn root_of(process: &Path) -> Option<(u64, u64)> {
    fs::metadata(process.join("root")).ok().map(|meta| (meta.dev(), meta.ino()))
}

impl Elsewhere {
    /// Programs load `library`; causes are told in `folder`.
    #[must_use]
    pub fn new(library: &Path, folder: &Path) -> Elsewhere {
        Elsewhere {
            library: library.to_owned(),
            folder: folder.to_owned(),
            named: HashSet::new(),
            is_loaded: None,
        }
    }

    /// Whether the run's first process was seen, and never with the library.
    #[must_use]
    pub fn never_loaded(&self) -> bool {
        self.is_loaded == Some(false)
    }

    /// Looks at a process and all that it has made.
    pub fn note_processes(&mut self, first: i32) {
        if self.is_loaded != Some(true) && tasks::folder(first).join("exe").exists() {
            self.is_loaded = Some(tasks::has_mapped(first, "libpct"));
        }
        let ours = root_of(Path::new("/proc/self"));
        let mut left = vec![first];
        while let Some(pid) = left.pop() {
            left.extend(children::living_of(pid));
            let process = tasks::folder(pid);
            let Some(root) = root_of(&process).filter(|root| Some(*root) != ours) else { continue };
            if self.named.contains(&pid) || self.is_found(&process) || tasks::has_mapped(pid, "libpct") {
                continue;
            }
            // it may have executed something else, or ended, since
            if root_of(&tasks::folder(pid)) == Some(root) {
                self.named.insert(pid);
                let exe = fs::read_link(process.join("exe")).unwrap_or_default();
                status::tell(&self.folder, pid, &self.cause(&exe));
            }
        }
    }

    fn is_found(&self, process: &Path) -> bool {
        let below = self.library.strip_prefix("/").unwrap_or(&self.library);
        process.join("root").join(below).exists()
    }

    fn cause(&self, exe: &Path) -> String {
        let name = exe.file_name().unwrap_or_default().to_string_lossy();
        format!(
            "{name} runs under another root, where {} is not: not sampled (pct attach does, or copy it there)",
            self.library.display()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_under_our_root_are_not_named() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(status::STATUS), "").expect("written");
        let mut elsewhere = Elsewhere::new(Path::new("/nowhere/libpct.so"), folder.path());
        elsewhere.note_processes(i32::try_from(std::process::id()).expect("small"));
        assert!(status::causes(folder.path()).is_empty());
        assert!(elsewhere.never_loaded());
    }

    #[test]
    fn of_a_process_that_was_not_seen_nothing_is_told() {
        let mut elsewhere = Elsewhere::new(Path::new("/nowhere/libpct.so"), Path::new("/nowhere"));
        assert!(!elsewhere.never_loaded());
        // Larger than any process's number.
        elsewhere.note_processes((1 << 22) + 1);
        assert!(!elsewhere.never_loaded());
    }
}
