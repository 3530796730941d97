//! Functions of interpreted languages: the contents of a frame word, a code record and a line table record.
//!
//! A *code* is a function as its interpreter represents it (CPython: a code object). It gets a number in the file when
//! the sampler first meets it. Its names and its line table are copied then, since generated code may soon vanish.

use super::write::Encoder;
use crate::head::kind;
use crate::numbered::numbered;

numbered! {
    /// An interpreted language, by its interpreter.
    Language {
        /// CPython.
        CPython = 1 "python",
        /// HotSpot.
        HotSpot = 2 "java",
        /// V8.
        V8 = 3 "javascript",
    }
}

numbered! {
    /// Why frames of an interpreted language are missing where they belong.
    LostCode {
        /// The interpreter's chain of frames was incomplete at that moment, or cannot be read.
        Torn = 1 "frames not readable",
        /// The function was not recorded yet: too many new ones in one sample, or another thread was recording.
        NotWritten = 2 "function not written down",
        /// There are more frames than the limit of depth or time allows.
        Cut = 3 "frames cut",
        /// The process has several interpreters, and it is unknown which of them the thread runs.
        Several = 4 "several interpreters",
        /// Any other cause, including those of newer writers.
        Other = 5 "other",
        /// The callers of a virtual thread that lie in the heap.
        InHeap = 6 "callers in the heap",
    }
}

numbered! {
    /// Form of a line table.
    LineTableForm {
        /// `co_lnotab` of CPython 3.8 and 3.9.
        Lnotab = 1 "lnotab",
        /// `co_linetable` of CPython 3.10: pairs.
        Pairs = 2 "pairs",
        /// `co_linetable` of CPython 3.11 and later: locations.
        Locations = 3 "locations",
        /// Compressed line numbers of HotSpot up to JDK 19.
        Compressed = 4 "compressed",
        /// The same from JDK 20 on: each octet of a number is one larger.
        CompressedBiased = 5 "compressed, biased",
    }
}

numbered! {
    /// Whether an interpreter's frames are read, and if not, why not.
    InterpreterState {
        /// They are.
        Read = 1 "its frames are read",
        /// This sampler does not know its version, or the interpreter does not publish one.
        UnknownVersion = 2 "its version is not known",
        /// The layout that it publishes differs from that of its version.
        OtherLayout = 3 "its layout is not that of its version: a debug build, or another implementation",
        /// It does not export the symbols by which its frames are found.
        NoSymbols = 4 "it does not export the symbols that are needed",
        /// The process has another copy of the interpreter, and that one is read.
        Second = 5 "another copy of it is read",
        /// An option switched it off.
        SwitchedOff = 6 "switched off",
        /// The C library does not publish where threads keep their own data.
        NoThreadData = 7 "the C library does not say where threads keep their data",
        /// It does not publish all that is needed.
        Unpublished = 8 "it does not publish all that is needed",
    }
}

/// Flags of a code record.
pub mod code_flag {
    /// The name was cut.
    pub const NAME_CUT: u64 = 1;
    /// The name of the file was cut.
    pub const FILE_CUT: u64 = 2;
    /// The line table is not complete.
    pub const LINES_CUT: u64 = 4;

    /// Those that are set where the name, the name of the file or the line table was cut.
    #[must_use]
    pub const fn of_cuts(name: bool, file: bool, lines: bool) -> u64 {
        (name as u64 * NAME_CUT) | (file as u64 * FILE_CUT) | (lines as u64 * LINES_CUT)
    }
}

/// A frame of an interpreted language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CodeFrame {
    id: u32,
    offset: u32,
}

impl CodeFrame {
    pub(super) const OFFSET_BITS: u64 = (1 << 24) - 1;
    const NO_OFFSET: u32 = 0xff_ffff;

    /// A frame of code `id` (not 0) at `offset` code units. An offset of `None`, or one that is too large, means that
    /// the instruction is unknown.
    #[inline]
    #[must_use]
    pub const fn new(id: u32, offset: Option<u32>) -> Option<CodeFrame> {
        let offset = match offset {
            Some(offset) if offset < Self::NO_OFFSET => offset,
            _ => Self::NO_OFFSET,
        };
        if id == 0 { None } else { Some(CodeFrame { id, offset }) }
    }

    /// Number of the code in the file, from 1.
    #[must_use]
    pub const fn id(self) -> u32 {
        self.id
    }

    /// The instruction that runs or calls, in code units (CPython: two octets each; HotSpot: an octet of bytecode).
    /// `None`: unknown, or none has run yet; the line is the function's first.
    #[must_use]
    pub const fn offset(self) -> Option<u32> {
        if self.offset == Self::NO_OFFSET { None } else { Some(self.offset) }
    }

    #[inline(always)]
    pub(super) const fn bits(self) -> u64 {
        (self.id as u64) << 24 | self.offset as u64
    }

    #[expect(clippy::cast_possible_truncation, reason = "each field is cut out of the word")]
    pub(super) const fn from_bits(bits: u64) -> Option<CodeFrame> {
        CodeFrame::new((bits >> 24) as u32, Some((bits & Self::OFFSET_BITS) as u32))
    }
}

/// The contents of a code record. `T` holds octets of UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeFacts<T> {
    /// [`Language`] number.
    pub language: u64,
    /// First line of the function.
    pub first_line: u32,
    /// [`code_flag`].
    pub flags: u64,
    /// Its name, qualified if the interpreter has that.
    pub name: T,
    /// Its file as the interpreter names it.
    pub file: T,
}

impl<T> CodeFacts<T> {
    /// The same facts with their octets in another form.
    #[must_use]
    pub fn map<U>(self, mut octets: impl FnMut(T) -> U) -> CodeFacts<U> {
        let Self { language, first_line, flags, name, file } = self;
        let (name, file) = (octets(name), octets(file));
        CodeFacts { language, first_line, flags, name, file }
    }
}

impl<T: AsRef<[u8]>> CodeFacts<T> {
    /// The record that defines code `id` at raw time `time`. `None`: the buffer is too small.
    #[must_use]
    pub fn record<'b>(&self, buffer: &'b mut [u64], id: u32, time: u64) -> Option<&'b [u64]> {
        Encoder::new(buffer)
            .raw_word(time)
            .number(self.language)
            .number(u64::from(self.first_line))
            .number(self.flags)
            .text(self.name.as_ref())
            .text(self.file.as_ref())
            .finish(kind::CODE, id)
    }
}

/// A part of a line table. `T` holds octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineTablePart<T> {
    /// [`LineTableForm`] number.
    pub form: u64,
    /// Where the part begins in the table.
    pub offset: u64,
    /// Octets of the entire table.
    pub whole: u64,
    /// The octets.
    pub octets: T,
}

impl<T: AsRef<[u8]>> LineTablePart<T> {
    /// The record of this part of code `id`'s table. `None`: the buffer is too small.
    #[must_use]
    pub fn record<'b>(&self, buffer: &'b mut [u64], id: u32) -> Option<&'b [u64]> {
        Encoder::new(buffer)
            .number(self.form)
            .number(self.offset)
            .number(self.whole)
            .text(self.octets.as_ref())
            .finish(kind::LINE_TABLE, id)
    }
}
