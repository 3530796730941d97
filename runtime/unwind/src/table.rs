//! The unwind data of one object, all of it in memory: from an address to its [`Rule`].
//!
//! The linker's list in `.eh_frame_hdr` (sorted function starts) becomes an index of offsets with a row of buckets in
//! front, so that a look-up reads one bucket, two or three index entries, the FDE and its CIE. If an object's header
//! has no list, or an unsorted one, the list is made by a walk over `.eh_frame`. What functions an object has is asked
//! in the same way where its data come page by page ([`PagedTable`](crate::paged_table::PagedTable)): see
//! [`Functions`].
//!
//! Invariant: index, buckets and bytes may contain anything. A look-up then gives a wrong rule or none, but never reads
//! outside them.

use super::cfi::{self, Fde};
use super::reader::{Lack, Section, pe};
use super::rule::Rule;

/// An entry of the index: a function's start and the position of its FDE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct FdeRef {
    /// First address, relative to the table's `lo`.
    pub pc: u32,
    /// Byte offset in `.eh_frame`.
    pub fde: u32,
}

/// One object's unwind data.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    lo: u64,
    eh: Section<'a>,
    index: &'a [FdeRef],
    buckets: &'a [u32],
    shift: u32,
}

/// The contents of the first bytes of `.eh_frame_hdr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Address of `.eh_frame`.
    pub eh_frame: u64,
    /// Where the list starts, in bytes from the header's start, and its claimed number of entries. `None`: there is no
    /// list in the form that linkers write.
    pub list: Option<(usize, usize)>,
}

impl Header {
    /// Reads the header. `None`: these bytes are no header of version 1.
    pub fn parse(hdr: &Section<'_>) -> Option<Header> {
        let mut c = hdr.cursor(0);
        if c.u8()? != 1 {
            return None;
        }
        let (ptr, count, list) = (c.u8()?, c.u8()?, c.u8()?);
        let eh_frame = c.pointer(ptr, hdr.addr)?;
        if list != pe::DATAREL | pe::SDATA4 || count == pe::OMIT {
            return Some(Header { eh_frame, list: None });
        }
        let n = c.pointer(count, hdr.addr)?;
        Some(Header { eh_frame, list: usize::try_from(n).ok().map(|n| (c.pos(), n)) })
    }
}

/// Number of bucket words for an index of `entries`.
pub const fn buckets_for(entries: usize) -> usize {
    entries / 2 + 4
}

impl FdeRef {
    /// The index entry for an entry of the linker's list: a pair of signed offsets from the header. `None`: it is
    /// outside the object, whose lowest address is `lo`.
    pub(super) fn of_listed(self, hdr_addr: u64, lo: u64, eh_addr: u64) -> Option<FdeRef> {
        let listed = |offset: u32| hdr_addr.wrapping_add_signed(i64::from(offset.cast_signed()));
        let pc = u32::try_from(listed(self.pc).wrapping_sub(lo)).ok()?;
        Some(FdeRef { pc, fde: u32::try_from(listed(self.fde).wrapping_sub(eh_addr)).ok()? })
    }
}

/// Turns the linker's list into index entries, in place. Returns false if an entry is outside the object or the list is
/// not sorted.
pub fn adopt_list(index: &mut [FdeRef], hdr_addr: u64, lo: u64, eh_addr: u64) -> bool {
    let mut last = 0;
    for entry in index.iter_mut() {
        match entry.of_listed(hdr_addr, lo, eh_addr) {
            Some(adopted) if adopted.pc >= last => {
                last = adopted.pc;
                *entry = adopted;
            }
            _ => return false,
        }
    }
    true
}

/// Walks `.eh_frame` and calls `each` for every FDE with its offset. Returns the offset after the last entry.
pub fn scan<'a>(eh: &Section<'a>, mut each: impl FnMut(usize, &Fde<'a>)) -> usize {
    let mut at = 0;
    while let Some(end) = cfi::behind_entry(eh, at) {
        if let Some(fde) = Fde::parse(eh, at) {
            each(at, &fde);
        }
        at = end;
    }
    at
}

/// Fills `index` by a walk and returns the number of entries. FDEs outside [`lo`, `lo` + 4 GB) are left out (linkers
/// leave those of dropped functions behind, with address 0).
pub fn index_by_scan(eh: &Section<'_>, lo: u64, index: &mut [FdeRef]) -> usize {
    let mut n = 0;
    scan(eh, |at, fde| {
        let (Ok(pc), Ok(at)) = (u32::try_from(fde.begin.wrapping_sub(lo)), u32::try_from(at)) else { return };
        if let Some(slot) = index.get_mut(n) {
            *slot = FdeRef { pc, fde: at };
            n += 1;
        }
    });
    sort(index.get_mut(..n).unwrap_or_default());
    n
}

/// Heap sort by start, because the library's sorts may panic.
fn sort(items: &mut [FdeRef]) {
    fn sift(items: &mut [FdeRef], mut at: usize, len: usize) {
        loop {
            let mut child = 2 * at + 1;
            if child >= len {
                return;
            }
            let pc = |i: usize| items.get(i).map_or(0, |e| e.pc);
            if child + 1 < len && pc(child + 1) > pc(child) {
                child += 1;
            }
            if pc(at) >= pc(child) {
                return;
            }
            exchange(items, at, child);
            at = child;
        }
    }
    fn exchange(items: &mut [FdeRef], a: usize, b: usize) {
        if let (Some(&x), Some(&y)) = (items.get(a), items.get(b)) {
            if let Some(slot) = items.get_mut(a) {
                *slot = y;
            }
            if let Some(slot) = items.get_mut(b) {
                *slot = x;
            }
        }
    }
    let len = items.len();
    for at in (0..len / 2).rev() {
        sift(items, at, len);
    }
    for end in (1..len).rev() {
        exchange(items, 0, end);
        sift(items, 0, end);
    }
}

/// The functions of an object for which it has unwind data, in order of address.
pub(super) trait Functions<'a> {
    /// Number of functions.
    fn count(&self) -> usize;
    /// Number of functions that begin at `pc` or before.
    fn begun_by(&mut self, pc: u64) -> Result<usize, Lack>;
    /// Address at which a function begins.
    fn start(&mut self, number: usize) -> Result<u64, Lack>;
    /// The FDE of a function.
    fn fde(&mut self, number: usize) -> Result<Fde<'a>, Lack>;

    /// The FDE that covers `pc`. [`Lack::Nothing`]: none does.
    fn find(&mut self, pc: u64) -> Result<Fde<'a>, Lack> {
        let last = self.begun_by(pc)?.checked_sub(1).ok_or(Lack::Nothing)?;
        let fde = self.fde(last)?;
        if fde.covers(pc) { Ok(fde) } else { Err(Lack::Nothing) }
    }

    /// As [`Table::gap`].
    fn gap(&mut self, pc: u64) -> Result<(u64, u64), Lack> {
        let begun = self.begun_by(pc)?;
        let from = match begun.checked_sub(1) {
            None => 0,
            Some(before) => {
                let fde = self.fde(before)?;
                fde.begin.checked_add(fde.len).ok_or(Lack::Nothing)?
            }
        };
        let to = if begun < self.count() { self.start(begun)? } else { u64::MAX };
        if from <= pc && pc < to { Ok((from, to)) } else { Err(Lack::Nothing) }
    }
}

impl<'a> Functions<'a> for &Table<'a> {
    fn count(&self) -> usize {
        self.index.len()
    }

    fn begun_by(&mut self, pc: u64) -> Result<usize, Lack> {
        Table::begun_by(self, pc).ok_or(Lack::Nothing)
    }

    fn start(&mut self, number: usize) -> Result<u64, Lack> {
        let entry = self.index.get(number).ok_or(Lack::Nothing)?;
        Ok(self.lo.wrapping_add(u64::from(entry.pc)))
    }

    fn fde(&mut self, number: usize) -> Result<Fde<'a>, Lack> {
        let entry = self.index.get(number).ok_or(Lack::Nothing)?;
        Fde::read(&mut { self.eh }, entry.fde as usize)
    }
}

impl<'a> Table<'a> {
    /// Adds buckets to a sorted index. `lo`: lowest address of the object. `buckets` should have [`buckets_for`] words;
    /// with fewer the buckets are coarser.
    pub fn new(lo: u64, eh: Section<'a>, index: &'a [FdeRef], buckets: &'a mut [u32]) -> Table<'a> {
        let highest = index.last().map_or(0, |e| e.pc);
        let mut shift = 4;
        while shift < 31 && ((highest >> shift) as usize).saturating_add(2) > buckets.len() {
            shift += 1;
        }
        let mut entries = index.iter().enumerate().peekable();
        for (number, slot) in buckets.iter_mut().enumerate() {
            let start = (number as u64) << shift;
            while entries.next_if(|(_, e)| u64::from(e.pc) < start).is_some() {}
            *slot = entries.peek().map_or(index.len(), |(i, _)| *i) as u32;
        }
        Table { lo, eh, index, buckets, shift }
    }

    /// The same data for a mapping at other addresses: the object's lowest address, and that of `.eh_frame`.
    pub fn moved(self, lo: u64, eh_addr: u64) -> Table<'a> {
        Table { lo, eh: Section { addr: eh_addr, ..self.eh }, ..self }
    }

    /// The bytes of `.eh_frame`.
    pub fn eh_frame(&self) -> &Section<'a> {
        &self.eh
    }

    /// Number of functions in the index.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether the object has no unwind data.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The FDE that covers `pc`.
    pub fn find(&self, pc: u64) -> Option<Fde<'a>> {
        Functions::find(&mut { self }, pc).ok()
    }

    /// The code around `pc` that no FDE covers: the end of the function before it, and the start of the function behind
    /// it. Before the first function the end is 0; behind the last one the start is `u64::MAX`. `None` if an FDE covers
    /// `pc`.
    pub fn gap(&self, pc: u64) -> Option<(u64, u64)> {
        Functions::gap(&mut { self }, pc).ok()
    }

    /// Number of functions that begin at `pc` or before.
    fn begun_by(&self, pc: u64) -> Option<usize> {
        let offset = u32::try_from(pc.wrapping_sub(self.lo)).ok()?;
        let number = (offset >> self.shift) as usize;
        let last = self.buckets.len().checked_sub(1)?;
        let from = *self.buckets.get(number.min(last))? as usize;
        let to = match self.buckets.get(number.saturating_add(1)) {
            Some(&to) => to as usize,
            None => self.index.len(),
        };
        let mut at = from;
        let mut left = to.checked_sub(from)?;
        while left > 0 {
            let half = left / 2;
            if self.index.get(at + half)?.pc <= offset {
                at += half + 1;
                left -= half + 1;
            } else {
                left = half;
            }
        }
        Some(at)
    }

    /// The rule for the instruction at `pc`. `None`: no FDE covers it.
    pub fn rule(&self, pc: u64) -> Option<Rule> {
        Some(Rule::compile(&self.find(pc)?, pc))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_sort_sorts(mut pcs in proptest::collection::vec(any::<u32>(), 0..200)) {
            let mut items: Vec<FdeRef> = pcs.iter().map(|&pc| FdeRef { pc, fde: !pc }).collect();
            sort(&mut items);
            pcs.sort_unstable();
            prop_assert!(items.iter().all(|e| e.fde == !e.pc));
            prop_assert_eq!(items.iter().map(|e| e.pc).collect::<Vec<_>>(), pcs);
        }

        #[test]
        fn buckets_find_the_entry_that_a_plain_search_finds(
            mut pcs in proptest::collection::vec(0u32..100_000, 1..300), ask in proptest::collection::vec(0u32..110_000, 50), words in 0usize..200,
        ) {
            pcs.sort_unstable();
            // One FDE per start, of length 1, so that only exact starts are covered. The test compares which entry is
            // found.
            let (bytes, offsets) = crate::testing::eh_frame(&pcs.iter().map(|&pc| (0x10_0000 + u64::from(pc), 200_000)).collect::<Vec<_>>(), 0x80_0000);
            let index: Vec<FdeRef> = pcs.iter().zip(&offsets).map(|(&pc, &fde)| FdeRef { pc, fde: fde as u32 }).collect();
            let mut buckets = vec![0; words.min(buckets_for(pcs.len()))];
            let table = Table::new(0x10_0000, Section { bytes: &bytes, addr: 0x80_0000 }, &index, &mut buckets);
            for pc in ask {
                let plain = pcs.iter().rev().find(|&&p| p <= pc).map(|&p| 0x10_0000 + u64::from(p));
                let expected = if words == 0 { None } else { plain };
                prop_assert_eq!(table.find(0x10_0000 + u64::from(pc)).map(|f| f.begin), expected);
            }
        }
    }
}
