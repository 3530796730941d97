//! The rule of appending, both for segments of records and for the plain circular log.
//!
//! The newest record is always followed by a zero word. To append at `at`, the word where the *next* record will start
//! is first set to zero. Then the record's words are stored from the second on. The first word, which replaces the old
//! zero, is stored last with release order. If a writer is stopped between any two stores, it leaves the old state or
//! the new one, never a torn record. So the file is valid after `kill -9`.
//!
//! The stores go through [`Store`], so that the tests can stop this very code at each of them (`push_stopped.rs`), and
//! `tests/push_model.rs` tries every order in which another process may see them.
//!
//! Signal safety: no allocation, no lock, no call, no panic.

use super::sync::{AtomicU64, Ordering, fence};

/// Words that can be stored one by one. Stores out of range are ignored: the positions come from checked arithmetic.
pub trait Store {
    /// Number of words.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// A store that a later [`Store::publish`] orders.
    fn set(&self, at: usize, word: u64);
    /// A store that becomes visible only after all before it.
    fn publish(&self, at: usize, word: u64);
}

impl Store for [AtomicU64] {
    #[inline(always)]
    fn len(&self) -> usize {
        <[AtomicU64]>::len(self)
    }

    #[inline(always)]
    fn set(&self, at: usize, word: u64) {
        if let Some(place) = self.get(at) {
            place.store(word, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn publish(&self, at: usize, word: u64) {
        if let Some(place) = self.get(at) {
            // Release: a reader that sees the head also sees the record's words and the zero after them.
            place.store(word, Ordering::Release);
        }
    }
}

/// Appends `first` and then `rest` as one record at word `at`. Returns the position of the next record. `None`: the
/// record and the zero after it do not fit, and nothing is stored.
#[inline(always)]
pub fn append<S: Store + ?Sized>(store: &S, at: usize, first: &[u64], rest: &[u64]) -> Option<usize> {
    let middle = at.checked_add(first.len())?;
    let next = middle.checked_add(rest.len())?;
    if next >= store.len() {
        return None;
    }
    let (head, body) = first.split_first()?;
    publish_record(store, next, at, *head, || {
        for (i, word) in body.iter().enumerate() {
            store.set(at + 1 + i, *word);
        }
        for (i, word) in rest.iter().enumerate() {
            store.set(middle + i, *word);
        }
    });
    Some(next)
}

/// Appends one word to a circular log whose newest zero is at `at`. Returns the position of the zero afterwards. A log
/// with at most one word keeps its zero and stores nothing.
#[inline(always)]
pub fn append_circular<S: Store + ?Sized>(store: &S, at: usize, word: u64) -> usize {
    let next = if at + 1 >= store.len() { 0 } else { at + 1 };
    if next != at && at < store.len() {
        publish_record(store, next, at, word, || {});
    }
    next
}

/// The rule itself: the zero after it, the body, the head.
#[inline(always)]
fn publish_record<S: Store + ?Sized>(store: &S, next: usize, at: usize, head: u64, body: impl FnOnce()) {
    store.set(next, 0);
    // The zero must be visible before any word of the record is, since a reader may come at any store. A release store
    // orders what comes before it, but this needs an order for what comes after it: a fence. (On x86-64 a fence is no
    // instruction.)
    fence(Ordering::Release);
    body();
    store.publish(at, head);
}

/// The header of a new segment. See [`crate::layout::segment`].
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentHead {
    /// [`crate::layout::segment_kind`].
    pub kind: u8,
    /// Unique number of this use of the block, from 1.
    pub generation: u64,
    /// Thread id.
    pub tid: u32,
    /// Serial number of the thread; 0 = the process.
    pub thread: u32,
    /// Raw time.
    pub time: u64,
    /// CPU time of the thread in ns; 0 = unknown.
    pub cpu_ns: u64,
    /// Epoch of the region table.
    pub epoch: u64,
    /// Samples overwritten before this segment.
    pub overwritten: u64,
    /// Their weight.
    pub overwritten_weight: u64,
    /// Nanoseconds per unit of weight.
    pub period_ns: u64,
    /// Thread's name, NUL-padded.
    pub name: [u64; 2],
    /// Counter areas: blocks.
    pub blocks: u64,
    /// Counter areas: region.
    pub region: u64,
    /// Counter areas: log2 of bytes per counter.
    pub shift: u64,
    /// Counter areas: number of counters.
    pub count: u64,
}

/// Begins a segment over whatever the block contained. `block` is the whole segment, including header and last word.
///
/// The last word is written first and the first word last: a reader that copies upwards and finds both generations
/// equal has a segment of one generation. Areas must be zero already (fresh blocks are).
pub fn begin_segment<S: Store + ?Sized>(block: &S, head: &SegmentHead) {
    use crate::layout::{SEGMENT_HEADER_WORDS, SEGMENT_MAGIC, segment};
    let Some(last) = block.len().checked_sub(1) else { return };
    if matches!(head.kind, crate::layout::segment_kind::KEEP | crate::layout::segment_kind::RING) {
        block.set(last, head.generation);
    }
    // Release: the last word becomes visible before the segment is seen to change.
    block.publish(segment::MAGIC, 0);
    // And both become visible before any word of the new head.
    fence(Ordering::Release);
    block.set(SEGMENT_HEADER_WORDS, 0);
    block.set(segment::TID, u64::from(head.tid));
    block.set(segment::THREAD, u64::from(head.thread));
    block.set(segment::TIME, head.time);
    block.set(segment::CPU_NS, head.cpu_ns);
    block.set(segment::EPOCH, head.epoch);
    block.set(segment::OVERWRITTEN, head.overwritten);
    block.set(segment::OVERWRITTEN_WEIGHT, head.overwritten_weight);
    block.set(segment::PERIOD_NS, head.period_ns);
    block.set(segment::NAME, head.name[0]);
    block.set(segment::NAME + 1, head.name[1]);
    block.set(segment::BLOCKS, head.blocks.max(1));
    block.set(segment::REGION, head.region);
    block.set(segment::SHIFT, head.shift);
    block.set(segment::COUNT, head.count);
    block.publish(segment::GENERATION, head.generation);
    block.publish(segment::MAGIC, SEGMENT_MAGIC | u64::from(head.kind));
}

/// Index of the first word of a segment's records.
pub const RECORDS_AT: usize = crate::layout::SEGMENT_HEADER_WORDS;
