//! Writes fields of an event as text, and for programs.

use std::fmt::Write;

use lttv_engine::source::{Compound, Cursor, FieldVisitor, Scope, Value};
use serde::{Serialize, Serializer};

/// Writes `{ a = 1, b = { c = 2 }, d = [ 3, 4 ] }`.
struct Text<'o> {
    out: &'o mut String,
    /// Whether the next part of each open compound is its first, and the sign that closes it.
    open: Vec<(bool, char)>,
}

impl Text<'_> {
    fn name(&mut self, name: &str) {
        if let Some((first, _)) = self.open.last_mut() {
            self.out.push_str(if *first { " " } else { ", " });
            *first = false;
        }
        if !name.is_empty() {
            self.out.push_str(name);
            self.out.push_str(" = ");
        }
    }
}

impl FieldVisitor for Text<'_> {
    fn value(&mut self, name: &str, value: Value<'_>) {
        self.name(name);
        let _ = match value {
            Value::Enum { value, label: Some(l) } => write!(self.out, "{l:?} ({value})"),
            Value::Enum { value, label: None } => write!(self.out, "{value}"),
            v => write!(self.out, "{v}"),
        };
    }

    fn begin(&mut self, name: &str, compound: Compound) {
        self.name(name);
        let (open, close) = if compound == Compound::Struct { ('{', '}') } else { ('[', ']') };
        self.out.push(open);
        self.open.push((true, close));
    }

    fn end(&mut self) {
        if let Some((_, close)) = self.open.pop() {
            self.out.push(' ');
            self.out.push(close);
        }
    }
}

/// Appends the fields of scopes as text, in the format's own form if it has one. Without fields it appends nothing.
pub fn text(out: &mut String, cursor: &dyn Cursor, scopes: &[Scope]) {
    let start = out.len();
    let own = scopes.iter().all(|scope| {
        let before = out.len();
        if before > start {
            out.push_str(", ");
        }
        let empty = out.len();
        let own = cursor.text(*scope, out).is_some();
        if out.len() == empty {
            out.truncate(before);
        }
        own
    });
    if own {
        return;
    }
    out.truncate(start);
    shown(out, |visitor| scopes.iter().for_each(|scope| cursor.visit(*scope, visitor)));
}

/// Appends what is shown to a visitor as text.
pub fn shown(out: &mut String, show: impl FnOnce(&mut dyn FieldVisitor)) {
    let start = out.len();
    out.push('{');
    let mut v = Text { out, open: vec![(true, '}')] };
    show(&mut v);
    let empty = v.open[0].0;
    v.end();
    if empty {
        out.truncate(start);
    }
}

/// A field of an event, as it is written for programs.
#[derive(Debug)]
enum Field {
    Value(Value<'static>),
    Integer(i128),
    Null,
    Members(Vec<(String, Field)>),
    Elements(Vec<Field>),
}

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Field::Value(value) => scalar(value, to),
            Field::Integer(n) => to.serialize_i128(*n),
            Field::Null => to.serialize_none(),
            Field::Members(members) => to.collect_map(members.iter().map(|(name, field)| (name, field))),
            Field::Elements(elements) => to.collect_seq(elements),
        }
    }
}

fn scalar<S: Serializer>(value: &Value<'_>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Value::Unsigned(n) => to.serialize_u64(*n),
        Value::Signed(n) => to.serialize_i64(*n),
        Value::Bool(truth) => to.serialize_bool(*truth),
        Value::Float(x) if x.is_finite() => to.serialize_f64(*x),
        // JSON has no such numbers.
        Value::Float(x) => to.collect_str(x),
        Value::Text(text) => to.serialize_str(text),
        Value::Bytes(_) => to.collect_str(value),
        Value::Enum { value, .. } => to.serialize_i128(*value),
    }
}

/// Collects the fields that a cursor shows: the open compounds, innermost last, each with its own name.
struct Collecting {
    open: Vec<(String, Field)>,
}

impl Collecting {
    fn push(&mut self, name: &str, field: Field) {
        match self.open.last_mut() {
            Some((_, Field::Members(members))) => add_member(members, name, field),
            Some((_, Field::Elements(elements))) => elements.push(field),
            _ => {}
        }
    }
}

/// A context and the payload may have fields of one name, and readers of JSON keep one of them. The last has the name,
/// and those before it are `NAME#1`, `NAME#2`.
fn add_member(members: &mut Vec<(String, Field)>, name: &str, field: Field) {
    if let Some(earlier) = members.iter().position(|(known, _)| known == name) {
        let mut others = (1..).map(|n: usize| format!("{name}#{n}"));
        if let Some(free) = others.find(|other| members.iter().all(|(known, _)| known != other)) {
            members[earlier].0 = free;
        }
    }
    members.push((name.into(), field));
}

impl FieldVisitor for Collecting {
    fn value(&mut self, name: &str, value: Value<'_>) {
        let field = match value {
            Value::Enum { value, label } => {
                let label =
                    label.map_or(Field::Null, |label| Field::Value(Value::Text(label.to_string().into())));
                Field::Members(vec![("value".into(), Field::Integer(value)), ("label".into(), label)])
            }
            value => Field::Value(value.into_owned()),
        };
        self.push(name, field);
    }

    fn begin(&mut self, name: &str, compound: Compound) {
        let field = match compound {
            Compound::Struct => Field::Members(Vec::new()),
            Compound::Array(_) => Field::Elements(Vec::new()),
        };
        self.open.push((name.into(), field));
    }

    fn end(&mut self) {
        if let Some((name, field)) = self.open.pop() {
            self.push(&name, field);
        }
    }
}

/// The fields of scopes of an event, for programs: `{"a":1,"b":{"c":2},"d":[3,4]}`.
pub struct Fields<'c> {
    /// A cursor at the event.
    pub cursor: &'c dyn Cursor,
    /// The scopes of the fields.
    pub scopes: &'c [Scope],
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        collected(|visitor| self.scopes.iter().for_each(|scope| self.cursor.visit(*scope, visitor)))
            .serialize(to)
    }
}

/// What is shown to a visitor, in the form for programs.
pub fn collected(show: impl FnOnce(&mut dyn FieldVisitor)) -> impl Serialize {
    let mut collecting = Collecting { open: vec![(String::new(), Field::Members(Vec::new()))] };
    show(&mut collecting);
    collecting.open.swap_remove(0).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_one_name_are_all_there_for_programs() {
        let show = |v: &mut dyn FieldVisitor| {
            for (name, n) in [("x", 1), ("x#1", 2), ("x", 3), ("y", 4), ("x", 5)] {
                v.value(name, Value::Unsigned(n));
            }
        };
        let j = serde_json::to_string(&collected(show)).unwrap();
        assert_eq!(j, r#"{"x#2":1,"x#1":2,"x#3":3,"y":4,"x":5}"#);
    }

    #[test]
    fn nested_fields_have_one_comma_between_parts_and_none_around() {
        let show = |v: &mut dyn FieldVisitor| {
            v.value("a", Value::Unsigned(1));
            v.begin("b", Compound::Struct);
            v.value("c", Value::Text("x\"y".into()));
            v.end();
            v.begin("d", Compound::Array(2));
            v.value("", Value::Signed(-1));
            v.begin("", Compound::Array(0));
            v.end();
            v.end();
            v.value("e", Value::Enum { value: 3, label: Some("RED") });
            v.value("f", Value::Float(f64::NAN));
        };
        let mut t = String::from("{");
        let mut v = Text { out: &mut t, open: vec![(true, '}')] };
        show(&mut v);
        v.end();
        assert_eq!(t, "{ a = 1, b = { c = \"x\\\"y\" }, d = [ -1, [ ] ], e = \"RED\" (3), f = NaN }");
        let j = serde_json::to_string(&collected(show)).unwrap();
        assert_eq!(j, r#"{"a":1,"b":{"c":"x\"y"},"d":[-1,[]],"e":{"value":3,"label":"RED"},"f":"NaN"}"#);
    }
}
