//! An event under a cursor, as hooks and state models see it.

use crate::ids::TraceId;
use crate::source::{Cursor, EventHead, Scope, TracefileInfo, Value};
use crate::time::Time;

/// The cursor of a tracefile in a context, and the tracefile's identity.
pub(crate) struct CursorOf {
    pub(crate) trace: usize,
    pub(crate) trace_id: TraceId,
    pub(crate) tracefile: usize,
    pub(crate) info: TracefileInfo,
    pub(crate) cursor: Box<dyn Cursor>,
}

/// An event under a cursor.
#[derive(Clone, Copy)]
pub struct Event<'a> {
    /// Recorded time, class, CPU.
    pub head: EventHead,
    /// Order time: the recorded one, or the greatest before it if the recorded one goes back.
    pub time: Time,
    pub(crate) of: &'a CursorOf,
}

impl<'a> Event<'a> {
    /// Index of its trace in the traceset.
    #[inline]
    pub fn trace(&self) -> usize {
        self.of.trace
    }

    /// The id of its trace.
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

    /// The cursor at the event, for access to everything in it.
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
