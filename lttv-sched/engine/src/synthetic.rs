//! Traces of plain data for tests, benches and examples, and the naive model with which the engine is compared.
//!
//! Each tracefile is a vector of events in packets of a given size, so that seeks can be counted as on disk: finding
//! a time costs a binary search over packets and a walk inside one.

use std::sync::Arc;

use crate::identity::TraceIdentity;
use crate::source::{
    Cursor, CursorPos, EventClass, EventHead, EventId, FieldVisitor, Loss, ReadError, Scope, Source,
    TracefileInfo, Value,
};
use crate::time::Time;

/// One event of a synthetic tracefile.
#[derive(Clone, Debug, PartialEq)]
pub struct SyntheticEvent {
    /// Time as recorded, in ns.
    pub ts: i64,
    /// Index of its class in the tracefile's classes.
    pub id: u32,
    /// CPU, [`EventHead::NO_CPU`] when unknown.
    pub cpu: u32,
    /// Payload fields.
    pub fields: Vec<(Arc<str>, Value<'static>)>,
}

/// One tracefile of a synthetic trace.
#[derive(Clone, Debug)]
pub struct SyntheticFile {
    /// What it tells the engine about itself.
    pub info: TracefileInfo,
    /// Its events in file order.
    pub events: Vec<SyntheticEvent>,
    /// Index of the event at which reading fails.
    pub bad_at: Option<usize>,
    greatest_before: Vec<i64>,
}

impl SyntheticFile {
    /// A tracefile of `channel` with the given classes and events.
    pub fn new(
        channel: &str,
        cpu: Option<u32>,
        classes: &[&str],
        events: Vec<SyntheticEvent>,
    ) -> SyntheticFile {
        let name = cpu.map_or_else(|| channel.to_string(), |cpu| format!("{channel}_{cpu}"));
        let info = TracefileInfo {
            channel: channel.into(),
            name: name.as_str().into(),
            cpu,
            classes: classes.iter().map(|name| EventClass::named(name)).collect(),
        };
        let mut greatest = i64::MIN;
        let mut greatest_before = Vec::with_capacity(events.len() / PACKET + 1);
        for packet in events.chunks(PACKET) {
            greatest_before.push(greatest);
            greatest = packet.iter().fold(greatest, |max, event| max.max(event.ts));
        }
        SyntheticFile { info, events, bad_at: None, greatest_before }
    }

    /// A tracefile of one class `e` with events at the given times.
    pub fn at_times(channel: &str, times: &[i64]) -> SyntheticFile {
        let events =
            times.iter().map(|&ts| SyntheticEvent { ts, id: 0, cpu: EventHead::NO_CPU, fields: Vec::new() });
        SyntheticFile::new(channel, None, &["e"], events.collect())
    }
}

/// Events in a packet.
const PACKET: usize = 64;

/// A trace of plain data.
pub struct SyntheticTrace {
    identity: TraceIdentity,
    infos: Vec<TracefileInfo>,
    files: Arc<Vec<SyntheticFile>>,
    /// The losses that it reports.
    pub losses: Vec<Loss>,
}

impl SyntheticTrace {
    /// A trace called `name` (two of the same name are the same trace).
    pub fn new(name: &str, files: Vec<SyntheticFile>) -> SyntheticTrace {
        let infos = files.iter().map(|file| file.info.clone()).collect();
        SyntheticTrace {
            identity: TraceIdentity::named(name),
            infos,
            files: Arc::new(files),
            losses: Vec::new(),
        }
    }

    /// Its tracefiles.
    pub fn files(&self) -> &[SyntheticFile] {
        &self.files
    }
}

impl Source for SyntheticTrace {
    fn identity(&self) -> &TraceIdentity {
        &self.identity
    }

    fn tracefiles(&self) -> &[TracefileInfo] {
        &self.infos
    }

    fn cursor(&self, tracefile: usize) -> Result<Box<dyn Cursor>, ReadError> {
        if tracefile >= self.files.len() {
            return Err(ReadError::no_tracefile(tracefile, self.files.len()));
        }
        Ok(Box::new(SyntheticCursor {
            files: self.files.clone(),
            file: tracefile,
            at: usize::MAX,
            packets: 0,
        }))
    }

    fn losses(&self) -> Vec<Loss> {
        self.losses.clone()
    }

    fn time_span(&self) -> Option<(Time, Time)> {
        let times = || self.files.iter().flat_map(|file| file.events.iter().map(|event| event.ts));
        Some((Time(times().min()?), Time(times().max()?)))
    }
}

struct SyntheticCursor {
    files: Arc<Vec<SyntheticFile>>,
    file: usize,
    at: usize,
    packets: u64,
}

impl SyntheticCursor {
    fn file(&self) -> &SyntheticFile {
        &self.files[self.file]
    }

    fn go(&mut self, at: usize) -> Result<Option<EventHead>, ReadError> {
        let file = &self.files[self.file];
        if let Some(bad) = file.bad_at.filter(|&bad| at >= bad && bad <= file.events.len()) {
            self.at = file.events.len();
            return Err(ReadError {
                file: Some(file.info.name.as_ref().into()),
                at: Some(bad as u64),
                what: "bad event".into(),
            });
        }
        self.at = at.min(file.events.len());
        Ok(self.head())
    }
}

impl Cursor for SyntheticCursor {
    fn head(&self) -> Option<EventHead> {
        let event = self.files[self.file].events.get(self.at)?;
        Some(EventHead { ts: Time(event.ts), id: EventId(event.id), cpu: event.cpu })
    }

    fn advance(&mut self) -> Result<Option<EventHead>, ReadError> {
        if self.at >= self.file().events.len() {
            return Ok(None);
        }
        let next = self.at + 1;
        if next.is_multiple_of(PACKET) {
            self.packets += 1;
        }
        self.go(next)
    }

    fn seek_time(&mut self, t: Time) -> Result<Option<EventHead>, ReadError> {
        let file = &self.files[self.file];
        // The last packet before which every time is less than t; its first event with ts >= t, or the next packet's.
        let packet = file.greatest_before.partition_point(|&greatest| greatest < t.0).saturating_sub(1);
        let start = packet * PACKET;
        let at = file.events[start.min(file.events.len())..].iter().position(|event| event.ts >= t.0);
        let at = at.map_or(file.events.len(), |at| start + at);
        self.packets += 1;
        self.go(at)
    }

    fn seek(&mut self, pos: CursorPos) -> Result<Option<EventHead>, ReadError> {
        let at = usize::try_from(pos.0[0]).unwrap_or(usize::MAX);
        if at > self.file().events.len() {
            self.at = self.file().events.len();
            return Err(ReadError::new(format!("position {at} is not in this tracefile")));
        }
        self.packets += 1;
        self.go(at)
    }

    fn pos(&self) -> CursorPos {
        CursorPos([self.at as u64, 0, 0, 0])
    }

    fn field_in(&self, scope: Scope, name: &str) -> Option<Value<'_>> {
        let event = self.file().events.get(self.at).filter(|_| scope == Scope::Payload)?;
        let (_, value) = event.fields.iter().find(|(field, _)| **field == *name)?;
        Some(value.clone())
    }

    fn visit(&self, scope: Scope, visitor: &mut dyn FieldVisitor) {
        if let Some(event) = self.file().events.get(self.at).filter(|_| scope == Scope::Payload) {
            event.fields.iter().for_each(|(name, value)| visitor.value(name, value.clone()));
        }
    }

    fn packets_decoded(&self) -> u64 {
        self.packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(times: &[i64]) -> Box<dyn Cursor> {
        let mut cursor =
            SyntheticTrace::new("t", vec![SyntheticFile::at_times("a", times)]).cursor(0).unwrap();
        cursor.seek_time(Time::MIN).unwrap();
        cursor
    }

    #[test]
    fn seek_time_finds_the_first_event_in_file_order_even_where_times_go_back() {
        let mut times: Vec<i64> = (0..300).collect();
        times[100] = 5;
        times[200] = 290;
        let mut cursor = cursor(&times);
        for t in -1..302 {
            let head = cursor.seek_time(Time(t)).unwrap();
            assert_eq!(head.map(|head| head.ts.0), times.iter().copied().find(|&ts| ts >= t), "{t}");
        }
    }

    #[test]
    fn a_bad_event_ends_the_tracefile_with_its_place() {
        let mut file = SyntheticFile::at_times("a", &[1, 2, 3]);
        file.bad_at = Some(2);
        let mut cursor = SyntheticTrace::new("t", vec![file]).cursor(0).unwrap();
        assert!(cursor.seek_time(Time::MIN).unwrap().is_some());
        assert!(cursor.advance().unwrap().is_some());
        assert_eq!(cursor.advance().unwrap_err().to_string(), "a: byte 2: bad event");
        assert_eq!(cursor.head(), None);
    }
}
