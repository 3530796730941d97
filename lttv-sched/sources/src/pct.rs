//! A .pct file as a trace.
//!
//! It has one tracefile for each thread (channel `samples`: `sample`, `system_sample`, `mark`, `thread_begin`,
//! `thread_end`) and one for the process (channel `process`: `region_begin`, `region_end`, `exec`, `fork`). The file is
//! read once, when it is opened: from a process that is still being sampled it has what was written by then. Samples
//! are stored as small records in order of time; stacks stay shared.
//!
//! Fields of samples: `pc`, `weight` (periods), `weight_ns` (CPU time that the sample stands for), `region` and
//! `offset` (file that contained the PC and the offset in it), `stack` (callers, innermost first). Their stream context
//! has `vpid`, `vtid` and `procname`, as LTTng names them, so that one filter fits both.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lttv_engine::identity::TraceIdentity;
use lttv_engine::source::{
    Compound, Cursor, CursorPos, EventClass, EventHead, EventId, FieldVisitor, Loss, LossKind, ReadError,
    Scope, Source, TracefileInfo, Value,
};
use lttv_engine::time::Time;
use pct_format::layout::Text;
use pct_format::record::{Frame, RegionFacts};
use pct_format::{File, Index, Record, Stack, Stacks};
use rustc_hash::FxHashMap;

/// Field of samples that is not listed: index of the region ([`PctSource::regions`]) that contains the PC.
pub const REGION_INDEX: &str = "region_index";

/// Largest file that is read, bytes.
const MOST_BYTES: u64 = 16 << 30;

/// Why a sample log cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PctError {
    /// The file system returned an error.
    #[error("{path}: {error}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Not a .pct file, or damaged.
    #[error("{path}: {error}", path = .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What was expected and found.
        error: pct_format::Error,
    },
    /// The file is too large.
    #[error("{path}: {bytes} bytes, at most {MOST_BYTES} are read", path = .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
    },
}

/// Kinds of events, by index into the class table of their channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PctEvent {
    Sample,
    SystemSample,
    Mark,
    ThreadBegin,
    ThreadEnd,
    RegionBegin,
    RegionEnd,
    Exec,
    Fork,
}

const THREAD_CLASSES: [&str; 5] = ["sample", "system_sample", "mark", "thread_begin", "thread_end"];
const PROCESS_CLASSES: [&str; 4] = ["region_begin", "region_end", "exec", "fork"];

impl PctEvent {
    fn id(self) -> EventId {
        let k = self as u32;
        EventId(if k < PctEvent::RegionBegin as u32 { k } else { k - PctEvent::RegionBegin as u32 })
    }
}

/// Callers of a sample.
#[derive(Clone, Copy, Debug)]
enum Callers {
    None,
    Id(u32),
    /// Range of [`Data::frames`].
    Own(u32, u32),
}

/// One event. The meaning of `a` and `b` depends on the kind.
#[derive(Clone, Copy, Debug)]
struct Event {
    ns: i64,
    kind: PctEvent,
    /// PC; child; index of a text; CPU time at the end.
    a: u64,
    /// Weight.
    b: u64,
    /// Period of a sample, ns.
    period: u64,
    /// Index of a region, or `u32::MAX`.
    region: u32,
    callers: Callers,
}

#[derive(Debug)]
struct RegionInfo {
    facts: RegionFacts<Vec<u8>>,
    path: String,
}

#[derive(Debug)]
struct File1 {
    tid: u32,
    name: String,
    events: Vec<Event>,
}

#[derive(Debug)]
struct Data {
    pid: u32,
    ns_pid: u32,
    comm: String,
    files: Vec<File1>,
    frames: Vec<u64>,
    stacks: Stacks,
    regions: Vec<RegionInfo>,
    texts: Vec<String>,
}

impl Data {
    /// The text that an event names.
    fn text(&self, number: u64) -> &str {
        usize::try_from(number).ok().and_then(|number| self.texts.get(number)).map_or("", String::as_str)
    }
}

/// A sample log for the engine.
pub struct PctSource {
    identity: TraceIdentity,
    infos: Vec<TracefileInfo>,
    data: Arc<Data>,
    losses: Vec<Loss>,
    warnings: Vec<ReadError>,
    properties: Vec<(String, String)>,
}

impl PctSource {
    /// Reads a .pct file.
    ///
    /// # Errors
    /// It cannot be read, or is not a .pct file.
    pub fn open(path: &Path) -> Result<PctSource, PctError> {
        let io = |error| PctError::Io { path: path.to_path_buf(), error };
        let bytes = std::fs::metadata(path).map_err(io)?.len();
        if bytes > MOST_BYTES {
            return Err(PctError::TooLarge { path: path.to_path_buf(), bytes });
        }
        let identity = TraceIdentity::of_path(path).map_err(io)?;
        let bytes = std::fs::read(path).map_err(io)?;
        PctSource::parse(&bytes, path, identity)
    }

    /// The regions of the process: which object was mapped where. Samples refer to theirs by [`REGION_INDEX`].
    pub fn regions(&self) -> impl Iterator<Item = &RegionFacts<Vec<u8>>> {
        self.data.regions.iter().map(|region| &region.facts)
    }

    /// The process id in the process's own namespace.
    pub fn ns_pid(&self) -> u32 {
        self.data.ns_pid
    }

    fn parse(bytes: &[u8], path: &Path, identity: TraceIdentity) -> Result<PctSource, PctError> {
        let file =
            File::parse(bytes).map_err(|error| PctError::Format { path: path.to_path_buf(), error })?;
        let index = Index::new(&file);
        let header = file.header();
        let mut reading = Reading::new(&index);
        reading.threads();
        reading.process();
        let mut data = reading.data;
        let text = |t| String::from_utf8_lossy(header.text(t)).into_owned();
        data.pid = header.pid();
        data.ns_pid = header.ns_pid();
        data.comm = text(Text::Exe).rsplit('/').next().unwrap_or_default().to_string();
        for f in &mut data.files {
            // The sort is stable: events with the same time keep the order in which they were written.
            f.events.sort_by_key(|e| e.ns);
        }
        let classes =
            |names: &[&str]| names.iter().map(|n| EventClass::named(n)).collect::<Arc<[EventClass]>>();
        let (of_threads, of_process) = (classes(&THREAD_CLASSES), classes(&PROCESS_CLASSES));
        let last = data.files.len() - 1;
        let infos = data.files.iter().enumerate().map(|(i, f)| TracefileInfo {
            channel: if i == last { "process" } else { "samples" }.into(),
            name: if i == last {
                "process".into()
            } else {
                format!("{} ({})", f.name, f.tid).as_str().into()
            },
            cpu: None,
            classes: if i == last { of_process.clone() } else { of_threads.clone() },
        });
        let infos = infos.collect();
        let losses = losses(&file, &index, &data);
        let mut warnings = Vec::new();
        if index.torn_segments > 0 {
            let what = format!(
                "{} segments were being rewritten or are damaged; they were left out",
                index.torn_segments
            );
            warnings.push(ReadError { file: Some(path.to_path_buf()), at: None, what });
        }
        let argv: Vec<String> = header.argv().map(|a| String::from_utf8_lossy(a).into_owned()).collect();
        let properties = vec![
            ("pid".to_string(), header.pid().to_string()),
            ("argv".to_string(), argv.join(" ")),
            ("clock".to_string(), header.clock_got().map_or("none".into(), |c| c.name().to_string())),
            ("rate_hz".to_string(), header.rate_got_hz().to_string()),
            ("state".to_string(), header.state().name().to_string()),
        ];
        Ok(PctSource { identity, infos, data: Arc::new(data), losses, warnings, properties })
    }
}

/// The file while it is being turned into [`Data`].
struct Reading<'i, 'a> {
    index: &'i Index<'a>,
    region_of_id: FxHashMap<u32, u32>,
    data: Data,
}

impl<'i, 'a> Reading<'i, 'a> {
    fn new(index: &'i Index<'a>) -> Self {
        let regions = index.regions.iter().map(|region| RegionInfo {
            facts: region.facts.clone(),
            path: String::from_utf8_lossy(&region.facts.path).into_owned(),
        });
        let data = Data {
            pid: 0,
            ns_pid: 0,
            comm: String::new(),
            files: Vec::new(),
            frames: Vec::new(),
            stacks: index.stacks.clone(),
            regions: regions.collect(),
            texts: Vec::new(),
        };
        let region_of_id = (0..).zip(&index.regions).map(|(row, region)| (region.id, row)).collect();
        Reading { index, region_of_id, data }
    }

    /// Number of the frames kept so far: files have fewer than 2^32, as they have fewer than 2^34 bytes.
    fn frames(&self) -> u32 {
        u32::try_from(self.data.frames.len()).unwrap_or(u32::MAX)
    }

    fn ns(&self, raw: u64) -> i64 {
        i64::try_from(self.index.timeline.realtime_ns(raw)).unwrap_or(i64::MAX)
    }

    fn event(&self, raw: u64, kind: PctEvent, a: u64) -> Event {
        Event { ns: self.ns(raw), kind, a, b: 0, period: 0, region: u32::MAX, callers: Callers::None }
    }

    fn text(&mut self, t: String) -> u64 {
        self.data.texts.push(t);
        self.data.texts.len() as u64 - 1
    }

    fn threads(&mut self) {
        let file = *self.index.file();
        let mut slots = FxHashMap::default();
        for (i, t) in self.index.threads.iter().enumerate() {
            slots.insert(t.serial, i);
            let mut events = Vec::new();
            events.extend(t.begin.map(|raw| self.event(raw, PctEvent::ThreadBegin, 0)));
            events.extend(t.end.map(|raw| self.event(raw, PctEvent::ThreadEnd, t.cpu_ns.unwrap_or(0))));
            self.data.files.push(File1 { tid: t.tid, name: t.name.clone(), events });
        }
        let mut segments: Vec<_> =
            file.segments().filter(|s| !s.kind().is_area() && s.thread() != 0).collect();
        segments.sort_by_key(pct_format::Segment::generation);
        let header_period = file.header().period_ns();
        let runs = segments.into_iter().flat_map(|s| {
            let period = if s.period_ns() == 0 { header_period } else { s.period_ns() };
            s.runs().map(move |run| (period, run))
        });
        for (period, run) in runs {
            let Some(&slot) = slots.get(&run.thread) else { continue };
            for record in run.records() {
                let event = match record {
                    Record::Sample(sample) => {
                        let sample = self.index.without_kernel(&sample);
                        let kind = if sample.system { PctEvent::SystemSample } else { PctEvent::Sample };
                        let region = self.index.region_at(sample.pc, sample.time);
                        let region = region.and_then(|r| self.region_of_id.get(&r.id)).copied();
                        let callers = match sample.stack {
                            Stack::None => Callers::None,
                            Stack::Id(id) => Callers::Id(id),
                            Stack::Frames(f) => {
                                let start = self.frames();
                                self.data.frames.extend(f.iter().map(Frame::encode));
                                Callers::Own(start, self.frames())
                            }
                        };
                        let e = self.event(sample.time, kind, sample.pc);
                        Event { b: sample.weight, period, region: region.unwrap_or(u32::MAX), callers, ..e }
                    }
                    Record::Mark { time, name, .. } => {
                        let text = self.text(name.to_text());
                        self.event(time, PctEvent::Mark, text)
                    }
                    _ => continue,
                };
                self.data.files[slot].events.push(event);
            }
        }
    }

    fn process(&mut self) {
        let mut events = Vec::new();
        for (region, r) in (0..).zip(&self.index.regions) {
            events.push(Event { region, ..self.event(r.from, PctEvent::RegionBegin, 0) });
            if r.to != u64::MAX {
                events.push(Event { region, ..self.event(r.to, PctEvent::RegionEnd, 0) });
            }
        }
        let (execs, forks) = (self.index.execs.clone(), self.index.forks.clone());
        for (raw, path) in execs {
            let text = self.text(String::from_utf8_lossy(&path).into_owned());
            events.push(self.event(raw, PctEvent::Exec, text));
        }
        events
            .extend(forks.into_iter().map(|(raw, child)| self.event(raw, PctEvent::Fork, u64::from(child))));
        self.data.files.push(File1 { tid: 0, name: String::new(), events });
    }
}

/// What the file says was lost, over the time from its first to its last event.
fn losses(file: &File<'_>, index: &Index<'_>, data: &Data) -> Vec<Loss> {
    let span = |f: &File1| f.events.first().zip(f.events.last()).map(|(a, b)| (a.ns, b.ns));
    let whole =
        data.files.iter().filter_map(span).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or((0, 0));
    let process = data.files.len() - 1;
    let mut out = Vec::new();
    for l in file.header().losses().filter(|l| l.samples > 0 && l.cause.loses_samples()) {
        let (from, to) = (Time(whole.0), Time(whole.1));
        out.push(Loss { tracefile: process, from, to, kind: LossKind::Events, count: Some(l.samples) });
    }
    for (i, t) in index.threads.iter().enumerate().filter(|(_, t)| t.overwritten.0 > 0) {
        let first =
            data.files[i].events.iter().find(|e| matches!(e.kind, PctEvent::Sample | PctEvent::SystemSample));
        let to = first.map_or(whole.1, |e| e.ns);
        let count = Some(t.overwritten.0);
        out.push(Loss {
            tracefile: i,
            from: Time(whole.0.min(to)),
            to: Time(to),
            kind: LossKind::Events,
            count,
        });
    }
    out
}

impl Source for PctSource {
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
        Ok(Box::new(PctCursor { data: self.data.clone(), file: tracefile, at: usize::MAX }))
    }

    fn time_span(&self) -> Option<(Time, Time)> {
        let ends = self.data.files.iter().filter_map(|f| Some((f.events.first()?.ns, f.events.last()?.ns)));
        ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).map(|(a, b)| (Time(a), Time(b)))
    }

    fn losses(&self) -> Vec<Loss> {
        self.losses.clone()
    }

    fn warnings(&self) -> Vec<ReadError> {
        self.warnings.clone()
    }

    fn properties(&self) -> Vec<(String, String)> {
        self.properties.clone()
    }
}

struct PctCursor {
    data: Arc<Data>,
    file: usize,
    /// Index of the event. The number of events or more means past the end.
    at: usize,
}

impl PctCursor {
    fn event(&self) -> Option<&Event> {
        self.data.files[self.file].events.get(self.at)
    }

    fn frames(&self, c: Callers) -> Vec<Frame> {
        match c {
            Callers::None => Vec::new(),
            Callers::Id(id) => self.data.stacks.frames(id).collect(),
            Callers::Own(a, b) => {
                let words = self.data.frames.get(a as usize..b as usize).unwrap_or(&[]);
                words.iter().map(|w| Frame::decode(*w)).collect()
            }
        }
    }

    /// Fields that are no compounds.
    fn values(&self, scope: Scope) -> Vec<(&'static str, Value<'_>)> {
        let Some(e) = self.event() else { return Vec::new() };
        let f = &self.data.files[self.file];
        let text = |t: &'_ str| Value::Text(Cow::Owned(t.to_string()));
        match scope {
            Scope::StreamContext => {
                let mut v = vec![("vpid", Value::Unsigned(u64::from(self.data.pid)))];
                if f.tid != 0 {
                    v.push(("vtid", Value::Unsigned(u64::from(f.tid))));
                }
                let name = if f.tid == 0 { &self.data.comm } else { &f.name };
                v.push(("procname", Value::Text(Cow::Borrowed(name))));
                v
            }
            Scope::Payload => {
                let region = self.data.regions.get(e.region as usize);
                let mut v = Vec::new();
                match e.kind {
                    PctEvent::Sample | PctEvent::SystemSample => {
                        v.push(("pc", Value::Unsigned(e.a)));
                        v.push(("weight", Value::Unsigned(e.b)));
                        v.push(("weight_ns", Value::Unsigned(e.b.saturating_mul(e.period))));
                        if let Some(r) = region {
                            v.push(("region", Value::Text(Cow::Borrowed(&r.path))));
                            v.push((
                                "offset",
                                Value::Unsigned(e.a.wrapping_sub(r.facts.start).wrapping_add(r.facts.offset)),
                            ));
                        }
                    }
                    PctEvent::Mark => v.push(("name", text(self.data.text(e.a)))),
                    PctEvent::ThreadBegin => {}
                    PctEvent::ThreadEnd => v.push(("cpu_ns", Value::Unsigned(e.a))),
                    PctEvent::RegionBegin | PctEvent::RegionEnd => {
                        if let Some(r) = region {
                            v.push(("start", Value::Unsigned(r.facts.start)));
                            v.push(("end", Value::Unsigned(r.facts.end)));
                            v.push(("offset", Value::Unsigned(r.facts.offset)));
                            v.push(("path", Value::Text(Cow::Borrowed(&r.path))));
                        }
                    }
                    PctEvent::Exec => v.push(("path", text(self.data.text(e.a)))),
                    PctEvent::Fork => v.push(("child", Value::Unsigned(e.a))),
                }
                v
            }
            _ => Vec::new(),
        }
    }
}

fn frame_value(f: Frame) -> Value<'static> {
    match f {
        Frame::Return(pc) | Frame::Exact(pc) => Value::Unsigned(pc),
        Frame::Code(code) => Value::Text(Cow::Owned(format!("code {}", code.id()))),
        Frame::NoCode(why) => Value::Text(Cow::Borrowed(why.name())),
        Frame::Cut(cause) => Value::Text(Cow::Owned(format!("cut: {cause:?}"))),
        Frame::Boundary(boundary) => Value::Text(Cow::Borrowed(boundary.entry.name())),
        Frame::Kernel(pc) => Value::Unsigned(pc),
        Frame::Blocked(blocked) => Value::Text(Cow::Borrowed(blocked.by.name())),
    }
}

impl Cursor for PctCursor {
    fn head(&self) -> Option<EventHead> {
        let e = self.event()?;
        Some(EventHead { ts: Time(e.ns), id: e.kind.id(), cpu: EventHead::NO_CPU })
    }

    fn advance(&mut self) -> Result<Option<EventHead>, ReadError> {
        self.at = self.at.saturating_add(1);
        Ok(self.head())
    }

    fn seek_time(&mut self, t: Time) -> Result<Option<EventHead>, ReadError> {
        self.at = self.data.files[self.file].events.partition_point(|e| e.ns < t.ns());
        Ok(self.head())
    }

    fn seek(&mut self, pos: CursorPos) -> Result<Option<EventHead>, ReadError> {
        let n = self.data.files[self.file].events.len();
        self.at = usize::try_from(pos.0[0]).unwrap_or(usize::MAX);
        if self.at > n {
            let found = self.at;
            self.at = n;
            return Err(ReadError::new(format!("position {found} is not in this tracefile of {n} events")));
        }
        Ok(self.head())
    }

    fn pos(&self) -> CursorPos {
        CursorPos([self.at.min(self.data.files[self.file].events.len()) as u64, 0, 0, 0])
    }

    fn field_in(&self, scope: Scope, name: &str) -> Option<Value<'_>> {
        if let Some(i) = name.strip_prefix("stack.").filter(|_| scope == Scope::Payload) {
            let e = self.event()?;
            return self.frames(e.callers).get(i.parse::<usize>().ok()?).map(|f| frame_value(*f));
        }
        if name == REGION_INDEX && scope == Scope::Payload {
            let region = self.event()?.region;
            return (region != u32::MAX).then_some(Value::Unsigned(region.into()));
        }
        self.values(scope).into_iter().find(|(n, _)| *n == name).map(|(_, v)| v)
    }

    fn visit(&self, scope: Scope, visitor: &mut dyn FieldVisitor) {
        for (name, value) in self.values(scope) {
            visitor.value(name, value);
        }
        let Some(e) = self.event().filter(|e| {
            scope == Scope::Payload && matches!(e.kind, PctEvent::Sample | PctEvent::SystemSample)
        }) else {
            return;
        };
        let frames = self.frames(e.callers);
        visitor.begin("stack", Compound::Array(frames.len()));
        frames.into_iter().for_each(|f| visitor.value("", frame_value(f)));
        visitor.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_format::LossCause;
    use pct_format::builder::Builder;
    use proptest::prelude::*;

    fn source(b: &Builder) -> PctSource {
        PctSource::parse(&b.finish(), Path::new("t.pct"), TraceIdentity::named("t")).unwrap()
    }

    fn two_threads() -> Builder {
        let mut b = Builder::new();
        let t1 = b.thread(10, 101, b"main");
        let t2 = b.thread(20, 102, b"worker");
        let s = b.stack(&[Frame::Return(0x1234), Frame::Exact(0x5678)]);
        b.sample(t1, 100, 0x4000, 2, false, s);
        b.sample(t1, 300, 0x4010, 1, true, 0);
        b.sample(t2, 200, 0x4020, 1, false, s);
        b.loss(LossCause::ALL[0], 7, 9);
        b
    }

    #[test]
    fn each_thread_is_a_tracefile_and_its_samples_are_events_with_fields() {
        let s = source(&two_threads());
        let names: Vec<&str> = s.tracefiles().iter().map(|t| &*t.name).collect();
        assert_eq!(names, ["main (101)", "worker (102)", "process"]);
        let mut c = s.cursor(0).unwrap();
        let begin = c.seek_time(Time::MIN).unwrap().unwrap();
        assert_eq!(s.tracefiles()[0].class_name(begin.id), "thread_begin");
        let h = c.advance().unwrap().unwrap();
        // The builder's raw times are ns that begin a second after 1970.
        assert_eq!((h.ts, s.tracefiles()[0].class_name(h.id)), (Time(1_000_000_100), "sample"));
        assert_eq!(c.field("pc"), Some(Value::Unsigned(0x4000)));
        assert_eq!(c.field("weight_ns"), Some(Value::Unsigned(2 * (1_000_000_000 / 997))));
        assert_eq!(c.field("vtid"), Some(Value::Unsigned(101)));
        assert_eq!(c.field("procname").unwrap().as_str(), Some("main"));
        assert_eq!(c.field("stack.1"), Some(Value::Unsigned(0x5678)));
        assert_eq!(c.field("stack.2"), None);
        let h = c.advance().unwrap().unwrap();
        assert_eq!(s.tracefiles()[0].class_name(h.id), "system_sample");
        assert_eq!(c.advance().unwrap(), None);
        assert_eq!(c.advance().unwrap(), None);
        assert_eq!(s.losses().iter().map(|l| l.count).collect::<Vec<_>>(), [Some(7)]);
    }

    #[test]
    fn seeks_and_positions_name_the_same_event() {
        let s = source(&two_threads());
        let mut c = s.cursor(0).unwrap();
        let h = c.seek_time(Time(1_000_000_101)).unwrap();
        assert_eq!(h.unwrap().ts, Time(1_000_000_300));
        let p = c.pos();
        let mut d = s.cursor(0).unwrap();
        assert_eq!(d.seek(p).unwrap(), h);
        assert_eq!(c.advance().unwrap(), None);
        assert!(c.pos() > p);
        assert!(d.seek(CursorPos([99, 0, 0, 0])).is_err() && d.head().is_none());
    }

    proptest! {
        #[test]
        fn damaged_files_are_an_error_or_a_source(at in 0usize..70_000, bits in any::<[u8; 8]>(), cut in 0usize..70_000) {
            let mut bytes = two_threads().finish();
            let n = bytes.len();
            for (i, b) in bits.iter().enumerate() {
                bytes[(at + i) % n] ^= b;
            }
            bytes.truncate(n - cut.min(n) / 4);
            if let Ok(s) = PctSource::parse(&bytes, Path::new("t"), TraceIdentity::named("t")) {
                for i in 0..s.tracefiles().len() {
                    let mut c = s.cursor(i).unwrap();
                    let mut h = c.seek_time(Time::MIN).unwrap();
                    while h.is_some() {
                        c.field("region");
                        h = c.advance().unwrap();
                    }
                }
            }
        }
    }
}
