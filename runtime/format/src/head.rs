//! A record's first word: tag, kind, length, argument.
//!
//! ```text
//! 63    56 55    48 47          32 31                             0
//! | 0xa7  |  kind  | length/words |           argument            |
//! ```
//!
//! The tag makes the word differ from every user-space PC (those are below 2^56) and from zero.

/// Upper byte of every head.
pub const TAG: u64 = 0xa7;

/// Longest record, in words with its head.
pub const MAX_WORDS: usize = 0xffff;

/// A decoded head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// One of [`kind`].
    pub kind: u8,
    /// Words of the record, the head included: 1..=65535.
    pub words: u16,
    /// Meaning by kind.
    pub arg: u32,
}

impl Head {
    /// Encodes the head as a word.
    #[inline(always)]
    #[must_use]
    pub const fn encode(self) -> u64 {
        TAG << 56 | (self.kind as u64) << 48 | (self.words as u64) << 32 | self.arg as u64
    }

    /// Decodes a word. `None`: it is no head (wrong tag or length 0).
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "each field is cut out of the word")]
    #[must_use]
    pub const fn decode(word: u64) -> Option<Head> {
        let words = (word >> 32) as u16;
        if word >> 56 != TAG || words == 0 {
            return None;
        }
        Some(Head { kind: (word >> 48) as u8, words, arg: word as u32 })
    }
}

/// Kinds of record.
pub mod kind {
    /// User sample; argument = stack id, 0 = none. Words: time, weight and PC \[, weight\].
    pub const SAMPLE: u8 = 1;
    /// The same in the kernel; the PC is the instruction after the system call.
    pub const SYSTEM_SAMPLE: u8 = 2;
    /// User sample with its stack in the record; argument = 0. Words: time, weight and PC, weight, frames...
    pub const SAMPLE_FRAMES: u8 = 3;
    /// System sample with its stack in the record.
    pub const SYSTEM_SAMPLE_FRAMES: u8 = 4;
    /// Stack definition; argument = parent's id. Words: first id, PCs...
    pub const STACK: u8 = 5;
    /// Mark set by the program. Words: time, thread id, name.
    pub const MARK: u8 = 6;
    /// Thread begin; argument = serial. Words: time, thread id, name.
    pub const THREAD_BEGIN: u8 = 7;
    /// Thread end; argument = serial. Words: time, thread id, CPU ns.
    pub const THREAD_END: u8 = 8;
    /// Thread's name; argument = serial. Words: time, thread id, name.
    pub const THREAD_NAME: u8 = 9;
    /// The process is about to execute another program. Words: time, path.
    pub const EXEC: u8 = 10;
    /// A region appeared; argument = region id. Words: time, start, end, file offset, device, inode, flags,
    /// build-id, path \[, octets of the file, time of its last change, hash of its first page\].
    pub const REGION_BEGIN: u8 = 11;
    /// A region vanished; argument = region id. Words: time.
    pub const REGION_END: u8 = 12;
    /// Samples lost; argument = cause. Words: time, samples, weight.
    pub const LOSS: u8 = 13;
    /// Anchor. Words: raw time, monotonic ns, realtime ns, thread id, thread CPU ns, process user ns, process
    /// system ns.
    pub const ANCHOR: u8 = 14;
    /// The process made another. Words: time, child's pid.
    pub const FORK: u8 = 15;
    /// A thread's clock was (re)armed; argument = thread serial. Words: time, thread id, clock, period ns.
    pub const CLOCK: u8 = 16;
    /// What follows in this segment belongs to another thread; argument = its serial. Words: time, thread id, text
    /// name.
    pub const TAKE_OVER: u8 = 17;
    /// A function of an interpreted language; argument = code id. Words: time, language, first line, flags, name, file.
    pub const CODE: u8 = 18;
    /// A part of a code's line table; argument = code id. Words: form, offset of the part, octets of the table, part.
    pub const LINE_TABLE: u8 = 19;
    /// An interpreter was found; argument = language. Words: time, version, state, path.
    pub const INTERPRETER: u8 = 20;
    /// A sampled request for memory; argument = stack id. Words: time, thread id, address, size, shift, flags.
    pub const ALLOC: u8 = 21;
    /// A sampled block was freed; argument = stack id of its request. Words: time, thread id, address, size,
    /// shift, time of the request.
    pub const FREE: u8 = 22;
    /// An instant that the program named (`pct_heap_mark`). Words: time, thread id, live octets, allocated
    /// octets, name.
    pub const HEAP_MARK: u8 = 23;
    /// The interval of allocation samples changed; argument = shift. Words: time, interval.
    pub const ALLOC_INTERVAL: u8 = 24;
    /// Memory of the process. Words: time, live octets, allocated octets, resident octets (anonymous, file, shared),
    /// octets of thread stacks, octets that the allocator holds unused.
    pub const MEMORY: u8 = 25;
    /// Sample in the kernel with its call chain there; argument = stack id of the innermost caller. Words: time, weight
    /// and kernel PC \[, weight\].
    pub const KERNEL_SAMPLE: u8 = 26;
    /// The same with its stack in the record; argument = 0.
    pub const KERNEL_SAMPLE_FRAMES: u8 = 27;
    /// A thread has waited; argument = stack id. Words: time of the wait's begin, thread id, kind, object, duration in
    /// raw time, result, mutex.
    pub const WAITED: u8 = 28;
    /// An object for which others waited was released; argument = stack id. Words: time, thread id, kind, object.
    pub const RELEASED: u8 = 29;
    /// A thread took an object without waiting, while others waited for it. Words: time, thread id, kind, object.
    pub const TAKEN: u8 = 30;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn heads_survive_the_round_trip(kind: u8, words in 1u16.., arg: u32) {
            let head = Head { kind, words, arg };
            prop_assert_eq!(Head::decode(head.encode()), Some(head));
            prop_assert!(head.encode() > 1 << 56);
        }

        #[test]
        fn user_addresses_are_never_heads(pc in 0u64..1 << 56) {
            prop_assert_eq!(Head::decode(pc), None);
        }
    }
}
