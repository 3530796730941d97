//! The memory of a damaged process, for targets that read one.
//!
//! An input has a head, which holds registers and choices, and a body, which is the memory. The body is mapped at low
//! addresses ([`BASE`]), so that small numbers are pointers into it, and once more where offsets from a pointer leave
//! user space or the address space. Every load is counted.

use std::cell::Cell;

use pct_elf::Memory;
use pct_languages::ThreadMemory;

/// Where the body of an input is mapped.
pub const BASE: u64 = 0x1_0000;
/// The address behind user space. The body is mapped before it.
pub const USER_END: u64 = 1 << 47;
/// Words of an input's head.
pub const HEAD_WORDS: usize = 16;
/// Octets from [`BASE`] on in which the body is mapped again and again, if it repeats: loops that follow a table
/// without an end have this much to read.
const REPEATED_OCTETS: u64 = 1 << 24;

/// The words of an input's head, and its body. `None`: the input is too short.
#[must_use]
pub fn split_head(input: &[u8]) -> Option<([u64; HEAD_WORDS], &[u8])> {
    let (head, body) = input.split_first_chunk::<{ 8 * HEAD_WORDS }>()?;
    let mut words = [0; HEAD_WORDS];
    for (word, octets) in words.iter_mut().zip(head.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*octets);
    }
    (!body.is_empty()).then_some((words, body))
}

/// Reads the body of an input as the memory of a process.
#[derive(Debug)]
pub struct FuzzedMemory<'a> {
    body: &'a [u8],
    /// Addresses that are mapped: the first, and how many.
    ranges: [(u64, u64); 3],
    loads: Cell<u64>,
    octets: Cell<u64>,
}

impl<'a> FuzzedMemory<'a> {
    /// Of this body. `repeats`: it follows itself.
    #[must_use]
    pub fn new(body: &'a [u8], repeats: bool) -> Self {
        let length = body.len() as u64;
        let low = if repeats { REPEATED_OCTETS } else { length };
        let ranges = [(BASE, low), (USER_END - length, length), (u64::MAX - length + 1, length)];
        FuzzedMemory { body, ranges, loads: Cell::new(0), octets: Cell::new(0) }
    }

    /// What `reads` gives, how many loads it made, and how many octets it loaded.
    pub fn count<T>(&self, reads: impl FnOnce() -> T) -> (T, u64, u64) {
        let before = (self.loads.get(), self.octets.get());
        let result = reads();
        (result, self.loads.get() - before.0, self.octets.get() - before.1)
    }

    /// As many pairs of words as can be read at an address, at most `most`.
    #[must_use]
    pub fn pairs(&self, at: u64, most: usize) -> Vec<[u64; 2]> {
        let pair = |i: u64| {
            let at = at.checked_add(16 * i)?;
            Some([self.read_word(at)?, self.read_word(at.checked_add(8)?)?])
        };
        (0..most as u64).map_while(pair).collect()
    }
}

impl Memory for FuzzedMemory<'_> {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        self.loads.set(self.loads.get() + 1);
        let wanted = into.len() as u64;
        let mapped = |&(first, octets): &(u64, u64)| {
            let offset = at.checked_sub(first)?;
            (offset.checked_add(wanted)? <= octets).then_some(offset)
        };
        let Some(offset) = self.ranges.iter().find_map(mapped) else { return false };
        self.octets.set(self.octets.get() + wanted);
        let mut from = (offset % self.body.len() as u64) as usize;
        let mut rest = into;
        while !rest.is_empty() {
            let here = rest.len().min(self.body.len() - from);
            let (part, others) = rest.split_at_mut(here);
            part.copy_from_slice(&self.body[from..from + here]);
            (rest, from) = (others, 0);
        }
        true
    }
}

impl ThreadMemory for FuzzedMemory<'_> {
    fn look_again(&self, at: u64) -> bool {
        self.bytes::<1>(at).is_some()
    }
}
