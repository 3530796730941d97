//! `lttv info`: what a trace says about itself. No event is read.
//!
//! With a window, it lists packets and losses that are in the window or overlap it.

use lttv_engine::describe::{ClockInfo, PacketInfo};
use lttv_engine::source::{FieldVisitor, Loss, LossKind, Source, TracefileInfo};
use lttv_engine::time::Time;
use pct_num::thousands;
use pct_text::complain;
use serde::Serialize;

use crate::args::{Format, InfoArgs, Usage};
use crate::filter::Filter;
use crate::output::Out;
use crate::session::Session;
use crate::{fields, head, line, times};

/// Shows what traces say about themselves.
///
/// # Errors
/// A filter was given; the output cannot be written.
pub fn run(s: &mut Session, args: &InfoArgs, filter: Option<&Filter>) -> anyhow::Result<()> {
    anyhow::ensure!(filter.is_none(), Usage("info has no events that --filter could choose from".into()));
    let mut out = Out::new(s.format);
    let mut failed = false;
    for (trace, source) in s.sources().enumerate() {
        let info = TraceInfo { s, trace, source: source.as_ref() };
        match s.format {
            Format::Text => info.text(&mut out),
            _ => info.rows(&mut out),
        }
        if args.packets {
            failed |= info.packets(&mut out);
        }
        if s.format == Format::Text && trace + 1 < s.traces.len() {
            out.blank_line();
        }
    }
    if failed {
        s.fail();
    }
    Ok(out.finish()?)
}

struct TraceInfo<'s> {
    s: &'s Session,
    trace: usize,
    source: &'s dyn Source,
}

/// A row for programs. The first three columns are the same in all kinds.
#[derive(Serialize)]
struct Row<'s, T: Serialize> {
    kind: &'static str,
    trace: usize,
    name: &'s str,
    #[serde(flatten)]
    more: T,
}

#[derive(Serialize)]
struct Span<'s> {
    path: &'s str,
    first_ns: Option<i64>,
    last_ns: Option<i64>,
}

#[derive(Serialize)]
struct Property<'s> {
    value: &'s str,
}

#[derive(Serialize)]
struct Clock<'s> {
    frequency: u64,
    precision: u64,
    offset_s: i64,
    offset_cycles: i128,
    origin: &'s str,
    shift_ns: i64,
    uid: Option<&'s str>,
    description: &'s str,
}

#[derive(Serialize)]
struct Stream<'s> {
    stream: usize,
    channel: &'s str,
    cpu: Option<u32>,
    event_classes: usize,
    packets: usize,
    bytes: u64,
    begin_ns: Option<i64>,
    end_ns: Option<i64>,
}

#[derive(Serialize)]
struct Lost {
    stream: usize,
    what: &'static str,
    count: Option<u64>,
    from_ns: Option<i64>,
    to_ns: Option<i64>,
}

#[derive(Serialize)]
struct Packet<'s, F: Serialize> {
    stream: usize,
    packet: usize,
    file: &'s str,
    at: u64,
    bytes: u64,
    begin_ns: Option<i64>,
    end_ns: Option<i64>,
    sequence: Option<u64>,
    discarded: Option<u64>,
    context: F,
}

/// A time for programs; nothing if there is no time.
fn ns(time: Time) -> Option<i64> {
    (time != Time::UNTIMED).then(|| time.ns())
}

fn what(kind: LossKind) -> &'static str {
    match kind {
        LossKind::Events => "events",
        LossKind::Packets => "packets",
    }
}

fn shown(time: Option<Time>) -> String {
    time.map_or("-".into(), times::shown)
}

fn number(number: Option<u64>) -> String {
    number.map_or("-".into(), |number| number.to_string())
}

impl<'s> TraceInfo<'s> {
    fn streams(&self) -> impl Iterator<Item = (usize, &'s TracefileInfo, Vec<PacketInfo>)> + use<'s> {
        let source = self.source;
        source.tracefiles().iter().enumerate().map(|(at, info)| (at, info, source.packets(at)))
    }

    fn losses(&self) -> Vec<(&'s TracefileInfo, Loss)> {
        let infos = self.source.tracefiles();
        let mut losses = self.source.losses();
        losses.retain(|loss| self.s.overlaps(loss.from, loss.to));
        losses.sort_by_key(|loss| (loss.tracefile, loss.from));
        losses.into_iter().filter_map(|loss| Some((infos.get(loss.tracefile)?, loss))).collect()
    }

    fn path(&self) -> String {
        self.source.identity().path().display().to_string()
    }

    fn rows(&self, out: &mut Out) {
        let (trace, label) = (self.trace, self.s.label(self.trace));
        let span = self.source.time_span();
        let more = Span {
            path: &self.path(),
            first_ns: span.map(|span| span.0.ns()),
            last_ns: span.map(|span| span.1.ns()),
        };
        out.row(&Row { kind: "trace", trace, name: label, more });
        for (name, value) in self.source.properties() {
            out.row(&Row { kind: "property", trace, name: &name, more: Property { value: &value } });
        }
        for clock in self.source.clocks() {
            let more = Clock {
                frequency: clock.frequency,
                precision: clock.precision,
                offset_s: clock.offset_s,
                offset_cycles: clock.offset_cycles,
                origin: &clock.origin,
                shift_ns: clock.shift_ns,
                uid: clock.uid.as_deref(),
                description: &clock.description,
            };
            out.row(&Row { kind: "clock", trace, name: &clock.name, more });
        }
        for (stream, info, packets) in self.streams() {
            let more = Stream {
                stream,
                channel: &info.channel,
                cpu: info.cpu,
                event_classes: info.classes.len(),
                packets: packets.len(),
                bytes: packets.iter().map(|packet| packet.bytes).sum(),
                begin_ns: packets.iter().find_map(|packet| packet.begin).and_then(ns),
                end_ns: packets.iter().rev().find_map(|packet| packet.end).and_then(ns),
            };
            out.row(&Row { kind: "stream", trace, name: &info.name, more });
        }
        for (info, loss) in self.losses() {
            let (from_ns, to_ns) = (ns(loss.from), ns(loss.to));
            let more =
                Lost { stream: loss.tracefile, what: what(loss.kind), count: loss.count, from_ns, to_ns };
            out.row(&Row { kind: "loss", trace, name: &info.name, more });
        }
    }

    fn text(&self, out: &mut Out) {
        line!(out, "{}", self.path());
        if let Some((first, last)) = self.source.time_span() {
            let wide = times::duration(last.since(first).unsigned_abs());
            line!(out, "from {} to {}, {wide}", times::shown(first), times::shown(last));
        }
        let properties = self.source.properties();
        if !properties.is_empty() {
            out.blank_line();
            let wide = properties.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
            for (name, value) in properties {
                line!(out, "{name:<wide$}  {value}");
            }
        }
        for clock in self.source.clocks() {
            out.blank_line();
            clock_text(out, &clock);
        }
        head!(below out, "{:>10}  {:>12}  {:>4}  {:>11}  stream", "packets", "bytes", "CPU", "event kinds");
        for (_, info, packets) in self.streams() {
            let bytes = packets.iter().map(|packet| packet.bytes).sum::<u64>();
            let cpu = number(info.cpu.map(u64::from));
            let (count, classes) = (thousands(packets.len() as u64), info.classes.len());
            line!(out, "{count:>10}  {:>12}  {cpu:>4}  {classes:>11}  {}", thousands(bytes), info.name);
        }
        let losses = self.losses();
        if !losses.is_empty() {
            head!(below out, "{:>10}  {:<7}  {:<21}{:<21}stream", "lost", "", "from", "to");
        }
        for (info, loss) in losses {
            let (from, to) = (times::shown(loss.from), times::shown(loss.to));
            let count = loss.count.map_or("unknown".into(), thousands);
            line!(out, "{count:>10}  {:<7}  {from:<20} {to:<20} {}", what(loss.kind), info.name);
        }
    }

    /// Lists the packets. Returns true if one could not be read.
    fn packets(&self, out: &mut Out) -> bool {
        let mut failed = false;
        for (stream, info, packets) in self.streams() {
            if self.s.format == Format::Text {
                head!(below out, "packets of {}", info.name);
            }
            for (at, packet) in packets.iter().enumerate() {
                let (begin, end) = (packet.begin.unwrap_or(Time::MIN), packet.end.unwrap_or(Time::MAX));
                if !self.s.overlaps(begin, end) {
                    continue;
                }
                let mut read = Ok(());
                let mut show = |visitor: &mut dyn FieldVisitor| {
                    read = self.source.visit_packet(stream, at, visitor);
                };
                if self.s.format == Format::Text {
                    let (begin, end) = (shown(packet.begin), shown(packet.end));
                    out.line =
                        format!("{at:>8} at {:<10} {:>9} bytes  {begin} {end} ", packet.at, packet.bytes);
                    fields::shown(&mut out.line, show);
                    out.end_line();
                } else {
                    let context = fields::collected(&mut show);
                    let more = Packet {
                        stream,
                        packet: at,
                        file: &packet.file.display().to_string(),
                        at: packet.at,
                        bytes: packet.bytes,
                        begin_ns: packet.begin.and_then(ns),
                        end_ns: packet.end.and_then(ns),
                        sequence: packet.sequence,
                        discarded: packet.discarded,
                        context,
                    };
                    out.row(&Row { kind: "packet", trace: self.trace, name: &info.name, more });
                }
                if let Err(error) = read {
                    failed = true;
                    complain!("lttv: {error}");
                }
            }
        }
        failed
    }
}

fn clock_text(out: &mut Out, clock: &ClockInfo) {
    line!(
        out,
        "clock {}: {} Hz, precision {} cycles",
        clock.name,
        thousands(clock.frequency),
        clock.precision
    );
    line!(out, "  0 is {} s and {} cycles after {}", clock.offset_s, clock.offset_cycles, clock.origin);
    if clock.shift_ns != 0 {
        line!(out, "  shifted by {} ns", clock.shift_ns);
    }
    if let Some(uid) = &clock.uid {
        line!(out, "  uid {uid}");
    }
    if !clock.description.is_empty() {
        line!(out, "  {}", clock.description);
    }
}
