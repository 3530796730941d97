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
        // Halves of pairs that stand alone are dropped, and a string may have nothing else. All other characters have
        // an octet at least, so more of them than these find no room.
        let most = u32::try_from(out.len()).unwrap_or(u32::MAX).saturating_add(1);
        let length = flat.length.min(most);
        let flat = Flat { length, ..flat };
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

    /// Lines that end in a range of characters. `None`: some cannot be read.
    fn lines_within<M: ThreadMemory>(
        &self,
        memory: &M,
        layout: &Layout,
        (from, to): (u32, u32),
    ) -> Option<u32> {
        let flat = self.flat(memory, layout)?;
        if from > to || to > flat.length {
            return None;
        }
        // The character before tells whether a line feed belongs to a return.
        let first = from.saturating_sub(1);
        let at = flat.at.checked_add(u64::from(first) * flat.size())?;
        let (mut lines, mut after_return, mut is_before) = (0, false, first < from);
        Flat { at, length: to - first, ..flat }.each(memory, |unit| {
            let ends = matches!(unit, 0x0a | 0x0d | 0x2028 | 0x2029);
            lines += u32::from(ends && !is_before && !(unit == 0x0a && after_return));
            after_return = unit == 0x0d;
            is_before = false;
            true
        })?;
        Some(lines)
    }
}

impl Flat {
    /// Octets of a character.
    fn size(&self) -> u64 {
        1 + u64::from(self.is_wide)
    }

    /// Gives every character of UTF-16, until one is not wanted any more. `None`: some cannot be read.
    fn each<M: ThreadMemory>(&self, memory: &M, mut take: impl FnMut(u16) -> bool) -> Option<()> {
        let mut piece = [0; PIECE];
        let (mut at, octets) = (self.at, u64::from(self.length) * self.size());
        let mut left = usize::try_from(octets).ok()?;
        while left > 0 {
            let here = left.min(PIECE);
            let read = piece.get_mut(..here)?;
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
            at = at.checked_add(u64::try_from(here).ok()?)?;
            left -= here;
        }
        Some(())
    }
}

/// Places of a source where the lines before are known.
const MARKS: usize = 64;
/// Characters between two of them, at least.
const APART: u32 = 4096;
/// Longest source whose lines are counted: it is read once.
const LONGEST_SOURCE: u32 = 32 << 20;

/// Lines of the source that was asked for last: without it each function of a large script would have all before it
/// read. All zeros: of none.
#[derive(Debug)]
#[repr(C)]
pub struct CountedLines {
    script: u32,
    length: u32,
    /// Marks that are known.
    known: u32,
    /// Lines that end before each.
    lines: [u32; MARKS],
}

impl CountedLines {
    /// Of no source.
    pub const NOTHING: CountedLines = CountedLines { script: 0, length: 0, known: 0, lines: [0; MARKS] };

    /// Lines that end before a character of the source of the script with this number. `None`: they cannot be read, or
    /// are too many.
    pub fn before<M: ThreadMemory>(
        &mut self,
        memory: &M,
        layout: &Layout,
        (script, source): (u32, &Text),
        character: u32,
    ) -> Option<u32> {
        if source.length > LONGEST_SOURCE {
            return None;
        }
        if (self.script, self.length) != (script, source.length) || self.known == 0 {
            (self.script, self.length, self.known, self.lines) = (script, source.length, 1, [0; MARKS]);
        }
        let apart = ((source.length >> MARKS.ilog2()) + 1).max(APART);
        let wanted = character / apart;
        while self.known <= wanted {
            let last = self.known - 1;
            let lines = source.lines_within(memory, layout, (last * apart, self.known * apart))?;
            let (last, next) = (usize::try_from(last).ok()?, usize::try_from(self.known).ok()?);
            *self.lines.get_mut(next)? = self.lines.get(last)?.saturating_add(lines);
            self.known += 1;
        }
        let within = source.lines_within(memory, layout, (wanted * apart, character))?;
        Some(self.lines.get(usize::try_from(wanted).ok()?)?.saturating_add(within))
    }
}
