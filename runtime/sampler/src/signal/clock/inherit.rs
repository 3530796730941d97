//! Makes the set of perf events that all threads inherit ([`super::inherited`] says what it is for).
//!
//! Signal safety: system calls.

use core::sync::atomic::Ordering;

use super::inherited::{DATA, Inherited, PAGE};
use super::{perf, period};
use crate::sys::{self, Errno, cpus};

/// More CPUs than this and each thread keeps its own event: all threads would have so many.
const MOST_CPUS: usize = 512;
/// Pages of records of each event, where the kernel's calls are sampled: some 200 expiries.
const RECORD_PAGES: usize = 8;

impl Inherited {
    /// Makes the set, `with_kernel` if the kernel lets itself be sampled. The caller is the process's only
    /// thread and has no perf event of its own.
    ///
    /// # Errors
    /// The kernel's refusal; then there is no event.
    pub fn make(&self, nominal_ns: u64, with_kernel: bool) -> sys::Result<()> {
        let mut made = Err(Errno::EINVAL);
        if with_kernel {
            made = self.try_make(nominal_ns, RECORD_PAGES);
        }
        if made.is_err() {
            made = self.try_make(nominal_ns, 0);
        }
        self.errno.store(made.map_or_else(|e| e.0 as u32, |()| 0), Ordering::Relaxed);
        made
    }

    fn try_make(&self, nominal_ns: u64, record_pages: usize) -> sys::Result<()> {
        let each = (1 + record_pages) * PAGE;
        let mut buffer = [0u8; 512];
        let online = cpus::read_online(&mut buffer)?;
        let count = cpus::numbers(online).count();
        if count == 0 || count > MOST_CPUS {
            return Err(Errno(7));
        }
        let drawn = period::draw(nominal_ns);
        let pages = sys::reserve(count * each)? as usize;
        self.period_ns.store(drawn, Ordering::Relaxed);
        self.share.store(period::share(drawn, nominal_ns), Ordering::Relaxed);
        self.deaths.store(0, Ordering::Relaxed);
        self.judged.store(0, Ordering::Relaxed);
        self.accounted_ns.store(0, Ordering::Relaxed);
        self.began_cpu_ns.store(sys::clock_ns(sys::CLOCK_PROCESS_CPU), Ordering::Relaxed);
        let _ = self.waits_a_second();
        let attr = if record_pages == 0 {
            perf::inherited_attr(drawn, DATA)
        } else {
            perf::inherited_kernel_attr(drawn, DATA)
        };
        let tid = sys::gettid();
        for (i, cpu) in cpus::numbers(online).enumerate() {
            let mapped = sys::with_descriptor(|| {
                let fd = sys::perf_event_open(&attr, tid, Some(cpu))?;
                // SAFETY: pages of the range that was reserved above.
                unsafe { sys::map_shared_at(&fd, pages + i * each, each, sys::PROT_READ) }
            });
            if let Err(e) = mapped {
                // SAFETY: the range is ours, and nobody knows it yet.
                unsafe { sys::unmap(pages as *mut u8, count * each) };
                return Err(e);
            }
        }
        self.count.store(count as u32, Ordering::Relaxed);
        self.pages.store(pages as u64 | record_pages as u64, Ordering::SeqCst);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ending_twice_ends_once() {
        // SAFETY: all zeros is no set.
        let set: Inherited = unsafe { core::mem::zeroed() };
        assert!(!set.end());
        // Where the kernel refuses the events there is nothing more to see.
        if set.make(1_000_000_000, false).is_ok() {
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
