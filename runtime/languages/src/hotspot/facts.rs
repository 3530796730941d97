//! What a recording is told of a method.

use pct_elf::Memory;
use pct_format::record::{CodeFacts, InterpreterState, Language, LineTableForm, code_flag};

use super::layout::{Layout, Refused};
use super::lines;
use super::method::Method;

/// Octets of a line table that are kept.
const TABLE_OCTETS: u64 = 16 << 10;

/// A method's line table, as far as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptLines {
    /// Its form.
    pub form: LineTableForm,
    /// Where it begins.
    pub at: u64,
    /// Octets of it; 0: the method has no table.
    pub octets: u64,
}

impl Method {
    /// The facts, with the method's name and file in these buffers, and its lines. `None`: they cannot be read, or this
    /// is no method.
    #[must_use]
    pub fn facts<'b, M: Memory>(
        &self,
        memory: &M,
        layout: &Layout,
        (name, file): (&'b mut [u8], &'b mut [u8]),
    ) -> Option<(CodeFacts<&'b [u8]>, KeptLines)> {
        if !self.is_method(memory, layout) {
            return None;
        }
        let (name_len, name_cut) = self.write_name(memory, layout, name)?;
        let (file_len, file_cut) = self.write_file(memory, layout, file)?;
        let table = self.line_table(memory, layout);
        let measured =
            table.and_then(|at| Some((at, lines::measure(memory, at, layout.biased, TABLE_OCTETS)?)));
        let (at, (octets, is_whole, first_line)) = measured.unwrap_or((0, (0, true, 0)));
        let flags = code_flag::of_cuts(name_cut, file_cut, !is_whole);
        let (name, file) = (name.get(..name_len)?, file.get(..file_len)?);
        let facts = CodeFacts { language: Language::HotSpot as u64, first_line, flags, name, file };
        let form = if layout.biased { LineTableForm::CompressedBiased } else { LineTableForm::Compressed };
        Some((facts, KeptLines { form, at, octets }))
    }
}

impl Refused {
    /// What a recording says of a virtual machine that is not read. `None`: it is not up yet, so nothing.
    #[must_use]
    pub const fn state(self) -> Option<InterpreterState> {
        match self {
            Refused::Missing(_) => Some(InterpreterState::Unpublished),
            Refused::Odd(_) => Some(InterpreterState::OtherLayout),
            Refused::Version(_) => Some(InterpreterState::UnknownVersion),
            Refused::NotReady => None,
        }
    }

    /// What is missing or odd.
    #[must_use]
    pub const fn detail(self) -> &'static str {
        match self {
            Refused::Missing(name) | Refused::Odd(name) => name,
            Refused::Version(_) | Refused::NotReady => "",
        }
    }
}
