//! How many bytes each thread may still request before one of its requests is sampled.
//!
//! The word is in the thread's control block: a slot that the C library reserved for pct's key, at a fixed distance
//! from the thread's base. So every thread has one, older or younger than us, and nothing is freed when it ends. A
//! second slot says how often the interval was doubled when the word was drawn (a sample is weighed by the interval
//! that it was drawn with) and counts the draws. A reused stack begins with what its last thread left, which is as
//! good as a fresh draw; a word that was never drawn is 0, and is not a countdown.
//!
//! Where there is no such slot (musl keeps them behind a pointer) threads share 4096 words by their base. There a
//! subtraction is locked, so that none is lost and each crossing belongs to one thread.
//!
//! Signal safety: loads and stores of the thread's own words; a lock prefix on shared ones.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::chance;
use crate::sys::{self, arch};

/// Distance of the countdown from the thread's base; 0 = there is no such slot: nothing is sampled, or words
/// are [shared](SHARED).
pub static SLOT: AtomicUsize = AtomicUsize::new(0);
/// Distance of the word beside it.
static SHIFT_SLOT: AtomicUsize = AtomicUsize::new(0);
/// Address of the shared words, 0 = none.
pub static SHARED: AtomicUsize = AtomicUsize::new(0);
/// The slots as they were found, for a start after an end.
static FOUND: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
static SHARED_FOUND: AtomicUsize = AtomicUsize::new(0);

/// Shared words, each in a line of the cache of its own.
const WORDS: usize = 4096;
const WORD_BYTES: usize = 64;
/// No countdown is larger: what is, is what a request below 0 has left.
const MOST: u64 = 1 << 62;

/// Remembers the slots of two keys, as distances from a thread's base.
pub fn found(slots: [usize; 2]) {
    for (place, slot) in FOUND.iter().zip(slots) {
        place.store(slot, Ordering::Relaxed);
    }
}

/// Lets requests count from now on. False: there is no place for countdowns.
pub fn begin() -> bool {
    let [slot, shift] = [0, 1].map(|i: usize| FOUND.get(i).map_or(0, |at| at.load(Ordering::Relaxed)));
    if slot != 0 && shift != 0 {
        SHIFT_SLOT.store(shift, Ordering::Relaxed);
        set(slot, 0);
        // Release: who sees this one sees the other.
        SLOT.store(slot, Ordering::Release);
        return true;
    }
    let mut words = SHARED_FOUND.load(Ordering::Relaxed);
    if words == 0 {
        let Ok(memory) = sys::map_memory(WORDS * WORD_BYTES) else { return false };
        words = memory as usize;
        SHARED_FOUND.store(words, Ordering::Relaxed);
    }
    SHARED.store(words, Ordering::Release);
    true
}

/// Requests count no more.
pub fn end() {
    SLOT.store(0, Ordering::Relaxed);
    SHARED.store(0, Ordering::Relaxed);
}

/// Whether threads share words.
#[must_use]
pub fn is_shared() -> bool {
    SLOT.load(Ordering::Relaxed) == 0
}

/// How far a thread has come with its requests: [`progress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is left of its countdown, in bytes.
    pub left: u64,
    /// How often it was drawn, in the bits above the shift of the last draw. (A fresh countdown can be equal to the
    /// one before it.)
    pub draws: u64,
}

/// How far this thread has come; the same always where threads share words. Two answers differ if the thread requested
/// anything between them.
#[must_use]
pub fn progress() -> Progress {
    match SLOT.load(Ordering::Relaxed) {
        0 => Progress { left: 0, draws: 0 },
        slot => Progress { left: get(slot), draws: get(SHIFT_SLOT.load(Ordering::Relaxed)) },
    }
}

/// Bits of the second slot that say how often the interval was doubled; those above count the thread's draws.
const SHIFT_BITS: u32 = 8;

const fn shift_of(word: u64) -> u32 {
    (word & ((1 << SHIFT_BITS) - 1)) as u32
}

/// What a countdown is drawn with.
#[derive(Clone, Copy, Debug)]
pub struct Drawing {
    /// 64 random bits.
    pub random: u64,
    /// The interval in force.
    pub interval: u64,
    /// How often it was doubled.
    pub shift: u32,
}

/// Settles a request of `bytes` (at least 1) by this thread. `subtracted`: the wrapper has lowered the
/// thread's own word already, to 0 or below. Gives the shift of the sample if the request is one.
pub fn settle(bytes: u64, subtracted: bool, draw: impl FnOnce() -> Drawing) -> Option<u32> {
    match SLOT.load(Ordering::Acquire) {
        0 => settle_shared(bytes, draw),
        slot => settle_own(slot, bytes, subtracted, draw),
    }
}

fn settle_own(slot: usize, bytes: u64, subtracted: bool, draw: impl FnOnce() -> Drawing) -> Option<u32> {
    let now = get(slot);
    let before = if subtracted { now.wrapping_add(bytes) } else { now };
    let drawn = (1..=MOST).contains(&before);
    if drawn && before > bytes {
        // Only if it was not subtracted yet: the request fits.
        set(slot, before - bytes);
        return None;
    }
    let shift_slot = SHIFT_SLOT.load(Ordering::Relaxed);
    let old_draws = get(shift_slot);
    let drawing = draw();
    let mut next = chance::draw(drawing.random, drawing.interval);
    let mut sampled = drawn.then_some(shift_of(old_draws));
    if !drawn {
        match next.checked_sub(bytes).filter(|left| *left != 0) {
            Some(left) => next = left,
            None => {
                // A fresh countdown that this very request uses up; the overshoot is dropped, so the next is
                // drawn anew.
                sampled = Some(drawing.shift);
                next = chance::draw(chance::mixed(drawing.random), drawing.interval);
            }
        }
    }
    // A signal handler that requests memory between these two meets a pair that do not belong together. The shift goes
    // first: its sample is weighed by the interval to come, once.
    let draws = (old_draws >> SHIFT_BITS).wrapping_add(1);
    set(shift_slot, draws << SHIFT_BITS | u64::from(drawing.shift));
    set(slot, next);
    sampled
}

/// Of a word that others lower too, only who crosses 0 takes the sample, and adds the next draw to it.
fn settle_shared(bytes: u64, draw: impl FnOnce() -> Drawing) -> Option<u32> {
    let words = SHARED.load(Ordering::Acquire);
    if words == 0 {
        return None;
    }
    let base = arch::thread_base();
    let number = (base >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - WORDS.trailing_zeros());
    let at = (words + number as usize * WORD_BYTES) as *const [AtomicU64; 2];
    // SAFETY: one of the words of `begin`'s mapping, which stays; zeros are valid.
    let [word, shift] = unsafe { &*at };
    let bytes = bytes.min(MOST);
    let before = word.fetch_sub(bytes, Ordering::Relaxed).cast_signed();
    if before > 0 && before.cast_unsigned() > bytes {
        return None;
    }
    if before < 0 {
        // Another thread has crossed it, and is drawing.
        return None;
    }
    let drawing = draw();
    let next = chance::draw(drawing.random, drawing.interval);
    let old_shift = shift.swap(u64::from(drawing.shift), Ordering::Relaxed);
    if before == 0 {
        // Never drawn: what was subtracted stays, unless this request uses it up.
        let sampled = next <= bytes;
        let more = if sampled {
            bytes + chance::draw(chance::mixed(drawing.random), drawing.interval)
        } else {
            next
        };
        word.fetch_add(more, Ordering::Relaxed);
        return sampled.then_some(drawing.shift);
    }
    // The overshoot is dropped: the word was `before`, and is to be `next`, but for what others subtract meanwhile.
    word.fetch_add(bytes - before.cast_unsigned() + next, Ordering::Relaxed);
    Some(old_shift as u32)
}

/// A word of this thread's control block.
#[cfg(target_arch = "x86_64")]
fn get(slot: usize) -> u64 {
    let word: u64;
    // SAFETY: a slot that the C library reserved for us in every thread's control block.
    unsafe {
        core::arch::asm!("mov {}, fs:[{}]", out(reg) word, in(reg) slot, options(nostack, readonly, preserves_flags))
    };
    word
}

#[cfg(target_arch = "x86_64")]
fn set(slot: usize, word: u64) {
    // SAFETY: as for `get`; nobody else uses it.
    unsafe {
        core::arch::asm!("mov fs:[{}], {}", in(reg) slot, in(reg) word, options(nostack, preserves_flags))
    };
}

#[cfg(not(target_arch = "x86_64"))]
fn get(_slot: usize) -> u64 {
    0
}

#[cfg(not(target_arch = "x86_64"))]
fn set(_slot: usize, _word: u64) {}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::cell::Cell;

    std::thread_local! {
        static SLOTS: [Cell<u64>; 2] = const { [const { Cell::new(0) }; 2] };
    }

    /// An object's allocator passes large requests on to malloc, and both pass through us: the second one must be seen.
    #[test]
    fn a_request_in_between_shows_even_if_the_fresh_countdown_is_the_old_one() {
        // Variables of a program's own threads stand at a fixed distance below their base.
        let distance = |slot: &Cell<u64>| (slot.as_ptr() as usize).wrapping_sub(arch::thread_base() as usize);
        found(SLOTS.with(|slots| [distance(&slots[0]), distance(&slots[1])]));
        assert!(begin());
        let (mut equal, mut random) = (0, 1);
        for request in 0..10_000 {
            let before = progress();
            let draw = || {
                random = chance::mixed(random);
                Drawing { random, interval: 16, shift: 3 }
            };
            let sampled = settle(600, false, draw);
            assert!(sampled == Some(3) || request == 0, "{sampled:?}");
            assert_ne!(progress(), before);
            equal += u32::from(progress().left == before.left);
        }
        assert!(equal > 100, "{equal} countdowns are equal to the one before");
    }
}
