//! The own memory for a handler that follows pointers which may be wrong.
//!
//! What can be read goes by pages. Known without asking: the page of the thread's stack pointer, and what
//! [`ThreadMemory::trust`] was told of. Every other page is asked for by a system call that reads one word of it and
//! does nothing else ([`pct_unwind::os::readable`]); the answers are remembered for a number of samples of the
//! thread. Those about its stack are remembered for one sample: the stack's extent may be older than what is mapped
//! now, as [`pct_unwind::Extent`] says, so there may be holes in it. Where nothing may be asked it is taken as mapped.
//!
//! An answer may grow old: what was mapped some samples ago may be gone. A whole chain of frames names nothing that
//! is gone, and the first links of one that was met half built are asked for anew ([`ThreadMemory::look_again`]).
//!
//! This is a fence: loads from addresses that others wrote. Signal safety: loads, and one kind of raw system call.

use core::cell::Cell;

use pct_elf::Memory;
use pct_languages::ThreadMemory;
use pct_unwind::{Extent, os};

const PAGE: u64 = 4096;
/// Pages that are remembered.
pub const PAGES: usize = 128;
/// Samples for which they are.
const SAMPLES: u64 = 32;

/// Pages that could be read, of one thread. All zeros: none.
#[derive(Debug)]
#[repr(C)]
pub struct KnownPages {
    pages: [Cell<u64>; PAGES],
    samples: Cell<u64>,
}

/// The memory during one sample.
#[derive(Debug)]
pub struct Readable<'k> {
    stack: (u64, u64),
    /// First and last page of the stack of which it is known that they can be read, without a gap.
    stack_pages: Cell<(u64, u64)>,
    trusted: Cell<(u64, u64)>,
    last: Cell<u64>,
    known: &'k KnownPages,
    /// System calls that may still be made for pages that are not the stack's.
    probes: Cell<u32>,
}

impl<'k> Readable<'k> {
    /// The memory as seen by a handler on the thread whose stack is `stack`, and which stands at `stack_pointer`. At
    /// most `probes` pages outside of it are asked for. With no probes the kernel is asked nothing at all.
    ///
    /// # Safety
    /// - What of `stack` above `stack_pointer` can be read when the kernel is asked stays so while the value lives;
    ///   without probes, all of it can.
    /// - The caller runs on the thread whose stack that is.
    pub unsafe fn new(stack: Extent, stack_pointer: u64, known: &'k KnownPages, probes: u32) -> Self {
        let samples = known.samples.get();
        known.samples.set(samples.wrapping_add(1));
        if samples.is_multiple_of(SAMPLES) {
            known.pages.iter().for_each(|page| page.set(0));
        }
        let own = stack_pointer >= stack.lo && stack_pointer < stack.hi;
        let stack = if own { (stack_pointer, stack.hi) } else { (0, 0) };
        let here = stack_pointer / PAGE;
        let stack_pages = match stack {
            (from, to) if own && probes == 0 => (from / PAGE, (to - 1) / PAGE),
            _ if own => (here, here),
            // No page: the first comes after the last.
            _ => (1, 0),
        };
        Readable {
            stack,
            stack_pages: Cell::new(stack_pages),
            trusted: Cell::new((0, 0)),
            last: Cell::new(0),
            known,
            probes: Cell::new(probes),
        }
    }

    /// Whether the page with this number can be read.
    #[inline(always)]
    fn page(&self, page: u64) -> bool {
        let known = || self.known.pages.get(page as usize % PAGES).is_some_and(|known| known.get() == page);
        page != 0 && (page == self.last.get() || known() || self.other_page(page))
    }

    #[inline(never)]
    fn other_page(&self, page: u64) -> bool {
        // A page of which any octet is mapped is mapped.
        let shares = |(from, to): (u64, u64)| from < to && page >= from / PAGE && page <= (to - 1) / PAGE;
        if shares(self.stack) {
            return self.stack_page(page);
        }
        let place = self.known.pages.get(page as usize % PAGES);
        if shares(self.trusted.get()) || place.is_some_and(|known| known.get() == page) {
            self.last.set(page);
            return true;
        }
        if !self.probe(page) {
            return false;
        }
        if let Some(place) = place {
            place.set(page);
        }
        self.last.set(page);
        true
    }

    /// Whether a page of the stack can be read.
    fn stack_page(&self, page: u64) -> bool {
        let (first, last) = self.stack_pages.get();
        if !(first..=last).contains(&page) {
            if !os::readable(page.wrapping_mul(PAGE)) {
                return false;
            }
            if page == last + 1 {
                self.stack_pages.set((first, page));
            }
        }
        self.last.set(page);
        true
    }

    fn probe(&self, page: u64) -> bool {
        let Some(left) = self.probes.get().checked_sub(1) else { return false };
        self.probes.set(left);
        os::readable(page.wrapping_mul(PAGE))
    }

    /// Whether `len` octets from `at` can be read.
    #[inline(always)]
    fn spans(&self, at: u64, len: u64) -> bool {
        let Some(end) = at.checked_add(len) else { return false };
        // Most loads are from the frame stack.
        let (from, to) = self.trusted.get();
        if at >= from && end <= to {
            return true;
        }
        if end >> 47 != 0 {
            return false;
        }
        let (first, last) = (at / PAGE, end.saturating_sub(1) / PAGE);
        self.page(first) && (first == last || (first + 1..=last).all(|page| self.page(page)))
    }
}

impl Memory for Readable<'_> {
    #[inline(always)]
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        if !self.spans(at, into.len() as u64) {
            return false;
        }
        let from = core::ptr::with_exposed_provenance::<u8>(at as usize);
        // SAFETY: every page of the range is mapped: by the promise of `new`, by what owns it (`trust`), or as the
        // kernel said.
        unsafe { core::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) };
        true
    }

    #[inline(always)]
    fn word(&self, at: u64) -> Option<u64> {
        if !self.spans(at, 8) {
            return None;
        }
        // SAFETY: as for `copy`.
        Some(unsafe { core::ptr::with_exposed_provenance::<u64>(at as usize).read_unaligned() })
    }
}

impl ThreadMemory for Readable<'_> {
    fn trust(&self, from: u64, to: u64) {
        self.trusted.set((from, to));
        self.last.set(0);
    }

    fn look_again(&self, at: u64) -> bool {
        let page = at / PAGE;
        let (from, to) = self.stack;
        if at >= from && at < to {
            return self.stack_page(page);
        }
        let there = page != 0 && self.probe(page);
        if there {
            self.last.set(page);
        }
        there
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    fn known() -> KnownPages {
        KnownPages { pages: [const { Cell::new(0) }; PAGES], samples: Cell::new(0) }
    }

    #[test]
    fn what_is_not_mapped_is_not_read() {
        let mapping = sys::map_memory(3 * 4096).expect("memory") as u64;
        // SAFETY: a mapping of the test's own.
        unsafe { sys::unmap((mapping + 4096) as *mut u8, 4096) };
        let known = known();
        // SAFETY: no stack.
        let memory = unsafe { Readable::new(Extent::default(), 0, &known, 100) };
        assert_eq!(memory.word(mapping + 4088), Some(0));
        assert_eq!(memory.word(mapping + 4089), None, "it ends on the next page");
        assert_eq!(memory.word(mapping + 8192), Some(0));
        let mut all = [1; 3 * 4096];
        assert!(!memory.copy(mapping, &mut all));
        assert!(memory.copy(mapping, &mut all[..4096]) && all[..4096].iter().all(|octet| *octet == 0));
        for nowhere in [0, 8, 4095, 1 << 47, u64::MAX - 4, u64::MAX] {
            assert_eq!(memory.word(nowhere), None);
        }
        assert!(memory.look_again(mapping) && !memory.look_again(mapping + 4096));
    }

    #[test]
    fn holes_in_what_was_a_stack_are_not_read() {
        let mapping = sys::map_memory(8 * 4096).expect("memory") as u64;
        // SAFETY: a mapping of the test's own.
        unsafe { sys::unmap((mapping + 4 * 4096) as *mut u8, 4096) };
        let known = known();
        let stack = Extent { lo: mapping, hi: mapping + 8 * 4096 };
        // Twice: what one sample has found is nothing that the next one may trust.
        for _ in 0..2 {
            // SAFETY: nobody changes the mapping while the value lives.
            let memory = unsafe { Readable::new(stack, mapping + 4096 + 64, &known, 1) };
            assert_eq!(memory.word(mapping + 4096), Some(0), "below the stack pointer, on its page");
            for there in [2 * 4096, 3 * 4096 - 4, 4 * 4096 - 8, 5 * 4096, 8 * 4096 - 8] {
                assert_eq!(memory.word(mapping + there), Some(0), "{there:#x}");
                assert!(memory.look_again(mapping + there));
            }
            for hole in [4 * 4096 - 4, 4 * 4096, 5 * 4096 - 4] {
                assert_eq!(memory.word(mapping + hole), None, "{hole:#x}");
            }
            assert!(!memory.look_again(mapping + 4 * 4096));
            assert_eq!(memory.probes.get(), 1, "the stack's pages are not of that number");
        }
    }

    #[test]
    fn a_page_of_the_stack_that_goes_is_not_read_by_the_next_sample() {
        let mapping = sys::map_memory(4 * 4096).expect("memory") as u64;
        let known = known();
        let stack = Extent { lo: mapping, hi: mapping + 4 * 4096 };
        // SAFETY: nobody changes the mapping while the value lives.
        let first = unsafe { Readable::new(stack, mapping, &known, 9) };
        assert_eq!(first.word(mapping + 2 * 4096), Some(0));
        // SAFETY: a mapping of the test's own.
        unsafe { sys::unmap((mapping + 2 * 4096) as *mut u8, 4096) };
        // SAFETY: as above.
        let second = unsafe { Readable::new(stack, mapping, &known, 9) };
        assert_eq!(second.word(mapping + 2 * 4096), None);
        assert_eq!(second.word(mapping + 3 * 4096), Some(0));
    }

    #[test]
    fn pages_are_asked_for_once_in_a_number_of_samples() {
        let mapping = sys::map_memory(4096).expect("memory") as u64;
        let known = known();
        let asked: u32 = (0..4 * SAMPLES)
            .map(|_| {
                // SAFETY: no stack.
                let memory = unsafe { Readable::new(Extent::default(), 0, &known, 9) };
                assert_eq!(memory.word(mapping), Some(0));
                9 - memory.probes.get()
            })
            .sum();
        assert_eq!(asked, 4);
    }

    #[test]
    fn without_system_calls_only_what_is_known_is_read() {
        let mapping = sys::map_memory(2 * 4096).expect("memory") as u64;
        let known = known();
        let stack = Extent { lo: mapping, hi: mapping + 4096 };
        // SAFETY: the mapping lives as long as the test.
        let memory = unsafe { Readable::new(stack, mapping + 64, &known, 0) };
        assert_eq!(memory.word(mapping + 64), Some(0));
        assert_eq!(memory.word(mapping + 4096), None);
        memory.trust(mapping + 4096, mapping + 4200);
        assert_eq!(memory.word(mapping + 4096), Some(0));
        assert!(!memory.look_again(mapping + 4096));
    }
}
