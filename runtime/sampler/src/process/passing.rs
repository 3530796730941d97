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
/// Threads whose birth passes through us and that have not armed themselves yet. So many of those that a round has
/// found may be these.
static UNDER_WAY: AtomicU32 = AtomicU32::new(0);

/// From now on births pass us by.
pub fn begin_to_pass_by() {
    PASS_BY_SINCE.store(time::monotonic_ns().max(1), Ordering::Relaxed);
}

/// The same in the child of a fork. Whose births were under way there are no threads of the child.
pub(crate) fn in_child() {
    UNDER_WAY.store(0, Ordering::Relaxed);
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
/// - A round has found a thread that had not armed itself and is not about to.
///
/// A `clone` by an instruction in a program that shows none of these is not noticed. Neither are the threads that the C
/// library makes for notifications (SIGEV_THREAD): they block all signals, so nothing could sample them.
#[must_use]
pub(crate) fn some_may_pass_by() -> bool {
    SOME_PASS_BY.load(Ordering::Relaxed) || has_found_unexpected() || system_calls::actions_may_change()
}

/// Whether rounds have found more threads than are about to arm themselves. Without that, one look in the moment
/// between a birth and its arming would make the clock of the process coarse until the next tick.
fn has_found_unexpected() -> bool {
    // Acquire, and in this order: who arms itself takes itself from the found ones first.
    let under_way = UNDER_WAY.load(Ordering::Acquire);
    FOUND.load(Ordering::Relaxed) > under_way
}

/// A thread is about to be made by our wrapper. Call [`a_birth_ends`] when it has armed itself, or could not be made.
pub fn a_birth_begins() {
    UNDER_WAY.fetch_add(1, Ordering::Relaxed);
}

/// The thread of [`a_birth_begins`] has armed itself, or could not be made.
pub fn a_birth_ends() {
    let _ = UNDER_WAY.try_update(Ordering::Release, Ordering::Relaxed, |births| births.checked_sub(1));
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
        a_birth_begins();
        found_by_round();
        assert!(!some_may_pass_by(), "it may be the one that is about to arm itself");
        found_by_round();
        assert!(some_may_pass_by(), "both cannot be");
        was_only_found_early();
        a_birth_ends();
        assert!(some_may_pass_by(), "the other one has passed by");
        was_only_found_early();
        a_birth_ends();
        assert!(!some_may_pass_by(), "never less than none");
    }
}
