//! A trace of a simulated machine, of which every figure is known: tiles and statistics say what happened.
//! `PCT_TEST_TRACE_MB=1000` makes the trace as large as people's are.

use lttv_modules::timeline::lanes::{LaneKind, LaneOf};
use lttv_modules::timeline::tile::TileId;
use lttv_page::Store;
use pct_kit::kernel_trace::{Shape, Truth, write};

use crate::real::opened;
use crate::recorded::LONG;

/// A fresh trace, its truth, and the store of it once its pass has ended.
fn computed(shape: Shape) -> (tempfile::TempDir, Truth, Store) {
    let dir = tempfile::tempdir().expect("a folder");
    let truth = write(&dir.path().join("trace"), &shape).expect("is written");
    let store = Store::new(opened(&dir.path().join("trace"))).expect("begins").patient(LONG);
    assert!(store.wait_until_whole(LONG), "the pass ends");
    (dir, truth, store)
}

#[test]
fn tiles_and_statistics_of_a_simulated_machine_are_what_happened() {
    let octets = pct_kit::asked("PCT_TEST_TRACE_MB", 12_u64) << 20;
    let (_dir, truth, store) = computed(Shape { octets, cpus: 3, threads: 20, seed: 5 });
    let (from, to) = truth.span.expect("has events");
    assert_eq!(store.span(), (from, to + 1));
    let timeline = store.timeline(0).expect("computed");
    assert_eq!(timeline.events(), (truth.total(), 0));

    // The whole span in tiles of the coarsest level, as the pyramid keeps it.
    let lanes = store.lanes(0);
    let tiles: Vec<_> =
        (from >> 53..=to >> 53).filter_map(|at| timeline.tile(TileId::new(45, at)?)).collect();
    let sum = |wanted: &dyn Fn(usize) -> bool, of: &dyn Fn(&lttv_modules::timeline::cells::Cell) -> u64| {
        let of_lanes = tiles.iter().flat_map(|tile| &tile.lanes).filter(|lane| wanted(lane.lane));
        of_lanes.flat_map(|lane| &lane.cells).map(|cell| of(cell) * u64::from(cell.len)).sum::<u64>()
    };
    let events = sum(&|lane| lanes[lane].kind == LaneKind::Events, &|cell| cell.n);
    assert_eq!(events, truth.total());
    let is_cpu = |lane: usize, cpu| lanes[lane].kind == LaneKind::Cpu && lanes[lane].of == LaneOf::Cpu(cpu);
    // A CPU is in some state all the time: from the first event of the trace on.
    for cpu in 0..3 {
        let covered = sum(&|lane| is_cpu(lane, cpu), &|cell| cell.w);
        assert_eq!(covered, to.abs_diff(from), "CPU {cpu}");
    }

    // Counts by name and CPU time by thread, by a request over everything.
    let stats = store.statistics(from, to + 1).expect("in time");
    for (name, n) in &truth.events {
        assert_eq!(stats[0].by_name().get(*name), Some(n), "{name}");
    }
    let mut threads = 0;
    for (thread, ns) in stats[0].cpu_time_by_thread().filter(|(thread, _)| thread.key.tid != 0) {
        let tid = i32::try_from(thread.key.tid).expect("small");
        assert_eq!(u64::try_from(ns).ok(), truth.on_cpu_ns.get(&tid).copied(), "thread {tid}");
        assert_eq!(*thread.name, *format!("worker-{tid}"));
        threads += 1;
    }
    assert_eq!(threads, truth.on_cpu_ns.len());
}
