//! Strings of a profile: each distinct one is stored once, with the octets of the file.
//!
//! They are usually UTF-8. Other octets are kept, and shown as U+FFFD.

use std::borrow::Cow;
use std::hash::{BuildHasher, RandomState};

/// A string of a profile. Two strings of one profile are equal if their ids are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StrId(pub(crate) u32);

/// All strings of a profile.
///
/// Invariant: `ends` ascends, its last is `octets.len()`; `table` contains id + 1 or 0, its length is a power of two,
/// and it is at most half full.
#[derive(Clone, Debug)]
pub struct Strings {
    octets: Vec<u8>,
    ends: Vec<u32>,
    table: Vec<u32>,
    hasher: RandomState,
}

impl Default for Strings {
    fn default() -> Self {
        let mut new =
            Self { octets: Vec::new(), ends: Vec::new(), table: vec![0; 64], hasher: RandomState::new() };
        let empty = new.intern(b"");
        debug_assert_eq!(empty, Some(Strings::EMPTY));
        new
    }
}

impl Strings {
    /// The empty string, in every table.
    pub const EMPTY: StrId = StrId(0);

    /// The id of a string, which is added if it is new. `None`: 4 GiB are in use.
    pub fn intern(&mut self, text: &[u8]) -> Option<StrId> {
        let mut slot = self.slot_of(text);
        if let Some(id) = self.table[slot].checked_sub(1) {
            return Some(StrId(id));
        }
        let end = u32::try_from(self.octets.len() + text.len()).ok()?;
        let id = u32::try_from(self.ends.len()).ok().filter(|&n| n < u32::MAX - 1)?;
        self.octets.extend_from_slice(text);
        self.ends.push(end);
        if self.ends.len() * 2 > self.table.len() {
            self.table = vec![0; self.table.len() * 2];
            for n in 0..id {
                let slot = self.slot_of(self.octets_at(n));
                self.table[slot] = n + 1;
            }
            slot = self.slot_of(text);
        }
        self.table[slot] = id + 1;
        Some(StrId(id))
    }
    /// The id of a string, if the profile has it.
    pub fn find(&self, text: &[u8]) -> Option<StrId> {
        self.table[self.slot_of(text)].checked_sub(1).map(StrId)
    }
    /// The octets of a string, as they stand in the file.
    pub fn octets(&self, id: StrId) -> &[u8] {
        self.octets_at(id.0)
    }
    /// The string as text. Octets that are not UTF-8 become U+FFFD.
    pub fn text(&self, id: StrId) -> Cow<'_, str> {
        String::from_utf8_lossy(self.octets(id))
    }
    /// Number of distinct strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }
    /// Always false: the empty string is in every table.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
    fn octets_at(&self, n: u32) -> &[u8] {
        let n = n as usize;
        let start = if n == 0 { 0 } else { self.ends[n - 1] as usize };
        &self.octets[start..self.ends[n] as usize]
    }
    #[expect(clippy::cast_possible_truncation, reason = "the low bits of a hash")]
    fn slot_of(&self, text: &[u8]) -> usize {
        let mask = self.table.len() - 1;
        let mut slot = self.hasher.hash_one(text) as usize & mask;
        loop {
            match self.table[slot].checked_sub(1) {
                Some(n) if self.octets_at(n) != text => slot = (slot + 1) & mask,
                _ => return slot,
            }
        }
    }
    pub(crate) fn heap_bytes(&self) -> usize {
        self.octets.capacity() + (self.ends.capacity() + self.table.capacity()) * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn strings_come_back_and_are_kept_once(texts in prop::collection::vec(
            prop::collection::vec(0..4_u8, 0..4), 0..300)) {
            let mut strings = Strings::default();
            let ids: Vec<_> = texts.iter().map(|t| strings.intern(t).unwrap()).collect();
            for (a, ia) in texts.iter().zip(&ids) {
                prop_assert_eq!(strings.octets(*ia), &a[..]);
                prop_assert_eq!(strings.find(a), Some(*ia));
                for (b, ib) in texts.iter().zip(&ids) {
                    prop_assert_eq!(a == b, ia == ib);
                }
            }
        }
    }
}
