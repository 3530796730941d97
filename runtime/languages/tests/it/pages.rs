//! A made-up memory.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use pct_elf::Memory;
use pct_languages::ThreadMemory;

/// Pages of memory at addresses; nothing else is mapped.
#[derive(Clone, Default)]
pub(crate) struct Pages {
    areas: RefCell<BTreeMap<u64, Vec<u8>>>,
    /// How often something was read that is not there.
    pub(crate) outside: Cell<u64>,
}

impl Pages {
    pub(crate) fn map(&self, at: u64, octets: usize) {
        self.areas.borrow_mut().insert(at, vec![0; octets]);
    }

    pub(crate) fn write(&self, at: u64, bytes: &[u8]) {
        let mut areas = self.areas.borrow_mut();
        let (start, area) = areas.range_mut(..=at).next_back().expect("mapped");
        let from = usize::try_from(at - start).expect("small");
        area[from..from + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn word(&self, at: u64, value: u64) {
        self.write(at, &value.to_le_bytes());
    }

    pub(crate) fn read(&self, at: u64) -> u64 {
        self.read_word(at).expect("mapped")
    }

    pub(crate) fn half(&self, at: u64, value: u32) {
        self.write(at, &value.to_le_bytes());
    }

    pub(crate) fn quarter(&self, at: u64, value: u16) {
        self.write(at, &value.to_le_bytes());
    }
}

impl Memory for Pages {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        let areas = self.areas.borrow();
        let found = areas.range(..=at).next_back().and_then(|(start, area)| {
            let from = usize::try_from(at - start).ok()?;
            area.get(from..from.checked_add(into.len())?)
        });
        match found {
            Some(bytes) => into.copy_from_slice(bytes),
            None => self.outside.set(self.outside.get() + 1),
        }
        found.is_some()
    }
}

impl ThreadMemory for Pages {
    fn look_again(&self, at: u64) -> bool {
        self.bytes::<1>(at).is_some()
    }
}
