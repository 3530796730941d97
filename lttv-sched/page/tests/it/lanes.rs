//! A recording's tiles come from its samples as they lie in memory. The engine, which reads the same samples event by
//! event, must give the same tiles.

use std::collections::BTreeMap;
use std::sync::Arc;

use lttv_modules::timeline::LaneTile;
use lttv_modules::timeline::cells::Cell;
use lttv_modules::timeline::lanes::Lane;
use lttv_modules::timeline::tile::TileId;
use lttv_page::recording::{Function, Sample, Thread, TimeOf};
use lttv_page::store::Asker;
use lttv_page::waits::RecordedWaits;
use lttv_page::windows::Unanswered;
use lttv_page::{Recording, Shown, Store};
use pct_icicle::GroupWeights;
use pct_kit::Dice;

use crate::recorded::{START, whole};

/// Threads of which some have the same number, times of which some are equal, and marks.
fn recording(dice: &mut Dice) -> Recording {
    let thread = |dice: &mut Dice, n: u32| {
        let spread = 1 << dice.below(34);
        let sample = |dice: &mut Dice| Sample {
            time_ns: START + i64::try_from(dice.below(spread)).expect("small"),
            weight_ns: dice.below(4),
            // The last one is the stack of no function.
            stack: u32::try_from(dice.below(6)).expect("small"),
        };
        let samples = (0..dice.below(400)).map(|_| sample(dice)).collect();
        let tid = 100 + n % 4;
        Thread {
            pid: 100,
            tid,
            process: "prog".into(),
            name: format!("t{tid}"),
            begins: String::new(),
            samples: Arc::new(samples),
            waits: Arc::default(),
        }
    };
    let function = |n: u32| Function { name: format!("f{n}"), object: "prog".into(), group: "prog".into() };
    let mut marks: Vec<(i64, String)> = (0..dice.below(20))
        .map(|_| (START + i64::try_from(dice.below(1 << 20)).expect("small"), format!("m{}", dice.below(3))))
        .collect();
    marks.sort();
    Recording {
        name: "random".into(),
        start_ns: START,
        time: TimeOf::Cpu,
        threads: (0..6).map(|n| thread(dice, n)).collect(),
        functions: (0..3).map(function).collect(),
        stacks: [0, 1, 2, 1, 0].into(),
        waits: RecordedWaits::default(),
        groups: GroupWeights::default(),
        marks,
        notes: Vec::new(),
        windows: Arc::new(Unanswered),
    }
}

/// The cells of a tile by lane, with what their keys mean: lanes and names may have other numbers.
fn tile(store: &Store, id: TileId) -> BTreeMap<String, Vec<String>> {
    let timeline = store.timeline(0).expect("computed");
    let lanes = timeline.lanes();
    let tile = store.tile(0, id, Asker::default()).expect("nobody has moved");
    assert!(tile.is_final, "{id:?}");
    let cell = |cell: &Cell| {
        let key = timeline.meaning(cell.top());
        format!("{} {} {} {} {} {key:?}", cell.bucket, cell.len, cell.n, cell.w, cell.tw)
    };
    let lane = |lane: &LaneTile| {
        let Lane { kind, of, name } = &lanes[lane.lane];
        (format!("{kind:?} {of:?} {name}"), lane.cells.iter().map(cell).collect())
    };
    tile.lanes.iter().map(lane).collect()
}

#[test]
fn samples_in_memory_and_the_engines_events_make_the_same_tiles_at_every_level() {
    let mut cells = 0;
    for seed in 0..12 {
        let direct = Shown::recording(recording(&mut Dice::new(seed)));
        let by_engine = Shown { recording: None, ..Shown::recording(recording(&mut Dice::new(seed))) };
        let span = direct.source.time_span();
        let (direct, by_engine) = (whole(vec![direct]), whole(vec![by_engine]));
        let events = |store: &Store| store.timeline(0).expect("computed").events();
        assert_eq!(events(&direct), events(&by_engine));
        let Some((first, last)) = span else { continue };
        for level in [3, 8, 10, 13, 20, 27, 34, 45] {
            let (from, to) = (TileId::holding(first, level).index(), TileId::holding(last, level).index());
            let step = usize::try_from((to - from) / 8 + 1).expect("small");
            for id in (from..=to).step_by(step).filter_map(|index| TileId::new(level, index)) {
                let (mine, theirs) = (tile(&direct, id), tile(&by_engine, id));
                assert_eq!(mine, theirs, "{id:?}");
                cells += mine.values().map(Vec::len).sum::<usize>();
            }
        }
    }
    assert!(cells > 2000, "{cells}");
}
