//! Numbers to text.

use alloc::vec::Vec;
use core::ops::Deref;

use crate::{Base, MAX_DIGITS, bodies};

/// The digits of one number: a small value that derefs to its text.
#[derive(Clone, Copy)]
pub struct Digits {
    bytes: [u8; MAX_DIGITS],
    first: usize,
}

impl Digits {
    /// The digits as bytes, all ASCII.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.first..]
    }

    /// The digits as text.
    #[inline]
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(self.as_bytes()).unwrap_or("")
    }
}

impl Deref for Digits {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl core::fmt::Debug for Digits {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self)
    }
}

impl core::fmt::Display for Digits {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self)
    }
}

/// Which side of its field a number stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Align {
    /// Padding after the digits.
    Left,
    /// Padding before the digits: columns of numbers.
    #[default]
    Right,
}

/// How a number is laid out in its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Bytes that the field has at least; longer numbers are never cut.
    pub width: usize,
    /// What fills the field: a space or `b'0'` as a rule.
    pub pad: u8,
    /// Which side the digits stand on.
    pub align: Align,
}

impl Layout {
    /// Just the digits.
    pub const BARE: Layout = Layout { width: 0, pad: b' ', align: Align::Right };

    /// A right-aligned column filled with spaces.
    pub const fn column(width: usize) -> Layout {
        Layout { width, pad: b' ', align: Align::Right }
    }

    /// A field of fixed width with leading zeros.
    pub const fn zeros(width: usize) -> Layout {
        Layout { width, pad: b'0', align: Align::Right }
    }
}

impl Default for Layout {
    fn default() -> Layout {
        Layout::BARE
    }
}

#[inline]
fn write<const B: u32>(n: u64, out: &mut [u8; MAX_DIGITS]) -> usize {
    const { Base::<B>::KNOWN };
    match B {
        10 => bodies::decimal_pairs(n, out),
        16 => bodies::hex_words(n, out),
        2 => bodies::binary_words(n, out),
        _ => bodies::pow2_single::<B>(n, out),
    }
}

/// The digits of `n` in base `B` (2, 8, 10 or 16), lower case, without prefix.
///
/// ```
/// assert_eq!(&*pct_num::num2str::<16>(0xbeef), "beef");
/// ```
#[inline]
pub fn num2str<const B: u32>(n: u64) -> Digits {
    let mut digits = Digits { bytes: [0; MAX_DIGITS], first: 0 };
    digits.first = write::<B>(n, &mut digits.bytes);
    digits
}

/// Appends a number in its field.
///
/// ```
/// use pct_num::{Layout, num2str_into};
/// let mut line = Vec::new();
/// num2str_into::<10>(42, Layout::column(6), &mut line);
/// num2str_into::<16>(0x7f, Layout::zeros(4), &mut line);
/// assert_eq!(line, b"    42007f");
/// ```
#[inline]
pub fn num2str_into<const B: u32>(n: u64, layout: Layout, out: &mut Vec<u8>) {
    let mut bytes = [0; MAX_DIGITS];
    let first = write::<B>(n, &mut bytes);
    let digits = &bytes[first..];
    let padding = layout.width.saturating_sub(digits.len());
    if padding == 0 {
        out.extend_from_slice(digits);
        return;
    }
    match layout.align {
        Align::Left => {
            out.extend_from_slice(digits);
            out.resize(out.len() + padding, layout.pad);
        }
        Align::Right => {
            out.resize(out.len() + padding, layout.pad);
            out.extend_from_slice(digits);
        }
    }
}

/// Appends many numbers, each in its field and followed by `end` (`b"\n"` for a column of lines).
///
/// ```
/// let mut text = Vec::new();
/// pct_num::num2str_batch::<10>([7, 11], pct_num::Layout::column(3), b"\n", &mut text);
/// assert_eq!(text, b"  7\n 11\n");
/// ```
pub fn num2str_batch<const B: u32>(
    numbers: impl IntoIterator<Item = u64>,
    layout: Layout,
    end: &[u8],
    out: &mut Vec<u8>,
) {
    let numbers = numbers.into_iter();
    out.reserve(numbers.size_hint().0.saturating_mul(layout.width.max(8) + end.len()));
    for n in numbers {
        num2str_into::<B>(n, layout, out);
        out.extend_from_slice(end);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::format;

    fn check(n: u64) {
        assert_eq!(num2str::<2>(n).as_str(), format!("{n:b}"));
        assert_eq!(num2str::<8>(n).as_str(), format!("{n:o}"));
        assert_eq!(num2str::<10>(n).as_str(), format!("{n}"));
        assert_eq!(num2str::<16>(n).as_str(), format!("{n:x}"));
    }

    #[test]
    fn numbers_at_every_border_are_right() {
        for base in [2u64, 8, 10, 16, 100, 10_000] {
            let mut power = 1u64;
            loop {
                for n in
                    [power - 1, power, power + 1, power.wrapping_mul(base).wrapping_sub(1), u64::MAX - power]
                {
                    check(n);
                }
                match power.checked_mul(base) {
                    Some(next) => power = next,
                    None => break,
                }
            }
        }
        check(1 << 53);
        check((1 << 53) + 1);
    }

    proptest! {
        #[test]
        fn every_body_writes_what_std_writes(n in any::<u64>(), shift in 0u32..64) {
            check(n >> shift);
        }

        #[test]
        fn fields_are_padded_as_std_pads(n in any::<u64>(), shift in 0u32..64, width in 0usize..70) {
            let n = n >> shift;
            let mut out = Vec::new();
            num2str_into::<10>(n, Layout::column(width), &mut out);
            prop_assert_eq!(&out, &format!("{n:width$}").into_bytes());
            out.clear();
            num2str_into::<16>(n, Layout::zeros(width), &mut out);
            prop_assert_eq!(&out, &format!("{n:0width$x}").into_bytes());
            out.clear();
            num2str_into::<8>(n, Layout { width, pad: b'.', align: Align::Left }, &mut out);
            prop_assert_eq!(&out, &format!("{n:.<width$o}").into_bytes());
        }

        #[test]
        fn a_batch_is_its_numbers_one_after_the_other(numbers in proptest::collection::vec(any::<u64>(), 0..20)) {
            let mut out = Vec::new();
            num2str_batch::<10>(numbers.iter().copied(), Layout::BARE, b"\n", &mut out);
            let wanted: std::string::String = numbers.iter().map(|n| format!("{n}\n")).collect();
            prop_assert_eq!(out, wanted.into_bytes());
        }
    }
}
