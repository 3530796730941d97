//! Records from what they say. Signal safety: no allocation, no call, no panic.

use crate::head::{Head, MAX_WORDS, kind};

/// Bits of a word that hold an address; the byte above holds a sample's weight or a frame's kind.
pub const ADDRESS_BITS: u64 = (1 << 56) - 1;
/// Weight that says "see the next word".
pub(super) const WEIGHT_FOLLOWS: u64 = 255;

/// A sample of a weight below 255, which its three words have room for; `None`: use [`long_sample`].
///
/// `time` must not be 0. Weight 0 is recorded as 1.
#[inline(always)]
#[must_use]
pub fn short_sample(time: u64, pc: u64, weight: u64, system: bool, stack: u32) -> Option<[u64; 3]> {
    let weight = weight.max(1);
    (weight < WEIGHT_FOLLOWS).then(|| [sample_head(system, 3, stack), time, weight << 56 | pc & ADDRESS_BITS])
}

/// A sample of any weight: four words. `time` must not be 0.
#[inline(always)]
#[must_use]
pub fn long_sample(time: u64, pc: u64, weight: u64, system: bool, stack: u32) -> [u64; 4] {
    [sample_head(system, 4, stack), time, WEIGHT_FOLLOWS << 56 | pc & ADDRESS_BITS, weight.max(1)]
}

#[inline(always)]
fn sample_head(system: bool, words: u16, stack: u32) -> u64 {
    Head { kind: if system { kind::SYSTEM_SAMPLE } else { kind::SAMPLE }, words, arg: stack }.encode()
}

/// Either of the two, and how many of the words count.
#[must_use]
pub fn sample(time: u64, pc: u64, weight: u64, system: bool, stack: u32) -> ([u64; 4], usize) {
    match short_sample(time, pc, weight, system, stack) {
        Some([head, time, place]) => ([head, time, place, 0], 3),
        None => (long_sample(time, pc, weight, system, stack), 4),
    }
}

/// The first four words of a sample that carries its own `frames` words; they follow it.
/// `frames` beyond what a record can hold are the caller's to cut ([`MAX_FRAMES`]).
#[inline]
#[must_use]
pub fn sample_with_frames(time: u64, pc: u64, weight: u64, system: bool, frames: usize) -> [u64; 4] {
    let kind = if system { kind::SYSTEM_SAMPLE_FRAMES } else { kind::SAMPLE_FRAMES };
    let weight = if weight == 0 { 1 } else { weight };
    let words = (4 + frames).min(MAX_WORDS) as u16;
    [Head { kind, words, arg: 0 }.encode(), time, WEIGHT_FOLLOWS << 56 | pc & ADDRESS_BITS, weight]
}

/// Most frames that one record can carry.
pub const MAX_FRAMES: usize = MAX_WORDS - 4;

/// Writes a record into a caller's buffer, word by word; [`Encoder::finish`] sets the head.
#[derive(Debug)]
pub struct Encoder<'a> {
    buffer: &'a mut [u64],
    used: usize,
    overrun: bool,
}

impl<'a> Encoder<'a> {
    /// Starts a record; the first word is kept for the head.
    #[must_use]
    pub fn new(buffer: &'a mut [u64]) -> Self {
        let overrun = buffer.is_empty();
        Encoder { buffer, used: 1, overrun }
    }

    /// A word as it is (times, frames): must not be 0.
    pub fn word(mut self, word: u64) -> Self {
        match self.buffer.get_mut(self.used) {
            Some(place) => *place = word,
            None => self.overrun = true,
        }
        self.used = self.used.saturating_add(1);
        self
    }

    /// A number below 2^64 - 1, stored plus one.
    pub fn number(self, number: u64) -> Self {
        self.word(number.saturating_add(1))
    }

    /// Text of any bytes: seven a word in the low bytes, the upper byte 0x80 | count; the last word has fewer than seven.
    pub fn text(mut self, text: &[u8]) -> Self {
        let mut rest = text;
        loop {
            let count = rest.len().min(7);
            let mut word = (0x80 | count as u64) << 56;
            for (i, byte) in rest.iter().take(7).enumerate() {
                word |= u64::from(*byte) << (8 * i);
            }
            self = self.word(word);
            if count < 7 {
                return self;
            }
            rest = rest.get(7..).unwrap_or(&[]);
        }
    }

    /// Sets the head and gives the record, or `None` when the buffer was too small.
    #[must_use]
    pub fn finish(self, kind: u8, arg: u32) -> Option<&'a [u64]> {
        if self.overrun || self.used > MAX_WORDS {
            return None;
        }
        let record = self.buffer.get_mut(..self.used)?;
        *record.first_mut()? = Head { kind, words: self.used as u16, arg }.encode();
        Some(record)
    }
}
