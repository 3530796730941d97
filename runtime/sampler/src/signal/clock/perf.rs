//! The perf task clock: a software event per thread that counts its time on a CPU and signals in user mode.
//!
//! The event's file is closed at once, so that the host never sees a descriptor; a mapping of one page keeps the event
//! alive, and unmapping ends it. Signals by F_SETSIG must be standard signals: a queueing real-time signal would turn into
//! SIGIO, and kill the host, when its queue fills while a thread blocks it.
//!
//! Phase and period: the first expiry is at a random point of the period; every few samples the event is replaced by one of another
//! period ([`super::period`]), so that no program stays in step with the clock.
//!
//! The event counts from the moment it is opened: an expiry in the few microseconds before its signal is set up is not
//! seen, and comes out as time that no sample accounted for.
//!
//! Signal safety: system calls only.

use core::sync::atomic::Ordering;

use crate::record::rings::Ring;
use crate::sys::{self, Errno, PerfAttr};
use pct_format::Clock;

const PAGE: usize = 4096;
/// The kernel takes no shorter period for a software clock.
const SHORTEST_NS: u64 = 10_000;

/// `perf_event_attr` of the clock.
#[must_use]
fn attr(clock: Clock, period_ns: u64, data: u64, remove_on_exec: bool) -> PerfAttr {
    const TYPE_SOFTWARE: u64 = 1;
    const SIZE: u64 = 128;
    const TASK_CLOCK: u64 = 1;
    const EXCLUDE_KERNEL: u64 = 1 << 5;
    const EXCLUDE_HV: u64 = 1 << 6;
    const REMOVE_ON_EXEC: u64 = 1 << 36;
    const SIGTRAP: u64 = 1 << 37;
    let mut flags = EXCLUDE_KERNEL | EXCLUDE_HV;
    if clock == Clock::Sigtrap {
        flags |= SIGTRAP | REMOVE_ON_EXEC;
    } else if remove_on_exec {
        flags |= REMOVE_ON_EXEC;
    }
    let mut attr: PerfAttr = [0; 16];
    attr[0] = SIZE << 32 | TYPE_SOFTWARE;
    attr[1] = TASK_CLOCK;
    attr[2] = period_ns.max(SHORTEST_NS);
    attr[5] = flags;
    attr[6] = 1; // wakeup_events
    attr[15] = if clock == Clock::Sigtrap { data } else { 0 }; // sig_data
    attr
}

/// `perf_event_attr` of an event that all threads inherit, forked processes do not.
#[must_use]
pub(super) fn inherited_attr(period_ns: u64, data: u64) -> PerfAttr {
    const INHERIT: u64 = 1 << 1;
    const INHERIT_THREAD: u64 = 1 << 35;
    let mut attr = attr(Clock::Sigtrap, period_ns, data, true);
    attr[5] |= INHERIT | INHERIT_THREAD;
    attr
}

fn open(clock: Clock, tid: u32, period_ns: u64, data: u64) -> sys::Result<sys::Fd> {
    match sys::perf_event_open(&attr(clock, period_ns, data, true), tid, None) {
        // Kernels before 5.13 know no remove_on_exec, and older ones a shorter structure: E2BIG only if the end is used.
        Err(Errno::EINVAL | Errno(7)) if clock == Clock::Perf => {
            sys::perf_event_open(&attr(clock, period_ns, data, false), tid, None)
        }
        fd => fd,
    }
}

/// Arms `ring`'s thread: replaces its event, if it has one, by one with this first expiry.
///
/// # Errors
/// The kernel's refusal; the old event stays then.
pub fn arm(ring: &Ring, clock: Clock, signal: i32, data: u64, period_ns: u64) -> sys::Result<()> {
    let tid = ring.tid.load(Ordering::Relaxed);
    let fd = open(clock, tid, period_ns, data)?;
    if clock == Clock::Perf {
        sys::signal_owner(&fd, tid, signal)?;
    }
    let page = sys::map_shared(&fd, PAGE, sys::PROT_READ)?;
    // The kernel does not copy such a mapping to a fork's child.
    let old = ring.perf_page.swap(page as u64, Ordering::Relaxed);
    ring.period_ns.store(period_ns, Ordering::Relaxed);
    unmap(old);
    Ok(())
}

/// Ends the event of `ring`'s thread.
pub fn disarm(ring: &Ring) {
    unmap(ring.perf_page.swap(0, Ordering::Relaxed));
}

fn unmap(page: u64) {
    if page != 0 {
        // SAFETY: the page that `arm` mapped, taken out of the ring by a swap: it is unmapped once.
        unsafe { sys::unmap(page as *mut u8, PAGE) };
    }
}
