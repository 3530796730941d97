//! When the mapping is not the file's any more: somebody cut the file, or the program mapped memory of its own there.
//!
//! A store behind the end of a file that was cut faults. Memory takes the place of the file then
//! ([`Log::replace_cut`]), and what lay there is lost.
//!
//! Memory that the program mapped over the file's mapping takes every store, and nothing tells. It is found by what
//! is missing there: the header's first word, a segment's head, the end of the last record. What was written before
//! is in the file. From then on nothing is stored there ([`Log::give_up_mapping`]).
//!
//! Signal safety: loads and stores; system calls where it says so.

use core::sync::atomic::{Ordering, fence};

use super::{Log, SegmentSlot};
use crate::sys;
use pct_format::LossCause;
use pct_format::layout::{BLOCK_BYTES, MAGIC, SEGMENT_MAGIC, header as at, segment, segment_kind};

impl Log {
    /// Whether the mapping is still the file's, as far as the header shows it: nobody cut the file, and the program has
    /// not mapped memory of its own there. Not while the header is being written.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        // After the load: if it faults, the file is cut there.
        self.has_magic() && !self.is_cut() && !self.is_given_up()
    }

    /// Whether the mapping begins as a file does.
    pub(super) fn has_magic(&self) -> bool {
        self.header(at::MAGIC).is_some_and(|magic| magic.load(Ordering::Relaxed) == MAGIC)
    }

    /// Whether nothing but its last words may be written any more ([`Log::give_up_mapping`]).
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Whether the mapping still has the head of this segment of a ring, as it was begun.
    #[must_use]
    pub fn holds_ring(&self, of: SegmentSlot) -> bool {
        let head = |at: usize| self.header(of.first + at).map(|word| word.load(Ordering::Relaxed));
        let generation = self.blocks.get(of.block as usize).map(|b| b.generation.load(Ordering::Relaxed));
        head(segment::MAGIC) == Some(SEGMENT_MAGIC | u64::from(segment_kind::RING))
            && head(segment::GENERATION) == generation
    }

    /// Whether somebody cut the file. Who asks after a look at the mapping that found something missing there is told
    /// whether that is why.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        // The look comes first, and `replace_cut` has stored this before there is anything to find.
        fence(Ordering::Acquire);
        self.cut.load(Ordering::Relaxed) != 0
    }

    /// The program has mapped memory of its own over the file's mapping, so nothing may be stored there any more, and
    /// that memory must never be unmapped. Only the file's header is mapped again, in another place: what is said at
    /// the end of a recording can still be said. If the file is gone too, the log is closed.
    #[cold]
    pub fn give_up_mapping(&self) {
        // SAFETY: written before the log was open, only read since.
        let named = unsafe { &*self.named.0.get() };
        let header = sys::with_descriptor(|| {
            let fd = named.open(1)?;
            sys::map_shared(&fd, BLOCK_BYTES, sys::PROT_READ | sys::PROT_WRITE)
        });
        let header = header.unwrap_or(core::ptr::null_mut());
        if !header.is_null() {
            // SAFETY: our own fresh mapping. A fork's child must not write to its parent's file.
            let _ = unsafe { sys::madvise(header, BLOCK_BYTES, sys::MADV_DONTFORK) };
        }
        self.hot.can_grow.store(false, Ordering::Relaxed);
        self.given_up.store(true, Ordering::Relaxed);
        // No block is handed out again: those that were left are whole in the file.
        self.hot.next.store(1, Ordering::Relaxed);
        self.hot.allocated.store(1, Ordering::Relaxed);
        self.hot.mapped_blocks.store(1, Ordering::Relaxed);
        // Release: whoever sees the new base sees that one block is there.
        self.hot.base.store(header.cast(), Ordering::Release);
    }

    /// A store to `address` faulted. If that is in our mapping, memory takes the place of the file from its
    /// block on, so that the store can go on, and nothing more is written there. False: it is not ours.
    #[cold]
    pub fn replace_cut(&self, address: u64) -> bool {
        let base = self.hot.base.load(Ordering::Acquire).cast::<u8>();
        let blocks = self.hot.mapped_blocks.load(Ordering::Relaxed);
        let offset = (address as usize).wrapping_sub(base as usize);
        if base.is_null() || offset >= blocks as usize * BLOCK_BYTES {
            return false;
        }
        let block = (offset / BLOCK_BYTES) as u32;
        let from = block as usize * BLOCK_BYTES;
        self.hot.can_grow.store(false, Ordering::Relaxed);
        // Before memory takes the place: another thread that finds its segment gone asks for this, and would otherwise
        // believe that the program has mapped memory of its own there. And before `allocated`: a thread that grows the
        // file at this moment looks at this after it has moved that.
        self.cut.store(block + 1, Ordering::SeqCst);
        self.hot.allocated.fetch_min(block, Ordering::SeqCst);
        // SAFETY: the end of our own mapping: nobody reads by it what the file still has there.
        let replaced = unsafe { sys::map_memory_over(base.add(from), blocks as usize * BLOCK_BYTES - from) };
        if replaced.is_err() {
            return false;
        }
        let mut lost = [0; 2];
        for block in self.blocks.iter().take(blocks as usize).skip(block as usize) {
            // (What a thread writes to at this moment is counted when it leaves it.)
            let [samples, weight] = block.lose(&self.resting);
            lost[0] += samples;
            lost[1] += weight;
        }
        // Where the header is gone too, the file is shorter than one, and the run's folder says why.
        self.lose(LossCause::Cut, lost[0].max(1), lost[1]);
        true
    }
}
