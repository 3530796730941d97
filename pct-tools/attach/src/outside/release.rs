//! The end: every thread is let go, and the recordings are closed.

use super::thread::Thread;
use super::tracees::{folder_of, process_of, signal_of, tracer_of};
use super::{Counts, Outside};
use crate::ptrace::stop::set_again;
use crate::ptrace::sys::{self, Errno, Stop, Tid};
use crate::tasks;
use pct_format::header::State;
use std::time::{Duration, Instant};

/// First threads that do not stop in this time are let go with the others.
const LEADERS_RELEASE: Duration = Duration::from_millis(50);
/// A thread that does not stop in this time is detached by our end.
const RELEASE: Duration = Duration::from_secs(1);

impl Outside {
    /// Lets every thread go and ends the recordings. A thread that does not stop within a second is detached
    /// by our end.
    pub fn finish(mut self) -> Counts {
        let mut threads = std::mem::take(&mut self.threads);
        for t in threads.values_mut() {
            t.note_cpu_time();
            self.lose_rest(t);
        }
        self.threads = threads;
        self.release();
        let left: Vec<i32> = self.processes.keys().copied().collect();
        for pid in left {
            self.close(pid, State::Stopped);
        }
        self.counts
    }

    /// A tracee must be in a stop to be detached: all are interrupted, and let go as they come to a stop,
    /// also those that are born meanwhile (they come by themselves).
    pub(super) fn release(&mut self) {
        self.release_leaders();
        self.threads.retain(|tid, _| !matches!(sys::interrupt(*tid), Err(Errno(libc::ESRCH))));
        let end = Instant::now() + RELEASE;
        let mut idle = 0u32;
        // after the last known thread a few looks more: a task that was just born may not have stopped yet
        while Instant::now() < end && (!self.threads.is_empty() || idle < 3) {
            match sys::wait(None) {
                Ok(Some((tid, stop))) if stop.is_end() => {
                    if tid.0 == self.first {
                        self.counts.status = Some(stop);
                    }
                    self.threads.remove(&tid);
                    idle = 0;
                }
                Ok(Some((tid, stop))) => {
                    idle = 0;
                    self.let_go(tid, stop);
                }
                Ok(None) => {
                    idle += 1;
                    // a zombie leader, whose other threads run on, never stops
                    if idle > 20 {
                        self.threads.retain(|tid, _| !tasks::has_ended(&folder_of(*tid)));
                    }
                    std::thread::sleep(Duration::from_micros(200));
                }
                Err(e) if e.0 == libc::EINTR => {}
                Err(_) => {
                    self.threads.clear();
                    return;
                }
            }
        }
    }

    /// Lets the first threads go before the others. As long as the first thread is traced, the kernel does
    /// not drop signals to the process that are ignored, and each of its threads may be woken by one; only a
    /// tracer can make the call again then.
    pub(super) fn release_leaders(&mut self) {
        let is_leader = |tid: &Tid, t: &Thread| tid.0 == t.pid && !tasks::has_ended(&folder_of(*tid));
        let leaders: Vec<Tid> =
            self.threads.iter().filter(|(tid, t)| is_leader(tid, t)).map(|(tid, _)| *tid).collect();
        for tid in &leaders {
            let _ = sys::interrupt(*tid);
        }
        let end = Instant::now() + LEADERS_RELEASE;
        while Instant::now() < end && leaders.iter().any(|tid| self.threads.contains_key(tid)) {
            match sys::wait(None) {
                Ok(Some((tid, stop))) if leaders.contains(&tid) && !stop.is_end() => self.let_go(tid, stop),
                Ok(Some((tid, stop))) => drop(self.stopped(tid, stop)),
                Ok(None) => std::thread::sleep(Duration::from_micros(200)),
                Err(e) if e.0 == libc::EINTR => {}
                Err(_) => return,
            }
        }
    }

    pub(super) fn let_go(&mut self, tid: Tid, stop: Stop) {
        set_again(tid, signal_of(stop));
        let made = match stop {
            Stop::Event(libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK) => {
                sys::event_message(tid).ok().and_then(|new| i32::try_from(new).ok())
            }
            _ => None,
        };
        let _ = match stop {
            Stop::Event(libc::PTRACE_EVENT_EXEC) => self.let_executed_go(tid),
            _ => sys::detach(tid, signal_of(stop)),
        };
        self.threads.remove(&tid);
        // its first stop is still to come, unless it came already
        if let Some(new) = made.map(Tid)
            && tracer_of(new) == std::process::id().cast_signed()
            && !self.threads.contains_key(&new)
            && let Some(pid) = process_of(new)
        {
            self.add_thread(pid, new, true);
        }
    }
}
