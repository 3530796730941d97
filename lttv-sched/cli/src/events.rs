//! `lttv events`: a line for each event.

use pct_text::complain;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lttv_engine::call::Event;
use lttv_engine::hooks::Flow;
use lttv_engine::request::EventsRequest;
use lttv_engine::source::{EventHead, Scope};
use lttv_engine::time::Time;
use pct_profile::load::is_running;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::args::{Column, EventsArgs, Format, Usage};
use crate::fields::{self, Fields};
use crate::filter::Filter;
use crate::output::Out;
use crate::session::{OWNER, Session};
use crate::times;

const CONTEXT: [Scope; 2] = [Scope::StreamContext, Scope::EventContext];

/// The output of events, and how many are left to list.
struct Listing {
    out: Out,
    columns: Vec<Column>,
    filter: Option<Filter>,
    format: Format,
    /// How many events may still be listed. None: no limit.
    left: Option<u64>,
    at: Time,
}

impl Listing {
    /// Lists an event, if it passes the filter. Returns false if no further one is wanted.
    fn list(&mut self, event: &Event<'_>) -> bool {
        self.at = event.time;
        if self.is_done() {
            return false;
        }
        if self.filter.as_ref().is_some_and(|filter| !filter.matches(event)) {
            return true;
        }
        if self.format == Format::Text {
            as_text(&mut self.out.line, event, &self.columns);
            self.out.end_line();
        } else {
            self.out.row(&Row { event, columns: &self.columns });
        }
        self.left = self.left.map(|left| left - 1);
        !self.is_done()
    }

    fn is_done(&self) -> bool {
        self.out.closed || self.left == Some(0)
    }
}

type Shared = Arc<Mutex<Listing>>;

fn locked(listing: &Shared) -> MutexGuard<'_, Listing> {
    listing.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lists events.
///
/// # Errors
/// The output cannot be written, or there is nothing to follow because no file is still being written.
pub fn run(s: &mut Session, args: &EventsArgs, filter: Option<Filter>) -> anyhow::Result<()> {
    let columns = columns(args, s.traces.len());
    let (out, format, left) = (Out::new(s.format), s.format, args.count);
    let listing: Shared = Arc::new(Mutex::new(Listing { out, columns, filter, format, left, at: Time::MIN }));
    if args.follow {
        follow(s, &listing)?;
    } else if args.count != Some(0) {
        list(s, &listing, s.from, s.to)?;
        let listing = locked(&listing);
        if listing.out.is_empty() {
            s.say_nothing("event", listing.filter.is_some());
        }
    }
    Ok(locked(&listing).out.finish()?)
}

/// Lists the events of a window.
fn list(s: &mut Session, listing: &Shared, from: Option<Time>, to: Option<Time>) -> anyhow::Result<()> {
    let (of_hook, mut first) = (listing.clone(), s.first_result());
    let mut request = EventsRequest::new(OWNER).from_time(from.unwrap_or(Time::MIN));
    request.end_time = to;
    {
        let listing = locked(listing);
        // Without a filter the engine counts. With one, only events that pass count.
        request.num_events = listing.left.filter(|_| listing.filter.is_none());
    }
    let ends = request.stop_flag.clone();
    s.submit(request.on_event(move |call| {
        first();
        if !locked(&of_hook).list(&call.event) {
            ends.set();
        }
        Flow::Go
    }))?;
    s.drive(|| Some(locked(listing).at));
    Ok(())
}

/// Shortest time between two readings of files that are being written.
const LOOK: Duration = Duration::from_millis(200);

/// Distance from the last event at which a reading ends, in ns. Times are computed from anchors that the writer renews,
/// and may change by a ns or two from reading to reading: no event must be at the border.
const BEHIND_LAST: i64 = 1_000;

/// Lists the events of recordings while they are written.
///
/// Each reading opens the current files. After a reading, those events are listed that had been written before the
/// previous reading. So a thread that was delayed while it wrote a sample has had that long to finish, and the order of
/// time is kept.
fn follow(s: &mut Session, listing: &Shared) -> anyhow::Result<()> {
    anyhow::ensure!(
        s.recordings.iter().all(Option::is_some),
        Usage(
            "--follow: only recordings (.pct) can be followed, and one of these traces is not a recording"
                .into()
        )
    );
    let (mut from, mut seen, mut delivered) = (s.from, None, 0);
    loop {
        let started = Instant::now();
        // Checked before the files are read: if a program has ended, everything that it wrote is there.
        let running = s.sources().any(|source| is_running(source.identity().path()));
        s.reopen()?;
        let until = if running { seen.min(Some(s.to.unwrap_or(Time::MAX))) } else { s.to };
        if !running || until > from {
            let read = s.events_read();
            list(s, listing, from, until)?;
            delivered += s.events_read() - read;
            locked(listing).out.flush();
            from = until;
        }
        let all = running && s.to.is_some() && from >= s.to;
        if !running || all || locked(listing).is_done() {
            break;
        }
        seen = s.span().map(|(_, last)| last.saturating_add(BEHIND_LAST)).max(seen);
        // Reading large files again and again takes at most a fifth of the time.
        std::thread::sleep(LOOK.max(started.elapsed() * 4));
    }
    if !locked(listing).is_done() {
        tell_late(s, delivered)?;
    }
    Ok(())
}

/// Reports how many events came so late that they were not listed.
fn tell_late(s: &mut Session, delivered: u64) -> anyhow::Result<()> {
    let read = s.events_read();
    let request = s.window(None, |_| Flow::Go);
    s.submit(request)?;
    s.drive(|| None);
    let late = (s.events_read() - read).saturating_sub(delivered);
    if late > 0 {
        complain!("lttv: {late} events were written late and are not listed");
    }
    Ok(())
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

/// An event for programs: the requested columns, by their names.
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
