//! The process's CPU timer: it expires when the process uses CPU time and no thread that the sampler knows ticks.
//!
//! It is armed only where the sampler may not see a new thread, because it makes the program's own CPU clock coarse.
//! While a process has a CPU timer, the kernel counts the process's CPU time in ticks. Then `clock()` and
//! CLOCK_PROCESS_CPUTIME_ID advance in steps of one tick, and a program that measures itself with them gets wrong
//! times. (Measured with ticks of 4 ms: 105 values in 0.3 s, and 526,000 without the timer. Timers on a thread's CPU
//! time have no such effect.)
//!
//! Signal safety: system calls.

use core::sync::atomic::Ordering;

use crate::process::passing;
use crate::process::session::{self, Session};
use crate::signal::clock::{bounded, perf};
use crate::sys;

/// Nanoseconds between rounds, of time in which some thread runs.
pub(crate) const ROUND_NS: u64 = 250_000_000;
/// What the process's timer carries: no ring has this value.
pub(crate) const WATCH: u64 = u64::MAX;

/// Arms the process's timer, or puts off its expiry, so that it expires only when CPU time is used and no known thread
/// ticks: for example when a thread that `clone` made works while all others sleep. Stops it where it is not needed.
/// `wait`: nanoseconds until the next round is due.
///
/// It must not expire otherwise. The kernel gives its signal to the thread that runs, but older kernels to
/// the main thread, and all kernels to any other thread when the one that runs blocks it, as each does in our
/// handlers: that one's sleep would be cut short.
pub(crate) fn watch(session: &Session, wait: u64) {
    let mut timer = session.watch.load(Ordering::Relaxed);
    if !is_needed(session) {
        // It was needed for a moment. Nobody puts off its expiry any more, so it would cut waits short.
        // (Stopping a timer that is stopped already makes the clock of the process go in steps until the next tick.
        // Looking at it does not.)
        let left = if timer > 0 { sys::timer_left(sys::TimerId(timer - 1)) } else { Ok(0) };
        if left != Ok(0) {
            let _ = sys::timer_set(sys::TimerId(timer - 1), 0, 0);
        }
        return;
    }
    if timer == 0 {
        let signal = session.settings.tick_signal.load(Ordering::Relaxed);
        let Ok(made) = sys::timer_create(sys::CLOCK_PROCESS_CPU, signal, WATCH, None) else { return };
        timer = made.0 + 1;
        // A handler that saw a birth comes without the housekeeper's lock.
        let exchanged = session.watch.compare_exchange(0, timer, Ordering::Relaxed, Ordering::Relaxed);
        if let Err(others) = exchanged {
            sys::timer_delete(made);
            timer = others;
        }
    }
    let after = watch_after(wait, session.rings.living().count(), sys::cpus::count_online());
    let again = if bounded::are_clocks_bounded() { 0 } else { after };
    let _ = sys::timer_set(sys::TimerId(timer - 1), after, again);
}

/// Whether there may be a thread that the sampler does not know of.
fn is_needed(session: &Session) -> bool {
    let tell_of_births = || session.rings.living().all(perf::tells_of_births);
    passing::some_may_pass_by() || passing::pass_us_by() && !tell_of_births()
}

/// The program is about to do what makes threads that do not pass through us: it calls `clone`, or loads an object that
/// calls the C library without us. (Who makes one may sleep for ever and never tick.) Not for handlers.
pub fn expect_unseen_threads() {
    let was_noted = passing::some_begin_to_pass_by();
    let Some(session) = session::current() else { return };
    let is_watched = was_noted && session.watch.load(Ordering::Relaxed) != 0;
    if is_watched || !session.on.load(Ordering::Relaxed) || !session.may_call() {
        return;
    }
    let _alone = session::alone();
    // Who has it for a second is stopped or dead, or in a round, which sees the note.
    if let Some(_house) = session.house.lock_patiently(true) {
        watch(session, ROUND_NS);
    }
}

/// CPU nanoseconds of the process after which a round is overdue that was due in `wait`: as many threads as
/// tick use so much more CPU time meanwhile, but no more than there are processors for.
fn watch_after(wait: u64, threads: usize, cpus: Option<usize>) -> u64 {
    let at_once = threads.min(cpus.unwrap_or(usize::MAX)).clamp(1, 64) as u64;
    wait.max(ROUND_NS).saturating_mul(2 * at_once)
}

/// Deletes the process's timer: sampling is switched off.
pub(crate) fn stop_watching(session: &Session) {
    let timer = session.watch.swap(0, Ordering::Relaxed);
    if timer > 0 {
        sys::timer_delete(sys::TimerId(timer - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_timer_expires_after_the_rounds_that_it_stands_in_for() {
        for (threads, cpus) in [(1, 2), (6, 2), (6, 64), (1000, 128)] {
            let wait = 3 * ROUND_NS;
            let used_until_round = wait * threads.min(cpus).min(64) as u64;
            assert!(watch_after(wait, threads, Some(cpus)) > used_until_round, "{threads} on {cpus}");
        }
        assert_eq!(watch_after(0, 0, None), 2 * ROUND_NS);
        assert_eq!(watch_after(u64::MAX, 6, None), u64::MAX);
    }

    /// Else it would expire for good, and cut short what a thread of the program waits in.
    #[test]
    fn a_timer_that_is_needed_no_more_is_stopped() {
        let memory = sys::map_memory(size_of::<Session>()).expect("memory");
        // SAFETY: zeros are a session, and the mapping stays.
        let session = unsafe { &*memory.cast::<Session>() };
        session.settings.tick_signal.store(sys::SIGURG, Ordering::Relaxed);
        let timer = || session.watch.load(Ordering::Relaxed);
        let left = || sys::timer_left(sys::TimerId(timer() - 1)).expect("a timer");
        watch(session, ROUND_NS);
        assert_eq!(timer(), 0, "all threads are known");
        passing::found_by_round();
        watch(session, ROUND_NS);
        assert!(left() > 0, "one was found");
        passing::was_only_found_early();
        watch(session, ROUND_NS);
        assert_eq!(left(), 0, "it said that it is there");
        stop_watching(session);
        assert_eq!(timer(), 0);
    }
}
