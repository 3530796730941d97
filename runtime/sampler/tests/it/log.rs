//! The log at its limit: threads that end give the rest of their blocks to others while older blocks are overwritten.
//! And a log whose file is cut while threads look at it.

use std::os::unix::ffi::OsStrExt;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use pct_format::LossCause;
use pct_format::head::{Head, kind};
use pct_format::layout::{header as at, segment_kind};
use pct_format::push::{RECORDS_AT, SegmentHead};
use pct_sampler::record::log::{BLOCK_WORDS, Log, SegmentSlot};
use pct_sampler::sys;
use pct_sampler::sys::text::Buf;

/// A log of four blocks.
fn small(folder: &std::path::Path) -> &'static Log {
    let memory = sys::map_memory(size_of::<Log>()).expect("memory");
    // SAFETY: zeros are a log that is not open; the mapping stays.
    let log: &Log = unsafe { &*memory.cast() };
    let mut path = Buf::new();
    path.push(folder.join("x.pct").as_os_str().as_bytes());
    log.create(&mut path, 0, 2).expect("created");
    log
}

/// Records of a block's segment.
fn records(log: &Log, block: usize) -> u64 {
    let Some(words) = log.words(block * BLOCK_WORDS, BLOCK_WORDS - 1) else { return 0 };
    let (mut at, mut count) = (RECORDS_AT, 0);
    while let Some(head) = words.get(at).and_then(|w| Head::decode(w.load(Ordering::Relaxed))) {
        at += usize::from(head.words);
        count += 1;
    }
    count
}

#[test]
fn short_threads_at_the_limit_lose_no_record_uncounted() {
    const THREADS: u64 = 4;
    const EACH: u64 = 200_000;
    let folder = tempfile::tempdir().expect("a folder");
    let log = small(folder.path());
    let begun = AtomicU64::new(0);
    let record = [Head { kind: kind::MARK, words: 20, arg: 0 }.encode(); 20];
    let claim = || -> Option<(SegmentSlot, usize, u64, u64)> {
        let place = log.claim_ring(7, true)?;
        log.begin(place, SegmentHead { kind: segment_kind::RING, ..SegmentHead::default() });
        begun.fetch_add(1, Ordering::Relaxed);
        Some((place, RECORDS_AT, 0, 0))
    };
    // As a thread's ring does: goes on where a block rests, else begins one anew; then ends.
    let one_thread = || loop {
        let Some((place, next, samples, weight)) = log.claim_resting().or_else(claim) else {
            std::thread::yield_now();
            continue;
        };
        match log.append(place, next, &record, &[]) {
            Some(next) => return log.rest(place, next, samples + 1, weight + 1),
            None => log.leave_ring(place, samples, weight),
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| (0..EACH).for_each(|_| one_thread()));
        }
    });
    let word = |at: usize| log.header(at).expect("a header").load(Ordering::Relaxed);
    let there: u64 = (1..4).map(|block| records(log, block)).sum();
    assert_eq!(there + word(at::LOSSES + 2 * LossCause::Overwritten as usize), THREADS * EACH);
    assert_eq!(word(at::GENERATION), begun.into_inner(), "the latest, whoever wrote last");
}

#[test]
fn a_file_that_is_cut_never_passes_for_memory_that_the_program_mapped_over_it() {
    // More than there are processors, perhaps: then who replaces the file is interrupted in the middle, now and then.
    const LOOKING: usize = 3;
    let folder = tempfile::tempdir().expect("a folder");
    for round in 0..300 {
        let folder = folder.path().join(round.to_string());
        std::fs::create_dir(&folder).expect("a folder");
        let log = small(&folder);
        let place = log.claim_ring(7, true).expect("a block");
        log.begin(place, SegmentHead { kind: segment_kind::RING, ..SegmentHead::default() });
        assert!(log.holds_ring(place) && !log.is_cut());
        let address = log.words(place.first, 1).expect("allocated").as_ptr() as u64;
        let all = Barrier::new(LOOKING + 1);
        std::thread::scope(|scope| {
            for _ in 0..LOOKING {
                scope.spawn(|| {
                    all.wait();
                    while log.holds_ring(place) {}
                    assert!(log.is_cut(), "round {round}");
                });
            }
            all.wait();
            assert!(log.replace_cut(address));
        });
        log.unmap();
    }
}
