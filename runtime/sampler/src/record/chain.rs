//! Chains of segments that are not a thread's: the keep segments, and the process's ring.
//!
//! Signal safety: as [`crate::record::log`].

use crate::record::log::{Log, SegmentSlot};
use pct_format::layout::segment_kind;
use pct_format::push::{self, SegmentHead};

/// A chain of segments with one writer at a time: the keep segments, or the process's ring. All zeros is the process's
/// ring, empty.
#[derive(Debug)]
#[repr(C)]
pub struct Chain {
    place: SegmentSlot,
    /// Next record's word in the segment, 0 = there is no segment yet.
    at: usize,
    keep: bool,
}

impl Chain {
    /// Makes it the chain of keep segments, from block 0 on.
    pub fn begin_keep(&mut self, log: &Log) {
        let place = log.first_keep();
        log.begin(
            place,
            SegmentHead { kind: segment_kind::KEEP, time: crate::record::time::now(), ..Default::default() },
        );
        *self = Chain { place, at: push::RECORDS_AT, keep: true };
    }

    /// Appends a record, in a new segment if the current one is full. False: no room.
    pub fn append(&mut self, log: &Log, may_call: bool, first: &[u64], rest: &[u64]) -> bool {
        if self.at != 0
            && let Some(next) = log.append(self.place, self.at, first, rest)
        {
            self.at = next;
            return true;
        }
        let claimed =
            if self.keep { log.claim_kept(1, may_call) } else { log.claim_ring(u32::MAX, may_call) };
        let Some(place) = claimed else { return false };
        if self.at != 0 && !self.keep {
            log.leave_ring(self.place, 0, 0);
        }
        let kind = if self.keep { segment_kind::KEEP } else { segment_kind::RING };
        log.begin(place, SegmentHead { kind, time: crate::record::time::now(), ..Default::default() });
        self.place = place;
        match log.append(place, push::RECORDS_AT, first, rest) {
            Some(next) => {
                self.at = next;
                true
            }
            None => false,
        }
    }
}
