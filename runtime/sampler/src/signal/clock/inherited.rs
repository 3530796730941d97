//! One set of perf events for all threads: an event for each CPU, which every new thread inherits.
//!
//! With an event of its own per thread the kernel cancels and starts a timer at each switch between threads: two threads that hand
//! each other a byte ran 4.6 times slower. Contexts that were inherited from the same events are equal, so the kernel swaps them and the
//! timer runs on. The set is made when the process creates its first thread; before that there is nothing to switch to.
//!
//! - Only `sigtrap` can be inherited: other signals go to the one owner of the event's file. The data word of the signal cannot name
//!   the thread ([`DATA`]), which is found by its control block.
//! - An inherited event cannot be given another period (the kernel changes the first thread's alone). So the whole set runs with one
//!   period, drawn at random when it is made. With swapped contexts the clock is the CPU's and not the thread's: what a single thread
//!   was sampled too seldom or too often evens out over the process ([`Inherited::missing_ns`]).
//! - A thread begins with an entire period, so threads that end within it would never be sampled. Where many threads end early
//!   ([`Inherited::loses_short_threads`]) the process goes back to an event per thread, for good.
//! - A program that works in bursts may be in step with that one period. Where threads wait seldom ([`FEW_WAITS`])
//!   the swaps save little, and each thread gets an event of its own, whose period is drawn anew all the time.
//! - Threads that are older than the set (a process that was attached to, `pct_on` in the middle) keep an event each, and there is no set.
//!
//! The events live by their mappings, one page each in one range; unmapping the range ends them in all threads. A fork's child has
//! neither the mapping nor the events; an exec removes them. CPUs that come online later are not in the set: time there is seen by the
//! tick only, as system time.
//!
//! Signal safety: [`Inherited::is_on`] and what it guards are loads; the rest are system calls.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use super::{perf, period};
use crate::sys::text::{parse_number, split_once};
use crate::sys::{self, Errno};

/// What the signals of the set carry. No thread's events do: the upper half of theirs is a serial number, which is never 0.
pub const DATA: u64 = 1;

/// More CPUs than this and each thread keeps its own event: all threads would have so many.
const MOST_CPUS: usize = 512;
const PAGE: usize = 4096;
/// Births from one look to the next.
const JUDGED_EVERY: u32 = 8;
/// Deaths that say something about the program.
const ENOUGH_DEATHS: u32 = 16;
/// A dead thread loses half a period on average. If all threads together used less than so many periods for each that died, the loss
/// is worth an event per thread.
const PERIODS_A_DEATH: u64 = 32;

/// Waits a CPU second. Below this number an event per thread costs less than 4 % (each switch between two threads
/// some 9 us on a virtual machine), and bursts longer than a quarter of a millisecond cannot be in step.
pub const FEW_WAITS: u64 = 4_000;
/// With more than this, and an event per thread, the threads go by their CPU timers: those cost nothing at a switch.
pub const MANY_WAITS: u64 = 20_000;
/// CPU ns that tell how often threads wait.
const WAITS_JUDGED_NS: u64 = 100_000_000;

/// The set of a process. All zeros is none.
#[derive(Debug)]
#[repr(C)]
pub struct Inherited {
    /// Address of the first mapping, 0 = there is no set.
    pages: AtomicU64,
    count: AtomicU32,
    /// 1: it was tried, or there is a reason not to.
    decided: AtomicU32,
    /// Period of all events, and what a sample stands for.
    period_ns: AtomicU64,
    share: AtomicU64,
    /// CPU ns of the process when the set was made, and what the samples of all threads stand for since.
    began_cpu_ns: AtomicU64,
    accounted_ns: AtomicU64,
    /// Threads that ended since.
    deaths: AtomicU32,
    /// Births up to which it was looked at whether threads end early.
    judged: AtomicU32,
    /// Why the kernel refused the set, 0 = it did not.
    errno: AtomicU32,
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

    /// The same, for a thread that has just said that it lives: either it sees that the set has ended, or who ended it sees the thread.
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

    /// What a report says of it: the number of events, and why there are none (an error number, 0 = no kernel's refusal).
    #[must_use]
    pub fn facts(&self) -> (u64, u64) {
        (u64::from(self.count.load(Ordering::Relaxed)), u64::from(self.errno.load(Ordering::Relaxed)))
    }

    /// Makes the set. The caller is the process's only thread and has no perf event of its own.
    ///
    /// # Errors
    /// The kernel's refusal; then there is no event.
    pub fn make(&self, nominal_ns: u64) -> sys::Result<()> {
        let made = self.try_make(nominal_ns);
        self.errno.store(made.map_or_else(|e| e.0 as u32, |()| 0), Ordering::Relaxed);
        made
    }

    fn try_make(&self, nominal_ns: u64) -> sys::Result<()> {
        let mut buffer = [0u8; 512];
        let path = sys::c(c"/sys/devices/system/cpu/online");
        let online = sys::read_file(path, &mut buffer)?;
        let count = cpus(online).count();
        if count == 0 || count > MOST_CPUS {
            return Err(Errno(7));
        }
        let drawn = period::draw(nominal_ns);
        let pages = sys::reserve(count * PAGE)? as usize;
        self.period_ns.store(drawn, Ordering::Relaxed);
        self.share.store(period::share(drawn, nominal_ns), Ordering::Relaxed);
        self.deaths.store(0, Ordering::Relaxed);
        self.judged.store(0, Ordering::Relaxed);
        self.accounted_ns.store(0, Ordering::Relaxed);
        self.began_cpu_ns.store(sys::clock_ns(sys::CLOCK_PROCESS_CPU), Ordering::Relaxed);
        let _ = self.waits_a_second();
        let attr = perf::inherited_attr(drawn, DATA);
        for (i, cpu) in cpus(online).enumerate() {
            let mapped = sys::perf_event_open(&attr, 0, Some(cpu))
                // SAFETY: a page of the range that was reserved above.
                .and_then(|fd| unsafe { sys::map_shared_at(&fd, pages + i * PAGE, PAGE, sys::PROT_READ) });
            if let Err(e) = mapped {
                // SAFETY: the range is ours, and nobody knows it yet.
                unsafe { sys::unmap(pages as *mut u8, count * PAGE) };
                return Err(e);
            }
        }
        self.count.store(count as u32, Ordering::Relaxed);
        self.pages.store(pages as u64, Ordering::SeqCst);
        Ok(())
    }

    /// Ends the events of all threads. True if there was a set: who ended it gives the threads other clocks, if they are to have any.
    pub fn end(&self) -> bool {
        let pages = self.pages.swap(0, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if pages == 0 {
            return false;
        }
        let count = self.count.swap(0, Ordering::Relaxed) as usize;
        // SAFETY: the range that `make` mapped, taken out by the swap: it is unmapped once.
        unsafe { sys::unmap(pages as *mut u8, count * PAGE) };
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

    /// CPU ns of the process that no sample stands for.
    #[must_use]
    pub fn missing_ns(&self) -> u64 {
        let used =
            sys::clock_ns(sys::CLOCK_PROCESS_CPU).saturating_sub(self.began_cpu_ns.load(Ordering::Relaxed));
        used.saturating_sub(self.accounted_ns.load(Ordering::Relaxed))
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
        let (cpu, waits) = (sys::clock_ns(sys::CLOCK_PROCESS_CPU), sys::waits());
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

    /// Whether so many threads ended so early that the set loses much of their time. `unseen`: dead threads that were not said to be.
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

/// The numbers of a list such as `0-3,8,10-11`; what is no number ends it.
fn cpus(list: &[u8]) -> impl Iterator<Item = u32> + '_ {
    let list = list.trim_ascii();
    list.split(|b| *b == b',')
        .map_while(|item| {
            let (first, last) = split_once(item, b'-');
            let first = u32::try_from(parse_number(first)?).ok()?;
            let last = last.map_or(Some(first), |last| u32::try_from(parse_number(last)?).ok())?;
            Some(first..=last.min(first.saturating_add(1 << 16)))
        })
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        let read = |list: &str| cpus(list.as_bytes()).collect::<Vec<_>>();
        assert_eq!(read("0\n"), [0]);
        assert_eq!(read("0-3\n"), [0, 1, 2, 3]);
        assert_eq!(read("0,2-3,7\n"), [0, 2, 3, 7]);
        assert!(read("").is_empty());
        assert!(read("x-4").is_empty());
        assert_eq!(read("1,x"), [1]);
        assert!(read("0-4294967295").len() <= (1 << 16) + 1);
    }

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

    #[test]
    fn ending_twice_ends_once() {
        // SAFETY: all zeros is no set.
        let set: Inherited = unsafe { core::mem::zeroed() };
        assert!(!set.end());
        // Where the kernel refuses the events there is nothing more to see.
        if set.make(1_000_000_000).is_ok() {
            assert!(set.is_on());
            assert!(set.facts().0 > 0);
            assert!(set.end());
            assert!(!set.is_on());
            assert!(!set.end());
        } else {
            assert_ne!(set.facts().1, 0);
        }
    }
}
