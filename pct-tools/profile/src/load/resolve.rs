//! The trie of addresses becomes the trie of frames.

use super::blocked;
use super::images;
use super::kernel::KernelHalves;
use super::options::{KeptSamples, Options};
use super::process::name_programs;
use super::raw::{ROOT, Raw, RawFrame};
use super::spoken::{SpokenTable, lost_frame};
use super::tally::NodeIndex;
use crate::Language;
use crate::account::add_loss;
use crate::causes::FRAMES_OF_LOCKS;
use crate::fold::account_of_languages;
use crate::model::{
    Builder, Frame, Mark, Object, ObjectId, ObjectKind, Profile, SAMPLER, StackId, TimedSample, Weight,
};
use crate::packed::SamplesByThread;
use crate::waits::futexes;
use pct_format::record::LostCode;
use pct_symbols::{CodeAddr, ObjectKind as Kind, Symbolizer};
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::Path;

pub(super) fn profile(raw: Raw, symbols: &Symbolizer, options: &Options) -> Profile {
    let mut b = Builder::new(options.kept_samples() == KeptSamples::InOrder);
    let start = raw.processes.iter().map(|(_, start)| *start).filter(|&start| start != 0).min().unwrap_or(0);
    b.profile_mut().start_realtime_ns = start;
    let wholeness = Wholeness::from_raw(&raw);
    let firsts = images::firsts(&raw.images);
    // Of files of one image the first in time says what the process was.
    let of_first: Vec<_> = raw
        .processes
        .into_iter()
        .enumerate()
        .map(|(file, (mut process, at))| {
            process.start_ns = at.saturating_sub(start);
            (firsts[file] == file).then(|| b.process(process))
        })
        .collect();
    let processes: Vec<_> = firsts
        .iter()
        .map(|first| of_first[*first].expect("the first file of an image is its own first"))
        .collect();
    let continued: FxHashSet<_> =
        firsts.iter().enumerate().filter(|(file, first)| file != *first).map(|(_, first)| *first).collect();
    let mut joined = FxHashMap::default();
    let threads: Vec<_> = raw
        .threads
        .iter()
        .map(|t| {
            let process = processes[t.process];
            let mut new = || b.thread(process, t.tid, &t.name);
            // A thread goes on in the next file of its process. (In one file an id may be two threads', one
            // after the other.)
            let several = continued.contains(&firsts[t.process]);
            if several { *joined.entry((process, t.tid)).or_insert_with(new) } else { new() }
        })
        .collect();
    let mut places = Places {
        symbols,
        spoken: &raw.spoken,
        objects: FxHashMap::default(),
        known: FxHashMap::default(),
        options,
    };
    let mut above: Vec<Option<StackId>> = Vec::with_capacity(raw.nodes.len());
    let mut kernel = KernelHalves::new(&raw.nodes, symbols, options.frames);
    for (node, (parent, place)) in raw.nodes.iter().enumerate() {
        let mut at = if *parent == ROOT { None } else { above.get(*parent as usize).copied().flatten() };
        match *place {
            // What the sampler does in the kernel is its own work, and one row.
            RawFrame::System if is_in_sampler(&raw.nodes, symbols, *parent) => {}
            RawFrame::System => {
                let frame = b.kernel_frame(&kernel.call_name(*parent));
                at = Some(b.stack(at, frame));
            }
            RawFrame::Boundary(boundary) => at = Some(kernel.enter(&mut b, (node, *parent), boundary, at)),
            RawFrame::Kernel(object, address) => {
                at = kernel.call(&mut b, (node, *parent), (object, address), at);
            }
            // A function says more than the address of the code that its virtual machine made of it.
            RawFrame::Code(object, _)
                if is_made_of_function((&raw.nodes, &raw.spoken), *parent, symbols.object(object).kind) => {}
            place => {
                for &frame in places.frames(&mut b, place) {
                    at = Some(b.stack(at, frame));
                }
            }
        }
        above.push(at);
    }
    let stack_of = |node: NodeIndex| {
        above[node as usize].expect("samples end in a place in code, or in the kernel or waiting below one")
    };
    let mut halves = FxHashMap::default();
    let in_window = |at: u64| options.window.is_none_or(|(from, to)| (from..to).contains(&at));
    let mut sums: Vec<_> = raw.sums.into_iter().collect();
    sums.sort_unstable_by_key(|(key, _)| *key);
    if options.window.is_none() {
        for ((thread, node), sum) in sums {
            wholeness.count(node, sum.samples, &mut halves);
            b.add(threads[thread as usize], stack_of(node), weight(sum.samples, sum.ns, sum.system));
        }
    }
    let mut outside = None;
    // Both kinds of samples have the same size, so the list is made over in its own memory: it may be the largest thing
    // there is.
    let timed = raw.timed.into_iter().filter_map(|timed| {
        let time_ns = timed.realtime_ns.saturating_sub(start);
        if !in_window(time_ns) {
            let (samples, last) = outside.unwrap_or((0, 0));
            outside = Some((samples + 1, time_ns.max(last)));
            return None;
        }
        let (thread, stack) = (threads[timed.thread as usize], stack_of(timed.node));
        if options.window.is_some() {
            wholeness.count(timed.node, 1, &mut halves);
            let system = matches!(
                raw.nodes[timed.node as usize].1,
                RawFrame::System | RawFrame::Waiting | RawFrame::Blocked(_) | RawFrame::Kernel(..)
            );
            b.add(thread, stack, weight(1, timed.ns, system));
        }
        Some(TimedSample { time_ns, weight_ns: timed.ns, thread, stack })
    });
    let timed: Vec<TimedSample> = timed.collect();
    b.add_all_timed(timed);
    let lists = raw.by_thread.into_iter().enumerate().filter(|(_, list)| !list.is_empty());
    let lists = lists.map(|(at, list)| (threads[at], list)).collect();
    b.profile_mut().by_thread = SamplesByThread { lists, stacks: above.clone() };
    b.profile_mut().over_time = raw.over_time.and_then(|sums| sums.finish(start, &threads, stack_of));
    for mark in raw.marks {
        let time_ns = mark.realtime_ns.saturating_sub(start);
        let thread = mark.thread.and_then(|at| threads.get(at)).copied();
        b.profile_mut().marks.push(Mark { time_ns, thread, name: mark.name });
    }
    b.profile_mut().memory = raw.memory.finish(start, &processes, stack_of);
    let of_profile = b.profile_mut();
    let waits_for = |stack| {
        let names =
            of_profile.outwards(stack).map(|(_, frame)| of_profile.functions[frame.function].name.as_str());
        names.take(FRAMES_OF_LOCKS).find_map(futexes::kind_of)
    };
    let waits = raw.waits.finish((start, &processes, &threads), stack_of, waits_for);
    b.profile_mut().waits = waits;
    b.profile_mut().account.whole_stacks = raw.whole;
    b.profile_mut().account.outside_window = outside;
    let account = &mut b.profile_mut().account;
    let mut halves: Vec<_> = halves.into_iter().collect();
    halves.sort_unstable();
    for ((language, lost), samples) in halves {
        let row = account.spoken(language);
        match lost {
            None => row.whole += samples,
            Some(why) => add_loss(&mut row.flawed, why.name(), samples, 0),
        }
    }
    let mut profile = b.finish();
    name_programs(&mut profile);
    crate::language_locks::part(&mut profile);
    if options.symbols {
        account_of_languages(&mut profile);
    }
    profile
}

/// Which language a sample speaks, and why frames of it are missing, if they are.
type Half = (Language, Option<LostCode>);

/// For each place of the trie: what a sample that ends there says of interpreted languages.
struct Wholeness(Vec<Option<Half>>);

impl Wholeness {
    fn from_raw(raw: &Raw) -> Self {
        let mut halves: Vec<Option<Half>> = Vec::with_capacity(raw.nodes.len());
        for (parent, place) in &raw.nodes {
            let above = halves.get(*parent as usize).copied().flatten();
            halves.push(match place {
                RawFrame::Lost(language, why) => Some((*language, Some(*why))),
                RawFrame::Spoken(function, _) => {
                    above.or_else(|| Some((raw.spoken.language(*function), None)))
                }
                _ => above,
            });
        }
        Self(halves)
    }

    fn count(&self, node: NodeIndex, samples: u64, sums: &mut FxHashMap<Half, u64>) {
        if let Some(half) = self.0[node as usize] {
            *sums.entry(half).or_default() += samples;
        }
    }
}

fn weight(samples: u64, ns: u64, system: bool) -> Weight {
    let (user_ns, system_ns) = if system { (0, ns) } else { (ns, 0) };
    Weight { samples, user_ns, system_ns }
}

/// Whether code in an object of this kind, called from a place, is what a virtual machine made of the function there.
fn is_made_of_function(
    (nodes, spoken): (&[(NodeIndex, RawFrame)], &SpokenTable),
    parent: NodeIndex,
    kind: Kind,
) -> bool {
    let made = matches!(kind, Kind::Jit { .. });
    made && matches!(nodes.get(parent as usize), Some((_, RawFrame::Spoken(function, _)))
        if matches!(spoken.language(*function), Language::Java | Language::JavaScript))
}

/// Whether an object is the preloaded library: `libpct.so`, or `libpct-HASH.so` as `pct` lays it out.
fn is_sampler(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name == "libpct.so" || name.strip_prefix("libpct-").is_some_and(|rest| rest.ends_with(".so"))
}

/// Places to frames, outermost first.
struct Places<'a> {
    symbols: &'a Symbolizer,
    spoken: &'a SpokenTable,
    objects: FxHashMap<pct_symbols::ObjectId, ObjectId>,
    known: FxHashMap<RawFrame, Box<[crate::model::FrameId]>>,
    options: &'a Options,
}

/// Whether a place is in pct's library.
fn is_in_sampler(nodes: &[(NodeIndex, RawFrame)], symbols: &Symbolizer, node: NodeIndex) -> bool {
    match nodes.get(node as usize) {
        Some((_, RawFrame::Code(object, _))) => is_sampler(&symbols.object(*object).path),
        _ => false,
    }
}

impl Places<'_> {
    fn frames(&mut self, b: &mut Builder, place: RawFrame) -> &[crate::model::FrameId] {
        if !self.known.contains_key(&place) {
            let frames = self.make(b, place);
            self.known.insert(place, frames.into());
        }
        &self.known[&place]
    }

    fn make(&mut self, b: &mut Builder, place: RawFrame) -> Vec<crate::model::FrameId> {
        let (object, address) = match place {
            RawFrame::Code(object, address) => (object, address),
            // What it was depends on its caller: see the caller of this function.
            RawFrame::Blocked(blocked) => return vec![b.kernel_frame(&blocked::name(blocked))],
            RawFrame::System | RawFrame::Waiting | RawFrame::Boundary(_) | RawFrame::Kernel(..) => {
                return Vec::new();
            }
            RawFrame::Spoken(function, line) => return vec![self.spoken.frame(b, function, line)],
            RawFrame::Lost(language, why) => return lost_frame(b, language, why).into_iter().collect(),
            RawFrame::Unknown | RawFrame::Cut(_) | RawFrame::NoStack | RawFrame::Inherited => {
                let object = b.unknown_object();
                let name = match place {
                    RawFrame::Cut(cause) => format!("<truncated: {}>", cause.name()),
                    RawFrame::NoStack => "[no stack]".to_owned(),
                    RawFrame::Inherited => "[allocated before the fork]".to_owned(),
                    _ => "[unknown]".to_owned(),
                };
                let function = b.function(object, &name);
                return vec![b.plain_frame(function)];
            }
        };
        let id = self.object(b, object);
        if self.options.symbols && is_sampler(&self.symbols.object(object).path) {
            let function = b.function(id, SAMPLER);
            return vec![b.plain_frame(function)];
        }
        let exact = match address {
            CodeAddr::Pc(address) => address,
            CodeAddr::Return(address) => address.saturating_sub(1),
        };
        let exact = match self.symbols.object(object).kind {
            Kind::Jit { .. } => pct_symbols::jit::address_of(exact),
            _ => exact,
        };
        let found = if self.options.symbols { self.symbols.frames(object, address) } else { &[] };
        if found.is_empty() {
            let function = b.function(id, "[no symbol]");
            return vec![b.frame(Frame {
                function,
                file: None,
                line: 0,
                address: Some(exact),
                inlined: false,
            })];
        }
        let mut frames = Vec::with_capacity(found.len());
        for frame in found.iter().rev() {
            let function = b.function(id, self.symbols.text(frame.function));
            let file = frame.file.map(|file| b.file(self.symbols.text(file)));
            if let Some(declared) = frame.declared {
                let file = b.file(self.symbols.text(declared.file));
                b.declare(function, file, declared.line);
            }
            frames.push(b.frame(Frame {
                function,
                file,
                line: frame.line,
                address: Some(exact),
                inlined: frame.inlined,
            }));
        }
        frames
    }

    fn object(&mut self, b: &mut Builder, object: pct_symbols::ObjectId) -> ObjectId {
        if let Some(&id) = self.objects.get(&object) {
            return id;
        }
        let info = self.symbols.object(object);
        let path = info.path.to_string_lossy();
        let (path, kind) = match info.kind {
            Kind::File => (path.into_owned(), ObjectKind::File),
            Kind::Jit { .. } if path.is_empty() => ("[jit]".to_owned(), ObjectKind::Anonymous),
            _ if path.is_empty() => ("[anonymous]".to_owned(), ObjectKind::Anonymous),
            _ => (path.into_owned(), ObjectKind::Anonymous),
        };
        let build_id = info.build_id.as_ref().map(ToString::to_string);
        let id = b.object(Object { build_id, version: info.version, ..Object::new(path, kind) });
        self.objects.insert(object, id);
        id
    }
}
