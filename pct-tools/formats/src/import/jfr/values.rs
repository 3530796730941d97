//! The fields of events and constants, each looked up where it lies.

use super::fields::{Fields, Text};
use super::types::{Class, Classes, DEEPEST, Field};

/// What stands in a field.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    /// Also of truth values.
    Number(i64),
    Text(String),
    /// The key of a constant of a type.
    Constant {
        class: i64,
        key: i64,
    },
    /// A value of a type, at a place.
    Inside {
        class: i64,
        at: usize,
    },
    /// Values of a type, the first at a place.
    Array {
        class: i64,
        is_constant: bool,
        count: usize,
        at: usize,
    },
}

/// Reads values of these types.
#[derive(Clone, Copy)]
pub(super) struct Values<'a> {
    pub(super) classes: &'a Classes,
    /// The type of texts.
    pub(super) text: i64,
}

impl<'a> Values<'a> {
    /// Reads one value of a type and stands behind it. `None`: it is damaged, or its type is.
    pub(super) fn next(&self, o: &mut Fields<'_>, class: i64, depth: usize) -> Option<Value> {
        let of_type = self.classes.class(class)?;
        if let Some(value) = self.primitive(o, of_type) {
            return value;
        }
        let at = o.at;
        if depth > DEEPEST {
            return None;
        }
        for field in &of_type.fields {
            self.next_field(o, field, depth + 1)?;
        }
        Some(Value::Inside { class, at })
    }

    /// `None` if the type consists of fields.
    fn primitive(&self, o: &mut Fields<'_>, class: &Class) -> Option<Option<Value>> {
        let number = |o: &mut Fields<'_>, octets| o.number(octets).map(Value::Number);
        Some(match class.name.as_str() {
            "boolean" | "byte" => number(o, 1),
            "short" | "char" => number(o, 2),
            "int" => number(o, 4),
            "long" => number(o, 8),
            "float" => o.take_octets(4).map(|_| Value::Null),
            "double" => o.take_octets(8).map(|_| Value::Null),
            "java.lang.String" => o.text().map(|text| match text {
                Text::Null => Value::Null,
                Text::Here(text) => Value::Text(text),
                Text::Constant(key) => Value::Constant { class: self.text, key },
            }),
            _ => return None,
        })
    }

    /// Reads one field and stands behind it.
    pub(super) fn next_field(&self, o: &mut Fields<'_>, field: &Field, depth: usize) -> Option<Value> {
        if !field.is_array {
            return self.next_element(o, field.class, field.is_constant, depth);
        }
        let count = o.count()?;
        let at = o.at;
        for _ in 0..count {
            let before = o.at;
            self.next_element(o, field.class, field.is_constant, depth)?;
            if o.at == before {
                return None;
            }
        }
        Some(Value::Array { class: field.class, is_constant: field.is_constant, count, at })
    }

    pub(super) fn next_element(
        &self,
        o: &mut Fields<'_>,
        class: i64,
        is_constant: bool,
        depth: usize,
    ) -> Option<Value> {
        if is_constant {
            o.long().map(|key| Value::Constant { class, key })
        } else {
            self.next(o, class, depth)
        }
    }

    /// The field of this name of the value that begins at `o`, and its description.
    pub(super) fn field(&self, mut o: Fields<'_>, class: i64, name: &str) -> Option<(Value, &'a Field)> {
        for field in &self.classes.class(class)?.fields {
            let value = self.next_field(&mut o, field, 0)?;
            if field.name == name {
                return Some((value, field));
            }
        }
        None
    }
}
