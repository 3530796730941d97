//! Turns type expressions into field classes: attributes, scopes of names, declarators.

use std::sync::Arc;

use super::ast::{Attr, AttrValue, Decl, Declarator, Dim, Enumerator, FieldEntry, TypeExpr, TypeKind};
use crate::error::MetaError;
use crate::model::{
    Base, Bits, BitsKind, ByteOrder, Encoding, EnvValue, FieldClass, FieldKind, Length, Location,
    MAX_CLASSES, MAX_DEPTH, Mappings, Member, Range, Scope, VariantOption,
};
use rustc_hash::FxHashMap;

type Result<T> = std::result::Result<T, MetaError>;

fn err<T>(line: usize, what: impl Into<String>) -> Result<T> {
    Err(MetaError::new(line, what))
}

/// The visible types, from the root inwards, and what a type may refer to.
pub(super) struct Types<'a> {
    /// `alias`, `struct name`, `variant name`, `enum name` -> class; the innermost scope is last.
    scopes: Vec<FxHashMap<String, FieldClass>>,
    native: Option<ByteOrder>,
    clocks: &'a [String],
    env: &'a [(String, EnvValue)],
    /// Classes made so far.
    used: usize,
    pub(super) warnings: Vec<String>,
}

impl<'a> Types<'a> {
    pub(super) fn new(
        native: Option<ByteOrder>,
        clocks: &'a [String],
        env: &'a [(String, EnvValue)],
    ) -> Types<'a> {
        Types { scopes: vec![FxHashMap::default()], native, clocks, env, used: 0, warnings: Vec::new() }
    }

    /// Runs `f` with an inner scope of names.
    pub(super) fn scoped<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.scopes.push(FxHashMap::default());
        let r = f(self);
        self.scopes.pop();
        r
    }

    fn define(&mut self, name: String, class: FieldClass, line: usize) -> Result<()> {
        let scope = self.scopes.last_mut().expect("the root scope is never popped");
        if scope.contains_key(&name) {
            return err(line, format!("type `{name}` is defined twice"));
        }
        scope.insert(name, class);
        Ok(())
    }

    fn find(&mut self, name: &str, line: usize) -> Result<FieldClass> {
        let Some(c) = self.scopes.iter().rev().find_map(|s| s.get(name)) else {
            return err(line, format!("unknown type `{name}`"));
        };
        let (weight, depth) = (c.weight, c.depth);
        self.count(weight, depth, line)?;
        Ok(self.scopes.iter().rev().find_map(|s| s.get(name)).expect("just found").clone())
    }

    fn count(&mut self, weight: usize, depth: usize, line: usize) -> Result<()> {
        self.used = self.used.saturating_add(weight);
        if self.used > MAX_CLASSES {
            return err(line, format!("types unfold to more than {MAX_CLASSES} fields"));
        }
        if depth > MAX_DEPTH {
            return err(line, format!("types nested deeper than {MAX_DEPTH}"));
        }
        Ok(())
    }

    fn made(&mut self, align: u64, kind: FieldKind, line: usize) -> Result<FieldClass> {
        let c = FieldClass::new(align, kind);
        self.count(1, c.depth, line)?;
        Ok(c)
    }

    pub(super) fn decl(&mut self, d: &Decl) -> Result<()> {
        match d {
            Decl::Alias { ty, dims, name, line } => {
                let class = self.ty(ty)?;
                let class = self.with_dims(class, dims, *line)?;
                self.define(name.clone(), class, *line)
            }
            Decl::Typedef { ty, declarators, line } => {
                for d in declarators {
                    let class = self.ty(ty)?;
                    let class = self.with_dims(class, &d.dims, *line)?;
                    self.define(d.name.clone(), class, *line)?;
                }
                Ok(())
            }
            // To lower a type with a name and a body also defines it.
            Decl::Named { ty } => self.ty(ty).map(|_| ()),
        }
    }

    pub(super) fn ty(&mut self, t: &TypeExpr) -> Result<FieldClass> {
        let line = t.line;
        match &t.kind {
            TypeKind::Name(n) => self.find(n, line),
            TypeKind::Integer(a) => self.integer(a, line),
            TypeKind::Float(a) => self.float(a, line),
            TypeKind::String(a) => {
                for a in a {
                    match (a.path.as_str(), &a.value) {
                        ("encoding", v) => {
                            encoding(v, a.line)?;
                        }
                        _ => self.unknown(a, "string"),
                    }
                }
                self.made(8, FieldKind::String(Encoding::Utf8), line)
            }
            TypeKind::Struct { name, body, align } => {
                let own = align.map_or(Ok(1), |a| power_of_two(i128::from(a), line))?;
                let Some(body) = body else {
                    let mut c =
                        self.find(&format!("struct {}", name.as_deref().unwrap_or_default()), line)?;
                    c.align = c.align.max(own);
                    return Ok(c);
                };
                let members = self.scoped(|t| t.members(body))?;
                let members = members
                    .into_iter()
                    .map(|(raw_name, class)| Member { name: strip(&raw_name), raw_name, class })
                    .collect();
                let c = self.made(own, FieldKind::Struct(members), line)?;
                self.keep("struct", name.as_deref(), c, line)
            }
            TypeKind::Variant { name, tag, body } => {
                let tag = tag.as_deref().map(|t| location(t, line));
                let Some(body) = body else {
                    let mut c =
                        self.find(&format!("variant {}", name.as_deref().unwrap_or_default()), line)?;
                    if let (FieldKind::Variant(old, _), Some(tag)) = (&mut c.kind, tag) {
                        *old = Some(tag);
                    }
                    return Ok(c);
                };
                let options = self.scoped(|t| t.members(body))?;
                if options.is_empty() {
                    return err(line, "variant without options");
                }
                let options = options
                    .into_iter()
                    .map(|(raw_name, class)| VariantOption {
                        name: strip(&raw_name),
                        raw_name,
                        ranges: None,
                        class,
                    })
                    .collect();
                let c = self.made(1, FieldKind::Variant(tag, options), line)?;
                self.keep("variant", name.as_deref(), c, line)
            }
            TypeKind::Enum { name, container, body } => {
                let Some(body) = body else {
                    return self.find(&format!("enum {}", name.as_deref().unwrap_or_default()), line);
                };
                let mut c = match container {
                    Some(c) => self.ty(c)?,
                    None => self.find("int", line)?,
                };
                let FieldKind::Bits(b) = &mut c.kind else {
                    return err(line, "enumeration over something else than an integer");
                };
                if !matches!(b.kind, BitsKind::Signed | BitsKind::Unsigned) {
                    return err(line, "enumeration over something else than an integer");
                }
                b.mappings = Some(Arc::new(mappings(body)?));
                b.is_enum = true;
                b.text = false;
                self.keep("enum", name.as_deref(), c, line)
            }
        }
    }

    fn keep(&mut self, what: &str, name: Option<&str>, class: FieldClass, line: usize) -> Result<FieldClass> {
        if let Some(n) = name {
            self.count(class.weight, class.depth, line)?;
            self.define(format!("{what} {n}"), class.clone(), line)?;
        }
        Ok(class)
    }

    fn members(&mut self, body: &[FieldEntry]) -> Result<Vec<(String, FieldClass)>> {
        let mut out: Vec<(String, FieldClass)> = Vec::new();
        let mut seen = rustc_hash::FxHashSet::default();
        for e in body {
            match e {
                FieldEntry::Decl(d) => self.decl(d)?,
                FieldEntry::Field { ty, declarators, line } => {
                    let mut class = Some(self.ty(ty)?);
                    for (i, d) in declarators.iter().enumerate() {
                        let own = if i + 1 == declarators.len() { class.take() } else { class.clone() }
                            .expect("taken by the last one only");
                        if i > 0 {
                            self.count(own.weight, own.depth, *line)?;
                        }
                        if !seen.insert(d.name.clone()) {
                            return err(*line, format!("field `{}` is defined twice", d.name));
                        }
                        out.push(self.declared(own, d, *line)?);
                    }
                }
            }
        }
        Ok(out)
    }

    fn declared(&mut self, class: FieldClass, d: &Declarator, line: usize) -> Result<(String, FieldClass)> {
        Ok((d.name.clone(), self.with_dims(class, &d.dims, line)?))
    }

    /// `T f[a][b]`: f is a arrays of b elements.
    fn with_dims(&mut self, mut class: FieldClass, dims: &[Dim], line: usize) -> Result<FieldClass> {
        for d in dims.iter().rev() {
            let len = match d {
                Dim::Fixed(n) => Length::Fixed(*n),
                Dim::Field(path) => match path.strip_prefix("env.") {
                    Some(key) => {
                        let value = self.env.iter().find(|(k, _)| k == key).map(|(_, v)| v);
                        let Some(n) = value.and_then(EnvValue::unsigned) else {
                            let what = format!("`{path}` is not an unsigned integer of the environment");
                            return err(line, what);
                        };
                        Length::Fixed(n)
                    }
                    None => Length::Field(location(path, line)),
                },
            };
            let align = class.align;
            let text = matches!(&class.kind, FieldKind::Bits(b) if b.text && b.len == 8) && align == 8;
            class = if text {
                self.made(align, FieldKind::Text(len, Encoding::Utf8), line)?
            } else {
                self.made(align, FieldKind::Array(len, Box::new(class)), line)?
            };
        }
        Ok(class)
    }

    fn unknown(&mut self, a: &Attr, of: &str) {
        if self.warnings.len() < 100 {
            self.warnings.push(format!("line {}: unknown attribute `{}` of {of} skipped", a.line, a.path));
        }
    }

    fn order(&self, v: &AttrValue, line: usize) -> Result<Option<ByteOrder>> {
        match v {
            AttrValue::Word(w) | AttrValue::Text(w) if w == "native" => Ok(self.native),
            v => byte_order(v, line).map(Some),
        }
    }

    fn integer(&mut self, attrs: &[Attr], line: usize) -> Result<FieldClass> {
        let (mut size, mut signed, mut align, mut base, mut text, mut clock) =
            (None, false, None, Base::Decimal, false, None);
        let mut order = self.native;
        for a in attrs {
            match a.path.as_str() {
                "size" => match a.value {
                    AttrValue::Int(v @ 1..=64) => size = u32::try_from(v).ok(),
                    _ => return err(a.line, format!("integer size {}: expected 1 to 64", shown(&a.value))),
                },
                "signed" => signed = boolean(&a.value, a.line)?,
                "align" => align = Some(alignment(&a.value, a.line)?),
                "byte_order" => order = self.order(&a.value, a.line)?,
                "base" => base = base_of(&a.value, a.line)?,
                "encoding" => text = encoding(&a.value, a.line)?,
                "map" => {
                    let name = match &a.value {
                        AttrValue::Word(w) | AttrValue::Text(w) => {
                            w.strip_prefix("clock.").and_then(|w| w.strip_suffix(".value"))
                        }
                        AttrValue::Int(_) => None,
                    };
                    let Some(name) = name else {
                        return err(a.line, format!("map {}: expected clock.NAME.value", shown(&a.value)));
                    };
                    match self.clocks.iter().position(|c| c == name) {
                        Some(i) => clock = Some(i),
                        None => return err(a.line, format!("unknown clock `{name}`")),
                    }
                }
                _ => self.unknown(a, "integer"),
            }
        }
        let Some(len) = size else { return err(line, "integer without size") };
        let Some(order) = order.or(if len == 8 { Some(ByteOrder::Little) } else { None }) else {
            return err(line, "integer without byte order, and the trace block gives none");
        };
        let align = align.unwrap_or(if len % 8 == 0 { 8 } else { 1 });
        let kind = if signed { BitsKind::Signed } else { BitsKind::Unsigned };
        let bits = Bits {
            len,
            order,
            reversed: false,
            kind,
            base,
            mappings: None,
            is_enum: false,
            text,
            roles: Vec::new(),
            clock,
        };
        self.made(align, FieldKind::Bits(bits), line)
    }

    fn float(&mut self, attrs: &[Attr], line: usize) -> Result<FieldClass> {
        let (mut exp, mut mant, mut align, mut order) = (None, None, 1, self.native);
        for a in attrs {
            match (a.path.as_str(), &a.value) {
                ("exp_dig", AttrValue::Int(v)) => exp = Some(*v),
                ("mant_dig", AttrValue::Int(v)) => mant = Some(*v),
                ("align", v) => align = alignment(v, a.line)?,
                ("byte_order", v) => order = self.order(v, a.line)?,
                _ => self.unknown(a, "floating_point"),
            }
        }
        let len = match (exp, mant) {
            (Some(8), Some(24)) => 32,
            (Some(11), Some(53)) => 64,
            _ => return err(line, "floating_point: expected exp_dig and mant_dig of 8 and 24 or 11 and 53"),
        };
        let Some(order) = order else {
            return err(line, "floating_point without byte order, and the trace block gives none");
        };
        let bits = Bits {
            len,
            order,
            reversed: false,
            kind: BitsKind::Float,
            base: Base::Decimal,
            mappings: None,
            is_enum: false,
            text: false,
            roles: Vec::new(),
            clock: None,
        };
        self.made(align, FieldKind::Bits(bits), line)
    }
}

/// LTTng adds one `_` before the names of its fields. Exactly one is removed.
pub(super) fn strip(raw: &str) -> String {
    raw.strip_prefix('_').unwrap_or(raw).to_string()
}

fn shown(v: &AttrValue) -> String {
    match v {
        AttrValue::Int(v) => v.to_string(),
        AttrValue::Text(t) => format!("\"{t}\""),
        AttrValue::Word(w) => w.clone(),
    }
}

fn location(path: &str, line: usize) -> Location {
    const ORIGINS: [(&str, Scope); 6] = [
        ("trace.packet.header.", Scope::PacketHeader),
        ("stream.packet.context.", Scope::PacketContext),
        ("stream.event.header.", Scope::EventHeader),
        ("stream.event.context.", Scope::CommonContext),
        ("event.context.", Scope::SpecificContext),
        ("event.fields.", Scope::Payload),
    ];
    let (origin, rest) =
        ORIGINS.iter().find_map(|(p, s)| path.strip_prefix(p).map(|r| (Some(*s), r))).unwrap_or((None, path));
    Location { origin, path: rest.split('.').map(|s| Some(s.to_string())).collect(), line }
}

fn mappings(body: &[Enumerator]) -> Result<Mappings> {
    let mut out: Vec<(String, Vec<Range>)> = Vec::new();
    let mut index: FxHashMap<&str, usize> = FxHashMap::default();
    let mut next = 0i128;
    for e in body {
        let (lo, hi) = e.range.unwrap_or((next, next));
        if lo > hi {
            return err(e.line, format!("label \"{}\": range {lo} ... {hi} is empty", e.label));
        }
        next = hi + 1;
        let r = Range { lo, hi };
        match index.get(e.label.as_str()) {
            Some(i) => out[*i].1.push(r),
            None => {
                index.insert(&e.label, out.len());
                out.push((e.label.clone(), vec![r]));
            }
        }
    }
    Ok(Mappings(out))
}

fn power_of_two(v: i128, line: usize) -> Result<u64> {
    match u64::try_from(v) {
        Ok(a) if a.is_power_of_two() && a <= 1 << 31 => Ok(a),
        _ => err(line, format!("alignment {v}: expected a power of two up to 2^31")),
    }
}

fn alignment(v: &AttrValue, line: usize) -> Result<u64> {
    match v {
        AttrValue::Int(v) => power_of_two(*v, line),
        v => err(line, format!("alignment {}", shown(v))),
    }
}

fn boolean(v: &AttrValue, line: usize) -> Result<bool> {
    match v {
        AttrValue::Int(v) => Ok(*v != 0),
        AttrValue::Word(w) | AttrValue::Text(w) => match w.as_str() {
            "true" | "TRUE" => Ok(true),
            "false" | "FALSE" => Ok(false),
            _ => err(line, format!("`{w}`: expected true or false")),
        },
    }
}

pub(super) fn byte_order(v: &AttrValue, line: usize) -> Result<ByteOrder> {
    match v {
        AttrValue::Word(w) | AttrValue::Text(w) => match w.as_str() {
            "le" => return Ok(ByteOrder::Little),
            "be" | "network" => return Ok(ByteOrder::Big),
            _ => {}
        },
        AttrValue::Int(_) => {}
    }
    err(line, format!("byte order {}: expected le, be, network or native", shown(v)))
}

fn base_of(v: &AttrValue, line: usize) -> Result<Base> {
    match v {
        AttrValue::Int(2) => Ok(Base::Binary),
        AttrValue::Int(8) => Ok(Base::Octal),
        AttrValue::Int(10) => Ok(Base::Decimal),
        AttrValue::Int(16) => Ok(Base::Hexadecimal),
        AttrValue::Word(w) | AttrValue::Text(w) => match w.as_str() {
            "binary" | "b" => Ok(Base::Binary),
            "octal" | "oct" | "o" => Ok(Base::Octal),
            "decimal" | "dec" | "d" | "i" | "u" => Ok(Base::Decimal),
            "hexadecimal" | "hex" | "x" | "X" | "p" => Ok(Base::Hexadecimal),
            _ => err(line, format!("base `{w}`")),
        },
        AttrValue::Int(v) => err(line, format!("base {v}")),
    }
}

/// Whether the encoding is a text encoding.
fn encoding(v: &AttrValue, line: usize) -> Result<bool> {
    match v {
        AttrValue::Word(w) | AttrValue::Text(w) => match w.as_str() {
            "none" | "None" | "NONE" => Ok(false),
            "UTF8" | "utf8" | "UTF-8" | "utf-8" | "UTF_8" | "ASCII" | "ascii" => Ok(true),
            _ => err(line, format!("encoding `{w}`: expected UTF8, ASCII or none")),
        },
        AttrValue::Int(v) => err(line, format!("encoding {v}")),
    }
}
