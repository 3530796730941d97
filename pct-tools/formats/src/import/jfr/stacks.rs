//! The stacks and threads of a chunk, as those of the profile.

use super::chunk::{Chunk, Event};
use super::values::Value;
use crate::import::samples::Samples;
use pct_profile::Language;
use pct_profile::model::{FrameId, Object, ObjectId, ObjectKind, ProcessId, StackId, ThreadId};
use rustc_hash::FxHashMap;

/// The type of a constant, and its key.
type Key = (i64, i64);

/// A stack, and whether its outermost frames are missing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StackFound {
    pub(super) stack: Option<StackId>,
    pub(super) is_cut: bool,
}

/// What is known of one chunk's constants.
pub(super) struct Stacks<'c, 'b> {
    chunk: &'c Chunk<'b>,
    stacks: FxHashMap<Key, StackFound>,
    frames: FxHashMap<(Key, Option<Key>), FrameId>,
    threads: FxHashMap<Key, ThreadId>,
}

impl<'c, 'b> Stacks<'c, 'b> {
    pub(super) fn new(chunk: &'c Chunk<'b>) -> Self {
        Self {
            chunk,
            stacks: FxHashMap::default(),
            frames: FxHashMap::default(),
            threads: FxHashMap::default(),
        }
    }

    /// The stack of an event.
    pub(super) fn stack(&mut self, out: &mut Samples, event: &Event) -> StackFound {
        let Some(trace @ Value::Constant { class, key }) = self.chunk.key(event, "stackTrace") else {
            return StackFound::default();
        };
        if let Some(known) = self.stacks.get(&(class, key)) {
            return *known;
        }
        let found = self.found(out, &trace);
        self.stacks.insert((class, key), found);
        found
    }

    fn found(&mut self, out: &mut Samples, trace: &Value) -> StackFound {
        let Some(frames) = self.chunk.inside(trace, "frames") else { return StackFound::default() };
        let mut stack = None;
        for frame in self.chunk.elements(&frames).iter().rev() {
            if let Some(frame) = self.frame(out, frame) {
                stack = Some(out.b.stack(stack, frame));
            }
        }
        let is_cut = stack.is_some() && self.chunk.inside(trace, "truncated") == Some(Value::Number(1));
        StackFound { stack, is_cut }
    }

    fn frame(&mut self, out: &mut Samples, frame: &Value) -> Option<FrameId> {
        let method = self.chunk.inside(frame, "method")?;
        let kind = self.chunk.inside(frame, "type");
        let key = kind.as_ref().and_then(key_of);
        if let Some(known) = key_of(&method).and_then(|method| self.frames.get(&(method, key))) {
            return Some(*known);
        }
        let kind = kind.and_then(|kind| self.chunk.text(&kind)).unwrap_or_default();
        let class = self.chunk.inside(&method, "type");
        let of_class = |field: &str| {
            let value = class.as_ref().and_then(|class| self.chunk.inside(class, field))?;
            self.chunk.text(&value)
        };
        let class_name =
            of_class("name").map(|name| without_address(&name).replace('/', ".")).unwrap_or_default();
        let name =
            self.chunk.inside(&method, "name").and_then(|name| self.chunk.text(&name)).unwrap_or_default();
        let object = match kind.as_str() {
            "Kernel" => out.b.object(Object::new("[kernel]", ObjectKind::Kernel)),
            _ if class_name.is_empty() => out.place("").0,
            _ => self.object(out, class.as_ref(), &class_name),
        };
        let name = match (class_name.as_str(), name.as_str()) {
            ("", name) => name.to_owned(),
            (class, "") => class.to_owned(),
            (class, name) => format!("{class}.{name}"),
        };
        let function = out.function((object, None), &name, 0);
        let frame = out.b.plain_frame(function);
        if let Some(method) = key_of(&method) {
            self.frames.insert((method, key), frame);
        }
        Some(frame)
    }

    /// The module of a class; of one without a name its package, or the class itself.
    fn object(&self, out: &mut Samples, class: Option<&Value>, name: &str) -> ObjectId {
        let package = class.and_then(|class| self.chunk.inside(class, "package"));
        let module = package.and_then(|package| self.chunk.inside(&package, "module"));
        let module = module.and_then(|module| self.chunk.inside(&module, "name"));
        let module = module.and_then(|name| self.chunk.text(&name)).filter(|name| !name.is_empty());
        let place = module.unwrap_or_else(|| match name.rsplit_once('.') {
            Some((package, _)) => package.to_owned(),
            None => name.split('$').next().unwrap_or(name).to_owned(),
        });
        out.b.object(Object::new(&place, ObjectKind::Module(Language::Java)))
    }

    /// The thread of an event; `nobody` for one that names none.
    pub(super) fn thread(
        &mut self,
        out: &mut Samples,
        process: ProcessId,
        nobody: ThreadId,
        event: &Event,
    ) -> ThreadId {
        let named = ["sampledThread", "eventThread"].iter().find_map(|field| self.chunk.key(event, field));
        let Some(thread) = named else { return nobody };
        let Some(key) = key_of(&thread) else { return nobody };
        if let Some(known) = self.threads.get(&key) {
            return *known;
        }
        let number = |field: &str| match self.chunk.inside(&thread, field) {
            Some(Value::Number(number)) => u32::try_from(number).ok().filter(|number| *number > 0),
            _ => None,
        };
        let text = |field: &str| {
            let text = self.chunk.inside(&thread, field).and_then(|text| self.chunk.text(&text));
            text.filter(|text| !text.is_empty())
        };
        let id = number("osThreadId").or_else(|| number("javaThreadId"));
        let name = text("javaName").or_else(|| text("osName"));
        let thread = match (id, name) {
            (None, None) => nobody,
            (id, name) => {
                let (id, name) = (id.unwrap_or(0), name.unwrap_or_default());
                let p = out.b.profile();
                // Each chunk has all of its threads.
                let known = p
                    .threads
                    .ids()
                    .find(|known| p.threads[*known].tid == id && p.threads[*known].name == name);
                known.unwrap_or_else(|| out.b.thread(process, id, &name))
            }
        };
        self.threads.insert(key, thread);
        thread
    }
}

fn key_of(value: &Value) -> Option<Key> {
    match *value {
        Value::Constant { class, key } => Some((class, key)),
        _ => None,
    }
}

/// `Shop$$Lambda` of `Shop$$Lambda/0x00007f3a`, of which each run has another.
fn without_address(name: &str) -> &str {
    let at = ["/0x", "+0x", ".0x"].iter().filter_map(|mark| name.find(mark)).min();
    at.map_or(name, |at| &name[..at])
}
