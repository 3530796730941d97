//! Threads and processes that begin and end, and programs that are replaced.

use super::process::Process;
use super::thread::Thread;
use super::tracees::process_of;
use super::{Follow, Outside};
use crate::ptrace::sys::{self, Stop, Tid};
use crate::tasks;
use pct_format::header::State;
use std::io;

impl Outside {
    pub(super) fn add_process(&mut self, pid: i32, born: bool) -> io::Result<()> {
        self.processes.insert(pid, Process::open(pid, &self.settings.manner, born, &self.shared)?);
        self.counts.processes += 1;
        Ok(())
    }

    pub(super) fn add_thread(&mut self, pid: i32, tid: Tid, born: bool) -> bool {
        let thread = Thread::open(pid, tid, born);
        thread.map(|t| self.threads.insert(tid, t)).is_some()
    }

    /// The first stop of a new task. False: it belongs to a process that is not followed (or is gone).
    pub(super) fn meet(&mut self, tid: Tid) -> bool {
        let Some(pid) = process_of(tid) else { return false };
        let mut born = false;
        if !self.processes.contains_key(&pid) {
            // a process made by a bare clone is traced whether we follow or not
            if !self.follows() {
                return false;
            }
            if let Err(why) = self.add_process(pid, true) {
                self.cannot_follow(pid, why);
                return false;
            }
            born = true;
        }
        let met = self.add_thread(pid, tid, true);
        if !met && !self.threads.values().any(|t| t.pid == pid) {
            self.close(pid, State::Closed); // it ended before it could be looked at
        }
        if born {
            self.watch_calls(tid);
        }
        met
    }

    /// A thread has ended and was not waited for: its last CPU time is still to be had, and its process's, if
    /// it is the last one of that.
    pub(super) fn last_look(&mut self, tid: Tid) {
        let Some(t) = self.threads.get_mut(&tid) else { return };
        t.note_cpu_time();
        if tid.0 == t.pid
            && let Some(process) = self.processes.get_mut(&t.pid)
        {
            process.anchor();
        }
    }

    pub(super) fn ended(&mut self, tid: Tid, stop: Stop) {
        if tid.0 == self.first {
            self.counts.status = Some(stop);
        }
        let Some(mut t) = self.threads.remove(&tid) else { return };
        self.lose_rest(&mut t);
        if let Some(process) = self.processes.get_mut(&t.pid) {
            let used = t.seen_ns.max(t.sampled_ns);
            process.thread_end(t.serial, used, used.saturating_sub(t.base_ns));
        }
        if tid.0 == t.pid && !self.threads.values().any(|other| other.pid == t.pid) {
            let state = if matches!(stop, Stop::Killed(_)) { State::Crashed } else { State::Closed };
            self.close(t.pid, state);
        }
    }

    /// CPU time that a thread used and was not stopped for is counted as lost.
    pub(super) fn lose_rest(&mut self, t: &mut Thread) {
        if self.wall() {
            return;
        }
        let weight = t.periods(t.seen_ns.saturating_sub(t.sampled_ns), self.period_ns());
        if let Some(process) = self.processes.get_mut(&t.pid).filter(|_| weight > 0) {
            process.lose(weight);
        }
    }

    /// A process goes on unsampled, which is told, unless it has ended.
    pub(super) fn cannot_follow(&mut self, pid: i32, why: io::Error) {
        if sys::no_descriptor(&why) || !tasks::has_ended(&tasks::folder(pid)) {
            self.status.cause(pid, &format!("could not be followed: {why}"));
            self.counts.failed.get_or_insert(why);
        }
    }

    pub(super) fn close(&mut self, pid: i32, state: State) {
        let Some(mut process) = self.processes.remove(&pid) else { return };
        if let Some(why) = &process.failed {
            self.status.cause(pid, &format!("its recording could not be made: {why}"));
        }
        self.counts.failed = self.counts.failed.take().or(process.failed.take());
        match process.close(state) {
            None => self.counts.recorded += 1,
            Some(used_ns) => self.status.without_sample(pid, used_ns),
        }
    }

    /// All other threads of the process are gone without a report; this one has the leader's tid now, and
    /// another program. False: that one samples itself, gains rights, or cannot be sampled, so it is to be let go.
    pub(super) fn after_exec(&mut self, tid: Tid) -> bool {
        let pid = tid.0;
        let left: Vec<Tid> = self.threads.iter().filter(|(_, t)| t.pid == pid).map(|(tid, _)| *tid).collect();
        for tid in left {
            if let Some(mut t) = self.threads.remove(&tid) {
                t.note_cpu_time();
                self.lose_rest(&mut t);
            }
        }
        self.close(pid, State::Replaced);
        if matches!(&self.settings.follow, Follow::AllBut(samples_itself) if samples_itself(pid)) {
            return false;
        }
        if self.gained(pid, &tasks::folder(pid).join("exe")).is_some() {
            return false;
        }
        if let Err(why) = self.add_process(pid, false) {
            self.cannot_follow(pid, why);
            return false;
        }
        // the same process, another image
        self.counts.processes -= u64::from(self.add_thread(pid, tid, false));
        true
    }
}
