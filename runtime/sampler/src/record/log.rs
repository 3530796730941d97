//! The mapped file: blocks, segments, the header's words.
//!
//! The whole limit is mapped at once; the file behind it is shorter and grows. A block may be touched only below
//! `allocated`, which is private memory and moves only after fallocate said yes: so there is no SIGBUS, and
//! what somebody scribbles into the file cannot lead a handler astray.
//!
//! Blocks are handed out from the low end; when none is left and the file cannot grow, the oldest ring segment that no
//! thread writes to is begun anew and what it held is counted as overwritten.
//!
//! Always holds: a block has one owner (`Block::state`), and only the owner begins segments in it.
//! Signal safety: no waiting; growth is a few system calls by whoever needs room, never under a system call filter.

mod lost;

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::record::block::{Block, state};
use crate::sys::lock::Lock;
use crate::sys::text::Buf;
use crate::sys::{self, Errno, Fd, FileId};
use pct_format::layout::header::LOSS_PAIRS;
use pct_format::layout::{BLOCK_BYTES, FIRST_SEGMENT_AT, header as at, segment};
use pct_format::push::{self, SegmentHead};
use pct_format::{Anchor, LossCause};

/// Words of a block.
pub const BLOCK_WORDS: usize = BLOCK_BYTES / 8;
/// Most blocks of a file: the largest `limit`.
pub const MAX_BLOCKS: usize = (1 << 30) / BLOCK_BYTES;
/// Words that a block must have left for another thread to go on in it: an eighth of it.
const LEAST_REST: usize = BLOCK_WORDS / 8;
/// Most threads that are sampled at the same time: each has a ring.
pub const MAX_RINGS: usize = 4096;
/// Longest path of a file.
pub const PATH_BYTES: usize = 1536;

/// What growing needs: the file by name, since no descriptor is kept.
#[derive(Debug)]
struct Named {
    /// With its NUL.
    path: Buf<PATH_BYTES>,
    id: FileId,
}

#[derive(Debug)]
#[repr(transparent)]
struct NamedCell(UnsafeCell<Named>);

// SAFETY: written by `create`, which holds `growth`, before the log is open; only read afterwards.
unsafe impl Sync for NamedCell {}

/// A segment that somebody appends to.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SegmentSlot {
    /// Block number.
    pub block: u32,
    /// First word (of the file) of the segment.
    pub first: usize,
    /// Words that records may use, counted from `first` (header included, last word not).
    pub words: usize,
}

/// The file of one process image. All zeros is a log that is not open.
///
/// The tables come first, so that what every sample touches lies with what follows the log in the session: see there.
#[derive(Debug)]
#[repr(C)]
pub struct Log {
    /// Samples overwritten and their weight, by slot of the ring that had written them.
    overwritten: [[AtomicU64; 2]; MAX_RINGS],
    blocks: [Block; MAX_BLOCKS],
    /// Losses before there is a header to count them in.
    early: [AtomicU64; 2 * LOSS_PAIRS],
    named: NamedCell,
    /// Held while the file is made, and while zeros are written to it.
    growth: Lock<()>,
    /// Blocks of kind keep and counters, which wraps cannot reclaim.
    kept: AtomicU32,
    /// Threads that are making the file grow.
    growing: AtomicU32,
    /// Blocks that rest.
    resting: AtomicU32,
    /// One more than the first block that was cut off, 0 = none was.
    cut: AtomicU32,
    /// The mapping was given up ([`Log::give_up_mapping`]).
    given_up: AtomicBool,
    generation: AtomicU64,
    /// Nanoseconds of a unit of weight in segments begun from now on, 0 = the header's.
    period_ns: AtomicU64,
    hot: Hot,
}

/// What every sample touches.
#[derive(Debug)]
#[repr(C, align(64))]
struct Hot {
    base: AtomicPtr<AtomicU64>,
    mapped_blocks: AtomicU32,
    allocated: AtomicU32,
    next: AtomicU32,
    /// Cleared for good when growing failed.
    can_grow: AtomicBool,
}

impl Log {
    /// Where in it lies what is touched at the start and by every sample.
    pub(crate) const HOT_AT: usize = core::mem::offset_of!(Log, growth);

    /// Whether there is a file.
    #[inline(always)]
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.hot.base.load(Ordering::Acquire).is_null()
    }

    /// Creates `path` (which must not exist) and maps it. `limit` is rounded down to blocks, at least four.
    ///
    /// # Errors
    /// The kernel's refusal. Nothing is left behind but perhaps an empty file that is removed again.
    pub fn create(&self, path: &mut Buf<PATH_BYTES>, limit: u64, first_blocks: u32) -> sys::Result<()> {
        let Some(_making) = self.growth.try_lock() else { return Err(Errno::EAGAIN) };
        let name = path.with_nul().ok_or(Errno(36))?;
        sys::with_descriptor(|| self.create_once(name, limit, first_blocks))
    }

    fn create_once(&self, name: sys::CStr<'_>, limit: u64, first_blocks: u32) -> sys::Result<()> {
        let fd = sys::open(name, sys::O_RDWR | sys::O_CREAT | sys::O_EXCL | sys::O_NOFOLLOW, 0o600)?;
        let made = sys::fstat(&fd).and_then(|(id, _)| {
            // SAFETY: the log is not open, so nobody reads it; the lock keeps other writers away.
            let named = unsafe { &mut *self.named.0.get() };
            named.id = id;
            named.path.clear();
            named.path.push(name.bytes()).push(b"\0");
            self.set_up(&fd, limit, first_blocks)
        });
        match made {
            // A stray `: > file` must fail from now on; growth opens it up for a moment.
            Ok(()) => drop(sys::fchmod(&fd, 0o400)),
            Err(_) => drop(sys::unlink(name)),
        }
        made
    }

    fn set_up(&self, fd: &Fd, limit: u64, first_blocks: u32) -> sys::Result<()> {
        let limit_blocks = (limit.min(fair_share()) / BLOCK_BYTES as u64).clamp(4, MAX_BLOCKS as u64) as u32;
        let first = first_blocks.clamp(2, limit_blocks);
        let bytes = u64::from(first) * BLOCK_BYTES as u64;
        match allocate(fd, 0, bytes) {
            Err(Errno::EOPNOTSUPP) => write_zeros(fd, 0, bytes)?,
            done => done?,
        }
        let mut blocks = limit_blocks;
        // A small address space limit is the host's right: take less, down to what is there.
        let base = loop {
            match sys::map_shared(fd, blocks as usize * BLOCK_BYTES, sys::PROT_READ | sys::PROT_WRITE) {
                Ok(base) => break base,
                Err(e) if blocks == first => return Err(e),
                Err(_) => blocks = (blocks / 2).max(first),
            }
        };
        // SAFETY: our own fresh mapping. A fork's child must not write to its parent's file.
        let _ = unsafe { sys::madvise(base, blocks as usize * BLOCK_BYTES, sys::MADV_DONTFORK) };
        self.hot.mapped_blocks.store(blocks, Ordering::Relaxed);
        self.hot.allocated.store(first, Ordering::Relaxed);
        self.hot.next.store(1, Ordering::Relaxed);
        self.hot.can_grow.store(true, Ordering::Relaxed);
        if let Some(block) = self.blocks.first() {
            block.state.store(state::KEPT, Ordering::Relaxed);
        }
        self.kept.store(1, Ordering::Relaxed);
        // Release: whoever sees the base sees the counts above.
        self.hot.base.store(base.cast(), Ordering::Release);
        for (i, early) in self.early.iter().enumerate() {
            let count = early.swap(0, Ordering::Relaxed);
            if count != 0 {
                self.header_add(at::LOSSES + i, count);
            }
        }
        Ok(())
    }

    /// Unmaps the file, unless the program has mapped memory of its own there. Nobody is in the session any more.
    pub fn unmap(&self) {
        let is_ours = self.is_cut() || self.has_magic();
        let base = self.hot.base.swap(core::ptr::null_mut(), Ordering::AcqRel);
        if !base.is_null() && is_ours {
            let bytes = self.hot.mapped_blocks.load(Ordering::Relaxed) as usize * BLOCK_BYTES;
            // SAFETY: our own mapping, made by `set_up`, which nobody uses any more.
            unsafe { sys::unmap(base.cast(), bytes) };
        }
    }

    /// Words `first..first + words` of the file, if they lie in allocated blocks.
    #[inline(always)]
    #[must_use]
    pub fn words(&self, first: usize, words: usize) -> Option<&[AtomicU64]> {
        let base = self.hot.base.load(Ordering::Acquire);
        let end = first.checked_add(words)?;
        if base.is_null() || end > self.hot.allocated.load(Ordering::Relaxed) as usize * BLOCK_WORDS {
            return None;
        }
        // SAFETY: `base` maps at least the allocated blocks, page-aligned, for as long as anybody is in the
        // session; atomics because others may read and even write the file at the same time.
        Some(unsafe { core::slice::from_raw_parts(base.add(first), words) })
    }

    /// One word of the header.
    #[inline(always)]
    #[must_use]
    pub fn header(&self, at: usize) -> Option<&AtomicU64> {
        self.words(at, 1)?.first()
    }

    /// Sets a word of the header.
    pub fn header_set(&self, at: usize, word: u64) {
        if let Some(place) = self.header(at) {
            place.store(word, Ordering::Relaxed);
        }
    }

    /// Adds to a word of the header.
    #[cold]
    pub fn header_add(&self, at: usize, more: u64) {
        if let Some(place) = self.header(at) {
            place.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Counts a loss, in the header or until there is one.
    #[cold]
    pub fn lose(&self, cause: LossCause, samples: u64, weight: u64) {
        let pair = 2 * cause as usize;
        for (i, more) in [samples, weight].into_iter().enumerate() {
            if self.is_open() {
                self.header_add(at::LOSSES + pair + i, more);
            } else if let Some(early) = self.early.get(pair + i) {
                early.fetch_add(more, Ordering::Relaxed);
            }
        }
    }

    /// Writes the latest anchor and the CPU times of the process. One writer at a time (the housekeeper's lock).
    pub fn latest_anchor(&self, anchor: Anchor, cpu_ns: (u64, u64)) {
        let Some([sequence, raw, monotonic, realtime, user, system]) =
            self.words(at::LATEST_ANCHOR, 6).and_then(<[AtomicU64]>::first_chunk::<6>)
        else {
            return;
        };
        let odd = sequence.load(Ordering::Relaxed) | 1;
        sequence.store(odd, Ordering::Release);
        raw.store(anchor.raw, Ordering::Release);
        monotonic.store(anchor.monotonic_ns, Ordering::Release);
        realtime.store(anchor.realtime_ns, Ordering::Release);
        user.store(cpu_ns.0, Ordering::Release);
        system.store(cpu_ns.1, Ordering::Release);
        sequence.store(odd.wrapping_add(1), Ordering::Release);
    }

    /// The keep segment of block 0.
    #[must_use]
    pub fn first_keep(&self) -> SegmentSlot {
        let first = FIRST_SEGMENT_AT / 8;
        SegmentSlot { block: 0, first, words: BLOCK_WORDS - first - 1 }
    }

    /// Begins a segment at `place`.
    pub fn begin(&self, place: SegmentSlot, head: SegmentHead) {
        let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(block) = self.blocks.get(place.block as usize) {
            block.generation.store(generation, Ordering::Relaxed);
        }
        if let Some(words) = self.words(place.first, place.words + 1) {
            push::begin_segment(words, &SegmentHead { generation, ..head });
        }
        // Two threads that begin segments at the same time may come here in the other order.
        if let Some(word) = self.header(at::GENERATION) {
            word.fetch_max(generation, Ordering::Relaxed);
        }
    }

    /// Appends a record; gives the next place in the segment, or `None` when it is full.
    #[inline(always)]
    pub fn append(&self, place: SegmentSlot, at: usize, first: &[u64], rest: &[u64]) -> Option<usize> {
        push::append(self.words(place.first, place.words)?, at, first, rest)
    }

    /// A block for a ring: a fresh one, or the oldest that may be overwritten.
    #[cold]
    pub fn claim_ring(&self, ring: u32, may_call: bool) -> Option<SegmentSlot> {
        let number = match self.fresh(1, may_call) {
            Some(number) => number,
            None => self.steal()?,
        };
        let block = self.blocks.get(number as usize)?;
        block.begin(ring);
        // The next ones in good time, so that threads seldom meet at the end of the file.
        if may_call {
            let allocated = self.hot.allocated.load(Ordering::Relaxed);
            self.grow_ahead((allocated / 8).clamp(1, 16));
        }
        Some(place(number, 1))
    }

    /// A ring's block is full or its thread has ended: it may be overwritten from now on.
    #[cold]
    pub fn leave_ring(&self, of: SegmentSlot, samples: u64, weight: u64) {
        self.leave(of, samples, weight, |block| block.leave([samples, weight]));
    }

    fn leave(&self, of: SegmentSlot, samples: u64, weight: u64, give_away: impl FnOnce(&Block)) {
        if of.block >= self.hot.allocated.load(Ordering::Relaxed) {
            // What was written before the mapping was given up is in the file.
            if !self.is_given_up() {
                self.lose(LossCause::Cut, samples, weight);
            }
            return;
        }
        if let Some(count) = self.words(of.first + segment::COUNT, 1).and_then(<[_]>::first) {
            count.store(samples, Ordering::Relaxed);
        }
        if let Some(block) = self.blocks.get(of.block as usize) {
            give_away(block);
        }
    }

    /// A ring's thread has ended and its block has room from word `next` of the segment on: another ring may take it.
    pub fn rest(&self, of: SegmentSlot, next: usize, samples: u64, weight: u64) {
        if next + LEAST_REST > of.words {
            return self.leave_ring(of, samples, weight);
        }
        self.leave(of, samples, weight, |block| block.rest(&self.resting, next as u32, [samples, weight]));
    }

    /// Sampling starts again in this file: samples to come stand for so much time, whatever the header says,
    /// and go into segments of their own.
    pub fn restart(&self, period_ns: u64) {
        self.period_ns.store(period_ns, Ordering::Relaxed);
        let used = self.hot.next.load(Ordering::Relaxed) as usize;
        for block in self.blocks.iter().take(used) {
            block.stop_resting(&self.resting);
        }
    }

    /// For the head of a new segment.
    #[must_use]
    pub fn period_ns(&self) -> u64 {
        self.period_ns.load(Ordering::Relaxed)
    }

    /// A block that rests, for a ring to go on in: its segment, the next record's word, the samples in it and
    /// their weight.
    #[cold]
    pub fn claim_resting(&self) -> Option<(SegmentSlot, usize, u64, u64)> {
        if self.resting.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let used = self.hot.next.load(Ordering::Relaxed) as usize;
        for (number, block) in self.blocks.iter().take(used).enumerate() {
            if let Some((next, [samples, weight])) = block.take_resting(&self.resting) {
                return Some((place(number as u32, 1), next as usize, samples, weight));
            }
        }
        None
    }

    /// Blocks that are kept. They take fresh blocks only, and at most half of the file.
    #[cold]
    pub fn claim_kept(&self, blocks: u32, may_call: bool) -> Option<SegmentSlot> {
        let kept = self.kept.load(Ordering::Relaxed);
        if kept.checked_add(blocks)? > self.hot.mapped_blocks.load(Ordering::Relaxed) / 2 {
            return None;
        }
        let number = self.fresh(blocks, may_call)?;
        self.kept.fetch_add(blocks, Ordering::Relaxed);
        for block in self.blocks.iter().skip(number as usize).take(blocks as usize) {
            block.state.store(state::KEPT, Ordering::Release);
        }
        Some(place(number, blocks))
    }

    /// Blocks that were never used, contiguous.
    fn fresh(&self, blocks: u32, may_call: bool) -> Option<u32> {
        loop {
            let next = self.hot.next.load(Ordering::Relaxed);
            let end = next.checked_add(blocks)?;
            if end > self.hot.allocated.load(Ordering::Acquire) {
                if !may_call || !self.grow(blocks) {
                    return None;
                }
                continue;
            }
            if self.hot.next.compare_exchange_weak(next, end, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return Some(next);
            }
        }
    }

    /// Makes sure of `ahead` unused blocks, unless the file cannot grow or another thread is at it. A few
    /// system calls when it must.
    pub fn grow_ahead(&self, ahead: u32) {
        let free = || {
            self.hot.allocated.load(Ordering::Relaxed).saturating_sub(self.hot.next.load(Ordering::Relaxed))
        };
        while self.is_open() && free() < ahead {
            if self.growing.load(Ordering::Relaxed) != 0 || !self.grow(ahead) {
                return;
            }
        }
    }

    /// Grows by at least `blocks` if the limit allows. Threads may do this at the same time: allocating what
    /// another has allocated already changes nothing.
    fn grow(&self, blocks: u32) -> bool {
        if !self.hot.can_grow.load(Ordering::Relaxed) {
            return false;
        }
        let allocated = self.hot.allocated.load(Ordering::Acquire);
        let mapped = self.hot.mapped_blocks.load(Ordering::Relaxed);
        let room = mapped.saturating_sub(allocated);
        if room < blocks {
            if room == 0 {
                self.hot.can_grow.store(false, Ordering::Relaxed);
            }
            return false;
        }
        // In steps that grow with the file, so that a long run makes few calls and a short one takes little.
        let step = (allocated / 4).clamp(1, 64).max(blocks).min(room);
        self.growing.fetch_add(1, Ordering::Relaxed);
        let grown = self.extend_file(allocated, step);
        self.growing.fetch_sub(1, Ordering::Relaxed);
        match grown {
            Ok(()) => {
                self.publish_allocated(allocated + step);
                match self.cut.load(Ordering::SeqCst) {
                    0 => true,
                    cut => {
                        self.hot.allocated.fetch_min(cut - 1, Ordering::Relaxed);
                        false
                    }
                }
            }
            // Another thread was faster: there may be room now.
            Err(_) if self.hot.allocated.load(Ordering::Relaxed) > allocated => true,
            Err(errno) if errno.passes() => false,
            Err(Errno(errno)) => {
                self.hot.can_grow.store(false, Ordering::Relaxed);
                self.header_set(at::GROW_ERRNO, errno as u64);
                false
            }
        }
    }

    /// The file has so many blocks now.
    fn publish_allocated(&self, blocks: u32) {
        // The file's word first: a reader must not take blocks in use for none.
        if let Some(word) = self.header(at::ALLOCATED) {
            word.fetch_max(u64::from(blocks) * BLOCK_BYTES as u64, Ordering::Relaxed);
        }
        self.hot.allocated.fetch_max(blocks, Ordering::SeqCst);
    }

    /// Allocates blocks behind `allocated` ones in the file.
    fn extend_file(&self, allocated: u32, blocks: u32) -> sys::Result<()> {
        // SAFETY: written before the log was open, only read since.
        let named = unsafe { &*self.named.0.get() };
        sys::with_descriptor(|| self.extend_named(named, allocated, blocks))
    }

    fn extend_named(&self, named: &Named, allocated: u32, blocks: u32) -> sys::Result<()> {
        let fd = named.open(allocated)?;
        let (from, bytes) =
            (u64::from(allocated) * BLOCK_BYTES as u64, u64::from(blocks) * BLOCK_BYTES as u64);
        match allocate(&fd, from, bytes) {
            Err(Errno::EOPNOTSUPP) => {
                // Zeros must not be written over what another thread has begun meanwhile: one at a time, and
                // only what is not allocated yet.
                let _one = self.growth.try_lock().ok_or(Errno::EAGAIN)?;
                if self.hot.allocated.load(Ordering::Acquire) != allocated {
                    return Err(Errno::EAGAIN);
                }
                let done = write_zeros(&fd, from, bytes);
                if done.is_ok() {
                    self.publish_allocated(allocated + blocks);
                }
                done
            }
            done => done,
        }
    }

    /// The oldest block that was left, whatever thread's it was.
    fn steal(&self) -> Option<u32> {
        let used = self.hot.next.load(Ordering::Relaxed) as usize;
        for _ in 0..8 {
            let left = self.blocks.iter().take(used).enumerate();
            let oldest = left
                .map(|(number, b)| (number, b, b.state.load(Ordering::Acquire)))
                .filter(|(_, _, state)| matches!(*state, state::LEFT | state::RESTING))
                .min_by_key(|(_, b, _)| b.generation.load(Ordering::Relaxed));
            let (number, block, was) = oldest?;
            if let Some(lost) = block.steal(was, &self.resting) {
                if let Some(counts) = self.overwritten.get(block.ring.load(Ordering::Relaxed) as usize) {
                    for (count, more) in counts.iter().zip(lost) {
                        count.fetch_add(more, Ordering::Relaxed);
                    }
                }
                self.lose(LossCause::Overwritten, lost[0], lost[1]);
                return Some(number as u32);
            }
        }
        None
    }

    /// Samples of a ring that were overwritten, and their weight.
    #[must_use]
    pub fn overwritten(&self, ring: u32) -> [u64; 2] {
        match self.overwritten.get(ring as usize) {
            Some([samples, weight]) => [samples.load(Ordering::Relaxed), weight.load(Ordering::Relaxed)],
            None => [0; 2],
        }
    }

    /// A slot is given to another thread: what its last one lost is in the header's sum. Blocks that the last one left
    /// are nobody's from now on.
    pub fn forget_ring(&self, ring: u32) {
        // nothing was lost and no block left yet, and the page of the count is not touched for nothing
        if !self.is_open() {
            return;
        }
        for count in self.overwritten.get(ring as usize).into_iter().flatten() {
            count.store(0, Ordering::Relaxed);
        }
        let used = self.hot.next.load(Ordering::Relaxed) as usize;
        for block in self.blocks.iter().take(used).filter(|b| b.ring.load(Ordering::Relaxed) == ring) {
            block.ring.store(u32::MAX, Ordering::Relaxed);
        }
    }

    /// Whether seven eighths of the limit are in use: what comes next will soon overwrite the oldest.
    #[must_use]
    pub fn is_nearly_full(&self) -> bool {
        let mapped = self.hot.mapped_blocks.load(Ordering::Relaxed);
        self.hot.next.load(Ordering::Relaxed) >= mapped - mapped / 8
    }

    /// Bytes allocated and limit, for the header.
    #[must_use]
    pub fn sizes(&self) -> (u64, u64) {
        let bytes = |blocks: &AtomicU32| u64::from(blocks.load(Ordering::Relaxed)) * BLOCK_BYTES as u64;
        (bytes(&self.hot.allocated), bytes(&self.hot.mapped_blocks))
    }
}

/// Of an address space that is limited the log takes at most a sixteenth: the rest is the host's.
fn fair_share() -> u64 {
    sys::soft_limit(sys::RLIMIT_AS) / 16
}

fn place(block: u32, blocks: u32) -> SegmentSlot {
    SegmentSlot { block, first: block as usize * BLOCK_WORDS, words: blocks as usize * BLOCK_WORDS - 1 }
}

impl Named {
    /// Opens the file by its path, makes sure that it is the one we mapped.
    fn open(&self, allocated: u32) -> sys::Result<Fd> {
        let path = sys::CStr::new(self.path.bytes()).ok_or(Errno::ENOENT)?;
        let flags = sys::O_RDWR | sys::O_NOFOLLOW;
        let mut opened = sys::open(path, flags, 0);
        let mut tries = 0;
        // Its mode is 0400 so that nobody truncates it by mistake; the owner may lift that. Another thread
        // that grows the file may put it back in between.
        while matches!(opened, Err(Errno::EACCES)) && tries < 20 {
            tries += 1;
            sys::chmod(path, 0o600)?;
            opened = sys::open(path, flags, 0);
        }
        let fd = opened?;
        let (id, size) = sys::fstat(&fd)?;
        if tries > 0 {
            let _ = sys::fchmod(&fd, 0o400);
        }
        if id != self.id || size < u64::from(allocated) * BLOCK_BYTES as u64 {
            return Err(Errno::ESTALE);
        }
        Ok(fd)
    }
}

/// Allocates bytes at the end of a file. RLIMIT_FSIZE is read first: beyond it the kernel would send SIGXFSZ.
fn allocate(fd: &Fd, from: u64, bytes: u64) -> sys::Result<()> {
    if from.checked_add(bytes).is_none_or(|end| end > sys::soft_limit(sys::RLIMIT_FSIZE)) {
        return Err(Errno::EFBIG);
    }
    sys::fallocate(fd, from, bytes)
}

/// For file systems without fallocate: written zeros are allocated zeros.
fn write_zeros(fd: &Fd, from: u64, bytes: u64) -> sys::Result<()> {
    let zeros = [0u8; 512];
    let mut at = from;
    while at < from + bytes {
        match sys::pwrite(fd, &zeros, at)? {
            0 => return Err(Errno(28)),
            n => at += n as u64,
        }
    }
    Ok(())
}
