//! A trace viewer in a hundred lines: a histogram of a trace, and commands to zoom into it.
//!
//!     cargo run -p lttv-sources --example zoom -- TRACE [EVENT NAME]
//!
//! It then reads commands: the number of a bucket (zoom into it), `<` and `>` (move), `-` (zoom out), `q`.

use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use lttv_engine::engine::Engine;
use lttv_engine::hooks::Flow;
use lttv_engine::ids::{OwnerId, TracesetId};
use lttv_engine::request::EventsRequest;
use lttv_engine::time::Time;
use lttv_modules::histogram::Histogram;

type Done<T> = Result<T, Box<dyn std::error::Error>>;

struct Viewer {
    engine: Engine,
    traceset: TracesetId,
    /// Only events with this name, if set.
    name: Option<String>,
    whole: (Time, Time),
    window: (Time, Time),
}

impl Viewer {
    fn open(path: &Path, name: Option<String>) -> Done<Viewer> {
        let mut engine = Engine::default();
        let traceset = engine.traceset_new();
        let mut whole = (Time::MAX, Time::MIN);
        for opened in lttv_sources::open(path, &lttv_ctf::Options::default()) {
            let source = opened?.source;
            if let Some((first, last)) = source.time_span() {
                whole = (whole.0.min(first), whole.1.max(last.saturating_add(1)));
            }
            let trace = engine.open_source(source);
            engine.traceset_add(traceset, trace)?;
        }
        Ok(Viewer { engine, traceset, name, whole, window: whole })
    }

    /// Requests the events of the window and lets the engine serve them. A viewer with a screen would step the engine
    /// between two frames instead, and draw what it has so far.
    fn histogram(&mut self) -> Done<Histogram> {
        let (from, to) = self.window;
        let counts = Arc::new(Mutex::new(Histogram::new(from, to, 16)));
        let of_hook = counts.clone();
        let count = move |time| {
            of_hook.lock().expect("nobody panics with it").add(time);
            Flow::Go
        };
        let request = EventsRequest::new(OwnerId(1)).from_time(from).until_time(to);
        let request = match &self.name {
            Some(name) => request.on_event_named(name, move |call| count(call.time)),
            None => request.on_event(move |call| count(call.time)),
        };
        self.engine.events_request(self.traceset, request)?;
        self.engine.run_until_idle();
        Ok(counts.lock().expect("nobody panics with it").clone())
    }

    fn zoom(&mut self, command: &str, shown: &Histogram) {
        let (from, to) = self.window;
        let half = to.since(from) / 2;
        let (from, to) = match (command, command.parse::<usize>()) {
            ("<", _) => (from.saturating_add(-half), to.saturating_add(-half)),
            (">", _) => (from.saturating_add(half), to.saturating_add(half)),
            ("-", _) => (from.saturating_add(-half), to.saturating_add(half)),
            (_, Ok(bucket)) => (shown.bucket_start(bucket), shown.bucket_start(bucket + 1)),
            _ => (from, to),
        };
        self.window = (from.clamp(self.whole.0, self.whole.1), to.clamp(self.whole.0, self.whole.1));
    }
}

/// Shows a trace and reads commands until stdin ends.
pub(crate) fn run(path: &Path, name: Option<String>, input: impl BufRead, mut out: impl Write) -> Done<()> {
    let mut viewer = Viewer::open(path, name)?;
    let mut lines = input.lines();
    loop {
        let shown = viewer.histogram()?;
        let most = shown.counts().iter().copied().max().unwrap_or(0).max(1);
        for (bucket, count) in shown.counts().iter().enumerate() {
            let bar = "#".repeat(usize::try_from(count * 50 / most)?);
            writeln!(out, "{bucket:>2} {:>20} {count:>9} {bar}", shown.bucket_start(bucket))?;
        }
        match lines.next().transpose()? {
            Some(command) if command != "q" => viewer.zoom(&command, &shown),
            _ => return Ok(()),
        }
    }
}

fn main() -> Done<()> {
    let path = std::env::args().nth(1).ok_or("usage: zoom TRACE [EVENT NAME]")?;
    run(Path::new(&path), std::env::args().nth(2), io::stdin().lock(), io::stdout())
}
