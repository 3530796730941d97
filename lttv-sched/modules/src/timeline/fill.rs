//! A timeline of items that are known lane by lane: no engine reads them.
//!
//! Lanes are filled one by one, so only as many lanes as there are threads at work have open buckets at a time: those
//! of many lanes with many functions would take more memory than all finished cells. The number of cells at each level
//! is known ahead, so the pyramid begins at the base that it will keep.
//!
//! A tile below the base, or one that is asked for before its lanes are there, is computed from the items at once.

use std::cmp::Reverse;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use lttv_engine::source::Source;
use lttv_engine::time::Time;

use super::bulk::BulkCells;
use super::cells::LaneCells;
use super::collect::Collector;
use super::items::{CELL_BYTES, CellCounts, LaneItems, base_within};
use super::lanes::Tables;
use super::pyramid::{FIRST_BASE, Pyramid};
use super::tile::{COARSEST, TileId};
use super::{LaneTile, Tile, Timeline};

/// Part of the room for cells that is used, as one divided by this. A tile below the base costs milliseconds here, so
/// fine cells are not worth their memory.
const PART_OF_ROOM: usize = 4;

/// Most cells for each item, as one divided by this, and cells that are made of few items too. Finer cells would
/// take longer to make than the tiles below the base, which are made when somebody looks there.
const ITEMS_FOR_A_CELL: u64 = 4;
const CELLS_OF_FEW: u64 = 50_000;

/// Most items of a tile that is computed while somebody waits, though the pass will have it soon.
const MOST_AHEAD: u64 = 300_000;

/// Most threads that fill lanes at a time.
const MOST_THREADS: usize = 4;

/// The first time of all items; what is before has no time.
const FIRST: Time = Time(Time::UNTIMED.0 + 1);

/// Adds what a span has in [first, end). It is counted where it begins.
fn add_span(cells: &mut LaneCells, (from, until): (Time, Time), key: u32, (first, end): (Time, Time)) {
    let (begin, until) = (from.max(first), until.min(end));
    if begin < until {
        cells.interval(begin.ns(), until.ns(), key, u64::from(begin == from));
    }
}

impl Timeline {
    /// The timeline of a source whose items are known lane by lane. It is empty until [`Timeline::fill`].
    pub fn from_items(source: &Arc<dyn Source>, items: Arc<dyn LaneItems>, most_bytes: usize) -> Timeline {
        let tables: Arc<Mutex<Tables>> = Arc::default();
        let mut guard = tables.lock().unwrap_or_else(PoisonError::into_inner);
        for lane in items.lanes() {
            guard.lane(lane.kind, lane.of, || lane.name.clone());
        }
        for name in items.names() {
            guard.key(&name);
        }
        let lanes = guard.lanes().len();
        drop(guard);
        let counts: Vec<CellCounts> = (0..lanes).map(|lane| items.cell_counts(lane)).collect();
        let all: u64 = (0..lanes).map(|lane| items.count(lane, FIRST, Time::MAX)).sum();
        let worth = (all / ITEMS_FOR_A_CELL).max(CELLS_OF_FEW).saturating_mul(CELL_BYTES);
        let room = u64::try_from(most_bytes / PART_OF_ROOM).unwrap_or(u64::MAX);
        let base = base_within(&counts, FIRST_BASE, room.min(worth));
        let collector = Collector::new(source.as_ref(), &tables, Pyramid::from_base(base, most_bytes));
        let timeline = Timeline::from_source(source, tables, collector);
        timeline.pass().collector.at = source.time_span().map_or(Time(0), |span| span.0);
        Timeline { items: Some(items), ..timeline }
    }

    /// Fills the timeline from its items, several lanes at a time, and calls `progressed` after each lane. Ends early
    /// when `stop` is set. Does nothing where a pass of the engine fills it.
    pub fn fill(&self, stop: &AtomicBool, progressed: &(impl Fn() + Sync)) {
        let Some(items) = &self.items else { return };
        let mut lanes: Vec<(u64, usize)> = (0..self.tables().lanes().len())
            .map(|lane| (items.count(lane, FIRST, Time::MAX), lane))
            .collect();
        // The longest first, so that no thread is left with it at the end.
        lanes.sort_unstable_by_key(|(count, lane)| (Reverse(*count), *lane));
        let next = AtomicUsize::new(0);
        let work = || {
            let mut bulk = BulkCells::new(LaneCells::new(self.base(), COARSEST));
            while let Some((_, lane)) = lanes.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.fill_lane(items.as_ref(), *lane, &mut bulk);
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                progressed();
            }
        };
        let helpers = std::thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS) - 1;
        std::thread::scope(|scope| {
            for _ in 0..helpers.min(lanes.len().saturating_sub(1)) {
                // Where there is no thread to be had, this one does all.
                let _ = std::thread::Builder::new().name("timeline-lanes".into()).spawn_scoped(scope, work);
            }
            work();
        });
        if !stop.load(Ordering::Relaxed) {
            self.finish();
            progressed();
        }
    }

    fn fill_lane(&self, items: &dyn LaneItems, lane: usize, bulk: &mut BulkCells) {
        let empty = || LaneCells::new(self.base(), COARSEST);
        let mut spans = None;
        items.each(lane, FIRST, Time::MAX, &mut |item| match item.until {
            None => bulk.point(item.time.ns(), item.key, item.weight),
            Some(until) => {
                let cells = spans.get_or_insert_with(empty);
                add_span(cells, (item.time, until), item.key, (FIRST, Time::MAX));
            }
        });
        // The items of a lane are all points or all spans.
        let mut cells = spans.unwrap_or_else(|| bulk.replace(empty()));
        cells.finish();
        let untimed = items.count(lane, Time::UNTIMED, Time::UNTIMED);
        let mut pass = self.pass();
        pass.collector.pyramid.put_lane(lane, cells);
        pass.collector.events += items.events(lane);
        pass.collector.untimed += untimed;
    }

    /// A tile from the items themselves; none where they are not known, or where there are too many of them to make
    /// somebody wait for a tile that the pass will have (`is_urgent` is false).
    pub(super) fn tile_from_items(&self, id: TileId, is_urgent: bool) -> Option<Tile> {
        let items = self.items.as_ref()?;
        // The end belongs to the next tile. If no tile follows, it belongs to this one.
        let last = if id.end() == Time::MAX { Time::MAX } else { Time(id.end().ns() - 1) };
        let first = id.start().max(FIRST);
        let lanes = self.tables().lanes().len();
        let count: u64 = (0..lanes).map(|lane| items.count(lane, first, last)).sum();
        if !is_urgent && count > MOST_AHEAD {
            return None;
        }
        let of_lane = |lane: usize| {
            let mut cells = LaneCells::new(id.level(), id.level());
            items.each(lane, first, last, &mut |item| match item.until {
                None => drop(cells.point(item.time.ns(), item.key, 1, item.weight)),
                Some(until) => add_span(&mut cells, (item.time, until), item.key, (first, id.end())),
            });
            LaneTile { lane, cells: cells.read(id, None, last.ns()) }
        };
        let lanes = (0..lanes).map(of_lane).filter(|lane| !lane.cells.is_empty()).collect();
        Some(Tile { id, is_final: true, is_partial: false, lanes })
    }
}
