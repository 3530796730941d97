//! The code between two functions with unwind data, read in pieces.

use super::step::LONGEST;
use crate::stack::Memory;

/// Bytes of code that are read at once.
const PIECE: usize = 256;

/// See above.
pub(super) struct Code<'m, M> {
    pub(super) memory: &'m mut M,
    /// First address, and the one behind the last.
    pub(super) range: (u64, u64),
    at: u64,
    length: usize,
    bytes: [u8; PIECE],
}

impl<'m, M: Memory> Code<'m, M> {
    pub(super) fn new(memory: &'m mut M, range: (u64, u64)) -> Code<'m, M> {
        Code { memory, range, at: 0, length: 0, bytes: [0; PIECE] }
    }

    /// The bytes from `address` on: an instruction at least, unless the code ends before.
    pub(super) fn from(&mut self, address: u64) -> Option<&[u8]> {
        let left = self.range.1.checked_sub(address).filter(|left| *left > 0)?;
        let end = self.at.wrapping_add(self.length as u64);
        if address < self.at || address.checked_add(left.min(LONGEST as u64))? > end {
            self.length = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            self.at = address;
            if !self.memory.code_bytes(address, self.bytes.get_mut(..self.length)?) {
                self.length = 0;
                return None;
            }
        }
        self.bytes.get(usize::try_from(address.wrapping_sub(self.at)).ok()?..self.length)
    }

    /// The eight bytes at an address, among the code or elsewhere, as a number.
    pub(super) fn data_word(&mut self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.memory.code_bytes(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }

    pub(super) fn contains(&self, address: u64) -> bool {
        address >= self.range.0 && address < self.range.1
    }

    /// Bytes from the first address. Addresses outside of the code count as its end, which cannot be jumped to.
    pub(super) fn offset(&self, address: u64) -> u32 {
        let offset = address.checked_sub(self.range.0).filter(|_| address < self.range.1);
        offset.and_then(|offset| u32::try_from(offset).ok()).unwrap_or(u32::MAX)
    }
}
