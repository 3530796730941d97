//! A thread that goes over from a perf event to its own CPU timer.
//!
//! Signal safety: system calls.

use core::sync::atomic::Ordering;

use crate::process::session::Session;
use crate::record::rings::Ring;
use crate::signal::clock::{self, perf};
use crate::sys;
use pct_format::Clock;

/// [`Ring::system_ns`] of a thread that another one put on this clock: only the thread itself can ask for its
/// system time.
pub(crate) const SYSTEM_NS_UNKNOWN: u64 = u64::MAX;

/// The thread is sampled by its CPU timer from now on, whose signal names the ring. What it used so far is
/// accounted for.
#[cold]
#[inline(never)]
pub(crate) fn go_by_timer(session: &Session, ring: &Ring, period: u64) {
    perf::disarm(ring);
    let (_, system_ns) = sys::rusage_ns(sys::RUSAGE_THREAD);
    let cpu = sys::clock_ns(sys::CLOCK_THREAD_CPU).saturating_sub(ring.armed_cpu_ns.load(Ordering::Relaxed));
    ring.system_ns.store(system_ns, Ordering::Relaxed);
    ring.accounted_ns.store(cpu, Ordering::Relaxed);
    ring.clock.store(Clock::Thread as u32, Ordering::Relaxed);
    let _ = clock::arm_timer(session, ring, clock::first_at_tick(period), period);
}
