//! Waits of threads on the page: their lanes against the waits themselves, the table of a range, and the way from one
//! wait to the next.

use std::sync::Arc;

use lttv_engine::time::Time;
use lttv_modules::timeline::lanes::LaneKind;
use lttv_modules::timeline::tile::TileId;
use lttv_page::recording::{Function, Sample, Samples, Thread, TimeOf};
use lttv_page::store::Asker;
use lttv_page::waits::{EndedBy, RecordedWaits, Wait, WaitName, WaitSort};
use lttv_page::windows::Unanswered;
use lttv_page::{Recording, Shown, Store, TimelinePage};
use pct_icicle::GroupWeights;
use pct_kit::Dice;
use serde_json::Value as Json;

use crate::recorded::{START, STEP, get, whole};

const NAMES: [(&str, WaitSort); 3] =
    [("mutex", WaitSort::Lock), ("read pipe", WaitSort::Work), ("a CPU", WaitSort::Processor)];
const TEXTS: [&str; 5] = ["mutex 0x1000", "read pipe", "hold", "take<T>", "give"];

/// A wait of so many steps; who ended it: the second thread in `give`.
fn wait((from, to): (i64, i64), name: u32, place: u32, is_ended: bool) -> Wait {
    let ended_by = is_ended.then_some(EndedBy { thread: 1, place: Some(4) });
    Wait {
        from_ns: START + from * STEP,
        to_ns: START + to * STEP,
        name,
        object: name.min(1),
        place,
        ended_by,
    }
}

fn thread(tid: u32, samples: Samples, waits: Vec<Wait>) -> Thread {
    Thread {
        pid: 500,
        tid,
        process: "prog".into(),
        name: format!("t{tid}"),
        begins: String::new(),
        samples: Arc::new(samples),
        waits: waits.into(),
    }
}

fn recording(threads: Vec<Thread>, time: TimeOf, blocked: &[bool]) -> Recording {
    Recording {
        name: "run".into(),
        start_ns: START,
        time,
        threads,
        functions: vec![Function { name: "f".into(), object: "prog".into(), group: "prog".into() }],
        stacks: [0, 0].into(),
        waits: RecordedWaits {
            names: NAMES.map(|(name, sort)| WaitName { name: name.into(), sort }).into(),
            texts: TEXTS.map(Arc::from).into(),
            blocked: blocked.into(),
        },
        groups: GroupWeights::default(),
        marks: Vec::new(),
        notes: Vec::new(),
        windows: Arc::new(Unanswered),
    }
}

fn samples(of: impl IntoIterator<Item = (i64, u32)>) -> Samples {
    let sample = |(at, stack)| Sample { time_ns: START + at * STEP, weight_ns: STEP.unsigned_abs(), stack };
    of.into_iter().map(sample).collect()
}

/// Thread 500 waits for a mutex twice and for a pipe once, thread 501 ends two of these waits; 502 only waits.
fn page() -> TimelinePage {
    let waits = vec![wait((10, 30), 0, 2, true), wait((40, 45), 1, 3, false), wait((60, 100), 0, 2, true)];
    let threads = vec![
        thread(500, samples((0..10).map(|at| (at, 0))), waits),
        thread(501, samples((0..60).map(|at| (at, 0))), Vec::new()),
        thread(502, Samples::default(), vec![wait((0, 120), 1, 3, false)]),
    ];
    TimelinePage::new(whole(vec![Shown::recording(recording(threads, TimeOf::Cpu, &[]))]))
}

/// The lanes beside the picture: kind, what stands there, and its id.
fn lanes(page: &TimelinePage, query: &str) -> Vec<(String, String, String)> {
    let html = get(page, "/tl/lanes", query).body;
    let value = |row: &str, key: &str| {
        row.split(&format!("{key}=\""))
            .nth(1)
            .and_then(|rest| rest.split('"').next())
            .unwrap_or("")
            .to_owned()
    };
    let text = |row: &str| {
        let pieces = row.split('>').skip(1).map(|piece| piece.split('<').next().unwrap_or(""));
        pieces.collect::<Vec<_>>().join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let rows = html.split("<div class=\"row ").skip(1);
    rows.map(|row| (value(row, "data-kind"), text(row), value(row, "data-id"))).collect()
}

#[test]
fn waits_have_a_lane_below_the_samples_of_their_thread() {
    let page = page();
    let told: Vec<(String, String)> =
        lanes(&page, "").into_iter().map(|(kind, text, _)| (kind, text)).collect();
    let row = |kind: &str, text: &str| (kind.to_owned(), text.to_owned());
    assert_eq!(
        told,
        [
            row("samples", "t501 (501) 60.0 ms"),
            row("samples", "t500 (500) 10.0 ms"),
            row("waits", "waits 65.0 ms"),
            // It has no sample: the lane says whose it is.
            row("waits", "t502 (502) 120.0 ms"),
        ]
    );
    // A wait may be the first and the last thing of all.
    let html = get(&page, "/tl", "").body;
    assert!(html.contains("0.0000 s to 0.1200 s"), "{html}");
    assert!(html.contains("waits for locks"), "a legend");
    // By the lane of its waits the thread alone, and by one that has nothing in it too.
    for query in ["lane=0.0", "lane=0.3", "lane=0.2"] {
        let alone = lanes(&page, query);
        assert!(!alone.is_empty() && alone.len() <= 2, "{query}: {alone:?}");
    }
}

#[test]
fn the_table_of_a_range_counts_what_lies_in_it() {
    let page = page();
    let range = format!("tab=waits&a={}&b={}", START + 20 * STEP, START + 80 * STEP);
    let html = get(&page, "/tl/window", &range).body;
    let cells = |html: &str| -> Vec<Vec<String>> {
        let rows = html.split("<tr data-ns=\"").skip(1);
        let cells = |row: &str| {
            let cells =
                row.split("<td").skip(1).filter_map(|cell| cell.split_once('>')?.1.split("</td>").next());
            cells.map(str::to_owned).collect()
        };
        rows.map(cells).collect()
    };
    let row = |cells: [&str; 7]| cells.map(str::to_owned).to_vec();
    let locks = html.split("waits for locks").nth(1).expect("a heading");
    assert!(locks.starts_with(": 30.00 ms in 2 waits"), "{locks}");
    let all = cells(&html);
    assert_eq!(all[0], row(["30.00 ms", "100.0%", "2", "20.00 ms", "mutex 0x1000", "hold", "give"]));
    let work = ["65.00 ms", "100.0%", "2", "60.00 ms", "read pipe", "take&lt;T&gt;"].map(str::to_owned);
    assert_eq!(all[1], work, "nobody is known to have ended them");
    assert!(html.contains("one by one"), "how to see each");
    // One thread, and each of its waits.
    let lane = lanes(&page, "").into_iter().find(|lane| lane.1.starts_with("t500")).expect("a lane").2;
    let html = get(&page, "/tl/window", &format!("{range}&lane={lane}")).body;
    assert_eq!(html.matches("data-from=").count(), 3);
    assert!(html.contains("t501") && html.contains(" in give"), "{html}");
    // No wait in the range.
    let none = format!("tab=waits&lane={lane}&a={}&b={}", START + 31 * STEP, START + 39 * STEP);
    assert!(get(&page, "/tl/window", &none).body.contains("no thread waited here"));
}

#[test]
fn a_wait_leads_to_the_next_and_back() {
    let page = page();
    let lane = lanes(&page, "").into_iter().find(|lane| lane.1.starts_with("t500")).expect("a lane").2;
    let change = |at: i64, dir: &str| -> Option<(i64, i64, String)> {
        let query = format!("lane={lane}&t={}&dir={dir}", START + at * STEP);
        let got: Json = serde_json::from_str(&get(&page, "/tl/change", &query).body).expect("JSON");
        let step = |key: &str| Some((got[key].as_str()?.parse::<i64>().ok()? - START) / STEP);
        let ended = got["woken_by"]
            .as_str()
            .map_or_else(String::new, |who| format!(", {} {who}", got["ended"].as_str().unwrap_or("")));
        Some((step("from")?, step("to")?, format!("{}{ended}", got["state"].as_str()?)))
    };
    let lock = "waits for mutex 0x1000 in hold, ended by t501 \u{b7} prog (501) in give";
    assert_eq!(change(0, "next"), Some((10, 30, lock.into())));
    assert_eq!(change(10, "next"), Some((40, 45, "waits for read pipe in take<T>".into())));
    assert_eq!(change(40, "next"), Some((60, 100, lock.into())));
    assert_eq!(change(60, "next"), None);
    assert_eq!(change(60, "previous"), Some((40, 45, "waits for read pipe in take<T>".into())));
    assert_eq!(change(10, "previous"), None);
}

/// Sums of the cells of a lane over [from, to] at a level: weight and items.
fn sums(store: &Store, lane: usize, level: u32, (from, to): (i64, i64)) -> (u64, u64) {
    let (first, last) = (TileId::holding(Time(from), level), TileId::holding(Time(to), level));
    let tiles = (first.index()..=last.index()).filter_map(|index| TileId::new(level, index));
    let tiles = tiles.filter_map(|id| store.tile(0, id, Asker::default()));
    let cells = tiles.flat_map(|tile| tile.lanes).filter(|of| of.lane == lane).flat_map(|of| of.cells);
    cells.fold((0, 0), |(w, n), cell| {
        let len = u64::from(cell.len);
        (w + cell.w * len, n + cell.n * len)
    })
}

/// Random waits, some of which overlap: at each level the cells hold the time in which the thread waited, and each
/// bucket what lies in it.
#[test]
fn cells_of_waits_hold_their_time_at_every_level() {
    for seed in 0..8 {
        let mut dice = Dice::new(seed);
        let mut waits = Vec::new();
        let mut at = START;
        for _ in 0..dice.below(200) + 1 {
            at += i64::try_from(dice.below(3) * dice.below(5_000_000)).expect("small");
            let spread = 1 << dice.below(30);
            let length = i64::try_from(dice.below(spread) + 1).expect("small");
            let name = u32::try_from(dice.below(3)).expect("small");
            waits.push(Wait { from_ns: at, to_ns: at + length, name, object: 0, place: 2, ended_by: None });
            at += i64::try_from(dice.below(2)).expect("small") * length;
        }
        // The time in which at least one of them lasts.
        let (mut covered, mut end) = (0_u64, i64::MIN);
        for wait in &waits {
            let from = wait.from_ns.max(end);
            covered += u64::try_from(wait.to_ns - from).unwrap_or(0);
            end = end.max(wait.to_ns);
        }
        let threads = vec![thread(500, samples([(0, 0)]), waits)];
        let store = whole(vec![Shown::recording(recording(threads, TimeOf::Cpu, &[]))]);
        let lane = store.lanes(0).iter().position(|lane| lane.kind == LaneKind::Waits).expect("a lane");
        for level in [8, 14, 20, 24, 30, 36, 45] {
            if (end - START) >> (level + 8) < 20_000 {
                assert_eq!(sums(&store, lane, level, (START, end)).0, covered, "seed {seed}, level {level}");
            }
        }
        let tile = store.tile(0, TileId::holding(Time(START), 20), Asker::default()).expect("a tile");
        let cells = tile.lanes.iter().filter(|of| of.lane == lane).flat_map(|of| &of.cells);
        cells.for_each(|cell| assert!(cell.w <= 1 << 20, "more than all of the bucket"));
    }
}

/// Samples by the wall clock: those of a thread that did not run are in no lane of samples, and each of the others
/// stands for the time since the one before, whatever that was of.
#[test]
fn by_the_wall_clock_lanes_show_when_a_thread_ran() {
    let blocked = [false, true];
    // 1 ms apart: ran, waited, waited, ran, ran; then nobody looked for 10 ms.
    let looks = [(1, 0), (2, 1), (3, 1), (4, 0), (5, 0), (15, 0)];
    let threads = vec![thread(500, samples(looks), vec![wait((1, 3), 1, 3, false)])];
    let store = whole(vec![Shown::recording(recording(threads, TimeOf::Wall, &blocked))]);
    let kinds: Vec<LaneKind> = store.lanes(0).iter().map(|lane| lane.kind).collect();
    assert_eq!(kinds, [LaneKind::Ran, LaneKind::Waits, LaneKind::Events]);
    let span = (START, START + 20 * STEP);
    for level in [10, 16, 20, 27] {
        let ms = STEP.unsigned_abs();
        assert_eq!(sums(&store, 0, level, span), (4 * ms, 4), "level {level}");
        assert_eq!(sums(&store, 1, level, span), (2 * ms, 1), "level {level}");
    }
    // All samples count as such, in the head and in the table of the recording.
    assert_eq!(store.timeline(0).expect("computed").events().0, 6);
    let page = TimelinePage::new(store);
    let told = lanes(&page, "");
    assert_eq!((told[0].0.as_str(), told[0].1.as_str()), ("ran", "t500 \u{b7} prog (500) 4.0 ms"));
    assert_eq!((told[1].0.as_str(), told[1].1.as_str()), ("waits", "waits 2.0 ms"));
    assert!(get(&page, "/tl", "").body.contains("mean share of a CPU"));
}
