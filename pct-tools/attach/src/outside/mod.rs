//! Methods 5 and 6: the controller stays and samples from outside, by ptrace; nothing in the target is changed.
//!
//! ```text
//! each tick     look at every thread's CPU time (schedstat); interrupt those that run now and have used half
//!               a period or more
//! each stop     read the registers and walk the stack, record, let go
//! ```
//!
//! The time from tick to tick is drawn anew each time. With a fixed one a program that works in bursts of the same
//! length would always be met at the same place.
//!
//! Stops are never waited for inside a tick: a runnable thread that is not on a processor stops when it is
//! next scheduled, and a loop that waited lost 93 % of its ticks with 16 busy threads. One interrupt per
//! thread is under way at most.
//!
//! By CPU time a sample's weight is the CPU time since the thread's previous one, rounded to periods with the
//! rest carried over, so totals are right at any rate and load. By the wall clock it is the time since the
//! previous one; threads that wait are read without being stopped ([`waiting`]), and one that has not run
//! since is where it was. Why a thread waits is the leaf of its stack ([`cause`]); what it waited for a
//! processor is told apart by the kernel's own figure.
//!
//! A thread is interrupted only when the kernel says that it runs, since some calls return a bare EINTR on
//! any stop. One that falls asleep in between makes its call again ([`crate::ptrace::restart`]).
//!
//! Method 6 follows forks: what a traced task makes is traced from its first instruction, each process image
//! has a recording of its own. A first stop may be reported before the parent's event; so new tasks are known
//! by their own stops alone.
//!
//! Reading order: `due` (who is to be interrupted), `stops` (what follows each stop), `samples`, `cause` (why threads
//! wait), `lives` (threads and processes that begin and end), `rights` (who must not be traced any longer), `release`.
//! One thread and one process: `thread`, `process`.
//! Frames of interpreters: `pages`, `still`, `python`, `java`, `javascript`, and `runtimes` that knows them all.

mod cause;
mod due;
mod handler_entry;
mod java;
mod javascript;
mod lives;
mod pages;
mod process;
mod python;
mod release;
mod rights;
mod runtimes;
mod samples;
mod status;
mod still;
mod stops;
mod thread;
mod tracees;
pub mod waiting;

use crate::choose::Refusal;
use crate::facts;
use crate::inject_error::InjectError;
use crate::ptrace::entry::HeldThread;
use crate::ptrace::error::CallError;
use crate::ptrace::sys::{self, Signals, Stop, Tid};
use crate::subject::Manner;
use crate::tasks;
use crate::turn::Turn;
use crate::unwind::Shared;
use pct_format::header::Clock;
use process::Process;
use status::Status;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};
use thread::Thread;
use tracees::{folder_of, nanos, threads_of, tracer_of};

/// What is sampled, and where it goes.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Rate, clock ([`Clock::Wall`], or CPU time), stacks, limits.
    pub manner: Manner,
    /// What becomes of processes that the target forks.
    pub follow: Follow,
    /// Sampling ends when the first process does, also when children of its go on.
    pub first_only: bool,
    /// Where recordings are made.
    pub folder: PathBuf,
}

/// What becomes of the processes that a sampled one makes.
#[derive(Clone)]
pub enum Follow {
    /// They go on by themselves.
    None,
    /// They are sampled too.
    All,
    /// They are sampled too, but for programs of which this says that they sample themselves. It is asked when the
    /// process with this id stands at the first instruction of a program; one of which it says so is let go there.
    AllBut(Rc<dyn Fn(i32) -> bool>),
}

impl From<bool> for Follow {
    fn from(all: bool) -> Follow {
        if all { Follow::All } else { Follow::None }
    }
}

impl fmt::Debug for Follow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Follow::None => "None",
            Follow::All => "All",
            Follow::AllBut(_) => "AllBut",
        })
    }
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
    status: Status,
    /// When the next tick is due, once there was one.
    next: Option<Instant>,
    /// What is executed gains rights although we trace it.
    may_trace_all: bool,
}

const OPTIONS: i32 = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACESYSGOOD;
const FOLLOW: i32 = libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK;

impl Outside {
    fn new(pid: i32, settings: Settings) -> Outside {
        sys::many_files();
        let period = Duration::from_nanos(1_000_000_000 / u64::from(settings.manner.hz.max(1)));
        let (threads, processes) = (HashMap::new(), HashMap::new());
        Outside {
            status: Status::open(&settings.folder),
            first: pid,
            settings,
            period,
            threads,
            processes,
            counts: Counts::default(),
            shared: Rc::default(),
            next: None,
            may_trace_all: facts::capable(),
        }
    }

    /// Samples nobody yet ([`Outside::seize_too`]), and nobody is the first process.
    #[must_use]
    pub fn of_nobody(settings: Settings) -> Outside {
        Outside::new(0, settings)
    }

    /// Seizes every thread of `pid`; none is stopped yet.
    ///
    /// # Errors
    /// When the process is gone or may not be traced.
    pub fn seize(pid: i32, settings: Settings) -> Result<Self, InjectError> {
        let mut outside = Outside::new(pid, settings);
        outside.seize_too(pid)?;
        Ok(outside)
    }

    /// Whether this process is one of those that are sampled.
    #[must_use]
    pub fn samples(&self, pid: i32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// Seizes every thread of another process, which is not sampled yet.
    ///
    /// # Errors
    /// When the process is gone or may not be traced. Threads of it that were seized are sampled all the same.
    pub fn seize_too(&mut self, pid: i32) -> Result<(), InjectError> {
        // a controller that borrows threads is at work, or another one seizes them
        let _turn = Turn::wait_for_turn(pid)?;
        let tracer = tracer_of(Tid(pid));
        if tracer != 0 {
            return Err(Refusal::Traced { pid, tracer }.into());
        }
        self.add_process(pid, false).map_err(CallError::Memory)?;
        let seized = self.seize_threads(pid);
        if seized.is_err() && !self.threads.values().any(|t| t.pid == pid) {
            self.processes.remove(&pid);
        }
        seized
    }

    fn seize_threads(&mut self, pid: i32) -> Result<(), InjectError> {
        let options = self.options();
        // until a pass finds nothing new: threads are born meanwhile (those of seized threads are traced by themselves)
        loop {
            let mut found = false;
            let mut threads = threads_of(pid).map_err(CallError::Memory)?;
            // the first one last, as `release_leaders` says
            threads.sort_by_key(|tid| tid.0 == pid);
            for tid in threads {
                if self.threads.contains_key(&tid) {
                    continue;
                }
                match sys::seize(tid, options) {
                    Ok(()) => found |= self.add_thread(pid, tid, false),
                    Err(e) if e.is_gone() => {}
                    // a thread that was born of a seized one is traced already, and tells of itself by its first stop
                    Err(e) if e.0 == libc::EPERM && tracer_of(tid) == std::process::id().cast_signed() => {}
                    Err(e) if e.0 == libc::EPERM && tasks::has_ended(&folder_of(tid)) => {}
                    Err(source) => return Err(CallError::Request { what: "seize", tid, source }.into()),
                }
            }
            if !found {
                return Ok(());
            }
        }
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
    pub fn adopt(held: HeldThread, settings: Settings) -> Result<Self, CallError> {
        let tid = held.tid();
        let mut outside = Outside::new(tid.0, settings);
        outside.add_process(tid.0, true)?;
        outside.add_thread(tid.0, tid, true);
        let request = |what| move |source| CallError::Request { what, tid, source };
        sys::set_options(tid, outside.options()).map_err(request("set options"))?;
        sys::cont(held.hand_over(), 0).map_err(request("continue"))?;
        Ok(outside)
    }

    fn options(&self) -> i32 {
        if self.follows() { OPTIONS | FOLLOW } else { OPTIONS }
    }

    fn follows(&self) -> bool {
        !matches!(self.settings.follow, Follow::None)
    }

    fn period_ns(&self) -> i64 {
        nanos(self.period).cast_signed()
    }

    fn wall(&self) -> bool {
        self.settings.manner.clock == Clock::Wall
    }

    /// Samples for `limit` (`None`: until the target ends or a signal comes). `signals` are those to wait
    /// with: SIGCHLD, and whichever shall end this. It may be called again, and goes on then.
    ///
    /// # Errors
    /// Only when the kernel refuses something that it should not; the target is let go all the same.
    pub fn run(&mut self, limit: Option<Duration>, signals: &Signals) -> Result<Ended, CallError> {
        let start = Instant::now();
        let mut next = self.next.filter(|next| *next > start).unwrap_or(start + self.period);
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
                let length = drawn(self.period);
                next += length;
                if next < now {
                    // never pile ticks up: weights make up for them
                    self.counts.late += 1;
                    next = now + length;
                }
                self.next = Some(next);
                if now.duration_since(anchored) > Duration::from_millis(250) {
                    anchored = now;
                    self.processes.values_mut().for_each(Process::anchor);
                }
            }
            let wait = next.saturating_duration_since(Instant::now());
            match signals.wait(nanos(wait)) {
                Some(s) if s != libc::SIGCHLD => return Ok(Ended::Signal(s)),
                _ => {}
            }
        }
    }
}

/// A length between half a period and one and a half, evenly drawn.
fn drawn(period: Duration) -> Duration {
    // Each new state has other keys, so what an empty hasher gives is random.
    let random = RandomState::new().build_hasher().finish();
    let whole = (u128::from(random) * period.as_nanos()) >> 64;
    period / 2 + Duration::from_nanos(u64::try_from(whole).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_lengths_are_spread_evenly_around_the_period() {
        let period = Duration::from_nanos(1_000_003);
        let count = 64_000_u32;
        let mut eighths = [0_u32; 8];
        let mut sum = 0.0;
        for _ in 0..count {
            let share = (drawn(period).as_nanos() - period.as_nanos() / 2) as f64 / period.as_nanos() as f64;
            assert!((0.0..=1.0).contains(&share), "{share}");
            eighths[(share * 8.0) as usize & 7] += 1;
            sum += share;
        }
        // Five standard deviations of a binomial count, and of the mean of as many even draws.
        let (each, deviation) = (f64::from(count) / 8.0, (f64::from(count) / 8.0 * 7.0 / 8.0).sqrt());
        assert!(eighths.iter().all(|n| (f64::from(*n) - each).abs() < 5.0 * deviation), "{eighths:?}");
        let mean = sum / f64::from(count);
        assert!((mean - 0.5).abs() < 5.0 * (1.0 / 12.0 / f64::from(count)).sqrt(), "{mean}");
    }
}
