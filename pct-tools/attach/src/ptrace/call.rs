//! Calls in a borrowed thread.
//!
//! ```text
//! bare system call: one SETREGSET points rip at a `syscall; ret` of the target's text;
//!                   a signal frame is its stack
//! map_scratch: two such calls map the scratch, memory for pct alone; everything later lives there
//! call: the trampoline in the scratch calls a function, stores the result, rings the bell, restores itself
//!
//! scratch    start     code: the trampoline, a bare `syscall; ret`
//!            + CODE    room for signal handlers below the frame, then the frame
//!            + FRAMES  the result, strings
//!            + DATA    the stack of called functions
//! ```
//!
//! The bell is a signal that the thread sends itself, one that does nothing by default and for which the
//! target has no handler. A tracer is told of it all the same. One that comes when no tracer is left does nothing.
//! So a call needs one stop, not two at each system call that it makes. A target that handles all such
//! signals (Go) is followed from system call to system call.
//!
//! Invariant: as in `borrow`. Left alone at any point, the thread finishes the call and restores itself from
//! the frame. A signal handler may run meanwhile (the mask is set after the registers): there is room for it
//! below each stack pointer that pct sets.

use super::bell::{SYNCHRONOUS, bit};
use super::borrow::Borrowed;
use super::error::CallError;
use super::frame::{RESTARTS, SignalFrame};
use super::release::ReturnedSignal;
use super::scratch::{CODE, DATA, FRAME, Scratch, WHOLE};
use super::step::{ControllerStep, report_step};
use super::stop::wait_stop;
use super::sys::{self, Errno, Regs, Stop};
use crate::memory::Memory;
use procfs::process::{MMPermissions, MemoryMap};
use std::time::{Duration, Instant};

/// What the code page begins with:
///
/// ```text
/// call *%rbx; mov %rax,(%r12)
/// mov $186,%eax; syscall                                          gettid: the marker
/// mov %eax,%edi; mov %r14d,%esi; mov $200,%eax; syscall           tkill(self, bell); bell 0: nothing is sent
/// mov %r13,%rsp; mov $15,%eax; syscall; ud2                       rt_sigreturn
/// ```
const TRAMPOLINE: &[u8] = &[
    0xff, 0xd3, 0x49, 0x89, 0x04, 0x24, 0xb8, 186, 0, 0, 0, 0x0f, 0x05, 0x89, 0xc7, 0x44, 0x89, 0xf6, 0xb8,
    200, 0, 0, 0, 0x0f, 0x05, 0x4c, 0x89, 0xec, 0xb8, 15, 0, 0, 0, 0x0f, 0x05, 0x0f, 0x0b,
];
/// Where rip is behind the marker, from the start of the trampoline.
const AFTER_MARKER: u64 = 13;
/// Where rip is when the bell is heard.
const AFTER_BELL: u64 = 25;
/// A function that makes the system call in rax: `syscall; ret`.
const BARE: &[u8] = &[0x0f, 0x05, 0xc3];
const BARE_AT: u64 = 64;

/// Least time for which a call is waited for each time its thread is resumed, so that it can make progress.
const LEAST: Duration = Duration::from_millis(50);
/// A call that may only be cut off while it waits for a lock gets this time to return or to begin such a wait.
const PROBE: Duration = Duration::from_secs(5);

/// Whether a stopped thread is in a call that another controller, since killed, made in it. It must finish that call
/// first. Its own registers are in the signal frame, so pct does not know what it was doing before.
pub fn is_in_a_call(regs: &Regs, maps: &[MemoryMap], memory: &impl Memory) -> bool {
    let begins = |at: u64| {
        let mut code = [0; TRAMPOLINE.len()];
        memory.read(at, &mut code).is_ok() && code == *TRAMPOLINE
    };
    // Only what is mapped is read: a read just below a stack would let it grow.
    let holds = |m: &&MemoryMap, at: u64| (m.address.0..m.address.1).contains(&at);
    let stack = maps.iter().find(|m| holds(m, regs.rsp)).map(|m| m.address.0);
    let code = stack.and_then(|start| {
        maps.iter().find(|m| m.address.1 == start && m.perms.contains(MMPermissions::EXECUTE))
    });
    // about to return into the restorer, in the restorer, in the scratch's code, or on its stack
    SignalFrame::is_at(regs.rsp.wrapping_add(8), memory)
        || SignalFrame::is_at(regs.rsp, memory)
        || begins(regs.rip & !(CODE - 1))
        || code.is_some_and(|m| begins(m.address.1.wrapping_sub(CODE)))
}

/// Where a resumed thread stops next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// At the next entry to or exit from a system call.
    SystemCall,
    /// At the bell.
    Bell,
}

impl Borrowed<'_> {
    /// Makes one bare system call in the thread. It writes only to memory that nobody uses.
    ///
    /// # Errors
    /// When the thread dies or the call does not return within `limit`. A negative result is the call's own answer.
    pub fn system_call(&mut self, number: i64, args: [u64; 6], limit: Duration) -> Result<i64, CallError> {
        let Some(scratch) = self.scratch else {
            return self.first_system_call(number, args, limit);
        };
        let mut regs = self.saved;
        regs.rax = number as u64;
        regs.rbx = scratch.start + BARE_AT;
        [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9] = args;
        Ok(self.run(scratch, regs, limit)? as i64)
    }

    /// A system call that needs only the target's own text and the first frame.
    fn first_system_call(&mut self, number: i64, args: [u64; 6], limit: Duration) -> Result<i64, CallError> {
        report_step(ControllerStep::Preparing);
        let frame = self.frame(self.first_frame);
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
            match self.resume(Until::SystemCall, limit.saturating_sub(start.elapsed()))? {
                Stop::Syscall => exits += 1,
                _ => continue,
            }
        }
        report_step(ControllerStep::Between);
        let r = sys::regs(self.tid);
        Ok(self.request("registers", r)?.rax as i64)
    }

    /// The one step that counts: from here on the thread, left alone, makes our call and restores itself.
    fn commit(&mut self, regs: &Regs) -> Result<(), CallError> {
        let r = sys::set_regs(self.tid, regs);
        self.request("set registers", r)?;
        self.changed = true;
        self.overdue = None;
        report_step(ControllerStep::Committed);
        if !self.masked {
            self.mask_all_but_open()?;
        }
        Ok(())
    }

    fn mask_all_but_open(&mut self) -> Result<(), CallError> {
        let r = sys::set_sigmask(self.tid, !self.open);
        self.masked = true;
        self.request("set signal mask", r)
    }

    /// Runs to the next stop. Signals that arrive although they are blocked are kept for the end.
    fn resume(&mut self, until: Until, limit: Duration) -> Result<Stop, CallError> {
        report_step(ControllerStep::Running);
        let start = Instant::now();
        let mut stop = self.resume_with(0, until, limit)?;
        // The sampler that lives in the thread runs on. Its signal, blocked now, waits with all that it carries.
        while stop == Stop::Signal(libc::SIGTRAP)
            && sys::signal_info(self.tid).is_ok_and(|info| info.is_of_perf_event())
        {
            self.open &= !bit(libc::SIGTRAP);
            self.mask_all_but_open()?;
            let left = limit.saturating_sub(start.elapsed()).max(LEAST);
            stop = self.resume_with(libc::SIGTRAP, until, left)?;
        }
        match stop {
            Stop::Signal(s) if SYNCHRONOUS & bit(s) != 0 => {
                let rip = sys::regs(self.tid).map_or(0, |r| r.rip);
                return Err(CallError::Fault { tid: self.tid, signal: s, rip });
            }
            // if somebody else sends the bell, it has no effect
            Stop::Signal(s) if self.bell != Some(s) => self.keep_for_the_end(s)?,
            Stop::Interrupted | Stop::Group(_) => {
                if let Some(ms) = self.overdue.take() {
                    return Err(self.timed_out(ms));
                }
            }
            _ => {}
        }
        Ok(stop)
    }

    /// Handles a signal that reached the thread while a call ran. pct sends it to the thread again, where it stays
    /// blocked until the thread has its own registers back. So the thread gets it even if pct is killed before that.
    fn keep_for_the_end(&mut self, signal: i32) -> Result<(), CallError> {
        const NEVER_BLOCKED: [i32; 2] = [libc::SIGSTOP, libc::SIGKILL];
        if NEVER_BLOCKED.contains(&signal) {
            self.pending.push(signal);
            return Ok(());
        }
        let info = sys::signal_info(self.tid);
        let info = self.request("signal", info)?;
        // From now on the kernel keeps such signals, or gives them to another thread.
        self.open &= SYNCHRONOUS | self.bell.map_or(0, bit);
        self.mask_all_but_open()?;
        let r = sys::send(self.process, self.tid, signal);
        self.request("send signal", r)?;
        self.returned.get_or_insert(ReturnedSignal { signal, info });
        Ok(())
    }

    /// Resumes the thread, which gets `signal` (0: none), and waits for its next stop.
    fn resume_with(&mut self, signal: i32, until: Until, limit: Duration) -> Result<Stop, CallError> {
        let r = match until {
            Until::SystemCall => sys::syscall(self.tid, signal),
            Until::Bell => sys::cont(self.tid, signal),
        };
        self.request("resume", r)?;
        match wait_stop(self.tid, limit) {
            Err(CallError::NoStop(tid, ms)) => {
                let r = sys::interrupt(tid);
                self.request("interrupt", r)?;
                self.overdue = Some(ms);
                // it may stop for another reason first
                wait_stop(tid, Duration::from_secs(1)).map_err(|e| match e {
                    CallError::NoStop(..) => CallError::Timeout { tid, ms, rip: 0, call: -1, waits: false },
                    other => other,
                })
            }
            other => other,
        }
    }

    /// Finds out where a call hangs. The chain stays in place.
    fn timed_out(&self, ms: u128) -> CallError {
        let regs = sys::regs(self.tid).unwrap_or_else(|_| sys::no_regs());
        let call = regs.orig_rax as i64;
        // A thread that was woken up meanwhile still has to set the lock's word and to wake others. A thread that
        // runs may have had no processor in all that time. If it were cut off in the middle of malloc, the heap
        // would stay damaged.
        let waits = call == libc::SYS_futex && RESTARTS.contains(&(regs.rax as i64));
        CallError::Timeout { tid: self.tid, ms, rip: regs.rip, call, waits }
    }

    /// Maps the scratch.
    ///
    /// # Errors
    /// As [`Borrowed::system_call`], or the target's mmap failing.
    pub fn map_scratch(&mut self, limit: Duration) -> Result<(), CallError> {
        if self.scratch.is_some() {
            return Ok(());
        }
        let rw = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let start = self.checked("mmap", libc::SYS_mmap, [0, WHOLE, rw, flags, u64::MAX, 0], limit)?;
        let mut code = [0; BARE_AT as usize + BARE.len()];
        code[..TRAMPOLINE.len()].copy_from_slice(TRAMPOLINE);
        code[BARE_AT as usize..].copy_from_slice(BARE);
        self.memory.write(start, &code)?;
        let frame = self.frame(start + CODE + FRAME);
        self.memory.write(frame.at, &frame.bytes)?;
        let rx = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        // still on the first frame, because the scratch is not ready yet
        self.checked("mprotect", libc::SYS_mprotect, [start, CODE, rx, 0, 0, 0], limit)?;
        self.scratch = Some(Scratch { start, ucontext: frame.ucontext() });
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

    /// Writes `bytes` into the scratch's data area at `offset`. Gives their address.
    ///
    /// # Errors
    /// When there is no scratch, no room, or the memory cannot be written.
    pub fn write_data(&self, offset: u64, bytes: &[u8]) -> Result<u64, CallError> {
        let scratch = self.scratch.ok_or(CallError::NoRoom)?;
        if offset.saturating_add(bytes.len() as u64) > DATA - 64 {
            return Err(CallError::NoRoom);
        }
        let at = scratch.result() + 64 + offset;
        self.memory.write(at, bytes)?;
        Ok(at)
    }

    /// Calls the function at `function` with up to six arguments, on the scratch's stack. Gives its result.
    ///
    /// # Errors
    /// When the thread dies, the call faults or does not return within `limit`.
    pub fn call(&mut self, function: u64, args: [u64; 6], limit: Duration) -> Result<u64, CallError> {
        let scratch = self.scratch.ok_or(CallError::NoRoom)?;
        let mut regs = self.saved;
        regs.rax = 0;
        regs.rbx = function;
        [regs.rdi, regs.rsi, regs.rdx, regs.rcx, regs.r8, regs.r9] = args;
        self.run(scratch, regs, limit)
    }

    /// Runs the trampoline with rax, rbx and the arguments in `regs`. Gives what the function returns.
    fn run(&mut self, scratch: Scratch, mut regs: Regs, limit: Duration) -> Result<u64, CallError> {
        report_step(ControllerStep::Preparing);
        regs.rip = scratch.start;
        regs.rsp = scratch.start + WHOLE - 64; // a multiple of 16 at the call instruction
        regs.rbp = 0;
        regs.r12 = scratch.result();
        regs.r13 = scratch.ucontext;
        regs.r14 = self.bell.unwrap_or(0) as u64;
        regs.orig_rax = u64::MAX;
        regs.eflags &= !0x500; // no direction flag, no single step
        self.commit(&regs)?;
        let until = if self.bell.is_some() { Until::Bell } else { Until::SystemCall };
        let start = Instant::now();
        loop {
            match self.resume(until, limit.saturating_sub(start.elapsed()).max(LEAST)) {
                Ok(stop) if self.is_done(stop, scratch)? => break,
                Ok(_) => {}
                // it had no processor, or it is about to get the lock
                Err(CallError::Timeout { waits: false, rip, .. })
                    if self.probing && rip != 0 && start.elapsed() < PROBE => {}
                Err(e) => return Err(e),
            }
        }
        report_step(ControllerStep::Between);
        Ok(self.memory.read_word(scratch.result())?)
    }

    /// Whether this stop is the one behind the call.
    fn is_done(&self, stop: Stop, scratch: Scratch) -> Result<bool, CallError> {
        let at = match stop {
            Stop::Signal(s) if self.bell == Some(s) => AFTER_BELL,
            Stop::Syscall => AFTER_MARKER,
            _ => return Ok(false),
        };
        let r = sys::regs(self.tid);
        let regs = self.request("registers", r)?;
        // entry and exit stops of the marker have the same rip; the exit has a number in rax, the entry -ENOSYS
        Ok(regs.rip == scratch.start + at && regs.rax as i64 != -i64::from(libc::ENOSYS))
    }

    /// Unmaps the scratch. This call runs on the first frame again.
    ///
    /// # Errors
    /// As [`Borrowed::system_call`].
    pub fn unmap_scratch(&mut self, limit: Duration) -> Result<(), CallError> {
        let Some(s) = self.scratch.take() else { return Ok(()) };
        self.checked("munmap", libc::SYS_munmap, [s.start, WHOLE, 0, 0, 0, 0], limit).map(drop)
    }
}

/// The result of a C function that returns an `int`: only the lower half of the register counts.
pub(crate) fn c_int(register: u64) -> i32 {
    let [a, b, c, d, ..] = register.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}
