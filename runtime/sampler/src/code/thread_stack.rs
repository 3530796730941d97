//! What a thread's ring keeps for stacks: where its stack is, and the memory in which handlers write frames.
//!
//! Signal safety: loads and stores; system calls when memory is needed for the first time.

use core::hint::cold_path;
use core::sync::atomic::{AtomicU64, Ordering};

use pct_unwind::Extent;

use crate::code::scratch::Scratch;
use crate::sys::{self, arch};

/// Words before a thread's own frames, for those that the kernel's calls take.
pub(crate) const FRONT: usize = CHAIN + 4;
/// Addresses that the kernel tells of its calls: 127 unless somebody changed that.
const CHAIN: usize = 128;

/// Added to the lowest address (a stack's is even) where it is only what was known when the thread was made: the stack
/// reaches lower.
const AT_BIRTH: u64 = 1;

/// What a thread's ring keeps for stacks. All zeros: nothing known yet.
#[derive(Debug)]
#[repr(C)]
pub struct ThreadStack {
    /// Lowest address of the thread's stack ([`AT_BIRTH`]), and the one behind its highest; 0 = not known.
    lo: AtomicU64,
    hi: AtomicU64,
    /// Bytes below the highest address that nothing but this thread's stack is in, 0 = not known.
    sure: AtomicU64,
    /// Buffer of frame words, 0 = none yet.
    buffer: AtomicU64,
    room: AtomicU64,
    /// [`Scratch`] for weaving, 0 = none yet, and the depth that it is made for.
    scratch: AtomicU64,
    scratch_depth: AtomicU64,
}

impl ThreadStack {
    /// The thread's stack for a walk in its handler. A handler that stands on an alternate stack proves nothing of the
    /// thread's own: it may have lost its rights (mprotect, protection keys that a handler does not have).
    #[inline(always)]
    pub(super) fn extent(&self) -> Extent {
        let here = 0u8;
        self.extent_from(core::ptr::from_ref(&here).expose_provenance() as u64)
    }

    /// The same for a handler that stands at `here`.
    #[inline(always)]
    fn extent_from(&self, here: u64) -> Extent {
        // Acquire: the end comes with its start.
        let hi = self.hi.load(Ordering::Acquire);
        let lo = self.lo.load(Ordering::Relaxed);
        if here < lo || here >= hi {
            cold_path();
            return Extent { lo, hi, sure: Extent::NOTHING };
        }
        let sure = hi.saturating_sub(self.sure.load(Ordering::Relaxed)).max(lo);
        Extent { lo, hi, sure }
    }

    /// The C library made the calling thread, which is at its beginning, with a stack of this many bytes,
    /// guard pages not counted.
    ///
    /// All C libraries have the thread's control block above the upper end of the stack, some of them within
    /// the bytes that were asked for. So half of them, below the block, are the stack's if the thread stands
    /// close to the block now; a block in memory of its own (musl, where a caller's stack is too small for
    /// it) is not close, or what lies between is in use as well.
    pub fn created_with(&self, bytes: u64) {
        let here = 0u8;
        let stack_pointer = core::ptr::from_ref(&here).expose_provenance() as u64;
        let base = arch::thread_base();
        let close = base.checked_sub(stack_pointer).is_some_and(|between| between <= bytes / 4);
        self.sure.store(if close { bytes / 2 } else { 0 }, Ordering::Relaxed);
        if close && !self.is_found() {
            // A thread may live for less time than it takes to look at the mappings.
            self.found(base.saturating_sub(bytes / 2) & !1 | AT_BIRTH, base, None);
        }
    }

    /// The stack is from `lo` up to `hi`; of its highest bytes `sure` are in nothing else, if that is known.
    pub(super) fn found(&self, lo: u64, hi: u64, sure: Option<u64>) {
        self.lo.store(lo, Ordering::Relaxed);
        if let Some(sure) = sure {
            self.sure.store(sure, Ordering::Relaxed);
        }
        // Release: whoever sees the end sees the start (an end without its start is a wrong extent).
        self.hi.store(hi, Ordering::Release);
    }

    /// What is known: the lowest address, the one behind the highest, how many bytes below that are in nothing else;
    /// 0 = not known.
    pub(super) fn known(&self) -> [u64; 3] {
        [&self.lo, &self.hi, &self.sure].map(|word| word.load(Ordering::Relaxed))
    }

    /// Whether the mappings were looked at: where the stack ends is known.
    pub(super) fn is_found(&self) -> bool {
        self.hi.load(Ordering::Relaxed) != 0 && self.lo.load(Ordering::Relaxed) & AT_BIRTH == 0
    }

    /// Another thread has the ring now. The buffer stays.
    pub fn forget(&self) {
        self.sure.store(0, Ordering::Relaxed);
        self.hi.store(0, Ordering::Relaxed);
        self.lo.store(0, Ordering::Relaxed);
    }

    /// Makes sure of the memory for `depth` frames, because no more can be had from now on. For any thread.
    pub fn secure(&self, depth: u32) {
        if self.buffer.load(Ordering::Relaxed) == 0 {
            let _ = self.new_buffer(room(depth), true);
        }
        if self.scratch.load(Ordering::Relaxed) == 0 {
            let _ = self.new_scratch(depth);
        }
    }

    /// The buffer: [`room`] for `depth` frames. The caller holds the ring's busy flag.
    #[inline(always)]
    #[expect(clippy::mut_from_ref, reason = "the busy flag makes the handler the only user of the mapping")]
    ///
    /// # Errors
    /// The kernel gives no memory; EPERM where it may not be asked.
    pub(super) fn buffer(&self, depth: u32, may_call: bool) -> sys::Result<&mut [u64]> {
        // Acquire: its room comes with it.
        let mut at = self.buffer.load(Ordering::Acquire);
        let room = room(depth);
        if at == 0 || self.room.load(Ordering::Relaxed) < room as u64 {
            at = self.new_buffer(room, may_call)?;
        }
        // SAFETY: our own mapping, of `room` words, that stays as long as anybody is in the session; the
        // busy flag keeps others away.
        Ok(unsafe { core::slice::from_raw_parts_mut(at as *mut u64, room) })
    }

    /// What weaving needs. The caller holds the ring's busy flag.
    pub(super) fn scratch(&self, depth: u32, may_call: bool) -> Option<Scratch<'_>> {
        let mut at = self.scratch.load(Ordering::Acquire);
        if at == 0 || self.scratch_depth.load(Ordering::Relaxed) < u64::from(depth) {
            if !may_call {
                return None;
            }
            at = self.new_scratch(depth).ok()?;
        }
        // SAFETY: our own mapping, for at least this depth (the depth never shrinks within a session), which
        // stays as long as anybody is in the session; the busy flag keeps others away.
        Some(unsafe { Scratch::new(at as *mut u8, depth) })
    }

    /// Unmaps the buffers. Nobody is in the session any more.
    pub fn unmap(&self) {
        let at = self.scratch.swap(0, Ordering::Relaxed);
        if at != 0 {
            let depth = self.scratch_depth.load(Ordering::Relaxed) as u32;
            // SAFETY: made by `new_scratch` for this depth; nobody uses it any more.
            unsafe { sys::unmap(at as *mut u8, Scratch::bytes(depth)) };
        }
        let at = self.buffer.swap(0, Ordering::Relaxed);
        if at != 0 {
            // SAFETY: made by `new_buffer` with this length; nobody uses it any more.
            unsafe { sys::unmap(at as *mut u8, self.room.load(Ordering::Relaxed) as usize * 8) };
        }
    }

    #[cold]
    fn new_buffer(&self, room: usize, may_call: bool) -> sys::Result<u64> {
        if !may_call {
            return Err(sys::Errno::EPERM);
        }
        provide(&self.buffer, (&self.room, room as u64), room * 8)
    }

    #[cold]
    fn new_scratch(&self, depth: u32) -> sys::Result<u64> {
        provide(&self.scratch, (&self.scratch_depth, u64::from(depth)), Scratch::bytes(depth))
    }
}

/// New memory for `place`, whose size in its own measure is `size`. The thread's handler and who secures its memory may
/// come here at once, with the same size: both get what is there then.
fn provide(place: &AtomicU64, (measure, size): (&AtomicU64, u64), bytes: usize) -> sys::Result<u64> {
    let before = place.load(Ordering::Relaxed);
    let new = sys::map_memory(bytes)?;
    measure.store(size, Ordering::Relaxed);
    place.compare_exchange(before, new as u64, Ordering::Release, Ordering::Acquire).map_or_else(
        |there| {
            // SAFETY: made here, and nobody knows of it.
            unsafe { sys::unmap(new, bytes) };
            Ok(there)
        },
        |_| Ok(new as u64),
    )
}

/// Words of a thread's buffer: what stands before its own frames, these, a cut mark, and addresses of the
/// kernel as they come.
const fn room(depth: u32) -> usize {
    FRONT + depth as usize + 1 + CHAIN
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown() -> ThreadStack {
        // SAFETY: all zeros is a stack of which nothing is known.
        unsafe { core::mem::zeroed() }
    }

    #[test]
    fn an_unknown_stack_is_empty_and_a_known_one_is_sure_of_its_upper_part() {
        let nothing = Extent { lo: 0, hi: 0, sure: Extent::NOTHING };
        let stack = unknown();
        assert_eq!(stack.extent(), nothing);
        stack.lo.store(0x1000, Ordering::Relaxed);
        stack.hi.store(0x9000, Ordering::Relaxed);
        let extent = || stack.extent_from(0x1000);
        assert_eq!(extent(), Extent { lo: 0x1000, hi: 0x9000, sure: 0x9000 });
        stack.sure.store(0x3000, Ordering::Relaxed);
        assert_eq!(extent().sure, 0x6000);
        // Never more than there is.
        stack.sure.store(0x10000, Ordering::Relaxed);
        assert_eq!(extent().sure, 0x1000);
        // From another stack, and of one that is gone, nothing is sure.
        for elsewhere in [0xfff, 0x9000] {
            assert_eq!(
                stack.extent_from(elsewhere),
                Extent { lo: 0x1000, hi: 0x9000, sure: Extent::NOTHING }
            );
        }
        stack.forget();
        assert_eq!(extent(), nothing);
    }

    #[test]
    fn half_of_what_a_thread_was_made_with_is_sure_if_its_control_block_is_close() {
        let sure = |bytes: u64| {
            let stack = unknown();
            stack.created_with(bytes);
            // Until the mappings are looked at, that half is the stack.
            let [lo, hi, sure] = stack.known();
            assert!(hi == if sure == 0 { 0 } else { arch::thread_base() } && !stack.is_found());
            assert!(hi.abs_diff(lo).abs_diff(sure) <= AT_BIRTH, "{lo:x} {hi:x} {sure:x}");
            assert_eq!(stack.extent().sure, if sure == 0 { Extent::NOTHING } else { hi - sure }.max(lo));
            stack.found(lo & !AT_BIRTH, hi, None);
            assert_eq!(stack.is_found(), sure != 0);
            sure
        };
        // A thread of the C library: its control block is at the upper end of its stack.
        let thread = std::thread::Builder::new().stack_size(1 << 20);
        let thread = thread.spawn(move || (sure(1 << 20), sure(64))).expect("a thread");
        assert_eq!(thread.join().expect("no panic"), (1 << 19, 0));
    }

    #[test]
    fn a_buffer_is_made_once_for_a_depth_and_anew_for_a_larger_one() {
        let stack = unknown();
        assert!(stack.buffer(16, false).is_err(), "no system call is allowed");
        let first = stack.buffer(16, true).map(|buffer| (buffer.as_ptr(), buffer.len())).expect("memory");
        assert_eq!(first.1, room(16));
        assert_eq!(stack.buffer(16, false).expect("it is there").as_ptr(), first.0);
        assert_eq!(stack.buffer(8, false).expect("it is there").len(), room(8));
        assert!(stack.buffer(17, false).is_err());
        let larger = stack.buffer(1000, true).expect("memory");
        larger.fill(7);
        assert_eq!(larger.len(), room(1000));
        assert!(stack.scratch(16, false).is_none());
        assert_eq!(stack.scratch(16, true).expect("memory").placed.len(), 16);
        assert_eq!(stack.scratch(8, false).expect("it is there").placed.len(), 8);
        assert!(stack.scratch(17, false).is_none());
        stack.unmap();
        assert!(stack.buffer(8, false).is_err() && stack.scratch(8, false).is_none());
        stack.secure(64);
        assert_eq!(stack.buffer(64, false).expect("secured").len(), room(64));
        assert_eq!(stack.scratch(64, false).expect("secured").placed.len(), 64);
        let secured = stack.buffer(64, false).map(|buffer| buffer.as_ptr()).expect("secured");
        stack.secure(64);
        assert_eq!(stack.buffer(64, false).expect("secured").as_ptr(), secured, "once");
        stack.unmap();
        assert!(stack.buffer(8, false).is_err() && stack.scratch(8, false).is_none());
    }
}
