//! Folded stacks: `a;b;c 123` lines. The format has no unit: counts are read as numbers of samples.
//!
//! Each line is a stack, outermost function first, then white space and a count. Empty lines are left out, and so
//! are comments: `#` and a space. Any other line is an error: the file is then something else.
//! Counts may have a fraction, as some writers weigh their samples: whole numbers near them are shown, which have the
//! same sum.

use super::problem::Problem;
use pct_profile::model::{
    Builder, FrameId, Object, ObjectId, ObjectKind, Process, Profile, StackId, ThreadId, Weight,
};
use pct_profile::{Quantity, Unit};
use rustc_hash::FxHashMap;

const EXPECTED: &str = "expected `function;function count` (folded stacks), perf script output or pprof";

pub(super) fn read(text: &str) -> Result<Profile, Problem> {
    let mut stacks = Stacks::new();
    let mut tally = Tally::default();
    let mut counted: Vec<(Option<StackId>, Count)> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let refused = |problem: String| Problem { place: format!("line {}", i + 1), problem };
        let Some((stack, count)) = split(line).map_err(refused)? else { continue };
        tally.columns.line(stack);
        tally.add(count).map_err(refused)?;
        let stack = stacks.stack(stack);
        tally.without_stack += u64::from(stack.is_none());
        counted.push((stack, count));
    }
    // A column of numbers has no stack in any line.
    if tally.without_stack == tally.lines && tally.lines > 0 {
        return Err(Problem { place: "line 1".into(), problem: EXPECTED.into() });
    }
    if tally.lines == 0 {
        return Err(Problem { place: "line 1".into(), problem: "no sample in it".into() });
    }
    if tally.columns.are_two() {
        let problem = "two columns of counts: a comparison of two profiles; pct diff BEFORE AFTER compares the profiles \
                       themselves";
        return Err(Problem { place: "line 1".into(), problem: problem.into() });
    }
    for (samples, (stack, _)) in whole_numbers(&counted, &tally).into_iter().zip(&counted) {
        stacks.add(*stack, samples);
    }
    let profile = stacks.b.profile_mut();
    profile.quantity = Quantity::Foreign { name: "samples".into(), unit: Unit::Count };
    let account = &mut profile.account;
    account.note("folded text has no unit: its counts are shown as numbers of samples");
    if tally.fractions > 0 {
        let counts =
            pct_num::count(tally.fractions, "count is no whole number", "counts are no whole numbers");
        account.note(format!("{counts}: rounded, their sum is kept"));
    }
    if tally.without_stack > 0 {
        let lines = pct_num::count(tally.without_stack, "line", "lines");
        account.note(format!("{lines} without a stack, shown as [no stack]"));
    }
    Ok(stacks.b.finish())
}

/// What a line counts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Count {
    Whole(u64),
    /// No whole number, or written as if it might be none.
    Decimal(f64),
}

impl Count {
    fn is_fraction(self) -> bool {
        matches!(self, Self::Decimal(number) if number.fract() != 0.0)
    }
}

/// The counts of all lines as whole numbers with the same sum.
fn whole_numbers(counted: &[(Option<StackId>, Count)], tally: &Tally) -> Vec<u64> {
    let whole = |(_, count): &(_, Count)| match *count {
        Count::Whole(samples) => samples,
        Count::Decimal(number) => pct_num::rounded(number),
    };
    let decimal = |(_, count): &(_, Count)| match *count {
        Count::Whole(samples) => pct_num::float(samples),
        Count::Decimal(number) => number,
    };
    if tally.fractions == 0 {
        return counted.iter().map(whole).collect();
    }
    pct_num::round_to_sum(&counted.iter().map(decimal).collect::<Vec<f64>>())
}

/// A line's stack and count; `None` for lines without any.
fn split(line: &str) -> Result<Option<(&str, Count)>, String> {
    let line = line.trim_end();
    if line.is_empty() || line == "#" || line.starts_with("# ") {
        return Ok(None);
    }
    let Some((stack, word)) = line.rsplit_once([' ', '\t']) else {
        // A comment may be a banner.
        return if line.starts_with('#') { Ok(None) } else { Err(EXPECTED.into()) };
    };
    match count(word) {
        Some(count) => Ok(Some((stack.trim(), count))),
        None if line.starts_with('#') => Ok(None),
        None if word.strip_prefix('-').and_then(count).is_some() => Err(format!(
            "the count is {word}: the file holds differences; pct diff BEFORE AFTER compares the profiles themselves"
        )),
        None => Err(EXPECTED.into()),
    }
}

/// A count: `12`, `2.5`, `1e3`.
fn count(word: &str) -> Option<Count> {
    if let Ok(samples) = word.parse::<u64>() {
        return Some(Count::Whole(samples));
    }
    let starts_well = word.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let is_number = word.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    word.parse().ok().filter(|n: &f64| starts_well && is_number && n.is_finite()).map(Count::Decimal)
}

/// Sums over the lines.
#[derive(Default)]
struct Tally {
    lines: u64,
    samples: u64,
    fractions: u64,
    without_stack: u64,
    columns: Columns,
}

impl Tally {
    fn add(&mut self, count: Count) -> Result<(), String> {
        self.lines += 1;
        self.fractions += u64::from(count.is_fraction());
        let samples = match count {
            Count::Whole(samples) => samples,
            Count::Decimal(number) => pct_num::rounded(number),
        };
        // Tables compare shares in signed numbers.
        let sum = self.samples.checked_add(samples).filter(|sum| i64::try_from(*sum).is_ok());
        self.samples = sum.ok_or("the counts add up to more than can be shown (9.2e18)")?;
        Ok(())
    }
}

/// Whether each line has a second count before the last one.
#[derive(Default)]
struct Columns {
    one: bool,
    two: bool,
}

impl Columns {
    fn line(&mut self, stack: &str) {
        let second = stack.rsplit_once([' ', '\t']).and_then(|(_, word)| count(word));
        *(if second.is_some() { &mut self.two } else { &mut self.one }) = true;
    }
    fn are_two(&self) -> bool {
        self.two && !self.one
    }
}

/// The profile being built.
struct Stacks<'t> {
    b: Builder,
    thread: ThreadId,
    object: ObjectId,
    frames: FxHashMap<&'t str, FrameId>,
    /// The line before, because lines are often sorted: its text, and where each name ends with the stack up to it.
    before: (&'t str, Vec<(usize, StackId)>),
}

impl<'t> Stacks<'t> {
    fn new() -> Self {
        let mut b = Builder::new(false);
        let process = b.process(Process {
            name: "folded".into(),
            clock: pct_profile::model::IMPORTED.into(),
            ..Process::default()
        });
        let thread = b.thread(process, 0, "");
        let object = b.object(Object::new("[folded]", ObjectKind::Unknown));
        Self { b, thread, object, frames: FxHashMap::default(), before: ("", Vec::new()) }
    }

    /// The stack of these names; `None` if there is no name. Empty names are left out.
    fn stack(&mut self, stack: &'t str) -> Option<StackId> {
        let same = stack.bytes().zip(self.before.0.bytes()).take_while(|(a, b)| a == b).count();
        let ends = |end: usize| stack.as_bytes().get(end).is_none_or(|c| *c == b';');
        let path = &mut self.before.1;
        path.truncate(path.iter().take_while(|(end, _)| *end <= same && ends(*end)).count());
        let (mut from, mut at) = path.last().map_or((0, None), |(end, at)| (*end, Some(*at)));
        for name in stack[from..].split(';') {
            let end = from + name.len();
            from = end + 1;
            if name.is_empty() {
                continue;
            }
            let frame = *self.frames.entry(name).or_insert_with(|| {
                let function = self.b.function(self.object, name);
                self.b.plain_frame(function)
            });
            let id = self.b.stack(at, frame);
            at = Some(id);
            path.push((end, id));
        }
        self.before.0 = stack;
        at
    }

    fn add(&mut self, stack: Option<StackId>, samples: u64) {
        if samples == 0 {
            return;
        }
        let stack = stack.unwrap_or_else(|| self.b.no_stack(self.object));
        self.b.add(self.thread, stack, Weight { samples, user_ns: samples, system_ns: 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::{Count, count, split};

    #[test]
    fn counts_may_have_a_fraction_and_no_sign() {
        assert_eq!(count("3"), Some(Count::Whole(3)));
        assert_eq!(count("2.25"), Some(Count::Decimal(2.25)));
        assert_eq!(count("1e3"), Some(Count::Decimal(1000.0)));
        assert!(count("2.25").unwrap().is_fraction() && !count("1e3").unwrap().is_fraction());
        for word in ["-4", "inf", "NaN", "e3", "0x10", "", "+5x", "1,000"] {
            assert_eq!(count(word), None, "{word}");
        }
    }

    #[test]
    fn a_root_may_start_as_a_comment_does() {
        for comment in ["# a;b 3", "#", "#banner", "####### 12 ####"] {
            assert!(split(comment).unwrap().is_none(), "{comment}");
        }
        assert_eq!(split("#0;b\t10").unwrap().unwrap().0, "#0;b");
        assert_eq!(split(" 4").unwrap().unwrap().0, "");
        assert!(split("4").is_err() && split("a;b -4").unwrap_err().contains("pct diff"));
    }
}
