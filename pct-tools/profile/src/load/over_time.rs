//! How much was spent when, in slots of time that are few enough for a picture, whatever the recording's length.

use super::tally::NodeIndex;
use crate::model::{OverTime, SlotCell, StackId, ThreadId};
use rustc_hash::FxHashMap;

/// Nanoseconds of the first slots, as a power of two: about a millisecond.
const FIRST_SHIFT: u32 = 20;
/// Most slots from the first sample to the last one.
const MOST_SLOTS: u64 = 1024;
/// Most sums, as long as there are more than [`FEW_SLOTS`] slots.
const MOST_CELLS: usize = 1 << 18;
/// So many slots are kept, however many threads and places there are.
const FEW_SLOTS: u64 = 128;

/// Time without samples at the begin is shown if it is at most a fourth of the whole: two to the power of minus this.
const LONGEST_LEAD: u32 = 2;

/// Sums by slot of time, thread and place.
pub(super) struct RawOverTime {
    /// A slot has two to the power of this nanoseconds.
    shift: u32,
    /// Numbers of the first slot and of the last one, since 1970.
    slots: Option<(u64, u64)>,
    /// Nanoseconds of each slot, thread and place.
    ns: FxHashMap<(u64, (u32, NodeIndex)), u64>,
}

impl RawOverTime {
    pub(super) fn new() -> Self {
        Self { shift: FIRST_SHIFT, slots: None, ns: FxHashMap::default() }
    }

    /// Adds a sample. `place` is its thread and where it was.
    pub(super) fn add(&mut self, realtime_ns: u64, ns: u64, place: (u32, NodeIndex)) {
        let slot = realtime_ns >> self.shift;
        let (first, last) = self.slots.unwrap_or((slot, slot));
        self.slots = Some((first.min(slot), last.max(slot)));
        let sum = self.ns.entry((slot, place)).or_default();
        *sum = sum.saturating_add(ns);
        while self.are_too_many() {
            self.join();
        }
    }

    fn are_too_many(&self) -> bool {
        let slots = self.slots.map_or(0, |(first, last)| last - first + 1);
        slots > MOST_SLOTS || self.ns.len() > MOST_CELLS && slots > FEW_SLOTS
    }

    /// Makes one slot of two.
    fn join(&mut self) {
        self.shift += 1;
        self.slots = self.slots.map(|(first, last)| (first >> 1, last >> 1));
        for ((slot, place), ns) in std::mem::take(&mut self.ns) {
            let sum = self.ns.entry((slot >> 1, place)).or_default();
            *sum = sum.saturating_add(ns);
        }
    }

    /// The sums of threads and stacks. `start` is the begin of the recording. If it is long before the first sample,
    /// slot 0 is that of the first sample: what was before may have been overwritten.
    pub(super) fn finish(
        self,
        start: u64,
        threads: &[ThreadId],
        stack_of: impl Fn(NodeIndex) -> StackId,
    ) -> Option<OverTime> {
        let (first, last) = self.slots?;
        // The first slot begins at the start or before it.
        let at_start = first.min(start >> self.shift);
        let first = if first - at_start > (last - at_start) >> LONGEST_LEAD { first } else { at_start };
        let cell = |((slot, (thread, node)), ns): ((u64, (u32, NodeIndex)), u64)| SlotCell {
            slot: usize::try_from(slot - first).expect("slots are counted in memory"),
            thread: threads[thread as usize],
            stack: stack_of(node),
            ns,
        };
        let mut cells: Vec<SlotCell> = self.ns.into_iter().map(cell).collect();
        cells.sort_unstable_by_key(|cell| (cell.slot, cell.thread, cell.stack));
        Some(OverTime { begin_realtime_ns: first << self.shift, slot_ns: 1 << self.shift, cells })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Id as _;
    use proptest::prelude::*;

    fn stack_of(node: NodeIndex) -> StackId {
        StackId::from_index(node as usize)
    }

    fn threads() -> [ThreadId; 3] {
        [0, 1, 2].map(ThreadId::from_index)
    }

    proptest! {
        /// Whatever comes, in whatever order: no time is lost, each sample is in the slot of its time, slots stay few.
        #[test]
        fn sums_are_those_of_the_samples_and_slots_are_few(
            samples in prop::collection::vec((0_u64..1 << 44, 0_u64..2_000_000, (0_u32..3, 0_u32..5)), 1..200),
            earlier in 0_u64..1 << 45,
        ) {
            let start = (1 << 60) + 12_345;
            let mut raw = RawOverTime::new();
            for &(at, ns, place) in &samples {
                raw.add(start + at, ns, place);
            }
            let start = start - earlier;
            let found = raw.finish(start, &threads(), stack_of).expect("there are samples");
            let mut wanted = std::collections::BTreeMap::new();
            for &(at, ns, (thread, node)) in &samples {
                let slot = (start + earlier + at - found.begin_realtime_ns) / found.slot_ns;
                *wanted.entry((slot as usize, threads()[thread as usize], stack_of(node))).or_insert(0) += ns;
            }
            let have: Vec<_> = found.cells.iter().map(|cell| ((cell.slot, cell.thread, cell.stack), cell.ns)).collect();
            prop_assert_eq!(have, wanted.into_iter().collect::<Vec<_>>());
            let first = samples.iter().map(|sample| sample.0).min().unwrap() + start + earlier;
            let lead = first - found.begin_realtime_ns;
            prop_assert!(found.begin_realtime_ns <= start || lead < found.slot_ns, "{lead}");
            let of_samples = found.cells.last().unwrap().slot - found.cells[0].slot;
            prop_assert!(of_samples < MOST_SLOTS as usize);
        }
    }

    #[test]
    fn many_places_make_slots_longer_until_slots_are_few() {
        let mut raw = RawOverTime::new();
        let step = 1 << FIRST_SHIFT;
        for at in 0..1024_u64 {
            for node in 0..1000 {
                raw.add(at * step, 1, (node % 3, node));
            }
        }
        assert!(raw.ns.len() <= MOST_CELLS, "{}", raw.ns.len());
        let found = raw.finish(0, &threads(), stack_of).unwrap();
        assert_eq!(found.cells.iter().map(|cell| cell.ns).sum::<u64>(), 1_024_000);
        assert_eq!(found.slot_ns, step * 4);
        // There are so many places that even few slots have more cells.
        let mut raw = RawOverTime::new();
        for at in 0..256_u64 {
            for node in 0..3000 {
                raw.add(at * step, 1, (0, node));
            }
        }
        assert_eq!(raw.ns.len(), 128 * 3000);
    }

    #[test]
    fn a_long_time_without_samples_at_the_begin_is_left_out() {
        let at = |ms: u64| {
            let mut raw = RawOverTime::new();
            (ms..ms + 1000).for_each(|ms| raw.add(ms << FIRST_SHIFT, 1, (0, 0)));
            raw.finish(0, &threads(), stack_of).unwrap().begin_realtime_ns >> FIRST_SHIFT
        };
        assert_eq!((at(0), at(300), at(400)), (0, 0, 400));
    }

    #[test]
    fn without_a_sample_there_is_nothing() {
        assert!(RawOverTime::new().finish(7, &threads(), stack_of).is_none());
    }
}
