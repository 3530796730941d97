//! Text form of attribute trees: one entry a line, sub-trees in braces.
//!
//! ```text
//! "name" long -3
//! 0 tree {
//!   "text" string "with \"quotes\", <, \n and ü"
//! }
//! ```
//!
//! Names and strings are quoted. The escapes are `\\ \" \n \r \t \u{hex}`; all other characters stand for
//! themselves. Floats are written as hexadecimal bits, so that every value can be read back exactly. Pointers have no
//! text and are left out.

use std::fmt::{self, Write as _};

use super::{Attribute, AttributeName, AttributeValue};
use crate::time::Time;

/// Trees nested deeper than this are refused by [`read`].
pub const MAX_DEPTH: usize = 200;

/// Why a text is not a tree.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct TextError {
    /// Line, counted from 1.
    pub line: usize,
    /// What was expected or found.
    pub what: String,
}

/// The text of a tree.
pub fn write(tree: &Attribute) -> String {
    let mut out = String::new();
    write_tree(&mut out, tree, 0);
    out
}

fn write_tree(out: &mut String, tree: &Attribute, depth: usize) {
    for (name, value) in tree.iter() {
        if matches!(value, AttributeValue::Pointer(_)) {
            continue;
        }
        out.extend(std::iter::repeat_n("  ", depth));
        match name {
            AttributeName::Word(word) => quote(out, word),
            AttributeName::Number(number) => drop(write!(out, "{number}")),
        }
        out.push(' ');
        if let AttributeValue::Tree(sub) = value {
            out.push_str("tree {\n");
            write_tree(out, sub, depth + 1);
            out.extend(std::iter::repeat_n("  ", depth));
            out.push_str("}\n");
        } else {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{}", Shown(value));
        }
    }
}

struct Shown<'a>(&'a AttributeValue);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_value(f, self.0)
    }
}

fn write_value(f: &mut fmt::Formatter<'_>, value: &AttributeValue) -> fmt::Result {
    match value {
        AttributeValue::None => f.write_str("none"),
        AttributeValue::Int(n) => write!(f, "int {n}"),
        AttributeValue::Uint(n) => write!(f, "uint {n}"),
        AttributeValue::Long(n) => write!(f, "long {n}"),
        AttributeValue::Ulong(n) => write!(f, "ulong {n}"),
        AttributeValue::Float(x) => write!(f, "float {:08x} {x}", x.to_bits()),
        AttributeValue::Double(x) => write!(f, "double {:016x} {x}", x.to_bits()),
        AttributeValue::Time(t) => write!(f, "time {t}"),
        AttributeValue::String(text) => {
            let mut quoted = String::new();
            quote(&mut quoted, text);
            write!(f, "string {quoted}")
        }
        AttributeValue::Pointer(_) => f.write_str("pointer"),
        AttributeValue::Tree(tree) => write!(f, "tree {{ {} entries }}", tree.count()),
    }
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => drop(write!(out, "\\u{{{:x}}}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// The tree of a text.
///
/// # Errors
/// The text is not what [`write()`] writes: line and reason.
pub fn read(text: &str) -> Result<Attribute, TextError> {
    let mut stack: Vec<(AttributeName, Attribute)> = Vec::new();
    let mut tree = Attribute::new();
    let mut last = 0;
    for (number, line) in text.split('\n').enumerate() {
        last = number + 1;
        let fail = |what: &str| TextError { line: last, what: what.into() };
        let line = line.trim_start_matches(' ').trim_end_matches('\r');
        if line.is_empty() {
            continue;
        }
        if line == "}" {
            let (name, parent) = stack.pop().ok_or_else(|| fail("no tree to close"))?;
            let done = std::mem::replace(&mut tree, parent);
            add(&mut tree, name, AttributeValue::Tree(done), last)?;
            continue;
        }
        let (name, rest) = if let Some(quoted) = line.strip_prefix('"') {
            let (word, rest) = unquote(quoted).ok_or_else(|| fail("bad name"))?;
            (AttributeName::Word(word.into()), rest.strip_prefix(' ').ok_or_else(|| fail("no type"))?)
        } else {
            let (digits, rest) = line.split_once(' ').ok_or_else(|| fail("no type"))?;
            let digits = digits.parse().map_err(|_| fail("a name is quoted or a number"))?;
            (AttributeName::Number(digits), rest)
        };
        if rest == "tree {" {
            if stack.len() >= MAX_DEPTH {
                return Err(fail("nested too deeply"));
            }
            stack.push((name, std::mem::take(&mut tree)));
        } else {
            let value = value(rest).ok_or_else(|| fail("bad type or value"))?;
            add(&mut tree, name, value, last)?;
        }
    }
    if stack.is_empty() { Ok(tree) } else { Err(TextError { line: last, what: "tree not closed".into() }) }
}

fn add(
    tree: &mut Attribute,
    name: AttributeName,
    value: AttributeValue,
    line: usize,
) -> Result<(), TextError> {
    tree.add(name, value).map(drop).map_err(|duplicate| TextError { line, what: duplicate.to_string() })
}

fn value(text: &str) -> Option<AttributeValue> {
    let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
    let bits = || rest.split(' ').next().unwrap_or("");
    Some(match kind {
        "none" if rest.is_empty() => AttributeValue::None,
        "int" => AttributeValue::Int(rest.parse().ok()?),
        "uint" => AttributeValue::Uint(rest.parse().ok()?),
        "long" => AttributeValue::Long(rest.parse().ok()?),
        "ulong" => AttributeValue::Ulong(rest.parse().ok()?),
        "float" => AttributeValue::Float(f32::from_bits(u32::from_str_radix(bits(), 16).ok()?)),
        "double" => AttributeValue::Double(f64::from_bits(u64::from_str_radix(bits(), 16).ok()?)),
        "time" => AttributeValue::Time(Time(rest.parse().ok()?)),
        "string" => match unquote(rest.strip_prefix('"')?)? {
            (text, "") => AttributeValue::String(text),
            _ => return None,
        },
        _ => return None,
    })
}

/// The text up to the closing quote, and what follows it.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((out, &quoted[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => out.push('\n'),
                'r' => out.push('\r'),
                't' => out.push('\t'),
                'u' => {
                    let (open, _) = chars.next().filter(|(_, brace)| *brace == '{')?;
                    let close = open + quoted[open..].find('}')?;
                    out.push(char::from_u32(u32::from_str_radix(&quoted[open + 1..close], 16).ok()?)?);
                    while chars.next()?.0 < close {}
                }
                c @ ('"' | '\\') => out.push(c),
                _ => return None,
            },
            c => out.push(c),
        }
    }
    None
}

impl fmt::Debug for AttributeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttributeValue::Tree(tree) => tree.fmt(f),
            other => write_value(f, other),
        }
    }
}

impl fmt::Debug for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&write(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> impl Strategy<Value = AttributeName> {
        prop_oneof![
            any::<u64>().prop_map(AttributeName::Number),
            proptest::collection::vec(
                prop_oneof![
                    any::<char>(),
                    proptest::sample::select(vec!['"', '\\', '<', '\n', '{', '}', ' ', '/', 'é'])
                ],
                0..8
            )
            .prop_map(|chars| AttributeName::Word(chars.into_iter().collect::<String>().as_str().into())),
        ]
    }

    fn values() -> impl Strategy<Value = AttributeValue> {
        let leaf = prop_oneof![
            Just(AttributeValue::None),
            any::<i32>().prop_map(AttributeValue::Int),
            any::<u32>().prop_map(AttributeValue::Uint),
            any::<i64>().prop_map(AttributeValue::Long),
            any::<u64>().prop_map(AttributeValue::Ulong),
            any::<u32>().prop_map(|bits| AttributeValue::Float(f32::from_bits(bits))),
            any::<u64>().prop_map(|bits| AttributeValue::Double(f64::from_bits(bits))),
            any::<i64>().prop_map(|ns| AttributeValue::Time(Time(ns))),
            names().prop_map(|name| AttributeValue::String(name.to_string())),
        ];
        leaf.prop_recursive(3, 24, 5, |inner| {
            proptest::collection::vec((names(), inner), 0..5).prop_map(|entries| {
                let mut tree = Attribute::new();
                entries.into_iter().for_each(|(name, value)| tree.set(name, value));
                AttributeValue::Tree(tree)
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn r_a2_the_text_form_round_trips(entries in proptest::collection::vec((names(), values()), 0..6)) {
            let mut tree = Attribute::new();
            entries.into_iter().for_each(|(name, value)| tree.set(name, value));
            let text = write(&tree);
            prop_assert_eq!(&read(&text).unwrap(), &tree, "{}", text);
            prop_assert_eq!(&tree.deep_copy(), &tree);
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "[\"\\\\{}a0 \nutrelongis]{0,60}") {
            let _ = read(&text);
        }
    }

    #[test]
    fn errors_name_the_line() {
        for (text, line) in [
            ("\"a\" int 1\n}", 2),
            ("\"a\" tree {\n", 2),
            ("\"a\" int x", 1),
            ("\"a\" int 1\n\"a\" int 2", 2),
            ("a", 1),
        ] {
            assert_eq!(read(text).unwrap_err().line, line, "{text}");
        }
        let deep = "0 tree {\n".repeat(MAX_DEPTH + 1);
        assert_eq!(read(&deep).unwrap_err().what, "nested too deeply");
    }
}
