//! What each thread was doing over a window: running, waiting for a CPU, or blocked, and in which system call.
//!
//! A request delivers the events; [`ThreadTimes`] turns them into intervals, each given to the caller when it
//! ends, and into sums for each thread. Two kinds of traces have this information: kernel traces, by the state model
//! (`kernel`), and recordings of samples, by the threads' begins, ends and samples (`recorded`).
//!
//! What a thread did before it was first heard of is not known and no interval. The intervals of a thread follow one
//! another without a gap, from there to its end or the end of the window.

mod interval;
mod kernel;
mod recorded;

use std::sync::{Arc, Mutex, PoisonError};

use lttv_engine::call::{BorderCall, Event, Moment};
use lttv_engine::hooks::{
    Flow, Hook, HookKey, PRIORITY_DEFAULT, PRIORITY_STATS_AFTER, PRIORITY_STATS_BEFORE,
};
use lttv_engine::request::EventsRequest;
use lttv_engine::source::Source;
use lttv_engine::time::Time;
use rustc_hash::FxHashMap;

use crate::state::SystemState;
use interval::Collected;
use kernel::KernelThreads;
use recorded::RecordedThreads;

pub use interval::{
    Activity, NOT_KNOWN, OnInterval, Stays, ThreadId, ThreadInterval, ThreadState, ThreadSums,
};
pub use recorded::{SYSTEM_SAMPLE, USER_SAMPLE, tells_threads};

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
    /// ([`lttv_engine::engine::Engine::traceset_use_state`]) where a trace is one of a kernel. `windows` are
    /// the parts of the request's window that lie in the span of each trace.
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
    pub fn take_sums(&self) -> Vec<(ThreadId, ThreadSums)> {
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
