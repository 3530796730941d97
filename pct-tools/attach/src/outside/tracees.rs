//! What `/proc` says of traced tasks, and small conversions that the files beside this one share.

use crate::ptrace::sys::{Stop, Tid};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The signal that a stopped thread is to get when it goes on.
pub(super) fn signal_of(stop: Stop) -> i32 {
    if let Stop::Signal(s) = stop { s } else { 0 }
}

/// The threads of a process.
pub(super) fn threads_of(pid: i32) -> io::Result<Vec<Tid>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok().map(Tid)).collect())
}

pub(super) fn status_number(tid: Tid, key: &str) -> Option<i32> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    text.lines().find_map(|l| l.strip_prefix(key)).and_then(|n| n.trim().parse().ok())
}

/// The process that a thread belongs to.
pub(super) fn process_of(tid: Tid) -> Option<i32> {
    status_number(tid, "Tgid:")
}

/// Who traces a thread; 0: nobody.
pub(super) fn tracer_of(tid: Tid) -> i32 {
    status_number(tid, "TracerPid:").unwrap_or(0)
}

/// Of any thread, by its own number.
pub(super) fn folder_of(tid: Tid) -> PathBuf {
    PathBuf::from(format!("/proc/{tid}"))
}

/// Nanoseconds of a duration, at most those of 584 years.
pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
