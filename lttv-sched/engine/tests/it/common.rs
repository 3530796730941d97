//! Small traces, viewers that record what they are given, modules that record how they are called.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lttv_engine::call::{EndReason, EventCall, Moment};
use lttv_engine::engine::{Budget, Config, Engine, Progress};
use lttv_engine::hooks::{Flow, Hook};
use lttv_engine::ids::{OwnerId, TraceId, TracesetId};
use lttv_engine::request::EventsRequest;
use lttv_engine::source::{EventHead, Source, Value};
use lttv_engine::synthetic::{SyntheticEvent, SyntheticFile, SyntheticTrace};
use lttv_engine::time::Time;

/// A tracefile whose events carry a label: time, name, and a prime for each earlier event of the same time.
pub(crate) fn file(name: &str, times: &[i64]) -> SyntheticFile {
    let mut last = None;
    let mut primes = String::new();
    let mut events = Vec::new();
    for &ts in times {
        if last == Some(ts) {
            primes.push('\'');
        } else {
            primes.clear();
        }
        last = Some(ts);
        let label = format!("{ts}{name}{primes}");
        events.push(SyntheticEvent {
            ts,
            id: 0,
            cpu: EventHead::NO_CPU,
            fields: vec![("label".into(), Value::Text(label.into()))],
        });
    }
    SyntheticFile::new(name, None, &["e", "f"], events)
}

pub(crate) fn source(name: &str, files: Vec<SyntheticFile>) -> Arc<dyn Source> {
    Arc::new(SyntheticTrace::new(name, files))
}

/// The trace of the worked examples: 0a 5a 5b 5b' 7a 10a 10b 12b.
pub(crate) fn worked() -> Arc<dyn Source> {
    source("worked", vec![file("a", &[0, 5, 7, 10]), file("b", &[5, 5, 10, 12])])
}

pub(crate) const WORKED: &str = "0a 5a 5b 5b' 7a 10a 10b 12b";

pub(crate) fn label(call: &EventCall<'_>) -> String {
    call.field("label").and_then(|value| value.as_str().map(str::to_string)).unwrap_or_default()
}

/// What a viewer has received for one request.
#[derive(Default, Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) events: Vec<String>,
    pub(crate) before: usize,
    pub(crate) after: Vec<EndReason>,
    pub(crate) chunks_begun: usize,
    pub(crate) chunks_ended: usize,
    pub(crate) delivered: u64,
    pub(crate) order_broken: bool,
}

#[derive(Clone, Default)]
pub(crate) struct Log(pub(crate) Arc<Mutex<Seen>>);

impl Log {
    pub(crate) fn seen(&self) -> Seen {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn events(&self) -> String {
        self.seen().events.join(" ")
    }

    /// The only end reason; panics unless the request ended exactly once.
    pub(crate) fn end(&self) -> EndReason {
        let seen = self.seen();
        assert_eq!(seen.after.len(), 1, "ended once: {seen:?}");
        assert_eq!(seen.chunks_begun, seen.chunks_ended);
        assert!(!seen.order_broken, "{seen:?}");
        seen.after[0].clone()
    }
}

/// A request that records what it is given.
pub(crate) fn request(owner: u64) -> (EventsRequest, Log) {
    let log = Log::default();
    let mut request = EventsRequest::new(OwnerId(owner));
    let on_event = log.clone();
    request = request.on_event(move |call| {
        let mut seen = on_event.0.lock().unwrap();
        if seen.before != 1 || !seen.after.is_empty() || seen.chunks_begun != seen.chunks_ended + 1 {
            seen.order_broken = true;
        }
        seen.events.push(label(call));
        Flow::Go
    });
    let border = |log: &Log| {
        let log = log.clone();
        Hook::on_border(move |call| {
            let mut seen = log.0.lock().unwrap();
            match call.moment {
                Moment::BeforeRequest => {
                    seen.order_broken |= seen.chunks_begun > 0 || !seen.after.is_empty();
                    seen.before += 1;
                }
                Moment::BeforeChunkTraceset => {
                    seen.order_broken |= seen.before != 1 || !seen.after.is_empty();
                    seen.chunks_begun += 1;
                }
                Moment::AfterChunkTraceset => seen.chunks_ended += 1,
                Moment::AfterRequest => {
                    seen.order_broken |= seen.chunks_begun != seen.chunks_ended;
                    seen.delivered = call.delivered;
                    seen.after.push(call.reason.cloned().expect("after_request has a reason"));
                }
                _ => {}
            }
            Flow::Go
        })
    };
    request.before_request.add(border(&log)).unwrap();
    request.before_chunk_traceset.add(border(&log)).unwrap();
    request.after_chunk_traceset.add(border(&log)).unwrap();
    request.after_request.add(border(&log)).unwrap();
    (request, log)
}

pub(crate) fn config(chunk: Option<u64>) -> Config {
    Config { chunk_events: chunk, save_interval: 3, ..Config::default() }
}

/// An engine with one traceset of the given traces.
pub(crate) fn engine(chunk: Option<u64>, sources: &[Arc<dyn Source>]) -> (Engine, TracesetId, Vec<TraceId>) {
    let mut engine = Engine::new(config(chunk));
    let traceset = engine.traceset_new();
    let mut ids = Vec::new();
    for source in sources {
        let id = engine.open_source(source.clone());
        engine.traceset_add(traceset, id).unwrap();
        ids.push(id);
    }
    (engine, traceset, ids)
}

/// One turn, with all invariants checked after it.
pub(crate) fn turn(engine: &mut Engine) -> Progress {
    let progress = engine.step(Budget::chunks(1));
    engine.check().unwrap();
    progress
}

/// Turns until the engine is idle. Returns the sum of what they did. Fails if it takes too long to become idle.
pub(crate) fn run(engine: &mut Engine) -> Progress {
    let mut sum = Progress::default();
    for _ in 0..100_000 {
        let progress = turn(engine);
        sum.foreground_chunks += progress.foreground_chunks;
        sum.background_chunks += progress.background_chunks;
        sum.events_read += progress.events_read;
        sum.events_replayed += progress.events_replayed;
        sum.seeks += progress.seeks;
        sum.ended.extend(progress.ended);
        sum.diagnostics.extend(progress.diagnostics);
        if progress.idle {
            return sum;
        }
    }
    panic!("not idle after 100 000 turns");
}

pub(crate) const CHUNKS: [Option<u64>; 5] = [Some(1), Some(2), Some(7), Some(6000), None];

pub(crate) fn t(ns: i64) -> Time {
    Time(ns)
}

/// A counter that hooks share with tests.
#[derive(Clone, Default)]
pub(crate) struct Count(Arc<AtomicU64>);

impl Count {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::SeqCst);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}
