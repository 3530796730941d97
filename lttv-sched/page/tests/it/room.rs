//! Traces of one page share the room for their cells.

use lttv_engine::time::Time;
use lttv_modules::timeline::TimelineModule;
use lttv_modules::timeline::tile::TileId;
use lttv_page::Shown;

use crate::recorded::{START, STEP, recording, whole};

/// The made-up recording with the first so many samples of each thread.
fn first(samples: usize) -> Shown {
    let mut recording = recording();
    for thread in &mut recording.threads {
        thread.samples = std::sync::Arc::new(thread.samples.iter().take(samples).collect());
    }
    Shown::recording(recording)
}

#[test]
fn traces_share_the_room_of_one_by_their_sizes() {
    let shown: Vec<Shown> = [100, 300, 1000, 0].map(first).into();
    let sources = || shown.iter().map(|shown| shown.source.as_ref());
    let module = TimelineModule::shared(sources());
    let rooms: Vec<usize> = sources().map(|source| module.room_for(source)).collect();
    // The least part of those that hold next to nothing comes on top.
    assert!(rooms.iter().sum::<usize>() <= module.most_bytes / 100 * 104, "{rooms:?}");
    assert!(rooms[0] < rooms[1] && rooms[1] < rooms[2] && rooms[3] > 0, "{rooms:?}");
    let alone = TimelineModule::shared(sources().take(1));
    assert_eq!(sources().map(|source| alone.room_for(source)).next(), Some(alone.most_bytes));
}

#[test]
fn a_timeline_that_gets_less_room_later_drops_detail_and_no_sample() {
    let store = whole(vec![first(4000)]);
    let timeline = store.timeline(0).expect("computed");
    let level = 24;
    let sums = || {
        let tiles = (0..).map(|k| TileId::holding(Time(START + k * (256 << level)), level));
        let tiles = tiles.take_while(|id| id.start() <= Time(START + 4000 * STEP));
        let cells = tiles.flat_map(|id| timeline.tile(id).expect("kept").lanes).flat_map(|lane| lane.cells);
        cells.fold((0, 0), |(n, w), cell| (n + cell.n, w + cell.w))
    };
    let (before, size, base) = (sums(), timeline.size(), timeline.base());
    assert_eq!(before.0, timeline.events().0);
    timeline.keep_to(size / 3);
    assert!(timeline.size() <= size / 3 && timeline.base() > base && timeline.base() <= level);
    assert_eq!(sums(), before);
}
