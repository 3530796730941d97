//! What a recording's header says of a running process.

use crate::facts::Target;
use crate::memory::ProcessMemory;
use crate::recording::Subject;
use pct_format::header::{Clock, StackMode};
use procfs::process::Process;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

impl Subject {
    /// Reads it from `/proc`; what cannot be read stays empty.
    pub fn of(target: &Target, hz: u32, clock: Clock, stacks: StackMode, limit: usize) -> Subject {
        let pid = target.facts.pid;
        let stat = Process::new(pid).and_then(|p| p.stat()).ok();
        let memory = ProcessMemory::open(pid, false).ok();
        let build_id = memory.and_then(|m| target.program.as_ref()?.build_id(&m)).unwrap_or_default();
        Subject {
            pid: pid as u32,
            own_pid: target.own_pid as u32,
            ppid: stat.as_ref().map_or(0, |s| s.ppid as u32),
            uid: std::fs::metadata(format!("/proc/{pid}")).map_or(0, |m| m.uid()),
            start_ticks: target.start_time,
            argv: std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default(),
            exe: target.exe.as_ref().map_or(Vec::new(), |e| e.as_os_str().as_bytes().to_vec()),
            build_id,
            clock_asked: Clock::Auto,
            clock,
            hz,
            stacks,
            depth: 512,
            limit,
        }
    }
}
