//! One mapped object's unwind data in pct's own memory.
//!
//! The kernel copies it from the host's mapping of the object (and refuses where a plain load would fault). So a file
//! that was deleted, replaced or never existed (vdso, memfd) is handled like any other, and a dlclose meanwhile only
//! makes the copy fail. Nothing refers to the host's memory. If the object has a list of its functions, which nearly
//! all have, a page is copied when a walk first reads it ([`pages`](super::pages)); else the list is made, and
//! everything is copied at once. One mapping holds everything (the kernel merges adjacent mappings, and a fork copies
//! mappings one by one):
//!
//! ```text
//!  Object (head) | states of pages | pages of .eh_frame_hdr and .eh_frame     address space for the whole segment,
//!  Object (head) | index | buckets | .eh_frame                                pages only for used parts
//! ```
//!
//! Invariant: an [`Object`] is written by the registry's one writer before it is published and never after, but for
//! pages and their states.

#![expect(unsafe_code, reason = "lays out its own mapping")]

use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::AtomicU8;

use super::locate::{Effort, Located, locate};
use super::os;
use super::paged_table::PagedTable;
use super::pages::{PAGE, Pages, page_of};
use super::reader::Section;
use super::set::AnyTable;
use super::table::{self, FdeRef, Table};

/// Most unwind data that is copied. No known object has a quarter of it.
const MOST: u64 = 256 << 20;
/// Bytes of the head, rounded up so that the arrays after it begin on the same page.
const HEAD: usize = size_of::<Object>().next_multiple_of(8);

/// One object's unwind data.
pub struct Object {
    kept: Kept,
    /// Number of sets that refer to it. Only the writer uses it.
    pub(super) users: usize,
    len: usize,
}

enum Kept {
    Whole(Table<'static>),
    Paged(PagedTable),
}

impl Object {
    /// Finds the unwind data of the object whose ELF header is at `base`, and copies them if they have no list of
    /// functions. `None`: it has none, or they cannot be read.
    pub(super) fn load(base: u64, effort: Effort) -> Option<NonNull<Object>> {
        let found = locate(&os::OwnMemory, base, effort)?;
        Self::paged(&found).or_else(|| Self::whole(&found))
    }

    /// The unwind data.
    pub(super) fn table(&self) -> AnyTable<'_> {
        match &self.kept {
            Kept::Whole(table) => AnyTable::Whole(table),
            Kept::Paged(table) => AnyTable::Paged(table),
        }
    }

    /// The pages of it, if it is copied page by page.
    pub(super) fn pages(&self) -> Option<&Pages> {
        match &self.kept {
            Kept::Whole(_) => None,
            Kept::Paged(table) => Some(&table.pages),
        }
    }

    /// Makes room for it. `None`: there is no list, or it is in another segment, which no known linker does.
    fn paged(found: &Located) -> Option<NonNull<Object>> {
        let (list, count) = found.list.filter(|_| found.hdr_end == found.eh_end)?;
        let list = found.hdr.checked_add(list as u64)?;
        let from = page_of(found.hdr.min(found.eh));
        let bytes = found.eh_end.checked_sub(from).filter(|&len| len <= MOST)? as usize;
        let most_pages = bytes.div_ceil(PAGE);
        let front = HEAD.checked_add(most_pages)?.checked_next_multiple_of(PAGE)?;
        let len = front.checked_add(most_pages.checked_mul(PAGE)?)?;
        let at = os::map(len)?;
        // SAFETY: the mapping is fresh, zeroed (valid states) and long enough for the head, a state for each page, and
        // the pages from `front` on; it lives until `Object::free`, whose caller vouches that no reference is left.
        let pages = unsafe {
            let states = slice::from_raw_parts(at.add(HEAD).cast::<AtomicU8>(), most_pages);
            Pages::new(from, at.add(front), states)
        };
        let table = PagedTable { pages, lo: found.lowest, hdr: found.hdr, list, count, eh: found.eh };
        // SAFETY: the mapping begins with room for the head.
        Some(unsafe { write_head(at, Kept::Paged(table), len) })
    }

    /// Copies all of it.
    fn whole(found: &Located) -> Option<NonNull<Object>> {
        let most = found.eh_end.checked_sub(found.eh).filter(|&len| len <= MOST)? as usize;
        // Without a list each FDE may have an entry, and the shortest FDE has 16 bytes.
        let entries = match found.list {
            Some((_, n)) => n.max(most / 64),
            None => most / 16,
        };
        let mut parts = Parts::new(entries, most)?;
        match Self::fill(&mut parts, found) {
            Some(table) => Some(parts.finish(table)),
            None => {
                os::unmap(parts.at, parts.len);
                None
            }
        }
    }

    fn fill(parts: &mut Parts, found: &Located) -> Option<Table<'static>> {
        let lowest = found.lowest;
        let (index, buckets, eh) = parts.slices();
        let listed = found.list.and_then(|(at, n)| {
            let index = index.get_mut(..n)?;
            let copied = os::copy(found.hdr.checked_add(at as u64)?, bytes_of(index));
            if !copied || !table::adopt_list(index, found.hdr, lowest, found.eh) {
                return None;
            }
            // The list says where the last FDE is. What follows it in the segment is not unwind data.
            let last = index.iter().map(|e| e.fde).max()?;
            let mut len = [0; 4];
            os::copy(found.eh.checked_add(u64::from(last))?, &mut len).then_some(())?;
            let end = u64::from(last).checked_add(4)?.checked_add(u64::from(u32::from_le_bytes(len)))?;
            let eh = eh.get_mut(..usize::try_from(end).ok()?)?;
            os::copy(found.eh, eh).then_some((n, eh.len()))
        });
        let (n, len) = match listed {
            Some(both) => both,
            None => {
                os::copy(found.eh, eh).then_some(())?;
                (table::index_by_scan(&Section { bytes: eh, addr: found.eh }, lowest, index), eh.len())
            }
        };
        let index: &'static [FdeRef] = index.get(..n)?;
        let buckets = buckets.get_mut(..table::buckets_for(n))?;
        let eh: &'static [u8] = eh.get(..len)?;
        Some(Table::new(lowest, Section { bytes: eh, addr: found.eh }, index, buckets))
    }

    /// Frees the memory.
    ///
    /// # Safety
    /// `object` came from [`Object::load`] and nothing refers to it or its table any more.
    pub(super) unsafe fn free(object: NonNull<Object>) {
        // SAFETY: it is alive until the call below.
        let (len, pages) = unsafe { (object.as_ref().len, object.as_ref().pages()) };
        if let Some(pages) = pages {
            pages.free_extra();
        }
        os::unmap(object.as_ptr().cast(), len);
    }
}

fn bytes_of(index: &mut [FdeRef]) -> &mut [u8] {
    // SAFETY: `FdeRef` is two `u32` without padding, and any bytes are a valid value of it.
    unsafe { slice::from_raw_parts_mut(index.as_mut_ptr().cast(), size_of_val(index)) }
}

/// The mapping of an object that is being built.
struct Parts {
    at: *mut u8,
    len: usize,
    entries: usize,
    eh: usize,
}

type Slices = (&'static mut [FdeRef], &'static mut [u32], &'static mut [u8]);

impl Parts {
    fn new(entries: usize, eh: usize) -> Option<Parts> {
        let len = HEAD
            .checked_add(entries.checked_mul(size_of::<FdeRef>())?)?
            .checked_add(table::buckets_for(entries).checked_mul(4)?)?
            .checked_add(eh)?
            .checked_next_multiple_of(PAGE)?;
        Some(Parts { at: os::map(len)?, len, entries, eh })
    }

    /// The three arrays. Call it once per mapping.
    fn slices(&mut self) -> Slices {
        let buckets = table::buckets_for(self.entries);
        // SAFETY: `new` made the mapping long enough for the head and the three arrays in this order; it is
        // zeroed (valid for all three), page aligned (the head's size is a multiple of 8), the arrays do not
        // overlap, and it lives until `Object::free`, whose caller vouches that no reference is left.
        unsafe {
            let index = self.at.add(HEAD).cast::<FdeRef>();
            let words = index.add(self.entries).cast::<u32>();
            let bytes = words.add(buckets).cast::<u8>();
            (
                slice::from_raw_parts_mut(index, self.entries),
                slice::from_raw_parts_mut(words, buckets),
                slice::from_raw_parts_mut(bytes, self.eh),
            )
        }
    }

    /// Writes the head.
    fn finish(self, table: Table<'static>) -> NonNull<Object> {
        // SAFETY: the mapping begins with room for the head.
        unsafe { write_head(self.at, Kept::Whole(table), self.len) }
    }
}

/// Writes the head of a mapping of `len` bytes.
///
/// # Safety
/// `at` is the start of a fresh mapping, whose first [`HEAD`] bytes nothing refers to.
unsafe fn write_head(at: *mut u8, kept: Kept, len: usize) -> NonNull<Object> {
    let object = at.cast::<Object>();
    // SAFETY: the caller's promise; a mapping is aligned for anything, and never at address zero.
    unsafe {
        object.write(Object { kept, users: 0, len });
        NonNull::new_unchecked(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Lack;
    use crate::rule::Rule;
    use pct_kit::Dice;

    #[test]
    fn every_function_of_our_own_libraries_is_found_by_its_pages_as_in_the_whole() {
        let mut seen = 0;
        for base in crate::testing::own_objects() {
            let Some(found) = locate(&os::OwnMemory, base, Effort::Shape) else { continue };
            let (Some(whole), Some(paged)) = (Object::whole(&found), Object::paged(&found)) else { continue };
            // SAFETY: they were just made, they are freed below.
            let (one, other) = unsafe { (whole.as_ref(), paged.as_ref()) };
            let AnyTable::Whole(table) = one.table() else { panic!("it is whole") };
            let data = other.table();
            let pages = other.pages().expect("it has pages");
            assert_eq!(data.find(table.eh_frame().addr, || true).err(), Some(Lack::Nothing));
            assert!(pages.copied() <= 20, "{} pages for one look", pages.copied());
            let mut functions = 0;
            table::scan(table.eh_frame(), |_, fde| {
                if fde.len > 0 {
                    functions += 1;
                    for pc in [fde.begin, fde.begin + fde.len - 1, fde.begin + fde.len] {
                        let expected = table.find(pc);
                        let found = data.find(pc, || true);
                        assert_eq!(found.map(|f| f.begin).ok(), expected.map(|f| f.begin));
                        if let (Ok(found), Some(expected)) = (found, expected) {
                            assert_eq!(Rule::compile(&found, pc), Rule::compile(&expected, pc));
                        }
                        assert_eq!(data.gap(pc, || false).ok(), table.gap(pc), "{pc:#x}");
                    }
                }
            });
            assert!(functions > 0 && functions <= table.len());
            seen += 1;
            // SAFETY: nothing refers to them any more.
            unsafe {
                Object::free(whole);
                Object::free(paged);
            }
        }
        assert!(seen >= 3, "program, libc and vdso at least: {seen}");
    }

    #[test]
    fn what_was_not_copied_before_is_not_to_be_had_where_nothing_may_be_copied() {
        let locate = |base| locate(&os::OwnMemory, base, Effort::Header);
        let base = crate::testing::own_objects().into_iter().find_map(locate);
        let object = Object::paged(&base.expect("an object with unwind data")).expect("a list");
        // SAFETY: it was just made, it is freed below.
        let object_ref = unsafe { object.as_ref() };
        let (data, pages) = (object_ref.table(), object_ref.pages().expect("it has pages"));
        let pc = what_was_not_copied_before_is_not_to_be_had_where_nothing_may_be_copied as fn();
        let pc = (pc as *const ()).expose_provenance() as u64 + 1;
        assert_eq!(data.find(pc, || false).err(), Some(Lack::NotNow));
        let mut pages_left = [(); 3].iter();
        assert_eq!(data.find(pc, || pages_left.next().is_some()).err(), Some(Lack::NotNow));
        assert_eq!(pages.copied(), 3);
        assert!(data.find(pc, || true).is_ok_and(|fde| fde.covers(pc)));
        assert!(data.find(pc, || false).is_ok_and(|fde| fde.covers(pc)), "it stays");
        let before = pages.copied();
        pages.copy_all();
        assert!(pages.copied() > before && data.find(pc + 100_000, || false).err() != Some(Lack::NotNow));
        // SAFETY: nothing refers to it any more.
        unsafe { Object::free(object) };
    }

    #[test]
    fn damaged_data_are_read_page_by_page_without_harm_or_end() {
        let rounds = pct_kit::asked("PCT_UNWIND_ROUNDS", 300);
        let bytes = |found: &Located| found.eh_end - found.hdr;
        let located = |base| locate(&os::OwnMemory, base, Effort::Header);
        let all = crate::testing::own_objects().into_iter().filter_map(located);
        let found = all.filter(|found| bytes(found) < 1 << 19).max_by_key(bytes).expect("an object");
        let from = page_of(found.hdr.min(found.eh));
        let mut whole = vec![0; (found.eh_end - from) as usize];
        assert!(os::copy(from, &mut whole), "it is readable");
        let memory = os::map(whole.len()).expect("memory");
        let delta = (memory.expose_provenance() as u64).wrapping_sub(from);
        let moved = |at: u64| at.wrapping_add(delta);
        let here = Located {
            lowest: moved(found.lowest),
            hdr: moved(found.hdr),
            hdr_end: moved(found.hdr_end),
            eh: moved(found.eh),
            eh_end: moved(found.eh_end),
            list: found.list,
        };
        let mut dice = Dice::new(7);
        let mut covered = 0;
        for round in 0..rounds {
            let mut damaged = whole.clone();
            for _ in 0..dice.index(200) {
                let at = dice.index(damaged.len());
                let len = 1 + dice.index(8);
                damaged.iter_mut().skip(at).take(len).for_each(|byte| *byte = dice.roll() as u8);
            }
            // SAFETY: fresh memory of this length, which only the kernel reads for us.
            unsafe { memory.copy_from_nonoverlapping(damaged.as_ptr(), damaged.len()) };
            let object = Object::paged(&here).expect("a list");
            // SAFETY: it was just made, it is freed below.
            let data = unsafe { object.as_ref() }.table();
            for _ in 0..50 {
                let pc = here.lowest.wrapping_add(dice.roll() % (here.eh_end - here.lowest));
                let mut pages = 0;
                let rule = data
                    .find(pc, || {
                        pages += 1;
                        pages <= 100
                    })
                    .map(|fde| Rule::compile(&fde, pc));
                covered += usize::from(rule.is_ok());
                let _ = data.gap(pc, || false);
            }
            // SAFETY: nothing refers to it any more.
            unsafe { Object::free(object) };
            assert!(round > 0 || covered > 0, "some code is covered");
        }
        os::unmap(memory, whole.len());
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert!(Object::load(8, Effort::Shape).is_none());
        let page = vec![0x7fu8; 8192];
        assert!(Object::load(page.as_ptr().expose_provenance() as u64, Effort::Shape).is_none());
    }
}
