//! What the routines are made of; the bench has the bodies that were slower.
//!
//! Writers fill the end of a 64-byte buffer and give the index of the first digit.

#![expect(
    clippy::cast_possible_truncation,
    reason = "digits and table indices are below a base or its square"
)]

use crate::MAX_DIGITS;

/// Powers of ten that fit a `u64`: `POW10[i]` is 10^i.
pub const POW10: [u64; 20] = {
    let mut powers = [1u64; 20];
    let mut i = 1;
    while i < 20 {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

/// "00" "01" ... "99".
pub static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0u8; 2]; 100];
    let mut i = 0;
    while i < 100 {
        pairs[i] = [b'0' + (i / 10) as u8, b'0' + (i % 10) as u8];
        i += 1;
    }
    pairs
};

/// Digits in a power-of-two base: from the number of significant bits.
#[inline]
pub const fn ndigits_pow2<const B: u32>(n: u64) -> usize {
    let bits = 64 - (n | 1).leading_zeros();
    bits.div_ceil(B.trailing_zeros()) as usize
}

/// Decimal digits without a branch: the number of bits gives the length to within one (1233 / 4096 is just above
/// log10 of 2), one comparison settles it.
#[inline]
pub const fn ndigits10_branch_free(n: u64) -> usize {
    let n = n | 1;
    let guess = ((64 - n.leading_zeros()) as usize * 1233) >> 12;
    guess + (n >= POW10[guess]) as usize
}

/// Decimal: two digits a step from a table of pairs.
#[inline]
pub fn decimal_pairs(mut n: u64, out: &mut [u8; MAX_DIGITS]) -> usize {
    let mut at = MAX_DIGITS;
    while n >= 100 {
        at -= 2;
        out[at..at + 2].copy_from_slice(&PAIRS[(n % 100) as usize]);
        n /= 100;
    }
    if n >= 10 {
        at -= 2;
        out[at..at + 2].copy_from_slice(&PAIRS[n as usize]);
    } else {
        at -= 1;
        out[at] = b'0' + n as u8;
    }
    at
}

/// Powers of two: one digit a step.
#[inline]
pub fn pow2_single<const B: u32>(mut n: u64, out: &mut [u8; MAX_DIGITS]) -> usize {
    let mut at = MAX_DIGITS;
    loop {
        at -= 1;
        out[at] = b"0123456789abcdef"[(n & u64::from(B - 1)) as usize];
        n >>= B.trailing_zeros();
        if n == 0 {
            return at;
        }
    }
}

/// Spreads the 8 nibbles of a number over 8 bytes, most significant first in memory order.
#[inline]
const fn spread_nibbles(n: u32) -> u64 {
    let mut x = n as u64;
    x = (x | x << 16) & 0x0000_ffff_0000_ffff;
    x = (x | x << 8) & 0x00ff_00ff_00ff_00ff;
    (x | x << 4) & 0x0f0f_0f0f_0f0f_0f0f
}

/// Eight nibbles (one in each byte) to their ASCII digits, all at once.
#[inline]
const fn nibbles_to_ascii(x: u64) -> u64 {
    let letters = ((x + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    // '0' is 0x30; from ten on add 0x27 more ('a' - '0' - 10).
    x + 0x3030_3030_3030_3030 + letters * 0x27
}

/// Hexadecimal: all 16 digits at once in two words, the length from the leading zeros.
#[inline]
pub fn hex_words(n: u64, out: &mut [u8; MAX_DIGITS]) -> usize {
    let high = nibbles_to_ascii(spread_nibbles((n >> 32) as u32));
    let low = nibbles_to_ascii(spread_nibbles(n as u32));
    out[48..56].copy_from_slice(&high.to_be_bytes());
    out[56..64].copy_from_slice(&low.to_be_bytes());
    MAX_DIGITS - ndigits_pow2::<16>(n)
}

/// Binary: eight digits at once, a byte of the number into a word of text.
#[inline]
pub fn binary_words(n: u64, out: &mut [u8; MAX_DIGITS]) -> usize {
    for (eight, byte) in out.chunks_exact_mut(8).zip(n.to_be_bytes()) {
        eight.copy_from_slice(&(spread_bits(byte) + 0x3030_3030_3030_3030).to_be_bytes());
    }
    MAX_DIGITS - ndigits_pow2::<2>(n)
}

/// Spreads the bits of a byte over eight bytes, the least significant into the lowest: halves, pairs, single bits.
#[inline]
const fn spread_bits(byte: u8) -> u64 {
    let mut x = byte as u64;
    x = (x | x << 28) & 0x0000_000f_0000_000f;
    x = (x | x << 14) & 0x0003_0003_0003_0003;
    (x | x << 7) & 0x0101_0101_0101_0101
}
