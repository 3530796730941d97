//! Records and their words: `write` for the handler, `read` for everybody else.
//!
//! No word of a record is zero. Times are raw (the header's time source) and never 0; other numbers are written plus
//! one ([`Encoder::number`]); text is packed seven bytes a word ([`Encoder::text`]).
//!
//! Signal safety: writing allocates nothing, calls nothing and cannot panic.

mod blocked;
mod code;
mod kernel;
mod read;
mod region;
mod wait;
mod write;

use crate::numbered::numbered;
pub use crate::words::Words;
pub use blocked::{Blocked, BlockedBy, DescriptorKind};
pub use code::{
    CodeFacts, CodeFrame, InterpreterState, Language, LineTableForm, LineTablePart, LostCode, code_flag,
};
pub use kernel::{Boundary, Entry, KernelJoin, is_kernel_address, kernel_sample, kernel_sample_with_frames};
pub use read::{Frames, MemoryLevel, Record, Sample, Stack, Text};
pub use region::{RegionFacts, region_flag};
pub use wait::{CANCELLED, HandedOn, STILL_WAITING, Wait, WaitKind};
pub use write::{ADDRESS_BITS, Encoder, MAX_FRAMES, long_sample, sample, sample_with_frames, short_sample};

/// Bit of a frame word whose address is exact (interrupted by a signal) and not a return address.
pub const EXACT: u64 = 1 << 56;
/// Upper byte of a frame of an interpreted language: 32 bits code id, 24 bits offset.
const CODE: u64 = 0xc0 << 56;
/// Upper byte of the word that ends a cut stack; the cause is in the lowest byte.
const CUT: u64 = 0xcc << 56;
/// Upper byte of the word that says why a thread did not run.
const BLOCKED: u64 = 0xdd << 56;
/// Upper byte of the word between a thread's own frames and those of the kernel.
const BOUNDARY: u64 = 0xee << 56;
/// Upper byte of a return address in the kernel. Such addresses have it anyway.
const KERNEL: u64 = 0xff << 56;

numbered! {
    /// Why a stack is cut. It is stored in place of the outermost frame.
    CutCause {
        /// The depth limit was reached.
        Depth = 1 "depth limit",
        /// The handler's share of the period was used up.
        Time = 2 "time limit",
        /// No unwind data for a frame and no usable frame pointer.
        NoUnwindData = 3 "no unwind data",
        /// A stack word outside of the thread's stack, or unreadable.
        BadRead = 4 "stack not readable",
        /// The stack pointer did not advance.
        Loop = 5 "stack does not advance",
        /// The walker does not support the rule for the frame.
        Unsupported = 6 "unwind rule not known",
        /// Any other cause, including those of newer writers.
        Other = 7 "other",
        /// The thread was interrupted at one address and its signal came at another, so its callers are unknown.
        NotJoined = 9 "signal came later",
        /// Another thread was still reading where the process's code is.
        NotRead = 10 "code not read yet",
    }
}

/// One caller on a stack, outwards from the sampled PC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Frame {
    /// Address to which the callee returns: the call is the instruction before it.
    Return(u64),
    /// Address of an instruction that a signal interrupted.
    Exact(u64),
    /// A function of an interpreted language, which the native frame before it (inwards) interprets.
    Code(CodeFrame),
    /// Frames of an interpreted language belong here but are missing.
    NoCode(LostCode),
    /// The stack continues, but could not be followed.
    Cut(CutCause),
    /// The point at which the thread entered the kernel: outwards are its own frames, inwards the kernel's.
    Boundary(Boundary),
    /// Address in the kernel to which the callee returns.
    Kernel(u64),
    /// The thread did not run. This is the first word of its stack, inwards of the sampled PC.
    Blocked(Blocked),
}

impl Frame {
    /// The word in a record or stack table; never 0 for addresses other than 0.
    #[inline(always)]
    #[must_use]
    pub const fn encode(self) -> u64 {
        match self {
            Frame::Return(pc) => pc & ADDRESS_BITS,
            Frame::Exact(pc) => pc & ADDRESS_BITS | EXACT,
            Frame::Code(frame) => CODE | frame.bits(),
            Frame::NoCode(why) => CODE | why as u64,
            Frame::Cut(cause) => CUT | cause as u64,
            Frame::Boundary(boundary) => BOUNDARY | boundary.bits(),
            Frame::Kernel(pc) => pc | KERNEL,
            Frame::Blocked(blocked) => BLOCKED | blocked.bits(),
        }
    }

    /// Decodes a word. Any word is some frame.
    #[inline]
    #[must_use]
    pub const fn decode(word: u64) -> Frame {
        match word & !ADDRESS_BITS {
            CUT => match CutCause::from_number(word & 0xff) {
                Some(cause) => Frame::Cut(cause),
                None => Frame::Cut(CutCause::Other),
            },
            CODE => match CodeFrame::from_bits(word & ADDRESS_BITS) {
                Some(frame) => Frame::Code(frame),
                None => match LostCode::from_number(word & CodeFrame::OFFSET_BITS) {
                    Some(why) => Frame::NoCode(why),
                    None => Frame::NoCode(LostCode::Other),
                },
            },
            EXACT => Frame::Exact(word & ADDRESS_BITS),
            BOUNDARY => Frame::Boundary(Boundary::from_bits(word & ADDRESS_BITS)),
            KERNEL => Frame::Kernel(word),
            BLOCKED => Frame::Blocked(Blocked::from_bits(word & ADDRESS_BITS)),
            _ => Frame::Return(word & ADDRESS_BITS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::{Head, kind};
    use proptest::prelude::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    proptest! {
        #[test]
        fn samples_survive_the_round_trip(
            time in 1u64.., pc in 0u64..1 << 56, weight in 1u64..1 << 40, system: bool, stack: u32
        ) {
            let (words, n) = sample(time, pc, weight, system, stack);
            let raw = bytes(&words[..n]);
            let (record, used) = Record::decode(Words::new(&raw), 0).unwrap();
            prop_assert_eq!(used, n);
            prop_assert!(words[..n].iter().all(|w| *w != 0));
            let Record::Sample(s) = record else { panic!("{record:?}") };
            prop_assert_eq!((s.time, s.pc, s.weight, s.system), (time, pc, weight, system));
            match s.stack {
                Stack::None => prop_assert_eq!(stack, 0),
                Stack::Id(id) => prop_assert_eq!(id, stack),
                Stack::Frames(_) => prop_assert!(false),
            }
        }

        #[test]
        fn text_of_any_bytes_survives(text: Vec<u8>, time in 1u64..) {
            let mut buffer = [0u64; 100];
            let record = Encoder::new(&mut buffer).raw_word(time).text(&text).finish(kind::EXEC, 0).unwrap();
            prop_assert!(record.iter().all(|w| *w != 0));
            let raw = bytes(record);
            let Some((Record::Exec { time: t, path }, _)) = Record::decode(Words::new(&raw), 0) else { panic!() };
            prop_assert_eq!(t, time);
            prop_assert_eq!(path.to_vec(), text);
        }

        #[test]
        fn any_words_decode_without_panic(words: Vec<u64>, kind in 0u8..30, len in 0u16..40, arg: u32) {
            let mut words = words;
            words.insert(0, Head { kind, words: len, arg }.encode());
            let raw = bytes(&words);
            if let Some((record, used)) = Record::decode(Words::new(&raw), 0) {
                prop_assert!(used <= words.len());
                let _ = format!("{record:?}");
            }
        }

        #[test]
        fn frames_survive_the_round_trip(pc in 1u64..1 << 56, which in 0usize..24, id in 1u32.., offset: u32) {
            let frame = match which {
                0 => Frame::Return(pc),
                1 => Frame::Exact(pc),
                2 => Frame::Code(CodeFrame::new(id, Some(offset)).unwrap()),
                3 => Frame::Code(CodeFrame::new(id, None).unwrap()),
                4 => Frame::Kernel(pc | KERNEL),
                5 => Frame::Boundary(Boundary { entry: Entry::SystemCall, number: u16::try_from(offset & 0xfff).ok() }),
                6 => Frame::Boundary(Boundary { entry: Entry::Unknown, number: None }),
                7 => Frame::Blocked(Blocked::by(BlockedBy::RunQueue)),
                8 => Frame::Blocked(Blocked {
                    by: BlockedBy::SystemCall,
                    call: u16::try_from(offset & 0xfff).ok(),
                    descriptor: DescriptorKind::from_number(pc % 12),
                }),
                n if n < 9 + CutCause::ALL.len() => Frame::Cut(CutCause::ALL[n - 9]),
                n => Frame::NoCode(LostCode::ALL[(n - 9 - CutCause::ALL.len()) % LostCode::ALL.len()]),
            };
            prop_assert_eq!(Frame::decode(frame.encode()), frame);
        }

        #[test]
        fn any_word_is_some_frame(word: u64, upper in prop_oneof![Just(0xc0u64), Just(0xcc), Just(0xdd), Just(0xee), Just(0xff), Just(1), Just(0), any::<u64>()]) {
            let word = word & ADDRESS_BITS | upper << 56;
            let frame = Frame::decode(word);
            prop_assert_eq!(Frame::decode(frame.encode()), frame);
        }

        #[test]
        fn codes_survive_the_round_trip(
            id in 1u32.., time in 1u64.., first_line: u32, flags in 0u64..8,
            name in ".{0,80}", file in ".{0,80}", table in proptest::collection::vec(any::<u8>(), 0..500), at in 0u64..1 << 40
        ) {
            let mut buffer = [0u64; 400];
            let language = Language::CPython as u64;
            let facts = CodeFacts { language, first_line, flags, name: name.as_bytes(), file: file.as_bytes() };
            let record = facts.record(&mut buffer, id, time).unwrap();
            prop_assert!(record.iter().all(|w| *w != 0));
            let raw = bytes(record);
            let Some((Record::Code { code, time: t, facts }, _)) = Record::decode(Words::new(&raw), 0) else { panic!() };
            prop_assert_eq!((code, t, facts.language, facts.first_line, facts.flags), (id, time, language, first_line, flags));
            prop_assert_eq!((facts.name.to_text(), facts.file.to_text()), (name, file));

            let form = LineTableForm::Locations as u64;
            let part = LineTablePart { form, offset: at, whole: at + table.len() as u64, octets: &table[..] };
            let raw = bytes(part.record(&mut buffer, id).unwrap());
            let Some((Record::LineTable { code, part }, _)) = Record::decode(Words::new(&raw), 0) else { panic!() };
            prop_assert_eq!((code, part.form, part.offset, part.whole), (id, form, at, at + table.len() as u64));
            prop_assert_eq!(part.octets.to_vec(), table);
        }
    }

    #[test]
    fn records_of_memory_survive_the_round_trip() {
        let mut buffer = [0u64; 20];
        let decode = |words: &[u64]| {
            assert!(words.iter().all(|w| *w != 0));
            let raw = bytes(words);
            format!("{:?}", Record::decode(Words::new(&raw), 0).unwrap().0)
        };
        let numbers = |kind: u8, argument: u32, numbers: &[u64], name: Option<&[u8]>, buffer: &mut [u64]| {
            let mut encoder = Encoder::new(buffer).raw_word(77);
            for number in numbers {
                encoder = encoder.number(*number);
            }
            if let Some(name) = name {
                encoder = encoder.text(name);
            }
            decode(encoder.finish(kind, argument).unwrap())
        };
        assert_eq!(
            numbers(kind::ALLOC, 9, &[1, 0x1000, 0, 2, 4], None, &mut buffer),
            "Alloc { stack: 9, time: 77, tid: 1, address: 4096, size: 0, shift: 2, flags: 4 }"
        );
        assert_eq!(
            numbers(kind::FREE, 0, &[1, 0x1000, 64, 0, 76], None, &mut buffer),
            "Free { stack: 0, time: 77, tid: 1, address: 4096, size: 64, shift: 0, allocated: 76 }"
        );
        let mark = numbers(kind::HEAP_MARK, 0, &[3, 10, 20], Some(b"full"), &mut buffer);
        assert!(mark.starts_with("HeapMark { time: 77, tid: 3, live: 10, allocated: 20, name: "), "{mark}");
        assert_eq!(
            numbers(kind::ALLOC_INTERVAL, 3, &[4096], None, &mut buffer),
            "AllocInterval { shift: 3, time: 77, interval: 4096 }"
        );
        let level = numbers(kind::MEMORY, 0, &[1, 2, 3, 4, 5, 6, 0], None, &mut buffer);
        assert_eq!(
            level,
            "Memory(MemoryLevel { time: 77, live: 1, allocated: 2, resident_anonymous: 3, resident_files: 4, \
             resident_shared: 5, stacks: 6, slack: 0 })"
        );
        // Records that are cut short count as an unknown kind, not as another one.
        let cut = numbers(kind::MEMORY, 0, &[1, 2], None, &mut buffer);
        assert!(cut.starts_with("Unknown"), "{cut}");
    }

    #[test]
    fn records_of_waits_survive_the_round_trip() {
        let mut buffer = [0u64; 10];
        let wait = Wait {
            stack: 9,
            time: 77,
            length: 0,
            tid: 1,
            kind: WaitKind::Condition as u64,
            object: 0x1000,
            mutex: 0x2000,
            result: STILL_WAITING,
        };
        let raw = bytes(wait.record(&mut buffer).unwrap());
        let Some((Record::Waited(read), _)) = Record::decode(Words::new(&raw), 0) else { panic!() };
        assert_eq!(read, wait);
        let event = HandedOn { stack: 3, time: 78, tid: 2, kind: WaitKind::Mutex as u64, object: 0x2000 };
        let raw = bytes(event.released(&mut buffer).unwrap());
        assert!(
            matches!(Record::decode(Words::new(&raw), 0), Some((Record::Released(read), _)) if read == event)
        );
        let raw = bytes(event.taken(&mut buffer).unwrap());
        assert!(
            matches!(Record::decode(Words::new(&raw), 0), Some((Record::Taken(read), _)) if read == event)
        );
        assert!(wait.record(&mut [0; 4]).is_none());
    }

    #[test]
    fn a_record_longer_than_its_buffer_is_refused() {
        let mut buffer = [0u64; 3];
        assert!(Encoder::new(&mut buffer).raw_word(1).text(b"0123456789").finish(kind::EXEC, 0).is_none());
        assert!(Encoder::new(&mut []).finish(kind::EXEC, 0).is_none());
    }
}
