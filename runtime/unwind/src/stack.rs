//! Reading the interrupted thread's stack.
//!
//! The thread's stack is found outside the handler and given as [`Extent`]. That may be older than what is mapped now: the kernel
//! shows neighbours as one mapping (stacks of coroutines, a stack beside other memory), and the program may have unmapped or
//! protected a part since. So the extent only limits where frames are looked for. The page of the stack pointer is there; before
//! another page is read for the first time in a walk the kernel is asked whether it can be (a tenth of a microsecond).
//!
//! A stack that is not the known one (an alternate stack, a coroutine) is taken a page at a time, without a gap. What lies
//! elsewhere (a `jmp_buf` on the heap) is copied by the kernel, which refuses instead of faulting.
//!
//! This is a fence: the one place where the walker touches memory that is not ours.
//! Signal safety: raw system calls only, and none where the caller forbids them.

#![expect(unsafe_code, reason = "reads the stack of the thread that it runs on")]

use super::os;

/// Bytes of a page, the grain in which memory is readable or not.
const PAGE: u64 = 4096;

/// Where the walker gets memory from.
pub trait Memory {
    /// Goes to the stack that holds `sp`. False when nothing can be read there.
    fn enter(&mut self, sp: u64) -> bool;
    /// Eight bytes of the current stack as far as it is known; `None` may mean that [`Memory::read`] must look.
    fn peek(&self, addr: u64) -> Option<u64>;
    /// Eight bytes of the current stack.
    fn read(&mut self, addr: u64) -> Option<u64>;
    /// Eight bytes anywhere, slowly.
    fn far(&mut self, addr: u64) -> Option<u64>;
    /// Bytes of code, slowly.
    fn code(&mut self, addr: u64) -> Option<[u8; 16]>;
}

/// The mapping that holds a stack, as it was when it was looked for: `lo` inclusive, `hi` exclusive. `hi` <= `lo`: not known.
///
/// The first thread's stack grows: what is mapped of it is contiguous, so its `lo` is the end of the mapping below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Lowest address.
    pub lo: u64,
    /// Address behind the highest.
    pub hi: u64,
}

/// The memory of the process that we run in: a window of pages that can be read, which follows the walk.
#[derive(Debug)]
pub struct Live {
    known: Extent,
    /// Lowest address of the window, 0 = there is none.
    lo: u64,
    /// Highest offset from `lo` at which eight bytes can be read.
    span: u64,
    /// Lowest address of the known stack that belongs to this walk; `u64::MAX`: it is on another stack.
    floor: u64,
    probes: u32,
    may_ask: bool,
    /// The walk has begun: other stacks than the first are where it was led to.
    begun: bool,
}

impl Live {
    /// Memory for a walk on a thread whose own stack is within `known`. At most `probes` pages of other stacks are looked at. With
    /// no probes the kernel is asked nothing at all, and `known` is taken as mapped from the stack pointer up.
    ///
    /// # Safety
    /// - What of `known` above the thread's stack pointer can be read when the kernel is asked stays so while the value lives;
    ///   without probes, all of it can.
    /// - The caller runs on the thread whose stack is read, so that it cannot go away meanwhile.
    pub unsafe fn new(known: Extent, probes: u32) -> Live {
        Live { known, lo: 0, span: 0, floor: u64::MAX, probes, may_ask: probes > 0, begun: false }
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

    /// Moves the window, or makes it longer, over eight bytes of the known stack.
    fn read_known(&mut self, addr: u64) -> Option<u64> {
        let behind = addr.checked_add(8)?;
        if addr < self.floor || behind > self.known.hi || !self.may_ask {
            return None;
        }
        let end = self.lo + self.span + 8;
        // Upwards without a gap, as stacks are read, it only grows.
        let (lo, mut page) = if addr >= self.lo && addr / PAGE <= end / PAGE {
            (self.lo, end)
        } else {
            let page = addr & !(PAGE - 1);
            (page.max(self.floor), page)
        };
        while page < behind {
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
            // What lies below sp on its page is mapped as well: epilogues name slots just below.
            self.floor = page.max(self.known.lo);
            let end = if self.may_ask { self.known.hi.min(page + PAGE) } else { self.known.hi };
            if end - self.floor >= 8 && (stands_here || !self.may_ask || os::readable(page)) {
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
            // SAFETY: [lo, lo + span + 8) is readable: the page of the stack pointer, and pages that were asked for in this walk, on
            // the stack that this thread uses; or where nothing may be asked the known extent, which the caller of `new` vouches for.
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

    fn code(&mut self, addr: u64) -> Option<[u8; 16]> {
        self.probes = self.probes.checked_sub(1)?;
        let mut bytes = [0; 16];
        os::copy(addr, &mut bytes).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(known: Extent) -> Live {
        // SAFETY: the tests give extents of memory that they hold, or that they have unmapped for good.
        unsafe { Live::new(known, 8) }
    }

    #[test]
    fn a_known_stack_ends_where_it_ends() {
        let words: Vec<u64> = (0..2048).collect();
        let lo = words.as_ptr().expose_provenance() as u64;
        let hi = lo + 8 * words.len() as u64;
        let mut m = live(Extent { lo, hi });
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
        let known = Extent { lo: base, hi: base + 8 * 4096 };
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
    fn without_questions_the_extent_is_taken_as_mapped() {
        let words: Vec<u64> = (0..2048).collect();
        let lo = words.as_ptr().expose_provenance() as u64;
        // SAFETY: the words live as long as the test.
        let mut m = unsafe { Live::new(Extent { lo, hi: lo + 8 * 2048 }, 0) };
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
