//! Whether new threads are made without our seeing it: in static programs, and where we were attached.
//! [`super::births`] looks for them.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::record::time;

/// Since when, monotonic ns; 0: births pass through us.
static PASS_BY_SINCE: AtomicU64 = AtomicU64::new(0);

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
