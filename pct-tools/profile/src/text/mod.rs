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
pub mod memory_words;
pub mod numbers;
pub mod table;
pub mod tree;

/// What the reader's terminal can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Layout {
    /// Columns to fit into; `None`: as wide as it gets (a pipe or file).
    pub width: Option<usize>,
    /// ANSI colours.
    pub color: bool,
    /// Lines and bars by Unicode characters.
    pub unicode: bool,
}
