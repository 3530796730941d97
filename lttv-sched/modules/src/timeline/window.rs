//! One tile by a foreground request: what is finer than the pyramid keeps.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lttv_engine::call::EndReason;
use lttv_engine::hooks::{Flow, Hook, HookKey, PRIORITY_DEFAULT, PRIORITY_STATS_AFTER};
use lttv_engine::request::EventsRequest;
use lttv_engine::time::Time;

use super::collect::Collector;
use super::pyramid::Pyramid;
use super::tile::TileId;
use super::{Tile, Timeline};
use crate::state::SystemState;

/// A tile that a request fills. Clones are the same tile.
#[derive(Clone)]
pub struct WindowTile {
    inner: Arc<Mutex<Inner>>,
    timeline: Arc<Timeline>,
    id: TileId,
}

struct Inner {
    filled: Filled,
    is_partial: bool,
    ended: Option<EndReason>,
}

/// Tables of a collector are many times larger than a tile: they go when the request has ended.
enum Filled {
    Yet(Box<Collector>),
    Whole(Tile),
}

impl WindowTile {
    /// An empty tile of a trace.
    pub fn new(timeline: &Arc<Timeline>, id: TileId) -> WindowTile {
        let source = timeline.source.as_ref();
        let begin = begin_of(timeline, id);
        let pyramid = Pyramid::of_level(id.level());
        let mut collector = Collector::new(source, &timeline.tables, pyramid);
        collector.begin_unknown(begin);
        let inner = Inner { filled: Filled::Yet(Box::new(collector)), is_partial: false, ended: None };
        WindowTile { inner: Arc::new(Mutex::new(inner)), timeline: timeline.clone(), id }
    }

    /// The begin of the part of the tile that lies in the trace.
    fn begin(&self) -> Time {
        begin_of(&self.timeline, self.id)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bounds a request to the tile and adds the hooks that fill it. The request must be limited to the trace with
    /// index `trace` of a traceset that uses the state ([`lttv_engine::engine::Engine::traceset_use_state`]).
    #[must_use]
    pub fn attach(&self, request: EventsRequest, trace: usize) -> EventsRequest {
        let (start, end) = (self.id.start(), self.id.end());
        let mut request = request.only_trace(trace).from_time(start).until_time(end);
        let tile = self.clone();
        let from = self.begin();
        let begin = Hook::border(HookKey::unique(), PRIORITY_DEFAULT, move |call| {
            let context = call.context;
            let mut inner = tile.inner();
            inner.is_partial = context.is_some_and(|context| context.state_is_partial(trace));
            let state = context.and_then(|context| context.state::<SystemState>(trace));
            if let (Some(state), Filled::Yet(collector)) = (state, &mut inner.filled) {
                collector.begin(state, from);
            }
            Flow::Go
        });
        let tile = self.clone();
        let event = Hook::event(HookKey::unique(), PRIORITY_STATS_AFTER, move |call| {
            if let Filled::Yet(collector) = &mut tile.inner().filled {
                collector.event(&call.event, call.state::<SystemState>());
            }
            Flow::Go
        });
        let tile = self.clone();
        let done = Hook::border(HookKey::unique(), PRIORITY_DEFAULT, move |call| {
            tile.finish(call.reason.cloned());
            Flow::Go
        });
        let added = request.before_request.add(begin).and(request.event.add(event));
        let added = added.and(request.after_request.add(done));
        debug_assert!(added.is_ok(), "keys that nobody has yet");
        request
    }

    /// Why the request ended, once it has.
    pub fn ended(&self) -> Option<EndReason> {
        self.inner().ended.clone()
    }

    /// Cells that are kept of it.
    pub fn stored(&self) -> usize {
        match &self.inner().filled {
            Filled::Yet(collector) => collector.pyramid.stored(),
            Filled::Whole(tile) => tile.lanes.iter().map(|lane| lane.cells.len()).sum(),
        }
    }

    fn finish(&self, reason: Option<EndReason>) {
        let lanes = self.timeline.tables().lanes().len();
        let mut inner = self.inner();
        inner.ended = reason;
        if let (Some(EndReason::Completed | EndReason::EndOfTraceset), Filled::Yet(collector)) =
            (&inner.ended, &inner.filled)
        {
            let last = self.timeline.source.time_span().map_or(collector.at, |span| span.1);
            let now = self.id.end().min(last.max(collector.at));
            let mut tile = Tile::from_pyramid(&collector.pyramid, lanes, self.id, now);
            (tile.is_final, tile.is_partial) = (!inner.is_partial, inner.is_partial);
            inner.filled = Filled::Whole(tile);
        }
    }

    /// The tile as far as it is filled.
    pub fn tile(&self) -> Tile {
        let lanes = self.timeline.tables().lanes().len();
        let inner = self.inner();
        match &inner.filled {
            Filled::Whole(tile) => tile.clone(),
            Filled::Yet(collector) => {
                let tile = Tile::from_pyramid(&collector.pyramid, lanes, self.id, collector.at);
                Tile { is_partial: inner.is_partial, ..tile }
            }
        }
    }
}

fn begin_of(timeline: &Timeline, id: TileId) -> Time {
    timeline.source.time_span().map_or(id.start(), |span| span.0.max(id.start()))
}
