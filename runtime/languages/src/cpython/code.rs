//! What a code object says of itself: identity, names, first line, line table.
//!
//! An address is no identity: code made by `exec` dies and others take its place. [`identity`] is a number
//! over what the object points to; it changes when another object lies there.

use pct_elf::Memory;

use super::layout::Layout;
use crate::ThreadMemory;

/// A number that stands for one code object while it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity(pub u64);

/// Where a text lies, and in which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// Address of the first octet.
    pub at: u64,
    /// Characters.
    pub length: u64,
    /// Octets of a character: 1 (Latin-1, or ASCII), 2 (UCS-2) or 4 (UCS-4).
    pub width: u8,
}

/// Octets in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Octets {
    /// Address of the first.
    pub at: u64,
    /// How many.
    pub length: u64,
}

/// Offsets in text and bytes objects.
const LENGTH: u64 = 16;
const HASH: u64 = 24;
const STATE: u64 = 32;
const BYTES_DATA: u64 = 32;

/// Odd numbers by which the words of an identity are multiplied, so that all are mixed at the same time.
const FACTORS: [u64; 8] = [
    0xd6e8_feb8_6659_fd93,
    0x9e37_79b9_7f4a_7c15,
    0xbf58_476d_1ce4_e5b9,
    0x94d0_49bb_1331_11eb,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x27d4_eb2f_1656_67c5,
    0xff51_afd7_ed55_8ccd,
];

/// A number over words. Words that differ in any way have the same one as rarely as two random numbers are equal:
/// once in some 2^60 pairs, as addresses have four bits that are always 0.
#[inline(always)]
fn mix<const N: usize>(words: [u64; N]) -> u64 {
    let products = words.into_iter().zip(FACTORS).map(|(word, factor)| word.wrapping_mul(factor));
    let sum = products.fold(0, u64::wrapping_add);
    let sum = (sum ^ sum >> 32).wrapping_mul(FACTORS[0]);
    sum ^ sum >> 32
}

/// The identity of the code object at `code`: by its version number where it has one, else by all that it
/// points to and by the hashes of its names.
#[inline(always)]
#[must_use]
pub fn identity<M: ThreadMemory>(memory: &M, layout: &Layout, code: u64) -> Option<Identity> {
    let half = |word: u64| word & 0xffff_ffff;
    if layout.version.is_some() {
        let [version, lines] = memory.read_fields(code, &layout.read.versioned)?;
        // No two code objects of an interpreter have the same one. Interpreters of one process that come
        // after each other begin at the same number, and may have the same addresses: the first line, and the
        // number behind it, how many variables there are, tell more of them apart and lie beside the version.
        if half(version) != 0 {
            return Some(Identity(mix([code, half(version), lines])));
        }
    }
    let [filename, name, table, line] = memory.read_fields(code, &layout.read.names)?;
    Some(Identity(mix([
        code,
        filename,
        name,
        table,
        half(line),
        memory.read_word(filename.checked_add(HASH)?)?,
        memory.read_word(name.checked_add(HASH)?)?,
        memory.read_word(table.checked_add(LENGTH)?)?,
    ])))
}

fn text<M: Memory>(memory: &M, layout: &Layout, object: u64) -> Option<Text> {
    let state = memory.half(object.checked_add(STATE)?)?;
    // interned: 2 bits, kind: 3, compact: 1, ascii: 1
    let (kind, compact, ascii) = (state >> 2 & 7, state >> 5 & 1, state >> 6 & 1);
    let width = match kind {
        1 | 2 | 4 if compact == 1 => u8::try_from(kind).ok()?,
        _ => return None,
    };
    let (of_ascii, of_others) = layout.text_data;
    let length = memory.read_word(object + LENGTH)?;
    Some(Text { at: object.checked_add(if ascii == 1 { of_ascii } else { of_others })?, length, width })
}

/// The file name (`co_filename`). `None`: it is not a text in the usual form.
#[must_use]
pub fn filename<M: Memory>(memory: &M, layout: &Layout, code: u64) -> Option<Text> {
    text(memory, layout, memory.read_word(code + layout.filename)?)
}

/// The name: `co_qualname` from 3.11 on, else `co_name`.
#[must_use]
pub fn name<M: Memory>(memory: &M, layout: &Layout, code: u64) -> Option<Text> {
    text(memory, layout, memory.read_word(code + layout.name)?)
}

/// The first line of the function (`co_firstlineno`).
#[must_use]
pub fn first_line<M: Memory>(memory: &M, layout: &Layout, code: u64) -> Option<u32> {
    memory.half(code + layout.first_line)
}

/// The line table, for [`super::lines`].
#[must_use]
pub fn line_table<M: Memory>(memory: &M, layout: &Layout, code: u64) -> Option<Octets> {
    let object = memory.read_word(code + layout.line_table)?;
    let length = memory.read_word(object.checked_add(LENGTH)?)?;
    Some(Octets { at: object.checked_add(BYTES_DATA)?, length })
}

/// Copies a text as UTF-8; how many octets it has, and whether it was cut to fit. `None`: it cannot be read.
///
/// Halves of surrogate pairs, which texts of CPython may hold alone, become U+FFFD.
pub fn utf8<M: Memory>(memory: &M, text: Text, out: &mut [u8]) -> Option<(usize, bool)> {
    const READ: usize = 64;
    let (mut used, mut read) = (0, 0_u64);
    let mut octets = [0; READ];
    let width = usize::from(text.width);
    let characters = (READ / 4) as u64;
    while read < text.length {
        let count = characters.min(text.length - read);
        let at = text.at.checked_add(read.checked_mul(u64::from(text.width))?)?;
        let octets = octets.get_mut(..usize::try_from(count).ok()? * width)?;
        if !memory.copy(at, octets) {
            return None;
        }
        let mut rest = &*octets;
        while let Some((character, others)) = rest.split_at_checked(width.max(1)) {
            rest = others;
            let number = character.iter().rev().fold(0, |number, octet| number << 8 | u32::from(*octet));
            let (bytes, length) = encode(char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER));
            let Some(place) = out.get_mut(used..used + length) else { return Some((used, true)) };
            for (place, byte) in place.iter_mut().zip(bytes) {
                *place = byte;
            }
            used += length;
        }
        read += count;
    }
    Some((used, false))
}

/// A character as UTF-8 and the number of its octets. (`char::encode_utf8` can panic as far as the linker knows.)
fn encode(character: char) -> ([u8; 4], usize) {
    let code = u32::from(character);
    let low = |shift: u32| 0x80 | (code >> shift & 0x3f) as u8;
    match code {
        0..0x80 => ([code as u8, 0, 0, 0], 1),
        0x80..0x800 => ([0xc0 | (code >> 6) as u8, low(0), 0, 0], 2),
        0x800..0x1_0000 => ([0xe0 | (code >> 12) as u8, low(6), low(0), 0], 3),
        _ => ([0xf0 | (code >> 18) as u8, low(12), low(6), low(0)], 4),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::String;
    use std::vec::Vec;

    fn converted(text: &str, width: u8, room: usize) -> (String, bool) {
        let octets: Vec<u8> =
            text.chars().flat_map(|c| u32::from(c).to_le_bytes().into_iter().take(width.into())).collect();
        let text = Text { at: 0, length: text.chars().count() as u64, width };
        let mut out = std::vec![0; room];
        let (used, cut) = utf8(&octets.as_slice(), text, &mut out).unwrap();
        (String::from_utf8(out[..used].to_vec()).unwrap(), cut)
    }

    #[test]
    fn texts_of_each_width_become_utf8() {
        let long = "é".repeat(100);
        for (text, width) in [("plain", 1), ("", 1), (&*long, 1), ("čaj ☕", 2), ("a😀é☕", 4)] {
            assert_eq!(converted(text, width, 1000), (text.into(), false));
        }
        assert_eq!(converted("\u{0}x", 1, 10).0, "\u{0}x");
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(converted("abc", 1, 2), ("ab".into(), true));
        assert_eq!(converted("aé", 1, 2), ("a".into(), true));
        assert_eq!(converted("☕☕", 2, 5), ("☕".into(), true));
    }

    #[test]
    fn halves_of_pairs_and_what_cannot_be_read_are_survived() {
        let half = [0x00_u8, 0xd8];
        let mut out = [0; 8];
        let text = Text { at: 0, length: 1, width: 2 };
        assert_eq!(utf8(&&half[..], text, &mut out), Some((3, false)));
        assert_eq!(&out[..3], "\u{fffd}".as_bytes());
        assert_eq!(utf8(&&half[..], Text { length: u64::MAX, ..text }, &mut out), None);
    }
}
