//! The traces of a page and what is computed of them: an engine in its own thread, tiles, windows, lists of events.
//!
//! Tiles come from the pyramid of the module `timeline`. What is finer is asked of the engine: a tile that takes
//! longer than [`PATIENCE`] is given as far as it is, and is whole when it is asked for again. A page that has moved
//! on leaves its tiles behind: they are taken back from the engine.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use lttv_engine::call::Event;
use lttv_engine::driver::{Driver, Handle};
use lttv_engine::engine::Engine;
use lttv_engine::hooks::Flow;
use lttv_engine::ids::{OwnerId, TraceId, TracesetId};
use lttv_engine::request::{EventsRequest, StopFlag};
use lttv_engine::source::Source;
use lttv_engine::time::Time;
use lttv_modules::state;
use lttv_modules::stats::{Stats, WindowStats};
use lttv_modules::timeline::lanes::Lane;
use lttv_modules::timeline::tile::TileId;
use lttv_modules::timeline::{self, Tile, Timeline, WindowTile};

use crate::events::{EventRow, EventsAsk, Listed};
use crate::hits::Searches;
use crate::recording::{Recording, SampleSource};

/// How long an answer waits for the engine before it says what there is.
pub const PATIENCE: Duration = Duration::from_millis(100);
/// How long a window's statistics may take.
const LONG_PATIENCE: Duration = Duration::from_secs(10);
/// Tiles of requests that are kept.
const MOST_KEPT: usize = 400;

/// A trace to show.
pub struct Shown {
    /// Its name for people.
    pub name: String,
    /// Its events.
    pub source: Arc<dyn Source>,
    /// The recording that it was made of.
    pub recording: Option<Arc<Recording>>,
    /// Things to know about it: what was lost, what cannot be read, how its clock was shifted.
    pub notes: Vec<String>,
}

impl Shown {
    /// A recording.
    pub fn recording(mut recording: Recording) -> Shown {
        let source = Arc::new(SampleSource::new(&mut recording));
        let (name, notes) = (recording.name.clone(), recording.notes.clone());
        Shown { name, source, recording: Some(Arc::new(recording)), notes }
    }
}

struct Row {
    shown: Shown,
    id: TraceId,
    /// Once its pass has begun.
    timeline: OnceLock<Arc<Timeline>>,
}

/// Whose question it is: which page, and how often that page has moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Asker {
    /// A number that the page chose.
    pub page: u64,
    /// Its generation.
    pub generation: u64,
}

struct Asked {
    tile: WindowTile,
    owner: OwnerId,
    asker: Asker,
    /// When it was asked for last, as a count.
    used: u64,
}

#[derive(Default)]
struct Tiles {
    asked: HashMap<(usize, TileId), Asked>,
    /// The newest generation of each page.
    generations: HashMap<u64, u64>,
    clock: u64,
}

/// What the pages share.
pub struct Store {
    // Dropped before the rest: the engine's thread ends first.
    _driver: Driver,
    engine: Handle,
    traceset: TracesetId,
    traces: Vec<Row>,
    tiles: Mutex<Tiles>,
    /// Raised by each step of the engine that did something.
    steps: Arc<(Mutex<u64>, Condvar)>,
    next_owner: AtomicU64,
    said: Arc<Mutex<Vec<String>>>,
    searches: Searches,
}

/// The owner of what no page can take back.
const HOUSE: OwnerId = OwnerId(1);
/// Most diagnostics that are kept.
const MOST_SAID: usize = 100;

impl Store {
    /// Begins to compute the timelines of traces, in the background.
    ///
    /// # Errors
    /// The system gives no thread; in words: the engine refused something.
    pub fn new(shown: Vec<Shown>) -> Result<Store, String> {
        let mut engine = Engine::default();
        lttv_modules::register_all(&mut engine).map_err(|e| e.to_string())?;
        let traceset = engine.traceset_new();
        let mut traces: Vec<Row> = Vec::new();
        for shown in shown {
            let id = engine.open_source(shown.source.clone());
            if engine.traceset_add(traceset, id).map_err(|e| e.to_string())? {
                traces.push(Row { shown, id, timeline: OnceLock::new() });
            }
        }
        engine.traceset_use_state(traceset, state::NAME).map_err(|e| e.to_string())?;
        for row in &traces {
            engine.request(row.id, timeline::NAME, HOUSE).map_err(|e| e.to_string())?;
        }
        let steps: Arc<(Mutex<u64>, Condvar)> = Arc::default();
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let (stepped, says) = (steps.clone(), said.clone());
        let driver = Driver::spawn(engine, move |progress| {
            let mut said = says.lock().unwrap_or_else(PoisonError::into_inner);
            let room = MOST_SAID.saturating_sub(said.len());
            said.extend(progress.diagnostics.iter().take(room).map(ToString::to_string));
            drop(said);
            *stepped.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            stepped.1.notify_all();
        });
        let driver = driver.map_err(|e| e.to_string())?;
        let engine = driver.handle();
        Ok(Store {
            _driver: driver,
            engine,
            traceset,
            traces,
            tiles: Mutex::default(),
            steps,
            next_owner: AtomicU64::new(HOUSE.0 + 1),
            said,
            searches: Searches::default(),
        })
    }

    /// The traces.
    pub fn traces(&self) -> impl ExactSizeIterator<Item = &Shown> {
        self.traces.iter().map(|row| &row.shown)
    }

    /// The trace with this index.
    pub fn trace(&self, index: usize) -> Option<&Shown> {
        self.traces.get(index).map(|row| &row.shown)
    }

    /// First and last time of all traces; a span of one microsecond if no trace has an event.
    pub fn span(&self) -> (i64, i64) {
        let spans = self.traces().filter_map(|shown| shown.source.time_span());
        let span = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let (from, to) = span.map_or((0, 0), |(from, to)| (from.ns(), to.ns()));
        (from, to.saturating_add(1).max(from.saturating_add(1000)))
    }

    /// What was wrong so far, in words.
    pub fn said(&self) -> Vec<String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The timeline of a trace, once its pass has begun.
    pub fn timeline(&self, trace: usize) -> Option<Arc<Timeline>> {
        let row = self.traces.get(trace)?;
        if let Some(known) = row.timeline.get() {
            return Some(known.clone());
        }
        let id = row.id;
        let found =
            self.engine.call(move |engine| engine.trace(id)?.data().result::<Timeline>(timeline::NAME));
        let found = found.ok().flatten()?;
        Some(row.timeline.get_or_init(|| found).clone())
    }

    /// The lanes of a trace, as far as they are known.
    pub fn lanes(&self, trace: usize) -> Vec<Lane> {
        self.timeline(trace).map_or_else(Vec::new, |timeline| timeline.lanes())
    }

    /// Whether all passes have ended.
    pub fn is_whole(&self) -> bool {
        (0..self.traces.len()).all(|trace| self.timeline(trace).is_some_and(|timeline| timeline.is_whole()))
    }

    /// Waits until all passes have ended; false when that takes longer.
    pub fn wait_until_whole(&self, patience: Duration) -> bool {
        self.wait(patience, || self.is_whole())
    }

    fn tiles(&self) -> MutexGuard<'_, Tiles> {
        self.tiles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owner(&self) -> OwnerId {
        OwnerId(self.next_owner.fetch_add(1, Ordering::Relaxed))
    }

    /// A tile of a trace, final or as far as it is. None: the page that asks has moved on since.
    pub fn tile(&self, trace: usize, id: TileId, asker: Asker) -> Option<Tile> {
        let empty = |is_final| Tile { id, is_final, is_partial: false, lanes: Vec::new() };
        let Some(shown) = self.trace(trace) else { return Some(empty(true)) };
        let outside = shown.source.time_span().is_none_or(|(from, to)| id.end() <= from || id.start() > to);
        if outside {
            return Some(empty(true));
        }
        let Some(timeline) = self.timeline(trace) else { return Some(empty(false)) };
        if let Some(tile) = timeline.tile(id) {
            return Some(tile);
        }
        let asked = self.ask(trace, id, &timeline, asker)?;
        self.wait(PATIENCE, || asked.ended().is_some());
        Some(asked.tile())
    }

    /// The request for a tile: the one under way, or a new one.
    fn ask(&self, trace: usize, id: TileId, timeline: &Arc<Timeline>, asker: Asker) -> Option<WindowTile> {
        let mut tiles = self.tiles();
        let newest = tiles.generations.entry(asker.page).or_default();
        if *newest > asker.generation {
            return None;
        }
        let moved = *newest < asker.generation;
        *newest = asker.generation;
        tiles.clock += 1;
        let used = tiles.clock;
        let known = match tiles.asked.get_mut(&(trace, id)) {
            // What began with an unknown state is done again once the states are there.
            Some(asked) if !(asked.tile.tile().is_partial && timeline.is_whole()) => {
                (asked.asker, asked.used) = (asker, used);
                Some(asked.tile.clone())
            }
            _ => None,
        };
        if moved {
            self.leave_behind(&mut tiles, asker);
        }
        if known.is_some() {
            return known;
        }
        let (tile, owner) = (WindowTile::new(timeline, id), self.owner());
        let request = tile.attach(EventsRequest::new(owner), trace);
        let traceset = self.traceset;
        let sent = self.engine.send(move |engine| drop(engine.events_request(traceset, request)));
        sent.ok()?;
        tiles.asked.insert((trace, id), Asked { tile: tile.clone(), owner, asker, used });
        if tiles.asked.len() > MOST_KEPT {
            let oldest = tiles.asked.iter().min_by_key(|(_, asked)| asked.used).map(|(key, _)| *key);
            oldest.into_iter().for_each(|key| self.take_back(&mut tiles, &key));
        }
        Some(tile)
    }

    /// Takes back what a page asked for before it moved, unless it has come to its end.
    fn leave_behind(&self, tiles: &mut Tiles, asker: Asker) {
        let of_before = |asked: &Asked| {
            asked.asker.page == asker.page
                && asked.asker.generation < asker.generation
                && asked.tile.ended().is_none()
        };
        let left: Vec<_> = tiles.asked.iter().filter(|(_, a)| of_before(a)).map(|(key, _)| *key).collect();
        left.iter().for_each(|key| self.take_back(tiles, key));
    }

    fn take_back(&self, tiles: &mut Tiles, key: &(usize, TileId)) {
        let Some(asked) = tiles.asked.remove(key) else { return };
        let (traceset, owner) = (self.traceset, asked.owner);
        // An engine that is gone has nothing to take back.
        let _ = self.engine.send(move |engine| drop(engine.remove_all(traceset, owner)));
    }

    fn steps(&self) -> MutexGuard<'_, u64> {
        self.steps.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something holds. It is looked at after each step of the engine, while no lock is held.
    fn wait(&self, patience: Duration, done: impl Fn() -> bool) -> bool {
        let until = Instant::now() + patience;
        loop {
            let seen = *self.steps();
            if done() {
                return true;
            }
            let mut steps = self.steps();
            while *steps == seen {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return false;
                }
                steps = self.steps.1.wait_timeout(steps, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// Statistics of each trace in [from, to), each in its own span. None: it took too long.
    pub fn statistics(&self, from: i64, to: i64) -> Option<Vec<Stats>> {
        let (first, last) = self.span();
        let (from, to) = (Time(from.clamp(first, last)), Time(to.clamp(first, last)));
        let stats = WindowStats::new(self.traces.iter().map(|row| &row.shown.source));
        let request = EventsRequest::new(self.owner()).from_time(from).until_time(to);
        let ended = self.submit(stats.attach(request, from, to), LONG_PATIENCE);
        ended.then(|| stats.take())
    }

    /// Serves a request; false when it did not come to its end in time and was taken back.
    fn submit(&self, request: EventsRequest, patience: Duration) -> bool {
        let (owner, traceset) = (request.owner, self.traceset);
        let (tell, told) = channel();
        let request = request.on_end(move |_| {
            // Who asked may have given up.
            let _ = tell.send(());
            Flow::Go
        });
        if self.engine.send(move |engine| drop(engine.events_request(traceset, request))).is_err() {
            return false;
        }
        let ended = told.recv_timeout(patience).is_ok();
        if !ended {
            let _ = self.engine.send(move |engine| drop(engine.remove_all(traceset, owner)));
        }
        ended
    }

    pub(crate) fn searches(&self) -> &Searches {
        &self.searches
    }

    /// Calls `look` with each event of all traces, in order of time; false when that took too long and was ended.
    pub(crate) fn each_event(&self, mut look: impl FnMut(&Event<'_>) + Send + 'static) -> bool {
        let (first, last) = self.span();
        let request = EventsRequest::new(self.owner()).from_time(Time(first)).until_time(Time(last));
        let request = request.on_event(move |call| {
            look(&call.event);
            Flow::Go
        });
        self.submit(request, LONG_PATIENCE)
    }

    /// Events from a time on.
    pub fn events(&self, ask: &EventsAsk) -> Listed {
        let rows: Arc<Mutex<Vec<EventRow>>> = Arc::default();
        let mut request = EventsRequest::new(self.owner()).from_time(Time(ask.from)).until_time(Time(ask.to));
        let stop = StopFlag::new();
        request.stop_flag = stop.clone();
        let (to, ask_of) = (rows.clone(), ask.clone());
        let mut skip = ask.skip;
        let request = request.on_event(move |call| {
            if !ask_of.wants(&call.event) {
                return Flow::Go;
            }
            if skip > 0 && call.time.ns() == ask_of.from {
                skip -= 1;
                return Flow::Go;
            }
            let mut rows = to.lock().unwrap_or_else(PoisonError::into_inner);
            rows.push(EventRow::of(&call.event));
            if rows.len() > ask_of.most {
                stop.set();
            }
            Flow::Go
        });
        let is_whole = self.submit(request, LONG_PATIENCE);
        let rows = std::mem::take(&mut *rows.lock().unwrap_or_else(PoisonError::into_inner));
        Listed::new(rows, ask, is_whole)
    }
}
