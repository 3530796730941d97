//! Reading the interrupted thread's stack.
//!
//! The top of a thread's stack is found outside the handler and given as [`Extent`]. A stack that is not the known one (an
//! alternate stack, a coroutine) is taken a page at a time: the kernel is asked whether the next page can be read before any
//! of it is. What lies elsewhere (a `jmp_buf` on the heap) is copied by the kernel, which refuses instead of faulting.
//!
//! This is a fence: the one place where the walker touches memory that is not ours.
//! Signal safety: raw system calls only, and none for a stack within its known extent.

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

/// A stack known to be mapped from the stack pointer up: `lo` inclusive, `hi` exclusive. `hi` <= `lo`: not known.
///
/// The first thread's stack grows: what is mapped of it is contiguous, so its `lo` is the end of the mapping below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Lowest address.
    pub lo: u64,
    /// Address behind the highest.
    pub hi: u64,
}

/// The memory of the process that we run in.
#[derive(Debug)]
pub struct Live {
    known: Extent,
    lo: u64,
    /// Highest offset from `lo` at which eight bytes can be read.
    span: u64,
    probes: u32,
}

impl Live {
    /// Memory for a walk on a thread whose own stack is `known`. At most `probes` pages of other stacks are looked at.
    ///
    /// # Safety
    /// - All of `known` above the thread's stack pointer stays readable while the value lives.
    /// - The caller runs on the thread whose stack is read, so that it cannot go away meanwhile.
    pub unsafe fn new(known: Extent, probes: u32) -> Live {
        Live { known, lo: 0, span: 0, probes }
    }

    fn probe(&mut self, page: u64) -> bool {
        let Some(left) = self.probes.checked_sub(1) else { return false };
        self.probes = left;
        os::readable(page)
    }

    #[cold]
    fn read_beyond(&mut self, addr: u64) -> Option<u64> {
        if addr < self.lo || self.lo == 0 || self.lo >= self.known.lo && self.lo < self.known.hi {
            return None;
        }
        // An unknown stack: readable up to `lo + span + 8`, a page border. Go on page by page.
        let last = addr.checked_add(7)?;
        let mut end = self.lo.checked_add(self.span)?.checked_add(8)?;
        while last >= end {
            if !self.probe(end) {
                return None;
            }
            end = end.checked_add(PAGE)?;
            self.span = end - self.lo - 8;
        }
        self.read(addr)
    }
}

impl Memory for Live {
    fn enter(&mut self, sp: u64) -> bool {
        let page = sp & !(PAGE - 1);
        if sp >= self.known.lo && sp < self.known.hi && self.known.hi - sp >= 8 {
            // What lies below sp on its page is mapped as well: epilogues name slots just below.
            self.lo = page.max(self.known.lo);
            self.span = self.known.hi - 8 - self.lo;
            return true;
        }
        if page == 0 || !self.probe(page) {
            (self.lo, self.span) = (0, 0);
            return false;
        }
        self.lo = page;
        self.span = PAGE - 8;
        true
    }

    #[inline(always)]
    fn peek(&self, addr: u64) -> Option<u64> {
        if addr.wrapping_sub(self.lo) <= self.span && self.lo != 0 {
            // SAFETY: [lo, lo + span + 8) is readable: it is part of the known extent from sp's page on, which the caller of
            // `new` vouches for, or was probed page by page on the stack that this thread uses.
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
        // SAFETY: the tests give extents of memory that they hold.
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
