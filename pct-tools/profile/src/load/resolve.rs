//! The trie of addresses becomes the trie of frames.

use super::kernel;
use super::options::Options;
use super::raw::{Place, ROOT, Raw};
use super::spoken::{SpokenTable, lost_frame};
use super::tally::NodeIndex;
use crate::Language;
use crate::account::add_loss;
use crate::fold::account_of_languages;
use crate::model::{
    Builder, Frame, Mark, Object, ObjectId, ObjectKind, Profile, SAMPLER, StackId, TimedSample, Weight,
};
use pct_format::record::LostCode;
use pct_symbols::{CodeAddr, ObjectKind as Kind, Symbolizer};
use rustc_hash::FxHashMap;
use std::path::Path;

pub(super) fn profile(raw: Raw, symbols: &Symbolizer, options: &Options) -> Profile {
    let mut b = Builder::new(options.timeline || options.window.is_some());
    let start = raw.processes.iter().map(|(_, start)| *start).filter(|&start| start != 0).min().unwrap_or(0);
    b.profile_mut().start_realtime_ns = start;
    let wholeness = Wholeness::of(&raw);
    let processes: Vec<_> = raw
        .processes
        .into_iter()
        .map(|(mut process, at)| {
            process.start_ns = at.saturating_sub(start);
            b.process(process)
        })
        .collect();
    let threads: Vec<_> =
        raw.threads.iter().map(|t| b.thread(processes[t.process], t.tid, &t.name)).collect();
    let mut places = Places {
        symbols,
        spoken: &raw.spoken,
        objects: FxHashMap::default(),
        known: FxHashMap::default(),
        options,
    };
    let mut above: Vec<Option<StackId>> = Vec::with_capacity(raw.nodes.len());
    for (parent, place) in &raw.nodes {
        let mut at = if *parent == ROOT { None } else { above.get(*parent as usize).copied().flatten() };
        if *place == Place::System {
            let frame = b.kernel_frame(&kernel::frame_name(&raw.nodes, *parent, symbols));
            at = Some(b.stack(at, frame));
        } else {
            for &frame in places.frames(&mut b, *place) {
                at = Some(b.stack(at, frame));
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
    for timed in raw.timed {
        let time_ns = timed.realtime_ns.saturating_sub(start);
        if !in_window(time_ns) {
            let (samples, last) = outside.unwrap_or((0, 0));
            outside = Some((samples + 1, time_ns.max(last)));
            continue;
        }
        let (thread, stack) = (threads[timed.thread as usize], stack_of(timed.node));
        b.add_timed(TimedSample { time_ns, weight_ns: timed.ns, thread, stack });
        if options.window.is_some() {
            wholeness.count(timed.node, 1, &mut halves);
            let system = matches!(raw.nodes[timed.node as usize].1, Place::System | Place::Waiting);
            b.add(thread, stack, weight(1, timed.ns, system));
        }
    }
    for mark in raw.marks {
        let time_ns = mark.realtime_ns.saturating_sub(start);
        let thread = mark.thread.and_then(|at| threads.get(at)).copied();
        b.profile_mut().marks.push(Mark { time_ns, thread, name: mark.name });
    }
    b.profile_mut().memory = raw.memory.finish(start, &processes, stack_of);
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
    fn of(raw: &Raw) -> Self {
        let mut halves: Vec<Option<Half>> = Vec::with_capacity(raw.nodes.len());
        for (parent, place) in &raw.nodes {
            let above = halves.get(*parent as usize).copied().flatten();
            halves.push(match place {
                Place::Lost(language, why) => Some((*language, Some(*why))),
                Place::Spoken(function, _) => above.or_else(|| Some((raw.spoken.language(*function), None))),
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
    known: FxHashMap<Place, Box<[crate::model::FrameId]>>,
    options: &'a Options,
}

impl Places<'_> {
    fn frames(&mut self, b: &mut Builder, place: Place) -> &[crate::model::FrameId] {
        if !self.known.contains_key(&place) {
            let frames = self.make(b, place);
            self.known.insert(place, frames.into());
        }
        &self.known[&place]
    }

    fn make(&mut self, b: &mut Builder, place: Place) -> Vec<crate::model::FrameId> {
        let (object, address) = match place {
            Place::Code(object, address) => (object, address),
            // What it was depends on its caller: see the caller of this function.
            Place::System | Place::Waiting => return Vec::new(),
            Place::Spoken(function, line) => return vec![self.spoken.frame(b, function, line)],
            Place::Lost(language, why) => return lost_frame(b, language, why).into_iter().collect(),
            Place::Unknown | Place::Cut(_) | Place::NoStack | Place::Inherited => {
                let object = b.unknown_object();
                let name = match place {
                    Place::Cut(cause) => format!("<truncated: {}>", cause.name()),
                    Place::NoStack => "[no stack]".to_owned(),
                    Place::Inherited => "[allocated before the fork]".to_owned(),
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
        let id = b.object(Object { path, build_id, kind });
        self.objects.insert(object, id);
        id
    }
}
