//! The system call `futex` that a program makes through libc's `syscall`: Rust's locks, `std::atomic::wait` of C++,
//! parking_lot.
//!
//! What a futex is for the kernel does not know, and a lock that is free is taken without a call. So only two things
//! are recorded: that a thread waited, and that a thread woke others. The reader tells by the waiter's stack what it
//! waited for.

/// Number of the system call on x86-64.
pub(super) const NUMBER: i32 = 202;

/// What a call does with the futex of its first argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    /// Waits.
    Waits,
    /// Wakes who waits.
    Wakes,
    /// Something else. Calls that also move waiters to another futex do not say whom they woke.
    Other,
}

/// The word was not what the caller expected: it did not wait.
pub(super) const EAGAIN: u64 = 11;

/// What a call with this second argument does.
pub(super) fn operation(argument: u64) -> Operation {
    const PRIVATE_AND_CLOCK: u64 = 128 | 256;
    const INT: u64 = 0xffff_ffff;
    match argument & INT & !PRIVATE_AND_CLOCK {
        // FUTEX_WAIT, _LOCK_PI, _WAIT_BITSET, _WAIT_REQUEUE_PI, _LOCK_PI2
        0 | 6 | 9 | 11 | 13 => Operation::Waits,
        // FUTEX_WAKE, _UNLOCK_PI, _WAKE_BITSET
        1 | 7 | 10 => Operation::Wakes,
        _ => Operation::Other,
    }
}
