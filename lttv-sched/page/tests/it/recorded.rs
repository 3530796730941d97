//! A made-up recording whose every figure is known, and the page of it.

use std::sync::Arc;
use std::time::Duration;

use lttv_page::recording::{Function, Sample, Thread, TimeOf};
use lttv_page::waits::RecordedWaits;
use lttv_page::windows::{
    CallNode, ChartSize, ChartedCall, FileFormat, Filters, FunctionRow, ListedLine, Listing, Listings,
    SampledTime, StackChart, Transform, TransformKind, Trees,
};
use lttv_page::{Recording, Shown, Store, TimelinePage, Window, WindowSums, Windows};
use pct_icicle::GroupWeights;
use pct_kit::wait::wait_until;
use pct_server::answer::{Answers as _, Reply, Response};

/// First time, ns since 1970.
pub(crate) const START: i64 = 1_795_000_000_000_000_000;
/// Time between two samples of a thread.
pub(crate) const STEP: i64 = 1_000_000;
/// Samples of each thread.
pub(crate) const SAMPLES: i64 = 4000;
/// Names that want to be markup, script, or the end of an attribute.
pub(crate) const HOSTILE: &str = "</script><b onclick=\"x\">'&\n\u{202e}name";

/// Thread `t` runs function `(i / 500 + t) % 3` in its sample `i`; the odd thread runs only every fourth step.
fn threads() -> Vec<Thread> {
    let thread = |t: i64| Thread {
        pid: 500,
        tid: u32::try_from(500 + t).expect("small"),
        process: "prog".into(),
        name: if t == 1 { HOSTILE.into() } else { "prog".into() },
        begins: String::new(),
        samples: Arc::new(
            (0..SAMPLES)
                .filter(|i| t == 0 || i % 4 == 0)
                .map(|i| Sample {
                    time_ns: START + i * STEP,
                    weight_ns: STEP.unsigned_abs(),
                    stack: u32::try_from((i / 500 + t) % 3).expect("small"),
                })
                .collect(),
        ),
        waits: Arc::default(),
    };
    vec![thread(0), thread(1)]
}

const FUNCTIONS: [(&str, &str); 3] = [("parse", "prog"), (HOSTILE, "lib.so"), ("write", "libc.so.6")];

/// Counts by going through all samples; and says that there are so many times more.
struct Naive(Vec<Thread>, u64);

impl Naive {
    /// Function and weight of each sample of a window. All stacks are `main` and the function.
    fn samples<'a>(&'a self, window: &'a Window) -> impl Iterator<Item = (usize, Sample, &'static str)> {
        let threads = self.0.iter().enumerate();
        let wanted = threads
            .filter(|(at, _)| window.threads.as_ref().is_none_or(|threads| threads.contains(at)))
            .filter(|(_, thread)| thread.name.contains(&*window.filters.thread));
        let all = wanted.flat_map(|(at, thread)| thread.samples.iter().map(move |sample| (at, sample)));
        let named =
            all.map(|(at, sample)| (at, sample, FUNCTIONS[usize::try_from(sample.stack).expect("small")].0));
        let inside = named.filter(|(_, s, _)| (window.from_ns..window.to_ns).contains(&s.time_ns));
        inside.filter(|(_, _, name)| {
            let is = |t: &Transform, kind| t.kind == kind && t.name == *name;
            name.contains(&*window.filters.function)
                && !window.transforms.iter().any(|t| is(t, TransformKind::Ignore))
        })
    }
}

fn node(parent: Option<usize>, name: &str, own: u64, ends: u64, total: u64) -> CallNode {
    let object = FUNCTIONS.iter().find(|function| function.0 == name).map_or("prog", |function| function.1);
    let (name, object) = (name.into(), object.into());
    CallNode { parent, name, object, own_ns: own, ends_ns: ends, total_ns: total }
}

fn trees_of(rows: &[FunctionRow], all: u64, wanted: &Trees) -> Vec<Vec<CallNode>> {
    let below = |parent| rows.iter().map(move |r| node(parent, &r.name, r.leaf.ns, r.leaf.ns, r.leaf.ns));
    let calls: Vec<CallNode> = std::iter::once(node(None, "main", 0, 0, all)).chain(below(Some(0))).collect();
    let up = |row: &FunctionRow, at| {
        [
            node(None, &row.name, row.leaf.ns, 0, row.leaf.ns),
            node(Some(at), "main", 0, row.leaf.ns, row.leaf.ns),
        ]
    };
    match wanted {
        Trees::None => Vec::new(),
        Trees::Calls => vec![calls],
        Trees::Inverted => {
            vec![rows.iter().enumerate().flat_map(|(at, row)| up(row, at * 2)).collect()]
        }
        Trees::Sandwich(name) if name == "main" => vec![vec![node(None, "main", 0, all, all)], calls],
        Trees::Sandwich(name) => match rows.iter().find(|row| row.name == *name) {
            Some(row) => vec![up(row, 0).into(), below(None).filter(|node| *node.name == **name).collect()],
            None => vec![Vec::new(), Vec::new()],
        },
    }
}

impl Windows for Naive {
    fn samples(&self, from_ns: i64, to_ns: i64) -> u64 {
        let times = self.0.iter().flat_map(|thread| thread.samples.iter()).map(|sample| sample.time_ns);
        times.filter(|time| (from_ns..to_ns).contains(time)).count() as u64 * self.1
    }

    fn sums(&self, window: &Window, trees: &Trees) -> Result<WindowSums, String> {
        if window.filters.function == "(" {
            return Err("bad pattern".into());
        }
        let mut rows: Vec<FunctionRow> = FUNCTIONS
            .iter()
            .map(|(name, object)| FunctionRow {
                name: (*name).into(),
                object: (*object).into(),
                owned: SampledTime::default(),
                leaf: SampledTime::default(),
                total: SampledTime::default(),
            })
            .collect();
        for (_, sample, _) in self.samples(window) {
            let row = &mut rows[usize::try_from(sample.stack).expect("small")];
            for time in [&mut row.owned, &mut row.leaf, &mut row.total] {
                time.ns += sample.weight_ns;
                time.samples += 1;
            }
        }
        rows.retain(|row| row.leaf.samples > 0);
        let samples = rows.iter().map(|row| row.leaf.samples).sum();
        let cpu_ns = rows.iter().map(|row| row.leaf.ns).sum();
        let trees = trees_of(&rows, cpu_ns, trees);
        Ok(WindowSums { samples, cpu_ns, functions: rows, trees })
    }

    /// `main` as long as there are samples of the thread, with a call for each run of samples in one function.
    fn stack_chart(&self, window: &Window, size: ChartSize) -> Result<Option<StackChart>, String> {
        if window.filters.function == "(" {
            return Err("bad pattern".into());
        }
        let thread = window.threads.as_ref().map_or(0, |threads| threads[0]);
        let mut calls: Vec<ChartedCall> = Vec::new();
        let call = |parent, name: &str, from_ns| {
            let object = FUNCTIONS.iter().find(|(function, _)| *function == name).map_or("prog", |f| f.1);
            ChartedCall { parent, name: name.into(), object: object.into(), from_ns, to_ns: from_ns }
        };
        for (_, sample, name) in self.samples(window).filter(|(at, ..)| *at == thread) {
            if calls.is_empty() {
                calls.push(call(None, "main", sample.time_ns));
            }
            if calls.len() == 1 || calls.last().is_some_and(|call| *call.name != *name) {
                calls.push(call(Some(0), name, sample.time_ns));
            }
            for at in [0, calls.len() - 1] {
                calls[at].to_ns = sample.time_ns + STEP;
            }
        }
        let chart = StackChart { thread, calls, columns: size.columns, filled: 8, mixed: 3, cut: 2 };
        Ok(Some(chart).filter(|chart| !chart.calls.is_empty()))
    }

    fn listings(&self, window: &Window, function: &str) -> Result<Listings, String> {
        let own_ns = self.samples(window).filter(|s| s.2 == function).map(|s| s.1.weight_ns).sum();
        let line = |place: &str, own_ns, text: &str| ListedLine {
            own_ns,
            total_ns: own_ns,
            place: place.into(),
            text: text.into(),
        };
        let lines = vec![line("7", 0, "if (a < b)"), line("8", own_ns, "    work();")];
        let listing = Listing { title: "src/prog.c".into(), has_totals: true, lines };
        let remarks = vec!["no instructions".into()];
        Ok(Listings { listings: vec![listing], remarks, own_ns, total_ns: own_ns, whole_ns: own_ns * 2 })
    }

    fn file(&self, window: &Window, format: FileFormat) -> Result<Vec<u8>, String> {
        let line = |(_, sample, name): (usize, Sample, &str)| match format {
            FileFormat::Folded => format!("main;{name} 1\n"),
            _ => format!("{{\"ns\":{}}}\n", sample.time_ns),
        };
        Ok(self.samples(window).map(line).collect::<String>().into_bytes())
    }

    fn hits(&self, pattern: &str, most: usize) -> Result<(Vec<(i64, usize)>, u64), String> {
        if pattern == "(" {
            return Err("bad pattern".into());
        }
        let (filters, transforms) = (Filters::default(), Vec::new());
        let all = Window { from_ns: i64::MIN, to_ns: i64::MAX, threads: None, filters, transforms };
        let found = self.samples(&all).filter(|s| s.2.contains(pattern) || "main".contains(pattern));
        let mut found: Vec<(i64, usize)> = found.map(|(at, sample, _)| (sample.time_ns, at)).collect();
        found.sort_unstable();
        let total = found.len() as u64;
        found.truncate(most);
        Ok((found, total))
    }
}

pub(crate) fn recording() -> Recording {
    recording_times(1)
}

/// The recording, of which is said that it has so many times more samples than it has.
pub(crate) fn recording_times(more: u64) -> Recording {
    let function = |(name, object): (&str, &str)| Function {
        name: name.into(),
        object: object.into(),
        group: object.into(),
    };
    Recording {
        name: "pct-prog-500".into(),
        start_ns: START,
        time: TimeOf::Cpu,
        threads: threads(),
        functions: FUNCTIONS.map(function).into(),
        stacks: [0, 1, 2].into(),
        waits: RecordedWaits::default(),
        groups: GroupWeights::default(),
        marks: vec![(START + 7, "begin".into())],
        notes: vec!["3 samples lost: overwritten".into()],
        windows: Arc::new(Naive(threads(), more)),
    }
}

/// How long a request may take here: a busy machine must not decide what a page says.
pub(crate) const LONG: Duration = Duration::from_secs(1800);

/// A store whose passes have ended.
pub(crate) fn whole(shown: Vec<Shown>) -> Store {
    let store = Store::new(shown).expect("begins").patient(LONG);
    wait_until("the end of the passes", || store.is_whole());
    store
}

pub(crate) fn page() -> TimelinePage {
    TimelinePage::new(whole(vec![Shown::recording(recording())]))
}

/// What a page answers to an address.
pub(crate) fn get(page: &TimelinePage, path: &str, query: &str) -> Response {
    match page.answer_path(path, query) {
        Some(Reply::Whole(response)) => response,
        _ => panic!("{path} gives one answer"),
    }
}
