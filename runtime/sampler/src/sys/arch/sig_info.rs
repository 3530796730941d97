//! What the kernel tells a handler about its signal.

/// A handler's second argument, as far as it is read.
#[derive(Clone, Copy, Debug)]
pub struct SigInfo(*const u8);

/// `si_code` of a POSIX timer.
pub const SI_TIMER: i32 = -2;
/// `si_code` of a SIGTRAP from a perf event.
pub const TRAP_PERF: i32 = 6;
/// The largest si_code of a signal that a file sends to its owner, as perf events do. The kernel's own SIGURG, for data
/// out of band, has another.
pub const POLL_HUP: i32 = 6;

impl SigInfo {
    /// Wraps the pointer.
    ///
    /// # Safety
    /// `info` is what the kernel passed to a running handler, and the value does not outlive it.
    #[must_use]
    pub unsafe fn new(info: *const u8) -> Self {
        SigInfo(info)
    }

    #[inline(always)]
    fn int(self, offset: usize) -> i32 {
        // SAFETY: siginfo_t has 128 bytes, offsets here are below 40.
        unsafe { self.0.add(offset).cast::<i32>().read_unaligned() }
    }

    #[inline(always)]
    fn word_at(self, offset: usize) -> u64 {
        // SAFETY: siginfo_t has 128 bytes, offsets here are below 40.
        unsafe { self.0.add(offset).cast::<u64>().read_unaligned() }
    }

    /// Where the signal comes from.
    #[inline(always)]
    #[must_use]
    pub fn code(self) -> i32 {
        self.int(8)
    }

    /// Where a fault was.
    #[must_use]
    pub fn address(self) -> u64 {
        self.word_at(16)
    }

    /// Expiries of the timer beyond the one.
    #[inline(always)]
    #[must_use]
    pub fn overrun(self) -> u32 {
        self.int(20).max(0) as u32
    }

    /// The timer's value.
    #[inline(always)]
    #[must_use]
    pub fn value(self) -> u64 {
        self.word_at(24)
    }

    /// The perf event's word (code TRAP_PERF).
    #[inline(always)]
    #[must_use]
    pub fn perf_data(self) -> u64 {
        self.word_at(24)
    }
}
