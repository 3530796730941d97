//! Whether the loader has written an image's relocations. Until then, pointers in the image's data are not valid.
//!
//! An object is mapped some time before it is relocated. Somebody who reads during another thread's `dlopen`, or from
//! outside the process, may read in between. With many libraries, or a slow resolver of an indirect function, that time
//! is long. The loader processes the table of relocations from its start, so the last ones show whether it is done. One
//! written word out of several is enough, because the program may change its own data later.

use crate::{Dynamic, Image, Memory};

/// Bytes of a relocation with an addend: {address, kind and symbol, addend}.
const ENTRY_BYTES: u64 = 24;
/// Bytes of a symbol, and the offsets in it of its type and of the number of its section.
const SYMBOL_BYTES: u64 = 24;
/// Most relocations that are read from the end of the table. Those of foreign symbols show nothing, since such symbols
/// may be missing.
const MOST_LOOKED_AT: usize = 4096;
/// Number of relocations that are checked, among those that show something.
const LAST: usize = 8;

/// Kinds of relocations, x86-64.
mod kind {
    /// Symbol and addend.
    pub(super) const SYMBOL: u64 = 1;
    /// Symbol.
    pub(super) const GLOBAL_DATA: u64 = 6;
    /// Bias and addend.
    pub(super) const RELATIVE: u64 = 8;
}

impl Image {
    /// Whether the loader has relocated the image, or all but the last few of its words. True for an image without
    /// relocations that show it.
    #[must_use]
    pub fn is_relocated<M: Memory>(&self, memory: &M) -> bool {
        let Some(at) = self.dynamic(memory) else { return true };
        let dynamic = Dynamic::read(memory, at, self.bias);
        let count = dynamic.relocation_bytes / ENTRY_BYTES;
        let last = (0..count).rev().take(MOST_LOOKED_AT);
        let mut told = last.filter_map(|index| is_written(memory, &dynamic, index)).take(LAST).peekable();
        told.peek().is_none() || told.any(|written| written)
    }
}

/// Whether the relocation with number `index` was written. `None`: its word does not show it, or cannot be read.
fn is_written<M: Memory>(memory: &M, dynamic: &Dynamic, index: u64) -> Option<bool> {
    let at = dynamic.relocations.checked_add(index.checked_mul(ENTRY_BYTES)?)?;
    let entry = memory.bytes::<24>(at)?;
    let entry = entry.as_slice();
    let (place, info, addend) = (entry.read_word(0)?, entry.read_word(8)?, entry.read_word(16)?);
    let word = memory.read_word(dynamic.bias.checked_add(place)?)?;
    match info & 0xffff_ffff {
        kind::RELATIVE => Some(word == dynamic.bias.wrapping_add(addend)),
        kind::SYMBOL | kind::GLOBAL_DATA => {
            let symbol = dynamic.symbols.checked_add((info >> 32).checked_mul(SYMBOL_BYTES)?)?;
            let entry = memory.bytes::<16>(symbol)?;
            let entry = entry.as_slice();
            let (section, value) = (entry.half(4)? >> 16, entry.read_word(8)?);
            // A symbol that the image defines has an address, in this image or in one that comes first.
            (section != 0 && value != 0).then_some(word != 0)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    const BIAS: u64 = 0x1_0000;
    /// Where this test's image has its parts.
    const HEADERS: u64 = 64;
    const DYNAMIC: u64 = 0x100;
    const SYMBOLS: u64 = 0x200;
    const RELOCATIONS: u64 = 0x300;
    const DATA: u64 = 0x500;

    /// An image at [`BIAS`] with these relocations (kind, symbol). Number i is for the word i of its data. Symbol 1 is
    /// the image's own, symbol 2 another object's.
    struct Mapped(Vec<u64>);

    impl Mapped {
        fn new(relocations: &[(u64, u64)]) -> Mapped {
            let mut image = Mapped(std::vec![0; 0x600 / 8]);
            image.set(0, &[u64::from_le_bytes(*b"\x7fELF\x02\x01\0\0"), 0, 62 << 16 | 3, 0, HEADERS]);
            image.set(48, &[56 << 48, 2]);
            image.set(HEADERS, &[1 | 4 << 32, 0, 0, 0, 0x600, 0x600, 0x1000]);
            image.set(HEADERS + 56, &[2 | 4 << 32, DYNAMIC, DYNAMIC, 0, 0x80, 0x80, 8]);
            let bytes = 24 * relocations.len() as u64;
            image.set(DYNAMIC, &[6, SYMBOLS, 7, RELOCATIONS, 8, bytes, 0, 0]);
            image.set(SYMBOLS + 24, &[1 << 48, 0x580]);
            for (i, (kind, symbol)) in (0..).zip(relocations) {
                image.set(RELOCATIONS + 24 * i, &[DATA + 8 * i, symbol << 32 | kind, 0x30]);
            }
            image
        }

        fn set(&mut self, at: u64, words: &[u64]) {
            let at = usize::try_from(at / 8).expect("small");
            self.0[at..at + words.len()].copy_from_slice(words);
        }

        fn is_relocated(&self) -> bool {
            let bytes: Vec<u8> = self.0.iter().flat_map(|word| word.to_le_bytes()).collect();
            let memory = crate::BytesAt { bytes: &bytes, at: BIAS };
            let image = Image::at_base(&memory, BIAS).expect("an image");
            assert_eq!(image.bias, BIAS);
            image.is_relocated(&memory)
        }
    }

    #[test]
    fn the_last_relocations_tell_unless_they_are_of_other_objects() {
        use kind::{GLOBAL_DATA, RELATIVE, SYMBOL};
        for last in [(RELATIVE, 0), (SYMBOL, 1), (GLOBAL_DATA, 1)] {
            let mut relocations = std::vec![(RELATIVE, 0); 3];
            relocations.extend([last; LAST]);
            // Another object's symbol, and an unknown kind.
            relocations.extend([(SYMBOL, 2), (37, 0)]);
            let mut image = Mapped::new(&relocations);
            assert!(!image.is_relocated(), "{last:?}");
            image.set(DATA, &[BIAS + 0x30; 3]);
            image.set(DATA + 8 * (3 + LAST as u64), &[7, 7]);
            assert!(!image.is_relocated(), "{last:?}");
            // The program has changed later words.
            image.set(DATA + 8 * 4, &[BIAS + 0x30]);
            assert!(image.is_relocated(), "{last:?}");
        }
        assert!(Mapped::new(&[]).is_relocated());
        assert!(Mapped::new(&[(SYMBOL, 2)]).is_relocated());
    }

    #[test]
    fn a_linker_may_have_left_the_addend_in_place() {
        let mut image = Mapped::new(&[(kind::RELATIVE, 0)]);
        image.set(DATA, &[0x30]);
        assert!(!image.is_relocated());
    }
}
