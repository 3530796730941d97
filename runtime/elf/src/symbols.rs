//! Finds dynamic symbols by name, in the hash table that the loader uses.

use crate::{Dynamic, Memory};

/// Longest chain of symbols in one hash bucket that is followed.
const LONGEST_CHAIN: u32 = 1 << 16;

/// A symbol that the image defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its address, relocated.
    pub address: u64,
    /// Its size in bytes according to the table; 0 = unknown.
    pub bytes: u64,
}

/// The tables that describe a dynamic section's symbols.
#[derive(Clone, Copy, Debug)]
pub struct Symbols(Dynamic);

impl Dynamic {
    /// Its symbols. `None`: it has no symbol tables.
    #[must_use]
    pub fn symbols(self) -> Option<Symbols> {
        (self.symbols != 0 && self.strings != 0).then_some(Symbols(self))
    }
}

impl Symbols {
    /// The symbols of the dynamic section at `dynamic`, of an image with this bias.
    #[must_use]
    pub fn new<M: Memory>(memory: &M, dynamic: u64, bias: u64) -> Option<Symbols> {
        Dynamic::read(memory, dynamic, bias).symbols()
    }

    /// The defined function or variable `name` in its default version. Indirect functions are skipped.
    #[must_use]
    pub fn find<M: Memory>(&self, memory: &M, name: &[u8]) -> Option<Symbol> {
        if self.0.gnu_hash != 0 { self.by_gnu_hash(memory, name) } else { self.by_hash(memory, name) }
    }

    fn by_gnu_hash<M: Memory>(&self, memory: &M, name: &[u8]) -> Option<Symbol> {
        let hash = name.iter().fold(5381_u32, |h, b| h.wrapping_mul(33).wrapping_add(u32::from(*b)));
        let at = |offset: u64| self.0.gnu_hash.checked_add(offset);
        let head = memory.bytes::<16>(self.0.gnu_hash)?;
        let head = head.as_slice();
        let (buckets, first, bloom, shift) = (head.half(0)?, head.half(4)?, head.half(8)?, head.half(12)?);
        let filter = memory.read_word(at(16 + 8 * u64::from((hash / 64).checked_rem(bloom)?))?)?;
        if filter >> (hash % 64) & filter >> ((hash >> (shift & 31)) % 64) & 1 == 0 {
            return None;
        }
        let buckets_at = 16 + 8 * u64::from(bloom);
        let chains_at = buckets_at + 4 * u64::from(buckets);
        let mut index = memory.half(at(buckets_at + 4 * u64::from(hash.checked_rem(buckets)?))?)?;
        for _ in 0..LONGEST_CHAIN {
            let word = memory.half(at(chains_at + 4 * u64::from(index.checked_sub(first)?))?)?;
            if word | 1 == hash | 1
                && let Some(found) = self.symbol(memory, index, name)
            {
                return Some(found);
            }
            // The last word of a chain is odd.
            if word & 1 != 0 {
                return None;
            }
            index = index.checked_add(1)?;
        }
        None
    }

    fn by_hash<M: Memory>(&self, memory: &M, name: &[u8]) -> Option<Symbol> {
        if self.0.hash == 0 {
            return None;
        }
        let hash = name.iter().fold(0_u32, |h, b| {
            let h = (h << 4).wrapping_add(u32::from(*b));
            let top = h & 0xf000_0000;
            (h ^ (top >> 24)) & !top
        });
        let word = |index: u64| memory.half(self.0.hash.checked_add(4 * index)?);
        // The number of buckets, the number of symbols, the buckets, and for each symbol the next one of its bucket.
        let buckets = word(0)?;
        let mut index = word(2 + u64::from(hash.checked_rem(buckets)?))?;
        for _ in 0..LONGEST_CHAIN {
            if index == 0 {
                return None;
            }
            if let Some(found) = self.symbol(memory, index, name) {
                return Some(found);
            }
            index = word(2 + u64::from(buckets) + u64::from(index))?;
        }
        None
    }

    fn symbol<M: Memory>(&self, memory: &M, index: u32, name: &[u8]) -> Option<Symbol> {
        let at = self.0.symbols.checked_add(24 * u64::from(index))?;
        let entry = memory.bytes::<24>(at)?;
        let entry = entry.as_slice();
        let (name_at, info_and_section) = (entry.half(0)?, entry.half(4)?);
        let (info, section) = (info_and_section & 15, info_and_section >> 16);
        let (value, bytes) = (entry.read_word(8)?, entry.read_word(16)?);
        // Type none, variable or function. Section number 0 means a reference to another image's symbol.
        if section == 0 || value == 0 || info > 2 || u64::from(name_at) >= self.0.string_bytes {
            return None;
        }
        let hidden = 0x8000;
        if self.0.versions != 0
            && memory.quarter(self.0.versions.checked_add(2 * u64::from(index))?)? & hidden != 0
        {
            return None;
        }
        let address = self.0.bias.wrapping_add(value);
        memory
            .text_is(self.0.strings.checked_add(u64::from(name_at))?, name)
            .then_some(Symbol { address, bytes })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;
    use std::vec::Vec;

    const BIAS: u64 = 0x10_0000;

    /// A table of these symbols (name, type, section, version), all in one bucket of the older hash table.
    fn by_hash(symbols: &[(&str, u8, u16, u16)]) -> (Vec<u8>, Symbols) {
        let mut strings = vec![0_u8];
        let mut table = vec![0_u8; 24];
        let mut versions = vec![0_u8; 2];
        for (i, (name, kind, section, version)) in symbols.iter().enumerate() {
            table.extend(u32::try_from(strings.len()).expect("few").to_le_bytes());
            table.extend([*kind, 0]);
            table.extend(section.to_le_bytes());
            table.extend((0x1000 + i as u64).to_le_bytes());
            table.extend(7_u64.to_le_bytes());
            strings.extend(name.as_bytes());
            strings.push(0);
            versions.extend(version.to_le_bytes());
        }
        let count = u32::try_from(symbols.len()).expect("few");
        // One bucket, the chain through all symbols.
        let mut hash: Vec<u8> =
            [1, count + 1, 1, 0].iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
        hash.extend((1..=count).flat_map(|i| (if i < count { i + 1 } else { 0 }).to_le_bytes()));
        let mut dynamic = Dynamic { bias: BIAS, string_bytes: strings.len() as u64, ..Dynamic::default() };
        let mut bytes = vec![0_u8; 8];
        for (at, part) in [
            (&mut dynamic.strings, strings),
            (&mut dynamic.symbols, table),
            (&mut dynamic.versions, versions),
            (&mut dynamic.hash, hash),
        ] {
            *at = bytes.len() as u64;
            bytes.extend(part);
        }
        (bytes, dynamic.symbols().expect("tables"))
    }

    #[test]
    fn only_defined_functions_and_variables_of_the_default_version_are_found() {
        let (bytes, symbols) = by_hash(&[
            ("old", 2, 1, 0x8002),
            ("reference", 2, 0, 1),
            ("indirect", 10, 1, 1),
            ("both", 2, 1, 0x8002),
            ("both", 2, 1, 2),
        ]);
        let memory = bytes.as_slice();
        assert_eq!(symbols.find(&memory, b"both"), Some(Symbol { address: BIAS + 0x1004, bytes: 7 }));
        for name in [&b"old"[..], b"reference", b"indirect", b"bot", b"both2", b""] {
            assert_eq!(symbols.find(&memory, name), None, "{name:?}");
        }
    }

    #[test]
    fn a_chain_that_leads_into_itself_ends() {
        let (mut bytes, symbols) = by_hash(&[("one", 2, 1, 1), ("two", 2, 1, 1)]);
        // The second symbol's chain goes back to the first.
        let last = bytes.len() - 4;
        bytes[last] = 1;
        assert_eq!(symbols.find(&bytes.as_slice(), b"three"), None);
        assert!(symbols.find(&bytes.as_slice(), b"two").is_some());
        for len in 0..bytes.len() {
            let cut = &bytes[..len];
            let _ = symbols.find(&cut, b"two");
        }
    }
}
