//! Open traces in an engine, and the loop that steps it.

use pct_text::complain;
use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lttv_ctf::Folder;
use lttv_engine::background::BackgroundNotify;
use lttv_engine::call::Event;
use lttv_engine::diagnostic::DiagnosticKind;
use lttv_engine::engine::{Budget, Config, Engine};
use lttv_engine::hooks::{Flow, Hook};
use lttv_engine::ids::{OwnerId, TraceId, TracesetId};
use lttv_engine::kept::Kept;
use lttv_engine::request::{EventsRequest, StopFlag};
use lttv_engine::source::{LossKind, Source};
use lttv_engine::time::Time;
use lttv_modules::state::{self, KernelEvent};
use lttv_sources::{Opened, PctSource};

use crate::args::{Common, Format, Usage};
use crate::filter::Filter;
use crate::times::{self, Shown};
use rustc_hash::FxHashSet;

/// The command as an owner of requests in the engine.
pub const OWNER: OwnerId = OwnerId(1);

/// Open traces and the results so far.
pub struct Session {
    /// The engine.
    pub engine: Engine,
    /// All traces together.
    pub traceset: TracesetId,
    /// The traces, in the order of the command line.
    pub traces: Vec<TraceId>,
    /// The recordings among the traces, at the index of their trace.
    pub recordings: Vec<Option<Arc<PctSource>>>,
    labels: Vec<String>,
    /// The command line's paths, to open them again.
    paths: Vec<PathBuf>,
    options: lttv_ctf::Options,
    /// Diagnostics of the engine that were reported.
    told: FxHashSet<String>,
    /// Begin of the window.
    pub from: Option<Time>,
    /// End of the window, exclusive.
    pub to: Option<Time>,
    /// Form of the output.
    pub format: Format,
    verbose: bool,
    quiet: bool,
    started: Instant,
    opened: Duration,
    first: Arc<Mutex<Option<Duration>>>,
    failed: bool,
    /// Storage of states between runs.
    kept: Option<Arc<dyn Kept>>,
    read: u64,
    replayed: u64,
    chunks: u64,
}

/// The name under which states are stored.
const STATES: &str = "states";
/// With fewer events than this, states are computed as fast as they are read.
const EVENTS_WORTH_KEEPING: u64 = 100_000;

/// The largest resident size of this process so far; 0 if the system does not say.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|kib| kib.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Whether a trace has events that change the states of CPUs and threads.
fn tells_states(source: &dyn Source) -> bool {
    let mut classes = source.tracefiles().iter().flat_map(|info| info.classes.iter());
    classes.any(|class| state::kind_of(&class.name).is_some())
}

/// The traces of a command line while they are being opened.
#[derive(Default)]
struct OpenedTraces {
    traces: Vec<TraceId>,
    /// For each trace, the names by which the command line may refer to it.
    names: Vec<Vec<String>>,
    /// For each trace, what all its copies share, if it has that.
    fingerprints: Vec<Option<Vec<u8>>>,
    recordings: Vec<Option<Arc<PctSource>>>,
    clocks: Vec<Option<String>>,
    failed: bool,
}

impl OpenedTraces {
    /// Adds a trace, unless it is open already under another path.
    fn add(&mut self, opened: Opened, engine: &mut Engine, traceset: TracesetId) -> anyhow::Result<()> {
        let path = opened.source.identity().path().display().to_string();
        let copy_of = opened
            .fingerprint
            .as_ref()
            .and_then(|print| self.fingerprints.iter().position(|other| other.as_ref() == Some(print)));
        if let Some(first) = copy_of {
            let first = self.names[first].first().map_or("", String::as_str);
            complain!("lttv: {path} is the same trace as {first}: read once");
            return Ok(());
        }
        self.failed |= !opened.lost.is_empty();
        let id = engine.open_source(opened.source);
        if !engine.traceset_add(traceset, id)? {
            complain!("lttv: {path} was given twice: read once");
            return Ok(());
        }
        if !self.clocks.contains(&opened.foreign_clock) {
            self.clocks.push(opened.foreign_clock);
        }
        self.traces.push(id);
        self.recordings.push(opened.recording);
        self.names.push(opened.names);
        self.fingerprints.push(opened.fingerprint);
        Ok(())
    }

    /// Checks that times can be compared, which needs clocks with one origin.
    fn check_clocks(&self, any_clock: bool) -> anyhow::Result<()> {
        if self.clocks.len() < 2 {
            return Ok(());
        }
        let names: Vec<&str> =
            self.clocks.iter().map(|clock| clock.as_deref().unwrap_or("the Unix epoch")).collect();
        let what = format!("the clocks of these traces count from different instants ({})", names.join("; "));
        anyhow::ensure!(
            any_clock,
            "{what}: their times cannot be compared; --any-clock merges them all the same"
        );
        complain!("lttv: {what}; merged all the same");
        Ok(())
    }

    fn all_names(&self) -> String {
        let all: Vec<&str> = self.names.iter().flatten().map(String::as_str).collect();
        all.join(", ")
    }

    /// A unique name for each trace: that of its host, or of its folder, or with its number.
    fn labels(&self) -> Vec<String> {
        let own = |at: usize, name: &String| {
            self.names.iter().enumerate().all(|(other, names)| other == at || !names.contains(name))
        };
        let label = |(at, names): (usize, &Vec<String>)| {
            let unique = names.iter().rev().find(|name| own(at, name)).cloned();
            unique.unwrap_or_else(|| format!("{} ({at})", names.last().map_or("", String::as_str)))
        };
        self.names.iter().enumerate().map(label).collect()
    }
}

impl Session {
    /// Opens all traces of the command line. If one cannot be opened, that is reported and the others are used.
    ///
    /// # Errors
    /// No trace could be opened; clocks cannot be compared; a time is invalid.
    pub fn open(common: &Common) -> anyhow::Result<Session> {
        let started = Instant::now();
        times::show_as(match (common.wall, common.utc) {
            (_, true) => Shown::Utc,
            (true, false) => Shown::Local,
            (false, false) => Shown::Seconds,
        });
        let (shift_ns, shifts) = times::clock_shifts(&common.clock_shift).map_err(Usage)?;
        let options = lttv_ctf::Options {
            strict: common.strict,
            no_index: common.no_index,
            shift_ns,
            shifts,
            cache: lttv_ctf::default_folder(),
        };
        let kept = options
            .cache
            .as_deref()
            .filter(|_| !common.no_index)
            .map(|dir| Arc::new(Folder::new(dir)) as Arc<dyn Kept>);
        let mut engine = Engine::new(Config { chunk_events: Some(common.chunk), ..Config::default() });
        let traceset = engine.traceset_new();
        let mut opened = OpenedTraces::default();
        for found in common.traces.iter().flat_map(|path| lttv_sources::open(path, &options)) {
            match found {
                Ok(trace) => opened.add(trace, &mut engine, traceset)?,
                Err(error) => {
                    opened.failed = true;
                    complain!("lttv: {error}");
                }
            }
        }
        anyhow::ensure!(!opened.traces.is_empty(), "no trace could be opened");
        opened.check_clocks(common.any_clock)?;
        for (name, _) in &options.shifts {
            let known = opened.names.iter().flatten().any(|other| other == name);
            anyhow::ensure!(
                known,
                Usage(format!("--clock-shift: no trace is called {name}; there are: {}", opened.all_names()))
            );
        }
        let labels = opened.labels();
        let mut s = Session {
            engine,
            traceset,
            traces: opened.traces,
            recordings: opened.recordings,
            labels,
            paths: common.traces.clone(),
            options,
            told: FxHashSet::default(),
            from: None,
            to: None,
            format: common.format,
            verbose: common.verbose,
            quiet: common.quiet,
            started,
            opened: started.elapsed(),
            first: Arc::default(),
            failed: opened.failed,
            kept,
            read: 0,
            replayed: 0,
            chunks: 0,
        };
        s.from = common.from.as_deref().map(|t| s.time(t)).transpose()?;
        s.to = common.to.as_deref().map(|t| s.time(t)).transpose()?;
        s.check_window()?;
        Ok(s)
    }

    /// Opens the command line's paths again: recordings that are being written have grown, and folders may have new
    /// ones. Traces keep their numbers, and new ones come after them. What cannot be opened now may be the next time.
    ///
    /// # Errors
    /// The engine refused a command.
    pub fn reopen(&mut self) -> anyhow::Result<()> {
        let path_of =
            |trace: &TraceId| Some(self.engine.trace(*trace)?.source().identity().path().to_owned());
        let order: Vec<Option<PathBuf>> = self.traces.iter().map(path_of).collect();
        for trace in std::mem::take(&mut self.traces) {
            self.engine.traceset_remove(self.traceset, trace)?;
            self.engine.close(trace)?;
        }
        let found = self.paths.iter().flat_map(|path| lttv_sources::open(path, &self.options));
        let mut found: Vec<Opened> = found.filter_map(Result::ok).collect();
        let place = |opened: &Opened| {
            let path = opened.source.identity().path();
            order.iter().position(|known| known.as_deref() == Some(path)).unwrap_or(usize::MAX)
        };
        found.sort_by_key(place);
        let mut opened = OpenedTraces::default();
        for trace in found {
            opened.add(trace, &mut self.engine, self.traceset)?;
        }
        self.labels = opened.labels();
        (self.traces, self.recordings) = (opened.traces, opened.recordings);
        Ok(())
    }

    /// Events read so far.
    pub fn events_read(&self) -> u64 {
        self.read
    }

    /// Refuses a filter that compares fields which no event has.
    ///
    /// # Errors
    /// The filter compares such a field.
    pub fn check_filter(&self, filter: &Filter) -> anyhow::Result<()> {
        let mut all = BTreeSet::new();
        for source in self.sources() {
            // A source that does not list its fields may have any.
            let Some(names) = source.field_names() else { return Ok(()) };
            all.extend(names);
        }
        Ok(filter.check(&all).map_err(Usage)?)
    }

    /// Warns if the requested window can contain no event.
    fn check_window(&self) -> anyhow::Result<()> {
        if let (Some(from), Some(to)) = (self.from, self.to) {
            let window = || format!("from {} to {}", times::shown(from), times::shown(to));
            anyhow::ensure!(from <= to, Usage(format!("the window ends before it begins: {}", window())));
            if from == to {
                complain!("lttv: the window is empty: {}", window());
                return Ok(());
            }
        }
        if let Some((first, last)) = self.span()
            && (self.from.is_some_and(|from| from > last) || self.to.is_some_and(|to| to <= first))
        {
            let (first, last) = (times::shown(first), times::shown(last));
            complain!("lttv: the window lies outside the traces, which go from {first} to {last}");
        }
        Ok(())
    }

    /// The name of a trace for people: its host or folder, with its number if several have that name.
    pub fn label(&self, trace: usize) -> &str {
        self.labels.get(trace).map_or("?", String::as_str)
    }

    /// The names of all traces; see [`Session::label`].
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// The part of the window that is in the span of a trace.
    pub fn window_of(&self, source: &dyn Source) -> Option<(Time, Time)> {
        let (first, last) = source.time_span()?;
        let from = self.from.unwrap_or(first).clamp(first, last);
        Some((from, self.to.unwrap_or(last).clamp(from, last)))
    }

    /// Whether any trace has events that change the states of CPUs and threads.
    pub fn any_tells_states(&self) -> bool {
        self.sources().any(|source| tells_states(source.as_ref()))
    }

    /// Whether a trace may have events of one of these kinds, because its metadata has them.
    pub fn knows_events(&self, trace: usize, wanted: fn(KernelEvent) -> bool) -> bool {
        let source = self.sources().nth(trace);
        let infos = source.iter().flat_map(|source| source.tracefiles());
        let mut classes = infos.flat_map(|info| info.classes.iter());
        classes.any(|class| state::kind_of(&class.name).is_some_and(|(kind, _)| wanted(kind)))
    }

    /// Says that there was no `what` to show, and, if so, that the window or the filter was too narrow, or that a
    /// part of the traces could not be read.
    pub fn say_nothing(&self, what: &str, filtered: bool) {
        let place = match (self.from.is_some() || self.to.is_some(), self.traces.len()) {
            (true, _) => "the window has",
            (false, 1) => "the trace has",
            (false, _) => "the traces have",
        };
        let passes = match (self.failed, filtered) {
            (false, false) => "",
            (false, true) => " that passes the filter",
            (true, false) => " that could be read",
            (true, true) => " that could be read and passes the filter",
        };
        complain!("lttv: nothing to show: {place} no {what}{passes}");
    }

    /// Checks the traces for commands that show states.
    ///
    /// # Errors
    /// No trace has events that give states.
    pub fn require_states(&self, command: &str) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.any_tells_states(),
            "{command}: none of these traces has events of the kernel's scheduler, interrupts or system calls \
             (sched_switch and the like), so nothing is known of what CPUs and threads did"
        );
        Ok(())
    }

    /// Parses a typed time.
    ///
    /// # Errors
    /// The time is invalid.
    pub fn time(&self, text: &str) -> anyhow::Result<Time> {
        Ok(times::parse(text, || self.span()).map_err(Usage)?)
    }

    /// Times of the first and last event of all traces.
    pub fn span(&self) -> Option<(Time, Time)> {
        let spans = self.sources().filter_map(|s| s.time_span());
        spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// The sources of the open traces, in order.
    pub fn sources(&self) -> impl Iterator<Item = &Arc<dyn Source>> {
        self.traces.iter().filter_map(|t| Some(self.engine.trace(*t)?.source()))
    }

    /// A request for the window and the events that pass the filter.
    pub fn window(
        &self,
        filter: Option<Filter>,
        mut each: impl FnMut(&Event<'_>) -> Flow + Send + 'static,
    ) -> EventsRequest {
        let mut r = EventsRequest::new(OWNER).from_time(self.from.unwrap_or(Time::MIN));
        r.end_time = self.to;
        r.on_event(move |call| {
            if filter.as_ref().is_none_or(|f| f.matches(&call.event)) { each(&call.event) } else { Flow::Go }
        })
    }

    /// Returns a function that hooks call when they have a result: it stores the time of the first one.
    pub fn first_result(&self) -> impl FnMut() + Send + 'static {
        let (first, started, mut told) = (self.first.clone(), self.started, false);
        move || {
            if !std::mem::replace(&mut told, true) {
                first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| started.elapsed());
            }
        }
    }

    /// Computes the states of all traces in the background, or loads those that an earlier run has stored, and lets the
    /// traceset use them.
    ///
    /// # Errors
    /// The engine refused a command.
    pub fn compute_states(&mut self) -> anyhow::Result<()> {
        lttv_modules::register_all(&mut self.engine)?;
        let mut computed = Vec::new();
        for t in self.traces.clone() {
            let key = self.engine.trace(t).and_then(|trace| trace.source().content_key());
            let key = key.filter(|_| self.kept.is_some());
            if let (Some(key), Some(kept)) = (&key, &self.kept)
                && let Some(bytes) = kept.read(key, STATES)
                && self.engine.import_states(t, state::NAME, key, &bytes)?
            {
                continue;
            }
            let told = Hook::on_border(|_| Flow::Go);
            self.engine.request_and_notify(t, BackgroundNotify::new(OWNER, state::NAME, told))?;
            computed.extend(key.map(|key| (t, key)));
        }
        self.drive(|| None);
        for (trace, key) in computed {
            self.keep_states(trace, &key);
        }
        self.engine.traceset_use_state(self.traceset, state::NAME)?;
        Ok(())
    }

    /// Lets the traceset use the states of its traces. If the window begins after its start, it computes them first.
    /// From the start on, the state is right without that.
    ///
    /// # Errors
    /// The engine refused a command.
    pub fn use_states(&mut self) -> anyhow::Result<()> {
        if self.from.is_some() {
            return self.compute_states();
        }
        lttv_modules::register_all(&mut self.engine)?;
        Ok(self.engine.traceset_use_state(self.traceset, state::NAME)?)
    }

    /// Stores the states of a trace for later runs, if reading them is faster than computing them.
    fn keep_states(&self, trace: TraceId, key: &[u8]) {
        let read = self.engine.trace(trace).map_or(0, |trace| trace.background().events_read);
        if let (true, Some(kept)) = (read >= EVENTS_WORTH_KEEPING, &self.kept)
            && let Some(bytes) = self.engine.export_states(trace, state::NAME, key)
        {
            kept.write(key, STATES, &bytes);
        }
    }

    /// Stores the states that a pass for another purpose has computed.
    pub fn keep_all_states(&self) {
        for trace in &self.traces {
            let key = self.engine.trace(*trace).and_then(|trace| trace.source().content_key());
            if let (Some(key), true) = (key, self.kept.is_some()) {
                self.keep_states(*trace, &key);
            }
        }
    }

    /// The command line's paths, and the options for opening them.
    pub fn typed(&self) -> (&[PathBuf], &lttv_ctf::Options) {
        (&self.paths, &self.options)
    }

    /// Storage of results between runs, unless nothing is to be stored.
    pub fn kept(&self) -> Option<Arc<dyn Kept>> {
        self.kept.clone()
    }

    /// Submits a request.
    ///
    /// # Errors
    /// The engine refused it.
    pub fn submit(&mut self, r: EventsRequest) -> anyhow::Result<StopFlag> {
        let stop = r.stop_flag.clone();
        self.engine.events_request(self.traceset, r)?;
        Ok(stop)
    }

    /// Steps the engine until nothing is left to do. `at`: the time reached, for the progress bar.
    pub fn drive(&mut self, at: impl Fn() -> Option<Time>) {
        let bar = self.bar();
        let span = bar.as_ref().and_then(|_| {
            let s = self.span()?;
            Some((self.from.unwrap_or(s.0).max(s.0).ns(), self.to.unwrap_or(s.1).min(s.1).ns()))
        });
        loop {
            let p = self.engine.step(Budget::chunks(1));
            self.read += p.events_read;
            self.replayed += p.events_replayed;
            self.chunks += u64::from(p.foreground_chunks + p.background_chunks);
            for d in p.diagnostics {
                self.failed |= matches!(
                    d.kind,
                    DiagnosticKind::Unreadable(_)
                        | DiagnosticKind::ModuleFailed { .. }
                        | DiagnosticKind::Refused(_)
                );
                if !self.told.insert(d.to_string()) {
                    continue;
                }
                if let Some(b) = &bar {
                    b.suspend(|| complain!("lttv: {d}"));
                } else {
                    complain!("lttv: {d}");
                }
            }
            for e in p.ended {
                if let lttv_engine::call::EndReason::Failed(why) = e.reason {
                    self.failed = true;
                    complain!("lttv: request failed: {why}");
                }
            }
            if let (Some(b), Some((from, to))) = (&bar, span) {
                if let Some(t) = at().filter(|t| *t != Time::UNTIMED) {
                    let done = i128::from(t.ns()) - i128::from(from);
                    let all = (i128::from(to) - i128::from(from)).max(1);
                    b.set_position(u64::try_from(done.clamp(0, all) * 1000 / all).unwrap_or(0));
                }
                b.set_message(format!("{} events", self.read));
            }
            if p.idle {
                break;
            }
        }
        if let Some(b) = bar {
            b.finish_and_clear();
        }
    }

    /// A progress bar, if stderr is a terminal and results do not go to one.
    fn bar(&self) -> Option<ProgressBar> {
        if self.quiet || !io::stderr().is_terminal() || io::stdout().is_terminal() {
            return None;
        }
        let b = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr_with_hz(10));
        let style = ProgressStyle::with_template("{wide_bar} {percent:>3} %  {msg}");
        b.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Some(b)
    }

    /// Reports what was lost and, if requested, what it cost. Returns false if something could not be read.
    pub fn close(mut self) -> bool {
        // Warnings of sources come with the first step.
        self.drive(|| None);
        if !self.quiet {
            self.tell_losses();
        }
        if self.verbose {
            let first = *self.first.lock().unwrap_or_else(PoisonError::into_inner);
            let ms = |d: Duration| d.as_secs_f64() * 1e3;
            let first = first.map_or("no result".into(), |d| format!("first result after {:.2} ms", ms(d)));
            complain!(
                "lttv: {first}; opened in {:.2} ms, all in {:.2} ms; {} events read, {} replayed, {} chunks; at most {} KiB of memory",
                ms(self.opened),
                ms(self.started.elapsed()),
                self.read,
                self.replayed,
                self.chunks,
                peak_kib()
            );
        }
        !self.failed
    }

    /// Whether an interval overlaps the requested window.
    pub fn overlaps(&self, from: Time, to: Time) -> bool {
        self.to.is_none_or(|end| from < end) && self.from.is_none_or(|begin| to >= begin)
    }

    /// Records that something could not be read, so that the command exits with 1.
    pub fn fail(&mut self) {
        self.failed = true;
    }

    fn tell_losses(&self) {
        let (mut events, mut packets, mut unknown) = (0u64, 0u64, 0u64);
        for s in self.sources() {
            for l in s.losses() {
                if !self.overlaps(l.from, l.to) {
                    continue;
                }
                match (l.kind, l.count) {
                    (_, None) => unknown += 1,
                    (LossKind::Events, Some(n)) => events = events.saturating_add(n),
                    (LossKind::Packets, Some(n)) => packets = packets.saturating_add(n),
                }
            }
        }
        let mut parts = Vec::new();
        for (n, what) in [(events, "events"), (packets, "packets")] {
            if n > 0 {
                parts.push(format!("{n} {what}"));
            }
        }
        if unknown > 0 {
            parts.push(format!("{unknown} times an unknown number of events"));
        }
        if !parts.is_empty() {
            complain!("lttv: lost by the tracer: {}", parts.join(", "));
        }
    }
}
