//! The tables of a pprof file, as they are.

use crate::protobuf::{Fields, Value};
use std::collections::HashMap;

#[derive(Clone, Copy, Default)]
pub(super) struct Line {
    pub(super) function: u64,
    pub(super) line: u64,
}

#[derive(Default)]
pub(super) struct Location {
    pub(super) mapping: u64,
    pub(super) address: u64,
    /// Innermost first.
    pub(super) lines: Vec<Line>,
}

/// Numbers are indices of strings, except for the line.
#[derive(Clone, Copy, Default)]
pub(super) struct Function {
    name: u64,
    system_name: u64,
    pub(super) file: u64,
    pub(super) start_line: u64,
}

#[derive(Default)]
pub(super) struct Tables<'a> {
    /// Name and unit.
    pub(super) types: Vec<(u64, u64)>,
    pub(super) samples: Vec<&'a [u8]>,
    /// Path and build-id.
    pub(super) mappings: HashMap<u64, (u64, u64)>,
    pub(super) locations: HashMap<u64, Location>,
    pub(super) functions: HashMap<u64, Function>,
    strings: Vec<String>,
    pub(super) drop_frames: u64,
    pub(super) keep_frames: u64,
    pub(super) time_ns: u64,
    pub(super) duration_ns: u64,
    pub(super) period_type: Option<(u64, u64)>,
    pub(super) period: u64,
    pub(super) default_type: u64,
    /// Where reading stopped before the end.
    pub(super) broken: Option<usize>,
}

impl<'a> Tables<'a> {
    /// Reads the message. Protobuf does not say what its messages are, so what a pprof file cannot have is an
    /// error: a field of another kind, no sample type, a first string that is not empty.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let mut t = Tables::default();
        let mut fields = Fields::new(bytes);
        for (field, value) in fields.by_ref() {
            t.field(field, value)?;
        }
        t.broken = fields.broken;
        if t.types.is_empty() {
            let at = t.broken.map_or_else(|| "the whole file".into(), |at| format!("octet {at}"));
            return Err(format!("{at}: no sample type in it"));
        }
        match t.strings.first() {
            Some(first) if first.is_empty() => Ok(t),
            Some(_) => Err("the first string is not empty".into()),
            None => Err("no strings in it, which say what its values are".into()),
        }
    }

    fn field(&mut self, field: u64, value: Value<'a>) -> Result<(), String> {
        match (field, value) {
            (1, Value::Bytes(m)) => self.types.push(value_type(m)),
            (2, Value::Bytes(m)) => self.samples.push(m),
            (3, Value::Bytes(m)) => {
                let f = by_number(m);
                self.mappings.insert(f(1), (f(5), f(6)));
            }
            (4, Value::Bytes(m)) => {
                let f = by_number(m);
                let lines = Fields::new(m).filter_map(|(n, v)| match (n, v) {
                    (4, Value::Bytes(l)) => {
                        let l = by_number(l);
                        Some(Line { function: l(1), line: l(2) })
                    }
                    _ => None,
                });
                let location = Location { mapping: f(2), address: f(3), lines: lines.collect() };
                self.locations.insert(f(1), location);
            }
            (5, Value::Bytes(m)) => {
                let f = by_number(m);
                let function = Function { name: f(2), system_name: f(3), file: f(4), start_line: f(5) };
                self.functions.insert(f(1), function);
            }
            (6, Value::Bytes(m)) => self.strings.push(String::from_utf8_lossy(m).into_owned()),
            (7, Value::Number(n)) => self.drop_frames = n,
            (8, Value::Number(n)) => self.keep_frames = n,
            (9, Value::Number(n)) => self.time_ns = n,
            (10, Value::Number(n)) => self.duration_ns = n,
            (11, Value::Bytes(m)) => self.period_type = Some(value_type(m)),
            (12, Value::Number(n)) => self.period = n,
            (14, Value::Number(n)) => self.default_type = n,
            // Comments, and the address of a page about the profile.
            (13 | 15, _) => {}
            (1..=15, _) => return Err(format!("field {field} is of another kind")),
            // A later version of the format may have more, but not so many.
            (16..=63, _) => {}
            _ => return Err(format!("field {field} is not of the format")),
        }
        Ok(())
    }

    /// A string of the file; empty if the index has no target.
    pub(super) fn text(&self, id: u64) -> &str {
        usize::try_from(id).ok().and_then(|i| self.strings.get(i)).map_or("", String::as_str)
    }

    /// Whether the index has a string.
    pub(super) fn has_text(&self, id: u64) -> bool {
        usize::try_from(id).is_ok_and(|i| i < self.strings.len())
    }

    /// A function's name; if it has none, the one that the linker knows.
    pub(super) fn name(&self, function: &Function) -> String {
        let name = self.text(function.name);
        if !name.is_empty() {
            return name.to_owned();
        }
        let system_name = self.text(function.system_name);
        pct_symbols::demangle(system_name).into_owned()
    }
}

fn value_type(message: &[u8]) -> (u64, u64) {
    let f = by_number(message);
    (f(1), f(2))
}

/// Access to a message's number fields by field number; 0 if absent.
pub(super) fn by_number(message: &[u8]) -> impl Fn(u64) -> u64 + '_ {
    move |wanted| {
        let found = Fields::new(message).find_map(|(n, v)| match v {
            Value::Number(value) if n == wanted => Some(value),
            _ => None,
        });
        found.unwrap_or(0)
    }
}
