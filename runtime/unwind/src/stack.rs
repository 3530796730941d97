//! Reads the interrupted thread's stack.
//!
//! The thread's stack is located outside the handler and given as [`Extent`]. The extent may be outdated: the kernel
//! shows adjacent mappings as one (stacks of coroutines, a stack beside other memory), and the program may have
//! unmapped or protected a part since. So the extent only limits where frames are searched. Its upper part is what the
//! thread was created with ([`Extent::sure`]); that stays readable until the thread ends. So does the page of the stack
//! pointer, if the reader stands on that stack itself. Before any other page is read for the first time in a walk, the
//! kernel is asked whether it is readable (a tenth of a microsecond).
//!
//! An unknown stack (an alternate stack, a coroutine) is read a page at a time, without a gap. Other memory (a
//! `jmp_buf` on the heap) is copied by the kernel, which refuses instead of faulting.
//!
//! This is a fence: the only module in which the walker reads memory that is not pct's. Signal safety: raw system calls
//! only, and none where the caller forbids them.

#![expect(unsafe_code, reason = "reads the stack of the thread that it runs on")]

use super::os;

/// Bytes of a page, the unit in which memory is readable or not.
const PAGE: u64 = 4096;

/// The memory that the walker reads.
///
/// The default methods fit a copy of one stack: what [`Memory::peek`] lacks cannot be read at all.
pub trait Memory {
    /// Changes to the stack that contains `sp`. Returns false if nothing can be read there.
    fn enter(&mut self, sp: u64) -> bool {
        self.peek(sp).is_some()
    }
    /// Eight bytes of the current stack, if they are known to be readable. `None`: [`Memory::read`] may still succeed.
    fn peek(&self, addr: u64) -> Option<u64>;
    /// Eight bytes of the current stack.
    fn read(&mut self, addr: u64) -> Option<u64> {
        self.peek(addr)
    }
    /// Eight bytes anywhere, slowly.
    fn far(&mut self, addr: u64) -> Option<u64> {
        self.peek(addr)
    }
    /// The eight words from `addr`, a multiple of 64, on, anywhere, slowly.
    fn line(&mut self, addr: u64) -> Option<[u64; 8]> {
        let mut words = [0; 8];
        for (word, at) in words.iter_mut().zip((addr..).step_by(8)) {
            *word = self.far(at)?;
        }
        Some(words)
    }
    /// Fills `into` with code, slowly. False: not all of it can be read.
    fn code_bytes(&mut self, _addr: u64, _into: &mut [u8]) -> bool {
        false
    }
    /// Base of the segment that is the thread's own (`%fs` on x86-64).
    fn thread_base(&self) -> Option<u64> {
        None
    }
    /// Takes one of the pages of unwind data that the walk may still copy ([`crate::set::AnyTable`]). False: no more.
    fn may_copy(&mut self) -> bool {
        false
    }
    /// Sixteen bytes of code.
    fn code(&mut self, addr: u64) -> Option<[u8; 16]> {
        let mut bytes = [0; 16];
        self.code_bytes(addr, &mut bytes).then_some(bytes)
    }
}

/// The mapping of a stack at the time when it was located: `lo` inclusive, `hi` exclusive. `hi` <= `lo`: unknown.
///
/// The first thread's stack grows. Its mapping is contiguous, so its `lo` is the end of the mapping below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Lowest address.
    pub lo: u64,
    /// Address behind the highest.
    pub hi: u64,
    /// From here to `hi` there is only the stack that the thread was created with, which stays readable until the
    /// thread ends. `hi` or more: that is known of no part. [`Extent::NOTHING`]: not even of the page of the stack
    /// pointer.
    pub sure: u64,
}

impl Extent {
    /// `sure` where the reader stands on another stack, so that the kernel is asked for each page.
    pub const NOTHING: u64 = u64::MAX;
}

/// The memory of this process: a window of readable pages, which follows the walk.
#[derive(Debug)]
pub struct Live {
    known: Extent,
    /// Lowest address of the window; 0 = no window is known.
    lo: u64,
    /// Highest offset from `lo` at which eight bytes can be read.
    span: u64,
    /// Lowest address of the known stack that belongs to this walk; `u64::MAX`: the walk is on another stack.
    floor: u64,
    probes: u32,
    may_ask: bool,
    may_copy: bool,
    thread_base: Option<fn() -> u64>,
    /// Whether the walk has begun. Stacks other than the first are those that it was led to.
    begun: bool,
}

impl Live {
    /// Memory for a walk on a thread whose own stack is within `known`. At most `probes` pages of other stacks are
    /// checked, and of unwind data copied. Without probes the kernel is not asked at all, and `known` counts as mapped
    /// from the stack pointer up.
    ///
    /// # Safety
    /// - Each part of `known` above the thread's stack pointer that is readable when the kernel is asked stays readable
    ///   while the value lives. Without probes, all of it is readable. From `known.sure` on it is readable in any case.
    /// - The caller runs on the thread whose stack is read, so the stack cannot vanish meanwhile.
    pub unsafe fn new(known: Extent, probes: u32) -> Live {
        let may_ask = probes > 0;
        Live {
            known,
            lo: 0,
            span: 0,
            floor: u64::MAX,
            probes,
            may_ask,
            may_copy: may_ask,
            thread_base: None,
            begun: false,
        }
    }

    /// The same, and unwind data are copied only if `may_copy`: not where a signal's handler could leave by a jump.
    #[must_use]
    pub fn copying(self, may_copy: bool) -> Live {
        Live { may_copy: self.may_copy && may_copy, ..self }
    }

    /// The same, and `thread_base` tells the base of the segment that is the calling thread's own.
    #[must_use]
    pub fn with_thread_base(self, thread_base: fn() -> u64) -> Live {
        Live { thread_base: Some(thread_base), ..self }
    }

    fn probe(&mut self, page: u64) -> bool {
        let Some(left) = self.probes.checked_sub(1) else { return false };
        self.probes = left;
        os::readable(page)
    }

    fn set_window(&mut self, lo: u64, end: u64) {
        (self.lo, self.span) = (lo, end - lo - 8);
    }

    #[cold]
    fn read_beyond(&mut self, addr: u64) -> Option<u64> {
        if self.lo == 0 {
            return None;
        }
        if self.floor == u64::MAX { self.read_unknown(addr) } else { self.read_known(addr) }
    }

    /// Moves or extends the window over eight bytes of the known stack.
    fn read_known(&mut self, addr: u64) -> Option<u64> {
        let behind = addr.checked_add(8)?;
        if addr < self.floor || behind > self.known.hi || !self.may_ask {
            return None;
        }
        let end = self.lo + self.span + 8;
        // While a stack is read upwards without a gap, the window only grows.
        let (lo, mut page) = if addr >= self.lo && addr / PAGE <= end / PAGE {
            (self.lo, end)
        } else {
            let page = addr & !(PAGE - 1);
            (page.max(self.floor), page)
        };
        while page < behind {
            if page >= self.known.sure {
                page = self.known.hi;
                break;
            }
            if !os::readable(page) {
                return None;
            }
            page = (page & !(PAGE - 1)).checked_add(PAGE)?;
        }
        self.set_window(lo, page.min(self.known.hi));
        self.peek(addr)
    }

    fn read_unknown(&mut self, addr: u64) -> Option<u64> {
        if addr < self.lo {
            return None;
        }
        // Readable up to `lo + span + 8`, a page border. Go on page by page.
        let last = addr.checked_add(7)?;
        let mut end = self.lo.checked_add(self.span)?.checked_add(8)?;
        while last >= end {
            if !self.probe(end) {
                return None;
            }
            end = end.checked_add(PAGE)?;
            self.span = end - self.lo - 8;
        }
        self.peek(addr)
    }
}

impl Memory for Live {
    fn enter(&mut self, sp: u64) -> bool {
        let page = sp & !(PAGE - 1);
        let stands_here = !core::mem::replace(&mut self.begun, true);
        if sp >= self.known.lo && sp < self.known.hi && self.known.hi - sp >= 8 {
            // What is below sp on its page is mapped as well: epilogues refer to slots just below.
            self.floor = page.max(self.known.lo);
            let sure = !self.may_ask || page >= self.known.sure;
            let end = if sure { self.known.hi } else { self.known.hi.min(page + PAGE) };
            if end - self.floor >= 8
                && (stands_here && self.known.sure != Extent::NOTHING || sure || os::readable(page))
            {
                self.set_window(self.floor, end);
                return true;
            }
        }
        (self.lo, self.span, self.floor) = (0, 0, u64::MAX);
        if page == 0 || !self.probe(page) {
            return false;
        }
        (self.lo, self.span) = (page, PAGE - 8);
        true
    }

    #[inline(always)]
    fn peek(&self, addr: u64) -> Option<u64> {
        if addr.wrapping_sub(self.lo) <= self.span && self.lo != 0 {
            // SAFETY: [lo, lo + span + 8) is readable. It contains the page of the stack pointer, pages for which the
            // kernel was asked in this walk, on the stack that this thread uses, and what the caller of `new`
            // guarantees: the sure part of the known extent, or without probes all of it.
            return Some(unsafe {
                core::ptr::with_exposed_provenance::<u64>(addr as usize).read_unaligned()
            });
        }
        None
    }

    #[inline(always)]
    fn read(&mut self, addr: u64) -> Option<u64> {
        match self.peek(addr) {
            Some(word) => Some(word),
            None => self.read_beyond(addr),
        }
    }

    fn far(&mut self, addr: u64) -> Option<u64> {
        self.probes = self.probes.checked_sub(1)?;
        let mut word = [0; 8];
        os::copy(addr, &mut word).then(|| u64::from_le_bytes(word))
    }

    fn line(&mut self, addr: u64) -> Option<[u64; 8]> {
        self.probes = self.probes.checked_sub(1)?;
        let mut bytes = [0; 64];
        os::copy(addr, &mut bytes).then(|| {
            let (words, _) = bytes.as_chunks::<8>();
            core::array::from_fn(|i| words.get(i).map_or(0, |word| u64::from_le_bytes(*word)))
        })
    }

    fn thread_base(&self) -> Option<u64> {
        self.thread_base.map(|base| base())
    }

    fn may_copy(&mut self) -> bool {
        let left = self.probes.checked_sub(1).filter(|_| self.may_copy);
        self.probes = left.unwrap_or(self.probes);
        left.is_some()
    }

    fn code_bytes(&mut self, addr: u64, into: &mut [u8]) -> bool {
        self.may_ask && os::copy(addr, into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(known: Extent) -> Live {
        // SAFETY: the tests give extents of memory that they own, or that they have unmapped for good.
        unsafe { Live::new(known, 8) }
    }

    #[test]
    fn a_known_stack_ends_where_it_ends() {
        let words: Vec<u64> = (0..2048).collect();
        let lo = words.as_ptr().expose_provenance() as u64;
        let hi = lo + 8 * words.len() as u64;
        let mut m = live(Extent { lo, hi, sure: hi });
        assert!(m.enter(lo + 8000));
        assert_eq!(m.read(hi - 8), Some(2047));
        assert_eq!(m.read(hi - 7), None);
        assert_eq!(m.read(hi), None);
        assert_eq!(m.read(lo + 8000), Some(1000));
        assert_eq!(m.read(u64::MAX - 3), None);
        assert_eq!(m.read(0), None);
    }

    #[test]
    fn holes_in_what_was_a_stack_are_not_read() {
        let map = os::map(8 * 4096).expect("memory");
        let base = map.expose_provenance() as u64;
        let known = Extent { lo: base, hi: base + 8 * 4096, sure: base + 8 * 4096 };
        assert!(os::protect_none(base + 2 * 4096, 4096));
        os::unmap(map.wrapping_add(5 * 4096), 4096);
        let mut m = live(known);
        assert!(m.enter(base + 4096 + 100));
        assert_eq!(m.read(base + 4096), Some(0), "below, on its page");
        assert_eq!(m.read(base + 4088), None, "below that");
        assert_eq!(m.read(base + 2 * 4096 - 8), Some(0));
        for hole in
            [base + 2 * 4096 - 4, base + 2 * 4096, base + 3 * 4096 - 4, base + 5 * 4096, base + 6 * 4096 - 1]
        {
            assert_eq!(m.read(hole), None);
        }
        for there in
            [base + 3 * 4096, base + 5 * 4096 - 8, base + 6 * 4096, base + 4 * 4096 - 4, base + 8 * 4096 - 8]
        {
            assert_eq!(m.read(there), Some(0), "{:#x}", there - base);
        }
        assert!(m.enter(base + 6 * 4096));
        assert!(!m.enter(base + 5 * 4096 + 16), "a walk was led there");
        os::unmap(map, 5 * 4096);
        os::unmap(map.wrapping_add(6 * 4096), 2 * 4096);
    }

    #[test]
    fn the_sure_part_is_read_without_a_question_and_what_lies_below_is_not() {
        let map = os::map(8 * 4096).expect("memory");
        let base = map.expose_provenance() as u64;
        let known = Extent { lo: base, hi: base + 8 * 4096, sure: base + 4 * 4096 };
        assert!(os::protect_none(base + 2 * 4096, 4096));
        let mut m = live(known);
        assert!(m.enter(base + 5 * 4096 + 8));
        assert_eq!(m.peek(base + 8 * 4096 - 8), Some(0), "nothing is asked");
        assert_eq!(m.read(base + 4 * 4096), None, "below the stack pointer's page");
        let mut m = live(known);
        assert!(m.enter(base + 4096));
        assert_eq!(m.peek(base + 4 * 4096), None, "a hole may lie between");
        assert_eq!(m.read(base + 2 * 4096), None);
        assert_eq!(m.read(base + 3 * 4096), Some(0));
        assert_eq!(m.peek(base + 4 * 4096), None);
        assert_eq!(m.read(base + 4 * 4096), Some(0));
        assert_eq!(m.peek(base + 8 * 4096 - 8), Some(0), "the rest is sure");
        assert_eq!(m.read(base + 8 * 4096 - 7), None);
        os::unmap(map, 8 * 4096);
    }

    #[test]
    fn from_another_stack_the_page_of_the_stack_pointer_is_asked_for_too() {
        let map = os::map(4 * 4096).expect("memory");
        let base = map.expose_provenance() as u64;
        let known = Extent { lo: base, hi: base + 4 * 4096, sure: Extent::NOTHING };
        let mut m = live(known);
        assert!(m.enter(base + 4096 + 8));
        assert_eq!(m.peek(base + 2 * 4096), None, "nothing is sure");
        assert_eq!(m.read(base + 2 * 4096), Some(0));
        assert!(os::protect_none(base + 4096, 4096));
        let mut m = live(known);
        assert!(!m.enter(base + 4096 + 8));
        assert_eq!(m.read(base + 4096 + 8), None);
        os::unmap(map, 4 * 4096);
    }

    #[test]
    fn without_questions_the_extent_is_taken_as_mapped() {
        let words: Vec<u64> = (0..2048).collect();
        let lo = words.as_ptr().expose_provenance() as u64;
        // SAFETY: the words live as long as the test.
        let mut m = unsafe { Live::new(Extent { lo, hi: lo + 8 * 2048, sure: u64::MAX }, 0) };
        assert!(m.enter(lo + 64));
        assert_eq!(m.peek(lo + 8 * 2047), Some(2047));
        assert!(!m.enter(lo + 8 * 2048), "another stack");
    }

    #[test]
    fn an_unknown_stack_is_read_as_far_as_it_is_mapped() {
        let map = os::map(4 * 4096).expect("memory");
        let base = map.expose_provenance() as u64;
        assert!(os::protect_none(base + 2 * 4096, 4096));
        let mut m = live(Extent::default());
        assert!(m.enter(base + 100));
        assert_eq!(m.read(base + 4096 + 8), Some(0));
        assert_eq!(m.read(base + 2 * 4096 - 4), None);
        assert_eq!(m.read(base + 2 * 4096), None);
        assert_eq!(m.read(base + 3 * 4096), None, "behind the hole");
        assert_eq!(m.far(base + 3 * 4096), Some(0));
        assert_eq!(m.far(base + 2 * 4096), None);
        assert_eq!(m.line(base + 4 * 4096 - 64), Some([0; 8]));
        assert_eq!(m.line(base + 2 * 4096), None);
        assert!(!m.enter(base + 2 * 4096));
        assert_eq!(m.read(base), None);
        os::unmap(map, 4 * 4096);
    }

    #[test]
    fn probes_are_counted() {
        let map = os::map(64 * 4096).expect("memory");
        let base = map.expose_provenance() as u64;
        let mut m = live(Extent::default());
        assert!(m.enter(base));
        assert_eq!(m.read(base + 7 * 4096), Some(0));
        assert_eq!(m.read(base + 8 * 4096), None);
        os::unmap(map, 64 * 4096);
    }
}
