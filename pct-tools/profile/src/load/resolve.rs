//! The trie of addresses becomes the trie of frames.

use super::raw::{Place, ROOT, Raw};
use crate::model::{
    Builder, Frame, Mark, Object, ObjectId, ObjectKind, Profile, StackId, TimedSample, Weight,
};
use pct_symbols::{CodeAddr, ObjectKind as Kind, Symbolizer};
use rustc_hash::FxHashMap;
use std::path::Path;

pub(super) fn profile(raw: Raw, symbols: &Symbolizer, options: &super::Options) -> Profile {
    let mut b = Builder::new(options.timeline || options.window.is_some());
    let start = raw.processes.iter().map(|(_, start)| *start).filter(|&start| start != 0).min().unwrap_or(0);
    b.profile_mut().start_realtime_ns = start;
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
    let mut places = Places { symbols, objects: FxHashMap::default(), known: FxHashMap::default(), options };
    let mut stacks: Vec<StackId> = Vec::with_capacity(raw.nodes.len());
    for (parent, place) in &raw.nodes {
        let mut at = if *parent == ROOT { None } else { stacks.get(*parent as usize).copied() };
        for &frame in places.frames(&mut b, *place) {
            at = Some(b.stack(at, frame));
        }
        stacks.push(at.expect("every place has a frame but waiting, which is below another"));
    }
    let in_window = |at: u64| options.window.is_none_or(|(from, to)| (from..to).contains(&at));
    let mut sums: Vec<_> = raw.sums.into_iter().collect();
    sums.sort_unstable_by_key(|(key, _)| *key);
    if options.window.is_none() {
        for ((thread, node), sum) in sums {
            b.add(threads[thread as usize], stacks[node as usize], weight(sum.samples, sum.ns, sum.system));
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
        let (thread, stack) = (threads[timed.thread as usize], stacks[timed.node as usize]);
        b.add_timed(TimedSample { time_ns, weight_ns: timed.ns, thread, stack });
        if options.window.is_some() {
            let system = matches!(raw.nodes[timed.node as usize].1, Place::System | Place::Waiting);
            b.add(thread, stack, weight(1, timed.ns, system));
        }
    }
    for mark in raw.marks {
        let time_ns = mark.realtime_ns.saturating_sub(start);
        let thread = mark.thread.and_then(|at| threads.get(at)).copied();
        b.profile_mut().marks.push(Mark { time_ns, thread, name: mark.name });
    }
    b.profile_mut().account.whole_stacks = raw.whole;
    b.profile_mut().account.outside_window = outside;
    b.finish()
}

fn weight(samples: u64, ns: u64, system: bool) -> Weight {
    let (user_ns, system_ns) = if system { (0, ns) } else { (ns, 0) };
    Weight { samples, user_ns, system_ns }
}

/// The function that all of our own code in the program is.
const SAMPLER: &str = "[pct's sampler]";

/// Whether an object is the preloaded library: `libpct.so`, or `libpct-HASH.so` as `pct` lays it out.
fn is_sampler(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name == "libpct.so" || name.strip_prefix("libpct-").is_some_and(|rest| rest.ends_with(".so"))
}

/// Places to frames, outermost first.
struct Places<'a> {
    symbols: &'a Symbolizer,
    objects: FxHashMap<pct_symbols::ObjectId, ObjectId>,
    known: FxHashMap<Place, Box<[crate::model::FrameId]>>,
    options: &'a super::Options,
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
            Place::System => return vec![b.system_frame()],
            Place::Waiting => return Vec::new(),
            Place::Unknown | Place::Cut(_) => {
                let object = b.unknown_object();
                let name = match place {
                    Place::Cut(cause) => format!("<truncated: {}>", cause.name()),
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
