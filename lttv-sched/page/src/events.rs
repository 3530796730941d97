//! Lists of events: a page of rows, and where the next page begins.

use std::fmt::Write as _;

use lttv_engine::call::Event;
use lttv_engine::source::{Compound, EventHead, FieldVisitor, Scope, Value};
use lttv_modules::state::SystemState;

/// Which events are asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventsAsk {
    /// First time.
    pub from: i64,
    /// So many wanted events at that very time are passed over: they were on the page before.
    pub skip: u64,
    /// End; an event at this time is not wanted.
    pub to: i64,
    /// Most rows.
    pub most: usize,
    /// Only events of this trace, and of its thread or CPU.
    pub only: Option<Only>,
    /// Only events with this in their name; empty: all.
    pub name: String,
}

/// A trace, and a part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Only {
    /// Index of the trace.
    pub trace: usize,
    /// Only events on this CPU.
    pub cpu: Option<u32>,
    /// Only events of this thread: [`SystemState::thread_of_event`].
    pub tid: Option<i64>,
    /// Only events of this tracefile.
    pub tracefile: Option<usize>,
}

impl Only {
    /// Whether an event is of it, by the state before the event.
    pub(crate) fn has(&self, event: &Event<'_>, state: &SystemState) -> bool {
        event.trace() == self.trace
            && self.cpu.is_none_or(|cpu| event.head.cpu == cpu)
            && self.tracefile.is_none_or(|tracefile| event.tracefile() == tracefile)
            && self.tid.is_none_or(|tid| state.thread_of_event(event) == Some(tid))
    }
}

impl EventsAsk {
    /// Whether an event belongs in the list, by the state before it.
    pub(crate) fn wants(&self, event: &Event<'_>, state: &SystemState) -> bool {
        (self.name.is_empty() || event.name().contains(&*self.name))
            && self.only.is_none_or(|only| only.has(event, state))
    }
}

/// An event as a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventRow {
    /// When, ns.
    pub time: i64,
    /// Index of its trace.
    pub trace: usize,
    /// Its CPU, where known.
    pub cpu: Option<u32>,
    /// Number of the thread whose event it is, where known: [`SystemState::thread_of_event`].
    pub thread: Option<i64>,
    /// Name of its tracefile.
    pub of: String,
    /// Its name.
    pub name: String,
    /// Its fields as text.
    pub fields: String,
}

/// Longest text of fields.
const MOST_TEXT: usize = 2000;

impl EventRow {
    /// An event, by the state before it.
    pub(crate) fn from_event(event: &Event<'_>, state: &SystemState) -> EventRow {
        EventRow {
            time: event.time.ns(),
            trace: event.trace(),
            cpu: (event.head.cpu != EventHead::NO_CPU).then_some(event.head.cpu),
            thread: state.thread_of_event(event),
            of: event.info().name.to_string(),
            name: event.name().to_owned(),
            fields: EventRow::fields_of(event),
        }
    }

    /// The fields of an event as text.
    pub(crate) fn fields_of(event: &Event<'_>) -> String {
        let mut fields = String::new();
        for scope in [Scope::EventContext, Scope::Payload] {
            let before = fields.len();
            if event.cursor().text(scope, &mut fields).is_none() {
                fields.truncate(before);
                event.cursor().visit(scope, &mut Plain { out: &mut fields, open: Vec::new() });
            }
        }
        if fields.len() > MOST_TEXT {
            fields.truncate(fields.floor_char_boundary(MOST_TEXT));
            fields.push('\u{2026}');
        }
        fields
    }
}

/// Writes `a = 1, b = {c = 2}`.
struct Plain<'o> {
    out: &'o mut String,
    /// What closes each open part.
    open: Vec<char>,
}

impl Plain<'_> {
    fn name(&mut self, name: &str) {
        if !self.out.is_empty() && !self.out.ends_with(['{', '[']) {
            self.out.push_str(", ");
        }
        if !name.is_empty() {
            let _ = write!(self.out, "{name} = ");
        }
    }
}

impl FieldVisitor for Plain<'_> {
    fn value(&mut self, name: &str, value: Value<'_>) {
        self.name(name);
        let _ = write!(self.out, "{value}");
    }

    fn begin(&mut self, name: &str, compound: Compound) {
        self.name(name);
        let (open, close) = if compound == Compound::Struct { ('{', '}') } else { ('[', ']') };
        self.out.push(open);
        self.open.push(close);
    }

    fn end(&mut self) {
        self.out.extend(self.open.pop());
    }
}

/// A page of events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The rows.
    pub rows: Vec<EventRow>,
    /// Where the next page begins: its first time, and events at that time to pass over.
    pub next: Option<(i64, u64)>,
    /// The search did not take too long.
    pub is_whole: bool,
}

impl Listed {
    /// `rows` may have one more than was asked for: then there is a next page.
    pub(crate) fn new(mut rows: Vec<EventRow>, ask: &EventsAsk, is_whole: bool) -> Listed {
        let more = rows.len() > ask.most;
        rows.truncate(ask.most);
        let next = rows.last().filter(|_| more).map(|last| {
            let at_that_time = rows.iter().rev().take_while(|row| row.time == last.time).count();
            let before = if last.time == ask.from { ask.skip } else { 0 };
            (last.time, before + at_that_time as u64)
        });
        Listed { rows, next, is_whole }
    }
}
