//! Records and the words they are made of; encoders stand beside their decoders.
//!
//! No word of a record is zero. Times are raw (the header's time source) and never 0; other numbers are written plus
//! one ([`Encoder::number`]); text is packed seven bytes a word ([`Encoder::text`]).
//!
//! Signal safety: the encoders allocate nothing, call nothing and cannot panic.

use crate::head::{Head, MAX_WORDS, kind};

/// Bits of a word that hold an address; the byte above holds a sample's weight or a frame's kind.
pub const ADDRESS_BITS: u64 = (1 << 56) - 1;
/// Weight that says "see the next word".
const WEIGHT_FOLLOWS: u64 = 255;
/// Upper byte of a frame whose address is exact (interrupted by a signal), not a return address.
const EXACT: u64 = 1 << 56;
/// Upper byte of the word that ends a cut stack; the cause is in the lowest byte.
const CUT: u64 = 0xcc << 56;

/// Why a stack is not whole. It stands where the outermost frame would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum CutCause {
    /// The depth limit was reached.
    Depth = 1,
    /// The handler's share of the period was used up.
    Time = 2,
    /// No unwind data for a frame and no usable frame pointer.
    NoUnwindData = 3,
    /// A stack word outside of the thread's stack, or unreadable.
    BadRead = 4,
    /// The stack pointer did not move on.
    Loop = 5,
    /// The rule for the frame is one that the walker does not know.
    Unsupported = 6,
    /// Any other cause, also those of newer writers.
    Other = 7,
}

impl CutCause {
    /// All causes, in order of their numbers.
    pub const ALL: [CutCause; 7] = [
        CutCause::Depth,
        CutCause::Time,
        CutCause::NoUnwindData,
        CutCause::BadRead,
        CutCause::Loop,
        CutCause::Unsupported,
        CutCause::Other,
    ];

    /// The cause in words, for reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            CutCause::Depth => "depth limit",
            CutCause::Time => "time limit",
            CutCause::NoUnwindData => "no unwind data",
            CutCause::BadRead => "stack not readable",
            CutCause::Loop => "stack does not advance",
            CutCause::Unsupported => "unwind rule not known",
            CutCause::Other => "other",
        }
    }

    const fn from_number(number: u8) -> CutCause {
        match number {
            1 => CutCause::Depth,
            2 => CutCause::Time,
            3 => CutCause::NoUnwindData,
            4 => CutCause::BadRead,
            5 => CutCause::Loop,
            6 => CutCause::Unsupported,
            _ => CutCause::Other,
        }
    }
}

/// One caller on a stack, outwards from the sampled PC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Frame {
    /// Address to which the callee returns: the call is the instruction before it.
    Return(u64),
    /// Address of an instruction that a signal interrupted.
    Exact(u64),
    /// The stack goes on, but could not be followed.
    Cut(CutCause),
}

impl Frame {
    /// The word in a record or stack table; never 0 for addresses other than 0.
    #[inline(always)]
    #[must_use]
    pub const fn encode(self) -> u64 {
        match self {
            Frame::Return(pc) => pc & ADDRESS_BITS,
            Frame::Exact(pc) => pc & ADDRESS_BITS | EXACT,
            Frame::Cut(cause) => CUT | cause as u64,
        }
    }

    /// Reads a word back. Any word is some frame.
    #[inline]
    #[must_use]
    pub const fn decode(word: u64) -> Frame {
        match word & !ADDRESS_BITS {
            CUT => Frame::Cut(CutCause::from_number(word as u8)),
            EXACT => Frame::Exact(word & ADDRESS_BITS),
            _ => Frame::Return(word & ADDRESS_BITS),
        }
    }
}

/// A sample of a weight below 255, which its three words have room for; `None`: use [`long_sample`].
///
/// `time` must not be 0. Weight 0 is recorded as 1.
#[inline(always)]
#[must_use]
pub fn short_sample(time: u64, pc: u64, weight: u64, system: bool, stack: u32) -> Option<[u64; 3]> {
    let weight = weight.max(1);
    (weight < WEIGHT_FOLLOWS).then(|| [sample_head(system, 3, stack), time, weight << 56 | pc & ADDRESS_BITS])
}

/// A sample of any weight: four words. `time` must not be 0.
#[inline(always)]
#[must_use]
pub fn long_sample(time: u64, pc: u64, weight: u64, system: bool, stack: u32) -> [u64; 4] {
    [sample_head(system, 4, stack), time, WEIGHT_FOLLOWS << 56 | pc & ADDRESS_BITS, weight.max(1)]
}

#[inline(always)]
fn sample_head(system: bool, words: u16, stack: u32) -> u64 {
    Head { kind: if system { kind::SYSTEM_SAMPLE } else { kind::SAMPLE }, words, arg: stack }.encode()
}

/// Either of the two, and how many of the words count.
#[must_use]
pub fn sample(time: u64, pc: u64, weight: u64, system: bool, stack: u32) -> ([u64; 4], usize) {
    match short_sample(time, pc, weight, system, stack) {
        Some([head, time, place]) => ([head, time, place, 0], 3),
        None => (long_sample(time, pc, weight, system, stack), 4),
    }
}

/// The first four words of a sample that carries its own `frames` words; they follow it.
/// `frames` beyond what a record can hold are the caller's to cut ([`MAX_FRAMES`]).
#[inline]
#[must_use]
pub fn sample_with_frames(time: u64, pc: u64, weight: u64, system: bool, frames: usize) -> [u64; 4] {
    let kind = if system { kind::SYSTEM_SAMPLE_FRAMES } else { kind::SAMPLE_FRAMES };
    let weight = if weight == 0 { 1 } else { weight };
    let words = (4 + frames).min(MAX_WORDS) as u16;
    [Head { kind, words, arg: 0 }.encode(), time, WEIGHT_FOLLOWS << 56 | pc & ADDRESS_BITS, weight]
}

/// Most frames that one record can carry.
pub const MAX_FRAMES: usize = MAX_WORDS - 4;

/// Writes a record into a caller's buffer, word by word; [`Encoder::finish`] sets the head.
#[derive(Debug)]
pub struct Encoder<'a> {
    buffer: &'a mut [u64],
    used: usize,
    overrun: bool,
}

impl<'a> Encoder<'a> {
    /// Starts a record; the first word is kept for the head.
    #[must_use]
    pub fn new(buffer: &'a mut [u64]) -> Self {
        let overrun = buffer.is_empty();
        Encoder { buffer, used: 1, overrun }
    }

    /// A word as it is (times, frames): must not be 0.
    pub fn word(mut self, word: u64) -> Self {
        match self.buffer.get_mut(self.used) {
            Some(place) => *place = word,
            None => self.overrun = true,
        }
        self.used = self.used.saturating_add(1);
        self
    }

    /// A number below 2^64 - 1, stored plus one.
    pub fn number(self, number: u64) -> Self {
        self.word(number.saturating_add(1))
    }

    /// Text of any bytes: seven a word in the low bytes, the upper byte 0x80 | count; the last word has fewer than seven.
    pub fn text(mut self, text: &[u8]) -> Self {
        let mut rest = text;
        loop {
            let count = rest.len().min(7);
            let mut word = (0x80 | count as u64) << 56;
            for (i, byte) in rest.iter().take(7).enumerate() {
                word |= u64::from(*byte) << (8 * i);
            }
            self = self.word(word);
            if count < 7 {
                return self;
            }
            rest = rest.get(7..).unwrap_or(&[]);
        }
    }

    /// Sets the head and gives the record, or `None` when the buffer was too small.
    #[must_use]
    pub fn finish(self, kind: u8, arg: u32) -> Option<&'a [u64]> {
        if self.overrun || self.used > MAX_WORDS {
            return None;
        }
        let record = self.buffer.get_mut(..self.used)?;
        *record.first_mut()? = Head { kind, words: self.used as u16, arg }.encode();
        Some(record)
    }
}

/// Words in a file's bytes. Every access is checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    /// The whole words in `bytes`; a ragged end is left out.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Words(bytes.get(..bytes.len() & !7).unwrap_or(&[]))
    }

    /// Number of words.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len() / 8
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Word `at`, if there is one.
    #[inline]
    #[must_use]
    pub fn get(&self, at: usize) -> Option<u64> {
        let from = at.checked_mul(8)?;
        let bytes = self.0.get(from..from.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Words `from..to`, or fewer, as many as there are.
    #[must_use]
    pub fn slice(&self, from: usize, to: usize) -> Words<'a> {
        let to = to.min(self.len());
        let from = from.min(to);
        Words(self.0.get(from * 8..to * 8).unwrap_or(&[]))
    }

    /// The words one after another.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + use<'a> {
        self.0.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes))
    }
}

/// Text packed into a record.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(Words<'a>);

impl<'a> Text<'a> {
    /// The bytes.
    pub fn bytes(&self) -> impl Iterator<Item = u8> + use<'a> {
        self.0.iter().flat_map(|word| word.to_le_bytes().into_iter().take(((word >> 56) & 7) as usize))
    }

    /// The bytes as a vector.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.bytes().collect()
    }

    /// The text, wrong UTF-8 replaced.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(&self.to_vec()).into_owned()
    }
}

/// The stack of a sample.
#[derive(Clone, Copy, Debug)]
pub enum Stack<'a> {
    /// None was taken.
    None,
    /// Number of a stack in the file's table ([`crate::Stacks`] with `std`).
    Id(u32),
    /// In the record itself.
    Frames(Frames<'a>),
}

/// Frames of a stack, innermost caller first. The sampled PC itself is not among them.
#[derive(Clone, Copy, Debug)]
pub struct Frames<'a>(Words<'a>);

impl<'a> Frames<'a> {
    /// The frames, outwards.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Frame> + ExactSizeIterator + use<'a> {
        self.0.iter().map(Frame::decode)
    }

    /// Number of frames, a cut mark counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// One sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Raw time.
    pub time: u64,
    /// Program counter; for a system sample the instruction after the system call.
    pub pc: u64,
    /// Periods of CPU time that it stands for, at least 1.
    pub weight: u64,
    /// Taken for time in the kernel.
    pub system: bool,
    /// Callers.
    pub stack: Stack<'a>,
}

/// A record as read. Lives are bounded by the file's bytes; nothing is copied.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Record<'a> {
    /// A sample.
    Sample(Sample<'a>),
    /// Defines stacks `first`, `first + 1`, ...: each PC's caller is the stack before it, the first one's is `parent`.
    Stack {
        /// Id of the first stack defined, from 1.
        first: u32,
        /// Stack outside of the first, 0 = none.
        parent: u32,
        /// Frames from the outside inwards.
        frames: Frames<'a>,
    },
    /// Mark set by the program.
    Mark {
        /// Raw time.
        time: u64,
        /// Thread that set it.
        tid: u32,
        /// Its name.
        name: Text<'a>,
    },
    /// A thread was found or began.
    ThreadBegin {
        /// Serial number of the thread in this file.
        thread: u32,
        /// Raw time.
        time: u64,
        /// Kernel's id.
        tid: u32,
        /// Its name then.
        name: Text<'a>,
    },
    /// A thread ended.
    ThreadEnd {
        /// Serial number.
        thread: u32,
        /// Raw time.
        time: u64,
        /// Kernel's id.
        tid: u32,
        /// CPU time that it used, when known (else 0).
        cpu_ns: u64,
    },
    /// A thread has another name.
    ThreadName {
        /// Serial number.
        thread: u32,
        /// Raw time.
        time: u64,
        /// Kernel's id.
        tid: u32,
        /// Its name from now on.
        name: Text<'a>,
    },
    /// The process is about to execute another program.
    Exec {
        /// Raw time.
        time: u64,
        /// Path given.
        path: Text<'a>,
    },
    /// A region appeared.
    RegionBegin(RegionRecord<'a>),
    /// A region went.
    RegionEnd {
        /// Region id.
        region: u32,
        /// Raw time at which it was found gone.
        time: u64,
    },
    /// Samples that were due and are not here.
    Loss {
        /// Cause ([`crate::LossCause`] number).
        cause: u32,
        /// Raw time.
        time: u64,
        /// Samples.
        samples: u64,
        /// Periods.
        weight: u64,
    },
    /// Anchor of the time scale, with CPU times.
    Anchor {
        /// Raw time.
        time: u64,
        /// CLOCK_MONOTONIC in ns.
        monotonic_ns: u64,
        /// CLOCK_REALTIME in ns since 1970.
        realtime_ns: u64,
        /// Thread whose CPU time follows, 0 = none.
        tid: u32,
        /// Its CPU time in ns.
        thread_cpu_ns: u64,
        /// User CPU time of the process in ns, 0 = not known.
        user_ns: u64,
        /// System CPU time of the process in ns.
        system_ns: u64,
    },
    /// The process made a child.
    Fork {
        /// Raw time.
        time: u64,
        /// Child's process id as the parent sees it.
        child: u32,
    },
    /// A thread's clock was armed.
    Clock {
        /// Serial number of the thread.
        thread: u32,
        /// Raw time.
        time: u64,
        /// Kernel's id.
        tid: u32,
        /// [`crate::Clock`] number, 0 = none could be armed.
        clock: u64,
        /// Period in ns.
        period_ns: u64,
    },
    /// What follows in the segment is another thread's ([`crate::Segment::runs`] splits there).
    TakeOver {
        /// Serial number of the thread.
        thread: u32,
        /// Raw time.
        time: u64,
        /// Kernel's id.
        tid: u32,
        /// Its name by then.
        name: Text<'a>,
    },
    /// A kind that this reader does not know; the words are there.
    Unknown {
        /// Its head.
        head: Head,
        /// Words after the head.
        words: Words<'a>,
    },
}

/// A region's record. Flags are [`region_flag`].
#[derive(Clone, Copy, Debug)]
pub struct RegionRecord<'a> {
    /// Id in this file, from 1.
    pub region: u32,
    /// Raw time at which it was found.
    pub time: u64,
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Offset of `start` in the file.
    pub offset: u64,
    /// Device, as `major << 32 | minor`.
    pub device: u64,
    /// Inode, 0 = no file.
    pub inode: u64,
    /// [`region_flag`].
    pub flags: u64,
    /// Build-id, perhaps empty.
    pub build_id: Text<'a>,
    /// Path as the maps file has it, ` (deleted)` removed; `[vdso]`; empty = anonymous.
    pub path: Text<'a>,
}

/// Flags of a region.
pub mod region_flag {
    /// The file was deleted or replaced when it was seen.
    pub const DELETED: u64 = 1;
    /// Writable as well (JIT code).
    pub const WRITABLE: u64 = 2;
    /// No file behind it.
    pub const ANONYMOUS: u64 = 4;
    /// The sampler's own code.
    pub const OURS: u64 = 8;
}

impl<'a> Record<'a> {
    /// Reads the record at word `at`, and says how many words it has. `None`: no whole record there.
    #[must_use]
    pub fn decode(words: Words<'a>, at: usize) -> Option<(Record<'a>, usize)> {
        let head = Head::decode(words.get(at)?)?;
        let end = at.checked_add(usize::from(head.words))?;
        if end > words.len() {
            return None;
        }
        let body = words.slice(at + 1, end);
        let record = Record::body(head, body).unwrap_or(Record::Unknown { head, words: body });
        Some((record, usize::from(head.words)))
    }

    fn body(head: Head, body: Words<'a>) -> Option<Record<'a>> {
        let mut rest = Reader { words: body, at: 0 };
        Some(match head.kind {
            kind::SAMPLE | kind::SYSTEM_SAMPLE | kind::SAMPLE_FRAMES | kind::SYSTEM_SAMPLE_FRAMES => {
                let time = rest.word()?;
                let place = rest.word()?;
                let mut weight = place >> 56;
                if weight == WEIGHT_FOLLOWS {
                    weight = rest.word()?;
                }
                let stack = match (head.kind, head.arg) {
                    (kind::SAMPLE | kind::SYSTEM_SAMPLE, 0) => Stack::None,
                    (kind::SAMPLE | kind::SYSTEM_SAMPLE, id) => Stack::Id(id),
                    _ => Stack::Frames(Frames(rest.rest())),
                };
                let system = matches!(head.kind, kind::SYSTEM_SAMPLE | kind::SYSTEM_SAMPLE_FRAMES);
                Record::Sample(Sample {
                    time,
                    pc: place & ADDRESS_BITS,
                    weight: weight.max(1),
                    system,
                    stack,
                })
            }
            kind::STACK => Record::Stack {
                first: u32::try_from(rest.word()?).ok()?,
                parent: head.arg,
                frames: Frames(rest.rest()),
            },
            kind::MARK => Record::Mark { time: rest.word()?, tid: rest.id()?, name: rest.text()? },
            kind::THREAD_BEGIN => Record::ThreadBegin {
                thread: head.arg,
                time: rest.word()?,
                tid: rest.id()?,
                name: rest.text()?,
            },
            kind::THREAD_END => Record::ThreadEnd {
                thread: head.arg,
                time: rest.word()?,
                tid: rest.id()?,
                cpu_ns: rest.number()?,
            },
            kind::THREAD_NAME => Record::ThreadName {
                thread: head.arg,
                time: rest.word()?,
                tid: rest.id()?,
                name: rest.text()?,
            },
            kind::TAKE_OVER => {
                Record::TakeOver { thread: head.arg, time: rest.word()?, tid: rest.id()?, name: rest.text()? }
            }
            kind::EXEC => Record::Exec { time: rest.word()?, path: rest.text()? },
            kind::REGION_BEGIN => Record::RegionBegin(RegionRecord {
                region: head.arg,
                time: rest.word()?,
                start: rest.number()?,
                end: rest.number()?,
                offset: rest.number()?,
                device: rest.number()?,
                inode: rest.number()?,
                flags: rest.number()?,
                build_id: rest.text()?,
                path: rest.text()?,
            }),
            kind::REGION_END => Record::RegionEnd { region: head.arg, time: rest.word()? },
            kind::LOSS => Record::Loss {
                cause: head.arg,
                time: rest.word()?,
                samples: rest.number()?,
                weight: rest.number()?,
            },
            kind::ANCHOR => Record::Anchor {
                time: rest.word()?,
                monotonic_ns: rest.number()?,
                realtime_ns: rest.number()?,
                tid: rest.id()?,
                thread_cpu_ns: rest.number()?,
                user_ns: rest.number()?,
                system_ns: rest.number()?,
            },
            kind::FORK => Record::Fork { time: rest.word()?, child: rest.id()? },
            kind::CLOCK => Record::Clock {
                thread: head.arg,
                time: rest.word()?,
                tid: rest.id()?,
                clock: rest.number()?,
                period_ns: rest.number()?,
            },
            _ => return None,
        })
    }
}

/// Takes a record's words one after another.
struct Reader<'a> {
    words: Words<'a>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn word(&mut self) -> Option<u64> {
        let word = self.words.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    fn number(&mut self) -> Option<u64> {
        Some(self.word()?.saturating_sub(1))
    }

    fn id(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn text(&mut self) -> Option<Text<'a>> {
        let from = self.at;
        loop {
            let word = self.word()?;
            if word >> 59 != 0x80 >> 3 {
                return None;
            }
            if (word >> 56) & 7 < 7 {
                return Some(Text(self.words.slice(from, self.at)));
            }
        }
    }

    fn rest(&mut self) -> Words<'a> {
        self.words.slice(self.at, self.words.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let record = Encoder::new(&mut buffer).word(time).text(&text).finish(kind::EXEC, 0).unwrap();
            prop_assert!(record.iter().all(|w| *w != 0));
            let raw = bytes(record);
            let Some((Record::Exec { time: t, path }, _)) = Record::decode(Words::new(&raw), 0) else { panic!() };
            prop_assert_eq!(t, time);
            prop_assert_eq!(path.to_vec(), text);
        }

        #[test]
        fn any_words_decode_without_panic(words: Vec<u64>, kind in 0u8..20, len in 0u16..40, arg: u32) {
            let mut words = words;
            words.insert(0, Head { kind, words: len, arg }.encode());
            let raw = bytes(&words);
            if let Some((record, used)) = Record::decode(Words::new(&raw), 0) {
                prop_assert!(used <= words.len());
                let _ = format!("{record:?}");
            }
        }

        #[test]
        fn frames_survive_the_round_trip(pc in 1u64..1 << 56, which in 0usize..9) {
            let frame = match which {
                0 => Frame::Return(pc),
                1 => Frame::Exact(pc),
                n => Frame::Cut(CutCause::ALL[n - 2]),
            };
            prop_assert_eq!(Frame::decode(frame.encode()), frame);
        }
    }

    #[test]
    fn a_record_longer_than_its_buffer_is_refused() {
        let mut buffer = [0u64; 3];
        assert!(Encoder::new(&mut buffer).word(1).text(b"0123456789").finish(kind::EXEC, 0).is_none());
        assert!(Encoder::new(&mut []).finish(kind::EXEC, 0).is_none());
    }
}
