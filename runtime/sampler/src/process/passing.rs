//! Whether new threads are made without our seeing it: in static programs, and where we were attached.
//! [`super::births`] looks for them. And whether single ones may be, where births pass through us.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::code::system_calls;
use crate::record::time;

/// Since when, monotonic ns; 0: births pass through us.
static PASS_BY_SINCE: AtomicU64 = AtomicU64::new(0);

/// The program makes threads in a way that we do not see.
static SOME_PASS_BY: AtomicBool = AtomicBool::new(false);
/// Threads that a round has found, without those that have armed themselves since.
static FOUND: AtomicU32 = AtomicU32::new(0);

/// From now on births pass us by.
pub fn begin_to_pass_by() {
    PASS_BY_SINCE.store(time::monotonic_ns().max(1), Ordering::Relaxed);
}

/// The same in the child of a fork.
pub(crate) fn in_child() {
    if pass_us_by() {
        begin_to_pass_by();
    }
}

/// Whether births pass us by.
#[must_use]
pub fn pass_us_by() -> bool {
    PASS_BY_SINCE.load(Ordering::Relaxed) != 0
}

/// Nanoseconds since births pass us by. `None`: they pass through us.
pub(crate) fn pass_by_for(now_ns: u64) -> Option<u64> {
    match PASS_BY_SINCE.load(Ordering::Relaxed) {
        0 => None,
        since => Some(now_ns.wrapping_sub(since)),
    }
}

/// Whether single births may pass us by. Any of these says so:
///
/// - The program calls `clone`, or loads an object that calls the C library without us.
/// - Its code may set signal actions by system call instructions of its own, and so may do more by them.
/// - A round has found a thread that had not armed itself.
///
/// A `clone` by an instruction in a program that shows none of these is not noticed. Neither are the threads that the C
/// library makes for notifications (SIGEV_THREAD): they block all signals, so nothing could sample them.
#[must_use]
pub(crate) fn some_may_pass_by() -> bool {
    SOME_PASS_BY.load(Ordering::Relaxed)
        || FOUND.load(Ordering::Relaxed) != 0
        || system_calls::actions_may_change()
}

/// From now on single births may pass us by. Whether they might before.
pub(super) fn some_begin_to_pass_by() -> bool {
    SOME_PASS_BY.swap(true, Ordering::Relaxed)
}

/// A round has found a thread.
pub(super) fn found_by_round() {
    if !pass_us_by() {
        FOUND.fetch_add(1, Ordering::Relaxed);
    }
}

/// A thread that a round has found arms itself: the round was only quicker.
pub(super) fn was_only_found_early() {
    let _ = FOUND.try_update(Ordering::Relaxed, Ordering::Relaxed, |found| found.checked_sub(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_a_round_finds_early_has_not_passed_by() {
        was_only_found_early();
        assert!(!some_may_pass_by(), "never less than none");
        found_by_round();
        assert!(some_may_pass_by());
        was_only_found_early();
        assert!(!some_may_pass_by());
    }
}
