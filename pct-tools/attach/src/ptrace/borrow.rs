//! A borrowed thread: seized, stopped, made to run calls of ours on a stack of ours, and given back as it was.
//!
//! ```text
//! seize -> interrupt -> Interrupted      registers, mask and extended state saved
//!   system_call: one SETREGSET points rip at a `syscall; ret` of the target's text, with a signal frame as its stack
//!   map_scratch: the first such call maps memory of ours; everything later lives there
//!   call: the trampoline in the scratch calls a function, stores the result, makes a marker call, restores itself
//! give_back: extended state, mask, registers, detach
//! ```
//!
//! Invariant: between any two requests to the kernel the thread, left alone, goes on as if nothing had been: its registers
//! are its own, or a chain that ends in `rt_sigreturn` on a whole frame. So the order is: write memory, SETREGSET, mask,
//! resume; and back: extended state, mask, SETREGSET, detach.

use super::frame::{Frame, RESTARTS};
use super::restart;
use super::sys::{self, Errno, Regs, Stop, Tid};
use crate::entry::Held;
use crate::gadgets::Gadgets;
use crate::memory::{Memory, ProcessMemory};
use std::io;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Why a remote call did not happen, or not to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The thread ended meanwhile.
    #[error("thread {0} ended meanwhile")]
    Gone(Tid),
    /// The thread did not stop in time (a vfork parent, or a sleep that no signal ends).
    #[error("thread {0} did not stop within {1} ms")]
    NoStop(Tid, u128),
    /// The call did not come back in time; where it was is told.
    #[error(
        "a call in thread {tid} did not return within {ms} ms (it was at {rip:#x}, in system call {call})"
    )]
    Timeout {
        /// The borrowed thread.
        tid: Tid,
        /// The limit.
        ms: u128,
        /// Its program counter then.
        rip: u64,
        /// The system call it was in, -1: none.
        call: i64,
    },
    /// The call raised a fault of its own.
    #[error("a call in thread {tid} raised signal {signal} at {rip:#x}")]
    Fault {
        /// The borrowed thread.
        tid: Tid,
        /// SIGSEGV, SIGBUS, SIGILL or SIGFPE.
        signal: i32,
        /// Where.
        rip: u64,
    },
    /// There is no room for the first frame on any stack of the target.
    #[error("no room on a stack of the target for the first call")]
    NoRoom,
    /// The target's text has no gadgets.
    #[error("the target's text has no instructions to build a self-restoring call from")]
    NoGadgets,
    /// A request to the kernel failed.
    #[error("{what} of thread {tid}: {source}")]
    Request {
        /// Which.
        what: &'static str,
        /// The thread.
        tid: Tid,
        /// The kernel's answer.
        source: Errno,
    },
    /// The target's memory could not be read or written.
    #[error("memory of the target: {0}")]
    Memory(#[from] io::Error),
    /// A system call of the target failed.
    #[error("{call} in the target: {source}")]
    SystemCall {
        /// Its name.
        call: &'static str,
        /// The kernel's answer to the target.
        source: Errno,
    },
}

/// What a controller is doing with a thread: told to [`OBSERVER`], so that a harness that kills controllers at random can
/// say where each kill fell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Step {
    /// Not holding any thread.
    Away = 0,
    /// Seized, waiting for the stop.
    Stopping = 1,
    /// Stopped, its state being saved.
    Saving = 2,
    /// The chain is being written; the registers are still its own.
    Preparing = 3,
    /// The registers are the chain's; not resumed yet.
    Committed = 4,
    /// Our call runs.
    Running = 5,
    /// The call is done; between two calls.
    Between = 6,
    /// Its state is being set back.
    Restoring = 7,
}

impl Step {
    /// All steps, in order of their numbers.
    pub const ALL: [Step; 8] = [
        Step::Away,
        Step::Stopping,
        Step::Saving,
        Step::Preparing,
        Step::Committed,
        Step::Running,
        Step::Between,
        Step::Restoring,
    ];
}

/// Told of each step, when set.
pub static OBSERVER: OnceLock<fn(Step)> = OnceLock::new();

fn step(step: Step) {
    if let Some(observer) = OBSERVER.get() {
        observer(step);
    }
}

/// The scratch mapping in the target.
#[derive(Debug, Clone, Copy)]
struct Scratch {
    /// Start: the code page.
    start: u64,
    /// The whole size.
    len: u64,
}

const CODE: u64 = 4096;
/// Room for frames behind the code page.
const FRAMES: u64 = 64 << 10;
/// Room for strings and results.
const DATA: u64 = 64 << 10;
/// The stack of called functions: dlopen wants much.
const STACK: u64 = 512 << 10;

/// `call *%rbx; mov %rax,(%r12); mov $39,%eax; syscall; mov %r13,%rsp; mov $15,%eax; syscall; ud2`
const TRAMPOLINE: &[u8] = &[
    0xff, 0xd3, 0x49, 0x89, 0x04, 0x24, 0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0x4c, 0x89, 0xec, 0xb8, 15, 0, 0, 0,
    0x0f, 0x05, 0x0f, 0x0b,
];
/// Where rip is at the exit stop of the marker call, from the start of the trampoline.
const AFTER_MARKER: u64 = 13;

/// A call is never waited for for less: it must be able to get on.
const LEAST: Duration = Duration::from_millis(50);

/// Places for first frames, one behind the other: what is clear of used stack has room for them.
const SLOTS: u64 = 8;

/// Synchronous signals are never blocked: a fault of ours must be seen.
const SYNCHRONOUS: u64 =
    bit(libc::SIGSEGV) | bit(libc::SIGBUS) | bit(libc::SIGILL) | bit(libc::SIGFPE) | bit(libc::SIGTRAP);

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Waits for the next stop of one thread.
///
/// # Errors
/// [`CallError::NoStop`] after `limit`; [`CallError::Gone`] when it ended.
pub fn wait_stop(tid: Tid, limit: Duration) -> Result<Stop, CallError> {
    /// SIGCHLD is the process's: another thread of ours may take it, so its absence is not believed for longer.
    const LOOK: u64 = 1_000_000;
    let start = Instant::now();
    // a thread that waits is put on a processor as soon as the stop is there; one that looks again and again is not
    let signal = sys::ChildSignal::block();
    loop {
        match sys::wait(Some(tid)) {
            Ok(Some((_, stop))) if stop.is_end() => return Err(CallError::Gone(tid)),
            Ok(Some((_, stop))) => return Ok(stop),
            Ok(None) => {}
            Err(e) if e.0 == libc::EINTR => continue,
            Err(e) if e.0 == libc::ECHILD => return Err(CallError::Gone(tid)),
            Err(source) => return Err(CallError::Request { what: "wait", tid, source }),
        }
        let left = limit.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Err(CallError::NoStop(tid, limit.as_millis()));
        }
        signal.wait(LOOK.min(left.as_nanos() as u64));
    }
}

/// One thread of the target in our hands. Dropping it gives it back.
#[derive(Debug)]
pub struct Borrowed<'m> {
    process: i32,
    tid: Tid,
    memory: &'m ProcessMemory,
    gadgets: (u64, u64),
    saved: Regs,
    mask: u64,
    xstate: Vec<u8>,
    /// A signal that was about to be delivered when the thread stopped: passed on at the end.
    pending: Vec<i32>,
    /// Where the first frame goes: stack memory that nobody uses.
    first_frame: u64,
    scratch: Option<Scratch>,
    /// Only calls without effect are being made: they may be cut off at any point.
    probing: bool,
    /// The thread's registers are not its own: they must be set back.
    changed: bool,
    given_back: bool,
}

impl<'m> Borrowed<'m> {
    /// Seizes and stops `tid` of `process`. `first_frame(sp)` says where a frame of `Frame::room` octets may lie, given the thread's
    /// stack pointer.
    ///
    /// # Errors
    /// When the thread is gone, does not stop within `limit`, or the gadgets are missing. It is not held then.
    pub fn stop(
        process: i32,
        tid: Tid,
        memory: &'m ProcessMemory,
        gadgets: &Gadgets,
        limit: Duration,
        first_frame: impl FnOnce(u64, u64) -> Option<u64>,
    ) -> Result<Self, CallError> {
        let request = |what| move |source: Errno| CallError::Request { what, tid, source };
        let mut held = Borrowed::of(process, tid, memory, gadgets)?;
        step(Step::Stopping);
        sys::seize(tid, libc::PTRACE_O_TRACESYSGOOD).map_err(request("seize"))?;
        held.given_back = false;
        sys::interrupt(tid).map_err(request("interrupt"))?;
        loop {
            match wait_stop(tid, limit) {
                Ok(Stop::Interrupted | Stop::Group(_)) => break,
                // passed on at once; the interrupt is still due
                Ok(Stop::Signal(s)) => sys::cont(tid, s).map_err(request("continue"))?,
                Ok(_) => sys::cont(tid, 0).map_err(request("continue"))?,
                Err(e) => {
                    if matches!(e, CallError::Gone(_)) {
                        held.given_back = true;
                    }
                    return Err(e);
                }
            }
        }
        held.save(first_frame)?;
        Ok(held)
    }

    /// Takes over a thread that is seized and stopped already (by an interrupt, on its way to user mode).
    ///
    /// # Errors
    /// As [`Borrowed::stop`]; the thread is let go then.
    pub fn adopt(
        held: Held,
        memory: &'m ProcessMemory,
        gadgets: &Gadgets,
        first_frame: impl FnOnce(u64, u64) -> Option<u64>,
    ) -> Result<Self, CallError> {
        let tid = held.tid();
        let mut borrowed = Borrowed::of(tid.0, tid, memory, gadgets)?;
        borrowed.given_back = false;
        held.take();
        borrowed.save(first_frame)?;
        Ok(borrowed)
    }

    /// A thread that is not held yet.
    fn of(process: i32, tid: Tid, memory: &'m ProcessMemory, gadgets: &Gadgets) -> Result<Self, CallError> {
        let (Some(syscall), Some(restorer)) = (gadgets.syscall_ret, gadgets.restorer) else {
            return Err(CallError::NoGadgets);
        };
        Ok(Borrowed {
            process,
            tid,
            memory,
            gadgets: (syscall, restorer),
            saved: sys::no_regs(),
            mask: 0,
            xstate: Vec::new(),
            pending: Vec::new(),
            first_frame: 0,
            scratch: None,
            probing: false,
            changed: false,
            given_back: true,
        })
    }

    /// Saves what is to be set back, and finds room for the first frame.
    fn save(&mut self, first_frame: impl FnOnce(u64, u64) -> Option<u64>) -> Result<(), CallError> {
        step(Step::Saving);
        let tid = self.tid;
        let request = |what| move |source: Errno| CallError::Request { what, tid, source };
        self.saved = sys::regs(tid).map_err(request("registers"))?;
        self.mask = sys::sigmask(tid).map_err(request("signal mask"))?;
        self.xstate = sys::xstate(tid).map_err(request("extended state"))?;
        let room = Frame::room(self.xstate.len()) as u64;
        let low = first_frame(self.saved.rsp, room).ok_or(CallError::NoRoom)?;
        // it is still in the chain of a controller that was killed, or another thread is: their frames must stay
        let memory = self.memory;
        let size = room.next_multiple_of(64);
        let own = |slot: u64| (slot..slot + size + 64).contains(&self.saved.rsp);
        let slot = (0..SLOTS)
            .map(|k| low + k * size)
            .find(|slot| !own(*slot) && Frame::is_free(*slot, |at| memory.word(at).ok()));
        self.first_frame = slot.ok_or(CallError::NoRoom)?;
        Ok(())
    }

    /// The thread's own registers as it was stopped.
    pub fn regs(&self) -> &Regs {
        &self.saved
    }

    /// Says whether the calls from now on may be cut off without harm.
    pub fn probing(&mut self, on: bool) {
        self.probing = on;
    }

    /// Whether what was called last may be cut off without harm.
    pub fn is_probing(&self) -> bool {
        self.probing
    }

    /// Which thread this is.
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// The registers that the thread is to have when it is given back: an interrupted call that the kernel does not
    /// restart by itself is made again (`epoll_wait` and its like return a bare EINTR on any stop).
    fn final_regs(&self) -> Regs {
        restart::again(self.tid, &self.saved, Some(self.mask)).unwrap_or(self.saved)
    }

    fn request<T>(&self, what: &'static str, r: Result<T, Errno>) -> Result<T, CallError> {
        r.map_err(|source| match source.is_gone() {
            true => CallError::Gone(self.tid),
            false => CallError::Request { what, tid: self.tid, source },
        })
    }

    /// Makes one bare system call in the thread. Nothing but stack memory that nobody uses is written.
    ///
    /// # Errors
    /// When the thread dies or the call does not return within `limit`. A negative result is the call's own answer.
    pub fn system_call(&mut self, number: i64, args: [u64; 6], limit: Duration) -> Result<i64, CallError> {
        let low = self.scratch.map_or(self.first_frame, |s| s.start + CODE);
        self.system_call_at(low, number, args, limit)
    }

    fn system_call_at(
        &mut self,
        low: u64,
        number: i64,
        args: [u64; 6],
        limit: Duration,
    ) -> Result<i64, CallError> {
        step(Step::Preparing);
        let frame = Frame::build(low, self.gadgets.1, &self.final_regs(), self.mask, &self.xstate);
        self.memory.write(frame.at, &frame.bytes)?;
        let mut regs = self.saved;
        regs.rip = self.gadgets.0;
        regs.rsp = frame.at;
        regs.rax = number as u64;
        regs.orig_rax = u64::MAX;
        [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9] = args;
        regs.eflags &= !0x500; // no direction flag, no single step
        self.commit(&regs)?;
        // entry, then exit of our call
        let mut exits = 0;
        let start = Instant::now();
        while exits < 2 {
            match self.resume_to_syscall(limit.saturating_sub(start.elapsed()))? {
                Stop::Syscall => exits += 1,
                _ => continue,
            }
        }
        step(Step::Between);
        let r = sys::regs(self.tid);
        Ok(self.request("registers", r)?.rax as i64)
    }

    /// The one step that counts: from here on the thread, left alone, makes our call and restores itself.
    fn commit(&mut self, regs: &Regs) -> Result<(), CallError> {
        let r = sys::set_regs(self.tid, regs);
        self.request("set registers", r)?;
        self.changed = true;
        step(Step::Committed);
        let r = sys::set_sigmask(self.tid, !SYNCHRONOUS);
        self.request("set signal mask", r)
    }

    /// Runs to the next system call stop; signals that come nevertheless are kept for the end.
    fn resume_to_syscall(&mut self, limit: Duration) -> Result<Stop, CallError> {
        step(Step::Running);
        let r = sys::syscall(self.tid, 0);
        self.request("resume", r)?;
        match wait_stop(self.tid, limit) {
            Ok(Stop::Signal(s)) if SYNCHRONOUS & bit(s) != 0 => {
                let rip = sys::regs(self.tid).map_or(0, |r| r.rip);
                Err(CallError::Fault { tid: self.tid, signal: s, rip })
            }
            Ok(Stop::Signal(s)) => {
                self.pending.push(s);
                Ok(Stop::Signal(s))
            }
            Err(CallError::NoStop(tid, ms)) => {
                // look where it hangs; the chain is still in place
                let _ = sys::interrupt(tid);
                let _ = wait_stop(tid, Duration::from_secs(1));
                let regs = sys::regs(tid).unwrap_or_else(|_| sys::no_regs());
                // Only one that waits for a lock may be cut off. On a busy machine a thread may not have been given a
                // processor in all that time: cut off in the middle of malloc it would leave the heap torn.
                if self.probing && regs.orig_rax as i64 != libc::SYS_futex {
                    return Ok(Stop::Interrupted);
                }
                Err(CallError::Timeout { tid, ms, rip: regs.rip, call: regs.orig_rax as i64 })
            }
            other => other,
        }
    }

    /// Maps the scratch: a code page with the trampoline, room for frames, data and a stack.
    ///
    /// # Errors
    /// As [`Borrowed::system_call`], or the target's mmap failing.
    pub fn map_scratch(&mut self, limit: Duration) -> Result<(), CallError> {
        if self.scratch.is_some() {
            return Ok(());
        }
        let len = CODE + FRAMES + DATA + STACK;
        let rw = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let start = self.checked("mmap", libc::SYS_mmap, [0, len, rw, flags, u64::MAX, 0], limit)?;
        self.memory.write(start, TRAMPOLINE)?;
        let rx = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        // still on the first frame: the scratch is used only when it is whole
        self.checked("mprotect", libc::SYS_mprotect, [start, CODE, rx, 0, 0, 0], limit)?;
        self.scratch = Some(Scratch { start, len });
        Ok(())
    }

    /// A system call whose failure is an error.
    ///
    /// # Errors
    /// [`CallError::SystemCall`] with the target's errno, or as [`Borrowed::system_call`].
    pub fn checked(
        &mut self,
        call: &'static str,
        number: i64,
        args: [u64; 6],
        limit: Duration,
    ) -> Result<u64, CallError> {
        match self.system_call(number, args, limit)? {
            e @ -4095..=-1 => {
                Err(CallError::SystemCall { call, source: Errno(i32::try_from(-e).unwrap_or(0)) })
            }
            r => Ok(r as u64),
        }
    }

    /// Writes `bytes` into the scratch's data area at `offset`; their address.
    ///
    /// # Errors
    /// When there is no scratch, no room, or the memory cannot be written.
    pub fn put(&self, offset: u64, bytes: &[u8]) -> Result<u64, CallError> {
        let scratch = self.scratch.ok_or(CallError::NoRoom)?;
        if offset.saturating_add(bytes.len() as u64) > DATA - 64 {
            return Err(CallError::NoRoom);
        }
        let at = scratch.start + CODE + FRAMES + 64 + offset;
        self.memory.write(at, bytes)?;
        Ok(at)
    }

    /// Calls the function at `function` with up to six arguments on a stack of ours; its result.
    ///
    /// # Errors
    /// When the thread dies, the call faults or does not return within `limit`.
    pub fn call(&mut self, function: u64, args: [u64; 6], limit: Duration) -> Result<u64, CallError> {
        let scratch = self.scratch.ok_or(CallError::NoRoom)?;
        let frame =
            Frame::build(scratch.start + CODE, self.gadgets.1, &self.final_regs(), self.mask, &self.xstate);
        self.memory.write(frame.at, &frame.bytes)?;
        let result = scratch.start + CODE + FRAMES;
        let mut regs = self.saved;
        regs.rip = scratch.start;
        regs.rsp = scratch.start + scratch.len - 64; // a multiple of 16 at the call instruction
        regs.rbp = 0;
        regs.rbx = function;
        regs.r12 = result;
        regs.r13 = frame.ucontext();
        regs.rax = 0;
        regs.orig_rax = u64::MAX;
        [regs.rdi, regs.rsi, regs.rdx, regs.rcx, regs.r8, regs.r9] = args;
        regs.eflags &= !0x500;
        self.commit(&regs)?;
        let start = Instant::now();
        loop {
            let stop = self.resume_to_syscall(limit.saturating_sub(start.elapsed()).max(LEAST))?;
            if stop != Stop::Syscall {
                continue;
            }
            let r = sys::regs(self.tid);
            let r = self.request("registers", r)?;
            // entry and exit stops of the marker have the same rip; the exit has the pid in rax, the entry -ENOSYS
            if r.rip == scratch.start + AFTER_MARKER && r.rax as i64 != -i64::from(libc::ENOSYS) {
                step(Step::Between);
                return Ok(self.memory.word(result)?);
            }
        }
    }

    /// Unmaps the scratch, on the first frame's place again.
    ///
    /// # Errors
    /// As [`Borrowed::system_call`].
    pub fn unmap_scratch(&mut self, limit: Duration) -> Result<(), CallError> {
        let Some(s) = self.scratch.take() else { return Ok(()) };
        self.checked("munmap", libc::SYS_munmap, [s.start, s.len, 0, 0, 0, 0], limit).map(drop)
    }

    /// Sets the thread's own registers back and lets it go.
    ///
    /// # Errors
    /// Only what is worth telling: a thread that died meanwhile is a normal end.
    pub fn give_back(mut self) -> Result<(), CallError> {
        self.restore()
    }

    /// Lets the thread run on with the chain in place: it finishes the call that is under way and restores itself. For a
    /// dlopen that holds the loader's lock, where setting the registers back would leave the lock held.
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
            Err(CallError::Gone(_)) => Ok(()),
            other => other,
        }
    }

    fn try_restore(&mut self) -> Result<(), CallError> {
        step(Step::Restoring);
        if self.changed {
            let r = sys::set_xstate(self.tid, &self.xstate);
            self.request("set extended state", r)?;
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
            // the thread has its own registers: the frame's place is free again
            let at = self.first_frame.next_multiple_of(64) + 56;
            let _ = self.memory.write(at, &[0; 8]);
        }
        let mut signals = std::mem::take(&mut self.pending).into_iter();
        let first = signals.next().unwrap_or(0);
        for more in signals {
            // a detach carries one signal only; the others are sent anew
            let r = sys::send(self.process, self.tid, more);
            self.request("send signal", r)?;
        }
        let r = sys::detach(self.tid, first);
        step(Step::Away);
        self.request("detach", r)
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        // an error path: what can be set back is set back; a thread that never stopped is detached by our own end
        let _ = self.restore();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts;
    use crate::stack::first_frame;
    use std::process::{Child, Command, Stdio};

    #[expect(clippy::zombie_processes, reason = "the child is handed to the test, which waits for it")]
    fn victim(command: &str) -> (Child, facts::Target) {
        let child = Command::new("sh")
            .args(["-c", &format!("exec {command}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let child = child.unwrap();
        let name = command.split(' ').next().unwrap();
        loop {
            let t = facts::read(child.id() as i32).unwrap();
            if t.facts.name == name && t.facts.has_dlopen && t.initial_envp.is_some() && t.facts.state == 'S'
            {
                return (child, t);
            }
        }
    }

    const LIMIT: Duration = Duration::from_secs(5);

    #[test]
    fn a_reading_program_makes_our_calls_and_reads_on() {
        let (mut child, target) = victim("cat");
        let pid = target.facts.pid;
        let memory = ProcessMemory::open(pid, true).unwrap();
        for round in 0..50 {
            let room = |sp, room| first_frame(&target.maps, pid, sp, room);
            let mut b = Borrowed::stop(pid, Tid(pid), &memory, &target.gadgets, LIMIT, room).unwrap();
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
        use std::io::{Read, Write};
        child.stdin.take().unwrap().write_all(b"still here").unwrap();
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "still here");
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn a_fault_of_ours_is_told_and_the_thread_lives() {
        let (mut child, target) = victim("cat");
        let pid = target.facts.pid;
        let memory = ProcessMemory::open(pid, true).unwrap();
        let room = |sp, room| first_frame(&target.maps, pid, sp, room);
        let mut b = Borrowed::stop(pid, Tid(pid), &memory, &target.gadgets, LIMIT, room).unwrap();
        b.map_scratch(LIMIT).unwrap();
        let e = b.call(0x10, [0; 6], LIMIT).unwrap_err();
        assert!(matches!(e, CallError::Fault { signal: libc::SIGSEGV, rip: 0x10, .. }), "{e}");
        b.unmap_scratch(LIMIT).unwrap();
        b.give_back().unwrap();
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}
