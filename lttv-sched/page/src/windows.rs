//! What is asked about a range of a recording, and what is answered: sums, call trees, listings, files. Plain data.
//!
//! Who can read recordings answers ([`Windows`]), with the numbers of the command's own reports. Nothing here knows
//! file formats or symbols.

use std::sync::Arc;

/// What is done with the stacks of a range, by the name of a function or an object.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TransformKind {
    /// Only samples with the function on the stack; stacks begin with it.
    Focus,
    /// No samples with the function on the stack.
    Ignore,
    /// The function's time is its caller's.
    Merge,
    /// A recursion of the function is one call.
    Recursion,
    /// Calls within an object are one frame.
    Object,
}

impl TransformKind {
    /// All of them with their words in addresses, and what the page says of them before the name.
    pub const ALL: [(TransformKind, &'static str, &'static str); 5] = [
        (TransformKind::Focus, "focus", "only below"),
        (TransformKind::Ignore, "ignore", "without"),
        (TransformKind::Merge, "merge", "merged into callers:"),
        (TransformKind::Recursion, "recursion", "one call for recursions of"),
        (TransformKind::Object, "object", "one frame for"),
    ];

    /// The word in addresses.
    pub fn as_word(self) -> &'static str {
        TransformKind::ALL.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }

    /// What the page says before the name.
    pub fn title(self) -> &'static str {
        TransformKind::ALL.iter().find(|row| row.0 == self).map_or("", |row| row.2)
    }
}

/// A transform.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Transform {
    /// What is done.
    pub kind: TransformKind,
    /// The exact name of the function, or of the object.
    pub name: String,
}

/// Which samples are counted, by regular expressions as `pct report` has them; an empty one lets all pass.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Filters {
    /// Threads of this number or a matching name.
    pub thread: String,
    /// Processes of this number or a matching name.
    pub process: String,
    /// Samples taken in a matching object.
    pub object: String,
    /// Samples with a matching function on the stack.
    pub function: String,
}

impl Filters {
    /// Words in addresses and on the page, the option of `pct report`, and the text.
    pub fn rows(&self) -> [(&'static str, &'static str, &str); 4] {
        [
            ("thread", "--thread", &self.thread),
            ("process", "--process", &self.process),
            ("object", "--object", &self.object),
            ("function", "--focus", &self.function),
        ]
    }

    /// The filter of a word.
    pub fn by_word(&mut self, word: &str) -> Option<&mut String> {
        match word {
            "thread" => Some(&mut self.thread),
            "process" => Some(&mut self.process),
            "object" => Some(&mut self.object),
            "function" => Some(&mut self.function),
            _ => None,
        }
    }

    /// The same without the filter of a word.
    #[must_use]
    pub fn without(&self, word: &str) -> Filters {
        let mut out = self.clone();
        out.by_word(word).into_iter().for_each(String::clear);
        out
    }

    /// Everything passes.
    pub fn is_empty(&self) -> bool {
        self.rows().iter().all(|row| row.2.is_empty())
    }
}

/// A range of time, and what is counted of it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Window {
    /// First time, ns since 1970.
    pub from_ns: i64,
    /// End; what is at this time is not in it.
    pub to_ns: i64,
    /// Only these threads, by their place in the recording; none: all.
    pub threads: Option<Vec<usize>>,
    /// Which samples.
    pub filters: Filters,
    /// What is done with their stacks, in this order.
    pub transforms: Vec<Transform>,
}

/// Which call trees are wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trees {
    /// None.
    None,
    /// One, from the outermost callers down.
    Calls,
    /// One, from the functions that ran up to their callers.
    Inverted,
    /// Two: the callers of this function, and what it calls.
    Sandwich(String),
}

/// A function in the context of its callers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallNode {
    /// The node above, by its place in the list: always a smaller one.
    pub parent: Option<usize>,
    /// Name. Nodes of one function share it.
    pub name: Arc<str>,
    /// What its colour stands for: the program or library, or the language.
    pub object: Arc<str>,
    /// CPU time in the function itself; in trees of callers, that of the function at the root.
    pub own_ns: u64,
    /// CPU time of stacks that end at this node, wherever the tree begins: these sum up to the totals.
    pub ends_ns: u64,
    /// CPU time at this node and below it.
    pub total_ns: u64,
}

/// A call of a stack chart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChartedCall {
    /// The call that made it, by its place in the list: always a smaller one.
    pub parent: Option<usize>,
    /// Name of the function.
    pub name: Arc<str>,
    /// What its colour stands for: the program or library, or the language.
    pub object: Arc<str>,
    /// First time, ns since 1970.
    pub from_ns: i64,
    /// End, ns since 1970.
    pub to_ns: i64,
}

/// What a thread called when. The range is cut into columns, of which each has one stack.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StackChart {
    /// The thread, by its place in the recording: of those that were asked for the one that ran most.
    pub thread: usize,
    /// Callers stand before those that they call, and calls with one caller in order of time.
    pub calls: Vec<ChartedCall>,
    /// Columns of the range.
    pub columns: usize,
    /// Those of them in which there is a stack.
    pub filled: usize,
    /// Those of them in which there is more than one.
    pub mixed: usize,
    /// Those of them whose stack has more levels than were wanted.
    pub cut: usize,
}

/// How much of a stack chart is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChartSize {
    /// Most columns in which the range is cut.
    pub columns: usize,
    /// Most levels of a stack.
    pub levels: usize,
    /// Most calls. If there would be more, each two columns become one.
    pub calls: usize,
}

/// CPU time, and the samples that stand for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct SampledTime {
    /// Nanoseconds.
    pub ns: u64,
    /// Samples.
    pub samples: u64,
}

/// A row of the table of functions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionRow {
    /// Name.
    pub name: String,
    /// Name of the program or library.
    pub object: String,
    /// What it owns: its own time, and that of the libraries, runtime and kernel that worked for it.
    pub owned: SampledTime,
    /// In the function's own machine code.
    pub leaf: SampledTime,
    /// In it and in everything that it called.
    pub total: SampledTime,
}

/// What a range spent where.
#[derive(Clone, Debug, Default)]
pub struct WindowSums {
    /// Samples.
    pub samples: u64,
    /// CPU time that they stand for.
    pub cpu_ns: u64,
    /// Functions on the stacks, in any order.
    pub functions: Vec<FunctionRow>,
    /// The trees that were asked for; siblings stand with the heaviest first.
    pub trees: Vec<Vec<CallNode>>,
}

/// A line of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedLine {
    /// CPU time in the line itself.
    pub own_ns: u64,
    /// The same with what was called from it.
    pub total_ns: u64,
    /// Line number or address.
    pub place: String,
    /// The text.
    pub text: String,
}

/// Source lines or instructions of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listing {
    /// File, or function and file.
    pub title: String,
    /// Lines have a total beside their own time: of source, not of instructions.
    pub has_totals: bool,
    /// The lines.
    pub lines: Vec<ListedLine>,
}

/// A function from near.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Listings {
    /// Source files first, then instructions.
    pub listings: Vec<Listing>,
    /// What is not there and why.
    pub remarks: Vec<String>,
    /// CPU time in the function itself.
    pub own_ns: u64,
    /// The same with what it called.
    pub total_ns: u64,
    /// CPU time of the whole range.
    pub whole_ns: u64,
}

/// A file that the samples of a range can be had as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileFormat {
    /// Folded stacks.
    Folded,
    /// gzip'd protobuf of pprof.
    Pprof,
    /// A line of JSON for each sample.
    JsonLines,
}

/// A file, piece by piece.
pub type Pieces = Box<dyn Iterator<Item = Vec<u8>> + Send>;

/// Answers what a range of a recording spent where, with the numbers of `pct report --from --to`.
pub trait Windows: Send + Sync {
    /// Samples in [from, to), in ns since 1970; known at once.
    fn samples(&self, from_ns: i64, to_ns: i64) -> u64;

    /// The sums of a range, and call trees.
    ///
    /// # Errors
    /// A filter is no regular expression; in words.
    fn sums(&self, window: &Window, trees: &Trees) -> Result<WindowSums, String>;

    /// What a thread called when: the threads that were asked for, which are images of one, or else the one that ran
    /// most. `None`: there is no sample.
    ///
    /// # Errors
    /// A filter is no regular expression; in words.
    fn stack_chart(&self, window: &Window, size: ChartSize) -> Result<Option<StackChart>, String>;

    /// Source lines and instructions of a function with their time. Transforms do not count here.
    ///
    /// # Errors
    /// A filter is no regular expression; in words.
    fn listings(&self, window: &Window, function: &str) -> Result<Listings, String>;

    /// The samples of a range as a file.
    ///
    /// # Errors
    /// A filter is no regular expression; in words.
    fn file(&self, window: &Window, format: FileFormat) -> Result<Vec<u8>, String>;

    /// The name of the file as which a range can be saved as a recording of its own; none: it cannot be.
    fn archive_name(&self) -> Option<&'static str> {
        None
    }

    /// All samples from one time to another, ns since 1970, as a recording of its own. Filters do not count.
    ///
    /// # Errors
    /// It cannot be read; in words.
    fn archive(&self, from_ns: i64, to_ns: i64) -> Result<Pieces, String> {
        Err(format!("there is no recording of {from_ns} to {to_ns}"))
    }

    /// The samples with a matching function on the stack: times (ns since 1970) and places of their threads,
    /// in order of time, at most so many; and how many there are in all.
    ///
    /// # Errors
    /// The pattern is no regular expression; in words.
    fn hits(&self, pattern: &str, most: usize) -> Result<(Vec<(i64, usize)>, u64), String>;
}

/// Answers nothing: of samples whose stacks nobody has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unanswered;

impl Windows for Unanswered {
    fn samples(&self, _: i64, _: i64) -> u64 {
        0
    }

    fn sums(&self, _: &Window, _: &Trees) -> Result<WindowSums, String> {
        Ok(WindowSums::default())
    }

    fn stack_chart(&self, _: &Window, _: ChartSize) -> Result<Option<StackChart>, String> {
        Ok(None)
    }

    fn listings(&self, _: &Window, _: &str) -> Result<Listings, String> {
        Ok(Listings::default())
    }

    fn file(&self, _: &Window, _: FileFormat) -> Result<Vec<u8>, String> {
        Ok(Vec::new())
    }

    fn hits(&self, _: &str, _: usize) -> Result<(Vec<(i64, usize)>, u64), String> {
        Ok((Vec::new(), 0))
    }
}
