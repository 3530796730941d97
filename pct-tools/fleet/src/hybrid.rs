//! Parquet's hybrid of runs and packed bits, by which pages hold codes into a dictionary and levels.
//!
//! After "Run Length Encoding / Bit-Packing Hybrid" in the format's Encodings.md: a number of 7-bit groups tells
//! what follows. Even: half of it is how often one value stands there, in whole octets. Odd: half of it is how
//! many groups of eight values follow, packed from the lowest bit of each octet. (The crate `parquet` has a
//! decoder too, which can be had only together with Arrow.)

use crate::columns::Problem;
use bytes::{Buf as _, Bytes};

/// Octets of a run's number at most: runs are counted by 32 bits.
const LONGEST: u32 = 5;

/// Reads values of at most 32 bits.
pub(crate) struct Hybrid {
    octets: Bytes,
    width: u32,
    run: Run,
}

enum Run {
    Repeated {
        value: u32,
        left: usize,
    },
    /// `bit` counts from the start of `octets`, which begin where the run began.
    Packed {
        left: usize,
        bit: usize,
    },
}

fn damage() -> Problem {
    Problem::General("a page has fewer codes than it says".to_owned())
}

impl Hybrid {
    /// A reader of values of `width` bits, at most 32.
    pub(crate) fn new(octets: Bytes, width: u32) -> Result<Self, Problem> {
        if width > u32::BITS {
            return Err(Problem::General("codes have more than 32 bits".to_owned()));
        }
        Ok(Self { octets, width, run: Run::Repeated { value: 0, left: 0 } })
    }

    /// Fills `out` with the next values.
    pub(crate) fn fill(&mut self, mut out: &mut [u32]) -> Result<(), Problem> {
        while !out.is_empty() {
            let width = self.width as usize;
            match &mut self.run {
                Run::Repeated { left: 0, .. } => self.next_run()?,
                Run::Packed { left: 0, bit } => {
                    // The run ends with a whole group of eight, so with a whole octet.
                    self.octets.advance((*bit).div_ceil(8).min(self.octets.len()));
                    self.run = Run::Repeated { value: 0, left: 0 };
                }
                Run::Repeated { value, left } => {
                    let (now, later) = out.split_at_mut((*left).min(out.len()));
                    now.fill(*value);
                    *left -= now.len();
                    out = later;
                }
                Run::Packed { left, bit } => {
                    let (now, later) = out.split_at_mut((*left).min(out.len()));
                    if *bit + now.len() * width > self.octets.len() * 8 {
                        return Err(damage());
                    }
                    unpack(&self.octets, *bit, self.width, now);
                    *left -= now.len();
                    *bit += now.len() * width;
                    out = later;
                }
            }
        }
        Ok(())
    }

    fn next_run(&mut self) -> Result<(), Problem> {
        let mut head = 0u64;
        for at in 0..LONGEST {
            let octet = self.octets.try_get_u8().map_err(|_| damage())?;
            head |= u64::from(octet & 0x7f) << (7 * at);
            if octet < 0x80 {
                break;
            }
        }
        let count = usize::try_from(head >> 1).map_err(|_| damage())?;
        if head & 1 == 1 {
            self.run = Run::Packed { left: count.saturating_mul(8), bit: 0 };
            return Ok(());
        }
        let mut value = 0u32;
        for at in 0..self.width.div_ceil(8) {
            value |= u32::from(self.octets.try_get_u8().map_err(|_| damage())?) << (8 * at);
        }
        self.run = Run::Repeated { value, left: count };
        if count == 0 && self.octets.is_empty() { Err(damage()) } else { Ok(()) }
    }
}

/// Unpacks values of `width` bits from bit number `bit` on, which lie all within `octets`.
fn unpack(octets: &[u8], bit: usize, width: u32, out: &mut [u32]) {
    let mask = (1u64 << width) - 1;
    let mut bit = bit;
    for value in out {
        let rest = octets.get(bit / 8..).unwrap_or_default();
        let word = match rest.first_chunk::<8>() {
            Some(eight) => u64::from_le_bytes(*eight),
            None => rest.iter().rev().fold(0, |word, &octet| word << 8 | u64::from(octet)),
        };
        *value = u32::try_from(word >> (bit % 8) & mask).unwrap_or(u32::MAX);
        bit += width as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(octets: &'static [u8], width: u32, count: usize) -> Result<Vec<u32>, Problem> {
        let mut values = vec![0; count];
        Hybrid::new(Bytes::from_static(octets), width)?.fill(&mut values)?;
        Ok(values)
    }

    #[test]
    fn packed_bits_are_read_as_in_the_format_s_example() {
        // Encodings.md: the numbers 0 to 7 with three bits.
        let packed = &[0b11, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        assert_eq!(read(packed, 3, 8).unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn runs_and_packed_groups_follow_each_other() {
        // 300 times 0x1234 (width 16), a group of eight, 2 times 7.
        let octets: &[u8] =
            &[0xd8, 0x04, 0x34, 0x12, 3, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 4, 7, 0];
        let expected: Vec<u32> = [0x1234; 300].into_iter().chain(1..=8).chain([7, 7]).collect();
        assert_eq!(read(octets, 16, 310).unwrap(), expected);
        // In parts of all lengths the same.
        for part in 1..40 {
            let mut reader = Hybrid::new(Bytes::from_static(octets), 16).unwrap();
            let mut values = Vec::new();
            while values.len() < 310 {
                let mut some = vec![0; part.min(310 - values.len())];
                reader.fill(&mut some).unwrap();
                values.extend(some);
            }
            assert_eq!(values, expected, "{part}");
        }
    }

    #[test]
    fn values_of_no_bits_are_zero_and_cut_pages_are_refused() {
        assert_eq!(read(&[20], 0, 10).unwrap(), [0; 10]);
        assert_eq!(read(&[3], 0, 8).unwrap(), [0; 8]);
        for cut in [&[][..], &[0x80], &[3, 1], &[20], &[0, 0, 0, 0, 0]] {
            assert!(read(cut, 16, 8).is_err(), "{cut:?}");
        }
        assert!(read(&[20, 1, 0, 0, 0], 33, 8).is_err());
    }
}
