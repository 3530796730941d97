//! A made-up recording whose every figure is known, and the page of it.

use std::sync::Arc;
use std::time::Duration;

use lttv_page::recording::{Function, FunctionRow, Sample, Thread};
use lttv_page::{Recording, Shown, Store, TimelinePage, Window, WindowSums, Windows};
use pct_icicle::Tree;
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
        samples: (0..SAMPLES)
            .filter(|i| t == 0 || i % 4 == 0)
            .map(|i| Sample {
                time_ns: START + i * STEP,
                weight_ns: STEP.unsigned_abs(),
                function: u32::try_from((i / 500 + t) % 3).expect("small"),
            })
            .collect(),
    };
    vec![thread(0), thread(1)]
}

const FUNCTIONS: [(&str, &str); 3] = [("parse", "prog"), (HOSTILE, "lib.so"), ("write", "libc.so.6")];

/// Counts by going through all samples.
struct Naive(Vec<Thread>);

impl Windows for Naive {
    fn sums(&self, window: &Window) -> WindowSums {
        let mut rows: Vec<FunctionRow> = FUNCTIONS
            .iter()
            .map(|(name, object)| FunctionRow {
                name: (*name).into(),
                object: (*object).into(),
                own_ns: 0,
                total_ns: 0,
                samples: 0,
            })
            .collect();
        let mut tree = Tree::new("all");
        for (at, thread) in self.0.iter().enumerate() {
            let wanted = window.threads.as_ref().is_none_or(|threads| threads.contains(&at));
            let inside = |s: &&Sample| (window.from_ns..window.to_ns).contains(&s.time_ns);
            for sample in thread.samples.iter().filter(|s| wanted && inside(s)) {
                let row = &mut rows[usize::try_from(sample.function).expect("small")];
                row.own_ns += sample.weight_ns;
                row.total_ns += sample.weight_ns;
                row.samples += 1;
                tree.add_stack(["main", &row.name], sample.weight_ns / 1000);
            }
        }
        rows.retain(|row| row.samples > 0);
        let samples = rows.iter().map(|row| row.samples).sum();
        let cpu_ns = rows.iter().map(|row| row.own_ns).sum();
        WindowSums { samples, cpu_ns, functions: rows, tree }
    }
}

pub(crate) fn recording() -> Recording {
    let function = |(name, object): (&str, &str)| Function { name: name.into(), object: object.into() };
    Recording {
        name: "pct-prog-500".into(),
        start_ns: START,
        threads: threads(),
        functions: FUNCTIONS.map(function).into(),
        marks: vec![(START + 7, "begin".into())],
        notes: vec!["3 samples lost: overwritten".into()],
        windows: Arc::new(Naive(threads())),
    }
}

/// A store whose passes have ended.
pub(crate) fn whole(shown: Vec<Shown>) -> Store {
    let store = Store::new(shown).expect("begins");
    assert!(store.wait_until_whole(Duration::from_secs(120)), "the passes end");
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
