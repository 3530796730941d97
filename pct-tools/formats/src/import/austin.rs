//! The text of Austin, a sampler of Python programs: a sample a line, outermost function first, after lines that say
//! how it was taken.
//!
//! ```text
//! # austin: 3.4.1
//! # mode: wall
//! P4711;T4712;/srv/shop.py:<module>:30;/srv/shop.py:total:12 10058
//! ```
//!
//! The numbers are microseconds of wall or of CPU time; of memory the text says no unit.

use super::problem::Problem;
use super::samples::{Sample, Samples};
use super::types::SampleType;
use pct_profile::Profile;
use pct_profile::model::{Frame, FrameId, ProcessId, ThreadId};
use rustc_hash::FxHashMap;

const HEAD: &str = "# austin: ";
const EXPECTED: &str = "expected `P1;T1;file:function:line microseconds`, as Austin writes them";

pub(super) fn looks_like(text: &str) -> bool {
    text.starts_with(HEAD)
}

pub(super) fn read(text: &str) -> Result<Profile, Problem> {
    let refused =
        |at: usize, problem: &str| Problem { place: format!("line {}", at + 1), problem: problem.into() };
    let mut out = Samples::new("[austin]", false);
    let mut mode = "wall";
    let mut processes: FxHashMap<&str, ProcessId> = FxHashMap::default();
    let mut threads: FxHashMap<(&str, &str), ThreadId> = FxHashMap::default();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if let Some(comment) = line.strip_prefix("# ") {
            mode = comment.strip_prefix("mode: ").unwrap_or(mode);
            continue;
        }
        if line.is_empty() {
            continue;
        }
        let (stack, amount) = line.rsplit_once(' ').ok_or_else(|| refused(at, EXPECTED))?;
        let amount = amount.parse::<i64>().map_err(|_| refused(at, EXPECTED))?;
        let mut parts = stack.split(';');
        let (Some(pid), Some(tid)) = (numbered(parts.next(), 'P'), numbered(parts.next(), 'T')) else {
            return Err(refused(at, EXPECTED));
        };
        let process = *processes.entry(pid).or_insert_with(|| out.process(number(pid), "python"));
        let thread = *threads.entry((pid, tid)).or_insert_with(|| out.b.thread(process, number(tid), tid));
        let mut stack = None;
        for part in parts {
            let frame = frame(&mut out, part);
            stack = Some(out.b.stack(stack, frame));
        }
        out.add(Sample { thread, stack, amount: amount as f64, samples: 1, time_ns: None });
    }
    let kind = match mode {
        "wall" | "cpu" => SampleType::new(mode, "microseconds"),
        _ => SampleType::new(mode, ""),
    };
    out.finish(&kind)
}

/// What is behind the letter.
fn numbered(part: Option<&str>, letter: char) -> Option<&str> {
    part?.strip_prefix(letter)
}

/// Ids may be of an interpreter and a thread, or in hexadecimal.
fn number(id: &str) -> u32 {
    id.rsplit(':').next().and_then(|id| id.parse().ok()).unwrap_or(0)
}

/// `file:function:line`; a name that is of another form is a function of no file.
fn frame(out: &mut Samples, part: &str) -> FrameId {
    let mut fields = part.rsplitn(3, ':');
    let placed = match (fields.next().and_then(|line| line.parse::<u32>().ok()), fields.next(), fields.next())
    {
        (Some(line), Some(function), Some(file)) => Some((file, function, line)),
        _ => None,
    };
    let Some((file, function, line)) = placed else {
        let nowhere = out.place("");
        let function = out.function(nowhere, part, 0);
        return out.b.plain_frame(function);
    };
    let place = out.place(file);
    let function = out.function(place, function, 0);
    out.b.frame(Frame {
        function,
        file: place.1,
        line: if place.1.is_some() { line } else { 0 },
        address: None,
        inlined: false,
    })
}
