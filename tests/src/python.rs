//! CPython in recordings: what they say of it, and whether their stacks are possible in a program that says
//! itself who calls whom (`victims/woven.py`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pct_format::codes::Code;
use pct_format::record::{CodeFrame, Frame, LineTableForm, LostCode, Stack};
use pct_format::{File, Index};
use pct_languages::cpython::layout::LineTable;
use pct_languages::cpython::lines;

/// The bytes of the files in a recording's folder.
///
/// # Panics
/// When they cannot be read.
pub fn files(dir: &Path) -> Vec<Vec<u8>> {
    let entries = std::fs::read_dir(dir).expect("the recording's folder");
    let paths = entries.map(|entry| entry.expect("entry").path());
    paths
        .filter(|path| path.extension().is_some_and(|e| e == "pct"))
        .map(|p| std::fs::read(p).expect("readable"))
        .collect()
}

/// A frame of a function of Python.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its file.
    pub file: String,
    /// Its first line.
    pub first_line: u32,
    /// The line that runs, or calls.
    pub line: u32,
}

impl Function {
    fn of(code: &Code, frame: CodeFrame) -> Function {
        let form = match code.line_form.expect("a line table") {
            LineTableForm::Lnotab => LineTable::Lnotab,
            LineTableForm::Pairs => LineTable::Pairs,
            LineTableForm::Locations => LineTable::Locations,
            LineTableForm::Compressed | LineTableForm::CompressedBiased => {
                panic!("a table of another language")
            }
        };
        assert!(code.lines_are_whole, "{code:?}");
        let first_line = code.facts.first_line;
        let line = match frame.offset() {
            Some(offset) => lines::line(form, &code.lines, first_line, 2 * offset),
            None => first_line,
        };
        let (name, file) = (code.facts.name.clone(), code.facts.file.clone());
        Function { name, file, first_line, line }
    }

    /// The last part of its name.
    pub fn simple(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }
}

/// A frame of a stack: native, Python's, or Python's that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StackFrame {
    /// Native code.
    Native,
    /// A function of Python.
    Python(Function),
    /// Functions of Python that are not there.
    Missing(LostCode),
    /// The rest is not there.
    Cut,
}

/// All stacks, innermost frame first; the first one is the sampled PC.
///
/// # Panics
/// When the file is damaged.
pub fn stacks(bytes: &[u8]) -> Vec<Vec<StackFrame>> {
    let file = File::parse(bytes).expect("a whole file");
    let index = Index::new(&file);
    let seen = |frame: Frame| match frame {
        Frame::Return(_) | Frame::Exact(_) | Frame::Boundary(_) | Frame::Kernel(_) | Frame::Blocked(_) => {
            StackFrame::Native
        }
        Frame::Code(frame) => {
            let code = index.codes.get(frame.id()).expect("each code that is named is there");
            StackFrame::Python(Function::of(code, frame))
        }
        Frame::NoCode(why) => StackFrame::Missing(why),
        Frame::Cut(_) => StackFrame::Cut,
    };
    let of = |stack: Stack<'_>| -> Vec<StackFrame> {
        let frames: Vec<Frame> = match stack {
            Stack::Id(id) => index.stacks.frames(id).collect(),
            Stack::Frames(frames) => frames.iter().collect(),
            Stack::None => Vec::new(),
        };
        std::iter::once(StackFrame::Native).chain(frames.into_iter().map(seen)).collect()
    };
    index.samples_by_time().map(|(_, sample)| of(sample.stack)).collect()
}

/// The Python functions of a stack, and whether native frames lie between each and the one before.
pub fn functions(stack: &[StackFrame]) -> Vec<(&Function, bool)> {
    let mut found = Vec::new();
    let mut native = false;
    for frame in stack {
        match frame {
            StackFrame::Python(function) => found.push((function, std::mem::take(&mut native))),
            _ => native = true,
        }
    }
    found
}

/// What a line of a program may call, by its comment: names, and whether through C only.
fn calls(line: &str) -> (Vec<&str>, bool) {
    let by = |mark: &str| line.split_once(mark).map(|(_, names)| names.split_whitespace().collect());
    match (by("# through C "), by("# calls ")) {
        (Some(names), _) => (names, true),
        (None, names) => (names.unwrap_or_default(), false),
    }
}

/// Why a caller cannot have called, if it cannot.
fn impossible(
    source: &[&str],
    script: &str,
    callee: &Function,
    native: bool,
    caller: &Function,
) -> Option<String> {
    let made = |function: &Function| {
        let number = function.file.strip_prefix("<made ")?.strip_suffix('>')?;
        Some(number.parse::<u64>().expect("a number"))
    };
    if let Some(number) = made(callee) {
        let (made_name, calls_name) = (format!("made_{number}"), format!("calls_{number}"));
        let right = match caller.name.as_str() {
            name if name == calls_name => callee.name == made_name && caller.file == callee.file,
            "by_exec" => callee.name == calls_name || callee.name == "<module>",
            _ => false,
        };
        return (!right).then(|| "another generated function".to_owned());
    }
    if let Some(number) = made(caller) {
        let line = 2 + u32::try_from(number % 7).expect("small");
        let right = callee.name == "leaf" && caller.name == format!("made_{number}") && caller.line == line
            || callee.name == "Thing.__del__"
            || callee.name == "__del__";
        return (!right).then(|| "generated code".to_owned());
    }
    // Objects die anywhere; the rest of the library is not the program's to know.
    if callee.file != script || caller.file != script || callee.simple() == "__del__" {
        return None;
    }
    let text = source.get(caller.line as usize - 1).copied().unwrap_or("");
    let (names, through_c) = calls(text);
    if !names.contains(&callee.simple()) {
        return Some(format!("line {} does not call it: {text}", caller.line));
    }
    // A generator function is called to make the generator: before its first line, and not through C.
    (through_c && !native && callee.line != callee.first_line).then(|| "no native frame between".to_owned())
}

/// What the stacks of a recording of `woven.py` are.
#[derive(Debug, Default)]
pub struct Counts {
    /// Samples.
    pub samples: u64,
    /// Those with functions of Python.
    pub of_python: u64,
    /// Frames that are not there, by cause.
    pub missing: BTreeMap<String, u64>,
    /// How often a function was the innermost one of Python.
    pub leaves: BTreeMap<String, u64>,
    /// Callers that cannot have called, and lines that are none.
    pub impossible: Vec<String>,
    /// Stacks that do not end where the program or a thread begins.
    pub open_ended: u64,
}

impl Counts {
    /// Of the recording in `dir`. `said`: what the program printed at its end.
    ///
    /// # Panics
    /// When the program said something else, or the recording is damaged.
    pub fn of(dir: &Path, script: &str, said: &str) -> Counts {
        let source = std::fs::read_to_string(script).expect("source");
        let source: Vec<&str> = source.lines().collect();
        let truth: serde_json::Value = serde_json::from_str(said).expect("the program's own truth");
        let lines: BTreeMap<u32, BTreeSet<u32>> =
            serde_json::from_value(truth["lines"].clone()).expect("lines");
        let mut counts = Counts::default();
        for bytes in files(dir) {
            for stack in stacks(&bytes) {
                counts.samples += 1;
                for frame in &stack {
                    if let StackFrame::Missing(why) = frame {
                        *counts.missing.entry(why.name().to_owned()).or_default() += 1;
                    }
                }
                let found = functions(&stack);
                let (Some((innermost, _)), Some((outermost, _))) = (found.first(), found.last()) else {
                    continue;
                };
                counts.of_python += 1;
                let ours = found.iter().any(|(function, _)| function.file == script);
                *counts.leaves.entry(innermost.simple().to_owned()).or_default() += u64::from(ours);
                // (What imports itself before the program has its `<module>` only in part of the versions.)
                if ours
                    && !["<module>", "_bootstrap"].contains(&outermost.simple())
                    && !stack.iter().any(|frame| matches!(frame, StackFrame::Cut | StackFrame::Missing(_)))
                {
                    counts.open_ended += 1;
                }
                for (function, _) in found.iter().filter(|(function, _)| function.file == script) {
                    let known =
                        lines.get(&function.first_line).is_some_and(|known| known.contains(&function.line));
                    if !known && function.line != function.first_line {
                        counts.impossible.push(format!("{function:?}: not a line of it"));
                    }
                }
                // Who stands on both sides of a function that is missing did not call each other.
                for part in stack.split(|frame| matches!(frame, StackFrame::Missing(_))) {
                    for pair in functions(part).windows(2) {
                        let [(callee, _), (caller, native)] = *pair else { continue };
                        if let Some(why) = impossible(&source, script, callee, native, caller) {
                            let all = found.iter().map(|(f, n)| (f.simple(), f.line, *n)).collect::<Vec<_>>();
                            counts
                                .impossible
                                .push(format!("{callee:?} from {caller:?}: {why}; {all:?}; {stack:?}"));
                        }
                    }
                }
            }
        }
        counts
    }
}
