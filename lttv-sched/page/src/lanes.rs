//! The lanes of a recording for the timeline: its samples, waits and marks as they lie in memory, without the engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use lttv_engine::time::Time;
use lttv_modules::timeline::items::{CellCounts, Item, LaneItems};
use lttv_modules::timeline::lanes::{FUNCTIONS, Lane, LaneKind, LaneOf, name_key};

use crate::recording::{MARKS, Recording, Sample, Samples, lane_name, main_threads, marks_by_name};
use crate::samples::SampleSpan;
use crate::waits::{RecordedWaits, Wait, without_overlaps};

/// Samples by thread, waits by thread, then the marks.
pub(crate) struct RecordedLanes {
    lanes: Vec<(Lane, Content)>,
    /// The key of each stack: its function.
    keys: Vec<u32>,
    names: Vec<Arc<str>>,
    waits: RecordedWaits,
    /// When the recorded program began.
    start_ns: i64,
    /// The key of each name of what is waited for.
    wait_keys: Vec<u32>,
}

/// What lies in a lane.
enum Content {
    /// Thread numbers are given again after a thread's end, so several threads may share a lane.
    Samples(Vec<Arc<Samples>>),
    /// The same, of samples that stand for spans. Those of threads that did not run are left out.
    Ran(Vec<Arc<Samples>>),
    /// In order of time, without overlaps.
    Waits(Vec<Wait>),
    /// When, and the key.
    Marks(Vec<(i64, u32)>),
}

/// The greatest key that a cell holds.
const MOST_KEY: u32 = u32::MAX >> 1;

/// The name of what a sample ran whose stack is not in the table. It stands before the names of marks.
const UNKNOWN: &str = "[unknown]";

impl RecordedLanes {
    pub(crate) fn new(recording: &Recording) -> RecordedLanes {
        let main = main_threads(&recording.threads);
        // Where samples say that a thread did not run, each one stands for the time since the one before.
        let kind = if recording.is_of_spans() { LaneKind::Ran } else { LaneKind::Samples };
        let mut by_tid: BTreeMap<u32, usize> = BTreeMap::new();
        let mut threads: Vec<(Lane, Vec<Arc<Samples>>, Vec<Wait>)> = Vec::new();
        for thread in &recording.threads {
            let at = *by_tid.entry(thread.tid).or_insert_with(|| {
                let of = LaneOf::Thread(thread.tid.into());
                let name = lane_name(main.get(&thread.tid).unwrap_or(&thread)).into();
                threads.push((Lane { kind, of, name }, Vec::new(), Vec::new()));
                threads.len() - 1
            });
            threads[at].1.push(thread.samples.clone());
            threads[at].2.extend_from_slice(&thread.waits);
        }
        let (mark_names, marks) = marks_by_name(recording);
        let mut names = vec![Arc::from(UNKNOWN)];
        names.extend(mark_names.iter().filter(|name| **name != UNKNOWN).map(|name| Arc::from(*name)));
        let key_of_name = |wanted: &str| names.iter().position(|name| **name == *wanted).map(name_key);
        let mark_keys: Vec<u32> = mark_names.iter().filter_map(|name| key_of_name(name)).collect();
        let marks = marks.into_iter().map(|(time, name)| (time, key_of(&mark_keys, name))).collect();
        let mut wait_keys = Vec::with_capacity(recording.waits.names.len());
        for name in &recording.waits.names {
            let name: Arc<str> = name.in_lanes().into();
            let known = names.iter().position(|other| *other == name);
            wait_keys.push(name_key(known.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            })));
        }
        let of_marks = Lane {
            kind: LaneKind::Events,
            of: LaneOf::Tracefile(recording.threads.len()),
            name: MARKS.into(),
        };
        let of_waits = threads.iter_mut().filter(|thread| !thread.2.is_empty()).map(|(lane, _, waits)| {
            let waits = Content::Waits(without_overlaps(std::mem::take(waits)));
            (Lane { kind: LaneKind::Waits, ..lane.clone() }, waits)
        });
        let of_waits: Vec<_> = of_waits.collect();
        let of_samples = threads.into_iter().map(|(lane, samples, _)| {
            let is_of_spans = lane.kind == LaneKind::Ran;
            (lane, if is_of_spans { Content::Ran(samples) } else { Content::Samples(samples) })
        });
        RecordedLanes {
            lanes: of_samples.chain(of_waits).chain([(of_marks, Content::Marks(marks))]).collect(),
            keys: recording.stacks.iter().map(|f| f.saturating_add(FUNCTIONS).min(MOST_KEY)).collect(),
            names,
            waits: recording.waits.clone(),
            start_ns: recording.start_ns,
            wait_keys,
        }
    }

    fn item(&self, sample: Sample) -> Item {
        let key = key_of(&self.keys, sample.stack);
        Item { time: Time(sample.time_ns), until: None, key, weight: sample.weight_ns }
    }

    /// The spans in which threads ran that had one number, one after the other.
    fn spans(&self, threads: &[Arc<Samples>], (first, last): (Time, Time), give: &mut dyn FnMut(Item)) {
        let spans = threads.iter().flat_map(|samples| samples.spans(first.ns(), last.ns()));
        let mut ran: Vec<SampleSpan> =
            spans.filter(|span| !self.waits.is_blocked(span.sample.stack)).collect();
        if threads.len() > 1 {
            ran.sort_by_key(|span| span.from_ns);
        }
        let mut end = self.start_ns;
        for SampleSpan { from_ns, to_ns, sample } in ran {
            let from_ns = from_ns.max(end);
            end = end.max(to_ns);
            if from_ns < to_ns {
                let (time, until) = (Time(from_ns), Some(Time(to_ns)));
                give(Item { time, until, weight: to_ns.abs_diff(from_ns), ..self.item(sample) });
            }
        }
    }
}

/// Those of a list in order of time that lie from `first` to `last`, both included.
fn between<T>(list: &[T], time: impl Fn(&T) -> i64, (first, last): (Time, Time)) -> &[T] {
    let from = list.partition_point(|one| time(one) < first.ns());
    let to = list.partition_point(|one| time(one) <= last.ns());
    list.get(from..to).unwrap_or_default()
}

/// The waits that reach into the time from `first` to `last`, both included.
fn reaching(waits: &[Wait], (first, last): (Time, Time)) -> &[Wait] {
    let from = waits.partition_point(|wait| wait.to_ns <= first.ns());
    let to = waits.partition_point(|wait| wait.from_ns <= last.ns());
    waits.get(from..to).unwrap_or_default()
}

/// The key at a place of a table.
fn key_of(keys: &[u32], place: u32) -> u32 {
    let key = usize::try_from(place).ok().and_then(|place| keys.get(place));
    key.copied().unwrap_or(name_key(0))
}

impl LaneItems for RecordedLanes {
    fn lanes(&self) -> Vec<Lane> {
        self.lanes.iter().map(|lane| lane.0.clone()).collect()
    }

    fn names(&self) -> Vec<Arc<str>> {
        self.names.clone()
    }

    fn events(&self, lane: usize) -> u64 {
        let events = match self.lanes.get(lane).map(|lane| &lane.1) {
            // Those of threads that did not run too.
            Some(Content::Samples(threads) | Content::Ran(threads)) => {
                threads.iter().map(|samples| samples.len()).sum()
            }
            Some(Content::Marks(marks)) => marks.len(),
            Some(Content::Waits(_)) | None => 0,
        };
        events as u64
    }

    fn count(&self, lane: usize, first: Time, last: Time) -> u64 {
        let inside = |samples: &Arc<Samples>| {
            samples.count_to(last.ns()).saturating_sub(samples.count_before(first.ns()))
        };
        let count = match self.lanes.get(lane).map(|lane| &lane.1) {
            Some(Content::Samples(threads)) => threads.iter().map(inside).sum(),
            // One more may reach into the end.
            Some(Content::Ran(threads)) => threads.iter().map(|samples| inside(samples) + 1).sum(),
            Some(Content::Waits(waits)) => reaching(waits, (first, last)).len(),
            Some(Content::Marks(marks)) => between(marks, |mark| mark.0, (first, last)).len(),
            None => 0,
        };
        count as u64
    }

    fn each(&self, lane: usize, first: Time, last: Time, give: &mut dyn FnMut(Item)) {
        match self.lanes.get(lane).map(|lane| &lane.1) {
            Some(Content::Samples(threads)) => match threads.as_slice() {
                [only] => {
                    let inside = only.inside(first.ns(), last.ns());
                    inside.for_each(|sample| give(self.item(sample)));
                }
                threads => {
                    let inside = threads.iter().flat_map(|samples| samples.inside(first.ns(), last.ns()));
                    let mut all: Vec<Sample> = inside.collect();
                    all.sort_by_key(|sample| sample.time_ns);
                    all.into_iter().for_each(|sample| give(self.item(sample)));
                }
            },
            Some(Content::Ran(threads)) => self.spans(threads, (first, last), give),
            Some(Content::Waits(waits)) => reaching(waits, (first, last)).iter().for_each(|wait| {
                let weight = u64::try_from(wait.to_ns.saturating_sub(wait.from_ns)).unwrap_or(0);
                let (time, until) = (Time(wait.from_ns), Some(Time(wait.to_ns)));
                give(Item { time, until, key: key_of(&self.wait_keys, wait.name), weight });
            }),
            Some(Content::Marks(marks)) => {
                between(marks, |mark| mark.0, (first, last)).iter().for_each(|(time, key)| {
                    give(Item { time: Time(*time), until: None, key: *key, weight: 1 });
                });
            }
            None => {}
        }
    }

    fn cell_counts(&self, lane: usize) -> CellCounts {
        let sum = |sum: CellCounts, samples: &Arc<Samples>| sum.with(samples.cell_counts());
        match self.lanes.get(lane).map(|lane| &lane.1) {
            Some(Content::Samples(threads)) => threads.iter().fold(CellCounts::default(), sum),
            // Each span makes a cell at its begin, at its end and between.
            Some(Content::Ran(threads)) => {
                let ends = threads.iter().fold(CellCounts::default(), sum);
                ends.clone().with(&ends).with(&ends)
            }
            // A wait makes a cell at each of its ends, and one of what lies between.
            Some(Content::Waits(waits)) => counts_of(
                waits.iter().flat_map(|wait| [wait.from_ns, wait.from_ns.midpoint(wait.to_ns), wait.to_ns]),
            ),
            Some(Content::Marks(marks)) => counts_of(marks.iter().map(|mark| mark.0)),
            None => CellCounts::default(),
        }
    }
}

/// How many cells items at these times make, which are in order.
fn counts_of(times: impl Iterator<Item = i64>) -> CellCounts {
    let mut counts = CellCounts::default();
    let mut before = None;
    times.for_each(|time| counts.add(before.replace(time), time));
    counts
}
