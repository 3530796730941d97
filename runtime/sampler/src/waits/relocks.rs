//! Mutexes that woken waiters of a condition are about to take again.
//!
//! `pthread_cond_wait` takes its mutex inside of the C library, where no wrapper sees it. Whoever holds the mutex then
//! is known only if its release is seen. So a thread that signals a condition counts the condition's mutex in
//! [`watched`](super::watched), once for each thread that it wakes, and a woken thread takes its count off when it has
//! the mutex. A mutex is never counted while threads merely wait for the condition: an idle pool would make each of its
//! unlocks slow.
//!
//! One word for each bucket of conditions: the mutex, and how many counts it has from here. Conditions that share a
//! bucket cost each other some records.
//!
//! Signal safety: loads and compare-and-swaps.

use core::sync::atomic::{AtomicU64, Ordering};

use super::watched::{BUCKETS, Watched, bucket};

/// The mutex above, the counts in the lowest octet.
#[repr(C, align(4096))]
#[derive(Debug)]
pub(super) struct Relocks([AtomicU64; BUCKETS]);

pub(super) static ALL: Relocks = Relocks([const { AtomicU64::new(0) }; BUCKETS]);

const COUNTS: u64 = 0xff;
const MUTEX_AT: u32 = 8;

impl Relocks {
    fn mutex_and_counts(&self, condition: u64) -> Option<&AtomicU64> {
        self.0.get(bucket(condition))
    }

    /// A thread waits for the condition with this mutex. While counts are out the bucket keeps the mutex that has them.
    pub(super) fn awaits(&self, condition: u64, mutex: u64) {
        if let Some(word) = self.mutex_and_counts(condition) {
            let known = word.load(Ordering::Relaxed);
            if known & COUNTS == 0 && known >> MUTEX_AT != mutex {
                let next = mutex << MUTEX_AT;
                let _ = word.compare_exchange(known, next, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    /// `most` waiters of the condition are about to be woken; at most as many as wait in its bucket of `watched`.
    pub(super) fn wakes(&self, condition: u64, most: u8, watched: &Watched) {
        let Some(word) = self.mutex_and_counts(condition) else { return };
        let known = word.load(Ordering::Relaxed);
        let counts = (known & COUNTS) as u8;
        let more = counts.saturating_add(most).min(watched.waiters(condition)).saturating_sub(counts);
        let mutex = known >> MUTEX_AT;
        if mutex == 0 || more == 0 {
            return;
        }
        // Counted first: a waiter that returns at once finds what it takes off.
        for _ in 0..more {
            watched.add(mutex);
        }
        let next = known + u64::from(more);
        // If another thread changed it meanwhile, that one's counts do as well.
        if word.compare_exchange(known, next, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            for _ in 0..more {
                watched.sub(mutex);
            }
        }
    }

    /// A waiter of the condition has its mutex again, or never will.
    pub(super) fn returned(&self, condition: u64, watched: &Watched) {
        let Some(word) = self.mutex_and_counts(condition) else { return };
        let lower = |known: u64| (known & COUNTS != 0).then(|| known - 1);
        if let Ok(known) = word.fetch_update(Ordering::SeqCst, Ordering::Relaxed, lower) {
            watched.sub(known >> MUTEX_AT);
        }
    }

    /// Where they are, for the kernel.
    pub(super) fn memory(&self) -> (*mut u8, usize) {
        (self.0.as_ptr().cast_mut().cast(), size_of::<Self>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::sync::atomic::AtomicU8;

    #[test]
    fn a_mutex_is_watched_from_the_signal_until_the_waiters_are_back() {
        let relocks = Box::new(Relocks([const { AtomicU64::new(0) }; BUCKETS]));
        let watched = Box::new(Watched([const { AtomicU8::new(0) }; BUCKETS]));
        let (condition, mutex, other) = (0x1000, 0x7008, 0x9010);
        relocks.wakes(condition, 1, &watched);
        for _ in 0..3 {
            watched.add(condition);
            relocks.awaits(condition, mutex);
        }
        assert!(!watched.any(mutex), "nobody was woken");
        relocks.wakes(condition, 1, &watched);
        relocks.awaits(condition, other);
        relocks.wakes(condition, u8::MAX, &watched);
        assert_eq!((watched.waiters(mutex), watched.waiters(other)), (3, 0));
        for left in (0..3).rev() {
            assert!(watched.any(mutex));
            relocks.returned(condition, &watched);
            assert_eq!(watched.waiters(mutex), left);
        }
        relocks.returned(condition, &watched);
        assert_eq!(watched.waiters(mutex), 0);
        relocks.awaits(condition, other);
        relocks.wakes(condition, 1, &watched);
        assert!(watched.any(other), "another mutex, when the first has no counts any more");
    }
}
