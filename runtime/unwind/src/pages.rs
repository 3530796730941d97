//! A copy of a part of this process's memory, of which each page is copied when it is first read.
//!
//! Most unwind data of a process is never needed: of 215 libraries a program calls a dozen. So a walk copies the pages
//! that it reads, and nobody copies the others. The copy has the same contents as the memory at any time since the part
//! was made, or says that a page cannot be read.
//!
//! ```text
//!  the program's memory    | page | page | page | page |     it may go at any time
//!  the copy                | page |      | page |      |     as far apart; never changed once it is there
//!  the states                 2      0      2      1         copied, not copied, being copied
//! ```
//!
//! Who finds a page not copied claims it by its state, lets the kernel copy it (which refuses where a load would
//! fault), and publishes it. Others wait for that a microsecond. But the claimant may sleep for as long as other
//! threads change the process's mappings, so they go on with a copy of their own then ([`Extra`]), which all others
//! find, too.
//!
//! Signal safety: one system call for each page that was not copied yet, three where a claimant sleeps, if the caller
//! allows it. A claimant must not be left by a jump: outside of handlers all signals are blocked by the caller.

#![expect(unsafe_code, reason = "memory that is filled while others read other parts of it")]

use core::hint::spin_loop;
use core::ptr;
use core::slice;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};

use super::os;
use super::reader::Lack;

/// Bytes of a page.
pub(super) const PAGE: usize = 4096;
/// The same, as a distance of addresses.
const PAGE_DISTANCE: u64 = PAGE as u64;
/// States of a page.
const ABSENT: u8 = 0;
const CLAIMED: u8 = 1;
const COPIED: u8 = 2;
/// How often a state is read while another thread copies the page: one to three microseconds.
const PATIENCE: u32 = 64;
/// Most extra copies of one part of memory.
const MOST_EXTRA: usize = 64;
/// Most attempts to publish one, while others do the same.
const ATTEMPTS: usize = 16;

/// Address of the page that contains `at`.
pub(super) const fn page_of(at: u64) -> u64 {
    at & !(PAGE_DISTANCE - 1)
}

/// Pages that are being copied at this moment, in the whole process.
static COPYING: AtomicU32 = AtomicU32::new(0);

/// In the child of a fork, before it has other threads: true if a thread of its parent was copying, so that
/// [`Pages::give_up_claims`] is needed.
pub(super) fn claims_are_lost() -> bool {
    COPYING.swap(0, Ordering::Relaxed) != 0
}

/// The copy of a part of memory.
#[derive(Debug)]
pub(super) struct Pages {
    /// Address in the process, a multiple of [`PAGE`].
    from: u64,
    copy: *mut u8,
    states: &'static [AtomicU8],
    extra: AtomicPtr<Extra>,
}

/// A copy of a few pages beside the others, at the start of its own mapping. Its bytes begin a page behind.
struct Extra {
    /// Address in the process, a multiple of [`PAGE`].
    from: u64,
    bytes: &'static [u8],
    next: *mut Extra,
}

// SAFETY: bytes behind `copy` are written only by who claimed their page and before it is published, and read only
// after; extra copies are written only before they are published; nothing in it belongs to a thread.
unsafe impl Sync for Pages {}
// SAFETY: as above.
unsafe impl Send for Pages {}

impl Pages {
    /// A copy of the memory from `from` on, a multiple of [`PAGE`], of which nothing is there yet.
    ///
    /// # Safety
    /// `copy` leads to `states.len()` pages, which nothing else uses while the value lives. The states are zero.
    pub(super) unsafe fn new(from: u64, copy: *mut u8, states: &'static [AtomicU8]) -> Pages {
        Pages { from, copy, states, extra: AtomicPtr::new(ptr::null_mut()) }
    }

    /// The bytes at address `at` of the process, `len` at least and at least one, up to the end of a page. For each
    /// page that is not there yet `may_copy` is asked.
    #[inline(always)]
    pub(super) fn get(&self, at: u64, len: usize, mut may_copy: impl FnMut() -> bool) -> Result<&[u8], Lack> {
        let start = at.wrapping_sub(self.from) as usize;
        let Some(last) = start.checked_add(len).and_then(|end| end.checked_sub(1)) else {
            return Err(Lack::Nothing);
        };
        let mut page = start / PAGE;
        loop {
            // (Behind the last state the copy ends, too.)
            let state = self.states.get(page).ok_or(Lack::Nothing)?;
            if state.load(Ordering::Acquire) != COPIED && !self.copy(page, state, &mut may_copy)? {
                return self.extra(at, len, &mut may_copy);
            }
            if page >= last / PAGE {
                break;
            }
            page += 1;
        }
        // SAFETY: these bytes are within the copy, because each of their pages has a state (`new`), and in pages that
        // were published: nobody writes them again.
        Ok(unsafe { slice::from_raw_parts(self.copy.add(start), (page + 1) * PAGE - start) })
    }

    /// Sees to it that a page is there, whose state is `state`. False: another thread claimed it, and sleeps.
    #[cold]
    #[inline(never)]
    fn copy(&self, page: usize, state: &AtomicU8, may_copy: &mut dyn FnMut() -> bool) -> Result<bool, Lack> {
        for _ in 0..PATIENCE {
            match state.load(Ordering::Acquire) {
                COPIED => return Ok(true),
                ABSENT if !may_copy() => return Err(Lack::NotNow),
                ABSENT => match self.claim(page, state) {
                    Some(true) => return Ok(true),
                    Some(false) => return Err(Lack::Unreadable),
                    None => {}
                },
                _ => spin_loop(),
            }
        }
        Ok(false)
    }

    /// As [`Pages::get`], in an extra copy.
    #[cold]
    #[inline(never)]
    fn extra(&self, at: u64, len: usize, may_copy: &mut dyn FnMut() -> bool) -> Result<&[u8], Lack> {
        let mut count = 0;
        let mut place = self.extra.load(Ordering::Acquire);
        // SAFETY: what is in the list was published, is never changed again, and lives as long as `self`.
        while let Some(extra) = unsafe { place.as_ref() } {
            if let Some(bytes) = extra.get(at, len) {
                return Ok(bytes);
            }
            count += 1;
            place = extra.next;
        }
        if count >= MOST_EXTRA || !may_copy() {
            return Err(Lack::NotNow);
        }
        let extra = Extra::copy(at, len)?;
        let mut next = self.extra.load(Ordering::Acquire);
        for _ in 0..ATTEMPTS {
            // SAFETY: nobody else knows of it yet.
            unsafe { (&raw mut (*extra).next).write(next) };
            match self.extra.compare_exchange(next, extra, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: published, as above.
                Ok(_) => return unsafe { &*extra }.get(at, len).ok_or(Lack::Nothing),
                Err(newer) => next = newer,
            }
        }
        // SAFETY: nobody else knows of it.
        unsafe { Extra::free(extra) };
        Err(Lack::NotNow)
    }

    /// Frees the extra copies. Nothing refers to any of the bytes any more.
    pub(super) fn free_extra(&self) {
        let mut place = self.extra.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: as in `extra`.
        while let Some(extra) = unsafe { place.as_ref() } {
            let next = extra.next;
            // SAFETY: nobody can find it any more, and the caller vouches that nobody holds its bytes.
            unsafe { Extra::free(place) };
            place = next;
        }
    }

    /// Claims a page and copies it: whether it could be read. `None`: another thread was faster.
    fn claim(&self, page: usize, state: &AtomicU8) -> Option<bool> {
        COPYING.fetch_add(1, Ordering::Relaxed);
        let claimed = state.compare_exchange(ABSENT, CLAIMED, Ordering::Acquire, Ordering::Relaxed);
        let copied = claimed.is_ok().then(|| {
            let offset = page * PAGE;
            // SAFETY: the page is within the copy (`states` has a state for each of its pages), and claimed: until it
            // is published nobody else refers to its bytes.
            let into = unsafe { slice::from_raw_parts_mut(self.copy.add(offset), PAGE) };
            let copied = os::copy(self.from.wrapping_add(offset as u64), into);
            state.store(if copied { COPIED } else { ABSENT }, Ordering::Release);
            copied
        });
        // (A child of a fork may have cleared it.)
        let _ = COPYING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        copied
    }

    /// Copies every page that is not there yet.
    pub(super) fn copy_all(&self) {
        for at in (self.from..).step_by(PAGE).take(self.states.len()) {
            // What cannot be read is no worse off than before.
            let _ = self.get(at, PAGE, || true);
        }
    }

    /// Makes pages that are being copied absent again. In the child of a fork, before it has other threads: those that
    /// were copying are not here.
    pub(super) fn give_up_claims(&self) {
        for state in self.states {
            let _ = state.compare_exchange(CLAIMED, ABSENT, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// How many pages are there.
    #[cfg(test)]
    pub(super) fn copied(&self) -> usize {
        self.states.iter().filter(|state| state.load(Ordering::Relaxed) == COPIED).count()
    }
}

impl Extra {
    /// Copies the pages of `len` bytes at address `at`.
    fn copy(at: u64, len: usize) -> Result<*mut Extra, Lack> {
        let from = page_of(at);
        let len =
            at.checked_add(len as u64).and_then(|end| end.checked_sub(from)).ok_or(Lack::Nothing)? as usize;
        let len = len.checked_next_multiple_of(PAGE).ok_or(Lack::Nothing)?;
        let whole = len.checked_add(PAGE).ok_or(Lack::Nothing)?;
        let memory = os::map(whole).ok_or(Lack::NotNow)?;
        // SAFETY: a fresh mapping of `PAGE + len` bytes, which only this function knows; it lives until `free`.
        let bytes: &'static mut [u8] = unsafe { slice::from_raw_parts_mut(memory.add(PAGE), len) };
        if !os::copy(from, bytes) {
            os::unmap(memory, whole);
            return Err(Lack::Unreadable);
        }
        let extra = memory.cast::<Extra>();
        // SAFETY: it begins with a page for this, aligned for anything.
        unsafe { extra.write(Extra { from, bytes, next: ptr::null_mut() }) };
        Ok(extra)
    }

    /// The bytes from address `at` on, `len` at least.
    fn get(&self, at: u64, len: usize) -> Option<&[u8]> {
        let start = usize::try_from(at.checked_sub(self.from)?).ok()?;
        self.bytes.get(start..).filter(|bytes| bytes.len() >= len)
    }

    /// # Safety
    /// It came from [`Extra::copy`], and nothing refers to it any more.
    unsafe fn free(extra: *mut Extra) {
        // SAFETY: alive until the next line.
        let len = unsafe { &*extra }.bytes.len();
        os::unmap(extra.cast(), PAGE + len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four pages of the process, each filled with its number, and a copy of them of which nothing is there yet.
    fn four() -> (*mut u8, u64, Pages) {
        let (source, copy) = (os::map(4 * PAGE).expect("memory"), os::map(4 * PAGE).expect("memory"));
        for page in 0..4 {
            // SAFETY: fresh memory of so many pages.
            unsafe { source.add(page * PAGE).write_bytes(page as u8 + 1, PAGE) };
        }
        let states = Vec::leak((0..4).map(|_| AtomicU8::new(ABSENT)).collect());
        let from = source.expose_provenance() as u64;
        // SAFETY: four pages, which nobody else knows.
        (source, from, unsafe { Pages::new(from, copy, states) })
    }

    #[test]
    fn a_page_is_copied_once_and_stays_when_the_memory_goes() {
        let (source, from, pages) = four();
        assert_eq!(pages.get(from + 100, 8, || false).err(), Some(Lack::NotNow));
        let across = pages.get(from + PAGE_DISTANCE - 2, 4, || true).expect("readable");
        assert_eq!((&across[..4], pages.copied()), (&[1, 1, 2, 2][..], 2));
        assert_eq!(across.len(), 2 + PAGE, "up to the end of a page");
        assert!(os::protect_none(from + 3 * PAGE_DISTANCE, PAGE_DISTANCE));
        assert_eq!(pages.get(from + 4 * PAGE_DISTANCE - 8, 8, || true).err(), Some(Lack::Unreadable));
        os::unmap(source, 4 * PAGE);
        assert_eq!(pages.get(from + 2 * PAGE_DISTANCE, 8, || true).err(), Some(Lack::Unreadable));
        assert_eq!(pages.get(from + PAGE_DISTANCE - 1, 2, || false).map(|bytes| bytes[1]), Ok(2));
        for (at, len) in [(from - 1, 8), (from + 4 * PAGE_DISTANCE - 4, 8), (from, usize::MAX), (0, 1)] {
            assert!(pages.get(at, len, || true).is_err(), "{at:#x} {len}");
        }
    }

    #[test]
    fn who_meets_a_page_whose_copier_sleeps_goes_on_with_a_copy_of_its_own() {
        let (_, from, pages) = four();
        let state = &pages.states[1];
        state.store(CLAIMED, Ordering::Relaxed);
        let at = from + PAGE_DISTANCE - 2;
        assert_eq!(pages.get(at, 4, || false).err(), Some(Lack::NotNow));
        assert_eq!(pages.get(at, 4, || true).map(|bytes| &bytes[..4]), Ok(&[1, 1, 2, 2][..]));
        assert_eq!(pages.get(at, 4, || false).map(|bytes| bytes[3]), Ok(2), "others find it");
        assert_eq!(state.load(Ordering::Relaxed), CLAIMED);
        // In the child of a fork nobody will ever publish it.
        pages.give_up_claims();
        assert!(pages.get(at, 4, || true).is_ok());
        assert_eq!(state.load(Ordering::Relaxed), COPIED);
        pages.free_extra();
        assert!(pages.extra.load(Ordering::Relaxed).is_null());
    }

    #[test]
    fn threads_that_need_the_same_pages_all_get_them() {
        for _ in 0..200 {
            let (_, from, pages) = four();
            std::thread::scope(|scope| {
                for first in 0..4 {
                    let pages = &pages;
                    scope.spawn(move || {
                        for page in (0..4).map(|n| (n + first) % 4) {
                            let bytes = pages.get(from + page * PAGE_DISTANCE, 8, || true).expect("readable");
                            assert_eq!(bytes[..8], [page as u8 + 1; 8]);
                        }
                    });
                }
            });
            pages.free_extra();
        }
    }
}
