//! What a recording's header says about a running process.

use crate::image::Image;
use crate::memory::ProcessMemory;
use crate::recording::Subject;
use crate::tasks;
use pct_format::header::{Clock, StackMode};
use procfs::process::Process;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

/// How the process is sampled, for the header.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// The clock that was requested.
    pub clock_asked: Clock,
    /// What makes samples due.
    pub clock: Clock,
    /// Requested samples per second.
    pub hz: u32,
    /// How stacks are walked.
    pub stacks: StackMode,
    /// Most frames that are kept of a stack.
    pub depth: usize,
    /// Upper bound of the file in bytes.
    pub limit: usize,
    /// Functions of CPython are part of the stacks.
    pub python: bool,
    /// Methods of Java are.
    pub java: bool,
    /// Functions of JavaScript are.
    pub javascript: bool,
}

impl Subject {
    /// Reads the subject from `/proc`. What cannot be read stays empty.
    pub fn read_proc(pid: i32, manner: &Manner) -> Subject {
        let stat = Process::new(pid).and_then(|p| p.stat()).ok();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let own = status.lines().find_map(|l| l.strip_prefix("NSpid:"));
        let own = own.and_then(|l| l.split_whitespace().last()?.parse().ok());
        let folder = tasks::folder(pid);
        let memory = ProcessMemory::open(pid, false).ok();
        let build_id = memory.and_then(|m| Image::program_of(pid, &m)?.build_id(&m)).unwrap_or_default();
        let exe = std::fs::read_link(folder.join("exe")).unwrap_or_default();
        Subject {
            pid: pid.cast_unsigned(),
            own_pid: own.unwrap_or(pid.cast_unsigned()),
            ppid: stat.as_ref().map_or(0, |s| s.ppid.cast_unsigned()),
            uid: std::fs::metadata(format!("/proc/{pid}")).map_or(0, |m| m.uid()),
            start_ticks: stat.map_or(0, |s| s.starttime),
            argv: std::fs::read(folder.join("cmdline")).unwrap_or_default(),
            exe: exe.as_os_str().as_bytes().to_vec(),
            build_id,
            clock_asked: manner.clock_asked,
            clock: manner.clock,
            hz: manner.hz,
            stacks: manner.stacks,
            depth: manner.depth as u64,
            limit: manner.limit,
        }
    }
}
