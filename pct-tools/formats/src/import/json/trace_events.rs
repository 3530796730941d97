//! Chrome's trace events, as browsers, Node.js, Bazel, clang (`-ftime-trace`) and many others write them:
//! <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.
//!
//! Three things of a file can be read as a profile: its slices (`X`, or `B` and `E`), whose own time is what their
//! inner slices leave of it, V8's samples (`Profile`, `ProfileChunk`), and the samples of all threads that stand
//! beside the events (`samples`, `stackFrames`). Samples are shown first where a file has them.

use super::super::problem::Problem;
use super::super::samples::{Sample, Samples};
use super::super::types::{SampleType, chosen};
use super::super::wanted::Wanted;
use super::cpu_profile::{Node, Timed, Tree, WALL};
use super::global_samples::{self, GlobalSample, StackFrame};
use super::parts::{Number, parsed, problem, without_number};
use super::slices::{Lane, Slice};
use pct_num::{count, rounded};
use pct_profile::model::{FrameId, Mark, Object, ObjectKind, ProcessId, Profile, ThreadId};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct File<'t> {
    #[serde(rename = "traceEvents", borrow)]
    events: Vec<Event<'t>>,
    #[serde(rename = "otherData", borrow)]
    other: Option<&'t RawValue>,
    #[serde(default)]
    samples: Vec<GlobalSample>,
    #[serde(rename = "stackFrames", borrow, default)]
    stack_frames: BTreeMap<String, StackFrame<'t>>,
}

#[derive(Deserialize)]
struct Event<'t> {
    #[serde(borrow, default)]
    ph: Cow<'t, str>,
    #[serde(borrow, default)]
    name: Cow<'t, str>,
    #[serde(borrow, default)]
    cat: Cow<'t, str>,
    pid: Option<Number>,
    tid: Option<Number>,
    id: Option<Number>,
    /// All times are microseconds: by the wall clock, and of CPU time (`tts`, `tdur`).
    #[serde(default, deserialize_with = "super::parts::decimal")]
    ts: Option<f64>,
    #[serde(default, deserialize_with = "super::parts::decimal")]
    dur: Option<f64>,
    #[serde(default, deserialize_with = "super::parts::decimal")]
    tts: Option<f64>,
    #[serde(default, deserialize_with = "super::parts::decimal")]
    tdur: Option<f64>,
    #[serde(borrow)]
    args: Option<&'t RawValue>,
}

/// A list without its object around it, which may lack its end.
pub(super) fn read_list(text: &str, wanted: Wanted<'_>) -> Result<Profile, Problem> {
    let start = text.find('[').map_or(0, |at| at + 1);
    let (mut events, mut at, mut cut) = (Vec::new(), start, None);
    loop {
        let rest = text[at..].trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        at = text.len() - rest.len();
        if rest.is_empty() || rest.starts_with(']') {
            break;
        }
        let mut one = serde_json::Deserializer::from_str(rest).into_iter::<Event<'_>>();
        match one.next() {
            Some(Ok(event)) => events.push(event),
            Some(Err(why)) if why.is_eof() => {
                cut = Some(at);
                break;
            }
            Some(Err(why)) => return Err(problem(line_of(text, at), why.to_string())),
            None => break,
        }
        at += one.byte_offset();
    }
    let file = File { events, other: None, samples: Vec::new(), stack_frames: BTreeMap::new() };
    let mut profile = profile(&file, wanted)?;
    if let Some(at) = cut {
        profile.account.note_gap(format!("{}: cut short; what is before it was read", line_of(text, at)));
    }
    Ok(profile)
}

fn line_of(text: &str, at: usize) -> String {
    format!("line {}", text[..at].matches('\n').count() + 1)
}

pub(super) fn read(text: &str, wanted: Wanted<'_>) -> Result<Profile, Problem> {
    let file: File<'_> = parsed(text, "the whole file")?;
    profile(&file, wanted)
}

/// The type of the samples of all threads.
const SAMPLES: (&str, &str) = ("samples", "count");

/// A process and a thread, as the file numbers them.
type Key = (String, String);

fn key(event: &Event<'_>) -> Key {
    key_of(event.pid.as_ref(), event.tid.as_ref())
}

fn key_of(pid: Option<&Number>, tid: Option<&Number>) -> Key {
    [pid, tid].map(|number| number.map(Number::key).unwrap_or_default()).into()
}

fn profile(file: &File<'_>, wanted: Wanted<'_>) -> Result<Profile, Problem> {
    let events = &file.events;
    let ours = file.other.is_some_and(|other| other.get().contains("\"creator\":\"pct "));
    let mut in_order: Vec<&Event<'_>> = events.iter().filter(|event| event.ph != "M").collect();
    in_order.sort_by(|a, b| a.ts.unwrap_or(0.0).total_cmp(&b.ts.unwrap_or(0.0)));
    let mut read = Read::new(Named::from_events(events), ours, wanted.timeline);
    for event in in_order {
        read.event(event)?;
    }
    read.finish(file, wanted)
}

/// Names of processes and threads.
#[derive(Default)]
struct Named {
    processes: FxHashMap<String, String>,
    threads: FxHashMap<Key, String>,
}

impl Named {
    fn from_events(events: &[Event<'_>]) -> Self {
        #[derive(Deserialize)]
        struct Args {
            name: String,
        }
        let mut named = Self::default();
        for event in events.iter().filter(|event| event.ph == "M") {
            let args = event.args.and_then(|args| serde_json::from_str::<Args>(args.get()).ok());
            let Some(Args { name }) = args else { continue };
            match &*event.name {
                "process_name" => drop(named.processes.insert(key(event).0, name)),
                "thread_name" => drop(named.threads.insert(key(event), name)),
                _ => {}
            }
        }
        named
    }
}

/// A profile by V8, whose parts are in several events.
struct Sampled {
    key: Key,
    tree: Tree,
    timed: Timed,
    end: Option<f64>,
}

/// What `Profile` and `ProfileChunk` events have.
#[derive(Deserialize)]
struct Parts<'t> {
    #[serde(borrow)]
    data: Option<Part<'t>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'t> {
    start_time: Option<f64>,
    end_time: Option<f64>,
    #[serde(default)]
    time_deltas: Vec<f64>,
    #[serde(borrow)]
    cpu_profile: Option<Chunk<'t>>,
}

#[derive(Deserialize)]
struct Chunk<'t> {
    #[serde(borrow, default)]
    nodes: Vec<Node<'t>>,
    #[serde(default)]
    samples: Vec<u64>,
}

struct Read {
    samples: Samples,
    named: Named,
    /// The file was written here, so that categories are the names of objects.
    ours: bool,
    timeline: bool,
    lanes: BTreeMap<Key, Lane>,
    sampled: BTreeMap<(String, String), Sampled>,
    /// Time, thread and name of instants.
    instants: Vec<(f64, Key, String)>,
    /// Ends of slices without a begin.
    unopened: u64,
    /// Slices without an end.
    unclosed: u64,
    /// Counters, flows, asynchronous slices and the like.
    others: u64,
}

impl Read {
    fn new(named: Named, ours: bool, timeline: bool) -> Self {
        Self {
            samples: Samples::new("[trace events]", timeline),
            named,
            ours,
            timeline,
            lanes: BTreeMap::new(),
            sampled: BTreeMap::new(),
            instants: Vec::new(),
            unopened: 0,
            unclosed: 0,
            others: 0,
        }
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), Problem> {
        let from = event.ts.unwrap_or(0.0);
        match (&*event.ph, &*event.name) {
            ("P", "Profile" | "ProfileChunk") => self.part(event)?,
            ("X", _) => {
                let frame = self.frame(event);
                let duration = event.dur.or(event.tdur).unwrap_or(0.0).max(0.0);
                let slice = Slice { frame, from, duration, cpu: event.tdur };
                self.lanes.entry(key(event)).or_default().slices.push(slice);
            }
            ("B", _) => {
                let frame = self.frame(event);
                self.lanes.entry(key(event)).or_default().begin(frame, from, event.tts);
            }
            ("E", _) => {
                // An end need not have a name, and its category need not be that of the begin.
                let profile = self.samples.b.profile();
                let is_meant = |frame: FrameId| {
                    event.name.is_empty()
                        || profile.functions[profile.frames[frame].function].name == event.name
                };
                let lane = self.lanes.entry(key(event)).or_default();
                self.unopened += u64::from(!lane.end(is_meant, from, event.tts));
            }
            ("i" | "I" | "R", _) if self.timeline => {
                self.instants.push((from, key(event), event.name.clone().into_owned()));
            }
            ("i" | "I" | "R", _) => {}
            _ => self.others += 1,
        }
        Ok(())
    }

    /// A slice's name as a function. Its object is its category, which is the object's name in our own files.
    fn frame(&mut self, event: &Event<'_>) -> FrameId {
        let place = match &*event.cat {
            category if self.ours || category.is_empty() => self.samples.place(category),
            category => (self.samples.b.object(Object::new(category, ObjectKind::Unknown)), None),
        };
        let function = self.samples.function(place, &event.name, 0);
        self.samples.b.plain_frame(function)
    }

    fn part(&mut self, event: &Event<'_>) -> Result<(), Problem> {
        let Some(args) = event.args else { return Ok(()) };
        let parts = parsed::<Parts<'_>>(args.get(), "args");
        let parts = parts.map_err(|why| problem(event.name.as_ref(), why.problem))?;
        let Some(data) = parts.data else { return Ok(()) };
        let id = (key(event).0, event.id.as_ref().map(Number::key).unwrap_or_default());
        let start = data.start_time.or(event.ts).unwrap_or(0.0);
        let sampled = self.sampled.entry(id).or_insert_with(|| Sampled {
            key: key(event),
            tree: Tree::default(),
            timed: Timed::new(start),
            end: None,
        });
        sampled.end = data.end_time.or(sampled.end);
        if let Some(chunk) = data.cpu_profile {
            sampled.tree.add(&mut self.samples, &chunk.nodes)?;
            sampled.timed.extend(&chunk.samples, &data.time_deltas)?;
        }
        Ok(())
    }

    fn finish(mut self, file: &File<'_>, wanted: Wanted<'_>) -> Result<Profile, Problem> {
        self.unclosed = self.lanes.values_mut().map(Lane::close).sum();
        let mut slices = self.lanes.values().flat_map(|lane| &lane.slices).peekable();
        let has_slices = slices.peek().is_some();
        let has_cpu = slices.all(|slice| slice.cpu.is_some());
        let sampled = self.sampled.values().any(|sampled| !sampled.timed.is_empty());
        // In order of what is shown first.
        let all: Vec<SampleType> = [
            (sampled, WALL),
            (!file.samples.is_empty(), SAMPLES),
            (has_slices && has_cpu, ("cpu", "microseconds")),
            (has_slices, ("duration", "microseconds")),
        ]
        .into_iter()
        .filter(|(has, _)| *has)
        .map(|(_, (name, unit))| SampleType::new(name, unit))
        .collect();
        if all.is_empty() {
            let others = count(self.others, "other event", "other events");
            return Err(problem("traceEvents", format!("no slices and no samples in it, but {others}")));
        }
        let (shown, note) = chosen(&all, 0, wanted.sample_type)?;
        let starts = self.lanes.values().flat_map(|lane| lane.slices.iter().map(|slice| slice.from));
        let starts = starts.chain(self.sampled.values().map(|sampled| sampled.timed.start()));
        let start =
            starts.chain(file.samples.iter().filter_map(|sample| sample.ts)).fold(f64::INFINITY, f64::min);
        let overlaps = self.fill(all[shown].name(), file, start)?;
        let marks = self.marks(start);
        let mut profile = self.samples.finish(&all[shown])?;
        profile.marks = marks;
        let account = &mut profile.account;
        account.notes.extend(note);
        for (number, one, many) in [
            (
                self.unopened,
                "end of a slice without its begin was left out",
                "ends of slices without their begin were left out",
            ),
            (
                self.unclosed,
                "slice without an end lasts until the last event of its thread",
                "slices without an end last until the last event of their thread",
            ),
            (
                overlaps,
                "slice ends before one that began in it: cut off at the begin of that one",
                "slices end before one that began in them: cut off at the begin of that one",
            ),
            (
                self.others,
                "event of another kind than slices and samples is not shown",
                "events of other kinds than slices and samples are not shown",
            ),
        ] {
            if number > 0 {
                account.note(count(number, one, many));
            }
        }
        Ok(profile)
    }

    /// Adds what is shown, and says how many slices overlap.
    fn fill(&mut self, shown: &str, file: &File<'_>, start: f64) -> Result<u64, Problem> {
        let mut threads = Threads { ours: self.ours, ..Threads::default() };
        let mut overlaps = 0;
        if shown == WALL.0 {
            for (_, sampled) in std::mem::take(&mut self.sampled) {
                let thread = threads.of_key(&mut self.samples, &self.named, &sampled.key);
                sampled.timed.add_to(&mut self.samples, &sampled.tree, thread, sampled.end, start, false)?;
            }
            return Ok(0);
        }
        if shown == SAMPLES.0 {
            let stacks = global_samples::stacks(&mut self.samples, &file.stack_frames)?;
            for sample in &file.samples {
                let key = key_of(sample.pid.as_ref(), sample.tid.as_ref());
                let thread = threads.of_key(&mut self.samples, &self.named, &key);
                let stack = sample.sf.as_ref().and_then(|sf| stacks.get(&sf.key()).copied());
                let amount = sample.weight.unwrap_or(1.0);
                let time_ns = sample.ts.map(|ts| rounded((ts - start).max(0.0) * 1000.0));
                self.samples.add(Sample {
                    thread,
                    stack,
                    amount,
                    samples: rounded(amount.max(0.0)),
                    time_ns,
                });
            }
            return Ok(0);
        }
        for (key, lane) in std::mem::take(&mut self.lanes) {
            let thread = threads.of_key(&mut self.samples, &self.named, &key);
            overlaps += lane.add_to(&mut self.samples, thread, start, shown == "cpu");
        }
        Ok(overlaps)
    }

    fn marks(&mut self, start: f64) -> Vec<Mark> {
        let instants = std::mem::take(&mut self.instants).into_iter();
        let marks = instants.map(|(at, _, name)| Mark {
            time_ns: rounded((at - start).max(0.0) * 1000.0),
            thread: None,
            name,
        });
        marks.collect()
    }
}

/// Rows of the threads that something is known of.
#[derive(Default)]
struct Threads {
    ours: bool,
    processes: FxHashMap<String, ProcessId>,
    threads: FxHashMap<Key, ThreadId>,
}

impl Threads {
    fn of_key(&mut self, samples: &mut Samples, named: &Named, key: &Key) -> ThreadId {
        let number = |text: &str| text.parse().unwrap_or(0);
        let process = *self.processes.entry(key.0.clone()).or_insert_with(|| {
            let name = named.processes.get(&key.0).map_or("process", String::as_str);
            samples.process(number(&key.0), name)
        });
        *self.threads.entry(key.clone()).or_insert_with(|| {
            let name = named.threads.get(key).map_or("", String::as_str);
            let name = if self.ours { without_number(name, number(&key.1)) } else { name };
            samples.b.thread(process, number(&key.1), name)
        })
    }
}
