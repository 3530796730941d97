//! What each thread was doing over a window: running, waiting for a CPU, or blocked, and in which system call.
//!
//! A request delivers the events; [`ThreadTimes`] turns them into intervals, each given to the caller when it ends, and into
//! sums for each thread. Two kinds of traces tell: kernel traces, by the state model (`kernel`), and recordings of
//! samples, by the threads' begins, ends and samples (`recorded`).
//!
//! What a thread did before it was first heard of is not known and no interval. The intervals of a thread follow one
//! another without a gap, from there to its end or the end of the window.

mod kernel;
mod recorded;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use lttv_engine::call::{BorderCall, Event, Moment};
use lttv_engine::hooks::{
    Flow, Hook, HookKey, PRIORITY_DEFAULT, PRIORITY_STATS_AFTER, PRIORITY_STATS_BEFORE,
};
use lttv_engine::request::EventsRequest;
use lttv_engine::source::Source;
use lttv_engine::time::Time;
use rustc_hash::FxHashMap;

use crate::state::{SystemState, ThreadKey};
use kernel::KernelThreads;
use recorded::RecordedThreads;

pub use recorded::{SYSTEM_SAMPLE, USER_SAMPLE, tells_threads};

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

impl ThreadState {
    /// What a blocked thread is in: its system call, else its mode. In its own code it cannot block: then the trace has
    /// no event of what it entered.
    pub fn blocked_in(&self) -> Arc<str> {
        match (&*self.call, self.mode) {
            ("", "user") => "unknown".into(),
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
    sums: FxHashMap<ThreadId, ThreadSums>,
    on_interval: OnInterval,
}

impl Collected {
    pub(crate) fn push(&mut self, interval: &ThreadInterval) {
        if interval.from < interval.to {
            self.sums.entry(interval.thread).or_default().add(interval);
            (self.on_interval)(interval);
        }
    }
}

enum Collector {
    Kernel(KernelThreads),
    Recorded(RecordedThreads),
}

struct Inner {
    collectors: Vec<Collector>,
    collected: Collected,
    at: Time,
    windows: Vec<Option<(Time, Time)>>,
}

/// Collects what threads do from what a request delivers.
#[derive(Clone)]
pub struct ThreadTimes {
    inner: Arc<Mutex<Inner>>,
}

impl ThreadTimes {
    /// For a traceset of these traces, in its order, which has to use the state
    /// ([`lttv_engine::engine::Engine::traceset_use_state`]) where a trace is one of a kernel. `windows` are the parts of the
    /// request's window that lie in the span of each trace.
    pub fn new<'s>(
        sources: impl Iterator<Item = &'s Arc<dyn Source>>,
        windows: Vec<Option<(Time, Time)>>,
        on_interval: OnInterval,
    ) -> ThreadTimes {
        let collector = |(trace, source): (usize, &Arc<dyn Source>)| match tells_threads(source.as_ref()) {
            true => Collector::Recorded(RecordedThreads::new(trace, source.clone())),
            false => Collector::Kernel(KernelThreads::new(trace, source.tracefiles())),
        };
        let collectors = sources.enumerate().map(collector).collect();
        let collected = Collected { sums: FxHashMap::default(), on_interval };
        let inner = Inner { collectors, collected, at: Time::MIN, windows };
        ThreadTimes { inner: Arc::new(Mutex::new(inner)) }
    }

    /// Adds the hooks to a request.
    #[must_use]
    pub fn attach(&self, mut request: EventsRequest) -> EventsRequest {
        let inner = self.inner.clone();
        let before = Hook::event(HookKey::unique(), PRIORITY_STATS_BEFORE, move |call| {
            let mut inner = inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.before(&call.event, call.state::<SystemState>());
            Flow::Go
        });
        let inner = self.inner.clone();
        let after = Hook::event(HookKey::unique(), PRIORITY_STATS_AFTER, move |call| {
            if let Some(state) = call.state::<SystemState>() {
                inner.lock().unwrap_or_else(PoisonError::into_inner).after(&call.event, state);
            }
            Flow::Go
        });
        let inner = self.inner.clone();
        let border = Hook::border(HookKey::unique(), PRIORITY_DEFAULT, move |call| {
            inner.lock().unwrap_or_else(PoisonError::into_inner).border(call);
            Flow::Go
        });
        let added = request.event.add(before).and(request.event.add(after));
        let added = added.and(request.before_request.add(border.clone()));
        let added = added.and(request.after_request.add(border));
        debug_assert!(added.is_ok(), "keys that nobody has yet");
        request
    }

    /// Time of the event delivered last.
    pub fn at(&self) -> Time {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).at
    }

    /// The sums of each thread, once the request has ended.
    pub fn take(&self) -> Vec<(ThreadId, ThreadSums)> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums: Vec<_> = std::mem::take(&mut inner.collected.sums).into_iter().collect();
        sums.sort_by_key(|(thread, _)| *thread);
        sums
    }
}

impl Inner {
    fn before(&mut self, event: &Event<'_>, state: Option<&SystemState>) {
        self.at = event.time;
        match (self.collectors.get_mut(event.trace()), state) {
            (Some(Collector::Kernel(kernel)), Some(state)) => kernel.before(event, state),
            (Some(Collector::Recorded(recorded)), _) => recorded.event(event, &mut self.collected),
            _ => {}
        }
    }

    fn after(&mut self, event: &Event<'_>, state: &SystemState) {
        if let Some(Collector::Kernel(kernel)) = self.collectors.get_mut(event.trace()) {
            kernel.after(event, state, &mut self.collected);
        }
    }

    fn border(&mut self, call: &BorderCall<'_>) {
        let state = |trace: usize| call.context.and_then(|context| context.state::<SystemState>(trace));
        for (trace, collector) in self.collectors.iter_mut().enumerate() {
            let Some((from, to)) = self.windows.get(trace).copied().flatten() else { continue };
            match (collector, call.moment) {
                (Collector::Kernel(kernel), Moment::BeforeRequest) => {
                    state(trace).into_iter().for_each(|state| kernel.begin(from, state));
                }
                (Collector::Kernel(kernel), _) => {
                    state(trace).into_iter().for_each(|state| kernel.end(to, state, &mut self.collected));
                }
                (Collector::Recorded(recorded), Moment::BeforeRequest) => recorded.begin(from),
                (Collector::Recorded(recorded), _) => recorded.end(to, &mut self.collected),
            }
        }
    }
}
