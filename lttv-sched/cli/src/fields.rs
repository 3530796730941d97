//! Fields of an event as text and as JSON.

use std::fmt::Write;

use lttv_engine::source::{Compound, Cursor, FieldVisitor, Scope, Value};

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

/// Appends the fields of scopes as text, in the format's own way where it has one; nothing when there are none.
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
    out.push('{');
    let mut v = Text { out, open: vec![(true, '}')] };
    scopes.iter().for_each(|s| cursor.visit(*s, &mut v));
    let empty = v.open[0].0;
    v.end();
    if empty {
        out.truncate(start);
    }
}

/// Writes `{"a":1,"b":{"c":2},"d":[3,4]}`.
struct Json<'o> {
    out: &'o mut String,
    /// As in [`Text`]; arrays have no names.
    open: Vec<(bool, char)>,
}

impl Json<'_> {
    fn name(&mut self, name: &str) {
        if let Some((first, close)) = self.open.last_mut() {
            if !*first {
                self.out.push(',');
            }
            *first = false;
            if *close == '}' {
                quoted(self.out, name);
                self.out.push(':');
            }
        }
    }
}

impl FieldVisitor for Json<'_> {
    fn value(&mut self, name: &str, value: Value<'_>) {
        self.name(name);
        let _ = match &value {
            Value::Unsigned(n) => write!(self.out, "{n}"),
            Value::Signed(n) => write!(self.out, "{n}"),
            Value::Bool(b) => write!(self.out, "{b}"),
            Value::Float(f) if f.is_finite() => write!(self.out, "{f:?}"),
            // JSON has no such numbers.
            Value::Float(f) => write!(self.out, "\"{f}\""),
            Value::Text(t) => {
                quoted(self.out, t);
                Ok(())
            }
            Value::Bytes(b) => {
                self.out.push('"');
                b.iter().for_each(|b| {
                    let _ = write!(self.out, "{b:02x}");
                });
                self.out.push('"');
                Ok(())
            }
            Value::Enum { value, label: Some(l) } => {
                let _ = write!(self.out, "{{\"value\":{value},\"label\":");
                quoted(self.out, l);
                self.out.push('}');
                Ok(())
            }
            Value::Enum { value, label: None } => write!(self.out, "{{\"value\":{value},\"label\":null}}"),
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
            self.out.push(close);
        }
    }
}

/// Appends the fields of scopes as a JSON object.
pub fn json(out: &mut String, cursor: &dyn Cursor, scopes: &[Scope]) {
    out.push('{');
    let mut v = Json { out, open: vec![(true, '}')] };
    scopes.iter().for_each(|s| cursor.visit(*s, &mut v));
    v.end();
}

/// Appends a JSON string.
pub fn quoted(out: &mut String, text: &str) {
    // A text is always JSON.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        let mut j = String::from("{");
        let mut v = Json { out: &mut j, open: vec![(true, '}')] };
        show(&mut v);
        v.end();
        assert_eq!(j, r#"{"a":1,"b":{"c":"x\"y"},"d":[-1,[]],"e":{"value":3,"label":"RED"},"f":"NaN"}"#);
        serde_json::from_str::<serde_json::Value>(&j).unwrap();
    }

    proptest! {
        #[test]
        fn quoted_texts_are_json(t in any::<String>()) {
            let mut out = String::new();
            quoted(&mut out, &t);
            prop_assert_eq!(serde_json::from_str::<String>(&out).unwrap(), t);
        }
    }
}
