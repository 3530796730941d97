//! The dynamic section, which tells the loader what to do.

use crate::Memory;

/// Most entries of a dynamic section that are read.
const MOST_ENTRIES: u64 = 512;

/// The addresses that a dynamic section gives, as addresses in the process. 0 = the section does not have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dynamic {
    /// Difference between addresses in the process and the image's own.
    pub bias: u64,
    /// The table of strings.
    pub strings: u64,
    /// Its length.
    pub string_bytes: u64,
    /// The table of symbols.
    pub symbols: u64,
    /// The GNU hash table over the symbols.
    pub gnu_hash: u64,
    /// The older hash table.
    pub hash: u64,
    /// Two bytes for each symbol: its version.
    pub versions: u64,
    /// The relocations with addends.
    pub relocations: u64,
    /// Their length in bytes.
    pub relocation_bytes: u64,
    /// How many of them, at the beginning, need no symbol.
    pub relative_relocations: u64,
    /// The relocations of functions that are called, with addends. The loader may write them at the first call.
    pub calls: u64,
    /// Their length in bytes.
    pub call_bytes: u64,
    /// Offset of the object's own name in the table of strings.
    pub soname: Option<u64>,
    /// The loader's `struct r_debug`; only the program's own section has it.
    pub debug: u64,
    /// Whether it has room for that address. The loader fills it when it starts its list of objects.
    pub has_debug: bool,
    /// Whether it names at least one library.
    pub needs_library: bool,
}

impl Dynamic {
    /// Reads the section at `at`, up to its end or the first entry that cannot be read.
    ///
    /// glibc relocates pointers in place. musl and the vdso leave them as offsets, so a value below the bias is an
    /// offset.
    #[must_use]
    pub fn read<M: Memory>(memory: &M, at: u64, bias: u64) -> Dynamic {
        let mut found = Dynamic { bias, ..Dynamic::default() };
        for entry in 0..MOST_ENTRIES {
            let Some(at) = at.checked_add(16 * entry) else { break };
            let Some(entry) = memory.bytes::<16>(at) else { break };
            let entry = entry.as_slice();
            let (Some(tag), Some(value)) = (entry.read_word(0), entry.read_word(8)) else { break };
            let address = if value < bias { value.wrapping_add(bias) } else { value };
            match tag {
                0 => break,
                1 => found.needs_library = true,
                2 => found.call_bytes = value,
                4 => found.hash = address,
                5 => found.strings = address,
                6 => found.symbols = address,
                7 => found.relocations = address,
                8 => found.relocation_bytes = value,
                10 => found.string_bytes = value,
                14 => found.soname = Some(value),
                21 => (found.debug, found.has_debug) = (value, true),
                23 => found.calls = address,
                0x6fff_fef5 => found.gnu_hash = address,
                0x6fff_fff0 => found.versions = address,
                0x6fff_fff9 => found.relative_relocations = value,
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn pointers_below_the_bias_are_offsets() {
        let words = [5_u64, 0x200, 6, 0x5000_0300, 10, 0x40, 14, 7, 1, 9, 0, 0, 21, 8];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let memory = bytes.as_slice();
        let found = Dynamic::read(&memory, 0, 0x5000_0000);
        assert_eq!((found.strings, found.symbols), (0x5000_0200, 0x5000_0300));
        assert_eq!((found.string_bytes, found.soname, found.needs_library), (0x40, Some(7), true));
        assert_eq!(found.debug, 0, "behind the end");
        let cut = &bytes[..40];
        assert_eq!(Dynamic::read(&cut, 0, 0).string_bytes, 0);
    }
}
