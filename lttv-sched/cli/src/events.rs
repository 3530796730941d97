//! `lttv events`: a line for each event.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};

use lttv_engine::call::Event;
use lttv_engine::hooks::Flow;
use lttv_engine::source::{EventHead, Scope};
use lttv_engine::time::Time;

use crate::args::{Column, EventsArgs, Format};
use crate::fields;
use crate::filter::Filter;
use crate::session::{Out, Session};
use crate::times;

const CONTEXT: [Scope; 2] = [Scope::StreamContext, Scope::EventContext];

/// Lists events.
///
/// # Errors
/// The output cannot be written.
pub fn run(s: &mut Session, args: &EventsArgs, filter: Option<Filter>) -> anyhow::Result<()> {
    let columns = columns(args, s.traces.len());
    let json = s.format == Format::Json;
    let shared = Arc::new(Mutex::new((Out::new(), Time::MIN)));
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
        if json {
            as_json(&mut o.line, e, &columns);
            o.end_json();
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
        Format::Json => vec![Ns, Cpu, Channel, Name, Context, Fields],
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
            Column::Loglevel => match e.info().classes.get(e.head.id.0 as usize).and_then(|c| c.log_level) {
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

fn as_json(out: &mut String, e: &Event<'_>, columns: &[Column]) {
    let mut sep = '{';
    for c in columns {
        out.push(sep);
        sep = ',';
        let _ = match c {
            Column::Time => write!(out, "\"time\":\"{}\"", times::shown(e.head.ts)),
            Column::Ns if e.head.ts == Time::UNTIMED => write!(out, "\"ns\":null"),
            Column::Ns => write!(out, "\"ns\":{}", e.head.ts),
            Column::Cpu if e.head.cpu == EventHead::NO_CPU => write!(out, "\"cpu\":null"),
            Column::Cpu => write!(out, "\"cpu\":{}", e.head.cpu),
            Column::Trace => write!(out, "\"trace\":{}", e.trace()),
            Column::Loglevel => match e.info().classes.get(e.head.id.0 as usize).and_then(|c| c.log_level) {
                Some(l) => write!(out, "\"loglevel\":{l}"),
                None => write!(out, "\"loglevel\":null"),
            },
            Column::Channel | Column::Name | Column::Tracefile => {
                let (key, v): (_, &str) = match c {
                    Column::Channel => ("channel", &e.info().channel),
                    Column::Name => ("name", e.name()),
                    _ => ("tracefile", &e.info().name),
                };
                let _ = write!(out, "\"{key}\":");
                fields::quoted(out, v);
                Ok(())
            }
            Column::Context => {
                out.push_str("\"context\":");
                fields::json(out, e.cursor(), &CONTEXT);
                Ok(())
            }
            Column::Fields => {
                out.push_str("\"fields\":");
                fields::json(out, e.cursor(), &[Scope::Payload]);
                Ok(())
            }
            Column::Packet => {
                out.push_str("\"packet\":");
                fields::json(out, e.cursor(), &[Scope::PacketContext]);
                Ok(())
            }
        };
    }
    out.push('}');
}
