//! The interface of this crate: register objects, ask batches of addresses, read frames.
//!
//! It first looks up a table of distinct addresses, so each address of each object is translated once, however many
//! samples hit it. New addresses are sorted by object and handed to [`crate::work`].
//!
//! Invariant: after [`Symbolizer::resolve`] every asked address has at least one frame.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::answers::{NO_TEXT, table_index};
use crate::archive::{Archive, ArchiveError, Kept, KeptSpan};
use crate::cache;
use crate::debugfile;
use crate::jit::{self, JitMap};
use crate::objects::{CodeAddr, Note, ObjectId, ObjectInfo, ObjectKind, Problem, Stripped};
use crate::open::{Opened, open};
use crate::options::{Cache, Options};
use crate::quickhash::QuickMap;
use crate::symtab::Source;
use crate::system_call::{CallSite, Said};
use crate::unwind::UnwindData;
use crate::work::{Outcome, Task, work};

/// Number of a text (function or file name) in its [`Symbolizer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TextId(pub(crate) u32);

impl TextId {
    /// Position in the table of texts, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One frame: a function, perhaps inlined into the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResolvedFrame {
    /// Its demangled name. If no name is known, it is made of object and address (see [`Source`]).
    pub function: TextId,
    /// Source file, as the compiler named it, made absolute with its directory.
    pub file: Option<TextId>,
    /// Line in the file, from 1; 0: unknown.
    pub line: u32,
    /// Column, from 1; 0: unknown.
    pub column: u32,
    /// Whether it is inlined into the next frame of the list.
    pub inlined: bool,
    /// Where the name comes from.
    pub source: Source,
    /// Where the function is declared. If debug information lacks that, the position of its first instruction.
    pub declared: Option<Declaration>,
}

/// The source position where a function begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Declaration {
    /// Source file, as [`ResolvedFrame::file`].
    pub file: TextId,
    /// Line, from 1.
    pub line: u32,
}

fn numbers_of(archive: &Archive) -> HashMap<String, u32> {
    archive.texts.iter().enumerate().map(|(i, t)| (t.clone(), table_index(i))).collect()
}

/// The frames of an address, and how far into the function it is.
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
    /// What the code before addresses shows about system calls, if that was asked.
    system_calls: QuickMap<u64, Said>,
    opened: Option<Opened>,
    /// Problems of opening it that are not notes yet, because nobody may ask for its names.
    problems: Vec<Problem>,
    /// Its index in the archive.
    archived: Option<usize>,
    /// What the cache has of it: an archive of this object alone. None: the cache was not searched yet.
    kept: Option<Archive>,
}

/// Translates addresses of objects to frames. See the module's text and the crate's example.
#[derive(Debug)]
pub struct Symbolizer {
    options: Options,
    objects: Vec<Entry>,
    by_info: HashMap<ObjectInfo, ObjectId>,
    texts: Vec<Box<str>>,
    text_numbers: QuickMap<Box<str>, TextId>,
    frames: Vec<ResolvedFrame>,
    notes: Vec<Note>,
    archive: Option<Archive>,
}

impl Default for Symbolizer {
    fn default() -> Symbolizer {
        Symbolizer::new(Options::default())
    }
}

impl Symbolizer {
    /// A new symbolizer. It opens nothing yet.
    pub fn new(options: Options) -> Symbolizer {
        Symbolizer {
            options,
            objects: Vec::new(),
            by_info: HashMap::new(),
            texts: Vec::new(),
            text_numbers: QuickMap::default(),
            frames: Vec::new(),
            notes: Vec::new(),
            archive: None,
        }
    }

    /// Makes names come from the archive of this directory first, if it has one. Call this before objects are
    /// registered.
    ///
    /// # Errors
    /// [`ArchiveError`] for an archive that exists but cannot be read.
    pub fn with_archive(mut self, dir: &Path) -> Result<Symbolizer, ArchiveError> {
        self.archive = Archive::read(dir)?;
        for entry in &mut self.objects {
            entry.archived = self.archive.as_ref().and_then(|a| a.find(&entry.info));
        }
        Ok(self)
    }

    /// Whether names come from an archive first.
    pub fn has_archive(&self) -> bool {
        self.archive.is_some()
    }

    /// Writes everything that has been resolved, and what an archive given before holds, into the archive of a
    /// directory. Returns the file's path.
    ///
    /// # Errors
    /// [`ArchiveError::Io`].
    pub fn write_archive(&self, dir: &Path) -> Result<PathBuf, ArchiveError> {
        self.to_archive().write(dir)
    }

    /// Everything that has been resolved, and what an archive given before holds.
    pub fn to_archive(&self) -> Archive {
        let mut archive = self.archive.clone().unwrap_or_default();
        let mut numbers = numbers_of(&archive);
        for (number, entry) in self.objects.iter().enumerate() {
            let mut known: Vec<u64> = entry.known.keys().copied().collect();
            known.sort_unstable();
            self.add_to(&mut archive, &mut numbers, ObjectId(table_index(number)), known.into_iter());
        }
        for note in &self.notes {
            if self.objects[note.object.index()].known.is_empty() {
                continue;
            }
            let place = archive.place(&self.objects[note.object.index()].info);
            let (remark, remarks) = (note.to_string(), &mut archive.objects[place].remarks);
            if !remarks.contains(&remark) {
                remarks.push(remark);
            }
        }
        archive
    }

    /// Adds answers about an object to an archive. `numbers` maps the archive's texts to their numbers.
    fn add_to(
        &self,
        archive: &mut Archive,
        numbers: &mut HashMap<String, u32>,
        object: ObjectId,
        addresses: impl Iterator<Item = u64>,
    ) {
        let entry = &self.objects[object.index()];
        let texts = &mut archive.texts;
        let mut text = |id: TextId| {
            *numbers.entry(self.text(id).to_string()).or_insert_with_key(|t| {
                texts.push(t.clone());
                table_index(texts.len() - 1)
            })
        };
        let mut spans = Vec::new();
        for (address, span) in addresses.filter_map(|a| Some((a, entry.known.get(&a)?))) {
            let frames = self.frames[span.first as usize..(span.first + span.count) as usize].iter();
            let frames = frames.map(|f| Kept {
                function: text(f.function),
                file: f.file.map(&mut text),
                line: f.line,
                column: f.column,
                inlined: f.inlined,
                source: f.source,
                declared: f.declared.map(|d| (text(d.file), d.line)),
            });
            let into = (span.into != u64::MAX).then_some(span.into);
            let system_call = entry.system_calls.get(&address).copied();
            spans.push((address, KeptSpan { into, frames: frames.collect(), system_call }));
        }
        if spans.is_empty() {
            return;
        }
        let place = archive.place(&entry.info);
        archive.objects[place].spans.extend(spans);
    }

    /// Registers an object. The same information gives the same number. It opens nothing yet.
    pub fn add(&mut self, info: ObjectInfo) -> ObjectId {
        if let Some(id) = self.by_info.get(&info) {
            return *id;
        }
        let id = ObjectId(table_index(self.objects.len()));
        self.by_info.insert(info.clone(), id);
        let archived = self.archive.as_ref().and_then(|a| a.find(&info));
        self.objects.push(Entry {
            info,
            known: QuickMap::default(),
            system_calls: QuickMap::default(),
            opened: None,
            problems: Vec::new(),
            archived,
            kept: None,
        });
        id
    }

    /// The unwind data of an object's own file, if that is the sampled one and has unwind data.
    pub fn unwind_data(&self, id: ObjectId) -> Option<UnwindData> {
        let Opened::Elf(object) = open(self.object(id), &self.options, &mut Vec::new()) else { return None };
        UnwindData::from_image(object.image?)
    }

    /// The map of an object of generated code. It is opened at the first question.
    fn jit_map(&mut self, id: ObjectId) -> Option<&JitMap> {
        let entry = &mut self.objects[id.index()];
        if !matches!(entry.info.kind, ObjectKind::Jit { .. }) {
            return None;
        }
        if entry.opened.is_none() {
            entry.opened = Some(open(&entry.info, &self.options, &mut entry.problems));
        }
        match &entry.opened {
            Some(Opened::Jit(map)) => Some(map),
            _ => None,
        }
    }

    /// The times at which addresses of generated code changed their meaning, in nanoseconds since 1970, ascending.
    pub fn jit_changes(&mut self, id: ObjectId) -> Vec<u64> {
        self.jit_map(id).map(JitMap::changes).unwrap_or_default()
    }

    /// An address of generated code with the age that it had at this time (nanoseconds since 1970). For any other
    /// object the address itself. [`crate::jit::address_of`] gives the address back.
    pub fn at_time(&mut self, id: ObjectId, address: CodeAddr, time_ns: u64) -> CodeAddr {
        let Some(map) = self.jit_map(id) else { return address };
        let age = map.age(address.lookup(), time_ns);
        match address {
            CodeAddr::Pc(pc) => CodeAddr::Pc(jit::aged(pc, age)),
            CodeAddr::Return(pc) => CodeAddr::Return(jit::aged(pc, age)),
        }
    }

    /// The information with which an object was registered.
    pub fn object(&self, id: ObjectId) -> &ObjectInfo {
        &self.objects[id.index()].info
    }

    /// Translates addresses. Those already known cost nothing. Order and repetition do not matter.
    pub fn resolve(&mut self, queries: impl IntoIterator<Item = (ObjectId, CodeAddr)>) {
        let mut wanted: HashMap<ObjectId, Vec<u64>> = HashMap::new();
        for (object, address) in queries {
            let address = address.lookup();
            if !self.objects[object.index()].known.contains_key(&address)
                && !self.answered_by_archive(object, address)
                && !self.answered_by_cache(object, address)
            {
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
        // The biggest first, so that the last one to finish is a small one.
        tasks.sort_by_key(|t| (std::cmp::Reverse(t.addresses.len()), t.object));
        let mut done = work(tasks, &self.options);
        done.sort_by_key(|d| d.object);
        for outcome in done {
            let (object, lasting) = (outcome.object, outcome.lasting);
            let asked: Vec<u64> = outcome.answers.spans.iter().map(|s| s.asked).collect();
            self.take_over(outcome);
            if lasting {
                self.keep(object, &asked);
            }
        }
    }

    /// Copies an address's frames from the archive, if it has them.
    fn answered_by_archive(&mut self, object: ObjectId, address: u64) -> bool {
        let Some(number) = self.objects[object.index()].archived else { return false };
        let Some(archive) = self.archive.take() else { return false };
        let kept = &archive.objects[number];
        let found = kept.spans.get(&address);
        if let Some(span) = found {
            self.adopt(object, address, span, &archive.texts);
            let entry = &self.objects[object.index()];
            for text in &kept.remarks {
                let problem = Problem::Archived { text: text.clone() };
                let note = Note { object, path: entry.info.path.clone(), problem };
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
            }
        }
        let taken = found.is_some();
        self.archive = Some(archive);
        taken
    }

    /// Copies an archive's frames of an address.
    fn adopt(&mut self, object: ObjectId, address: u64, span: &KeptSpan, texts: &[String]) {
        let first = table_index(self.frames.len());
        for f in &span.frames {
            let function = self.intern(&texts[f.function as usize]);
            let file = f.file.map(|n| self.intern(&texts[n as usize]));
            let declared =
                f.declared.map(|(n, line)| Declaration { file: self.intern(&texts[n as usize]), line });
            let Kept { line, column, inlined, source, .. } = *f;
            self.frames.push(ResolvedFrame { function, file, line, column, inlined, source, declared });
        }
        let found =
            Span { first, count: table_index(span.frames.len()), into: span.into.unwrap_or(u64::MAX) };
        let entry = &mut self.objects[object.index()];
        entry.known.insert(address, found);
        entry.system_calls.extend(span.system_call.map(|said| (address, said)));
    }

    /// Copies an address's frames from the cache, if an earlier run stored them.
    fn answered_by_cache(&mut self, object: ObjectId, address: u64) -> bool {
        let Some(Cache { dir, .. }) = &self.options.cache else { return false };
        if !self.options.lines || self.options.translator.is_some() {
            return false;
        }
        let entry = &mut self.objects[object.index()];
        let kept = match entry.kept.take() {
            Some(kept) => kept,
            None => cache::read(dir, &entry.info),
        };
        let found = kept.objects.first().and_then(|o| o.spans.get(&address));
        if let Some(span) = found {
            self.adopt(object, address, span, &kept.texts);
        }
        let taken = found.is_some();
        self.objects[object.index()].kept = Some(kept);
        taken
    }

    /// Caches answers for the next run.
    fn keep(&mut self, object: ObjectId, asked: &[u64]) {
        let Some(Cache { dir, .. }) = self.options.cache.clone() else { return };
        let mut kept = self.objects[object.index()].kept.take().unwrap_or_default();
        let mut numbers = numbers_of(&kept);
        self.add_to(&mut kept, &mut numbers, object, asked.iter().copied());
        cache::write(&dir, &self.objects[object.index()].info, &kept);
        self.objects[object.index()].kept = Some(kept);
    }

    fn take_over(&mut self, outcome: Outcome) {
        let Outcome { object, opened, answers, problems, .. } = outcome;
        let base = table_index(self.frames.len());
        let texts: Vec<TextId> = answers.texts.iter().map(|t| self.intern(t)).collect();
        self.frames.extend(answers.frames.iter().map(|f| {
            ResolvedFrame {
                function: texts[f.function as usize],
                file: (f.file != NO_TEXT).then(|| texts[f.file as usize]),
                line: f.line,
                column: f.column,
                inlined: f.inlined,
                source: f.source,
                declared: (f.declared.file != NO_TEXT)
                    .then(|| Declaration { file: texts[f.declared.file as usize], line: f.declared.line }),
            }
        }));
        let entry = &mut self.objects[object.index()];
        for span in &answers.spans {
            entry
                .known
                .insert(span.asked, Span { first: base + span.first, count: span.count, into: span.into });
        }
        entry.opened = Some(opened);
        let path = entry.info.path.clone();
        let earlier = std::mem::take(&mut entry.problems);
        for problem in earlier.into_iter().chain(problems) {
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
        let id = TextId(table_index(self.texts.len()));
        self.texts.push(text.into());
        self.text_numbers.insert(text.into(), id);
        id
    }

    /// The frames of an address, innermost first. The last one is the function that was not inlined. Empty only for an
    /// address that [`Symbolizer::resolve`] was never asked for.
    pub fn frames(&self, object: ObjectId, address: CodeAddr) -> &[ResolvedFrame] {
        match self.objects[object.index()].known.get(&address.lookup()) {
            Some(span) => &self.frames[span.first as usize..(span.first + span.count) as usize],
            None => &[],
        }
    }

    /// Bytes from the start of the (not inlined) function to the address. None: the start is unknown.
    pub fn offset_in_function(&self, object: ObjectId, address: CodeAddr) -> Option<u64> {
        let span = self.objects[object.index()].known.get(&address.lookup())?;
        (span.into != u64::MAX).then_some(span.into)
    }

    /// What the code before an address shows about a system call.
    pub(crate) fn said(&self, site: CallSite) -> Option<Said> {
        self.objects[site.object.index()].system_calls.get(&site.address.lookup()).copied()
    }

    pub(crate) fn say(&mut self, site: CallSite, said: Said) {
        self.objects[site.object.index()].system_calls.insert(site.address.lookup(), said);
    }

    /// The name of a function or file.
    pub fn text(&self, id: TextId) -> &str {
        &self.texts[id.index()]
    }

    /// All texts so far, by number.
    pub fn texts(&self) -> &[Box<str>] {
        &self.texts
    }

    /// The objects whose file is here and has no symbols of its own functions, nor has a debug file: those that were
    /// stripped. Of what an archive or the cache answered nobody knows.
    pub fn stripped(&self) -> impl Iterator<Item = Stripped> {
        self.objects.iter().filter_map(|entry| {
            let Some(Opened::Elf(elf)) = &entry.opened else { return None };
            let image = elf.image.as_ref().filter(|_| elf.debug.is_none())?;
            let has_names = image.has_debug_info() || image.section_range(".symtab").is_some();
            (!has_names).then(|| Stripped {
                path: entry.info.path.clone(),
                build_id: image.build_id().cloned(),
                debug_file: debugfile::name_of_debug_file(image),
            })
        })
    }

    /// What a reader should know: mismatches, missing files, refused debug files.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}
