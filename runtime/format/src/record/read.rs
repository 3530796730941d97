//! Records from a file's words, which may be anything.

use super::write::WEIGHT_FOLLOWS;
use super::{ADDRESS_BITS, CodeFacts, Frame, LineTablePart, RegionFacts};
use crate::head::{Head, kind};
use crate::words::Words;

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

/// What the memory of a process was at an instant, in octets; 0 = not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryLevel {
    /// Raw time.
    pub time: u64,
    /// Estimate of what is live.
    pub live: u64,
    /// Estimate of what was allocated since the start.
    pub allocated: u64,
    /// Resident anonymous memory.
    pub resident_anonymous: u64,
    /// Resident pages of files.
    pub resident_files: u64,
    /// Resident shared memory.
    pub resident_shared: u64,
    /// Thread stacks.
    pub stacks: u64,
    /// What the allocator has from the kernel and has given to nobody.
    pub slack: u64,
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
    RegionBegin {
        /// Id in this file, from 1.
        region: u32,
        /// Raw time at which it was found.
        time: u64,
        /// Where it is, and what is there.
        facts: RegionFacts<Text<'a>>,
    },
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
    /// A function of an interpreted language.
    Code {
        /// Its number in this file, from 1.
        code: u32,
        /// Raw time at which it was met.
        time: u64,
        /// What it is.
        facts: CodeFacts<Text<'a>>,
    },
    /// A part of such a function's line table. Parts come in order, after the function's own record.
    LineTable {
        /// Number of the function.
        code: u32,
        /// The part.
        part: LineTablePart<Text<'a>>,
    },
    /// An interpreter was found.
    Interpreter {
        /// [`super::Language`] number.
        language: u32,
        /// Raw time.
        time: u64,
        /// Its version as it has it itself (CPython: `Py_Version`), 0 = not known.
        version: u64,
        /// [`super::InterpreterState`] number.
        state: u64,
        /// Path of the object.
        path: Text<'a>,
    },
    /// A sampled request for memory.
    Alloc {
        /// Stack of the request, 0 = none.
        stack: u32,
        /// Raw time.
        time: u64,
        /// Kernel's id of the thread.
        tid: u32,
        /// Address of the block.
        address: u64,
        /// Octets asked for.
        size: u64,
        /// How often the interval asked for was doubled.
        shift: u64,
        /// [`crate::heap::entry_flag`].
        flags: u64,
    },
    /// A sampled block was freed.
    Free {
        /// Stack of its request.
        stack: u32,
        /// Raw time.
        time: u64,
        /// Kernel's id of the thread that freed it.
        tid: u32,
        /// Its address.
        address: u64,
        /// Octets that were asked for.
        size: u64,
        /// Its shift.
        shift: u64,
        /// Raw time of the request.
        allocated: u64,
    },
    /// An instant of the heap that the program named.
    HeapMark {
        /// Raw time.
        time: u64,
        /// Thread that named it.
        tid: u32,
        /// Estimate of the octets live then.
        live: u64,
        /// Estimate of the octets allocated until then.
        allocated: u64,
        /// Its name.
        name: Text<'a>,
    },
    /// The interval of allocation samples changed.
    AllocInterval {
        /// How often the interval asked for is doubled from now on.
        shift: u32,
        /// Raw time.
        time: u64,
        /// The interval from now on, in octets.
        interval: u64,
    },
    /// What the memory of the process was, in octets.
    Memory(MemoryLevel),
    /// A kind that this reader does not know; the words are there.
    Unknown {
        /// Its head.
        head: Head,
        /// Words after the head.
        words: Words<'a>,
    },
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
            kind::REGION_BEGIN => Record::RegionBegin {
                region: head.arg,
                time: rest.word()?,
                facts: RegionFacts {
                    start: rest.number()?,
                    end: rest.number()?,
                    offset: rest.number()?,
                    device: rest.number()?,
                    inode: rest.number()?,
                    flags: rest.number()?,
                    build_id: rest.text()?,
                    path: rest.text()?,
                },
            },
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
            kind::CODE => Record::Code {
                code: head.arg,
                time: rest.word()?,
                facts: CodeFacts {
                    language: rest.number()?,
                    first_line: rest.id()?,
                    flags: rest.number()?,
                    name: rest.text()?,
                    file: rest.text()?,
                },
            },
            kind::LINE_TABLE => Record::LineTable {
                code: head.arg,
                part: LineTablePart {
                    form: rest.number()?,
                    offset: rest.number()?,
                    whole: rest.number()?,
                    octets: rest.text()?,
                },
            },
            kind::INTERPRETER => Record::Interpreter {
                language: head.arg,
                time: rest.word()?,
                version: rest.number()?,
                state: rest.number()?,
                path: rest.text()?,
            },
            kind::ALLOC => Record::Alloc {
                stack: head.arg,
                time: rest.word()?,
                tid: rest.id()?,
                address: rest.number()?,
                size: rest.number()?,
                shift: rest.number()?,
                flags: rest.number()?,
            },
            kind::FREE => Record::Free {
                stack: head.arg,
                time: rest.word()?,
                tid: rest.id()?,
                address: rest.number()?,
                size: rest.number()?,
                shift: rest.number()?,
                allocated: rest.number()?,
            },
            kind::HEAP_MARK => Record::HeapMark {
                time: rest.word()?,
                tid: rest.id()?,
                live: rest.number()?,
                allocated: rest.number()?,
                name: rest.text()?,
            },
            kind::ALLOC_INTERVAL => {
                Record::AllocInterval { shift: head.arg, time: rest.word()?, interval: rest.number()? }
            }
            kind::MEMORY => Record::Memory(MemoryLevel {
                time: rest.word()?,
                live: rest.number()?,
                allocated: rest.number()?,
                resident_anonymous: rest.number()?,
                resident_files: rest.number()?,
                resident_shared: rest.number()?,
                stacks: rest.number()?,
                slack: rest.number()?,
            }),
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
