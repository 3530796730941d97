//! Statistics of a window, by a foreground request.
//!
//! The request seeks with the state of the window's begin, so that CPU time is accounted to what ran there
//! from its first instant on. Where the state is not ready it begins unknown: time before the first switch of
//! a CPU is not accounted then.

use std::sync::{Arc, Mutex, PoisonError};

use lttv_engine::call::{BorderCall, Moment};
use lttv_engine::hooks::{
    Flow, Hook, HookKey, PRIORITY_DEFAULT, PRIORITY_STATS_AFTER, PRIORITY_STATS_BEFORE,
};
use lttv_engine::request::EventsRequest;
use lttv_engine::source::Source;
use lttv_engine::time::Time;

use super::Stats;
use super::collect::Collector;
use crate::state::SystemState;

/// Counts what a request delivers, for each trace of its traceset.
///
/// The sums over windows that follow one another are those of the window that they make up.
#[derive(Clone)]
pub struct WindowStats {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    collectors: Vec<Collector>,
    results: Vec<Stats>,
    at: Time,
}

impl WindowStats {
    /// For a traceset of these traces, in its order.
    pub fn new<'s>(sources: impl Iterator<Item = &'s Arc<dyn Source>>) -> WindowStats {
        let collectors = sources.map(|source| Collector::new(source.tracefiles())).collect();
        WindowStats { inner: Arc::new(Mutex::new(Inner { collectors, results: Vec::new(), at: Time::MIN })) }
    }

    /// Adds the hooks to a request for [from, to). The traceset has to use the state
    /// ([`lttv_engine::engine::Engine::traceset_use_state`]). `from` and `to` must lie in the span of the
    /// traces: time outside it is nobody's.
    #[must_use]
    pub fn attach(&self, mut request: EventsRequest, from: Time, to: Time) -> EventsRequest {
        let (inner, unknown) = (self.inner.clone(), SystemState::default());
        let before = Hook::event(HookKey::unique(), PRIORITY_STATS_BEFORE, move |call| {
            let state = call.state::<SystemState>().unwrap_or(&unknown);
            let mut inner = inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.at = call.time;
            if let Some(collector) = inner.collectors.get_mut(call.trace()) {
                collector.before(&call.event, state);
            }
            Flow::Go
        });
        let inner = self.inner.clone();
        let after = Hook::event(HookKey::unique(), PRIORITY_STATS_AFTER, move |call| {
            let mut inner = inner.lock().unwrap_or_else(PoisonError::into_inner);
            if let (Some(state), Some(collector)) =
                (call.state::<SystemState>(), inner.collectors.get_mut(call.trace()))
                && collector.changes(&call.event)
            {
                collector.after(&call.event, state);
            }
            Flow::Go
        });
        let inner = self.inner.clone();
        let border = Hook::border(HookKey::unique(), PRIORITY_DEFAULT, move |call| {
            inner.lock().unwrap_or_else(PoisonError::into_inner).border(call, from, to);
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

    /// The statistics of each trace, once the request has ended; empty before.
    pub fn take_stats(&self) -> Vec<Stats> {
        std::mem::take(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner).results)
    }
}

impl Inner {
    fn border(&mut self, call: &BorderCall<'_>, from: Time, to: Time) {
        let state = |trace: usize| call.context.and_then(|context| context.state::<SystemState>(trace));
        let collectors = self.collectors.iter_mut().enumerate();
        if call.moment == Moment::BeforeRequest {
            collectors.for_each(|(trace, collector)| {
                state(trace).into_iter().for_each(|state| collector.begin(from, state));
            });
        } else {
            self.results = collectors.map(|(trace, collector)| collector.end(to, state(trace))).collect();
        }
    }
}
