//! A trace class with all its decode programs.

use std::sync::OnceLock;

use crate::bits::{index, row};
use crate::clock::Clock;
use crate::error::MetaError;
use crate::model::{FieldClass, FieldKind, Role, Scope, StreamClass, TraceClass};
use crate::program::{Program, compile};
use crate::resolve::{ALL, Resolved, RootField, resolve};
use rustc_hash::FxHashMap;

/// Metadata ready for decoding.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) class: TraceClass,
    pub(crate) header: Program,
    pub(crate) streams: Vec<CompiledStream>,
    pub(crate) regs: u32,
    by_id: FxHashMap<u64, usize>,
    resolved: Resolved,
    /// Packets with another UUID than the metadata's are errors.
    pub(crate) strict: bool,
}

#[derive(Debug)]
pub(crate) struct CompiledStream {
    pub(crate) packet_context: Program,
    pub(crate) event_header: Program,
    pub(crate) common: Program,
    events: Vec<OnceLock<Box<CompiledEvent>>>,
    pub(crate) clock: Option<Clock>,
    /// Bits of the longest time in the headers of events; `None`: they have no time.
    pub(crate) time_len: Option<u32>,
    /// Whether a field of its packet context has this role.
    pub(crate) has_seq: bool,
    /// Whether some of its events have their own CPU field.
    pub(crate) event_cpu: bool,
    /// Bits of its counter of discarded events, 64 if it has none.
    pub(crate) discarded_len: u32,
    /// Event id to index: small ids directly, the rest by hash.
    dense: Vec<u32>,
    sparse: FxHashMap<u64, u32>,
    /// The id of its only event class, if no field has ids.
    sole: Option<u64>,
}

/// Programs of an event class. They are made at its first event, because a trace may have many unused classes.
#[derive(Debug)]
pub(crate) struct CompiledEvent {
    pub(crate) specific: Program,
    pub(crate) payload: Program,
    /// A field after the header updates the clock.
    pub(crate) late_clock: bool,
}

fn program(resolved: &Resolved, place: RootField, class: Option<&FieldClass>) -> Program {
    class.map_or_else(Program::default, |class| compile(resolved, place, class))
}

const DENSE: u64 = 1 << 16;

impl Compiled {
    /// Resolves and compiles a class. `shift` (ns) is added to all times; `strict` refuses packets of another trace.
    pub(crate) fn new(class: TraceClass, shift: i64, strict: bool) -> Result<Compiled, MetaError> {
        let resolved = resolve(&class)?;
        let program = |stream, event, scope, c: &Option<FieldClass>| {
            program(&resolved, RootField { stream, event, scope }, c.as_ref())
        };
        let header = program(ALL, ALL, Scope::PacketHeader, &class.packet_header);
        let mut streams = Vec::new();
        for (i, s) in class.streams.iter().enumerate() {
            let i = row(i);
            let mut c = CompiledStream {
                packet_context: program(i, ALL, Scope::PacketContext, &s.packet_context),
                event_header: program(i, ALL, Scope::EventHeader, &s.event_header),
                common: program(i, ALL, Scope::CommonContext, &s.event_context),
                events: s.events.iter().map(|_| OnceLock::new()).collect(),
                clock: s.clock.map(|k| Clock::new(&class.clocks[k], shift)),
                event_cpu: s
                    .event_context
                    .iter()
                    .chain(
                        s.events.iter().flat_map(|e| e.context.iter().chain(&e.fields).map(|class| &**class)),
                    )
                    .any(|c| has_role(c, Role::Cpu)),
                time_len: s.event_header.as_ref().and_then(longest_time),
                has_seq: s.packet_context.as_ref().is_some_and(|c| has_role(c, Role::PacketSeq)),
                discarded_len: s
                    .packet_context
                    .as_ref()
                    .and_then(|c| role_len(c, Role::Discarded))
                    .unwrap_or(64),
                dense: Vec::new(),
                sparse: FxHashMap::default(),
                sole: sole(s),
            };
            for (j, e) in s.events.iter().enumerate() {
                if e.id < DENSE {
                    let id = index(e.id);
                    if c.dense.len() <= id {
                        c.dense.resize(id + 1, ALL);
                    }
                    c.dense[id] = row(j);
                } else {
                    c.sparse.insert(e.id, row(j));
                }
            }
            streams.push(c);
        }
        let by_id = class.streams.iter().enumerate().map(|(i, s)| (s.id, i)).collect();
        Ok(Compiled { header, streams, regs: resolved.regs, by_id, class, resolved, strict })
    }

    /// The programs of an event class.
    #[inline]
    pub(crate) fn event(&self, stream: usize, event: usize) -> &CompiledEvent {
        self.streams[stream].events[event].get_or_init(|| self.compile_event(stream, event))
    }

    #[cold]
    fn compile_event(&self, stream: usize, event: usize) -> Box<CompiledEvent> {
        let class = &self.class.streams[stream];
        let of = &class.events[event];
        let place = |scope| RootField { stream: row(stream), event: row(event), scope };
        Box::new(CompiledEvent {
            specific: program(&self.resolved, place(Scope::SpecificContext), of.context.as_deref()),
            payload: program(&self.resolved, place(Scope::Payload), of.fields.as_deref()),
            late_clock: [class.event_context.as_ref(), of.context.as_deref(), of.fields.as_deref()]
                .into_iter()
                .flatten()
                .any(|c| has_role(c, Role::Clock)),
        })
    }

    /// The stream class with an id; without an id class 0, or the only one.
    pub(crate) fn stream(&self, id: Option<u64>) -> Result<usize, u64> {
        match id {
            Some(id) => self.by_id.get(&id).copied().ok_or(id),
            None if self.streams.len() == 1 => Ok(0),
            None => self.by_id.get(&0).copied().ok_or(0),
        }
    }
}

impl CompiledStream {
    /// The event class with an id from a header.
    #[inline]
    pub(crate) fn event(&self, id: u64) -> Option<u32> {
        let id = self.sole.unwrap_or(id);
        match self.dense.get(usize::try_from(id).ok()?) {
            Some(&ALL) => None,
            Some(j) => Some(*j),
            None => self.sparse.get(&id).copied(),
        }
    }
}

fn sole(s: &StreamClass) -> Option<u64> {
    let has_id = s.event_header.as_ref().is_some_and(|h| has_role(h, Role::EventId));
    match (has_id, &s.events[..]) {
        (false, [only]) => Some(only.id),
        // With several classes and no id: class 0, if there is one.
        (false, _) => Some(0),
        (true, _) => None,
    }
}

/// Bits of the longest field that updates the clock.
fn longest_time(c: &FieldClass) -> Option<u32> {
    match &c.kind {
        FieldKind::Struct(m) => m.iter().filter_map(|m| longest_time(&m.class)).max(),
        FieldKind::Variant(_, o) => o.iter().filter_map(|o| longest_time(&o.class)).max(),
        _ => role_len(c, Role::Clock),
    }
}

fn has_role(c: &FieldClass, role: Role) -> bool {
    role_len(c, role).is_some()
}

/// Bits of the first field with a role (64 for LEB128).
fn role_len(c: &FieldClass, role: Role) -> Option<u32> {
    match &c.kind {
        FieldKind::Bits(b) => b.roles.contains(&role).then_some(b.len),
        FieldKind::VarInt(v) => v.roles.contains(&role).then_some(64),
        FieldKind::Struct(m) => m.iter().find_map(|m| role_len(&m.class, role)),
        FieldKind::Array(_, e) | FieldKind::Optional(_, _, e) => role_len(e, role),
        FieldKind::Variant(_, o) => o.iter().find_map(|o| role_len(&o.class, role)),
        _ => None,
    }
}
