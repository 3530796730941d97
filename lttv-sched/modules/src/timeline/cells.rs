//! Cells of one lane at all levels: what is finished, and the open bucket of each level.
//!
//! An item goes to the open bucket of the base level. When time leaves a bucket, its cell is stored and its whole
//! tally is merged into the open bucket one level up: so the heaviest key of each level is exact, and an item costs
//! one update. A state that fills many buckets is stored once with its length, and goes up as one interval.
//!
//! Invariant: what is stored at a level lies before the open bucket of that level.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::tile::{BUCKETS, TileId, bucket_ns};

/// Most keys that an open bucket tells apart. Beyond it the lightest half becomes one sum without names.
pub const MOST_KEYS: usize = 4096;

/// What one lane has in one bucket, or the same in each of `len` buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// Number of the bucket: its first time divided by its width.
    pub bucket: i64,
    /// Items that begin in it.
    pub n: u64,
    /// Weight: ns of CPU time for samples, ns for states, the number of events.
    pub w: u64,
    /// Weight of the heaviest key.
    pub tw: u64,
    /// Buckets with these very values; more than 1 only where a state fills them.
    pub len: u32,
    /// The heaviest key; of several the least. The top bit: see [`Cell::is_approximate`].
    top: u32,
}

const APPROXIMATE: u32 = 1 << 31;

impl Cell {
    /// The heaviest key; of several the least one.
    pub fn top(&self) -> u32 {
        self.top & !APPROXIMATE
    }

    /// Another key may be heavier than `top`: there were too many keys to tell all apart.
    pub fn is_approximate(&self) -> bool {
        self.top & APPROXIMATE != 0
    }

    fn end(&self) -> i64 {
        self.bucket + i64::from(self.len)
    }

    /// Whether one state fills the whole bucket, so that equal neighbours can be one run.
    fn is_filled(&self, width: u64) -> bool {
        self.n == 0 && self.w == width && self.tw == width
    }
}

/// Sums of the keys of an open bucket.
#[derive(Clone, Debug, Default)]
struct Tally {
    keys: FxHashMap<u32, (u64, u64)>,
    /// Items and weight of keys that are not told apart.
    other: (u64, u64),
}

impl Tally {
    fn add(&mut self, key: u32, n: u64, w: u64) {
        let sum = self.keys.entry(key).or_default();
        sum.0 = sum.0.saturating_add(n);
        sum.1 = sum.1.saturating_add(w);
        if self.keys.len() > MOST_KEYS {
            self.forget_the_lightest();
        }
    }

    fn merge(&mut self, from: &Tally) {
        for (key, (n, w)) in &from.keys {
            self.add(*key, *n, *w);
        }
        self.other.0 = self.other.0.saturating_add(from.other.0);
        self.other.1 = self.other.1.saturating_add(from.other.1);
    }

    fn forget_the_lightest(&mut self) {
        let mut by_weight: Vec<(u64, u32)> = self.keys.iter().map(|(key, (_, w))| (*w, *key)).collect();
        by_weight.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        for (_, key) in &by_weight[MOST_KEYS / 2..] {
            let (n, w) = self.keys.remove(key).unwrap_or_default();
            self.other.0 = self.other.0.saturating_add(n);
            self.other.1 = self.other.1.saturating_add(w);
        }
    }

    fn cell(&self, bucket: i64) -> Cell {
        let (mut n, mut w) = self.other;
        // Weight and key of the heaviest, weight of the second.
        let (mut top, mut second) = ((0, u32::MAX), 0);
        for (&key, &(items, weight)) in &self.keys {
            n = n.saturating_add(items);
            w = w.saturating_add(weight);
            if top.1 == u32::MAX || weight > top.0 || (weight == top.0 && key < top.1) {
                second = second.max(if top.1 == u32::MAX { 0 } else { top.0 });
                top = (weight, key);
            } else {
                second = second.max(weight);
            }
        }
        // A key that was forgotten may have all of the other weight, also on top of what it was counted later.
        let sure = self.other.1 == 0 || top.0 >= second.saturating_add(self.other.1);
        let mark = if sure { 0 } else { APPROXIMATE };
        Cell { bucket, n, w, tw: top.0, len: 1, top: top.1 & !APPROXIMATE | mark }
    }
}

#[derive(Clone, Debug, Default)]
struct Level {
    stored: Vec<Cell>,
    open: Option<(i64, Tally)>,
}

/// A state that has not ended yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pending {
    /// Its key.
    pub key: u32,
    /// When it began.
    pub from: i64,
    /// 1 if it began there, 0 if it only goes on from there.
    pub n: u64,
}

/// The cells of one lane.
#[derive(Clone, Debug)]
pub struct LaneCells {
    base: u32,
    levels: Vec<Level>,
}

impl LaneCells {
    /// Empty, with the levels `base` to `top`.
    pub fn new(base: u32, top: u32) -> LaneCells {
        LaneCells { base, levels: (base..=top.max(base)).map(|_| Level::default()).collect() }
    }

    /// An item at a time. Gives the number of cells that it made final.
    pub fn point(&mut self, t: i64, key: u32, n: u64, w: u64) -> usize {
        self.add(0, t >> self.base, key, n, w)
    }

    /// A state during [from, to), after all that came before. Gives the number of cells that it made final.
    pub fn interval(&mut self, from: i64, to: i64, key: u32, n: u64) -> usize {
        self.interval_at(0, (from, to), key, n)
    }

    fn add(&mut self, at: usize, bucket: i64, key: u32, n: u64, w: u64) -> usize {
        let stored = self.close_before(at, bucket);
        self.open(at, bucket).add(key, n, w);
        stored
    }

    /// The level with this index.
    fn level(&self, at: usize) -> u32 {
        (self.base..).nth(at).unwrap_or(u32::MAX)
    }

    fn open(&mut self, at: usize, bucket: i64) -> &mut Tally {
        &mut self.levels[at].open.get_or_insert_with(|| (bucket, Tally::default())).1
    }

    fn close_before(&mut self, at: usize, bucket: i64) -> usize {
        match &self.levels[at].open {
            Some((open, _)) if *open < bucket => self.close(at),
            _ => 0,
        }
    }

    fn close(&mut self, at: usize) -> usize {
        let Some((bucket, tally)) = self.levels[at].open.take() else { return 0 };
        self.levels[at].stored.push(tally.cell(bucket));
        let mut stored = 1;
        if at + 1 < self.levels.len() {
            stored += self.close_before(at + 1, bucket >> 1);
            self.open(at + 1, bucket >> 1).merge(&tally);
        }
        stored
    }

    fn interval_at(&mut self, at: usize, (from, to): (i64, i64), key: u32, n: u64) -> usize {
        let level = self.level(at);
        let (first, last) = (from >> level, (to - 1) >> level);
        if first == last {
            return self.add(at, first, key, n, to.abs_diff(from));
        }
        let mut stored = 0;
        let mut full = first;
        if n > 0 || from != first << level {
            full = first + 1;
            stored += self.add(at, first, key, n, (full << level).abs_diff(from));
            stored += self.close(at);
        }
        let end = to >> level;
        if end > full {
            stored += self.close_before(at, full);
            let width = bucket_ns(level).unsigned_abs();
            let mut begin = full;
            while begin < end {
                let len = u32::try_from(end - begin).unwrap_or(u32::MAX);
                self.levels[at].stored.push(Cell { bucket: begin, n: 0, w: width, tw: width, len, top: key });
                begin += i64::from(len);
                stored += 1;
            }
            if at + 1 < self.levels.len() {
                stored += self.interval_at(at + 1, (full << level, end << level), key, 0);
            }
        }
        if to > end << level {
            stored += self.add(at, end, key, 0, to.abs_diff(end << level));
        }
        stored
    }

    /// Drops the finest level; what is in its open bucket goes up.
    pub fn raise(&mut self) {
        if self.levels.len() > 1 {
            self.close(0);
            self.levels.remove(0);
            self.base += 1;
        }
    }

    /// Cells that are stored.
    pub fn stored(&self) -> usize {
        self.levels.iter().map(|level| level.stored.len()).sum()
    }

    /// The cells of a tile, those of open buckets too, as if time had left them at `now`.
    pub fn read(&self, tile: TileId, pending: Option<Pending>, now: i64) -> Vec<Cell> {
        let Some(at) = (self.base..).take(self.levels.len()).position(|level| level == tile.level()) else {
            return Vec::new();
        };
        let (first, end) = (tile.first_bucket(), tile.first_bucket() + BUCKETS);
        let Some(level) = self.levels.get(at) else { return Vec::new() };
        let begin = level.stored.partition_point(|cell| cell.end() <= first);
        let stored = level.stored[begin..].iter().take_while(|cell| cell.bucket < end);
        let mut cells: Vec<Cell> = stored
            .map(|cell| {
                let from = cell.bucket.max(first);
                Cell {
                    bucket: from,
                    len: u32::try_from(cell.end().min(end) - from).unwrap_or(u32::MAX),
                    ..*cell
                }
            })
            .collect();
        let mut open: BTreeMap<i64, Tally> = BTreeMap::new();
        for (below, level) in self.levels[..=at].iter().enumerate() {
            if let Some((bucket, tally)) = &level.open {
                let bucket = bucket >> (at - below);
                if (first..end).contains(&bucket) {
                    open.entry(bucket).or_default().merge(tally);
                }
            }
        }
        if let Some(state) = pending {
            let (from, to) = (state.from.max(tile.start().ns()), now.min(tile.end().ns()));
            let mut begin = from;
            while begin < to {
                let bucket = begin >> tile.level();
                let until = ((bucket + 1) << tile.level()).min(to);
                let n = if begin == state.from { state.n } else { 0 };
                open.entry(bucket).or_default().add(state.key, n, until.abs_diff(begin));
                begin = until;
            }
        }
        cells.extend(open.iter().map(|(bucket, tally)| tally.cell(*bucket)));
        joined(cells, bucket_ns(tile.level()).unsigned_abs())
    }
}

/// Neighbours that one state fills become one run, however they were cut.
fn joined(cells: Vec<Cell>, width: u64) -> Vec<Cell> {
    let mut out: Vec<Cell> = Vec::with_capacity(cells.len());
    for cell in cells {
        match out.last_mut() {
            Some(last)
                if last.is_filled(width)
                    && cell.is_filled(width)
                    && last.top == cell.top
                    && last.end() == cell.bucket =>
            {
                last.len += cell.len;
            }
            _ => out.push(cell),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use lttv_engine::time::Time;

    #[test]
    fn more_keys_than_are_told_apart_leave_the_sums_exact_and_say_so() {
        let mut lane = LaneCells::new(10, 12);
        for key in 0..5000u32 {
            lane.point(i64::from(key) % 1024, key, 1, 1);
        }
        let cell = lane.read(TileId::holding(Time(0), 12), None, 0)[0];
        assert_eq!((cell.n, cell.w, cell.is_approximate()), (5000, 5000, true));
        for _ in 0..3000 {
            lane.point(1023, 7, 1, 1);
        }
        let cell = lane.read(TileId::holding(Time(0), 12), None, 0)[0];
        assert_eq!((cell.n, cell.top(), cell.tw, cell.is_approximate()), (8000, 7, 3001, false));
    }

    #[test]
    fn a_long_state_is_few_cells_at_every_level() {
        let mut lane = LaneCells::new(10, 45);
        let hour = 3_600_000_000_000;
        lane.interval(17, hour, 3, 1);
        assert!(lane.stored() < 120, "{}", lane.stored());
        let sums = |level: u32| {
            let tiles = (0..=hour >> (level + 8)).map(|i| TileId::new(level, i).expect("a tile"));
            let cells = tiles.flat_map(|tile| lane.read(tile, None, hour));
            cells.fold((0, 0), |(n, w), c| (n + c.n * u64::from(c.len), w + c.w * u64::from(c.len)))
        };
        for level in [20, 25, 33, 45] {
            assert_eq!(sums(level), (1, hour as u64 - 17), "{level}");
        }
    }
}
