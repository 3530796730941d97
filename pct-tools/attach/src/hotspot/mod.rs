//! Asks Java's HotSpot from outside for the names of the functions that it has compiled.
//!
//! A JVM of release 17 or later writes `/tmp/perf-PID.map` when a tool asks for it (`jcmd PID Compiler.perfmap`).
//! Here the tool is pct itself. It speaks the protocol of HotSpot's attach mechanism:
//!
//! ```text
//! pct                                             the JVM (PID is its own number for itself)
//! examine: is it a JVM, has it started, may it be asked?
//! creates /tmp/.attach_pidPID, sends SIGQUIT -->  its signal thread sees the file and begins to listen
//!                                                 on the socket /tmp/.java_pidPID
//! removes the file, connects, writes a command -> writes the map, answers "0\n"
//! reads /tmp/perf-PID.map
//! ```
//!
//! SIGQUIT kills a process that does not catch it, and a JVM that may not be attached to answers it with a
//! dump of all threads on its standard output. So [`examine`] comes first and trusts nothing but what the
//! process shows now: libjvm.so and the JVM's own file of counters are mapped, the file says that tools may
//! attach, the thread that handles signals is there, and SIGQUIT is caught.
//!
//! Paths are relative to the root folder of the JVM's process, which may differ from pct's.

mod ask;
mod perfdata;
mod process;

pub use ask::{AskError, Jvm};

use crate::facts;
use crate::tasks;
use perfdata::PerfData;
use process::{has_dispatcher, read_file, within};
use procfs::process::{MMapPath, MemoryMap};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// The first release that writes perf maps when asked.
const FIRST_RELEASE: u32 = 17;

/// What a process is with regard to asking it for names.
#[derive(Debug)]
pub enum JvmState {
    /// Not a JVM, or it has ended.
    Absent,
    /// A JVM that has not finished its start.
    Starting,
    /// A JVM that must not or cannot be asked.
    Closed(Refusal),
    /// It can be asked.
    Open(Box<Jvm>),
}

/// Why pct does not ask a JVM for names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It belongs to another user.
    #[error("it belongs to another user, and a JVM answers only its own user and root")]
    OtherUser,
    /// It has no file of counters, which would say whether tools may attach.
    #[error("it has no hsperfdata file, which would say whether tools may attach (-XX:-UsePerfData?)")]
    NoPerfData,
    /// It was started with attaching disabled.
    #[error("tools may not attach to it (-XX:+DisableAttachMechanism)")]
    Disabled,
    /// SIGQUIT would kill it.
    #[error("it does not handle SIGQUIT, the signal by which tools attach (-Xrs)")]
    NoSignalHandler,
    /// Its release is older than 17.
    #[error("it is Java {0}; Java 17 is the first that tells")]
    TooOld(String),
}

/// Says whether process `pid` is a JVM and can be asked. Changes nothing in it.
#[must_use]
pub fn examine(pid: i32) -> JvmState {
    examined(pid).unwrap_or(JvmState::Absent)
}

/// `None`: something could not be read. The process has ended, or pct may not read it.
fn examined(pid: i32) -> Option<JvmState> {
    let start_time = facts::start_time(pid)?;
    let maps = tasks::maps(pid).ok()?.0;
    if !maps.iter().any(|map| file_name(map) == Some("libjvm.so")) {
        return Some(JvmState::Absent);
    }
    let own_pid = tasks::own_number(pid, pid)?;
    let root = File::open(tasks::folder(pid).join("root")).ok()?;
    let handles_signals = has_dispatcher(pid);
    let Some(counters) = maps.iter().find_map(|map| perf_data_path(map, own_pid)) else {
        // a process that a JVM has forked maps the file of its parent, but lacks the parent's threads
        let closed = handles_signals.then_some(JvmState::Closed(Refusal::NoPerfData));
        return Some(closed.unwrap_or(JvmState::Starting));
    };
    let status = tasks::read_text(tasks::folder(pid).join("status")).ok()?;
    let owner = (second_number(&status, "Uid:")?, second_number(&status, "Gid:")?);
    let octets = read_file(&within(&root, &counters), owner.0, 1 << 20).ok();
    let data = octets.as_deref().and_then(PerfData::parse);
    let closed = |why| Some(JvmState::Closed(why));
    let me = fs::metadata("/proc/self").ok()?.uid();
    if me != 0 && me != owner.0 {
        return closed(Refusal::OtherUser);
    }
    let Some(data) = data else { return closed(Refusal::NoPerfData) };
    match (data.attachable, data.feature_release()) {
        (None, _) | (_, None) => Some(JvmState::Starting),
        (_, Some(release)) if release < FIRST_RELEASE => {
            closed(Refusal::TooOld(data.version.unwrap_or_default()))
        }
        (Some(false), _) => closed(Refusal::Disabled),
        (Some(true), _) if !handles_signals || !catches_quit(&status) => closed(Refusal::NoSignalHandler),
        (Some(true), _) => Some(JvmState::Open(Box::new(Jvm::new((pid, start_time), own_pid, owner, root)))),
    }
}

fn file_name(map: &MemoryMap) -> Option<&str> {
    match &map.pathname {
        MMapPath::Path(path) => path.file_name()?.to_str(),
        _ => None,
    }
}

/// The path of the JVM's file of counters, `/tmp/hsperfdata_USER/PID`, if this mapping is of that file.
fn perf_data_path(map: &MemoryMap, own_pid: u32) -> Option<PathBuf> {
    let MMapPath::Path(path) = &map.pathname else { return None };
    let folder = path.parent()?.file_name()?.to_str()?;
    let is_ours = folder.starts_with("hsperfdata_") && file_name(map)?.parse() == Ok(own_pid);
    is_ours.then(|| path.clone())
}

fn catches_quit(status: &str) -> bool {
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    caught & 1 << (libc::SIGQUIT - 1) != 0
}

/// The effective user or group number in `/proc/PID/status`.
fn second_number(status: &str, key: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix(key))?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_jvm_is_never_asked() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(matches!(examine(own), JvmState::Absent));
        assert!(matches!(examine(i32::MAX), JvmState::Absent));
        // a program that is only named like a JVM has no file of counters
        assert!(catches_quit("SigCgt:\t0000000000000004\n") && !catches_quit("SigCgt:\t0000000000000002\n"));
        assert_eq!(second_number("Uid:\t1\t2\t3\t4\n", "Uid:"), Some(2));
    }
}
