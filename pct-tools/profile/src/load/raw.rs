//! One .pct file after the other into sums over a trie of addresses.
//!
//! An address is (object, file offset or address in it, is it a return address); the objects are the symbolizer's.
//! A region has a life: where two regions had the same addresses at different times (dlclose and dlopen), the same
//! stack id of a file can stand for different code, so the memory of what was looked up goes by *epoch*, the time
//! between two changes of the regions. Files without such overlaps have one epoch.

use super::alive;
use super::images::Image;
use super::kernel_refusal;
use super::memory::RawMemory;
use super::objects::{Epochs, Objects};
use super::options::{Error, KeptSamples, Options};
use super::over_time::RawOverTime;
use super::process::process_of;
use super::refused;
use super::spoken::{Speaking, SpokenTable, note_interpreters};
use super::tally::{BATCH, Counted, DueSample, Key, NodeIndex, StackKey, Tally};
use super::times::ImageTimes;
use super::waits::RawWaits;
use crate::Language;
use crate::model::{Account, Process};
use crate::packed::{PackedSample, PackedSamples};
use pct_format::record::{Blocked, Boundary, Frame, LostCode, Record, Stack, is_kernel_address};
use pct_format::{CutCause, File, Index, Recorder, Region, SegmentKind, StackMode, State};
use pct_symbols::{CodeAddr, ObjectId, Symbolizer};
use rustc_hash::FxHashMap;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// "No caller".
pub(super) const ROOT: NodeIndex = u32::MAX;

/// A node, and why its stack is cut, if it is.
type StackNode = (NodeIndex, Option<CutCause>);

/// What a node of the trie stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum RawFrame {
    /// An address in an object.
    Code(ObjectId, CodeAddr),
    /// An address in no region.
    Unknown,
    /// In the kernel.
    System,
    /// Here the thread entered the kernel; below are the kernel's own functions.
    Boundary(Boundary),
    /// An address in the kernel.
    Kernel(ObjectId, CodeAddr),
    /// Waiting there (samples by the wall clock of older writers): no place of its own, only told from running.
    Waiting,
    /// The thread did not run, and why.
    Blocked(Blocked),
    /// The stack goes on outwards, but was not followed.
    Cut(CutCause),
    /// A function of an interpreted language, by its number in [`Raw::spoken`], and its line (0 = not known).
    Spoken(u32, u32),
    /// Here frames of an interpreted language are missing.
    Lost(Language, LostCode),
    /// Memory whose stack was not recorded.
    NoStack,
    /// Memory that the parent process had allocated before the fork.
    Inherited,
}

impl RawFrame {
    /// Of an address, if it lies in a region.
    fn from_address(place: Option<(ObjectId, CodeAddr)>) -> Self {
        place.map_or(Self::Unknown, |(object, address)| Self::Code(object, address))
    }
}

/// A thread of a file, by its place in [`Raw::threads`].
pub(super) struct RawThread {
    pub(super) process: usize,
    pub(super) tid: u32,
    pub(super) name: String,
}

/// Sums of one (thread, node).
#[derive(Clone, Copy, Default)]
pub(super) struct Sum {
    pub(super) samples: u64,
    pub(super) ns: u64,
    pub(super) system: bool,
}

impl Sum {
    fn add(&mut self, more: Sum) {
        self.samples = self.samples.saturating_add(more.samples);
        self.ns = self.ns.saturating_add(more.ns);
        self.system = more.system;
    }
}

/// The pairs of thread and epoch that occur. Samples come by thread and time, so the last one is nearly
/// always meant again.
#[derive(Default)]
struct Whens {
    list: Vec<(u32, u32)>,
    places: FxHashMap<(u32, u32), u32>,
    last: u32,
}

impl Whens {
    fn place(&mut self, pair: (u32, u32)) -> u32 {
        if self.list.get(self.last as usize) != Some(&pair) {
            self.last = *self.places.entry(pair).or_insert_with(|| {
                self.list.push(pair);
                u32::try_from(self.list.len() - 1).expect("pairs of 32-bit numbers of one file")
            });
        }
        self.last
    }
}

/// Samples without a whole stack.
#[derive(Default)]
struct Wholeness {
    cuts: FxHashMap<CutCause, u64>,
    untaken: u64,
}

/// A mark of a file.
pub(super) struct RawMark {
    pub(super) realtime_ns: u64,
    pub(super) thread: Option<usize>,
    pub(super) name: String,
}

/// A sample in order of time.
pub(super) struct RawTimed {
    pub(super) realtime_ns: u64,
    pub(super) ns: u64,
    pub(super) thread: u32,
    pub(super) node: NodeIndex,
}

/// Reads what a file says of memory: of which process, and at which path.
pub(super) type MemoryReader = fn(&mut Reading<'_, '_>, usize, &Path);

/// Reads what a file says of waits: of which process, and the number of its first thread.
pub(super) type WaitReader = fn(&mut Reading<'_, '_>, usize, usize);

/// All files so far.
pub(super) struct Raw {
    pub(super) nodes: Vec<(NodeIndex, RawFrame)>,
    known: FxHashMap<(NodeIndex, RawFrame), NodeIndex>,
    pub(super) processes: Vec<(Process, u64)>,
    /// What their files say about whose they are.
    pub(super) images: Vec<Image>,
    pub(super) threads: Vec<RawThread>,
    /// Functions of interpreted languages.
    pub(super) spoken: SpokenTable,
    pub(super) sums: FxHashMap<(u32, NodeIndex), Sum>,
    pub(super) timed: Vec<RawTimed>,
    /// What was spent when, if that is wanted.
    pub(super) over_time: Option<RawOverTime>,
    pub(super) marks: Vec<RawMark>,
    pub(super) whole: u64,
    /// Samples before this are left out; 0 = none.
    pub(super) since_realtime_ns: u64,
    /// What the files say of memory.
    pub(super) memory: RawMemory,
    /// What the files say of waits.
    pub(super) waits: RawWaits,
    /// The only time of which waits are counted, nanoseconds since the start of the recording.
    pub(super) window_of_waits: Option<(u64, u64)>,
    /// Start of the recording, nanoseconds since 1970. `None`: it is that of the file, which is the only one.
    pub(super) start: Option<u64>,
    /// What the files say of CPU time.
    pub(super) times: Vec<ImageTimes>,
    /// Process ids of the children that their processes made.
    children: HashSet<u32>,
    /// Reads what a file says of memory, if that is wanted.
    memory_reader: Option<MemoryReader>,
    /// Reads what a file says of waits, if that is wanted.
    wait_reader: Option<WaitReader>,
    kept: KeptSamples,
    /// Samples by thread, by its place in `threads`, if they are kept so. Their stacks are nodes.
    pub(super) by_thread: Vec<PackedSamples>,
    /// The root folder of the processes, where it is known to be another than ours.
    root: Option<PathBuf>,
}

impl Raw {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            nodes: Vec::new(),
            known: FxHashMap::default(),
            processes: Vec::new(),
            images: Vec::new(),
            threads: Vec::new(),
            spoken: SpokenTable::default(),
            sums: FxHashMap::default(),
            timed: Vec::new(),
            over_time: options.over_time.then(RawOverTime::new),
            marks: Vec::new(),
            whole: 0,
            since_realtime_ns: options.since_realtime_ns,
            memory: RawMemory::default(),
            waits: RawWaits::default(),
            window_of_waits: options.window,
            start: None,
            times: Vec::new(),
            children: HashSet::new(),
            memory_reader: None,
            wait_reader: None,
            kept: options.kept_samples(),
            by_thread: Vec::new(),
            root: None,
        }
    }

    /// The same, of processes whose files lie below `root`.
    pub(super) fn with_root(self, root: Option<&Path>) -> Self {
        Self { root: root.map(Path::to_owned), ..self }
    }

    /// The same, which also reads what files say of memory.
    pub(super) fn with_memory(self, reader: Option<MemoryReader>) -> Self {
        Self { memory_reader: reader, ..self }
    }

    /// The same, which also reads what files say of waits.
    pub(super) fn with_waits(self, reader: Option<WaitReader>) -> Self {
        Self { wait_reader: reader, ..self }
    }

    /// The same of a recording that began at this time.
    pub(super) fn with_start(self, start: Option<u64>) -> Self {
        Self { start, ..self }
    }

    /// No file was read.
    pub(super) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Process ids of what was read.
    pub(super) fn pids(&self) -> HashSet<u32> {
        self.processes.iter().map(|(process, _)| process.pid).collect()
    }

    /// Process ids of the children that they made.
    pub(super) fn children(&self) -> &HashSet<u32> {
        &self.children
    }

    /// All addresses to translate.
    pub(super) fn queries(&self) -> impl Iterator<Item = (ObjectId, CodeAddr)> + '_ {
        self.nodes.iter().filter_map(|(_, place)| match place {
            RawFrame::Code(object, address) | RawFrame::Kernel(object, address) => Some((*object, *address)),
            _ => None,
        })
    }

    pub(super) fn node(&mut self, parent: NodeIndex, place: RawFrame) -> NodeIndex {
        *self.known.entry((parent, place)).or_insert_with(|| {
            self.nodes.push((parent, place));
            NodeIndex::try_from(self.nodes.len() - 1).unwrap_or(ROOT)
        })
    }

    /// Takes one file's bytes; gives the translator that its header names, if any.
    pub(super) fn read(
        &mut self,
        path: &Path,
        bytes: std::io::Result<Vec<u8>>,
        symbols: &mut Symbolizer,
        account: &mut Account,
    ) -> Result<Option<String>, Error> {
        let bytes = bytes.map_err(|why| Error::Unreadable { path: path.to_owned(), why })?;
        let translator = self.read_bytes(&bytes, path, symbols, account)?;
        // A file that still grows was longer when its header said so.
        let said = pct_format::File::parse(&bytes)
            .map_or(0, |file| file.header().header_word(pct_format::layout::header::ALLOCATED));
        if said > bytes.len() as u64 {
            account.note(format!(
                "{}: cut short: {} of {said} bytes are there, samples are missing",
                path.display(),
                bytes.len()
            ));
        }
        Ok(translator)
    }

    /// The same for bytes that are in memory; `path` is used in messages.
    pub(super) fn read_bytes(
        &mut self,
        bytes: &[u8],
        path: &Path,
        symbols: &mut Symbolizer,
        account: &mut Account,
    ) -> Result<Option<String>, Error> {
        let file = File::parse(bytes).map_err(|why| Error::Bad { path: path.to_owned(), why })?;
        let index = Index::new(&file);
        let process = self.processes.len();
        self.processes.push(process_of(&index, path));
        self.images.push(Image::from_header(&file.header()));
        self.times.push(ImageTimes::from_header(&file.header()));
        self.children.extend(index.forks.iter().map(|(_, child)| *child));
        account_of(&index, path, account);
        note_interpreters(&index.interpreters, account);
        let first_thread = self.threads.len();
        for thread in &index.threads {
            self.threads.push(RawThread { process, tid: thread.tid, name: thread.name.clone() });
        }
        let root = self.root.clone();
        let mut reading = Reading {
            raw: self,
            epochs: Epochs::default(),
            objects: Objects::new(&index, symbols, path, root.as_deref()),
            nodes: FxHashMap::default(),
            speaking: Speaking::new(
                &index.codes,
                &index.interpreters,
                file.header().text(pct_format::layout::Text::Cwd),
            ),
            account,
            index: &index,
            with_stacks: file.header().stack_mode() != StackMode::None,
            wall: file.header().clock_got() == Some(pct_format::Clock::Wall),
        };
        reading.epochs = reading.objects.epochs();
        match file.header().recorder() {
            Recorder::Log => reading.log(first_thread),
            Recorder::Counts => reading.counts(process),
        }
        if let Some(read) = reading.raw.memory_reader {
            read(&mut reading, process, path);
        }
        if let Some(read) = reading.raw.wait_reader {
            read(&mut reading, process, first_thread);
        }
        reading.speaking.close(path, reading.account);
        for mark in &index.marks {
            let thread = index.threads.iter().position(|thread| thread.tid == mark.tid);
            self.marks.push(RawMark {
                realtime_ns: index.timeline.realtime_ns(mark.time),
                thread: thread.map(|at| first_thread + at),
                name: mark.name.clone(),
            });
        }
        let translator = String::from_utf8_lossy(file.header().text(pct_format::layout::Text::Translator));
        Ok(Some(translator.into_owned()).filter(|translator| !translator.is_empty()))
    }
}

/// One file being read.
pub(super) struct Reading<'r, 'i> {
    pub(super) raw: &'r mut Raw,
    objects: Objects<'r, 'i>,
    pub(super) index: &'r Index<'i>,
    /// (stack id, epoch) to node, and whether it is cut.
    nodes: FxHashMap<(u32, u32), StackNode>,
    epochs: Epochs,
    speaking: Speaking<'r>,
    pub(super) account: &'r mut Account,
    with_stacks: bool,
    /// Samples by the wall clock: `system` says that the thread waited.
    wall: bool,
}

impl Reading<'_, '_> {
    /// Samples are kept with their times, and so are waits.
    pub(super) fn keeps_times(&self) -> bool {
        self.raw.kept != KeptSamples::Nowhere
    }

    fn log(&mut self, first_thread: usize) {
        let file = *self.index.file();
        let header_period = file.header().period_ns();
        let serials: FxHashMap<u32, usize> =
            self.index.threads.iter().enumerate().map(|(at, t)| (t.serial, first_thread + at)).collect();
        let since = self.raw.since_realtime_ns;
        // The thread at which samples of a thread are summed.
        let first = match self.raw.kept {
            KeptSamples::ByThread => u32::try_from(first_thread).ok(),
            KeptSamples::Nowhere | KeptSamples::InOrder => None,
        };
        let summed_at = |thread: u32| first.unwrap_or(thread);
        let rings = file.segments().filter(|segment| segment.kind() == SegmentKind::Ring);
        let runs = rings.flat_map(|segment| {
            let period = if segment.period_ns() == 0 { header_period } else { segment.period_ns() };
            segment.runs().map(move |run| (period, run))
        });
        let mut tally = Tally::new();
        let mut batch = Vec::with_capacity(BATCH);
        let mut whens = Whens::default();
        let mut wholeness = Wholeness::default();
        for (period, run) in runs {
            let Some(&thread) = serials.get(&run.thread) else { continue };
            let thread = u32::try_from(thread).unwrap_or(u32::MAX);
            for record in run.records() {
                let Record::Sample(sample) = record else { continue };
                if since > 0 && self.index.timeline.realtime_ns(sample.time) < since {
                    continue;
                }
                let ns = sample.weight.saturating_mul(period);
                if let Stack::Frames(frames) = sample.stack {
                    self.count_batch(&mut tally, &mut batch, &whens);
                    let (mut at, mut cut) = (ROOT, None);
                    for frame in frames.iter().rev() {
                        at = self.frame(at, frame, sample.time, &mut cut);
                    }
                    let node = self.leaf(at, sample.pc, sample.time, sample.system);
                    let one = Sum { samples: 1, ns, system: sample.system };
                    self.count((summed_at(thread), node), one, cut, true, &mut wholeness);
                    self.note_time(sample.time, ns, thread, node);
                    continue;
                }
                let stack = if let Stack::Id(id) = sample.stack { id } else { 0 };
                let when = whens.place((summed_at(thread), self.epoch(sample.time)));
                let key = Key::new(sample.pc, stack, when, sample.system);
                batch.push(DueSample { key, time: sample.time, ns, thread });
                if batch.len() == BATCH {
                    self.count_batch(&mut tally, &mut batch, &whens);
                }
            }
        }
        self.count_batch(&mut tally, &mut batch, &whens);
        for Counted { key, meaning, samples, ns } in tally.counted() {
            let (thread, _) = whens.list[key.when()];
            let sum = Sum { samples, ns, system: key.system() };
            self.count((thread, meaning.node), sum, meaning.cut, key.stack != 0, &mut wholeness);
        }
        let mut cuts: Vec<_> = wholeness.cuts.into_iter().collect();
        cuts.sort_unstable();
        for (cause, samples) in cuts {
            self.account.cut(cause.name(), samples);
        }
        self.account.cut("none taken", wholeness.untaken);
    }

    /// Counts what has gathered.
    fn count_batch(&mut self, tally: &mut Tally, batch: &mut Vec<DueSample>, whens: &Whens) {
        let mut times = Vec::new();
        let is_kept = self.raw.kept != KeptSamples::Nowhere || self.raw.over_time.is_some();
        tally.count(
            batch,
            |one| {
                let Key { pc, stack, .. } = one.key;
                let (above, cut) = self.stack(stack, whens.list[one.key.when()].1, one.time);
                StackKey { node: self.leaf(above, pc, one.time, one.key.system()), cut }
            },
            |one, meaning| {
                if is_kept {
                    times.push((one.time, one.ns, one.thread, meaning.node));
                }
            },
        );
        for (time, ns, thread, node) in times {
            self.note_time(time, ns, thread, node);
        }
        batch.clear();
    }

    /// Keeps a sample by itself or in its slot of time, if that is wanted.
    fn note_time(&mut self, time: u64, ns: u64, thread: u32, node: NodeIndex) {
        if let Some(over_time) = &mut self.raw.over_time {
            over_time.add(self.index.timeline.realtime_ns(time), ns, (thread, node));
        }
        match self.raw.kept {
            KeptSamples::Nowhere => {}
            KeptSamples::InOrder => {
                let realtime_ns = self.index.timeline.realtime_ns(time);
                self.raw.timed.push(RawTimed { realtime_ns, ns, thread, node });
            }
            KeptSamples::ByThread => {
                let realtime_ns = self.index.timeline.realtime_ns(time);
                let lists = &mut self.raw.by_thread;
                let at = usize::try_from(thread).expect("threads of files are counted in memory");
                if lists.len() <= at {
                    lists.resize_with(at + 1, PackedSamples::default);
                }
                lists[at].push(PackedSample { realtime_ns, weight_ns: ns, stack: node });
            }
        }
    }

    /// Adds to the sum of a thread's node. `taken`: the samples have stacks.
    fn count(
        &mut self,
        of: (u32, NodeIndex),
        sum: Sum,
        cut: Option<CutCause>,
        taken: bool,
        wholeness: &mut Wholeness,
    ) {
        if self.with_stacks && (!sum.system || self.wall) {
            match cut {
                Some(cause) => *wholeness.cuts.entry(cause).or_default() += sum.samples,
                None if taken => self.raw.whole += sum.samples,
                None => wholeness.untaken += sum.samples,
            }
        }
        self.raw.sums.entry(of).or_default().add(sum);
    }

    fn leaf(&mut self, above: NodeIndex, pc: u64, time: u64, system: bool) -> NodeIndex {
        if is_kernel_address(pc) {
            let place = RawFrame::Kernel(self.objects.kernel(), CodeAddr::Pc(pc));
            return self.raw.node(above, place);
        }
        if system && pc == 0 {
            // Nobody knows where the system call was.
            return self.raw.node(above, if self.wall { RawFrame::Waiting } else { RawFrame::System });
        }
        let place = RawFrame::from_address(self.objects.place(pc, time, CodeAddr::Pc));
        // Why a thread did not run stands in front of its callers, and is the leaf of its stack.
        let (above, blocked) = match self.raw.nodes.get(above as usize) {
            Some((parent, blocked @ RawFrame::Blocked(_))) => (*parent, Some(*blocked)),
            _ => (above, None),
        };
        let node = self.raw.node(above, place);
        if let Some(blocked) = blocked {
            return self.raw.node(node, blocked);
        }
        match (system, self.wall) {
            (true, true) => self.raw.node(node, RawFrame::Waiting),
            (true, false) => self.raw.node(node, RawFrame::System),
            (false, _) => node,
        }
    }

    fn frame(&mut self, above: NodeIndex, frame: Frame, time: u64, cut: &mut Option<CutCause>) -> NodeIndex {
        let place = match frame {
            Frame::Return(pc) => RawFrame::from_address(self.objects.place(pc, time, CodeAddr::Return)),
            Frame::Exact(pc) => RawFrame::from_address(self.objects.place(pc, time, CodeAddr::Pc)),
            Frame::Code(code) => match self.speaking.place(&mut self.raw.spoken, code) {
                Some((function, line)) => RawFrame::Spoken(function, line),
                None => RawFrame::Lost(self.speaking.language(), LostCode::NotWritten),
            },
            Frame::Boundary(boundary) => RawFrame::Boundary(boundary),
            Frame::Blocked(blocked) => RawFrame::Blocked(blocked),
            Frame::Kernel(pc) => RawFrame::Kernel(self.objects.kernel(), CodeAddr::Return(pc)),
            Frame::NoCode(why) => RawFrame::Lost(self.speaking.language(), why),
            Frame::Cut(cause) => {
                *cut = Some(cause);
                RawFrame::Cut(cause)
            }
        };
        self.raw.node(above, place)
    }

    /// The node of a stack of the file, made with all its callers if need be. Deep recursions are long chains, so
    /// this is a loop.
    pub(super) fn stack(&mut self, id: u32, epoch: u32, time: u64) -> StackNode {
        let mut chain = Vec::new();
        let mut next = id;
        let (mut at, mut cut) = loop {
            if let Some(&known) = self.nodes.get(&(next, epoch)) {
                break known;
            }
            let Some((frame, parent)) = self.index.stacks.node(next) else { break (ROOT, None) };
            chain.push((next, frame));
            next = parent;
        };
        for (id, frame) in chain.into_iter().rev() {
            at = self.frame(at, frame, time, &mut cut);
            self.nodes.insert((id, epoch), (at, cut));
        }
        (at, cut)
    }

    pub(super) fn epoch(&self, time: u64) -> u32 {
        self.epochs.at(time, |raw| self.index.timeline.realtime_ns(raw))
    }

    /// Counters have no threads: one stands for the process.
    fn counts(&mut self, process: usize) {
        let file = *self.index.file();
        let header = file.header();
        let period = header.period_ns();
        let tid = header.pid();
        let thread = u32::try_from(self.raw.threads.len()).unwrap_or(u32::MAX);
        self.raw.threads.push(RawThread { process, tid, name: String::new() });
        let by_id: FxHashMap<u32, &Region> = self.index.regions.iter().map(|r| (r.id, r)).collect();
        let add = |raw: &mut Raw, place: RawFrame, count: u64, system: bool| {
            if count > 0 {
                let node = raw.node(ROOT, place);
                let sum = raw.sums.entry((thread, node)).or_default();
                sum.samples = sum.samples.saturating_add(count);
                sum.ns = sum.ns.saturating_add(count.saturating_mul(period));
                sum.system = system;
            }
        };
        for area in file.counters() {
            for (offset, count) in area.nonzero() {
                let place = by_id.get(&area.region).map(|region| {
                    let pc = region.facts.start.saturating_add(offset);
                    self.objects.in_region(region, pc, CodeAddr::Pc, None)
                });
                add(self.raw, RawFrame::from_address(place), count, false);
            }
        }
        add(self.raw, RawFrame::Unknown, header.header_word(pct_format::layout::header::UNKNOWN), false);
        add(self.raw, RawFrame::System, header.header_word(pct_format::layout::header::COUNTED_SYSTEM), true);
        self.account.uncertain =
            self.account.uncertain.saturating_add(header.header_word(pct_format::layout::header::UNCERTAIN));
    }
}

fn account_of(index: &Index<'_>, path: &Path, account: &mut Account) {
    let header = index.file().header();
    if let Some((user, system)) = header.cpu_ns() {
        let sum = account.used_by_files_ns.unwrap_or(0).saturating_add(user).saturating_add(system);
        account.used_by_files_ns = Some(sum);
    }
    for loss in header.losses() {
        if loss.cause.loses_samples() {
            let ns = loss.weight.saturating_mul(header.period_ns());
            account.lose(loss.cause.name(), loss.samples, ns);
        } else {
            account.note_gap(format!(
                "{}: the log was full: {} stacks or pieces of code could not be written, so some samples have no callers or no \
                 names (a larger --limit helps)",
                path.display(),
                loss.samples
            ));
        }
    }
    for refusal in header.refusals() {
        account.note_gap(format!("{}: {}", path.display(), refused::in_words(refusal, header.recorder())));
    }
    if let Some(line) = kernel_refusal::note(&header) {
        account.note(line);
    }
    if index.torn_segments > 0 {
        let n = index.torn_segments;
        let were = alive::torn_segments(n, alive::is_sampled(&header));
        account.note_gap(format!("{}: {n} {were}; skipped", path.display()));
    }
    if matches!(header.state(), State::Armed | State::Making) {
        if alive::is_sampled(&header) {
            account.running += 1;
        } else if alive::is_from_outside(&header) {
            // A controller that comes to its end closes what it writes.
            account.note_gap(format!(
                "{}: what sampled it from outside was ended before it closed the recording",
                path.display()
            ));
        }
    }
}
