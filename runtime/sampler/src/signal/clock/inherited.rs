//! One set of perf events for all threads: an event for each CPU, which every new thread inherits.
//!
//! With an event of its own per thread the kernel cancels and starts a timer at each switch between threads:
//! two threads that hand each other a byte ran 4.6 times slower. Contexts that were inherited from the same
//! events are equal, so the kernel swaps them and the timer runs on. The set is made when the process creates
//! its first thread; before that there is nothing to switch to.
//!
//! - Only `sigtrap` can be inherited: other signals go to the one owner of the event's file. The data word of
//!   the signal cannot name the thread ([`DATA`]), which is found by its control block.
//! - An inherited event cannot be given another period (the kernel changes the first thread's alone). So the
//!   whole set runs with one period, drawn at random when it is made. With swapped contexts the clock is the
//!   CPU's and not the thread's: what a single thread was sampled too seldom or too often evens out over the
//!   process ([`Inherited::missing_ns`]).
//! - A thread begins with an entire period, so threads that end within it would never be sampled. Where many
//!   threads end early ([`Inherited::loses_short_threads`]) the process goes back to an event per thread, for
//!   good.
//! - A program that works in bursts may be in step with that one period. Where threads wait seldom ([`FEW_WAITS`])
//!   the swaps save little, and each thread gets an event of its own, whose period is drawn anew all the time.
//! - Threads that are older than the set (a process that was attached to, `pct_on` in the middle) keep an
//!   event each, and there is no set.
//!
//! The events live by their mappings, one page each in one range; unmapping the range ends them in all
//! threads. A fork's child has neither the mapping nor the events; an exec removes them. CPUs that come
//! online later are not in the set: time there is seen by the tick only, as system time.
//!
//! Where the kernel's calls are sampled, the events count time in the kernel too, and each has pages of
//! records behind its first one ([`super::kernel_records`]), of all threads that ran on its processor. Such
//! pages stay where they are when the set ends, as zeros: a handler of another thread may be reading them.
//!
//! Signal safety: [`Inherited::is_on`] and what it guards are loads; the rest are system calls.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::kernel_records::Records;
use crate::sys;

/// What the signals of the set carry. No thread's events do: the upper half of theirs is a serial number,
/// which is never 0.
pub const DATA: u64 = 1;

pub(super) const PAGE: usize = 4096;
/// The part of [`Inherited::pages`] that says how many pages of records each event has.
const MORE_PAGES: u64 = 0xfff;
/// Births from one look to the next.
const JUDGED_EVERY: u32 = 8;
/// Deaths that say something about the program.
const ENOUGH_DEATHS: u32 = 16;
/// A dead thread loses half a period on average. If all threads together used less than so many periods for
/// each that died, the loss is worth an event per thread.
const PERIODS_A_DEATH: u64 = 32;

/// Waits a CPU second. Below this number an event per thread costs less than 4 % (each switch between two threads
/// some 9 us on a virtual machine), and bursts longer than a quarter of a millisecond cannot be in step.
pub const FEW_WAITS: u64 = 4_000;
/// With more than this, and an event per thread, the threads go by their CPU timers: those cost nothing at a switch.
pub const MANY_WAITS: u64 = 20_000;
/// CPU ns that tell how often threads wait.
const WAITS_JUDGED_NS: u64 = 100_000_000;

/// The set of a process. All zeros: there is no set.
#[derive(Debug)]
#[repr(C)]
pub struct Inherited {
    /// Address of the first mapping, 0 = there is no set; in its low bits how many pages of records each event has.
    pub(super) pages: AtomicU64,
    pub(super) count: AtomicU32,
    /// 1: it was tried, or there is a reason not to.
    decided: AtomicU32,
    /// Period of all events, and what a sample stands for.
    pub(super) period_ns: AtomicU64,
    pub(super) share: AtomicU64,
    /// CPU ns of the process when the set was made, and what the samples of all threads stand for since.
    pub(super) began_cpu_ns: AtomicU64,
    pub(super) accounted_ns: AtomicU64,
    /// Threads that ended since.
    pub(super) deaths: AtomicU32,
    /// Births up to which it was looked at whether threads end early.
    pub(super) judged: AtomicU32,
    /// Why the kernel refused the set, 0 = it did not.
    pub(super) errno: AtomicU32,
    /// CPU ns and waits of the process when it was last looked how often threads wait.
    looked_cpu_ns: AtomicU64,
    looked_waits: AtomicU64,
}

impl Inherited {
    /// Whether threads are sampled by the set.
    #[inline(always)]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.pages.load(Ordering::Relaxed) != 0
    }

    /// Whether its events count time in the kernel too.
    #[inline(always)]
    #[must_use]
    pub fn sees_kernel(&self) -> bool {
        self.pages.load(Ordering::Relaxed) & MORE_PAGES != 0
    }

    /// The records of the event with this number, of all threads. Events are in the order of their processors.
    #[must_use]
    pub fn records(&self, number: u32) -> Option<Records<'_>> {
        let pages = self.pages.load(Ordering::Acquire);
        let words = (1 + (pages & MORE_PAGES) as usize) * PAGE / 8;
        if pages & MORE_PAGES == 0 || number >= self.count.load(Ordering::Relaxed) {
            return None;
        }
        let start = (pages & !MORE_PAGES) as usize + number as usize * words * 8;
        // SAFETY: one event's part of the range that `make` mapped, which stays mapped for good.
        Records::new(unsafe { core::slice::from_raw_parts(start as *const AtomicU64, words) })
    }

    /// The same, for a thread that has just said that it lives: either it sees that the set has ended, or who
    /// ended it sees the thread.
    #[must_use]
    pub fn is_on_for_newcomer(&self) -> bool {
        fence(Ordering::SeqCst);
        self.is_on()
    }

    /// True once: the caller decides whether there is to be a set.
    #[must_use]
    pub fn is_to_be_decided(&self) -> bool {
        self.decided.load(Ordering::Relaxed) == 0 && self.decided.swap(1, Ordering::Relaxed) == 0
    }

    /// The next first thread decides anew: sampling was switched off.
    pub fn forget_decision(&self) {
        self.decided.store(0, Ordering::Relaxed);
    }

    /// What a report says of it: the number of events, and the error number with which the kernel refused
    /// them (0 = it did not).
    #[must_use]
    pub fn facts(&self) -> (u64, u64) {
        (u64::from(self.count.load(Ordering::Relaxed)), u64::from(self.errno.load(Ordering::Relaxed)))
    }

    /// Ends the events of all threads. True if there was a set: who ended it gives the threads other clocks,
    /// if they are to have any.
    pub fn end(&self) -> bool {
        let pages = self.pages.swap(0, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if pages == 0 {
            return false;
        }
        let count = self.count.swap(0, Ordering::Relaxed) as usize;
        let (start, more) = (pages & !MORE_PAGES, (pages & MORE_PAGES) as usize);
        let bytes = count * (1 + more) * PAGE;
        // SAFETY: the range that `make` mapped, taken out by the swap: it goes once. Records are never read
        // as anything but words.
        unsafe {
            if more == 0 || sys::map_memory_over(start as *mut u8, bytes).is_err() {
                sys::unmap(start as *mut u8, bytes);
            }
        }
        true
    }

    /// An event of the set expired: CPU ns that it stands for, and its share of a unit of weight.
    #[inline(always)]
    #[must_use]
    pub fn expired(&self) -> (u64, u64) {
        let period = self.period_ns.load(Ordering::Relaxed);
        self.accounted_ns.fetch_add(period, Ordering::Relaxed);
        (period, self.share.load(Ordering::Relaxed))
    }

    /// Time that was accounted for in another way.
    pub fn account(&self, ns: u64) {
        self.accounted_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// CPU ns of the process that no sample stands for; less than zero if samples stand for more.
    #[must_use]
    pub fn missing_ns(&self) -> i64 {
        let used =
            sys::clock_ns(sys::CLOCK_PROCESS_CPU).saturating_sub(self.began_cpu_ns.load(Ordering::Relaxed));
        used.cast_signed().saturating_sub_unsigned(self.accounted_ns.load(Ordering::Relaxed))
    }

    /// A thread ended.
    pub fn died(&self) {
        self.deaths.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it is time to look whether threads end early, after so many `births`.
    #[must_use]
    pub fn is_to_be_judged(&self, births: u32) -> bool {
        let due = self.is_on() && births >= self.judged.load(Ordering::Relaxed).saturating_add(JUDGED_EVERY);
        if due {
            self.judged.store(births, Ordering::Relaxed);
        }
        due
    }

    /// How often threads waited for each second of CPU time since the last look. `None`: that was too little time;
    /// the next look takes it in.
    pub fn waits_a_second(&self) -> Option<u64> {
        let (cpu, waits) = (sys::clock_ns(sys::CLOCK_PROCESS_CPU), sys::usage(sys::RUSAGE_SELF).waits);
        let used = cpu.saturating_sub(self.looked_cpu_ns.load(Ordering::Relaxed));
        if used < WAITS_JUDGED_NS
            && self.looked_cpu_ns.load(Ordering::Relaxed) >= self.began_cpu_ns.load(Ordering::Relaxed)
        {
            return None;
        }
        self.looked_cpu_ns.store(cpu, Ordering::Relaxed);
        let waited = waits.saturating_sub(self.looked_waits.swap(waits, Ordering::Relaxed));
        u64::try_from(u128::from(waited) * 1_000_000_000 / u128::from(used.max(1))).ok()
    }

    /// Whether so many threads ended so early that the set loses much of their time. `unseen`: dead threads
    /// that were not said to be.
    #[must_use]
    pub fn loses_short_threads(&self, unseen: u32) -> bool {
        let deaths = self.deaths.load(Ordering::Relaxed).saturating_add(unseen);
        if deaths < ENOUGH_DEATHS {
            return false;
        }
        let used =
            sys::clock_ns(sys::CLOCK_PROCESS_CPU).saturating_sub(self.began_cpu_ns.load(Ordering::Relaxed));
        used < u64::from(deaths) * PERIODS_A_DEATH * self.period_ns.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_deaths_say_nothing_and_many_early_ones_do() {
        // SAFETY: all zeros is no set.
        let set: Inherited = unsafe { core::mem::zeroed() };
        set.began_cpu_ns.store(sys::clock_ns(sys::CLOCK_PROCESS_CPU), Ordering::Relaxed);
        set.period_ns.store(1_000_000_000, Ordering::Relaxed);
        assert!(!set.loses_short_threads(ENOUGH_DEATHS - 1));
        set.died();
        assert!(set.loses_short_threads(ENOUGH_DEATHS - 1));
        set.period_ns.store(1, Ordering::Relaxed);
        // by now the process has used more than 32 ns for each
        let end = sys::clock_ns(sys::CLOCK_PROCESS_CPU) + 1_000_000;
        while sys::clock_ns(sys::CLOCK_PROCESS_CPU) < end {}
        assert!(!set.loses_short_threads(ENOUGH_DEATHS));
    }
}
