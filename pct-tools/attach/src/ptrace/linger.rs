//! Threads that linger in a call of a controller that was killed: whether a thread still needs the frame that
//! it restores itself from.
//!
//! A thread that is let go in the middle of pct's call finishes the call when it next gets a processor, which
//! may be much later: it may be stopped, wait in the call itself, or run a signal handler of the target's
//! before (killed between the registers and the mask). How long it has run since says nothing. Where it is
//! does: its stack pointer, and what lies above that.
//!
//! ```text
//! sp at the frame                        in the call, or about to restore itself
//! sp up to 256 KiB below the frame       in a handler on top of it
//! a signal frame above sp that leads     in a handler on another stack (sigaltstack)
//!   back to the frame
//! anywhere else                          it has left
//! ```
//!
//! The kernel tells the stack pointer of a thread that does not run. One that runs is stopped for a moment and asked.

use super::frame::Owner;
use super::stack::HANDLER;
use super::stop::stack_pointer;
use super::sys::Tid;
use crate::memory::ProcessMemory;
use crate::tasks;
use std::time::Duration;

/// A thread that does not stop in this time has not left.
const STOP: Duration = Duration::from_millis(200);
/// How far above the stack pointer of a handler its signal frame is searched.
const ABOVE: usize = 64 << 10;

/// The threads of a process, one of which pct holds.
#[derive(Debug, Clone, Copy)]
pub struct Threads<'m> {
    /// The process.
    pub process: i32,
    /// Its memory.
    pub memory: &'m ProcessMemory,
    /// The thread that we hold, and its stack pointer.
    pub held: (Tid, u64),
}

impl Threads<'_> {
    /// Whether the frame at `at` is still needed because a thread will restore itself from it. That thread is its
    /// owner. If the process has no such thread (it ended, or this process is a forked child), it may be any thread.
    pub fn need(&self, at: u64, owner: Owner) -> bool {
        let threads = threads_of(self.process);
        match threads.iter().find(|tid| own_tid(self.process, **tid) == Some(owner.tid)) {
            Some(tid) => self.needs(*tid, at),
            None => threads.into_iter().any(|tid| self.needs(tid, at)),
        }
    }

    fn needs(&self, tid: Tid, at: u64) -> bool {
        let sp = if tid == self.held.0 { Some(self.held.1) } else { blocked_sp(self.process, tid) };
        match sp.or_else(|| stack_pointer(tid, STOP)) {
            Some(sp) => leads_back(sp, at, self.memory),
            None => std::path::Path::new(&format!("/proc/{}/task/{tid}", self.process)).exists(),
        }
    }
}

/// Whether a thread with this stack pointer will come back to the frame at `at`.
fn leads_back(sp: u64, at: u64, memory: &ProcessMemory) -> bool {
    // in the call rsp is that of the frame, then, in the restorer, that of its ucontext
    if (at.saturating_sub(HANDLER)..=at + 8).contains(&sp) {
        return true;
    }
    let mut above = vec![0; ABOVE];
    let from = sp & !7;
    let len = memory.read_some(from, &mut above);
    let (words, _) = above[..len].as_chunks::<8>();
    words.iter().map(|word| u64::from_ne_bytes(*word)).any(|word| word == at || word == at + 8)
}

fn threads_of(process: i32) -> Vec<Tid> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok().map(Tid)).collect()
}

/// The number of a thread as its own pid namespace counts: the one that controllers in all namespaces agree upon.
pub fn own_tid(process: i32, tid: Tid) -> Option<u64> {
    own_tid_in(&tasks::read_text(format!("/proc/{process}/task/{tid}/status")).ok()?)
}

/// The same from what the thread's `status` says.
pub(super) fn own_tid_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("NSpid:"))?;
    line.split_whitespace().last()?.parse().ok()
}

/// The stack pointer of a thread that does not run: the last but one word of `/proc/PID/task/TID/syscall`.
pub fn blocked_sp(process: i32, tid: Tid) -> Option<u64> {
    let text = tasks::read_text(format!("/proc/{process}/task/{tid}/syscall")).ok()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let sp = words.len().checked_sub(2).and_then(|i| words.get(i))?;
    u64::from_str_radix(sp.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_on_another_stack_comes_back_when_its_signal_frame_says_so() {
        let memory = ProcessMemory::open(std::process::id() as i32, false).unwrap();
        let frame = 0x7fff_0000_0038_u64;
        assert!(leads_back(frame, frame, &memory));
        assert!(leads_back(frame + 8, frame, &memory));
        assert!(leads_back(frame - 3000, frame, &memory));
        let mut stack = vec![0u64; 1000];
        assert!(!leads_back(stack.as_ptr() as u64, frame, &memory));
        stack[500] = frame;
        assert!(leads_back(stack.as_ptr() as u64, frame, &memory));
        stack[500] = frame + 8;
        assert!(leads_back(stack.as_ptr() as u64, frame, &memory));
    }

    #[test]
    fn a_thread_knows_its_own_number() {
        let me = std::process::id() as i32;
        assert!(threads_of(me).iter().any(|tid| own_tid(me, *tid).is_some()));
        assert!(own_tid(me, Tid(me)).is_some());
    }
}
