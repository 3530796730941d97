//! What can be typed after `pct report`.

use crate::errors::Usage;
use crate::look::{self, Format, Look};
use crate::memory::MemoryLook;
use crate::store::Choice;
use anyhow::Result;
use pct_profile::fold::Whose;
use pct_profile::memory::Measure;
use pct_profile::wait_views::WaitsShown;
use pct_profile::{By, Level, Pattern, Split};
use std::path::PathBuf;

/// What can be typed after `pct report`.
#[derive(clap::Args, Debug, Default)]
#[command(after_help = "Examples:
  pct report                               the newest run in this folder
  pct report pct-render-4711 --tree        its call tree
  pct report --by thread,owner,line        functions of each thread, and their lines
  pct report --by leaf                     functions of libraries and runtimes in rows of their own
  pct report --by thread,cause             what threads waited for (after pct run --clock wall)
  pct report --by command                  sums over all processes of a program
  pct report --callers memmove             who calls it
  pct report --focus parse --from 2s       only samples under parse, from 2 s on
  pct report --latency                     by elapsed time: parallel work counts once
  pct report --latency --parallelism       how many threads ran beside each function
  pct report --budget 40                   what matters most, in 40 lines
  pct report --alloc                       where live memory was allocated (after pct run --alloc)
  pct report --alloc --by bytes --tree     the call tree of everything that was allocated
  pct report --wait                        locks, who waited, who held them (after pct run --wait)
  pct report --wait --path                 the critical path: what kept the run from ending sooner
  pct report --format csv > prof.csv       samples,cpu_seconds,share,pid,process,tid,object,function")]
pub struct Args {
    /// Run folders and .pct files, or another profiler's file; the newest run here if none.
    #[arg(value_name = "DIR|FILE")]
    pub paths: Vec<PathBuf>,
    /// What a row is. owner: the function of the program's own language that ran or called what ran; below it what it
    /// called, where that took more than a tenth of it. library: the first function that the owner called. leaf or
    /// function: the machine's function that ran. Also line, pc, object (for Python code the module), thread, process;
    /// command and thread-name sum over all processes; cause (by the wall clock) is why threads did not run. A list,
    /// joined with commas, gives rows within rows in its order: process,thread,owner. With --alloc also what rows are
    /// ranked by: live, peak, bytes, blocks, age or size. With --wait: lock, thread, function (or owner) or leaf
    /// [default: owner; with --total, --format csv or json: leaf; with --alloc: line; with --wait: lock].
    #[arg(long, value_name = "WHAT", value_parser = by, help_heading = "Which table")]
    pub by: Option<Rows>,
    /// The call tree, from the outermost function inwards.
    #[arg(long, group = "view", help_heading = "Which table")]
    pub tree: bool,
    /// The call tree from the hot functions outwards.
    #[arg(long, group = "view", help_heading = "Which table")]
    pub bottom_up: bool,
    /// Who calls this function, as a tree.
    #[arg(long, group = "view", value_name = "FUNCTION", help_heading = "Which table")]
    pub callers: Option<Pattern>,
    /// What this function calls, as a tree.
    #[arg(long, group = "view", value_name = "FUNCTION", help_heading = "Which table")]
    pub callees: Option<Pattern>,
    /// Rank by the time in a function and all it calls.
    #[arg(long, conflicts_with = "view", help_heading = "Which table")]
    pub total: bool,
    /// Divide each sample by the number of threads that ran at that time, which shows what the user waited for.
    #[arg(long, conflicts_with_all = ["html", "alloc"], help_heading = "Which table")]
    pub latency: bool,
    /// With --latency: the CPU time of each function by the number of threads that ran then.
    #[arg(long, requires = "latency", conflicts_with_all = ["view", "by", "total"], help_heading = "Which table")]
    pub parallelism: bool,
    /// At most this many lines: the hottest functions, the heaviest call paths, the account.
    #[arg(long, value_name = "LINES", value_parser = look::number, conflicts_with_all = ["view", "format", "total", "html", "latency", "by", "rows", "alloc"], help_heading = "Which table")]
    pub budget: Option<usize>,
    /// Rows of a table, lines of a tree [default: 40, or 200 for trees; csv and json: all].
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = look::number, help_heading = "Which table")]
    pub rows: Option<usize>,
    /// Leave branches below this share of the total out of a tree, in percent.
    #[arg(long, value_name = "PERCENT", default_value = "0.5", allow_negative_numbers = true, requires = "view", value_parser = look::percent, help_heading = "Which table")]
    pub least: f64,
    /// Levels of a tree.
    #[arg(long, value_name = "LEVELS", requires = "view", allow_negative_numbers = true, value_parser = look::number, help_heading = "Which table")]
    pub depth: Option<usize>,
    /// Output format.
    #[arg(long, value_enum, default_value = "text", help_heading = "Which table")]
    pub format: Format,
    /// Write one self-contained page (flame graph, tables with a filter) to this file instead; - is stdout.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["view", "format", "total"], help_heading = "Which table")]
    pub html: Option<PathBuf>,
    /// Memory.
    #[command(flatten)]
    pub memory: MemoryLook,
    /// Waits for locks and for other threads' work, of a recording by pct run --wait. Rows: lock, function, leaf or
    /// thread. Tables have all waits. A tree has those for locks, or for work, or all [default: locks].
    #[arg(long, value_name = "WAITS", num_args = 0..=1, require_equals = true, default_missing_value = "locks", conflicts_with_all = ["alloc", "html", "total", "latency", "budget"], help_heading = "Waits")]
    pub wait: Option<WaitsShown>,
    /// The critical path: which threads' work kept the end of the run from coming sooner, and who woke whom.
    #[arg(long, requires = "wait", conflicts_with_all = ["view", "by"], help_heading = "Waits")]
    pub path: bool,
    /// Which recordings.
    #[command(flatten)]
    pub choice: Choice,
    /// Which samples.
    #[command(flatten)]
    pub look: Look,
}

/// Levels of rows within rows at most.
const MOST_LEVELS: usize = 8;

/// What a row stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rows {
    /// Places in code, if they are told apart.
    pub by: Option<By>,
    /// Which function of its stack a sample is given to, where rows are functions.
    pub whose: Whose,
    /// Processes or threads, if they are told apart.
    pub split: Split,
    /// Of memory: by what they are ranked.
    pub measure: Option<Measure>,
    /// Of waits: what is waited for.
    pub lock: bool,
    /// The word `leaf` was typed. With --wait it asks for functions of machine code, and `function` does not.
    pub(super) leaf: bool,
    /// The levels of a list, in the order in which they were typed.
    pub(super) levels: [Option<Level>; MOST_LEVELS],
}

impl Rows {
    /// The levels of rows within rows; one, or none, is no list.
    pub(super) fn levels(&self) -> Vec<Level> {
        self.levels.iter().copied().flatten().collect()
    }

    /// Whether rows of some level are these.
    pub(super) fn has(&self, level: Level) -> bool {
        self.levels.contains(&Some(level))
    }

    /// Whether rows of some level are functions.
    pub(super) fn tells_functions(&self) -> bool {
        self.by == Some(By::Function) || self.levels().iter().any(|level| matches!(level, Level::Function(_)))
    }

    /// Whether rows of some level are lines or addresses.
    pub(super) fn tells_lines(&self) -> bool {
        self.has(Level::Place(By::Line)) || self.has(Level::Place(By::Pc))
    }

    /// Whether the table has rows within rows. For programs one of each is a row with both, as it always was.
    pub(super) fn is_nested(&self, args: &Args) -> bool {
        let is_list = self.levels().len() > 1;
        let is_plain = tree_is_wanted(args) || args.latency || args.total;
        is_list && !is_plain && (args.format == Format::Text || self.is_long())
    }

    /// Whether more was typed than a process or thread and a place in code.
    fn is_long(&self) -> bool {
        let (parts, places): (Vec<Level>, Vec<Level>) =
            self.levels().into_iter().partition(|level| matches!(level, Level::Part(_)));
        parts.len() > 1 || places.len() > 1
    }

    /// The rows, for tables and trees that have no rows within rows.
    ///
    /// # Errors
    /// More was typed than such a table has.
    pub(super) fn with_one_of_each(self, table: &str) -> Result<Self> {
        if self.is_long() {
            let text = format!(
                "{table} has one of owner, library, leaf, function, line, pc, object, cause, and one of thread, \
                 thread-name, process, command"
            );
            return Err(Usage(text).into());
        }
        Ok(self)
    }
}

/// What was typed as rows.
///
/// # Errors
/// Says what could be typed.
pub(crate) fn by(text: &str) -> Result<Rows, String> {
    let mut rows = Rows { whose: Whose::Leaf, ..Rows::default() };
    let mut levels: Vec<Level> = Vec::new();
    let (mut measures, mut locks) = (0, 0);
    for word in text.split(',') {
        let level = match word {
            "leaf" => {
                rows.leaf = true;
                Level::Function(Whose::Leaf)
            }
            "function" => Level::Function(Whose::Leaf),
            "owner" => Level::Function(Whose::Owner),
            "library" => Level::Function(Whose::Library),
            "line" => Level::Place(By::Line),
            "pc" | "address" => Level::Place(By::Pc),
            "cause" => Level::Place(By::Cause),
            "object" | "module" => Level::Place(By::Object),
            "thread" => Level::Part(Split::Thread),
            "process" => Level::Part(Split::Process),
            "command" => Level::Part(Split::Command),
            "thread-name" => Level::Part(Split::ThreadName),
            "lock" => {
                (rows.lock, locks) = (true, locks + 1);
                continue;
            }
            word => {
                let known = crate::memory::measure(word).map_err(|_| {
                    "expected owner, library, leaf, function, line, pc, object, cause, thread, thread-name, \
                     process or command"
                })?;
                (rows.measure, measures) = (Some(known), measures + 1);
                continue;
            }
        };
        if levels.contains(&level) {
            return Err(format!("{} is there twice", level.as_word()));
        }
        levels.push(level);
    }
    if measures > 1 || locks > 1 {
        return Err("expected one of what rows are ranked by".into());
    }
    if levels.len() > MOST_LEVELS {
        return Err(format!("expected {MOST_LEVELS} levels at most"));
    }
    for (at, level) in levels.iter().enumerate() {
        rows.levels[at] = Some(*level);
        match *level {
            Level::Part(split) => rows.split = split,
            Level::Function(whose) => (rows.by, rows.whose) = (Some(By::Function), whose),
            Level::Place(by) => rows.by = Some(by),
        }
    }
    Ok(rows)
}

impl Args {
    /// What a row of CPU time is: an owner, unless something else was typed.
    pub(super) fn rows_of_cpu(&self) -> Result<Rows> {
        // What programs read stays as it was. Ranked by inclusive time each function has a row.
        let for_people = self.format == Format::Text && !self.total && !tree_is_wanted(self);
        let whose = if for_people { Whose::Owner } else { Whose::Leaf };
        let rows = self.by.unwrap_or(Rows { by: Some(By::Function), whose, ..Rows::default() });
        match rows.measure {
            None if rows.lock => Err(Usage("--by lock is about waits: it needs --wait".into()).into()),
            None if rows.whose != Whose::Leaf && tree_is_wanted(self) => {
                Err(Usage("--by owner and --by library make tables; trees have all functions".into()).into())
            }
            None if self.latency || self.total => {
                rows.with_one_of_each("a table by latency or inclusive time")
            }
            None if tree_is_wanted(self) => rows.with_one_of_each("a tree"),
            None => Ok(rows),
            Some(measure) => {
                Err(Usage(format!("--by {} ranks memory: it needs --alloc", measure.name())).into())
            }
        }
    }
}

/// A tree is asked for, not a table.
pub(super) fn tree_is_wanted(args: &Args) -> bool {
    args.tree || args.bottom_up || args.callers.is_some() || args.callees.is_some()
}
