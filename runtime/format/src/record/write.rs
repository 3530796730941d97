//! Encodes records. Signal safety: no allocation, no call, no panic.

use crate::head::{Head, MAX_WORDS, kind};

/// Bits of a word that contain an address. The byte above contains a sample's weight or a frame's kind.
pub const ADDRESS_BITS: u64 = (1 << 56) - 1;
/// Weight that means "see the next word".
pub(super) const WEIGHT_FOLLOWS: u64 = 255;

/// A sample with a weight below 255, which fits into its three words. `None`: use [`long_sample`].
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

/// The short or the long form, and the number of words in use.
#[must_use]
pub fn sample(time: u64, pc: u64, weight: u64, system: bool, stack: u32) -> ([u64; 4], usize) {
    match short_sample(time, pc, weight, system, stack) {
        Some([head, time, place]) => ([head, time, place, 0], 3),
        None => (long_sample(time, pc, weight, system, stack), 4),
    }
}

/// The first four words of a sample with `frames` words of its own, which follow them. If there are more frames than a
/// record can hold ([`MAX_FRAMES`]), the caller must cut them.
#[inline]
#[must_use]
pub fn sample_with_frames(time: u64, pc: u64, weight: u64, system: bool, frames: usize) -> [u64; 4] {
    let kind = if system { kind::SYSTEM_SAMPLE_FRAMES } else { kind::SAMPLE_FRAMES };
    let weight = if weight == 0 { 1 } else { weight };
    let words = u16::try_from(4usize.saturating_add(frames).min(MAX_WORDS)).unwrap_or(u16::MAX);
    [Head { kind, words, arg: 0 }.encode(), time, WEIGHT_FOLLOWS << 56 | pc & ADDRESS_BITS, weight]
}

/// Most frames that fit into one record.
pub const MAX_FRAMES: usize = MAX_WORDS - 4;

/// Writes a record into a caller's buffer, word by word. [`Encoder::finish`] sets the head.
#[derive(Debug)]
pub struct Encoder<'a> {
    buffer: &'a mut [u64],
    used: usize,
    overrun: bool,
}

impl<'a> Encoder<'a> {
    /// Starts a record. The first word is reserved for the head.
    #[must_use]
    pub fn new(buffer: &'a mut [u64]) -> Self {
        let overrun = buffer.is_empty();
        Encoder { buffer, used: 1, overrun }
    }

    /// A word stored unchanged (times, frames). It must not be 0.
    pub fn raw_word(mut self, word: u64) -> Self {
        match self.buffer.get_mut(self.used) {
            Some(place) => *place = word,
            None => self.overrun = true,
        }
        self.used = self.used.saturating_add(1);
        self
    }

    /// A number below 2^64 - 1, stored plus one.
    pub fn number(self, number: u64) -> Self {
        self.raw_word(number.saturating_add(1))
    }

    /// Text of any bytes: seven bytes per word in the low bytes; the upper byte is 0x80 | count. The last word has
    /// fewer than seven.
    pub fn text(mut self, text: &[u8]) -> Self {
        let mut rest = text;
        loop {
            let count = rest.len().min(7);
            let mut word = (0x80 | count as u64) << 56;
            for (i, byte) in rest.iter().take(7).enumerate() {
                word |= u64::from(*byte) << (8 * i);
            }
            self = self.raw_word(word);
            if count < 7 {
                return self;
            }
            rest = rest.get(7..).unwrap_or(&[]);
        }
    }

    /// Sets the head and returns the record, or `None` if the buffer was too small.
    #[must_use]
    pub fn finish(self, kind: u8, arg: u32) -> Option<&'a [u64]> {
        if self.overrun || self.used > MAX_WORDS {
            return None;
        }
        let words = u16::try_from(self.used).ok()?;
        let record = self.buffer.get_mut(..self.used)?;
        *record.first_mut()? = Head { kind, words, arg }.encode();
        Some(record)
    }
}
