//! Cells of one lane at all levels: what is finished, and the open bucket of each level.
//!
//! An item goes to the open bucket of the base level. When time leaves a bucket, its cell is stored and its whole
//! tally is merged into the open bucket one level up: so the heaviest key of each level is exact, and an item costs
//! one update. A state that fills many buckets is stored once with its length, and goes up as one interval.
//!
//! Invariant: what is stored at a level lies before the open bucket of that level.

use std::collections::BTreeMap;

pub use super::cell::{Cell, Running};
use super::packed::PackedCells;
use super::tally::{MergeRoom, Tally};
use super::tile::{BUCKETS, TileId, bucket_ns};

pub use super::tally::MOST_KEYS;

#[derive(Clone, Debug, Default)]
struct Level {
    stored: PackedCells,
    /// The open bucket.
    open: Option<i64>,
    /// What is in it; empty if none is open.
    tally: Tally,
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
    room: MergeRoom,
}

impl LaneCells {
    /// Empty, with the levels `base` to `top`.
    pub fn new(base: u32, top: u32) -> LaneCells {
        let levels = (base..=top.max(base)).map(|_| Level::default()).collect();
        LaneCells { base, levels, room: MergeRoom::default() }
    }

    /// The finest level.
    pub(super) fn base(&self) -> u32 {
        self.base
    }

    /// The coarsest level.
    pub(super) fn top(&self) -> u32 {
        self.level(self.levels.len().saturating_sub(1))
    }

    /// From the counts and bytes of each level; the bytes are taken from the front. None: they make no sense.
    pub(super) fn from_packed(
        base: u32,
        top: u32,
        counts: &[(usize, usize)],
        bytes: &mut &[u8],
    ) -> Option<LaneCells> {
        let mut lane = LaneCells::new(base, top);
        if lane.levels.len() != counts.len() {
            return None;
        }
        for (at, (count, length)) in counts.iter().enumerate() {
            let (own, rest) = bytes.split_at_checked(*length)?;
            *bytes = rest;
            lane.levels[at].stored =
                PackedCells::from_bytes(own.to_vec(), *count, bucket_ns(lane.level(at)).unsigned_abs())?;
        }
        Some(lane)
    }

    /// The stored cells of each level, from the base up.
    pub(super) fn packed(&self) -> impl Iterator<Item = &PackedCells> {
        self.levels.iter().map(|level| &level.stored)
    }

    /// An item at a time. Gives the bytes of the cells that it made final.
    pub fn point(&mut self, t: i64, key: u32, n: u64, w: u64) -> usize {
        self.add(0, t >> self.base, key, n, w)
    }

    /// A state during [from, to), after all that came before. Gives the bytes of the cells that it made final.
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
        u32::try_from(at).map_or(u32::MAX, |at| self.base.saturating_add(at))
    }

    fn open(&mut self, at: usize, bucket: i64) -> &mut Tally {
        let level = &mut self.levels[at];
        level.open.get_or_insert(bucket);
        &mut level.tally
    }

    fn close_before(&mut self, at: usize, bucket: i64) -> usize {
        match self.levels[at].open {
            Some(open) if open < bucket => self.close(at),
            _ => 0,
        }
    }

    fn close(&mut self, at: usize) -> usize {
        let Some(bucket) = self.levels[at].open.take() else { return 0 };
        let mut stored = self.store(at, &self.levels[at].tally.cell(bucket));
        if at + 1 < self.levels.len() {
            stored += self.close_before(at + 1, bucket >> 1);
        }
        match self.levels.get_mut(at..at + 2) {
            Some([below, above]) => {
                above.open.get_or_insert(bucket >> 1);
                above.tally.take_all(&mut below.tally, &mut self.room);
            }
            _ => self.levels[at].tally = Tally::default(),
        }
        stored
    }

    /// Closes what lies before a time: the buckets of the levels up to the one with this index.
    pub(super) fn close_up_to(&mut self, at: usize, time: i64) {
        for at in 0..=at {
            self.close_before(at, time >> self.level(at));
        }
    }

    /// Opens a bucket of the level with this index, where none is open, with all that is in it. The cells of the
    /// levels below are stored.
    pub(super) fn open_with(&mut self, at: usize, bucket: i64, tally: Tally) {
        let Some(level) = self.levels.get_mut(at) else { return };
        debug_assert_eq!(level.open, None, "it was closed");
        (level.open, level.tally) = (Some(bucket), tally);
    }

    /// Stores a cell behind those of the level with this index. Gives its bytes.
    pub(super) fn store(&mut self, at: usize, cell: &Cell) -> usize {
        let width = bucket_ns(self.level(at)).unsigned_abs();
        self.levels[at].stored.push(cell, width)
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
                stored += self.store(at, &Cell::from_raw(begin, len, (0, width), (key, width)));
                begin += i64::from(len);
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

    /// Nothing more will come: open buckets become cells, and memory that is not used is given back.
    pub fn finish(&mut self) {
        for at in 0..self.levels.len() {
            self.close(at);
            self.levels[at].stored.shrink();
            self.levels[at].tally = Tally::default();
        }
        self.levels.shrink_to_fit();
        self.room = MergeRoom::default();
    }

    /// Cells that are stored.
    pub fn stored(&self) -> usize {
        self.levels.iter().map(|level| level.stored.count()).sum()
    }

    /// Bytes that they take.
    pub fn size(&self) -> usize {
        self.levels.iter().map(|level| level.stored.size()).sum()
    }

    /// The cells of a tile, those of open buckets too, as if time had left them at `now`.
    pub fn read(&self, tile: TileId, pending: Option<Pending>, now: i64) -> Vec<Cell> {
        let Some(at) = (self.base..).take(self.levels.len()).position(|level| level == tile.level()) else {
            return Vec::new();
        };
        let (first, end) = (tile.first_bucket(), tile.first_bucket() + BUCKETS);
        let Some(level) = self.levels.get(at) else { return Vec::new() };
        let width = bucket_ns(tile.level()).unsigned_abs();
        let stored = level.stored.from(first, width).take_while(|cell| cell.bucket < end);
        let mut cells: Vec<Cell> = Vec::with_capacity(64.min(level.stored.count()));
        for cell in stored {
            let from = cell.bucket.max(first);
            let len = u32::try_from(cell.end().min(end) - from).unwrap_or(u32::MAX);
            cells.push(cell.moved(from, len));
        }
        let mut open: BTreeMap<i64, Tally> = BTreeMap::new();
        for (below, level) in self.levels[..=at].iter().enumerate() {
            let bucket = level.open.map(|bucket| bucket >> (at - below));
            if let Some(bucket) = bucket.filter(|bucket| (first..end).contains(bucket)) {
                open.entry(bucket).or_default().take_all(&mut level.tally.clone(), &mut MergeRoom::default());
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
        joined(cells, width)
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
                    && last.raw_key() == cell.raw_key()
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
