//! Strings of JavaScript: flat ones, and those that stand for parts of others or are put together of others.

use super::layout::Layout;
use super::object::{small, typed};
use crate::ThreadMemory;

/// Types below are strings.
const FIRST_NO_STRING: u16 = 0x80;
const REPRESENTATION: u16 = 7;
const ONE_OCTET: u16 = 8;
const FLAT: u16 = 0;
const CONS: u16 = 1;
const EXTERNAL: u16 = 2;
const SLICED: u16 = 3;
const THIN: u16 = 5;
/// Most strings on the way to characters.
const DEPTH: u32 = 8;
/// Longest string: V8's limit.
const LONGEST: u32 = 1 << 30;
/// Octets that are read at once.
const PIECE: usize = 512;

/// A string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    at: u64,
    kind: u16,
    /// Characters of UTF-16.
    pub length: u32,
}

/// Characters that lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flat {
    at: u64,
    is_wide: bool,
    length: u32,
}

impl Text {
    /// The string that a reference leads to; `None`: it leads to none.
    #[must_use]
    pub fn new<M: ThreadMemory>(memory: &M, layout: &Layout, word: u64) -> Option<Text> {
        let (at, kind) = typed(memory, layout, word)?;
        if kind >= FIRST_NO_STRING {
            return None;
        }
        let length = memory.half(at + layout.string_length).filter(|length| *length < LONGEST)?;
        Some(Text { at, kind, length })
    }

    /// Its characters, if they lie together; otherwise those before the first place where they do not.
    fn flat<M: ThreadMemory>(&self, memory: &M, layout: &Layout) -> Option<Flat> {
        let (mut text, mut skipped, mut length) = (*self, 0_u64, self.length);
        for _ in 0..DEPTH {
            let follow = |field: u64| Text::new(memory, layout, memory.read_word(text.at + field)?);
            let is_wide = text.kind & ONE_OCTET == 0;
            let size = 1 + u64::from(is_wide);
            let start = match text.kind & REPRESENTATION {
                FLAT => text.at + if is_wide { layout.wide } else { layout.octets },
                EXTERNAL => memory.read_word(text.at + layout.external)?,
                CONS => {
                    text = follow(layout.cons.0)?;
                    length = length.min(text.length);
                    continue;
                }
                THIN => {
                    text = follow(layout.thin)?;
                    continue;
                }
                SLICED => {
                    skipped += u64::from(small(memory.read_word(text.at + layout.sliced.1)?)?);
                    text = follow(layout.sliced.0)?;
                    continue;
                }
                _ => return None,
            };
            if skipped + u64::from(length) > u64::from(text.length) || start < 4096 || start >> 47 != 0 {
                return None;
            }
            return Some(Flat { at: start.checked_add(size * skipped)?, is_wide, length });
        }
        None
    }

    /// Writes it as UTF-8; how many octets, and whether there is more of it.
    pub fn write<M: ThreadMemory>(
        &self,
        memory: &M,
        layout: &Layout,
        out: &mut [u8],
    ) -> Option<(usize, bool)> {
        let flat = self.flat(memory, layout)?;
        let mut used = 0;
        let mut high: Option<u32> = None;
        let mut is_whole = true;
        flat.each(memory, |unit| {
            let unit = u32::from(unit);
            let point = match (high.take(), unit) {
                (_, 0xd800..0xdc00) => {
                    high = Some(unit);
                    return true;
                }
                (Some(high), 0xdc00..0xe000) => 0x1_0000 + ((high - 0xd800) << 10) + (unit - 0xdc00),
                (_, unit) => unit,
            };
            let character = char::from_u32(point).unwrap_or(char::REPLACEMENT_CHARACTER);
            let mut octets = [0; 4];
            let octets = character.encode_utf8(&mut octets).as_bytes();
            match out.get_mut(used..used + octets.len()) {
                Some(room) => {
                    for (to, from) in room.iter_mut().zip(octets) {
                        *to = *from;
                    }
                    used += octets.len();
                }
                None => is_whole = false,
            }
            is_whole
        })?;
        Some((used, !is_whole || flat.length < self.length))
    }

    /// Lines that end before a character. `None`: it cannot be read, or lies behind more than `most` octets.
    #[must_use]
    pub fn lines_before<M: ThreadMemory>(
        &self,
        memory: &M,
        layout: &Layout,
        character: u32,
        most: u64,
    ) -> Option<u32> {
        let flat = self.flat(memory, layout)?;
        let octets = u64::from(character) * (1 + u64::from(flat.is_wide));
        if character > flat.length || octets > most {
            return None;
        }
        let (mut lines, mut after_return) = (0, false);
        Flat { length: character, ..flat }.each(memory, |unit| {
            // A return and a line feed are one end.
            let ends = matches!(unit, 0x0a | 0x0d | 0x2028 | 0x2029);
            lines += u32::from(ends && !(unit == 0x0a && after_return));
            after_return = unit == 0x0d;
            true
        })?;
        Some(lines)
    }
}

impl Flat {
    /// Gives every character of UTF-16, until one is not wanted any more. `None`: some cannot be read.
    fn each<M: ThreadMemory>(&self, memory: &M, mut take: impl FnMut(u16) -> bool) -> Option<()> {
        let mut piece = [0; PIECE];
        let size = 1 + u64::from(self.is_wide);
        let (mut at, mut left) = (self.at, u64::from(self.length) * size);
        while left > 0 {
            let here = left.min(PIECE as u64);
            let read = piece.get_mut(..here as usize)?;
            if !memory.copy(at, read) {
                return None;
            }
            let wanted = if self.is_wide {
                read.chunks_exact(2).all(|pair| match pair {
                    [low, high] => take(u16::from_le_bytes([*low, *high])),
                    _ => false,
                })
            } else {
                read.iter().all(|octet| take(u16::from(*octet)))
            };
            if !wanted {
                return Some(());
            }
            at = at.checked_add(here)?;
            left -= here;
        }
        Some(())
    }
}
