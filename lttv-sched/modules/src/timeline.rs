//! What each lane shows in each bucket of time, at all levels of zoom: the data of the timeline page.
//!
//! A **lane** is a thread with samples, a CPU or thread with states, or somebody's other events. Time is cut into
//! **buckets** of 2^L ns at absolute places, 256 of them in a **tile** ([`tile`]). A **cell** is what a lane has in a
//! bucket: items, weight, and the heaviest key with its weight.
//!
//! The module makes a pyramid of cells in one pass ([`pyramid`], [`cells`]) within a budget. What is finer than its
//! base level is computed by a foreground request over the tile alone ([`WindowTile`]). Both put events into lanes by
//! the same code (`collect`), so both give equal tiles.
//!
//! Invariants: items and weight of a tile are the sums of the two tiles below it (TL-1) and what one request over its
//! time counts (TL-2); the heaviest key of a cell is exact at every level, or the cell says that it is not (TL-3).

mod bulk;
mod cell;
pub mod cells;
mod collect;
mod fill;
pub mod items;
mod kept;
pub mod lanes;
mod packed;
pub mod pyramid;
mod tally;
pub mod tile;
mod window;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lttv_engine::call::EndReason;
use lttv_engine::hooks::{Flow, Hook, HookKey, PRIORITY_DEFAULT, PRIORITY_STATS_AFTER};
use lttv_engine::module::{Module, ModuleHooks};
use lttv_engine::source::Source;
use lttv_engine::time::Time;

use crate::state::{self, SystemState};
use cells::Cell;
use collect::Collector;
use items::LaneItems;
use lanes::{Key, Lane, Tables};
use pyramid::Pyramid;
use tile::TileId;

pub use window::WindowTile;

/// Name of the module and of its result, a [`Timeline`], which grows while the pass goes on.
pub const NAME: &str = "timeline";

/// Makes the timeline of a trace.
#[derive(Clone, Copy, Debug)]
pub struct TimelineModule {
    /// Most bytes of the cells that are kept of all traces together.
    pub most_bytes: usize,
    /// Bytes of events of all traces ([`Source::event_bytes`]): a trace may use its part of the room. 0: there is one
    /// trace.
    pub of_events: u64,
}

impl Default for TimelineModule {
    fn default() -> Self {
        // Some 8 to 12 million cells.
        TimelineModule { most_bytes: 64 << 20, of_events: 0 }
    }
}

/// About how many bytes an event of a trace takes.
const EVENT_BYTES: u64 = 24;

/// Of one hundred parts of the room those that a trace has at least, however small it is.
const LEAST_PERCENT: usize = 2;

impl TimelineModule {
    /// For several traces that share the room.
    pub fn shared<'s>(sources: impl IntoIterator<Item = &'s dyn Source>) -> TimelineModule {
        let of_events =
            sources.into_iter().fold(0, |sum: u64, source| sum.saturating_add(source.event_bytes()));
        TimelineModule { of_events, ..TimelineModule::default() }
    }

    /// Most bytes of the cells of this trace.
    pub fn room_for(&self, source: &dyn Source) -> usize {
        if self.of_events == 0 {
            return self.most_bytes;
        }
        let most = u128::try_from(self.most_bytes).unwrap_or(u128::MAX >> 64);
        let part = most * u128::from(source.event_bytes().min(self.of_events)) / u128::from(self.of_events);
        usize::try_from(part).unwrap_or(self.most_bytes).max(self.most_bytes / 100 * LEAST_PERCENT)
    }
}

/// The cells of a lane in a tile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneTile {
    /// Number of the lane.
    pub lane: usize,
    /// Its cells in order of time; buckets without anything have none.
    pub cells: Vec<Cell>,
}

/// What lanes show in a tile; lanes that show nothing are absent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tile {
    /// Which one.
    pub id: TileId,
    /// Nothing of it will change.
    pub is_final: bool,
    /// States in it began unknown where a seek came before the states were computed.
    pub is_partial: bool,
    /// The lanes, by number.
    pub lanes: Vec<LaneTile>,
}

impl Tile {
    fn from_pyramid(pyramid: &Pyramid, lanes: usize, id: TileId, now: Time) -> Tile {
        let read = (0..lanes).map(|lane| LaneTile { lane, cells: pyramid.read(lane, id, now) });
        let lanes = read.filter(|lane| !lane.cells.is_empty()).collect();
        Tile { id, is_final: false, is_partial: false, lanes }
    }
}

/// The timeline of a trace, as far as it is computed. May be read at any time.
pub struct Timeline {
    source: Arc<dyn Source>,
    tables: Arc<Mutex<Tables>>,
    pass: Mutex<Pass>,
    /// The items by lane, where the source gives them so.
    items: Option<Arc<dyn LaneItems>>,
}

struct Pass {
    collector: Collector,
    is_whole: bool,
}

impl Timeline {
    fn new(source: &Arc<dyn Source>, most_bytes: usize) -> Timeline {
        let tables = Arc::default();
        let events = source.event_bytes() / EVENT_BYTES;
        let pyramid = Pyramid::whole(most_bytes, events, source.time_span());
        let collector = Collector::new(source.as_ref(), &tables, pyramid);
        let timeline = Timeline::from_source(source, tables, collector);
        let begin = source.time_span().map_or(Time(0), |span| span.0);
        timeline.pass().collector.begin_unknown(begin);
        timeline
    }

    /// With lanes, names and cells that were computed before.
    fn with_tables(source: &Arc<dyn Source>, tables: &Arc<Mutex<Tables>>, pyramid: Pyramid) -> Timeline {
        let collector = Collector::new(source.as_ref(), tables, pyramid);
        Timeline::from_source(source, tables.clone(), collector)
    }

    fn from_source(source: &Arc<dyn Source>, tables: Arc<Mutex<Tables>>, collector: Collector) -> Timeline {
        let pass = Mutex::new(Pass { collector, is_whole: false });
        Timeline { source: source.clone(), tables, pass, items: None }
    }

    fn pass(&self) -> MutexGuard<'_, Pass> {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lanes known by now; a lane keeps its number.
    pub fn lanes(&self) -> Vec<Lane> {
        self.tables().lanes().to_vec()
    }

    /// What a key stands for; none for a number that is no key.
    pub fn meaning(&self, key: u32) -> Option<Key> {
        self.tables().meaning(key)
    }

    /// The finest level that is kept; tiles below it need a [`WindowTile`].
    pub fn base(&self) -> u32 {
        self.pass().collector.pyramid.base()
    }

    /// Time up to which the pass has come.
    pub fn computed_to(&self) -> Time {
        self.pass().collector.at
    }

    /// Whether the pass has seen the whole trace.
    pub fn is_whole(&self) -> bool {
        self.pass().is_whole
    }

    /// Events counted so far; those without a time, which are in no lane.
    pub fn events(&self) -> (u64, u64) {
        let pass = self.pass();
        (pass.collector.events, pass.collector.untimed)
    }

    /// Cells that are kept.
    pub fn stored(&self) -> usize {
        self.pass().collector.pyramid.stored()
    }

    /// Drops the finest levels until the cells take at most so many bytes. For a timeline that was kept when it had
    /// more room.
    pub fn keep_to(&self, most_bytes: usize) {
        self.pass().collector.pyramid.keep_to(most_bytes);
    }

    /// Bytes that they take.
    pub fn size(&self) -> usize {
        self.pass().collector.pyramid.size()
    }

    /// A tile as far as it is computed. None: it is finer than the base level, and only a [`WindowTile`] can tell.
    pub fn tile(&self, id: TileId) -> Option<Tile> {
        let Some(tile) = self.tile_of_pass(id) else { return self.tile_from_items(id, true) };
        let ahead = if tile.is_final { None } else { self.tile_from_items(id, false) };
        Some(ahead.unwrap_or(tile))
    }

    fn tile_of_pass(&self, id: TileId) -> Option<Tile> {
        let lanes = self.tables().lanes().len();
        let pass = self.pass();
        let pyramid = &pass.collector.pyramid;
        if id.level() < pyramid.base() {
            return None;
        }
        let mut tile = Tile::from_pyramid(pyramid, lanes, id, pass.collector.at);
        tile.is_final = pass.is_whole || id.end() <= pass.collector.at;
        Some(tile)
    }

    fn event(&self, call: &lttv_engine::call::EventCall<'_>) {
        self.pass().collector.event(&call.event, call.state::<SystemState>());
    }

    fn finish(&self) {
        let mut pass = self.pass();
        let end = self.source.time_span().map_or(pass.collector.at, |span| span.1);
        let end = end.max(pass.collector.at);
        pass.collector.pyramid.finish(end);
        pass.collector.at = end;
        pass.is_whole = true;
    }
}

const EVENT: HookKey = HookKey { function: 0x7469_6c65, data: 0 };
const BORDER: HookKey = HookKey { function: 0x7469_6c65, data: 1 };

impl Module for TimelineModule {
    fn name(&self) -> &str {
        NAME
    }

    fn prerequisites(&self) -> &[&str] {
        &[state::NAME]
    }

    fn hooks(&self, source: &Arc<dyn Source>) -> ModuleHooks {
        let timeline = Arc::new(Timeline::new(source, self.room_for(source.as_ref())));
        let mut hooks = ModuleHooks::default();
        let to = timeline.clone();
        let event = Hook::event(EVENT, PRIORITY_STATS_AFTER, move |call| {
            to.event(call);
            Flow::Go
        });
        let border = Hook::border(BORDER, PRIORITY_DEFAULT, move |call| {
            if call.reason == Some(&EndReason::Completed) {
                timeline.finish();
            }
            // A pass that did not come to its end leaves nothing.
            if let Some(own) = call.own.as_deref_mut()
                && matches!(call.reason, None | Some(EndReason::Completed))
            {
                own.publish(NAME, timeline.clone());
            }
            Flow::Go
        });
        let added = hooks
            .event
            .add(event)
            .and(hooks.hook_adder.add(border.clone()))
            .and(hooks.hook_remover.add(border));
        debug_assert!(added.is_ok(), "the lists were empty");
        hooks
    }
}
