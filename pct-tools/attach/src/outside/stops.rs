//! What follows each stop: a sample, a new task, a new program, a signal that is passed on.

use super::Outside;
use super::tracees::signal_of;
use super::waiting::Place;
use crate::ptrace::error::CallError;
use crate::ptrace::restart;
use crate::ptrace::stop::set_again;
use crate::ptrace::sys::{self, Stop, Tid};

/// More threads than this are not looked at for each ignored signal: it takes some microseconds a thread.
const MOST_INTERRUPTED: usize = 128;

impl Outside {
    /// Handles every stop that is there now.
    pub(super) fn drain(&mut self) -> Result<(), CallError> {
        loop {
            let next = sys::peek().and_then(|next| match next {
                Some((tid, has_ended)) => {
                    if has_ended {
                        self.last_look(tid);
                    }
                    sys::wait(Some(tid))
                }
                None => Ok(None),
            });
            match next {
                Ok(Some((tid, stop))) => self.stopped(tid, stop)?,
                Ok(None) => return Ok(()),
                Err(e) if e.0 == libc::EINTR => {}
                Err(e) if e.0 == libc::ECHILD => {
                    self.threads.clear();
                    return Ok(());
                }
                Err(source) => return Err(CallError::Request { what: "wait", tid: Tid(self.first), source }),
            }
        }
    }

    pub(super) fn stopped(&mut self, tid: Tid, stop: Stop) -> Result<(), CallError> {
        if let Some(t) = self.threads.get_mut(&tid) {
            // a stop of any kind takes an interrupt that is under way with it (the kernel's ptrace_stop: "any
            // trap clears pending STOP trap"); should one come all the same, it is a sample too
            t.interrupting = false;
        }
        let resumed = match stop {
            Stop::Exited(_) | Stop::Killed(_) => {
                self.ended(tid, stop);
                return Ok(());
            }
            Stop::Interrupted if self.threads.contains_key(&tid) => {
                self.sample_stopped(tid);
                self.go_on(tid, 0)
            }
            // a new task, or one that we do not follow
            _ if !self.threads.contains_key(&tid) && !self.meet(tid) => sys::detach(tid, signal_of(stop)),
            Stop::Interrupted => self.go_on(tid, 0),
            Stop::Signal(s) => {
                set_again(tid, s);
                if restart::is_ignored(tid, s) {
                    self.interrupt_others(tid);
                }
                self.go_on(tid, s)
            }
            Stop::Group(_) => sys::listen(tid),
            Stop::Event(libc::PTRACE_EVENT_EXEC) if self.after_exec(tid) => sys::cont(tid, 0),
            Stop::Event(libc::PTRACE_EVENT_EXEC) => self.let_executed_go(tid),
            Stop::Syscall if self.at_call(tid) => sys::detach(tid, 0),
            Stop::Event(_) | Stop::Syscall => self.go_on(tid, 0),
        };
        match resumed {
            Err(e) if !e.is_gone() => Err(CallError::Request { what: "continue", tid, source: e }),
            _ => Ok(()),
        }
    }

    /// `taker` has got a signal that the program ignores. Perhaps the kernel woke another thread for it,
    /// which is now about to leave its call with EINTR. One that still waits for a processor stops before,
    /// and makes its call again.
    pub(super) fn interrupt_others(&mut self, taker: Tid) {
        let Some(pid) = self.threads.get(&taker).map(|t| t.pid) else { return };
        let others =
            self.threads.iter_mut().filter(|(tid, t)| t.pid == pid && **tid != taker && !t.interrupting);
        for (tid, t) in others.take(MOST_INTERRUPTED) {
            if t.place() == Some(Place::Running) {
                t.interrupting = sys::interrupt(*tid).is_ok();
            }
        }
    }
}
