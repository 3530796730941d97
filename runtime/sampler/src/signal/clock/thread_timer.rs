//! A POSIX timer per thread on the thread's CPU clock.
//!
//! It expires at kernel ticks only, so it gives at most HZ samples a second; `si_overrun` says for how many periods one
//! signal stands. It goes to its thread alone, is not inherited by fork and deleted by exec, and its queue entry is
//! allocated when it is created: a real-time signal is safe.
//!
//! As the sampling clock it samples; beside a perf clock, which sees user mode only, it accounts system time.

use core::sync::atomic::Ordering;

use crate::record::rings::Ring;
use crate::sys::{self, TimerId};

/// Creates and starts the timer of `ring`'s thread.
///
/// # Errors
/// The kernel's refusal, as when RLIMIT_SIGPENDING is used up.
pub fn arm(ring: &Ring, signal: i32, value: u64, first_ns: u64, interval_ns: u64) -> sys::Result<()> {
    let tid = ring.tid.load(Ordering::Relaxed);
    let timer = sys::timer_create(sys::thread_cpu_clock(tid), signal, value, Some(tid))?;
    if let Err(e) = sys::timer_set(timer, first_ns.max(1), interval_ns) {
        sys::timer_delete(timer);
        return Err(e);
    }
    let old = ring.timer.swap(timer.0 + 1, Ordering::Relaxed);
    delete(old);
    Ok(())
}

/// Deletes the timer of `ring`'s thread.
pub fn disarm(ring: &Ring) {
    delete(ring.timer.swap(0, Ordering::Relaxed));
}

fn delete(timer: i32) {
    if timer > 0 {
        sys::timer_delete(TimerId(timer - 1));
    }
}
