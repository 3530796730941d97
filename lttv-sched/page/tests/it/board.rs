//! Which lanes a page has, in which order, and what stands above them.

use std::sync::Arc;

use lttv_page::recording::{Function, Sample, Thread, TimeOf};
use lttv_page::waits::RecordedWaits;
use lttv_page::windows::Unanswered;
use lttv_page::{Recording, Shown, TimelinePage};
use pct_icicle::GroupWeights;

use crate::recorded::{START, STEP, get, whole};

/// Process, thread, the thread's name, and how many samples it has.
type Told = (u32, &'static str, u32, &'static str, i64);

fn page(threads: &[Told]) -> TimelinePage {
    let thread = |&(pid, process, tid, name, samples): &Told| {
        let sample = |i: i64| Sample { time_ns: START + i * STEP, weight_ns: STEP.unsigned_abs(), stack: 0 };
        Thread {
            pid,
            tid,
            process: process.into(),
            name: name.into(),
            begins: String::new(),
            samples: Arc::new((0..samples).map(sample).collect()),
            waits: Arc::default(),
        }
    };
    let recording = Recording {
        name: "run".into(),
        start_ns: START,
        time: TimeOf::Cpu,
        threads: threads.iter().map(thread).collect(),
        functions: vec![Function { name: "f".into(), object: "prog".into(), group: "prog".into() }],
        stacks: [0].into(),
        waits: RecordedWaits::default(),
        groups: GroupWeights::default(),
        marks: Vec::new(),
        notes: Vec::new(),
        windows: Arc::new(Unanswered),
    };
    TimelinePage::new(whole(vec![Shown::recording(recording)]))
}

/// What stands beside the lanes, from above: names of lanes, and in brackets those of processes.
fn beside(page: &TimelinePage, query: &str) -> Vec<String> {
    let html = get(page, "/tl", query).body;
    let lanes =
        html.split("id=\"lanes\"").nth(1).and_then(|rest| rest.split("id=\"plot\"").next()).expect("lanes");
    let mut found = Vec::new();
    for part in lanes.split("<div class=\"").skip(1) {
        let text: Vec<&str> =
            part.split('>').skip(1).map(|piece| piece.split('<').next().unwrap_or("")).collect();
        let text = text.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
        found.push(if part.starts_with("process\"") { format!("[{text}]") } else { text });
    }
    found
}

#[test]
fn the_lanes_of_a_process_stand_together_below_its_name_and_the_busiest_process_first() {
    let page = page(&[
        (10, "a", 10, "a", 300),
        (20, "b", 20, "b", 250),
        (20, "b", 21, "worker", 240),
        (10, "a", 11, "worker", 100),
        (30, "c", 30, "c", 200),
    ]);
    assert_eq!(
        beside(&page, ""),
        [
            "[b (20) 2 threads]",
            "b (20) 250.0 ms",
            "worker (21) 240.0 ms",
            "[a (10) 2 threads]",
            "a (10) 300.0 ms",
            "worker (11) 100.0 ms",
            "c (30) 200.0 ms"
        ]
    );
    // One lane alone says itself whose it is.
    let html = get(&page, "/tl", "").body;
    let id = html.split("data-id=\"").nth(2).and_then(|rest| rest.split('"').next()).expect("a second lane");
    assert_eq!(beside(&page, &format!("lane={id}")), ["worker \u{b7} b (21) 240.0 ms"]);
}

#[test]
fn a_heading_tells_how_many_threads_have_no_lane_and_a_process_with_one_lane_has_none() {
    let threads: Vec<Told> = vec![
        (10, "a", 10, "a", 4000),
        (10, "a", 11, "x", 3000),
        (10, "a", 12, "idle", 1),
        (20, "b", 20, "b", 2000),
        (20, "b", 21, "idle", 1),
    ];
    let page = page(&threads);
    let beside_all = beside(&page, "");
    assert_eq!(beside_all[0], "[a (10) 2 of 3 threads]", "{beside_all:?}");
    assert!(!beside_all.iter().any(|text| text.starts_with("[b")), "{beside_all:?}");
    let all = beside(&page, "all=1");
    assert!(
        all.contains(&"[a (10) 3 threads]".to_owned()) && all.contains(&"[b (20) 2 threads]".to_owned()),
        "{all:?}"
    );
}

#[test]
fn a_lane_has_the_name_of_the_program_that_ran_most_under_its_number() {
    // A shell that executes another program, which goes on under the same number.
    let page =
        page(&[(10, "sh", 10, "sh", 3), (10, "python3", 10, "python3", 300), (10, "true", 10, "true", 2)]);
    assert_eq!(beside(&page, ""), ["python3 (10) 305.0 ms"]);
}
