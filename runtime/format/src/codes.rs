//! The functions of interpreted languages in a file, by their numbers, and the interpreters in the process.

use std::collections::BTreeMap;

use crate::record::{CodeFacts, LineTableForm, LineTablePart, Text};

/// A function of an interpreted language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// Raw time at which the sampler first met it.
    pub time: u64,
    /// Its facts; invalid UTF-8 is replaced.
    pub facts: CodeFacts<String>,
    /// Form of the line table. `None`: there is no table, or its form is unknown.
    pub line_form: Option<LineTableForm>,
    /// The interpreter's line table, or its first part.
    pub lines: Vec<u8>,
    /// Whether the table is complete.
    pub lines_are_whole: bool,
}

/// An interpreter in the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// [`crate::record::Language`] number.
    pub language: u32,
    /// Raw time at which it was found.
    pub time: u64,
    /// Its version in its own encoding (CPython: `Py_Version`), 0 = unknown.
    pub version: u64,
    /// [`crate::record::InterpreterState`] number.
    pub state: u64,
    /// Path of its object.
    pub path: Vec<u8>,
    /// What of it the state is about; empty where the state says all.
    pub detail: Vec<u8>,
}

/// Functions by number.
#[derive(Clone, Debug, Default)]
pub struct Codes(BTreeMap<u32, Code>);

impl Codes {
    /// The function with this number.
    #[must_use]
    pub fn get(&self, id: u32) -> Option<&Code> {
        self.0.get(&id)
    }

    /// Number of functions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u32, &Code)> {
        self.0.iter().map(|(id, code)| (*id, code))
    }

    pub(crate) fn define(&mut self, id: u32, time: u64, facts: &CodeFacts<Text<'_>>) {
        if id == 0 {
            return;
        }
        self.0.entry(id).or_insert_with(|| Code {
            time,
            facts: facts.map(|octets| octets.to_text()),
            line_form: None,
            lines: Vec::new(),
            lines_are_whole: false,
        });
    }

    pub(crate) fn add_lines(&mut self, id: u32, part: &LineTablePart<Text<'_>>) {
        let Some(code) = self.0.get_mut(&id) else { return };
        let have = code.lines.len() as u64;
        // This part does not follow the last one: one between them is missing, and the rest would be lines of other
        // code.
        if part.offset != have || code.lines_are_whole {
            return;
        }
        code.line_form = LineTableForm::from_number(part.form);
        code.lines.extend(part.octets.bytes());
        code.lines_are_whole = code.lines.len() as u64 == part.whole;
    }
}
