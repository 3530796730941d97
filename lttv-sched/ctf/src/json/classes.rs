//! Turns field classes (JSON objects or names of aliases) into [`FieldClass`].

use std::sync::Arc;

use serde_json::Value;

use super::{ClassScope, Lowerer, Object, Result};
use crate::model::{
    Base, Bits, BitsKind, ByteOrder, Encoding, FieldClass, FieldKind, Length, Location, MAX_CLASSES,
    MAX_DEPTH, Mappings, Member, Range, Role, Scope, VarInt, VariantOption,
};

impl Lowerer {
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

    pub(super) fn class(&mut self, v: &Value, place: ClassScope, depth: usize) -> Result<FieldClass> {
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
            .filter(|_| matches!(c.kind, FieldKind::Blob(Length::Fixed(16))));
        place_roles(&mut c, place);
        self.count(&c, 1)?;
        Ok(c)
    }

    fn described(&mut self, kind: &str, o: &Object, place: ClassScope, depth: usize) -> Result<FieldClass> {
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
                Ok(FieldClass::new(8, FieldKind::VarInt(v)))
            }
            "null-terminated-string" => Ok(FieldClass::new(8, FieldKind::String(self.encoding(o)?))),
            "static-length-string" | "dynamic-length-string" => {
                Ok(FieldClass::new(8, FieldKind::Text(self.length(o, kind)?, self.encoding(o)?)))
            }
            "static-length-blob" | "dynamic-length-blob" => {
                Ok(FieldClass::new(8, FieldKind::Blob(self.length(o, kind)?)))
            }
            "structure" => {
                let own = self.alignment(o, "minimum-alignment")?;
                let mut members: Vec<Member> = Vec::new();
                let mut seen = rustc_hash::FxHashSet::default();
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
                Ok(FieldClass::new(own, FieldKind::Struct(members)))
            }
            "static-length-array" | "dynamic-length-array" => {
                let own = self.alignment(o, "minimum-alignment")?;
                let len = self.length(o, kind)?;
                let element = part(self, "element-field-class")?;
                Ok(FieldClass::new(own, FieldKind::Array(len, Box::new(element))))
            }
            "optional" => {
                let location = self.location(o, "selector-field-location")?;
                let ranges = o.get("selector-field-ranges").map(|v| self.ranges(v)).transpose()?;
                let inner = part(self, "field-class")?;
                Ok(FieldClass::new(1, FieldKind::Optional(location, ranges, Box::new(inner))))
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
                Ok(FieldClass::new(1, FieldKind::Variant(Some(location), options)))
            }
            other => self.err(format!("field class type `{other}` is not known")),
        }
    }

    pub(super) fn list<'a>(&self, o: &'a Object, key: &str) -> Result<&'a [Value]> {
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
            Some(n @ 1..=64) => u32::try_from(n).unwrap_or(64),
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
        Ok(FieldClass::new(self.alignment(o, "alignment")?, FieldKind::Bits(b)))
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
                // An unknown role has no effect here.
                _ => continue,
            });
        }
        Ok(out)
    }
}

/// Keeps the roles that have a meaning in a scope. The CPU gets its role by name, because CTF 2 has none for it.
fn place_roles(c: &mut FieldClass, place: ClassScope) {
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
        FieldKind::Bits(b) => keep(&mut b.roles),
        FieldKind::VarInt(v) => keep(&mut v.roles),
        FieldKind::Struct(m) => {
            for m in m {
                place_roles(&mut m.class, place);
                let cpu = match scope {
                    Scope::PacketContext | Scope::CommonContext | Scope::SpecificContext => {
                        m.name == "cpu_id"
                    }
                    Scope::Payload => m.name == "perf_cpu",
                    _ => false,
                };
                match &mut m.class.kind {
                    FieldKind::Bits(b) if cpu && !b.roles.contains(&Role::Cpu) => b.roles.push(Role::Cpu),
                    FieldKind::VarInt(v) if cpu && !v.roles.contains(&Role::Cpu) => v.roles.push(Role::Cpu),
                    _ => {}
                }
            }
        }
        FieldKind::Array(_, e) | FieldKind::Optional(_, _, e) => place_roles(e, place),
        FieldKind::Variant(_, o) => o.iter_mut().for_each(|o| place_roles(&mut o.class, place)),
        _ => {}
    }
}
