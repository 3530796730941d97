//! A trace as a source of the engine: streams are tracefiles, events of a stream without a clock are untimed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use lttv_engine::describe::{ClockInfo, PacketInfo};
use lttv_engine::identity::TraceIdentity;
use lttv_engine::source::{
    Compound, Cursor, CursorPos, EventClass, EventHead, EventId, FieldVisitor, Loss, ReadError, Scope,
    Source, TracefileInfo, Value,
};
use lttv_engine::time::Time;

use crate::error::OpenError;
use crate::model::{BitsKind, ClockClass, EnvValue, Origin};
use crate::reader::{EventTime, Head, Position, Reader};
use crate::trace::{Options, Trace, open_each};
use crate::values::{FieldValue, View, float, integer};
use rustc_hash::FxHashMap;

/// A CTF trace for the engine.
pub struct CtfSource {
    trace: Trace,
    identity: TraceIdentity,
    infos: Vec<TracefileInfo>,
    span: OnceLock<Option<(Time, Time)>>,
}

impl CtfSource {
    /// Opens all traces at `path` or below it, with a result for each.
    ///
    /// # Errors
    /// There is no trace, or the directory cannot be read.
    pub fn open(path: &Path, options: &Options) -> Result<Vec<Result<CtfSource, OpenError>>, OpenError> {
        Ok(open_each(path, options)?.into_iter().map(|t| t.and_then(CtfSource::new)).collect())
    }

    /// A source of an open trace.
    ///
    /// # Errors
    /// Its directory is gone.
    pub fn new(trace: Trace) -> Result<CtfSource, OpenError> {
        let dir = &trace.dirs()[0];
        let identity =
            TraceIdentity::of_path(dir).map_err(|error| OpenError::Io { path: dir.clone(), error })?;
        let classes: Vec<Arc<[EventClass]>> = trace
            .class()
            .streams
            .iter()
            .map(|s| {
                s.events
                    .iter()
                    .map(|e| EventClass {
                        name: e.name.as_str().into(),
                        native_id: e.id,
                        log_level: e.loglevel,
                    })
                    .collect()
            })
            .collect();
        let mut owner: FxHashMap<String, usize> = FxHashMap::default();
        let infos = (0..trace.stream_count())
            .map(|i| {
                let s = trace.stream(i);
                let class = trace.class_of_stream(i);
                let name = s.path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
                let mut channel = channel(&name, s.cpu).to_string();
                // A channel must have one table of event classes.
                if *owner.entry(channel.clone()).or_insert(class) != class {
                    channel = format!("{channel}.{}", s.class.id);
                    owner.insert(channel.clone(), class);
                }
                TracefileInfo {
                    channel: channel.as_str().into(),
                    name: name.as_str().into(),
                    cpu: s.cpu,
                    classes: classes[class].clone(),
                }
            })
            .collect();
        Ok(CtfSource { trace, identity, infos, span: OnceLock::new() })
    }

    /// Stream files that cannot be read at all.
    pub fn lost(&self) -> Vec<ReadError> {
        self.trace.lost_files.iter().map(|e| engine_error(e.clone())).collect()
    }

    /// Name of a clock of this trace whose origin is not the Unix epoch. Its times can only be compared with those of
    /// the same clock.
    pub fn foreign_clock(&self) -> Option<String> {
        let class = self.trace.class();
        let used = class.streams.iter().filter_map(|s| s.clock).map(|k| &class.clocks[k]);
        used.into_iter().find_map(|c| match &c.origin {
            Origin::UnixEpoch => None,
            Origin::Other(key) => Some(key.clone()),
            Origin::Unknown => Some(format!("{} of {}", c.name, self.identity.path().display())),
        })
    }

    /// What copies of this trace share and no other trace has: its UUID, and its streams with their packets and bounds
    /// (parts of one session share a UUID too). None without a UUID.
    pub fn fingerprint(&self) -> Option<Vec<u8>> {
        let mut print = self.trace.class().uuid?.to_vec();
        for (stream, info) in self.infos.iter().enumerate() {
            print.extend(info.name.as_bytes());
            print.extend(self.trace.stream(stream).packets.to_le_bytes());
            let (first, last) = self.trace.stream_bounds(stream).unwrap_or_default();
            print.extend([first, last].iter().flat_map(|time| time.to_le_bytes()));
        }
        Some(print)
    }

    /// The trace.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }
}

/// The channel of a stream file: LTTng names it `<channel>_<cpu>` or, rotated, `<channel>_<cpu>_<count>`.
fn channel(name: &str, cpu: Option<u32>) -> &str {
    let number = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let Some((head, _)) = name.rsplit_once('_').filter(|(h, l)| !h.is_empty() && number(l)) else {
        return name;
    };
    match head.rsplit_once('_') {
        Some((channel, c))
            if !channel.is_empty() && number(c) && cpu.is_some_and(|cpu| c.parse() == Ok(cpu)) =>
        {
            channel
        }
        _ => head,
    }
}

impl Source for CtfSource {
    fn identity(&self) -> &TraceIdentity {
        &self.identity
    }

    fn tracefiles(&self) -> &[TracefileInfo] {
        &self.infos
    }

    fn cursor(&self, tracefile: usize) -> Result<Box<dyn Cursor>, ReadError> {
        if tracefile >= self.infos.len() {
            return Err(ReadError::no_tracefile(tracefile, self.infos.len()));
        }
        let reader = self.trace.reader(tracefile);
        let cpu = reader.cpu().unwrap_or(EventHead::NO_CPU);
        let own_cpu = reader.says_cpu();
        let file = self.trace.stream(tracefile).path.to_path_buf();
        Ok(Box::new(CtfCursor { reader, file, cpu, own_cpu }))
    }

    fn time_span(&self) -> Option<(Time, Time)> {
        // Contexts ask for this each time a trace joins them.
        *self.span.get_or_init(|| {
            let spans = (0..self.infos.len()).filter_map(|i| self.trace.stream_bounds(i));
            spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).map(|(a, b)| (Time(a), Time(b)))
        })
    }

    fn losses(&self) -> Vec<Loss> {
        let untimed = Time::UNTIMED;
        let mut out = Vec::new();
        for i in 0..self.infos.len() {
            for l in self.trace.stream(i).losses {
                let to = l.to.or(l.from).map_or(untimed, Time);
                out.push(Loss {
                    tracefile: i,
                    from: l.from.map_or(to, Time),
                    to,
                    kind: l.kind,
                    count: l.count,
                });
            }
        }
        out
    }

    fn content_key(&self) -> Option<Vec<u8>> {
        self.trace.content_key()
    }

    fn warnings(&self) -> Vec<ReadError> {
        let lost: Vec<String> = self.trace.lost_files.iter().map(ToString::to_string).collect();
        let plain = self.trace.diagnostics.iter().filter(|d| !lost.contains(&d.what));
        let plain = plain.map(|d| ReadError { file: Some(d.path.clone()), at: None, what: d.what.clone() });
        plain.chain(self.trace.lost_files.iter().map(|e| engine_error(e.clone()))).collect()
    }

    fn field_names(&self) -> Option<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for stream in &self.trace.class().streams {
            let own = [&stream.packet_context, &stream.event_header, &stream.event_context];
            own.into_iter().flatten().for_each(|class| class.add_names(&mut names));
            for event in &stream.events {
                event.context.iter().chain(&event.fields).for_each(|class| class.add_names(&mut names));
            }
        }
        Some(names)
    }

    fn clocks(&self) -> Vec<ClockInfo> {
        let info = |clock: &ClockClass| ClockInfo {
            name: clock.name.clone(),
            description: clock.description.clone(),
            uid: clock.uid.clone(),
            frequency: clock.freq,
            precision: clock.precision,
            offset_s: clock.offset_s,
            offset_cycles: clock.offset,
            origin: match &clock.origin {
                Origin::UnixEpoch => "1970-01-01 00:00:00 UTC".into(),
                Origin::Other(key) => key.clone(),
                Origin::Unknown => "unknown".into(),
            },
            shift_ns: self.trace.shift_ns(),
        };
        self.trace.class().clocks.iter().map(info).collect()
    }

    fn packets(&self, tracefile: usize) -> Vec<PacketInfo> {
        if tracefile < self.infos.len() { self.trace.packets(tracefile).collect() } else { Vec::new() }
    }

    fn visit_packet(
        &self,
        tracefile: usize,
        packet: usize,
        visitor: &mut dyn FieldVisitor,
    ) -> Result<(), ReadError> {
        if tracefile < self.infos.len() {
            let mut reader = self.trace.reader(tracefile);
            reader.open_packet(packet).map_err(engine_error)?;
            reader.with(crate::model::Scope::PacketContext, |context| {
                context.parts().for_each(|(name, part)| show(name, part, visitor));
            });
        }
        Ok(())
    }

    fn properties(&self) -> Vec<(String, String)> {
        let text = |v: &EnvValue| match v {
            EnvValue::Int(v) => v.to_string(),
            EnvValue::Text(t) => t.clone(),
        };
        let class = self.trace.class();
        let uuid = class.uuid.map(|uuid| ("uuid".to_string(), crate::packet::hex(&uuid)));
        uuid.into_iter().chain(class.env.iter().map(|(name, value)| (name.clone(), text(value)))).collect()
    }
}

fn engine_error(e: crate::error::ReadError) -> ReadError {
    ReadError::at(e.path, e.at, format!("packet {}: {}", e.packet, e.fault))
}

/// A reader as a cursor of the engine.
struct CtfCursor {
    reader: Reader,
    /// The stream's first file, for errors.
    file: PathBuf,
    /// CPU of the stream.
    cpu: u32,
    /// Whether events have their own CPU field.
    own_cpu: bool,
}

impl CtfCursor {
    #[inline]
    fn convert(&self, h: Option<Head>) -> Option<EventHead> {
        h.map(|h| {
            let ts = match h.time {
                EventTime::Ns(t) => Time(t),
                EventTime::Untimed => Time::UNTIMED,
                // `arrived` refuses these.
                EventTime::Overflow => Time::MAX,
            };
            let cpu =
                if self.own_cpu { self.reader.event_cpu().unwrap_or(EventHead::NO_CPU) } else { self.cpu };
            EventHead { ts, id: EventId(h.class), cpu }
        })
    }
}

impl CtfCursor {
    /// The engine's view of the reader's current event. If an event's time does not fit, it ends the tracefile, because
    /// any position in the order would be wrong.
    #[inline]
    fn arrived(&mut self, head: Option<Head>) -> Result<Option<EventHead>, ReadError> {
        if head.is_some_and(|head| head.time == EventTime::Overflow) {
            return Err(self.without_time());
        }
        Ok(self.convert(head))
    }

    #[cold]
    fn without_time(&mut self) -> ReadError {
        let packet = self.reader.position().packet;
        // Nothing can fail at the end.
        let _ = self.reader.seek(Position::END);
        let what = format!(
            "packet {packet}: the time of an event does not fit 64 bits of ns: its clock value and the clock's offset are too large"
        );
        ReadError { file: Some(self.file.clone()), at: None, what }
    }
}

fn model_scope(s: Scope) -> crate::model::Scope {
    match s {
        Scope::Payload => crate::model::Scope::Payload,
        Scope::EventContext => crate::model::Scope::SpecificContext,
        Scope::StreamContext => crate::model::Scope::CommonContext,
        Scope::EventHeader => crate::model::Scope::EventHeader,
        Scope::PacketContext => crate::model::Scope::PacketContext,
        Scope::PacketHeader => crate::model::Scope::PacketHeader,
    }
}

impl Cursor for CtfCursor {
    #[inline]
    fn head(&self) -> Option<EventHead> {
        self.convert(self.reader.head())
    }

    fn advance(&mut self) -> Result<Option<EventHead>, ReadError> {
        let h = self.reader.advance().map_err(engine_error)?;
        self.arrived(h)
    }

    fn seek_time(&mut self, t: Time) -> Result<Option<EventHead>, ReadError> {
        let h = self.reader.seek_time(t.0).map_err(engine_error)?;
        self.arrived(h)
    }

    fn seek(&mut self, pos: CursorPos) -> Result<Option<EventHead>, ReadError> {
        let [packet, bit, clock, _] = pos.0;
        let h = self.reader.seek(Position { packet, bit, clock }).map_err(engine_error)?;
        self.arrived(h)
    }

    fn pos(&self) -> CursorPos {
        let p = self.reader.position();
        CursorPos([p.packet, p.bit, p.clock, if p == Position::END { u64::MAX } else { 0 }])
    }

    fn field_in(&self, scope: Scope, name: &str) -> Option<Value<'_>> {
        self.reader.with_data(model_scope(scope), |v| v.find(name).and_then(scalar)).flatten()
    }

    fn visit(&self, scope: Scope, visitor: &mut dyn FieldVisitor) {
        self.reader.with(model_scope(scope), |v| {
            for (name, part) in v.parts() {
                show(name, part, visitor);
            }
        });
    }

    fn text(&self, scope: Scope, out: &mut String) -> Option<()> {
        crate::text::scope(out, &self.reader, model_scope(scope));
        Some(())
    }

    fn packets_decoded(&self) -> u64 {
        self.reader.packets_opened()
    }
}

/// The value of a field without parts.
fn scalar<'d>(v: View<'_, 'd>) -> Option<Value<'d>> {
    Some(match v.seen() {
        FieldValue::Bits(b, raw) => match (b.kind, &b.mappings) {
            (BitsKind::Float, _) => Value::Float(float(b, raw)),
            (BitsKind::Bool, _) => Value::Bool(raw != 0),
            (BitsKind::Unsigned | BitsKind::Signed, Some(m)) => {
                let value = integer(b.signed(), raw);
                Value::Enum { value, label: m.labels(value).next() }
            }
            (BitsKind::Signed, None) => Value::Signed(raw.cast_signed()),
            _ => Value::Unsigned(raw),
        },
        FieldValue::VarInt(i, raw) => match &i.mappings {
            Some(m) => {
                let value = integer(i.signed, raw);
                Value::Enum { value, label: m.labels(value).next() }
            }
            None if i.signed => Value::Signed(raw.cast_signed()),
            None => Value::Unsigned(raw),
        },
        FieldValue::Text(t) => Value::Text(t),
        FieldValue::Blob(b) => Value::Bytes(b.into()),
        FieldValue::Struct | FieldValue::Array(_) => return None,
        FieldValue::Variant(_, v) | FieldValue::Optional(Some(v)) => return scalar(v),
        FieldValue::Optional(None) => return None,
    })
}

/// Shows a field: for a variant or optional its content, and nothing for an absent one.
fn show(name: &str, v: View<'_, '_>, visitor: &mut dyn FieldVisitor) {
    match v.seen() {
        FieldValue::Struct => visitor.begin(name, Compound::Struct),
        FieldValue::Array(n) => visitor.begin(name, Compound::Array(crate::bits::index(n))),
        FieldValue::Variant(_, inner) | FieldValue::Optional(Some(inner)) => {
            return show(name, inner, visitor);
        }
        FieldValue::Optional(None) => return,
        _ => {
            if let Some(value) = scalar(v) {
                visitor.value(name, value);
            }
            return;
        }
    }
    for (n, part) in v.parts() {
        show(n, part, visitor);
    }
    visitor.end();
}

#[cfg(test)]
mod tests {
    use super::channel;

    #[test]
    fn channels_are_file_names_without_cpu_and_rotation() {
        for (name, cpu, want) in [
            ("channel0_3", Some(3), "channel0"),
            ("mychan_0_2", Some(0), "mychan"),
            ("ust2_channel_1", Some(1), "ust2_channel"),
            ("stream", None, "stream"),
            ("perf_stream_0", None, "perf_stream"),
            ("_1", None, "_1"),
            ("a_1_2", Some(2), "a_1"),
        ] {
            assert_eq!(channel(name, cpu), want, "{name}");
        }
    }
}
