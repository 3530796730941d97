//! Every order in which two threads can meet at a block of the log: one ends and lets the block rest while another
//! overwrites it.
//!
//! The code is the log's own (`src/record/block.rs`) on simulated atomics.

use std::sync::Arc;

use loom::thread;

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

#[path = "../../src/record/block.rs"]
#[allow(dead_code, reason = "the log uses all of it, a model some")]
mod block;

use block::{Block, state};
use sync::{AtomicU32, AtomicU64, Ordering};

/// Samples of the thread that ends, and of the one that overwrites: so many records are in the block, and the next
/// begins there.
const FIRST: u32 = 3;
const SECOND: u32 = 7;

struct Log {
    block: Block,
    resting: AtomicU32,
}

fn new_log() -> Arc<Log> {
    let block = Block {
        state: AtomicU32::new(0),
        ring: AtomicU32::new(0),
        generation: AtomicU64::new(0),
        samples: AtomicU64::new(0),
        weight: AtomicU64::new(0),
        rest: AtomicU32::new(0),
    };
    block.begin(1);
    Arc::new(Log { block, resting: AtomicU32::new(0) })
}

fn held(records: u32) -> block::Held {
    [u64::from(records); 2]
}

/// The first owner ends by `rest` while another thread overwrites the block and ends itself. Whoever goes on in it
/// afterwards goes on behind the last record, and each record is in the block or counted as overwritten.
fn model(rest: fn(&Log)) {
    loom::model(move || {
        let log = new_log();
        let other = Arc::clone(&log);
        let overwrites = thread::spawn(move || {
            let mut lost = [0; 2];
            for was in [state::LEFT, state::RESTING] {
                if let Some(before) = other.block.steal(was, &other.resting) {
                    lost = before;
                    other.block.begin(2);
                    other.block.rest(&other.resting, SECOND, held(SECOND));
                    break;
                }
            }
            lost
        });
        rest(&log);
        let [lost, _] = overwrites.join().expect("ends");
        let (next, [samples, _]) = log.block.take_resting(&log.resting).expect("it rests");
        assert_eq!(u64::from(next), samples, "records are cut off");
        let written = if lost == 0 { FIRST } else { FIRST + SECOND };
        assert_eq!(lost + samples, u64::from(written));
        assert_eq!(log.resting.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn a_block_that_rests_is_given_away_whole() {
    model(|log| log.block.rest(&log.resting, FIRST, held(FIRST)));
}

/// The order that the log once had: the model sees what is wrong with it.
#[test]
#[should_panic(expected = "records are cut off")]
fn a_block_that_is_left_before_it_rests_cuts_records_off() {
    model(|log| {
        log.block.leave(held(FIRST));
        log.block.rest.store(FIRST, Ordering::Relaxed);
        let block = &log.block;
        let rests =
            block.state.compare_exchange(state::LEFT, state::RESTING, Ordering::Release, Ordering::Relaxed);
        if rests.is_ok() {
            log.resting.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// Two that want to go on in it: one does.
#[test]
fn one_of_two_goes_on() {
    loom::model(|| {
        let log = new_log();
        log.block.rest(&log.resting, FIRST, held(FIRST));
        let other = Arc::clone(&log);
        let theirs = thread::spawn(move || other.block.take_resting(&other.resting));
        let ours = log.block.take_resting(&log.resting);
        let theirs = theirs.join().expect("ends");
        assert!(ours.is_some() != theirs.is_some());
        assert_eq!(ours.or(theirs), Some((FIRST, held(FIRST))));
    });
}
