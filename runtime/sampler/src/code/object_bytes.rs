//! The bytes of an object, wherever they are read from.
//!
//! Signal safety: that of the reading function.

use core::fmt;

use pct_elf::Memory;

/// Bytes of an object by their addresses, from wherever they come: one type, so that the search is compiled once.
#[derive(Clone, Copy)]
pub struct Bytes<'m>(pub &'m dyn Fn(u64, &mut [u8]) -> bool);

impl fmt::Debug for Bytes<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Bytes")
    }
}

impl Memory for Bytes<'_> {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        (self.0)(at, into)
    }
}
