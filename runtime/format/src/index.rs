//! What a tool needs of a file: threads, regions with their lifetimes, stacks, the time scale, losses.
//!
//! It is built in one pass over the keep segments and the process's ring. Samples are not copied but read from the
//! bytes. Memory is bounded by the file's size.

use std::collections::BTreeMap;

use crate::codes::{Codes, Interpreter};
use crate::file::{File, Segment};
use crate::header::Anchor;
use crate::record::{Frame, Record, RegionFacts, Sample, Stack};

/// A region and its lifetime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Id in the file, from 1.
    pub id: u32,
    /// Its addresses and contents.
    pub facts: RegionFacts<Vec<u8>>,
    /// Raw time at which it was found.
    pub from: u64,
    /// Raw time at which it was found to be gone; `u64::MAX` = it existed to the end.
    pub to: u64,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Serial number in the file, from 1.
    pub serial: u32,
    /// Kernel's id.
    pub tid: u32,
    /// Its latest name; invalid UTF-8 is replaced.
    pub name: String,
    /// Raw time at which it was found, if recorded.
    pub begin: Option<u64>,
    /// Raw time at which it was found to have ended.
    pub end: Option<u64>,
    /// CPU ns that it had used when the sampler last looked at it before its end, if known.
    pub cpu_ns: Option<u64>,
    /// Number and weight of samples overwritten by wraps.
    pub overwritten: (u64, u64),
    /// Its parts of segments, oldest first: byte offset of the segment, and range of words in its records.
    parts: Vec<(usize, (usize, usize))>,
}

/// Mark set by the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Raw time.
    pub time: u64,
    /// Thread that set it.
    pub tid: u32,
    /// Its name.
    pub name: String,
}

/// The stacks of a file: a forest of (caller, PC), by id.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    /// (parent, frame word); index = id. Entry 0 is the empty stack.
    nodes: Vec<(u32, u64)>,
}

impl Stacks {
    /// Number of ids, including the empty stack 0. Ids are below it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is only the empty stack.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.len() <= 1
    }

    /// The innermost frame of a stack and the id of the rest. `None` for 0 and for ids that are not in the file.
    #[must_use]
    pub fn node(&self, id: u32) -> Option<(Frame, u32)> {
        match self.nodes.get(id as usize) {
            Some(&(parent, word)) if word != 0 => Some((Frame::decode(word), parent)),
            _ => None,
        }
    }

    /// For the stack of a sample in the kernel: the address in the thread's own code, and the stack of its callers.
    fn place_of_entry(&self, id: u32) -> Option<(u64, u32)> {
        let mut next = id;
        // A parent always has the smaller id (checked when it was added), so this ends.
        while let Some((frame, parent)) = self.node(next) {
            if let Frame::Exact(pc) = frame {
                return Some((pc, parent));
            }
            next = parent;
        }
        None
    }

    /// Frames of a stack, innermost caller first. Empty for an unknown id.
    pub fn frames(&self, id: u32) -> impl Iterator<Item = Frame> + use<'_> {
        let mut next = id;
        core::iter::from_fn(move || {
            let (frame, parent) = self.node(next)?;
            // A parent always has the smaller id (checked when it was added), so this ends.
            next = parent;
            Some(frame)
        })
    }

    fn define(&mut self, first: u32, parent: u32, frames: impl ExactSizeIterator<Item = Frame>, most: usize) {
        let end = (first as usize).saturating_add(frames.len());
        if first == 0 || parent >= first || end > most {
            return;
        }
        if self.nodes.len() < end {
            self.nodes.resize(end, (0, 0));
        }
        let mut parent = parent;
        for (id, frame) in (first..).zip(frames) {
            self.nodes[id as usize] = (parent, frame.encode());
            parent = id;
        }
    }
}

/// Converts raw times to nanoseconds, with the scale between two anchors.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    anchors: Vec<Anchor>,
}

impl Timeline {
    /// Makes a scale from any anchors. Those that contradict the order of their neighbours are left out.
    #[must_use]
    pub fn new(mut anchors: Vec<Anchor>) -> Self {
        anchors.retain(|a| a.raw != 0);
        anchors.sort_by_key(|a| (a.raw, a.monotonic_ns));
        let mut kept: Vec<Anchor> = Vec::with_capacity(anchors.len());
        for anchor in anchors {
            if kept
                .last()
                .is_none_or(|last| anchor.raw > last.raw && anchor.monotonic_ns >= last.monotonic_ns)
            {
                kept.push(anchor);
            }
        }
        Timeline { anchors: kept }
    }

    /// The anchors in use, in order of time.
    #[must_use]
    pub fn anchors(&self) -> &[Anchor] {
        &self.anchors
    }

    /// CLOCK_MONOTONIC ns of a raw time. Outside the anchors the nearest pair's scale is extended; with fewer than two
    /// anchors raw units count as ns.
    #[must_use]
    pub fn monotonic_ns(&self, raw: u64) -> u64 {
        let anchors = &self.anchors;
        let Some(first) = anchors.first() else { return raw };
        if anchors.len() < 2 {
            return offset(first.monotonic_ns, i128::from(raw) - i128::from(first.raw));
        }
        let after = anchors.partition_point(|a| a.raw <= raw).clamp(1, anchors.len() - 1);
        // Close anchors (a few ms) are no good scale for distant times, so outside the whole span is used.
        let (a, b) = match raw {
            r if r < first.raw || r > anchors[anchors.len() - 1].raw => (0, anchors.len() - 1),
            _ => (after - 1, after),
        };
        let base = if raw > anchors[b].raw { anchors[b] } else { anchors[a] };
        let raw_span = u128::from(anchors[b].raw - anchors[a].raw).max(1);
        let ns_span = u128::from(anchors[b].monotonic_ns - anchors[a].monotonic_ns);
        // Damaged anchors may span all of u64 in both units: only the product without its sign fits 128 bits.
        let by = i128::try_from(u128::from(raw.abs_diff(base.raw)) * ns_span / raw_span).unwrap_or(i128::MAX);
        offset(base.monotonic_ns, if raw < base.raw { -by } else { by })
    }

    /// CLOCK_REALTIME ns since 1970 of a raw time, with the offset of the nearest earlier anchor.
    #[must_use]
    pub fn realtime_ns(&self, raw: u64) -> u64 {
        let monotonic = self.monotonic_ns(raw);
        let at = self.anchors.partition_point(|a| a.raw <= raw).saturating_sub(1);
        match self.anchors.get(at) {
            Some(a) => offset(monotonic, i128::from(a.realtime_ns) - i128::from(a.monotonic_ns)),
            None => monotonic,
        }
    }
}

fn offset(base: u64, by: i128) -> u64 {
    u64::try_from(by.saturating_add(i128::from(base)).max(0)).unwrap_or(u64::MAX)
}

/// Everything in a file except its samples, ready for look-ups.
#[derive(Clone, Debug)]
pub struct Index<'a> {
    file: File<'a>,
    /// Threads by serial number.
    pub threads: Vec<Thread>,
    /// Regions by start address, then by birth.
    pub regions: Vec<Region>,
    /// `max_end[i]` is the highest end of `regions[..=i]`.
    max_end: Vec<u64>,
    /// Stacks.
    pub stacks: Stacks,
    /// Time scale.
    pub timeline: Timeline,
    /// Marks in order of time.
    pub marks: Vec<Mark>,
    /// Functions of interpreted languages, by the ids in frames.
    pub codes: Codes,
    /// Interpreters that were found, in order of discovery.
    pub interpreters: Vec<Interpreter>,
    /// Programs that this process executed (paths), with the raw time.
    pub execs: Vec<(u64, Vec<u8>)>,
    /// Children that it made, with the raw time.
    pub forks: Vec<(u64, u32)>,
    /// Number of segments that are damaged or were being rewritten when the file was copied.
    pub torn_segments: u64,
}

impl<'a> Index<'a> {
    /// Reads everything except the samples.
    #[must_use]
    pub fn new(file: &File<'a>) -> Self {
        let header = file.header();
        let mut index = Index {
            file: *file,
            threads: Vec::new(),
            regions: Vec::new(),
            max_end: Vec::new(),
            stacks: Stacks { nodes: vec![(0, 0)] },
            timeline: Timeline::default(),
            marks: Vec::new(),
            codes: Codes::default(),
            interpreters: Vec::new(),
            execs: Vec::new(),
            forks: Vec::new(),
            torn_segments: 0,
        };
        let mut segments: Vec<Segment<'a>> = file.segments().collect();
        segments.sort_by_key(Segment::generation);
        let mut seen = ProcessFacts { anchors: vec![header.first_anchor()], ..ProcessFacts::default() };
        // A stack id needs at least one word of the file for its definition.
        let most_stacks = file.bytes().len() / 8;
        for segment in &segments {
            if segment.kind().is_area() {
                continue;
            }
            if segment.thread() != 0 {
                for run in segment.runs() {
                    let thread = seen.threads.entry(run.thread).or_default();
                    thread.tid = run.tid;
                    thread.parts.push((segment.offset(), run.range()));
                    if !run.name.is_empty() {
                        thread.name.clone_from(&run.name);
                    }
                    // Besides samples, a thread's ring only contains marks. Samples are read on request.
                    index.marks.extend(run.records().filter_map(mark));
                }
                let first = seen.threads.entry(segment.thread()).or_default();
                first.overwritten = first.overwritten.max(segment.overwritten());
                continue;
            }
            for record in segment.records() {
                seen.record(record, &mut index, most_stacks);
            }
        }
        seen.anchors.extend(header.latest_anchor());
        index.timeline = Timeline::new(seen.anchors);
        index.threads = seen.threads.into_iter().map(|(serial, t)| Thread { serial, ..t }).collect();
        for thread in &mut index.threads {
            // A thread may continue in an older block than its last one. The time of its first record decides the
            // order.
            thread.parts.sort_by_cached_key(|part| part_of(file, *part).find_map(sample).map(|s| s.time));
        }
        index.regions = seen.regions.into_values().collect();
        index.regions.sort_by_key(|r| (r.facts.start, r.from));
        index.max_end = index
            .regions
            .iter()
            .scan(0, |max: &mut u64, r| {
                *max = (*max).max(r.facts.end);
                Some(*max)
            })
            .collect();
        index.marks.sort_by_key(|m| m.time);
        index.torn_segments = torn(file);
        index
    }

    /// The file from which it was made.
    #[must_use]
    pub fn file(&self) -> &File<'a> {
        &self.file
    }

    /// The region that contained `pc` at raw time `time`. Discovery lags behind the program, so a region that was found
    /// a little later than the sample, or found gone a little earlier, still counts if no other had the address.
    #[must_use]
    pub fn region_at(&self, pc: u64, time: u64) -> Option<&Region> {
        let mut best: Option<&Region> = None;
        let mut at = self.regions.partition_point(|r| r.facts.start <= pc);
        while at > 0 && self.max_end[at - 1] > pc {
            at -= 1;
            let region = &self.regions[at];
            if pc >= region.facts.end {
                continue;
            }
            if region.from <= time && time < region.to {
                return Some(region);
            }
            let distance = |r: &Region| if time < r.from { r.from - time } else { time - r.to.min(time) };
            if best.is_none_or(|b| distance(region) < distance(b)) {
                best = Some(region);
            }
        }
        best
    }

    /// Region by id.
    #[must_use]
    pub fn region(&self, id: u32) -> Option<&Region> {
        self.regions.iter().find(|r| r.id == id)
    }

    /// Samples of a thread, oldest first.
    pub fn samples(&self, thread: &Thread) -> impl Iterator<Item = Sample<'a>> + use<'a, '_> {
        let file = self.file;
        let parts = thread.parts.clone();
        parts.into_iter().flat_map(move |part| part_of(&file, part)).filter_map(sample)
    }

    /// Samples of all threads by raw time: (index into [`Index::threads`], sample).
    pub fn samples_by_time(&self) -> impl Iterator<Item = (usize, Sample<'a>)> + use<'a, '_> {
        let mut sources: Vec<_> = self.threads.iter().map(|t| self.samples(t).peekable()).collect();
        let mut heap: std::collections::BinaryHeap<_> = sources
            .iter_mut()
            .enumerate()
            .filter_map(|(i, s)| s.peek().map(|s| std::cmp::Reverse((s.time, i))))
            .collect();
        core::iter::from_fn(move || {
            let std::cmp::Reverse((_, i)) = heap.pop()?;
            let sample = sources[i].next()?;
            if let Some(next) = sources[i].peek() {
                heap.push(std::cmp::Reverse((next.time, i)));
            }
            Some((i, sample))
        })
    }
}

/// What the process's records have said so far, by number.
#[derive(Default)]
struct ProcessFacts {
    threads: BTreeMap<u32, Thread>,
    regions: BTreeMap<u32, Region>,
    anchors: Vec<Anchor>,
}

impl Index<'_> {
    /// Converts a sample with the kernel's own calls into a system sample at the address that entered the kernel.
    #[must_use]
    pub fn without_kernel<'s>(&self, sample: &Sample<'s>) -> Sample<'s> {
        if sample.kernel_pc().is_none() {
            return *sample;
        }
        let (pc, stack) = match sample.stack {
            Stack::None => (0, Stack::None),
            Stack::Id(id) => self.stacks.place_of_entry(id).map_or((0, Stack::None), |(pc, rest)| {
                (pc, if rest == 0 { Stack::None } else { Stack::Id(rest) })
            }),
            Stack::Frames(frames) => {
                let place = frames.iter().enumerate().find_map(|(at, frame)| match frame {
                    Frame::Exact(pc) => Some((pc, at)),
                    _ => None,
                });
                place.map_or((0, Stack::None), |(pc, at)| (pc, Stack::Frames(frames.outside_of(at))))
            }
        };
        Sample { pc, stack, ..*sample }
    }
}

impl ProcessFacts {
    fn record(&mut self, record: Record<'_>, index: &mut Index<'_>, most_stacks: usize) {
        match record {
            Record::RegionBegin { region: id, time, facts } => {
                if facts.start < facts.end {
                    let facts = facts.map(|octets| octets.to_vec());
                    let region = Region { id, facts, from: time, to: u64::MAX };
                    self.regions.insert(id, region);
                }
            }
            Record::RegionEnd { region, time } => {
                if let Some(r) = self.regions.get_mut(&region) {
                    r.to = time;
                }
            }
            Record::Stack { first, parent, frames } => {
                index.stacks.define(first, parent, frames.iter(), most_stacks);
            }
            Record::ThreadBegin { thread, time, tid, name } => {
                let t = self.threads.entry(thread).or_default();
                t.tid = tid;
                t.begin = Some(time);
                if t.name.is_empty() {
                    t.name = name.to_text();
                }
            }
            Record::ThreadName { thread, tid, name, .. } => {
                let t = self.threads.entry(thread).or_default();
                t.tid = tid;
                t.name = name.to_text();
            }
            Record::ThreadEnd { thread, time, tid, cpu_ns } => {
                let t = self.threads.entry(thread).or_default();
                t.tid = tid;
                t.end = Some(time);
                t.cpu_ns = (cpu_ns != 0).then_some(cpu_ns);
            }
            Record::Anchor { time, monotonic_ns, realtime_ns, .. } => {
                self.anchors.push(Anchor { raw: time, monotonic_ns, realtime_ns });
            }
            Record::Code { code, time, facts } => index.codes.define(code, time, &facts),
            Record::LineTable { code, part } => index.codes.add_lines(code, &part),
            Record::Interpreter { language, time, version, state, path, detail } => {
                let detail = detail.map(|text| text.to_vec()).unwrap_or_default();
                let path = path.to_vec();
                index.interpreters.push(Interpreter { language, time, version, state, path, detail });
            }
            Record::Exec { time, path } => index.execs.push((time, path.to_vec())),
            Record::Fork { time, child } => index.forks.push((time, child)),
            other => index.marks.extend(mark(other)),
        }
    }
}

fn part_of<'a>(file: &File<'a>, (offset, (from, to)): (usize, (usize, usize))) -> crate::file::Records<'a> {
    file.segment_at(offset).map_or_else(Default::default, |segment| segment.records().between(from, to))
}

fn sample(record: Record<'_>) -> Option<Sample<'_>> {
    match record {
        Record::Sample(s) => Some(s),
        _ => None,
    }
}

fn mark(record: Record<'_>) -> Option<Mark> {
    match record {
        Record::Mark { time, tid, name } => Some(Mark { time, tid, name: name.to_text() }),
        _ => None,
    }
}

/// Blocks whose first word is a segment's but whose generations differ, or that are being begun.
fn torn(file: &File<'_>) -> u64 {
    let known: std::collections::HashSet<usize> = file.segments().map(|s| s.offset()).collect();
    let block = file.block_bytes();
    let starts = (1..).map(|i| i * block).take_while(|at| *at < file.bytes().len());
    let magic = |at: usize| {
        let bytes = file.bytes().get(at..at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let mut within = 0usize;
    let mut torn = 0;
    for at in starts {
        if let Some(segment) = known.contains(&at).then(|| file.segment_at(at)).flatten() {
            within = at + segment.bytes().max(block);
        } else if at >= within && magic(at).is_some_and(|w| w & !0xff == crate::layout::SEGMENT_MAGIC) {
            torn += 1;
        }
    }
    torn
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::Builder;
    use crate::record::{Boundary, CutCause, Entry, InterpreterState, Language, LineTableForm};
    use proptest::prelude::*;

    fn example() -> Vec<u8> {
        let mut b = Builder::new();
        b.argv(&[b"prog", b"", b"x y"]);
        b.region(1, 10, 0x1000..0x2000, 0, 77, &[1, 2, 3], b"/bin/prog");
        b.region(2, 10, 0x7000..0x9000, 0x100, 78, &[], b"/lib/a.so").region_end(2, 500);
        b.region(3, 600, 0x7000..0x8000, 0x100, 79, &[], b"/lib/b.so");
        b.interpreter(5, 0x030c_01f0, InterpreterState::Read, b"/lib/python");
        b.code(3, 9, "C.été", "/a.py", 10, &[7; 5000]).code(4, 10, "g", "/a.py", 20, &[]);
        let main = b.thread(1, 1000, b"prog");
        let other = b.thread(5, 1001, b"worker");
        let stack = b.stack(&[Frame::Return(0x1100), Frame::Exact(0x1200), Frame::Cut(CutCause::Depth)]);
        for i in 0..2000u64 {
            b.sample(main, 100 + 2 * i, 0x1000 + i % 64, 1, false, stack);
            b.sample(other, 101 + 2 * i, 0x7000 + i % 64, 300, true, 0);
        }
        b.finish()
    }

    #[test]
    fn a_sample_in_the_kernel_is_one_of_the_place_that_entered_it() {
        let mut b = Builder::new();
        let main = b.thread(1, 1000, b"prog");
        let entered = Frame::Boundary(Boundary { entry: Entry::SystemCall, number: None });
        let ksys_read = Frame::Kernel(0xffff_ffff_8100_0100);
        let frames = [ksys_read, entered, Frame::Exact(0x1002), Frame::Return(0x1100)];
        let stack = b.stack(&frames);
        b.kernel_sample(main, 100, 0xffff_ffff_8100_0000, 300, stack);
        b.kernel_sample(main, 101, 0xffff_ffff_8100_0000, 1, 0);
        let bytes = b.finish();
        let file = File::parse(&bytes).unwrap();
        let index = Index::new(&file);
        let all: Vec<_> = index.samples_by_time().map(|(_, sample)| sample).collect();
        assert_eq!((all[0].kernel_pc(), all[0].weight), (Some(0xffff_ffff_8100_0000), 300));
        let Stack::Id(id) = all[0].stack else { panic!() };
        assert_eq!(index.stacks.frames(id).collect::<Vec<_>>(), frames);
        let plain = index.without_kernel(&all[0]);
        let Stack::Id(id) = plain.stack else { panic!() };
        assert_eq!((plain.pc, plain.weight, plain.system, plain.kernel_pc()), (0x1002, 300, true, None));
        assert_eq!(index.stacks.frames(id).collect::<Vec<_>>(), frames[3..]);
        assert_eq!(index.without_kernel(&all[1]).pc, 0);
    }

    #[test]
    fn what_the_builder_wrote_is_read_back() {
        let bytes = example();
        let file = File::parse(&bytes).unwrap();
        let header = file.header();
        assert_eq!(header.argv().collect::<Vec<_>>(), [&b"prog"[..], b"", b"x y"]);
        assert!(!header.argv_is_cut());
        let index = Index::new(&file);
        assert_eq!(index.threads.len(), 2);
        assert_eq!(index.threads[1].name, "worker");
        let all: Vec<_> = index.samples_by_time().collect();
        assert_eq!(all.len(), 4000);
        assert!(all.is_sorted_by_key(|(_, s)| s.time));
        let (who, s) = all[0];
        assert_eq!((who, s.weight, s.system), (0, 1, false));
        let Stack::Id(id) = s.stack else { panic!() };
        assert_eq!(
            index.stacks.frames(id).collect::<Vec<_>>(),
            [Frame::Return(0x1100), Frame::Exact(0x1200), Frame::Cut(CutCause::Depth)]
        );
        assert_eq!((all[1].1.weight, all[1].1.system), (300, true));
        assert_eq!(index.region_at(0x7001, 499).unwrap().facts.path, b"/lib/a.so");
        assert_eq!(index.region_at(0x7001, 700).unwrap().facts.path, b"/lib/b.so");
        assert_eq!(index.region_at(0x7001, 520).unwrap().facts.path, b"/lib/a.so");
        assert_eq!(index.region_at(0x1fff, 0).unwrap().facts.build_id, [1, 2, 3]);
        assert!(index.region_at(0x2000, 100).is_none());
        assert_eq!(index.torn_segments, 0);
        let code = index.codes.get(3).unwrap();
        assert_eq!((code.facts.name.as_str(), code.facts.file.as_str()), ("C.été", "/a.py"));
        assert_eq!((code.facts.first_line, code.lines.as_slice()), (10, &[7; 5000][..]));
        assert_eq!((code.line_form, code.lines_are_whole), (Some(LineTableForm::Locations), true));
        assert_eq!(code.facts.language, Language::CPython as u64);
        assert!(index.codes.get(4).unwrap().lines.is_empty() && index.codes.get(5).is_none());
        assert_eq!(index.interpreters[0].state, InterpreterState::Read as u64);
    }

    #[test]
    fn threads_that_go_on_in_each_others_segments_are_told_apart() {
        let mut b = Builder::new();
        let threads = [b.thread(1, 11, b"one"), b.thread(2, 12, b"two"), b.thread(3, 13, b"three")];
        b.sample(threads[0], 10, 0x100, 1, false, 0).sample(threads[0], 20, 0x101, 1, false, 0);
        // The second thread has a later segment of its own first, and then continues in the older one.
        b.sample(threads[1], 15, 0x200, 1, false, 0);
        b.take_over(threads[1], threads[2], 16).sample(threads[2], 17, 0x300, 1, false, 0);
        b.take_over(threads[0], threads[1], 25).sample(threads[1], 30, 0x201, 7, false, 0);
        let bytes = b.finish();
        let file = File::parse(&bytes).unwrap();
        let index = Index::new(&file);
        let of =
            |i: usize| index.samples(&index.threads[i]).map(|s| (s.time, s.pc, s.weight)).collect::<Vec<_>>();
        assert_eq!(of(0), [(10, 0x100, 1), (20, 0x101, 1)]);
        assert_eq!(of(1), [(15, 0x200, 1), (30, 0x201, 7)]);
        assert_eq!(of(2), [(17, 0x300, 1)]);
        assert_eq!(
            index.threads.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(),
            ["one", "two", "three"]
        );
        assert_eq!(file.segments().flat_map(|s| s.runs()).filter(|r| r.thread != 0).count(), 4);
    }

    #[test]
    fn a_file_cut_short_anywhere_gives_a_prefix() {
        let bytes = example();
        let whole = Index::new(&File::parse(&bytes).unwrap()).samples_by_time().count();
        for len in (0..bytes.len()).step_by(509) {
            match File::parse(&bytes[..len]) {
                Ok(file) => assert!(Index::new(&file).samples_by_time().count() <= whole),
                Err(e) => assert!(len < 1024, "{len}: {e}"),
            }
        }
    }

    #[test]
    fn bytes_that_are_no_file_are_named() {
        assert!(matches!(File::parse(b""), Err(crate::Error::TooShort { .. })));
        assert!(File::parse(b"").is_err_and(|why| why.is_of_unfinished()));
        assert!(File::parse(&[0; 1000]).is_err_and(|why| why.is_of_unfinished()));
        assert!(File::parse(&[1; 2]).is_err_and(|why| !why.is_of_unfinished()));
        assert!(matches!(File::parse(&[1; 2000]), Err(crate::Error::NotPct { .. })));
        assert!(matches!(File::parse(&[0; 2000]), Err(crate::Error::Unfinished)));
        // Killed after the first words of the header.
        let mut begun = [0; 2000];
        let byte_order = 8 * crate::layout::header::BYTE_ORDER;
        begun[byte_order..byte_order + 8].copy_from_slice(&crate::layout::BYTE_ORDER.to_le_bytes());
        assert!(matches!(File::parse(&begun), Err(crate::Error::Unfinished)));
        let mut bytes = example();
        bytes[20] = 9;
        assert!(matches!(File::parse(&bytes), Err(crate::Error::OtherVersion { found: 9, .. })));
        bytes[8..16].reverse();
        assert!(matches!(File::parse(&bytes), Err(crate::Error::OtherByteOrder)));
    }

    #[test]
    fn counters_are_read_back_and_no_block_of_theirs_is_taken_for_a_segment() {
        let mut b = Builder::new();
        // Counter values that look like segment headers and heads.
        let counts: Vec<u64> = (0..10_000)
            .map(|i| if i % 2048 == 2032 { crate::layout::SEGMENT_MAGIC | 2 } else { i })
            .collect();
        b.counters(7, 4, &counts);
        let t = b.thread(1, 5, b"t");
        b.sample(t, 3, 4, 1, false, 0);
        let bytes = b.finish();
        let file = File::parse(&bytes).unwrap();
        let area = file.counters().next().unwrap();
        assert_eq!((area.region, area.shift, area.len()), (7, 4, 10_000));
        assert_eq!(area.nonzero().next(), Some((16, 1)));
        assert_eq!(area.nonzero().count(), 9_999);
        let index = Index::new(&file);
        assert_eq!(index.torn_segments, 0);
        assert_eq!(index.samples_by_time().count(), 1);
    }

    #[test]
    fn the_time_scale_goes_through_its_anchors() {
        let at = |raw, monotonic_ns| Anchor { raw, monotonic_ns, realtime_ns: monotonic_ns + 50 };
        let t = Timeline::new(vec![at(3000, 2000), at(1000, 1000), at(5000, 2500), at(4000, 100)]);
        assert_eq!(t.anchors().len(), 3);
        for (raw, ns) in
            [(1000, 1000), (2000, 1500), (3000, 2000), (4000, 2250), (5000, 2500), (9000, 4000), (200, 700)]
        {
            assert_eq!(t.monotonic_ns(raw), ns, "{raw}");
            assert_eq!(t.realtime_ns(raw), ns + 50);
        }
        assert_eq!(Timeline::new(vec![]).monotonic_ns(7), 7);
        assert_eq!(Timeline::new(vec![at(10, 100)]).monotonic_ns(7), 97);
    }

    #[test]
    fn anchors_that_span_everything_give_a_time() {
        let at = |raw, monotonic_ns| Anchor { raw, monotonic_ns, realtime_ns: u64::MAX };
        let t = Timeline::new(vec![at(1, 0), at(u64::MAX, u64::MAX)]);
        assert_eq!(t.monotonic_ns(u64::MAX), u64::MAX);
        assert_eq!(t.realtime_ns(u64::MAX - 1), u64::MAX);
        // Both products here are one bit too wide for signed 128 bits.
        let steep = Timeline::new(vec![at(1, 0), at(2, u64::MAX)]);
        assert_eq!(steep.monotonic_ns(u64::MAX), u64::MAX);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn scribbled_files_never_panic(places in proptest::collection::vec((0usize..70_000, 0u64.., 0u8..4), 1..60)) {
            let mut bytes = example();
            for (at, word, how) in places {
                let word = match how {
                    0 => word,
                    1 => crate::layout::SEGMENT_MAGIC | word & 3,
                    2 => crate::head::Head { kind: word as u8 % 28, words: (word >> 8) as u16 % 50, arg: (word >> 32) as u32 % 9 }.encode(),
                    _ => word & 0xffff,
                };
                let at = (at & !7) % (bytes.len() - 8);
                bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
            }
            if let Ok(file) = File::parse(&bytes) {
                let index = Index::new(&file);
                for (_, s) in index.samples_by_time() {
                    let _ = index.region_at(s.pc, s.time);
                    let _ = index.timeline.realtime_ns(s.time);
                    if let Stack::Id(id) = s.stack {
                        prop_assert!(index.stacks.frames(id).count() <= bytes.len());
                    }
                }
                for area in file.counters() {
                    let _ = area.nonzero().count();
                }
                let _ = file.header().argv().count();
                let _ = file.header().losses().count();
            }
        }
    }
}
