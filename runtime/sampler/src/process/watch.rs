//! The process's own timer: it expires when CPU time is used and no thread that the sampler knows ticks.
//!
//! Signal safety: system calls.

use core::sync::atomic::Ordering;

use crate::process::session::Session;
use crate::signal::clock::bounded;
use crate::sys;

/// Nanoseconds between rounds, of time in which some thread runs.
pub(crate) const ROUND_NS: u64 = 250_000_000;
/// What the process's timer carries: no ring has this value.
pub(crate) const WATCH: u64 = u64::MAX;

/// Puts off the process's own timer: it expires only when CPU time is used and no thread that we know ticks,
/// as when a raw clone works while all others sleep. `wait`: nanoseconds until the next round is due.
///
/// It must not expire otherwise. The kernel gives its signal to the thread that runs, but older kernels to
/// the main thread, and all kernels to any other thread when the one that runs blocks it, as each does in our
/// handlers: that one's sleep would be cut short.
pub(crate) fn watch(session: &Session, wait: u64) {
    let mut timer = session.watch.load(Ordering::Relaxed);
    if timer == 0 {
        let signal = session.settings.tick_signal.load(Ordering::Relaxed);
        let Ok(made) = sys::timer_create(sys::CLOCK_PROCESS_CPU, signal, WATCH, None) else { return };
        timer = made.0 + 1;
        session.watch.store(timer, Ordering::Relaxed);
    }
    let after = watch_after(wait, session.rings.living().count(), sys::cpus::count_online());
    let again = if bounded::are_clocks_bounded() { 0 } else { after };
    let _ = sys::timer_set(sys::TimerId(timer - 1), after, again);
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
}
