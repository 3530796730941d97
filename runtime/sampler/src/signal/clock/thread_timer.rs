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

/// Interval of a timer that is to expire once: a year of the thread's CPU time. One without an interval has no time
/// left when it has expired, as if its thread had ended ([`left`]).
pub const ONCE_NS: u64 = 365 * 24 * 3600 * 1_000_000_000;

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

/// Starts the timer of `ring`'s thread once more.
pub fn start_again(ring: &Ring, first_ns: u64, interval_ns: u64) {
    let timer = ring.timer.load(Ordering::Relaxed);
    if timer > 0 {
        // Refused: another thread has deleted it.
        let _ = sys::timer_set(TimerId(timer - 1), first_ns.max(1), interval_ns);
    }
}

/// Nanoseconds until the timer of `ring`'s thread expires, which has an interval: 0 says that the thread has ended,
/// whoever has its number now. `None`: it has no timer.
#[must_use]
pub fn left(ring: &Ring) -> Option<u64> {
    let timer = ring.timer.load(Ordering::Relaxed);
    if timer > 0 { sys::timer_left(TimerId(timer - 1)).ok() } else { None }
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

#[cfg(test)]
mod live {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn the_timer_knows_that_its_thread_has_ended_whoever_has_the_number_now() {
        // SAFETY: zeros are an empty slot by the type's own words.
        let ring: Ring = unsafe { core::mem::zeroed() };
        let (said, tid) = channel();
        let (end, ended) = channel::<()>();
        let thread = std::thread::spawn(move || {
            said.send(sys::gettid()).expect("somebody listens");
            let _ = ended.recv();
        });
        ring.tid.store(tid.recv().expect("the thread's number"), Ordering::Relaxed);
        assert_eq!(left(&ring), None);
        const NEVER_NS: u64 = 1_000_000_000_000;
        arm(&ring, 61, 7, NEVER_NS, NEVER_NS).expect("armed");
        assert!(left(&ring).is_some_and(|left| left > 0));
        drop(end);
        thread.join().expect("ends");
        // Joined means that its memory is free; the kernel may still be at its end.
        let pid = sys::getpid();
        pct_kit::wait::wait_until("its end", || !sys::thread_lives(pid, ring.tid.load(Ordering::Relaxed)));
        assert_eq!(left(&ring), Some(0));
        disarm(&ring);
    }

    #[test]
    fn a_thread_whose_timer_has_expired_and_is_not_started_again_yet_lives() {
        const SIGNAL: i32 = 61;
        const LATER_NS: u64 = 4_000_000;
        std::thread::spawn(|| {
            // SAFETY: zeros are an empty slot by the type's own words.
            let ring: Ring = unsafe { core::mem::zeroed() };
            ring.tid.store(sys::gettid(), Ordering::Relaxed);
            // The signal waits.
            sys::sigmask(sys::Mask::Block, 1 << (SIGNAL - 1));
            arm(&ring, SIGNAL, 7, 1, ONCE_NS).expect("armed");
            let work = || (0..1_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n));
            pct_kit::wait::wait_until("the signal", || {
                work();
                sys::pending() & (1 << (SIGNAL - 1)) != 0
            });
            assert!(left(&ring).is_some_and(|left| left > ONCE_NS / 2), "{:?}", left(&ring));
            start_again(&ring, LATER_NS, ONCE_NS);
            assert!(left(&ring).is_some_and(|left| 0 < left && left <= LATER_NS), "{:?}", left(&ring));
            disarm(&ring);
        })
        .join()
        .expect("it ends well");
    }
}
