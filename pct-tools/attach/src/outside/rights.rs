//! Programs that gain rights when they are executed, while pct has none to trace everybody: they run untraced, as they
//! would without us.
//!
//! A child that was just made is stopped at its system calls until it executes a program: most do so after a few, and
//! it is let go before. Whoever executes one later is let go after, and does it once more
//! ([`crate::ptrace::execute_again`]).

use super::Outside;
use super::thread::Thread;
use crate::memory::{Memory as _, ProcessMemory};
use crate::ptrace::execute_again::execute_again;
use crate::ptrace::sys::{self, Errno, Regs, Tid};
use crate::rights::{self, Gain, LONGEST_PATH};
use crate::tasks;
use pct_format::header::State;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// How often a child is stopped at most, as it enters a system call and as it leaves one. Who has not executed a
/// program by then works itself. (C libraries make two calls for each signal before they execute.)
const MOST_CALL_STOPS: u16 = 1000;
/// The part of a register that holds a descriptor, and the one that stands for the working folder.
const LOWER_HALF: u64 = 0xffff_ffff;
const WORKING_FOLDER: u32 = libc::AT_FDCWD.cast_unsigned();

impl Outside {
    /// Stops a thread that was just born in a process of its own at its calls, until it executes.
    pub(super) fn watch_calls(&mut self, tid: Tid) {
        if !self.may_trace_all
            && let Some(t) = self.threads.get_mut(&tid).filter(|t| t.pid == tid.0)
        {
            t.call_stops_left = MOST_CALL_STOPS;
        }
    }

    /// Lets a stopped thread go on, up to its next call if those are watched.
    pub(super) fn go_on(&self, tid: Tid, signal: i32) -> Result<(), Errno> {
        match self.threads.get(&tid) {
            Some(t) if t.call_stops_left > 0 => sys::syscall(tid, signal),
            _ => sys::cont(tid, signal),
        }
    }

    /// A thread has stopped as it enters or leaves a system call. Returns whether it has to be let go now, because the
    /// call will execute a program that gains rights.
    pub(super) fn at_call(&mut self, tid: Tid) -> bool {
        let Some(t) = self.threads.get_mut(&tid) else { return false };
        t.call_stops_left = t.call_stops_left.saturating_sub(1);
        let pid = t.pid;
        let Ok(regs) = sys::regs(tid) else { return false };
        // the kernel puts this there until there is a result
        if regs.rax.cast_signed() != -i64::from(libc::ENOSYS) {
            return false;
        }
        let Some(program) = program_of(pid, &regs) else { return false };
        let Some(gain) = self.gained(pid, &program) else { return false };
        self.tell_gain(pid, &program, gain);
        self.forget(tid);
        true
    }

    /// A thread stands in its exec stop, of a program that is not sampled: lets it go.
    pub(super) fn let_executed_go(&mut self, tid: Tid) -> Result<(), Errno> {
        let exe = tasks::folder(tid.0).join("exe");
        let Some(gain) = self.gained(tid.0, &exe) else { return sys::detach(tid, 0) };
        let program = std::fs::read_link(&exe).unwrap_or_default();
        match execute_again(tid) {
            Ok(()) => {
                self.tell_gain(tid.0, &program, gain);
                Ok(())
            }
            Err(why) => {
                let cause = format!(
                    "{} {} and did not, because pct traced it ({why}): run pct as root",
                    name_of(&program),
                    gain.verb()
                );
                self.status.cause(tid.0, &cause);
                sys::detach(tid, 0)
            }
        }
    }

    /// What a process would gain by executing this file that it does not gain from who is traced by us.
    pub(super) fn gained(&self, pid: i32, program: &Path) -> Option<Gain> {
        if self.may_trace_all {
            return None;
        }
        rights::gained_by(program).filter(|_| !rights::has_given_up(pid))
    }

    fn tell_gain(&mut self, pid: i32, program: &Path, gain: Gain) {
        let cause = format!("{} {}: not sampled (as root, pct attach works)", name_of(program), gain.verb());
        self.status.cause(pid, &cause);
    }

    /// A thread that is alone in its process goes on unsampled, and its process with it.
    fn forget(&mut self, tid: Tid) {
        if let Some(Thread { pid, .. }) = self.threads.remove(&tid) {
            self.close(pid, State::Stopped);
        }
    }
}

fn name_of(program: &Path) -> String {
    // the name of a descriptor tells nothing
    let program = std::fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
    program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()
}

/// If a thread that enters a system call is about to execute a file: whose code will run. The result is a path that pct
/// can open.
fn program_of(pid: i32, regs: &Regs) -> Option<PathBuf> {
    let (folder, path) = match i64::try_from(regs.orig_rax).ok()? {
        libc::SYS_execve => (None, regs.rdi),
        libc::SYS_execveat => {
            (u32::try_from(regs.rdi & LOWER_HALF).ok().filter(|fd| *fd != WORKING_FOLDER), regs.rsi)
        }
        _ => return None,
    };
    let process = tasks::folder(pid);
    let folder = folder.map_or_else(|| process.join("cwd"), |fd| process.join("fd").join(fd.to_string()));
    let path = ProcessMemory::open(pid, false).and_then(|memory| memory.string(path, LONGEST_PATH)).ok()?;
    Some(rights::executed_by(&process, &folder, OsStr::from_bytes(&path).as_ref()))
}
