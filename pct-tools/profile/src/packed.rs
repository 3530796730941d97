//! Samples by thread, in some six bytes each.
//!
//! In a program with many threads the list of all samples in order of time is the largest thing in memory, next to the
//! table of threads times stacks. Who wants the samples of each thread, but no sums by thread, needs neither.
//!
//! The next sample of a thread is some period after the one before, with the same weight. So a sample is kept as the
//! time since the one before, the number of its stack, and its weight where that is another one: as LEB128.

use crate::ids::{StackId, ThreadId};

/// Samples of all threads ([`crate::load::Options::by_thread`]).
#[derive(Clone, Debug, Default)]
pub struct SamplesByThread {
    /// Lists of samples. A thread that goes on in another file has several.
    pub lists: Vec<(ThreadId, PackedSamples)>,
    /// The stack of each number in the lists; none where no sample ends.
    pub stacks: Vec<Option<StackId>>,
}

impl SamplesByThread {
    /// The stack that a sample names.
    ///
    /// # Panics
    /// If the number is not from one of the lists.
    #[must_use]
    pub fn stack(&self, sample: PackedSample) -> StackId {
        let stack = usize::try_from(sample.stack).ok().and_then(|at| *self.stacks.get(at)?);
        stack.expect("each number in the lists has a stack")
    }
}

/// A sample of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PackedSample {
    /// Nanoseconds since 1970.
    pub realtime_ns: u64,
    /// CPU time that it stands for, in nanoseconds.
    pub weight_ns: u64,
    /// Number of its stack in [`SamplesByThread::stacks`].
    pub stack: u32,
}

/// Samples in the order in which they came, which is nearly that of time.
#[derive(Clone, Debug, Default)]
pub struct PackedSamples {
    bytes: Vec<u8>,
    last: PackedSample,
}

/// Most bytes of a sample.
const LONGEST: usize = 10 + 5 + 10;

impl PackedSamples {
    /// Adds a sample.
    pub fn push(&mut self, sample: PackedSample) {
        let out = &mut self.bytes;
        // A vector that doubles would waste half of what is saved here.
        if out.capacity() - out.len() < LONGEST {
            out.reserve_exact((out.len() / 8).max(LONGEST * 4));
        }
        let later = sample.realtime_ns.wrapping_sub(self.last.realtime_ns).cast_signed();
        write(out, (later << 1 ^ later >> 63).cast_unsigned());
        let is_new_weight = sample.weight_ns != self.last.weight_ns;
        write(out, u64::from(sample.stack) << 1 | u64::from(is_new_weight));
        if is_new_weight {
            write(out, sample.weight_ns);
        }
        self.last = sample;
    }

    /// Whether there is no sample.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The samples, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = PackedSample> + '_ {
        let (mut rest, mut last) = (self.bytes.as_slice(), PackedSample::default());
        std::iter::from_fn(move || {
            let later = read(&mut rest)?;
            let later = (later >> 1).cast_signed() ^ -(later & 1).cast_signed();
            let stack = read(&mut rest)?;
            let weight_ns = if stack & 1 == 1 { read(&mut rest)? } else { last.weight_ns };
            let realtime_ns = last.realtime_ns.wrapping_add(later.cast_unsigned());
            last = PackedSample { realtime_ns, weight_ns, stack: u32::try_from(stack >> 1).ok()? };
            Some(last)
        })
    }
}

fn write(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap_or(0));
}

fn read(rest: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0_u64, 0);
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn samples_come_back_as_they_were_added(rows in proptest::collection::vec(
            (prop_oneof![1_u64 << 60..(1 << 60) + 9_000_000, any::<u64>()],
             prop_oneof![Just(1_003_009_u64), any::<u64>()], any::<u32>()), 0..200)) {
            let sample =
                |&(realtime_ns, weight_ns, stack): &(u64, u64, u32)| PackedSample { realtime_ns, weight_ns, stack };
            let plain: Vec<PackedSample> = rows.iter().map(sample).collect();
            let mut packed = PackedSamples::default();
            plain.iter().for_each(|sample| packed.push(*sample));
            prop_assert_eq!(packed.is_empty(), plain.is_empty());
            prop_assert_eq!(packed.iter().collect::<Vec<_>>(), plain);
        }
    }

    #[test]
    fn a_sample_takes_few_bytes() {
        let mut packed = PackedSamples::default();
        for n in 0..10_000_u32 {
            let realtime_ns = (1 << 60) + u64::from(n) * 1_003_009;
            packed.push(PackedSample { realtime_ns, weight_ns: 1_003_009, stack: n % 4000 });
        }
        assert!(packed.bytes.capacity() < 10_000 * 7, "{}", packed.bytes.capacity());
    }
}
