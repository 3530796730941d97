//! Hash tables of numbers that handlers read while one of them adds: 64-bit key -> 32-bit number.
//!
//! Open-addressed; grows by levels, never shrinks, and is read without a lock. Who adds holds a lock of the table's
//! owner.
//!
//! Signal safety: loads; stores under the owner's lock; a further level is one mapping of memory.

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::sys;

/// Further levels of a table: the last has 4096 times the places.
const MORE: usize = 3;
/// Each level has two to this power times the places of the one before.
const GROWTH: usize = 4;

/// One place of a table: key 0 = free.
#[derive(Debug)]
#[repr(C)]
struct Slot {
    key: AtomicU64,
    id: AtomicU64,
}

/// Spreads each bit over the word.
#[inline(always)]
#[must_use]
pub fn mix(mut x: u64) -> u64 {
    x ^= x >> 32;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^= x >> 32;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ x >> 32
}

/// What looking for a key at one level gives.
enum Looked {
    Found(u32),
    /// There is a free place where it would be: no level has it.
    Nowhere,
    /// All places are taken by others: it may be at the next level.
    Crowded,
}

#[inline(always)]
fn find_in_level<const PROBES: usize>(level: &[Slot], key: u64) -> Looked {
    let mask = level.len() - 1;
    for probe in 0..PROBES {
        let Some(slot) = level.get(((key >> 20) as usize + probe) & mask) else { return Looked::Nowhere };
        match slot.key.load(Ordering::Acquire) {
            k if k == key => return Looked::Found(slot.id.load(Ordering::Relaxed) as u32),
            0 => return Looked::Nowhere,
            _ => {}
        }
    }
    Looked::Crowded
}

/// Adds a key; one thread at a time. False: no place near.
fn insert_in_level<const PROBES: usize>(level: &[Slot], key: u64, id: u32) -> bool {
    let mask = level.len() - 1;
    for probe in 0..PROBES {
        let Some(slot) = level.get(((key >> 20) as usize + probe) & mask) else { return false };
        if slot.key.load(Ordering::Relaxed) == 0 {
            slot.id.store(u64::from(id), Ordering::Relaxed);
            // Release: whoever sees the key sees the id.
            slot.key.store(key, Ordering::Release);
            return true;
        }
    }
    false
}

/// A hash table in levels. The first has `PLACES` places, and each further one sixteen times as many as the one before:
/// keys are spread over all pages of a level, so few keys are to be in a small one. A key is at the first level where
/// one of `PROBES` places was free for it when it came, and places are never freed: where a level has a free place for
/// a key, no later one has the key. Few `PROBES` make a look-up quick in a table of several levels, and fill each level
/// less.
#[derive(Debug)]
#[repr(C)]
pub struct Table<const PLACES: usize, const PROBES: usize> {
    first: [Slot; PLACES],
    more: [AtomicPtr<Slot>; MORE],
}

impl<const PLACES: usize, const PROBES: usize> Table<PLACES, PROBES> {
    const fn len(level: usize) -> usize {
        PLACES << (GROWTH * (level + 1))
    }

    fn further(&self, level: usize) -> Option<&[Slot]> {
        let at = self.more.get(level)?.load(Ordering::Acquire);
        // SAFETY: our own mapping of `len(level)` slots that is never given back; zeros are empty slots.
        (!at.is_null()).then(|| unsafe { core::slice::from_raw_parts(at, Self::len(level)) })
    }

    #[inline(always)]
    /// The number under a key.
    #[must_use]
    pub fn find(&self, key: u64) -> Option<u32> {
        match find_in_level::<PROBES>(&self.first, key) {
            Looked::Found(id) => Some(id),
            Looked::Nowhere => None,
            Looked::Crowded => self.find_further(key),
        }
    }

    #[inline(never)]
    fn find_further(&self, key: u64) -> Option<u32> {
        for level in 0..MORE {
            match find_in_level::<PROBES>(self.further(level)?, key) {
                Looked::Found(id) => return Some(id),
                Looked::Nowhere => return None,
                Looked::Crowded => {}
            }
        }
        None
    }

    /// Unmaps the further levels.
    pub fn unmap(&self) {
        for (level, place) in self.more.iter().enumerate() {
            let slots = place.swap(core::ptr::null_mut(), Ordering::AcqRel);
            if !slots.is_null() {
                // SAFETY: made by `insert` with this length; nobody uses it any more.
                unsafe { sys::unmap(slots.cast(), Self::len(level) * size_of::<Slot>()) };
            }
        }
    }

    /// Maps a further level if it is not there; one thread at a time. False: there is no memory for it.
    fn map_further(&self, level: usize, may_call: bool) -> bool {
        let Some(place) = self.more.get(level) else { return false };
        if place.load(Ordering::Relaxed).is_null() {
            let bytes = Self::len(level) * size_of::<Slot>();
            let Some(memory) = may_call.then(|| sys::map_memory(bytes).ok()).flatten() else {
                return false;
            };
            // SAFETY: fresh memory of our own. The child of a fork begins without it.
            let _ = unsafe { sys::madvise(memory, bytes, sys::MADV_DONTFORK) };
            place.store(memory.cast(), Ordering::Release);
        }
        true
    }

    /// Makes sure of some further levels, because none can be added from now on; one thread at a time.
    pub fn secure(&self, levels: usize) {
        for level in 0..levels {
            self.map_further(level, true);
        }
    }

    /// Adds a key; one thread at a time. False: it has no place, and no memory for more.
    pub fn insert(&self, key: u64, id: u32, may_call: bool) -> bool {
        if insert_in_level::<PROBES>(&self.first, key, id) {
            return true;
        }
        for level in 0..MORE {
            if !self.map_further(level, may_call) {
                return false;
            }
            if self.further(level).is_some_and(|slots| insert_in_level::<PROBES>(slots, key, id)) {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_grows_and_forgets_nothing() {
        let table: &Table<64, 16> = {
            let memory = sys::map_memory(size_of::<Table<64, 16>>()).expect("memory");
            // SAFETY: zeros are an empty table.
            unsafe { &*memory.cast() }
        };
        // 64 + 1024 + 16384 + 262144 places; the last are hard to find.
        let keys: Vec<u64> = (0..60_000).map(|i| mix(i) | 1).collect();
        let mut added = 0;
        for (id, key) in (1..).zip(&keys) {
            assert_eq!(table.find(*key), None);
            added += u32::from(table.insert(*key, id, true));
            if id % 997 == 0 {
                let known = (1..=id).zip(&keys).step_by(97);
                assert!(known.into_iter().all(|(id, key)| table.find(*key) == Some(id)));
            }
        }
        assert_eq!(added, 60_000);
        assert!((1..).zip(&keys).all(|(id, key)| table.find(*key) == Some(id)));
        assert!((200_000..201_000).all(|i| table.find(mix(i) | 1).is_none()));
    }

    #[test]
    fn without_system_calls_a_table_stays_as_it_is() {
        let memory = sys::map_memory(size_of::<Table<64, 16>>()).expect("memory");
        // SAFETY: zeros are an empty table.
        let table: &Table<64, 16> = unsafe { &*memory.cast() };
        let added = (0..1000).filter(|i| table.insert(mix(*i) | 1, *i as u32, false)).count();
        assert!((32..=64).contains(&added));
        table.secure(1);
        let more = (1000..1500).filter(|i| table.insert(mix(*i) | 1, *i as u32, false)).count();
        assert!(more > 480, "{more} of 500 in 1024 places");
    }
}
