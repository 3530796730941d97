//! The work between the tables of the symbolizer and the sources of names: one task per object, in parallel.
//!
//! All threads work together on an object with much debug information, unit by unit. The other objects are
//! distributed over the threads. The order of the outcomes does not depend on threads.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use crate::answers::{Answers, LocalFrame, LocalPlace, NO_TEXT};
use crate::demangle::demangle;
use crate::image::Image;
use crate::jit::{self, JitMap, Made};
use crate::kallsyms;
use crate::objects::{ObjectId, ObjectInfo, ObjectKind, Problem, shown_path};
use crate::open::{ElfObject, Opened, open};
use crate::options::{HEAVY_BYTES, Options};
use crate::symtab::{self, FoundSymbol, Source, SymbolTable, is_behind};
use crate::translator::{Template, addr2line_frames};
use crate::{debugfile, dwarf};

pub(crate) struct Task {
    pub(crate) object: ObjectId,
    pub(crate) info: ObjectInfo,
    pub(crate) opened: Option<Opened>,
    pub(crate) addresses: Vec<u64>,
}

pub(crate) struct Outcome {
    pub(crate) object: ObjectId,
    pub(crate) opened: Opened,
    pub(crate) answers: Answers,
    pub(crate) problems: Vec<Problem>,
    /// All answers come from the object itself or its own debug file, and took a while: they are worth caching.
    pub(crate) lasting: bool,
}

/// Works on objects in parallel: see the module's text.
pub(crate) fn work(tasks: Vec<Task>, options: &Options) -> Vec<Outcome> {
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from).min(8),
        n => n,
    };
    let ready = in_parallel(tasks, threads, |task| Ready::from(task, options));
    let (heavy, light): (Vec<Ready>, Vec<Ready>) = ready.into_iter().partition(Ready::is_heavy);
    let mut done: Vec<Outcome> = heavy.into_iter().map(|r| translate(r, options, threads)).collect();
    done.extend(in_parallel(light, threads, |r| translate(r, options, 1)));
    done
}

/// Runs a function over items on this many threads. The results are in any order.
fn in_parallel<T: Send, U: Send>(items: Vec<T>, threads: usize, run: impl Fn(T) -> U + Sync) -> Vec<U> {
    let workers = threads.min(items.len());
    if workers <= 1 {
        return items.into_iter().map(run).collect();
    }
    let queue = crossbeam::queue::SegQueue::new();
    items.into_iter().for_each(|i| queue.push(i));
    let done = crossbeam::queue::SegQueue::new();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(item) = queue.pop() {
                    done.push(run(item));
                }
            });
        }
    });
    done.into_iter().collect()
}

/// A task whose object is open.
struct Ready {
    object: ObjectId,
    info: ObjectInfo,
    opened: Opened,
    addresses: Vec<u64>,
    problems: Vec<Problem>,
}

impl Ready {
    fn from(task: Task, options: &Options) -> Ready {
        let Task { object, info, opened, addresses } = task;
        let mut problems = Vec::new();
        let opened = opened.unwrap_or_else(|| open(&info, options, &mut problems));
        Ready { object, info, opened, addresses, problems }
    }

    fn is_heavy(&self) -> bool {
        self.debug_bytes() >= HEAVY_BYTES
    }

    fn debug_bytes(&self) -> u64 {
        let Opened::Elf(elf) = &self.opened else { return 0 };
        let source = elf.debug.as_ref().or(elf.image.as_ref());
        source.and_then(|i| i.section_range(".debug_info")).map_or(0, |(_, size)| size)
    }
}

fn translate(ready: Ready, options: &Options, threads: usize) -> Outcome {
    let debug_bytes = ready.debug_bytes();
    let Ready { object, info, opened, addresses, mut problems } = ready;
    let mut answers = Answers::default();
    match &opened {
        Opened::Elf(elf) => {
            let problem = elf_frames(&info, elf, &addresses, options, threads, &mut answers);
            problems.extend(problem);
        }
        Opened::Jit(map) => jit_frames(map, &addresses, &mut answers),
        Opened::Kernel(symbols) => {
            for address in &addresses {
                match symbols.find(*address) {
                    Some(function) => answers.name(*address, &function.to_string(), Source::Symbol, None),
                    None => answers.name(*address, kallsyms::NAMELESS, Source::Unknown, None),
                }
            }
        }
        Opened::Nothing => {
            for address in &addresses {
                let name = match info.kind {
                    ObjectKind::Jit { .. } => symtab::NAMELESS_CODE.to_owned(),
                    ObjectKind::Kernel => kallsyms::NAMELESS.to_owned(),
                    _ => symtab::nameless(&shown_path(&info.path), *address),
                };
                answers.name(*address, &name, Source::Unknown, None);
            }
        }
    }
    let lasting = options.cache.as_ref().is_some_and(|c| debug_bytes >= c.least_bytes)
        && debug_bytes > 0
        && problems.is_empty()
        && info.build_id.is_some()
        && options.lines
        && options.translator.is_none();
    Outcome { object, opened, answers, problems, lasting }
}

fn jit_frames(map: &JitMap, addresses: &[u64], answers: &mut Answers) {
    for aged in addresses {
        let address = jit::address_of(*aged);
        match map.made(*aged) {
            Made::One(function) => {
                answers.name(*aged, &function.name, Source::Jit, Some(address - function.start));
                if let Some((file, line)) = map.line_in(function, address) {
                    let file = answers.text(file);
                    if let Some(frame) = answers.frames.last_mut() {
                        frame.file = file;
                        frame.line = line;
                    }
                }
            }
            Made::Several(names, more) => {
                let more = if more == 0 { String::new() } else { format!(" or one of {more} more") };
                answers.name(*aged, &format!("{}{more}", names.join(" or ")), Source::Jit, None);
            }
            Made::Nothing => answers.name(*aged, symtab::NAMELESS_CODE, Source::Unknown, None),
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
                missed: AtomicBool::new(false),
                symbol: &|address| {
                    let of = |table: &OnceLock<SymbolTable>, image: &Option<Image>| {
                        let image = image.as_ref()?;
                        table.get_or_init(|| SymbolTable::read(image)).find(&image.elf()?, address)
                    };
                    of(debug_symbols, debug).or_else(|| of(symbols, image))
                },
            };
            if let Err(reason) = dwarf::lookup(&question, answers, &mut rest) {
                problem = Some(Problem::BadDebugInfo { reason });
            } else if question.missed.into_inner()
                && let Some(file) = debugfile::supplement_name(source)
            {
                problem = Some(Problem::NoSupplement { file });
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
        let found = tables.iter().find_map(|(t, elf)| t.find(elf, address));
        let is_behind =
            |f: &FoundSymbol| f.open_ended && image.as_ref().is_some_and(|i| is_behind(i, f, address));
        if let Some(found) = found.filter(|f| !is_behind(f)) {
            answers.name(asked, &demangle(&found.name), found.source, Some(address - found.start));
        } else if let Some((start, _)) = image.as_ref().and_then(|i| symtab::function_by_unwind(i, address)) {
            let name = symtab::nameless(&shown_path(&info.path), start);
            answers.name(asked, &name, Source::Unwind, Some(address - start));
        } else {
            answers.name(asked, &symtab::nameless(&shown_path(&info.path), address), Source::Unknown, None);
        }
        if let Some(frame) = answers.frames.last_mut() {
            (frame.file, frame.line, frame.column) = (left.file, left.line, left.column);
            frame.declared = left.declared;
        }
    }
    problem
}

/// Frames from a co-process. Addresses without an answer stay addresses, and the problem says why.
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
            let declared = LocalPlace::NONE;
            answers.frames.push(LocalFrame { function, file, line, column: 0, inlined, source, declared });
        }
        answers.close(*asked, first, None);
    }
    translation.error.map(|e| Problem::Translator { reason: e.to_string() })
}
