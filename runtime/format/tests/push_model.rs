//! Every order in which another process, which only reads, may see a segment being begun over an older one.
//!
//! The code is the format's own (`src/push.rs`) on simulated atomics, with a header of three words.

#![expect(clippy::duplicate_mod, reason = "the same code with its fences and without")]

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// As the format's own, with the fields that a reader compares. (Stores to the others lie outside and are ignored.)
mod layout {
    pub(crate) const SEGMENT_HEADER_WORDS: usize = 3;
    pub(crate) const SEGMENT_MAGIC: u64 = 0x5e60;
    pub(crate) mod segment_kind {
        pub(crate) const KEEP: u8 = 1;
        pub(crate) const RING: u8 = 2;
    }
    pub(crate) mod segment {
        pub(crate) const MAGIC: usize = 0;
        pub(crate) const GENERATION: usize = 1;
        pub(crate) const TID: usize = 2;
        const NOT_MODELLED: usize = 1000;
        pub(crate) const THREAD: usize = NOT_MODELLED;
        pub(crate) const TIME: usize = NOT_MODELLED;
        pub(crate) const CPU_NS: usize = NOT_MODELLED;
        pub(crate) const EPOCH: usize = NOT_MODELLED;
        pub(crate) const OVERWRITTEN: usize = NOT_MODELLED;
        pub(crate) const OVERWRITTEN_WEIGHT: usize = NOT_MODELLED;
        pub(crate) const PERIOD_NS: usize = NOT_MODELLED;
        pub(crate) const NAME: usize = NOT_MODELLED;
        pub(crate) const BLOCKS: usize = NOT_MODELLED;
        pub(crate) const REGION: usize = NOT_MODELLED;
        pub(crate) const SHIFT: usize = NOT_MODELLED;
        pub(crate) const COUNT: usize = NOT_MODELLED;
    }
}

#[path = "."]
mod fenced {
    mod sync {
        pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
    }
    #[path = "../src/push.rs"]
    #[allow(dead_code, unreachable_pub, reason = "a model uses a part of it")]
    pub(crate) mod push;
}

#[path = "."]
mod unfenced {
    mod sync {
        pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
        pub(super) fn fence(_: Ordering) {}
    }
    #[path = "../src/push.rs"]
    #[allow(dead_code, unreachable_pub, reason = "a model uses a part of it")]
    pub(crate) mod push;
}

const HEAD: u64 = layout::SEGMENT_MAGIC | layout::segment_kind::RING as u64;
/// Header, a record of two words, the zero behind it, and the last word.
const WORDS: usize = 7;
const LAST: usize = WORDS - 1;
/// The older segment: its generation, its thread and its record.
const OLD: [u64; WORDS] = [HEAD, 1, 11, 0xa1, 0xa2, 0, 1];

/// What a reader must see of a segment: it copies upwards, and takes what has the same generation at both ends.
fn read(words: &[AtomicU64]) {
    // Acquire: a processor of the kinds that we run on loads in order where it is asked to, and a reader asks.
    let copy: Vec<u64> = words.iter().map(|word| word.load(Ordering::Acquire)).collect();
    if copy[0] != HEAD || copy[1] != copy[LAST] {
        return;
    }
    let (thread, records) = (copy[2], &copy[3..5]);
    match copy[1] {
        1 => assert!(thread == 11 && records == &OLD[3..5], "torn: {copy:x?}"),
        2 => {
            let is_whole = records[0] == 0 || records == [0xb1, 0xb2];
            assert!(thread == 22 && is_whole, "torn: {copy:x?}");
        }
        other => panic!("generation {other}"),
    }
}

macro_rules! model {
    ($push:path) => {
        loom::model(|| {
            use $push as push;
            let words: Arc<Vec<AtomicU64>> = Arc::new(OLD.iter().map(|word| AtomicU64::new(*word)).collect());
            let of_writer = Arc::clone(&words);
            let writer = thread::spawn(move || {
                let head = push::SegmentHead {
                    kind: layout::segment_kind::RING,
                    generation: 2,
                    tid: 22,
                    ..Default::default()
                };
                push::begin_segment(&of_writer[..], &head);
                assert_eq!(push::append(&of_writer[..LAST], push::RECORDS_AT, &[0xb1, 0xb2], &[]), Some(5));
            });
            read(&words);
            writer.join().expect("ends");
            read(&words);
        });
    };
}

#[test]
fn a_reader_sees_the_old_segment_or_the_new_one() {
    model!(fenced::push);
}

#[test]
#[should_panic(expected = "torn")]
fn without_its_fences_a_reader_sees_a_part_of_each() {
    model!(unfenced::push);
}
