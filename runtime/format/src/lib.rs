//! The .pct file: what a sampled process writes and every tool reads.
//!
//! There is one file per process image. It is mapped shared, written by signal handlers, and readable at any instant:
//! while it is being written, after `kill -9`, on a full disk, half copied. `docs/pct-format.md` describes it byte by
//! byte; the numbers there are the constants of [`layout`].
//!
//! ```text
//! block 0   header (words) | strings | first keep segment
//! block 1   segment: ring of thread 1        samples, marks: may be overwritten, whole segments at a time
//! block 2   segment: keep                    regions, stacks, threads: never overwritten
//! block 3   segment: ring of the process     anchors, losses
//! block 4.. counters                         one u64 per 2^shift bytes of a region (recorder `counts`)
//! ```
//!
//! Everything is a 64-bit word in the writer's byte order. In a segment, records follow each other, and a zero word
//! follows the newest. To append, the writer first sets the word after the new record to zero. Then it writes the
//! record's words from the second on, and at last its first word, the head. So a reader finds complete records and then
//! the zero, whenever the writer was stopped. The founding notes' circular log ([`circular`]) uses the same rule with
//! records of one word.
//!
//! Reading order: [`layout`] (constants), [`head`] and [`record`] (records <-> words), [`push`] (the append rule),
//! [`circular`], [`header`], [`mod@file`] (the total reader), then with `std` `index` (threads, regions,
//! stacks, time), `codes` and `builder` (files for tests).
//!
//! Invariant: no function here panics on any input, loops on it, or allocates by a number that it read unchecked.
#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_possible_wrap)
)]

pub mod answer;
pub mod layout;
mod numbered;
mod words;

pub mod head;
pub mod record;

pub mod circular;
pub mod push;
#[cfg(test)]
mod push_stopped;

/// Atomics of what is also run as a model: `tests/push_model.rs` puts a simulation of them in their place.
mod sync {
    pub(crate) use core::sync::atomic::{AtomicU64, Ordering, fence};
}

pub mod file;
pub mod header;
pub mod heap;

#[cfg(feature = "std")]
pub mod builder;
#[cfg(feature = "std")]
pub mod codes;
#[cfg(feature = "std")]
pub mod index;

pub use file::{CounterArea, Error, File, Segment, SegmentKind};
#[cfg(feature = "std")]
pub use file::{Run, Runs};
pub use header::{Anchor, Clock, Header, Loss, LossCause, OffFor, Recorder, StackMode, State, TimeSource};
pub use heap::{AllocServer, EntryState, HeapEntry, HeapSum};
#[cfg(feature = "std")]
pub use index::{Index, Region, Stacks, Thread, Timeline};
pub use record::{CutCause, Frames, Record, Sample, Stack, WaitKind};
