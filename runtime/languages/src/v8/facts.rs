//! What a recording is told of a function, and of a V8 that is not read.

use pct_format::record::{CodeFacts, InterpreterState, Language, code_flag};

use super::function::Function;
use super::layout::{Layout, Refused};
use super::text::CountedLines;
use crate::ThreadMemory;

/// Name of what is outside of all functions of a script.
const TOP_LEVEL: &[u8] = b"(top level)";

impl Function {
    /// The facts, with the function's name and file in these buffers. `None`: they cannot be read.
    pub fn facts<'b, M: ThreadMemory>(
        &self,
        memory: &M,
        layout: &Layout,
        (name, file): (&'b mut [u8], &'b mut [u8]),
        lines: &mut CountedLines,
    ) -> Option<CodeFacts<&'b [u8]>> {
        let scope = self.scope(memory, layout)?;
        let source = self.source(memory, layout);
        let script = self.file(memory, layout);
        let (file_len, file_cut) =
            script.map_or(Some((0, false)), |script| script.write(memory, layout, file))?;
        let is_top = scope.name.is_none()
            && source.is_some_and(|source| scope.place.is_some_and(|place| place == (0, source.length)));
        let written = scope.name.map(|text| text.write(memory, layout, name));
        let (name_len, name_cut) = written.unwrap_or(Some((0, false)))?;
        let name = if is_top { TOP_LEVEL } else { name.get(..name_len)? };
        let before = source
            .zip(scope.place)
            .and_then(|(source, (begin, _))| lines.before(memory, layout, (self.script(), &source), begin));
        let first_line = before.map_or(0, |lines| lines + 1);
        let flags = code_flag::of_cuts(name_cut, file_cut, false);
        let file = file.get(..file_len)?;
        Some(CodeFacts { language: Language::V8 as u64, first_line, flags, name, file })
    }
}

impl Refused {
    /// What a recording says of a V8 that is not read. `None`: it is not up yet, so nothing.
    #[must_use]
    pub const fn state(self) -> Option<InterpreterState> {
        match self {
            Refused::Missing(_) => Some(InterpreterState::Unpublished),
            Refused::Odd(_) => Some(InterpreterState::OtherLayout),
            Refused::NotReady => None,
        }
    }
}
