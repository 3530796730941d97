//! A thread that goes over from a perf event to its own CPU timer.
//!
//! Signal safety: system calls.

use core::sync::atomic::Ordering;

use crate::process::session::Session;
use crate::record::rings::Ring;
use crate::signal::clock::tick;
use crate::signal::clock::{self, perf};
use crate::sys;
use pct_format::Clock;

/// The thread is sampled by its CPU timer from now on, whose signal names the ring. What it used so far is
/// accounted for.
#[cold]
#[inline(never)]
pub(crate) fn go_by_timer(session: &Session, ring: &Ring) {
    perf::disarm(ring);
    let cpu = sys::clock_ns(sys::CLOCK_THREAD_CPU).saturating_sub(ring.armed_cpu_ns.load(Ordering::Relaxed));
    ring.accounted_ns.store(cpu, Ordering::Relaxed);
    tick::forget(ring);
    ring.clock.store(Clock::Thread as u32, Ordering::Relaxed);
    let _ = clock::arm_timer(session, ring);
}
