//! Which cells of a profile a report is about: patterns over functions, objects, threads, processes and time.
//!
//! A filter never changes the tables of a profile, it only picks (or, for a window of time, recounts) cells; every
//! view takes the profile and the picked cells. What a filter hid is not lost: views show their sum beside the
//! profile's.

use crate::model::{Cell, FunctionId, Id, ObjectKind, Profile, StackId, ThreadId, Weight};
use rustc_hash::FxHashMap;

/// A pattern that people type: a regular expression, found anywhere in the name.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    // Structures of options have several patterns, and mostly none is typed.
    regex: Box<regex_lite::Regex>,
}

/// A pattern that is not a regular expression.
#[derive(Debug, thiserror::Error)]
#[error("bad pattern {text:?}: {why}")]
pub struct BadPattern {
    /// What was typed.
    pub text: String,
    /// What the parser of regular expressions says.
    pub why: String,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// [`BadPattern`] when the text is no regular expression (`regex-lite` syntax) or too large a one.
    pub fn parse(text: &str) -> Result<Self, BadPattern> {
        match regex_lite::RegexBuilder::new(text).size_limit(1 << 20).build() {
            Ok(regex) => Ok(Self { text: text.to_owned(), regex: Box::new(regex) }),
            Err(why) => Err(BadPattern { text: text.to_owned(), why: why.to_string() }),
        }
    }
    /// Is it found in `name`?
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.regex.is_match(name)
    }
    /// As typed.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
    /// Is it this number, or found in this name? (For `--thread 4711` and `--thread worker`.)
    #[must_use]
    pub fn matches_id_or_name(&self, id: u32, name: &str) -> bool {
        match self.text.parse::<u32>() {
            Ok(number) => number == id,
            Err(_) => self.matches(name),
        }
    }
}

impl std::str::FromStr for Pattern {
    type Err = BadPattern;
    fn from_str(text: &str) -> Result<Self, BadPattern> {
        Self::parse(text)
    }
}

/// What to look at; everything by default.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only samples with a matching function anywhere on the stack.
    pub focus: Option<Pattern>,
    /// No samples with a matching function anywhere on the stack.
    pub ignore: Option<Pattern>,
    /// Only samples whose innermost frame lies in a matching object (path).
    pub object: Option<Pattern>,
    /// Only threads of this id or a matching name.
    pub thread: Option<Pattern>,
    /// Only processes of this id or a matching name.
    pub process: Option<Pattern>,
    /// Only samples in this half-open window, nanoseconds since the profile's start. Needs the timeline.
    pub window: Option<(u64, u64)>,
}

impl Filter {
    /// Nothing is filtered out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.focus.is_none()
            && self.ignore.is_none()
            && self.object.is_none()
            && self.thread.is_none()
            && self.process.is_none()
            && self.window.is_none()
    }

    /// The cells that pass. With a window they are recounted from the timeline, which must have been kept.
    #[must_use]
    pub fn cells(&self, profile: &Profile) -> Vec<Cell> {
        let mut cells = match self.window {
            Some(window) => cells_of_window(profile, window),
            None => profile.cells.clone(),
        };
        self.keep(profile, &mut cells);
        cells
    }

    /// Keeps of some cells those that pass, whatever window they are of.
    pub fn keep(&self, profile: &Profile, cells: &mut Vec<Cell>) {
        if let Some(pattern) = &self.thread {
            let keep: Vec<bool> =
                profile.threads.iter().map(|t| pattern.matches_id_or_name(t.tid, &t.name)).collect();
            cells.retain(|cell| keep[cell.thread.index()]);
        }
        if let Some(pattern) = &self.process {
            let keep: Vec<bool> =
                profile.processes.iter().map(|p| pattern.matches_id_or_name(p.pid, &p.name)).collect();
            cells.retain(|cell| keep[profile.threads[cell.thread].process.index()]);
        }
        if let Some(pattern) = &self.object {
            let keep: Vec<bool> = profile.objects.iter().map(|o| pattern.matches(&o.path)).collect();
            cells.retain(|cell| keep[profile.functions[profile.leaf(cell.stack)].object.index()]);
        }
        if let Some(pattern) = &self.focus {
            let on = stacks_through(profile, |f| pattern.matches(&profile.functions[f].name));
            cells.retain(|cell| on[cell.stack.index()]);
        }
        if let Some(pattern) = &self.ignore {
            let on = stacks_through(profile, |f| pattern.matches(&profile.functions[f].name));
            cells.retain(|cell| !on[cell.stack.index()]);
        }
    }
}

/// For each stack: does it go through a function that `hit` names?
#[must_use]
pub fn stacks_through(profile: &Profile, hit: impl Fn(FunctionId) -> bool) -> Vec<bool> {
    let functions: Vec<bool> = profile.functions.ids().map(hit).collect();
    let mut on: Vec<bool> = Vec::with_capacity(profile.stacks.len());
    for node in profile.stacks.iter() {
        let above = node.parent.is_some_and(|parent| on[parent.index()]);
        on.push(above || functions[profile.frames[node.frame].function.index()]);
    }
    on
}

/// The weight of samples of a stack that were kept with their times: in the kernel if that is where the stack ends.
#[must_use]
pub fn timed_weight(profile: &Profile, stack: StackId, samples: u64, ns: u64) -> Weight {
    let leaf = profile.functions[profile.leaf(stack)].object;
    let is_system = profile.objects[leaf].kind == ObjectKind::Kernel;
    let (user_ns, system_ns) = if is_system { (0, ns) } else { (ns, 0) };
    Weight { samples, user_ns, system_ns }
}

fn cells_of_window(profile: &Profile, (from, to): (u64, u64)) -> Vec<Cell> {
    let mut sums: FxHashMap<(ThreadId, StackId), Weight> = FxHashMap::default();
    let first = profile.timeline.partition_point(|sample| sample.time_ns < from);
    for sample in profile.timeline[first..].iter().take_while(|sample| sample.time_ns < to) {
        let weight = timed_weight(profile, sample.stack, 1, sample.weight_ns);
        *sums.entry((sample.thread, sample.stack)).or_default() += weight;
    }
    let mut cells: Vec<Cell> =
        sums.into_iter().map(|((thread, stack), weight)| Cell { thread, stack, weight }).collect();
    cells.sort_by_key(|cell| (cell.thread, cell.stack));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{add_folded, folded};
    use crate::model::{Builder, Process, TimedSample};

    fn samples(cells: &[Cell]) -> u64 {
        cells.iter().map(|cell| cell.weight.samples).sum()
    }
    fn pattern(text: &str) -> Option<Pattern> {
        Some(Pattern::parse(text).expect("a pattern"))
    }

    #[test]
    fn focus_and_ignore_look_at_the_whole_stack() {
        let p = folded("main;a;b 1\nmain;a 2\nmain;c;b 4\nmain 8");
        assert_eq!(samples(&Filter::default().cells(&p)), 15);
        assert_eq!(samples(&Filter { focus: pattern("^a$"), ..Filter::default() }.cells(&p)), 3);
        assert_eq!(samples(&Filter { ignore: pattern("^a$"), ..Filter::default() }.cells(&p)), 12);
        let both = Filter { focus: pattern("b"), ignore: pattern("c"), ..Filter::default() };
        assert_eq!(samples(&both.cells(&p)), 1);
    }

    #[test]
    fn threads_and_processes_go_by_number_or_name() {
        let mut b = Builder::new(false);
        let one = b.process(Process { pid: 10, name: "render".into(), ..Process::default() });
        let two = b.process(Process { pid: 20, name: "gzip".into(), ..Process::default() });
        let t1 = b.thread(one, 10, "render");
        let t2 = b.thread(one, 11, "worker 1");
        let t3 = b.thread(two, 20, "gzip");
        add_folded(&mut b, t1, "main 1");
        add_folded(&mut b, t2, "main 2");
        add_folded(&mut b, t3, "main 4");
        let p = b.finish();
        assert_eq!(samples(&Filter { thread: pattern("11"), ..Filter::default() }.cells(&p)), 2);
        assert_eq!(samples(&Filter { thread: pattern("work"), ..Filter::default() }.cells(&p)), 2);
        assert_eq!(samples(&Filter { process: pattern("10"), ..Filter::default() }.cells(&p)), 3);
        assert_eq!(samples(&Filter { process: pattern("gz"), ..Filter::default() }.cells(&p)), 4);
        assert_eq!(samples(&Filter { object: pattern("nowhere"), ..Filter::default() }.cells(&p)), 0);
    }

    #[test]
    fn a_window_recounts_from_the_timeline() {
        let mut b = Builder::new(true);
        let process = b.process(Process::default());
        let thread = b.thread(process, 1, "");
        add_folded(&mut b, thread, "main 3");
        let stack = StackId::from_index(0);
        for time_ns in [30, 10, 20] {
            b.add_timed(TimedSample { time_ns, weight_ns: 5, thread, stack });
        }
        let p = b.finish();
        let cells = Filter { window: Some((10, 30)), ..Filter::default() }.cells(&p);
        assert_eq!(samples(&cells), 2);
        assert_eq!(cells[0].weight.user_ns, 10);
    }

    #[test]
    fn a_bad_pattern_says_so() {
        assert!(Pattern::parse("(").unwrap_err().to_string().starts_with("bad pattern \"(\": "));
    }
}
