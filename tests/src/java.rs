//! Java in recordings: whether their stacks are possible in a program that is known (`victims/Truth.java`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use pct_format::record::{Frame, LineTableForm, LostCode, Stack};
use pct_format::{File, Index};
use pct_languages::hotspot::lines::{Answer, look_up};

/// A Java method in a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JavaCall {
    /// `package.Class.method`.
    pub name: String,
    /// `package/File.java`.
    pub file: String,
    /// The line that runs or calls; `None`: not known.
    pub line: Option<u32>,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JavaStackFrame {
    /// Native code.
    Native(u64),
    /// A Java method.
    Java(JavaCall),
    /// Java methods that are not there.
    Missing(LostCode),
    /// The rest is not there.
    Cut,
}

/// All stacks, innermost frame first; the first one is the sampled PC.
///
/// # Panics
/// When the file is damaged.
pub fn stacks(bytes: &[u8]) -> Vec<Vec<JavaStackFrame>> {
    let file = File::parse(bytes).expect("a whole file");
    let index = Index::new(&file);
    let read = |frame: Frame| match frame {
        Frame::Return(pc) | Frame::Exact(pc) | Frame::Kernel(pc) => JavaStackFrame::Native(pc),
        Frame::Boundary(_) | Frame::Blocked(_) => JavaStackFrame::Native(0),
        Frame::Code(frame) => {
            let code = index.codes.get(frame.id()).expect("each code that is named is there");
            let biased = code.line_form == Some(LineTableForm::CompressedBiased);
            let answer = frame.offset().map(|bci| look_up(&code.lines, biased, bci));
            let line = match answer {
                Some(Answer::Line(line)) => Some(line),
                _ => None,
            };
            JavaStackFrame::Java(JavaCall {
                name: code.facts.name.clone(),
                file: code.facts.file.clone(),
                line,
            })
        }
        Frame::NoCode(why) => JavaStackFrame::Missing(why),
        Frame::Cut(_) => JavaStackFrame::Cut,
    };
    let of = |pc: u64, stack: Stack<'_>| -> Vec<JavaStackFrame> {
        let frames: Vec<Frame> = match stack {
            Stack::Id(id) => index.stacks.frames(id).collect(),
            Stack::Frames(frames) => frames.iter().collect(),
            Stack::None => Vec::new(),
        };
        std::iter::once(JavaStackFrame::Native(pc)).chain(frames.into_iter().map(read)).collect()
    };
    index.samples_by_time().map(|(_, sample)| of(sample.pc, sample.stack)).collect()
}

/// The JVM, and a folder with a victim's classes. `None`: there is no Java here, which is said.
///
/// # Panics
/// When the victim does not compile.
pub fn compiled_or_skip(source: &str, test: &str) -> Option<(PathBuf, tempfile::TempDir)> {
    let (java, javac) = (crate::tool_or_skip("java", test)?, crate::tool_or_skip("javac", test)?);
    let classes = tempfile::tempdir().expect("a folder");
    let source = crate::root().join("tests/victims").join(source);
    let compiled = Command::new(javac).arg("-d").arg(classes.path()).arg(source).status();
    assert!(compiled.expect("javac runs").success());
    Some((java, classes))
}

/// The methods of `Truth.java`: first and last line, and what each calls. A name that ends with `*` stands for all that
/// begin so. Who is not here may call anything.
const TRUTH: &[(&str, (u32, u32), &[&str])] = &[
    ("Truth.spin", (7, 13), &[]),
    ("Truth$F1.run", (14, 14), &["Truth$F1.f1"]),
    ("Truth$F1.f1", (14, 14), &["Truth.spin"]),
    ("Truth$F2.run", (15, 15), &["Truth$F2.f2"]),
    ("Truth$F2.f2", (15, 15), &["Truth.spin"]),
    ("Truth$F4.run", (16, 16), &["Truth$F4.f4"]),
    ("Truth$F4.f4", (16, 16), &["Truth.spin"]),
    ("Truth$F8.run", (17, 17), &["Truth$F8.f8"]),
    ("Truth$F8.f8", (17, 17), &["Truth.spin"]),
    ("Truth.recurse", (19, 24), &["Truth.recurse", "Truth.spin"]),
    ("Truth.sorted", (25, 30), &["java.*", "jdk.*", "sun.*"]),
    ("Truth.lambda$sorted$", (28, 28), &["Truth.compare", "java.lang.Integer.*"]),
    ("Truth.compare", (31, 31), &["Truth.spin", "java.lang.Integer.compare"]),
    ("Truth.deflated", (33, 40), &["java.*"]),
    ("Truth.allocated", (41, 46), &["java.*", "jdk.*"]),
    ("Truth.thrown", (47, 49), &["Truth.thrower"]),
    ("Truth.thrower", (50, 53), &["Truth.thrower", "java.lang.*"]),
    (
        "Truth.round",
        (54, 63),
        &[
            "Truth$F1.run",
            "Truth$F2.run",
            "Truth$F4.run",
            "Truth$F8.run",
            "Truth.recurse",
            "Truth.sorted",
            "Truth.deflated",
            "Truth.allocated",
            "Truth.thrown",
        ],
    ),
    ("Truth.loop", (64, 68), &["Truth.round", "Truth$F*", "java.lang.*"]),
    ("Truth.lambda$main$", (73, 73), &["Truth.loop"]),
];

/// What is counted of one recording.
#[derive(Clone, Debug, Default)]
pub struct JavaCounts {
    /// Samples with Java frames, or where they are missing.
    pub java: u64,
    /// Those that are whole.
    pub whole: u64,
    /// Links between methods of the program.
    pub links: u64,
    /// Links that cannot be, and lines outside of their methods, with how often.
    pub illegal: BTreeMap<String, u64>,
    /// Frames of the program's methods with a line, and without.
    pub lines: (u64, u64),
    /// Frames whose method was not written down.
    pub not_written: u64,
    /// Samples by the innermost method of the program.
    pub innermost: BTreeMap<String, u64>,
    /// Stacks that are not whole, with how often.
    pub torn: BTreeMap<String, u64>,
}

fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |begin| name.starts_with(begin))
}

fn known(name: &str) -> Option<&'static (&'static str, (u32, u32), &'static [&'static str])> {
    TRUTH.iter().find(|(own, ..)| *own == name || own.ends_with('$') && name.starts_with(own))
}

/// Counts what the stacks of a run of `Truth.java` say.
pub fn count(stacks: &[Vec<JavaStackFrame>]) -> JavaCounts {
    let mut counts = JavaCounts::default();
    for stack in stacks {
        let is_java =
            stack.iter().any(|frame| matches!(frame, JavaStackFrame::Java(_) | JavaStackFrame::Missing(_)));
        if !is_java {
            continue;
        }
        counts.java += 1;
        counts.not_written +=
            stack.iter().filter(|frame| **frame == JavaStackFrame::Missing(LostCode::NotWritten)).count()
                as u64;
        let torn = stack.iter().any(|frame| {
            matches!(frame, JavaStackFrame::Missing(LostCode::Torn | LostCode::Other) | JavaStackFrame::Cut)
        });
        if torn {
            let names: Vec<String> = stack.iter().take(5).map(spoken).collect();
            *counts.torn.entry(names.join(" < ")).or_default() += 1;
        } else {
            counts.whole += 1;
        }
        let mut innermost = true;
        let mut callee: Option<&str> = None;
        let mut native = false;
        for frame in stack {
            let JavaStackFrame::Java(call) = frame else {
                native |= callee.is_some() && matches!(frame, JavaStackFrame::Native(_));
                if matches!(frame, JavaStackFrame::Missing(_)) {
                    callee = None;
                }
                continue;
            };
            if let Some((name, (first, last), calls)) = known(&call.name) {
                if let Some(callee) = callee {
                    counts.links += 1;
                    // Native code lies between where the virtual machine itself calls: to load a class, for one.
                    let is_legal = calls.iter().any(|pattern| matches(pattern, callee))
                        || native && !callee.starts_with("Truth");
                    if !is_legal {
                        *counts.illegal.entry(format!("{callee} < {name}")).or_default() += 1;
                    }
                }
                match call.line {
                    Some(line) => {
                        counts.lines.0 += 1;
                        if !(*first..=*last).contains(&line) {
                            *counts.illegal.entry(format!("{name}:{line}")).or_default() += 1;
                        }
                    }
                    None => counts.lines.1 += 1,
                }
                if std::mem::take(&mut innermost) {
                    *counts.innermost.entry((*name).to_owned()).or_default() += 1;
                }
            } else if callee.is_some_and(|callee| callee == "Truth.spin" || callee.starts_with("Truth$F")) {
                *counts.illegal.entry(format!("{} < {}", callee.unwrap_or(""), call.name)).or_default() += 1;
            }
            callee = Some(&call.name);
            native = false;
        }
    }
    counts
}

fn spoken(frame: &JavaStackFrame) -> String {
    match frame {
        JavaStackFrame::Native(pc) => format!("{pc:#x}"),
        JavaStackFrame::Java(call) => call.name.clone(),
        JavaStackFrame::Missing(why) => format!("[{}]", why.name()),
        JavaStackFrame::Cut => "[cut]".to_owned(),
    }
}
