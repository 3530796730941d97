//! The engine: traces, tracesets, modules and requests behind one set of commands. [`Engine::step`] does the work.
//!
//! It has no I/O of its own, no clock (unless a budget has a deadline) and no thread: the same commands at the same
//! turns give the same calls in the same order. Client commands take effect at once, between turns; commands of hooks
//! take effect at the next chunk border. Foreground work goes before background work. One turn is one chunk.
//!
//! The commands are grouped by subject in `traces`, `tracesets`, `requests`, `modules`, `background`. This file has
//! the types and the driver.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::attribute::Attribute;
use crate::call::{Command, Commands};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::foreground::Traceset;
use crate::ids::{TraceId, TracesetId};
use crate::module::{ModuleError, ModuleTable};
use crate::pass::Saving;
use crate::position::WrongTraceset;
use crate::request::Ended;
use crate::source::{ReadError, Source};
use crate::trace::Trace;
use crate::turn::{Env, Turn};
use rustc_hash::FxHashSet;

/// Sizes and switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Most events in a chunk; none for no limit. Results do not depend on it.
    pub chunk_events: Option<u64>,
    /// Events between saved states, at least 1.
    pub save_interval: u64,
    /// Most saved states of a module and trace. Beyond that, every other one is dropped and the interval doubles.
    pub most_saved_states: usize,
    /// After this many foreground turns in a row one background chunk is served, if there is one. None: the
    /// foreground may hold up the background for ever.
    pub background_after: Option<u32>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            chunk_events: Some(6000),
            save_interval: 50_000,
            most_saved_states: 1000,
            background_after: None,
        }
    }
}

/// How much [`Engine::step`] may do before it returns.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Turns, that is chunks.
    pub chunks: u32,
    /// Most events delivered. Chunks are cut so that there are no more.
    pub events: Option<u64>,
    /// No turn begins after this instant.
    pub until: Option<Instant>,
}

impl Budget {
    /// A budget of this many chunks.
    pub fn chunks(chunks: u32) -> Budget {
        Budget { chunks, events: None, until: None }
    }
}

/// What a step did.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Chunks of foreground work.
    pub foreground_chunks: u32,
    /// Chunks of background work.
    pub background_chunks: u32,
    /// Events delivered.
    pub events_read: u64,
    /// Events read again to bring states up to date.
    pub events_replayed: u64,
    /// Seeks of whole contexts.
    pub seeks: u64,
    /// Calls of event hooks.
    pub hook_calls: u64,
    /// Nothing can be done until a command comes, a gate opens, or the engine is enabled.
    pub idle: bool,
    /// Requests that ended since the last step, except silent removals.
    pub ended: Vec<Ended>,
    /// Errors since the last step.
    pub diagnostics: Vec<Diagnostic>,
}

/// Answer to a background request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Computed already.
    AlreadyReady,
    /// The running pass computes it.
    InProgress,
    /// It already waits for the next pass.
    AlreadyQueued,
    /// It now waits for the next pass.
    Queued,
}

/// Answer to a notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notified {
    /// Its module was ready, so it has been called.
    Called,
    /// It will be called.
    Waiting,
}

/// Why a command was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// There is no such traceset (any more).
    #[error("no such traceset")]
    NoTraceset,
    /// There is no such trace (any more).
    #[error("no such trace")]
    NoTrace,
    /// A request has neither a start time nor a start position.
    #[error("the request has no start")]
    NoStart,
    /// A request names a trace that the traceset does not have.
    #[error("the traceset has {count} traces, none with index {index}")]
    NoSuchIndex {
        /// The index in the request.
        index: usize,
        /// Number of traces.
        count: usize,
    },
    /// A position belongs to another traceset.
    #[error(transparent)]
    WrongTraceset(#[from] WrongTraceset),
    /// An error about modules.
    #[error(transparent)]
    Module(#[from] ModuleError),
    /// A notification for a pass that is neither running nor waiting.
    #[error("module {0} is not being computed and does not wait for it")]
    NoPass(String),
    /// The module has no state model.
    #[error("module {0} has no state model")]
    NoModel(String),
}

/// Why a trace could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The path cannot be resolved.
    #[error("{path}: {error}")]
    Path {
        /// The path as it was given.
        path: std::path::PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// The path has no format that this engine knows.
    #[error("{0}: not a trace of a known format")]
    UnknownFormat(std::path::PathBuf),
    /// The format is known, but the trace is unreadable.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Makes a source of a path if it has the opener's format, otherwise none.
pub type Opener = Box<dyn Fn(&Path) -> Result<Option<Arc<dyn Source>>, ReadError> + Send>;

/// See the module's documentation.
pub struct Engine {
    pub(crate) config: Config,
    pub(crate) traces: BTreeMap<TraceId, Trace>,
    pub(crate) tracesets: BTreeMap<TracesetId, Traceset>,
    pub(crate) modules: ModuleTable,
    openers: Vec<Opener>,
    attributes: Attribute,
    commands: Commands,
    attention: Arc<AtomicBool>,
    disabled: u32,
    next_id: u64,
    last_traceset: Option<TracesetId>,
    last_trace: Option<TraceId>,
    foreground_run: u32,
    pub(crate) accepted: u64,
    pub(crate) silent: u64,
    pub(crate) ended_total: u64,
    pub(crate) ended: Vec<Ended>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    reported: FxHashSet<String>,
    hook_calls: u64,
    /// Counts of contexts that are gone: events read, events replayed, seeks.
    retired: (u64, u64, u64),
}

/// Most diagnostics that are remembered so that each is reported once. Beyond that they are reported again.
const MOST_REPORTED: usize = 10_000;

macro_rules! env {
    ($engine:ident, $chunk:expr) => {
        Env {
            traces: &$engine.traces,
            commands: &mut $engine.commands,
            chunk: $chunk,
            attention: &$engine.attention,
            diagnostics: &mut $engine.diagnostics,
            ended: &mut $engine.ended,
            hook_calls: &mut $engine.hook_calls,
        }
    };
}

mod background;
mod modules;
mod requests;
mod traces;
mod tracesets;

impl Default for Engine {
    fn default() -> Self {
        Engine::new(Config::default())
    }
}

impl Engine {
    /// An engine with nothing open.
    pub fn new(config: Config) -> Engine {
        Engine {
            config,
            traces: BTreeMap::new(),
            tracesets: BTreeMap::new(),
            modules: ModuleTable::default(),
            openers: Vec::new(),
            attributes: Attribute::new(),
            commands: Commands::default(),
            attention: Arc::new(AtomicBool::new(false)),
            disabled: 0,
            next_id: 0,
            last_traceset: None,
            last_trace: None,
            foreground_run: 0,
            accepted: 0,
            silent: 0,
            ended_total: 0,
            ended: Vec::new(),
            diagnostics: Vec::new(),
            reported: FxHashSet::default(),
            hook_calls: 0,
            retired: (0, 0, 0),
        }
    }

    /// The sizes in use.
    pub fn config(&self) -> Config {
        self.config
    }

    /// If another thread sets it, the running chunk ends after the current event. The engine clears it.
    pub fn attention(&self) -> Arc<AtomicBool> {
        self.attention.clone()
    }

    /// Global attributes: `traces/<id>/path` for each open trace. Modules are not in it. They are registered and
    /// requested, and answer, through the engine's methods, whose types say more than a path can.
    pub fn attributes(&self) -> &Attribute {
        &self.attributes
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Stops all work until [`Engine::enable`] was called equally often. Commands are still accepted.
    pub fn disable(&mut self) {
        self.disabled += 1;
    }

    /// Reverts one [`Engine::disable`].
    pub fn enable(&mut self) {
        self.disabled = self.disabled.saturating_sub(1);
    }

    /// Whether a step would do something.
    pub fn has_work(&self) -> bool {
        self.disabled == 0
            && (!self.commands.is_empty()
                || self.tracesets.values().any(Traceset::has_work)
                || self.traces.values().any(|trace| trace.background.has_work()))
    }

    /// Steps until nothing is left to do, and returns the number of events delivered. For programs that do nothing
    /// else meanwhile.
    pub fn run_until_idle(&mut self) -> u64 {
        let mut events = 0;
        loop {
            let progress = self.step(Budget::chunks(1));
            events += progress.events_read;
            if progress.idle {
                return events;
            }
        }
    }

    /// Works, one chunk per turn, until the budget is used up or nothing is left. Never blocks.
    pub fn step(&mut self, budget: Budget) -> Progress {
        let before = self.totals();
        let mut progress = Progress::default();
        let mut left = budget.events;
        // Commands that hooks issued while other commands were applied between steps.
        self.run_commands();
        for _ in 0..budget.chunks {
            let late = budget.until.is_some_and(|until| Instant::now() >= until);
            if late || left == Some(0) || self.disabled > 0 {
                break;
            }
            // Acquire, paired with Release where it is set: this turn sees what was done before the flag was set.
            self.attention.swap(false, Ordering::Acquire);
            let chunk = self.config.chunk_events.into_iter().chain(left).min().map(|events| events.max(1));
            let turn = self.turn(chunk, &mut progress);
            self.run_commands();
            match turn {
                Turn::Served(count) => left = left.map(|left| left.saturating_sub(count)),
                Turn::Nothing => break,
            }
        }
        progress.idle = !self.has_work();
        let after = self.totals();
        progress.events_read = after.0 - before.0;
        progress.events_replayed = after.1 - before.1;
        progress.seeks = after.2 - before.2;
        progress.hook_calls = after.3 - before.3;
        progress.ended = std::mem::take(&mut self.ended);
        self.ended_total += progress.ended.len() as u64;
        progress.diagnostics = self.take_diagnostics();
        progress
    }

    /// Serves one chunk: foreground before background, round robin within each.
    fn turn(&mut self, chunk: Option<u64>, progress: &mut Progress) -> Turn {
        let traceset =
            next_after(self.last_traceset, self.tracesets.values().filter(|t| t.has_work()).map(|t| t.id));
        let waiting = self.traces.values().filter(|trace| trace.background.has_work());
        let trace = next_after(self.last_trace, waiting.map(|trace| trace.id));
        let starved = self.config.background_after.is_some_and(|most| self.foreground_run >= most);
        match (traceset, trace) {
            (Some(id), None) => self.foreground_turn(id, chunk, progress),
            (Some(id), Some(_)) if !starved => self.foreground_turn(id, chunk, progress),
            (_, Some(id)) => self.background_turn(id, chunk, progress),
            (None, None) => Turn::Nothing,
        }
    }

    fn foreground_turn(&mut self, id: TracesetId, chunk: Option<u64>, progress: &mut Progress) -> Turn {
        self.last_traceset = Some(id);
        let Some(mut traceset) = self.tracesets.remove(&id) else { return Turn::Nothing };
        let turn = traceset.turn(&mut env!(self, chunk));
        self.tracesets.insert(id, traceset);
        if let Turn::Served(_) = turn {
            progress.foreground_chunks += 1;
            self.foreground_run = self.foreground_run.saturating_add(1);
        }
        turn
    }

    fn background_turn(&mut self, id: TraceId, chunk: Option<u64>, progress: &mut Progress) -> Turn {
        self.last_trace = Some(id);
        self.foreground_run = 0;
        let saving = Saving { interval: self.config.save_interval, limit: self.config.most_saved_states };
        let Some(mut trace) = self.traces.remove(&id) else { return Turn::Nothing };
        let turn = trace.background_turn(&self.modules, saving, &mut env!(self, chunk));
        self.traces.insert(id, trace);
        if let Turn::Served(_) = turn {
            progress.background_chunks += 1;
        }
        turn
    }

    /// Applies the commands of hooks. Commands that these issue wait for the next border.
    fn run_commands(&mut self) {
        for command in self.commands.take_all() {
            if let Err(error) = self.apply(command) {
                let kind = DiagnosticKind::Refused(error.to_string());
                self.diagnostics.push(Diagnostic { trace: None, tracefile: None, kind });
            }
        }
    }

    /// Applies a command at once.
    ///
    /// # Errors
    /// Those of the method with its name.
    pub fn apply(&mut self, command: Command) -> Result<(), CommandError> {
        match command {
            Command::EventsRequest { traceset, id, request } => {
                self.commands.reserve(id);
                self.submit(traceset, id, *request)
            }
            Command::Remove { traceset, request } => self.remove(traceset, request).map(drop),
            Command::RemoveAll { traceset, owner } => self.remove_all(traceset, owner).map(drop),
            Command::Stop { traceset } => self.stop(traceset).map(drop),
            Command::Request { trace, module, requester } => {
                self.request(trace, &module, requester).map(drop)
            }
            Command::RequestAndNotify { trace, notify } => self.request_and_notify(trace, notify).map(drop),
            Command::Cancel { trace, module } => self.cancel(trace, &module).map(drop),
            Command::NotifyRemove { owner } => {
                self.notify_remove(owner);
                Ok(())
            }
        }
    }

    /// Totals of all contexts so far: events read, events replayed, seeks, hook calls.
    fn totals(&self) -> (u64, u64, u64, u64) {
        let mut totals = (self.retired.0, self.retired.1, self.retired.2, self.hook_calls);
        for traceset in self.tracesets.values() {
            let counters = traceset.context.counters;
            totals.0 += counters.events_read;
            totals.1 += counters.events_replayed;
            totals.2 += counters.seeks;
        }
        for trace in self.traces.values() {
            totals.0 += trace.background.events_read;
        }
        totals
    }

    fn take_diagnostics(&mut self) -> Vec<Diagnostic> {
        let mut told = std::mem::take(&mut self.diagnostics);
        told.retain(|diagnostic| {
            let text = format!("{:?} {diagnostic}", diagnostic.trace);
            self.reported.len() >= MOST_REPORTED || self.reported.insert(text)
        });
        told
    }
}

/// The first after `last`, round robin.
fn next_after<T: Ord + Copy>(last: Option<T>, all: impl Iterator<Item = T> + Clone) -> Option<T> {
    let after = |candidate: &T| last.is_none_or(|last| *candidate > last);
    all.clone().find(after).or_else(|| all.min())
}
