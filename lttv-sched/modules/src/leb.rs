//! Numbers in as few bytes as they need: LEB128, seven bits a byte, the lowest first.

/// Adds a number.
pub fn write(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap_or(0));
}

/// Takes a number from the front. `None`: the bytes end before the number does, or it has more than ten bytes.
#[inline]
pub fn read(rest: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0u64, 0);
    loop {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
        shift += 7;
    }
}

/// A number near 0, of either sign, as a small one.
pub fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63).cast_unsigned()
}

/// What [`zigzag`] was given.
pub fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_cut_ones_do_not() {
        let ends = [i64::MIN, i64::MIN + 1, -65, -64, -1, 0, 1, 63, 64, i64::MAX];
        for number in ends {
            let mut bytes = Vec::new();
            write(&mut bytes, zigzag(number));
            let mut rest = bytes.as_slice();
            assert_eq!(read(&mut rest).map(unzigzag), Some(number));
            assert!(rest.is_empty());
            assert_eq!(read(&mut &bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(read(&mut [0xff; 11].as_slice()), None);
        assert_eq!((zigzag(-1), zigzag(1)), (1, 2));
    }
}
