//! Methods 5 and 6: the controller stays and samples from outside, by ptrace; nothing in the target is changed.
//!
//! ```text
//! each period   look at every thread's CPU time (schedstat); interrupt those that used half a period or more and run now
//! each stop     read the registers and walk the stack, record, let go
//! ```
//!
//! Stops are never waited for inside a tick: a runnable thread that is not on a processor stops when it is next scheduled, and
//! a loop that waited lost 93 % of its ticks with 16 busy threads. One interrupt per thread is under way at most.
//!
//! By CPU time a sample's weight is the CPU time since the thread's previous one, rounded to periods with the rest carried over,
//! so totals are right at any rate and load. By the wall clock it is the time since the previous one; threads that wait are read
//! without being stopped ([`waiting`]), and one that has not run since is where it was.
//!
//! A thread is interrupted only when the kernel says that it runs, since some calls return a bare EINTR on any stop. One that
//! falls asleep in between makes its call again ([`crate::ptrace::restart`]).
//!
//! Method 6 follows forks: what a traced task makes is traced from its first instruction, each process image has a recording of
//! its own. A first stop may be reported before the parent's event; so new tasks are known by their own stops alone.

mod handler_entry;
mod process;
mod python;
mod status;
mod thread;
pub mod waiting;

use crate::choose::Refusal;
use crate::entry::Held;
use crate::inject::Turn;
use crate::inject_error::InjectError;
use crate::ptrace::error::CallError;
use crate::ptrace::restart;
use crate::ptrace::sys::{self, Errno, Signals, Stop, Tid};
use crate::subject::Manner;
use crate::tasks;
use crate::unwind::Shared;
use pct_format::header::{Clock, State};
use process::Process;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};
use thread::{Thread, Wait};
use waiting::Place;

/// What is sampled, and where it goes.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Rate, clock ([`Clock::Wall`], or CPU time), stacks, limits.
    pub manner: Manner,
    /// Processes that the target forks are sampled too.
    pub follow: bool,
    /// Sampling ends when the first process does, also when children of its go on.
    pub first_only: bool,
    /// Where recordings are made.
    pub folder: PathBuf,
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
#[derive(Debug, Default)]
pub struct Counts {
    /// Samples recorded.
    pub samples: u64,
    /// Their weight in periods.
    pub weight: u64,
    /// Threads stopped that turned out to have nothing to tell (they were about to wait).
    pub empty: u64,
    /// Calls that were made again because our stop had cut them short.
    pub again: u64,
    /// Ticks that came late because the controller had no processor.
    pub late: u64,
    /// Processes with a recording.
    pub recorded: u64,
    /// Processes that were followed.
    pub processes: u64,
    /// Why a recording could not be made.
    pub failed: Option<io::Error>,
    /// How the first process ended: [`Stop::Exited`] or [`Stop::Killed`].
    pub status: Option<Stop>,
}

/// Processes that are sampled from outside.
pub struct Outside {
    first: i32,
    settings: Settings,
    period: Duration,
    threads: HashMap<Tid, Thread>,
    processes: HashMap<i32, Process>,
    counts: Counts,
    shared: Rc<Shared>,
}

const OPTIONS: i32 = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACESYSGOOD;
const FOLLOW: i32 = libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK;
/// For so long a thread that is only ever met in calls is hoped to be met elsewhere.
const PATIENCE: Duration = Duration::from_millis(250);
/// A thread that does not stop in this time is detached by our end.
const RELEASE: Duration = Duration::from_secs(1);

impl Outside {
    fn new(pid: i32, settings: Settings) -> Outside {
        sys::many_files();
        let period = Duration::from_nanos(1_000_000_000 / u64::from(settings.manner.hz.max(1)));
        let (threads, processes) = (HashMap::new(), HashMap::new());
        Outside {
            first: pid,
            settings,
            period,
            threads,
            processes,
            counts: Counts::default(),
            shared: Rc::default(),
        }
    }

    /// Seizes every thread of `pid`; none is stopped yet.
    ///
    /// # Errors
    /// When the process is gone or may not be traced.
    pub fn seize(pid: i32, settings: Settings) -> Result<Self, InjectError> {
        // a controller that borrows threads is at work, or another one seizes them
        let _turn = Turn::take(pid)?;
        let tracer = tracer_of(Tid(pid));
        if tracer != 0 {
            return Err(Refusal::Traced { pid, tracer }.into());
        }
        let mut outside = Outside::new(pid, settings);
        outside.add_process(pid, false).map_err(CallError::Memory)?;
        let options = outside.options();
        // until a pass finds nothing new: threads are born meanwhile (those of seized threads are traced by themselves)
        loop {
            let mut found = false;
            for tid in threads_of(pid).map_err(CallError::Memory)? {
                if outside.threads.contains_key(&tid) {
                    continue;
                }
                match sys::seize(tid, options) {
                    Ok(()) => found |= outside.add_thread(pid, tid, false),
                    Err(e) if e.is_gone() => {}
                    // a thread that was born of a seized one is traced already, and tells of itself by its first stop
                    Err(e) if e.0 == libc::EPERM && tracer_of(tid) == std::process::id() as i32 => {}
                    Err(e) if e.0 == libc::EPERM && tasks::has_ended(&folder_of(tid)) => {}
                    Err(source) => return Err(CallError::Request { what: "seize", tid, source }.into()),
                }
            }
            if !found {
                break;
            }
        }
        Ok(outside)
    }

    /// Makes the recording of the first process now: one that is idle has none else.
    ///
    /// # Errors
    /// Why it could not be made.
    pub fn record_now(&mut self) -> io::Result<()> {
        let Some(process) = self.processes.get_mut(&self.first) else { return Ok(()) };
        process.recording(&self.settings.folder, &self.settings.manner);
        process.failed.take().map_or(Ok(()), Err)
    }

    /// Takes over a program that stands at its first instruction, and lets it run.
    ///
    /// # Errors
    /// When it is gone.
    pub fn adopt(held: Held, settings: Settings) -> Result<Self, CallError> {
        let tid = held.tid();
        let mut outside = Outside::new(tid.0, settings);
        outside.add_process(tid.0, true)?;
        outside.add_thread(tid.0, tid, true);
        let request = |what| move |source| CallError::Request { what, tid, source };
        sys::set_options(tid, outside.options()).map_err(request("set options"))?;
        sys::cont(held.take(), 0).map_err(request("continue"))?;
        Ok(outside)
    }

    fn options(&self) -> i32 {
        if self.settings.follow { OPTIONS | FOLLOW } else { OPTIONS }
    }

    fn wall(&self) -> bool {
        self.settings.manner.clock == Clock::Wall
    }

    fn add_process(&mut self, pid: i32, born: bool) -> io::Result<()> {
        self.processes.insert(pid, Process::open(pid, &self.settings.manner, born, &self.shared)?);
        self.counts.processes += 1;
        Ok(())
    }

    fn add_thread(&mut self, pid: i32, tid: Tid, born: bool) -> bool {
        let thread = Thread::open(pid, tid, born);
        thread.map(|t| self.threads.insert(tid, t)).is_some()
    }

    /// Samples for `limit` (`None`: until the target ends or a signal comes). `signals` are those to wait with: SIGCHLD, and
    /// whichever shall end this.
    ///
    /// # Errors
    /// Only when the kernel refuses something that it should not; the target is let go all the same.
    pub fn run(&mut self, limit: Option<Duration>, signals: &Signals) -> Result<Ended, CallError> {
        let start = Instant::now();
        let mut next = start + self.period;
        let mut anchored = start;
        loop {
            self.drain()?;
            if self.threads.is_empty() || self.settings.first_only && self.counts.status.is_some() {
                return Ok(Ended::Target);
            }
            let now = Instant::now();
            if limit.is_some_and(|l| now.duration_since(start) >= l) {
                return Ok(Ended::Time);
            }
            if now >= next {
                self.tick(now);
                next += self.period;
                if next < now {
                    // never pile ticks up: weights make up for them
                    self.counts.late += 1;
                    next = now + self.period;
                }
                if now.duration_since(anchored) > Duration::from_millis(250) {
                    anchored = now;
                    self.processes.values_mut().for_each(Process::anchor);
                }
            }
            let wait = next.saturating_duration_since(Instant::now());
            match signals.wait(wait.as_nanos() as u64) {
                Some(s) if s != libc::SIGCHLD => return Ok(Ended::Signal(s)),
                _ => {}
            }
        }
    }

    /// Interrupts the running threads that are due; by the wall clock, records those that wait.
    fn tick(&mut self, now: Instant) {
        let half = (self.period.as_nanos() / 2) as i64;
        let wall = self.wall();
        let (mut waiting, mut running) = (Vec::new(), Vec::new());
        for (tid, t) in &mut self.threads {
            if t.interrupting {
                continue;
            }
            let Some(stat) = t.stat() else { continue };
            t.seen_ns = stat.cpu_ns;
            if t.ended {
                continue;
            }
            let used = match wall {
                true => now.saturating_duration_since(t.sampled_at).as_nanos() as u64,
                false => stat.cpu_ns.saturating_sub(t.sampled_ns),
            };
            if (used as i64).saturating_add(t.carry) < half {
                continue;
            }
            if wall && t.wait.is_some_and(|w| w.slices == stat.slices) {
                waiting.push((*tid, None));
                continue;
            }
            match t.place() {
                Some(Place::Running) => running.push(*tid),
                // a first thread that has ended while others go on waits for nothing
                Some(Place::Waiting { sp: 0, .. }) if tasks::has_ended(&folder_of(*tid)) => t.ended = true,
                Some(Place::Waiting { sp, pc, .. }) if wall => {
                    waiting.push((*tid, Some((sp, pc, stat.slices))));
                }
                // it will be seen when it runs: its CPU time is not lost, and no call of its is cut short
                _ => {}
            }
        }
        for tid in running {
            if let Some(t) = self.threads.get_mut(&tid)
                && sys::interrupt(tid).is_ok()
            {
                t.interrupting = true;
            }
        }
        for (tid, place) in waiting {
            self.sample_waiting(tid, place, now);
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
                Err(source) => return Err(CallError::Request { what: "wait", tid: Tid(self.first), source }),
            }
        }
    }

    fn stopped(&mut self, tid: Tid, stop: Stop) -> Result<(), CallError> {
        if let Some(t) = self.threads.get_mut(&tid) {
            // a stop of any kind takes an interrupt that is under way with it (the kernel's ptrace_stop: "any trap clears
            // pending STOP trap"); should one come all the same, it is a sample too
            t.interrupting = false;
        }
        let resumed = match stop {
            Stop::Exited(_) | Stop::Killed(_) => {
                self.ended(tid, stop);
                return Ok(());
            }
            Stop::Interrupted if self.threads.contains_key(&tid) => {
                self.sample_stopped(tid);
                sys::cont(tid, 0)
            }
            // a new task, or one that we do not follow
            _ if !self.threads.contains_key(&tid) && !self.meet(tid) => sys::detach(tid, signal_of(stop)),
            Stop::Interrupted => sys::cont(tid, 0),
            Stop::Signal(s) => sys::cont(tid, s),
            Stop::Group(_) => sys::listen(tid),
            Stop::Event(libc::PTRACE_EVENT_EXEC) => {
                self.after_exec(tid);
                sys::cont(tid, 0)
            }
            Stop::Event(_) | Stop::Syscall => sys::cont(tid, 0),
        };
        match resumed {
            Err(e) if !e.is_gone() => Err(CallError::Request { what: "continue", tid, source: e }),
            _ => Ok(()),
        }
    }

    /// The first stop of a new task. False: it belongs to a process that is not followed (or is gone).
    fn meet(&mut self, tid: Tid) -> bool {
        let Some(pid) = process_of(tid) else { return false };
        if !self.processes.contains_key(&pid) {
            // a process made by a bare clone is traced whether we follow or not
            if !self.settings.follow || self.add_process(pid, true).is_err() {
                return false;
            }
        }
        let met = self.add_thread(pid, tid, true);
        if !met && !self.threads.values().any(|t| t.pid == pid) {
            self.close(pid, State::Closed); // it ended before it could be looked at
        }
        met
    }

    fn ended(&mut self, tid: Tid, stop: Stop) {
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
    fn lose_rest(&mut self, t: &mut Thread) {
        if self.wall() {
            return;
        }
        let weight = t.periods(t.seen_ns.saturating_sub(t.sampled_ns), self.period.as_nanos() as i64);
        if let Some(process) = self.processes.get_mut(&t.pid).filter(|_| weight > 0) {
            process.lose(weight);
        }
    }

    fn close(&mut self, pid: i32, state: State) {
        let Some(mut process) = self.processes.remove(&pid) else { return };
        self.counts.failed = self.counts.failed.take().or(process.failed.take());
        match process.close(state) {
            None => self.counts.recorded += 1,
            Some(used_ns) => status::without_sample(&self.settings.folder, pid, used_ns),
        }
    }

    /// All other threads of the process are gone without a report; this one has the leader's tid now, and another program.
    fn after_exec(&mut self, tid: Tid) {
        let pid = tid.0;
        self.threads.retain(|_, t| t.pid != pid);
        self.close(pid, State::Replaced);
        if self.add_process(pid, false).is_ok() && self.add_thread(pid, tid, false) {
            self.counts.processes -= 1; // the same process, another image
        }
    }

    /// Records one stopped thread.
    fn sample_stopped(&mut self, tid: Tid) {
        let wall = self.wall();
        let period = self.period.as_nanos() as i64;
        let Some(t) = self.threads.get_mut(&tid) else { return };
        t.wait = None;
        let Ok(regs) = sys::regs(tid) else { return };
        if let Some(fixed) = restart::again(tid, &regs, None) {
            self.counts.again += u64::from(sys::set_regs(tid, &fixed).is_ok());
        }
        let Some(stat) = t.stat() else { return };
        let now = Instant::now();
        let used = match wall {
            true => now.saturating_duration_since(t.sampled_at).as_nanos() as u64,
            false => stat.cpu_ns.saturating_sub(t.sampled_ns),
        };
        // A thread stops on its way out of the kernel: one that waits for a processor, or makes a call before our stop has
        // reached it, is seen at the end of a call far more often than it is there. So a stop in a call stands for the system
        // time that the kernel's accounts say and no sample does; the rest is due until the thread is met elsewhere, or
        // waiting. One that is never met elsewhere is taken as it is after a while, as a place in user mode.
        let in_call = (regs.orig_rax as i64) >= 0;
        let patient = in_call && used < PATIENCE.as_nanos() as u64;
        let stands_for = if patient { used.min(t.system_due(tid)) } else { used };
        if patient && stands_for < period as u64 / 2 {
            self.counts.empty += 1;
            return;
        }
        let rest = used - stands_for;
        (t.sampled_ns, t.sampled_at) =
            (stat.cpu_ns - rest.min(stat.cpu_ns), now - Duration::from_nanos(rest));
        let weight = t.periods(stands_for, period);
        if weight == 0 {
            self.counts.empty += 1;
            return;
        }
        if patient {
            t.system_ns += weight * period as u64;
        }
        let system = patient && !wall;
        let Some((serial, process)) = self.recorded(tid) else { return };
        let regs = process.interrupted(regs);
        let stack = process.stopped_stack(tid, &regs);
        process.sample(serial, regs.rip, weight, system, stack);
        self.counts.samples += 1;
        self.counts.weight += weight;
    }

    /// Records one waiting thread (wall clock): at `place` with its number of slices, or where it was.
    fn sample_waiting(&mut self, tid: Tid, place: Option<(u64, u64, u64)>, now: Instant) {
        let period = self.period.as_nanos() as i64;
        let wait = match place {
            None => self.threads.get(&tid).and_then(|t| t.wait),
            Some((sp, pc, slices)) => self.recorded(tid).map(|(_, process)| {
                let stack = process.waiting_stack(tid, sp, pc);
                Wait { slices, pc, stack }
            }),
        };
        let (Some(wait), Some(t)) = (wait, self.threads.get_mut(&tid)) else { return };
        // it may have moved while its stack was read, and even have come back: then what was read is not to be believed, and it is
        // due still
        if place.is_some_and(|(sp, pc, slices)| {
            !matches!(t.place(), Some(Place::Waiting { sp: s, pc: p, .. }) if (s, p) == (sp, pc))
                || t.stat().is_none_or(|stat| stat.slices != slices)
        }) {
            return;
        }
        t.wait = Some(wait);
        let used = now.saturating_duration_since(t.sampled_at).as_nanos() as u64;
        t.sampled_at = now;
        let weight = t.periods(used, period);
        if weight == 0 {
            return;
        }
        if let Some((serial, process)) = self.recorded(tid) {
            process.sample(serial, wait.pc, weight, true, wait.stack);
            self.counts.samples += 1;
            self.counts.weight += weight;
        }
    }

    /// A thread's number in its recording, and its process.
    fn recorded(&mut self, tid: Tid) -> Option<(u32, &mut Process)> {
        let t = self.threads.get_mut(&tid)?;
        let process = self.processes.get_mut(&t.pid)?;
        let serial = match t.serial {
            Some(serial) => serial,
            None => process.serial(tid, &self.settings.folder, &self.settings.manner)?,
        };
        t.serial = Some(serial);
        Some((serial, process))
    }

    /// Lets every thread go and ends the recordings. A thread that does not stop within a second is detached by our end.
    pub fn finish(mut self) -> Counts {
        let mut threads = std::mem::take(&mut self.threads);
        threads.values_mut().for_each(|t| self.lose_rest(t));
        self.threads = threads;
        self.release();
        let left: Vec<i32> = self.processes.keys().copied().collect();
        for pid in left {
            self.close(pid, State::Stopped);
        }
        self.counts
    }

    /// A tracee must be in a stop to be detached: all are interrupted, and let go as they come to a stop, also those that are
    /// born meanwhile (they come by themselves).
    fn release(&mut self) {
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

    fn let_go(&mut self, tid: Tid, stop: Stop) {
        if let Ok(regs) = sys::regs(tid)
            && let Some(fixed) = restart::again(tid, &regs, None)
        {
            let _ = sys::set_regs(tid, &fixed);
        }
        let made = match stop {
            Stop::Event(libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK) => {
                sys::event_message(tid).ok().and_then(|new| i32::try_from(new).ok())
            }
            _ => None,
        };
        let _ = sys::detach(tid, signal_of(stop));
        self.threads.remove(&tid);
        // its first stop is still to come, unless it came already
        if let Some(new) = made.map(Tid)
            && tracer_of(new) == std::process::id() as i32
            && !self.threads.contains_key(&new)
            && let Some(pid) = process_of(new)
        {
            self.add_thread(pid, new, true);
        }
    }
}

/// The signal that a stopped thread is to get when it goes on.
fn signal_of(stop: Stop) -> i32 {
    if let Stop::Signal(s) = stop { s } else { 0 }
}

/// The threads of a process.
fn threads_of(pid: i32) -> io::Result<Vec<Tid>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok().map(Tid)).collect())
}

fn status_number(tid: Tid, key: &str) -> Option<i32> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    text.lines().find_map(|l| l.strip_prefix(key)).and_then(|n| n.trim().parse().ok())
}

/// The process that a thread belongs to.
fn process_of(tid: Tid) -> Option<i32> {
    status_number(tid, "Tgid:")
}

/// Who traces a thread; 0: nobody.
fn tracer_of(tid: Tid) -> i32 {
    status_number(tid, "TracerPid:").unwrap_or(0)
}

/// Of any thread, by its own number.
fn folder_of(tid: Tid) -> PathBuf {
    PathBuf::from(format!("/proc/{tid}"))
}
