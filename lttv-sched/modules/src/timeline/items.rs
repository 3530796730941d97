//! Items that a source gives lane by lane, in order of time.
//!
//! Samples of a recording lie in memory by thread. The engine would merge them by time, call hooks for each and ask for
//! fields by name, only for the module to put them back into lanes. A source that implements [`LaneItems`] saves that:
//! see [`Timeline::from_items`](super::Timeline::from_items).

use lttv_engine::time::Time;
use std::sync::Arc;

use super::lanes::Lane;
use super::tile::COARSEST;

/// What happened in a lane, at a time or during one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// When, or from when on.
    pub time: Time,
    /// The end of a span; none: it has no length.
    pub until: Option<Time>,
    /// Its key: [`lanes::FUNCTIONS`](super::lanes::FUNCTIONS) and a function's number, or a
    /// [`lanes::name_key`](super::lanes::name_key).
    pub key: u32,
    /// Its weight, in the unit of the lane's kind; that of a span is its length.
    pub weight: u64,
}

/// Items by lane.
pub trait LaneItems: Send + Sync {
    /// The lanes. No two of them have the same kind and are of the same thing.
    fn lanes(&self) -> Vec<Lane>;

    /// Names that keys stand for, each of them once.
    fn names(&self) -> Vec<Arc<str>>;

    /// How many events of the source are behind a lane's items. Each event is counted in one lane.
    fn events(&self, lane: usize) -> u64;

    /// How many items a lane has from `first` to `last`, both included, at most. Spans that reach into that time count.
    fn count(&self, lane: usize, first: Time, last: Time) -> u64;

    /// Calls `give` with the items of a lane from `first` to `last`, both included, in order of time. Spans do not
    /// overlap each other; those that reach into that time are given whole.
    fn each(&self, lane: usize, first: Time, last: Time, give: &mut dyn FnMut(Item));

    /// How many cells the items of a lane make at most.
    fn cell_counts(&self, lane: usize) -> CellCounts;
}

/// How many buckets of each level items lie in, counted while items are added one after another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CellCounts {
    any: bool,
    /// Neighbours by the highest bit in which their times differ: they lie in different buckets at all levels up to it.
    differ_at: [u32; 64],
}

impl Default for CellCounts {
    fn default() -> Self {
        CellCounts { any: false, differ_at: [0; 64] }
    }
}

impl CellCounts {
    /// Counts an item; `before` is the time of the item before it, if there is one.
    pub fn add(&mut self, before: Option<i64>, time: i64) {
        self.any = true;
        let highest = before.and_then(|before| (before ^ time).cast_unsigned().checked_ilog2());
        let count = highest.and_then(|bit| self.differ_at.get_mut(usize::try_from(bit).ok()?));
        if let Some(count) = count {
            *count = count.saturating_add(1);
        }
    }

    /// With the items of another list, which are other ones: at most so many.
    #[must_use]
    pub fn with(mut self, other: &CellCounts) -> CellCounts {
        // The first item of a list is in a bucket that none of the list was in before.
        if self.any && other.any {
            self.differ_at[63] = self.differ_at[63].saturating_add(1);
        }
        self.any |= other.any;
        let pairs = self.differ_at.iter_mut().zip(&other.differ_at);
        pairs.for_each(|(mine, theirs)| *mine = mine.saturating_add(*theirs));
        self
    }

    /// Cells at a level.
    pub fn at(&self, level: u32) -> u64 {
        let steps = self.differ_at.iter().skip(usize::try_from(level).unwrap_or(usize::MAX));
        steps.map(|count| u64::from(*count)).sum::<u64>() + u64::from(self.any)
    }
}

/// About how many bytes a cell of samples takes, rounded up.
pub(super) const CELL_BYTES: u64 = 12;

/// The finest level at which the cells of all lanes, of it and of all coarser levels, take at most so many bytes.
pub(super) fn base_within(counts: &[CellCounts], finest: u32, most_bytes: u64) -> u32 {
    let most = most_bytes / CELL_BYTES;
    let (mut base, mut sum) = (COARSEST, 0u64);
    for level in (finest..=COARSEST).rev() {
        sum = counts.iter().fold(sum, |sum, lane| sum.saturating_add(lane.at(level)));
        if sum > most {
            break;
        }
        base = level;
    }
    base
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn cells_are_counted_as_buckets_with_items_at_every_level() {
        let times = [-5000i64, -5000, -1, 0, 1, 1023, 1024, 1 << 20, (1 << 20) + 1, 1 << 40, i64::MAX];
        let mut counts = CellCounts::default();
        let mut before = None;
        for time in times {
            counts.add(before.replace(time), time);
        }
        for level in 0..=COARSEST {
            let buckets: BTreeSet<i64> = times.iter().map(|time| time >> level).collect();
            assert_eq!(counts.at(level), buckets.len() as u64, "level {level}");
        }
        assert_eq!(CellCounts::default().at(10), 0);
    }

    #[test]
    fn the_base_is_the_finest_level_that_has_room() {
        let mut counts = CellCounts::default();
        (1..1000i64).for_each(|i| counts.add(Some((i - 1) << 20), i << 20));
        let cells = |base: u32| (base..=COARSEST).map(|level| counts.at(level)).sum::<u64>();
        let bytes = |base: u32| cells(base) * CELL_BYTES;
        for base in [10, 15, 21, 25] {
            assert_eq!(base_within(std::slice::from_ref(&counts), 10, bytes(base)), base);
            assert_eq!(base_within(std::slice::from_ref(&counts), 10, bytes(base) - 1), base + 1);
        }
        assert_eq!(base_within(&[counts], 10, 0), COARSEST);
    }
}
