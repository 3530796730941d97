//! The append rule, stopped at each of its stores as a process that is killed there.

use crate::circular::CircularLog;
use crate::file::Segment;
use crate::layout::segment_kind;
use crate::push::*;
use crate::record::{self, Record};
use std::cell::{Cell, RefCell};

/// Performs only the first `budget` stores, as a process that is killed then would have.
struct Stopped {
    words: RefCell<Vec<u64>>,
    budget: Cell<usize>,
}

impl Stopped {
    fn new(words: Vec<u64>) -> Self {
        Stopped { words: RefCell::new(words), budget: Cell::new(usize::MAX) }
    }

    fn bytes(&self) -> Vec<u8> {
        self.words.borrow().iter().flat_map(|w| w.to_le_bytes()).collect()
    }
}

impl Store for Stopped {
    fn len(&self) -> usize {
        self.words.borrow().len()
    }
    fn set(&self, at: usize, word: u64) {
        if self.budget.get() > 0 {
            self.budget.set(self.budget.get() - 1);
            self.words.borrow_mut()[at] = word;
        }
    }
    fn publish(&self, at: usize, word: u64) {
        self.set(at, word);
    }
}

#[test]
fn a_circular_log_stopped_at_any_store_gives_whole_words_and_at_most_one_fewer() {
    for size in 2..7usize {
        for pushes in 1..20u64 {
            for budget in 0..=2 {
                let log = Stopped::new(vec![0; size]);
                let mut at = 0;
                for value in 1..pushes {
                    at = append_circular(&log, at, value);
                }
                log.budget.set(budget);
                append_circular(&log, at, pushes);
                let words = log.words.borrow().clone();
                let got: Vec<u64> = CircularLog::new(&words).iter().collect();
                let newest = if budget >= 2 { pushes } else { pushes - 1 };
                // The zero ahead costs the oldest value; until the head is there, one more is missing.
                let room = if budget == 1 && pushes as usize >= size { size - 2 } else { size - 1 };
                let oldest = (newest + 1).saturating_sub(room as u64).max(1);
                assert_eq!(got, (oldest..=newest).collect::<Vec<_>>(), "{size} {pushes} {budget}: {words:?}");
            }
        }
    }
}

#[test]
fn a_segment_stopped_at_any_store_gives_whole_records_and_at_most_one_fewer() {
    // Stale words of an earlier life everywhere: heads too.
    let stale = vec![crate::head::Head { kind: 1, words: 3, arg: 9 }.encode(); 64];
    for written in 1..12u64 {
        for budget in 0..8 {
            let block = Stopped::new(stale.clone());
            begin_segment(
                &block,
                &SegmentHead { kind: segment_kind::RING, generation: 7, ..Default::default() },
            );
            let mut at = RECORDS_AT;
            let push = |at: usize, n: u64| {
                // Every third record is a long one, every fourth carries frames.
                let weight = if n.is_multiple_of(3) { 1000 } else { 1 };
                let frames = [0x1000 + n, 0x2000 + n];
                let usable = UpTo(&block, 63);
                if n.is_multiple_of(4) {
                    append(&usable, at, &record::sample_with_frames(n, 4096 + n, weight, false, 2), &frames)
                } else {
                    let (words, len) = record::sample(n, 4096 + n, weight, false, 0);
                    append(&usable, at, &words[..len], &[])
                }
            };
            let mut fitted = 0;
            for n in 1..written {
                let Some(next) = push(at, n) else { break };
                at = next;
                fitted = n;
            }
            block.budget.set(budget);
            let last = push(at, fitted + 1);
            let bytes = block.bytes();
            let segment = Segment::parse(&bytes, 0).unwrap();
            let times: Vec<u64> = segment
                .records()
                .map(|r| match r {
                    Record::Sample(s) => {
                        assert_eq!(s.pc, 4096 + s.time);
                        assert_eq!(s.weight, if s.time.is_multiple_of(3) { 1000 } else { 1 });
                        s.time
                    }
                    other => panic!("{other:?}"),
                })
                .collect();
            let whole = (1..=fitted).collect::<Vec<_>>();
            let one_more = (1..=fitted + 1).collect::<Vec<_>>();
            assert!(times == whole || times == one_more && last.is_some(), "{written} {budget} {times:?}");
            if budget == 7 && last.is_some() {
                assert_eq!(times, one_more);
            }
        }
    }
}

#[test]
fn a_segment_begun_half_way_is_not_taken_for_the_old_or_the_new() {
    for budget in 0..30 {
        let block = Stopped::new(vec![0; 64]);
        begin_segment(
            &block,
            &SegmentHead { kind: segment_kind::RING, generation: 1, tid: 11, ..Default::default() },
        );
        let (words, len) = record::sample(5, 6, 1, false, 0);
        append(&UpTo(&block, 63), RECORDS_AT, &words[..len], &[]).unwrap();
        block.budget.set(budget);
        begin_segment(
            &block,
            &SegmentHead { kind: segment_kind::RING, generation: 2, tid: 22, ..Default::default() },
        );
        let bytes = block.bytes();
        match Segment::parse(&bytes, 0) {
            Some(s) if s.generation() == 1 => {
                assert_eq!((budget, s.tid(), s.records().count()), (0, 11, 1));
            }
            Some(s) => assert_eq!((s.generation(), s.tid(), s.records().count()), (2, 22, 0)),
            None => assert!((1..19).contains(&budget), "{budget}"),
        }
    }
}

/// Keeps each store beside what it stores into.
struct Recorded {
    words: RefCell<Vec<u64>>,
    stores: RefCell<Vec<(usize, u64)>>,
    room: usize,
}

impl Store for Recorded {
    fn len(&self) -> usize {
        self.room
    }
    fn set(&self, at: usize, word: u64) {
        self.words.borrow_mut()[at] = word;
        self.stores.borrow_mut().push((at, word));
    }
    fn publish(&self, at: usize, word: u64) {
        self.set(at, word);
    }
}

impl Recorded {
    /// What a ring does with a block: begins a segment and fills it with samples at times 100 *
    /// generation + 1, 2, ... Gives the number of stores after which each sample is there.
    fn live(&mut self, generation: u64) -> Vec<usize> {
        let words = self.words.borrow().len();
        self.room = words;
        begin_segment(
            self,
            &SegmentHead { kind: segment_kind::RING, generation, tid: 7, ..Default::default() },
        );
        self.room = words - 1;
        let (mut at, mut there) = (RECORDS_AT, Vec::new());
        for time in 100 * generation + 1.. {
            // Every second one needs four words, so that old heads do not lie where new ones do.
            let next = if (time + generation).is_multiple_of(2) {
                append(self, at, &record::long_sample(time, 4096 + time, 1000, false, 0), &[])
            } else {
                append(self, at, &record::short_sample(time, 4096 + time, 1, false, 0).unwrap(), &[])
            };
            let Some(next) = next else { break };
            at = next;
            there.push(self.stores.borrow().len());
        }
        there
    }
}

/// A reader copies a block upwards while its owner gives it up and begins it anew. Whatever stores fall
/// between the reads of any two words, the copy is the old segment, or so much of the new one as was
/// there when the copying began or has come since, or nothing.
#[test]
fn a_reader_at_any_speed_gets_whole_records_of_one_generation() {
    let words = RECORDS_AT + 16;
    let mut block = Recorded { words: RefCell::new(vec![0; words]), stores: RefCell::default(), room: 0 };
    let old = block.live(1).len();
    let before = block.words.borrow().clone();
    block.stores.borrow_mut().clear();
    let there = block.live(2);
    let stores = block.stores.borrow().clone();
    assert!(old > 2 && there.len() > 2 && stores.len() > 25);
    // What each word is after so many stores.
    let mut states = vec![before];
    for (at, word) in &stores {
        let mut next = states.last().unwrap().clone();
        next[*at] = *word;
        states.push(next);
    }
    // `seen[i]`: the stores that were made when word i was read; never falls.
    let mut outcomes = [0u64; 3];
    let mut check = |seen: &dyn Fn(usize) -> usize| {
        let bytes: Vec<u8> = (0..words).flat_map(|i| states[seen(i)][i].to_le_bytes()).collect();
        let Some(segment) = Segment::parse(&bytes, 0) else {
            outcomes[0] += 1;
            assert!(seen(words - 1) > 0 && seen(0) < stores.len(), "a segment that nobody touches is lost");
            return;
        };
        let generation = segment.generation();
        outcomes[generation as usize] += 1;
        let mut count = 0;
        for record in segment.records() {
            let Record::Sample(sample) = record else { panic!("{record:?}") };
            count += 1;
            assert_eq!((sample.time, sample.pc), (100 * generation + count, 4096 + sample.time));
            assert_eq!(sample.weight, if (sample.time + generation).is_multiple_of(2) { 1000 } else { 1 });
        }
        let (least, most) = match generation {
            1 => (old, old),
            _ => (
                there.iter().filter(|n| **n <= seen(0)).count(),
                there.iter().filter(|n| **n <= seen(words - 1)).count(),
            ),
        };
        assert!((least..=most).contains(&(count as usize)), "{count} of {least}..={most}");
    };
    // All ways to be interrupted up to two times.
    let n = stores.len();
    for (a, first) in (0..words).flat_map(|a| (0..=n).map(move |first| (a, first))) {
        for b in a..words {
            for (second, third) in (first..=n).flat_map(|s| [(s, s), (s, s.midpoint(n)), (s, n)]) {
                check(&|i| {
                    if i < a {
                        first
                    } else if i < b {
                        second
                    } else {
                        third
                    }
                });
            }
        }
    }
    // And a reader that is as fast as the writer, more or less.
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..20_000 {
        let mut now = 0;
        let seen: Vec<usize> = (0..words)
            .map(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                now = (now + (random >> 60) as usize / 4).min(n);
                now
            })
            .collect();
        check(&|i| seen[i]);
    }
    assert!(outcomes.iter().all(|n| *n > 100), "{outcomes:?}");
}

/// A shorter view, as a ring uses it: the last word of a block is not for records.
struct UpTo<'a>(&'a Stopped, usize);

impl Store for UpTo<'_> {
    fn len(&self) -> usize {
        self.1
    }
    fn set(&self, at: usize, word: u64) {
        self.0.set(at, word);
    }
    fn publish(&self, at: usize, word: u64) {
        self.0.publish(at, word);
    }
}
