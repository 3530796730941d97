//! Views to words: tables for people, CSV and JSON for programs.
//!
//! [`table`] knows columns, widths and colours; [`numbers`] how numbers are written; the others say which columns a
//! view has. Everything gives a `String`; nothing here prints.

pub mod account;
pub mod diff;
pub mod digest;
pub mod flat;
pub mod growth;
pub mod memory;
pub mod memory_account;
pub mod memory_data;
pub mod memory_digest;
pub mod memory_words;
pub mod numbers;
pub mod parallelism;
pub mod path;
pub mod rates;
pub mod table;
pub mod tree;
pub mod waits;

/// A value as a line of JSON. Hidden characters of names are JSON's escapes: programs get the names as they are, and
/// people who look at the line are not misled.
#[must_use]
pub fn json_line(value: &serde_json::Value) -> String {
    format!("{}\n", pct_text::visible_json(&value.to_string()))
}

/// What the reader's terminal can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Layout {
    /// Columns to fit into; `None`: as wide as it gets (a pipe or file).
    pub width: Option<usize>,
    /// ANSI colours.
    pub color: bool,
    /// Lines and bars by Unicode characters.
    pub unicode: bool,
    /// Long names of functions with their template arguments.
    pub wide: bool,
}
