//! Compares decode speed with babeltrace2, on a trace given on the command line.
//!
//! ```text
//! lttv-sched/ctf/benches/ust/record /tmp/ust 4000000
//! cargo bench -p lttv-ctf --bench decode -- /tmp/ust [--check] [--pairs N]
//! ```
//!
//! Prints user times of interleaved pairs, their medians and the ratio; then what the engine costs beyond a plain loop
//! over the same readers with a heap (CPU time, ratios of the same round); then the time to the first and last event of
//! windows of 0.1 % of the trace, each with a new engine (`--cache FOLDER`: the positions of packets are cached there).
//! `--check` first compares number, names and times of all events with babeltrace2's text output (slow); `--only
//! peer|engine|windows` leaves out the rest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{Hash, Hasher};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use pct_kit::{Cpu, median, thread_ns};
use std::sync::Arc;

use lttv_ctf::{CtfSource, EventTime, Options, Reader, Trace, open_all};
use lttv_engine::engine::Engine;
use lttv_engine::hooks::{Flow, Hook};
use lttv_engine::ids::OwnerId;
use lttv_engine::request::EventsRequest;
use lttv_engine::source::{Compound, Cursor, FieldVisitor, Scope, Value};
use lttv_engine::time::Time;

struct Merge {
    readers: Vec<Reader>,
    queue: BinaryHeap<Reverse<(i64, usize)>>,
}

impl Merge {
    fn new(traces: &[Trace], from: i64) -> Merge {
        let mut readers: Vec<Reader> =
            traces.iter().flat_map(|t| (0..t.stream_count()).map(|s| t.reader(s))).collect();
        let mut queue = BinaryHeap::new();
        for (i, r) in readers.iter_mut().enumerate() {
            if let Ok(Some(h)) = r.seek_time(from) {
                queue.push(Reverse((key(h.time), i)));
            }
        }
        Merge { readers, queue }
    }

    /// Calls `f` for each event in order until it returns false.
    fn run(&mut self, mut f: impl FnMut(i64, &Reader) -> bool) {
        while let Some(mut top) = self.queue.peek_mut() {
            let Reverse((t, i)) = *top;
            if !f(t, &self.readers[i]) {
                return;
            }
            match self.readers[i].advance() {
                Ok(Some(h)) => *top = Reverse((key(h.time), i)),
                _ => {
                    std::collections::binary_heap::PeekMut::pop(top);
                }
            }
        }
    }
}

fn key(t: EventTime) -> i64 {
    match t {
        EventTime::Ns(t) => t,
        _ => i64::MIN,
    }
}

fn hash(ns: i64, name: &str) -> u64 {
    let mut h = std::hash::DefaultHasher::new();
    (ns, name).hash(&mut h);
    h.finish()
}

fn ours(dir: &Path, decode: bool) -> u64 {
    let traces = open_all(dir, &Options::default()).expect("the trace opens");
    let mut n = 0;
    Merge::new(&traces, i64::MIN).run(|_, r| {
        if decode {
            r.decode_all();
        }
        n += 1;
        true
    });
    n
}

/// Number of events and sum of the hashes of (time, name).
fn ours_hashed(dir: &Path) -> (u64, u64) {
    let traces = open_all(dir, &Options::default()).expect("the trace opens");
    let (mut n, mut sum) = (0, 0u64);
    Merge::new(&traces, i64::MIN).run(|t, r| {
        n += 1;
        sum = sum.wrapping_add(hash(t, r.class().map_or("", |c| &c.name)));
        true
    });
    (n, sum)
}

fn theirs_hashed(dir: &Path) -> Option<(u64, u64)> {
    let mut child = Command::new("babeltrace2")
        .args(["--clock-seconds", "--no-delta"])
        .arg(dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let (mut n, mut sum) = (0, 0u64);
    for line in BufReader::new(child.stdout.take()?).lines() {
        let line = line.ok()?;
        let (time, rest) = line.strip_prefix('[')?.split_once("] ")?;
        let ns: i64 = time.replace('.', "").parse().ok()?;
        let name = rest.split(": {").next()?;
        let name = name.rsplit_once(' ').map_or(name, |(_, n)| n);
        n += 1;
        sum = sum.wrapping_add(hash(ns, name));
    }
    child.wait().ok()?;
    Some((n, sum))
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let Some(dir) = args.iter().find(|a| !a.starts_with('-') && Path::new(a).is_dir()) else {
        println!("decode: no trace directory given: nothing measured");
        return;
    };
    let dir = Path::new(dir);
    let pairs = args
        .iter()
        .position(|a| a == "--pairs")
        .and_then(|i| args.get(i + 1))
        .and_then(|n| n.parse().ok())
        .unwrap_or(5);
    if args.iter().any(|a| a == "--check") {
        let (a, b) = (ours_hashed(dir), theirs_hashed(dir));
        println!(
            "events and hash: {a:?} here, {b:?} babeltrace2: {}",
            if Some(a) == b { "equal" } else { "DIFFERENT" }
        );
    }
    let only = args.iter().position(|a| a == "--only").and_then(|i| args.get(i + 1));
    let wanted = |part: &str| only.is_none_or(|only| only == part);
    if wanted("peer") {
        beside_peer(dir, pairs);
    }
    if wanted("engine") {
        engine_cost(dir, pairs);
    }
    if wanted("windows") {
        let cache = args.iter().position(|a| a == "--cache").and_then(|i| args.get(i + 1));
        windows(dir, cache.map(Path::new));
    }
}

fn beside_peer(dir: &Path, pairs: usize) {
    let (mut full, mut count, mut peer, mut ratio) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut events = 0;
    for _ in 0..pairs {
        let t = Cpu::own().user;
        events = ours(dir, true);
        let f = Cpu::own().user - t;
        let t = Cpu::children().user;
        let ran = Command::new("babeltrace2")
            .args(["-o", "dummy"])
            .arg(dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let p = Cpu::children().user - t;
        let t = Cpu::own().user;
        ours(dir, false);
        count.push(Cpu::own().user - t);
        full.push(f);
        if ran.is_ok_and(|s| s.success()) {
            peer.push(p);
            ratio.push(p / f.max(0.01));
        }
    }
    let rate = |s: f64| events as f64 / s / 1e6;
    let (full, count, peer) = (median(full), median(count), median(peer));
    println!("{events} events, medians of {pairs} interleaved pairs, user time");
    println!("  full decode + merge   {full:7.2} s  {:6.1} M events/s", rate(full));
    println!("  walk + merge          {count:7.2} s  {:6.1} M events/s", rate(count));
    println!("  babeltrace2 -o dummy  {peer:7.2} s  {:6.1} M events/s", rate(peer));
    println!("  ratio                 {:7.2} x (median of pairs)", median(ratio));
}

/// Reads every value.
struct Seeing(u64);

impl FieldVisitor for Seeing {
    fn value(&mut self, name: &str, value: Value<'_>) {
        self.0 += std::hint::black_box((name, value)).0.len() as u64;
    }
    fn begin(&mut self, _: &str, _: Compound) {}
    fn end(&mut self) {}
}

const FIELDS: [Scope; 3] = [Scope::StreamContext, Scope::EventContext, Scope::Payload];

fn see(cursor: &dyn Cursor, seeing: &mut Seeing) {
    FIELDS.iter().for_each(|scope| cursor.visit(*scope, seeing));
}

fn sources(dir: &Path) -> Vec<Arc<CtfSource>> {
    let all = CtfSource::open(dir, &Options::default()).expect("the trace opens");
    all.into_iter().map(|s| Arc::new(s.expect("the trace opens"))).collect()
}

/// The loop of a program without the engine: cursors and a heap, with every field of every event read.
fn plain_fields(dir: &Path) -> u64 {
    use lttv_engine::source::Source;
    let sources = sources(dir);
    let cursors =
        sources.iter().flat_map(|s| (0..s.tracefiles().len()).map(|i| s.cursor(i).expect("it opens")));
    let mut cursors: Vec<_> = cursors.collect();
    let mut queue = BinaryHeap::new();
    for (i, c) in cursors.iter_mut().enumerate() {
        if let Ok(Some(h)) = c.seek_time(Time::MIN) {
            queue.push(Reverse((h.ts, i)));
        }
    }
    let (mut n, mut seeing) = (0, Seeing(0));
    while let Some(mut top) = queue.peek_mut() {
        let i = top.0.1;
        see(cursors[i].as_ref(), &mut seeing);
        n += 1;
        match cursors[i].advance() {
            Ok(Some(h)) => *top = Reverse((h.ts, i)),
            _ => {
                std::collections::binary_heap::PeekMut::pop(top);
            }
        }
    }
    n
}

#[derive(Clone, Copy)]
enum Hooked {
    Nothing,
    Count,
    OneKind,
    Fields,
}

fn by_engine(dir: &Path, hooked: Hooked) -> u64 {
    let mut engine = Engine::default();
    let traceset = engine.traceset_new();
    let mut request = EventsRequest::new(OwnerId(1)).from_time(Time::MIN);
    for source in sources(dir) {
        use lttv_engine::source::Source;
        let info = source.tracefiles().first().cloned();
        let trace = engine.open_source(source);
        engine.traceset_add(traceset, trace).expect("both are there");
        if let (Hooked::OneKind, Some(info)) = (hooked, info) {
            let mut count = 0u64;
            let hook = Hook::on_event(move |_| {
                count += 1;
                std::hint::black_box(count);
                Flow::Go
            });
            let id = lttv_engine::source::EventId(0);
            request.event_by_id.find(&info.channel, id).add(hook).expect("its key is new");
        }
    }
    let (mut count, mut seeing) = (0u64, Seeing(0));
    let request = match hooked {
        Hooked::Nothing | Hooked::OneKind => request,
        Hooked::Count => request.on_event(move |call| {
            count += 1;
            std::hint::black_box((call.time, count));
            Flow::Go
        }),
        Hooked::Fields => request.on_event(move |call| {
            see(call.cursor(), &mut seeing);
            Flow::Go
        }),
    };
    engine.events_request(traceset, request).expect("it has a start");
    engine.run_until_idle()
}

fn engine_cost(dir: &Path, pairs: usize) {
    type Row<'r> = (&'r str, usize, Box<dyn Fn() -> u64 + 'r>);
    let rows: [Row<'_>; 6] = [
        ("plain: readers and a heap, events walked", 0, Box::new(|| ours(dir, false))),
        ("engine, no hook", 0, Box::new(|| by_engine(dir, Hooked::Nothing))),
        ("engine, one hook that counts", 0, Box::new(|| by_engine(dir, Hooked::Count))),
        ("engine, one hook for one kind of event", 0, Box::new(|| by_engine(dir, Hooked::OneKind))),
        ("plain: cursors and a heap, every field seen", 4, Box::new(|| plain_fields(dir))),
        ("engine, one hook that sees every field", 4, Box::new(|| by_engine(dir, Hooked::Fields))),
    ];
    let mut times = vec![Vec::new(); rows.len()];
    let mut events = 0;
    for _ in 0..pairs {
        for (at, (_, _, run)) in rows.iter().enumerate() {
            let start = thread_ns();
            events = run();
            times[at].push((thread_ns() - start) / events as f64);
        }
    }
    println!("engine over plain decoding, {events} events, CPU time, medians of {pairs} rounds");
    for (at, (name, base, _)) in rows.iter().enumerate() {
        let ratios = times[at].iter().zip(&times[*base]).map(|(a, b)| a / b).collect();
        println!("  {name:<45} {:6.1} ns/event  {:5.2} x", median(times[at].clone()), median(ratios));
    }
}

/// Windows of 0.1 % at many positions, each with a new engine: open, seek, read every field of every event.
fn windows(dir: &Path, cache: Option<&Path>) {
    let options = Options { cache: cache.map(Path::to_path_buf), ..Options::default() };
    let traces = open_all(dir, &options).expect("the trace opens");
    let spans = traces.iter().flat_map(|t| (0..t.stream_count()).filter_map(|s| t.stream_span(s)));
    let Some((first, last)) = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else { return };
    drop(traces);
    let width = (last - first) / 1000;
    println!(
        "windows of 0.1 % from a cold engine: place, events, ms to the first event, ms in all, ms of CPU time"
    );
    let mut greatest = [0f64; 3];
    for place in (0..20).map(|n| n * 5).chain([99]) {
        let from = first + (last - first) / 100 * place;
        let (start, cpu) = (Instant::now(), thread_ns());
        let (events, to_first) = window(dir, &options, from, from + width);
        let all = [
            to_first.unwrap_or(start).duration_since(start).as_secs_f64() * 1e3,
            start.elapsed().as_secs_f64() * 1e3,
            (thread_ns() - cpu) / 1e6,
        ];
        (0..3).for_each(|i| greatest[i] = greatest[i].max(all[i]));
        println!("  {place:3} %  {events:8}  {:8.2}  {:8.2}  {:8.2}", all[0], all[1], all[2]);
    }
    println!("  greatest         {:8.2}  {:8.2}  {:8.2}", greatest[0], greatest[1], greatest[2]);
}

fn window(dir: &Path, options: &Options, from: i64, to: i64) -> (u64, Option<Instant>) {
    let mut engine = Engine::default();
    let traceset = engine.traceset_new();
    for source in CtfSource::open(dir, options).expect("the trace opens") {
        let trace = engine.open_source(Arc::new(source.expect("the trace opens")));
        engine.traceset_add(traceset, trace).expect("both are there");
    }
    let first: Arc<std::sync::Mutex<Option<Instant>>> = Arc::default();
    let (to_first, mut seeing) = (first.clone(), Seeing(0));
    let mut request = EventsRequest::new(OwnerId(1)).from_time(Time(from)).on_event(move |call| {
        if seeing.0 == 0 {
            *to_first.lock().expect("nobody panics") = Some(Instant::now());
        }
        seeing.0 += 1;
        see(call.cursor(), &mut seeing);
        Flow::Go
    });
    request.end_time = Some(Time(to));
    engine.events_request(traceset, request).expect("it has a start");
    let events = engine.run_until_idle();
    let first = *first.lock().expect("nobody panics");
    (events, first)
}
