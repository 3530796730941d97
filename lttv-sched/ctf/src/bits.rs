//! Reads integers at any bit of a packet.
//!
//! Little-endian: bit X is bit (X mod 8) of byte X / 8 and the first bit read is the least significant.
//! Big-endian: bit X is bit 7 - (X mod 8) and the first bit read is the most significant.

/// `len` bits (1 to 64) from bit `x`, little-endian. The bits must lie in `data`.
pub(crate) fn little(data: &[u8], x: u64, len: u32) -> u64 {
    let (byte, shift) = ((x / 8) as usize, (x % 8) as u32);
    let low = match data.get(byte..byte + 8) {
        Some(b) => u64::from_le_bytes(b.try_into().expect("eight bytes")),
        None => tail(data, byte, |i| 8 * i),
    };
    let mut v = low >> shift;
    if shift + len > 64 {
        v |= u64::from(data.get(byte + 8).copied().unwrap_or(0)) << (64 - shift);
    }
    v & mask(len)
}

/// `len` bits (1 to 64) from bit `x`, big-endian. The bits must lie in `data`.
pub(crate) fn big(data: &[u8], x: u64, len: u32) -> u64 {
    let (byte, shift) = ((x / 8) as usize, (x % 8) as u32);
    let high = match data.get(byte..byte + 8) {
        Some(b) => u64::from_be_bytes(b.try_into().expect("eight bytes")),
        None => tail(data, byte, |i| 56 - 8 * i),
    };
    let mut v = high << shift;
    if shift + len > 64 {
        v |= u64::from(data.get(byte + 8).copied().unwrap_or(0)) >> (8 - shift);
    }
    v >> (64 - len)
}

/// For fewer than eight bytes at the end of the data.
fn tail(data: &[u8], byte: usize, shift: impl Fn(u32) -> u32) -> u64 {
    let rest = data.get(byte..).unwrap_or(&[]);
    (0..).zip(rest.iter().take(8)).fold(0, |v, (i, b)| v | u64::from(*b) << shift(i))
}

/// A number with the low `len` bits set.
pub(crate) fn mask(len: u32) -> u64 {
    if len >= 64 { u64::MAX } else { (1 << len) - 1 }
}

/// Extends `len` bits in two's complement to 64.
pub(crate) fn extend(v: u64, len: u32) -> u64 {
    let s = 64 - len.clamp(1, 64);
    ((v << s).cast_signed() >> s).cast_unsigned()
}

/// The `len` low bits in the opposite order.
pub(crate) fn reverse(v: u64, len: u32) -> u64 {
    v.reverse_bits() >> (64 - len.clamp(1, 64))
}

/// A number from a trace as an index. If it does not fit, it is beyond every table.
pub(crate) fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// An index into a table of the metadata, which is shorter than the metadata's text.
pub(crate) fn row(index: usize) -> u32 {
    u32::try_from(index).expect("the metadata has fewer than 2^32 entries")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive(data: &[u8], x: u64, len: u32, big: bool) -> u64 {
        (0..u64::from(len)).fold(0, |v, i| {
            let (byte, bit) = ((x + i) / 8, (x + i) % 8);
            let b = u64::from(data[byte as usize]);
            if big { v << 1 | (b >> (7 - bit) & 1) } else { v | (b >> bit & 1) << i }
        })
    }

    proptest! {
        #[test]
        fn loads_equal_a_walk_bit_by_bit(data in proptest::collection::vec(any::<u8>(), 1..20), x in 0u64..160, len in 1u32..=64) {
            prop_assume!(x + u64::from(len) <= data.len() as u64 * 8);
            prop_assert_eq!(little(&data, x, len), naive(&data, x, len, false));
            prop_assert_eq!(big(&data, x, len), naive(&data, x, len, true));
            let v = little(&data, x, len);
            prop_assert_eq!(reverse(reverse(v, len), len), v);
            prop_assert_eq!(extend(v, len) & mask(len), v);
        }
    }

    #[test]
    fn one_signed_bit_is_0_or_minus_1() {
        assert_eq!((extend(1, 1) as i64, extend(0, 1)), (-1, 0));
    }
}
