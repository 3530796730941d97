//! Functions of interpreted languages: those of all files in one table, equal ones once, and the lines of their frames.
//!
//! A file numbers its functions itself and has a copy of each one's line table. What is in it is not
//! believed: a function that is not there, a table that is damaged or ends too early is a note, and the frame
//! stays without a line.

use crate::language::Language;
use crate::model::{Account, Builder, Frame as Shown, FrameId, Object, ObjectKind};
use pct_format::codes::{Code, Codes, Interpreter};
use pct_format::record::{self, CodeFrame, InterpreterState, LineTableForm, LostCode};
use pct_languages::cpython::layout::LineTable;
use pct_languages::cpython::lines::{Answer, look_up};
use rustc_hash::FxHashMap;

/// A function: what makes it the same in all files.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Spoken {
    language: Language,
    name: String,
    file: String,
    first_line: u32,
}

/// The functions of all files.
#[derive(Default)]
pub(super) struct SpokenTable {
    list: Vec<Spoken>,
    numbers: FxHashMap<Spoken, u32>,
}

impl SpokenTable {
    fn number(&mut self, function: Spoken) -> u32 {
        *self.numbers.entry(function).or_insert_with_key(|function| {
            self.list.push(function.clone());
            u32::try_from(self.list.len() - 1).unwrap_or(u32::MAX)
        })
    }

    /// The language of a function.
    pub(super) fn language(&self, number: u32) -> Language {
        self.list[number as usize].language
    }

    /// The frame of a function at a line, 0 = not known.
    pub(super) fn frame(&self, b: &mut Builder, number: u32, line: u32) -> FrameId {
        let Spoken { language, name, file, first_line } = &self.list[number as usize];
        let object = module(b, *language, file);
        let file = (!file.is_empty()).then(|| b.file(file));
        let declared = file.filter(|_| *first_line > 0).map(|file| (file, *first_line));
        let function = b.function_at(object, name, declared);
        b.frame(Shown { function, file, line, address: None, inlined: false })
    }
}

/// The object of a file's functions.
fn module(b: &mut Builder, language: Language, file: &str) -> crate::model::ObjectId {
    let path = if file.is_empty() { format!("[{}]", language.name()) } else { file.to_owned() };
    b.object(Object::new(path, ObjectKind::Module(language)))
}

/// The frame that stands for frames that are not there; `None`: nothing is shown for them.
pub(super) fn lost_frame(b: &mut Builder, language: Language, why: LostCode) -> Option<FrameId> {
    let name = match why {
        LostCode::Torn | LostCode::Several | LostCode::Other => return None,
        LostCode::NotWritten | LostCode::InHeap => format!("[{}]", why.name()),
        LostCode::Cut => format!("<truncated: {}>", why.name()),
    };
    let object = module(b, language, "");
    let function = b.function(object, &name);
    Some(b.plain_frame(function))
}

/// The functions of one file.
pub(super) struct Speaking<'i> {
    codes: &'i Codes,
    cwd: String,
    /// The language of frames that name no function.
    language: Language,
    numbers: FxHashMap<u32, Option<u32>>,
    unnamed: u64,
    tables: Tables,
}

/// Line tables that did not answer.
#[derive(Default)]
struct Tables {
    cut: rustc_hash::FxHashSet<u32>,
    damaged: rustc_hash::FxHashSet<u32>,
}

impl<'i> Speaking<'i> {
    /// Of a file in whose header this working directory stands.
    pub(super) fn new(codes: &'i Codes, interpreters: &[Interpreter], cwd: &[u8]) -> Self {
        let language = interpreters.iter().find_map(|found| language_of(found.language.into()));
        Self {
            codes,
            cwd: String::from_utf8_lossy(cwd).into_owned(),
            language: language.unwrap_or(Language::Python),
            numbers: FxHashMap::default(),
            unnamed: 0,
            tables: Tables::default(),
        }
    }

    /// The language of frames that are not there.
    pub(super) fn language(&self) -> Language {
        self.language
    }

    /// Function and line of a frame; `None`: the file does not define its function.
    pub(super) fn place(&mut self, table: &mut SpokenTable, frame: CodeFrame) -> Option<(u32, u32)> {
        let code = self.codes.get(frame.id());
        let number = *self.numbers.entry(frame.id()).or_insert_with(|| {
            let code = code?;
            let language = language_of(code.facts.language)?;
            let file = match language {
                // A class names its file without the folder that it was compiled in.
                Language::Java => code.facts.file.clone(),
                Language::JavaScript => script(&code.facts.file),
                _ => absolute(&self.cwd, &code.facts.file),
            };
            let first_line = code.facts.first_line;
            let name = match (language, code.facts.name.as_str(), first_line) {
                (Language::JavaScript, "", 0) => "(anonymous)".to_owned(),
                (Language::JavaScript, "", line) => format!("(anonymous:{line})"),
                (_, name, _) => name.to_owned(),
            };
            Some(table.number(Spoken { language, name, file, first_line }))
        });
        let (Some(number), Some(code)) = (number, code) else {
            self.unnamed += 1;
            return None;
        };
        Some((number, self.tables.line(frame, code)))
    }

    /// Says what was wrong.
    pub(super) fn close(self, path: &std::path::Path, account: &mut Account) {
        let path = path.display();
        let mut tell = |count: usize, one: &str, many: &str, what: &str| {
            if count > 0 {
                let count = crate::text::numbers::count(count as u64, one, many);
                account.note(format!("{path}: {count} {what}"));
            }
        };
        let functions = ("function has", "functions have");
        tell(
            self.tables.damaged.len(),
            functions.0,
            functions.1,
            "a damaged line table; their lines are not shown",
        );
        tell(
            self.tables.cut.len(),
            functions.0,
            functions.1,
            "only a part of the line table; later lines are not shown",
        );
        let unnamed = usize::try_from(self.unnamed).unwrap_or(usize::MAX);
        tell(unnamed, "frame names", "frames name", "a function that the file does not define");
    }
}

impl Tables {
    /// The line of a frame; 0 = not known.
    fn line(&mut self, frame: CodeFrame, code: &Code) -> u32 {
        let first_line = code.facts.first_line;
        let Some(offset) = frame.offset() else {
            // The first line of a Java method is not recorded.
            let is_java =
                matches!(code.line_form, Some(LineTableForm::Compressed | LineTableForm::CompressedBiased));
            return if is_java { 0 } else { first_line };
        };
        let Some(form) = code.line_form else { return 0 };
        let form = match form {
            LineTableForm::Lnotab => LineTable::Lnotab,
            LineTableForm::Pairs => LineTable::Pairs,
            LineTableForm::Locations => LineTable::Locations,
            LineTableForm::Compressed => return self.java_line(frame, code, false),
            LineTableForm::CompressedBiased => return self.java_line(frame, code, true),
        };
        let whole = code.lines_are_whole && code.facts.flags & record::code_flag::LINES_CUT == 0;
        match look_up(form, &code.lines, whole, first_line, offset.saturating_mul(2)) {
            Answer::Line(line) => line,
            Answer::NoLine => first_line,
            Answer::Ended if !whole => {
                self.cut.insert(frame.id());
                0
            }
            Answer::Ended | Answer::Damaged => {
                self.damaged.insert(frame.id());
                0
            }
        }
    }

    /// The same for a Java method.
    fn java_line(&mut self, frame: CodeFrame, code: &Code, biased: bool) -> u32 {
        use pct_languages::hotspot::lines;
        let Some(bci) = frame.offset() else { return 0 };
        let is_cut = !code.lines_are_whole || code.facts.flags & record::code_flag::LINES_CUT != 0;
        match lines::look_up(&code.lines, biased, bci) {
            lines::Answer::Line(line) => line,
            lines::Answer::NoLine => 0,
            lines::Answer::Damaged => {
                let list = if is_cut { &mut self.cut } else { &mut self.damaged };
                list.insert(frame.id());
                0
            }
        }
    }
}

/// A language by its number in files.
fn language_of(number: u64) -> Option<Language> {
    Some(match record::Language::from_number(number)? {
        record::Language::CPython => Language::Python,
        record::Language::HotSpot => Language::Java,
        record::Language::V8 => Language::JavaScript,
    })
}

/// How a script is shown: by its path, or by the name that V8 has for it instead (`node:fs`). V8 names modules by URL
/// (`file:///srv/app.mjs`).
fn script(name: &str) -> String {
    match name.strip_prefix("file://").filter(|path| path.starts_with('/')) {
        Some(path) => percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned(),
        None => name.to_owned(),
    }
}

/// Scripts are named as they were typed; what is no path (`<string>`) stays.
fn absolute(cwd: &str, file: &str) -> String {
    let relative = !file.is_empty() && !file.starts_with(['/', '<']);
    if relative && cwd.starts_with('/') {
        let file = file.strip_prefix("./").unwrap_or(file);
        format!("{}/{file}", cwd.trim_end_matches('/'))
    } else {
        file.to_owned()
    }
}

/// Notes why interpreters that are there were not read.
pub(super) fn note_interpreters(interpreters: &[Interpreter], account: &mut Account) {
    for found in interpreters {
        let Some(language) = language_of(found.language.into()) else { continue };
        match InterpreterState::from_number(found.state) {
            Some(InterpreterState::Read | InterpreterState::SwitchedOff) => continue,
            state => {
                let why =
                    state.map_or("for a reason that this version does not know", InterpreterState::name);
                let path = String::from_utf8_lossy(&found.path);
                let detail = String::from_utf8_lossy(&found.detail);
                let detail = if detail.is_empty() { String::new() } else { format!(" ({detail})") };
                account.note(format!(
                    "{path}{}: {} functions are not shown: {why}{detail}",
                    version(language, found.version),
                    language.name()
                ));
            }
        }
    }
}

/// A version as people write it, behind a blank; nothing if it is not known.
fn version(language: Language, version: u64) -> String {
    match (language, version) {
        (_, 0) => String::new(),
        (Language::Python, n) => format!(" (Python {}.{})", n >> 24 & 0xff, n >> 16 & 0xff),
        (Language::Java, n) => format!(" (Java {n})"),
        (Language::JavaScript, n) => format!(" (V8 {}.{})", n >> 16, n & 0xffff),
        (_, n) => format!(" (version {n})"),
    }
}

#[cfg(test)]
mod tests {
    use super::{absolute, script, version};
    use crate::Language;

    #[test]
    fn files_are_named_from_the_working_directory() {
        assert_eq!(absolute("/srv", "app.py"), "/srv/app.py");
        assert_eq!(absolute("/srv/", "./a/b.py"), "/srv/a/b.py");
        for same in ["/a.py", "<string>", ""] {
            assert_eq!(absolute("/srv", same), same);
        }
        assert_eq!(absolute("", "app.py"), "app.py");
    }

    #[test]
    fn scripts_are_named_by_their_path() {
        for (name, shown) in [
            ("file:///srv/a%20b/na%C3%AFve.mjs", "/srv/a b/naïve.mjs"),
            ("/srv/100%25.js", "/srv/100%25.js"),
            ("file://host/x", "file://host/x"),
            ("node:fs", "node:fs"),
            ("[eval]", "[eval]"),
            ("", ""),
        ] {
            assert_eq!(script(name), shown);
        }
    }

    #[test]
    fn versions_are_written_as_people_do() {
        assert_eq!(version(Language::Python, 0x030c_01f0), " (Python 3.12)");
        assert_eq!(version(Language::Python, 0), "");
        assert_eq!(version(Language::JavaScript, 11 << 16 | 3), " (V8 11.3)");
    }
}
