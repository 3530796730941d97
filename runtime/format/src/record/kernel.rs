//! Samples in the kernel with the kernel's own calls: the two halves of one stack, and the word between them.
//!
//! From the outside inwards: the thread's callers, the address in its code (exact), a [`Boundary`], return addresses in
//! the kernel. The kernel's PC is in the sample itself.
//!
//! Signal safety: arithmetic only.

use super::ADDRESS_BITS;
use super::write::WEIGHT_FOLLOWS;
use crate::head::{Head, MAX_WORDS, kind};
use crate::numbered::numbered;

numbered! {
    /// How a thread entered the kernel.
    Entry {
        /// By a system call.
        SystemCall = 1 "system call",
        /// By a page fault.
        PageFault = 2 "page fault",
        /// By an interrupt of the processor.
        Interrupt = 3 "interrupt",
        /// By another exception.
        Exception = 4 "exception",
        /// The thread has not run yet.
        ThreadStart = 5 "thread start",
        /// The writer could not find out.
        Unknown = 6 "not known",
    }
}

numbered! {
    /// How samples in the kernel got their user stacks.
    KernelJoin {
        /// By a signal on the return to user mode, and a record of the address at which the thread had left it.
        Signal = 1 "signal at the return to user mode",
    }
}

/// The point at which a thread entered the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Boundary {
    /// How.
    pub entry: Entry,
    /// Number of the system call, if the writer knew it.
    pub number: Option<u16>,
}

impl Boundary {
    const ENTRY_AT: u32 = 8;
    const NUMBER_AT: u32 = 16;

    #[inline(always)]
    pub(super) const fn bits(self) -> u64 {
        let number = match self.number {
            // The largest number means "unknown" too: no machine has that many calls.
            Some(number) => number.wrapping_add(1) as u64,
            None => 0,
        };
        (self.entry as u64) << Self::ENTRY_AT | number << Self::NUMBER_AT
    }

    #[inline]
    pub(super) const fn from_bits(bits: u64) -> Self {
        let entry = match Entry::from_number(bits >> Self::ENTRY_AT & 0xff) {
            Some(entry) => entry,
            None => Entry::Unknown,
        };
        let octets = (bits >> Self::NUMBER_AT).to_le_bytes();
        let number = u16::from_le_bytes([octets[0], octets[1]]);
        Boundary { entry, number: number.checked_sub(1) }
    }
}

/// Whether an address is in the kernel (x86-64 and aarch64: the upper half).
#[inline]
#[must_use]
pub const fn is_kernel_address(address: u64) -> bool {
    address >> 63 != 0
}

/// A sample in the kernel, and the number of its words in use. `time` must not be 0; weight 0 is recorded as 1.
#[inline]
#[must_use]
pub fn kernel_sample(time: u64, pc: u64, weight: u64, stack: u32) -> ([u64; 4], usize) {
    let weight = weight.max(1);
    let (short, words) = if weight < WEIGHT_FOLLOWS { (weight, 3) } else { (WEIGHT_FOLLOWS, 4) };
    let head = Head { kind: kind::KERNEL_SAMPLE, words, arg: stack }.encode();
    ([head, time, short << 56 | pc & ADDRESS_BITS, weight], words as usize)
}

/// The first four words of a sample with `frames` words of its own, which follow them.
#[inline]
#[must_use]
pub fn kernel_sample_with_frames(time: u64, pc: u64, weight: u64, frames: usize) -> [u64; 4] {
    let words = u16::try_from(4usize.saturating_add(frames).min(MAX_WORDS)).unwrap_or(u16::MAX);
    let head = Head { kind: kind::KERNEL_SAMPLE_FRAMES, words, arg: 0 }.encode();
    [head, time, WEIGHT_FOLLOWS << 56 | pc & ADDRESS_BITS, weight.max(1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Record, Stack};
    use crate::words::Words;
    use proptest::prelude::*;

    fn decode(words: &[u64]) -> (u64, u64, u64, Option<u64>, usize) {
        let raw: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let Some((Record::Sample(s), used)) = Record::decode(Words::new(&raw), 0) else {
            panic!("no sample")
        };
        assert!(s.system && used == words.len());
        let frames = match s.stack {
            Stack::Frames(frames) => frames.len(),
            Stack::Id(id) => id as usize,
            Stack::None => 0,
        };
        (s.time, s.pc, s.weight, s.kernel_pc(), frames)
    }

    proptest! {
        #[test]
        fn kernel_samples_survive_the_round_trip(
            time in 1u64.., pc in 0xffff_8000_0000_0000u64.., weight in 1u64..1 << 40, stack: u32
        ) {
            let (words, used) = kernel_sample(time, pc, weight, stack);
            prop_assert_eq!(decode(&words[..used]), (time, pc, weight, Some(pc), stack as usize));
            let mut words = kernel_sample_with_frames(time, pc, weight, 2).to_vec();
            words.extend([0xffff_ffff_8100_0000, 1]);
            prop_assert_eq!(decode(&words), (time, pc, weight, Some(pc), 2));
        }

        #[test]
        fn any_bits_are_a_boundary(bits in 0u64..1 << 56) {
            let boundary = Boundary::from_bits(bits);
            prop_assert_eq!(Boundary::from_bits(boundary.bits()), boundary);
        }
    }

    #[test]
    fn a_number_that_no_call_has_is_not_known() {
        let bits = Boundary { entry: Entry::SystemCall, number: Some(u16::MAX) }.bits();
        assert_eq!(Boundary::from_bits(bits), Boundary { entry: Entry::SystemCall, number: None });
        let read = Boundary { entry: Entry::SystemCall, number: Some(0) };
        assert_eq!(Boundary::from_bits(read.bits()), read);
    }
}
