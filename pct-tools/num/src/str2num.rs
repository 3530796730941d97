//! Text to numbers.

use core::fmt;

use crate::Base;

/// Why text is not a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NumError {
    /// There is no digit at all.
    Empty,
    /// The byte at this index is not a digit of the base.
    NotADigit {
        /// Index of the byte.
        at: usize,
        /// The byte.
        byte: u8,
    },
    /// The number does not fit 64 bits.
    Overflow,
}

impl fmt::Display for NumError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NumError::Empty => f.write_str("no digits"),
            NumError::NotADigit { at, byte } => {
                write!(f, "'{}' at position {at} is not a digit", byte.escape_ascii())
            }
            NumError::Overflow => f.write_str("more than 64 bits"),
        }
    }
}

impl core::error::Error for NumError {}

const FOREIGN: u8 = 0xff;

/// The value of each byte as a digit; [`FOREIGN`] for those that are none.
#[expect(clippy::cast_possible_truncation, reason = "values are below 16")]
static VALUES: [u8; 256] = {
    let mut values = [FOREIGN; 256];
    let mut i = 0;
    while i < 10 {
        values[b'0' as usize + i] = i as u8;
        i += 1;
    }
    let mut i = 0;
    while i < 6 {
        values[b'a' as usize + i] = 10 + i as u8;
        values[b'A' as usize + i] = 10 + i as u8;
        i += 1;
    }
    values
};

/// The number at the beginning of `text` in base `B` (2, 8, 10 or 16) and how many bytes it took: no sign, no prefix.
///
/// # Errors
/// [`NumError::Empty`] if the first byte is no digit, [`NumError::Overflow`].
///
/// ```
/// assert_eq!(pct_num::str2num_prefix::<16>(b"7f00 T main"), Ok((0x7f00, 4)));
/// ```
#[inline]
pub fn str2num_prefix<const B: u32>(text: &[u8]) -> Result<(u64, usize), NumError> {
    const { Base::<B>::KNOWN };
    // So many digits always fit; only longer numbers need the checks.
    let safe = match B {
        2 => 64,
        8 => 21,
        10 => 19,
        _ => 16,
    };
    let mut n = 0u64;
    let mut at = 0;
    while at < text.len() {
        let value = VALUES[text[at] as usize];
        if u32::from(value) >= B {
            break;
        }
        n = if at < safe {
            n * u64::from(B) + u64::from(value)
        } else {
            n.checked_mul(u64::from(B))
                .and_then(|n| n.checked_add(u64::from(value)))
                .ok_or(NumError::Overflow)?
        };
        at += 1;
    }
    if at == 0 { Err(NumError::Empty) } else { Ok((n, at)) }
}

/// The number that the whole of `text` is in base `B` (2, 8, 10 or 16): no sign, no prefix, no blanks.
///
/// # Errors
/// [`NumError`], which says where.
///
/// ```
/// use pct_num::{NumError, str2num};
/// assert_eq!(str2num::<10>(b"18446744073709551615"), Ok(u64::MAX));
/// assert_eq!(str2num::<10>(b"18446744073709551616"), Err(NumError::Overflow));
/// assert_eq!(str2num::<8>(b"18"), Err(NumError::NotADigit { at: 1, byte: b'8' }));
/// ```
#[inline]
pub fn str2num<const B: u32>(text: &[u8]) -> Result<u64, NumError> {
    match str2num_prefix::<B>(text) {
        Ok((n, taken)) if taken == text.len() => Ok(n),
        Ok((_, taken)) => Err(NumError::NotADigit { at: taken, byte: text[taken] }),
        Err(NumError::Empty) if !text.is_empty() => Err(NumError::NotADigit { at: 0, byte: text[0] }),
        Err(e) => Err(e),
    }
}

/// A number as people type it: `0x1f`, `0o17`, `0b101` or decimal.
///
/// # Errors
/// [`NumError`]; positions count from the beginning of `text`.
///
/// ```
/// assert_eq!(pct_num::str2num_any(b"0x10"), Ok(16));
/// assert_eq!(pct_num::str2num_any(b"10"), Ok(10));
/// ```
pub fn str2num_any(text: &[u8]) -> Result<u64, NumError> {
    let result = match text {
        [b'0', b'x' | b'X', rest @ ..] => str2num::<16>(rest),
        [b'0', b'o' | b'O', rest @ ..] => str2num::<8>(rest),
        [b'0', b'b' | b'B', rest @ ..] => str2num::<2>(rest),
        _ => return str2num::<10>(text),
    };
    result.map_err(|e| match e {
        NumError::NotADigit { at, byte } => NumError::NotADigit { at: at + 2, byte },
        other => other,
    })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::num2str;
    use proptest::prelude::*;
    use std::format;

    #[test]
    fn what_is_no_number_says_where() {
        assert_eq!(str2num::<10>(b""), Err(NumError::Empty));
        assert_eq!(str2num::<10>(b"-1"), Err(NumError::NotADigit { at: 0, byte: b'-' }));
        assert_eq!(str2num::<16>(b"12g"), Err(NumError::NotADigit { at: 2, byte: b'g' }));
        assert_eq!(str2num_any(b"0x"), Err(NumError::Empty));
        assert_eq!(str2num_any(b"0b12"), Err(NumError::NotADigit { at: 3, byte: b'2' }));
        assert_eq!(
            format!("{}", NumError::NotADigit { at: 2, byte: b'\n' }),
            "'\\n' at position 2 is not a digit"
        );
    }

    proptest! {
        #[test]
        fn text_and_number_are_each_others_inverse(n in any::<u64>(), shift in 0u32..64) {
            let n = n >> shift;
            prop_assert_eq!(str2num::<2>(num2str::<2>(n).as_bytes()), Ok(n));
            prop_assert_eq!(str2num::<8>(num2str::<8>(n).as_bytes()), Ok(n));
            prop_assert_eq!(str2num::<10>(num2str::<10>(n).as_bytes()), Ok(n));
            prop_assert_eq!(str2num::<16>(num2str::<16>(n).as_bytes()), Ok(n));
            prop_assert_eq!(str2num_any(format!("{n:#x}").as_bytes()), Ok(n));
        }

        #[test]
        fn any_text_is_judged_as_std_judges_it(text in "[0-9a-fA-F]{0,24}") {
            prop_assert_eq!(str2num::<10>(text.as_bytes()).ok(), text.parse::<u64>().ok());
            prop_assert_eq!(str2num::<16>(text.as_bytes()).ok(), u64::from_str_radix(&text, 16).ok());
            prop_assert_eq!(str2num::<8>(text.as_bytes()).ok(), u64::from_str_radix(&text, 8).ok());
            prop_assert_eq!(str2num::<2>(text.as_bytes()).ok(), u64::from_str_radix(&text, 2).ok());
        }
    }
}
