//! A translator's answers for one object: frames by address, with each name stored once.
//!
//! Each worker fills an [`Answers`] of its own, without locks. The symbolizer copies them into its own tables in a
//! fixed order, so the same questions give the same numbers however many threads worked.

use crate::quickhash::QuickMap;
use crate::symtab::Source;

/// Stands for "no file".
pub(crate) const NO_TEXT: u32 = u32::MAX;

/// A frame whose names are numbers in its own [`Answers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocalFrame {
    pub(crate) function: u32,
    pub(crate) file: u32,
    /// 0: unknown.
    pub(crate) line: u32,
    /// 0: unknown.
    pub(crate) column: u32,
    pub(crate) inlined: bool,
    pub(crate) source: Source,
    pub(crate) declared: LocalPlace,
}

/// Where a function is declared, in numbers of its own [`Answers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocalPlace {
    pub(crate) file: u32,
    pub(crate) line: u32,
}

impl LocalPlace {
    pub(crate) const NONE: LocalPlace = LocalPlace { file: NO_TEXT, line: 0 };
}

/// The frames of one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocalSpan {
    /// The address as it was asked for.
    pub(crate) asked: u64,
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// Bytes from the function's start; `u64::MAX` if unknown.
    pub(crate) into: u64,
}

/// See the module's text.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    pub(crate) texts: Vec<String>,
    numbers: QuickMap<String, u32>,
    pub(crate) frames: Vec<LocalFrame>,
    pub(crate) spans: Vec<LocalSpan>,
}

/// A table index as an id. A table of 2^32 entries would not fit into memory; the largest number stands for all
/// larger ones.
pub(crate) fn table_index(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

impl Answers {
    /// The number of a text. A new text is added.
    pub(crate) fn text(&mut self, text: &str) -> u32 {
        if let Some(n) = self.numbers.get(text) {
            return *n;
        }
        let n = table_index(self.texts.len());
        self.texts.push(text.to_string());
        self.numbers.insert(text.to_string(), n);
        n
    }

    /// Makes the frames pushed since `first` the answer for `asked`.
    pub(crate) fn close(&mut self, asked: u64, first: usize, into: Option<u64>) {
        let count = table_index(self.frames.len() - first);
        self.spans.push(LocalSpan {
            asked,
            first: table_index(first),
            count,
            into: into.unwrap_or(u64::MAX),
        });
    }

    /// Moves everything from `other` into this one, and returns the new numbers of its texts.
    pub(crate) fn absorb(&mut self, other: Answers) -> Vec<u32> {
        let texts: Vec<u32> = other.texts.iter().map(|t| self.text(t)).collect();
        let number = |n: u32| texts.get(n as usize).copied().unwrap_or(NO_TEXT);
        let base = table_index(self.frames.len());
        self.frames.extend(other.frames.iter().map(|f| LocalFrame {
            function: number(f.function),
            file: number(f.file),
            declared: LocalPlace { file: number(f.declared.file), line: f.declared.line },
            ..*f
        }));
        self.spans.extend(other.spans.iter().map(|s| LocalSpan { first: base + s.first, ..*s }));
        texts
    }

    /// Drops frames without a name from `first` on.
    pub(crate) fn drop_nameless(&mut self, first: usize) {
        let mut at = 0;
        self.frames.retain(|f| {
            at += 1;
            at <= first || f.function != NO_TEXT
        });
    }

    /// A one-frame answer without file and line.
    pub(crate) fn name(&mut self, asked: u64, name: &str, source: Source, into: Option<u64>) {
        let first = self.frames.len();
        let function = self.text(name);
        self.frames.push(LocalFrame {
            function,
            file: NO_TEXT,
            line: 0,
            column: 0,
            inlined: false,
            source,
            declared: LocalPlace::NONE,
        });
        self.close(asked, first, into);
    }
}
