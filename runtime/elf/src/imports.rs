//! The words through which an image calls functions of other objects: its global offset table.
//!
//! The loader writes the address of each function into a word of the image that calls it, before the program begins or
//! at the first call. The tables of relocations say which word is whose. Source: System V ABI, AMD64 supplement,
//! "Relocation Types"; only x86-64 images are read.

use crate::{Dynamic, Memory};

/// Bytes of a relocation with an addend: {address, kind and symbol, addend}.
const RELOCATION_BYTES: u64 = 24;
/// Bytes of a symbol.
const SYMBOL_BYTES: u64 = 24;
/// Most relocations of one table that are read.
const MOST: u64 = 1 << 20;

/// Kinds of relocations that hold the address of a function and no more.
const GLOBAL_DATA: u64 = 6;
/// The same, for the table of calls.
const JUMP_SLOT: u64 = 7;

/// Longest name that is looked for, in bytes without its NUL.
const LONGEST_NAME: usize = 31;

/// A word that holds the address of a function that the image itself does not define.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Import {
    /// Address of the word, relocated.
    pub slot: u64,
    /// Which of the names that were looked for it is.
    pub name: usize,
}

/// The imports of an image that have one of these names.
#[derive(Debug)]
pub struct Imports<'m, M> {
    memory: &'m M,
    dynamic: Dynamic,
    names: &'m [&'m [u8]],
    /// What is left of the two tables, the second one last: address of the next relocation, and their number.
    left: [(u64, u64); 2],
    relocations: Window,
    symbols: Window,
    strings: Window,
}

impl Dynamic {
    /// The imports with one of `names`, of at most 31 bytes each.
    pub fn imports<'m, M: Memory>(self, memory: &'m M, names: &'m [&'m [u8]]) -> Imports<'m, M> {
        let relative = self.relative_relocations.min(self.relocation_bytes / RELOCATION_BYTES);
        let first = self.relocations.saturating_add(relative * RELOCATION_BYTES);
        let count = self.relocation_bytes / RELOCATION_BYTES - relative;
        let has_symbols = self.symbols != 0 && self.strings != 0;
        let table = |at, count: u64| if has_symbols && at != 0 { (at, count.min(MOST)) } else { (0, 0) };
        Imports {
            memory,
            dynamic: self,
            names,
            left: [table(first, count), table(self.calls, self.call_bytes / RELOCATION_BYTES)],
            relocations: Window::EMPTY,
            symbols: Window::EMPTY,
            strings: Window::EMPTY,
        }
    }
}

impl<M: Memory> Imports<'_, M> {
    /// The import that a relocation is, if its name is looked for.
    fn import(&mut self, relocation: &[u8; 16]) -> Option<Import> {
        let relocation = relocation.as_slice();
        let (place, info) = (relocation.read_word(0)?, relocation.read_word(8)?);
        if !matches!(info & 0xffff_ffff, GLOBAL_DATA | JUMP_SLOT) {
            return None;
        }
        let symbol = self.dynamic.symbols.checked_add((info >> 32).checked_mul(SYMBOL_BYTES)?)?;
        let symbol: [u8; 8] = self.symbols.bytes(self.memory, symbol)?;
        let symbol = symbol.as_slice();
        let (name_at, section) = (u64::from(symbol.half(0)?), symbol.half(4)? >> 16);
        if section != 0 || name_at >= self.dynamic.string_bytes {
            return None;
        }
        let mut name = [0; LONGEST_NAME + 1];
        // The table ends with a NUL.
        let bytes =
            usize::try_from(self.dynamic.string_bytes - name_at).unwrap_or(name.len()).min(name.len());
        let at = self.dynamic.strings.checked_add(name_at)?;
        self.strings.copy(self.memory, at, name.get_mut(..bytes)?).then_some(())?;
        let bytes = name.iter().position(|byte| *byte == 0)?;
        let name = self.names.iter().position(|wanted| name.get(..bytes) == Some(*wanted))?;
        Some(Import { slot: self.dynamic.bias.wrapping_add(place), name })
    }
}

impl<M: Memory> Iterator for Imports<'_, M> {
    type Item = Import;

    fn next(&mut self) -> Option<Import> {
        loop {
            let (at, count) = self.left.iter_mut().find(|(_, count)| *count != 0)?;
            let relocation: Option<[u8; 16]> = self.relocations.bytes(self.memory, *at);
            let (Some(relocation), Some(next)) = (relocation, at.checked_add(RELOCATION_BYTES)) else {
                // Behind what cannot be read there is no more.
                *count = 0;
                continue;
            };
            (*at, *count) = (next, *count - 1);
            let import = self.import(&relocation);
            if import.is_some() {
                return import;
            }
        }
    }
}

/// Bytes that are read in one piece.
const WINDOW: usize = 1024;

/// The bytes that were read last. Neighbours are asked for mostly, and each read may be a system call.
#[derive(Debug)]
struct Window {
    at: u64,
    bytes: [u8; WINDOW],
    /// How many of them are known.
    known: usize,
}

impl Window {
    const EMPTY: Window = Window { at: 0, bytes: [0; WINDOW], known: 0 };

    /// As [`Memory::copy`].
    fn copy<M: Memory>(&mut self, memory: &M, at: u64, into: &mut [u8]) -> bool {
        if self.holds(at, into) {
            return true;
        }
        self.known = if memory.copy(at, &mut self.bytes) { WINDOW } else { 0 };
        self.at = at;
        // Near the end of what is mapped there is no whole window.
        self.holds(at, into) || memory.copy(at, into)
    }

    fn holds(&self, at: u64, into: &mut [u8]) -> bool {
        let bytes = self.bytes.get(..self.known).unwrap_or(&[]);
        crate::BytesAt { at: self.at, bytes }.copy(at, into)
    }

    fn bytes<const N: usize>(&mut self, memory: &impl Memory, at: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.copy(memory, at, &mut bytes).then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    const BIAS: u64 = 0x10_0000;
    const NAMES: &[&[u8]] = &[b"prctl", b"syscall"];

    /// Tables in memory at [`BIAS`].
    struct Tables {
        bytes: Vec<u8>,
        dynamic: Dynamic,
    }

    impl Tables {
        /// Of these relocations (kind, symbol) in two tables, the first with `relative` that need no symbol. Number i
        /// of both is for the word i. Symbols are {name, section}.
        fn new(relative: usize, tables: [&[(u64, u64)]; 2], symbols: &[(&str, u8)]) -> Tables {
            let mut all = Tables { bytes: std::vec![0; 8], dynamic: Dynamic::default() };
            let mut strings = std::vec![0];
            let mut entries = std::vec![0; 24];
            for (name, section) in symbols {
                let mut entry = [0; 24];
                entry[..4].copy_from_slice(&u32::try_from(strings.len()).expect("few").to_le_bytes());
                (entry[4], entry[6]) = (0x12, *section);
                entries.extend(entry);
                strings.extend(name.as_bytes());
                strings.push(0);
            }
            let mut word = 0..;
            let [relocations, calls] = tables.map(|table| -> Vec<u8> {
                let each = table.iter().zip(&mut word);
                let words = each.flat_map(|((kind, symbol), i)| [0x800 + 8 * i, symbol << 32 | kind, 0]);
                words.flat_map(u64::to_le_bytes).collect()
            });
            all.dynamic = Dynamic {
                bias: BIAS,
                string_bytes: strings.len() as u64,
                relocation_bytes: relocations.len() as u64,
                relative_relocations: relative as u64,
                call_bytes: calls.len() as u64,
                relocations: all.put(relocations),
                calls: all.put(calls),
                symbols: all.put(entries),
                strings: all.put(strings),
                ..Dynamic::default()
            };
            all
        }

        fn put(&mut self, part: Vec<u8>) -> u64 {
            let at = BIAS + self.bytes.len() as u64;
            self.bytes.extend(part);
            at
        }

        fn imports(&self, bytes: usize) -> Vec<(u64, usize)> {
            let memory = crate::BytesAt { at: BIAS, bytes: &self.bytes[..bytes] };
            let found = self.dynamic.imports(&memory, NAMES);
            found.map(|import| (import.slot - BIAS - 0x800, import.name)).collect()
        }
    }

    #[test]
    fn the_words_of_functions_that_others_define_are_found_in_both_tables() {
        let symbols = [("open", 0), ("syscall", 0), ("prctl", 0), ("prctl", 7), ("prctl2", 0), ("prct", 0)];
        let relative = [(8, 0); 50];
        let mut first = relative.to_vec();
        // Of data, of a kind with an addend, of functions.
        first.extend([(6, 1), (1, 2), (6, 2), (6, 4), (5, 3), (6, 5), (6, 6)]);
        let calls = [(7, 3), (7, 1), (7, 2), (7, 99)];
        let tables = Tables::new(relative.len(), [&first, &calls], &symbols);
        let whole = [(52 * 8, 1), (57 * 8, 0), (59 * 8, 1)];
        assert_eq!(tables.imports(tables.bytes.len()), whole);
        for bytes in 0..tables.bytes.len() {
            assert!(tables.imports(bytes).iter().all(|import| whole.contains(import)));
        }
    }

    #[test]
    fn tables_of_any_size_and_place_end() {
        for at in [0, 1, BIAS, u64::MAX - 30, u64::MAX] {
            for count in [0, 1, u64::MAX] {
                let dynamic = Dynamic {
                    relocations: at,
                    relocation_bytes: count,
                    relative_relocations: count / 3,
                    calls: at,
                    call_bytes: count,
                    symbols: at,
                    strings: at,
                    string_bytes: count,
                    ..Dynamic::default()
                };
                let memory: &[u8] = &[];
                assert_eq!(dynamic.imports(&memory, NAMES).count(), 0);
            }
        }
    }
}
