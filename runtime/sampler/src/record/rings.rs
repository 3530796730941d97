//! Threads and their rings: who writes where.
//!
//! Every thread that is armed has a slot. Its ring is a chain of segments in the log; the slot knows the
//! current one and the place in it. Only the thread's own handler writes there (a busy flag notices when that
//! is not so), so pushing is plain loads and stores.
//!
//! A handler finds its slot by the signal (timers carry slot and serial) or by the base of the thread's control block,
//! through a direct-mapped table of slots that is verified and refilled by thread id when it misses. A thread that dies
//! and another that is born with the same base are told apart as long as births are armed by the thread itself or
//! after the dead were retired: both ways of arming do so.
//!
//! Signal safety: loads and stores; on a miss one system call (gettid), none under a system call filter.

use core::hint::cold_path;
use core::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering};

use crate::code::thread_stack::ThreadStack;
use crate::record::found::FoundThread;
use crate::record::log::{BLOCK_WORDS, Log, MAX_RINGS, SegmentSlot};
pub use crate::record::slot::NotEntered;
use crate::record::slot::Slot;
use crate::{sys, sys::arch};
use pct_format::LossCause;
use pct_format::head::kind;
use pct_format::layout::{header as at, segment_kind};
use pct_format::push::{self, RECORDS_AT, SegmentHead};
use pct_format::record::Encoder;

const BASES: usize = 2 * MAX_RINGS;

/// A thread's slot. Plain relaxed atomics: the thread writes, the housekeeper reads.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Ring {
    // What every sample touches comes first: one cache line.
    pub(crate) slot: Slot,
    pub(crate) base: AtomicU64,
    /// Segment: first word in the file, 0 = none yet.
    first: AtomicU64,
    /// Next record's word in the segment.
    next: AtomicU64,
    samples: AtomicU64,
    weight: AtomicU64,
    /// CPU ns that samples stand for since the thread was armed.
    pub(crate) accounted_ns: AtomicU64,
    /// Weight of samples that were due before there was a file.
    pub(crate) carry: AtomicU64,
    /// Samples until the clock is set up anew with another period; 0: at the next one;
    /// [`crate::signal::clock::PERIOD_WRONG`]: it must be.
    pub(crate) rearm: AtomicU32,
    block: AtomicU32,
    /// 1: other threads have written to the segment before.
    shared: AtomicU32,

    /// Period of the clock at the moment, and what a sample of it stands for ([`crate::signal::clock::period::share`]).
    pub(crate) period_ns: AtomicU64,
    pub(crate) share: AtomicU64,
    /// What rounding the weights of samples has left, and the dice for it.
    pub(crate) owed: AtomicI64,
    pub(crate) dice: AtomicU64,

    pub(crate) tid: AtomicU32,
    pub(crate) serial: AtomicU32,
    /// CPU ns of the thread when it was armed.
    pub(crate) armed_cpu_ns: AtomicU64,
    /// CPU ns of the thread at which its first sample is due, and the period that its clock runs with until
    /// then; 0: not known.
    pub(crate) first_at_ns: AtomicU64,
    pub(crate) first_ns: AtomicU64,
    /// Expiries that were taken for later ones than the first.
    pub(crate) passed_over: AtomicU32,
    /// At the last tick: CPU ns, how many of them the kernel counts as system time, how often the thread has given its
    /// processor up to wait and lost it, its page faults, and CLOCK_MONOTONIC. And what ticks stand for
    /// ([`crate::signal::clock::tick`]).
    pub(crate) ticked_cpu_ns: AtomicU64,
    pub(crate) ticked_system_ns: AtomicU64,
    pub(crate) ticked_waits: AtomicU64,
    pub(crate) ticked_switches: AtomicU64,
    pub(crate) ticked_faults: AtomicU64,
    pub(crate) ticked_at_ns: AtomicU64,
    /// CPU ns at which the sampler has done long work of its own in the thread last.
    pub(crate) worked_until_ns: AtomicU64,
    /// Ticks that were booked, the mean of what one stands for, what the next one does (0: not known yet), and what
    /// the last one left over.
    pub(crate) ticks: AtomicU64,
    pub(crate) usual_tick_ns: AtomicI64,
    pub(crate) next_tick_ns: AtomicI64,
    pub(crate) left_ns: AtomicI64,
    /// What keeps the thread's perf event, and how far its records were read ([`crate::signal::clock::perf`]).
    pub(crate) perf_page: AtomicU64,
    pub(crate) news_read: AtomicU64,
    /// Timer id + 1, 0 = none.
    pub(crate) timer: AtomicI32,
    pub(crate) clock: AtomicU32,
    pub(crate) name: [AtomicU64; 2],
    /// Whether thread-begin was recorded: 0, or a word of `process::bookkeeping`.
    pub(crate) announced: AtomicU32,
    /// 1: it ticked since the housekeeper's last visit.
    pub(crate) seen: AtomicU32,
    /// CPU ns at the housekeeper's last visit, to see threads that run without being sampled.
    pub(crate) visited_cpu_ns: AtomicU64,
    pub(crate) visited_accounted_ns: AtomicU64,
    /// Our signals that the program asked to block in this thread; we leave them open ([`crate::signal::masks`]).
    pub(crate) host_blocks: AtomicU64,
    /// Where the last expiry was that [`Ring::carry`] counts; 0 = not known.
    pub(crate) carried_pc: AtomicU64,
    /// What its stacks need.
    pub(crate) stack: ThreadStack,
}

/// All slots. All zeros is empty.
#[derive(Debug)]
#[repr(C)]
pub struct Rings {
    /// Slots below this number have been used.
    used: AtomicU32,
    serial: AtomicU32,
    /// Handlers in [`Rings::without_slot`].
    visitors: AtomicU32,
    /// The thread that a round is about to arm.
    found: FoundThread,
    slots: [Ring; MAX_RINGS],
    by_base: [AtomicU32; BASES],
}

fn base_slot(base: u64) -> usize {
    // Control blocks lie at multiples of 64 at least; the multiplication spreads what differs into the upper bits.
    ((base >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BASES.trailing_zeros())) as usize
}

impl Rings {
    /// Where the first thread's slot ends.
    pub(crate) const SECOND_SLOT_AT: usize = core::mem::offset_of!(Rings, slots) + size_of::<Ring>();

    /// Slot by number.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, slot: u32) -> Option<&Ring> {
        self.slots.get(slot as usize)
    }

    /// Whether no handler is in any of them.
    #[must_use]
    pub fn are_left(&self) -> bool {
        self.visitors.load(Ordering::Acquire) == 0 && self.ever_used().all(|ring| !ring.slot.is_busy())
    }

    /// Runs `visit`, which uses the session's memory without a slot. Meanwhile they are not left.
    pub fn without_slot(&self, visit: impl FnOnce()) {
        self.visitors.fetch_add(1, Ordering::SeqCst);
        visit();
        self.visitors.fetch_sub(1, Ordering::Release);
    }

    /// Unmaps what they have beside themselves. Nobody is in the session any more.
    pub fn unmap(&self) {
        self.ever_used().for_each(|ring| ring.stack.unmap());
    }

    /// Slots that had a thread.
    pub(crate) fn ever_used(&self) -> impl Iterator<Item = &Ring> {
        self.slots.iter().take(self.used.load(Ordering::Acquire) as usize)
    }

    /// Number of a slot.
    #[must_use]
    pub fn number(&self, ring: &Ring) -> u32 {
        let offset = core::ptr::from_ref(ring) as usize - self.slots.as_ptr() as usize;
        (offset / size_of::<Ring>()) as u32
    }

    /// Slots of living threads.
    pub fn living(&self) -> impl Iterator<Item = &Ring> {
        let used = self.used.load(Ordering::Acquire) as usize;
        self.slots.iter().take(used).filter(|r| r.slot.is_live_and_seen())
    }

    /// Slot of a living thread by its id.
    #[must_use]
    pub fn by_tid(&self, tid: u32) -> Option<&Ring> {
        self.living().find(|r| r.tid.load(Ordering::Relaxed) == tid)
    }

    /// Slot by what a timer carries: serial in the upper half, slot in the lower.
    #[inline(always)]
    #[must_use]
    pub fn by_value(&self, value: u64) -> Option<&Ring> {
        let ring = self.get(value as u32)?;
        (ring.slot.is_live() && ring.serial.load(Ordering::Relaxed) == (value >> 32) as u32).then_some(ring)
    }

    /// Whether one of our timers, perhaps of a thread that has ended, may carry this.
    #[must_use]
    pub fn may_be_value(&self, value: u64) -> bool {
        let (slot, serial) = (value as u32, (value >> 32) as u32);
        slot < self.used.load(Ordering::Acquire) && (1..=self.count()).contains(&serial)
    }

    /// What timers carry for a slot.
    #[must_use]
    pub fn value(&self, ring: &Ring) -> u64 {
        u64::from(ring.serial.load(Ordering::Relaxed)) << 32 | u64::from(self.number(ring))
    }

    /// Slot of the calling thread.
    #[inline(always)]
    #[must_use]
    pub fn own(&self, may_call: bool) -> Option<&Ring> {
        let base = arch::thread_base();
        // The first thread of all has slot 0. (While it is the only one, nobody touches the table's page.)
        let number = match self.count() {
            0 | 1 => 0,
            _ => self.by_base.get(base_slot(base))?.load(Ordering::Relaxed),
        };
        if let Some(ring) = self.get(number)
            && ring.base.load(Ordering::Relaxed) == base
            && ring.slot.is_live()
        {
            return Some(ring);
        }
        if may_call { self.own_by_tid(base) } else { None }
    }

    #[cold]
    #[inline(never)]
    fn own_by_tid(&self, base: u64) -> Option<&Ring> {
        let ring = self.by_tid(sys::gettid())?;
        self.found_base(ring, base);
        Some(ring)
    }

    /// Makes the calling thread find `ring` from now on.
    pub fn set_own(&self, ring: &Ring) {
        let base = arch::thread_base();
        ring.base.store(base, Ordering::Relaxed);
        // The first thread of all has slot 0, and that is what an untouched table says.
        if self.count() > 1
            && let Some(entry) = self.by_base.get(base_slot(base))
        {
            entry.store(self.number(ring), Ordering::Relaxed);
        }
    }

    /// The thread of `ring` has its control block at `base`: it will find its slot without a system call.
    pub(crate) fn found_base(&self, ring: &Ring, base: u64) {
        ring.base.store(base, Ordering::Relaxed);
        if let Some(entry) = self.by_base.get(base_slot(base)) {
            entry.store(self.number(ring), Ordering::Relaxed);
        }
    }

    /// Takes a free slot for thread `tid`; the caller arms it. `None`: table full.
    #[must_use]
    pub fn claim_slot(&self, tid: u32) -> Option<&Ring> {
        for (i, ring) in self.slots.iter().enumerate() {
            if !ring.slot.claim() {
                continue;
            }
            self.used.fetch_max(i as u32 + 1, Ordering::Release);
            let serial = self.serial.fetch_add(1, Ordering::Relaxed) + 1;
            ring.reset(tid, serial);
            return Some(ring);
        }
        None
    }

    /// A round, which holds the housekeeper's lock, has found thread `tid` without a slot. Runs `arm`, which takes one
    /// for it, unless the thread is arming itself just now. Whether it ran.
    pub(crate) fn arm_found(&self, tid: u32, arm: impl FnOnce()) -> bool {
        let decided = self.found.by_round(tid, || self.taken_by(tid).next().is_some());
        if decided {
            arm();
            self.found.armed();
        }
        decided
    }

    /// Whether the calling thread `tid`, which has taken the slot `ring`, may arm itself. If not, a round is arming it
    /// or has done so, and the thread gives this slot up.
    pub(crate) fn may_arm_itself(&self, tid: u32, ring: &Ring) -> bool {
        self.found.by_itself(tid, || self.taken_by(tid).any(|other| !core::ptr::eq(other, ring)))
    }

    /// Slots of thread `tid`, even those that are not set up yet.
    fn taken_by(&self, tid: u32) -> impl Iterator<Item = &Ring> {
        self.ever_used().filter(move |ring| ring.slot.is_taken() && ring.tid.load(Ordering::Relaxed) == tid)
    }

    /// Threads that had a slot so far.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.serial.load(Ordering::Relaxed)
    }
}

impl Ring {
    /// Takes the slot for the calling thread, until [`Ring::exit`]. The session's file and tables stay mapped
    /// meanwhile.
    ///
    /// A thread may lose its processor between the look at which session is on and the first store to its file, for
    /// longer than that file stays mapped. So the slot's state is read once more when the busy flag is up: either this
    /// sees that the slot ends, or who unmaps the file (a whole file later) sees the flag ([`super::slot`]).
    ///
    /// # Errors
    /// The slot is not the caller's to write to.
    #[inline(always)]
    pub fn enter(&self) -> Result<(), NotEntered> {
        self.slot.enter()
    }

    /// Ends what [`Ring::enter`] began.
    #[inline(always)]
    pub fn exit(&self) {
        self.slot.exit();
    }

    fn reset(&self, tid: u32, serial: u32) {
        for word in [
            &self.base,
            &self.first,
            &self.next,
            &self.samples,
            &self.weight,
            &self.accounted_ns,
            &self.carry,
            &self.carried_pc,
            &self.armed_cpu_ns,
            &self.first_at_ns,
            &self.first_ns,
            &self.ticked_cpu_ns,
            &self.ticked_system_ns,
            &self.ticked_waits,
            &self.ticked_switches,
            &self.ticked_faults,
            &self.ticked_at_ns,
            &self.worked_until_ns,
            &self.ticks,
            &self.period_ns,
            &self.share,
            &self.dice,
            &self.perf_page,
            &self.news_read,
            &self.visited_cpu_ns,
            &self.visited_accounted_ns,
            &self.host_blocks,
        ] {
            word.store(0, Ordering::Relaxed);
        }
        for half in [
            &self.rearm,
            &self.passed_over,
            &self.block,
            &self.shared,
            &self.clock,
            &self.announced,
            &self.seen,
        ] {
            half.store(0, Ordering::Relaxed);
        }
        for word in [&self.owed, &self.usual_tick_ns, &self.next_tick_ns, &self.left_ns] {
            word.store(0, Ordering::Relaxed);
        }
        self.name.iter().for_each(|n| n.store(0, Ordering::Relaxed));
        self.stack.forget();
        self.timer.store(0, Ordering::Relaxed);
        self.tid.store(tid, Ordering::Relaxed);
        self.serial.store(serial, Ordering::Relaxed);
    }

    /// The calling thread, which has this slot and is at its beginning, was created with a stack of this many bytes.
    pub fn stack_created_with(&self, bytes: u64) {
        self.stack.created_with(bytes);
    }

    fn place(&self) -> SegmentSlot {
        SegmentSlot {
            block: self.block.load(Ordering::Relaxed),
            first: self.first.load(Ordering::Relaxed) as usize,
            words: BLOCK_WORDS - 1,
        }
    }

    /// Whether the segment is still the file's. Where the program has mapped memory of its own over it, the word before
    /// the next record's is zero until the program stores something there; no record ends with such a word.
    #[inline(always)]
    pub fn is_in_the_file(&self, log: &Log) -> bool {
        let next = self.first.load(Ordering::Relaxed) + self.next.load(Ordering::Relaxed);
        // Nothing there: there is no segment yet, or the file is cut.
        log.header(next.wrapping_sub(1) as usize).is_none_or(|word| word.load(Ordering::Relaxed) != 0)
            || self.head_is_in_the_file(log)
    }

    /// The same by the segment's head, also where there is no record yet.
    #[cold]
    #[inline(never)]
    fn head_is_in_the_file(&self, log: &Log) -> bool {
        !self.has_segment() || log.holds_ring(self.place()) || log.is_cut()
    }

    /// Appends the record of one sample of this weight to the segment. The caller holds the busy flag. False:
    /// the thread has no segment, or the segment has no room.
    #[inline(always)]
    pub fn append(&self, log: &Log, weight: u64, record: &[u64]) -> bool {
        let next = self.next.load(Ordering::Relaxed) as usize;
        if next == 0 {
            cold_path();
            return false;
        }
        let segment = log.words(self.first.load(Ordering::Relaxed) as usize, BLOCK_WORDS - 1);
        let Some(after) = segment.and_then(|words| push::append(words, next, record, &[])) else {
            cold_path();
            return false;
        };
        self.next.store(after as u64, Ordering::Relaxed);
        self.samples.store(self.samples.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.weight.store(self.weight.load(Ordering::Relaxed) + weight, Ordering::Relaxed);
        true
    }

    /// Appends a record that is no sample to the segment. The caller holds the busy flag. False: the thread has
    /// no segment, or the segment has no room.
    pub fn append_beside(&self, log: &Log, record: &[u64]) -> bool {
        let next = self.next.load(Ordering::Relaxed) as usize;
        let appended = if next == 0 { None } else { log.append(self.place(), next, record, &[]) };
        appended.is_some_and(|after| {
            self.next.store(after as u64, Ordering::Relaxed);
            true
        })
    }

    /// Appends a record that holds this many samples (1 or 0) of this weight. The caller holds the busy flag. False: no
    /// room anywhere, the loss is counted.
    #[expect(clippy::too_many_arguments, reason = "a struct would only rename them")]
    pub fn push(
        &self,
        log: &Log,
        rings: &Rings,
        may_call: bool,
        samples: u64,
        weight: u64,
        first: &[u64],
        rest: &[u64],
    ) -> bool {
        let next = self.next.load(Ordering::Relaxed) as usize;
        let appended = if next == 0 { None } else { log.append(self.place(), next, first, rest) };
        let next = match appended {
            Some(next) => next,
            None => {
                cold_path();
                match self.push_in_new_segment(log, rings, may_call, first, rest) {
                    Some(after) => after,
                    None => {
                        log.lose(LossCause::NoRoom, samples, weight);
                        return false;
                    }
                }
            }
        };
        self.next.store(next as u64, Ordering::Relaxed);
        self.samples.store(self.samples.load(Ordering::Relaxed) + samples, Ordering::Relaxed);
        self.weight.store(self.weight.load(Ordering::Relaxed) + weight, Ordering::Relaxed);
        true
    }

    #[cold]
    #[inline(never)]
    fn push_in_new_segment(
        &self,
        log: &Log,
        rings: &Rings,
        may_call: bool,
        first: &[u64],
        rest: &[u64],
    ) -> Option<usize> {
        let slot = rings.number(self);
        self.leave(log);
        if let Some((place, next, samples, weight)) = log.claim_resting() {
            self.block.store(place.block, Ordering::Relaxed);
            self.first.store(place.first as u64, Ordering::Relaxed);
            self.shared.store(1, Ordering::Relaxed);
            self.samples.store(samples, Ordering::Relaxed);
            self.weight.store(weight, Ordering::Relaxed);
            let appended = self.take_over(log, place, next).and_then(|next| {
                self.next.store(next as u64, Ordering::Relaxed);
                log.append(place, next, first, rest)
            });
            if appended.is_some() {
                return appended;
            }
            // A stack too deep for what is left there.
            self.leave_as(log, place, samples, weight);
        }
        let place = log.claim_ring(slot, may_call)?;
        let [overwritten, overwritten_weight] = log.overwritten(slot);
        let cpu_ns = if may_call { sys::clock_ns(sys::CLOCK_THREAD_CPU) } else { 0 };
        let head = SegmentHead {
            kind: segment_kind::RING,
            tid: self.tid.load(Ordering::Relaxed),
            thread: self.serial.load(Ordering::Relaxed),
            time: crate::record::time::now(),
            cpu_ns,
            epoch: log.header(at::REGION_EPOCH).map_or(0, |e| e.load(Ordering::Relaxed)),
            overwritten,
            overwritten_weight,
            period_ns: log.period_ns(),
            name: [self.name[0].load(Ordering::Relaxed), self.name[1].load(Ordering::Relaxed)],
            ..Default::default()
        };
        log.begin(place, head);
        self.block.store(place.block, Ordering::Relaxed);
        self.first.store(place.first as u64, Ordering::Relaxed);
        self.shared.store(0, Ordering::Relaxed);
        log.append(place, RECORDS_AT, first, rest)
    }

    /// Writes that what follows in a segment is this thread's; gives the next record's word.
    fn take_over(&self, log: &Log, place: SegmentSlot, at: usize) -> Option<usize> {
        let (name, len) = self.name_bytes();
        let mut record = [0; 8];
        let record = Encoder::new(&mut record)
            .raw_word(crate::record::time::now())
            .number(u64::from(self.tid.load(Ordering::Relaxed)))
            .text(name.get(..len).unwrap_or(&[]))
            .finish(kind::TAKE_OVER, self.serial.load(Ordering::Relaxed))?;
        log.append(place, at, record, &[])
    }

    /// The thread's name as far as it is known, and its length.
    #[must_use]
    pub fn name_bytes(&self) -> ([u8; 16], usize) {
        let mut name = [0u8; 16];
        for (half, word) in name.chunks_exact_mut(8).zip(&self.name) {
            half.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        let len = name.iter().position(|b| *b == 0).unwrap_or(16);
        (name, len)
    }

    fn leave_as(&self, log: &Log, place: SegmentSlot, samples: u64, weight: u64) {
        self.next.store(0, Ordering::Relaxed);
        self.samples.store(0, Ordering::Relaxed);
        self.weight.store(0, Ordering::Relaxed);
        log.leave_ring(place, samples, weight);
    }

    /// An expiry at `pc` cannot be recorded yet: the weight goes to the thread's next sample.
    pub(crate) fn put_off(&self, pc: u64, weight: u64) {
        self.carried_pc.store(pc, Ordering::Relaxed);
        self.carry.fetch_add(weight, Ordering::Relaxed);
    }

    /// The thread has ended: another may go on in its segment.
    pub fn retire(&self, log: &Log) {
        let next = self.next.swap(0, Ordering::Relaxed) as usize;
        if next != 0 {
            let samples = self.samples.swap(0, Ordering::Relaxed);
            let weight = self.weight.swap(0, Ordering::Relaxed);
            log.rest(self.place(), next, samples, weight);
        }
    }

    /// Gives the current segment up; the next sample begins another.
    pub fn leave(&self, log: &Log) {
        if self.next.swap(0, Ordering::Relaxed) != 0 {
            let samples = self.samples.swap(0, Ordering::Relaxed);
            let weight = self.weight.swap(0, Ordering::Relaxed);
            log.leave_ring(self.place(), samples, weight);
        }
    }

    /// Keeps the thread's name, and writes it into its current segment if that is its own.
    pub fn set_name(&self, log: &Log, name: [u64; 2]) {
        use pct_format::layout::segment;
        for (i, word) in name.into_iter().enumerate() {
            if let Some(place) = self.name.get(i) {
                place.store(word, Ordering::Relaxed);
            }
            if self.next.load(Ordering::Relaxed) != 0
                && self.shared.load(Ordering::Relaxed) == 0
                && let Some([place]) = log.words(self.place().first + segment::NAME + i, 1)
            {
                place.store(word, Ordering::Relaxed);
            }
        }
    }

    /// Whether it ever recorded something in a segment that it still has.
    #[must_use]
    pub fn has_segment(&self) -> bool {
        self.next.load(Ordering::Relaxed) != 0
    }
}
