//! `lttv events`: a line for each event.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use lttv_engine::call::Event;
use lttv_engine::hooks::Flow;
use lttv_engine::source::{EventHead, Scope};
use lttv_engine::time::Time;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::args::{Column, EventsArgs, Format};
use crate::fields::{self, Fields};
use crate::filter::Filter;
use crate::output::Out;
use crate::session::Session;
use crate::times;

const CONTEXT: [Scope; 2] = [Scope::StreamContext, Scope::EventContext];

/// Lists events.
///
/// # Errors
/// The output cannot be written.
pub fn run(s: &mut Session, args: &EventsArgs, filter: Option<Filter>) -> anyhow::Result<()> {
    let columns = columns(args, s.traces.len());
    let for_programs = s.format != Format::Text;
    let shared = Arc::new(Mutex::new((Out::new(s.format), Time::MIN)));
    let (out, mut first, mut left) = (shared.clone(), s.first_result(), args.count);
    let mut request = s.window(None, |_| Flow::Go);
    // Without a filter the engine counts; with one only what passes counts.
    if filter.is_none() {
        request.num_events = args.count;
    }
    let ends = request.stop_flag.clone();
    let request = request.on_event(move |call| {
        let e = &call.event;
        if filter.as_ref().is_some_and(|f| !f.matches(e)) {
            return Flow::Go;
        }
        if left == Some(0) {
            ends.set();
            return Flow::Go;
        }
        first();
        let mut guard = out.lock().unwrap_or_else(PoisonError::into_inner);
        let (o, at) = &mut *guard;
        *at = e.time;
        if for_programs {
            o.row(&Row { event: e, columns: &columns });
        } else {
            as_text(&mut o.line, e, &columns);
            o.end_line();
        }
        left = left.map(|n| n - 1);
        if o.closed || left == Some(0) {
            ends.set();
        }
        Flow::Go
    });
    if args.count != Some(0) {
        s.submit(request)?;
    }
    s.drive(|| Some(shared.lock().unwrap_or_else(PoisonError::into_inner).1));
    let mut guard = shared.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(guard.0.finish()?)
}

fn columns(args: &EventsArgs, traces: usize) -> Vec<Column> {
    use Column::{Channel, Context, Cpu, Fields, Name, Ns, Time, Trace};
    if !args.columns.is_empty() {
        return args.columns.clone();
    }
    let mut c = match args.common.format {
        Format::Text => vec![Time, Cpu, Channel, Name, Context, Fields],
        _ => vec![Ns, Cpu, Channel, Name, Context, Fields],
    };
    if traces > 1 {
        c.insert(1, Trace);
    }
    c
}

fn as_text(out: &mut String, e: &Event<'_>, columns: &[Column]) {
    let mut space = "";
    for c in columns {
        let start = out.len();
        out.push_str(space);
        let filled = out.len();
        let _ = match c {
            Column::Time => write!(out, "{}", times::shown(e.head.ts)),
            Column::Ns if e.head.ts == Time::UNTIMED => write!(out, "-"),
            Column::Ns => write!(out, "{}", e.head.ts),
            Column::Cpu if e.head.cpu == EventHead::NO_CPU => write!(out, "-"),
            Column::Cpu => write!(out, "{}", e.head.cpu),
            Column::Channel => write!(out, "{}", e.info().channel),
            Column::Name => write!(out, "{}", e.name()),
            Column::Trace => write!(out, "{}", e.trace()),
            Column::Tracefile => write!(out, "{}", e.info().name),
            Column::Loglevel => match log_level(e) {
                Some(l) => write!(out, "{l}"),
                None => write!(out, "-"),
            },
            Column::Context => {
                fields::text(out, e.cursor(), &CONTEXT);
                Ok(())
            }
            Column::Fields => {
                fields::text(out, e.cursor(), &[Scope::Payload]);
                Ok(())
            }
            Column::Packet => {
                fields::text(out, e.cursor(), &[Scope::PacketContext]);
                Ok(())
            }
        };
        if out.len() == filled {
            out.truncate(start);
        }
        space = " ";
    }
}

/// An event for programs: the columns that were asked for, by their names.
struct Row<'e> {
    event: &'e Event<'e>,
    columns: &'e [Column],
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let event = self.event;
        let fields = |scopes| Fields { cursor: event.cursor(), scopes };
        let mut row = to.serialize_map(Some(self.columns.len()))?;
        for column in self.columns {
            match column {
                Column::Time => row.serialize_entry("time", &times::shown(event.head.ts))?,
                Column::Ns => {
                    let ns = Some(event.head.ts.ns()).filter(|_| event.head.ts != Time::UNTIMED);
                    row.serialize_entry("ns", &ns)?;
                }
                Column::Cpu => {
                    let cpu = Some(event.head.cpu).filter(|cpu| *cpu != EventHead::NO_CPU);
                    row.serialize_entry("cpu", &cpu)?;
                }
                Column::Channel => row.serialize_entry("channel", &*event.info().channel)?,
                Column::Name => row.serialize_entry("name", event.name())?,
                Column::Context => row.serialize_entry("context", &fields(&CONTEXT))?,
                Column::Fields => row.serialize_entry("fields", &fields(&[Scope::Payload]))?,
                Column::Packet => row.serialize_entry("packet", &fields(&[Scope::PacketContext]))?,
                Column::Trace => row.serialize_entry("trace", &event.trace())?,
                Column::Tracefile => row.serialize_entry("tracefile", &*event.info().name)?,
                Column::Loglevel => row.serialize_entry("loglevel", &log_level(event))?,
            }
        }
        row.end()
    }
}

fn log_level(event: &Event<'_>) -> Option<i64> {
    event.info().classes.get(usize::try_from(event.head.id.0).ok()?)?.log_level
}
