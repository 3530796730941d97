//! A position in a part of a file, and the primitive encodings of Deep.data and Deep.procrep.
//!
//! | name | encoding |
//! |---|---|
//! | byte | one octet |
//! | num | base 128, most significant group first, bit 7 set on every octet but the last |
//! | fixed | 8 octets, little-endian, two's complement |
//! | string | num length, that many octets |
//! | short, int32 | 2 and 4 octets, big-endian (procrep only) |
//!
//! Numbers may be padded, up to 10 octets, and must be below 2^63.

use crate::error::{DeepError, ErrorCode};

/// Why decoding failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The part ends too early; more of the file may follow.
    Short,
    /// The data is wrong.
    Bad(Box<DeepError>),
}

impl From<DeepError> for Fault {
    fn from(error: DeepError) -> Self {
        Self::Bad(Box::new(error))
    }
}

pub(crate) type Decoded<T> = Result<T, Fault>;

/// A position in a part of a file.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    part: &'a [u8],
    pos: usize,
    /// Where the part begins in the file.
    base: u64,
    /// How long the file is.
    file_len: u64,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(part: &'a [u8], base: u64, file_len: u64) -> Self {
        Self { part, pos: 0, base, file_len }
    }
    /// The position in the part.
    pub(crate) fn pos(&self) -> usize {
        self.pos
    }
    pub(crate) fn seek(&mut self, pos: usize) {
        self.pos = pos;
    }
    /// What follows the position in the part.
    pub(crate) fn rest_of_part(&self) -> &'a [u8] {
        &self.part[self.pos..]
    }
    /// The position in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.pos as u64
    }
    /// Octets of the file after the position.
    pub(crate) fn rest_of_file(&self) -> u64 {
        self.file_len.saturating_sub(self.offset())
    }
    pub(crate) fn at_end(&self) -> bool {
        self.pos >= self.part.len()
    }
    /// The next octet, without reading past it.
    pub(crate) fn peek(&self) -> Decoded<u8> {
        self.part.get(self.pos).copied().ok_or(Fault::Short)
    }
    #[inline]
    pub(crate) fn byte(&mut self) -> Decoded<u8> {
        let octet = *self.part.get(self.pos).ok_or(Fault::Short)?;
        self.pos += 1;
        Ok(octet)
    }
    pub(crate) fn octets(&mut self, len: usize) -> Decoded<&'a [u8]> {
        if len as u64 > self.rest_of_file() {
            return Err(self.truncated());
        }
        let end = self.pos + len;
        let octets = self.part.get(self.pos..end).ok_or(Fault::Short)?;
        self.pos = end;
        Ok(octets)
    }
    #[inline]
    pub(crate) fn num(&mut self) -> Decoded<u64> {
        match self.part.get(self.pos) {
            Some(&octet) if octet < 0x80 => {
                self.pos += 1;
                Ok(u64::from(octet))
            }
            _ => self.long_num(),
        }
    }
    fn long_num(&mut self) -> Decoded<u64> {
        let start = self.offset();
        let mut value = 0_u64;
        for _ in 0..10 {
            let octet = self.byte()?;
            if value >> 56 != 0 {
                return Err(DeepError::new(ErrorCode::NumberTooLarge, "a number of more than 63 bits")
                    .at(start)
                    .into());
            }
            value = value << 7 | u64::from(octet & 0x7f);
            if octet & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DeepError::new(ErrorCode::NumberTooLong, "a number of more than 10 octets").at(start).into())
    }
    /// A num that must fit in 32 bits, such as a line number.
    pub(crate) fn num32(&mut self, what: &str) -> Decoded<u32> {
        let start = self.offset();
        let n = self.num()?;
        u32::try_from(n).map_err(|_| {
            DeepError::new(ErrorCode::NumberTooLarge, format!("{what} {n} does not fit in 32 bits"))
                .at(start)
                .into()
        })
    }
    /// A num that is a number of elements, each of at least one octet.
    pub(crate) fn count(&mut self) -> Decoded<u32> {
        let n = self.num()?;
        if n > self.rest_of_file() {
            return Err(self.truncated());
        }
        self.fit_count(n)
    }
    fn fit_count(&self, n: u64) -> Decoded<u32> {
        u32::try_from(n).map_err(|_| {
            DeepError::new(ErrorCode::TooLarge, format!("a list of {n} elements")).at(self.offset()).into()
        })
    }
    pub(crate) fn string(&mut self) -> Decoded<&'a [u8]> {
        let start = self.offset();
        let len = self.count()?;
        let text = self.octets(len as usize)?;
        if memchr::memchr(0, text).is_some() {
            return Err(DeepError::new(ErrorCode::BadString, "a string with a NUL octet").at(start).into());
        }
        Ok(text)
    }
    pub(crate) fn fixed(&mut self) -> Decoded<i64> {
        let octets = self.octets(8)?;
        Ok(i64::from_le_bytes(octets.try_into().expect("8 octets were asked for")))
    }
    pub(crate) fn short(&mut self) -> Decoded<u16> {
        let octets = self.octets(2)?;
        Ok(u16::from_be_bytes(octets.try_into().expect("2 octets were asked for")))
    }
    pub(crate) fn int32(&mut self) -> Decoded<i32> {
        let octets = self.octets(4)?;
        Ok(i32::from_be_bytes(octets.try_into().expect("4 octets were asked for")))
    }
    /// The error for a length that points beyond the end of the file.
    pub(crate) fn truncated(&self) -> Fault {
        truncated().at(self.file_len).into()
    }
    /// An error of this code at the octet before the position.
    pub(crate) fn bad_byte(&self, code: ErrorCode, message: String) -> Fault {
        DeepError::new(code, message).at(self.offset().saturating_sub(1)).into()
    }
}

pub(crate) fn truncated() -> DeepError {
    DeepError::new(ErrorCode::Truncated, "unexpected end of file")
}

/// The num at the beginning of some octets, if it has at most 9 of them (then it is below 2^63), and its length.
///
/// Numbers of all lengths up to 8 take the same steps, because a processor cannot predict their lengths.
#[inline(always)]
pub(crate) fn fast_num(octets: &[u8]) -> Option<(u64, usize)> {
    let first = *octets.first()?;
    if first < 0x80 {
        return Some((u64::from(first), 1));
    }
    if let Some(eight) = octets.first_chunk::<8>() {
        // An octet without bit 7 ends a number. The lowest such octet is the first.
        let ends = !u64::from_le_bytes(*eight) & 0x8080_8080_8080_8080;
        if ends != 0 {
            let len = ends.trailing_zeros() / 8 + 1;
            // The number's last octet is moved to the lowest position. Then groups of 7 bits are joined, two by two.
            let n = u64::from_be_bytes(*eight) >> (64 - 8 * len) & 0x7f7f_7f7f_7f7f_7f7f;
            let n = n & 0x007f_007f_007f_007f | (n & 0x7f00_7f00_7f00_7f00) >> 1;
            let n = n & 0x0000_3fff_0000_3fff | (n & 0x3fff_0000_3fff_0000) >> 2;
            let n = n & 0x0fff_ffff | (n & 0x0fff_ffff_0000_0000) >> 4;
            return Some((n, len as usize));
        }
    }
    let mut value = 0;
    for (i, &octet) in octets.iter().take(9).enumerate() {
        value = value << 7 | u64::from(octet & 0x7f);
        if octet & 0x80 == 0 {
            return Some((value, i + 1));
        }
    }
    None
}

/// Total length of some nums, each of at most 9 octets. `None`: some are missing.
#[inline]
pub(crate) fn skip_nums(octets: &[u8], count: u32) -> Option<usize> {
    let mut at = 0;
    let mut left = count;
    while let Some(eight) = octets[at..].first_chunk::<8>() {
        let ends = !u64::from_le_bytes(*eight) & 0x8080_8080_8080_8080;
        if ends.count_ones() >= left || ends == 0 {
            break;
        }
        // What follows the last end belongs to the next number.
        at += 8 - ends.leading_zeros() as usize / 8;
        left -= ends.count_ones();
    }
    for _ in 0..left {
        at += fast_num(&octets[at..])?.1;
    }
    Some(at)
}

/// Appends a num in its shortest form.
#[expect(clippy::cast_possible_truncation, reason = "seven bits of it are kept")]
pub(crate) fn put_num(out: &mut Vec<u8>, value: u64) {
    let groups = (64 - value.leading_zeros()).div_ceil(7).max(1);
    for i in (1..groups).rev() {
        out.push((value >> (7 * i)) as u8 & 0x7f | 0x80);
    }
    out.push(value as u8 & 0x7f);
}

/// Appends a string.
pub(crate) fn put_string(out: &mut Vec<u8>, text: &[u8]) {
    put_num(out, text.len() as u64);
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn num(octets: &[u8]) -> Result<u64, Option<ErrorCode>> {
        Cursor::new(octets, 0, octets.len() as u64).num().map_err(|f| match f {
            Fault::Short => None,
            Fault::Bad(e) => Some(e.code),
        })
    }

    #[test]
    fn numbers_of_the_format_decode() {
        assert_eq!(num(&[0x64]), Ok(100));
        assert_eq!(num(&[0x82, 0xb8, 0x3f]), Ok(39999));
        assert_eq!(num(&[0xe0, 0xcd, 0xb0, 0x3b]), Ok(202_594_363));
        assert_eq!(num(&[0x80, 0x05]), Ok(5));
        assert_eq!(num(&[0x80; 9]), Err(None));
        assert_eq!(num(&[0x80; 10]), Err(Some(ErrorCode::NumberTooLong)));
        assert_eq!(num(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 5]), Ok(5));
        assert_eq!(num(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]), Ok(i64::MAX as u64));
        assert_eq!(
            num(&[0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0]),
            Err(Some(ErrorCode::NumberTooLarge))
        );
    }

    proptest! {
        #[test]
        fn the_fast_way_reads_the_same(octets in prop::collection::vec(prop_oneof![any::<u8>(), 0x80..=0xff_u8], 0..40)) {
            let slow = |octets: &[u8]| {
                let mut cursor = Cursor::new(octets, 0, octets.len() as u64);
                cursor.num().ok().map(|n| (n, cursor.pos())).filter(|&(_, len)| len <= 9)
            };
            prop_assert_eq!(fast_num(&octets), slow(&octets));
            let (mut at, mut count) = (0, 0);
            prop_assert_eq!(skip_nums(&octets, 0), Some(0));
            while let Some((_, len)) = slow(&octets[at..]) {
                at += len;
                count += 1;
                prop_assert_eq!(skip_nums(&octets, count), Some(at));
            }
            prop_assert_eq!(skip_nums(&octets, count + 1), None);
        }

        #[test]
        fn numbers_come_back_in_the_shortest_form(value in prop_oneof![0..500_u64, 0..=i64::MAX as u64]) {
            let mut out = Vec::new();
            put_num(&mut out, value);
            prop_assert_eq!(num(&out), Ok(value));
            prop_assert!(out.len() == 1 || out[0] != 0x80);
        }
    }
}
