//! Decode speed beside babeltrace2, on a trace given on the command line.
//!
//! ```text
//! lttv-sched/ctf/benches/ust/record /tmp/ust 4000000
//! cargo bench -p lttv-ctf --bench decode -- /tmp/ust [--check] [--pairs N]
//! ```
//!
//! Prints user times of interleaved pairs, their medians and the ratio, and the time to the first and last event of windows of
//! 0.1 % of the trace, each from a cold open. `--check` compares number and names and times of all events with
//! babeltrace2's text output first (slow).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::{Hash, Hasher};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use lttv_ctf::{EventTime, Options, Reader, Trace, open_all};

/// User time of this process and of its children that ended, seconds.
fn user_time() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> =
        stat.rsplit(')').next().unwrap_or("").split_whitespace().filter_map(|f| f.parse().ok()).collect();
    // After the name and the state letter: utime is field 14 of the line, cutime 16, in ticks of 10 ms.
    (fields.get(10).copied().unwrap_or(0.0) / 100.0, fields.get(12).copied().unwrap_or(0.0) / 100.0)
}

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

    /// Calls `f` for each event in order until it says no.
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

fn median(mut v: Vec<f64>) -> f64 {
    v.sort_by(f64::total_cmp);
    v.get(v.len() / 2).copied().unwrap_or(f64::NAN)
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
    let (mut full, mut count, mut peer, mut ratio) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut events = 0;
    for _ in 0..pairs {
        let t = user_time().0;
        events = ours(dir, true);
        let f = user_time().0 - t;
        let t = user_time().1;
        let ran = Command::new("babeltrace2")
            .args(["-o", "dummy"])
            .arg(dir)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let p = user_time().1 - t;
        let t = user_time().0;
        ours(dir, false);
        count.push(user_time().0 - t);
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
    windows(dir);
}

fn windows(dir: &Path) {
    let traces = open_all(dir, &Options::default()).expect("the trace opens");
    let spans = traces.iter().flat_map(|t| (0..t.stream_count()).filter_map(|s| t.stream_span(s)));
    let Some((first, last)) = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else { return };
    drop(traces);
    let width = (last - first) / 1000;
    println!(
        "windows of 0.1 % from a cold open (wall time): place, events, ms to the first event, ms in all"
    );
    for percent in [0, 25, 50, 75, 99] {
        let from = first + (last - first) / 100 * percent;
        let start = Instant::now();
        let traces = open_all(dir, &Options::default()).expect("the trace opens");
        let (mut n, mut to_first) = (0u64, None);
        Merge::new(&traces, from).run(|t, r| {
            to_first.get_or_insert_with(|| start.elapsed());
            if t >= from + width {
                return false;
            }
            r.decode_all();
            n += 1;
            true
        });
        let ms = |d: std::time::Duration| d.as_secs_f64() * 1e3;
        println!(
            "  {percent:3} %  {n:8}  {:8.2}  {:8.2}",
            to_first.map_or(f64::NAN, ms),
            ms(start.elapsed())
        );
    }
}
