//! The traces of a page and what is computed of them: an engine in its own thread, tiles, windows, lists of events.
//!
//! Tiles come from the pyramid of the module `timeline`. What is finer is asked of the engine: a tile that takes
//! longer than [`PATIENCE`] is given as far as it is, and is whole when it is asked for again. A page that has moved
//! on leaves its tiles behind: they are taken back from the engine.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use pct_icicle::{GroupWeights, Palette};

use lttv_engine::call::Event;
use lttv_engine::driver::{Driver, Handle};
use lttv_engine::engine::Engine;
use lttv_engine::hooks::{Flow, Hook, HookKey, PRIORITY_STATS_BEFORE};
use lttv_engine::ids::{OwnerId, TraceId, TracesetId};
use lttv_engine::kept::Kept;
use lttv_engine::request::{EventsRequest, StopFlag};
use lttv_engine::source::Source;
use lttv_engine::time::Time;
use lttv_modules::state::{self, SystemState};
use lttv_modules::stats::{Stats, WindowStats};
use lttv_modules::timeline::lanes::Lane;
use lttv_modules::timeline::tile::TileId;
use lttv_modules::timeline::{self, Tile, Timeline, TimelineModule, WindowTile};

use crate::events::{EventRow, EventsAsk, Listed, Only};
use crate::hits::Searches;
use crate::kept::KeptTrace;
use crate::lanes::RecordedLanes;
use crate::recording::{Recording, SampleSource};
use crate::steps::{Filling, Steps};

/// How long an answer waits for the engine before it says what there is.
pub const PATIENCE: Duration = Duration::from_millis(100);
/// How long a request over a whole window may take, unless [`Store::patient`] says otherwise.
const LONG_PATIENCE: Duration = Duration::from_secs(10);
/// Tiles of requests that are kept.
const MOST_KEPT: usize = 400;
/// Cells of these tiles that are kept, 56 bytes each: 32 MB.
const MOST_CELLS: usize = 570_000;

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
    /// Where what is computed of it is kept between runs; none: nowhere.
    pub kept: Option<Arc<dyn Kept>>,
}

impl Shown {
    /// A recording.
    pub fn recording(mut recording: Recording) -> Shown {
        let source = Arc::new(SampleSource::new(&mut recording));
        let (name, notes) = (recording.name.clone(), recording.notes.clone());
        Shown { name, source, recording: Some(Arc::new(recording)), notes, kept: None }
    }
}

struct Row {
    shown: Shown,
    id: TraceId,
    /// Once its pass has begun.
    timeline: OnceLock<Arc<Timeline>>,
}

impl Row {
    /// The timeline of a recording, which needs no engine.
    fn begin_recorded(&self, room: &TimelineModule) {
        if let Some(recording) = &self.shown.recording {
            let (source, items) = (&self.shown.source, Arc::new(RecordedLanes::new(recording)));
            let room = room.room_for(source.as_ref());
            self.timeline.get_or_init(|| Arc::new(Timeline::from_items(source, items, room)));
        }
    }
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

/// Tiles that were asked of the engine.
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
    _filling: Filling,
    engine: Handle,
    traceset: TracesetId,
    traces: Vec<Row>,
    tiles: Mutex<Tiles>,
    /// Raised whenever something may have come to its end.
    steps: Arc<Steps>,
    next_owner: AtomicU64,
    said: Arc<Mutex<Vec<String>>>,
    searches: Searches,
    /// How long a request over a whole window may take.
    patience: Duration,
    /// The colours of the functions of all recordings.
    palette: Palette,
}

/// What the thread that keeps results knows of a trace.
struct KeptRow {
    kept: Option<KeptTrace>,
    id: TraceId,
    /// Its timeline was computed by an earlier run.
    is_known: bool,
}

/// Gets the states of traces whose timelines are known, and keeps what passes compute when they end. Both in a thread
/// of its own: files are read and written while pages are answered. The thread ends when there is nothing left to wait
/// for, or the engine is gone.
fn keep_when_whole(passed: Receiver<usize>, rows: Vec<KeptRow>, engine: Handle) {
    if rows.iter().all(|row| row.kept.is_none()) {
        return;
    }
    let keep = move || {
        for row in rows.iter().filter(|row| row.is_known) {
            row.kept.iter().for_each(|kept| kept.begin_states(&engine, row.id, HOUSE));
        }
        for row in passed.iter().filter_map(|at| rows.get(at)) {
            row.kept.iter().for_each(|kept| kept.keep(&engine, row.id));
        }
    };
    // No thread to be had: the next run computes it again.
    drop(std::thread::Builder::new().name("timeline-kept".into()).spawn(keep));
}

/// What each group of functions weighs in all recordings.
fn groups_of<'s>(traces: impl Iterator<Item = &'s Shown>) -> GroupWeights {
    let mut whole = 0u64;
    let mut of: HashMap<String, u64> = HashMap::new();
    for recording in traces.filter_map(|shown| shown.recording.as_ref()) {
        whole = whole.saturating_add(recording.groups.whole);
        for (name, weight) in &recording.groups.of {
            let sum = of.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*weight);
        }
    }
    GroupWeights { whole, of: of.into_iter().collect() }
}

/// Numbers of events by their names.
pub(crate) type ByName = BTreeMap<Box<str>, u64>;

/// A request that calls `look` with each event and the state before it; before a trace's states are computed, with one
/// in which nothing is known.
fn looking_at_each(
    mut request: EventsRequest,
    mut look: impl FnMut(&Event<'_>, &SystemState) + Send + 'static,
) -> EventsRequest {
    let unknown = SystemState::default();
    let hook = Hook::event(HookKey::unique(), PRIORITY_STATS_BEFORE, move |call| {
        look(&call.event, call.state::<SystemState>().unwrap_or(&unknown));
        Flow::Go
    });
    let added = request.event.add(hook);
    debug_assert!(added.is_ok(), "its key is new");
    request
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
        let room = TimelineModule::shared(shown.iter().map(|shown| shown.source.as_ref()));
        lttv_modules::register_with(&mut engine, room).map_err(|e| e.to_string())?;
        let traceset = engine.traceset_new();
        let mut traces: Vec<Row> = Vec::new();
        for shown in shown {
            let id = engine.open_source(shown.source.clone());
            if engine.traceset_add(traceset, id).map_err(|e| e.to_string())? {
                let row = Row { shown, id, timeline: OnceLock::new() };
                row.begin_recorded(&room);
                traces.push(row);
            }
        }
        engine.traceset_use_state(traceset, state::NAME).map_err(|e| e.to_string())?;
        let (to_keep, passed) = channel::<usize>();
        let mut kept: Vec<Option<KeptTrace>> = Vec::new();
        for (at, row) in traces.iter().enumerate() {
            let source = &row.shown.source;
            let of_row = KeptTrace::new(row.shown.kept.as_ref(), source.as_ref());
            let begun = match &of_row {
                None if row.timeline.get().is_some() => Ok(()),
                None => engine.request(row.id, timeline::NAME, HOUSE).map(drop),
                Some(of_row) => match of_row.timeline(source) {
                    Some(known) => {
                        known.keep_to(room.room_for(source.as_ref()));
                        row.timeline.get_or_init(|| Arc::new(known));
                        Ok(())
                    }
                    None => {
                        let to_keep = to_keep.clone();
                        of_row.begin_pass(&mut engine, row.id, HOUSE, move || {
                            // Who keeps may have ended: then nothing is kept.
                            let _ = to_keep.send(at);
                        })
                    }
                },
            };
            begun.map_err(|e| e.to_string())?;
            kept.push(of_row);
        }
        drop(to_keep);
        let palette = Palette::from_weights(&groups_of(traces.iter().map(|row| &row.shown)));
        let steps: Arc<Steps> = Arc::default();
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let (stepped, says) = (steps.clone(), said.clone());
        let driver = Driver::spawn(engine, move |progress| {
            let mut said = says.lock().unwrap_or_else(PoisonError::into_inner);
            let room = MOST_SAID.saturating_sub(said.len());
            said.extend(progress.diagnostics.iter().take(room).map(ToString::to_string));
            drop(said);
            stepped.raise();
        });
        let driver = driver.map_err(|e| e.to_string())?;
        let engine = driver.handle();
        let recorded = traces.iter().filter(|row| row.shown.recording.is_some());
        let recorded = recorded.filter_map(|row| row.timeline.get().cloned()).collect();
        let filling = Filling::begin(recorded, &steps).map_err(|e| e.to_string())?;
        let rows = kept.into_iter().zip(&traces).map(|(kept, row)| KeptRow {
            kept,
            id: row.id,
            is_known: row.timeline.get().is_some(),
        });
        keep_when_whole(passed, rows.collect(), engine.clone());
        Ok(Store {
            _driver: driver,
            _filling: filling,
            engine,
            traceset,
            traces,
            tiles: Mutex::default(),
            steps,
            next_owner: AtomicU64::new(HOUSE.0 + 1),
            said,
            searches: Searches::default(),
            patience: LONG_PATIENCE,
            palette,
        })
    }

    /// Waits so long for a request over a whole window, such as statistics: 10 s are for somebody who looks at a page.
    #[must_use]
    pub fn patient(mut self, patience: Duration) -> Store {
        self.patience = patience;
        self
    }

    /// The colours of the functions of all recordings.
    pub fn palette(&self) -> &Palette {
        &self.palette
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

    /// The time from which times on the page count: the start of the recording that began first, as for `pct report
    /// --from`, or the first time of all traces if that is earlier.
    pub fn origin(&self) -> i64 {
        let first = self.span().0;
        let starts = self.traces().filter_map(|shown| Some(shown.recording.as_ref()?.start_ns));
        starts.filter(|start| (1..=first).contains(start)).min().unwrap_or(first)
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

    pub(crate) fn owner(&self) -> OwnerId {
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
        if id.level() < timeline.base() {
            self.go_to(&mut self.tiles(), id, asker)?;
        }
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
        if known.is_some() {
            return known;
        }
        let (tile, owner) = (WindowTile::new(timeline, id), self.owner());
        let request = tile.attach(EventsRequest::new(owner), trace);
        let traceset = self.traceset;
        let sent = self.engine.send(move |engine| drop(engine.events_request(traceset, request)));
        sent.ok()?;
        self.keep_to_budget(&mut tiles);
        tiles.asked.insert((trace, id), Asked { tile: tile.clone(), owner, asker, used });
        Some(tile)
    }

    /// Lets go of the tiles that were not asked for for longest, as many as are too much.
    fn keep_to_budget(&self, tiles: &mut Tiles) {
        let newest = |a: &(u64, _, usize), b: &(u64, _, usize)| b.0.cmp(&a.0);
        let mut kept: Vec<_> =
            tiles.asked.iter().map(|(key, asked)| (asked.used, *key, asked.tile.stored())).collect();
        kept.sort_unstable_by(newest);
        let (mut count, mut cells) = (0, 0);
        for (_, key, stored) in kept {
            (count, cells) = (count + 1, cells + stored);
            if count >= MOST_KEPT || cells > MOST_CELLS {
                self.take_back(tiles, &key);
            }
        }
    }

    /// A page asks for a tile. If it has moved, what it asked for before and does not ask for now is taken back from
    /// the engine, unless it has come to its end. None: the page has moved on since it asked.
    fn go_to(&self, tiles: &mut Tiles, id: TileId, asker: Asker) -> Option<()> {
        let newest = tiles.generations.entry(asker.page).or_default();
        let before = std::mem::replace(newest, asker.generation.max(*newest));
        if before > asker.generation {
            return None;
        }
        let is_left = |of: TileId, asked: &Asked| {
            of != id
                && asked.asker.page == asker.page
                && asked.asker.generation < asker.generation
                && asked.tile.ended().is_none()
        };
        if before < asker.generation {
            let left = tiles.asked.iter().filter(|(key, asked)| is_left(key.1, asked));
            let left: Vec<_> = left.map(|(key, _)| *key).collect();
            left.iter().for_each(|key| self.take_back(tiles, key));
        }
        Some(())
    }

    fn take_back(&self, tiles: &mut Tiles, key: &(usize, TileId)) {
        let Some(asked) = tiles.asked.remove(key) else { return };
        let (traceset, owner) = (self.traceset, asked.owner);
        // An engine that is gone has nothing to take back.
        let _ = self.engine.send(move |engine| drop(engine.remove_all(traceset, owner)));
    }

    /// Waits until something holds. It is looked at after each step of a pass or a request, while no lock is held.
    fn wait(&self, patience: Duration, done: impl Fn() -> bool) -> bool {
        self.steps.wait(patience, done)
    }

    /// Statistics of each trace in [from, to), each in its own span. None: it took too long.
    pub fn statistics(&self, from: i64, to: i64) -> Option<Vec<Stats>> {
        Some(self.statistics_of(from, to, None)?.0)
    }

    /// The same, and the events of a part of a trace by name, if one is asked for: those that a list of its events has.
    pub(crate) fn statistics_of(
        &self,
        from: i64,
        to: i64,
        only: Option<Only>,
    ) -> Option<(Vec<Stats>, ByName)> {
        let (first, last) = self.span();
        let (from, to) = (Time(from.clamp(first, last)), Time(to.clamp(first, last)));
        let stats = WindowStats::new(self.traces.iter().map(|row| &row.shown.source));
        let mut request = EventsRequest::new(self.owner()).from_time(from).until_time(to);
        let counts: Arc<Mutex<ByName>> = Arc::default();
        if let Some(only) = only {
            let to = counts.clone();
            request = looking_at_each(request, move |event, state| {
                if only.has(event, state) {
                    let mut counts = to.lock().unwrap_or_else(PoisonError::into_inner);
                    match counts.get_mut(event.name()) {
                        Some(count) => *count += 1,
                        None => drop(counts.insert(event.name().into(), 1)),
                    }
                }
            });
        }
        let ended = self.submit(stats.attach(request, from, to));
        let counts = std::mem::take(&mut *counts.lock().unwrap_or_else(PoisonError::into_inner));
        ended.then(|| (stats.take_stats(), counts))
    }

    /// Serves a request; false when it did not come to its end in time and was taken back.
    pub(crate) fn submit(&self, request: EventsRequest) -> bool {
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
        let ended = told.recv_timeout(self.patience).is_ok();
        if !ended {
            let _ = self.engine.send(move |engine| drop(engine.remove_all(traceset, owner)));
        }
        ended
    }

    pub(crate) fn searches(&self) -> &Searches {
        &self.searches
    }

    /// Calls `look` with each event of all traces, in order of time, and the state before it; false when that took too
    /// long and was ended.
    pub(crate) fn each_event(&self, look: impl FnMut(&Event<'_>, &SystemState) + Send + 'static) -> bool {
        let (first, last) = self.span();
        let request = EventsRequest::new(self.owner()).from_time(Time(first)).until_time(Time(last));
        self.submit(looking_at_each(request, look))
    }

    /// Events from a time on.
    pub fn events(&self, ask: &EventsAsk) -> Listed {
        let rows: Arc<Mutex<Vec<EventRow>>> = Arc::default();
        let mut request = EventsRequest::new(self.owner()).from_time(Time(ask.from)).until_time(Time(ask.to));
        let stop = StopFlag::new();
        request.stop_flag = stop.clone();
        let (to, ask_of) = (rows.clone(), ask.clone());
        let mut skip = ask.skip;
        let request = looking_at_each(request, move |event, state| {
            if !ask_of.wants(event, state) {
                return;
            }
            if skip > 0 && event.time.ns() == ask_of.from {
                skip -= 1;
                return;
            }
            let mut rows = to.lock().unwrap_or_else(PoisonError::into_inner);
            rows.push(EventRow::from_event(event, state));
            if rows.len() > ask_of.most {
                stop.set();
            }
        });
        let is_whole = self.submit(request);
        let rows = std::mem::take(&mut *rows.lock().unwrap_or_else(PoisonError::into_inner));
        Listed::new(rows, ask, is_whole)
    }
}
