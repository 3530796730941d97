//! What hooks receive and what they may request. They receive the event, or the moment at the border of a chunk,
//! request or pass. They may request events, notifications and commands.
//!
//! These types need each other: a hook is called with a list of commands, a command may contain a request, and a
//! request contains hooks. So they are in one file.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use crate::context::TracesetContext;
use crate::data::{ModuleStatus, Statuses, TraceData};
use crate::flags::{Class, Gate, StopFlag};
use crate::hooks::{Flow, Hook, HookKey, Hooks, HooksById, HooksByName, PRIORITY_DEFAULT, Priority};
use crate::ids::{OwnerId, RequestId, TraceId, TracesetId};
use crate::position::Position;
use crate::time::Time;

pub use crate::event::Event;

/// Function of an event hook.
pub type EventFn = dyn FnMut(&mut EventCall<'_>) -> Flow + Send;
/// Function of a hook at a border: of a chunk, a request, a pass; and of notifications.
pub type BorderFn = dyn FnMut(&mut BorderCall<'_>) -> Flow + Send;
/// Hooks called for events.
pub type EventHooks = Hooks<EventFn>;
/// Hooks called at borders.
pub type BorderHooks = Hooks<BorderFn>;
/// Hooks called for chosen events.
pub type EventHooksById = HooksById<EventFn>;
/// Hooks called for the events of chosen names.
pub type EventHooksByName = HooksByName<EventFn>;

impl Hook<EventFn> {
    /// An event hook.
    pub fn event(
        key: HookKey,
        priority: Priority,
        function: impl FnMut(&mut EventCall<'_>) -> Flow + Send + 'static,
    ) -> Self {
        let shared: Arc<Mutex<EventFn>> = Arc::new(Mutex::new(function));
        Hook::from_shared(key, priority, shared)
    }

    /// An event hook that nobody shares, with the default priority.
    pub fn on_event(function: impl FnMut(&mut EventCall<'_>) -> Flow + Send + 'static) -> Self {
        Hook::event(HookKey::unique(), PRIORITY_DEFAULT, function)
    }
}

impl Hook<BorderFn> {
    /// A border hook.
    pub fn border(
        key: HookKey,
        priority: Priority,
        function: impl FnMut(&mut BorderCall<'_>) -> Flow + Send + 'static,
    ) -> Self {
        let shared: Arc<Mutex<BorderFn>> = Arc::new(Mutex::new(function));
        Hook::from_shared(key, priority, shared)
    }

    /// A border hook that nobody shares, with the default priority.
    pub fn on_border(function: impl FnMut(&mut BorderCall<'_>) -> Flow + Send + 'static) -> Self {
        Hook::border(HookKey::unique(), PRIORITY_DEFAULT, function)
    }
}

/// What an event hook is called with. Derefs to the [`Event`].
pub struct EventCall<'a> {
    /// The event.
    pub event: Event<'a>,
    pub(crate) slot: usize,
    pub(crate) context: &'a TracesetContext,
    /// Collects the hook's commands. They are applied at the next chunk border, which then comes right after this
    /// event.
    pub commands: &'a mut Commands,
}

impl<'a> Deref for EventCall<'a> {
    type Target = Event<'a>;

    #[inline]
    fn deref(&self) -> &Event<'a> {
        &self.event
    }
}

impl EventCall<'_> {
    /// The state model of type `S` of this event's trace, as it is at this hook's priority: before the event below
    /// [`crate::hooks::PRIORITY_STATE`], after it from there on.
    pub fn state<S: Any>(&self) -> Option<&S> {
        self.context.models[self.event.of.trace].of_type()
    }

    /// Whether the state was unknown at some point after the start of the trace, so that parts of it may be missing.
    #[inline]
    pub fn state_is_partial(&self) -> bool {
        self.context.models[self.event.of.trace].partial
    }

    /// The position whose next event is this one.
    pub fn position(&self) -> Position {
        self.context.position()
    }

    /// Index of the event's tracefile among those of all traces of the traceset.
    #[inline]
    pub fn slot(&self) -> usize {
        self.slot
    }
}

/// The moments at which border hooks are called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as the hook lists are")]
pub enum Moment {
    BeforeRequest,
    BeforeChunkTraceset,
    BeforeChunkTrace,
    BeforeChunkTracefile,
    AfterChunkTracefile,
    AfterChunkTrace,
    AfterChunkTraceset,
    AfterRequest,
    HookAdder,
    HookRemover,
    Notify,
}

/// Why a request ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EndReason {
    /// It reached one of its bounds. For a background request: the pass ended.
    Completed,
    /// There are no more events.
    EndOfTraceset,
    /// Its stop flag was set, or all service of the traceset was stopped.
    Stopped,
    /// Its owner removed it, or it was cancelled.
    Removed,
    /// Its trace or traceset was closed.
    TraceClosed,
    /// One of its bounds is a position in a list of traces that has changed.
    PositionLost,
    /// One of its hooks failed.
    Failed(String),
}

/// Why a notification is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The pass reached the notification's time or position, or its module is ready.
    Reached,
    /// The pass ended.
    EndOfPass,
    /// The pass or module that it waits for was cancelled or failed, or its trace was closed.
    Aborted,
}

/// What a border hook is called with.
pub struct BorderCall<'a> {
    /// Which border.
    pub moment: Moment,
    /// The request, for hooks of events requests.
    pub request: Option<RequestId>,
    /// Owner of the request.
    pub owner: Option<OwnerId>,
    /// Index of the trace in the traceset, for hooks of traces and tracefiles.
    pub trace: Option<usize>,
    /// Index of the tracefile in its trace, for hooks of tracefiles.
    pub tracefile: Option<usize>,
    /// Number of events given to the request so far.
    pub delivered: u64,
    /// Why the request ended. Only set in hooks after the end.
    pub reason: Option<&'a EndReason>,
    /// Why a notification is called. Only set for notifications.
    pub cause: Option<Cause>,
    /// The reading state. Absent if nothing is read (a request that ended before its service, a closed trace).
    pub context: Option<&'a TracesetContext>,
    /// The trace's own data, for hooks of background modules and notifications.
    pub own: Option<&'a mut TraceData>,
    pub(crate) traces: &'a dyn Statuses,
    /// Collects the hook's commands. They are applied at the end of this turn.
    pub commands: &'a mut Commands,
}

impl BorderCall<'_> {
    /// The status of a module for a trace of this context.
    pub fn status(&self, trace: TraceId, module: &str) -> ModuleStatus {
        let own = self.own.as_ref().filter(|data| data.trace() == trace);
        own.map_or_else(|| self.traces.status(trace, module), |data| data.status(module))
    }

    /// Whether a module is ready for all traces of this context. Results are final then, and provisional otherwise.
    pub fn all_ready(&self, module: &str) -> bool {
        self.context.is_some_and(|context| {
            context.traces().iter().all(|trace| self.status(trace.id(), module) == ModuleStatus::Ready)
        })
    }
}

/// A request for the events of a traceset between two bounds. Bounds may be given in several ways; the first
/// one reached counts.
#[derive(Clone)]
pub struct EventsRequest {
    /// The owner, who may remove the request.
    pub owner: OwnerId,
    /// Data of the viewer for its hooks. The engine does not use it.
    pub viewer: Option<Arc<dyn Any + Send + Sync>>,
    /// First event: the first one with time >= this. One of the two starts must be given.
    pub start_time: Option<Time>,
    /// First event: the next one of this position. Has precedence over `start_time`.
    pub start_position: Option<Position>,
    /// Exclusive: no event with time >= this.
    pub end_time: Option<Time>,
    /// Exclusive: the next event of this position is not delivered.
    pub end_position: Option<Position>,
    /// At most this many events, of the trace if limited to one.
    pub num_events: Option<u64>,
    /// Only events of the trace with this index in the traceset.
    pub trace: Option<usize>,
    /// Set by the viewer's hooks to end the request.
    pub stop_flag: StopFlag,
    /// While closed, the request is not served.
    pub gate: Option<Gate>,
    /// How urgent the request is.
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

    /// Sets how urgent the request is.
    #[must_use]
    pub fn class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// Adds an unshared hook for every event.
    #[must_use]
    pub fn on_event(mut self, hook: impl FnMut(&mut EventCall<'_>) -> Flow + Send + 'static) -> Self {
        self.event.add(Hook::on_event(hook)).expect("its key is new");
        self
    }

    /// Adds an unshared hook for the events of a name. Other events cost the request next to nothing.
    #[must_use]
    pub fn on_event_named(
        mut self,
        name: &str,
        hook: impl FnMut(&mut EventCall<'_>) -> Flow + Send + 'static,
    ) -> Self {
        self.event_by_name.find(name).add(Hook::on_event(hook)).expect("its key is new");
        self
    }

    /// Adds an unshared hook for the end of the request.
    #[must_use]
    pub fn on_end(mut self, hook: impl FnMut(&mut BorderCall<'_>) -> Flow + Send + 'static) -> Self {
        self.after_request.add(Hook::on_border(hook)).expect("its key is new");
        self
    }
}

/// A notification: its hook is called when a pass has reached a time or position, or its end.
#[derive(Clone)]
pub struct BackgroundNotify {
    /// The owner, who may remove the notification.
    pub owner: OwnerId,
    /// The module that it waits for.
    pub module: Arc<str>,
    /// Called at the first chunk border where the next event's time is at least this.
    pub time: Option<Time>,
    /// Called at the first chunk border at or after this position, which is of a traceset with the trace or of the
    /// trace alone.
    pub position: Option<Position>,
    /// The hook. It is called once, with the cause.
    pub hook: Hook<BorderFn>,
}

impl BackgroundNotify {
    /// Waits for the end of the pass that computes `module`.
    pub fn new(owner: OwnerId, module: &str, hook: Hook<BorderFn>) -> BackgroundNotify {
        BackgroundNotify { owner, module: module.into(), time: None, position: None, hook }
    }

    /// Also called once the pass has reached this time.
    #[must_use]
    pub fn at_time(mut self, t: Time) -> Self {
        self.time = Some(t);
        self
    }

    /// Also called once the pass has reached this position.
    #[must_use]
    pub fn at_position(mut self, position: Position) -> Self {
        self.position = Some(position);
        self
    }
}

/// A command to the engine. Each variant stands for the engine's method with its name.
#[derive(Clone)]
#[non_exhaustive]
#[expect(missing_docs, reason = "named as the parameters of the methods are")]
pub enum Command {
    /// [`crate::engine::Engine::events_request`], with an id that was assigned before.
    EventsRequest { traceset: TracesetId, id: RequestId, request: Box<EventsRequest> },
    /// [`crate::engine::Engine::remove`].
    Remove { traceset: TracesetId, request: RequestId },
    /// [`crate::engine::Engine::remove_all`].
    RemoveAll { traceset: TracesetId, owner: OwnerId },
    /// [`crate::engine::Engine::stop`].
    Stop { traceset: TracesetId },
    /// [`crate::engine::Engine::request`].
    Request { trace: TraceId, module: Arc<str>, requester: OwnerId },
    /// [`crate::engine::Engine::request_and_notify`].
    RequestAndNotify { trace: TraceId, notify: BackgroundNotify },
    /// [`crate::engine::Engine::cancel`].
    Cancel { trace: TraceId, module: Arc<str> },
    /// [`crate::engine::Engine::notify_remove`].
    NotifyRemove { owner: OwnerId },
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Command::EventsRequest { traceset, id, request } => {
                write!(f, "events request {} of traceset {} by owner {}", id.0, traceset.0, request.owner.0)?;
                match (&request.start_position, request.start_time) {
                    (Some(_), _) => f.write_str(", from a position")?,
                    (None, Some(start)) => write!(f, ", from {start}")?,
                    (None, None) => f.write_str(", without a start")?,
                }
                if request.end_position.is_some() {
                    f.write_str(", up to a position")?;
                }
                request.end_time.map_or(Ok(()), |end| write!(f, ", until {end}"))?;
                request.num_events.map_or(Ok(()), |most| write!(f, ", {most} events"))?;
                request.trace.map_or(Ok(()), |index| write!(f, ", of the trace with index {index}"))
            }
            Command::Remove { traceset, request } => {
                write!(f, "remove request {} of traceset {}", request.0, traceset.0)
            }
            Command::RemoveAll { traceset, owner } => {
                write!(f, "remove all requests of owner {} from traceset {}", owner.0, traceset.0)
            }
            Command::Stop { traceset } => write!(f, "stop traceset {}", traceset.0),
            Command::Request { trace, module, requester } => {
                write!(f, "compute {module} of trace {} for owner {}", trace.0, requester.0)
            }
            Command::RequestAndNotify { trace, notify } => {
                write!(f, "compute {} of trace {}, notify owner {}", notify.module, trace.0, notify.owner.0)
            }
            Command::Cancel { trace, module } => write!(f, "cancel {module} of trace {}", trace.0),
            Command::NotifyRemove { owner } => write!(f, "drop the notifications of owner {}", owner.0),
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Commands of hooks to the engine. They are applied in order at the next chunk border.
#[derive(Default)]
pub struct Commands {
    queue: Vec<Command>,
    next_request: u64,
}

impl Commands {
    /// Adds a command. If the engine refuses it, that is a diagnostic.
    pub fn push(&mut self, command: Command) {
        self.queue.push(command);
    }

    /// Submits a request. If it is refused, that is a diagnostic and none of its hooks is called.
    pub fn events_request(&mut self, traceset: TracesetId, request: EventsRequest) -> RequestId {
        let id = self.allocate();
        self.push(Command::EventsRequest { traceset, id, request: Box::new(request) });
        id
    }

    /// [`crate::engine::Engine::remove_all`].
    pub fn remove_all(&mut self, traceset: TracesetId, owner: OwnerId) {
        self.push(Command::RemoveAll { traceset, owner });
    }

    /// [`crate::engine::Engine::request`].
    pub fn request(&mut self, trace: TraceId, module: &str, requester: OwnerId) {
        self.push(Command::Request { trace, module: module.into(), requester });
    }

    pub(crate) fn allocate(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }

    /// Marks an id that was assigned elsewhere as used here.
    pub(crate) fn reserve(&mut self, id: RequestId) {
        self.next_request = self.next_request.max(id.0);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn take_all(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.queue)
    }
}
