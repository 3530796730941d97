//! A copy of one mapped object's unwind data.
//!
//! The kernel copies it from the host's mapping of the object (and refuses where a plain load would fault). So a file
//! that was deleted, replaced or never existed (vdso, memfd) is handled like any other, and a dlclose meanwhile only
//! makes the copy fail. Afterwards nothing refers to the host's memory. One mapping holds everything (the kernel merges
//! adjacent mappings, and a fork copies mappings one by one):
//!
//! ```text
//!  Object (head) | index | buckets | .eh_frame        address space for the whole segment, pages only for used parts
//! ```
//!
//! Invariant: an [`Object`] is written by the registry's one writer before it is published and never after.

#![expect(unsafe_code, reason = "lays out its own mapping")]

use core::ptr::NonNull;
use core::slice;

use super::os;
use super::reader::Section;
use super::table::{self, FdeRef, Table};

pub use super::locate::{Located, locate};

/// Most unwind data that is copied. No known object has a quarter of it.
const MOST: u64 = 256 << 20;
const PAGE: usize = 4096;
/// Bytes of the head, rounded up so that the arrays after it begin on the same page.
const HEAD: usize = size_of::<Object>().next_multiple_of(8);

/// One object's unwind data in pct's own memory.
pub struct Object {
    /// The table over the copy.
    pub table: Table<'static>,
    /// Number of sets that refer to it. Only the writer uses it.
    pub(super) users: usize,
    len: usize,
}

impl Object {
    /// Copies the unwind data of the object whose ELF header is at `base`. `None`: it has none, or it cannot be
    /// read.
    pub(super) fn load(base: u64) -> Option<NonNull<Object>> {
        let found = locate(&os::OwnMemory, base)?;
        let most = found.eh_end.checked_sub(found.eh).filter(|&len| len <= MOST)? as usize;
        // Without a list each FDE may have an entry, and the shortest FDE has 16 bytes.
        let entries = match found.list {
            Some((_, n)) => n.max(most / 64),
            None => most / 16,
        };
        let mut parts = Parts::new(entries, most)?;
        match Self::fill(&mut parts, &found) {
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
        let len = unsafe { object.as_ref() }.len;
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
        let object = self.at.cast::<Object>();
        // SAFETY: the first bytes are for the head, writable, aligned, and nothing else refers to them.
        unsafe { object.write(Object { table, users: 0, len: self.len }) };
        // SAFETY: a mapping never is at address zero.
        unsafe { NonNull::new_unchecked(object) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_libraries_are_copied_and_every_function_is_found_again() {
        let mut seen = 0;
        for base in crate::testing::own_objects() {
            let Some(object) = Object::load(base) else { continue };
            // SAFETY: `load` just made it, it is freed below.
            let table = unsafe { object.as_ref() }.table;
            let mut functions = 0;
            table::scan(table.eh_frame(), |_, fde| {
                if fde.len > 0 {
                    functions += 1;
                    assert_eq!(table.find(fde.begin).map(|f| f.begin), Some(fde.begin));
                    assert!(table.find(fde.begin + fde.len - 1).is_some());
                }
            });
            assert!(functions > 0 && functions <= table.len());
            seen += 1;
            // SAFETY: nothing refers to it any more.
            unsafe { Object::free(object) };
        }
        assert!(seen >= 3, "program, libc and vdso at least: {seen}");
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert!(Object::load(8).is_none());
        let page = vec![0x7fu8; 8192];
        assert!(Object::load(page.as_ptr().expose_provenance() as u64).is_none());
    }
}
