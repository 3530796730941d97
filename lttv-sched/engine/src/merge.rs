//! The merge queue: which tracefile has the next event.
//!
//! A binary heap of (order time, slot), least first. The engine's inner loop stays on one tracefile while its next event
//! still comes before all others, so the heap offers its second least entry and lets the least be changed in place.
//!
//! Invariant: each slot occurs at most once; the queue holds exactly the tracefiles that are not exhausted.

use crate::time::Time;

/// Order time and slot of a tracefile's next event.
pub(crate) type Entry = (Time, u32);

#[derive(Default, Debug)]
pub(crate) struct MergeQueue {
    heap: Vec<Entry>,
}

impl MergeQueue {
    pub(crate) fn rebuild(&mut self, entries: impl Iterator<Item = Entry>) {
        self.heap.clear();
        self.heap.extend(entries);
        // A sorted vector is a heap; seeks are rare.
        self.heap.sort_unstable();
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    #[inline]
    pub(crate) fn least(&self) -> Option<Entry> {
        self.heap.first().copied()
    }

    /// The least entry but one; past all entries when there is none.
    #[inline]
    pub(crate) fn second(&self) -> Entry {
        const NONE: Entry = (Time::MAX, u32::MAX);
        let at = |index: usize| self.heap.get(index).copied().unwrap_or(NONE);
        at(1).min(at(2))
    }

    /// Changes the time of the least entry without moving it: for a time that keeps it the least.
    #[inline]
    pub(crate) fn keep_least(&mut self, time: Time) {
        if let Some(least) = self.heap.first_mut() {
            least.0 = time;
        }
    }

    /// Changes the time of the least entry and puts it where it belongs.
    pub(crate) fn requeue_least(&mut self, time: Time) {
        if let Some(least) = self.heap.first_mut() {
            least.0 = time;
            self.sift_down();
        }
    }

    /// Drops the least entry.
    pub(crate) fn pop_least(&mut self) {
        if !self.heap.is_empty() {
            self.heap.swap_remove(0);
            self.sift_down();
        }
    }

    fn sift_down(&mut self) {
        let mut at = 0;
        loop {
            let left = 2 * at + 1;
            if left >= self.heap.len() {
                return;
            }
            let right = left + 1;
            let child =
                if right < self.heap.len() && self.heap[right] < self.heap[left] { right } else { left };
            if self.heap[at] <= self.heap[child] {
                return;
            }
            self.heap.swap(at, child);
            at = child;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn merging_gives_the_sorted_order(mut files in proptest::collection::vec(proptest::collection::vec(0i64..20, 0..12), 0..9)) {
            files.iter_mut().for_each(|file| file.sort_unstable());
            let mut expected: Vec<Entry> = Vec::new();
            for (slot, file) in (0u32..).zip(&files) {
                expected.extend(file.iter().map(|&ts| (Time(ts), slot)));
            }
            expected.sort_unstable();
            let mut next = vec![0; files.len()];
            let mut queue = MergeQueue::default();
            queue.rebuild((0u32..).zip(&files).filter_map(|(slot, file)| Some((Time(*file.first()?), slot))));
            let mut seen = Vec::new();
            while let Some((time, slot)) = queue.least() {
                seen.push((time, slot));
                let second = queue.second();
                next[slot as usize] += 1;
                match files[slot as usize].get(next[slot as usize]) {
                    None => queue.pop_least(),
                    Some(&ts) if (Time(ts), slot) < second => queue.keep_least(Time(ts)),
                    Some(&ts) => queue.requeue_least(Time(ts)),
                }
            }
            prop_assert_eq!(seen, expected);
        }
    }
}
