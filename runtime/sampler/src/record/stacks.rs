//! The table of distinct stacks of a process: frames -> id, shared by all threads.
//!
//! A stack is a node (frame, parent's node); the file holds the nodes as `STACK` records, each a run of new nodes below a
//! known one, so that common outer parts are stored once. In private memory there are two hash tables: entire stacks by the
//! hash of their frames (what a handler asks nearly always), and nodes by (parent, frame) to find the known part of a new
//! stack. Both are open-addressed, grow by levels, never shrink, and are read without a lock; adding takes the keep lock, and
//! who does not get it puts the frames into the sample itself.
//!
//! Two stacks with the same 64-bit hash would be taken for one: for a million stacks that is one chance in 37 million.
//!
//! Signal safety: loads; stores under the keep lock; no waiting.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::record::chain::Chain;
use crate::record::log::Log;
use crate::sys;
use crate::sys::lock::Lock;
use pct_format::head::{Head, kind};

/// Places for stacks and nodes to begin with.
const STACKS: usize = 1 << 16;
const NODES: usize = 1 << 18;
/// Further levels of a table: the last has 64 times the places.
const MORE: usize = 3;
/// Places looked at before a level counts as full there.
const PROBES: usize = 16;
/// Nodes written per record: bounds the time the keep lock is held, and fits any segment.
const RUN: usize = 128;

/// One place of a table: key 0 = free.
#[derive(Debug)]
#[repr(C)]
struct Slot {
    key: AtomicU64,
    id: AtomicU64,
}

/// The tables. All zeros is empty.
#[derive(Debug)]
#[repr(C)]
pub struct Stacks {
    next: AtomicU32,
    stacks: Table<STACKS>,
    nodes: Table<NODES>,
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hash of the frames; never 0.
#[inline(always)]
fn hash(frames: &[u64]) -> u64 {
    // Two independent lanes: the multiplications overlap.
    let (pairs, odd) = frames.as_chunks::<2>();
    let (mut a, mut b) = (GOLDEN, !GOLDEN);
    for [x, y] in pairs {
        a = (a ^ x).wrapping_mul(GOLDEN).rotate_left(29);
        b = (b ^ y).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(31);
    }
    for x in odd {
        a = (a ^ x).wrapping_mul(GOLDEN).rotate_left(29);
    }
    mix(a ^ b.rotate_left(17) ^ frames.len() as u64).max(1)
}

#[inline(always)]
fn mix(mut x: u64) -> u64 {
    x ^= x >> 32;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^= x >> 32;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ x >> 32
}

#[inline(always)]
fn node_key(parent: u32, frame: u64) -> u64 {
    mix(frame ^ u64::from(parent).wrapping_mul(GOLDEN)).max(1)
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
fn look(level: &[Slot], key: u64) -> Looked {
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

/// Adds under the keep lock. False: no place near.
fn put(level: &[Slot], key: u64, id: u32) -> bool {
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

/// A hash table in levels, each four times as large as the one before. A key is at the first level that had a place for it
/// when it came, and places are never freed: where a level has a free place for a key, no later one has the key.
#[derive(Debug)]
#[repr(C)]
struct Table<const N: usize> {
    first: [Slot; N],
    more: [AtomicPtr<Slot>; MORE],
}

impl<const N: usize> Table<N> {
    const fn len(level: usize) -> usize {
        N << (2 * (level + 1))
    }

    fn further(&self, level: usize) -> Option<&[Slot]> {
        let at = self.more.get(level)?.load(Ordering::Acquire);
        // SAFETY: a mapping of ours of so many slots that is never given back; zeros are empty slots.
        (!at.is_null()).then(|| unsafe { core::slice::from_raw_parts(at, Self::len(level)) })
    }

    #[inline(always)]
    fn find(&self, key: u64) -> Option<u32> {
        match look(&self.first, key) {
            Looked::Found(id) => Some(id),
            Looked::Nowhere => None,
            Looked::Crowded => self.find_further(key),
        }
    }

    #[inline(never)]
    fn find_further(&self, key: u64) -> Option<u32> {
        for level in 0..MORE {
            match look(self.further(level)?, key) {
                Looked::Found(id) => return Some(id),
                Looked::Nowhere => return None,
                Looked::Crowded => {}
            }
        }
        None
    }

    /// Unmaps the further levels.
    fn unmap(&self) {
        for (level, place) in self.more.iter().enumerate() {
            let slots = place.swap(core::ptr::null_mut(), Ordering::AcqRel);
            if !slots.is_null() {
                // SAFETY: made by `insert` with this length; nobody uses it any more.
                unsafe { sys::unmap(slots.cast(), Self::len(level) * size_of::<Slot>()) };
            }
        }
    }

    /// Adds under the keep lock. False: it has no place, and no memory for more.
    fn insert(&self, key: u64, id: u32, may_call: bool) -> bool {
        if put(&self.first, key, id) {
            return true;
        }
        for (level, place) in self.more.iter().enumerate() {
            if place.load(Ordering::Relaxed).is_null() {
                let bytes = Self::len(level) * size_of::<Slot>();
                let Some(memory) = may_call.then(|| sys::map_memory(bytes).ok()).flatten() else {
                    return false;
                };
                // SAFETY: fresh memory of our own. The child of a fork begins without it.
                let _ = unsafe { sys::madvise(memory, bytes, sys::MADV_DONTFORK) };
                place.store(memory.cast(), Ordering::Release);
            }
            if self.further(level).is_some_and(|slots| put(slots, key, id)) {
                return true;
            }
        }
        false
    }
}

impl Stacks {
    /// Unmaps what it has beside itself. Nobody is in the session any more.
    pub fn unmap(&self) {
        self.stacks.unmap();
        self.nodes.unmap();
    }

    /// The id of a stack: frame words, innermost caller first ([`pct_format::record::Frame::encode`]). 0 for no frames.
    ///
    /// `None`: it is new and cannot be added now (lock taken, table or file full): the sample carries the frames itself.
    #[inline(always)]
    #[must_use]
    pub fn id(&self, log: &Log, keep: &Lock<Chain>, may_call: bool, frames: &[u64]) -> Option<u32> {
        if frames.is_empty() {
            return Some(0);
        }
        let key = hash(frames);
        match self.stacks.find(key) {
            Some(id) => Some(id),
            None => self.add(log, &mut *keep.try_lock()?, may_call, frames, key),
        }
    }

    #[cold]
    #[inline(never)]
    fn add(&self, log: &Log, keep: &mut Chain, may_call: bool, frames: &[u64], key: u64) -> Option<u32> {
        // From the outermost frame inwards as far as the nodes are known.
        let mut parent = 0;
        let mut known = 0;
        for frame in frames.iter().rev() {
            match self.nodes.find(node_key(parent, *frame)) {
                Some(id) => parent = id,
                None => break,
            }
            known += 1;
        }
        let mut rest = frames.get(..frames.len() - known)?;
        let mut words = [0u64; RUN + 2];
        while !rest.is_empty() {
            let run = rest.len().min(RUN);
            let (inner, outer) = rest.split_at_checked(rest.len() - run)?;
            let first = self.next.load(Ordering::Relaxed).checked_add(1)?;
            let last = first.checked_add(run as u32 - 1)?;
            let (head, body) = words.split_first_chunk_mut::<2>()?;
            *head =
                [Head { kind: kind::STACK, words: run as u16 + 2, arg: parent }.encode(), u64::from(first)];
            for (place, frame) in body.iter_mut().zip(outer.iter().rev()) {
                *place = *frame;
            }
            // The file first: an id that handlers can find is always defined before the samples that use it.
            if !keep.append(log, may_call, words.get(..run + 2)?, &[]) {
                return None;
            }
            self.next.store(last, Ordering::Relaxed);
            for (id, frame) in (first..).zip(outer.iter().rev()) {
                // A node without a place is defined again when it is met again: costs room, not truth.
                self.nodes.insert(node_key(parent, *frame), id, may_call);
                parent = id;
            }
            rest = inner;
        }
        self.stacks.insert(key, parent, may_call);
        Some(parent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_grows_and_forgets_nothing() {
        let table: &Table<64> = {
            let memory = sys::map_memory(size_of::<Table<64>>()).expect("memory");
            // SAFETY: zeros are an empty table.
            unsafe { &*memory.cast() }
        };
        // 64 + 256 + 1024 + 4096 places; the last are hard to find.
        let keys: Vec<u64> = (0..2500).map(|i| mix(i) | 1).collect();
        let mut added = 0;
        for (id, key) in (1..).zip(&keys) {
            assert_eq!(table.find(*key), None);
            added += u32::from(table.insert(*key, id, true));
            for (id, key) in (1..=id).zip(&keys).step_by(97).filter(|_| added == id) {
                assert_eq!(table.find(*key), Some(id));
            }
        }
        assert_eq!(added, 2500);
        assert!((1..).zip(&keys).all(|(id, key)| table.find(*key) == Some(id)));
        assert!((5000..6000).all(|i| table.find(mix(i) | 1).is_none()));
    }

    #[test]
    fn without_system_calls_a_table_stays_as_it_is() {
        let memory = sys::map_memory(size_of::<Table<64>>()).expect("memory");
        // SAFETY: zeros are an empty table.
        let table: &Table<64> = unsafe { &*memory.cast() };
        let added = (0..1000).filter(|i| table.insert(mix(*i) | 1, *i as u32, false)).count();
        assert!((32..=64).contains(&added));
    }
}
