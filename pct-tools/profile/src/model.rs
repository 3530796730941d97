//! The profile itself: facts, without I/O, clock or text.
//!
//! Everything is a table and rows name each other by typed ids. The heart is the **stack table**, a trie: a
//! [`StackNode`] is a frame and the stack that called it, so that a million samples of a steady program share a few
//! thousand rows. What was measured is in the **cells**: for each (thread, stack) one [`Weight`]. In order of time,
//! where that was asked for, it is in [`Profile::timeline`].
//!
//! Invariants (the [`Builder`] is the only way to make a profile and keeps them):
//!
//! - a row refers only to rows that exist; a stack's parent has a smaller id than the stack itself, so one pass
//!   forward visits callers before callees and one pass backward the reverse;
//! - no two stack rows have the same parent and frame, no two frames or functions are equal;
//! - inlined calls are frames of their own; the frame that really has a stack frame is the outermost of its group;
//! - time spent in the kernel is below the frame that entered it, in a frame of the object `kernel`: that of
//!   the system call (`[read]`), or `[system]` where it is not known.

use crate::language::Language;
use crate::memory::Memory;
use crate::packed::SamplesByThread;
use crate::quantity::Quantity;
use crate::rows::{Children, mix};
use crate::waits::Waits;

pub use crate::account::{Account, Loss, Spent, Spoken, Weight};
pub use crate::ids::{FileId, FrameId, FunctionId, Id, IdVec, ObjectId, ProcessId, StackId, ThreadId};
use pct_symbols::FileVersion;
use rustc_hash::FxHashMap;

/// The clock of processes from other profilers' files.
pub const IMPORTED: &str = "imported";

/// The row of samples that were due and were lost, among the rows of what is in no sample.
pub const LOST: &str = "[lost]";

/// What kind of code an [`Object`] holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ObjectKind {
    /// An executable or shared library.
    File,
    /// A source file (module) of an interpreted language: the object of its functions.
    Module(Language),
    /// Code without a file: made at run time, or the vdso.
    Anonymous,
    /// Time spent in the kernel on behalf of the program.
    Kernel,
    /// Addresses that lay in no known region.
    Unknown,
    /// No code at all: time that is in no sample, in functions named by its causes.
    NotSampled,
}

/// A file (or another origin) that code came from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Object {
    /// Path as mapped, or a name in brackets (`[vdso]`, `[jit]`, `[unknown]`, `kernel`).
    pub path: String,
    /// Hexadecimal build-id, where the mapped file had one.
    pub build_id: Option<String>,
    /// What told the file's contents from others, where it had no build-id.
    pub version: FileVersion,
    /// What kind of code it is.
    pub kind: ObjectKind,
    /// What it is called where that is not its file's name: a program that is started by a link.
    pub called: Option<String>,
}

impl Object {
    /// One of which no more is known.
    #[must_use]
    pub fn new(path: impl Into<String>, kind: ObjectKind) -> Self {
        Self { path: path.into(), build_id: None, version: FileVersion::default(), kind, called: None }
    }

    /// What tables show: the last part of the path. Of a module the last two, since many are called `__init__.py`.
    #[must_use]
    pub fn name(&self) -> &str {
        if let Some(called) = &self.called {
            return called;
        }
        let parts = match self.kind {
            ObjectKind::File => 1,
            ObjectKind::Module(_) if self.path.starts_with('/') => 2,
            _ => return &self.path,
        };
        let name = self.path.rmatch_indices('/').nth(parts - 1).map(|(at, _)| &self.path[at + 1..]);
        name.filter(|name| !name.is_empty()).unwrap_or(&self.path)
    }
}

/// A function of an object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Function {
    /// Demangled name, or a word in brackets where there is none (`[no symbol]`, `[unknown]`, `[system]`).
    pub name: String,
    /// Where its code lies.
    pub object: ObjectId,
    /// Where it is declared, where known: source file, and line from 1.
    pub declared: Option<(FileId, u32)>,
}

/// A place in the program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Frame {
    /// The function that contains it.
    pub function: FunctionId,
    /// Source file, where known.
    pub file: Option<FileId>,
    /// Source line from 1; 0 = unknown.
    pub line: u32,
    /// Offset in the object's file (for code without a file: its address in the process), where known. For a
    /// caller it is inside the call instruction.
    pub address: Option<u64>,
    /// The function was inlined into the frame below it on the stack (its caller).
    pub inlined: bool,
}

/// Where threads could run and had no processor.
pub(crate) const RUN_QUEUE: &str = "[run queue]";
/// Where a signal or a debugger had stopped threads.
pub(crate) const STOPPED: &str = "[stopped]";
/// The function that all of our own code in the program is.
pub(crate) const SAMPLER: &str = "[pct's sampler]";

/// A frame and who called it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StackNode {
    /// The caller's stack; `None` for the outermost frame.
    pub parent: Option<StackId>,
    /// The frame itself.
    pub frame: FrameId,
}

/// One process image: what ran between an exec (or fork) and the next.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Process {
    /// Process id in the host's terms.
    pub pid: u32,
    /// Parent's process id, where known.
    pub parent: Option<u32>,
    /// Short name: the executable's, or `interpreter script`.
    pub name: String,
    /// Path of its executable, where known; of a script its interpreter's.
    pub executable: String,
    /// Whole command line.
    pub command: Vec<String>,
    /// Start in nanoseconds since [`Profile::start_realtime_ns`].
    pub start_ns: u64,
    /// The clock that took the samples, in words ("perf task clock").
    pub clock: String,
    /// Samples per CPU second that the clock was set to; 0 = unknown.
    pub hz: u64,
    /// Samples per CPU second that were asked for; 0 = unknown.
    pub hz_asked: u64,
    /// Where the data came from.
    pub file: String,
    /// 0: it is a process. Else it stands for so many of which there is no sample, so that their time has a place.
    pub stands_for: u64,
}

/// A thread of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Thread {
    /// The process it belonged to.
    pub process: ProcessId,
    /// Thread id in the host's terms.
    pub tid: u32,
    /// Its name, as the kernel had it; may be empty.
    pub name: String,
}

/// All that one thread spent in one stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// Who.
    pub thread: ThreadId,
    /// Where; its frame is the innermost one.
    pub stack: StackId,
    /// How much.
    pub weight: Weight,
}

/// A sample in order of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimedSample {
    /// Nanoseconds since [`Profile::start_realtime_ns`].
    pub time_ns: u64,
    /// CPU time that it stands for, in nanoseconds.
    pub weight_ns: u64,
    /// Who.
    pub thread: ThreadId,
    /// Where.
    pub stack: StackId,
}

/// What was spent when: sums in slots of time that have the same length.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OverTime {
    /// Begin of slot 0, nanoseconds since 1970: that of the recording or a little earlier, or that of the first sample
    /// if it was taken long after the start.
    pub begin_realtime_ns: u64,
    /// Length of a slot in nanoseconds.
    pub slot_ns: u64,
    /// The sums, at most one per slot, thread and stack, in this order.
    pub cells: Vec<SlotCell>,
}

/// What a thread spent in a stack in a slot of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlotCell {
    /// The slot's number.
    pub slot: usize,
    /// Who.
    pub thread: ThreadId,
    /// Where; its frame is the innermost one.
    pub stack: StackId,
    /// CPU time in nanoseconds, or what else [`Profile::quantity`] says.
    pub ns: u64,
}

/// A named instant that the program set (`pct_mark`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// Nanoseconds since [`Profile::start_realtime_ns`].
    pub time_ns: u64,
    /// Who set it, where known.
    pub thread: Option<ThreadId>,
    /// Its name.
    pub name: String,
}

/// A whole profile: of one process or of many.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Where code came from.
    pub objects: IdVec<ObjectId, Object>,
    /// Named code.
    pub functions: IdVec<FunctionId, Function>,
    /// Source files' paths.
    pub files: IdVec<FileId, String>,
    /// Places.
    pub frames: IdVec<FrameId, Frame>,
    /// Calling contexts, callers first.
    pub stacks: IdVec<StackId, StackNode>,
    /// Process images, in order of their start.
    pub processes: IdVec<ProcessId, Process>,
    /// Their threads.
    pub threads: IdVec<ThreadId, Thread>,
    /// What was measured, at most one row per thread and stack.
    pub cells: Vec<Cell>,
    /// The same in order of time, if asked for when loading; else empty.
    pub timeline: Vec<TimedSample>,
    /// The same by thread, if that was asked for.
    pub by_thread: SamplesByThread,
    /// The same in slots of time, if that was asked for. A window and other choices of samples do not limit it.
    pub over_time: Option<OverTime>,
    /// Marks in order of time.
    pub marks: Vec<Mark>,
    /// How often a function calls another from a line; samplers do not know it. They are of the whole run,
    /// whatever cells are looked at.
    pub call_counts: FxHashMap<(FunctionId, u32, FunctionId), u64>,
    /// What is known of memory; empty if allocations were not sampled, or not asked for when loading.
    pub memory: Memory,
    /// What is known of waits; empty if they were not recorded, or not asked for when loading.
    pub waits: Waits,
    /// Start of the first process, nanoseconds since 1970; 0 = unknown.
    pub start_realtime_ns: u64,
    /// Title for pages and files: the command, or the file's name.
    pub title: String,
    /// What the weights of cells measure.
    pub quantity: Quantity,
    /// The closing account.
    pub account: Account,
}

impl Profile {
    /// A function that stands for the cause why a thread did not run: `[waits: futex]`, `[run queue]`.
    #[must_use]
    pub fn is_blocked(&self, function: FunctionId) -> bool {
        let function = &self.functions[function];
        self.objects[function.object].kind == ObjectKind::Kernel
            && (function.name.starts_with("[waits: ")
                || [RUN_QUEUE, STOPPED].contains(&function.name.as_str()))
    }
    /// All samples are by the wall clock: user time is then time of running, system time that of waiting.
    #[must_use]
    pub fn by_wall_clock(&self) -> bool {
        let mut clocks = self.processes.iter().map(|process| process.clock == "wall");
        clocks.next() == Some(true) && clocks.all(|wall| wall)
    }
    /// Sum of all cells.
    #[must_use]
    pub fn total(&self) -> Weight {
        self.cells.iter().map(|cell| cell.weight).sum()
    }
    /// Sum of the cells that samples are behind: without time that is in no sample.
    #[must_use]
    pub fn sampled(&self) -> Weight {
        self.cells.iter().filter(|cell| self.is_sampled(cell.stack)).map(|cell| cell.weight).sum()
    }
    /// Whether it was read from another profiler's file.
    #[must_use]
    pub fn is_imported(&self) -> bool {
        self.processes.iter().any(|process| process.clock == IMPORTED)
    }
    /// Whether it says which of its CPU time was in the kernel. Other profilers' files may have but the sum.
    #[must_use]
    pub fn tells_system_time(&self) -> bool {
        !self.is_imported() || self.total().system_ns > 0
    }
    /// Whether another profiler's file has amounts and does not say of how many samples.
    #[must_use]
    pub fn is_sampled_without_number(&self) -> bool {
        let is_nothing = self.cells.iter().all(|cell| cell.weight.samples == 0);
        self.is_imported() && !self.cells.is_empty() && is_nothing
    }
    /// Whether samples are behind a stack; else it names a cause for which there are none.
    #[must_use]
    pub fn is_sampled(&self, stack: StackId) -> bool {
        self.object_of(self.stacks[stack].frame).kind != ObjectKind::NotSampled
    }
    /// How many processes have samples.
    #[must_use]
    pub fn sampled_processes(&self) -> u64 {
        self.processes.iter().filter(|process| process.stands_for == 0).count() as u64
    }
    /// The function of a stack's innermost frame.
    #[must_use]
    pub fn leaf(&self, stack: StackId) -> FunctionId {
        self.frames[self.stacks[stack].frame].function
    }
    /// The stacks from this one outwards: itself first, the outermost last.
    pub fn outwards(&self, stack: StackId) -> impl Iterator<Item = (StackId, &Frame)> {
        let mut next = Some(stack);
        std::iter::from_fn(move || {
            let id = next?;
            let node = self.stacks[id];
            next = node.parent;
            Some((id, &self.frames[node.frame]))
        })
    }
    /// The language of a function.
    #[must_use]
    pub fn language(&self, function: FunctionId) -> Language {
        let function = &self.functions[function];
        match self.objects[function.object].kind {
            ObjectKind::Module(language) => language,
            ObjectKind::Anonymous => Language::of_jit_name(&function.name),
            _ => Language::Native,
        }
    }
    /// What decides a function's colour in pictures: its language, or for machine code its object.
    #[must_use]
    pub fn group(&self, function: FunctionId) -> &str {
        match self.language(function) {
            Language::Native => self.objects[self.functions[function].object].name(),
            language => language.name(),
        }
    }
    /// The object that a frame's code lies in.
    #[must_use]
    pub fn object_of(&self, frame: FrameId) -> &Object {
        &self.objects[self.functions[self.frames[frame].function].object]
    }
    /// A thread's process.
    #[must_use]
    pub fn process_of(&self, thread: ThreadId) -> &Process {
        &self.processes[self.threads[thread].process]
    }
    /// `file:line` of a frame, as far as known.
    #[must_use]
    pub fn place_of(&self, frame: &Frame) -> Option<String> {
        let file = &self.files[frame.file?];
        Some(if frame.line == 0 { file.clone() } else { format!("{file}:{}", frame.line) })
    }
}

/// Makes a [`Profile`]: interns rows so that equal ones are one.
#[derive(Default)]
pub struct Builder {
    profile: Profile,
    objects: FxHashMap<Object, ObjectId>,
    /// By object and, for functions of modules, their line.
    functions: FxHashMap<(ObjectId, u32), FxHashMap<Box<str>, FunctionId>>,
    files: FxHashMap<Box<str>, FileId>,
    frames: FxHashMap<Frame, FrameId>,
    stacks: Children,
    cells: FxHashMap<(ThreadId, StackId), usize>,
    keep_timeline: bool,
}

impl Builder {
    /// An empty profile; `keep_timeline` says whether samples that come with a time are kept one by one too.
    #[must_use]
    pub fn new(keep_timeline: bool) -> Self {
        Self { keep_timeline, ..Self::default() }
    }
    /// The object with this path, build-id and kind.
    pub fn object(&mut self, object: Object) -> ObjectId {
        if let Some(&id) = self.objects.get(&object) {
            return id;
        }
        let id = self.profile.objects.push(object.clone());
        self.objects.insert(object, id);
        id
    }
    /// The object that stands for the kernel.
    pub fn kernel(&mut self) -> ObjectId {
        self.object(Object::new("kernel", ObjectKind::Kernel))
    }
    /// The object of addresses that lay in no region.
    pub fn unknown_object(&mut self) -> ObjectId {
        self.object(Object::new("[unknown]", ObjectKind::Unknown))
    }
    /// The stack of samples that have none, as one frame of this object.
    pub fn no_stack(&mut self, object: ObjectId) -> StackId {
        let function = self.function(object, "[no stack]");
        let frame = self.plain_frame(function);
        self.stack(None, frame)
    }
    /// The function of this name in this object.
    pub fn function(&mut self, object: ObjectId, name: &str) -> FunctionId {
        self.function_at(object, name, None)
    }
    /// The function of this name that is declared at this place: modules may have several of one name.
    pub fn function_at(
        &mut self,
        object: ObjectId,
        name: &str,
        declared: Option<(FileId, u32)>,
    ) -> FunctionId {
        let names = self.functions.entry((object, declared.map_or(0, |(_, line)| line))).or_default();
        if let Some(&id) = names.get(name) {
            return id;
        }
        let id = self.profile.functions.push(Function { name: name.to_owned(), object, declared });
        names.insert(name.into(), id);
        id
    }
    /// Says where a function is declared (`line` from 1). Who says it first is believed: functions of one
    /// name in one object are one.
    pub fn declare(&mut self, function: FunctionId, file: FileId, line: u32) {
        let known = &mut self.profile.functions[function].declared;
        if known.is_none() && line > 0 {
            *known = Some((file, line));
        }
    }
    /// The source file of this path.
    pub fn file(&mut self, path: &str) -> FileId {
        if let Some(&id) = self.files.get(path) {
            return id;
        }
        let id = self.profile.files.push(path.to_owned());
        self.files.insert(path.into(), id);
        id
    }
    /// The frame with these fields.
    pub fn frame(&mut self, frame: Frame) -> FrameId {
        *self.frames.entry(frame).or_insert_with(|| self.profile.frames.push(frame))
    }
    /// A frame that is only a function: no line, no address.
    pub fn plain_frame(&mut self, function: FunctionId) -> FrameId {
        self.frame(Frame { function, file: None, line: 0, address: None, inlined: false })
    }
    /// The frame `[system]` of the object `kernel`.
    pub fn system_frame(&mut self) -> FrameId {
        self.kernel_frame("[system]")
    }
    /// A frame of the object `kernel`: `[read]`, say.
    pub fn kernel_frame(&mut self, name: &str) -> FrameId {
        let kernel = self.kernel();
        let function = self.function(kernel, name);
        self.plain_frame(function)
    }
    /// The stack of `frame` called from `parent`.
    pub fn stack(&mut self, parent: Option<StackId>, frame: FrameId) -> StackId {
        let node = StackNode { parent, frame };
        let known = &mut self.profile.stacks;
        let hash = |node: &StackNode| mix(node.parent.map_or(u64::MAX, |p| p.0.into()), node.frame.0.into());
        let below = parent.map_or(0, |p| p.index() + 1);
        if let Some(row) = self.stacks.find(below, || hash(&node), |row| known.rows[row as usize] == node) {
            return StackId(row);
        }
        let id = known.push(node);
        self.stacks.insert(below, id.0, |row| hash(&known.rows[row as usize]));
        id
    }
    /// A new process row.
    pub fn process(&mut self, process: Process) -> ProcessId {
        self.profile.processes.push(process)
    }
    /// A new thread row.
    pub fn thread(&mut self, process: ProcessId, tid: u32, name: &str) -> ThreadId {
        self.profile.threads.push(Thread { process, tid, name: name.to_owned() })
    }
    /// Adds to a cell.
    pub fn add(&mut self, thread: ThreadId, stack: StackId, weight: Weight) {
        let cells = &mut self.profile.cells;
        let at = *self.cells.entry((thread, stack)).or_insert_with(|| {
            cells.push(Cell { thread, stack, weight: Weight::ZERO });
            cells.len() - 1
        });
        cells[at].weight += weight;
    }
    /// Keeps a sample for the timeline, if one is wanted. It must have been [`Self::add`]ed too.
    pub fn add_timed(&mut self, sample: TimedSample) {
        if self.keep_timeline {
            self.profile.timeline.push(sample);
        }
    }
    /// Keeps samples for the timeline, if they are wanted. They must have been [`Self::add`]ed too.
    pub fn add_all_timed(&mut self, mut samples: Vec<TimedSample>) {
        match self.keep_timeline {
            true if self.profile.timeline.is_empty() => self.profile.timeline = samples,
            true => self.profile.timeline.append(&mut samples),
            false => {}
        }
    }
    /// The profile as built so far, for fields that need no interning (title, account, marks, start).
    pub fn profile_mut(&mut self) -> &mut Profile {
        &mut self.profile
    }
    /// The profile as built so far.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }
    /// The finished profile.
    #[must_use]
    pub fn finish(mut self) -> Profile {
        // In place: a stable sort would need half as much memory again.
        self.profile.timeline.sort_unstable_by_key(|sample| (sample.time_ns, sample.thread, sample.stack));
        self.profile.marks.sort_by_key(|mark| mark.time_ns);
        self.profile
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Builds a profile of one thread from folded lines: `main;work;leaf 3` is 3 samples of 1 ms.
    pub(crate) fn folded(lines: &str) -> Profile {
        let mut b = Builder::new(false);
        let process = b.process(Process { pid: 1, name: "prog".into(), hz: 1000, ..Process::default() });
        let thread = b.thread(process, 1, "prog");
        add_folded(&mut b, thread, lines);
        b.finish()
    }

    /// Adds folded lines to a thread.
    pub(crate) fn add_folded(b: &mut Builder, thread: ThreadId, lines: &str) {
        let object = b.object(Object::new("/bin/prog", ObjectKind::File));
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (stack, count) = line.rsplit_once(' ').expect("a count");
            let samples: u64 = count.parse().expect("a number");
            let mut at = None;
            let mut system = false;
            for name in stack.split(';') {
                let frame = if name == "[system]" {
                    system = true;
                    b.system_frame()
                } else {
                    let function = b.function(object, name);
                    b.plain_frame(function)
                };
                at = Some(b.stack(at, frame));
            }
            let ns = samples * 1_000_000;
            let weight = if system {
                Weight { samples, user_ns: 0, system_ns: ns }
            } else {
                Weight { samples, user_ns: ns, system_ns: 0 }
            };
            b.add(thread, at.expect("a frame"), weight);
        }
    }

    #[test]
    fn equal_rows_are_one_and_callers_come_first() {
        let p = folded("main;a;b 1\nmain;a;b 2\nmain;a 1\nmain;c;b 4");
        assert_eq!(p.stacks.len(), 5);
        assert_eq!(p.functions.len(), 4);
        assert_eq!(p.cells.len(), 3);
        assert_eq!(p.total().samples, 8);
        for (id, node) in p.stacks.enumerate() {
            assert!(node.parent.is_none_or(|parent| parent < id));
        }
    }

    #[test]
    fn losses_are_summed_by_cause() {
        let mut a = Account::default();
        a.lose("wrap", 0, 0);
        assert!(a.losses.is_empty());
        a.lose("wrap", 2, 20);
        a.lose("wrap", 3, 30);
        a.lose("busy", 1, 10);
        assert_eq!(a.losses.len(), 2);
        assert_eq!(a.losses[0].samples, 5);
    }
}
