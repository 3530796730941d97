//! What a code object says of itself: identity, names, first line, line table.
//!
//! An address is no identity: code made by `exec` dies and others take its place. [`identity`] is a number over what the
//! object points to; it changes when another object lies there.

use pct_elf::Memory;

use super::layout::Layout;

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

const MIX: u64 = 0xd6e8_feb8_6659_fd93;

fn mix(sum: u64, word: u64) -> u64 {
    let x = (sum ^ word).wrapping_mul(MIX);
    x ^ x >> 32
}

/// The identity of the code object at `code`: by its version number where it has one, else by all that it points to and by the
/// hashes of its names.
#[must_use]
pub fn identity<M: Memory>(memory: &M, layout: &Layout, code: u64) -> Option<Identity> {
    let (filename, name) = (memory.word(code + layout.filename)?, memory.word(code + layout.name)?);
    let table = memory.word(code + layout.line_table)?;
    let mut sum = mix(mix(mix(mix(MIX, code), filename), name), table);
    let version = match layout.version {
        Some(at) => memory.half(code + at)?,
        None => 0,
    };
    if version != 0 {
        return Some(Identity(mix(sum, u64::from(version))));
    }
    sum = mix(sum, u64::from(memory.half(code + layout.first_line)?));
    sum = mix(sum, memory.word(filename.checked_add(HASH)?)?);
    sum = mix(sum, memory.word(name.checked_add(HASH)?)?);
    Some(Identity(mix(sum, memory.word(table.checked_add(LENGTH)?)?)))
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
    let length = memory.word(object + LENGTH)?;
    Some(Text { at: object.checked_add(if ascii == 1 { of_ascii } else { of_others })?, length, width })
}

/// The file name (`co_filename`). `None`: it is not a text in the usual form.
#[must_use]
pub fn filename<M: Memory>(memory: &M, layout: &Layout, code: u64) -> Option<Text> {
    text(memory, layout, memory.word(code + layout.filename)?)
}

/// The name: `co_qualname` from 3.11 on, else `co_name`.
#[must_use]
pub fn name<M: Memory>(memory: &M, layout: &Layout, code: u64) -> Option<Text> {
    text(memory, layout, memory.word(code + layout.name)?)
}

/// The first line of the function (`co_firstlineno`).
#[must_use]
pub fn first_line<M: Memory>(memory: &M, layout: &Layout, code: u64) -> Option<u32> {
    memory.half(code + layout.first_line)
}

/// The line table, for [`super::lines`].
#[must_use]
pub fn line_table<M: Memory>(memory: &M, layout: &Layout, code: u64) -> Option<Octets> {
    let object = memory.word(code + layout.line_table)?;
    let length = memory.word(object.checked_add(LENGTH)?)?;
    Some(Octets { at: object.checked_add(BYTES_DATA)?, length })
}
