//! Turns blocks into classes of traces, clocks, streams and events.

use std::sync::Arc;

use super::ast::{Attr, AttrValue, Block, Entry};
use super::fields::{Types, byte_order};
use super::parser;
use crate::error::MetaError;
use crate::model::{
    BitsKind, ClockClass, EnvValue, EventClass, FieldClass, FieldKind, Length, Origin, Role, Scope,
    StreamClass, TraceClass,
};
use rustc_hash::FxHashSet;

type Result<T> = std::result::Result<T, MetaError>;

fn err<T>(line: usize, what: impl Into<String>) -> Result<T> {
    Err(MetaError::new(line, what))
}

/// Classes of a whole text.
pub(super) fn lower(text: &[u8]) -> Result<TraceClass> {
    let heads = parser::blocks(text, &["trace", "env", "clock"])?;
    let blocks = |word: &'static str| heads.iter().filter(move |block| block.word == word);
    let mut traces = blocks("trace");
    let trace = traces.next().ok_or_else(|| MetaError::new(1, "no trace block"))?;
    if let Some(second) = traces.next() {
        return err(second.line, "second trace block");
    }
    let mut warnings = Vec::new();
    let head = trace_head(trace, &mut warnings)?;
    let mut env = Vec::new();
    for b in blocks("env") {
        env_block(b, &mut env);
    }
    let mut clocks: Vec<ClockClass> = Vec::new();
    for b in blocks("clock") {
        let c = clock_block(b, &mut warnings)?;
        if clocks.iter().any(|o| o.id == c.id) {
            return err(b.line, format!("clock `{}` is defined twice", c.id));
        }
        clocks.push(c);
    }
    let names: Vec<String> = clocks.iter().map(|c| c.id.clone()).collect();
    let mut types = Types::new(head.order, &names, &env);
    let (mut packet_header, mut streams, mut events) = (None, Vec::new(), Vec::new());
    let mut shared = FxHashSet::default();
    parser::parse(text, &mut |entry| {
        match entry {
            Entry::Decl(d) => types.decl(&d)?,
            Entry::Block(b) => match b.word.as_str() {
                "trace" => packet_header = trace_types(&b, &mut types)?,
                "stream" => streams.push(stream_block(&b, &mut types)?),
                "event" => events.push(event_block(&b, &mut types, &mut shared)?),
                _ => {}
            },
            Entry::Attr(a) => return err(a.line, "attribute outside a block"),
            Entry::TypeAttr { line, .. } => return err(line, "type outside a block"),
        }
        Ok(())
    })?;
    warnings.append(&mut types.warnings);
    let mut streams = number_streams(streams)?;
    attach_events(&mut streams, events)?;
    if let Some(h) = &mut packet_header {
        assign_roles(h, Scope::PacketHeader);
    }
    for (s, line) in &mut streams {
        finish_stream(s, *line)?;
    }
    let mut streams: Vec<StreamClass> = streams.into_iter().map(|s| s.0).collect();
    // Some tracers leave out the mapping if there is only one clock, others the clock too.
    if clocks.len() <= 1 {
        let mut mapped = false;
        for s in &mut streams {
            mapped |= map_times(s, 0);
        }
        if mapped && clocks.is_empty() {
            warnings.push("there is no clock: fields called timestamp are taken for nanoseconds".to_string());
            clocks.push(nanoseconds("default"));
        }
    }
    Ok(TraceClass { major: 1, uuid: head.uuid, uid: None, env, clocks, packet_header, streams, warnings })
}

struct Head {
    order: Option<crate::model::ByteOrder>,
    uuid: Option<[u8; 16]>,
}

fn attrs(b: &Block) -> impl Iterator<Item = &Attr> {
    b.entries.iter().filter_map(|e| match e {
        Entry::Attr(a) => Some(a),
        _ => None,
    })
}

fn once(seen: &mut Vec<String>, path: &str, line: usize) -> Result<()> {
    if seen.iter().any(|s| s == path) {
        return err(line, format!("attribute `{path}` is given twice"));
    }
    seen.push(path.to_string());
    Ok(())
}

fn unknown(a: &Attr, of: &str, warnings: &mut Vec<String>) {
    if warnings.len() < 100 {
        warnings.push(format!("line {}: unknown attribute `{}` of {of} skipped", a.line, a.path));
    }
}

fn trace_head(b: &Block, warnings: &mut Vec<String>) -> Result<Head> {
    let (mut order, mut uuid, mut major, mut minor, mut seen) = (None, None, None, None, Vec::new());
    for a in attrs(b) {
        once(&mut seen, &a.path, a.line)?;
        match (a.path.as_str(), &a.value) {
            ("major", AttrValue::Int(1)) => major = Some(1),
            ("minor", AttrValue::Int(8)) => minor = Some(8),
            ("major", v) => return err(a.line, format!("major version {}: expected 1", value(v))),
            ("minor", v) => return err(a.line, format!("minor version {}: expected 8", value(v))),
            ("byte_order", v) => order = Some(byte_order(v, a.line)?),
            ("uuid", AttrValue::Text(t)) => {
                uuid = Some(parse_uuid(t).ok_or_else(|| MetaError::new(a.line, format!("uuid \"{t}\"")))?);
            }
            _ => unknown(a, "trace", warnings),
        }
    }
    if major.is_none() || minor.is_none() {
        return err(b.line, "trace block without major or minor version");
    }
    Ok(Head { order, uuid })
}

fn value(v: &AttrValue) -> String {
    match v {
        AttrValue::Int(v) => v.to_string(),
        AttrValue::Text(t) | AttrValue::Word(t) => t.clone(),
    }
}

/// `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` to bytes.
pub(crate) fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let hex: Vec<u8> = text.bytes().filter(|c| *c != b'-').collect();
    if hex.len() != 32 || !text.is_ascii() {
        return None;
    }
    let mut out = [0; 16];
    for (i, o) in out.iter_mut().enumerate() {
        let digit = |c: u8| char::from(c).to_digit(16);
        *o = u8::try_from(digit(hex[2 * i])? * 16 + digit(hex[2 * i + 1])?).ok()?;
    }
    Some(out)
}

fn env_block(b: &Block, env: &mut Vec<(String, EnvValue)>) {
    for a in attrs(b) {
        let v = match &a.value {
            AttrValue::Int(v) => EnvValue::Int(*v),
            AttrValue::Text(t) | AttrValue::Word(t) => EnvValue::Text(t.clone()),
        };
        match env.iter_mut().find(|(k, _)| *k == a.path) {
            Some(old) => old.1 = v,
            None => env.push((a.path.clone(), v)),
        }
    }
}

fn clock_block(b: &Block, warnings: &mut Vec<String>) -> Result<ClockClass> {
    let mut c = nanoseconds("");
    let mut absolute = false;
    let mut seen = Vec::new();
    for a in attrs(b) {
        once(&mut seen, &a.path, a.line)?;
        match (a.path.as_str(), &a.value) {
            ("name", AttrValue::Text(t) | AttrValue::Word(t)) => c.id = t.clone(),
            ("uuid", AttrValue::Text(t)) => c.uid = Some(t.clone()),
            ("description", AttrValue::Text(t)) => c.description = t.clone(),
            ("freq", AttrValue::Int(v)) => match u64::try_from(*v) {
                Ok(f) if f > 0 => c.freq = f,
                _ => return err(a.line, format!("clock frequency {v}: expected 1 or more")),
            },
            ("precision", AttrValue::Int(v)) => c.precision = u64::try_from(*v).unwrap_or(0),
            ("offset_s", AttrValue::Int(v)) => {
                c.offset_s = i64::try_from(*v)
                    .map_err(|_| MetaError::new(a.line, format!("offset_s {v} does not fit 64 bits")))?;
            }
            ("offset", AttrValue::Int(v)) => c.offset = *v,
            ("absolute", AttrValue::Int(v)) => absolute = *v != 0,
            ("absolute", AttrValue::Word(w)) => absolute = w.eq_ignore_ascii_case("true"),
            _ => unknown(a, "clock", warnings),
        }
    }
    if c.id.is_empty() {
        return err(b.line, "clock without name");
    }
    c.name = c.id.clone();
    // LTTng's clock `monotonic` has its offset from the epoch.
    c.origin = match &c.uid {
        _ if absolute || c.name == "monotonic" => Origin::UnixEpoch,
        Some(u) => Origin::Other(u.clone()),
        None => Origin::Unknown,
    };
    Ok(c)
}

/// The types of a block by their attribute, in an inner scope of names.
fn block_types(b: &Block, types: &mut Types<'_>, known: &[&str]) -> Result<Vec<(String, FieldClass)>> {
    types.scoped(|types| {
        let mut out: Vec<(String, FieldClass)> = Vec::new();
        for e in &b.entries {
            match e {
                Entry::Decl(d) => types.decl(d)?,
                Entry::TypeAttr { path, ty, line } => {
                    let c = types.ty(ty)?;
                    if out.iter().any(|(p, _)| p == path) {
                        return err(*line, format!("`{path}` is given twice"));
                    }
                    if !known.contains(&path.as_str()) {
                        types
                            .warnings
                            .push(format!("line {line}: unknown type `{path}` of {} skipped", b.word));
                        continue;
                    }
                    if c.members().is_none() {
                        return err(*line, format!("`{path}` is not a structure"));
                    }
                    out.push((path.clone(), c));
                }
                _ => {}
            }
        }
        Ok(out)
    })
}

fn take_class(types: &mut Vec<(String, FieldClass)>, path: &str) -> Option<FieldClass> {
    types.iter().position(|(p, _)| p == path).map(|i| types.swap_remove(i).1)
}

fn trace_types(b: &Block, types: &mut Types<'_>) -> Result<Option<FieldClass>> {
    Ok(take_class(&mut block_types(b, types, &["packet.header"])?, "packet.header"))
}

fn id_of(a: &Attr) -> Result<u64> {
    match a.value {
        AttrValue::Int(v) => {
            u64::try_from(v).map_err(|_| MetaError::new(a.line, format!("id {v} is below 0")))
        }
        _ => err(a.line, "id that is not an integer"),
    }
}

struct Unnumbered<T> {
    id: Option<u64>,
    line: usize,
    class: T,
}

fn stream_block(b: &Block, types: &mut Types<'_>) -> Result<Unnumbered<StreamClass>> {
    let (mut id, mut seen) = (None, Vec::new());
    for a in attrs(b) {
        once(&mut seen, &a.path, a.line)?;
        match a.path.as_str() {
            "id" => id = Some(id_of(a)?),
            _ => unknown(a, "stream", &mut types.warnings),
        }
    }
    let mut t = block_types(b, types, &["packet.context", "event.header", "event.context"])?;
    let class = StreamClass {
        id: 0,
        name: String::new(),
        clock: None,
        packet_context: take_class(&mut t, "packet.context"),
        event_header: take_class(&mut t, "event.header"),
        event_context: take_class(&mut t, "event.context"),
        events: Vec::new(),
    };
    Ok(Unnumbered { id, line: b.line, class })
}

struct RawEvent {
    stream: Option<u64>,
    event: Unnumbered<EventClass>,
}

fn event_block(
    b: &Block,
    types: &mut Types<'_>,
    shared: &mut FxHashSet<Arc<FieldClass>>,
) -> Result<RawEvent> {
    let (mut id, mut stream, mut seen) = (None, None, Vec::new());
    let mut class =
        EventClass { id: 0, name: String::new(), loglevel: None, uri: None, context: None, fields: None };
    for a in attrs(b) {
        once(&mut seen, &a.path, a.line)?;
        match (a.path.as_str(), &a.value) {
            ("name", AttrValue::Text(t) | AttrValue::Word(t)) => class.name = t.clone(),
            ("id", _) => id = Some(id_of(a)?),
            ("stream_id", _) => stream = Some(id_of(a)?),
            ("loglevel", AttrValue::Int(v)) => class.loglevel = i64::try_from(*v).ok(),
            ("model.emf.uri", AttrValue::Text(t)) => class.uri = Some(t.clone()),
            _ => unknown(a, "event", &mut types.warnings),
        }
    }
    let mut t = block_types(b, types, &["context", "fields"])?;
    let mut take = |path, scope| {
        let mut class = take_class(&mut t, path)?;
        assign_roles(&mut class, scope);
        assign_clock_roles(&mut class);
        Some(one_for_all(class, shared))
    };
    class.context = take("context", Scope::SpecificContext);
    class.fields = take("fields", Scope::Payload);
    Ok(RawEvent { stream, event: Unnumbered { id, line: b.line, class } })
}

fn number_streams(raw: Vec<Unnumbered<StreamClass>>) -> Result<Vec<(StreamClass, usize)>> {
    let mut out: Vec<(StreamClass, usize)> = Vec::new();
    let only = raw.len() == 1;
    for s in raw {
        let id = match s.id {
            Some(id) => id,
            None if only => 0,
            None => {
                return err(s.line, "stream without id: only a trace's sole stream class may leave it out");
            }
        };
        if out.iter().any(|(o, _)| o.id == id) {
            return err(s.line, format!("stream {id} is defined twice"));
        }
        out.push((StreamClass { id, ..s.class }, s.line));
    }
    if out.is_empty() {
        let class = StreamClass {
            id: 0,
            name: String::new(),
            clock: None,
            packet_context: None,
            event_header: None,
            event_context: None,
            events: Vec::new(),
        };
        out.push((class, 1));
    }
    Ok(out)
}

fn attach_events(streams: &mut [(StreamClass, usize)], events: Vec<RawEvent>) -> Result<()> {
    let mut counts = rustc_hash::FxHashMap::default();
    let sole = if streams.len() == 1 { Some(streams[0].0.id) } else { None };
    for e in &events {
        *counts.entry(e.stream.or(sole)).or_insert(0) += 1;
    }
    let mut seen = rustc_hash::FxHashSet::default();
    for e in events {
        let line = e.event.line;
        let stream = match e.stream.or(sole) {
            Some(s) => s,
            None => return err(line, "event without stream_id in a trace of several streams"),
        };
        let Some((class, _)) = streams.iter_mut().find(|(s, _)| s.id == stream) else {
            return err(line, format!("event of unknown stream {stream}"));
        };
        let id = match e.event.id {
            Some(id) => id,
            None if counts[&Some(stream)] == 1 => 0,
            None => return err(line, "event without id: only a stream's sole event class may leave it out"),
        };
        if !seen.insert((stream, id)) {
            return err(line, format!("event {id} of stream {stream} is defined twice"));
        }
        class.events.push(EventClass { id, ..e.event.class });
    }
    Ok(())
}

/// Calls `f` for each fixed-length field of a class.
fn each_bits(c: &mut FieldClass, f: &mut dyn FnMut(&mut crate::model::Bits)) {
    match &mut c.kind {
        FieldKind::Bits(b) => f(b),
        FieldKind::Struct(m) => m.iter_mut().for_each(|m| each_bits(&mut m.class, f)),
        FieldKind::Array(_, e) => each_bits(e, f),
        FieldKind::Variant(_, o) => o.iter_mut().for_each(|o| each_bits(&mut o.class, f)),
        FieldKind::Optional(_, _, c) => each_bits(c, f),
        _ => {}
    }
}

/// A field that is mapped to a clock updates it, unless it is a bound of its packet.
fn assign_clock_roles(class: &mut FieldClass) {
    each_bits(class, &mut |bits| {
        let bound = bits.roles.iter().any(|role| matches!(role, Role::PacketBegin | Role::PacketEnd));
        if bits.clock.is_some() && !bound && !bits.roles.contains(&Role::Clock) {
            bits.roles.push(Role::Clock);
        }
    });
}

/// Adds the clocks that the fields of a class are mapped to.
fn add_clocks(class: &FieldClass, clocks: &mut Vec<usize>) {
    match &class.kind {
        FieldKind::Bits(bits) => {
            if let Some(clock) = bits.clock.filter(|clock| !clocks.contains(clock)) {
                clocks.push(clock);
            }
        }
        FieldKind::Struct(members) => members.iter().for_each(|member| add_clocks(&member.class, clocks)),
        FieldKind::Array(_, element) | FieldKind::Optional(_, _, element) => add_clocks(element, clocks),
        FieldKind::Variant(_, options) => options.iter().for_each(|option| add_clocks(&option.class, clocks)),
        _ => {}
    }
}

/// One shared copy of a class for all event classes that have an equal one.
fn one_for_all(class: FieldClass, shared: &mut FxHashSet<Arc<FieldClass>>) -> Arc<FieldClass> {
    if let Some(known) = shared.get(&class) {
        return known.clone();
    }
    let class = Arc::new(class);
    shared.insert(class.clone());
    class
}

/// In CTF 1.8 the name and scope of a field give its role. An event's id may stand in any variant of its header, which
/// then tells what the id before it does not, or in a structure.
fn assign_roles(c: &mut FieldClass, scope: Scope) {
    let role = |name: &str| match (scope, name) {
        (Scope::PacketHeader, "magic") => Some(Role::PacketMagic),
        (Scope::PacketHeader, "uuid") => Some(Role::TraceUuid),
        (Scope::PacketHeader, "stream_id") => Some(Role::StreamClassId),
        (Scope::PacketHeader, "stream_instance_id") => Some(Role::StreamId),
        (Scope::PacketContext, "packet_size") => Some(Role::PacketTotal),
        (Scope::PacketContext, "content_size") => Some(Role::PacketContent),
        (Scope::PacketContext, "timestamp_begin") => Some(Role::PacketBegin),
        (Scope::PacketContext, "timestamp_end") => Some(Role::PacketEnd),
        (Scope::PacketContext, "events_discarded") => Some(Role::Discarded),
        (Scope::PacketContext, "packet_seq_num") => Some(Role::PacketSeq),
        (Scope::PacketContext, "cpu_id") => Some(Role::Cpu),
        (Scope::EventHeader, "id") => Some(Role::EventId),
        // A stream of several CPUs: LTTng's context field (its names begin with `_`), and the scope that perf's
        // converter uses.
        (Scope::CommonContext | Scope::SpecificContext, "_cpu_id" | "cpu_id") => Some(Role::Cpu),
        (Scope::Payload, "perf_cpu") => Some(Role::Cpu),
        _ => None,
    };
    let FieldKind::Struct(members) = &mut c.kind else { return };
    let has_id = members.iter().any(|m| m.raw_name == "id");
    for m in members {
        let found = role(&m.raw_name);
        match (&mut m.class.kind, found) {
            (FieldKind::Bits(b), Some(r)) if matches!(b.kind, BitsKind::Unsigned | BitsKind::Signed) => {
                b.roles.push(r)
            }
            (FieldKind::Array(Length::Fixed(16), e), Some(Role::TraceUuid))
                if matches!(&e.kind, FieldKind::Bits(b) if b.len == 8) && e.align <= 8 =>
            {
                m.class.role = Some(Role::TraceUuid);
            }
            (FieldKind::Variant(_, options), _) if scope == Scope::EventHeader => {
                options.iter_mut().for_each(|o| assign_roles(&mut o.class, scope));
            }
            (FieldKind::Struct(_), _) if scope == Scope::EventHeader && !has_id => {
                assign_roles(&mut m.class, scope);
            }
            _ => {}
        }
    }
}

/// Gives roles to the fields of a stream and finds its clock.
fn finish_stream(s: &mut StreamClass, line: usize) -> Result<()> {
    let scopes = [
        (Scope::PacketContext, &mut s.packet_context),
        (Scope::EventHeader, &mut s.event_header),
        (Scope::CommonContext, &mut s.event_context),
    ];
    let mut clocks: Vec<usize> = Vec::new();
    for (scope, class) in scopes {
        if let Some(class) = class {
            assign_roles(class, scope);
            assign_clock_roles(class);
            add_clocks(class, &mut clocks);
        }
    }
    for class in s.events.iter().flat_map(|event| event.context.iter().chain(&event.fields)) {
        add_clocks(class, &mut clocks);
    }
    match clocks[..] {
        [] => {}
        [k] => s.clock = Some(k),
        _ => return err(line, format!("stream {} maps fields to {} different clocks", s.id, clocks.len())),
    }
    Ok(())
}

/// Maps the fields of a stream that are called timestamps to a clock, unless they are mapped. Returns whether any was.
fn map_times(s: &mut StreamClass, clock: usize) -> bool {
    let mut mapped = false;
    for (class, names) in [
        (&mut s.packet_context, &["timestamp_begin", "timestamp_end"][..]),
        (&mut s.event_header, &["timestamp"]),
    ] {
        if let Some(class) = class {
            map_named(class, names, &mut |bits| {
                bits.clock = Some(clock);
                mapped = true;
            });
            assign_clock_roles(class);
        }
    }
    if mapped {
        s.clock = Some(clock);
    }
    mapped
}

/// Calls `f` for each unsigned field of one of these names that is mapped to no clock, also in structures and variants.
fn map_named(class: &mut FieldClass, names: &[&str], f: &mut dyn FnMut(&mut crate::model::Bits)) {
    match &mut class.kind {
        FieldKind::Struct(members) => {
            for m in members {
                match &mut m.class.kind {
                    FieldKind::Bits(bits) => {
                        if names.contains(&m.raw_name.as_str())
                            && bits.clock.is_none()
                            && matches!(bits.kind, BitsKind::Unsigned)
                        {
                            f(bits);
                        }
                    }
                    _ => map_named(&mut m.class, names, f),
                }
            }
        }
        FieldKind::Variant(_, options) => options.iter_mut().for_each(|o| map_named(&mut o.class, names, f)),
        _ => {}
    }
}

/// A clock of which nothing is told but its name: what babeltrace2 takes a trace for that has times and no clock.
fn nanoseconds(name: &str) -> ClockClass {
    ClockClass {
        id: name.to_string(),
        name: name.to_string(),
        uid: None,
        description: String::new(),
        freq: 1_000_000_000,
        precision: 0,
        offset_s: 0,
        offset: 0,
        origin: Origin::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(text: &str) -> Result<TraceClass> {
        super::super::parse(text.as_bytes())
    }

    const TRACE: &str = "trace { major = 1; minor = 8; byte_order = be; };\n";

    #[test]
    fn native_order_is_that_of_a_trace_block_further_down() {
        let t = class(&format!("typealias integer {{ size = 16; }} := u16;\n{TRACE}event {{ name = e; fields := struct {{ u16 a; }}; }};")).unwrap();
        let fields = t.streams[0].events[0].fields.as_ref().unwrap();
        let FieldKind::Bits(b) = &fields.members().unwrap()[0].class.kind else { panic!() };
        assert_eq!(b.order, crate::model::ByteOrder::Big);
    }

    #[test]
    fn semantic_errors_name_their_line() {
        for (text, line, what) in [
            ("trace { major = 1; minor = 9; byte_order = le; };", 1, "minor"),
            (
                "trace { major = 1; minor = 8; byte_order = le; };\ntrace { major = 1; minor = 8; byte_order = le; };",
                2,
                "second",
            ),
            (
                "trace { major = 1; minor = 8; byte_order = le; };\nevent { name = a; fields := struct { nope x; }; };",
                2,
                "nope",
            ),
            (
                "trace { major = 1; minor = 8; byte_order = le; };\ntypealias integer { size = 65; } := a;",
                2,
                "65",
            ),
            (
                "trace { major = 1; minor = 8; byte_order = le; };\ntypealias integer { size = 8; align = 3; } := a;",
                2,
                "alignment",
            ),
            (
                "trace { major = 1; minor = 8; byte_order = le; };\ntypealias string := a;\ntypealias string := a;",
                3,
                "twice",
            ),
            (
                "trace { major = 1; minor = 8; byte_order = le; };\nevent { id = 0; };\nevent { id = 0; };",
                3,
                "twice",
            ),
            (
                "trace { major = 1; minor = 8; byte_order = le; };\nevent { name = x; };\nevent { id = 0; };",
                2,
                "without id",
            ),
            ("event { name = x; };", 1, "no trace block"),
        ] {
            let e = class(text).expect_err(text);
            assert!(e.line == line && e.what.contains(what), "{text}: {e}");
        }
    }

    #[test]
    fn types_that_unfold_without_end_are_refused() {
        let mut t =
            format!("{TRACE}typealias integer {{ size = 8; }} := u8;\nstruct s0 {{ u8 a; u8 b; }};\n");
        for i in 1..40 {
            t += &format!("struct s{i} {{ struct s{} a; struct s{} b; }};\n", i - 1, i - 1);
        }
        assert!(class(&t).unwrap_err().what.contains("unfold"));
    }

    #[test]
    fn unknown_attributes_are_warnings() {
        let t = class("trace { major = 1; minor = 8; byte_order = le; colour = 3; };").unwrap();
        assert!(t.warnings[0].contains("colour"));
    }
}
