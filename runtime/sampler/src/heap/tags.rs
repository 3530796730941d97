//! One octet for each bucket of addresses: how many sampled blocks may be there. What `free` looks at.
//!
//! A block that is sampled always has a tag before its address is known to the program, and keeps it until it is freed:
//! so a `free` that finds 0 needs to look no further. A tag that says 255 stays there: frees of its bucket look at the
//! table for nothing from then on.
//!
//! Signal safety: loads, stores and compare-and-swaps.

use core::sync::atomic::{AtomicU8, Ordering};

use crate::sys::arch::prefetch;

/// Number of buckets: a hash has 16 bits.
pub const TAGS: usize = 1 << 16;
/// By this an address is multiplied; the upper 16 bits of the product are the bucket.
pub const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The tags of the process, in memory that the child of a fork finds empty: see [`super::start`].
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Tags([AtomicU8; TAGS]);

/// For the wrappers, which look at them without a call.
pub static ALL: Tags = Tags([const { AtomicU8::new(0) }; TAGS]);

/// The bucket of an address.
#[inline(always)]
#[must_use]
pub const fn bucket(address: u64) -> usize {
    (address.wrapping_mul(MULTIPLIER) >> 48) as usize
}

impl Tags {
    fn tag_at(&self, address: u64) -> Option<&AtomicU8> {
        self.0.get(bucket(address))
    }

    /// Whether a sampled block may have this address.
    #[inline(always)]
    #[must_use]
    pub fn any(&self, address: u64) -> bool {
        self.tag_at(address).is_some_and(|tag| tag.load(Ordering::Relaxed) != 0)
    }

    /// A block is entered soon.
    pub(super) fn expect(&self, address: u64) {
        if let Some(tag) = self.tag_at(address) {
            prefetch(tag);
        }
    }

    /// A block is about to be entered. True: the tag is at its end, and stays there.
    pub fn add(&self, address: u64) -> bool {
        self.tag_at(address).is_some_and(|tag| {
            let added = tag.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_add(1));
            added.is_err()
        })
    }

    /// A block was removed, or found no place.
    pub fn sub(&self, address: u64) {
        if let Some(tag) = self.tag_at(address) {
            let lower = |count: u8| if count == u8::MAX { None } else { count.checked_sub(1) };
            let _ = tag.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower);
        }
    }

    /// Where they are, for the kernel.
    #[must_use]
    pub fn memory(&self) -> (*mut u8, usize) {
        (self.0.as_ptr().cast_mut().cast(), TAGS)
    }

    /// None any more.
    pub fn clear(&self) {
        self.0.iter().for_each(|tag| tag.store(0, Ordering::Relaxed));
    }
}
