//! The engine: traces, tracesets, modules and requests behind one set of commands, moved on by [`Engine::step`].
//!
//! No I/O of its own, no clock (unless a budget has a deadline), no thread: the same commands at the same turns give the same
//! calls in the same order. Client commands take effect at once, between turns; what hooks ask for takes effect at the next
//! chunk border. Foreground work goes before background work; one turn is one chunk.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::attribute::{Attribute, AttributeValue};
use crate::background::{BackgroundNotify, BackgroundRequest, Saving};
use crate::call::{BorderFn, Cause, Commands, EndReason};
use crate::context::TracesetContext;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::foreground::{Env, Interval, Traceset, Turn};
use crate::hooks::Hook;
use crate::identity::TraceIdentity;
use crate::ids::{OwnerId, RequestId, TraceId, TracesetId};
use crate::module::{Module, ModuleError, ModuleTable};
use crate::position::{Position, WrongTraceset};
use crate::request::{Accepted, Ended, EventsRequest, Start};
use crate::source::{ReadError, Source};
use crate::time::Time;
use crate::trace::{ModuleStatus, Trace};

/// Sizes and switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Most events in a chunk; none for no limit. Results do not depend on it.
    pub chunk_events: Option<u64>,
    /// Events between saved states, at least 1.
    pub save_interval: u64,
    /// Most saved states of a module and trace; beyond it every other one is dropped and the interval doubles.
    pub most_saved_states: usize,
    /// After so many foreground turns in a row one background chunk is served, if there is one. None: the foreground may hold
    /// up the background for ever.
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
    /// Events delivered; chunks are cut so that there are not more.
    pub events: Option<u64>,
    /// No turn begins after this instant.
    pub until: Option<Instant>,
}

impl Budget {
    /// So many chunks.
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
    /// A trace could not be locked: try again later.
    pub blocked: bool,
    /// Requests that ended since the last step, silent removals excepted.
    pub ended: Vec<Ended>,
    /// What went wrong since the last step.
    pub diagnostics: Vec<Diagnostic>,
}

/// Answer to a background request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Computed already.
    AlreadyReady,
    /// The running pass computes it.
    InProgress,
    /// It waits for the next pass already.
    AlreadyQueued,
    /// It waits for the next pass now.
    Queued,
}

/// Answer to a notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notified {
    /// What it waits for was ready: it has been called.
    Called,
    /// It will be called.
    Waiting,
}

/// Why a command was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// There is no such traceset, or not any more.
    #[error("no such traceset")]
    NoTraceset,
    /// There is no such trace, or not any more.
    #[error("no such trace")]
    NoTrace,
    /// A request has neither a start time nor a start position.
    #[error("the request has no start")]
    NoStart,
    /// A request names a trace that the traceset does not have.
    #[error("the traceset has {count} traces, none with index {index}")]
    NoSuchIndex {
        /// What was asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A position of another traceset.
    #[error(transparent)]
    WrongTraceset(#[from] WrongTraceset),
    /// About modules.
    #[error(transparent)]
    Module(#[from] ModuleError),
    /// A notification for a pass that is neither running nor waiting.
    #[error("module {0} is not being computed and does not wait for it")]
    NoPass(String),
    /// No state model.
    #[error("module {0} has no state model")]
    NoModel(String),
}

/// Why a trace could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The path cannot be resolved.
    #[error("{path}: {error}")]
    Path {
        /// As it was given.
        path: std::path::PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// None of the formats known to this engine.
    #[error("{0}: not a trace of a known format")]
    UnknownFormat(std::path::PathBuf),
    /// Of a known format, but unreadable.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Makes a source of a path if it is of its format, else gives none.
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
    reported: HashSet<String>,
    hook_calls: u64,
    /// What contexts did that are gone: events read, events replayed, seeks.
    retired: (u64, u64, u64),
}

/// Different diagnostics remembered so that each is told once; beyond it they are told again.
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
            reported: HashSet::new(),
            hook_calls: 0,
            retired: (0, 0, 0),
        }
    }

    /// The sizes in force.
    pub fn config(&self) -> Config {
        self.config
    }

    /// Changes the greatest number of events in a chunk.
    pub fn set_chunk_events(&mut self, chunk_events: Option<u64>) {
        self.config.chunk_events = chunk_events;
    }

    /// Set by others to cut the running chunk after the event under way; the engine clears it.
    pub fn attention(&self) -> Arc<AtomicBool> {
        self.attention.clone()
    }

    /// Global attributes.
    pub fn attributes(&self) -> &Attribute {
        &self.attributes
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    // --- traces ----------------------------------------------------------------------------------------------------------

    /// Teaches the engine a format. Openers are tried in the order in which they were added.
    pub fn add_opener(&mut self, opener: Opener) {
        self.openers.push(opener);
    }

    /// Opens a trace, or gives another handle to the open instance if it is open under any of its names.
    ///
    /// # Errors
    /// The path cannot be resolved, is of no known format, or unreadable.
    pub fn open(&mut self, path: &Path) -> Result<TraceId, OpenError> {
        let identity = TraceIdentity::of_path(path)
            .map_err(|error| OpenError::Path { path: path.to_path_buf(), error })?;
        if let Some(id) = self.find(&identity) {
            return Ok(self.retain(id));
        }
        for opener in &self.openers {
            if let Some(source) = opener(identity.path())? {
                return Ok(self.open_source(source));
            }
        }
        Err(OpenError::UnknownFormat(path.to_path_buf()))
    }

    /// Takes an open source, or gives another handle to the open instance of the same identity.
    pub fn open_source(&mut self, source: Arc<dyn Source>) -> TraceId {
        if let Some(id) = self.find(source.identity()) {
            return self.retain(id);
        }
        let id = TraceId(self.id());
        for warning in source.warnings() {
            let kind = DiagnosticKind::Source(warning);
            self.diagnostics.push(Diagnostic { trace: Some(id), tracefile: None, kind });
        }
        let name = source.identity().path().display().to_string();
        let mut entry = Attribute::new();
        entry.set("path", AttributeValue::String(name));
        if let Some(traces) = self.attributes.find_subdir("traces") {
            traces.set(id.0, AttributeValue::Tree(entry));
        }
        self.traces.insert(id, Trace::new(id, source));
        self.retain(id)
    }

    fn retain(&mut self, id: TraceId) -> TraceId {
        if let Some(trace) = self.traces.get_mut(&id) {
            trace.handles += 1;
        }
        id
    }

    /// The open instance of an identity.
    pub fn find(&self, identity: &TraceIdentity) -> Option<TraceId> {
        self.traces.values().find(|trace| trace.source.identity().is_same(identity)).map(|trace| trace.id)
    }

    /// Gives back one handle. The trace closes when no handle and no traceset refers to it any more.
    ///
    /// # Errors
    /// There is no such trace, or no handle was out.
    pub fn close(&mut self, id: TraceId) -> Result<(), CommandError> {
        let trace = self.traces.get_mut(&id).ok_or(CommandError::NoTrace)?;
        trace.handles = trace.handles.checked_sub(1).ok_or(CommandError::NoTrace)?;
        self.close_if_unused(id);
        Ok(())
    }

    fn close_if_unused(&mut self, id: TraceId) {
        if self.traces.get(&id).is_none_or(|trace| trace.references() > 0) {
            return;
        }
        if let Some(mut trace) = self.traces.remove(&id) {
            self.retired.0 += trace.background.events_read;
            trace.end_background(&self.modules, &EndReason::TraceClosed, &mut env!(self, None));
            if let Some(traces) = self.attributes.find_subdir("traces") {
                traces.remove(id.0);
            }
        }
    }

    /// An open trace.
    pub fn trace(&self, id: TraceId) -> Option<&Trace> {
        self.traces.get(&id)
    }

    /// The open traces.
    pub fn traces(&self) -> impl Iterator<Item = &Trace> {
        self.traces.values()
    }

    // --- tracesets -------------------------------------------------------------------------------------------------------

    /// An empty traceset.
    pub fn traceset_new(&mut self) -> TracesetId {
        let id = TracesetId(self.id());
        self.tracesets.insert(id, Traceset::new(id));
        id
    }

    /// A traceset.
    pub fn traceset(&self, id: TracesetId) -> Option<&Traceset> {
        self.tracesets.get(&id)
    }

    /// Tracesets that have requests, the ones whose scheduler is registered.
    pub fn registered(&self) -> impl Iterator<Item = TracesetId> {
        self.tracesets.values().filter(|traceset| traceset.pending() > 0).map(|traceset| traceset.id)
    }

    /// Attributes of a traceset, to change them.
    pub fn traceset_attributes(&mut self, id: TracesetId) -> Option<&mut Attribute> {
        self.tracesets.get_mut(&id).map(|traceset| &mut traceset.attributes)
    }

    /// Appends a trace to a traceset; false when it is in it already. Invalidates positions of the traceset.
    ///
    /// # Errors
    /// There is no such trace or traceset.
    pub fn traceset_add(&mut self, id: TracesetId, trace: TraceId) -> Result<bool, CommandError> {
        let traceset = self.tracesets.get(&id).ok_or(CommandError::NoTraceset)?;
        let added = self.traces.get_mut(&trace).ok_or(CommandError::NoTrace)?;
        if traceset.context.traces.iter().any(|context| context.id == trace) {
            return Ok(false);
        }
        added.tracesets += 1;
        let mut list: Vec<TraceId> = traceset.context.traces.iter().map(|context| context.id).collect();
        list.push(trace);
        self.rebuild(id, &list);
        Ok(true)
    }

    /// Takes a trace out of a traceset; false when it is not in it. Invalidates positions of the traceset. Other tracesets and
    /// background work do not notice, unless this was the last reference to the trace.
    ///
    /// # Errors
    /// There is no such traceset.
    pub fn traceset_remove(&mut self, id: TracesetId, trace: TraceId) -> Result<bool, CommandError> {
        let traceset = self.tracesets.get(&id).ok_or(CommandError::NoTraceset)?;
        let mut list: Vec<TraceId> = traceset.context.traces.iter().map(|context| context.id).collect();
        let before = list.len();
        list.retain(|other| *other != trace);
        if list.len() == before {
            return Ok(false);
        }
        self.rebuild(id, &list);
        self.unref(trace);
        Ok(true)
    }

    fn unref(&mut self, trace: TraceId) {
        if let Some(entry) = self.traces.get_mut(&trace) {
            entry.tracesets = entry.tracesets.saturating_sub(1);
        }
        self.close_if_unused(trace);
    }

    fn rebuild(&mut self, id: TracesetId, list: &[TraceId]) {
        let Some(mut traceset) = self.tracesets.remove(&id) else { return };
        let sources: Vec<(TraceId, Arc<dyn Source>)> =
            list.iter().filter_map(|id| Some((*id, self.traces.get(id)?.source.clone()))).collect();
        traceset.rebuild(&sources, &mut env!(self, None));
        for module in traceset.state_modules.clone() {
            self.add_models(&mut traceset.context, &module);
        }
        self.tracesets.insert(id, traceset);
    }

    fn add_models(&self, context: &mut TracesetContext, module: &Arc<str>) -> bool {
        let Some((_, implementation)) = self.modules.get(module) else { return false };
        let mut any = false;
        for trace in 0..context.traces.len() {
            if let Some(model) = implementation.model(&context.traces[trace].source) {
                context.add_model(trace, module, model);
                any = true;
            }
        }
        any
    }

    /// Keeps the state model of a module up to date in a traceset from now on, so that hooks can read it: seeks restore saved
    /// states where the module has computed the trace, else the state is flagged partial.
    ///
    /// # Errors
    /// There is no such traceset or module, or it has no model for any of the traces.
    pub fn traceset_use_state(&mut self, id: TracesetId, module: &str) -> Result<(), CommandError> {
        let (name, _) = self.modules.get(module).ok_or_else(|| ModuleError::Unknown(module.into()))?;
        let name = name.clone();
        let mut traceset = self.tracesets.remove(&id).ok_or(CommandError::NoTraceset)?;
        let known = traceset.state_modules.contains(&name);
        let any =
            known || self.add_models(&mut traceset.context, &name) || traceset.context.traces.is_empty();
        if any && !known {
            traceset.state_modules.push(name);
        }
        self.tracesets.insert(id, traceset);
        if any { Ok(()) } else { Err(CommandError::NoModel(module.into())) }
    }

    /// Closes a traceset: its requests end, its traces lose a reference.
    ///
    /// # Errors
    /// There is no such traceset.
    pub fn traceset_close(&mut self, id: TracesetId) -> Result<(), CommandError> {
        let mut traceset = self.tracesets.remove(&id).ok_or(CommandError::NoTraceset)?;
        traceset.end_where(|_| true, &EndReason::TraceClosed, &mut env!(self, None));
        let counters = traceset.context.counters;
        self.retired.0 += counters.events_read;
        self.retired.1 += counters.events_replayed;
        self.retired.2 += counters.seeks;
        let traces: Vec<TraceId> = traceset.context.traces.iter().map(|trace| trace.id).collect();
        traces.into_iter().for_each(|trace| self.unref(trace));
        Ok(())
    }

    /// The position of the first event with time >= t.
    ///
    /// # Errors
    /// There is no such traceset.
    pub fn position_at(&mut self, id: TracesetId, t: Time) -> Result<Position, CommandError> {
        let traceset = self.tracesets.get_mut(&id).ok_or(CommandError::NoTraceset)?;
        if traceset.context.is_at_time(t) {
            return Ok(traceset.context.position());
        }
        traceset.context.seek_time(t);
        let position = traceset.context.position();
        // Models were not brought along.
        traceset.context.placed = false;
        Ok(position)
    }

    // --- events requests -------------------------------------------------------------------------------------------------

    /// Submits a request. It is served by later steps; its hooks may be called until it has ended.
    ///
    /// # Errors
    /// The request has no start, names a trace that is not there, or a position of another traceset.
    pub fn events_request(
        &mut self,
        id: TracesetId,
        request: EventsRequest,
    ) -> Result<RequestId, CommandError> {
        let request_id = self.commands.allocate();
        self.submit(id, request_id, request)?;
        Ok(request_id)
    }

    pub(crate) fn submit_deferred(&mut self, id: TracesetId, request_id: RequestId, request: EventsRequest) {
        if let Err(error) = self.submit(id, request_id, request) {
            let kind = DiagnosticKind::Refused(error.to_string());
            self.diagnostics.push(Diagnostic { trace: None, tracefile: None, kind });
        }
    }

    fn submit(
        &mut self,
        id: TracesetId,
        request_id: RequestId,
        spec: EventsRequest,
    ) -> Result<(), CommandError> {
        let traceset = self.tracesets.get_mut(&id).ok_or(CommandError::NoTraceset)?;
        for position in spec.start_position.iter().chain(&spec.end_position) {
            position.check(&traceset.context.fingerprint)?;
        }
        let start = match (&spec.start_position, spec.start_time) {
            (Some(position), _) => Start::Position(position.clone()),
            (None, Some(t)) => Start::Time(t),
            (None, None) => return Err(CommandError::NoStart),
        };
        let count = traceset.context.traces.len();
        let trace = match spec.trace {
            None => None,
            Some(index) => {
                let context = traceset.context.traces.get(index);
                Some(context.ok_or(CommandError::NoSuchIndex { index, count })?.id)
            }
        };
        spec.stop_flag.attach(&self.attention);
        traceset.list_out.push(Accepted {
            id: request_id,
            remaining: spec.num_events,
            spec,
            start,
            resumed: false,
            trace,
            servicing: false,
            entered: false,
            delivered: 0,
            last_delivered: None,
            first: None,
            failed: None,
        });
        self.accepted += 1;
        Ok(())
    }

    /// Removes every request of an owner from a traceset; gives their number. Those get after_request with `Removed`.
    ///
    /// # Errors
    /// There is no such traceset.
    pub fn remove_all(&mut self, id: TracesetId, owner: OwnerId) -> Result<usize, CommandError> {
        self.end_requests(id, |request| request.spec.owner == owner, &EndReason::Removed)
    }

    /// Removes one request; false when it has ended already.
    ///
    /// # Errors
    /// There is no such traceset.
    pub fn remove(&mut self, id: TracesetId, request: RequestId) -> Result<bool, CommandError> {
        let count = self.end_requests(id, |accepted| accepted.id == request, &EndReason::Removed)?;
        Ok(count > 0)
    }

    /// Removes every request of an owner that is going away itself: nothing is called.
    ///
    /// # Errors
    /// There is no such traceset.
    pub fn remove_all_silent(&mut self, id: TracesetId, owner: OwnerId) -> Result<usize, CommandError> {
        let traceset = self.tracesets.get_mut(&id).ok_or(CommandError::NoTraceset)?;
        let before = traceset.list_out.len();
        traceset.list_out.retain(|request| request.spec.owner != owner);
        let removed = before - traceset.list_out.len();
        traceset.completed.remove(&owner);
        self.silent += removed as u64;
        Ok(removed)
    }

    /// Ends all foreground service of a traceset. Viewers submit anew when they want to go on.
    ///
    /// # Errors
    /// There is no such traceset.
    pub fn stop(&mut self, id: TracesetId) -> Result<usize, CommandError> {
        self.end_requests(id, |_| true, &EndReason::Stopped)
    }

    fn end_requests(
        &mut self,
        id: TracesetId,
        which: impl Fn(&Accepted) -> bool,
        reason: &EndReason,
    ) -> Result<usize, CommandError> {
        let traceset = self.tracesets.get_mut(&id).ok_or(CommandError::NoTraceset)?;
        Ok(traceset.end_where(which, reason, &mut env!(self, None)))
    }

    /// The parts of a traceset that requests of an owner have been given, whatever ended them, oldest first. Cleared when the
    /// traces of the traceset change.
    pub fn completed(&self, id: TracesetId, owner: OwnerId) -> &[Interval] {
        self.tracesets.get(&id).and_then(|traceset| traceset.completed.get(&owner)).map_or(&[], Vec::as_slice)
    }

    /// Forgets what [`Engine::completed`] lists for an owner.
    pub fn forget_completed(&mut self, id: TracesetId, owner: OwnerId) {
        if let Some(traceset) = self.tracesets.get_mut(&id) {
            traceset.completed.remove(&owner);
        }
    }

    // --- modules ---------------------------------------------------------------------------------------------------------

    /// Makes a module known by its name.
    ///
    /// # Errors
    /// The name is taken or cannot be one.
    pub fn register(&mut self, module: Arc<dyn Module>) -> Result<(), ModuleError> {
        let name = self.modules.register(module)?;
        self.attributes.set_by_path(&format!("computation/{name}"), AttributeValue::Tree(Attribute::new()));
        Ok(())
    }

    /// Forgets a module: its requests end, what it has computed is dropped for all traces.
    ///
    /// # Errors
    /// There is no such module.
    pub fn unregister(&mut self, name: &str) -> Result<(), ModuleError> {
        let (known, _) = self.modules.get(name).ok_or_else(|| ModuleError::Unknown(name.into()))?;
        let known = known.clone();
        for id in self.traces.keys().copied().collect::<Vec<_>>() {
            self.with_trace(id, |trace, modules, env| {
                trace.cancel_module(name, modules, &EndReason::Removed, env);
                trace.forget(&known, modules);
            });
        }
        for traceset in self.tracesets.values_mut() {
            traceset.state_modules.retain(|module| **module != *name);
            for models in &mut traceset.context.models {
                models.models.retain(|slot| *slot.module != *name);
            }
        }
        self.modules.unregister(name)?;
        self.attributes.remove_by_path(&format!("computation/{name}"));
        Ok(())
    }

    /// Names of the modules and how often each is required.
    pub fn module_names(&self) -> Vec<(String, usize)> {
        self.modules.names().map(|(name, uses)| (name.to_string(), uses)).collect()
    }

    /// Counts one more user of a module and of those it needs, initialising what was not in use.
    ///
    /// # Errors
    /// It or one that it needs is not registered, or they need each other in a circle.
    pub fn require(&mut self, name: &str) -> Result<(), ModuleError> {
        for name in self.modules.require(name)? {
            if let Some((_, module)) = self.modules.get(&name) {
                module.init();
            }
        }
        Ok(())
    }

    /// Takes back [`Engine::require`], destroying what is not in use any more.
    ///
    /// # Errors
    /// It is not in use.
    pub fn release(&mut self, name: &str) -> Result<(), ModuleError> {
        for name in self.modules.release(name)? {
            if let Some((_, module)) = self.modules.get(&name) {
                module.destroy();
            }
        }
        Ok(())
    }

    // --- background ------------------------------------------------------------------------------------------------------

    fn with_trace<R>(
        &mut self,
        id: TraceId,
        work: impl FnOnce(&mut Trace, &ModuleTable, &mut Env<'_>) -> R,
    ) -> Option<R> {
        let mut trace = self.traces.remove(&id)?;
        let result = work(&mut trace, &self.modules, &mut env!(self, None));
        self.traces.insert(id, trace);
        Some(result)
    }

    /// How far a module is with a trace.
    pub fn status(&self, trace: TraceId, module: &str) -> ModuleStatus {
        self.traces.get(&trace).map(|trace| trace.data.status(module)).unwrap_or_default()
    }

    /// Asks for a module to be computed for a trace. Never twice: only `Queued` changes anything.
    ///
    /// # Errors
    /// There is no such trace or module, or what it needs is missing.
    pub fn request(
        &mut self,
        trace: TraceId,
        module: &str,
        requester: OwnerId,
    ) -> Result<Outcome, CommandError> {
        let entry = self.traces.get_mut(&trace).ok_or(CommandError::NoTrace)?;
        self.modules.with_prerequisites(module)?;
        let Some((name, implementation)) = self.modules.get(module) else {
            return Err(ModuleError::Unknown(module.into()).into());
        };
        match entry.data.status(module) {
            ModuleStatus::Ready => return Ok(Outcome::AlreadyReady),
            ModuleStatus::InProgress => return Ok(Outcome::InProgress),
            ModuleStatus::Absent => {}
        }
        if entry.background.queued().any(|queued| queued == name) {
            return Ok(Outcome::AlreadyQueued);
        }
        let hooks = implementation.hooks(&entry.source);
        entry.background.queue.push(BackgroundRequest { module: name.clone(), requester, hooks });
        Ok(Outcome::Queued)
    }

    /// Takes a module out of the queue or the running pass of a trace; false when it is in neither. For the module itself and
    /// the engine's owner, not for one viewer among many.
    ///
    /// # Errors
    /// There is no such trace.
    pub fn cancel(&mut self, trace: TraceId, module: &str) -> Result<bool, CommandError> {
        self.with_trace(trace, |trace, modules, env| {
            trace.cancel_module(module, modules, &EndReason::Removed, env)
        })
        .ok_or(CommandError::NoTrace)
    }

    fn notify(
        &mut self,
        trace: TraceId,
        mut notify: BackgroundNotify,
        place: fn(&mut Trace, BackgroundNotify) -> Result<(), CommandError>,
    ) -> Result<Notified, CommandError> {
        let entry = self.traces.get_mut(&trace).ok_or(CommandError::NoTrace)?;
        if let Some(position) = &notify.position {
            notify.position = Some(position.of_trace(trace)?);
        }
        if entry.data.status(&notify.module) == ModuleStatus::Ready {
            self.with_trace(trace, |trace, _, env| {
                trace.call_notifications(vec![notify], Cause::Reached, None, env);
            });
            return Ok(Notified::Called);
        }
        place(entry, notify)?;
        Ok(Notified::Waiting)
    }

    /// Attaches a notification to the running pass. If what it waits for is ready it is called at once.
    ///
    /// # Errors
    /// The module is neither in progress nor ready; there is no such trace; the position is of another traceset.
    pub fn notify_current(
        &mut self,
        trace: TraceId,
        notify: BackgroundNotify,
    ) -> Result<Notified, CommandError> {
        self.notify(trace, notify, |trace, notify| {
            if trace.data.status(&notify.module) != ModuleStatus::InProgress {
                return Err(CommandError::NoPass(notify.module.to_string()));
            }
            trace.background.notify_current(notify);
            Ok(())
        })
    }

    /// Attaches a notification to the next pass. If what it waits for is ready it is called at once.
    ///
    /// # Errors
    /// The module does not wait for a pass; there is no such trace; the position is of another traceset.
    pub fn notify_queue(
        &mut self,
        trace: TraceId,
        notify: BackgroundNotify,
    ) -> Result<Notified, CommandError> {
        self.notify(trace, notify, |trace, notify| {
            if !trace.background.queued().any(|queued| *queued == notify.module) {
                return Err(CommandError::NoPass(notify.module.to_string()));
            }
            trace.background.notify_queue.push(notify);
            Ok(())
        })
    }

    /// In one step: calls the notification if the module is ready, attaches it to the pass that computes the module or will,
    /// and asks for the module if nobody has.
    ///
    /// # Errors
    /// As [`Engine::request`]; the position is of another traceset.
    pub fn request_and_notify(
        &mut self,
        trace: TraceId,
        notify: BackgroundNotify,
    ) -> Result<Outcome, CommandError> {
        if let Some(position) = &notify.position {
            position.of_trace(trace)?;
        }
        let module = notify.module.clone();
        let outcome = self.request(trace, &module, notify.owner)?;
        match outcome {
            Outcome::AlreadyReady | Outcome::InProgress => self.notify_current(trace, notify)?,
            Outcome::AlreadyQueued | Outcome::Queued => self.notify_queue(trace, notify)?,
        };
        Ok(outcome)
    }

    /// Drops all notifications of an owner; gives their number. Nothing is called.
    pub fn notify_remove(&mut self, owner: OwnerId) -> usize {
        self.traces.values_mut().map(|trace| trace.background.remove_notifications(owner)).sum()
    }

    // --- the driver ------------------------------------------------------------------------------------------------------

    /// Holds all work until [`Engine::enable`] was called as often. Commands are still taken.
    pub fn disable(&mut self) {
        self.disabled += 1;
    }

    /// Takes back one [`Engine::disable`].
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

    /// Does work, one chunk a turn, until the budget is used up or nothing is left. Never blocks.
    pub fn step(&mut self, budget: Budget) -> Progress {
        let before = self.totals();
        let mut progress = Progress::default();
        let mut left = budget.events;
        // What hooks asked for while commands were done between steps.
        self.run_commands();
        for _ in 0..budget.chunks {
            let late = budget.until.is_some_and(|until| Instant::now() >= until);
            if late || left == Some(0) || self.disabled > 0 {
                break;
            }
            // Acquire, paired with Release where it is set: what was done before the flag was set is seen in this turn.
            self.attention.swap(false, Ordering::Acquire);
            let chunk = self.config.chunk_events.into_iter().chain(left).min().map(|events| events.max(1));
            let turn = self.turn(chunk, &mut progress);
            self.run_commands();
            match turn {
                Turn::Served(count) => left = left.map(|left| left.saturating_sub(count)),
                Turn::Blocked => {
                    progress.blocked = true;
                    break;
                }
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

    /// One chunk: foreground before background, round robin within each.
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

    /// Does what hooks have asked for. What is asked for meanwhile waits for the next border.
    fn run_commands(&mut self) {
        for command in self.commands.take() {
            command(self);
        }
    }

    /// Events read, events replayed, seeks, hook calls, of all contexts so far.
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

/// A notification with a hook of its own.
impl BackgroundNotify {
    /// Waits for the end of the pass that computes `module`.
    pub fn new(owner: OwnerId, module: &str, hook: Hook<BorderFn>) -> BackgroundNotify {
        BackgroundNotify { owner, module: module.into(), time: None, position: None, hook }
    }

    /// Also called once the pass has come to this time.
    #[must_use]
    pub fn at_time(mut self, t: Time) -> Self {
        self.time = Some(t);
        self
    }

    /// Also called once the pass has come to this position.
    #[must_use]
    pub fn at_position(mut self, position: Position) -> Self {
        self.position = Some(position);
        self
    }
}
