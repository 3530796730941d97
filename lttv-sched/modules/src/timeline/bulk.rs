//! Cells of many points of one lane at once: what [`LaneCells::point`] makes of them one by one, in a fraction of
//! the time.
//!
//! With points one by one, each distinct key of a bucket is merged again at every level above. Where most samples of
//! a bucket have keys of their own that is ten merges for each sample. But a heaviest key changes hands only where a
//! key's own sums meet:
//!
//! > The heaviest key of a bucket is the heaviest of one of its two halves, or a key that is in both halves.
//!
//! So the points of a part are sorted by key. The points of one key form a binary tree over time, whose inner nodes
//! are the buckets in which two sums of this key meet: one node fewer than there are points, over all levels
//! together. Each node is compared with the heaviest of its bucket. Then each level takes over what its halves have.
//!
//! A **part** is all points of one bucket at some level: the largest bucket that the buffer holds whole. Its sums by
//! key go to the open bucket of that level, and from there on up as always.
//!
//! Invariant: the cells are those that points one by one would give, except that below the level of a part no key is
//! forgotten, however many there are.

use super::cell::Cell;
use super::cells::LaneCells;
use super::tally::{KeySum, Tally};

/// Points that are kept until they are made cells. Sums by key of larger parts are merged less often, but those of
/// this size stay in the processor's cache.
const ROOM: usize = 32 << 10;

/// Parts of fewer points are added one by one.
const FEW: usize = 24;

/// Points fewer than this are sorted by comparing.
const FEW_TO_SORT: usize = 256;

/// Bits of a digit of the sort by key.
const DIGIT: u32 = 11;

/// Where a level has at most so many buckets for each cell, a table tells the places of cells.
const BUCKETS_FOR_A_CELL: u64 = 4;

/// One item.
#[derive(Clone, Copy, Debug)]
struct Point {
    time: i64,
    w: u64,
    key: u32,
}

/// A point of a part: its cell at the base level instead of its time.
#[derive(Clone, Copy, Debug, Default)]
struct PlacedPoint {
    w: u64,
    key: u32,
    cell: u32,
}

/// The heaviest key so far and its weight.
#[derive(Clone, Copy, Debug)]
struct Heaviest {
    w: u64,
    key: u32,
}

impl Heaviest {
    const NONE: Heaviest = Heaviest { w: 0, key: u32::MAX >> 1 };

    /// Of two that weigh the same the one with the lesser key stays.
    fn offer(&mut self, other: Heaviest) {
        if other.w > self.w || other.w == self.w && other.key < self.key {
            *self = other;
        }
    }
}

/// Cells of one level of a part.
#[derive(Clone, Debug, Default)]
struct PartLevel {
    /// Buckets with something in them, counted from the first bucket of the part.
    buckets: Vec<u64>,
    /// Items and weight of each.
    sums: Vec<(u64, u64)>,
    heaviest: Vec<Heaviest>,
    /// The place of each bucket in the lists; empty where buckets are too many.
    places: Vec<u32>,
}

impl PartLevel {
    fn clear(&mut self) {
        self.buckets.clear();
        self.sums.clear();
        self.heaviest.clear();
        self.places.clear();
    }

    /// Adds items to a bucket, which is the last one or comes after it. Gives the place of the bucket.
    fn add(&mut self, bucket: u64, n: u64, w: u64) -> usize {
        if self.buckets.last() != Some(&bucket) {
            self.buckets.push(bucket);
            self.sums.push((0, 0));
        }
        if let Some(sum) = self.sums.last_mut() {
            *sum = (sum.0.saturating_add(n), sum.1.saturating_add(w));
        }
        self.buckets.len() - 1
    }

    /// All buckets are there.
    fn complete(&mut self) {
        self.heaviest.resize(self.buckets.len(), Heaviest::NONE);
        let buckets = self.buckets.last().map_or(0, |last| last.saturating_add(1));
        if buckets > (self.buckets.len() as u64).saturating_mul(BUCKETS_FOR_A_CELL) {
            return;
        }
        self.places.resize(usize::try_from(buckets).unwrap_or(0), 0);
        for (bucket, place) in self.buckets.iter().zip(0u32..) {
            let slot = usize::try_from(*bucket).ok().and_then(|bucket| self.places.get_mut(bucket));
            slot.into_iter().for_each(|slot| *slot = place);
        }
    }

    /// Compares a key's weight in a bucket that is not empty with the heaviest there.
    fn offer(&mut self, bucket: u64, offered: Heaviest) {
        let known = usize::try_from(bucket).ok().and_then(|bucket| self.places.get(bucket));
        let place = match known {
            Some(place) => *place as usize,
            None => self.buckets.partition_point(|other| *other < bucket),
        };
        self.heaviest.get_mut(place).into_iter().for_each(|heaviest| heaviest.offer(offered));
    }
}

/// Makes the cells of a lane from its points, which come in order of time.
pub(super) struct BulkCells {
    cells: LaneCells,
    /// Points that are kept until they are made cells, and those of a part that are few.
    room: usize,
    few: usize,
    points: Vec<Point>,
    /// Time of the last point that is in cells.
    before: Option<i64>,
    placed: Vec<PlacedPoint>,
    /// The other half of the sort.
    sorting: Vec<PlacedPoint>,
    /// From the base level on.
    levels: Vec<PartLevel>,
    /// Sums of the key that is being walked: bucket at the base, weight, and the level at which the sum meets what
    /// comes after it.
    open: Vec<(u64, u64, usize)>,
}

impl BulkCells {
    /// For a lane that has nothing yet.
    pub(super) fn new(cells: LaneCells) -> BulkCells {
        BulkCells::with_room(cells, ROOM, FEW)
    }

    fn with_room(cells: LaneCells, room: usize, few: usize) -> BulkCells {
        BulkCells {
            cells,
            room,
            few,
            points: Vec::new(),
            before: None,
            placed: Vec::new(),
            sorting: Vec::new(),
            levels: Vec::new(),
            open: Vec::new(),
        }
    }

    /// An item, not before those that came before it.
    pub(super) fn point(&mut self, time: i64, key: u32, w: u64) {
        self.points.push(Point { time, w, key });
        if self.points.len() >= self.room {
            self.make_cells(false);
        }
    }

    /// All points are there: gives the cells, and begins anew with others.
    pub(super) fn replace(&mut self, next: LaneCells) -> LaneCells {
        self.make_cells(true);
        self.before = None;
        std::mem::replace(&mut self.cells, next)
    }

    /// Makes cells of the points at hand: of all, or of so many that half of the room is free.
    fn make_cells(&mut self, all: bool) {
        let points = std::mem::take(&mut self.points);
        let mut rest = points.as_slice();
        while let (Some(first), Some(last)) = (rest.first(), rest.last()) {
            if !all && rest.len() <= self.room / 2 {
                break;
            }
            let level = self.level_of_part(first.time, (!all).then_some(last.time));
            let bits = level.unwrap_or(self.cells.base());
            let count = rest.partition_point(|point| point.time >> bits == first.time >> bits);
            let (part, after) = rest.split_at(count);
            match level {
                Some(level) if count >= self.few => self.add_part(part, level),
                _ => part.iter().for_each(|point| {
                    self.cells.point(point.time, point.key, 1, point.w);
                }),
            }
            self.before = part.last().map(|point| point.time);
            rest = after;
        }
        let kept = points.len() - rest.len();
        self.points = points;
        self.points.drain(..kept);
    }

    /// The coarsest level at which the bucket of `first` holds no earlier point, and no later one than those at hand
    /// (`last` is the last of them; none: there are no others). None: even the base has no such bucket.
    fn level_of_part(&self, first: i64, last: Option<i64>) -> Option<u32> {
        // Two times are in different buckets up to the level of the highest bit in which they differ.
        let differ = |other: i64| (first ^ other).cast_unsigned().checked_ilog2();
        let mut level = self.cells.top();
        for other in [self.before, last].into_iter().flatten() {
            level = level.min(differ(other)?);
        }
        (level >= self.cells.base()).then_some(level)
    }

    /// All points of a bucket of a level.
    fn add_part(&mut self, part: &[Point], level: u32) {
        let Some(first) = part.first() else { return };
        let base = self.cells.base();
        let depth = usize::try_from(level - base).unwrap_or(0);
        let begin = (first.time >> level) << (level - base);
        self.place(part, begin, depth);
        self.sort_by_key();
        let tally = self.walk_keys(depth);
        self.cells.close_up_to(depth, first.time);
        for at in 0..depth {
            self.take_over_and_store(at, begin >> at, depth);
        }
        self.cells.open_with(depth, first.time >> level, tally);
    }

    /// Buckets of all levels below that of the part, and the points with their places in those of the base.
    fn place(&mut self, part: &[Point], begin: i64, depth: usize) {
        if self.levels.len() < depth.max(1) {
            self.levels.resize_with(depth.max(1), PartLevel::default);
        }
        self.levels.iter_mut().for_each(PartLevel::clear);
        self.placed.clear();
        let base = self.cells.base();
        let lowest = &mut self.levels[0];
        self.placed.extend(part.iter().map(|point| {
            let bucket = ((point.time >> base) - begin).cast_unsigned();
            let cell = lowest.add(bucket, 1, point.w);
            PlacedPoint { w: point.w, key: point.key, cell: u32::try_from(cell).unwrap_or(u32::MAX) }
        }));
        lowest.complete();
        for at in 1..depth {
            let Some([below, above]) = self.levels.get_mut(at - 1..=at) else { return };
            for (bucket, (n, w)) in below.buckets.iter().zip(&below.sums) {
                above.add(bucket >> 1, *n, *w);
            }
            above.complete();
        }
    }

    /// Points by key, those of one key in order of time.
    fn sort_by_key(&mut self) {
        let keys = self.placed.iter().map(|point| point.key);
        let (least, most) = keys.fold((u32::MAX, 0), |(a, b), key| (a.min(key), b.max(key)));
        if self.placed.len() < FEW_TO_SORT {
            self.placed.sort_by_key(|point| point.key);
            return;
        }
        let bits = most.saturating_sub(least).checked_ilog2().map_or(0, |bit| bit + 1);
        self.sorting.resize(self.placed.len(), PlacedPoint::default());
        for shift in (0..bits).step_by(DIGIT as usize) {
            let digit = |point: &PlacedPoint| ((point.key - least) >> shift) as usize & ((1 << DIGIT) - 1);
            let mut places = [0u32; 1 << DIGIT];
            self.placed.iter().for_each(|point| places[digit(point)] += 1);
            let mut sum = 0;
            for place in &mut places {
                sum += std::mem::replace(place, sum);
            }
            for point in &self.placed {
                let place = &mut places[digit(point)];
                self.sorting[*place as usize] = *point;
                *place += 1;
            }
            std::mem::swap(&mut self.placed, &mut self.sorting);
        }
    }

    /// Compares the sums of each key with the heaviest of the buckets below the level of the part. Gives the sums of
    /// the whole part by key.
    fn walk_keys(&mut self, depth: usize) -> Tally {
        let BulkCells { placed, levels, open, .. } = self;
        let whole = placed.iter().fold((0u64, 0u64), |(n, w), point| (n + 1, w.saturating_add(point.w)));
        let mut sums = Vec::new();
        for points in placed.chunk_by(|a, b| a.key == b.key) {
            let Some(first) = points.first() else { continue };
            let key = first.key;
            let mut of_key = 0u64;
            open.clear();
            for points in points.chunk_by(|a, b| a.cell == b.cell) {
                let sum = points.iter().fold(0u64, |sum, point| sum.saturating_add(point.w));
                of_key = of_key.saturating_add(sum);
                if depth == 0 {
                    continue;
                }
                let cell = points[0].cell as usize;
                let bucket = levels[0].buckets[cell];
                levels[0].heaviest[cell].offer(Heaviest { w: sum, key });
                let meets = match open.last() {
                    Some((before, ..)) => (before ^ bucket).checked_ilog2().map_or(0, |bit| bit as usize + 1),
                    None => 0,
                };
                // All sums that meet below are whole now.
                while let [.., (left, left_sum, at), (_, sum, _)] = open.as_mut_slice()
                    && *at < meets
                {
                    *left_sum = left_sum.saturating_add(*sum);
                    if let Some(level) = levels.get_mut(*at).filter(|_| *at < depth) {
                        level.offer(*left >> *at, Heaviest { w: *left_sum, key });
                    }
                    open.pop();
                }
                if let Some(last) = open.last_mut() {
                    last.2 = meets;
                }
                open.push((bucket, sum, usize::MAX));
            }
            while let [.., (left, left_sum, at), (_, sum, _)] = open.as_mut_slice() {
                *left_sum = left_sum.saturating_add(*sum);
                if let Some(level) = levels.get_mut(*at).filter(|_| *at < depth) {
                    level.offer(*left >> *at, Heaviest { w: *left_sum, key });
                }
                open.pop();
            }
            sums.push(KeySum { key, w: of_key });
        }
        Tally::from_sums(sums, whole)
    }

    /// Stores the cells of a level of the part, and gives the level above the heaviest of its halves.
    fn take_over_and_store(&mut self, at: usize, first_bucket: i64, depth: usize) {
        let Some((level, above)) = self.levels.get_mut(at..).and_then(|levels| levels.split_first_mut())
        else {
            return;
        };
        let above = above.first_mut().filter(|_| at + 1 < depth);
        if let Some(above) = above {
            let mut place = 0;
            for (bucket, heaviest) in level.buckets.iter().zip(&level.heaviest) {
                if above.buckets[place] != bucket >> 1 {
                    place += 1;
                }
                above.heaviest[place].offer(*heaviest);
            }
        }
        for ((bucket, sums), heaviest) in level.buckets.iter().zip(&level.sums).zip(&level.heaviest) {
            let bucket = first_bucket + bucket.cast_signed();
            self.cells.store(at, &Cell::new(bucket, *sums, (heaviest.w, heaviest.key), true));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::lanes::name_key;
    use crate::timeline::tile::{COARSEST, TileId};
    use lttv_engine::time::Time;
    use proptest::prelude::*;

    /// Times, keys and weights: dense and far apart, equal times, few keys and many. No key is that of a state: points
    /// have none.
    fn points() -> impl Strategy<Value = Vec<(i64, u32, u64)>> {
        let gap = prop_oneof![4 => 0..3000i64, 2 => 900_000..1_100_000i64, 1 => 0..1i64 << 40];
        let first = name_key(0);
        let key =
            prop_oneof![2 => first..first + 4, 1 => first..first + 5000, 1 => (1u32 << 30)..(1 << 30) + 40];
        let weight = prop_oneof![4 => Just(1000u64), 2 => 0..5u64, 1 => any::<u64>()];
        (-1i64 << 41..1 << 41, proptest::collection::vec((gap, key, weight), 0..1200)).prop_map(
            |(mut at, rows)| {
                let row = |(gap, key, weight)| {
                    at += gap;
                    (at, key, weight)
                };
                rows.into_iter().map(row).collect()
            },
        )
    }

    fn one_by_one(points: &[(i64, u32, u64)], (base, top): (u32, u32)) -> LaneCells {
        let mut cells = LaneCells::new(base, top);
        for (time, key, w) in points {
            cells.point(*time, *key, 1, *w);
        }
        cells
    }

    fn stored(cells: &LaneCells) -> Vec<(usize, Vec<u8>)> {
        cells.packed().map(|level| (level.count(), level.bytes().to_vec())).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn cells_of_many_points_are_those_of_points_one_by_one(
            points in points(), room in 1usize..700, few in 0usize..40, base in 3u32..24, height in 0u32..30,
        ) {
            let range = (base, (base + height).min(COARSEST));
            let mut bulk = BulkCells::with_room(LaneCells::new(range.0, range.1), room, few);
            // A second lane after it: nothing of the first is left.
            for part in [points.as_slice(), &points[points.len() / 3..]] {
                part.iter().for_each(|(time, key, w)| bulk.point(*time, *key, *w));
                let mut made = bulk.replace(LaneCells::new(range.0, range.1));
                let mut expected = one_by_one(part, range);
                let (first, last) = (part.first().map_or(0, |p| p.0), part.last().map_or(0, |p| p.0));
                for level in [range.0, range.0.midpoint(range.1), range.1] {
                    for time in [first, last] {
                        let tile = TileId::holding(Time(time), level);
                        prop_assert_eq!(made.read(tile, None, last), expected.read(tile, None, last));
                    }
                }
                made.finish();
                expected.finish();
                prop_assert_eq!(stored(&made), stored(&expected));
            }
        }
    }

    #[test]
    fn below_the_level_of_a_part_no_key_is_forgotten() {
        // In a bucket of level 20 each of 6,000 keys weighs 1, and one in the middle of them weighs 1 three times.
        let mut bulk = BulkCells::new(LaneCells::new(10, 30));
        let points = (0..6000i64).map(|n| (n * 170, if n % 2500 == 17 { 3000 } else { 10_000 - n as u32 }));
        points.for_each(|(time, key)| bulk.point(time, key, 1));
        bulk.point(1 << 29, 1, 1);
        let mut cells = bulk.replace(LaneCells::new(10, 30));
        cells.finish();
        let cell = cells.read(TileId::holding(Time(0), 20), None, 0)[0];
        assert_eq!((cell.n, cell.top(), cell.tw, cell.is_approximate()), (6000, 3000, 3, false));
    }
}
