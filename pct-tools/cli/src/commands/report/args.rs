//! What can be typed after `pct report`.

use crate::errors::Usage;
use crate::look::{self, Format, Look};
use crate::memory::MemoryLook;
use crate::store::Choice;
use anyhow::Result;
use pct_profile::fold::Whose;
use pct_profile::memory::Measure;
use pct_profile::{By, Pattern, Split};
use std::path::PathBuf;

/// What can be typed after `pct report`.
#[derive(clap::Args, Debug, Default)]
#[command(after_help = "Examples:
  pct report                               the newest run in this folder
  pct report pct-render-4711 --tree        its call tree
  pct report --by thread,owner -n 30       functions of each thread
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
    /// command and thread-name sum over all processes; cause (by the wall clock) is why threads did not run. Two of
    /// them may be joined with a comma. With --alloc also what rows are ranked by: live, peak, bytes, blocks, age or
    /// size. With --wait: lock, function or thread [default: owner; with --total, --format csv or json: leaf; with
    /// --alloc: line; with --wait: lock].
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
    /// Waits for locks and for other threads' work, of a recording by pct run --wait. Rows: lock, function or thread.
    #[arg(long, conflicts_with_all = ["alloc", "html", "total", "latency", "budget"], help_heading = "Waits")]
    pub wait: bool,
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
}

/// What was typed as rows.
///
/// # Errors
/// Says what could be typed.
pub(crate) fn by(text: &str) -> Result<Rows, String> {
    let (mut place, mut part, mut measure, mut lock) = (None, None, None, None);
    let mut whose = Whose::Leaf;
    for word in text.split(',') {
        let before = match word {
            "function" | "leaf" => place.replace(By::Function).map(drop),
            "owner" | "library" => {
                whose = if word == "owner" { Whose::Owner } else { Whose::Library };
                place.replace(By::Function).map(drop)
            }
            "line" => place.replace(By::Line).map(drop),
            "pc" | "address" => place.replace(By::Pc).map(drop),
            "cause" => place.replace(By::Cause).map(drop),
            "object" | "module" => place.replace(By::Object).map(drop),
            "thread" => part.replace(Split::Thread).map(drop),
            "process" => part.replace(Split::Process).map(drop),
            "command" => part.replace(Split::Command).map(drop),
            "thread-name" => part.replace(Split::ThreadName).map(drop),
            "lock" => lock.replace(()),
            word => match crate::memory::measure(word) {
                Ok(known) => measure.replace(known).map(drop),
                Err(_) => {
                    return Err(
                        "expected owner, library, leaf, function, line, pc, object, cause, thread, thread-name, \
                         process or command"
                            .into(),
                    );
                }
            },
        };
        if before.is_some() {
            return Err("expected one of owner, library, leaf, function, line, pc, object, cause, and one of thread, \
                        thread-name, process, command"
                .into());
        }
    }
    Ok(Rows { by: place, whose, split: part.unwrap_or(Split::Merged), measure, lock: lock.is_some() })
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
