//! Which folder of `/proc` describes a process: its own, or a thread's.
//!
//! `/proc/PID` is the folder of the first thread. If that thread has ended by `pthread_exit` while others run, it is a
//! zombie without memory: its maps are empty, and its memory and its program cannot be opened. The folders of the
//! living threads have all of that.

use procfs::ProcResult;
use procfs::process::{MMapPath, MemoryMaps, Process};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Reads a small file of `/proc` in as few system calls as possible, since a thread may be stopped meanwhile. Octets
/// that are not UTF-8 are replaced.
///
/// # Errors
/// The kernel's: the process or thread is gone, or may not be read.
pub fn read_text(path: impl AsRef<Path>) -> io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let mut octets = vec![0; 8192];
    let mut len = 0;
    loop {
        match file.read(&mut octets[len..]) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
        if len == octets.len() {
            octets.resize(2 * len, 0);
        }
    }
    octets.truncate(len);
    Ok(String::from_utf8_lossy(&octets).into_owned())
}

/// `/proc/PID`, or the folder of a living thread if the first thread has ended and others have not.
pub fn folder(pid: i32) -> PathBuf {
    let own = PathBuf::from(format!("/proc/{pid}"));
    if !has_ended(&own) {
        return own;
    }
    let tasks = std::fs::read_dir(own.join("task")).into_iter().flatten().flatten();
    tasks.map(|entry| entry.path()).find(|task| !has_ended(task)).unwrap_or(own)
}

/// The memory mappings of a process.
///
/// # Errors
/// As procfs: the process is gone, or may not be read.
pub fn maps(pid: i32) -> ProcResult<MemoryMaps> {
    Process::new_with_root(folder(pid))?.maps()
}

/// Whether a process has mapped a file whose name contains `part`. A deleted file counts too.
pub fn has_mapped(pid: i32, part: &str) -> bool {
    let Ok(maps) = maps(pid) else { return true };
    maps.0.iter().any(|map| match &map.pathname {
        MMapPath::Path(path) => path.file_name().is_some_and(|name| name.to_string_lossy().contains(part)),
        _ => false,
    })
}

/// A file that a process has mapped and whose name ends in `.extension`, by the path that the process has for it.
pub fn mapped_file(pid: i32, extension: &str) -> Option<PathBuf> {
    maps(pid).ok()?.0.into_iter().find_map(|map| match map.pathname {
        MMapPath::Path(path) if path.extension().is_some_and(|e| e == extension) => Some(path),
        _ => None,
    })
}

/// The number of a thread in its own pid namespace.
pub fn own_number(pid: i32, tid: i32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().last()?.parse().ok()
}

/// Whether the thread of this folder has ended or is ending. A process that ends loses its memory first, which takes a
/// quarter of a second for a gigabyte. Meanwhile the kernel still says that it runs.
pub fn has_ended(folder: &Path) -> bool {
    read_text(folder.join("stat")).map_or(true, |stat| says_that_it_has_ended(&stat))
}

/// Whether a `stat` of `/proc` is that of a thread that has ended or is ending. One that cannot be understood is taken
/// for such a one.
fn says_that_it_has_ended(stat: &str) -> bool {
    /// Of the thread's flags, field 9 (`PF_EXITING`).
    const IS_EXITING: u64 = 4;
    // The program's name may contain spaces and brackets. The state (field 3) and the other fields follow it.
    let mut fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    let is_dead = fields.next().is_none_or(|state| matches!(state, "Z" | "X"));
    let flags = fields.nth(5).and_then(|flags| flags.parse::<u64>().ok());
    is_dead || flags.is_none_or(|flags| flags & IS_EXITING != 0)
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
        assert!(!has_ended(&folder(me)) && has_ended(&folder(i32::MAX)));
    }

    #[test]
    fn a_thread_ends_before_it_is_a_zombie() {
        let stat =
            |state: char, flags: u32| format!("7 (a) b) {state} 1 7 7 0 -1 {flags} 15 0 0 0 21 2 0 0 20 0 1");
        assert!(
            !says_that_it_has_ended(&stat('R', 0x40_0000)) && !says_that_it_has_ended(&stat('T', 0x40_0000))
        );
        for ended in [stat('Z', 0x40_0000), stat('X', 0), stat('R', 0x40_050c), "7 (a)".into(), String::new()]
        {
            assert!(says_that_it_has_ended(&ended), "{ended}");
        }
    }
}
