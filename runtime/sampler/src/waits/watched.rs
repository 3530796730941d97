//! One octet for each bucket of addresses: how many threads wait there. What a wrapper looks at before everything else.
//!
//! An object that somebody waits for always has a count, so whoever releases one with the count 0 has nothing to tell.
//! Objects that share a bucket cost each other some records, but never a wrong figure: records have addresses.
//!
//! Signal safety: loads and compare-and-swaps.

use core::sync::atomic::{AtomicU8, Ordering};

/// Number of buckets: bits 3 to 14 of an address.
pub const BUCKETS: usize = 4096;

/// The counts of the process, in memory that the child of a fork finds empty ([`super::install`]).
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Watched(pub(super) [AtomicU8; BUCKETS]);

/// For the wrappers, which look at them without a call.
pub static ALL: Watched = Watched([const { AtomicU8::new(0) }; BUCKETS]);

/// The bucket of an address.
#[inline(always)]
#[must_use]
pub const fn bucket(address: u64) -> usize {
    // The mask leaves twelve bits.
    ((address >> 3) & (BUCKETS as u64 - 1)) as usize
}

impl Watched {
    fn count(&self, address: u64) -> Option<&AtomicU8> {
        self.0.get(bucket(address))
    }

    /// Whether a thread may wait for the object at this address.
    #[inline(always)]
    #[must_use]
    pub fn any(&self, address: u64) -> bool {
        self.count(address).is_some_and(|count| count.load(Ordering::Relaxed) != 0)
    }

    /// How many threads may wait in the bucket of this address; 255: or more.
    #[must_use]
    pub fn waiters(&self, address: u64) -> u8 {
        self.count(address).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// A thread is about to wait. A count of 255 stays there: calls in its bucket are slower from then on.
    pub fn add(&self, address: u64) {
        if let Some(count) = self.count(address) {
            // A locked instruction: the count is seen before the wait begins.
            let _ = count.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |count| count.checked_add(1));
        }
    }

    /// It waits no more.
    pub fn sub(&self, address: u64) {
        let lower = |count: u8| if count == u8::MAX { None } else { count.checked_sub(1) };
        if let Some(count) = self.count(address) {
            let _ = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower);
        }
    }

    /// Where they are, for the kernel.
    pub(super) fn memory(&self) -> (*mut u8, usize) {
        (self.0.as_ptr().cast_mut().cast(), BUCKETS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_count_stays_and_an_empty_one_does_not_wrap() {
        let watched = Watched([const { AtomicU8::new(0) }; BUCKETS]);
        watched.sub(0x1000);
        assert!(!watched.any(0x1000));
        for _ in 0..300 {
            watched.add(0x1000);
        }
        assert!(watched.any(0x1007) && !watched.any(0x1008));
        for _ in 0..300 {
            watched.sub(0x1000);
        }
        assert!(watched.any(0x1000), "whoever was not counted may still wait");
    }
}
