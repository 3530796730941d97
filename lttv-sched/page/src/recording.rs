//! A recording of samples, as plain data, and as a trace of the engine.
//!
//! Who can read recordings (the command `pct`) gives the samples with their functions already named, and answers what
//! a range of time spent where ([`Windows`]). So this crate knows neither file formats nor symbols, and a range has
//! the numbers that the command's own reports have.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use lttv_engine::identity::TraceIdentity;
use lttv_engine::source::{
    Cursor, CursorPos, EventClass, EventHead, EventId, FieldVisitor, ReadError, Scope, Source, TracefileInfo,
    Value,
};
use lttv_engine::time::Time;

use pct_icicle::GroupWeights;
use pct_icicle::text::short_name;
use rustc_hash::FxHashMap;

pub use crate::samples::{Sample, SamplePosition, SampleSpan, Samples};
use crate::waits::{RecordedWaits, Wait};
use crate::windows::Windows;

/// A thread and its samples in order of time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Thread {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Name of its process.
    pub process: String,
    /// Its own name.
    pub name: String,
    /// The function in which it begins what it was made for, where its name does not tell it from others; else empty.
    pub begins: String,
    /// The samples.
    pub samples: Arc<Samples>,
    /// What it waited for, in any order.
    pub waits: Arc<[Wait]>,
}

/// A function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Name of the program or library in which it lies.
    pub object: String,
    /// What its colour stands for: the language, or for machine code the object.
    pub group: Arc<str>,
}

/// What the nanoseconds of samples are amounts of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum TimeOf {
    /// Time on a processor.
    #[default]
    Cpu,
    /// Time by the wall clock, running and waiting.
    Wall,
    /// A time that another profiler's file names so.
    Named(Arc<str>),
    /// No time of each sample is known: all stand for the same, which is the text, `1 ms a sample`.
    Samples(Arc<str>),
}

impl Recording {
    /// What the samples in its lanes are amounts of. Waits have lanes of their own: by the wall clock too the lanes of
    /// samples are of time on a processor then.
    #[must_use]
    pub fn time_in_lanes(&self) -> TimeOf {
        match &self.time {
            TimeOf::Wall if self.is_of_spans() => TimeOf::Cpu,
            time => time.clone(),
        }
    }

    /// Whether samples say that a thread did not run too. Each stands for the time since the one before then.
    pub(crate) fn is_of_spans(&self) -> bool {
        !self.waits.blocked.is_empty()
    }

    /// The waits of all threads that had this number.
    pub fn waits_of_thread(&self, tid: i64) -> impl Iterator<Item = &Wait> {
        let threads = self.threads.iter().filter(move |thread| i64::from(thread.tid) == tid);
        threads.flat_map(|thread| thread.waits.iter())
    }

    /// The thread at a place of the list.
    pub fn thread(&self, place: u32) -> Option<&Thread> {
        self.threads.get(usize::try_from(place).ok()?)
    }
}

impl TimeOf {
    /// What it is called: `CPU`, `duration`.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Cpu => "CPU",
            Self::Wall => "wall",
            Self::Named(name) => name,
            Self::Samples(each) => each,
        }
    }

    /// What stands behind an amount that has its unit: `CPU`, `of duration`.
    #[must_use]
    pub fn after_unit(&self) -> String {
        match self {
            Self::Cpu | Self::Wall => self.name().to_owned(),
            Self::Named(name) => format!("of {name}"),
            Self::Samples(each) => format!("at {each}"),
        }
    }

    /// The unit of seconds, for the head of a column too: `CPU s`, `s of duration`.
    #[must_use]
    pub fn unit(&self) -> String {
        match self {
            Self::Cpu | Self::Wall => format!("{} s", self.after_unit()),
            Self::Named(_) | Self::Samples(_) => format!("s {}", self.after_unit()),
        }
    }

    /// What the number beside a lane is.
    #[must_use]
    pub fn in_lane(&self) -> String {
        match self {
            Self::Cpu => "CPU time in what is seen".into(),
            Self::Wall => "wall time of samples in what is seen".into(),
            Self::Named(name) => format!("{name} in what is seen"),
            Self::Samples(each) => format!("samples in what is seen, at {each}"),
        }
    }

    /// What the height of a lane is a share of.
    #[must_use]
    pub fn height(&self) -> &'static str {
        match self {
            Self::Cpu => "mean share of a CPU",
            Self::Wall => "share of the time, running or waiting",
            Self::Named(_) => "share of the time",
            Self::Samples(_) => "samples a millisecond",
        }
    }
}

/// A recording.
pub struct Recording {
    /// Its name for people: the path.
    pub name: String,
    /// When the recorded program began, ns since 1970: the time from which `pct report --from` counts.
    pub start_ns: i64,
    /// What its samples are amounts of.
    pub time: TimeOf,
    /// The threads; places in this list name threads in [`Window::threads`](crate::windows::Window::threads).
    pub threads: Vec<Thread>,
    /// The functions.
    pub functions: Vec<Function>,
    /// The function that runs in each stack, by its place in `functions`.
    pub stacks: Arc<[u32]>,
    /// CPU time of each group of functions in the whole recording, ns.
    pub groups: GroupWeights,
    /// What the waits of the threads name.
    pub waits: RecordedWaits,
    /// Instants that the program has named, in order of time.
    pub marks: Vec<(i64, String)>,
    /// Things to know: what was lost, what could not be read.
    pub notes: Vec<String>,
    /// Answers what a range spent where.
    pub windows: Arc<dyn Windows>,
}

/// What the source keeps: samples by thread, then the marks.
struct Data {
    threads: Vec<Thread>,
    functions: Vec<Function>,
    stacks: Arc<[u32]>,
    /// When, and which of the classes of marks.
    marks: Vec<(i64, u32)>,
    /// Begin of the time that samples stand for, where each stands for a span.
    begin_ns: Option<i64>,
}

/// The samples as a trace: a tracefile for each thread, and one for the marks.
pub(crate) struct SampleSource {
    identity: TraceIdentity,
    infos: Vec<TracefileInfo>,
    data: Arc<Data>,
    notes: Vec<String>,
}

/// Different marks that are told apart by name; the rest has one name.
const MOST_MARKS: usize = 1000;
/// The name of the rest.
const OTHER_MARKS: &str = "other marks";

/// The names of marks, each once, and the marks: when, and which of the names.
pub(crate) fn marks_by_name(recording: &Recording) -> (Vec<&str>, Vec<(i64, u32)>) {
    let mut names: Vec<&str> = Vec::new();
    let mut known: FxHashMap<&str, u32> = FxHashMap::default();
    let mut marks = Vec::with_capacity(recording.marks.len());
    for (time, name) in &recording.marks {
        let is_told_apart = names.len() < MOST_MARKS || known.contains_key(&**name);
        let name = if is_told_apart { &**name } else { OTHER_MARKS };
        let number = *known.entry(name).or_insert_with(|| {
            names.push(name);
            u32::try_from(names.len() - 1).unwrap_or(0)
        });
        marks.push((*time, number));
    }
    (names, marks)
}

/// Which of the threads with the same number has most samples, by number: a program that one executes goes on under its
/// number, and numbers are given again.
pub(crate) fn main_threads(threads: &[Thread]) -> BTreeMap<u32, &Thread> {
    let mut main: BTreeMap<u32, &Thread> = BTreeMap::new();
    for thread in threads {
        let known = main.entry(thread.tid).or_insert(thread);
        if thread.samples.len() > known.samples.len() {
            *known = thread;
        }
    }
    main
}

/// The name of a thread's lane.
pub(crate) fn lane_name(thread: &Thread) -> String {
    let own = [&thread.begins, &thread.name].into_iter().find(|name| !name.is_empty());
    match own.map(|own| short_name(own).unwrap_or_else(|| own.clone())) {
        // What tells a lane from others comes first: a long name is cut at its end.
        Some(own) if !is_name_of_process(&own, &thread.process) => {
            format!("{own} \u{b7} {} ({})", thread.process, thread.tid)
        }
        _ => format!("{} ({})", thread.process, thread.tid),
    }
}

/// Bytes of a thread's name that the kernel keeps.
const KEPT_OF_NAME: usize = 15;

/// Whether a thread's own name only says which program its process runs: `python3` of `python3.11 srv.py`, `bash` of
/// `bash configure`.
fn is_name_of_process(own: &str, process: &str) -> bool {
    let rest = process.strip_prefix(own);
    let is_whole = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '-' | '_'));
    rest.is_some_and(|rest| is_whole(rest) || own.len() == KEPT_OF_NAME)
}

/// The name of the lane with the marks.
pub(crate) const MARKS: &str = "marks";

impl SampleSource {
    pub(crate) fn new(recording: &mut Recording) -> SampleSource {
        for thread in recording.threads.iter_mut().filter(|thread| !thread.samples.is_ordered()) {
            thread.samples = Arc::new(Samples::clone(&thread.samples).ordered());
        }
        let samples: Arc<[EventClass]> = Arc::new([EventClass::named("sample")]);
        let mut infos: Vec<TracefileInfo> = Vec::new();
        for thread in &recording.threads {
            infos.push(TracefileInfo {
                channel: "samples".into(),
                name: lane_name(thread).into(),
                cpu: None,
                classes: samples.clone(),
            });
        }
        let (names, marks) = marks_by_name(recording);
        let classes: Vec<EventClass> = names.iter().map(|name| EventClass::named(name)).collect();
        infos.push(TracefileInfo {
            channel: "marks".into(),
            name: MARKS.into(),
            cpu: None,
            classes: classes.into(),
        });
        let (threads, stacks) = (recording.threads.clone(), recording.stacks.clone());
        let of_spans = threads.iter().filter(|_| recording.is_of_spans());
        let firsts = of_spans.filter_map(|thread| thread.samples.spans(i64::MIN, i64::MAX).next());
        let begin_ns = firsts.map(|first| first.from_ns.max(recording.start_ns)).min();
        let data = Data { threads, functions: recording.functions.clone(), stacks, marks, begin_ns };
        SampleSource {
            identity: TraceIdentity::named(&recording.name),
            infos,
            data: Arc::new(data),
            notes: recording.notes.clone(),
        }
    }
}

impl Data {
    fn len(&self, file: usize) -> usize {
        self.threads.get(file).map_or(self.marks.len(), |thread| thread.samples.len())
    }

    /// First and last time of a tracefile.
    fn span(&self, file: usize) -> Option<(i64, i64)> {
        match self.threads.get(file) {
            Some(thread) => thread.samples.span(),
            None => Some((self.marks.first()?.0, self.marks.last()?.0)),
        }
    }
}

impl Source for SampleSource {
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
        let mut cursor = SampleCursor {
            data: self.data.clone(),
            file: tracefile,
            at: usize::MAX,
            next: SamplePosition::default(),
            sample: None,
        };
        cursor.go(usize::MAX);
        Ok(Box::new(cursor))
    }

    fn time_span(&self) -> Option<(Time, Time)> {
        let of_samples = (0..self.infos.len()).filter_map(|file| self.data.span(file));
        // A thread may wait before its first sample, and after its last one.
        let waits = self.data.threads.iter().flat_map(|thread| thread.waits.iter());
        let of_samples = of_samples.chain(self.data.begin_ns.map(|begin| (begin, begin)));
        let ends = of_samples.chain(waits.map(|wait| (wait.from_ns, wait.to_ns)));
        ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).map(|(a, b)| (Time(a), Time(b)))
    }

    fn event_bytes(&self) -> u64 {
        let samples: usize = self.data.threads.iter().map(|thread| thread.samples.len()).sum();
        // A sample makes about as many cells as an event of this size in a trace.
        (samples as u64).saturating_mul(24)
    }

    fn warnings(&self) -> Vec<ReadError> {
        self.notes.iter().map(ReadError::new).collect()
    }
}

struct SampleCursor {
    data: Arc<Data>,
    file: usize,
    /// Number of the event here.
    at: usize,
    /// For a thread: the sample here, and the place behind it.
    next: SamplePosition,
    sample: Option<Sample>,
}

impl SampleCursor {
    fn go(&mut self, at: usize) -> Option<EventHead> {
        self.at = at.min(self.data.len(self.file));
        if let Some(thread) = self.data.threads.get(self.file) {
            self.next = thread.samples.place(at);
            self.sample = thread.samples.next(&mut self.next);
        }
        self.head()
    }
}

const FIELDS: [&str; 4] = ["weight_ns", "function", "name", "object"];
const CONTEXT: [&str; 3] = ["vpid", "vtid", "procname"];

impl Cursor for SampleCursor {
    fn head(&self) -> Option<EventHead> {
        let (time, id) = match self.data.threads.get(self.file) {
            Some(_) => (self.sample?.time_ns, 0),
            None => *self.data.marks.get(self.at)?,
        };
        Some(EventHead { ts: Time(time), id: EventId(id), cpu: EventHead::NO_CPU })
    }

    fn advance(&mut self) -> Result<Option<EventHead>, ReadError> {
        self.at = self.at.saturating_add(1).min(self.data.len(self.file));
        if let Some(thread) = self.data.threads.get(self.file) {
            self.sample = thread.samples.next(&mut self.next);
        }
        Ok(self.head())
    }

    fn seek_time(&mut self, t: Time) -> Result<Option<EventHead>, ReadError> {
        let at = match self.data.threads.get(self.file) {
            Some(thread) => thread.samples.count_before(t.ns()),
            None => self.data.marks.partition_point(|mark| mark.0 < t.ns()),
        };
        Ok(self.go(at))
    }

    fn seek(&mut self, pos: CursorPos) -> Result<Option<EventHead>, ReadError> {
        let n = self.data.len(self.file);
        let at = usize::try_from(pos.0[0]).unwrap_or(usize::MAX);
        let head = self.go(at);
        if at > n {
            return Err(ReadError::new(format!("position {at} is not in this tracefile of {n} events")));
        }
        Ok(head)
    }

    fn pos(&self) -> CursorPos {
        CursorPos([self.at.min(self.data.len(self.file)) as u64, 0, 0, 0])
    }

    fn field_in(&self, scope: Scope, name: &str) -> Option<Value<'_>> {
        let thread = self.data.threads.get(self.file)?;
        let sample = self.sample?;
        let number = || self.data.stacks.get(usize::try_from(sample.stack).ok()?).copied();
        let function = || self.data.functions.get(usize::try_from(number()?).ok()?);
        match (scope, name) {
            (Scope::Payload, "weight_ns") => Some(Value::Unsigned(sample.weight_ns)),
            (Scope::Payload, "function") => Some(Value::Unsigned(number()?.into())),
            (Scope::Payload, "name") => Some(Value::Text(Cow::Borrowed(&function()?.name))),
            (Scope::Payload, "object") => Some(Value::Text(Cow::Borrowed(&function()?.object))),
            (Scope::StreamContext, "vpid") => Some(Value::Unsigned(thread.pid.into())),
            (Scope::StreamContext, "vtid") => Some(Value::Unsigned(thread.tid.into())),
            (Scope::StreamContext, "procname") => Some(Value::Text(Cow::Borrowed(&thread.process))),
            _ => None,
        }
    }

    fn visit(&self, scope: Scope, visitor: &mut dyn FieldVisitor) {
        let names: &[&str] = match scope {
            Scope::Payload => &FIELDS,
            Scope::StreamContext => &CONTEXT,
            _ => &[],
        };
        for name in names {
            if let Some(value) = self.field_in(scope, name) {
                visitor.value(name, value);
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Two threads with `n` samples each, 1 ms apart from 1 s on; the first runs function 0, the second 1 and 2 in
    /// turn.
    pub(crate) fn two_threads(n: i64) -> Recording {
        let thread = |tid: u32, of: &dyn Fn(i64) -> u32| Thread {
            pid: 10,
            tid,
            process: "prog".into(),
            name: if tid == 10 { "prog".into() } else { "worker".into() },
            begins: String::new(),
            samples: Arc::new(
                (0..n)
                    .map(|i| Sample {
                        time_ns: 1_000_000_000 + i * 1_000_000,
                        weight_ns: 1_000_000,
                        stack: of(i),
                    })
                    .collect(),
            ),
            waits: Arc::default(),
        };
        let function =
            |name: &str| Function { name: name.into(), object: "prog".into(), group: "prog".into() };
        Recording {
            name: "two threads".into(),
            start_ns: 1_000_000_000,
            time: TimeOf::Cpu,
            threads: vec![thread(10, &|_| 0), thread(11, &|i| if i % 2 == 0 { 1 } else { 2 })],
            functions: ["one", "two", "three<T>"].map(function).into(),
            stacks: [0, 1, 2].into(),
            waits: RecordedWaits::default(),
            groups: GroupWeights::default(),
            marks: vec![(1_000_000_500, "phase".into())],
            notes: Vec::new(),
            windows: Arc::new(crate::windows::Unanswered),
        }
    }

    #[test]
    fn a_recording_is_a_trace_with_a_tracefile_for_each_thread() {
        let mut recording = two_threads(5);
        let source = SampleSource::new(&mut recording);
        let names: Vec<&str> = source.tracefiles().iter().map(|info| &*info.name).collect();
        assert_eq!(names, ["prog (10)", "worker \u{b7} prog (11)", "marks"]);
        assert_eq!(source.time_span(), Some((Time(1_000_000_000), Time(1_004_000_000))));
        let mut cursor = source.cursor(1).expect("a cursor");
        let head = cursor.seek_time(Time(1_000_000_001)).expect("seeks").expect("an event");
        assert_eq!(head.ts, Time(1_001_000_000));
        assert_eq!(cursor.field("function"), Some(Value::Unsigned(2)));
        assert_eq!(cursor.field("name").and_then(|v| v.as_str().map(str::to_owned)), Some("three<T>".into()));
        assert_eq!(cursor.field("vtid"), Some(Value::Unsigned(11)));
        let place = cursor.pos();
        assert_eq!(cursor.advance().expect("reads").map(|h| h.ts), Some(Time(1_002_000_000)));
        assert_eq!(cursor.seek(place).expect("seeks"), Some(head));
        assert!(cursor.seek(CursorPos([6, 0, 0, 0])).is_err());
        let mut marks = source.cursor(2).expect("a cursor");
        assert_eq!(marks.seek_time(Time::MIN).expect("seeks").map(|h| h.ts), Some(Time(1_000_000_500)));
        assert_eq!(source.tracefiles()[2].class_name(EventId(0)), "phase");
    }
}
