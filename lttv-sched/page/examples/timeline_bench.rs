//! What the timeline costs: the pass over samples, tiles at hand and below the pyramid, memory. Prints a table.
//!
//! `cargo run --release -p lttv-page --example timeline_bench -- [SAMPLES] [THREADS] [MEGABYTES]`; samples are made up:
//! 2,000 functions, 100 seconds, each thread at even steps. With MEGABYTES, also the pass over a simulated kernel trace
//! of that size, beside reading its events without doing anything with them.
//!
//! Rates are by CPU time, which other work on the machine does not change much.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lttv_modules::timeline::tile::{TileId, level_for};
use lttv_page::recording::{Function, Sample, Thread, TimeOf};
use lttv_page::store::Asker;
use lttv_page::tiles::{TileAsk, tile};
use lttv_page::view::LaneRef;
use lttv_page::waits::RecordedWaits;
use lttv_page::windows::Unanswered;
use lttv_page::{Recording, Shown, Store};
use pct_icicle::GroupWeights;
use pct_kit::Cpu;
use pct_kit::kernel_trace::{Shape, write};

const FUNCTIONS: u32 = 2000;
const SPAN: i64 = 100_000_000_000;
const START: i64 = 1_795_000_000_000_000_000;
/// Lanes of a screen.
const SHOWN: usize = 40;

fn recording(samples: i64, threads: i64) -> Recording {
    let each = (samples / threads).max(1);
    let mut dice = pct_kit::Dice::new(7);
    let threads = (0..threads).map(|t| {
        let sample = |i: i64| Sample {
            time_ns: START + SPAN / each * i + t * 37,
            weight_ns: (SPAN / each).unsigned_abs(),
            stack: u32::try_from(dice.below(FUNCTIONS.into())).unwrap_or(0),
        };
        let tid = u32::try_from(1000 + t).unwrap_or(0);
        let samples = Arc::new((0..each).map(sample).collect());
        Thread {
            pid: 1000,
            tid,
            process: "bench".into(),
            name: "bench".into(),
            begins: String::new(),
            samples,
            waits: Arc::default(),
        }
    });
    let function = |f: u32| Function {
        name: format!("function{f}"),
        object: format!("object{}", f % 7),
        group: format!("object{}", f % 7).into(),
    };
    Recording {
        name: "bench".into(),
        start_ns: START,
        time: TimeOf::Cpu,
        threads: threads.collect(),
        functions: (0..FUNCTIONS).map(function).collect(),
        stacks: (0..FUNCTIONS).collect(),
        waits: RecordedWaits::default(),
        groups: GroupWeights::default(),
        marks: Vec::new(),
        notes: Vec::new(),
        windows: Arc::new(Unanswered),
    }
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

/// Median and 95th percentile of the time until tiles of a level are final, and the largest.
fn tiles(store: &Store, level: u32) -> (f64, f64, usize) {
    let lanes: Vec<LaneRef> = (0..SHOWN).map(|lane| LaneRef { trace: 0, lane }).collect();
    let mut dice = pct_kit::Dice::new(3);
    let mut largest = 0;
    let mut times: Vec<f64> = (0..60)
        .map(|_| {
            let time = START + i64::try_from(dice.below(SPAN.unsigned_abs())).unwrap_or(0);
            let id = TileId::holding(lttv_engine::time::Time(time), level);
            let ask = TileAsk { id, asker: Asker::default(), lanes: Some(lanes.clone()), is_packed: true };
            let begun = Instant::now();
            loop {
                let text = tile(store, &ask).unwrap_or_default();
                if text.contains("\"final\":true") {
                    largest = largest.max(text.len());
                    return ms(begun.elapsed());
                }
            }
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times[times.len() * 95 / 100], largest)
}

/// A kernel trace of about so many octets: reading alone, and the pass.
fn kernel_trace(octets: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let shape = Shape { octets, cpus: 4, threads: 25, seed: 1 };
    let events = write(folder.path(), &shape).expect("written").total();
    let opened = lttv_sources::open(folder.path(), &lttv_ctf::Options::default());
    let source = opened.into_iter().next().expect("a trace").expect("opens").source;
    let rate = |seconds: f64| events as f64 / seconds / 1e6;
    let begun = Cpu::own().total();
    for file in 0..source.tracefiles().len() {
        let mut cursor = source.cursor(file).expect("a cursor");
        let mut head = cursor.seek_time(lttv_engine::time::Time::MIN).expect("reads");
        while head.is_some() {
            head = cursor.advance().expect("reads");
        }
    }
    let plain = Cpu::own().total() - begun;
    println!("\n{events} events of a kernel trace, {} MB", octets >> 20);
    println!("reading alone         {:>9.0} ms CPU  {:.2} M events/s", plain * 1e3, rate(plain));
    let shown = Shown { name: "kernel".into(), source, recording: None, notes: Vec::new(), kept: None };
    let begun = Cpu::own().total();
    let store = Store::new(vec![shown]).expect("begins");
    assert!(store.wait_until_whole(Duration::from_secs(3600)), "ends");
    let pass = Cpu::own().total() - begun;
    let share = plain / pass;
    println!("pass                  {:>9.0} ms CPU  {:.2} M events/s, {share:.2}x", pass * 1e3, rate(pass));
    println!("memory                {:>9} MB", pct_kit::peak_kib("self") / 1024);
}

fn main() {
    let mut words = std::env::args().skip(1).filter_map(|word| word.parse().ok());
    let (samples, threads) = (words.next().unwrap_or(10_000_000), words.next().unwrap_or(100));
    let recording = recording(samples, threads);
    let before = pct_kit::peak_kib("self");
    let (begun, cpu) = (Instant::now(), Cpu::own().total());
    let store = Store::new(vec![Shown::recording(recording)]).expect("begins");
    assert!(store.wait_until_whole(Duration::from_secs(600)), "ends");
    let (pass, cpu) = (begun.elapsed(), Cpu::own().total() - cpu);
    let timeline = store.timeline(0).expect("computed");
    let (events, _) = timeline.events();
    println!("{events} samples, {threads} threads, {FUNCTIONS} functions, 100 s");
    let rate = events as f64 / cpu / 1e6;
    println!("pass                  {:>9.0} ms  {:.0} ms CPU, {rate:.2} M samples/s", ms(pass), cpu * 1e3);
    let (cells, bytes) = (timeline.stored(), timeline.size());
    println!("cells                 {cells:>9}     in {} MB, base level {}", bytes >> 20, timeline.base());
    let whole = level_for(SPAN.unsigned_abs(), 1600);
    for (what, level) in [
        ("whole view", whole.max(timeline.base())),
        ("base level", timeline.base()),
        ("1 below the base", timeline.base() - 1),
        ("6 below the base", timeline.base() - 6),
    ] {
        let (middle, most, largest) = tiles(&store, level);
        println!("tile, {what:<16} {middle:>7.2} ms  95 %: {most:.2} ms, largest {largest} octets");
    }
    println!(
        "memory                {:>9} MB  {} MB of it before the pass",
        pct_kit::peak_kib("self") / 1024,
        before / 1024
    );
    drop(store);
    if let Some(megabytes) = words.next().filter(|megabytes| *megabytes > 0) {
        kernel_trace(u64::try_from(megabytes).unwrap_or(0) << 20);
    }
}
