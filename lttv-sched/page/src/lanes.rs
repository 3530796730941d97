//! The lanes of a recording for the timeline: its samples and marks as they lie in memory, without the engine.

use std::collections::BTreeMap;
use std::sync::Arc;

use lttv_engine::time::Time;
use lttv_modules::timeline::items::{CellCounts, Item, LaneItems};
use lttv_modules::timeline::lanes::{FUNCTIONS, Lane, LaneKind, LaneOf, name_key};

use crate::recording::{MARKS, Recording, Sample, Samples, lane_name, main_threads, marks_by_name};

/// Samples by thread, then the marks.
pub(crate) struct RecordedLanes {
    /// Thread numbers are given again after a thread's end, so several threads may share a lane.
    lanes: Vec<(Lane, Vec<Arc<Samples>>)>,
    /// The key of each stack: its function.
    keys: Vec<u32>,
    names: Vec<Arc<str>>,
    /// When, and the key.
    marks: Vec<(i64, u32)>,
    mark_cells: CellCounts,
    of_marks: Lane,
}

/// The greatest key that a cell holds.
const MOST_KEY: u32 = u32::MAX >> 1;

/// The name of what a sample ran whose stack is not in the table. It stands before the names of marks.
const UNKNOWN: &str = "[unknown]";

impl RecordedLanes {
    pub(crate) fn new(recording: &Recording) -> RecordedLanes {
        let main = main_threads(&recording.threads);
        let mut by_tid: BTreeMap<u32, usize> = BTreeMap::new();
        let mut lanes: Vec<(Lane, Vec<Arc<Samples>>)> = Vec::new();
        for thread in &recording.threads {
            let at = *by_tid.entry(thread.tid).or_insert_with(|| {
                let of = LaneOf::Thread(thread.tid.into());
                let name = lane_name(main.get(&thread.tid).unwrap_or(&thread)).into();
                lanes.push((Lane { kind: LaneKind::Samples, of, name }, Vec::new()));
                lanes.len() - 1
            });
            lanes[at].1.push(thread.samples.clone());
        }
        let (mark_names, marks) = marks_by_name(recording);
        let mut names = vec![Arc::from(UNKNOWN)];
        names.extend(mark_names.iter().filter(|name| **name != UNKNOWN).map(|name| Arc::from(*name)));
        let key_of_name = |wanted: &&str| names.iter().position(|name| **name == **wanted).map(name_key);
        let mark_keys: Vec<u32> = mark_names.iter().filter_map(key_of_name).collect();
        let mut mark_cells = CellCounts::default();
        let mut before = None;
        marks.iter().for_each(|mark| mark_cells.add(before.replace(mark.0), mark.0));
        RecordedLanes {
            lanes,
            keys: recording.stacks.iter().map(|f| f.saturating_add(FUNCTIONS).min(MOST_KEY)).collect(),
            names,
            marks: marks.into_iter().map(|(time, name)| (time, key_of(&mark_keys, name))).collect(),
            mark_cells,
            of_marks: Lane {
                kind: LaneKind::Events,
                of: LaneOf::Tracefile(recording.threads.len()),
                name: MARKS.into(),
            },
        }
    }

    fn item(&self, sample: Sample) -> Item {
        Item { time: Time(sample.time_ns), key: key_of(&self.keys, sample.stack), weight: sample.weight_ns }
    }

    fn marks(&self, first: Time, last: Time) -> &[(i64, u32)] {
        let from = self.marks.partition_point(|mark| mark.0 < first.ns());
        let to = self.marks.partition_point(|mark| mark.0 <= last.ns());
        self.marks.get(from..to).unwrap_or_default()
    }
}

/// The key at a place of a table.
fn key_of(keys: &[u32], place: u32) -> u32 {
    let key = usize::try_from(place).ok().and_then(|place| keys.get(place));
    key.copied().unwrap_or(name_key(0))
}

impl LaneItems for RecordedLanes {
    fn lanes(&self) -> Vec<Lane> {
        self.lanes.iter().map(|lane| lane.0.clone()).chain([self.of_marks.clone()]).collect()
    }

    fn names(&self) -> Vec<Arc<str>> {
        self.names.clone()
    }

    fn count(&self, lane: usize, first: Time, last: Time) -> u64 {
        let inside = |samples: &Arc<Samples>| {
            samples.count_to(last.ns()).saturating_sub(samples.count_before(first.ns()))
        };
        let count = match self.lanes.get(lane) {
            Some((_, threads)) => threads.iter().map(inside).sum(),
            None => self.marks(first, last).len(),
        };
        count as u64
    }

    fn each(&self, lane: usize, first: Time, last: Time, give: &mut dyn FnMut(Item)) {
        match self.lanes.get(lane).map(|lane| lane.1.as_slice()) {
            Some([only]) => only.inside(first.ns(), last.ns()).for_each(|sample| give(self.item(sample))),
            Some(threads) => {
                let inside = threads.iter().flat_map(|samples| samples.inside(first.ns(), last.ns()));
                let mut all: Vec<Sample> = inside.collect();
                all.sort_by_key(|sample| sample.time_ns);
                all.into_iter().for_each(|sample| give(self.item(sample)));
            }
            None => self.marks(first, last).iter().for_each(|(time, key)| {
                give(Item { time: Time(*time), key: *key, weight: 1 });
            }),
        }
    }

    fn cell_counts(&self, lane: usize) -> CellCounts {
        let sum = |sum: CellCounts, samples: &Arc<Samples>| sum.with(samples.cell_counts());
        match self.lanes.get(lane) {
            Some((_, threads)) => threads.iter().fold(CellCounts::default(), sum),
            None => self.mark_cells.clone(),
        }
    }
}
