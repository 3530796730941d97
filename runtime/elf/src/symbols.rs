//! Dynamic symbols by name, through the hash table that the loader uses.

use crate::Memory;

/// Most entries of a dynamic section.
const MOST_ENTRIES: u64 = 512;
/// Longest chain of symbols with one hash bucket that is followed.
const LONGEST_CHAIN: u32 = 1 << 16;
/// Most symbols of a table without a GNU hash.
const MOST_SYMBOLS: u32 = 1 << 20;

/// A symbol that the image defines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Its address, relocated.
    pub address: u64,
    /// Its size in bytes, as the table has it; 0 = not said.
    pub bytes: u64,
}

/// The tables of a dynamic section.
#[derive(Clone, Copy, Debug, Default)]
pub struct Symbols {
    bias: u64,
    strings: u64,
    string_bytes: u64,
    table: u64,
    gnu_hash: u64,
    hash: u64,
    versions: u64,
}

impl Symbols {
    /// Reads the dynamic section at `dynamic`. Pointers below the bias are offsets (musl and the vdso leave them so).
    #[must_use]
    pub fn new<M: Memory>(memory: &M, dynamic: u64, bias: u64) -> Option<Symbols> {
        let mut found = Symbols { bias, ..Default::default() };
        for entry in 0..MOST_ENTRIES {
            let at = dynamic.checked_add(16 * entry)?;
            let (tag, value) = (memory.word(at)?, memory.word(at.checked_add(8)?)?);
            let address = if value < bias { value.wrapping_add(bias) } else { value };
            match tag {
                0 => break,
                4 => found.hash = address,
                5 => found.strings = address,
                6 => found.table = address,
                10 => found.string_bytes = value,
                0x6fff_fef5 => found.gnu_hash = address,
                0x6fff_fff0 => found.versions = address,
                _ => {}
            }
        }
        (found.table != 0 && found.strings != 0).then_some(found)
    }

    /// The defined function or variable `name` in its default version. Indirect functions are not functions.
    #[must_use]
    pub fn find<M: Memory>(&self, memory: &M, name: &[u8]) -> Option<Symbol> {
        if self.gnu_hash != 0 { self.by_gnu_hash(memory, name) } else { self.by_hash(memory, name) }
    }

    fn by_gnu_hash<M: Memory>(&self, memory: &M, name: &[u8]) -> Option<Symbol> {
        let hash = name.iter().fold(5381_u32, |h, b| h.wrapping_mul(33).wrapping_add(u32::from(*b)));
        let at = |offset: u64| self.gnu_hash.checked_add(offset);
        let (buckets, first) = (memory.half(at(0)?)?, memory.half(at(4)?)?);
        let (bloom, shift) = (memory.half(at(8)?)?, memory.half(at(12)?)?);
        let filter = memory.word(at(16 + 8 * u64::from((hash / 64).checked_rem(bloom)?))?)?;
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
            // The last of a chain is odd.
            if word & 1 != 0 {
                return None;
            }
            index = index.checked_add(1)?;
        }
        None
    }

    fn by_hash<M: Memory>(&self, memory: &M, name: &[u8]) -> Option<Symbol> {
        if self.hash == 0 {
            return None;
        }
        let count = memory.half(self.hash.checked_add(4)?)?.min(MOST_SYMBOLS);
        (1..count).find_map(|index| self.symbol(memory, index, name))
    }

    fn symbol<M: Memory>(&self, memory: &M, index: u32, name: &[u8]) -> Option<Symbol> {
        let at = self.table.checked_add(24 * u64::from(index))?;
        let [name_at, info_and_section] = [memory.half(at)?, memory.half(at.checked_add(4)?)?];
        let (info, section) = (info_and_section & 15, info_and_section >> 16);
        let (value, bytes) = (memory.word(at.checked_add(8)?)?, memory.word(at.checked_add(16)?)?);
        // No type, variable or function; a section number of 0 is a reference to another image's symbol.
        if section == 0 || value == 0 || info > 2 || u64::from(name_at) >= self.string_bytes {
            return None;
        }
        let hidden = 0x8000;
        if self.versions != 0
            && memory.quarter(self.versions.checked_add(2 * u64::from(index))?)? & hidden != 0
        {
            return None;
        }
        let address = self.bias.wrapping_add(value);
        memory
            .text_is(self.strings.checked_add(u64::from(name_at))?, name)
            .then_some(Symbol { address, bytes })
    }
}
