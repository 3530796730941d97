//! Decodes records from a file's words, which may be damaged or come from another writer.

use super::write::WEIGHT_FOLLOWS;
use super::{ADDRESS_BITS, CodeFacts, Frame, HandedOn, LineTablePart, RegionFacts, Wait};
use crate::head::{Head, kind};
use crate::words::Words;
use pct_elf::FileVersion;

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

    /// The text, with invalid UTF-8 replaced.
    #[cfg(feature = "std")]
    #[must_use]
    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(&self.to_vec()).into_owned()
    }
}

/// The stack of a sample.
#[derive(Clone, Copy, Debug)]
pub enum Stack<'a> {
    /// It has no stack.
    None,
    /// Number of a stack in the file's table ([`crate::Stacks`] with `std`).
    Id(u32),
    /// The frames are in the record itself.
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

    /// The frames outside of the one at index `place`.
    #[must_use]
    pub fn outside_of(self, place: usize) -> Frames<'a> {
        Frames(self.0.slice(self.0.len().min(place + 1), self.0.len()))
    }

    /// Number of frames, including a cut mark.
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
    /// Program counter; for a system sample the instruction after the system call, or an address in the kernel
    /// ([`Sample::kernel_pc`]).
    pub pc: u64,
    /// Periods of CPU time that it stands for, at least 1.
    pub weight: u64,
    /// Whether it counts as time in the kernel.
    pub system: bool,
    /// Callers.
    pub stack: Stack<'a>,
}

impl Sample<'_> {
    /// The thread's address in the kernel, if the kernel's own calls are part of the stack.
    #[must_use]
    pub fn kernel_pc(&self) -> Option<u64> {
        super::is_kernel_address(self.pc).then_some(self.pc)
    }
}

/// The memory of a process at an instant, in octets; 0 = unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryLevel {
    /// Raw time.
    pub time: u64,
    /// Estimated live memory.
    pub live: u64,
    /// Estimated memory allocated since the start.
    pub allocated: u64,
    /// Resident anonymous memory.
    pub resident_anonymous: u64,
    /// Resident pages of files.
    pub resident_files: u64,
    /// Resident shared memory.
    pub resident_shared: u64,
    /// Thread stacks.
    pub stacks: u64,
    /// Memory that the allocator has from the kernel and that is not in use.
    pub slack: u64,
}

/// A decoded record. It borrows the file's bytes; nothing is copied.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Record<'a> {
    /// A sample.
    Sample(Sample<'a>),
    /// Defines stacks `first`, `first + 1`, ...: each PC's caller is the stack before it, the first one's is `parent`.
    Stack {
        /// Id of the first stack defined, from 1.
        first: u32,
        /// Stack outside of the first; 0 = none.
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
        /// CPU ns that it had used when the sampler last looked at it before its end, or 0 if unknown.
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
        /// Path that was passed to exec.
        path: Text<'a>,
    },
    /// A region appeared.
    RegionBegin {
        /// Id in this file, from 1.
        region: u32,
        /// Raw time at which it was found.
        time: u64,
        /// Its addresses and contents.
        facts: RegionFacts<Text<'a>>,
    },
    /// A region vanished.
    RegionEnd {
        /// Region id.
        region: u32,
        /// Raw time at which it was found to be gone.
        time: u64,
    },
    /// Samples that were due and are missing.
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
        /// Thread whose CPU time follows; 0 = none.
        tid: u32,
        /// Its CPU time in ns.
        thread_cpu_ns: u64,
        /// User CPU time of the process in ns; 0 = unknown.
        user_ns: u64,
        /// System CPU time of the process in ns.
        system_ns: u64,
    },
    /// The process made a child.
    Fork {
        /// Raw time.
        time: u64,
        /// Child's process id in the parent's namespace.
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
        /// [`crate::Clock`] number; 0 = none could be armed.
        clock: u64,
        /// Period in ns.
        period_ns: u64,
    },
    /// What follows in the segment belongs to another thread ([`crate::Segment::runs`] splits there).
    TakeOver {
        /// Serial number of the thread.
        thread: u32,
        /// Raw time.
        time: u64,
        /// Kernel's id.
        tid: u32,
        /// Its name at that time.
        name: Text<'a>,
    },
    /// A function of an interpreted language.
    Code {
        /// Its number in this file, from 1.
        code: u32,
        /// Raw time at which the sampler first met it.
        time: u64,
        /// Its facts.
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
        /// Its version in its own encoding (CPython: `Py_Version`), 0 = unknown.
        version: u64,
        /// [`super::InterpreterState`] number.
        state: u64,
        /// Path of the object.
        path: Text<'a>,
        /// What of it the state is about.
        detail: Option<Text<'a>>,
    },
    /// A sampled request for memory.
    Alloc {
        /// Stack of the request; 0 = none.
        stack: u32,
        /// Raw time.
        time: u64,
        /// Kernel's id of the thread.
        tid: u32,
        /// Address of the block.
        address: u64,
        /// Requested octets.
        size: u64,
        /// How often the requested interval was doubled.
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
        /// Requested octets.
        size: u64,
        /// Its shift.
        shift: u64,
        /// Raw time of the request.
        allocated: u64,
    },
    /// An instant of the heap to which the program gave a name.
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
        /// How often the requested interval is doubled from now on.
        shift: u32,
        /// Raw time.
        time: u64,
        /// The interval from now on, in octets.
        interval: u64,
    },
    /// The memory of the process, in octets.
    Memory(MemoryLevel),
    /// A thread has waited.
    Waited(Wait),
    /// An object was released, or its waiters woken.
    Released(HandedOn),
    /// An object was taken without waiting while others waited for it.
    Taken(HandedOn),
    /// A kind that this reader does not know, with its words.
    Unknown {
        /// Its head.
        head: Head,
        /// Words after the head.
        words: Words<'a>,
    },
}

impl<'a> Record<'a> {
    /// Decodes the record at word `at`, and returns its number of words. `None`: there is no complete record.
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
                let time = rest.read_word()?;
                let (pc, weight) = rest.place_and_weight()?;
                let stack = match (head.kind, head.arg) {
                    (kind::SAMPLE | kind::SYSTEM_SAMPLE, 0) => Stack::None,
                    (kind::SAMPLE | kind::SYSTEM_SAMPLE, id) => Stack::Id(id),
                    _ => Stack::Frames(Frames(rest.rest())),
                };
                let system = matches!(head.kind, kind::SYSTEM_SAMPLE | kind::SYSTEM_SAMPLE_FRAMES);
                Record::Sample(Sample { time, pc, weight, system, stack })
            }
            kind::KERNEL_SAMPLE | kind::KERNEL_SAMPLE_FRAMES => {
                let time = rest.read_word()?;
                let (pc, weight) = rest.place_and_weight()?;
                let stack = match (head.kind, head.arg) {
                    (kind::KERNEL_SAMPLE, 0) => Stack::None,
                    (kind::KERNEL_SAMPLE, id) => Stack::Id(id),
                    _ => Stack::Frames(Frames(rest.rest())),
                };
                Record::Sample(Sample { time, pc: pc | super::KERNEL, weight, system: true, stack })
            }
            kind::STACK => Record::Stack {
                first: u32::try_from(rest.read_word()?).ok()?,
                parent: head.arg,
                frames: Frames(rest.rest()),
            },
            kind::MARK => Record::Mark { time: rest.read_word()?, tid: rest.id()?, name: rest.text()? },
            kind::THREAD_BEGIN => Record::ThreadBegin {
                thread: head.arg,
                time: rest.read_word()?,
                tid: rest.id()?,
                name: rest.text()?,
            },
            kind::THREAD_END => Record::ThreadEnd {
                thread: head.arg,
                time: rest.read_word()?,
                tid: rest.id()?,
                cpu_ns: rest.number()?,
            },
            kind::THREAD_NAME => Record::ThreadName {
                thread: head.arg,
                time: rest.read_word()?,
                tid: rest.id()?,
                name: rest.text()?,
            },
            kind::TAKE_OVER => Record::TakeOver {
                thread: head.arg,
                time: rest.read_word()?,
                tid: rest.id()?,
                name: rest.text()?,
            },
            kind::EXEC => Record::Exec { time: rest.read_word()?, path: rest.text()? },
            kind::REGION_BEGIN => Record::RegionBegin {
                region: head.arg,
                time: rest.read_word()?,
                facts: RegionFacts {
                    start: rest.number()?,
                    end: rest.number()?,
                    offset: rest.number()?,
                    device: rest.number()?,
                    inode: rest.number()?,
                    flags: rest.number()?,
                    build_id: rest.text()?,
                    path: rest.text()?,
                    version: FileVersion {
                        bytes: rest.number().unwrap_or(0),
                        changed_ns: rest.number().unwrap_or(0),
                        first_page: rest.number().unwrap_or(0),
                    },
                },
            },
            kind::REGION_END => Record::RegionEnd { region: head.arg, time: rest.read_word()? },
            kind::LOSS => Record::Loss {
                cause: head.arg,
                time: rest.read_word()?,
                samples: rest.number()?,
                weight: rest.number()?,
            },
            kind::ANCHOR => Record::Anchor {
                time: rest.read_word()?,
                monotonic_ns: rest.number()?,
                realtime_ns: rest.number()?,
                tid: rest.id()?,
                thread_cpu_ns: rest.number()?,
                user_ns: rest.number()?,
                system_ns: rest.number()?,
            },
            kind::FORK => Record::Fork { time: rest.read_word()?, child: rest.id()? },
            kind::CLOCK => Record::Clock {
                thread: head.arg,
                time: rest.read_word()?,
                tid: rest.id()?,
                clock: rest.number()?,
                period_ns: rest.number()?,
            },
            kind::CODE => Record::Code {
                code: head.arg,
                time: rest.read_word()?,
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
                time: rest.read_word()?,
                version: rest.number()?,
                state: rest.number()?,
                path: rest.text()?,
                // Older writers have none.
                detail: rest.text(),
            },
            kind::ALLOC => Record::Alloc {
                stack: head.arg,
                time: rest.read_word()?,
                tid: rest.id()?,
                address: rest.number()?,
                size: rest.number()?,
                shift: rest.number()?,
                flags: rest.number()?,
            },
            kind::FREE => Record::Free {
                stack: head.arg,
                time: rest.read_word()?,
                tid: rest.id()?,
                address: rest.number()?,
                size: rest.number()?,
                shift: rest.number()?,
                allocated: rest.number()?,
            },
            kind::HEAP_MARK => Record::HeapMark {
                time: rest.read_word()?,
                tid: rest.id()?,
                live: rest.number()?,
                allocated: rest.number()?,
                name: rest.text()?,
            },
            kind::ALLOC_INTERVAL => {
                Record::AllocInterval { shift: head.arg, time: rest.read_word()?, interval: rest.number()? }
            }
            kind::MEMORY => Record::Memory(MemoryLevel {
                time: rest.read_word()?,
                live: rest.number()?,
                allocated: rest.number()?,
                resident_anonymous: rest.number()?,
                resident_files: rest.number()?,
                resident_shared: rest.number()?,
                stacks: rest.number()?,
                slack: rest.number()?,
            }),
            kind::WAITED => {
                let (time, tid, kind) = (rest.read_word()?, rest.id()?, rest.number()?);
                let (object, length) = (rest.number()?, rest.number()?);
                let (result, mutex) = (rest.number()?, rest.number()?);
                Record::Waited(Wait { stack: head.arg, time, length, tid, kind, object, mutex, result })
            }
            kind::RELEASED | kind::TAKEN => {
                let (time, tid) = (rest.read_word()?, rest.id()?);
                let (of, object) = (rest.number()?, rest.number()?);
                let event = HandedOn { stack: head.arg, time, tid, kind: of, object };
                if head.kind == kind::RELEASED { Record::Released(event) } else { Record::Taken(event) }
            }
            _ => return None,
        })
    }
}

/// Reads a record's words one after another.
struct Reader<'a> {
    words: Words<'a>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn read_word(&mut self) -> Option<u64> {
        let word = self.words.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    /// A sample's address and weight.
    fn place_and_weight(&mut self) -> Option<(u64, u64)> {
        let place = self.read_word()?;
        let mut weight = place >> 56;
        if weight == WEIGHT_FOLLOWS {
            weight = self.read_word()?;
        }
        Some((place & ADDRESS_BITS, weight.max(1)))
    }

    fn number(&mut self) -> Option<u64> {
        Some(self.read_word()?.saturating_sub(1))
    }

    fn id(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn text(&mut self) -> Option<Text<'a>> {
        let from = self.at;
        loop {
            let word = self.read_word()?;
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
