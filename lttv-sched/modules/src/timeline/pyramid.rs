//! The cells of all lanes of a trace, within a budget.
//!
//! A pass does not know how many cells there will be. If it began to drop levels only when the whole budget is used up,
//! it would write most fine cells in vain. So the budget is given out as time goes on: when a quarter of the span has
//! been read, a quarter of the bytes may be used.

use lttv_engine::time::Time;

use super::cells::{Cell, LaneCells, Pending};
use super::packed::PackedCells;
use super::tile::{COARSEST, TILE_BITS, TileId};

/// Finest level at which a pass begins: buckets of 1 us.
pub const FIRST_BASE: u32 = 10;

/// Most events of a tile below the base on average: what a request reads in some hundredths of a second. A finer base
/// would cost the pass more than it saves: most events would be cells of their own at several levels.
const EVENTS_BELOW_BASE: u64 = 16 << 10;

/// Least number of buckets of the base in the span, as a power of two: a picture of the whole needs no request.
const LEAST_BUCKETS_LOG2: u32 = 13;

/// The level at which a pass over so many events begins; 0: their number is not known.
fn first_base(events: u64, span: Option<(Time, Time)>) -> u32 {
    let Some((from, to)) = span.filter(|(from, to)| from < to && events > 0) else { return FIRST_BASE };
    let span_ns = to.since(from).unsigned_abs();
    let tile_ns = u128::from(span_ns) * u128::from(EVENTS_BELOW_BASE) / u128::from(events);
    let of_tile = tile_ns.max(1).ilog2().saturating_sub(TILE_BITS);
    let of_span = span_ns.ilog2().saturating_sub(LEAST_BUCKETS_LOG2);
    of_tile.min(of_span).clamp(FIRST_BASE, COARSEST)
}

/// Part of the budget that may be used before any of the span has been read, as one divided by this. What happens in a
/// short time at the begin of a trace keeps so much detail at least.
const PART_AT_ONCE: usize = 8;

/// What lanes have in buckets, from a base level up. When the cells take more bytes than the budget allows, the
/// finest level goes and the base rises; sums stay what they are.
#[derive(Clone, Debug)]
pub struct Pyramid {
    base: u32,
    top: u32,
    lanes: Vec<LaneCells>,
    pending: Vec<Option<Pending>>,
    /// Bytes of the stored cells.
    size: usize,
    /// Most bytes.
    most: usize,
    /// First and last time of the trace.
    span: Option<(Time, Time)>,
}

impl Pyramid {
    /// For a pass over a trace with about so many events (0: nobody knows) and this first and last time: cells of at
    /// most so many bytes.
    pub fn whole(most_bytes: usize, events: u64, span: Option<(Time, Time)>) -> Pyramid {
        Pyramid { span, ..Pyramid::new(first_base(events, span), COARSEST, most_bytes) }
    }

    /// For one tile: its level alone.
    pub fn of_level(level: u32) -> Pyramid {
        Pyramid::new(level, level, usize::MAX)
    }

    /// As [`Pyramid::packed`] gave it: cells and bytes of each level of each lane, and the bytes, which are taken from
    /// the front of `bytes`. None: they make no sense.
    pub(super) fn from_packed(
        base: u32,
        counts: &[Vec<(usize, usize)>],
        bytes: &mut &[u8],
    ) -> Option<Pyramid> {
        let mut pyramid = Pyramid::new(base, COARSEST, usize::MAX);
        for levels in counts {
            let lane = LaneCells::from_packed(base, COARSEST, levels, bytes)?;
            pyramid.size += lane.size();
            pyramid.lanes.push(lane);
            pyramid.pending.push(None);
        }
        Some(pyramid)
    }

    /// The stored cells of each lane, level by level from the base up.
    pub(super) fn packed(&self) -> impl Iterator<Item = impl Iterator<Item = &PackedCells>> {
        self.lanes.iter().map(LaneCells::packed)
    }

    /// For whole lanes ([`Pyramid::put_lane`]): the levels from `base` on, cells of at most so many bytes.
    pub(super) fn from_base(base: u32, most_bytes: usize) -> Pyramid {
        Pyramid::new(base, COARSEST, most_bytes)
    }

    /// Takes in the finished cells of a lane that had none. They may begin at a finer level than the base.
    pub(super) fn put_lane(&mut self, lane: usize, mut cells: LaneCells) {
        while cells.base() < self.base {
            cells.raise();
        }
        self.size += cells.size();
        *self.lane(lane) = cells;
        self.keep_to_budget(Time::MAX);
    }

    fn new(base: u32, top: u32, most: usize) -> Pyramid {
        Pyramid { base, top, lanes: Vec::new(), pending: Vec::new(), size: 0, most, span: None }
    }

    /// The finest level there is.
    pub fn base(&self) -> u32 {
        self.base
    }

    /// Cells that are stored.
    pub fn stored(&self) -> usize {
        self.lanes.iter().map(LaneCells::stored).sum()
    }

    /// Bytes that they take.
    pub fn size(&self) -> usize {
        self.size
    }

    fn lane(&mut self, lane: usize) -> &mut LaneCells {
        if lane >= self.lanes.len() {
            self.lanes.resize_with(lane + 1, || LaneCells::new(self.base, self.top));
            self.pending.resize(lane + 1, None);
        }
        &mut self.lanes[lane]
    }

    /// An item at a time: not before the lane's last one.
    pub fn point(&mut self, lane: usize, t: Time, key: u32, w: u64) {
        self.size += self.lane(lane).point(t.ns(), key, 1, w);
        self.keep_to_budget(t);
    }

    /// From now on the lane is in this state (none: nothing is known of it). `n` is 1 where it really begins.
    pub fn state(&mut self, lane: usize, now: Time, key: Option<u32>, n: u64) {
        self.lane(lane);
        let before = self.pending[lane];
        if before.map(|state| state.key) == key {
            return;
        }
        self.end_state(lane, now);
        self.pending[lane] = key.map(|key| Pending { key, from: now.ns(), n });
    }

    /// The state of a lane ends now.
    fn end_state(&mut self, lane: usize, now: Time) {
        if let Some(state) = self.pending[lane].take()
            && state.from < now.ns()
        {
            self.size += self.lane(lane).interval(state.from, now.ns(), state.key, state.n);
            self.keep_to_budget(now);
        }
    }

    /// All states end now.
    pub fn finish(&mut self, now: Time) {
        for lane in 0..self.pending.len() {
            self.end_state(lane, now);
        }
        self.lanes.iter_mut().for_each(LaneCells::finish);
        self.size = self.lanes.iter().map(LaneCells::size).sum();
        self.keep_to_budget(Time::MAX);
    }

    /// From now on the cells take at most so many bytes.
    pub(super) fn keep_to(&mut self, most: usize) {
        self.most = most;
        self.keep_to_budget(Time::MAX);
    }

    /// Bytes that may be used when the pass has come to a time.
    fn allowed(&self, now: Time) -> usize {
        let Some((from, to)) = self.span.filter(|(from, to)| from < to) else { return self.most };
        let (read, all) = (now.min(to).since(from).max(0).unsigned_abs(), to.since(from).unsigned_abs());
        let most = u64::try_from(self.most).unwrap_or(u64::MAX);
        let part = u128::from(most) * u128::from(read) / u128::from(all.max(1));
        usize::try_from(part).unwrap_or(self.most).max(self.most / PART_AT_ONCE)
    }

    fn keep_to_budget(&mut self, now: Time) {
        if self.size <= self.most / PART_AT_ONCE {
            return;
        }
        let allowed = self.allowed(now);
        while self.size > allowed && self.base < self.top {
            self.base += 1;
            self.lanes.iter_mut().for_each(LaneCells::raise);
            self.size = self.lanes.iter().map(LaneCells::size).sum();
        }
    }

    /// The cells of a lane in a tile, as if states that go on ended `now`; nothing below the base.
    pub fn read(&self, lane: usize, tile: TileId, now: Time) -> Vec<Cell> {
        let pending = self.pending.get(lane).copied().flatten();
        self.lanes.get(lane).map_or_else(Vec::new, |cells| cells.read(tile, pending, now.ns()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_begins_where_a_tile_below_the_base_has_few_events_and_the_whole_many_buckets() {
        let second = Some((Time(-5), Time(1_000_000_000 - 5)));
        assert_eq!(first_base(0, second), FIRST_BASE);
        assert_eq!(first_base(1_000_000, None), FIRST_BASE);
        assert_eq!(first_base(1_000_000, Some((Time(7), Time(7)))), FIRST_BASE);
        // 16,384 events in 16 ms, which are a tile of level 15.
        assert_eq!(first_base(1_000_000, second), 15);
        assert_eq!(first_base(100_000_000, second), FIRST_BASE);
        // Few events: 2^16 ns is less than a part of 8,192 of the second.
        assert_eq!((first_base(1000, second), first_base(1, second)), (16, 16));
        assert_eq!(first_base(u64::MAX, Some((Time::MIN, Time::MAX))), FIRST_BASE);
        assert_eq!(first_base(1, Some((Time::MIN, Time::MAX))), COARSEST);
    }

    #[test]
    fn the_budget_is_given_out_as_time_goes_on_and_no_sum_is_lost() {
        const MOST: usize = 40_000;
        let end = 1 << 32;
        let mut pyramid = Pyramid::whole(MOST, 0, Some((Time(0), Time(end))));
        let times = (0..end).step_by(1 << 16);
        for t in times.clone() {
            pyramid.point(0, Time(t), 7, 3);
            let allowed =
                (MOST / PART_AT_ONCE).max(MOST * usize::try_from(t >> 22).expect("small") / 1024 + 40);
            assert!(pyramid.size() <= allowed, "{} of {allowed} at {t}", pyramid.size());
        }
        pyramid.finish(Time(end));
        assert!(pyramid.size() <= MOST && pyramid.size() > MOST / 4, "{}", pyramid.size());
        let whole = pyramid.read(0, TileId::new(32, 0).expect("a tile"), Time(end));
        let sum = whole.iter().fold((0, 0), |(n, w), cell| (n + cell.n, w + cell.w));
        assert_eq!(sum, (times.clone().count() as u64, times.count() as u64 * 3));
    }
}
