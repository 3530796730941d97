//! A borrowed thread: seized, stopped, made to run pct's calls on a stack of their own, and given back as it was.
//!
//! ```text
//! seize -> interrupt -> Interrupted      registers, mask and extended state saved
//!   (`call` says how it is made to do things)
//! give_back: extended state, mask, registers, detach
//! ```
//!
//! Invariant: between any two requests to the kernel the thread, left alone, goes on as if nothing had been:
//! its registers are its own, or a chain that ends in `rt_sigreturn` on a whole frame. So the order is: write
//! memory, SETREGSET, mask, resume; and back: extended state, mask, SETREGSET, detach.

use super::bell::{SYNCHRONOUS, SpecialSignals, bit};
use super::entry::HeldThread;
use super::error::CallError;
use super::frame::{Owner, RESTARTS, SignalFrame};
use super::linger::{Threads, blocked_sp, own_tid_in};
use super::release::{self, ReturnedSignal};
use super::restart;
use super::scratch::Scratch;
use super::stack::{self, Borrower};
use super::step::{ControllerStep, report_step};
use super::stop::{interrupted, is_late, wait_stop};
use super::sys::{self, Errno, Regs, Tid};
use crate::gadgets::{self, Gadgets};
use crate::memory::ProcessMemory;
use crate::tasks;
use procfs::process::MemoryMap;
use std::time::{Duration, Instant};

/// How long we wait for a dying thread to be reaped.
const ENDS: Duration = Duration::from_secs(1);

/// One thread of the target in our hands. Dropping it gives it back.
#[derive(Debug)]
pub struct Borrowed<'m> {
    pub(super) process: i32,
    pub(super) tid: Tid,
    pub(super) memory: &'m ProcessMemory,
    /// `syscall; ret`, and the restorer.
    pub(super) gadgets: (u64, u64),
    /// The thread's number as its own pid namespace counts.
    own_tid: u64,
    pub(super) saved: Regs,
    pub(super) mask: u64,
    pub(super) xstate: Vec<u8>,
    /// Signals that cannot be blocked and arrived while a call ran. They are passed on at the end.
    pub(super) pending: Vec<i32>,
    /// A signal that arrived while a call ran. It stays blocked until the end.
    pub(super) returned: Option<ReturnedSignal>,
    /// Signals that stay open while calls run.
    pub(super) open: u64,
    /// Where the first frame goes: stack memory that nobody uses.
    pub(super) first_frame: u64,
    /// The registers in every frame of this thread, fixed by the first one. A frame that may be in use may only be
    /// overwritten by one with the same registers.
    framed: Option<Regs>,
    pub(super) scratch: Option<Scratch>,
    /// The signal by which the thread says that a call is done. `None`: the target handles all signals that could.
    pub(super) bell: Option<i32>,
    /// The calls being made have no effect, so they may be cut off at any point.
    pub(super) probing: bool,
    /// The thread has other registers than its own. They must be set back.
    pub(super) changed: bool,
    /// pct blocks the thread's signals.
    pub(super) masked: bool,
    /// The call took longer than this many milliseconds, and the thread was asked to stop.
    pub(super) overdue: Option<u128>,
    /// When it stopped.
    stopped_at: Instant,
    given_back: bool,
}

impl<'m> Borrowed<'m> {
    /// Seizes and stops `tid` of `process`. `maps` tells where there are stacks.
    ///
    /// # Errors
    /// When the thread is gone, does not stop within `limit` (see [`let_late_go`](super::stop::let_late_go)),
    /// another program runs than that whose gadgets these are, or there is no room for a frame. It is not
    /// held then.
    pub fn stop(
        process: i32,
        tid: Tid,
        memory: &'m ProcessMemory,
        gadgets: &Gadgets,
        limit: Duration,
        maps: &[MemoryMap],
    ) -> Result<Self, CallError> {
        let request = |what| CallError::from_refusal(what, tid);
        let mut held = Borrowed::not_held(process, tid, memory, gadgets)?;
        report_step(ControllerStep::Stopping);
        sys::seize(tid, libc::PTRACE_O_TRACESYSGOOD).map_err(request("seize"))?;
        held.given_back = false;
        interrupted(tid, limit).inspect_err(|e| match e {
            CallError::Gone(_) => held.given_back = true,
            // there is nothing to set back, and a thread can only be released when it has stopped
            CallError::NoStop(..) => {
                held.given_back = true;
                is_late(tid);
            }
            _ => {}
        })?;
        held.save(maps)?;
        Ok(held)
    }

    /// Takes over a thread that is seized and stopped already (by an interrupt, on its way to user mode).
    ///
    /// # Errors
    /// As [`Borrowed::stop`]. The thread is then released.
    pub fn adopt(
        held: HeldThread,
        memory: &'m ProcessMemory,
        gadgets: &Gadgets,
        maps: &[MemoryMap],
    ) -> Result<Self, CallError> {
        let tid = held.tid();
        let mut borrowed = Borrowed::not_held(tid.0, tid, memory, gadgets)?;
        borrowed.given_back = false;
        held.hand_over();
        borrowed.save(maps)?;
        Ok(borrowed)
    }

    /// A value for a thread that pct does not hold yet.
    fn not_held(
        process: i32,
        tid: Tid,
        memory: &'m ProcessMemory,
        gadgets: &Gadgets,
    ) -> Result<Self, CallError> {
        let (Some(syscall), Some(restorer)) = (gadgets.syscall_ret, gadgets.restorer) else {
            return Err(CallError::NoGadgets);
        };
        Ok(Borrowed {
            process,
            tid,
            memory,
            gadgets: (syscall, restorer),
            own_tid: 0,
            saved: sys::no_regs(),
            mask: 0,
            xstate: Vec::new(),
            pending: Vec::new(),
            returned: None,
            open: 0,
            first_frame: 0,
            framed: None,
            scratch: None,
            bell: None,
            probing: false,
            changed: false,
            masked: false,
            overdue: None,
            stopped_at: Instant::now(),
            given_back: true,
        })
    }

    /// Saves the state that will be restored, and finds room for the first frame.
    fn save(&mut self, maps: &[MemoryMap]) -> Result<(), CallError> {
        report_step(ControllerStep::Saving);
        self.stopped_at = Instant::now();
        let tid = self.tid;
        let request = |what| CallError::from_refusal(what, tid);
        self.saved = sys::regs(tid).map_err(request("registers"))?;
        self.mask = sys::sigmask(tid).map_err(request("signal mask"))?;
        self.xstate = sys::xstate(tid).map_err(request("extended state"))?;
        // it may have executed another program since `maps` was read; from now on it cannot
        if !gadgets::are_at(self.gadgets, self.memory) {
            return Err(CallError::NoGadgets);
        }
        let status =
            tasks::read_text(format!("/proc/{}/task/{tid}/status", self.process)).unwrap_or_default();
        self.own_tid = own_tid_in(&status).unwrap_or(tid.0 as u64);
        let special = SpecialSignals::parse(&status, self.mask);
        self.bell = special.bell;
        self.open = SYNCHRONOUS | special.awaited | special.bell.map_or(0, bit);
        let sp = self.saved.rsp;
        let threads = Threads { process: self.process, memory: self.memory, held: (tid, sp) };
        let room = (SignalFrame::room(self.xstate.len()) as u64).next_multiple_of(64) + 64;
        let thread = Borrower { sp, fs_base: self.saved.fs_base, room };
        let main_sp = match tid.0 == self.process {
            true => Some(sp),
            false => blocked_sp(self.process, Tid(self.process)),
        };
        // a frame from which a thread will restore itself must stay, and so must the room below it
        let is_needed = |at, owner| threads.need(at, owner);
        let place = stack::first_frame(maps, thread, main_sp, self.memory, is_needed);
        self.first_frame = place.ok_or(CallError::NoRoom)?;
        Ok(())
    }

    /// The thread's own registers at the moment it stopped.
    pub fn regs(&self) -> &Regs {
        &self.saved
    }

    /// Says whether the calls from now on may be cut off without harm.
    pub fn probing(&mut self, on: bool) {
        self.probing = on;
    }

    /// Whether the last call may be cut off without harm.
    pub fn is_probing(&self) -> bool {
        self.probing
    }

    /// When pct saw that it had stopped. (Until then it ran, or waited for a processor.)
    pub fn stopped_at(&self) -> Instant {
        self.stopped_at
    }

    /// Which thread this is.
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// The registers with which the thread is given back. They repeat an interrupted system call that the kernel does
    /// not restart by itself: calls such as `epoll_wait` return a bare EINTR after any stop.
    pub(super) fn final_regs(&self) -> Regs {
        restart::again(self.tid, &self.saved, Some(self.mask), 0).unwrap_or(self.saved)
    }

    /// The frame that gives the thread back its own state, for the room at `low`.
    pub(super) fn frame(&mut self, low: u64) -> SignalFrame {
        let regs = self.framed.unwrap_or_else(|| self.final_regs());
        self.framed = Some(regs);
        SignalFrame::build(low, self.gadgets.1, &regs, self.mask, &self.xstate, Owner { tid: self.own_tid })
    }

    pub(super) fn request<T>(&self, what: &'static str, r: Result<T, Errno>) -> Result<T, CallError> {
        r.map_err(CallError::from_refusal(what, self.tid))
    }

    /// Restores the thread's own registers and releases it.
    ///
    /// # Errors
    /// What the kernel refused. A thread that died meanwhile is no error.
    pub fn give_back(mut self) -> Result<(), CallError> {
        self.restore()
    }

    /// Releases the thread with the chain in place, so that it finishes the running call and restores itself. This is
    /// for a dlopen that holds the loader's lock: to restore the registers now would leave the lock held for ever.
    pub fn let_run(mut self) {
        self.given_back = true;
        let _ = sys::detach(self.tid, 0);
    }

    fn restore(&mut self) -> Result<(), CallError> {
        if std::mem::replace(&mut self.given_back, true) {
            return Ok(());
        }
        let result = self.try_restore();
        match result {
            Err(CallError::Gone(tid)) => {
                // a thread that executes a program waits for its end, and for that pct must reap it
                let _ = wait_stop(tid, ENDS);
                Ok(())
            }
            other => other,
        }
    }

    fn try_restore(&mut self) -> Result<(), CallError> {
        report_step(ControllerStep::Restoring);
        if self.changed {
            let r = sys::set_xstate(self.tid, &self.xstate);
            self.request("set extended state", r)?;
        }
        if self.masked {
            let r = sys::set_sigmask(self.tid, self.mask);
            self.request("set signal mask", r)?;
        }
        let last = self.final_regs();
        if self.changed || last.rip != self.saved.rip {
            // a restart code with its orig_rax set back makes the kernel restart the call by itself
            debug_assert!(
                last.orig_rax == u64::MAX
                    || !RESTARTS.contains(&(last.rax as i64))
                    || last.rip == self.saved.rip
            );
            let r = sys::set_regs(self.tid, &last);
            self.request("set registers", r)?;
        }
        if self.changed && self.first_frame != 0 {
            // the thread has its own registers, so the frame's memory is free again
            let at = self.first_frame.next_multiple_of(64) + 56;
            let _ = self.memory.write(at, &[0; 8]);
        }
        let first = release::settle(self.tid, &last, self.mask, self.returned.take())?;
        // a detach carries one signal only; pct sends the others again
        for more in std::mem::take(&mut self.pending) {
            let r = sys::send(self.process, self.tid, more);
            self.request("send signal", r)?;
        }
        let r = sys::detach(self.tid, first);
        report_step(ControllerStep::Away);
        self.request("detach", r)
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        // an error path: restore what can be restored; a thread that never stopped is detached when pct ends
        let _ = self.restore();
    }
}

#[cfg(test)]
mod live {
    use super::*;
    use crate::facts;
    use pct_kit::harm::{harm, unharmed};
    use pct_kit::wait::wait_for;
    use std::io::Write as _;
    use std::process::{Child, Command, Stdio};

    fn victim(command: &str) -> (Child, facts::Target) {
        let child = Command::new("sh")
            .args(["-c", &format!("exec {command}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let child = child.unwrap();
        let name = command.split(' ').next().unwrap();
        let target = wait_for(&format!("{name} to wait"), || {
            let t = facts::read(child.id() as i32).unwrap();
            let begun = t.facts.name == name && t.facts.has_dlopen && t.initial_envp.is_some();
            (begun && t.facts.state == 'S').then_some(t)
        });
        (child, target)
    }

    /// Checks that `cat` reads on.
    fn reads_on(mut cat: Child) {
        cat.stdin.take().unwrap().write_all(b"still here").unwrap();
        let said = unharmed(&cat.wait_with_output().unwrap());
        if said != "still here" {
            harm(&format!("cat said {said:?}"));
        }
    }

    const LIMIT: Duration = Duration::from_secs(5);

    #[test]
    fn a_reading_program_makes_our_calls_and_reads_on() {
        let (child, target) = victim("cat");
        let pid = target.facts.pid;
        let memory = ProcessMemory::open(pid, true).unwrap();
        for round in 0..50 {
            let mut b = Borrowed::stop(pid, Tid(pid), &memory, &target.gadgets, LIMIT, &target.maps).unwrap();
            assert_eq!(
                b.system_call(libc::SYS_getpid, [0; 6], LIMIT).unwrap(),
                i64::from(pid),
                "round {round}"
            );
            b.map_scratch(LIMIT).unwrap();
            let getppid = target.images.iter().find_map(|(_, i)| i.symbol(&memory, "getppid")).unwrap();
            assert_eq!(b.call(getppid, [0; 6], LIMIT).unwrap(), u64::from(std::process::id()));
            b.unmap_scratch(LIMIT).unwrap();
            b.give_back().unwrap();
        }
        reads_on(child);
    }

    #[test]
    fn a_fault_of_ours_is_told_and_the_thread_lives() {
        let (child, target) = victim("cat");
        let pid = target.facts.pid;
        let memory = ProcessMemory::open(pid, true).unwrap();
        let mut b = Borrowed::stop(pid, Tid(pid), &memory, &target.gadgets, LIMIT, &target.maps).unwrap();
        b.map_scratch(LIMIT).unwrap();
        let e = b.call(0x10, [0; 6], LIMIT).unwrap_err();
        assert!(matches!(e, CallError::Fault { signal: libc::SIGSEGV, rip: 0x10, .. }), "{e}");
        b.unmap_scratch(LIMIT).unwrap();
        b.give_back().unwrap();
        reads_on(child);
    }
}
