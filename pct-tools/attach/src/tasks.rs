//! Which folder of `/proc` speaks for a process: its own, or a thread's.
//!
//! `/proc/PID` is that of the first thread. When that one has ended by `pthread_exit` and others work on, it is a zombie without memory:
//! its maps are empty, its memory and its program cannot be opened. The folders of the living threads have all of that.

use procfs::ProcResult;
use procfs::process::{MMapPath, MemoryMaps, Process};
use std::path::{Path, PathBuf};

/// `/proc/PID`, or the folder of a living thread where the first one has ended and others have not.
pub fn folder(pid: i32) -> PathBuf {
    let own = PathBuf::from(format!("/proc/{pid}"));
    if !has_ended(&own) {
        return own;
    }
    let tasks = std::fs::read_dir(own.join("task")).into_iter().flatten().flatten();
    tasks.map(|entry| entry.path()).find(|task| !has_ended(task)).unwrap_or(own)
}

/// What is mapped in a process.
///
/// # Errors
/// As procfs: it is gone, or may not be looked into.
pub fn maps(pid: i32) -> ProcResult<MemoryMaps> {
    Process::new_with_root(folder(pid))?.maps()
}

/// Whether a file whose name holds `part` is mapped in a process. One that is gone counts as well.
pub fn has_mapped(pid: i32, part: &str) -> bool {
    let Ok(maps) = maps(pid) else { return true };
    maps.0.iter().any(|map| match &map.pathname {
        MMapPath::Path(path) => path.file_name().is_some_and(|name| name.to_string_lossy().contains(part)),
        _ => false,
    })
}

/// The number of a thread as its process sees it, which may live in a namespace of its own.
pub fn own_number(pid: i32, tid: i32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().last()?.parse().ok()
}

/// Whether the thread of this folder is a zombie, or gone.
pub fn has_ended(folder: &Path) -> bool {
    let Ok(text) = std::fs::read_to_string(folder.join("stat")) else { return true };
    text.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_living_process_speaks_for_itself_and_one_that_is_gone_too() {
        let me = i32::try_from(std::process::id()).expect("small");
        assert_eq!(folder(me), PathBuf::from(format!("/proc/{me}")));
        assert!(!maps(me).expect("ours").0.is_empty());
        assert_eq!(folder(i32::MAX), PathBuf::from(format!("/proc/{}", i32::MAX)));
    }
}
