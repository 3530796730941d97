//! The cells of all lanes of a trace, within a budget.

use lttv_engine::time::Time;

use super::cells::{Cell, LaneCells, Pending};
use super::tile::{COARSEST, TileId};

/// Level at which a pass begins: buckets of 1 us.
pub const FIRST_BASE: u32 = 10;

/// What lanes have in buckets, from a base level up. When there are more cells than the budget allows, the finest
/// level goes and the base rises; sums stay what they are.
#[derive(Clone, Debug)]
pub struct Pyramid {
    base: u32,
    top: u32,
    lanes: Vec<LaneCells>,
    pending: Vec<Option<Pending>>,
    stored: usize,
    most: usize,
}

impl Pyramid {
    /// For a pass over a trace: all levels from [`FIRST_BASE`] on, at most so many cells.
    pub fn whole(most_cells: usize) -> Pyramid {
        Pyramid::new(FIRST_BASE, COARSEST, most_cells)
    }

    /// For one tile: its level alone.
    pub fn of_level(level: u32) -> Pyramid {
        Pyramid::new(level, level, usize::MAX)
    }

    fn new(base: u32, top: u32, most: usize) -> Pyramid {
        Pyramid { base, top, lanes: Vec::new(), pending: Vec::new(), stored: 0, most }
    }

    /// The finest level there is.
    pub fn base(&self) -> u32 {
        self.base
    }

    /// Cells that are stored.
    pub fn stored(&self) -> usize {
        self.stored
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
        self.stored += self.lane(lane).point(t.ns(), key, 1, w);
        self.keep_to_budget();
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
            self.stored += self.lane(lane).interval(state.from, now.ns(), state.key, state.n);
            self.keep_to_budget();
        }
    }

    /// All states end now.
    pub fn finish(&mut self, now: Time) {
        for lane in 0..self.pending.len() {
            self.end_state(lane, now);
        }
    }

    fn keep_to_budget(&mut self) {
        while self.stored > self.most && self.base < self.top {
            self.base += 1;
            self.lanes.iter_mut().for_each(LaneCells::raise);
            self.stored = self.lanes.iter().map(LaneCells::stored).sum();
        }
    }

    /// The cells of a lane in a tile, as if states that go on ended `now`; nothing below the base.
    pub fn read(&self, lane: usize, tile: TileId, now: Time) -> Vec<Cell> {
        let pending = self.pending.get(lane).copied().flatten();
        self.lanes.get(lane).map_or_else(Vec::new, |cells| cells.read(tile, pending, now.ns()))
    }
}
