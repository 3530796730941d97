//! What may be done where a filter on system calls forbids some of our calls: what all filters that are in force allow,
//! as long as none is in force that was not seen.
//!
//! Signal safety: loads and stores.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pct_sampler::sys::filter::Verdict;

/// The process may ask for its own number.
static PID: AtomicBool = AtomicBool::new(false);
/// Clocks may be stopped.
static STOPS: AtomicBool = AtomicBool::new(false);

/// Whether the process may ask for its own number.
pub(crate) fn asks_pid() -> bool {
    PID.load(Relaxed)
}

/// Whether clocks may be stopped.
pub(crate) fn stops_clocks() -> bool {
    STOPS.load(Relaxed)
}

/// The program is about to set a filter, on which this is the verdict. `is_first`: none is in force yet.
pub(crate) fn narrow(verdict: Verdict, is_first: bool) {
    PID.store(verdict.pid_may_be_asked && (is_first || asks_pid()), Relaxed);
    STOPS.store(verdict.clocks_may_be_stopped && (is_first || stops_clocks()), Relaxed);
}

/// A filter may come that is not seen, or our calls are about to be forbidden in another way.
pub(crate) fn end() {
    PID.store(false, Relaxed);
    STOPS.store(false, Relaxed);
}
