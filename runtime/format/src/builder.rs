//! Makes files in memory, for tests and for importers that produce .pct. It appends as the runtime does.
//!
//! Do not use it inside a sampled process, because it allocates.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::head::kind;
use crate::header::{Anchor, Clock, LossCause, Recorder, State, TimeSource};
use crate::heap::{self, AllocServer};
use crate::layout::{self, Text, header as at, segment_kind};
use crate::push::{self, SegmentHead};
use crate::record::{
    self, CodeFacts, Encoder, Frame, InterpreterState, Language, LineTableForm, LineTablePart, RegionFacts,
};
use pct_elf::FileVersion;

/// Writes a .pct file into memory. Blocks are added as needed; nothing wraps.
#[derive(Debug)]
pub struct Builder {
    words: Vec<AtomicU64>,
    generation: u64,
    strings: usize,
    keep: Cursor,
    process: Option<Cursor>,
    threads: Vec<ThreadCursor>,
    stacks: u32,
}

/// The position of the next record in a chain of segments.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    /// First and last word (exclusive) of the segment.
    segment: (usize, usize),
    at: usize,
}

#[derive(Debug)]
struct ThreadCursor {
    tid: u32,
    name: [u64; 2],
    cursor: Option<Cursor>,
}

const BLOCK_WORDS: usize = layout::BLOCK_BYTES / 8;

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// A closed file of a process with pid 1000, a 997 Hz perf clock, and raw times that are nanoseconds.
    #[must_use]
    pub fn new() -> Self {
        let mut builder = Builder {
            words: (0..BLOCK_WORDS).map(|_| AtomicU64::new(0)).collect(),
            generation: 0,
            strings: layout::STRINGS_AT,
            keep: Cursor { segment: (layout::FIRST_SEGMENT_AT / 8, BLOCK_WORDS), at: push::RECORDS_AT },
            process: None,
            threads: Vec::new(),
            stacks: 0,
        };
        builder.begin(builder.keep.segment, segment_kind::KEEP, 0, 0, [0; 2], 1);
        builder.anchors(
            Anchor { raw: 1, monotonic_ns: 1, realtime_ns: 1_000_000_001 },
            Anchor { raw: 1_000_000_001, monotonic_ns: 1_000_000_001, realtime_ns: 2_000_000_001 },
        );
        builder
            .set_header_word(at::MAGIC, layout::MAGIC)
            .set_header_word(at::BYTE_ORDER, layout::BYTE_ORDER)
            .set_header_word(at::VERSION, layout::VERSION)
            .set_header_word(at::HEADER_BYTES, layout::HEADER_BYTES as u64)
            .set_header_word(at::BLOCK_BYTES, layout::BLOCK_BYTES as u64)
            .set_header_word(at::MACHINE, 62)
            .set_header_word(at::STATE, State::Closed as u64)
            .set_header_word(at::LIMIT, 64 << 20)
            .set_header_word(at::PID, 1000)
            .set_header_word(at::NS_PID, 1000)
            .set_header_word(at::PPID, 1)
            .set_header_word(at::HZ, 250)
            .set_header_word(at::RECORDER, Recorder::Log as u64)
            .set_header_word(at::CLOCK_ASKED, Clock::Auto as u64)
            .set_header_word(at::CLOCK_GOT, Clock::Perf as u64)
            .set_header_word(at::RATE_ASKED, 997_000)
            .set_header_word(at::RATE_GOT, 997_000)
            .set_header_word(at::PERIOD_NS, 1_000_000_000 / 997)
            .set_header_word(at::TIME_SOURCE, TimeSource::MonotonicNs as u64);
        builder
    }

    /// Sets a word of the header ([`layout::header`]).
    pub fn set_header_word(&mut self, at: usize, word: u64) -> &mut Self {
        if at < layout::HEADER_WORDS {
            self.words[at].store(word, Ordering::Relaxed);
        }
        self
    }

    /// Sets a string of the header. It is cut if there is no room left.
    pub fn text(&mut self, which: Text, text: &[u8]) -> &mut Self {
        let reference = self.string(text);
        self.set_header_word(at::TEXT + which as usize, reference)
    }

    /// Sets which library serves malloc.
    pub fn alloc_server(&mut self, server: AllocServer, path: &[u8]) -> &mut Self {
        let reference = self.string(path);
        self.set_header_word(at::ALLOC_SERVER, server as u64)
            .set_header_word(at::ALLOC_SERVER_PATH, reference)
    }

    fn string(&mut self, text: &[u8]) -> u64 {
        let room = layout::FIRST_SEGMENT_AT - self.strings;
        let text = &text[..text.len().min(room)];
        for (i, byte) in text.iter().enumerate() {
            let at = self.strings + i;
            self.words[at / 8].fetch_or(u64::from(*byte) << (8 * (at % 8)), Ordering::Relaxed);
        }
        let reference = (self.strings as u64) << 32 | text.len() as u64;
        self.strings += text.len();
        reference
    }

    /// Sets the arguments.
    pub fn argv(&mut self, argv: &[&[u8]]) -> &mut Self {
        let text: Vec<u8> = argv.iter().flat_map(|a| a.iter().copied().chain([0])).collect();
        self.set_header_word(at::ARGC, argv.len() as u64)
            .set_header_word(at::ARGV_BYTES, text.len() as u64)
            .text(Text::Argv, &text)
    }

    /// Sets the first and the latest anchor of the header.
    pub fn anchors(&mut self, first: Anchor, latest: Anchor) -> &mut Self {
        for (i, word) in [first.raw, first.monotonic_ns, first.realtime_ns].into_iter().enumerate() {
            self.set_header_word(at::FIRST_ANCHOR + i, word);
        }
        for (i, word) in [2, latest.raw, latest.monotonic_ns, latest.realtime_ns].into_iter().enumerate() {
            self.set_header_word(at::LATEST_ANCHOR + i, word);
        }
        self
    }

    /// Sets the counts of a loss.
    pub fn loss(&mut self, cause: LossCause, samples: u64, weight: u64) -> &mut Self {
        let pair = at::LOSSES + 2 * cause as usize;
        self.set_header_word(pair, samples).set_header_word(pair + 1, weight)
    }

    /// Adds a region that lives from `time`; `range` is its addresses.
    #[expect(clippy::too_many_arguments, reason = "a record's fields, for tests")]
    pub fn region(
        &mut self,
        region: u32,
        time: u64,
        range: core::ops::Range<u64>,
        offset: u64,
        inode: u64,
        build_id: &[u8],
        path: &[u8],
    ) -> &mut Self {
        let mut buffer = vec![0; 4096];
        let (start, end, device) = (range.start, range.end, 8 << 32 | 1);
        let version = FileVersion::default();
        let facts = RegionFacts { start, end, offset, device, inode, flags: 0, build_id, path, version };
        self.keep_record(facts.begin(&mut buffer, region, time));
        self
    }

    /// Ends a region's life at `time`.
    pub fn region_end(&mut self, region: u32, time: u64) -> &mut Self {
        let mut buffer = [0; 4];
        let record = Encoder::new(&mut buffer).raw_word(time).finish(kind::REGION_END, region);
        self.keep_record(record);
        self
    }

    /// Adds a thread and returns its serial number.
    pub fn thread(&mut self, time: u64, tid: u32, name: &[u8]) -> u32 {
        let serial = u32::try_from(self.threads.len()).expect("few threads") + 1;
        let mut padded = [0; 16];
        let n = name.len().min(16);
        padded[..n].copy_from_slice(&name[..n]);
        let word = |i: usize| u64::from_le_bytes(padded[i..i + 8].try_into().expect("8 bytes"));
        self.threads.push(ThreadCursor { tid, name: [word(0), word(8)], cursor: None });
        let mut buffer = [0; 16];
        let record = Encoder::new(&mut buffer)
            .raw_word(time)
            .number(u64::from(tid))
            .text(&name[..n])
            .finish(kind::THREAD_BEGIN, serial);
        self.keep_record(record);
        serial
    }

    /// Defines a stack from its frames, innermost caller first, and returns its id. Prefixes are not shared.
    pub fn stack(&mut self, frames: &[Frame]) -> u32 {
        if frames.is_empty() {
            return 0;
        }
        let mut buffer = vec![0; frames.len() + 2];
        let mut encoder = Encoder::new(&mut buffer).raw_word(u64::from(self.stacks) + 1);
        for frame in frames.iter().rev() {
            encoder = encoder.raw_word(frame.encode());
        }
        let record = encoder.finish(kind::STACK, 0);
        self.keep_record(record);
        self.stacks += u32::try_from(frames.len()).expect("a stack fits a record");
        self.stacks
    }

    /// Records that a CPython interpreter was found.
    pub fn interpreter(
        &mut self,
        time: u64,
        version: u64,
        state: InterpreterState,
        path: &[u8],
    ) -> &mut Self {
        let mut buffer = vec![0; 1024];
        let record = Encoder::new(&mut buffer)
            .raw_word(time)
            .number(version)
            .number(state as u64)
            .text(path)
            .finish(kind::INTERPRETER, Language::CPython as u32);
        self.keep_record(record);
        self
    }

    /// Adds a Python function with a line table of 3.11's form, as number `id`.
    pub fn code(
        &mut self,
        id: u32,
        time: u64,
        name: &str,
        file: &str,
        first_line: u32,
        lines: &[u8],
    ) -> &mut Self {
        const PART: usize = 1000;
        let mut buffer = vec![0; 1024];
        let language = Language::CPython as u64;
        let facts = CodeFacts { language, first_line, flags: 0, name, file };
        self.keep_record(facts.record(&mut buffer, id, time));
        for (i, octets) in lines.chunks(PART).enumerate() {
            let (offset, whole) = ((i * PART) as u64, lines.len() as u64);
            let part = LineTablePart { form: LineTableForm::Locations as u64, offset, whole, octets };
            self.keep_record(part.record(&mut buffer, id));
        }
        self
    }

    /// Appends a sample to a thread's ring.
    ///
    /// # Panics
    /// If the thread was not added.
    pub fn sample(
        &mut self,
        thread: u32,
        time: u64,
        pc: u64,
        weight: u64,
        system: bool,
        stack: u32,
    ) -> &mut Self {
        let (words, n) = record::sample(time, pc, weight, system, stack);
        self.ring_record(thread, time, &words[..n]);
        self
    }

    /// Appends a sample in the kernel whose stack has the kernel's own calls.
    ///
    /// # Panics
    /// If the thread was not added.
    pub fn kernel_sample(&mut self, thread: u32, time: u64, pc: u64, weight: u64, stack: u32) -> &mut Self {
        let (words, n) = record::kernel_sample(time, pc, weight, stack);
        self.ring_record(thread, time, &words[..n]);
        self
    }

    /// Appends any record to a thread's ring (serial 0: the process's own).
    ///
    /// # Panics
    /// If the thread was not added, or the record is longer than a segment.
    pub fn ring_record(&mut self, thread: u32, time: u64, record: &[u64]) -> &mut Self {
        let (tid, name, cursor) = match thread {
            0 => (0, [0; 2], self.process),
            n => {
                let t = &self.threads[n as usize - 1];
                (t.tid, t.name, t.cursor)
            }
        };
        let next = match cursor.and_then(|c| self.append(c, record)) {
            Some(cursor) => cursor,
            None => {
                let cursor = self.new_block();
                self.begin(cursor.segment, segment_kind::RING, tid, thread, name, time);
                self.append(cursor, record).expect("record fits a segment")
            }
        };
        match thread {
            0 => self.process = Some(next),
            n => self.threads[n as usize - 1].cursor = Some(next),
        }
        self
    }

    /// Thread `heir` continues in the segment at the position where `ended` stopped.
    ///
    /// # Panics
    /// If one of them was not added, or the segment is full.
    pub fn take_over(&mut self, ended: u32, heir: u32, time: u64) -> &mut Self {
        let cursor = self.threads[ended as usize - 1].cursor.take().expect("it has a segment");
        let t = &self.threads[heir as usize - 1];
        let name: Vec<u8> = t.name.iter().flat_map(|w| w.to_le_bytes()).filter(|b| *b != 0).collect();
        let mut buffer = [0; 16];
        let record = Encoder::new(&mut buffer)
            .raw_word(time)
            .number(u64::from(t.tid))
            .text(&name)
            .finish(kind::TAKE_OVER, heir)
            .expect("it fits");
        let cursor = self.append(cursor, record).expect("room");
        self.threads[heir as usize - 1].cursor = Some(cursor);
        self
    }

    /// Adds a counter area for a region.
    pub fn counters(&mut self, region: u32, shift: u32, counts: &[u64]) -> &mut Self {
        let blocks = (layout::SEGMENT_HEADER_BYTES + counts.len() * 8).div_ceil(layout::BLOCK_BYTES);
        let from = self.words.len();
        self.words.extend((0..blocks * BLOCK_WORDS).map(|_| AtomicU64::new(0)));
        self.generation += 1;
        let head = SegmentHead {
            kind: segment_kind::COUNTERS,
            generation: self.generation,
            blocks: blocks as u64,
            region: u64::from(region),
            shift: u64::from(shift),
            count: counts.len() as u64,
            ..Default::default()
        };
        push::begin_segment(&self.words[from..], &head);
        for (place, count) in self.words[from + layout::SEGMENT_HEADER_WORDS..].iter().zip(counts) {
            place.store(*count, Ordering::Relaxed);
        }
        self
    }

    /// Adds an area of the table of live blocks with this many slots: these entries, then free ones.
    pub fn heap(&mut self, entries: &[[u64; heap::ENTRY_WORDS]], places: usize) -> &mut Self {
        self.area(segment_kind::HEAP, places, heap::ENTRY_WORDS, entries.as_flattened())
    }

    /// Adds an area of sums by stack with this many slots: these sums, then unused ones.
    pub fn heap_sums(&mut self, sums: &[[u64; heap::SUM_WORDS]], places: usize) -> &mut Self {
        self.area(segment_kind::HEAP_SUM, places, heap::SUM_WORDS, sums.as_flattened())
    }

    /// Adds the account of allocation sampling ([`heap::account`]).
    pub fn heap_account(&mut self, words: &[u64; heap::ACCOUNT_WORDS]) -> &mut Self {
        self.area(segment_kind::HEAP_ACCOUNT, words.len(), 1, words)
    }

    fn area(&mut self, kind: u8, places: usize, each: usize, words: &[u64]) -> &mut Self {
        let blocks = (layout::SEGMENT_HEADER_BYTES + places * each * 8).div_ceil(layout::BLOCK_BYTES);
        let from = self.words.len();
        self.words.extend((0..blocks * BLOCK_WORDS).map(|_| AtomicU64::new(0)));
        self.generation += 1;
        let (generation, blocks, count) = (self.generation, blocks as u64, places as u64);
        let head = SegmentHead { kind, generation, blocks, count, ..Default::default() };
        push::begin_segment(&self.words[from..], &head);
        for (place, word) in self.words[from + layout::SEGMENT_HEADER_WORDS..].iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
        self
    }

    /// The file's bytes.
    #[must_use]
    pub fn finish(&self) -> Vec<u8> {
        self.words[at::ALLOCATED].store(self.words.len() as u64 * 8, Ordering::Relaxed);
        self.words[at::GENERATION].store(self.generation, Ordering::Relaxed);
        self.words[at::THREADS].store(self.threads.len() as u64, Ordering::Relaxed);
        self.words.iter().flat_map(|w| w.load(Ordering::Relaxed).to_le_bytes()).collect()
    }

    /// Appends any record to the keep segments.
    ///
    /// # Panics
    /// If the record is absent (its encoder ran out of room) or longer than a segment.
    pub fn keep_record(&mut self, record: Option<&[u64]>) {
        let record = record.expect("record fits its buffer");
        self.keep = match self.append(self.keep, record) {
            Some(cursor) => cursor,
            None => {
                let cursor = self.new_block();
                self.begin(cursor.segment, segment_kind::KEEP, 0, 0, [0; 2], 1);
                self.append(cursor, record).expect("record fits a segment")
            }
        };
    }

    fn append(&self, cursor: Cursor, record: &[u64]) -> Option<Cursor> {
        let usable = &self.words[cursor.segment.0..cursor.segment.1 - 1];
        Some(Cursor { at: push::append(usable, cursor.at, record, &[])?, ..cursor })
    }

    fn new_block(&mut self) -> Cursor {
        let from = self.words.len();
        self.words.extend((0..BLOCK_WORDS).map(|_| AtomicU64::new(0)));
        Cursor { segment: (from, from + BLOCK_WORDS), at: push::RECORDS_AT }
    }

    fn begin(&mut self, segment: (usize, usize), kind: u8, tid: u32, thread: u32, name: [u64; 2], time: u64) {
        self.generation += 1;
        let head =
            SegmentHead { kind, generation: self.generation, tid, thread, name, time, ..Default::default() };
        push::begin_segment(&self.words[segment.0..segment.1], &head);
    }
}
