//! The unwind data of an object whose linker listed its functions, read from a copy that is made page by page.
//!
//! A look-up searches the list in `.eh_frame_hdr` as it stands (pairs of signed offsets from the header, sorted by
//! address), and reads the FDE and the CIE that it leads to. So it needs a few pages of the list and one or two of
//! `.eh_frame`, however large the object is.
//!
//! Invariant: the bytes may contain anything, and the list may be in any order. A look-up then gives a wrong rule or
//! none, but never reads outside of the segment that holds both, and no more at once than [`LONGEST`].

use super::cfi::Fde;
use super::pages::Pages;
use super::reader::{Lack, Section, Source};
use super::table::{FdeRef, Functions};

/// Bytes of the longest entry of `.eh_frame` that is read.
const LONGEST: usize = 1 << 17;

/// Such an object's unwind data.
#[derive(Debug)]
pub struct PagedTable {
    pub(super) pages: Pages,
    /// Lowest address of the object.
    pub(super) lo: u64,
    /// Address of `.eh_frame_hdr`.
    pub(super) hdr: u64,
    /// Address of the first pair.
    pub(super) list: u64,
    /// Number of pairs.
    pub(super) count: usize,
    /// Address of `.eh_frame`.
    pub(super) eh: u64,
}

/// A table, and whether pages may be copied for it.
pub(super) struct Reading<'a, F> {
    pub(super) table: &'a PagedTable,
    pub(super) may_copy: F,
}

/// An entry of the linker's list as it stands in memory: offsets from the header to the function's first address and
/// to its FDE.
type Pair = [u8; size_of::<FdeRef>()];

/// Number of pairs that are searched as one piece.
const PIECE: usize = 256;

fn of_pair(pair: &Pair) -> FdeRef {
    let [a, b, c, d, e, f, g, h] = *pair;
    FdeRef { pc: u32::from_le_bytes([a, b, c, d]), fde: u32::from_le_bytes([e, f, g, h]) }
}

impl<'a, F: FnMut() -> bool> Reading<'a, F> {
    /// The pairs from number `first` on.
    fn pairs(&mut self, first: usize, count: usize) -> Result<&'a [Pair], Lack> {
        let (Some(offset), Some(len)) =
            (first.checked_mul(size_of::<Pair>()), count.checked_mul(size_of::<Pair>()))
        else {
            return Err(Lack::Nothing);
        };
        let at = self.table.list.checked_add(offset as u64).ok_or(Lack::Nothing)?;
        let bytes = self.table.pages.get(at, len, &mut self.may_copy)?;
        bytes.as_chunks().0.get(..count).ok_or(Lack::Nothing)
    }

    fn entry(&mut self, number: usize) -> Result<FdeRef, Lack> {
        let pair = of_pair(self.pairs(number, 1)?.first().ok_or(Lack::Nothing)?);
        pair.of_listed(self.table.hdr, self.table.lo, self.table.eh).ok_or(Lack::Nothing)
    }
}

impl<'a, F: FnMut() -> bool> Functions<'a> for Reading<'a, F> {
    fn count(&self) -> usize {
        self.table.count
    }

    fn begun_by(&mut self, pc: u64) -> Result<usize, Lack> {
        let distance = pc.wrapping_sub(self.table.hdr).cast_signed();
        let has_begun = |pair: &Pair| i64::from(of_pair(pair).pc.cast_signed()) <= distance;
        let (mut at, mut left) = (0, self.table.count);
        while left > PIECE {
            let half = left / 2;
            if self.pairs(at + half, 1)?.first().is_some_and(has_begun) {
                at += half + 1;
                left -= half + 1;
            } else {
                left = half;
            }
        }
        if left > 0 {
            at += self.pairs(at, left)?.partition_point(has_begun);
        }
        Ok(at)
    }

    fn start(&mut self, number: usize) -> Result<u64, Lack> {
        Ok(self.table.lo.wrapping_add(u64::from(self.entry(number)?.pc)))
    }

    fn fde(&mut self, number: usize) -> Result<Fde<'a>, Lack> {
        let at = self.entry(number)?.fde as usize;
        Fde::read(self, at)
    }
}

impl<'a, F: FnMut() -> bool> Source<'a> for Reading<'a, F> {
    fn bytes(&mut self, at: usize, len: usize) -> Result<Section<'a>, Lack> {
        let addr = self.table.eh.checked_add(at as u64).filter(|_| len <= LONGEST).ok_or(Lack::Nothing)?;
        Ok(Section { bytes: self.table.pages.get(addr, len, &mut self.may_copy)?, addr })
    }
}
