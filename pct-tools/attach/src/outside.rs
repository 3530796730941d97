//! Methods 5 and 6: the controller stays and samples from outside, by ptrace; nothing in the target is changed.
//!
//! ```text
//! each period   look at every thread's CPU time (schedstat); interrupt those that used half a period or more
//! each stop     read the registers and walk the stack, record, let go
//! ```
//!
//! Stops are never waited for inside a tick: a runnable thread that is not on a processor stops when it is next scheduled, and
//! a loop that waited lost 93 % of its ticks with 16 busy threads. One interrupt per thread is under way at most.
//!
//! A sample's weight is the CPU time since the thread's previous one, rounded to periods with the rest carried over, so
//! totals are right at any rate and load. Threads that wait are not interrupted: they used no CPU time, and the calls that
//! they wait in would return EINTR.

use crate::memory::ProcessMemory;
use crate::ptrace::borrow::{CallError, wait_stop};
use crate::ptrace::sys::{self, Errno, Regs, Stop, Tid};
use crate::recording::Recording;
use crate::regions::Regions;
use pct_format::record::Frame;
use procfs::process::Process;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Walks a stopped thread's stack.
pub trait Unwind {
    /// The return addresses from the inside outwards, perhaps ended by [`Frame::Cut`]. The thread is stopped meanwhile.
    fn walk(&mut self, regs: &Regs, memory: &ProcessMemory, out: &mut Vec<Frame>);
    /// The target's regions have changed.
    fn refresh(&mut self, pid: i32, memory: &ProcessMemory);
}

/// Samples without stacks.
#[derive(Debug, Default)]
pub struct NoStacks;

impl Unwind for NoStacks {
    fn walk(&mut self, _: &Regs, _: &ProcessMemory, _: &mut Vec<Frame>) {}
    fn refresh(&mut self, _: i32, _: &ProcessMemory) {}
}

/// Why sampling from outside ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The time that was asked for is over.
    Time,
    /// The target has ended.
    Target,
    /// A signal asked the controller to end.
    Signal(i32),
}

/// What was done, for the closing line.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    /// Samples recorded.
    pub samples: u64,
    /// Their weight in periods.
    pub weight: u64,
    /// Threads stopped that turned out to have nothing to tell (they were about to wait).
    pub empty: u64,
    /// Ticks that came late because the controller had no processor.
    pub late: u64,
}

#[derive(Debug)]
struct Thread {
    serial: u32,
    schedstat: File,
    /// CPU nanoseconds up to the last sample.
    sampled_ns: u64,
    /// CPU nanoseconds recorded too few (or too many, below zero).
    carry: i64,
    interrupting: bool,
}

impl Thread {
    /// CPU nanoseconds so far: the first number of schedstat.
    fn cpu_ns(&self) -> Option<u64> {
        let mut text = [0u8; 64];
        let n = self.schedstat.read_at(&mut text, 0).ok()?;
        let digits = text[..n].split(|b| *b == b' ').next()?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }
}

/// One process, sampled from outside.
pub struct Outside<U> {
    pid: i32,
    memory: ProcessMemory,
    threads: HashMap<Tid, Thread>,
    recording: Recording,
    regions: Regions,
    /// The executable ranges known, to notice a PC outside of them.
    known: Vec<(u64, u64)>,
    unwind: U,
    frames: Vec<Frame>,
    counts: Counts,
    period: Duration,
    /// User and system CPU nanoseconds of the target when we came.
    before: (u64, u64),
}

/// User and system CPU nanoseconds of a process, to the tick.
fn cpu_ns(pid: i32) -> Option<(u64, u64)> {
    let stat = Process::new(pid).and_then(|p| p.stat()).ok()?;
    let tick = 1_000_000_000 / procfs::ticks_per_second().max(1);
    Some((stat.utime * tick, stat.stime * tick))
}

const OPTIONS: i32 = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACESYSGOOD;

impl<U: Unwind> Outside<U> {
    /// Seizes every thread of `pid`; none is stopped yet.
    ///
    /// # Errors
    /// When the process is gone or may not be traced.
    pub fn seize(pid: i32, hz: u32, recording: Recording, unwind: U) -> Result<Self, CallError> {
        let memory = ProcessMemory::open(pid, false)?;
        let mut outside = Outside {
            pid,
            memory,
            threads: HashMap::new(),
            recording,
            regions: Regions::default(),
            known: Vec::new(),
            unwind,
            frames: Vec::new(),
            counts: Counts::default(),
            period: Duration::from_nanos(1_000_000_000 / u64::from(hz.max(1))),
            before: cpu_ns(pid).unwrap_or_default(),
        };
        // until a pass finds nothing new: threads are born meanwhile (those of seized threads are traced by themselves)
        loop {
            let mut found = false;
            for tid in tasks(pid)? {
                if outside.threads.contains_key(&tid) {
                    continue;
                }
                match sys::seize(tid, OPTIONS) {
                    Ok(()) => found |= outside.add(tid),
                    Err(e) if e.is_gone() => {}
                    // a thread that was born of a seized one is traced already
                    Err(e) if e.0 == libc::EPERM && !outside.threads.is_empty() => found |= outside.add(tid),
                    Err(source) => return Err(CallError::Request { what: "seize", tid, source }),
                }
            }
            if !found {
                break;
            }
        }
        outside.refresh_regions();
        Ok(outside)
    }

    fn add(&mut self, tid: Tid) -> bool {
        let Ok(schedstat) = File::open(format!("/proc/{}/task/{tid}/schedstat", self.pid)) else {
            return false;
        };
        let name = std::fs::read(format!("/proc/{}/task/{tid}/comm", self.pid)).unwrap_or_default();
        let serial = self.recording.thread(tid.0 as u32, name.trim_ascii_end());
        let mut thread = Thread { serial, schedstat, sampled_ns: 0, carry: 0, interrupting: false };
        thread.sampled_ns = thread.cpu_ns().unwrap_or(0);
        self.threads.insert(tid, thread);
        true
    }

    fn refresh_regions(&mut self) {
        let Ok(maps) = Process::new(self.pid).and_then(|p| p.maps()) else { return };
        let now = self.regions.of(&maps.0, &self.memory);
        self.known = now.iter().map(|r| (r.start, r.end)).collect();
        self.recording.regions(&now);
        self.unwind.refresh(self.pid, &self.memory);
    }

    /// Samples for `limit` (`None`: until the target ends or a signal comes). The control signals must be blocked
    /// ([`sys::block_control_signals`]).
    ///
    /// # Errors
    /// Only when the kernel refuses something that it should not; the target is let go all the same.
    pub fn run(&mut self, limit: Option<Duration>) -> Result<Ended, CallError> {
        let start = Instant::now();
        let mut next = start + self.period;
        let mut anchored = start;
        loop {
            self.drain()?;
            if self.threads.is_empty() {
                return Ok(Ended::Target);
            }
            let now = Instant::now();
            if limit.is_some_and(|l| now.duration_since(start) >= l) {
                return Ok(Ended::Time);
            }
            if now >= next {
                self.tick();
                next += self.period;
                if next < now {
                    // never pile ticks up: weights make up for them
                    self.counts.late += 1;
                    next = now + self.period;
                }
                if now.duration_since(anchored) > Duration::from_millis(250) {
                    anchored = now;
                    self.anchor();
                }
            }
            let wait = next.saturating_duration_since(Instant::now());
            match sys::wait_signal(wait.as_nanos() as u64) {
                Some(s) if s != libc::SIGCHLD => return Ok(Ended::Signal(s)),
                _ => {}
            }
        }
    }

    /// Writes the CPU time that the target used since we came.
    fn anchor(&mut self) {
        if let Some((user, system)) = cpu_ns(self.pid) {
            let (user_before, system_before) = self.before;
            self.recording.anchor(user.saturating_sub(user_before), system.saturating_sub(system_before));
        }
    }

    /// Interrupts the threads that used half a period or more since their last sample.
    fn tick(&mut self) {
        let half = (self.period.as_nanos() / 2) as i64;
        for (tid, t) in &mut self.threads {
            if t.interrupting {
                continue;
            }
            let Some(cpu) = t.cpu_ns() else { continue };
            let due = cpu.saturating_sub(t.sampled_ns) as i64 + t.carry;
            if due >= half && sys::interrupt(*tid).is_ok() {
                t.interrupting = true;
            }
        }
    }

    /// Handles every stop that is there now.
    fn drain(&mut self) -> Result<(), CallError> {
        loop {
            match sys::wait(None) {
                Ok(Some((tid, stop))) => self.stopped(tid, stop)?,
                Ok(None) => return Ok(()),
                Err(e) if e.0 == libc::EINTR => {}
                Err(e) if e.0 == libc::ECHILD => {
                    self.threads.clear();
                    return Ok(());
                }
                Err(source) => return Err(CallError::Request { what: "wait", tid: Tid(self.pid), source }),
            }
        }
    }

    fn stopped(&mut self, tid: Tid, stop: Stop) -> Result<(), CallError> {
        let resumed = match stop {
            Stop::Exited(_) | Stop::Killed(_) => {
                if let Some(t) = self.threads.remove(&tid) {
                    let cpu = t.cpu_ns().unwrap_or(t.sampled_ns);
                    self.recording.thread_end(t.serial, cpu);
                }
                return Ok(());
            }
            Stop::Interrupted => {
                if self.threads.contains_key(&tid) {
                    self.sample(tid);
                } else {
                    // a new task: its first stop may come before its parent's event
                    self.add(tid);
                }
                sys::cont(tid, 0)
            }
            Stop::Signal(s) => sys::cont(tid, s),
            Stop::Group(_) => {
                if let Some(t) = self.threads.get_mut(&tid) {
                    t.interrupting = false;
                }
                sys::listen(tid)
            }
            Stop::Event(libc::PTRACE_EVENT_EXEC) => {
                self.after_exec(tid);
                sys::cont(tid, 0)
            }
            Stop::Event(libc::PTRACE_EVENT_CLONE) => {
                if let Ok(new) = sys::event_message(tid) {
                    let new = Tid(i32::try_from(new).unwrap_or(0));
                    if !self.threads.contains_key(&new) {
                        self.add(new);
                    }
                }
                sys::cont(tid, 0)
            }
            Stop::Event(_) | Stop::Syscall => sys::cont(tid, 0),
        };
        match resumed {
            Err(e) if !e.is_gone() => Err(CallError::Request { what: "continue", tid, source: e }),
            _ => Ok(()),
        }
    }

    /// All other threads are gone without a report; this one has the leader's tid now, and another program.
    fn after_exec(&mut self, tid: Tid) {
        self.threads.clear();
        let exe = std::fs::read_link(format!("/proc/{}/exe", self.pid)).unwrap_or_default();
        use std::os::unix::ffi::OsStrExt;
        self.recording.exec(exe.as_os_str().as_bytes());
        if let Ok(memory) = ProcessMemory::open(self.pid, false) {
            self.memory = memory;
        }
        self.add(tid);
        self.refresh_regions();
    }

    /// Records one stopped thread.
    fn sample(&mut self, tid: Tid) {
        let Some(t) = self.threads.get_mut(&tid) else { return };
        t.interrupting = false;
        let Some(cpu) = t.cpu_ns() else { return };
        let period = self.recording.period_ns() as i64;
        let due = cpu.saturating_sub(t.sampled_ns) as i64 + t.carry;
        t.sampled_ns = cpu;
        let weight = (due + period / 2).div_euclid(period);
        if weight <= 0 {
            t.carry = due;
            self.counts.empty += 1;
            return;
        }
        t.carry = due - weight * period;
        let serial = t.serial;
        let Ok(regs) = sys::regs(tid) else { return };
        if !self.known.iter().any(|(from, to)| (*from..*to).contains(&regs.rip)) {
            self.refresh_regions();
        }
        self.frames.clear();
        self.unwind.walk(&regs, &self.memory, &mut self.frames);
        let stack = self.recording.stack(&self.frames);
        // in a system call: the pc is the instruction after it
        let system = (regs.orig_rax as i64) >= 0;
        self.recording.sample(serial, regs.rip, weight as u64, system, stack);
        self.counts.samples += 1;
        self.counts.weight += weight as u64;
    }

    /// Lets every thread go and ends the recording. A thread that does not stop within a second is detached by our end.
    pub fn finish(mut self) -> Counts {
        for tid in self.threads.keys().copied().collect::<Vec<_>>() {
            self.release(tid);
        }
        self.anchor();
        let state = match self.threads.is_empty() {
            true => pct_format::State::Closed,
            false => pct_format::State::Stopped,
        };
        self.recording.close(state);
        self.counts
    }

    /// A tracee must be in a stop to be detached: interrupt it, pass on what signal it meets.
    fn release(&mut self, tid: Tid) {
        if let Err(Errno(libc::ESRCH)) = sys::interrupt(tid) {
            return;
        }
        loop {
            match wait_stop(tid, Duration::from_secs(1)) {
                Ok(Stop::Signal(s)) => {
                    let _ = sys::detach(tid, s);
                    return;
                }
                Ok(Stop::Event(libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_EXEC) | Stop::Syscall) => {
                    let _ = sys::cont(tid, 0);
                }
                Ok(_) => {
                    let _ = sys::detach(tid, 0);
                    return;
                }
                Err(_) => return,
            }
        }
    }
}

/// The threads of a process.
fn tasks(pid: i32) -> io::Result<Vec<Tid>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok().map(Tid)).collect())
}
