//! Real traces: what tiles count is what requests count and what another reader of the traces counted.

use std::path::Path;
use std::sync::Arc;

use lttv_engine::time::Time;
use lttv_modules::stats::Stats;
use lttv_modules::timeline::lanes::LaneKind;
use lttv_modules::timeline::tile::TileId;
use lttv_page::store::Asker;
use lttv_page::{Shown, Store, TimelinePage};
use pct_kit::wait::wait_for;

use crate::recorded::{get, whole};
use crate::workbench::file;

/// Traces with clocks, of the kernel and of user space, each with the file of its counts.
const TRACES: [(&str, &str); 5] = [
    ("tc/bug446190", "tc__bug446190"),
    ("tc/context-switches__context-switches-ust", "tc__context-switches__context-switches-ust"),
    ("tc/perf-taskset2", "tc__perf-taskset2"),
    ("ust/ust-small", "ust__ust-small"),
    ("ust/ust-lossy", "ust__ust-lossy"),
];

/// All traces at a path.
pub(crate) fn opened(path: &Path) -> Vec<Shown> {
    let found = lttv_ctf::CtfSource::open(path, &lttv_ctf::Options::default()).expect("opens");
    let shown = found.into_iter().enumerate().map(|(at, trace)| Shown {
        name: format!("{} {at}", path.display()),
        source: Arc::new(trace.expect("is sound")),
        recording: None,
        notes: Vec::new(),
        kept: None,
    });
    shown.collect()
}

/// Events of a tile, over all lanes of events of all traces.
fn events_of(store: &Store, id: TileId) -> u64 {
    (0..store.traces().len()).map(|trace| events_of_trace(store, trace, id)).sum()
}

fn events_of_trace(store: &Store, trace: usize, id: TileId) -> u64 {
    let lanes = store.lanes(trace);
    // What takes longer than an answer waits for goes on meanwhile.
    let ask = || store.tile(trace, id, Asker::default()).expect("nobody moves");
    let tile = wait_for("a final tile", || Some(ask()).filter(|tile| tile.is_final));
    let of_events = tile.lanes.iter().filter(|lane| lanes[lane.lane].kind == LaneKind::Events);
    of_events.flat_map(|lane| &lane.cells).map(|cell| cell.n * u64::from(cell.len)).sum()
}

#[test]
fn tl_2_tiles_of_real_traces_count_what_requests_and_another_reader_count() {
    let Some(root) = pct_kit::real("ctf") else { return };
    let mut checked = 0;
    for (path, expected) in TRACES {
        let shown = opened(&root.join(path));
        let text = std::fs::read_to_string(root.join("expected").join(format!("{expected}.stats.json")));
        let truth: serde_json::Value = serde_json::from_str(&text.expect("is there")).expect("JSON");
        let spans = shown.iter().filter_map(|shown| shown.source.time_span());
        let (first, last) = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).expect("timed events");
        let store = whole(shown);
        let total = |level: u32| -> u64 {
            let (a, b) = (TileId::holding(first, level), TileId::holding(last, level));
            (a.index()..=b.index())
                .filter_map(|i| TileId::new(level, i))
                .map(|id| events_of(&store, id))
                .sum()
        };
        let fit = lttv_modules::timeline::tile::level_for(last.since(first).unsigned_abs(), 1000);
        for level in [fit, fit + 3, 45] {
            assert_eq!(Some(total(level)), truth["events"].as_u64(), "{path}, level {level}");
        }
        // Tiles of all sizes around some events, the finest by requests of their own.
        for share in 0..8 {
            let time = Time(first.ns() + last.since(first) / 8 * share);
            for level in [4, 9, 12, fit, fit + 1] {
                let id = TileId::holding(time, level);
                let stats = store.statistics(id.start().ns(), id.end().ns()).expect("in time");
                let counted =
                    if id.end() > last { None } else { Some(stats.iter().map(Stats::total).sum::<u64>()) };
                if let Some(counted) = counted.filter(|_| id.start() >= first) {
                    assert_eq!(events_of(&store, id), counted, "{path}, {id:?}");
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 20, "{checked} windows");
}

#[test]
fn lanes_of_cpus_cover_a_kernel_trace_and_are_the_same_by_requests() {
    let Some(root) = pct_kit::real("ctf/tc/bug446190") else { return };
    let shown = opened(&root);
    let (first, last) = shown[0].source.time_span().expect("timed events");
    let store = whole(shown);
    let lanes = store.lanes(0);
    let timeline = store.timeline(0).expect("computed");
    let cpus = lanes.iter().filter(|lane| lane.kind == LaneKind::Cpu).count();
    assert_eq!(cpus, 4);
    assert!(lanes.iter().filter(|lane| lane.kind == LaneKind::Thread).count() > 20);
    let id = TileId::holding(first, 45);
    let tile = timeline.tile(id).expect("kept");
    for lane in tile.lanes.iter().filter(|lane| lanes[lane.lane].kind == LaneKind::Cpu) {
        let covered: u64 = lane.cells.iter().map(|cell| cell.w * u64::from(cell.len)).sum();
        assert_eq!(covered, last.since(first).unsigned_abs(), "{:?}", lanes[lane.lane]);
    }
}

/// Each event of a kernel trace is of one thread or of none that is known: lists, statistics and the strip above the
/// lanes agree on how many there are.
#[test]
fn each_event_is_counted_once_in_lists_statistics_and_the_strip() {
    let Some(root) = pct_kit::real("ctf/tc/bug446190") else { return };
    let shown = opened(&root);
    let (first, last) = shown[0].source.time_span().expect("timed events");
    let store = whole(shown);
    let events = store.timeline(0).expect("computed").events().0;
    let lanes = store.lanes(0);
    let page = TimelinePage::new(store);
    let count = |html: &str| -> u64 {
        let total =
            html.split(" events</h3>").next().and_then(|head| head.rsplit(": ").next()).expect("a total");
        total.replace(',', "").parse().expect("a number")
    };
    let statistics = |lane: usize| count(&get(&page, "/tl/window", &format!("tab=stats&lane=0.{lane}")).body);
    let of_kind = |kind: LaneKind| lanes.iter().enumerate().filter(move |(_, lane)| lane.kind == kind);
    assert_eq!(of_kind(LaneKind::Cpu).map(|(at, _)| statistics(at)).sum::<u64>(), events);
    let mut of_threads = 0;
    for (at, lane) in of_kind(LaneKind::Thread).take(20) {
        let (counted, listed) = (statistics(at), file(&page, &format!("as=events&lane=0.{at}")).0);
        assert_eq!(listed.lines().count() as u64, counted, "{}", lane.name);
        of_threads += counted;
    }
    assert!(of_threads > events / 10 && of_threads < events, "{of_threads} of {events}");
    let html = get(&page, "/tl", "").body;
    let strip =
        html.split("id=\"recorded\"").nth(1).and_then(|rest| rest.split("</div>").next()).expect("a strip");
    let amount = |title: &str| title.split(' ').next().and_then(|n| n.replace(',', "").parse::<u64>().ok());
    let amounts: Vec<u64> = strip.split("title=\"").skip(1).filter_map(amount).collect();
    assert!(amounts.len() > 20, "{strip}");
    assert_eq!(amounts.iter().sum::<u64>(), events);
    assert!(last > first);
}
