//! The memory of another process during one sample: a page is read once, and anew for the next sample, as the process
//! has run meanwhile.

use crate::memory::{Memory as _, ProcessMemory};
use pct_elf::Memory;
use pct_languages::ThreadMemory;
use std::cell::RefCell;
use std::collections::HashMap;

const PAGE: usize = 4096;

/// A process's memory during one sample.
pub(super) struct Pages<'m> {
    memory: &'m ProcessMemory,
    read: RefCell<HashMap<u64, Option<Box<[u8; PAGE]>>>>,
}

impl Pages<'_> {
    /// Nothing is read yet.
    pub(super) fn new(memory: &ProcessMemory) -> Pages<'_> {
        Pages { memory, read: RefCell::default() }
    }
}

impl Memory for Pages<'_> {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        let mut pages = self.read.borrow_mut();
        let mut done = 0;
        while done < into.len() {
            let Some(from) = at.checked_add(done as u64) else { return false };
            let (base, offset) =
                (from & !(PAGE as u64 - 1), usize::try_from(from % PAGE as u64).unwrap_or(0));
            let page = pages.entry(base).or_insert_with(|| {
                let mut page = Box::new([0; PAGE]);
                self.memory.read(base, &mut page[..]).is_ok().then_some(page)
            });
            let Some(page) = page else { return false };
            let length = (PAGE - offset).min(into.len() - done);
            into[done..done + length].copy_from_slice(&page[offset..offset + length]);
            done += length;
        }
        true
    }
}

impl ThreadMemory for Pages<'_> {}
