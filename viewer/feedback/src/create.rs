//! `mdprof_create_feedback`: from a profile to a feedback file (docs/feedback.md, section 1).
//!
//! Options as typed become a [`Request`]; [`run`] does what it asks for. All text goes through the two
//! writers given, so that tests see what people see.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pct_deep::Profile;

use crate::file::{self, Cause, system_message};
use crate::input::{self, Input, RepError};
use crate::message::Message;
use crate::model::{BestAlgorithm, DependentConjuncts, Feedback, Params};
use crate::options::{Opt, Parsed, Takes, Value, parse};
use crate::report;
use crate::term::{Term, TermKind};
use crate::walk::{self, Observer, Progress, Stopped};

/// What `--help` prints.
pub const USAGE: &str = "\
usage: mdprof_create_feedback [options] PROFILE.data FEEDBACK

Finds what a compiler can learn from a deep profile, and writes it to FEEDBACK.
PROFILE.procrep, the program representation, has to stand beside the profile.

what to find:
      --implicit-parallelism               conjunctions worth executing in parallel
      --candidate-parallel-conjunctions    the same

options:
  -h, --help                               print this
  -V, --version                            print the version
  -v, --verbosity N                        messages: 0 none, 1 errors, 2 also warnings (default), 3 also notices, 4 all
      --debug-read-profile                 print messages about reading the profile
      --report                             print what was found (as mdprof_report_feedback does)

options of the search (each --ipar-X also as --implicit-parallelism-X):
      --desired-parallelism X              do not look for more parallelism than this (default 8.0, must be > 1)
      --ipar-intermodule-var-use           follow the use of variables into other modules
      --ipar-sparking-cost N               cost of creating a spark (100)
      --ipar-sparking-delay N              time until a spark runs (1000)
      --ipar-barrier-cost N                cost of the barrier at a conjunct's end (100)
      --ipar-future-signal-cost N          cost of signalling a future (100)
      --ipar-future-wait-cost N            cost of waiting for a future (200)
      --ipar-context-wakeup-delay N        time until a suspended context runs again (1000)
      --ipar-clique-cost-threshold N       do not look into calls that cost less (2000)
      --ipar-call-site-cost-threshold N    goals up to this cost are not worth a conjunct (2000)
      --ipar-speedup-threshold X           conjunctions must get faster by more than this factor (1.01)
      --no-ipar-dep-conjs                  only independent conjuncts
      --ipar-speedup-alg ALG               overlap (default) or naive
      --ipar-best-par-alg ALG              complete-branches(N) (default, N = 1000), complete-size(N), complete, greedy
Costs and times are call sequence counts.

example: mdprof_create_feedback --implicit-parallelism Deep.data prog.feedback
";

const fn opt(name: &'static str, aliases: &'static [&'static str], takes: Takes) -> Opt {
    Opt { name, aliases, short: None, takes }
}

/// The options, with all their names.
pub const OPTIONS: &[Opt] = &[
    Opt { name: "help", aliases: &[], short: Some('h'), takes: Takes::Flag },
    Opt { name: "version", aliases: &[], short: Some('V'), takes: Takes::Flag },
    Opt { name: "verbosity", aliases: &[], short: Some('v'), takes: Takes::Int },
    opt("debug-read-profile", &[], Takes::Flag),
    opt("report", &[], Takes::Flag),
    opt("candidate-parallel-conjunctions", &[], Takes::Flag),
    opt("implicit-parallelism", &[], Takes::Flag),
    opt("desired-parallelism", &[], Takes::Text),
    opt("ipar-intermodule-var-use", &["implicit-parallelism-intermodule-var-use"], Takes::Flag),
    opt("ipar-sparking-cost", &["implicit-parallelism-sparking-cost"], Takes::Int),
    opt("ipar-sparking-delay", &["implicit-parallelism-sparking-delay"], Takes::Int),
    opt("ipar-barrier-cost", &["implicit-parallelism-barrier-cost"], Takes::Int),
    opt("ipar-future-signal-cost", &["implicit-parallelism-future-signal-cost"], Takes::Int),
    opt("ipar-future-wait-cost", &["implicit-parallelism-future-wait-cost"], Takes::Int),
    opt("ipar-context-wakeup-delay", &["implicit-parallelism-context-wakeup-delay"], Takes::Int),
    opt("ipar-clique-cost-threshold", &["implicit-parallelism-clique-cost-threshold"], Takes::Int),
    opt("ipar-call-site-cost-threshold", &["implicit-parallelism-call-site-cost-threshold"], Takes::Int),
    opt("ipar-speedup-threshold", &["implicit-parallelism-speedup-threshold"], Takes::Text),
    opt("ipar-dep-conjs", &["implicit-parallelism-dependant-conjunctions"], Takes::Flag),
    opt("ipar-speedup-alg", &["implicit-parallelism-dependant-conjunctions-algorithm"], Takes::Text),
    opt(
        "ipar-best-par-alg",
        &["ipar-alg-for-finding-best-par", "implicit-parallelism-best-parallelisation-algorithm"],
        Takes::Text,
    ),
];

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The profile.
    pub data: PathBuf,
    /// The feedback file.
    pub feedback: PathBuf,
    /// What to look for.
    pub params: Params,
    /// 0 to 4.
    pub verbosity: i64,
    /// Whether to say how reading goes.
    pub debug_read: bool,
    /// Whether to print what was found.
    pub report: bool,
}

/// The parameters that options ask for.
///
/// # Errors
/// All that is wrong with them.
pub fn params(parsed: &Parsed) -> Result<Params, Vec<String>> {
    let d = Params::default();
    let mut errors = Vec::new();
    let text = |name: &str| match parsed.get(name) {
        Some(Value::Text(text)) => Some(text.as_str()),
        _ => None,
    };
    let mut number = |name: &str, default: f64, what: &str, rule: &str, holds: fn(f64) -> bool| {
        let Some(text) = text(name) else { return default };
        match text.parse::<f64>() {
            Ok(x) if x.is_finite() && holds(x) => return x,
            Ok(x) if x.is_finite() => errors.push(format!("{what} should be {rule}.")),
            _ => errors.push(format!("{what} should be a number.")),
        }
        default
    };
    let desired = number("desired-parallelism", d.desired, "desired parallelism level", "> 1", |x| x > 1.0);
    let speedup_threshold =
        number("ipar-speedup-threshold", d.speedup_threshold, "speedup threshold", ">= 1", |x| x >= 1.0);
    let dependent = if parsed.flag("ipar-dep-conjs", true) {
        match text("ipar-speedup-alg") {
            None | Some("overlap") => DependentConjuncts::ByOverlap,
            Some("naive") => DependentConjuncts::Naively,
            Some(other) => {
                errors.push(format!("{other} is not a speedup estimate algorithm."));
                d.dependent
            }
        }
    } else {
        DependentConjuncts::No
    };
    let best = text("ipar-best-par-alg").map_or(d.best, |given| {
        best_algorithm(given).unwrap_or_else(|| {
            errors.push(format!("{given} is not an algorithm for finding the best parallelisation."));
            d.best
        })
    });
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(Params {
        desired,
        intermodule: parsed.flag("ipar-intermodule-var-use", d.intermodule),
        sparking_cost: parsed.int("ipar-sparking-cost", d.sparking_cost),
        sparking_delay: parsed.int("ipar-sparking-delay", d.sparking_delay),
        barrier_cost: parsed.int("ipar-barrier-cost", d.barrier_cost),
        signal_cost: parsed.int("ipar-future-signal-cost", d.signal_cost),
        wait_cost: parsed.int("ipar-future-wait-cost", d.wait_cost),
        wakeup_delay: parsed.int("ipar-context-wakeup-delay", d.wakeup_delay),
        clique_threshold: parsed.int("ipar-clique-cost-threshold", d.clique_threshold),
        call_site_threshold: parsed.int("ipar-call-site-cost-threshold", d.call_site_threshold),
        speedup_threshold,
        dependent,
        best,
    })
}

/// An algorithm as typed: `greedy`, `complete`, `complete-size(N)`, `complete-branches(N)`, with blanks
/// before and after each word and sign.
pub fn best_algorithm(text: &str) -> Option<BestAlgorithm> {
    let text = text.trim();
    let with_number = |name: &str| -> Option<i64> {
        let inside = text.strip_prefix(name)?.trim_start().strip_prefix('(')?.strip_suffix(')')?.trim();
        let all_digits = !inside.is_empty() && inside.bytes().all(|b| b.is_ascii_digit());
        inside.parse().ok().filter(|_| all_digits)
    };
    match text {
        "greedy" => Some(BestAlgorithm::Greedy),
        "complete" => Some(BestAlgorithm::Complete),
        _ => (with_number("complete-size").map(BestAlgorithm::CompleteSize))
            .or_else(|| with_number("complete-branches").map(BestAlgorithm::CompleteBranches)),
    }
}

/// Runs the program: `args` without its own name, which is `program`. The exit status.
///
/// # Errors
/// One of the writers'.
pub fn run(
    program: &str,
    args: impl IntoIterator<Item = String>,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> io::Result<u8> {
    let parsed = match parse(OPTIONS, args) {
        Ok(parsed) => parsed,
        Err(message) => {
            write!(err, "{program}: error parsing options: {message}\n{USAGE}")?;
            return Ok(1);
        }
    };
    let verbosity = parsed.int("verbosity", 2);
    match verbosity {
        ..0 => writeln!(err, "{program}: warning: verbosity level should not be negative.")?,
        5.. => writeln!(err, "{program}: warning: verbosity level should not exceed 4.")?,
        _ => {}
    }
    if parsed.flag("version", false) {
        let (version, arch) = (env!("CARGO_PKG_VERSION"), std::env::consts::ARCH);
        writeln!(out, "{program}: Mercury deep profiler\nversion {version}, on {arch}.")?;
        return Ok(0);
    }
    if parsed.flag("help", false) {
        out.write_all(USAGE.as_bytes())?;
        return Ok(0);
    }
    let [data, feedback] = parsed.arguments.as_slice() else {
        err.write_all(USAGE.as_bytes())?;
        return Ok(1);
    };
    let asks = ["candidate-parallel-conjunctions", "implicit-parallelism"];
    if !asks.iter().any(|name| parsed.flag(name, false)) {
        writeln!(err, "{program}: options do not request any form of feedback")?;
        return Ok(0);
    }
    let params = match params(&parsed) {
        Ok(params) => params,
        Err(errors) => {
            for error in errors {
                writeln!(err, "{program}: error: {error}")?;
            }
            // The original's status, which scripts may count on.
            return Ok(0);
        }
    };
    let request = Request {
        data: data.into(),
        feedback: feedback.into(),
        params,
        verbosity: verbosity.clamp(0, 4),
        debug_read: parsed.flag("debug-read-profile", false),
        report: parsed.flag("report", false),
    };
    create(program, &request, out, err)
}

/// Makes a feedback file. The exit status.
///
/// # Errors
/// One of the writers'.
pub fn create(
    program: &str,
    request: &Request,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> io::Result<u8> {
    let input = match read(program, request, out, err)? {
        Ok(input) => input,
        Err(status) => return Ok(status),
    };
    let name = pct_analysis::Bodies::profile(&input).program().into_owned();
    let mut feedback = match file::read(&request.feedback, Some(&name)) {
        Ok(feedback) => feedback,
        Err(e) if matches!(e.cause, Cause::Open(_)) => Feedback { program: name, candidates: None },
        Err(e) => {
            writeln!(err, "{e}")?;
            return Ok(1);
        }
    };
    let shown = request.feedback.display();
    if feedback.candidates.is_some() {
        writeln!(
            err,
            "{program}: {shown}: it holds candidate parallel conjunctions already, which are not overwritten"
        )?;
        return Ok(1);
    }
    let mut console = Console::new(program, request.verbosity, err);
    let outcome = match walk::analyse(&input, &request.params, request.verbosity, &mut console) {
        Ok(outcome) => outcome,
        Err(Stopped { context, text }) => {
            if let Some((pd, name)) = context {
                writeln!(err, "Exception while analysing proc dynamic {pd} ({name})")?;
            }
            writeln!(err, "{program}: {text}")?;
            return Ok(1);
        }
    };
    let messages = outcome.messages.clone();
    feedback.candidates = Some(outcome.into_candidates(request.params.clone()));
    if request.report {
        out.write_all(report::report(&feedback).as_bytes())?;
        out.flush()?;
    }
    let mut status = 0;
    if let Err(e) = file::write(&request.feedback, &feedback) {
        writeln!(err, "{program}: {shown}: {}", system_message(&e))?;
        status = 1;
    }
    for message in messages {
        write!(err, "{message}")?;
    }
    Ok(status)
}

/// Says on the console how the walk goes.
struct Console<'a> {
    program: &'a str,
    verbosity: i64,
    err: Mutex<&'a mut (dyn Write + Send)>,
    started: Instant,
    told: Option<Instant>,
}

/// A walk that takes longer says how far it is, this often.
const PATIENCE: Duration = Duration::from_secs(2);

impl<'a> Console<'a> {
    fn new(program: &'a str, verbosity: i64, err: &'a mut (dyn Write + Send)) -> Self {
        Self { program, verbosity, err: Mutex::new(err), started: Instant::now(), told: None }
    }
    fn write(&self, text: &str) {
        // There is no better place to complain.
        let _ = self.err.lock().unwrap_or_else(PoisonError::into_inner).write_all(text.as_bytes());
    }
}

impl Observer for Console<'_> {
    fn say(&mut self, message: Message) {
        self.write(&message.to_string());
    }
    fn progress(&mut self, progress: Progress) {
        if self.verbosity == 0 || self.told.unwrap_or(self.started).elapsed() < PATIENCE {
            return;
        }
        self.told = Some(Instant::now());
        let Progress { cliques, waiting, candidates } = progress;
        let program = self.program;
        self.write(&format!(
            "{program}: {cliques} cliques looked at, {waiting} more at hand, {candidates} candidates\n"
        ));
    }
}

/// Reads the profile and its program representation; the inner error is the exit status.
fn read(
    program: &str,
    request: &Request,
    out: &mut dyn Write,
    err: &mut (dyn Write + Send),
) -> io::Result<Result<Input, u8>> {
    let mut stages = Stages { on: request.debug_read, out };
    let data = request.data.display();
    let Some(rep_path) = input::rep_path(&request.data) else {
        writeln!(err, "{program}: {data}: the name of a profile has to end in .data")?;
        return Ok(Err(1));
    };
    stages.begin("Reading graph data")?;
    let profile = match input::open_profile(&request.data) {
        Ok(profile) => profile,
        Err(e) => {
            // The name of the file stands before the cause already.
            let mut cause = e;
            cause.file = None;
            writeln!(err, "{program}: error reading {data}: {cause}")?;
            return Ok(Err(1));
        }
    };
    stages.done()?;
    for stage in [
        "Mapping static call sites to containing procedures",
        "Mapping dynamic call sites to containing procedures",
        "Finding cliques",
        "Constructing clique indexes",
        "Constructing clique parent map",
        "Finding procedure callers",
        "Constructing call site static map",
        "Finding call site calls",
    ] {
        stages.begin(stage)?;
        stages.done()?;
    }
    stages.begin("Reading program representation")?;
    let rep = input::open_rep(&rep_path);
    match &rep {
        Ok(rep) => {
            let names = rep.modules().map(|m| Term::from(TermKind::Str(rep.module_name(m).into_owned())));
            stages.line(&Term::from(TermKind::List(names.collect())).to_string())?;
            stages.done()?;
        }
        Err(RepError::None) => {}
        Err(RepError::Bad(message)) => stages.line(&format!("% Error: {message}"))?,
    }
    stages.rest(&request.data, &profile)?;
    Ok(match rep {
        Ok(rep) => Ok(Input::new(profile, rep)),
        Err(e) => {
            writeln!(err, "{program}: {e}")?;
            Err(1)
        }
    })
}

/// The lines of `--debug-read-profile`.
struct Stages<'a> {
    on: bool,
    out: &'a mut dyn Write,
}

impl Stages<'_> {
    fn line(&mut self, text: &str) -> io::Result<()> {
        if self.on {
            writeln!(self.out, "{text}")?;
            self.out.flush()?;
        }
        Ok(())
    }
    fn begin(&mut self, stage: &str) -> io::Result<()> {
        self.line(&format!("% {stage}..."))
    }
    fn done(&mut self) -> io::Result<()> {
        self.line("% Done.")
    }
    fn rest(&mut self, data: &Path, profile: &Profile) -> io::Result<()> {
        let contour = data.with_extension("contour");
        self.begin(&format!("Trying to read contour exclusion file `{}'", contour.display()))?;
        match std::fs::File::open(&contour) {
            Ok(_) => self.done()?,
            Err(_) => self.line("% Couldn't open file.")?,
        }
        self.begin("Propagating measurements up call graph")?;
        self.done()?;
        self.begin("Summarizing information")?;
        if profile.header().coverage == pct_deep::Coverage::Dynamic {
            self.line("\t% Summarizing proc dynamics with coverage...")?;
        }
        self.line("\t% Summarizing call site dynamics...")?;
        self.line("\t% Summarizing modules...")?;
        self.done()
    }
}

#[cfg(test)]
mod live {
    use super::*;

    #[test]
    fn a_walk_that_takes_long_says_how_far_it_is() {
        let progress = Progress { cliques: 10, waiting: 3, candidates: 2 };
        let said = |verbosity: i64, started: Duration| {
            let mut err = Vec::new();
            let mut console = Console::new("prog", verbosity, &mut err);
            console.started = console.started.checked_sub(started).expect("the clock has run that long");
            console.progress(progress);
            console.progress(progress);
            String::from_utf8(err).expect("text")
        };
        assert_eq!(said(2, Duration::ZERO), "");
        // Once, then not again so soon.
        assert_eq!(
            said(2, PATIENCE + Duration::from_secs(1)),
            "prog: 10 cliques looked at, 3 more at hand, 2 candidates\n"
        );
        assert_eq!(said(0, PATIENCE + Duration::from_secs(1)), "");
    }
}
