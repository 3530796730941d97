//! How densely each site is sampled: one that takes too many samples is thinned, the others are not.
//!
//! A program that allocates a gigabyte a second does so at a few sites. If the interval were doubled for all of them,
//! a leak of a few bytes a second beside them would have no sample. So samples are drawn at the interval that was
//! asked for, and those of a busy site are kept with a smaller probability, before their stack is walked. A sample
//! of `size` bytes that was drawn at the interval N is kept with p(2^k N) / p(N): then it is as if it had been
//! drawn at 2^k N, and is recorded so. What k is follows from earlier samples alone, so no estimate has a bias.
//!
//! A site is where a call returns to, at which height of the stack, and the size to a power of two. It is known
//! without a walk. Two sites with one bucket share their k: that costs precision, not truth.
//!
//! Signal safety: loads and stores of private words. Two threads that store at once lose a count of one of them.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::record::table::mix;

/// Buckets of sites.
const BUCKETS: usize = 4096;
/// A site with so many of a window's samples is busy: 3 % of them.
const BUSY: u32 = 8;
/// How often a site's interval is doubled at most.
const MOST: u32 = 20;

/// Sites by bucket. All zeros: none is thinned.
///
/// A word: bits 0 to 7 how often the interval is doubled, 8 to 15 recorded samples of the window whose number is in
/// bits 16 to 31.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Pace {
    window: AtomicU32,
    buckets: [AtomicU32; BUCKETS],
}

/// A site's bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Site(usize);

impl Site {
    /// The site of a call that returns to `returns`, by a thread whose stack pointer is then `stack_pointer`.
    pub(crate) fn new(returns: u64, stack_pointer: u64, size: u64) -> Self {
        let class = u64::from(size.leading_zeros());
        Site(mix(returns ^ stack_pointer.rotate_left(24) ^ class << 56) as usize % BUCKETS)
    }
}

impl Pace {
    fn bucket(&self, site: Site) -> &AtomicU32 {
        self.buckets.get(site.0).unwrap_or(&self.window)
    }

    /// How often the interval is doubled for a site.
    pub(crate) fn shift(&self, site: Site) -> u32 {
        self.bucket(site).load(Ordering::Relaxed) & 0xff
    }

    /// A sample of the site is recorded.
    pub(crate) fn count(&self, site: Site) {
        let (bucket, window) = (self.bucket(site), self.window.load(Ordering::Relaxed) & 0xffff);
        let word = bucket.load(Ordering::Relaxed);
        let counted = if word >> 16 == window { word >> 8 & 0xff } else { 0 };
        bucket.store(window << 16 | (counted + 1).min(0xff) << 8 | word & 0xff, Ordering::Relaxed);
    }

    /// The window ends, and samples came too often: busy sites are thinned more. Gives how many there are.
    pub(crate) fn slow_down(&self) -> u32 {
        let window = self.window.load(Ordering::Relaxed) & 0xffff;
        let mut sites = 0;
        for bucket in &self.buckets {
            let word = bucket.load(Ordering::Relaxed);
            let is_busy = word >> 16 == window && word >> 8 & 0xff >= BUSY;
            if is_busy && word & 0xff < MOST {
                bucket.store(word + 1, Ordering::Relaxed);
                sites += 1;
            }
        }
        sites
    }

    /// The window ends, and samples are few: each site is thinned less. False: no site was thinned.
    pub(crate) fn speed_up(&self) -> bool {
        let mut any = false;
        for bucket in &self.buckets {
            let word = bucket.load(Ordering::Relaxed);
            if word & 0xff != 0 {
                bucket.store(word - 1, Ordering::Relaxed);
                any = true;
            }
        }
        any
    }

    /// Another window begins.
    pub(crate) fn next_window(&self) {
        self.window.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    fn fresh() -> &'static Pace {
        let memory = sys::map_memory(size_of::<Pace>()).expect("memory");
        // SAFETY: zeroed memory of our own that is never unmapped; zeros are a pace that thins nothing.
        unsafe { &*memory.cast() }
    }

    #[test]
    fn only_busy_sites_are_thinned_and_they_come_back() {
        let pace = fresh();
        let (busy, rare) = (Site::new(0x1000, 0x7fff_0000, 64), Site::new(0x2000, 0x7fff_0000, 64));
        assert_ne!(busy, rare);
        for rounds in 1..=3 {
            (0..200).for_each(|_| pace.count(busy));
            (0..BUSY - 1).for_each(|_| pace.count(rare));
            assert_eq!(pace.slow_down(), 1);
            pace.next_window();
            assert_eq!((pace.shift(busy), pace.shift(rare)), (rounds, 0));
        }
        // What was counted in an earlier window counts no more.
        (0..BUSY - 1).for_each(|_| pace.count(rare));
        assert_eq!(pace.slow_down(), 0);
        for left in (0..3).rev() {
            assert!(pace.speed_up());
            assert_eq!(pace.shift(busy), left);
        }
        assert!(!pace.speed_up());
    }

    #[test]
    fn a_site_is_its_call_its_height_and_its_size() {
        let at = |returns, stack_pointer, size| Site::new(returns, stack_pointer, size);
        let site = at(0x5555_5555_1234, 0x7fff_ffff_e000, 100);
        assert_eq!(site, at(0x5555_5555_1234, 0x7fff_ffff_e000, 127));
        assert_ne!(site, at(0x5555_5555_1234, 0x7fff_ffff_e000, 128));
        assert_ne!(site, at(0x5555_5555_1235, 0x7fff_ffff_e000, 100));
        assert_ne!(site, at(0x5555_5555_1234, 0x7fff_ffff_dff0, 100));
    }

    #[test]
    fn counts_and_shifts_stop_at_what_a_word_holds() {
        let pace = fresh();
        let site = Site::new(1, 2, 3);
        for _ in 0..60 {
            (0..1000).for_each(|_| pace.count(site));
            pace.slow_down();
            pace.next_window();
        }
        assert_eq!(pace.shift(site), MOST);
        assert_eq!(pace.slow_down(), 0);
    }
}
