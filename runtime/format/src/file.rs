//! The total reader: a file's bytes, its segments, their records, and the counter areas.
//!
//! Copy a file that is still being written before you parse it, from its start to its end, as `std::fs::read` does. If
//! a segment was begun anew during the copy, its two generation words differ, and it is left out.

use crate::header::Header;
use crate::heap::{self, HeapAccount, HeapSums, HeapTable};
use crate::layout::{self, header as at, segment, segment_kind};
use crate::record::Record;
use crate::words::Words;

/// Why bytes are not a .pct file that this version reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// Shorter than a header.
    TooShort {
        /// Number of bytes.
        bytes: usize,
        /// Length of a header in bytes.
        expected: usize,
    },
    /// The first word is not the magic number.
    NotPct {
        /// The first word.
        found: u64,
    },
    /// The header was never finished: its writer died while writing it.
    Unfinished,
    /// It was written on a machine of the other byte order.
    OtherByteOrder,
    /// The byte-order word is neither.
    BadByteOrder {
        /// The word.
        found: u64,
    },
    /// It has another major version.
    OtherVersion {
        /// Major version of the file.
        found: u32,
        /// The version that this reader supports.
        expected: u32,
    },
    /// A block size out of range or not a power of two.
    BadBlockSize {
        /// The block size.
        found: u64,
    },
}

impl Error {
    /// Whether the file holds no sample because its writer ended before it had made the header: it makes the file
    /// first.
    #[must_use]
    pub fn is_of_unfinished(&self) -> bool {
        matches!(self, Error::Unfinished | Error::TooShort { bytes: 0, .. })
    }
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Error::TooShort { bytes: 0, .. } => {
                write!(f, "not a .pct file: it is empty")
            }
            Error::TooShort { bytes, expected } => {
                write!(f, "not a .pct file: {bytes} bytes, a header has {expected} (file cut short?)")
            }
            Error::NotPct { found } => {
                write!(f, "not a .pct file: byte 0: expected the magic number, found {found:#018x}")
            }
            Error::Unfinished => {
                write!(f, "the file's header was never finished (its process died while making it)")
            }
            Error::OtherByteOrder => write!(f, "byte 8: written on a machine of the other byte order"),
            Error::BadByteOrder { found } => {
                write!(f, "byte 8: expected the byte-order mark, found {found:#018x} (file damaged?)")
            }
            Error::OtherVersion { found, expected } => {
                write!(f, "byte 16: format version {found}, this program reads version {expected}")
            }
            Error::BadBlockSize { found } => write!(
                f,
                "byte 32: block size {found}: expected a power of two from {} to {} (file damaged?)",
                layout::BLOCK_RANGE.start(),
                layout::BLOCK_RANGE.end()
            ),
        }
    }
}

impl core::error::Error for Error {}

/// What a segment contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// Records that are never overwritten.
    Keep,
    /// Samples of a thread, or the process's anchors and losses.
    Ring,
    /// Counters of a region.
    Counters,
    /// A part of the table of live blocks ([`crate::heap`]).
    Heap,
    /// A part of the sums of allocations by stack.
    HeapSum,
    /// The account of allocation sampling.
    HeapAccount,
}

impl SegmentKind {
    /// Whether such a segment is an area: several blocks of words, without records.
    #[must_use]
    pub const fn is_area(self) -> bool {
        !matches!(self, SegmentKind::Keep | SegmentKind::Ring)
    }
}

/// A .pct file in memory. Nothing is copied; every number is checked when it is used.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    bytes: &'a [u8],
    block_bytes: usize,
}

impl<'a> File<'a> {
    /// Octets of a block: a power of two within the format's bounds.
    #[cfg(feature = "std")]
    pub(crate) fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Checks the header.
    ///
    /// # Errors
    /// What is wrong and where. Damage after the header is not an error: the rest is read.
    pub fn parse(bytes: &'a [u8]) -> Result<File<'a>, Error> {
        let words = Words::new(bytes.get(..layout::HEADER_BYTES.min(bytes.len())).unwrap_or(&[]));
        match words.get(at::MAGIC) {
            Some(layout::MAGIC) => {}
            // The magic number is stored last. The words stored before it show that it is a file of pct.
            Some(0)
                if words.get(at::BYTE_ORDER) == Some(layout::BYTE_ORDER)
                    || bytes.iter().take(layout::HEADER_BYTES).all(|b| *b == 0) =>
            {
                return Err(Error::Unfinished);
            }
            Some(found) => return Err(Error::NotPct { found }),
            None => return Err(Error::TooShort { bytes: bytes.len(), expected: layout::HEADER_BYTES }),
        }
        if words.len() < layout::HEADER_WORDS {
            return Err(Error::TooShort { bytes: bytes.len(), expected: layout::HEADER_BYTES });
        }
        let header = Header::new(bytes);
        match header.header_word(at::BYTE_ORDER) {
            layout::BYTE_ORDER => {}
            found if found.swap_bytes() == layout::BYTE_ORDER => return Err(Error::OtherByteOrder),
            found => return Err(Error::BadByteOrder { found }),
        }
        let expected = (layout::VERSION >> 32) as u32;
        let (found, _) = header.version();
        if found != expected {
            return Err(Error::OtherVersion { found, expected });
        }
        let block = header.header_word(at::BLOCK_BYTES);
        if !block.is_power_of_two() || !layout::BLOCK_RANGE.contains(&block) {
            return Err(Error::BadBlockSize { found: block });
        }
        Ok(File {
            bytes,
            block_bytes: usize::try_from(block).map_err(|_| Error::BadBlockSize { found: block })?,
        })
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> Header<'a> {
        Header::new(self.bytes)
    }

    /// The bytes given.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// All complete segments, in order of their position (not of time: see [`Segment::generation`]).
    pub fn segments(&self) -> Segments<'a> {
        Segments { file: *self, next: 0 }
    }

    /// The segment that starts at byte `offset`, if it is complete.
    #[must_use]
    pub fn segment_at(&self, offset: usize) -> Option<Segment<'a>> {
        let first = offset == layout::FIRST_SEGMENT_AT;
        if !first && (offset == 0 || !offset.is_multiple_of(self.block_bytes)) {
            return None;
        }
        let end = if first { self.block_bytes } else { offset.checked_add(self.block_bytes)? };
        let mut segment = Segment::parse(self.bytes.get(offset..end)?, offset)?;
        if segment.kind.is_area() {
            let blocks = usize::try_from(segment.segment_word(segment::BLOCKS)).ok()?;
            let bytes = blocks.checked_mul(self.block_bytes)?;
            // Of a file that was cut, as much as exists.
            let end = offset.checked_add(bytes)?.min(self.bytes.len());
            segment.words = Words::new(self.bytes.get(offset..end)?);
        }
        Some(segment)
    }

    /// Counter areas, in order of their position.
    pub fn counters(&self) -> impl Iterator<Item = CounterArea<'a>> + use<'a> {
        self.segments().filter_map(|s| s.counters())
    }

    /// Areas of the table of live blocks.
    pub fn heap_tables(&self) -> impl Iterator<Item = HeapTable<'a>> + use<'a> {
        self.segments().filter(|s| s.kind == SegmentKind::Heap).map(|s| HeapTable(s.area(heap::ENTRY_WORDS)))
    }

    /// Areas of the sums of allocations by stack.
    pub fn heap_sums(&self) -> impl Iterator<Item = HeapSums<'a>> + use<'a> {
        self.segments().filter(|s| s.kind == SegmentKind::HeapSum).map(|s| HeapSums(s.area(heap::SUM_WORDS)))
    }

    /// The account of allocation sampling; `None`: allocations were not sampled, or no sample was due yet.
    #[must_use]
    pub fn heap_account(&self) -> Option<HeapAccount<'a>> {
        let segment = self.segments().find(|s| s.kind == SegmentKind::HeapAccount)?;
        Some(HeapAccount(segment.area(1)))
    }
}

/// Walks the segments of a file.
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    file: File<'a>,
    next: usize,
}

impl<'a> Iterator for Segments<'a> {
    type Item = Segment<'a>;

    fn next(&mut self) -> Option<Segment<'a>> {
        loop {
            let offset = if self.next == 0 { layout::FIRST_SEGMENT_AT } else { self.next };
            if offset >= self.file.bytes.len() {
                return None;
            }
            let found = self.file.segment_at(offset);
            let block = self.file.block_bytes;
            let step = match &found {
                Some(s) if s.kind.is_area() => s.words.len().saturating_mul(8).div_ceil(block).max(1),
                _ => 1,
            };
            let from = if self.next == 0 { 0 } else { self.next };
            self.next = step.checked_mul(block).and_then(|b| from.checked_add(b)).unwrap_or(usize::MAX);
            if found.is_some() {
                return found;
            }
        }
    }
}

/// One segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    words: Words<'a>,
    offset: usize,
    kind: SegmentKind,
}

impl<'a> Segment<'a> {
    /// Reads one segment from its `bytes` (header to last word); `offset` is their position in the file. `None`: it was
    /// never begun, was being begun, or is damaged.
    #[must_use]
    pub fn parse(bytes: &'a [u8], offset: usize) -> Option<Segment<'a>> {
        let words = Words::new(bytes);
        let magic = words.get(segment::MAGIC)?;
        if magic & !0xff != layout::SEGMENT_MAGIC {
            return None;
        }
        let kind = match magic.to_le_bytes()[0] {
            segment_kind::KEEP => SegmentKind::Keep,
            segment_kind::RING => SegmentKind::Ring,
            segment_kind::COUNTERS => SegmentKind::Counters,
            segment_kind::HEAP => SegmentKind::Heap,
            segment_kind::HEAP_SUM => SegmentKind::HeapSum,
            segment_kind::HEAP_ACCOUNT => SegmentKind::HeapAccount,
            _ => return None,
        };
        let generation = words.get(segment::GENERATION)?;
        let last = words.get(words.len().checked_sub(1)?)?;
        if generation == 0 || !kind.is_area() && last != generation {
            return None;
        }
        Some(Segment { words, offset, kind })
    }

    fn segment_word(&self, at: usize) -> u64 {
        self.words.get(at).unwrap_or(0)
    }

    /// Number of its bytes, as far as the file has them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.words.len() * 8
    }

    /// Byte offset in the file.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// What it contains.
    #[must_use]
    pub fn kind(&self) -> SegmentKind {
        self.kind
    }

    /// Number of this use of the block. It increases over the whole file.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.segment_word(segment::GENERATION)
    }

    /// Kernel's thread id; 0 = the process.
    #[must_use]
    pub fn tid(&self) -> u32 {
        u32::try_from(self.segment_word(segment::TID)).unwrap_or(0)
    }

    /// Serial number of the thread; 0 = the process.
    #[must_use]
    pub fn thread(&self) -> u32 {
        u32::try_from(self.segment_word(segment::THREAD)).unwrap_or(0)
    }

    /// Raw time of its begin.
    #[must_use]
    pub fn time(&self) -> u64 {
        self.segment_word(segment::TIME)
    }

    /// The thread's CPU time at its begin in ns; 0 = unknown.
    #[must_use]
    pub fn cpu_ns(&self) -> u64 {
        self.segment_word(segment::CPU_NS)
    }

    /// Epoch of the region table at its begin.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.segment_word(segment::EPOCH)
    }

    /// Number and weight of the thread's samples that were overwritten before it.
    #[must_use]
    pub fn overwritten(&self) -> (u64, u64) {
        (self.segment_word(segment::OVERWRITTEN), self.segment_word(segment::OVERWRITTEN_WEIGHT))
    }

    /// Nanoseconds per unit of weight in it; 0 = as in the header.
    #[must_use]
    pub fn period_ns(&self) -> u64 {
        self.segment_word(segment::PERIOD_NS)
    }

    /// The thread's name, up to the first NUL.
    #[must_use]
    pub fn name(&self) -> ([u8; 16], usize) {
        let mut name = [0; 16];
        for (i, byte) in name.iter_mut().enumerate() {
            *byte = self.segment_word(segment::NAME + i / 8).to_le_bytes()[i % 8];
        }
        let len = name.iter().position(|b| *b == 0).unwrap_or(16);
        (name, len)
    }

    /// Records, oldest first. They end at the zero word, or at the first incomplete record. They may belong to several
    /// threads: see [`Segment::runs`].
    pub fn records(&self) -> Records<'a> {
        let end = self.words.len().saturating_sub(1);
        let words = match self.kind {
            kind if kind.is_area() => Words::default(),
            _ => self.words.slice(layout::SEGMENT_HEADER_WORDS, end),
        };
        Records { words, at: 0 }
    }

    /// The records by thread, oldest first. A new thread may continue in the segment of one that has ended.
    #[cfg(feature = "std")]
    pub fn runs(&self) -> Runs<'a> {
        let Records { words, .. } = self.records();
        let (name, len) = self.name();
        let name = String::from_utf8_lossy(&name[..len]).into_owned();
        Runs {
            words,
            next: Some(Run { thread: self.thread(), tid: self.tid(), name, words, from: 0, to: 0 }),
        }
    }

    /// The words of an area's slots, `each` words per slot, as far as the file has them.
    fn area(&self, each: usize) -> Words<'a> {
        let places = usize::try_from(self.segment_word(segment::COUNT)).unwrap_or(usize::MAX);
        let from = layout::SEGMENT_HEADER_WORDS;
        self.words.slice(from, from.saturating_add(places.saturating_mul(each)))
    }

    /// The counters, if it contains counters.
    #[must_use]
    pub fn counters(&self) -> Option<CounterArea<'a>> {
        if self.kind != SegmentKind::Counters {
            return None;
        }
        let count = usize::try_from(self.segment_word(segment::COUNT)).unwrap_or(usize::MAX);
        let from = layout::SEGMENT_HEADER_WORDS;
        Some(CounterArea {
            region: u32::try_from(self.segment_word(segment::REGION)).ok()?,
            shift: u32::try_from(self.segment_word(segment::SHIFT)).ok().filter(|s| *s < 64)?,
            words: self.words.slice(from, from.saturating_add(count)),
        })
    }
}

/// The part of a segment that one thread wrote.
#[cfg(feature = "std")]
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// Serial number of the thread; 0 = the process.
    pub thread: u32,
    /// Kernel's thread id; 0 = the process.
    pub tid: u32,
    /// The thread's name at that time; invalid UTF-8 is replaced.
    pub name: String,
    words: Words<'a>,
    from: usize,
    to: usize,
}

#[cfg(feature = "std")]
impl<'a> Run<'a> {
    /// Its records, oldest first.
    pub fn records(&self) -> Records<'a> {
        Records { words: self.words.slice(self.from, self.to), at: 0 }
    }

    /// The range of its records, in words after the segment's header.
    pub(crate) fn range(&self) -> (usize, usize) {
        (self.from, self.to)
    }
}

/// Runs of a segment.
#[cfg(feature = "std")]
#[derive(Clone, Debug)]
pub struct Runs<'a> {
    words: Words<'a>,
    next: Option<Run<'a>>,
}

#[cfg(feature = "std")]
impl<'a> Iterator for Runs<'a> {
    type Item = Run<'a>;

    fn next(&mut self) -> Option<Run<'a>> {
        let mut run = self.next.take()?;
        let mut at = run.from;
        while let Some((record, words)) = Record::decode(self.words, at) {
            let here = at;
            at += words;
            if let Record::TakeOver { thread, tid, name, .. } = record {
                let words = self.words;
                self.next = Some(Run { thread, tid, name: name.to_text(), words, from: at, to: at });
                at = here;
                break;
            }
        }
        run.to = at;
        Some(run)
    }
}

/// Records of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Records<'a> {
    words: Words<'a>,
    at: usize,
}

impl<'a> Records<'a> {
    /// The records of a range of words, as `Run::range` gives it.
    #[cfg(feature = "std")]
    pub(crate) fn between(self, from: usize, to: usize) -> Records<'a> {
        Records { words: self.words.slice(from, to), at: 0 }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        let (record, words) = Record::decode(self.words, self.at)?;
        self.at += words;
        Some(record)
    }
}

/// Counters of a region: counter `i` counts samples in its code bytes `i << shift .. (i + 1) << shift`.
#[derive(Clone, Copy, Debug)]
pub struct CounterArea<'a> {
    /// Region id ([`Record::RegionBegin`]).
    pub region: u32,
    /// log2 of the bytes of code per counter.
    pub shift: u32,
    words: Words<'a>,
}

impl<'a> CounterArea<'a> {
    /// Number of counters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Counters that are not zero: (offset in the region of the first byte counted, periods).
    pub fn nonzero(&self) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        let shift = self.shift;
        self.words.iter().enumerate().filter(|(_, n)| *n != 0).filter_map(move |(i, n)| {
            let i = u64::try_from(i).ok()?;
            Some((i.checked_mul(1 << shift)?, n))
        })
    }
}
