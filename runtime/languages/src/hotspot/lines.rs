//! Compressed numbers, and the line table that is made of them.
//!
//! A number has at most five octets; each but the last holds 6 bits more. From JDK 20 on each octet is one larger, so
//! that none is 0 (*biased*). A line table is a chain of steps: an octet has a small step of the bytecode index (5
//! bits) and of the line (3 bits); 255 announces two signed numbers; 0 is the end.

use pct_elf::Memory;

/// Smallest octet (as it is stored) behind which a number goes on.
const LOW: u32 = 192;
/// Most octets of a number.
const LONGEST: u32 = 5;

/// The number that the octets begin with. `None`: they end too early, or there is an octet that cannot be.
#[inline]
pub fn number(mut next: impl FnMut() -> Option<u8>, biased: bool) -> Option<u32> {
    let mut sum = 0_u32;
    for i in 0..LONGEST {
        let stored = u32::from(next()?);
        let octet = stored.checked_sub(u32::from(biased))?;
        sum = sum.wrapping_add(octet.wrapping_shl(6 * i));
        if stored < LOW {
            break;
        }
    }
    Some(sum)
}

/// The same as a signed number: the lowest bit is the sign.
pub fn signed(next: impl FnMut() -> Option<u8>, biased: bool) -> Option<i32> {
    let number = number(next, biased)?;
    Some((number >> 1).cast_signed() ^ (number & 1).cast_signed().wrapping_neg())
}

/// A step of a line table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineStep {
    /// First bytecode index of the line.
    pub bci: u32,
    /// The line.
    pub line: u32,
}

/// A line table as it is read.
#[derive(Clone, Debug)]
pub struct LineSteps<F> {
    next: F,
    biased: bool,
    at: LineStep,
    /// The end was met.
    ended: bool,
}

impl<F: FnMut() -> Option<u8>> LineSteps<F> {
    /// Of the octets that `next` gives.
    pub fn new(next: F, biased: bool) -> Self {
        LineSteps { next, biased, at: LineStep { bci: 0, line: 0 }, ended: false }
    }

    /// Whether the table came to its end, and not to the end of its octets.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }
}

impl<F: FnMut() -> Option<u8>> Iterator for LineSteps<F> {
    type Item = LineStep;

    fn next(&mut self) -> Option<LineStep> {
        if self.ended {
            return None;
        }
        let (bci, line) = match (self.next)()? {
            0 => {
                self.ended = true;
                return None;
            }
            255 => (signed(&mut self.next, self.biased)?, signed(&mut self.next, self.biased)?),
            octet => (i32::from(octet >> 3), i32::from(octet & 7)),
        };
        let LineStep { bci: from, line: above } = self.at;
        self.at = LineStep { bci: from.checked_add_signed(bci)?, line: above.checked_add_signed(line)? };
        Some(self.at)
    }
}

/// What a line table says of a bytecode index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Its line.
    Line(u32),
    /// The table says nothing of it.
    NoLine,
    /// The table ends too early.
    Damaged,
}

/// Most steps of a table: no method has more bytecodes.
const MOST_STEPS: usize = 1 << 17;

/// The line of a bytecode index: that of the last step whose index is not larger.
#[must_use]
pub fn look_up(table: &[u8], biased: bool, bci: u32) -> Answer {
    let mut octets = table.iter().copied();
    let mut steps = LineSteps::new(|| octets.next(), biased);
    let mut best: Option<LineStep> = None;
    for step in steps.by_ref().take(MOST_STEPS) {
        // Not sorted in general: javac repeats a loop's head behind its body.
        if step.bci <= bci && best.is_none_or(|best| step.bci >= best.bci) {
            best = Some(step);
        }
    }
    match best {
        Some(step) => Answer::Line(step.line),
        None if steps.has_ended() => Answer::NoLine,
        None => Answer::Damaged,
    }
}

/// Octets of the table at an address, its end included, at most `most`; whether that is all of it; and its first line,
/// 0 if it has none. `None`: not even the first octet can be read.
pub fn measure<M: Memory>(memory: &M, at: u64, biased: bool, most: u64) -> Option<(u64, bool, u32)> {
    let mut read = 0_u64;
    memory.bytes::<1>(at)?;
    let mut steps = LineSteps::new(
        || {
            if read == most {
                return None;
            }
            let [octet] = memory.bytes(at.checked_add(read)?)?;
            read += 1;
            Some(octet)
        },
        biased,
    );
    let mut first = 0;
    for step in steps.by_ref().take(MOST_STEPS) {
        if first == 0 {
            first = step.line;
        }
    }
    let whole = steps.has_ended();
    Some((read, whole, first))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// What HotSpot's writer does, written again from its definition.
    fn written(mut value: u32, biased: bool, out: &mut Vec<u8>) {
        let low = LOW - u32::from(biased);
        for i in 0.. {
            if value < low || i == LONGEST - 1 {
                out.push(u8::try_from(value + u32::from(biased)).unwrap());
                return;
            }
            let octet = low + (value - low) % 64;
            out.push(u8::try_from(octet + u32::from(biased)).unwrap());
            value = (value - octet) >> 6;
        }
    }

    fn zigzag(value: i32) -> u32 {
        (value << 1 ^ value >> 31).cast_unsigned()
    }

    #[test]
    fn numbers_come_back_in_both_forms() {
        let mut seed = 1_u64;
        let random = core::iter::repeat_with(move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as u32 >> (seed >> 59)
        });
        let values: Vec<u32> = [0, 1, 63, 64, 190, 191, 192, 255, 256, 1 << 16, u32::MAX >> 1, u32::MAX]
            .into_iter()
            .chain(random.take(20_000))
            .collect();
        for biased in [false, true] {
            for value in &values {
                let mut octets = Vec::new();
                written(*value, biased, &mut octets);
                assert!(octets.len() <= 5 && !(biased && octets.contains(&0)));
                let mut read = octets.iter().copied();
                assert_eq!(number(|| read.next(), biased), Some(*value), "{octets:?}");
                assert_eq!(read.next(), None, "no octet too few");
                let mut read = octets[..octets.len() - 1].iter().copied();
                assert_eq!(number(|| read.next(), biased), None, "one octet is missing");
            }
        }
        let mut nothing = [0_u8].into_iter();
        assert_eq!(number(|| nothing.next(), true), None, "0 cannot be in the biased form");
    }

    fn table(steps: &[(i32, i32)], biased: bool) -> Vec<u8> {
        let mut out = Vec::new();
        for &(bci, line) in steps {
            match (u8::try_from(bci), u8::try_from(line)) {
                (Ok(bci @ 0..=31), Ok(line @ 0..=7)) if bci << 3 | line != 0 && bci << 3 | line != 255 => {
                    out.push(bci << 3 | line);
                }
                _ => {
                    out.push(255);
                    written(zigzag(bci), biased, &mut out);
                    written(zigzag(line), biased, &mut out);
                }
            }
        }
        out.push(0);
        out
    }

    #[test]
    fn a_line_is_that_of_the_last_step_before() {
        for biased in [false, true] {
            let table = table(&[(0, 1000), (5, 1), (40, -3), (2, 200)], biased);
            let lines: Vec<_> =
                [0, 4, 5, 44, 45, 46, 47, 9999].map(|bci| look_up(&table, biased, bci)).into();
            assert_eq!(lines, [1000, 1000, 1001, 1001, 998, 998, 1198, 1198].map(Answer::Line));
            let memory = pct_elf::BytesAt { at: 0x1000, bytes: &table };
            assert_eq!(measure(&memory, 0x1000, biased, 100), Some((table.len() as u64, true, 1000)));
            assert_eq!(measure(&memory, 0x1000, biased, 3).map(|(n, whole, _)| (n, whole)), Some((3, false)));
            assert_eq!(measure(&memory, 0x2000, biased, 3), None);
        }
        assert_eq!(look_up(&[0], false, 3), Answer::NoLine);
        assert_eq!(look_up(&[], false, 3), Answer::Damaged);
    }

    #[test]
    fn any_octets_are_survived() {
        let mut seed = 7_u64;
        let mut octets = [0_u8; 40];
        for round in 0..50_000 {
            for octet in &mut octets {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *octet = (seed >> 56) as u8;
            }
            let _ = look_up(&octets[..round % 41], round & 1 == 0, 17);
        }
    }
}
