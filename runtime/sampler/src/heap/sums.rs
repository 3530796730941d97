//! Sums by stack, in the mapped file: what was allocated and freed since the start, by context.
//!
//! Which stack has which place is private memory. The numbers are words of the file, added to with
//! compare-and-swaps: what somebody scribbles there spoils the numbers and nothing else.
//!
//! Signal safety: loads, stores and compare-and-swaps; a further area is claimed by the caller, see [`super::areas`].

use core::sync::atomic::{AtomicU64, Ordering};

use pct_format::heap::{SUM_WORDS, lifetime_count, sum};
use pct_format::layout::segment_kind;

use super::areas::{Areas, Shape};
use super::chance::Weight;
use crate::record::log::Log;
use crate::record::table::mix;

/// Areas of sums. Private: stack id + 1.
pub(crate) type SumAreas = Areas<4, 1>;

/// Their shape: at most 43,520 stacks, 7 MB of the file.
pub(crate) const SHAPE: Shape =
    Shape { kind: segment_kind::HEAP_SUM, words: SUM_WORDS, sizes: &[512, 2048, 8192, 32_768] };

/// Places that are looked at for one stack.
const WINDOW: usize = 16;
/// Tries of one addition: others add at the same time.
const TRIES: u32 = 1000;

/// Adds to a double in a word of the file.
pub(crate) fn add(word: &AtomicU64, more: f64) {
    for _ in 0..TRIES {
        let old = word.load(Ordering::Relaxed);
        let new = (f64::from_bits(old) + more).to_bits();
        if word.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

/// The words of a stack's sums.
pub(crate) type Words<'a> = &'a [AtomicU64; SUM_WORDS];

/// Finds the sums of a stack, or makes them. `None`: no place in the areas that there are.
pub(crate) fn find_or_make<'a>(areas: &'a SumAreas, log: &'a Log, stack: u32) -> Option<Words<'a>> {
    let key = u64::from(stack) + 1;
    let hash = mix(key) as usize;
    for area in areas.all() {
        let mask = area.private.len().wrapping_sub(1);
        for place in (0..WINDOW).map(|i| hash.wrapping_add(i) & mask) {
            let owner = area.private.get(place)?;
            match owner.load(Ordering::Acquire) {
                k if k == key => return area.entry(log, place),
                0 => {}
                _ => continue,
            }
            match owner.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    let words: Words<'a> = area.entry(log, place)?;
                    // Zeros until now; the sums come after.
                    words[sum::STACK].store(key, Ordering::Release);
                    return Some(words);
                }
                Err(k) if k == key => return area.entry(log, place),
                Err(_) => {}
            }
        }
    }
    None
}

/// A sample was taken.
pub(crate) fn allocated(words: Words<'_>, size: u64, weight: &Weight) {
    words[sum::SAMPLES].fetch_add(1, Ordering::Relaxed);
    words[sum::SEEN_BYTES].fetch_add(size, Ordering::Relaxed);
    add(&words[sum::BYTES], weight.bytes);
    add(&words[sum::BYTES_VARIANCE], weight.bytes_variance);
    add(&words[sum::BLOCKS], weight.blocks);
    add(&words[sum::BLOCKS_VARIANCE], weight.blocks_variance);
}

/// Its block was freed.
pub(crate) fn freed(words: Words<'_>, weight: &Weight, allocated: u64, freed: u64) {
    words[sum::FREED_SAMPLES].fetch_add(1, Ordering::Relaxed);
    add(&words[sum::FREED_BYTES], weight.bytes);
    add(&words[sum::FREED_BLOCKS], weight.blocks);
    let count = lifetime_count(allocated, freed);
    if let Some(pair) = words.get(sum::LIFETIMES + count / 2) {
        // (After four thousand million of them the upper neighbour has one too many.)
        pair.fetch_add(1 << (32 * (count % 2)), Ordering::Relaxed);
    }
}
