//! A program held before its first instruction: how a static program is sampled from its beginning.
//!
//! ```text
//! parent: fork ---- seize, say go ------------------- wait for the exec stop -- one stop more -> Held
//! child:       wait for go ------ execve ... (stops inside of it)                rip = entry point, nothing has run
//! ```
//!
//! The exec stop itself lies inside the system call; a call made in the target from there would meet execve's own exit.
//! So the thread is interrupted and let go once: it stops again on its way to user mode, at the program's
//! first instruction (a dynamic program's: the loader's).
//!
//! Invariant: while a value lives, the thread is stopped and its registers are the kernel's own for the new image.

use super::error::CallError;
use super::stop::{go_on_to_interrupt, wait_stop};
use super::sys::{self, Stop, Tid};
use std::time::Duration;

/// A child that is seized and has not executed its program yet.
#[derive(Debug)]
pub struct Seized(Tid);

/// A thread that stands at the first instruction of its program. Dropping it lets it go.
#[derive(Debug)]
pub struct HeldThread {
    tid: Tid,
    released: bool,
}

/// Making folders and looking the program up takes milliseconds; a file system may take longer.
const EXEC: Duration = Duration::from_secs(60);
const STOP: Duration = Duration::from_secs(5);

impl Seized {
    /// Seizes a child of pct that waits for permission to execute. `follow`: what it forks is traced as well.
    ///
    /// # Errors
    /// The kernel's refusal (a tracer above us, a security module); the child is untouched.
    pub fn child(pid: i32) -> Result<Seized, CallError> {
        let tid = Tid(pid);
        let options = libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACESYSGOOD;
        sys::seize(tid, options).map_err(CallError::from_refusal("seize", tid))?;
        Ok(Seized(tid))
    }

    /// Waits until it stands at the first instruction of its program. `Ok(None)`: it ended without executing one.
    ///
    /// # Errors
    /// When the kernel refuses something that it should not.
    pub fn at_entry(self) -> Result<Option<HeldThread>, CallError> {
        let tid = self.0;
        let mut executed = false;
        loop {
            let stop = match wait_stop(tid, if executed { STOP } else { EXEC }) {
                Ok(stop) => stop,
                Err(CallError::Gone(_)) => return Ok(None),
                Err(e) => return Err(e),
            };
            let resumed = match stop {
                Stop::Interrupted if executed => return Ok(Some(HeldThread { tid, released: false })),
                Stop::Event(libc::PTRACE_EVENT_EXEC) => {
                    executed = true;
                    go_on_to_interrupt(tid, 0)
                }
                // the user's Ctrl-C, or SIGSTOP: as without us
                Stop::Signal(s) if executed => go_on_to_interrupt(tid, s),
                Stop::Signal(s) => sys::cont(tid, s),
                Stop::Group(_) => sys::listen(tid),
                _ => sys::cont(tid, 0),
            };
            resumed.map_err(CallError::from_refusal("continue", tid))?;
        }
    }
}

impl HeldThread {
    /// Which thread; its number is the process's.
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// Hands the stopped thread over: whoever takes it detaches it.
    pub fn hand_over(mut self) -> Tid {
        self.released = true;
        self.tid
    }
}

impl Drop for HeldThread {
    fn drop(&mut self) {
        if !self.released {
            let _ = sys::detach(self.tid, 0);
        }
    }
}
