//! The own memory for a handler that follows pointers which may be wrong.
//!
//! What can be read goes by pages. Known without asking: the page of the thread's stack pointer, the part of its stack
//! that is surely its own, and what [`ThreadMemory::trust`] was told of. Every other page is asked for by a system call
//! that reads one word of it and does nothing else ([`pct_unwind::os::readable`]); the answers are remembered for a
//! number of samples of the thread. Those about the rest of its stack are remembered for one sample: the stack's extent
//! may be older than what is mapped now, as [`pct_unwind::Extent`] says, so there may be holes in it. Where nothing may
//! be asked it is taken as mapped.
//!
//! An answer may grow old: what was mapped some samples ago may be gone. A whole chain of frames names nothing that
//! is gone, and the first links of one that was met half built are asked for anew ([`ThreadMemory::look_again`]). What
//! another thread owns may go between the answer and the load, so the kernel copies it
//! ([`ThreadMemory::read_of_others`]).
//!
//! This is a fence: loads from addresses that others wrote. Signal safety: loads, and raw system calls that only read.

use core::cell::Cell;
use core::hint::cold_path;

use pct_elf::Memory;
use pct_languages::ThreadMemory;
use pct_languages::fields::Fields;
use pct_unwind::{Extent, os};

const PAGE: u64 = 4096;
/// Pages that are remembered. The functions of a deep stack, their names and their line tables lie on some hundred
/// pages, and two pages with one place are asked for in each sample.
pub const PAGES: usize = 1024;
/// Samples for which they are after the last one that read them.
const SAMPLES: u64 = 32;

/// Pages that could be read, of one thread. All zeros: none.
#[derive(Debug)]
#[repr(C)]
pub struct KnownPages {
    /// Page numbers, and above them the sample that read the page last.
    pages: [Cell<u64>; PAGES],
    /// The first sample whose pages are still remembered.
    oldest: Cell<u64>,
}

/// Bits of a page's number: addresses have 47.
const PAGE_BITS: u32 = 35;
/// Samples are numbered up to here, which leaves room for the window; then from the beginning.
const MOST_SAMPLES: u64 = 1 << 28;

impl KnownPages {
    /// A sample begins: the number of the oldest one whose pages are remembered; never 0.
    fn begin(&self) -> u64 {
        let mut oldest = self.oldest.get() + 1;
        if oldest >= MOST_SAMPLES {
            cold_path();
            for page in &self.pages {
                page.set(0);
            }
            oldest = 1;
        }
        self.oldest.set(oldest);
        oldest
    }
}

/// The memory during one sample.
#[derive(Debug)]
pub struct Readable<'k> {
    stack: (u64, u64),
    /// Pages of the stack of which it is known that they can be read, without a gap: the first octet, and the one
    /// behind the last.
    stack_pages: Cell<(u64, u64)>,
    trusted: Cell<(u64, u64)>,
    known: &'k KnownPages,
    /// What pages have above their numbers that the oldest remembered sample, and this one, has read.
    oldest: u64,
    newest: u64,
    /// System calls that may still be made for pages that are not the stack's.
    probes: Cell<u32>,
}

impl<'k> Readable<'k> {
    /// The memory as seen by a handler on the thread whose stack is `stack`, and which stands at `stack_pointer`. At
    /// most `probes` pages outside of it are asked for. With no probes the kernel is asked nothing at all.
    ///
    /// # Safety
    /// - What of `stack` above `stack_pointer` can be read when the kernel is asked stays so while the value lives;
    ///   without probes, all of it can. From `stack.sure` on it can be read in any case.
    /// - The caller runs on the thread whose stack that is.
    pub unsafe fn new(stack: Extent, stack_pointer: u64, known: &'k KnownPages, probes: u32) -> Self {
        let own = stack_pointer >= stack.lo && stack_pointer < stack.hi;
        let here = stack_pointer / PAGE;
        let (stack, stack_pages) = if own {
            let sure = probes == 0 || here * PAGE >= stack.sure;
            let end = match (sure, stack.sure) {
                (true, _) => (stack.hi - 1) / PAGE + 1,
                (false, Extent::NOTHING) => here,
                (false, _) => here + 1,
            };
            ((stack_pointer, stack.hi), (here * PAGE, end * PAGE))
        } else {
            ((0, 0), (0, 0))
        };
        let oldest = known.begin();
        Readable {
            stack,
            stack_pages: Cell::new(stack_pages),
            trusted: Cell::new((0, 0)),
            known,
            oldest: oldest << PAGE_BITS,
            newest: (oldest + SAMPLES - 1) << PAGE_BITS,
            probes: Cell::new(probes),
        }
    }

    /// Whether the page was read or asked for in one of the last samples. It is about to be read.
    #[inline(always)]
    fn is_known(&self, page: u64) -> bool {
        let Some(known) = self.known.pages.get(page as usize % PAGES) else { return false };
        // The difference of the page numbers, which must be 0, comes above that of the samples.
        let is_known = known.get().wrapping_sub(page | self.oldest).rotate_right(PAGE_BITS) < SAMPLES;
        if is_known {
            known.set(page | self.newest);
        }
        is_known
    }

    /// Whether the page with this number can be read.
    #[inline(always)]
    fn page(&self, page: u64) -> bool {
        page != 0 && (self.is_known(page) || self.other_page(page))
    }

    #[inline(never)]
    fn other_page(&self, page: u64) -> bool {
        // A page of which any octet is mapped is mapped.
        let shares = |(from, to): (u64, u64)| from < to && page >= from / PAGE && page <= (to - 1) / PAGE;
        if shares(self.stack) {
            return self.stack_page(page);
        }
        if shares(self.trusted.get()) {
            return true;
        }
        if !self.probe(page) {
            return false;
        }
        if let Some(place) = self.known.pages.get(page as usize % PAGES) {
            place.set(page | self.newest);
        }
        true
    }

    /// Whether a page of the stack can be read.
    fn stack_page(&self, page: u64) -> bool {
        let (from, to) = self.stack_pages.get();
        let at = page.wrapping_mul(PAGE);
        if at >= from && at < to {
            return true;
        }
        let there = os::readable(at);
        if there && at == to {
            self.stack_pages.set((from, to + PAGE));
        }
        there
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
        let (from, to) = self.stack_pages.get();
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
    fn read_word(&self, at: u64) -> Option<u64> {
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
    }

    fn look_again(&self, at: u64) -> bool {
        let page = at / PAGE;
        let (from, to) = self.stack;
        if at >= from && at < to {
            return self.stack_page(page);
        }
        page != 0 && self.probe(page)
    }

    /// The kernel copies it, and refuses what is not mapped.
    fn read_of_others(&self, at: u64) -> Option<u64> {
        self.probes.set(self.probes.get().checked_sub(1)?);
        let mut word = [0; 8];
        os::copy(at, &mut word).then(|| u64::from_ne_bytes(word))
    }

    #[inline(always)]
    fn read_fields<const N: usize>(&self, object: u64, fields: &Fields<N>) -> Option<[u64; N]> {
        let (first, bytes) = fields.span();
        let first = object.checked_add(first)?;
        if !self.spans(first, bytes) {
            return None;
        }
        let from = core::ptr::with_exposed_provenance::<u8>(first as usize);
        Some(
            fields
                .offsets()
                // SAFETY: as for `copy`; each word ends within the span.
                .map(|offset| unsafe { from.add(offset as usize).cast::<u64>().read_unaligned() }),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    fn known() -> KnownPages {
        KnownPages { pages: [const { Cell::new(0) }; PAGES], oldest: Cell::new(0) }
    }

    #[test]
    fn what_is_not_mapped_is_not_read() {
        let mapping = sys::map_memory(3 * 4096).expect("memory") as u64;
        // SAFETY: a mapping of the test's own.
        unsafe { sys::unmap((mapping + 4096) as *mut u8, 4096) };
        let known = known();
        // SAFETY: no stack.
        let memory = unsafe { Readable::new(Extent::default(), 0, &known, 100) };
        assert_eq!(memory.read_word(mapping + 4088), Some(0));
        assert_eq!(memory.read_word(mapping + 4089), None, "it ends on the next page");
        assert_eq!(memory.read_word(mapping + 8192), Some(0));
        let mut all = [1; 3 * 4096];
        assert!(!memory.copy(mapping, &mut all));
        assert!(memory.copy(mapping, &mut all[..4096]) && all[..4096].iter().all(|octet| *octet == 0));
        for nowhere in [0, 8, 4095, 1 << 47, u64::MAX - 4, u64::MAX] {
            assert_eq!(memory.read_word(nowhere), None);
        }
        assert!(memory.look_again(mapping) && !memory.look_again(mapping + 4096));
    }

    #[test]
    fn what_another_thread_has_unmapped_since_is_not_read() {
        let mapping = sys::map_memory(4096).expect("memory");
        let at = mapping as u64;
        let known = known();
        // SAFETY: no stack.
        let memory = unsafe { Readable::new(Extent::default(), 0, &known, 9) };
        assert_eq!((memory.read_word(at), memory.read_of_others(at)), (Some(0), Some(0)));
        // SAFETY: a mapping of the test's own, to which nothing refers.
        unsafe { sys::unmap(mapping, 4096) };
        assert_eq!(memory.read_of_others(at), None);
        // SAFETY: no stack.
        let silent = unsafe { Readable::new(Extent::default(), 0, &known, 0) };
        assert_eq!(silent.read_of_others(known.pages.as_ptr() as u64), None, "the kernel may not be asked");
    }

    #[test]
    fn holes_in_what_was_a_stack_are_not_read() {
        let mapping = sys::map_memory(8 * 4096).expect("memory") as u64;
        // SAFETY: a mapping of the test's own.
        unsafe { sys::unmap((mapping + 4 * 4096) as *mut u8, 4096) };
        let known = known();
        let stack = Extent { lo: mapping, hi: mapping + 8 * 4096, sure: u64::MAX };
        // Twice: what one sample has found is nothing that the next one may trust.
        for _ in 0..2 {
            // SAFETY: nobody changes the mapping while the value lives.
            let memory = unsafe { Readable::new(stack, mapping + 4096 + 64, &known, 1) };
            assert_eq!(memory.read_word(mapping + 4096), Some(0), "below the stack pointer, on its page");
            for there in [2 * 4096, 3 * 4096 - 4, 4 * 4096 - 8, 5 * 4096, 8 * 4096 - 8] {
                assert_eq!(memory.read_word(mapping + there), Some(0), "{there:#x}");
                assert!(memory.look_again(mapping + there));
            }
            for hole in [4 * 4096 - 4, 4 * 4096, 5 * 4096 - 4] {
                assert_eq!(memory.read_word(mapping + hole), None, "{hole:#x}");
            }
            assert!(!memory.look_again(mapping + 4 * 4096));
            assert_eq!(memory.probes.get(), 1, "the stack's pages are not of that number");
        }
    }

    #[test]
    fn from_another_stack_the_page_of_the_stack_pointer_is_asked_for_too() {
        let mapping = sys::map_memory(2 * 4096).expect("memory");
        let at = mapping as u64;
        let known = known();
        let stack = Extent { lo: at, hi: at + 2 * 4096, sure: Extent::NOTHING };
        // SAFETY: nobody changes the mapping while the value lives.
        let memory = unsafe { Readable::new(stack, at + 64, &known, 1) };
        assert_eq!((memory.read_word(at + 64), memory.read_word(at + 4096)), (Some(0), Some(0)));
        // SAFETY: a mapping of the test's own, to which nothing refers.
        unsafe { sys::unmap(mapping, 4096) };
        // SAFETY: as above.
        let memory = unsafe { Readable::new(stack, at + 64, &known, 1) };
        assert_eq!(memory.read_word(at + 64), None);
        assert_eq!(memory.read_word(at + 4096), Some(0));
    }

    #[test]
    fn a_page_of_the_stack_that_goes_is_not_read_by_the_next_sample() {
        let mapping = sys::map_memory(4 * 4096).expect("memory") as u64;
        let known = known();
        let stack = Extent { lo: mapping, hi: mapping + 4 * 4096, sure: u64::MAX };
        // SAFETY: nobody changes the mapping while the value lives.
        let first = unsafe { Readable::new(stack, mapping, &known, 9) };
        assert_eq!(first.read_word(mapping + 2 * 4096), Some(0));
        // SAFETY: a mapping of the test's own.
        unsafe { sys::unmap((mapping + 2 * 4096) as *mut u8, 4096) };
        // SAFETY: as above.
        let second = unsafe { Readable::new(stack, mapping, &known, 9) };
        assert_eq!(second.read_word(mapping + 2 * 4096), None);
        assert_eq!(second.read_word(mapping + 3 * 4096), Some(0));
    }

    #[test]
    fn a_page_is_asked_for_when_no_sample_has_read_it_for_a_while() {
        let mapping = sys::map_memory(4096).expect("memory") as u64;
        let known = known();
        let sample = |read: bool| {
            // SAFETY: no stack.
            let memory = unsafe { Readable::new(Extent::default(), 0, &known, 9) };
            assert!(!read || memory.read_word(mapping) == Some(0));
            9 - memory.probes.get()
        };
        let asked = |count: u64, read: bool| (0..count).map(|_| sample(read)).sum::<u32>();
        assert_eq!(asked(4 * SAMPLES, true), 1, "each sample reads it");
        asked(SAMPLES - 2, false);
        assert_eq!(asked(1, true), 0);
        asked(SAMPLES - 1, false);
        assert_eq!(asked(2, true), 1);
        // The numbers of samples begin anew.
        known.oldest.set(MOST_SAMPLES - 2);
        assert_eq!((asked(1, true), asked(1, true), asked(SAMPLES, true)), (1, 1, 0));
        assert_eq!(known.oldest.get(), 1 + SAMPLES);
    }

    #[test]
    fn fields_are_read_together_or_not_at_all() {
        let mapping = sys::map_memory(2 * 4096).expect("memory") as u64;
        // SAFETY: a mapping of the test's own.
        unsafe {
            sys::unmap((mapping + 4096) as *mut u8, 4096);
            ((mapping + 4096 - 64) as *mut [u64; 8]).write([0, 1, 2, 3, 4, 5, 6, 7]);
        }
        let known = known();
        // SAFETY: no stack.
        let memory = unsafe { Readable::new(Extent::default(), 0, &known, 9) };
        let object = mapping + 4096 - 64;
        let fields = Fields::new([8, 56, 16]);
        assert_eq!(memory.read_fields(object, &fields), Some([1, 7, 2]));
        assert_eq!(memory.read_fields(object + 1, &fields), None, "the last word ends on the next page");
        assert_eq!(memory.read_fields(u64::MAX - 4, &fields), None);
        // What lies before the first field need not be there.
        assert_eq!(memory.read_fields(mapping - 8, &fields), Some([0, 0, 0]));
    }

    #[test]
    fn the_pages_of_a_deep_stack_are_all_remembered() {
        let pages = 400;
        let mapping = sys::map_memory(pages * 4096).expect("memory") as u64;
        let known = known();
        let probes = pages as u32 + 9;
        for sample in 0..SAMPLES {
            // SAFETY: no stack.
            let memory = unsafe { Readable::new(Extent::default(), 0, &known, probes) };
            for page in 0..pages as u64 {
                assert_eq!(memory.read_word(mapping + page * 4096), Some(0));
            }
            let asked = probes - memory.probes.get();
            assert_eq!(asked, if sample == 0 { pages as u32 } else { 0 }, "sample {sample}");
        }
    }

    #[test]
    fn without_system_calls_only_what_is_known_is_read() {
        let mapping = sys::map_memory(2 * 4096).expect("memory") as u64;
        let known = known();
        let stack = Extent { lo: mapping, hi: mapping + 4096, sure: u64::MAX };
        // SAFETY: the mapping lives as long as the test.
        let memory = unsafe { Readable::new(stack, mapping + 64, &known, 0) };
        assert_eq!(memory.read_word(mapping + 64), Some(0));
        assert_eq!(memory.read_word(mapping + 4096), None);
        memory.trust(mapping + 4096, mapping + 4200);
        assert_eq!(memory.read_word(mapping + 4096), Some(0));
        assert!(!memory.look_again(mapping + 4096));
    }
}
