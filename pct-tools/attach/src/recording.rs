//! A .pct file about a process that a staying controller writes from outside.
//!
//! The layout and the rules of appending are the runtime's (`pct-format`), so the file is readable at any instant, also
//! after `kill -9` of the controller. Stacks are interned in a trie, as in the runtime. The log grows block by block.
//! At its limit, the oldest ring segment is overwritten and what was in it is counted.

use crate::mapped::MappedFile;
use pct_format::head::kind;
use pct_format::header::{Clock, LossCause, Recorder, StackMode, State, TimeSource};
use pct_format::layout::{self, Text, header as at, segment_kind};
use pct_format::push::{self, SegmentHead};
use pct_format::record::{
    self, CodeFacts, Encoder, Frame, InterpreterState, Language, LineTableForm, LineTablePart, RegionFacts,
};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

const BLOCK_WORDS: usize = layout::BLOCK_BYTES / 8;
/// Longest path or argument text that is kept, in octets.
const TEXT_LIMIT: usize = 4096;
/// Functions take at most one part in this many of the file.
const CODES_SHARE: usize = 4;
/// Octets of a line table that one record holds.
const LINES_PART: usize = 3500;

/// What became of an interpreter that was found in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundInterpreter {
    /// Of which language.
    pub language: Language,
    /// As the interpreter writes it, 0 = not known.
    pub version: u64,
    /// Whether its frames are read, or why not.
    pub state: InterpreterState,
}

/// A function's line table.
#[derive(Debug, Clone, Copy)]
pub struct LineOctets<'a> {
    /// Its form.
    pub form: LineTableForm,
    /// What is kept of it.
    pub octets: &'a [u8],
    /// Octets that it has.
    pub whole: u64,
}

/// What the header says about the process and how it is sampled.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Process id in pct's pid namespace.
    pub pid: u32,
    /// Process id in the process's own pid namespace.
    pub own_pid: u32,
    /// Parent's process id.
    pub ppid: u32,
    /// Real user id.
    pub uid: u32,
    /// Start in clock ticks after boot.
    pub start_ticks: u64,
    /// Arguments, each ended by a NUL.
    pub argv: Vec<u8>,
    /// The executable.
    pub exe: Vec<u8>,
    /// The executable's build-id, empty when not known.
    pub build_id: Vec<u8>,
    /// The clock that was requested.
    pub clock_asked: Clock,
    /// What makes samples due.
    pub clock: Clock,
    /// Requested samples per CPU second.
    pub hz: u32,
    /// How stacks are walked.
    pub stacks: StackMode,
    /// Most frames that are kept of a stack.
    pub depth: u64,
    /// Upper bound of the file in bytes.
    pub limit: usize,
}

#[derive(Debug, Clone, Copy)]
struct Cursor {
    /// Index of the segment's first word, and of the word behind its last.
    segment: (usize, usize),
    at: usize,
}

#[derive(Debug)]
struct ThreadLog {
    tid: u32,
    name: [u64; 2],
    cursor: Option<Cursor>,
    /// Number of samples in the current segment, and their weight.
    in_segment: (u64, u64),
    overwritten: (u64, u64),
}

/// A ring segment that may be overwritten.
#[derive(Debug)]
struct Old {
    segment: (usize, usize),
    thread: usize,
    samples: (u64, u64),
}

/// A recording in progress. Dropping it leaves the file armed, as a crash would; [`Recording::close`] says how it
/// ended.
#[derive(Debug)]
pub struct Recording {
    map: MappedFile,
    limit: usize,
    generation: u64,
    strings: usize,
    keep: Cursor,
    process: Option<Cursor>,
    threads: Vec<ThreadLog>,
    old: VecDeque<Old>,
    stacks: HashMap<(u32, u64), u32>,
    regions: Vec<(RegionFacts<Vec<u8>>, bool)>,
    period_ns: u64,
    losses: [(u64, u64); at::LOSS_PAIRS],
    /// Number of functions of interpreted languages, and the words that they occupy.
    codes: u32,
    code_words: usize,
}

/// Nanoseconds of CLOCK_MONOTONIC, never 0. This is the raw time of these files.
pub fn now_ns() -> u64 {
    crate::ptrace::sys::monotonic_ns().max(1)
}

/// Nanoseconds of CLOCK_REALTIME; 0 if the clock is set to a time before 1970.
fn realtime_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Turns an index or a count into a number of the file. Each counted thing has a record, so there are never 2^32.
fn id(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Recording {
    /// Creates the file. It must not exist.
    ///
    /// # Errors
    /// When it cannot be made or allocated.
    pub fn create(path: &Path, subject: &Subject) -> io::Result<Self> {
        let limit = subject.limit.max(4 * layout::BLOCK_BYTES);
        let mut map = MappedFile::create(path, limit)?;
        map.grow(layout::BLOCK_BYTES)?;
        let segment = (layout::FIRST_SEGMENT_AT / 8, BLOCK_WORDS);
        let mut recording = Recording {
            map,
            limit,
            generation: 0,
            strings: layout::STRINGS_AT,
            keep: Cursor { segment, at: push::RECORDS_AT },
            process: None,
            threads: Vec::new(),
            old: VecDeque::new(),
            stacks: HashMap::new(),
            regions: Vec::new(),
            period_ns: 1_000_000_000 / u64::from(subject.hz.max(1)),
            losses: [(0, 0); at::LOSS_PAIRS],
            codes: 0,
            code_words: 0,
        };
        recording.header(subject);
        recording.begin(segment, segment_kind::KEEP, None);
        // the magic goes last: until then it is no .pct file
        recording.set_header_word(at::MAGIC, layout::MAGIC);
        Ok(recording)
    }

    /// Nanoseconds of CPU time that a weight of 1 represents.
    pub fn period_ns(&self) -> u64 {
        self.period_ns
    }

    fn set_header_word(&self, at: usize, word: u64) {
        self.map.words()[at].store(word, Ordering::Release);
    }

    fn header(&mut self, s: &Subject) {
        let now = now_ns();
        let real = realtime_ns();
        let rate = u64::from(s.hz) * 1000;
        let words = [
            (at::BYTE_ORDER, layout::BYTE_ORDER),
            (at::VERSION, layout::VERSION),
            (at::HEADER_BYTES, layout::HEADER_BYTES as u64),
            (at::BLOCK_BYTES, layout::BLOCK_BYTES as u64),
            (at::MACHINE, 62),
            (at::STATE, State::Armed as u64),
            (at::ALLOCATED, layout::BLOCK_BYTES as u64),
            (at::LIMIT, self.limit as u64),
            (at::PID, u64::from(s.pid)),
            (at::NS_PID, u64::from(s.own_pid)),
            (at::PPID, u64::from(s.ppid)),
            (at::UID, u64::from(s.uid)),
            (at::EUID, u64::from(s.uid)),
            (at::START_TICKS, s.start_ticks),
            (at::RECORDER, Recorder::Log as u64),
            (at::CLOCK_ASKED, s.clock_asked as u64),
            (at::CLOCK_GOT, s.clock as u64),
            (at::RATE_ASKED, rate),
            (at::RATE_GOT, rate),
            (at::PERIOD_NS, self.period_ns),
            (at::TIME_SOURCE, TimeSource::MonotonicNs as u64),
            (at::STACK_MODE, s.stacks as u64),
            (at::DEPTH, s.depth),
            (at::CONTROLLER, u64::from(std::process::id())),
            (at::FIRST_ANCHOR, now),
            (at::FIRST_ANCHOR + 1, now),
            (at::FIRST_ANCHOR + 2, real),
        ];
        for (at, word) in words {
            self.set_header_word(at, word);
        }
        let boot = boot_id();
        for (i, half) in boot.chunks_exact(8).enumerate() {
            self.set_header_word(at::BOOT_ID + i, u64::from_ne_bytes(half.try_into().unwrap_or_default()));
        }
        let mut id = [0u8; 32];
        let n = s.build_id.len().min(32);
        id[..n].copy_from_slice(&s.build_id[..n]);
        self.set_header_word(at::BUILD_ID_BYTES, n as u64);
        for (i, part) in id.chunks_exact(8).enumerate() {
            self.set_header_word(at::BUILD_ID + i, u64::from_ne_bytes(part.try_into().unwrap_or_default()));
        }
        self.set_header_word(at::ARGC, memchr::memchr_iter(0, &s.argv).count() as u64);
        self.set_header_word(at::ARGV_BYTES, s.argv.len() as u64);
        let host = std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
        self.text(Text::Argv, &s.argv);
        self.text(Text::Exe, &s.exe);
        self.text(Text::Host, host.trim_ascii_end());
        self.text(Text::Writer, concat!("pct-attach ", env!("CARGO_PKG_VERSION")).as_bytes());
        self.anchor(0, 0);
    }

    fn text(&mut self, which: Text, text: &[u8]) {
        let room = layout::FIRST_SEGMENT_AT - self.strings;
        let text = &text[..text.len().min(room).min(TEXT_LIMIT)];
        for (i, byte) in text.iter().enumerate() {
            let at = self.strings + i;
            self.map.words()[at / 8].fetch_or(u64::from(*byte) << (8 * (at % 8)), Ordering::Relaxed);
        }
        self.set_header_word(at::TEXT + which as usize, ((self.strings as u64) << 32) | text.len() as u64);
        self.strings += text.len();
    }

    /// Writes the latest anchor with the process's CPU times.
    pub fn anchor(&mut self, user_ns: u64, system_ns: u64) {
        let now = now_ns();
        let real = realtime_ns();
        let sequence = self.map.words()[at::LATEST_ANCHOR].load(Ordering::Relaxed) & !1;
        self.set_header_word(at::LATEST_ANCHOR, sequence + 1);
        for (i, word) in [now, now, real].into_iter().enumerate() {
            self.set_header_word(at::LATEST_ANCHOR + 1 + i, word);
        }
        self.set_header_word(at::USER_NS, user_ns);
        self.set_header_word(at::SYSTEM_NS, system_ns);
        self.set_header_word(at::LATEST_ANCHOR, sequence + 2);
    }

    /// Adds to the losses of a cause.
    pub fn lose(&mut self, cause: LossCause, samples: u64, weight: u64) {
        let pair = &mut self.losses[cause as usize];
        pair.0 += samples;
        pair.1 += weight;
        let (samples, weight) = *pair;
        self.set_header_word(at::LOSSES + 2 * cause as usize, samples);
        self.set_header_word(at::LOSSES + 2 * cause as usize + 1, weight);
    }

    /// Adds a thread and returns its serial number in this file.
    pub fn thread(&mut self, tid: u32, name: &[u8]) -> u32 {
        let name = &name[..name.len().min(16)];
        let mut padded = [0u8; 16];
        padded[..name.len()].copy_from_slice(name);
        let half = |i: usize| u64::from_le_bytes(padded[i..i + 8].try_into().unwrap_or_default());
        self.threads.push(ThreadLog {
            tid,
            name: [half(0), half(8)],
            cursor: None,
            in_segment: (0, 0),
            overwritten: (0, 0),
        });
        let serial = id(self.threads.len());
        self.set_header_word(at::THREADS, u64::from(serial));
        let mut buffer = [0; 16];
        let e = Encoder::new(&mut buffer).raw_word(now_ns()).number(u64::from(tid)).text(name);
        let record = e.finish(kind::THREAD_BEGIN, serial).map(<[u64]>::to_vec);
        self.keep_record(record);
        serial
    }

    /// Records the end of a thread and the CPU time that it had used.
    pub fn thread_end(&mut self, thread: u32, cpu_ns: u64) {
        let tid = self.threads[thread as usize - 1].tid;
        let mut buffer = [0; 8];
        let e = Encoder::new(&mut buffer).raw_word(now_ns()).number(u64::from(tid)).number(cpu_ns);
        let record = e.finish(kind::THREAD_END, thread).map(<[u64]>::to_vec);
        self.keep_record(record);
    }

    /// Compares the current regions with those of the last call: records which begin and which end.
    pub fn regions(&mut self, now: &[RegionFacts<Vec<u8>>]) {
        let mut changed = false;
        for at in 0..self.regions.len() {
            if self.regions[at].1 && !now.contains(&self.regions[at].0) {
                self.regions[at].1 = false;
                changed = true;
                let mut buffer = [0; 4];
                let e = Encoder::new(&mut buffer).raw_word(now_ns());
                let record = e.finish(kind::REGION_END, id(at + 1)).map(<[u64]>::to_vec);
                self.keep_record(record);
            }
        }
        for region in now {
            if self.regions.iter().any(|(r, alive)| *alive && r == region) {
                continue;
            }
            changed = true;
            self.regions.push((region.clone(), true));
            let mut buffer = vec![0; 64 + (region.path.len() + region.build_id.len()) / 7];
            let record = region.begin(&mut buffer, id(self.regions.len()), now_ns());
            self.keep_record(record.map(<[u64]>::to_vec));
        }
        if changed {
            let epoch = self.map.words()[at::REGION_EPOCH].load(Ordering::Relaxed);
            self.set_header_word(at::REGION_EPOCH, epoch + 1);
        }
    }

    /// Says what became of an interpreter in the object with this path. `detail`: what is missing or odd.
    pub fn interpreter(&mut self, found: FoundInterpreter, path: &[u8], detail: &str) {
        let FoundInterpreter { language, version, state } = found;
        let mut buffer = vec![0; 24 + (path.len() + detail.len()) / 7];
        let e = Encoder::new(&mut buffer).raw_word(now_ns()).number(version).number(state as u64);
        let record = e.text(path).text(detail.as_bytes()).finish(kind::INTERPRETER, language as u32);
        self.keep_record(record.map(<[u64]>::to_vec));
        if language == Language::HotSpot {
            self.set_header_word(at::JAVA, state as u64);
        }
    }

    /// Adds a function of an interpreted language and returns its number. `None`: there is no room for it.
    pub fn code(&mut self, facts: &CodeFacts<Vec<u8>>, lines: Option<LineOctets<'_>>) -> Option<u32> {
        if 8 * self.code_words > self.limit / CODES_SHARE {
            self.lose(LossCause::Definitions, 1, 0);
            return None;
        }
        let id = self.codes + 1;
        let mut buffer = vec![0; 640];
        let record = facts.record(&mut buffer, id, now_ns()).map(<[u64]>::to_vec)?;
        self.code_words += record.len();
        if !self.keep_record(Some(record)) {
            return None;
        }
        self.codes = id;
        let Some(LineOctets { form, octets: lines, whole }) = lines else { return Some(id) };
        let mut offset = 0;
        // an empty table gets a record too: then each instruction has the first line
        loop {
            let octets = &lines[offset..lines.len().min(offset + LINES_PART)];
            let part = LineTablePart { form: form as u64, offset: offset as u64, whole, octets };
            let record = part.record(&mut buffer, id).map(<[u64]>::to_vec);
            self.code_words += record.as_ref().map_or(0, Vec::len);
            offset += octets.len();
            if !self.keep_record(record) || offset >= lines.len() {
                return Some(id);
            }
        }
    }

    /// Interns a stack, innermost caller first. Returns its id; 0 if it is empty or there is no room for it.
    pub fn stack(&mut self, frames: &[Frame]) -> u32 {
        self.stack_under(0, frames)
    }

    /// Interns the stack with this id plus one more frame at its inner end.
    pub fn stack_below(&mut self, stack: u32, frame: Frame) -> u32 {
        self.stack_under(stack, &[frame])
    }

    fn stack_under(&mut self, outer: u32, frames: &[Frame]) -> u32 {
        let mut parent = outer;
        let mut rest = frames.len();
        // walk the part that is interned already from the outermost frame inwards
        while rest > 0 {
            match self.stacks.get(&(parent, frames[rest - 1].encode())) {
                Some(id) => parent = *id,
                None => break,
            }
            rest -= 1;
        }
        if rest == 0 {
            return parent;
        }
        let first = id(self.stacks.len() + 1);
        let mut buffer = vec![0; rest + 2];
        let mut e = Encoder::new(&mut buffer).raw_word(u64::from(first));
        for frame in frames[..rest].iter().rev() {
            e = e.raw_word(frame.encode());
        }
        let record = e.finish(kind::STACK, parent).map(<[u64]>::to_vec);
        if !self.keep_record(record) {
            return 0;
        }
        for (number, frame) in (first..).zip(frames[..rest].iter().rev()) {
            self.stacks.insert((parent, frame.encode()), number);
            parent = number;
        }
        parent
    }

    /// Appends a sample of a thread.
    pub fn sample(&mut self, thread: u32, pc: u64, weight: u64, system: bool, stack: u32) {
        let (words, n) = record::sample(now_ns(), pc, weight, system, stack);
        let index = thread as usize - 1;
        let appended = self.threads[index].cursor.and_then(|c| self.append(c, &words[..n]));
        let cursor = appended.or_else(|| {
            let fresh = self.ring_segment(index)?;
            self.append(fresh, &words[..n])
        });
        match cursor {
            Some(c) => {
                let t = &mut self.threads[index];
                t.cursor = Some(c);
                t.in_segment.0 += 1;
                t.in_segment.1 += weight;
            }
            None => self.lose(LossCause::NoRoom, 1, weight),
        }
    }

    /// Records that the process is executing another program.
    pub fn exec(&mut self, path: &[u8]) {
        let mut buffer = vec![0; 8 + path.len() / 7];
        let e = Encoder::new(&mut buffer).raw_word(now_ns()).text(path);
        if let Some(record) = e.finish(kind::EXEC, 0) {
            let record = record.to_vec();
            self.process_record(&record);
        }
    }

    /// Ends the recording. `state` says how it ended.
    pub fn close(self, state: State) {
        self.set_header_word(at::STATE, state as u64);
    }

    fn process_record(&mut self, record: &[u64]) {
        let appended = self.process.and_then(|c| self.append(c, record));
        let cursor = appended.or_else(|| {
            let segment = self.new_block()?;
            let cursor = self.begin(segment, segment_kind::RING, None);
            self.append(cursor, record)
        });
        self.process = cursor.or(self.process);
    }

    /// Appends a record that is never overwritten. Returns false when there was no room.
    fn keep_record(&mut self, record: Option<Vec<u64>>) -> bool {
        let appended = record.and_then(|record| {
            self.append(self.keep, &record).or_else(|| {
                let segment = self.new_block().or_else(|| self.reuse())?;
                let cursor = self.begin(segment, segment_kind::KEEP, None);
                self.append(cursor, &record)
            })
        });
        match appended {
            Some(cursor) => self.keep = cursor,
            None => self.lose(LossCause::Definitions, 1, 0),
        }
        appended.is_some()
    }

    /// A new ring segment for a thread: the log grows, or the oldest segment is overwritten.
    fn ring_segment(&mut self, thread: usize) -> Option<Cursor> {
        let left = self.threads[thread].cursor.take();
        let samples = std::mem::take(&mut self.threads[thread].in_segment);
        if let Some(c) = left {
            self.map.words()[c.segment.0 + layout::segment::COUNT].store(samples.0, Ordering::Relaxed);
            self.old.push_back(Old { segment: c.segment, thread, samples });
        }
        let segment = self.new_block().or_else(|| self.reuse())?;
        Some(self.begin(segment, segment_kind::RING, Some(thread)))
    }

    fn reuse(&mut self) -> Option<(usize, usize)> {
        let old = self.old.pop_front()?;
        let t = &mut self.threads[old.thread];
        t.overwritten.0 += old.samples.0;
        t.overwritten.1 += old.samples.1;
        self.lose(LossCause::Overwritten, old.samples.0, old.samples.1);
        Some(old.segment)
    }

    fn new_block(&mut self) -> Option<(usize, usize)> {
        let from = self.map.allocated();
        self.map.grow(from + layout::BLOCK_BYTES).ok()?;
        self.set_header_word(at::ALLOCATED, self.map.allocated() as u64);
        Some((from / 8, from / 8 + BLOCK_WORDS))
    }

    fn begin(&mut self, segment: (usize, usize), kind: u8, thread: Option<usize>) -> Cursor {
        self.generation += 1;
        let mut head = SegmentHead {
            kind,
            generation: self.generation,
            time: now_ns(),
            period_ns: self.period_ns,
            ..Default::default()
        };
        if let Some(index) = thread {
            let t = &self.threads[index];
            head.tid = t.tid;
            head.thread = id(index + 1);
            head.name = t.name;
            (head.overwritten, head.overwritten_weight) = t.overwritten;
        }
        push::begin_segment(&self.map.words()[segment.0..segment.1], &head);
        self.set_header_word(at::GENERATION, self.generation);
        Cursor { segment, at: push::RECORDS_AT }
    }

    fn append(&self, cursor: Cursor, record: &[u64]) -> Option<Cursor> {
        let usable = &self.map.words()[cursor.segment.0..cursor.segment.1 - 1];
        Some(Cursor { at: push::append(usable, cursor.at, record, &[])?, ..cursor })
    }
}

fn boot_id() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).unwrap_or("0"), 16).unwrap_or(0);
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;
    use pct_elf::FileVersion;
    use pct_format::{File, Index};

    fn subject(limit: usize) -> Subject {
        Subject {
            pid: 42,
            own_pid: 7,
            ppid: 1,
            uid: 0,
            start_ticks: 5,
            argv: b"prog\0-x\0".to_vec(),
            exe: b"/bin/prog".to_vec(),
            build_id: vec![1, 2, 3],
            clock_asked: Clock::Auto,
            clock: Clock::Outside,
            hz: 100,
            stacks: StackMode::Auto,
            depth: 512,
            limit,
        }
    }

    #[test]
    fn what_was_written_is_read_back_at_any_instant() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.pct");
        let mut r = Recording::create(&path, &subject(1 << 20)).unwrap();
        let region = RegionFacts {
            start: 0x1000,
            end: 0x9000,
            offset: 0,
            device: 8 << 32,
            inode: 3,
            flags: 0,
            build_id: vec![9; 20],
            path: b"/bin/prog".to_vec(),
            version: FileVersion::default(),
        };
        r.regions(std::slice::from_ref(&region));
        let t = r.thread(42, b"worker");
        let inner = r.stack(&[Frame::Return(0x1100), Frame::Return(0x1200)]);
        let outer = r.stack(&[Frame::Return(0x1200)]);
        for n in 0..3000 {
            r.sample(t, 0x2000 + n, 1 + n % 3, n % 5 == 0, if n % 2 == 0 { inner } else { outer });
        }
        assert_eq!(r.stack(&[Frame::Return(0x1100), Frame::Return(0x1200)]), inner);
        // the file is read while it is being written
        let bytes = std::fs::read(&path).unwrap();
        let file = File::parse(&bytes).unwrap();
        let index = Index::new(&file);
        let samples: Vec<_> = index.samples_by_time().collect();
        assert_eq!(samples.len(), 3000);
        let weight: u64 = samples.iter().map(|(_, s)| s.weight).sum();
        assert_eq!(weight, (0..3000).map(|n| 1 + n % 3).sum::<u64>());
        assert_eq!(index.region_at(0x2000, now_ns()).unwrap().facts.path, region.path);
        assert_eq!(file.header().argv().collect::<Vec<_>>(), [&b"prog"[..], b"-x"]);
        r.close(State::Stopped);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(File::parse(&bytes).unwrap().header().state(), State::Stopped);
    }

    #[test]
    fn at_its_limit_the_log_wraps_and_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.pct");
        let mut r = Recording::create(&path, &subject(8 * layout::BLOCK_BYTES)).unwrap();
        let t = r.thread(42, b"worker");
        let total = 20_000;
        for _ in 0..total {
            r.sample(t, 0x2000, 1, false, 0);
        }
        drop(r);
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.len() <= 8 * layout::BLOCK_BYTES);
        let file = File::parse(&bytes).unwrap();
        let kept = Index::new(&file).samples_by_time().count() as u64;
        let lost: u64 = file.header().losses().map(|l| l.samples).sum();
        assert_eq!(kept + lost, total);
        assert!(kept > 3000 && lost > 0);
    }
}
