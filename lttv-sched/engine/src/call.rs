//! What hooks are given: the event, or the moment at the border of a chunk, request or pass, and a way to ask the engine
//! for more.

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};

use crate::attribute::Attribute;
use crate::command::Commands;
use crate::context::{TracefileContext, TracesetContext};
use crate::hooks::{Flow, Hook, HookKey, Hooks, HooksById, HooksByName, PRIORITY_DEFAULT, Priority};
use crate::ids::{OwnerId, RequestId, TraceId};
use crate::position::Position;
use crate::source::{Cursor, EventHead, Scope, TracefileInfo, Value};
use crate::time::Time;
use crate::trace::{ModuleStatus, Trace, TraceData};

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

/// An event under a cursor.
#[derive(Clone, Copy)]
pub struct Event<'a> {
    /// Recorded time, class, CPU.
    pub head: EventHead,
    /// Order time: the recorded one, or the greatest before it where the recorded one goes back.
    pub time: Time,
    pub(crate) of: &'a TracefileContext,
}

impl<'a> Event<'a> {
    /// Index of its trace in the traceset.
    #[inline]
    pub fn trace(&self) -> usize {
        self.of.trace
    }

    /// That trace.
    #[inline]
    pub fn trace_id(&self) -> TraceId {
        self.of.trace_id
    }

    /// Index of its tracefile in the trace.
    #[inline]
    pub fn tracefile(&self) -> usize {
        self.of.tracefile
    }

    /// Name of the event's class.
    #[inline]
    pub fn name(&self) -> &'a str {
        self.of.info.class_name(self.head.id)
    }

    /// The tracefile that it belongs to.
    #[inline]
    pub fn info(&self) -> &'a TracefileInfo {
        &self.of.info
    }

    /// The cursor that stands on it, for all there is to read.
    #[inline]
    pub fn cursor(&self) -> &'a dyn Cursor {
        self.of.cursor.as_ref()
    }

    /// A field by name, payload first; see [`Cursor::field`].
    pub fn field(&self, name: &str) -> Option<Value<'a>> {
        self.of.cursor.field(name)
    }

    /// A field by name in one scope.
    pub fn field_in(&self, scope: Scope, name: &str) -> Option<Value<'a>> {
        self.of.cursor.field_in(scope, name)
    }
}

/// What an event hook is called with. Derefs to the [`Event`].
pub struct EventCall<'a> {
    /// The event.
    pub event: Event<'a>,
    pub(crate) slot: usize,
    pub(crate) context: &'a TracesetContext,
    /// Takes what the hook wants of the engine; done at the next chunk border, which comes right after this event then.
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
    /// The state model of type `S` of this event's trace, as it is at this hook's priority: before the event up to
    /// [`crate::hooks::PRIORITY_STATE`], after it from there on.
    pub fn state<S: Any>(&self) -> Option<&S> {
        self.context.models[self.event.of.trace].of_type()
    }

    /// Whether the state began unknown at some point after the start of the trace, so that parts of it may be missing.
    #[inline]
    pub fn state_is_partial(&self) -> bool {
        self.context.models[self.event.of.trace].partial
    }

    /// The position that names this event as the next one.
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
    /// One of its bounds was met. For a background request: the pass ended.
    Completed,
    /// There are no more events.
    EndOfTraceset,
    /// Its stop flag was set, or all service of the traceset was stopped.
    Stopped,
    /// Its owner removed it, or it was cancelled.
    Removed,
    /// Its trace or traceset was closed.
    TraceClosed,
    /// It was bounded by a position of a list of traces that has changed.
    PositionLost,
    /// One of its hooks failed.
    Failed(String),
}

/// Why a notification is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The pass reached its time or position, or what it waits for is ready.
    Reached,
    /// The pass ended.
    EndOfPass,
    /// The pass or module that it waits for was cancelled, failed, or its trace was closed.
    Aborted,
}

/// What a border hook is called with.
pub struct BorderCall<'a> {
    /// Which border.
    pub moment: Moment,
    /// The request, for hooks of events requests.
    pub request: Option<RequestId>,
    /// Who asked.
    pub owner: Option<OwnerId>,
    /// Index of the trace in the traceset, for hooks of traces and tracefiles.
    pub trace: Option<usize>,
    /// Index of the tracefile in its trace, for hooks of tracefiles.
    pub tracefile: Option<usize>,
    /// Events given to the request so far.
    pub delivered: u64,
    /// Why the request ended; only after it.
    pub reason: Option<&'a EndReason>,
    /// Why a notification is called; only then.
    pub cause: Option<Cause>,
    /// The reading state; absent where nothing is read (a request that ended before its service, a closed trace).
    pub context: Option<&'a TracesetContext>,
    /// The trace's own data, for hooks of background modules and notifications.
    pub own: Option<&'a mut TraceData>,
    pub(crate) traces: &'a BTreeMap<TraceId, Trace>,
    /// Takes what the hook wants of the engine; done at the end of this turn.
    pub commands: &'a mut Commands,
}

impl BorderCall<'_> {
    /// How far a module is with a trace of this context.
    pub fn status(&self, trace: TraceId, module: &str) -> ModuleStatus {
        let own = self.own.as_ref().filter(|data| data.trace() == trace);
        own.map(|data| data.status(module))
            .or_else(|| self.traces.get(&trace).map(|trace| trace.data.status(module)))
            .unwrap_or_default()
    }

    /// Whether a module is ready for all traces of this context: results are final then, else provisional.
    pub fn all_ready(&self, module: &str) -> bool {
        self.context.is_some_and(|context| {
            context.traces().iter().all(|trace| self.status(trace.id(), module) == ModuleStatus::Ready)
        })
    }
}

/// The data of a trace as [`BorderCall::own`] gives it, for hooks that only publish.
impl TraceData {
    /// The attribute tree of the trace.
    pub fn attributes_mut(&mut self) -> &mut Attribute {
        &mut self.attributes
    }
}
