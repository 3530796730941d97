//! Finds the fields that lengths, variant tags and optional selectors refer to.
//!
//! Each target gets a register: decoding the target stores its value there, and decoding the field that refers to it
//! reads it. An array element overwrites the register of the element before, so "the same element" needs no further
//! care. A register inside a variant or optional is cleared when that is decoded, so an option that was not taken is
//! never read.

use crate::bits::row;
use crate::error::MetaError;
use crate::model::{BitsKind, FieldClass, FieldKind, Length, Location, Range, Scope, TraceClass};
use rustc_hash::FxHashMap;

/// Stands for "all" in a [`RootField`].
pub(crate) const ALL: u32 = u32::MAX;

/// A root field class of a trace: stream index, event index, scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RootField {
    pub(crate) stream: u32,
    pub(crate) event: u32,
    pub(crate) scope: Scope,
}

/// A field: its root, and the steps down from there (member, option; 0 into arrays and optionals).
pub(crate) type Key = (RootField, Vec<u32>);

/// What a dependent field reads.
#[derive(Clone, Debug)]
pub(crate) struct Ref {
    pub(crate) reg: u32,
    /// For TSDL variants: selector values of each option, from the labels of the tag.
    pub(crate) options: Option<Vec<Vec<Range>>>,
}

/// All references of a trace.
#[derive(Debug, Default)]
pub(crate) struct Resolved {
    /// Number of registers.
    pub(crate) regs: u32,
    /// Registers that a field stores its value to.
    pub(crate) stores: FxHashMap<Key, u32>,
    /// What a field refers to.
    pub(crate) refs: FxHashMap<Key, Ref>,
}

/// Resolves every location of a trace.
///
/// # Errors
/// A location that does not exist, or is a later field, or a field of the wrong class.
pub(crate) fn resolve(t: &TraceClass) -> Result<Resolved, MetaError> {
    let mut r = Resolver { major: t.major, out: Resolved::default() };
    let header = t
        .packet_header
        .as_ref()
        .map(|c| (RootField { stream: ALL, event: ALL, scope: Scope::PacketHeader }, c));
    let mut roots: Vec<(RootField, &FieldClass)> = Vec::new();
    if let Some(h) = header {
        r.root(&mut roots, h.0, h.1)?;
    }
    for (i, s) in t.streams.iter().enumerate() {
        roots.truncate(usize::from(header.is_some()));
        let stream = row(i);
        for (scope, c) in [
            (Scope::PacketContext, &s.packet_context),
            (Scope::EventHeader, &s.event_header),
            (Scope::CommonContext, &s.event_context),
        ] {
            if let Some(c) = c {
                r.root(&mut roots, RootField { stream, event: ALL, scope }, c)?;
            }
        }
        let keep = roots.len();
        for (j, e) in s.events.iter().enumerate() {
            roots.truncate(keep);
            for (scope, c) in
                [(Scope::SpecificContext, e.context.as_deref()), (Scope::Payload, e.fields.as_deref())]
            {
                if let Some(c) = c {
                    r.root(&mut roots, RootField { stream, event: row(j), scope }, c)?;
                }
            }
        }
    }
    Ok(r.out)
}

struct Resolver {
    major: u32,
    out: Resolved,
}

/// What a reference requires of its target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    Length,
    Tag,
    Selector,
    Boolean,
}

/// The path to the current field.
struct Way<'a> {
    place: RootField,
    path: Vec<u32>,
    /// Structures on the path, with the length of `path` at each.
    structs: Vec<(usize, &'a FieldClass)>,
}

/// A candidate: steps below the start, and the positions among them that enter an array.
type FieldPath = (Vec<u32>, Vec<usize>);

impl Resolver {
    fn root<'a>(
        &mut self,
        roots: &mut Vec<(RootField, &'a FieldClass)>,
        place: RootField,
        c: &'a FieldClass,
    ) -> Result<(), MetaError> {
        roots.push((place, c));
        if has_references(c) {
            let mut way = Way { place, path: Vec::new(), structs: Vec::new() };
            self.walk(roots, &mut way, c)?;
        }
        Ok(())
    }

    fn walk<'a>(
        &mut self,
        roots: &[(RootField, &'a FieldClass)],
        way: &mut Way<'a>,
        c: &'a FieldClass,
    ) -> Result<(), MetaError> {
        match &c.kind {
            FieldKind::Bits(_) | FieldKind::VarInt(_) | FieldKind::String(_) => {}
            FieldKind::Text(len, _) | FieldKind::Blob(len) => self.length(roots, way, len)?,
            FieldKind::Struct(members) => {
                way.structs.push((way.path.len(), c));
                for (i, m) in members.iter().enumerate() {
                    way.path.push(row(i));
                    self.walk(roots, way, &m.class)?;
                    way.path.pop();
                }
                way.structs.pop();
            }
            FieldKind::Array(len, e) => {
                self.length(roots, way, len)?;
                way.path.push(0);
                self.walk(roots, way, e)?;
                way.path.pop();
            }
            FieldKind::Variant(tag, options) => {
                let tag = tag.as_ref().ok_or_else(|| MetaError::new(0, "variant without a tag"))?;
                let tsdl = options.iter().any(|o| o.ranges.is_none());
                let (reg, target) =
                    self.refer(roots, way, tag, if tsdl { Want::Tag } else { Want::Selector })?;
                let labels = tsdl.then(|| {
                    let map = match &target.kind {
                        FieldKind::Bits(b) => b.mappings.as_deref(),
                        _ => None,
                    };
                    options
                        .iter()
                        .map(|o| {
                            map.and_then(|m| m.0.iter().find(|(n, _)| *n == o.raw_name))
                                .map(|(_, r)| r.clone())
                                .unwrap_or_default()
                        })
                        .collect()
                });
                self.out.refs.insert((way.place, way.path.clone()), Ref { reg, options: labels });
                for (i, o) in options.iter().enumerate() {
                    way.path.push(row(i));
                    self.walk(roots, way, &o.class)?;
                    way.path.pop();
                }
            }
            FieldKind::Optional(selector, ranges, inner) => {
                let want = if ranges.is_some() { Want::Selector } else { Want::Boolean };
                let (reg, _) = self.refer(roots, way, selector, want)?;
                self.out.refs.insert((way.place, way.path.clone()), Ref { reg, options: None });
                way.path.push(0);
                self.walk(roots, way, inner)?;
                way.path.pop();
            }
        }
        Ok(())
    }

    fn length<'a>(
        &mut self,
        roots: &[(RootField, &'a FieldClass)],
        way: &Way<'a>,
        len: &Length,
    ) -> Result<(), MetaError> {
        if let Length::Field(l) = len {
            let (reg, _) = self.refer(roots, way, l, Want::Length)?;
            self.out.refs.insert((way.place, way.path.clone()), Ref { reg, options: None });
        }
        Ok(())
    }

    /// The register of the field that `l` names, as seen from `way`, and one of the targets.
    fn refer<'a>(
        &mut self,
        roots: &[(RootField, &'a FieldClass)],
        way: &Way<'a>,
        l: &Location,
        want: Want,
    ) -> Result<(u32, &'a FieldClass), MetaError> {
        let name = shown(l);
        let fail = |what: String| Err(MetaError::new(l.line, format!("{what} `{name}`")));
        let what = match want {
            Want::Length => "length",
            Want::Tag => "variant tag",
            Want::Selector | Want::Boolean => "selector",
        };
        let Some((place, found)) = self.find(roots, way, l) else {
            return fail(format!("{what}: no earlier field"));
        };
        let root = roots.iter().find(|(p, _)| *p == place).expect("found there").1;
        // One register for all: only one option of a variant is decoded.
        let known = found.iter().find_map(|(p, _)| self.out.stores.get(&(place, p.clone())).copied());
        let reg = known.unwrap_or_else(|| {
            self.out.regs += 1;
            self.out.regs - 1
        });
        let mut target = None;
        for (path, _) in found {
            let c = at(root, &path);
            let fits = match (&c.kind, want) {
                (FieldKind::Bits(b), Want::Length) => b.kind == BitsKind::Unsigned,
                (FieldKind::VarInt(v), Want::Length) => !v.signed,
                (FieldKind::Bits(b), Want::Tag) => b.is_enum,
                (FieldKind::Bits(b), Want::Selector) => {
                    matches!(b.kind, BitsKind::Unsigned | BitsKind::Signed | BitsKind::Bool)
                }
                (FieldKind::VarInt(_), Want::Selector) => true,
                (FieldKind::Bits(b), Want::Boolean) => matches!(b.kind, BitsKind::Bool),
                _ => false,
            };
            if !fits {
                return fail(match want {
                    Want::Length => "length is not an unsigned integer:".into(),
                    Want::Tag => "variant tag is not an enumeration:".into(),
                    Want::Selector => "selector is not an integer:".into(),
                    Want::Boolean => "selector is not a boolean:".into(),
                });
            }
            target = Some(c);
            let old = self.out.stores.insert((place, path), reg);
            if old.is_some_and(|o| o != reg) {
                return fail(format!("{what}: this choice of fields is referred to in two ways:"));
            }
        }
        Ok((reg, target.expect("at least one was found")))
    }

    fn find(
        &self,
        roots: &[(RootField, &FieldClass)],
        way: &Way<'_>,
        l: &Location,
    ) -> Option<(RootField, Vec<FieldPath>)> {
        if let Some(origin) = l.origin {
            let (place, root) = roots.iter().rev().find(|(p, _)| p.scope == origin)?;
            return visible(way, *place, Vec::new(), descend(root, &l.path)).map(|f| (*place, f));
        }
        if self.major == 2 {
            // Each leading null means one structure further out.
            let up = l.path.iter().take_while(|p| p.is_none()).count();
            let (depth, from) = way.structs.iter().rev().nth(up)?;
            return visible(way, way.place, way.path[..*depth].to_vec(), descend(from, &l.path[up..]))
                .map(|f| (way.place, f));
        }
        // The surrounding structures, inside out, then the scopes decoded before, last first.
        for (depth, s) in way.structs.iter().rev() {
            let found = visible(way, way.place, way.path[..*depth].to_vec(), descend(s, &l.path));
            if let Some(f) = found {
                return Some((way.place, f));
            }
        }
        roots
            .iter()
            .rev()
            .filter(|(p, _)| *p != way.place)
            .find_map(|(p, root)| visible(way, *p, Vec::new(), descend(root, &l.path)).map(|f| (*p, f)))
    }
}

fn shown(l: &Location) -> String {
    let mut parts: Vec<&str> = Vec::new();
    parts.extend(l.origin.map(Scope::name));
    parts.extend(l.path.iter().map(|p| p.as_deref().unwrap_or("..")));
    parts.join(".")
}

fn has_references(c: &FieldClass) -> bool {
    match &c.kind {
        FieldKind::Bits(_) | FieldKind::VarInt(_) | FieldKind::String(_) => false,
        FieldKind::Text(l, _) | FieldKind::Blob(l) => matches!(l, Length::Field(_)),
        FieldKind::Struct(m) => m.iter().any(|m| has_references(&m.class)),
        FieldKind::Array(l, e) => matches!(l, Length::Field(_)) || has_references(e),
        FieldKind::Variant(..) | FieldKind::Optional(..) => true,
    }
}

/// The class at the end of a path that exists.
fn at<'a>(root: &'a FieldClass, path: &[u32]) -> &'a FieldClass {
    path.iter().fold(root, |c, i| match &c.kind {
        FieldKind::Struct(m) => &m[*i as usize].class,
        FieldKind::Variant(_, o) => &o[*i as usize].class,
        FieldKind::Array(_, e) | FieldKind::Optional(_, _, e) => e,
        _ => c,
    })
}

/// Keeps the candidates that are decoded before the field at `way` and in the same array elements. Completes paths.
fn visible(
    way: &Way<'_>,
    place: RootField,
    start: Vec<u32>,
    found: Vec<FieldPath>,
) -> Option<Vec<FieldPath>> {
    let mut out = Vec::new();
    for (steps, arrays) in found {
        let mut path = start.clone();
        let arrays: Vec<usize> = arrays.into_iter().map(|a| a + start.len()).collect();
        path.extend(steps);
        if place == way.place {
            let shared = path.iter().zip(&way.path).take_while(|(a, b)| a == b).count();
            let earlier = path.get(shared).zip(way.path.get(shared)).is_some_and(|(a, b)| a < b);
            if !earlier || arrays.iter().any(|a| *a >= shared) {
                continue;
            }
        } else if place.scope >= way.place.scope || !arrays.is_empty() {
            continue;
        }
        out.push((path, arrays));
    }
    (!out.is_empty()).then_some(out)
}

/// All fields that a path of names may mean: several if it passes a variant.
fn descend(from: &FieldClass, names: &[Option<String>]) -> Vec<FieldPath> {
    let mut out = Vec::new();
    step(from, names, &mut Vec::new(), &mut Vec::new(), &mut out);
    out
}

fn step(
    c: &FieldClass,
    names: &[Option<String>],
    path: &mut Vec<u32>,
    arrays: &mut Vec<usize>,
    out: &mut Vec<FieldPath>,
) {
    if out.len() >= 4096 {
        return;
    }
    let mut into = |i: u32, c: &FieldClass, names: &[Option<String>], arrays: &mut Vec<usize>| {
        path.push(i);
        step(c, names, path, arrays, out);
        path.pop();
    };
    match &c.kind {
        FieldKind::Array(_, e) if !names.is_empty() => {
            arrays.push(path.len());
            path.push(0);
            step(e, names, path, arrays, out);
            path.pop();
            arrays.pop();
        }
        FieldKind::Optional(_, _, e) => into(0, e, names, arrays),
        FieldKind::Variant(_, options) => {
            let leaf = names.is_empty();
            for (i, o) in options.iter().enumerate() {
                if !leaf
                    || matches!(
                        o.class.kind,
                        FieldKind::Bits(_)
                            | FieldKind::VarInt(_)
                            | FieldKind::Variant(..)
                            | FieldKind::Optional(..)
                    )
                {
                    into(row(i), &o.class, names, arrays);
                }
            }
        }
        FieldKind::Struct(members) if !names.is_empty() => {
            let Some(Some(name)) = names.first() else { return };
            let bare = name.strip_prefix('_').unwrap_or(name);
            let i = members
                .iter()
                .position(|m| m.raw_name == *name)
                .or_else(|| members.iter().position(|m| m.name == bare));
            if let Some(i) = i {
                into(row(i), &members[i].class, &names[1..], arrays);
            }
        }
        _ if names.is_empty() => out.push((path.clone(), arrays.clone())),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tsdl::parse;

    fn tried(fields: &str) -> Result<Resolved, MetaError> {
        let text = format!(
            "trace {{ major = 1; minor = 8; byte_order = le; }};\ntypealias integer {{ size = 8; }} := u8;\ntypealias integer {{ size = 8; signed = true; }} := i8;\nevent {{ name = e; fields := struct {{ {fields} }}; }};"
        );
        resolve(&parse(text.as_bytes())?)
    }

    #[test]
    fn lengths_are_found_outwards_and_refused_when_later_or_of_the_wrong_class() {
        assert_eq!(tried("u8 n; struct { struct { u8 a[n]; } y; } x; u8 b[n];").unwrap().regs, 1);
        assert_eq!(tried("u8 n; struct { u8 n; u8 a[n]; } x; u8 b[n];").unwrap().regs, 2);
        for (bad, what) in [
            ("u8 a[n]; u8 n;", "no earlier field"),
            ("i8 n; u8 a[n];", "unsigned"),
            ("struct { u8 n; } s; u8 a[s];", "unsigned"),
            ("u8 n; variant <n> { u8 a; } v;", "enumeration"),
            ("struct { u8 n; } s[2]; u8 a[s.n];", "no earlier field"),
            ("struct { u8 n; u8 a[n]; } s[2]; u8 a[n];", "no earlier field"),
        ] {
            let e = tried(bad).expect_err(bad);
            assert!(e.what.contains(what), "{bad}: {e}");
        }
        assert_eq!(tried("struct { u8 n; u8 a[n]; } s[2]; struct { u8 n; } t; u8 b[t.n];").unwrap().regs, 2);
    }

    #[test]
    fn one_underscore_is_ignored_in_lookups() {
        assert_eq!(tried("u8 __a_length; u8 _a[__a_length];").unwrap().regs, 1);
    }
}
