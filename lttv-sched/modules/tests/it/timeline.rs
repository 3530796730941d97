//! Tiles of the timeline: against brute force, against each other, against the statistics.

use std::collections::BTreeMap;
use std::sync::Arc;

use lttv_engine::engine::{Config, Engine};
use lttv_engine::ids::{OwnerId, TraceId, TracesetId};
use lttv_engine::request::EventsRequest;
use lttv_engine::source::{EventHead, Value};
use lttv_engine::synthetic::{SyntheticEvent, SyntheticFile, SyntheticTrace};
use lttv_engine::time::Time;
use lttv_modules::state;
use lttv_modules::stats::{self, Stats};
use lttv_modules::timeline::cells::Running;
use lttv_modules::timeline::lanes::{FUNCTIONS, IDLE, LaneKind, LaneOf, runs};
use lttv_modules::timeline::tile::{TileId, bucket_ns};
use lttv_modules::timeline::{self, Tile, Timeline, TimelineModule, WindowTile};
use proptest::prelude::*;

use crate::kernel::{self, compute, run};

/// Cells by lane and bucket: items, weight, heaviest key and its weight.
type Cells = BTreeMap<(usize, i64), (u64, u64, u32, u64)>;

#[derive(Clone, Debug)]
struct Sample {
    file: usize,
    t: i64,
    function: u32,
    weight: u64,
}

/// Times that often are equal and often lie on borders of tiles and buckets, also negative ones.
fn times() -> impl Strategy<Value = i64> {
    let shift = prop_oneof![Just(10u32), Just(18), Just(20), Just(24)];
    prop_oneof![(-9i64..9, shift, -1i64..2).prop_map(|(k, s, d)| (k << s) + d), -2_000_000i64..2_000_000]
}

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let sample = (0usize..4, times(), 0u32..5, 0u64..4);
    let sample = sample.prop_map(|(file, t, function, weight)| Sample { file, t, function, weight });
    proptest::collection::vec(sample, 1..60)
}

fn trace_of(samples: &[Sample]) -> Arc<SyntheticTrace> {
    let files = (0..4usize).map(|file| {
        let mut events: Vec<SyntheticEvent> = samples
            .iter()
            .filter(|s| s.file == file)
            .map(|s| {
                let fields = vec![
                    ("weight_ns".into(), Value::Unsigned(s.weight)),
                    ("function".into(), Value::Unsigned(s.function.into())),
                    ("vtid".into(), Value::Unsigned(100 + file as u64)),
                ];
                SyntheticEvent { ts: s.t, id: 0, cpu: EventHead::NO_CPU, fields }
            })
            .collect();
        events.sort_by_key(|event| event.ts);
        SyntheticFile::new("samples", None, &["sample"], events)
    });
    Arc::new(SyntheticTrace::new("samples", files.collect()))
}

/// An engine whose timeline module keeps cells of at most so many bytes.
fn engine(chunk: u64, trace: &Arc<SyntheticTrace>, most_bytes: usize) -> (Engine, TracesetId, TraceId) {
    let config = Config { chunk_events: Some(chunk), save_interval: 7, ..Config::default() };
    let (mut engine, traceset, id) = kernel::engine(config, trace);
    engine.unregister(timeline::NAME).unwrap();
    engine.register(Arc::new(TimelineModule { most_bytes, of_events: 0 })).unwrap();
    engine.traceset_use_state(traceset, state::NAME).unwrap();
    (engine, traceset, id)
}

fn computed(engine: &mut Engine, id: TraceId) -> Arc<Timeline> {
    compute(engine, id, timeline::NAME);
    let timeline = engine.trace(id).unwrap().data().result::<Timeline>(timeline::NAME).unwrap();
    assert!(timeline.is_whole());
    timeline
}

/// The same tile by a foreground request.
fn by_request(engine: &mut Engine, traceset: TracesetId, timeline: &Arc<Timeline>, id: TileId) -> Tile {
    let tile = WindowTile::new(timeline, id);
    engine.events_request(traceset, tile.attach(EventsRequest::new(OwnerId(3)), 0)).unwrap();
    run(engine);
    assert!(tile.ended().is_some());
    tile.tile()
}

fn add_tile(tile: &Tile, to: &mut Cells) {
    for lane in &tile.lanes {
        for cell in &lane.cells {
            assert!(!cell.is_approximate());
            for bucket in cell.bucket..cell.bucket + i64::from(cell.len) {
                let same = to.insert((lane.lane, bucket), (cell.n, cell.w, cell.top(), cell.tw));
                assert_eq!(same, None, "a bucket is in one cell");
            }
        }
    }
}

/// All tiles of a level over a span.
fn tiles(span: (i64, i64), level: u32) -> impl Iterator<Item = TileId> {
    let (from, to) = (TileId::holding(Time(span.0), level), TileId::holding(Time(span.1), level));
    (from.index()..=to.index()).map(move |index| TileId::new(level, index).unwrap())
}

fn brute_force(samples: &[Sample], timeline: &Timeline, level: u32) -> Cells {
    let lanes = timeline.lanes();
    let lane = |file: usize| {
        let of = LaneOf::Thread(100 + file as i64);
        lanes.iter().position(|lane| (lane.kind, lane.of) == (LaneKind::Samples, of)).unwrap()
    };
    let mut keys: BTreeMap<(usize, i64), BTreeMap<u32, (u64, u64)>> = BTreeMap::new();
    for s in samples {
        let sums = keys.entry((lane(s.file), s.t >> level)).or_default();
        let sum = sums.entry(s.function + FUNCTIONS).or_default();
        *sum = (sum.0 + 1, sum.1 + s.weight);
    }
    let cell = |sums: BTreeMap<u32, (u64, u64)>| {
        let (n, w) = sums.values().fold((0, 0), |(n, w), sum| (n + sum.0, w + sum.1));
        let top = sums.iter().rev().max_by_key(|(_, sum)| sum.1).unwrap();
        (n, w, *top.0, top.1.1)
    };
    keys.into_iter().map(|(place, sums)| (place, cell(sums))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn tl_3_cells_are_those_of_brute_force_by_the_pyramid_and_by_requests(
        samples in samples(), chunk in prop_oneof![Just(1u64), Just(2), Just(7), Just(6000)], most in prop_oneof![Just(100usize), Just(1_000_000)],
    ) {
        let trace = trace_of(&samples);
        let (mut engine, traceset, id) = engine(chunk, &trace, most);
        let timeline = computed(&mut engine, id);
        prop_assert_eq!(timeline.events(), (samples.len() as u64, 0));
        let span = (samples.iter().map(|s| s.t).min().unwrap(), samples.iter().map(|s| s.t).max().unwrap());
        for level in [10, 11, 12, 15, 20, 33] {
            let expected = brute_force(&samples, &timeline, level);
            let (mut stored, mut asked) = (Cells::new(), Cells::new());
            for tile in tiles(span, level).take(2000) {
                match timeline.tile(tile) {
                    Some(tile) => {
                        prop_assert!(tile.is_final);
                        add_tile(&tile, &mut stored);
                    }
                    None => prop_assert!(level < timeline.base()),
                }
            }
            if level >= timeline.base() && tiles(span, level).count() <= 2000 {
                prop_assert_eq!(&stored, &expected, "level {}", level);
            }
            if level >= 15 {
                for tile in tiles(span, level).take(50) {
                    let by_request = by_request(&mut engine, traceset, &timeline, tile);
                    prop_assert!(by_request.is_final);
                    if let Some(stored) = timeline.tile(tile) {
                        prop_assert_eq!(&by_request, &stored);
                    }
                    add_tile(&by_request, &mut asked);
                }
                if tiles(span, level).count() <= 50 {
                    prop_assert_eq!(&asked, &expected, "level {} by requests", level);
                }
            }
        }
    }

    #[test]
    fn tl_1_a_tile_has_the_sums_of_its_halves_and_a_tight_budget_changes_no_sum(
        samples in samples(), most in 1usize..2000,
    ) {
        let trace = trace_of(&samples);
        let (mut engine, _, id) = engine(7, &trace, most);
        let timeline = computed(&mut engine, id);
        prop_assert!(timeline.base() == 45 || timeline.size() <= most);
        let span = (samples.iter().map(|s| s.t).min().unwrap(), samples.iter().map(|s| s.t).max().unwrap());
        let sums = |tile: TileId| {
            let mut sums: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
            for lane in timeline.tile(tile).unwrap().lanes {
                let n = lane.cells.iter().map(|cell| cell.n * u64::from(cell.len)).sum();
                let w = lane.cells.iter().map(|cell| cell.w * u64::from(cell.len)).sum();
                sums.insert(lane.lane, (n, w));
            }
            sums
        };
        for level in timeline.base()..45 {
            for above in tiles(span, level + 1).take(100) {
                let mut halves: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
                for index in [above.index() * 2, above.index() * 2 + 1] {
                    let half = TileId::new(level, index).expect("half of a tile");
                    for (lane, (n, w)) in sums(half) {
                        let sum = halves.entry(lane).or_default();
                        *sum = (sum.0 + n, sum.1 + w);
                    }
                }
                prop_assert_eq!(sums(above), halves, "level {}", level);
            }
        }
    }

    #[test]
    fn states_are_the_same_by_the_pyramid_and_by_requests_and_agree_with_the_statistics(
        steps in proptest::collection::vec(any::<(u8, u8, u8)>(), 1..60), chunk in 1u64..9, stretch in prop_oneof![Just(8i64), Just(8000)],
    ) {
        let (mut events, _) = kernel::history(2, &steps);
        prop_assume!(!events.is_empty());
        // Each bucket of the finest level has one state then.
        events.iter_mut().for_each(|event| event.ts *= stretch);
        let trace = kernel::trace("states", 2, &events);
        let (mut engine, traceset, id) = engine(chunk, &trace, 1_000_000);
        let timeline = computed(&mut engine, id);
        compute(&mut engine, id, stats::NAME);
        let stats = engine.trace(id).unwrap().data().result::<Stats>(stats::NAME).unwrap();
        let span = (events[0].ts, events.last().unwrap().ts);
        for level in [10, 12, 14] {
            for tile in tiles(span, level) {
                let by_request = by_request(&mut engine, traceset, &timeline, tile);
                prop_assert_eq!(&by_request, &timeline.tile(tile).unwrap(), "level {}", level);
            }
        }
        let lanes = timeline.lanes();
        // CPU lanes cover the trace; what they say was idle and busy is what the statistics say.
        let mut by_state: BTreeMap<(u32, bool), i64> = BTreeMap::new();
        let level = if stretch == 8 { 3 } else { 10 };
        let mut covered: BTreeMap<u32, u64> = BTreeMap::new();
        let mut counted = 0;
        for tile in tiles(span, level) {
            for lane in by_request(&mut engine, traceset, &timeline, tile).lanes {
                for cell in &lane.cells {
                    match lanes[lane.lane].of {
                        LaneOf::Cpu(cpu) if lanes[lane.lane].kind == LaneKind::Cpu => {
                            let len = u64::from(cell.len);
                            *covered.entry(cpu).or_default() += cell.w * len;
                            prop_assert!(cell.w <= bucket_ns(level) as u64);
                            *by_state.entry((cpu, cell.top() == IDLE)).or_default() += (cell.tw * len) as i64;
                        }
                        _ if lanes[lane.lane].kind == LaneKind::Events => counted += cell.n,
                        _ => {}
                    }
                }
            }
        }
        prop_assert_eq!(counted, events.len() as u64);
        // What ran at any level is what ran at the finest one, where each bucket has one state.
        let mut ran: BTreeMap<(usize, i64), BTreeMap<u32, u64>> = BTreeMap::new();
        let finest: Vec<Tile> = tiles(span, level).map(|tile| by_request(&mut engine, traceset, &timeline, tile)).collect();
        for lane in finest.iter().flat_map(|tile| &tile.lanes) {
            for cell in lane.cells.iter().filter(|cell| cell.running() != Running::default() && level == 3) {
                for bucket in cell.bucket..cell.bucket + i64::from(cell.len) {
                    let sums = ran.entry((lane.lane, bucket << 3 >> 12)).or_default();
                    *sums.entry(cell.top()).or_default() += cell.tw;
                }
            }
        }
        let mut told: BTreeMap<(usize, i64), Running> = BTreeMap::new();
        for lane in tiles(span, 12).flat_map(|tile| timeline.tile(tile).unwrap().lanes) {
            for cell in lane.cells.iter().filter(|cell| cell.running() != Running::default() && level == 3) {
                for bucket in cell.bucket..cell.bucket + i64::from(cell.len) {
                    told.insert((lane.lane, bucket), cell.running());
                }
            }
        }
        let heaviest = |sums: BTreeMap<u32, u64>| {
            let top = |is_running| {
                let of = sums.iter().rev().filter(|(key, _)| runs(**key) == is_running);
                of.max_by_key(|(_, ns)| **ns).map(|(key, _)| *key)
            };
            let ns = sums.iter().filter(|(key, _)| runs(**key)).map(|(_, ns)| ns).sum();
            Running { ns, top: top(true).unwrap_or(0), rest: top(false) }
        };
        let ran: BTreeMap<_, _> = ran.into_iter().map(|(place, sums)| (place, heaviest(sums))).collect();
        prop_assert_eq!(told, ran);
        for (cpu, ns) in &covered {
            prop_assert_eq!(*ns as i64, span.1 - span.0, "CPU {}", cpu);
        }
        if level == 3 {
            // Interrupts of an idle CPU are no idle time, so only CPUs without them can be compared by thread.
            for cpu in 0..2u32 {
                let has_irqs = events.iter().any(|e| e.cpu == cpu && (e.id == 4 || e.id == 5));
                let Some(first) = events.iter().find(|e| e.cpu == cpu && e.id == 0).filter(|_| !has_irqs) else { continue };
                let last = events.iter().rfind(|e| e.cpu == cpu && e.id == 0).unwrap();
                let last_next = last.fields.iter().find(|(name, _)| **name == *"next_tid").unwrap().1.as_i64();
                let idle = stats.run_ns.get(&(cpu, 0)).copied().unwrap_or(0)
                    + if last_next == Some(0) { span.1 - last.ts } else { 0 };
                prop_assert_eq!(by_state.get(&(cpu, true)).copied().unwrap_or(0), idle, "CPU {} from {}", cpu, first.ts);
            }
        }
    }
}

#[test]
fn a_tile_is_provisional_until_the_pass_has_left_it_and_then_never_changes() {
    let samples: Vec<Sample> =
        (0..500).map(|i| Sample { file: 0, t: i * 3000, function: (i % 3) as u32, weight: 2 }).collect();
    let trace = trace_of(&samples);
    let (mut engine, _, id) = engine(10, &trace, 1_000_000);
    engine.request(id, timeline::NAME, OwnerId(1)).unwrap();
    let tile = TileId::new(10, 0).unwrap();
    let (mut provisional, mut last) = (0, None);
    for _ in 0..60 {
        engine.step(lttv_engine::engine::Budget::chunks(1));
        let Some(timeline) = engine.trace(id).unwrap().data().result::<Timeline>(timeline::NAME) else {
            continue;
        };
        let now = timeline.tile(tile).unwrap();
        provisional += u32::from(!now.is_final);
        if let Some(before) = last.replace(now.clone()).filter(|before: &Tile| before.is_final) {
            assert_eq!(before, now);
        }
    }
    assert!(provisional > 3);
    assert!(
        last.is_some_and(|tile| tile.is_final && tile.lanes[0].cells.iter().map(|c| c.n).sum::<u64>() == 88)
    );
}

#[test]
fn a_kept_timeline_gives_the_same_tiles_and_damaged_bytes_give_none() {
    let steps: Vec<(u8, u8, u8)> = (0..60u8).map(|i| (i, i.wrapping_mul(37), i.wrapping_mul(91))).collect();
    let (mut events, _) = kernel::history(2, &steps);
    events.iter_mut().for_each(|event| event.ts *= 8000);
    let trace = kernel::trace("kept", 2, &events);
    let (mut engine, traceset, id) = engine(5, &trace, 1_000_000);
    let computed = computed(&mut engine, id);
    let source = engine.trace(id).unwrap().source().clone();
    let bytes = computed.to_bytes(b"key").expect("it is whole");
    let kept = Arc::new(Timeline::from_bytes(&source, b"key", &bytes).expect("they are whole"));
    assert!(kept.is_whole());
    assert_eq!((kept.lanes(), kept.events()), (computed.lanes(), computed.events()));
    assert_eq!((kept.base(), kept.computed_to()), (computed.base(), computed.computed_to()));
    let span = (events[0].ts, events.last().unwrap().ts);
    let mut cells = 0;
    for level in 8..46 {
        for tile in tiles(span, level).take(300) {
            assert_eq!(kept.tile(tile), computed.tile(tile), "level {level}");
            cells += kept.tile(tile).map_or(0, |tile| tile.lanes.iter().map(|lane| lane.cells.len()).sum());
        }
    }
    assert!(cells > 100);
    // What is finer than it keeps is asked for as before.
    let fine = TileId::holding(Time(span.0), 9);
    assert_eq!(
        by_request(&mut engine, traceset, &kept, fine),
        by_request(&mut engine, traceset, &computed, fine)
    );
    assert!((0..400).all(|key| kept.meaning(key) == computed.meaning(key)));

    assert!(Timeline::from_bytes(&source, b"kez", &bytes).is_none(), "another trace");
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(Timeline::from_bytes(&source, b"key", &damaged).is_none(), "byte {at}");
        assert!(Timeline::from_bytes(&source, b"key", &bytes[..at]).is_none(), "cut at {at}");
    }
}
