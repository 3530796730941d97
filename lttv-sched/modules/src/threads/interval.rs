//! What a thread did for a time, and the sums of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use lttv_engine::time::Time;
use rustc_hash::FxHashMap;

use crate::state::ThreadKey;

/// What a thread does with its time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Activity {
    /// Not known.
    #[default]
    Unknown,
    /// Runs on a CPU.
    Running,
    /// Could run, waits for a CPU.
    WaitsForCpu,
    /// Waits for something else than a CPU.
    Blocked,
    /// Does not run; the recording does not tell why.
    OffCpu,
    /// Has ended, its parent has not asked yet.
    Exited,
}

impl fmt::Display for Activity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Activity::Unknown => "unknown",
            Activity::Running => "running",
            Activity::WaitsForCpu => "waits_for_cpu",
            Activity::Blocked => "blocked",
            Activity::OffCpu => "off_cpu",
            Activity::Exited => "exited",
        })
    }
}

/// What a thread does at some time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadState {
    /// What it does.
    pub activity: Activity,
    /// What it executes, or would if it ran: in the words of [`crate::state::activity`].
    pub mode: &'static str,
    /// The system call that it is in; empty outside of one.
    pub call: Arc<str>,
    /// The file that the call is for: its path, or `fd 3`. Empty where none is known.
    pub file: Arc<str>,
    /// The CPU, while it runs.
    pub cpu: Option<u32>,
}

/// What a blocked thread is in, where the trace does not tell.
pub const NOT_KNOWN: &str = "unknown";

impl ThreadState {
    /// What a blocked thread is in: its system call, else its mode. In its own code it cannot block: then the trace has
    /// no event of what it entered.
    pub fn blocked_in(&self) -> Arc<str> {
        match (&*self.call, self.mode) {
            ("", "user") => NOT_KNOWN.into(),
            ("", mode) => mode.into(),
            _ => self.call.clone(),
        }
    }
}

/// Which thread, among those of all traces. A number that is given again makes another thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ThreadId {
    /// Index of the trace in the traceset.
    pub trace: usize,
    /// Number of the thread.
    pub key: ThreadKey,
    /// When it was made, or first heard of.
    pub start: Time,
}

/// A thread did one thing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadInterval {
    /// The thread.
    pub thread: ThreadId,
    /// Its name.
    pub name: Arc<str>,
    /// Begin.
    pub from: Time,
    /// End.
    pub to: Time,
    /// What it did.
    pub state: ThreadState,
    /// Who ended its wait: a thread (`4711 cc1`) or an interrupt (`irq eth0`).
    pub woken_by: Option<Arc<str>>,
    /// Events of its CPU were lost meanwhile, so that it may have done something else.
    pub in_doubt: bool,
}

impl ThreadInterval {
    /// Its length, ns.
    pub fn ns(&self) -> i64 {
        self.to.since(self.from)
    }
}

/// How often, and how long altogether.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stays {
    /// How often.
    pub count: u64,
    /// How long, ns.
    pub ns: i64,
}

/// The sums of a thread over a window, times in ns.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ThreadSums {
    /// Its last known name.
    pub name: Arc<str>,
    /// Time on a CPU by what it executed.
    pub running: BTreeMap<&'static str, i64>,
    /// Time in which it waited for a CPU.
    pub waits_for_cpu: i64,
    /// Time in which it was blocked.
    pub blocked: i64,
    /// Time in which it did not run, where the recording does not tell why.
    pub off_cpu: i64,
    /// Time of which nothing is known.
    pub unknown: i64,
    /// The part of all these in which events of its CPU were lost.
    pub in_doubt: i64,
    /// Where it was blocked: system call (or mode) and file.
    pub blocked_in: FxHashMap<(Arc<str>, Arc<str>), Stays>,
}

impl ThreadSums {
    /// Time on a CPU, ns.
    pub fn on_cpu(&self) -> i64 {
        self.running.values().sum()
    }

    fn add(&mut self, interval: &ThreadInterval) {
        let ns = interval.ns();
        if self.name != interval.name {
            self.name = interval.name.clone();
        }
        match interval.state.activity {
            Activity::Running => *self.running.entry(interval.state.mode).or_default() += ns,
            Activity::WaitsForCpu => self.waits_for_cpu += ns,
            Activity::OffCpu => self.off_cpu += ns,
            Activity::Unknown => self.unknown += ns,
            Activity::Exited => return,
            Activity::Blocked => {
                self.blocked += ns;
                let state = &interval.state;
                let stays = self.blocked_in.entry((state.blocked_in(), state.file.clone())).or_default();
                stays.count += 1;
                stays.ns += ns;
            }
        }
        if interval.in_doubt {
            self.in_doubt += ns;
        }
    }
}

/// Takes intervals as they end. Intervals of different threads come in the order of their ends.
pub type OnInterval = Box<dyn FnMut(&ThreadInterval) + Send>;

/// Where intervals go: to the sums, and to whoever wants each.
pub(crate) struct Collected {
    pub(super) sums: FxHashMap<ThreadId, ThreadSums>,
    pub(super) on_interval: OnInterval,
}

impl Collected {
    pub(crate) fn push(&mut self, interval: &ThreadInterval) {
        if interval.from < interval.to {
            self.sums.entry(interval.thread).or_default().add(interval);
            (self.on_interval)(interval);
        }
    }
}
