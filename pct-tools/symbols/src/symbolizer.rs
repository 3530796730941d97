//! The face of this crate: register objects, ask batches of addresses, read frames.
//!
//! A table of distinct addresses stands in front: each address of each object is translated once, however many
//! samples hit it. New addresses are sorted per object and objects are worked on in parallel.
//!
//! Invariant: after [`Symbolizer::resolve`] every asked address has at least one frame.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::answers::{Answers, LocalFrame, NO_TEXT};
use crate::debugfile::{self, DebugDirs};
use crate::image::{BuildId, Image};
use crate::jit::JitMap;
use crate::quickhash::QuickMap;
use crate::symtab::{self, Source, SymbolTable};
use crate::translator::{Template, addr2line_frames};
use crate::{demangle::demangle, dwarf, vdso};

/// Number of an object in its [`Symbolizer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId(pub(crate) u32);

impl ObjectId {
    /// Position in the order of registration, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Number of a text (function or file name) in its [`Symbolizer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TextId(pub(crate) u32);

impl TextId {
    /// Position in the table of texts, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What kind of code an object is, and so what its addresses count from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ObjectKind {
    /// An ELF file: addresses are file offsets.
    #[default]
    File,
    /// The kernel's vdso: addresses count from the region's start.
    Vdso,
    /// Anonymous memory of a process: addresses are the process's own; names from `perf-PID.map`, or from the
    /// jitdump at [`ObjectInfo::path`] if that is one.
    Jit {
        /// The process that made the code (as it saw itself: in its own pid namespace).
        pid: u32,
    },
    /// Nothing to look into (`[vsyscall]`, the kernel): addresses stay addresses.
    Opaque,
}

/// What is known of an object, from a region of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct ObjectInfo {
    /// What it is.
    pub kind: ObjectKind,
    /// Its path as the region names it; a trailing ` (deleted)` is understood.
    pub path: PathBuf,
    /// The build-id that was in memory while the samples were taken.
    pub build_id: Option<BuildId>,
    /// Device and inode then; used only to notice a replaced file where there is no build-id.
    pub dev_ino: Option<(u64, u64)>,
    /// File offset at which the executable mapping began; lets a debug file answer for an object that is gone.
    pub map_offset: Option<u64>,
    /// Where else the same object may lie, in order: `/proc/PID/root/...`, a copy kept aside. A copy must have
    /// the build-id.
    pub also_try: Vec<PathBuf>,
}

impl ObjectInfo {
    /// An ELF file of which only the path is known.
    pub fn file(path: impl Into<PathBuf>) -> ObjectInfo {
        ObjectInfo { path: path.into(), ..ObjectInfo::default() }
    }
}

/// An address to look up; says which kind of address it is, so that nobody forgets the minus one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CodeAddr {
    /// The interrupted instruction itself.
    Pc(u64),
    /// A return address from a stack: the call is the instruction before.
    Return(u64),
}

impl CodeAddr {
    /// The address to look up.
    pub fn lookup(self) -> u64 {
        match self {
            CodeAddr::Pc(a) => a,
            CodeAddr::Return(a) => a.saturating_sub(1),
        }
    }
}

/// One frame: a function, perhaps inlined into the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Its name, demangled; made of object and address where nothing better is known (see [`Source`]).
    pub function: TextId,
    /// Source file, as the compiler named it, made absolute by its directory.
    pub file: Option<TextId>,
    /// Line in the file, from 1; 0: not known.
    pub line: u32,
    /// Column, from 1; 0: not known.
    pub column: u32,
    /// Inlined into the next frame of the list.
    pub inlined: bool,
    /// Where the name is from.
    pub source: Source,
}

/// What an object's translation met that a reader of the report should know. Each is told once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Which object.
    pub object: ObjectId,
    /// Its path.
    pub path: PathBuf,
    /// What happened.
    pub problem: Problem,
}

/// See [`Note`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// There is a file, but it is not the one that was sampled.
    BuildIdMismatch {
        /// The file looked at.
        file: PathBuf,
        /// In memory while sampling.
        wanted: BuildId,
        /// Of the file now; None: it has none.
        found: Option<BuildId>,
    },
    /// The file was replaced since (other device or inode) and has no build-id to compare: names may be wrong.
    Unverified,
    /// The object could not be opened.
    Missing {
        /// Why.
        reason: String,
    },
    /// A debug file lay where it should but does not belong to the object.
    DebugFileRefused {
        /// The debug file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// The debug information is damaged or of an unknown kind; names are from the symbol table.
    BadDebugInfo {
        /// What is wrong.
        reason: String,
    },
    /// Names from the map of a JIT could not be had.
    NoJitMap {
        /// The file looked at.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// A co-process failed; what it had answered until then is used.
    Translator {
        /// What happened.
        reason: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.problem {
            Problem::BuildIdMismatch { file, wanted, found: Some(found) } => {
                let file = file.display();
                write!(
                    f,
                    "{path}: {file} has build-id {found}, sampled was {wanted}: replaced or rebuilt since, its names are not used"
                )
            }
            Problem::BuildIdMismatch { file, wanted, found: None } => {
                write!(
                    f,
                    "{path}: {} has no build-id, sampled was {wanted}: its names are not used",
                    file.display()
                )
            }
            Problem::Unverified => {
                write!(
                    f,
                    "{path}: another file than the one sampled (device or inode differ), and without a build-id: names may be wrong"
                )
            }
            Problem::Missing { reason } => write!(f, "{path}: no names: {reason}"),
            Problem::DebugFileRefused { file, reason } => {
                write!(f, "{path}: debug file {} not used: {reason}", file.display())
            }
            Problem::BadDebugInfo { reason } => write!(f, "{path}: debug information not used: {reason}"),
            Problem::NoJitMap { file, reason } => {
                write!(f, "{path}: no names for generated code: {}: {reason}", file.display())
            }
            Problem::Translator { reason } => write!(f, "{path}: translator: {reason}"),
        }
    }
}

/// How to symbolize.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where separate debug files lie.
    pub debug_dirs: DebugDirs,
    /// Directories where `perf-PID.map` files lie (`/tmp`).
    pub jit_dirs: Vec<PathBuf>,
    /// Read debug information: functions from symbol tables only if not.
    pub lines: bool,
    /// A co-process for ELF objects instead of the built-in translator.
    pub translator: Option<Template>,
    /// Threads to work with; 0: as many as there are processors, at most 8.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            debug_dirs: DebugDirs::default(),
            jit_dirs: vec![PathBuf::from("/tmp")],
            lines: true,
            translator: None,
            threads: 0,
        }
    }
}

/// Where the frames of an address lie, and how far into the function it is.
#[derive(Debug, Clone, Copy)]
struct Span {
    first: u32,
    count: u32,
    into: u64,
}

#[derive(Debug)]
struct Entry {
    info: ObjectInfo,
    known: QuickMap<u64, Span>,
    opened: Option<Opened>,
}

/// An object made ready for lookups.
#[derive(Debug)]
pub(crate) enum Opened {
    Elf(Box<ElfObject>),
    Jit(JitMap),
    Nothing,
}

/// An ELF object with what belongs to it.
#[derive(Debug)]
pub(crate) struct ElfObject {
    /// The object itself; None where only its debug file was found.
    pub(crate) image: Option<Image>,
    debug: Option<Image>,
    sup: Option<Image>,
    symbols: std::sync::OnceLock<SymbolTable>,
    debug_symbols: std::sync::OnceLock<SymbolTable>,
}

/// Translates addresses of objects to frames. See the module's text and the crate's example.
#[derive(Debug)]
pub struct Symbolizer {
    options: Options,
    objects: Vec<Entry>,
    by_info: HashMap<ObjectInfo, ObjectId>,
    texts: Vec<Box<str>>,
    text_numbers: QuickMap<Box<str>, TextId>,
    frames: Vec<Frame>,
    notes: Vec<Note>,
}

impl Default for Symbolizer {
    fn default() -> Symbolizer {
        Symbolizer::new(Options::default())
    }
}

impl Symbolizer {
    /// Nothing is opened yet.
    pub fn new(options: Options) -> Symbolizer {
        Symbolizer {
            options,
            objects: Vec::new(),
            by_info: HashMap::new(),
            texts: Vec::new(),
            text_numbers: QuickMap::default(),
            frames: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Registers an object; the same information gives the same number. Nothing is opened yet.
    pub fn add(&mut self, info: ObjectInfo) -> ObjectId {
        if let Some(id) = self.by_info.get(&info) {
            return *id;
        }
        let id = ObjectId(self.objects.len() as u32);
        self.by_info.insert(info.clone(), id);
        self.objects.push(Entry { info, known: QuickMap::default(), opened: None });
        id
    }

    /// What was registered under a number.
    pub fn object(&self, id: ObjectId) -> &ObjectInfo {
        &self.objects[id.index()].info
    }

    /// How many objects there are.
    pub fn object_count(&self) -> usize {
        self.objects.len()
    }

    /// Translates addresses; those already known cost nothing. Order and repetition do not matter.
    pub fn resolve(&mut self, queries: impl IntoIterator<Item = (ObjectId, CodeAddr)>) {
        let mut wanted: HashMap<ObjectId, Vec<u64>> = HashMap::new();
        for (object, address) in queries {
            let address = address.lookup();
            if !self.objects[object.index()].known.contains_key(&address) {
                wanted.entry(object).or_default().push(address);
            }
        }
        let mut tasks: Vec<Task> = wanted
            .into_iter()
            .map(|(object, mut addresses)| {
                addresses.sort_unstable();
                addresses.dedup();
                let entry = &mut self.objects[object.index()];
                Task { object, info: entry.info.clone(), opened: entry.opened.take(), addresses }
            })
            .collect();
        // Biggest first: the last one to finish should be a small one.
        tasks.sort_by_key(|t| (std::cmp::Reverse(t.addresses.len()), t.object));
        let mut done = work(tasks, &self.options);
        done.sort_by_key(|d| d.object);
        for outcome in done {
            self.take_over(outcome);
        }
    }

    fn take_over(&mut self, outcome: Outcome) {
        let Outcome { object, opened, answers, problems } = outcome;
        let base = self.frames.len() as u32;
        let texts: Vec<TextId> = answers.texts.iter().map(|t| self.intern(t)).collect();
        self.frames.extend(answers.frames.iter().map(|f| Frame {
            function: texts[f.function as usize],
            file: (f.file != NO_TEXT).then(|| texts[f.file as usize]),
            line: f.line,
            column: f.column,
            inlined: f.inlined,
            source: f.source,
        }));
        let entry = &mut self.objects[object.index()];
        for span in &answers.spans {
            entry
                .known
                .insert(span.asked, Span { first: base + span.first, count: span.count, into: span.into });
        }
        entry.opened = Some(opened);
        let path = entry.info.path.clone();
        for problem in problems {
            let note = Note { object, path: path.clone(), problem };
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    fn intern(&mut self, text: &str) -> TextId {
        if let Some(id) = self.text_numbers.get(text) {
            return *id;
        }
        let id = TextId(self.texts.len() as u32);
        self.texts.push(text.into());
        self.text_numbers.insert(text.into(), id);
        id
    }

    /// The frames of an address, innermost first; the last one is the function that was not inlined. Empty only
    /// for an address that was never asked with [`Symbolizer::resolve`].
    pub fn frames(&self, object: ObjectId, address: CodeAddr) -> &[Frame] {
        match self.objects[object.index()].known.get(&address.lookup()) {
            Some(span) => &self.frames[span.first as usize..(span.first + span.count) as usize],
            None => &[],
        }
    }

    /// Bytes from the start of the (not inlined) function to the address; None where the start is not known.
    pub fn offset_in_function(&self, object: ObjectId, address: CodeAddr) -> Option<u64> {
        let span = self.objects[object.index()].known.get(&address.lookup())?;
        (span.into != u64::MAX).then_some(span.into)
    }

    /// A function's or file's name.
    pub fn text(&self, id: TextId) -> &str {
        &self.texts[id.index()]
    }

    /// All texts so far, by number.
    pub fn texts(&self) -> &[Box<str>] {
        &self.texts
    }

    /// What a reader should know: mismatches, missing files, refused debug files.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}

struct Task {
    object: ObjectId,
    info: ObjectInfo,
    opened: Option<Opened>,
    addresses: Vec<u64>,
}

struct Outcome {
    object: ObjectId,
    opened: Opened,
    answers: Answers,
    problems: Vec<Problem>,
}

/// Works on objects in parallel: a queue of objects, a thread per processor.
fn work(tasks: Vec<Task>, options: &Options) -> Vec<Outcome> {
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from).min(8),
        n => n,
    };
    if tasks.len() <= 1 || threads == 1 {
        return tasks.into_iter().map(|t| translate(t, options, threads)).collect();
    }
    let queue = crossbeam::queue::SegQueue::new();
    let workers = threads.min(tasks.len());
    tasks.into_iter().for_each(|t| queue.push(t));
    let done = crossbeam::queue::SegQueue::new();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(task) = queue.pop() {
                    done.push(translate(task, options, 1));
                }
            });
        }
    });
    done.into_iter().collect()
}

fn translate(task: Task, options: &Options, threads: usize) -> Outcome {
    let Task { object, info, opened, addresses } = task;
    let mut problems = Vec::new();
    let opened = opened.unwrap_or_else(|| open(&info, options, &mut problems));
    let mut answers = Answers::default();
    match &opened {
        Opened::Elf(elf) => {
            let problem = elf_frames(&info, elf, &addresses, options, threads, &mut answers);
            problems.extend(problem);
        }
        Opened::Jit(map) => jit_frames(&info, map, &addresses, &mut answers),
        Opened::Nothing => {
            for address in &addresses {
                answers.name(
                    *address,
                    &symtab::nameless(&shown_path(&info.path), *address),
                    Source::Unknown,
                    None,
                );
            }
        }
    }
    Outcome { object, opened, answers, problems }
}

fn jit_frames(info: &ObjectInfo, map: &JitMap, addresses: &[u64], answers: &mut Answers) {
    for address in addresses {
        match map.find(*address) {
            Some(function) => {
                answers.name(*address, &function.name, Source::Jit, Some(*address - function.start));
                if let Some((file, line)) = map.line(*address) {
                    let file = answers.text(file);
                    if let Some(frame) = answers.frames.last_mut() {
                        frame.file = file;
                        frame.line = line;
                    }
                }
            }
            None => answers.name(
                *address,
                &symtab::nameless(&shown_path(&info.path), *address),
                Source::Unknown,
                None,
            ),
        }
    }
}

fn elf_frames(
    info: &ObjectInfo,
    object: &ElfObject,
    offsets: &[u64],
    options: &Options,
    threads: usize,
    answers: &mut Answers,
) -> Option<Problem> {
    let ElfObject { image, debug, sup, symbols, debug_symbols } = object;
    let primary = image.as_ref().or(debug.as_ref())?;
    let mut asked = Vec::with_capacity(offsets.len());
    let mut addresses = Vec::with_capacity(offsets.len());
    for offset in offsets {
        let address = match image {
            Some(image) => image.address_of_offset(*offset),
            None => info.map_offset.and_then(|m| primary.address_by_mapping(*offset, m)),
        };
        match address {
            Some(address) => {
                asked.push(*offset);
                addresses.push(address);
            }
            None => answers.name(
                *offset,
                &symtab::nameless(&shown_path(&info.path), *offset),
                Source::Unknown,
                None,
            ),
        }
    }
    if let Some(template) = &options.translator {
        return co_process_frames(info, template, primary, &addresses, &asked, answers);
    }
    let mut rest = Vec::new();
    let mut problem = None;
    let source = debug.as_ref().or(image.as_ref().filter(|i| i.has_debug_info()));
    match source {
        Some(source) if options.lines => {
            let question = dwarf::Question {
                image: source,
                sup: sup.as_ref(),
                addresses: &addresses,
                asked: &asked,
                threads,
            };
            if let Err(reason) = dwarf::lookup(&question, answers, &mut rest) {
                problem = Some(Problem::BadDebugInfo { reason });
            }
        }
        _ => rest.extend((0..addresses.len()).map(dwarf::Rest::nothing)),
    }
    if rest.is_empty() {
        return problem;
    }
    let tables: Vec<(&SymbolTable, object::File<'_>)> = [
        debug.as_ref().map(|d| (debug_symbols.get_or_init(|| SymbolTable::read(d)), d)),
        image.as_ref().map(|i| (symbols.get_or_init(|| SymbolTable::read(i)), i)),
    ]
    .into_iter()
    .flatten()
    .filter_map(|(t, i)| Some((t, i.elf()?)))
    .collect();
    for left in rest {
        let (asked, address) = (asked[left.index], addresses[left.index]);
        if let Some(found) = tables.iter().find_map(|(t, elf)| t.find(elf, address)) {
            answers.name(asked, &demangle(&found.name), found.source, Some(address - found.start));
        } else if let Some((start, _)) = image.as_ref().and_then(|i| symtab::function_by_unwind(i, address)) {
            let name = symtab::nameless(&shown_path(&info.path), start);
            answers.name(asked, &name, Source::Unwind, Some(address - start));
        } else {
            answers.name(asked, &symtab::nameless(&shown_path(&info.path), address), Source::Unknown, None);
        }
        if let Some(frame) = answers.frames.last_mut() {
            (frame.file, frame.line, frame.column) = (left.file, left.line, left.column);
        }
    }
    problem
}

/// Frames by a co-process. What it does not answer stays an address; the problem says why.
fn co_process_frames(
    info: &ObjectInfo,
    template: &Template,
    image: &Image,
    addresses: &[u64],
    asked: &[u64],
    answers: &mut Answers,
) -> Option<Problem> {
    let translation =
        template.translate(image.path(), image.build_id().or(info.build_id.as_ref()), addresses);
    for ((answer, address), asked) in translation.answers.iter().zip(addresses).zip(asked) {
        let Some(lines) = answer else {
            answers.name(*asked, &symtab::nameless(&shown_path(&info.path), *address), Source::Unknown, None);
            continue;
        };
        let Some(frames) = addr2line_frames(lines) else {
            answers.name(*asked, &lines.join(" "), Source::Translator, None);
            continue;
        };
        let first = answers.frames.len();
        let count = frames.len();
        for (i, (function, file, line)) in frames.into_iter().enumerate() {
            let (function, source) = match function {
                "??" => (answers.text(&symtab::nameless(&shown_path(&info.path), *address)), Source::Unknown),
                name => (answers.text(name), Source::Translator),
            };
            let file = file.map_or(NO_TEXT, |f| answers.text(f));
            let inlined = i + 1 < count;
            answers.frames.push(LocalFrame { function, file, line, column: 0, inlined, source });
        }
        answers.close(*asked, first, None);
    }
    translation.error.map(|e| Problem::Translator { reason: e.to_string() })
}

/// A region's path without the kernel's ` (deleted)`.
pub(crate) fn shown_path(path: &Path) -> PathBuf {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let bytes = path.as_os_str().as_bytes();
    PathBuf::from(OsStr::from_bytes(bytes.strip_suffix(b" (deleted)").unwrap_or(bytes)))
}

/// Finds and opens what can answer for an object.
pub(crate) fn open(info: &ObjectInfo, options: &Options, problems: &mut Vec<Problem>) -> Opened {
    let elf = |image: Option<Image>, debug: Option<Image>, sup: Option<Image>| {
        let (symbols, debug_symbols) = Default::default();
        Opened::Elf(Box::new(ElfObject { image, debug, sup, symbols, debug_symbols }))
    };
    match info.kind {
        ObjectKind::Opaque => return Opened::Nothing,
        ObjectKind::Jit { pid } => return open_jit(info, pid, options, problems),
        ObjectKind::Vdso => {
            let Some(image) = vdso::image() else {
                problems.push(Problem::Missing { reason: "this process has no vdso".into() });
                return Opened::Nothing;
            };
            if let (Some(wanted), found) = (&info.build_id, image.build_id())
                && found != Some(wanted)
            {
                problems.push(Problem::BuildIdMismatch {
                    file: PathBuf::from("this kernel's vdso"),
                    wanted: wanted.clone(),
                    found: found.cloned(),
                });
                return Opened::Nothing;
            }
            return elf(Some(image), None, None);
        }
        ObjectKind::File => {}
    }
    let image = open_file(info, problems);
    let mut refused = Vec::new();
    let debug = match &image {
        Some(image) if image.has_debug_info() => None,
        Some(image) => debugfile::find(image, &options.debug_dirs, &mut refused),
        None => {
            let id = info.build_id.as_ref();
            id.and_then(|id| debugfile::by_build_id(id, &options.debug_dirs, &mut refused))
        }
    };
    problems.extend(refused.drain(..).map(|(file, reason)| Problem::DebugFileRefused { file, reason }));
    if image.is_none() && debug.is_none() {
        return Opened::Nothing;
    }
    let sup = debug
        .as_ref()
        .or(image.as_ref())
        .and_then(|i| debugfile::supplementary(i, &options.debug_dirs, &mut refused));
    problems.extend(refused.drain(..).map(|(file, reason)| Problem::DebugFileRefused { file, reason }));
    // What was found by build-id alone may be a whole object, not a debug file: then it is the image.
    match (image, debug) {
        (None, Some(found)) if found.segments().iter().any(|s| s.executable && s.file_size > 0) => {
            elf(Some(found), None, sup)
        }
        (image, debug) => elf(image, debug, sup),
    }
}

/// The object's own file, if there is one that can be proved (or at least not disproved) to be it.
fn open_file(info: &ObjectInfo, problems: &mut Vec<Problem>) -> Option<Image> {
    let path = shown_path(&info.path);
    let mut said = Vec::new();
    for (i, candidate) in std::iter::once(&path).chain(&info.also_try).enumerate() {
        let image = match Image::open(candidate) {
            Ok(image) => image,
            Err(e) => {
                if i == 0 {
                    said.push(Problem::Missing { reason: e.to_string() });
                }
                continue;
            }
        };
        match (&info.build_id, image.build_id()) {
            (Some(wanted), found) if found != Some(wanted) => {
                said.push(Problem::BuildIdMismatch {
                    file: candidate.clone(),
                    wanted: wanted.clone(),
                    found: found.cloned(),
                });
                continue;
            }
            (None, _) if i == 0 && info.dev_ino.is_some() && info.dev_ino != image.dev_ino() => {
                problems.push(Problem::Unverified);
            }
            _ => {}
        }
        return Some(image);
    }
    problems.append(&mut said);
    None
}

fn open_jit(info: &ObjectInfo, pid: u32, options: &Options, problems: &mut Vec<Problem>) -> Opened {
    let mut candidates: Vec<PathBuf> = Vec::new();
    if info.path.extension().is_some_and(|e| e == "dump") {
        candidates.push(shown_path(&info.path));
    }
    candidates.extend(info.also_try.iter().cloned());
    candidates.extend(options.jit_dirs.iter().map(|d| d.join(format!("perf-{pid}.map"))));
    let mut last = None;
    for path in candidates {
        match JitMap::open(&path, None) {
            Ok(map) => return Opened::Jit(map),
            Err(e) => last = Some((path, e)),
        }
    }
    if let Some((file, e)) = last {
        problems.push(Problem::NoJitMap { file, reason: e.to_string() });
    }
    Opened::Nothing
}
