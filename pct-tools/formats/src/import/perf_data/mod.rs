//! perf.data, as `perf record` writes it: samples with the kernel's call chains, names from the objects themselves.
//!
//! One event is read: the one that was asked for, else the first one with samples that counts CPU time, or else the one
//! with most samples (`events`). Of events that do not measure time the profile has how often they happened, or their
//! samples.
//!
//! Kernel frames have their names if those of the recorded kernel can be found (`kernel`). Otherwise they become one
//! frame `[system]`, and a note says why. Copies of the stack (`--call-graph dwarf`) are unwound with the objects' own
//! tables (x86-64): see `unwind`.

mod compressed;
mod events;
mod file;
pub mod folder;
mod kernel;
mod space;
mod unwind;

use super::problem::Problem;
use super::wanted::Wanted;
use events::{Choice, Events};
use file::{Octets, PerfData, Record, kind, words};
use kernel::Kernel;
use pct_profile::model::{
    Builder, Frame, FrameId, Object, ObjectId, ObjectKind, Process, ProcessId, Profile, StackId, ThreadId,
    TimedSample, Weight,
};
use pct_symbols::{CodeAddr, Symbolizer};
use rustc_hash::FxHashMap;
use space::{FrameOrigin, Spaces};
use std::collections::BTreeMap;
use unwind::Unwinder;

/// Words of a call chain from here on give the kind of the words after them.
const CONTEXT: u64 = u64::MAX - 4094;
/// Mode of the processor in a record's flags: in the kernel.
const IN_KERNEL: u16 = 1;
const CONTEXT_KERNEL: u64 = (-128i64).cast_unsigned();
const CONTEXT_USER: u64 = (-512i64).cast_unsigned();

/// For each stack of one thread, outermost frame first, its weight.
type Sums = FxHashMap<(usize, Vec<FrameOrigin>), Weight>;

struct Reading<'a> {
    data: &'a PerfData<'a>,
    choice: &'a Choice,
    /// Of all samples; `None` if it is more than 64 bits hold.
    sum: Option<u64>,
    spaces: Spaces,
    kernel: Kernel,
    symbols: Symbolizer,
    /// (pid, tid, name), in order of appearance.
    threads: Vec<(u32, u32)>,
    numbers: FxHashMap<(u32, u32), usize>,
    names: FxHashMap<u32, String>,
    first_names: FxHashMap<u32, String>,
    sums: Sums,
    timed: Vec<(u64, u64, usize, Vec<FrameOrigin>)>,
    lost: u64,
    bad: u64,
    chainless: u64,
    unwinder: Unwinder,
    /// Number of samples whose stack was cut, by cause, and of those that are complete.
    cut: BTreeMap<&'static str, u64>,
    whole: u64,
}

/// Reads a recording. `threads`: of `perf record --threads`, the files beside the first, with their names.
pub(super) fn read(
    bytes: &[u8],
    threads: &[(String, Vec<u8>)],
    wanted: Wanted<'_>,
) -> Result<Profile, Problem> {
    let Wanted { timeline, sample_type: event } = wanted;
    let mut data = PerfData::parse(bytes)?;
    let mut unpacked = vec![data.unpack()];
    for (name, records) in threads {
        data.add_file(name, records);
        unpacked.push(data.unpack());
    }
    for octets in &unpacked {
        data.add_unpacked(octets);
    }
    let events = Events::in_file(&data);
    let choice = events.choose(&data, event)?;
    let mut r = Reading {
        data: &data,
        choice: &choice,
        sum: Some(0),
        spaces: Spaces::default(),
        kernel: Kernel::default(),
        symbols: Symbolizer::default(),
        threads: Vec::new(),
        numbers: FxHashMap::default(),
        names: FxHashMap::default(),
        first_names: FxHashMap::default(),
        sums: Sums::default(),
        timed: Vec::new(),
        lost: 0,
        bad: 0,
        chainless: 0,
        unwinder: Unwinder::default(),
        cut: BTreeMap::new(),
        whole: 0,
    };
    for record in &data.records {
        if r.record(record, timeline).is_none() {
            r.bad += 1;
        }
    }
    if r.sums.is_empty() {
        let why = data.notes.first().map(|n| format!(" ({n})")).unwrap_or_default();
        return Err(Problem { place: "octet 0".into(), problem: format!("no sample in it{why}") });
    }
    if r.sum.is_none() {
        let problem = "the periods of its samples add up to more than 64 bits hold".into();
        return Err(Problem { place: "the whole file".into(), problem });
    }
    let mut profile = r.finish(timeline);
    profile.quantity = choice.quantity();
    if let Some(note) = events.note(choice.attr) {
        profile.account.note(note);
    }
    Ok(profile)
}

impl Reading<'_> {
    fn record(&mut self, record: &Record<'_>, timeline: bool) -> Option<()> {
        let mut o = Octets::new(record.body);
        match record.kind {
            kind::MMAP | kind::MMAP2 => {
                let (pid, _) = (o.u32()?, o.u32()?);
                let (start, len, offset) = (o.u64()?, o.u64()?, o.u64()?);
                let mut id = None;
                let mut inode = None;
                if record.kind == kind::MMAP2 {
                    let object = o.take_octets(24)?;
                    if record.misc >> 14 & 1 == 1 {
                        id = object.get(4..4 + usize::from(*object.first()?).min(20));
                    } else {
                        let mut object = Octets::new(object);
                        let (major, minor) = (u64::from(object.u32()?), u64::from(object.u32()?));
                        inode = Some((major << 32 | minor, object.u64()?));
                    }
                    let protection = o.u32()?;
                    o.u32()?;
                    // Skips mappings that are not executable.
                    if protection >> 2 & 1 == 0 {
                        return Some(());
                    }
                } else if record.misc >> 13 & 1 == 1 {
                    return Some(());
                }
                let path = o.text();
                let id = id.or_else(|| self.data.build_ids.get(path).copied());
                if record.misc & 7 == IN_KERNEL {
                    self.kernel.map(start, len, offset, path);
                } else {
                    self.spaces.map(pid, start, len, offset, path, id, inode, &mut self.symbols);
                }
            }
            kind::COMM => {
                let (pid, tid) = (o.u32()?, o.u32()?);
                if record.misc >> 13 & 1 == 1 {
                    self.spaces.exec(pid);
                    self.first_names.remove(&pid);
                }
                let name = String::from_utf8_lossy(o.text()).into_owned();
                if pid == tid {
                    self.first_names.insert(pid, name.clone());
                }
                self.names.insert(tid, name);
            }
            kind::FORK => {
                let (pid, parent, tid, by) = (o.u32()?, o.u32()?, o.u32()?, o.u32()?);
                if pid != parent {
                    self.spaces.fork(parent, pid);
                }
                if let Some(name) = self.names.get(&by).cloned() {
                    if pid != parent {
                        self.first_names.insert(pid, name.clone());
                    }
                    self.names.insert(tid, name);
                }
            }
            kind::LOST => self.lost = self.lost.saturating_add((o.u64()?, o.u64()?).1),
            kind::LOST_SAMPLES => self.lost = self.lost.saturating_add(o.u64()?),
            kind::SAMPLE if record.attr == self.choice.attr => self.sample(record, timeline)?,
            _ => {}
        }
        Some(())
    }

    fn sample(&mut self, record: &Record<'_>, timeline: bool) -> Option<()> {
        let sample = self.data.sample(record)?;
        let attr = self.data.attrs.get(record.attr)?;
        let amount = self.choice.amount(sample.period, attr);
        self.sum = self.sum.and_then(|sum| sum.checked_add(amount));
        let system = matches!(record.misc & 7, IN_KERNEL | 4);
        let mut places = Vec::with_capacity(sample.chain.len() / 8 + 1);
        let mut in_kernel = Vec::new();
        let (mut half, mut first) = (if system { Half::Kernel } else { Half::User }, true);
        for word in words(sample.chain) {
            let place = |ip| if first { CodeAddr::Pc(ip) } else { CodeAddr::Return(ip) };
            match (word, half) {
                (CONTEXT_USER, _) => (half, first) = (Half::User, true),
                (CONTEXT_KERNEL, _) => (half, first) = (Half::Kernel, true),
                (CONTEXT.., _) => half = Half::Other,
                (ip, Half::Kernel) => {
                    in_kernel.push(FrameOrigin::Kernel(place(ip)));
                    first = false;
                }
                (ip, Half::User) => {
                    places.push(self.spaces.find(sample.pid, place(ip)));
                    first = false;
                }
                (_, Half::Other) => {}
            }
        }
        if places.is_empty() && !sample.registers.is_empty() {
            match self.unwinder.stack(&sample, attr.registers, &self.spaces, &self.symbols, &mut places) {
                None => self.whole += 1,
                Some(cause) => {
                    *self.cut.entry(cause).or_default() += 1;
                    places.push(FrameOrigin::Cut(cause));
                }
            }
        }
        if places.is_empty() && !system && sample.ip != 0 {
            places.push(self.spaces.find(sample.pid, CodeAddr::Pc(sample.ip)));
        }
        self.chainless += u64::from(sample.chain.is_empty() && places.is_empty());
        if system {
            if in_kernel.is_empty() && record.misc & 7 == IN_KERNEL && sample.ip != 0 {
                in_kernel.push(FrameOrigin::Kernel(CodeAddr::Pc(sample.ip)));
            }
            if in_kernel.is_empty() {
                in_kernel.push(FrameOrigin::System);
            }
            places.splice(0..0, in_kernel);
        } else if places.is_empty() {
            places.push(FrameOrigin::Unknown(0));
        }
        places.reverse();
        let next = self.threads.len();
        let thread = *self.numbers.entry((sample.pid, sample.tid)).or_insert(next);
        if thread == next {
            self.threads.push((sample.pid, sample.tid));
        }
        if timeline {
            self.timed.push((record.time, amount, thread, places.clone()));
        }
        let is_system_time = system && self.choice.is_cpu_time();
        let (user_ns, system_ns) = if is_system_time { (0, amount) } else { (amount, 0) };
        *self.sums.entry((thread, places)).or_default() += Weight { samples: 1, user_ns, system_ns };
        Some(())
    }

    fn finish(mut self, timeline: bool) -> Profile {
        let mut b = Builder::new(timeline);
        let all = self.sums.keys().flat_map(|(_, places)| places).filter_map(|place| place.query());
        let all: Vec<_> = all.collect();
        self.symbols.resolve(all);
        let threads = self.threads(&mut b);
        let kernel_frames = self
            .sums
            .keys()
            .any(|(_, places)| places.iter().any(|place| matches!(place, FrameOrigin::Kernel(_))));
        let nameless = kernel_frames
            .then(|| self.kernel.learn(self.data.kernel_build_id(), self.data.machine))
            .and_then(Result::err);
        let mut frames = Frames {
            symbols: &self.symbols,
            kernel: &self.kernel,
            objects: FxHashMap::default(),
            known: FxHashMap::default(),
        };
        let mut sums: Vec<_> = self.sums.into_iter().collect();
        sums.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for ((thread, places), weight) in sums {
            if let Some(stack) = frames.stack(&mut b, &places) {
                b.add(threads[thread], stack, weight);
            }
        }
        let start = self.timed.first().map_or(0, |t| t.0);
        for (time, weight_ns, thread, places) in self.timed {
            if let Some(stack) = frames.stack(&mut b, &places) {
                b.add_timed(TimedSample { time_ns: time - start, weight_ns, thread: threads[thread], stack });
            }
        }
        let account = &mut b.profile_mut().account;
        account.lose("dropped by the recorder", self.lost, 0);
        for note in &self.data.notes {
            account.note_gap(note.clone());
        }
        if let Some(why) = nameless {
            account.note(format!("functions of the kernel have no names: {why}"));
        }
        if self.bad > 0 {
            let records = pct_num::count(self.bad, "damaged record", "damaged records");
            account.note_gap(format!("{records} left out"));
        }
        account.whole_stacks = self.whole;
        for (cause, samples) in &self.cut {
            account.cut(cause, *samples);
        }
        if self.chainless > 0 {
            account.note(format!(
                "{} samples without a call chain (perf record -g records them)",
                self.chainless
            ));
        }
        for note in self.symbols.notes() {
            account.note(note.to_string());
        }
        b.finish()
    }

    fn threads(&self, b: &mut Builder) -> Vec<ThreadId> {
        let attr = &self.data.attrs[self.choice.attr];
        let mut processes: FxHashMap<u32, ProcessId> = FxHashMap::default();
        // perf's names of the processor's idle threads, and of those that had ended.
        let unnamed = |id| match id {
            0 => "swapper".to_owned(),
            u32::MAX => ":-1".to_owned(),
            _ => String::new(),
        };
        let name =
            |names: &FxHashMap<u32, String>, id| names.get(&id).cloned().unwrap_or_else(|| unnamed(id));
        // The kernel's -1 has no number here.
        let number = |id: u32| if id == u32::MAX { 0 } else { id };
        let mut out = Vec::new();
        for (pid, tid) in &self.threads {
            let process = *processes.entry(*pid).or_insert_with(|| {
                b.process(Process {
                    pid: number(*pid),
                    name: name(&self.first_names, *pid),
                    clock: self.choice.clock().into(),
                    hz: if attr.by_frequency { attr.period } else { 0 },
                    ..Process::default()
                })
            });
            out.push(b.thread(process, number(*tid), &name(&self.names, *tid)));
        }
        out
    }
}

/// To whom a part of a call chain belongs.
#[derive(Clone, Copy)]
enum Half {
    Kernel,
    User,
    /// A hypervisor's guest.
    Other,
}

/// Turns origins into frames.
struct Frames<'a> {
    symbols: &'a Symbolizer,
    kernel: &'a Kernel,
    objects: FxHashMap<pct_symbols::ObjectId, ObjectId>,
    known: FxHashMap<FrameOrigin, Vec<FrameId>>,
}

impl Frames<'_> {
    fn stack(&mut self, b: &mut Builder, places: &[FrameOrigin]) -> Option<StackId> {
        let mut at = None;
        for place in places {
            // Without names the kernel is a single frame.
            let place = match place {
                FrameOrigin::Kernel(_) if !self.kernel.is_known() => &FrameOrigin::System,
                place => place,
            };
            if !self.known.contains_key(place) {
                let frames = self.frames_at(b, *place);
                self.known.insert(*place, frames);
            }
            for frame in &self.known[place] {
                at = Some(b.stack(at, *frame));
            }
            if *place == FrameOrigin::System {
                break;
            }
        }
        at
    }

    fn of_kernel(&self, b: &mut Builder, address: CodeAddr) -> FrameId {
        let Some((path, name)) = self.kernel.frame(address) else { return b.system_frame() };
        let object = b.object(Object::new(path, ObjectKind::Kernel));
        let function = b.function(object, name.unwrap_or("[no symbol]"));
        let address = Some(address.lookup());
        b.frame(Frame { function, file: None, line: 0, address, inlined: false })
    }

    /// The frames of an origin, outermost first.
    fn frames_at(&mut self, b: &mut Builder, place: FrameOrigin) -> Vec<FrameId> {
        let (object, address) = match place {
            FrameOrigin::System => return vec![b.system_frame()],
            FrameOrigin::Kernel(address) => return vec![self.of_kernel(b, address)],
            FrameOrigin::Unknown(address) => {
                let object = b.unknown_object();
                let function = b.function(object, "[unknown]");
                let address = (address != 0).then_some(address);
                return vec![b.frame(Frame { function, file: None, line: 0, address, inlined: false })];
            }
            FrameOrigin::Cut(cause) => {
                let object = b.unknown_object();
                let function = b.function(object, &format!("<truncated: {cause}>"));
                return vec![b.plain_frame(function)];
            }
            FrameOrigin::Code(object, address) => (object, address),
        };
        let id = *self.objects.entry(object).or_insert_with(|| {
            let info = self.symbols.object(object);
            let path = info.path.to_string_lossy().into_owned();
            let kind = match info.kind {
                pct_symbols::ObjectKind::File => ObjectKind::File,
                _ => ObjectKind::Anonymous,
            };
            let path = if path.is_empty() { "[jit]".to_owned() } else { path };
            let build_id = info.build_id.as_ref().map(ToString::to_string);
            b.object(Object { build_id, ..Object::new(path, kind) })
        });
        let plain = Frame {
            function: b.function(id, "[no symbol]"),
            file: None,
            line: 0,
            address: None,
            inlined: false,
        };
        let found = self.symbols.frames(object, address);
        let mut frames: Vec<Frame> = Vec::with_capacity(found.len());
        for f in found.iter().rev() {
            let function = b.function(id, self.symbols.text(f.function));
            if let Some(declared) = f.declared {
                let file = b.file(self.symbols.text(declared.file));
                b.declare(function, file, declared.line);
            }
            let file = f.file.map(|file| b.file(self.symbols.text(file)));
            let address = Some(address.lookup());
            frames.push(Frame { function, file, line: f.line, address, inlined: f.inlined });
        }
        if frames.is_empty() {
            frames.push(Frame { address: Some(address.lookup()), ..plain });
        }
        frames.into_iter().map(|f| b.frame(f)).collect()
    }
}
