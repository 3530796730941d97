//! A naive writer of CTF traces, bit by bit, and the same values as JSON to compare with.
#![allow(dead_code, reason = "the tests of the command use some of it")]

use std::path::Path;

use lttv_ctf::model::{BitsKind, Scope};
use lttv_ctf::{FieldValue, Reader, View, float, integer};
use pct_kit::Dice;
use serde_json::{Map, Value, json};

/// Bits in the order in which they are read.
#[derive(Default, Clone)]
pub(crate) struct Bits {
    pub(crate) bytes: Vec<u8>,
    pub(crate) x: u64,
}

impl Bits {
    pub(crate) fn align(&mut self, a: u64) {
        while !self.x.is_multiple_of(a) {
            self.bit(0, 0);
        }
    }

    /// Writes one bit at its position in the byte (`shift` from the least significant).
    fn bit(&mut self, b: u64, shift: u64) {
        if self.x.is_multiple_of(8) {
            self.bytes.push(0);
        }
        *self.bytes.last_mut().unwrap() |= ((b & 1) << shift) as u8;
        self.x += 1;
    }

    pub(crate) fn int(&mut self, v: u64, len: u32, big: bool) {
        for i in 0..len {
            let in_byte = self.x % 8;
            if big { self.bit(v >> (len - 1 - i), 7 - in_byte) } else { self.bit(v >> i, in_byte) }
        }
    }

    pub(crate) fn bytes(&mut self, b: &[u8]) {
        self.align(8);
        b.iter().for_each(|b| self.int(u64::from(*b), 8, false));
    }
}

/// A class that can be written in TSDL, in JSON, and as random values.
#[derive(Clone, Debug)]
pub(crate) enum Class {
    Int {
        len: u32,
        signed: bool,
        big: bool,
        align: u64,
    },
    Float {
        len: u32,
        big: bool,
        align: u64,
    },
    Str,
    /// A length field, followed by that many elements.
    Seq(Box<Class>),
    Arr(u64, Box<Class>),
    /// Text of fixed length.
    Chars(u64),
    Struct(u64, Vec<Class>),
    /// A tag (8 bits), followed by one of these.
    Var(Vec<Class>),
}

/// A random class. Bit-packed numbers are all `big` or all not: two byte orders may not share a byte.
pub(crate) fn class(r: &mut Dice, depth: u32, big: bool) -> Class {
    match r.below(if depth == 0 { 5 } else { 10 }) {
        0 | 1 => {
            let len = 1 + r.below(64) as u32;
            Class::Int { len, signed: r.below(2) == 1, big, align: 1 << r.below(5) }
        }
        2 => {
            let len = [8, 16, 32, 64][r.below(4) as usize];
            Class::Int { len, signed: r.below(2) == 1, big: r.below(2) == 1, align: 8 << r.below(4) }
        }
        3 => Class::Str,
        4 => match r.below(2) {
            0 => Class::Chars(r.below(20)),
            _ => Class::Float { len: 32 << r.below(2), big, align: 1 << r.below(7) },
        },
        5 => Class::Seq(Box::new(class(r, depth - 1, big))),
        6 => Class::Arr(r.below(20), Box::new(class(r, depth - 1, big))),
        7 => Class::Var((0..=r.below(3)).map(|_| class(r, depth - 1, big)).collect()),
        _ => Class::Struct(1 << r.below(7), (0..r.below(5)).map(|_| class(r, depth - 1, big)).collect()),
    }
}

impl Class {
    /// The alignment of the whole.
    pub(crate) fn align(&self) -> u64 {
        match self {
            Class::Int { align, .. } | Class::Float { align, .. } => *align,
            Class::Str | Class::Chars(_) => 8,
            // Written as a length (8, aligned) and an array beside it: see `tsdl`.
            Class::Seq(e) => e.align(),
            Class::Arr(_, e) => e.align(),
            Class::Struct(a, m) => m.iter().map(Class::align_with_length).fold(*a, u64::max),
            Class::Var(_) => 1,
        }
    }

    /// Alignment as a member of a structure, including the length or tag field before it.
    pub(crate) fn align_with_length(&self) -> u64 {
        match self {
            Class::Seq(_) | Class::Var(_) => self.align().max(8),
            Class::Arr(_, e) => e.wrapped().align(),
            c => c.align(),
        }
    }

    /// Puts an element or option that needs a field of its own before it into a structure.
    pub(crate) fn wrapped(&self) -> Class {
        match self {
            Class::Seq(_) | Class::Var(_) => Class::Struct(1, vec![self.clone()]),
            c => c.clone(),
        }
    }

    /// TSDL members for a field: the part before its name, the name, and the dimensions of surrounding arrays.
    pub(crate) fn tsdl(&self, name: &str, dims: &str) -> String {
        let sign = |s: bool| if s { "true" } else { "false" };
        let order = |b: bool| if b { "be" } else { "le" };
        match self {
            Class::Int { len, signed, big, align } => {
                format!(
                    "integer {{ size = {len}; signed = {}; byte_order = {}; align = {align}; }} {name}{dims};\n",
                    sign(*signed),
                    order(*big)
                )
            }
            Class::Float { len, big, align } => {
                let (e, m) = if *len == 32 { (8, 24) } else { (11, 53) };
                format!(
                    "floating_point {{ exp_dig = {e}; mant_dig = {m}; byte_order = {}; align = {align}; }} {name}{dims};\n",
                    order(*big)
                )
            }
            Class::Str => format!("string {name}{dims};\n"),
            Class::Chars(n) => {
                format!("integer {{ size = 8; align = 8; encoding = UTF8; }} {name}{dims}[{n}];\n")
            }
            Class::Seq(e) => {
                format!(
                    "integer {{ size = 8; }} _{name}_length;\n{}",
                    e.wrapped().tsdl(name, &format!("[_{name}_length]"))
                )
            }
            Class::Arr(n, e) => e.wrapped().tsdl(name, &format!("{dims}[{n}]")),
            Class::Struct(a, m) => {
                let inner: String =
                    m.iter().enumerate().map(|(i, m)| m.tsdl(&format!("_f{i}"), "")).collect();
                format!("struct {{\n{inner}}} align({a}) {name}{dims};\n")
            }
            Class::Var(o) => {
                let labels: String = (0..o.len()).map(|i| format!("o{i} = {i}, ")).collect();
                let options: String =
                    o.iter().enumerate().map(|(i, c)| c.wrapped().tsdl(&format!("o{i}"), "")).collect();
                format!(
                    "enum : integer {{ size = 8; }} {{ {labels} }} {name}_tag;\nvariant <{name}_tag> {{\n{options}}} {name};\n"
                )
            }
        }
    }

    /// Members of a CTF 2 structure.
    pub(crate) fn json(&self, name: &str) -> Vec<Value> {
        let order = |b: bool| if b { "big-endian" } else { "little-endian" };
        let len8 = |n: String, map: Option<Value>| {
            let mut c = json!({"type": "fixed-length-unsigned-integer", "length": 8, "alignment": 8, "byte-order": "little-endian"});
            if let Some(m) = map {
                c["mappings"] = m;
            }
            json!({"name": n, "field-class": c})
        };
        match self {
            Class::Seq(e) => {
                let c = json!({"type": "dynamic-length-array", "element-field-class": e.wrapped().json_class(), "length-field-location": {"path": [format!("{name}_len")]}});
                vec![len8(format!("{name}_len"), None), json!({"name": name, "field-class": c})]
            }
            Class::Var(o) => {
                let options: Vec<Value> =
                    o.iter().enumerate().map(|(i, c)| json!({"name": format!("o{i}"), "selector-field-ranges": [[i, i]], "field-class": c.wrapped().json_class()})).collect();
                let c = json!({"type": "variant", "selector-field-location": {"path": [format!("{name}_tag")]}, "options": options});
                vec![len8(format!("{name}_tag"), None), json!({"name": name, "field-class": c})]
            }
            Class::Int { len, signed, big, align } => {
                let t = if *signed { "fixed-length-signed-integer" } else { "fixed-length-unsigned-integer" };
                vec![
                    json!({"name": name, "field-class": {"type": t, "length": len, "alignment": align, "byte-order": order(*big)}}),
                ]
            }
            Class::Float { len, big, align } => {
                vec![
                    json!({"name": name, "field-class": {"type": "fixed-length-floating-point-number", "length": len, "alignment": align, "byte-order": order(*big)}}),
                ]
            }
            c => vec![json!({"name": name, "field-class": c.json_class()})],
        }
    }

    fn json_class(&self) -> Value {
        match self {
            Class::Str => json!({"type": "null-terminated-string"}),
            Class::Chars(n) => json!({"type": "static-length-string", "length": n}),
            Class::Arr(n, e) => {
                json!({"type": "static-length-array", "length": n, "element-field-class": e.wrapped().json_class()})
            }
            Class::Struct(a, m) => {
                let members: Vec<Value> =
                    m.iter().enumerate().flat_map(|(i, m)| m.json(&format!("f{i}"))).collect();
                json!({"type": "structure", "minimum-alignment": a, "member-classes": members})
            }
            c => c.json("e").pop().unwrap()["field-class"].clone(),
        }
    }

    /// Writes a random value and returns it as JSON, without lengths and tags.
    pub(crate) fn write(&self, r: &mut Dice, w: &mut Bits) -> Value {
        match self {
            Class::Int { len, signed, big, align } => {
                w.align(*align);
                let v = if r.below(4) == 0 { u64::MAX } else { r.roll() };
                let v = if *len == 64 { v } else { v & ((1 << len) - 1) };
                w.int(v, *len, *big);
                if *signed {
                    let s = 64 - len;
                    json!(((v << s) as i64) >> s)
                } else {
                    json!(v)
                }
            }
            Class::Float { len, big, align } => {
                w.align(*align);
                if *len == 32 {
                    let v = (r.below(1 << 20) as f32) / 64.0 - 1000.0;
                    w.int(u64::from(v.to_bits()), 32, *big);
                    json!(f64::from(v))
                } else {
                    let v = (r.below(1 << 40) as f64) / 1024.0 - 1e6;
                    w.int(v.to_bits(), 64, *big);
                    json!(v)
                }
            }
            Class::Str => {
                let s: String =
                    (0..r.below(12)).map(|_| ['a', 'é', '✓', '"', ' '][r.below(5) as usize]).collect();
                w.bytes(s.as_bytes());
                w.bytes(&[0]);
                json!(s)
            }
            Class::Chars(n) => {
                let used = r.below(n + 1) as usize;
                let mut b = vec![b'x'; *n as usize];
                if used < b.len() {
                    b[used] = 0;
                }
                w.bytes(&b);
                json!("x".repeat(used))
            }
            Class::Seq(e) => {
                let n = r.below(5);
                w.align(8);
                w.int(n, 8, false);
                w.align(e.wrapped().align());
                Value::Array((0..n).map(|_| e.wrapped().write(r, w)).collect())
            }
            Class::Arr(n, e) => {
                w.align(e.wrapped().align());
                Value::Array((0..*n).map(|_| e.wrapped().write(r, w)).collect())
            }
            Class::Struct(_, m) => {
                w.align(self.align());
                Value::Object(m.iter().enumerate().map(|(i, m)| (format!("f{i}"), m.write(r, w))).collect())
            }
            Class::Var(o) => {
                let i = r.below(o.len() as u64);
                w.align(8);
                w.int(i, 8, false);
                o[i as usize].wrapped().write(r, w)
            }
        }
    }
}

/// The value of a view in the writer's form.
pub(crate) fn shown(v: View<'_, '_>) -> Value {
    match v.seen() {
        FieldValue::Bits(b, raw) => match b.kind {
            BitsKind::Float => json!(float(b, raw)),
            BitsKind::Bool => Value::Bool(raw != 0),
            _ => number(integer(b.signed(), raw)),
        },
        FieldValue::VarInt(i, raw) => number(integer(i.signed, raw)),
        FieldValue::Text(t) => Value::String(t.into_owned()),
        FieldValue::Blob(b) => Value::String(b.iter().map(|b| format!("{b:02x}")).collect()),
        // Lengths and tags are left out.
        FieldValue::Struct => Value::Object(
            v.parts()
                .filter(|(n, _)| !n.ends_with("_len") && !n.ends_with("_length") && !n.ends_with("_tag"))
                .map(|(n, p)| (n.to_string(), shown(p)))
                .collect(),
        ),
        FieldValue::Array(_) => Value::Array(v.parts().map(|(_, p)| shown(p)).collect()),
        FieldValue::Variant(_, v) | FieldValue::Optional(Some(v)) => shown(v),
        FieldValue::Optional(None) => Value::Null,
    }
}

fn number(n: i128) -> Value {
    i64::try_from(n).map(Value::from).or_else(|_| u64::try_from(n).map(Value::from)).unwrap()
}

pub(crate) fn scope(r: &Reader, s: Scope) -> Value {
    r.with(s, shown).unwrap_or_else(|| Value::Object(Map::new()))
}

/// A trace in both languages over one stream file.
pub(crate) struct Written {
    pub(crate) tsdl: String,
    pub(crate) json: String,
    pub(crate) stream: Vec<u8>,
    /// Clock value and payload of each event.
    pub(crate) events: Vec<(u64, Value)>,
}

/// Writes a trace with one event class of random fields, in packets, with a 27-bit timestamp.
pub(crate) fn written(seed: u64, packets: u64, events: u64) -> Written {
    let mut r = Dice::new(seed);
    let big = r.below(2) == 1;
    let mut members: Vec<Class> = (0..1 + r.below(5)).map(|_| class(&mut r, 3, big)).collect();
    members.push(Class::Str);
    let payload = Class::Struct(1 << r.below(5), members);
    let order = if big { "be" } else { "le" };
    let long_order = if big { "big-endian" } else { "little-endian" };
    let Class::Struct(align, m) = &payload else { unreachable!() };
    let inner: String = m.iter().enumerate().map(|(i, m)| m.tsdl(&format!("_f{i}"), "")).collect();
    let u = |n: u32, a: u32, map: &str| {
        format!("integer {{ size = {n}; align = {a}; byte_order = {order}; {map} }}")
    };
    let map = "map = clock.c.value;";
    let tsdl = format!(
        "/* CTF 1.8 */\ntrace {{ major = 1; minor = 8; byte_order = {order}; packet.header := struct {{ {} magic; }}; }};\n\
         clock {{ name = c; freq = 1000000000; }};\n\
         stream {{ packet.context := struct {{ {} packet_size; {} content_size; {} timestamp_begin; {} timestamp_end; {} packet_seq_num; {} events_discarded; {} cpu_id; }};\n\
         event.header := struct {{ {} id; {} timestamp; }}; }};\n\
         event {{ name = \"e\"; id = 3; fields := struct {{\n{inner}}} align({align}); }};\n",
        u(32, 8, ""),
        u(32, 8, ""),
        u(32, 8, ""),
        u(64, 8, map),
        u(64, 8, map),
        u(32, 8, ""),
        u(32, 8, ""),
        u(32, 8, ""),
        u(5, 1, ""),
        u(27, 1, map)
    );
    let j = |name: &str, n: u32, a: u32, role: Option<&str>| json!({"name": name, "field-class": {"type": "fixed-length-unsigned-integer", "length": n, "alignment": a, "byte-order": long_order, "roles": role.into_iter().collect::<Vec<_>>()}});
    let payload_json: Vec<Value> = m.iter().enumerate().flat_map(|(i, m)| m.json(&format!("f{i}"))).collect();
    let fragments = [
        json!({"type": "preamble", "version": 2}),
        json!({"type": "trace-class", "packet-header-field-class": {"type": "structure", "member-classes": [j("magic", 32, 8, Some("packet-magic-number"))]}}),
        json!({"type": "clock-class", "id": "c", "frequency": 1_000_000_000}),
        json!({"type": "data-stream-class", "default-clock-class-id": "c",
            "packet-context-field-class": {"type": "structure", "member-classes": [
                j("packet_size", 32, 8, Some("packet-total-length")), j("content_size", 32, 8, Some("packet-content-length")),
                j("timestamp_begin", 64, 8, Some("default-clock-timestamp")), j("timestamp_end", 64, 8, Some("packet-end-default-clock-timestamp")),
                j("packet_seq_num", 32, 8, Some("packet-sequence-number")), j("events_discarded", 32, 8, Some("discarded-event-record-counter-snapshot")), j("cpu_id", 32, 8, None)]},
            "event-record-header-field-class": {"type": "structure", "member-classes": [j("id", 5, 1, Some("event-record-class-id")), j("timestamp", 27, 1, Some("default-clock-timestamp"))]}}),
        json!({"type": "event-record-class", "id": 3, "name": "e", "payload-field-class": {"type": "structure", "minimum-alignment": align, "member-classes": payload_json}}),
    ];
    let json: String = fragments.iter().map(|f| format!("\x1e{f}\n")).collect();
    let (mut stream, mut all, mut clock) = (Vec::new(), Vec::new(), r.below(1 << 40));
    for p in 0..packets {
        let mut w = Bits::default();
        w.int(0xC1FC_1FC1, 32, big);
        let sizes = w.x;
        w.int(0, 64, big);
        let begin = clock;
        w.int(begin, 64, big);
        w.int(0, 64, big);
        w.int(p, 32, big);
        w.int(0, 32, big);
        w.int(2, 32, big);
        for _ in 0..events {
            clock += if r.below(10) == 0 { (1 << 27) - 1 } else { r.below(1000) };
            w.int(3, 5, big);
            w.int(clock & ((1 << 27) - 1), 27, big);
            all.push((clock, payload.write(&mut r, &mut w)));
        }
        let content = w.x;
        w.align(8);
        (0..r.below(9)).for_each(|_| w.int(0xEE, 8, big));
        let mut head = Bits::default();
        head.int(0xC1FC_1FC1, 32, big);
        head.int(w.bytes.len() as u64 * 8, 32, big);
        head.int(content, 32, big);
        head.int(begin, 64, big);
        head.int(clock, 64, big);
        let _ = sizes;
        w.bytes[..head.bytes.len()].copy_from_slice(&head.bytes);
        stream.extend(w.bytes);
    }
    Written { tsdl, json, stream, events: all }
}

/// Writes a trace into a directory.
pub(crate) fn put(dir: &Path, metadata: &[u8], streams: &[(&str, &[u8])]) {
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join("metadata"), metadata).unwrap();
    for (name, bytes) in streams {
        std::fs::write(dir.join(name), bytes).unwrap();
    }
}

/// Reads all events of all traces at a path, as far as possible. Returns their number and the errors.
pub(crate) fn drain(dir: &Path, limit: u64) -> (u64, Vec<String>) {
    let (mut n, mut errors) = (0, Vec::new());
    let all = match lttv_ctf::open_each(dir, &lttv_ctf::Options::default()) {
        Ok(a) => a,
        Err(e) => return (0, vec![e.to_string()]),
    };
    for t in all {
        let t = match t {
            Ok(t) => t,
            Err(e) => {
                errors.push(e.to_string());
                continue;
            }
        };
        errors.extend(t.lost_files.iter().map(ToString::to_string));
        let mut text = String::new();
        for s in 0..t.stream_count() {
            let _ = t.stream_span(s);
            let mut r = t.reader(s);
            let mut next = r.rewind();
            let mut last = None;
            while n < limit {
                match next {
                    Ok(Some(_)) => {
                        n += 1;
                        text.clear();
                        lttv_ctf::text::line(&mut text, t.class(), &r);
                        last = Some(r.position());
                        next = r.advance();
                    }
                    Ok(None) => break,
                    Err(e) => {
                        errors.push(e.to_string());
                        break;
                    }
                }
            }
            if let Some(p) = last {
                let _ = r.seek(p);
                let _ = r.seek(lttv_ctf::Position { bit: p.bit + 3, ..p });
            }
            let _ = r.seek_time(1_000_000);
        }
    }
    (n, errors)
}
