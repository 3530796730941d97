//! Parses TSDL, the metadata language of CTF 1.8, into a [`TraceClass`].
//!
//! Three steps: tokens with their lines (`lexer`), entries as written (`ast`, `parser`), classes
//! with every name resolved (`lower`). The text is read twice: the `native` byte order and clocks may be used before
//! the block that defines them, so those blocks are read first. Then each entry is lowered before the next one is
//! parsed.

mod ast;
mod fields;
mod lexer;
mod lower;
mod parser;

use crate::error::MetaError;
use crate::model::TraceClass;

/// Parses a TSDL text.
///
/// # Errors
/// The first syntax or semantic error, with its line.
pub fn parse(text: &[u8]) -> Result<TraceClass, MetaError> {
    lower::lower(text)
}
