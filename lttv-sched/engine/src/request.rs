//! Events requests: what a viewer asks for.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::call::{
    BorderCall, BorderHooks, EndReason, EventCall, EventHooks, EventHooksById, EventHooksByName,
};
use crate::hooks::{Flow, Hook};
use crate::ids::{OwnerId, RequestId, TraceId};
use crate::position::Position;
use crate::time::Time;

/// How soon a request is wanted. A better class is served first; a worse one may only share what is read for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Class {
    /// On screen.
    #[default]
    Visible,
    /// Just outside the screen.
    Near,
    /// Might be wanted.
    Prefetch,
}

/// Lets a viewer's hooks end its request after the current event. Clones are the same flag.
#[derive(Clone, Default, Debug)]
pub struct StopFlag(Arc<StopInner>);

#[derive(Default, Debug)]
struct StopInner {
    set: AtomicBool,
    attention: OnceLock<Arc<AtomicBool>>,
}

impl StopFlag {
    /// A flag that is not set.
    pub fn new() -> StopFlag {
        StopFlag::default()
    }

    /// Ends the request after the event under way.
    pub fn set(&self) {
        // Release, paired with Acquire in `is_set`: who sees the flag sees what was done before it was set.
        self.0.set.store(true, Ordering::Release);
        if let Some(attention) = self.0.attention.get() {
            attention.store(true, Ordering::Release);
        }
    }

    /// Whether it was set.
    pub fn is_set(&self) -> bool {
        self.0.set.load(Ordering::Acquire)
    }

    pub(crate) fn attach(&self, attention: &Arc<AtomicBool>) {
        // A flag shared by requests of two engines is looked at by the second at chunk borders only.
        let _ = self.0.attention.set(attention.clone());
    }
}

/// Lets a slow client hold back its request without holding up anybody else: a request whose gate is closed is not served.
/// An event hook that closes the gate should answer [`Flow::Stop`], so that no further event comes.
#[derive(Clone, Default, Debug)]
pub struct Gate(Arc<AtomicBool>);

impl Gate {
    /// An open gate.
    pub fn new() -> Gate {
        Gate::default()
    }

    /// Holds the request back from the next chunk on.
    pub fn close(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Lets the request go on. The engine must be stepped again after it.
    pub fn open(&self) {
        self.0.store(false, Ordering::Release);
    }

    /// Whether the request is held back.
    pub fn is_closed(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A request for the events of a traceset between two bounds. Bounds may be given in several ways; the first end met counts.
#[derive(Clone)]
pub struct EventsRequest {
    /// Who may take it back.
    pub owner: OwnerId,
    /// Data of the viewer for its hooks; the engine does not look at it.
    pub viewer: Option<Arc<dyn Any + Send + Sync>>,
    /// First event: the first one with time >= this. One of the two starts must be given.
    pub start_time: Option<Time>,
    /// First event: the one this names. Has precedence over `start_time`.
    pub start_position: Option<Position>,
    /// Exclusive: no event with time >= this.
    pub end_time: Option<Time>,
    /// Exclusive: the event this names is not delivered.
    pub end_position: Option<Position>,
    /// So many events and no more, of the trace if limited to one.
    pub num_events: Option<u64>,
    /// Only events of the trace with this index in the traceset.
    pub trace: Option<usize>,
    /// Set by the viewer's hooks to end the request.
    pub stop_flag: StopFlag,
    /// Holds the request back while closed.
    pub gate: Option<Gate>,
    /// How soon it is wanted.
    pub class: Class,
    /// Called once, before the first chunk.
    pub before_request: BorderHooks,
    /// Called for each chunk.
    pub before_chunk_traceset: BorderHooks,
    /// Called for each chunk and trace.
    pub before_chunk_trace: BorderHooks,
    /// Called for each chunk and tracefile.
    pub before_chunk_tracefile: BorderHooks,
    /// Called for every event.
    pub event: EventHooks,
    /// Called for chosen events.
    pub event_by_id: EventHooksById,
    /// Called for the events of chosen names.
    pub event_by_name: EventHooksByName,
    /// Called for each chunk and tracefile.
    pub after_chunk_tracefile: BorderHooks,
    /// Called for each chunk and trace.
    pub after_chunk_trace: BorderHooks,
    /// Called for each chunk.
    pub after_chunk_traceset: BorderHooks,
    /// Called once, with the reason why the request ended.
    pub after_request: BorderHooks,
}

impl EventsRequest {
    /// A request without bounds or hooks. A start must be added.
    pub fn new(owner: OwnerId) -> EventsRequest {
        EventsRequest {
            owner,
            viewer: None,
            start_time: None,
            start_position: None,
            end_time: None,
            end_position: None,
            num_events: None,
            trace: None,
            stop_flag: StopFlag::new(),
            gate: None,
            class: Class::default(),
            before_request: BorderHooks::new(),
            before_chunk_traceset: BorderHooks::new(),
            before_chunk_trace: BorderHooks::new(),
            before_chunk_tracefile: BorderHooks::new(),
            event: EventHooks::new(),
            event_by_id: EventHooksById::new(),
            event_by_name: EventHooksByName::new(),
            after_chunk_tracefile: BorderHooks::new(),
            after_chunk_trace: BorderHooks::new(),
            after_chunk_traceset: BorderHooks::new(),
            after_request: BorderHooks::new(),
        }
    }

    /// Starts at the first event with time >= `t`.
    #[must_use]
    pub fn from_time(mut self, t: Time) -> Self {
        self.start_time = Some(t);
        self
    }

    /// Starts at the event that `position` names.
    #[must_use]
    pub fn from_position(mut self, position: Position) -> Self {
        self.start_position = Some(position);
        self
    }

    /// Ends before the first event with time >= `t`.
    #[must_use]
    pub fn until_time(mut self, t: Time) -> Self {
        self.end_time = Some(t);
        self
    }

    /// Ends before the event that `position` names.
    #[must_use]
    pub fn until_position(mut self, position: Position) -> Self {
        self.end_position = Some(position);
        self
    }

    /// Ends after `n` events.
    #[must_use]
    pub fn count(mut self, n: u64) -> Self {
        self.num_events = Some(n);
        self
    }

    /// Only events of the trace with this index in the traceset.
    #[must_use]
    pub fn only_trace(mut self, index: usize) -> Self {
        self.trace = Some(index);
        self
    }

    /// How soon it is wanted.
    #[must_use]
    pub fn class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// Adds a hook of its own for every event.
    #[must_use]
    pub fn on_event(mut self, hook: impl FnMut(&mut EventCall<'_>) -> Flow + Send + 'static) -> Self {
        self.event.add(Hook::on_event(hook)).expect("its key is new");
        self
    }

    /// Adds a hook of its own for the events of a name. The other events cost the request next to nothing.
    #[must_use]
    pub fn on_event_named(
        mut self,
        name: &str,
        hook: impl FnMut(&mut EventCall<'_>) -> Flow + Send + 'static,
    ) -> Self {
        self.event_by_name.find(name).add(Hook::on_event(hook)).expect("its key is new");
        self
    }

    /// Adds a hook of its own for the end of the request.
    #[must_use]
    pub fn on_end(mut self, hook: impl FnMut(&mut BorderCall<'_>) -> Flow + Send + 'static) -> Self {
        self.after_request.add(Hook::on_border(hook)).expect("its key is new");
        self
    }
}

/// Where the service of a request begins or goes on.
#[derive(Clone, Debug)]
pub(crate) enum Start {
    Time(Time),
    Position(Position),
}

/// An accepted request with what the engine knows about its service.
pub(crate) struct Accepted {
    pub(crate) id: RequestId,
    pub(crate) spec: EventsRequest,
    pub(crate) start: Start,
    /// Whether `start` is where the service was interrupted, not what the viewer asked for.
    pub(crate) resumed: bool,
    pub(crate) remaining: Option<u64>,
    pub(crate) trace: Option<TraceId>,
    pub(crate) servicing: bool,
    pub(crate) delivered: u64,
    pub(crate) last_delivered: Option<Time>,
    pub(crate) first: Option<Position>,
    /// Whether its hooks are in the context.
    pub(crate) entered: bool,
    pub(crate) failed: Option<String>,
}

impl Accepted {
    /// Whether its gate lets it be served.
    pub(crate) fn is_open(&self) -> bool {
        !self.spec.gate.as_ref().is_some_and(Gate::is_closed)
    }
}

/// A request that has ended, as told to those who ask the engine instead of a hook.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The request.
    pub id: RequestId,
    /// Who had asked.
    pub owner: OwnerId,
    /// Why it ended.
    pub reason: EndReason,
    /// Events that it was given.
    pub delivered: u64,
}
