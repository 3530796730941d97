//! CTF 2 metadata: a JSON text sequence, `RS JSON LF ...`, to [`TraceClass`].
//!
//! Each record is a fragment; one may only refer to those before it. Traces of release candidate 7 are accepted with a
//! warning: field locations as arrays, enumeration types, `uuid` in classes, `default-clock-class-name`.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::error::MetaError;
use crate::model::{
    Base, Bits, BitsKind, ByteOrder, ClockClass, Encoding, EnvValue, EventClass, FieldClass, Kind, Length,
    Location, MAX_CLASSES, MAX_DEPTH, Mappings, Member, Origin, Range, Role, Scope, StreamClass, TraceClass,
    VarInt, VariantOption,
};

type Result<T> = std::result::Result<T, MetaError>;
type Object = Map<String, Value>;

/// Parses a JSON text sequence.
///
/// # Errors
/// The first record that is not JSON or not a fragment as the format asks, with its first line.
pub fn parse(text: &[u8]) -> Result<TraceClass> {
    let mut l = Lowerer::default();
    let mut line = 1;
    for record in text.split(|b| *b == 0x1E) {
        let lines = memchr::memchr_iter(b'\n', record).count();
        if !record.iter().all(|b| b.is_ascii_whitespace() || *b == 0) {
            l.line = line;
            // A packetized text may be padded with zeros.
            let end = record.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
            let v: Value = serde_json::from_slice(&record[..end])
                .map_err(|e| MetaError::new(line + e.line().saturating_sub(1), format!("JSON: {e}")))?;
            l.fragment(&v)?;
        }
        line += lines;
    }
    l.finish()
}

#[derive(Default)]
struct Lowerer {
    line: usize,
    preamble: bool,
    aliases: HashMap<String, FieldClass>,
    used: usize,
    seen_trace: bool,
    uuid: Option<[u8; 16]>,
    uid: Option<String>,
    env: Vec<(String, EnvValue)>,
    clocks: Vec<ClockClass>,
    packet_header: Option<FieldClass>,
    streams: Vec<StreamClass>,
    warnings: Vec<String>,
}

/// Where a field class stands: decides what `default-clock-timestamp` means and whether a role has an effect.
type Place = Option<Scope>;

impl Lowerer {
    fn err<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(MetaError::new(self.line, what))
    }

    fn warn(&mut self, what: &str) {
        let w = format!("line {}: {what}", self.line);
        if self.warnings.len() < 100 {
            self.warnings.push(w);
        }
    }

    fn fragment(&mut self, v: &Value) -> Result<()> {
        let Value::Object(o) = v else { return self.err("fragment that is not an object") };
        let kind = self.text(o, "type")?;
        if !self.preamble && kind != "preamble" {
            return self.err("the first fragment is not a preamble");
        }
        match kind {
            "preamble" => self.preamble(o),
            "field-class-alias" => self.alias(o),
            "trace-class" => self.trace(o),
            "clock-class" => self.clock(o),
            "data-stream-class" => self.stream(o),
            "event-record-class" => self.event(o),
            other => self.err(format!("fragment type `{other}` is not known")),
        }
    }

    fn preamble(&mut self, o: &Object) -> Result<()> {
        if self.preamble {
            return self.err("second preamble");
        }
        self.preamble = true;
        match self.uint(o, "version")? {
            Some(2) => {}
            v => {
                return self
                    .err(format!("version {}: expected 2", v.map_or("is absent".into(), |v| v.to_string())));
            }
        }
        if let Some(Value::Object(x)) = o.get("extensions") {
            let names: Vec<String> = x
                .iter()
                .flat_map(|(ns, v)| {
                    v.as_object().into_iter().flat_map(move |v| v.keys().map(move |k| format!("{ns}:{k}")))
                })
                .collect();
            if !names.is_empty() {
                return self.err(format!("needs extensions that are not known here: {}", names.join(", ")));
            }
        }
        self.uuid = self.uuid_of(o)?;
        Ok(())
    }

    fn uuid_of(&self, o: &Object) -> Result<Option<[u8; 16]>> {
        let Some(v) = o.get("uuid") else { return Ok(None) };
        let bytes: Option<Vec<u8>> = v
            .as_array()
            .and_then(|a| a.iter().map(|v| v.as_u64().and_then(|v| u8::try_from(v).ok())).collect());
        match bytes.and_then(|b| <[u8; 16]>::try_from(b).ok()) {
            Some(u) => Ok(Some(u)),
            None => self.err("uuid: expected 16 integers of 0 to 255"),
        }
    }

    fn text<'a>(&self, o: &'a Object, key: &str) -> Result<&'a str> {
        match self.opt_text(o, key)? {
            Some(t) => Ok(t),
            None => self.err(format!("`{key}` is missing")),
        }
    }

    fn opt_text<'a>(&self, o: &'a Object, key: &str) -> Result<Option<&'a str>> {
        match o.get(key) {
            None => Ok(None),
            Some(Value::String(s)) => Ok(Some(s)),
            Some(_) => self.err(format!("`{key}` is not a string")),
        }
    }

    fn uint(&self, o: &Object, key: &str) -> Result<Option<u64>> {
        match o.get(key) {
            None => Ok(None),
            Some(v) => match v.as_u64() {
                Some(n) => Ok(Some(n)),
                None => self.err(format!("`{key}` is not an unsigned integer")),
            },
        }
    }

    /// Namespace, name and uid of a class as one key.
    fn identity(&self, o: &Object) -> Result<Option<String>> {
        let uid = self.opt_text(o, "uid")?.map(str::to_string);
        let uid = match (uid, self.uuid_of(o)?) {
            (None, Some(u)) => Some(u.iter().map(|b| format!("{b:02x}")).collect()),
            (u, _) => u,
        };
        let parts = [self.opt_text(o, "namespace")?, self.opt_text(o, "name")?];
        Ok(uid.map(|u| parts.iter().flatten().map(|p| format!("{p}:")).chain([u]).collect()))
    }

    fn alias(&mut self, o: &Object) -> Result<()> {
        let name = self.text(o, "name")?.to_string();
        if self.aliases.contains_key(&name) {
            return self.err(format!("field class alias `{name}` is defined twice"));
        }
        let class = self.member(o, "field-class", None)?;
        self.aliases.insert(name, class);
        Ok(())
    }

    fn trace(&mut self, o: &Object) -> Result<()> {
        if std::mem::replace(&mut self.seen_trace, true) {
            return self.err("second trace class");
        }
        self.uid = self.identity(o)?;
        if o.contains_key("uuid") {
            self.warn("`uuid` of a trace class is from before CTF 2.0");
        }
        if let Some(Value::Object(env)) = o.get("environment") {
            for (k, v) in env {
                let v = match v {
                    Value::String(s) => EnvValue::Text(s.clone()),
                    Value::Number(n) => match n.as_i64().map(i128::from).or(n.as_u64().map(i128::from)) {
                        Some(n) => EnvValue::Int(n),
                        None => return self.err(format!("environment: `{k}` is not an integer")),
                    },
                    _ => return self.err(format!("environment: `{k}` is neither an integer nor a string")),
                };
                self.env.push((k.clone(), v));
            }
        }
        self.packet_header = self.structure(o, "packet-header-field-class", Scope::PacketHeader)?;
        Ok(())
    }

    fn clock(&mut self, o: &Object) -> Result<()> {
        let name = self.opt_text(o, "name")?.unwrap_or_default().to_string();
        let id = match self.opt_text(o, "id")? {
            Some(id) => id.to_string(),
            None if name.is_empty() => return self.err("clock class without id"),
            None => {
                self.warn("clock class without `id` is from before CTF 2.0");
                name.clone()
            }
        };
        if self.clocks.iter().any(|c| c.id == id) {
            return self.err(format!("clock class `{id}` is defined twice"));
        }
        let freq = self.uint(o, "frequency")?.unwrap_or(0);
        if freq == 0 {
            return self.err("clock class: `frequency`: expected an integer of 1 or more");
        }
        let uid = self.identity(o)?;
        let origin = match o.get("origin") {
            Some(Value::String(s)) if s == "unix-epoch" => Origin::UnixEpoch,
            Some(Value::Object(x)) => Origin::Other(format!("{x:?}")),
            Some(_) => return self.err("clock class: `origin`"),
            None if name == "monotonic" => Origin::UnixEpoch,
            None => uid.clone().map_or(Origin::Unknown, Origin::Other),
        };
        let (mut offset_s, mut offset) = (0, 0);
        if let Some(v) = o.get("offset-from-origin") {
            let Value::Object(x) = v else {
                return self.err("clock class: `offset-from-origin` is not an object");
            };
            match x.get("seconds") {
                None => {}
                Some(v) => match v.as_i64() {
                    Some(s) => offset_s = s,
                    None => return self.err("clock class: `seconds` is not an integer of 64 bits"),
                },
            }
            offset = i128::from(self.uint(x, "cycles")?.unwrap_or(0));
        }
        let description = self.opt_text(o, "description")?.unwrap_or_default().to_string();
        let precision = self.uint(o, "precision")?.unwrap_or(0);
        self.clocks.push(ClockClass {
            id,
            name,
            uid,
            description,
            freq,
            precision,
            offset_s,
            offset,
            origin,
        });
        Ok(())
    }

    fn stream(&mut self, o: &Object) -> Result<()> {
        let id = self.uint(o, "id")?.unwrap_or(0);
        if self.streams.iter().any(|s| s.id == id) {
            return self.err(format!("data stream class {id} is defined twice"));
        }
        let clock_id = match self.opt_text(o, "default-clock-class-id")? {
            Some(c) => Some(c),
            None => {
                let old = self.opt_text(o, "default-clock-class-name")?;
                if old.is_some() {
                    self.warn("`default-clock-class-name` is from before CTF 2.0");
                }
                old
            }
        };
        let clock = match clock_id {
            None => None,
            Some(c) => match self
                .clocks
                .iter()
                .position(|k| k.id == c || (o.contains_key("default-clock-class-name") && k.name == c))
            {
                Some(i) => Some(i),
                None => return self.err(format!("unknown clock class `{c}`")),
            },
        };
        let name = self.opt_text(o, "name")?.unwrap_or_default().to_string();
        let class = StreamClass {
            id,
            name,
            clock,
            packet_context: self.structure(o, "packet-context-field-class", Scope::PacketContext)?,
            event_header: self.structure(o, "event-record-header-field-class", Scope::EventHeader)?,
            event_context: self.structure(
                o,
                "event-record-common-context-field-class",
                Scope::CommonContext,
            )?,
            events: Vec::new(),
        };
        self.streams.push(class);
        Ok(())
    }

    fn event(&mut self, o: &Object) -> Result<()> {
        let id = self.uint(o, "id")?.unwrap_or(0);
        let stream = self.uint(o, "data-stream-class-id")?.unwrap_or(0);
        let class = EventClass {
            id,
            name: self.opt_text(o, "name")?.unwrap_or_default().to_string(),
            loglevel: log_level(o),
            uri: None,
            context: self.structure(o, "specific-context-field-class", Scope::SpecificContext)?,
            fields: self.structure(o, "payload-field-class", Scope::Payload)?,
        };
        let line = self.line;
        let Some(s) = self.streams.iter_mut().find(|s| s.id == stream) else {
            return self.err(format!("event record class of unknown data stream class {stream}"));
        };
        if s.events.iter().any(|e| e.id == id) {
            return Err(MetaError::new(
                line,
                format!("event record class {id} of data stream class {stream} is defined twice"),
            ));
        }
        s.events.push(class);
        Ok(())
    }

    fn finish(self) -> Result<TraceClass> {
        if !self.preamble {
            return self.err("no preamble");
        }
        Ok(TraceClass {
            major: 2,
            uuid: self.uuid,
            uid: self.uid,
            env: self.env,
            clocks: self.clocks,
            packet_header: self.packet_header,
            streams: self.streams,
            warnings: self.warnings,
        })
    }

    fn structure(&mut self, o: &Object, key: &str, scope: Scope) -> Result<Option<FieldClass>> {
        match o.get(key) {
            None => Ok(None),
            Some(v) => {
                let c = self.class(v, Some(scope), 0)?;
                if c.members().is_none() {
                    return self.err(format!("`{key}` is not a structure"));
                }
                Ok(Some(c))
            }
        }
    }

    fn member(&mut self, o: &Object, key: &str, place: Place) -> Result<FieldClass> {
        match o.get(key) {
            Some(v) => self.class(v, place, 0),
            None => self.err(format!("`{key}` is missing")),
        }
    }

    fn count(&mut self, c: &FieldClass, weight: usize) -> Result<()> {
        self.used = self.used.saturating_add(weight);
        if self.used > MAX_CLASSES {
            return self.err(format!("field classes unfold to more than {MAX_CLASSES} fields"));
        }
        if c.depth > MAX_DEPTH {
            return self.err(format!("field classes nested deeper than {MAX_DEPTH}"));
        }
        Ok(())
    }

    fn class(&mut self, v: &Value, place: Place, depth: usize) -> Result<FieldClass> {
        if depth > MAX_DEPTH {
            return self.err(format!("field classes nested deeper than {MAX_DEPTH}"));
        }
        let o = match v {
            Value::Object(o) => o,
            Value::String(name) => {
                let Some(c) = self.aliases.get(name) else {
                    return self.err(format!("unknown field class alias `{name}`"));
                };
                let (weight, mut c) = (c.weight, c.clone());
                self.count(&c, weight)?;
                place_roles(&mut c, place);
                return Ok(c);
            }
            _ => return self.err("field class that is neither an object nor an alias"),
        };
        let kind = self.text(o, "type")?;
        let mut c = self.described(kind, o, place, depth)?;
        c.role = self
            .roles(o)?
            .contains(&Role::TraceUuid)
            .then_some(Role::TraceUuid)
            .filter(|_| matches!(c.kind, Kind::Blob(Length::Fixed(16))));
        place_roles(&mut c, place);
        self.count(&c, 1)?;
        Ok(c)
    }

    fn described(&mut self, kind: &str, o: &Object, place: Place, depth: usize) -> Result<FieldClass> {
        let part = |l: &mut Self, key: &str| match o.get(key) {
            Some(v) => l.class(v, place, depth + 1),
            None => l.err(format!("{kind}: `{key}` is missing")),
        };
        match kind {
            "fixed-length-bit-array" => self.bits(o, BitsKind::Array),
            "fixed-length-bit-map" => self.bits(o, BitsKind::Map),
            "fixed-length-boolean" => self.bits(o, BitsKind::Bool),
            "fixed-length-unsigned-integer" => self.bits(o, BitsKind::Unsigned),
            "fixed-length-signed-integer" => self.bits(o, BitsKind::Signed),
            "fixed-length-floating-point-number" => self.bits(o, BitsKind::Float),
            "fixed-length-unsigned-enumeration" | "fixed-length-signed-enumeration" => {
                self.warn("enumeration field classes are from before CTF 2.0");
                self.bits(o, if kind.contains("unsigned") { BitsKind::Unsigned } else { BitsKind::Signed })
            }
            "variable-length-unsigned-integer"
            | "variable-length-signed-integer"
            | "variable-length-unsigned-enumeration"
            | "variable-length-signed-enumeration" => {
                if kind.ends_with("enumeration") {
                    self.warn("enumeration field classes are from before CTF 2.0");
                }
                let v = VarInt {
                    signed: !kind.contains("unsigned"),
                    base: self.base(o)?,
                    mappings: self.mappings(o, "mappings")?,
                    roles: self.roles(o)?,
                };
                Ok(FieldClass::new(8, Kind::VarInt(v)))
            }
            "null-terminated-string" => Ok(FieldClass::new(8, Kind::String(self.encoding(o)?))),
            "static-length-string" | "dynamic-length-string" => {
                Ok(FieldClass::new(8, Kind::Text(self.length(o, kind)?, self.encoding(o)?)))
            }
            "static-length-blob" | "dynamic-length-blob" => {
                Ok(FieldClass::new(8, Kind::Blob(self.length(o, kind)?)))
            }
            "structure" => {
                let own = self.alignment(o, "minimum-alignment")?;
                let mut members: Vec<Member> = Vec::new();
                let mut seen = std::collections::HashSet::new();
                for m in self.list(o, "member-classes")? {
                    let Value::Object(m) = m else {
                        return self.err("structure member that is not an object");
                    };
                    let name = self.text(m, "name")?.to_string();
                    if !seen.insert(name.clone()) {
                        return self.err(format!("structure: member `{name}` is defined twice"));
                    }
                    let Some(v) = m.get("field-class") else {
                        return self.err(format!("member `{name}`: `field-class` is missing"));
                    };
                    let class = self.class(v, place, depth + 1)?;
                    members.push(Member { raw_name: name.clone(), name, class });
                }
                Ok(FieldClass::new(own, Kind::Struct(members)))
            }
            "static-length-array" | "dynamic-length-array" => {
                let own = self.alignment(o, "minimum-alignment")?;
                let len = self.length(o, kind)?;
                let element = part(self, "element-field-class")?;
                Ok(FieldClass::new(own, Kind::Array(len, Box::new(element))))
            }
            "optional" => {
                let location = self.location(o, "selector-field-location")?;
                let ranges = o.get("selector-field-ranges").map(|v| self.ranges(v)).transpose()?;
                let inner = part(self, "field-class")?;
                Ok(FieldClass::new(1, Kind::Optional(location, ranges, Box::new(inner))))
            }
            "variant" => {
                let location = self.location(o, "selector-field-location")?;
                let mut options = Vec::new();
                for v in self.list(o, "options")? {
                    let Value::Object(x) = v else { return self.err("variant option that is not an object") };
                    let name = self.opt_text(x, "name")?.unwrap_or_default().to_string();
                    let Some(r) = x.get("selector-field-ranges") else {
                        return self.err("variant option without `selector-field-ranges`");
                    };
                    let ranges = Some(self.ranges(r)?);
                    let Some(v) = x.get("field-class") else {
                        return self.err("variant option without `field-class`");
                    };
                    options.push(VariantOption {
                        raw_name: name.clone(),
                        name,
                        ranges,
                        class: self.class(v, place, depth + 1)?,
                    });
                }
                if options.is_empty() {
                    return self.err("variant without options");
                }
                Ok(FieldClass::new(1, Kind::Variant(Some(location), options)))
            }
            other => self.err(format!("field class type `{other}` is not known")),
        }
    }

    fn list<'a>(&self, o: &'a Object, key: &str) -> Result<&'a [Value]> {
        match o.get(key) {
            None => Ok(&[]),
            Some(Value::Array(a)) => Ok(a),
            Some(_) => self.err(format!("`{key}` is not an array")),
        }
    }

    fn alignment(&self, o: &Object, key: &str) -> Result<u64> {
        match self.uint(o, key)? {
            None => Ok(1),
            Some(a) if a.is_power_of_two() && a <= 1 << 31 => Ok(a),
            Some(a) => self.err(format!("`{key}` {a}: expected a power of two up to 2^31")),
        }
    }

    fn bits(&mut self, o: &Object, kind: BitsKind) -> Result<FieldClass> {
        let len = match self.uint(o, "length")? {
            Some(n @ 1..=64) => n as u32,
            Some(n) => return self.err(format!("fixed-length field of {n} bits: 1 to 64 are supported")),
            None => return self.err("`length` is missing"),
        };
        if kind == BitsKind::Float && len != 32 && len != 64 {
            return self.err(format!("floating-point number of {len} bits: 32 and 64 are supported"));
        }
        let order = match self.text(o, "byte-order")? {
            "little-endian" => ByteOrder::Little,
            "big-endian" => ByteOrder::Big,
            b => return self.err(format!("byte order `{b}`")),
        };
        let custom = if order == ByteOrder::Little { "first-to-last" } else { "last-to-first" };
        let reversed = match self.opt_text(o, "bit-order")? {
            None => false,
            Some(b @ ("first-to-last" | "last-to-first")) => b != custom,
            Some(b) => return self.err(format!("bit order `{b}`")),
        };
        let mappings = self.mappings(o, if kind == BitsKind::Map { "flags" } else { "mappings" })?;
        let b = Bits {
            len,
            order,
            reversed,
            kind,
            base: self.base(o)?,
            is_enum: mappings.is_some() && matches!(kind, BitsKind::Unsigned | BitsKind::Signed),
            mappings,
            text: false,
            roles: self.roles(o)?,
            clock: None,
        };
        Ok(FieldClass::new(self.alignment(o, "alignment")?, Kind::Bits(b)))
    }

    fn base(&self, o: &Object) -> Result<Base> {
        match self.uint(o, "preferred-display-base")? {
            None | Some(10) => Ok(Base::Decimal),
            Some(2) => Ok(Base::Binary),
            Some(8) => Ok(Base::Octal),
            Some(16) => Ok(Base::Hexadecimal),
            Some(b) => self.err(format!("`preferred-display-base` {b}")),
        }
    }

    fn encoding(&self, o: &Object) -> Result<Encoding> {
        Ok(match self.opt_text(o, "encoding")? {
            None | Some("utf-8") => Encoding::Utf8,
            Some("utf-16le") => Encoding::Utf16Le,
            Some("utf-16be") => Encoding::Utf16Be,
            Some("utf-32le") => Encoding::Utf32Le,
            Some("utf-32be") => Encoding::Utf32Be,
            Some(e) => return self.err(format!("encoding `{e}`")),
        })
    }

    fn length(&mut self, o: &Object, kind: &str) -> Result<Length> {
        if kind.starts_with("static") {
            return match self.uint(o, "length")? {
                Some(n) => Ok(Length::Fixed(n)),
                None => self.err(format!("{kind}: `length` is missing")),
            };
        }
        Ok(Length::Field(self.location(o, "length-field-location")?))
    }

    fn location(&mut self, o: &Object, key: &str) -> Result<Location> {
        let (origin, path) = match o.get(key) {
            Some(Value::Object(x)) => (self.opt_text(x, "origin")?, self.list(x, "path")?),
            Some(Value::Array(a)) => {
                self.warn("field locations as arrays are from before CTF 2.0");
                let Some(Value::String(origin)) = a.first() else {
                    return self.err(format!("`{key}` without an origin"));
                };
                (Some(origin.as_str()), &a[1..])
            }
            _ => return self.err(format!("`{key}` is missing or not an object")),
        };
        let origin = match origin {
            None => None,
            Some("packet-header") => Some(Scope::PacketHeader),
            Some("packet-context") => Some(Scope::PacketContext),
            Some("event-record-header") => Some(Scope::EventHeader),
            Some("event-record-common-context") => Some(Scope::CommonContext),
            Some("event-record-specific-context") => Some(Scope::SpecificContext),
            Some("event-record-payload") => Some(Scope::Payload),
            Some(x) => return self.err(format!("`{key}`: origin `{x}` is not known")),
        };
        let mut names = Vec::new();
        for p in path {
            match p {
                Value::String(s) => names.push(Some(s.clone())),
                Value::Null => names.push(None),
                _ => return self.err(format!("`{key}`: path element that is neither a name nor null")),
            }
        }
        if names.is_empty() {
            return self.err(format!("`{key}`: empty path"));
        }
        Ok(Location { origin, path: names, line: self.line })
    }

    fn ranges(&self, v: &Value) -> Result<Vec<Range>> {
        let number = |v: &Value| v.as_i64().map(i128::from).or(v.as_u64().map(i128::from));
        let range = |v: &Value| match v.as_array().map(Vec::as_slice) {
            Some([lo, hi]) => Some(Range { lo: number(lo)?, hi: number(hi)? }).filter(|r| r.lo <= r.hi),
            _ => None,
        };
        let all: Option<Vec<Range>> = v.as_array().and_then(|a| a.iter().map(range).collect());
        match all {
            Some(r) if !r.is_empty() => Ok(r),
            _ => self.err("ranges: expected a non-empty array of pairs of integers, the lesser first"),
        }
    }

    fn mappings(&self, o: &Object, key: &str) -> Result<Option<Arc<Mappings>>> {
        let map = match o.get(key) {
            None => return Ok(None),
            Some(Value::Object(m)) => m,
            Some(_) => return self.err(format!("`{key}` is not an object")),
        };
        let all: Result<Vec<_>> = map.iter().map(|(k, v)| Ok((k.clone(), self.ranges(v)?))).collect();
        Ok(Some(Arc::new(Mappings(all?))))
    }

    fn roles(&self, o: &Object) -> Result<Vec<Role>> {
        let mut out = Vec::new();
        for r in self.list(o, "roles")? {
            out.push(match r.as_str() {
                Some("packet-magic-number") => Role::PacketMagic,
                Some("metadata-stream-uuid") => Role::TraceUuid,
                Some("data-stream-class-id") => Role::StreamClassId,
                Some("data-stream-id") => Role::StreamId,
                Some("default-clock-timestamp") => Role::Clock,
                Some("packet-end-default-clock-timestamp") => Role::PacketEnd,
                Some("packet-total-length") => Role::PacketTotal,
                Some("packet-content-length") => Role::PacketContent,
                Some("packet-sequence-number") => Role::PacketSeq,
                Some("discarded-event-record-counter-snapshot") => Role::Discarded,
                Some("event-record-class-id") => Role::EventId,
                // A role that is not known has no effect here.
                _ => continue,
            });
        }
        Ok(out)
    }
}

/// Keeps the roles that mean something in a scope, and gives the CPU its own by name: CTF 2 has none for it.
fn place_roles(c: &mut FieldClass, place: Place) {
    let Some(scope) = place else { return };
    let keep = |roles: &mut Vec<Role>| {
        if scope == Scope::PacketContext {
            roles.iter_mut().filter(|r| **r == Role::Clock).for_each(|r| *r = Role::PacketBegin);
        }
        roles.retain(|r| match scope {
            Scope::PacketHeader => {
                matches!(r, Role::PacketMagic | Role::TraceUuid | Role::StreamClassId | Role::StreamId)
            }
            Scope::PacketContext => {
                matches!(
                    r,
                    Role::PacketBegin
                        | Role::PacketEnd
                        | Role::PacketTotal
                        | Role::PacketContent
                        | Role::PacketSeq
                        | Role::Discarded
                        | Role::Cpu
                )
            }
            Scope::EventHeader => matches!(r, Role::Clock | Role::EventId),
            _ => false,
        });
    };
    match &mut c.kind {
        Kind::Bits(b) => keep(&mut b.roles),
        Kind::VarInt(v) => keep(&mut v.roles),
        Kind::Struct(m) => {
            for m in m {
                place_roles(&mut m.class, place);
                let cpu = scope == Scope::PacketContext && m.name == "cpu_id";
                match &mut m.class.kind {
                    Kind::Bits(b) if cpu && !b.roles.contains(&Role::Cpu) => b.roles.push(Role::Cpu),
                    Kind::VarInt(v) if cpu && !v.roles.contains(&Role::Cpu) => v.roles.push(Role::Cpu),
                    _ => {}
                }
            }
        }
        Kind::Array(_, e) | Kind::Optional(_, _, e) => place_roles(e, place),
        Kind::Variant(_, o) => o.iter_mut().for_each(|o| place_roles(&mut o.class, place)),
        _ => {}
    }
}

fn log_level(o: &Object) -> Option<i64> {
    let attributes = o.get("attributes").or_else(|| o.get("user-attributes"))?.as_object()?;
    ["lttng.org,2009", "babeltrace.org,2020"].iter().find_map(|ns| {
        let ns = attributes.get(*ns)?.as_object()?;
        ns.get("log-level").or_else(|| ns.get("loglevel")).and_then(Value::as_i64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(records: &[&str]) -> Result<TraceClass> {
        parse(records.iter().map(|r| format!("\x1e{r}\n")).collect::<String>().as_bytes())
    }

    const PREAMBLE: &str = r#"{"type":"preamble","version":2}"#;

    #[test]
    fn wrong_records_are_errors_with_their_line() {
        for (records, line, what) in [
            (vec![r#"{"type":"trace-class"}"#], 1, "preamble"),
            (vec![r#"{"type":"preamble","version":3}"#], 1, "version 3"),
            (vec![r#"{"type":"preamble","version":2,"extensions":{"a":{"b":1}}}"#], 1, "a:b"),
            (vec![PREAMBLE, "{\n\"type\":,}"], 3, "JSON"),
            (vec![PREAMBLE, r#"{"type":"event-record-class"}"#], 2, "unknown data stream class 0"),
            (vec![PREAMBLE, r#"{"type":"data-stream-class","default-clock-class-id":"x"}"#], 2, "clock"),
            (
                vec![
                    PREAMBLE,
                    r#"{"type":"field-class-alias","name":"a","field-class":{"type":"fixed-length-unsigned-integer","length":65,"byte-order":"little-endian"}}"#,
                ],
                2,
                "65",
            ),
            (
                vec![PREAMBLE, r#"{"type":"data-stream-class","packet-context-field-class":"nope"}"#],
                2,
                "nope",
            ),
        ] {
            let e = tried(&records).expect_err(records[records.len() - 1]);
            assert!(e.line == line && e.what.contains(what), "{records:?}: {e}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_without_recursion_to_the_end() {
        let mut class = r#"{"type":"null-terminated-string"}"#.to_string();
        for _ in 0..50 {
            class = format!(r#"{{"type":"static-length-array","length":1,"element-field-class":{class}}}"#);
        }
        let alias = format!(r#"{{"type":"field-class-alias","name":"a","field-class":{class}}}"#);
        let user = r#"{"type":"field-class-alias","name":"b","field-class":{"type":"static-length-array","length":1,"element-field-class":"a"}}"#;
        assert!(tried(&[PREAMBLE, &alias, user]).is_ok());
        let mut deep = r#""a""#.to_string();
        for _ in 0..20 {
            deep = format!(r#"{{"type":"static-length-array","length":1,"element-field-class":{deep}}}"#);
        }
        let deep = format!(r#"{{"type":"field-class-alias","name":"c","field-class":{deep}}}"#);
        assert!(tried(&[PREAMBLE, &alias, &deep]).unwrap_err().what.contains("nested"));
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
    }
}
