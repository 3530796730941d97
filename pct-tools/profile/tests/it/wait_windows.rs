//! Waits of windows of time: whatever the windows, their sums are those of the whole.

use pct_format::Anchor;
use pct_format::builder::Builder;
use pct_format::header::wait_door;
use pct_format::layout::header as at;
use pct_format::record::{Frame, HandedOn, Wait, WaitKind};
use pct_profile::Profile;
use pct_profile::load::{Options, load};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Tenths of the time in which a recording's waits lie, in nanoseconds.
const TENTH: u64 = 100_000;
/// When a builder's recording begins.
const START: u64 = 1;

/// A wait: thread, object, begin, length, whether it took the lock. Times are in tenths.
type Waited = (u32, u64, u64, u64, bool);
/// A release: thread, object, time.
type Released = (u32, u64, u64);

/// Three threads that wait for two mutexes and a condition.
fn recording(waits: &[Waited], releases: &[Released]) -> Vec<u8> {
    let mut b = Builder::new();
    b.region(1, 1, 0x1000..0x9000, 0, 1, b"", b"/no/such/program");
    b.set_header_word(at::WAIT_DOORS, wait_door::PTHREAD);
    let threads = [0, 1, 2].map(|n| b.thread(1, 100 + n, b"worker"));
    let stacks = [0, 1, 2].map(|n| b.stack(&[Frame::Return(0x2000 + n * 16)]));
    let kind_of = |object: u64| if object == 2 { WaitKind::Condition } else { WaitKind::Mutex } as u64;
    for n in 0..12 {
        b.sample(threads[0], START + n * TENTH, 0x3000, 1, false, stacks[0]);
    }
    let mut words = [0; 16];
    for &(thread, object, begin, length, took) in waits {
        let wait = Wait {
            stack: stacks[thread as usize],
            time: START + begin * TENTH,
            length: length * TENTH,
            tid: 100 + thread,
            kind: kind_of(object),
            object: 0x5000 + object,
            mutex: 0,
            result: if took { 0 } else { 110 },
        };
        b.ring_record(threads[thread as usize], wait.time, wait.record(&mut words).expect("fits"));
    }
    for &(thread, object, time) in releases {
        let event = HandedOn {
            stack: stacks[thread as usize],
            time: START + time * TENTH,
            tid: 100 + thread,
            kind: kind_of(object),
            object: 0x5000 + object,
        };
        b.ring_record(threads[thread as usize], event.time, event.released(&mut words).expect("fits"));
    }
    b.finish()
}

/// What is known of waiting: nanoseconds by who waited for what, and whose they are. Also the number of waits.
fn known(profile: &Profile) -> (BTreeMap<(u32, u64, String), u64>, u64) {
    let (mut sums, mut waits) = (BTreeMap::new(), 0);
    let tid = |thread| profile.threads[thread].tid;
    for row in &profile.waits.rows {
        let mut add = |whose: String, ns: u64| {
            if ns > 0 {
                *sums
                    .entry((tid(row.thread), profile.waits.objects[row.object].address, whose))
                    .or_default() += ns;
            }
        };
        add("all".into(), row.figures.ns);
        add("hand-over".into(), row.figures.hand_over_ns);
        add("unknown".into(), row.figures.unknown_ns);
        row.holders.iter().for_each(|holder| add(format!("{}", tid(holder.thread)), holder.ns));
        waits += row.figures.waits;
        // Nothing of a wait is told twice, or left out.
        let parts = row.figures.hand_over_ns + row.figures.unknown_ns;
        let held: u64 = row.holders.iter().map(|holder| holder.ns).sum();
        assert_eq!(parts + held, row.figures.ns, "{row:?}");
        assert!(row.figures.longest_ns <= row.figures.ns && row.figures.waits > 0, "{row:?}");
    }
    (sums, waits)
}

fn loaded(path: &PathBuf, window: Option<(u64, u64)>) -> Profile {
    let options = Options { waits: true, window, symbols: false, ..Options::default() };
    load(std::slice::from_ref(path), &options).expect("loads")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn windows_that_abut_have_the_sums_of_the_whole(
        waits in prop::collection::vec((0_u32..3, 0_u64..3, 0_u64..10, 0_u64..6, any::<bool>()), 1..12),
        releases in prop::collection::vec((0_u32..3, 0_u64..3, 0_u64..12), 0..12),
        mut cuts in prop::collection::vec(0_u64..18 * TENTH, 0..4),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pct");
        std::fs::write(&path, recording(&waits, &releases)).unwrap();
        let (whole, count) = known(&loaded(&path, None));
        prop_assert_eq!(count, waits.len() as u64);
        cuts.extend([0, u64::MAX]);
        cuts.sort_unstable();
        cuts.dedup();
        let (mut sums, mut counts) = (BTreeMap::new(), 0);
        for window in cuts.windows(2) {
            let profile = loaded(&path, Some((window[0], window[1])));
            let (part, waits) = known(&profile);
            for (key, ns) in part {
                *sums.entry(key).or_insert(0) += ns;
            }
            counts += waits;
            // No thread waits longer than the window is.
            let wall = profile.waits.threads.iter().map(|thread| thread.wall_ns).max();
            prop_assert!(wall.is_none_or(|wall| wall <= window[1] - window[0]));
        }
        prop_assert_eq!(sums, whole);
        // A wait is counted in each window that it lies in.
        prop_assert!(counts >= count && counts <= count * (cuts.len() as u64 - 1), "{} {}", counts, count);
    }
}

#[test]
fn a_window_counts_from_the_start_of_the_first_process() {
    // The second file begins half a time later; its wait is from the third to the sixth tenth of its own time.
    let dir = tempfile::tempdir().unwrap();
    let mut first = Builder::new();
    let thread = first.thread(1, 7, b"first");
    first.region(1, 1, 0x1000..0x9000, 0, 1, b"", b"/no/such/program");
    first.sample(thread, START, 0x3000, 1, false, 0);
    let bytes = [("a.pct", first.finish()), ("b.pct", recording(&[(0, 0, 3, 3, true)], &[]))];
    let start = |bytes: &[u8]| pct_format::File::parse(bytes).unwrap().header().first_anchor();
    let anchor = start(&bytes[1].1);
    let later = Anchor { realtime_ns: anchor.realtime_ns + 5 * TENTH, ..anchor };
    let mut second = bytes[1].1.clone();
    let place = (at::FIRST_ANCHOR + 2) * 8;
    assert_eq!(second[place..place + 8], anchor.realtime_ns.to_le_bytes());
    second[place..place + 8].copy_from_slice(&later.realtime_ns.to_le_bytes());
    let place = (at::LATEST_ANCHOR + 3) * 8;
    let latest = u64::from_le_bytes(second[place..place + 8].try_into().unwrap());
    second[place..place + 8].copy_from_slice(&(latest + 5 * TENTH).to_le_bytes());
    let paths = ["a.pct", "b.pct"].map(|name| dir.path().join(name));
    std::fs::write(&paths[0], &bytes[0].1).unwrap();
    std::fs::write(&paths[1], second).unwrap();
    let known = |window| {
        let options = Options { waits: true, window: Some(window), symbols: false, ..Options::default() };
        let waits = load(&paths, &options).unwrap().waits;
        (waits.rows.iter().map(|row| row.figures.ns).sum::<u64>(), waits.threads.len())
    };
    // Threads that were not there are not listed.
    assert_eq!(known((0, 4 * TENTH)), (0, 0));
    assert_eq!(known((0, 8 * TENTH)), (0, 3));
    assert_eq!(known((0, 9 * TENTH)), (TENTH, 3));
    assert_eq!(known((8 * TENTH, u64::MAX)), (3 * TENTH, 3));
}

#[test]
fn the_first_thread_of_a_process_is_there_from_its_start() {
    let mut b = Builder::new();
    b.region(1, 1, 0x1000..0x9000, 0, 1, b"", b"/no/such/program");
    b.set_header_word(at::WAIT_DOORS, wait_door::PTHREAD);
    // Both are seen in the sixth tenth of twelve.
    let [first, other] = [1000, 1001].map(|tid| b.thread(START + 6 * TENTH, tid, b"worker"));
    for thread in [first, other] {
        b.sample(thread, START + 6 * TENTH, 0x3000, 1, false, 0);
    }
    b.anchors(
        Anchor { raw: START, monotonic_ns: START, realtime_ns: 7_000 + START },
        Anchor {
            raw: START + 12 * TENTH,
            monotonic_ns: START + 12 * TENTH,
            realtime_ns: 7_000 + START + 12 * TENTH,
        },
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pct");
    std::fs::write(&path, b.finish()).unwrap();
    let wall = |window| -> Vec<(u32, u64)> {
        let profile = loaded(&path, window);
        profile.waits.threads.iter().map(|time| (profile.threads[time.thread].tid, time.wall_ns)).collect()
    };
    assert_eq!(wall(None), [(1000, 12 * TENTH), (1001, 6 * TENTH)]);
    assert_eq!(wall(Some((0, 6 * TENTH))), [(1000, 6 * TENTH)]);
    assert_eq!(wall(Some((5 * TENTH, 7 * TENTH))), [(1000, 2 * TENTH), (1001, TENTH)]);
}
