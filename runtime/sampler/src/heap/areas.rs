//! Areas of the mapped file that grow in steps, each with private memory beside it.
//!
//! The first areas are small, so that a short process writes little; the last ones are large. What decides
//! where something is lies in private memory; what a reader wants lies in the file.
//!
//! Signal safety: loads. Adding an area is a few system calls, by whoever holds the caller's lock.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use pct_format::layout::{BLOCK_BYTES, SEGMENT_HEADER_BYTES, SEGMENT_HEADER_WORDS};
use pct_format::push::SegmentHead;

use crate::record::log::Log;
use crate::record::time;
use crate::sys;

/// Up to `N` areas, with `P` private words for each place. All zeros: none.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Areas<const N: usize, const P: usize> {
    count: AtomicU32,
    areas: [AreaSlot; N],
}

#[derive(Debug)]
#[repr(C)]
struct AreaSlot {
    private: AtomicPtr<AtomicU64>,
    /// First word in the file, behind the area's header.
    first: AtomicU64,
    places: AtomicU32,
}

/// What areas hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// [`pct_format::layout::segment_kind`].
    pub(crate) kind: u8,
    /// Words of a place in the file.
    pub(crate) words: usize,
    /// Places of the areas, one after another: powers of two.
    pub(crate) sizes: &'static [usize],
}

/// One area.
#[derive(Clone, Copy)]
pub(crate) struct Area<'a> {
    /// Private words: the first `places` of them are those that searches look at.
    pub(crate) private: &'a [AtomicU64],
    /// The rest of them.
    pub(crate) beside: &'a [AtomicU64],
    first: usize,
}

impl<'a> Area<'a> {
    /// The words of a place in the file; `None` when somebody has cut it.
    pub(crate) fn entry<const W: usize>(&self, log: &'a Log, place: usize) -> Option<&'a [AtomicU64; W]> {
        log.words(self.first + place * W, W)?.first_chunk()
    }

    /// Private words beside the first one of a place.
    pub(crate) fn beside<const W: usize>(&self, place: usize) -> Option<&'a [AtomicU64; W]> {
        self.beside.get(place * W..)?.first_chunk()
    }
}

impl<const N: usize, const P: usize> Areas<N, P> {
    /// The areas that there are.
    pub(crate) fn all(&self) -> impl Iterator<Item = Area<'_>> {
        let count = self.count.load(Ordering::Acquire) as usize;
        self.areas.iter().take(count).filter_map(|place| {
            let places = place.places.load(Ordering::Relaxed) as usize;
            let private = place.private.load(Ordering::Relaxed);
            // SAFETY: `add` mapped so many words before it raised the count; the mapping stays as long as
            // anybody is in the session.
            let all =
                (!private.is_null()).then(|| unsafe { core::slice::from_raw_parts(private, places * P) })?;
            let (private, beside) = all.split_at_checked(places)?;
            Some(Area { private, beside, first: place.first.load(Ordering::Relaxed) as usize })
        })
    }

    /// Places in all.
    pub(crate) fn places(&self) -> usize {
        self.all().map(|area| area.private.len()).sum()
    }

    /// Octets of private memory and file.
    pub(crate) fn octets(&self, shape: &Shape) -> u64 {
        (self.places() * 8 * (shape.words + P)) as u64
    }

    /// Adds the next area. The caller holds a lock. False: that was the last one, or there is no room.
    pub(crate) fn add(&self, log: &Log, may_call: bool, shape: &Shape) -> bool {
        let count = self.count.load(Ordering::Relaxed) as usize;
        let (Some(place), Some(&places)) = (self.areas.get(count), shape.sizes.get(count)) else {
            return false;
        };
        if !may_call {
            return false;
        }
        let Ok(private) = sys::map_memory(places * P * 8) else { return false };
        // SAFETY: fresh memory of our own. The child of a fork begins without it.
        let _ = unsafe { sys::madvise(private, places * P * 8, sys::MADV_DONTFORK) };
        let Some(first) = claim(log, may_call, shape.kind, places, shape.words) else {
            // SAFETY: mapped above, and nobody has seen it.
            unsafe { sys::unmap(private, places * P * 8) };
            return false;
        };
        place.private.store(private.cast(), Ordering::Relaxed);
        place.first.store(first as u64, Ordering::Relaxed);
        place.places.store(places as u32, Ordering::Relaxed);
        // Release: whoever counts it sees it whole.
        self.count.store(count as u32 + 1, Ordering::Release);
        true
    }

    /// Unmaps what is private. Nobody is in the session any more.
    pub(crate) fn unmap(&self) {
        for area in self.all() {
            let bytes = (area.private.len() + area.beside.len()) * 8;
            // SAFETY: mapped by `add`; nobody uses it any more.
            unsafe { sys::unmap(area.private.as_ptr().cast_mut().cast(), bytes) };
        }
        self.count.store(0, Ordering::Relaxed);
    }
}

/// Begins an area of so many places in the file: its first word behind the header.
pub(crate) fn claim(log: &Log, may_call: bool, kind: u8, places: usize, words: usize) -> Option<usize> {
    let blocks = (SEGMENT_HEADER_BYTES + places * words * 8).div_ceil(BLOCK_BYTES) as u32;
    let place = log.claim_kept(blocks, may_call)?;
    let (time, blocks, count) = (time::now(), u64::from(blocks), places as u64);
    log.begin(place, SegmentHead { kind, time, blocks, count, ..SegmentHead::default() });
    Some(place.first + SEGMENT_HEADER_WORDS)
}
