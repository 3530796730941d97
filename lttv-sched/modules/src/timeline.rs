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

pub mod cells;
mod collect;
pub mod lanes;
pub mod pyramid;
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
use lanes::{Key, Lane, Tables};
use pyramid::Pyramid;
use tile::TileId;

pub use window::WindowTile;

/// Name of the module and of its result, a [`Timeline`], which grows while the pass goes on.
pub const NAME: &str = "timeline";

/// Makes the timeline of a trace.
#[derive(Clone, Copy, Debug)]
pub struct TimelineModule {
    /// Most cells kept of a trace, 40 bytes each.
    pub most_cells: usize,
}

impl Default for TimelineModule {
    fn default() -> Self {
        // 64 MB.
        TimelineModule { most_cells: 1_600_000 }
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
    fn of(pyramid: &Pyramid, lanes: usize, id: TileId, now: Time) -> Tile {
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
}

struct Pass {
    collector: Collector,
    is_whole: bool,
}

impl Timeline {
    fn new(source: &Arc<dyn Source>, most_cells: usize) -> Timeline {
        let tables = Arc::default();
        let begin = source.time_span().map_or(Time(0), |span| span.0);
        let collector = Collector::new(source.as_ref(), &tables, Pyramid::whole(most_cells), begin);
        Timeline { source: source.clone(), tables, pass: Mutex::new(Pass { collector, is_whole: false }) }
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

    /// A tile as far as it is computed; none when it is finer than the base level.
    pub fn tile(&self, id: TileId) -> Option<Tile> {
        let lanes = self.tables().lanes().len();
        let pass = self.pass();
        let pyramid = &pass.collector.pyramid;
        if id.level() < pyramid.base() {
            return None;
        }
        let mut tile = Tile::of(pyramid, lanes, id, pass.collector.at);
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
        let timeline = Arc::new(Timeline::new(source, self.most_cells));
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
