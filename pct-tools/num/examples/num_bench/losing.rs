//! Bodies that were measured and lost: the bench compares their time and their answers with the winners'.

use pct_num::MAX_DIGITS;
use pct_num::bodies::{PAIRS, POW10};

/// "00" "01" ... "ff".
static HEX_PAIRS: [[u8; 2]; 256] = {
    let digits = *b"0123456789abcdef";
    let mut pairs = [[0u8; 2]; 256];
    let mut i = 0;
    while i < 256 {
        pairs[i] = [digits[i >> 4], digits[i & 15]];
        i += 1;
    }
    pairs
};

/// Decimal digits: compare with one power after the other, short numbers first.
#[inline]
pub(crate) const fn ndigits10_branching(n: u64) -> usize {
    let mut digits = 1;
    while digits < 20 && n >= POW10[digits] {
        digits += 1;
    }
    digits
}

/// Decimal digits: bisection over the powers, a tree of branches.
#[inline]
pub(crate) const fn ndigits10_bisection(n: u64) -> usize {
    let (mut low, mut high) = (1, 20);
    while low < high {
        let middle = usize::midpoint(low, high);
        if n >= POW10[middle] {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Decimal: one digit a step.
#[inline]
pub(crate) fn decimal_single(mut n: u64, out: &mut [u8; MAX_DIGITS]) -> usize {
    let mut at = MAX_DIGITS;
    loop {
        at -= 1;
        out[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            return at;
        }
    }
}

/// Decimal: four digits a step, in 32 bits as soon as the number fits.
#[inline]
pub(crate) fn decimal_quads(mut n: u64, out: &mut [u8; MAX_DIGITS]) -> usize {
    let mut at = MAX_DIGITS;
    while n > u64::from(u32::MAX) {
        let quad = (n % 10_000) as u32;
        n /= 10_000;
        at -= 4;
        out[at..at + 2].copy_from_slice(&PAIRS[(quad / 100) as usize]);
        out[at + 2..at + 4].copy_from_slice(&PAIRS[(quad % 100) as usize]);
    }
    let mut n = n as u32;
    while n >= 10_000 {
        let quad = n % 10_000;
        n /= 10_000;
        at -= 4;
        out[at..at + 2].copy_from_slice(&PAIRS[(quad / 100) as usize]);
        out[at + 2..at + 4].copy_from_slice(&PAIRS[(quad % 100) as usize]);
    }
    if n >= 100 {
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

/// Decimal by a floating-point reciprocal: the quotient is a multiplication by 1/100 and may be one off, which the
/// remainder shows. Exact below 2^53; longer numbers are split once at 10^15.
#[inline]
pub(crate) fn decimal_reciprocal(n: u64, out: &mut [u8; MAX_DIGITS]) -> usize {
    const SPLIT: u64 = POW10[15];
    let mut at = MAX_DIGITS;
    let mut n = n;
    if n >= SPLIT {
        let mut low = n % SPLIT;
        n /= SPLIT;
        for _ in 0..7 {
            let (quotient, rest) = hundredth(low);
            at -= 2;
            out[at..at + 2].copy_from_slice(&PAIRS[rest]);
            low = quotient;
        }
        at -= 1;
        out[at] = b'0' + low as u8;
    }
    while n >= 100 {
        let (quotient, rest) = hundredth(n);
        at -= 2;
        out[at..at + 2].copy_from_slice(&PAIRS[rest]);
        n = quotient;
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

/// Quotient and remainder by 100 of a number below 2^53, by multiplication with 0.01.
#[inline]
fn hundredth(n: u64) -> (u64, usize) {
    let mut quotient = (n as f64 * 0.01) as u64;
    let mut rest = n.wrapping_sub(quotient * 100) as i64;
    if rest < 0 {
        quotient -= 1;
        rest += 100;
    } else if rest >= 100 {
        quotient += 1;
        rest -= 100;
    }
    (quotient, rest as usize)
}

/// Hexadecimal: a byte, two digits, a step.
#[inline]
pub(crate) fn hex_pairs(mut n: u64, out: &mut [u8; MAX_DIGITS]) -> usize {
    let mut at = MAX_DIGITS;
    while n > 0xff {
        at -= 2;
        out[at..at + 2].copy_from_slice(&HEX_PAIRS[(n & 0xff) as usize]);
        n >>= 8;
    }
    let last = HEX_PAIRS[n as usize];
    if n > 0xf {
        at -= 2;
        out[at..at + 2].copy_from_slice(&last);
    } else {
        at -= 1;
        out[at] = last[1];
    }
    at
}
