//! What can be typed after `pct run`.

use crate::errors;
use crate::look;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// What can be typed after `pct run`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct run -- ./render scene.json
  pct run --hz 4000 --no-report -o /tmp/prof -- make -j2
  pct run --stack none --clock thread -- python3 job.py
  pct run --alloc -- ./server
  pct run --wait -- ./server                (then: pct report --wait)
  pct run --continuous --service shop -- ./server     for weeks; then pct ls, pct report --last 1h

The status is the program's own: killed by a signal, pct ends by the same one; 127 not found,
126 not executable, 125 pct itself failed. Nothing is written to the program's stdout.")]
pub struct Args {
    /// Samples per CPU second of each thread [default: 997, or the kernel's tick rate if that is all there
    /// is; 250 for programs that are sampled from outside, 100 with --clock wall].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = look::within(1..=20_000), help_heading = "Sampling")]
    pub hz: Option<u32>,
    /// What is recorded: every sample (log), or one counter per few bytes of code (counts).
    #[arg(long, value_enum, help_heading = "Sampling")]
    pub mode: Option<Mode>,
    /// What drives the samples.
    #[arg(long, value_enum, help_heading = "Sampling")]
    pub clock: Option<Clock>,
    /// How call stacks are found.
    #[arg(long, value_enum, help_heading = "Sampling")]
    pub stack: Option<Stack>,
    /// Frames kept of a stack, from the innermost; deeper ones are marked as cut [default: 512].
    #[arg(long, value_name = "FRAMES", allow_negative_numbers = true, value_parser = look::within(1..=60_000), help_heading = "Sampling")]
    pub depth: Option<u32>,
    /// Most space for the samples of a process, with K, M or G; when it is full, new samples overwrite the oldest
    /// [default: 64M].
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "Sampling")]
    pub limit: Option<u64>,
    /// Disk space for all recordings of the run; when it is used up, the oldest recordings of
    /// processes that have ended are deleted [default: 2G].
    #[arg(long, value_name = "BYTES", value_parser = bytes_of_run, help_heading = "Results")]
    pub limit_run: Option<u64>,
    /// Signal to sample with, by name or number, instead of a free one.
    #[arg(long, value_name = "SIG", value_parser = signal, help_heading = "Sampling")]
    pub signal: Option<i32>,
    /// One counter per 2^SHIFT bytes of code (--mode counts).
    #[arg(long, value_name = "SHIFT", allow_negative_numbers = true, value_parser = look::within(0..=20), help_heading = "Sampling")]
    pub shift: Option<u32>,
    /// Show the kernel's own functions in the stacks of time in the kernel [default: off].
    #[arg(long, value_enum, default_value_t = Kernel::Off, hide_default_value = true, help_heading = "Sampling")]
    pub kernel: Kernel,
    /// Show Python functions in the stacks (CPython 3.8 to 3.13) [default: on].
    #[arg(long, value_enum, help_heading = "Sampling")]
    pub python: Option<Interpreted>,
    /// Show Java functions in the stacks (Java 11 to 25), or only name compiled ones (Java 17 and later) [default: on].
    #[arg(long, value_enum, help_heading = "Sampling")]
    pub java: Option<Java>,
    /// Show JavaScript functions in the stacks (node 18 to 24) [default: on].
    #[arg(long, value_enum, help_heading = "Sampling")]
    pub javascript: Option<Interpreted>,
    /// Sample memory allocations, on average one per BYTES allocated, with K, M or G [default: 512K].
    #[arg(long, value_name = "BYTES", num_args = 0..=1, require_equals = true, default_missing_value = "512K", value_parser = alloc_interval, help_heading = "Sampling")]
    pub alloc: Option<u64>,
    /// Seed of the allocation samples: with the same seed a single-threaded program gets the same samples.
    #[arg(long, value_name = "N", requires = "alloc", allow_negative_numbers = true, value_parser = look::within(1..=u32::MAX), help_heading = "Sampling")]
    pub alloc_seed: Option<u32>,
    /// Record waits for locks, conditions, semaphores, barriers and the ends of threads, and who held the locks.
    #[arg(long, conflicts_with_all = ["alloc", "continuous"], help_heading = "Sampling")]
    pub wait: bool,
    /// Sample for weeks: 19 samples a second, a new file every ten minutes, old files deleted, no closing table.
    #[arg(long, conflicts_with_all = ["alloc", "report", "limit_run", "keep_symbols"], help_heading = "Continuous")]
    pub continuous: bool,
    /// How long each file is written before the next one is begun, from 10ms to 7d [default: 10m].
    #[arg(long, value_name = "TIME", value_parser = rotation, requires = "continuous", help_heading = "Continuous")]
    pub rotate: Option<String>,
    /// Disk space for all recordings in the folder, with M or G; beyond it the oldest are deleted [default: 256M].
    #[arg(long, value_name = "BYTES", value_parser = bytes_of_run, requires = "continuous", help_heading = "Continuous")]
    pub keep: Option<u64>,
    /// Name of the service, for pct ls and --service [default: the program's name].
    #[arg(long, value_name = "NAME", value_parser = label, requires = "continuous", help_heading = "Continuous")]
    pub service: Option<String>,
    /// Version of the service.
    #[arg(long, value_name = "VERSION", value_parser = label, requires = "continuous", help_heading = "Continuous")]
    pub release: Option<String>,
    /// Which children are profiled too.
    #[arg(long, value_enum, help_heading = "Which processes")]
    pub follow: Option<Follow>,
    /// Profile only programs with these names, separated by colons; a * at the end matches any ending.
    #[arg(long, value_name = "NAMES", value_parser = parse_name, help_heading = "Which processes")]
    pub include: Option<String>,
    /// Do not profile programs with these names.
    #[arg(long, value_name = "NAMES", value_parser = parse_name, help_heading = "Which processes")]
    pub exclude: Option<String>,
    /// When sampling starts: at once, by pct_on() in the program, or by the toggle signal.
    #[arg(long, value_enum, help_heading = "Which processes")]
    pub on: Option<On>,
    /// Signal that turns sampling on and off (with --on signal).
    #[arg(long, value_name = "SIG", value_parser = signal, help_heading = "Which processes")]
    pub toggle: Option<i32>,
    /// Folder for the data [default: pct-NAME-PID].
    #[arg(short, long, value_name = "DIR", help_heading = "Results")]
    pub out: Option<PathBuf>,
    /// Write the closing table to this file instead of stderr.
    #[arg(long, value_name = "FILE", conflicts_with = "no_report", help_heading = "Results")]
    pub report: Option<PathBuf>,
    /// Only record, without a closing table.
    #[arg(long, help_heading = "Results")]
    pub no_report: bool,
    /// Keep names, lines and build-ids of the sampled code beside the data (as pct archive does).
    #[arg(long, help_heading = "Results")]
    pub keep_symbols: bool,
    /// Rows of the closing table [default: at most 20, those of a two-hundredth and more].
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true, value_parser = look::number, help_heading = "Results")]
    pub rows: Option<usize>,
    /// The program and its arguments.
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// What is recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Mode {
    /// Every sample in order of time.
    #[value(alias = "itimer")]
    Log,
    /// One counter per few bytes of code.
    #[value(alias = "profil")]
    Counts,
}

/// What drives the samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Clock {
    /// The best that works here.
    Auto,
    /// perf task clock: any rate.
    Perf,
    /// The same, delivered synchronously; for rates above 4 kHz.
    Sigtrap,
    /// CPU-time timer per thread: at most the kernel's tick.
    Thread,
    /// CPU-time timer of the process: at most the kernel's tick, unfair between threads.
    Itimer,
    /// The same for user time only.
    ItimerVirtual,
    /// Wall-clock timer of the process, as in old profilers; interrupts its sleeps.
    ItimerReal,
    /// Wall-clock time, sampled from outside.
    Wall,
}

/// How call stacks are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Stack {
    /// Unwind data where there is some, else frame pointers.
    Auto,
    /// Unwind data only.
    Cfi,
    /// Frame pointers only.
    Fp,
    /// No stacks: only the interrupted instruction.
    None,
}

/// Which children are profiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Follow {
    /// Forks and executed programs.
    All,
    /// Forks only.
    Fork,
    /// Executed programs only.
    Exec,
    /// None.
    None,
}

/// Whether the kernel's functions are sampled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Kernel {
    /// Where that is permitted and does no harm.
    On,
    /// Never: only the names of system calls.
    Off,
}

/// Whether the functions of a language are read from its interpreter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Interpreted {
    /// Where an interpreter is found.
    On,
    /// Never: its native functions alone.
    Off,
}

/// How Java functions get their names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Java {
    /// Samples carry Java functions with their lines, also interpreted and inlined ones (Java 11 to 25). A JVM whose
    /// frames cannot be read is asked as with `names`.
    On,
    /// The JVM is asked for the names of what it compiled, unless it refuses tools. It starts a thread of its own to
    /// answer.
    Names,
    /// Neither.
    Off,
}

impl Java {
    /// Whether samples are to carry Java functions.
    #[must_use]
    pub fn shows_frames(given: Option<Java>) -> bool {
        given.unwrap_or(Java::On) == Java::On
    }
}

/// When sampling starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum On {
    /// At once.
    Start,
    /// When the program calls pct_on().
    Manual,
    /// At the toggle signal.
    Signal,
}

fn bytes(text: &str) -> Result<u64, String> {
    bytes_within(text, 64 << 10..=1 << 30, "64K to 1G")
}

fn alloc_interval(text: &str) -> Result<u64, String> {
    bytes_within(text, pct_format::heap::INTERVALS, "16 to 1G bytes between samples")
}

fn bytes_of_run(text: &str) -> Result<u64, String> {
    bytes_within(text, 1 << 20..=1 << 40, "1M to 1024G")
}

fn bytes_within(text: &str, range: RangeInclusive<u64>, words: &str) -> Result<u64, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 1 << 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 1 << 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let number: u64 = digits.parse().map_err(|_| "expected a number of bytes, e.g. 64M".to_owned())?;
    number.checked_mul(factor).filter(|n| range.contains(n)).ok_or_else(|| format!("expected {words}"))
}

fn parse_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains([',', '\n', '\0']) {
        return Err("expected a word without commas".to_owned());
    }
    Ok(text.to_owned())
}

fn label(text: &str) -> Result<String, String> {
    parse_name(text).and_then(|text| {
        if text.len() <= 63 { Ok(text) } else { Err("expected at most 63 bytes".to_owned()) }
    })
}

/// A time as the library reads it: a whole number with ms, s, m, h or d.
fn rotation(text: &str) -> Result<String, String> {
    let ns = look::span(text)?;
    if (10_000_000..=604_800_000_000_000).contains(&ns) {
        Ok(format!("{}ms", ns / 1_000_000))
    } else {
        Err("expected 10ms to 7d".to_owned())
    }
}

/// A signal by number or name: 27, PROF, SIGPROF, RTMIN+3.
fn signal(text: &str) -> Result<i32, String> {
    let text = &text.to_ascii_uppercase();
    let bare = text.strip_prefix("SIG").unwrap_or(text);
    let number = match (text.parse::<i32>(), bare.strip_prefix("RTMIN")) {
        (Ok(number), _) => Some(number),
        // Of what glibc leaves to programs.
        (_, Some("")) => Some(34),
        (_, Some(rest)) => rest.strip_prefix('+').and_then(|n| n.parse::<i32>().ok()).map(|n| 34 + n),
        _ => format!("SIG{bare}").parse::<nix::sys::signal::Signal>().ok().map(|signal| signal as i32),
    };
    let number = number
        .filter(|n| (1..=64).contains(n))
        .ok_or("expected a signal: 1 to 64, or a name as in kill -l")?;
    match number {
        4 | 7 | 8 | 9 | 11 | 19 => {
            Err("this signal cannot be used: it cannot be caught or tells of errors".into())
        }
        number => Ok(number),
    }
}

/// Options that would do nothing without another one, and so say that something else was meant.
pub(super) fn sensible(args: &Args) -> Result<(), errors::Usage> {
    let wrong = |why: &str| Err(errors::Usage(why.to_owned()));
    match () {
        () if args.toggle.is_some() && args.on != Some(On::Signal) => {
            wrong("--toggle names the signal of --on signal, which was not asked for")
        }
        () if args.shift.is_some() && args.mode != Some(Mode::Counts) => {
            wrong("--shift is about the counters of --mode counts, which was not asked for")
        }
        () if args.alloc.is_some() && args.clock == Some(Clock::Wall) => wrong(
            "--alloc counts inside the program, and --clock wall samples it from outside: give one of them",
        ),
        () if args.report.as_deref() == Some(Path::new("-")) => {
            wrong("--report -: stdout is the program's own; name a file, or leave it out for stderr")
        }
        () => Ok(()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use clap::Parser as _;

    /// What `pct run` with these words means.
    pub(in crate::commands::run) fn args(words: &[&str]) -> Args {
        let words = ["pct", "run"].iter().chain(words);
        match crate::cli::Cli::try_parse_from(words).expect("parses").command {
            crate::cli::Command::Run(args) => args,
            _ => unreachable!("run was typed"),
        }
    }

    #[test]
    fn a_command_needs_no_double_dash() {
        assert_eq!(args(&["ls", "-l", "--color"]).command, ["ls", "-l", "--color"]);
    }

    #[test]
    fn signals_have_names_and_numbers() {
        assert_eq!(signal("27"), Ok(27));
        assert_eq!(signal("PROF"), Ok(27));
        assert_eq!(signal("SIGPROF"), Ok(27));
        assert_eq!(signal("RTMIN+3"), Ok(37));
        assert_eq!(signal("usr1"), Ok(10));
    }

    #[test]
    fn options_that_would_do_nothing_are_refused() {
        for (words, named) in [
            (vec!["--toggle", "USR1"], "--on signal"),
            (vec!["--shift", "3"], "--mode counts"),
            (vec!["--mode", "log", "--shift", "3"], "--mode counts"),
            (vec!["--report", "-"], "stdout"),
            (vec!["--alloc", "--clock", "wall"], "--clock wall"),
        ] {
            let args = args(&[&words[..], &["--", "true"]].concat());
            let why = sensible(&args).expect_err("refused").to_string();
            assert!(why.contains(named), "{words:?}: {why}");
        }
        for words in [
            vec!["--on", "signal", "--toggle", "USR1"],
            vec!["--mode", "counts", "--shift", "3"],
            vec!["--alloc", "--clock", "perf"],
        ] {
            assert!(sensible(&args(&[&words[..], &["--", "true"]].concat())).is_ok(), "{words:?}");
        }
    }

    #[test]
    fn bad_options_are_refused_with_their_name() {
        for (words, named) in [
            (["--hz", "0"], "--hz"),
            (["--hz", "x"], "--hz"),
            (["--mode", "fast"], "--mode"),
            (["--clock", "sun"], "--clock"),
            (["--limit", "9999999999G"], "--limit"),
            (["--limit", "-1"], "-1"),
            (["--signal", "a,b"], "--signal"),
            (["--signal", "KILL"], "--signal"),
            (["--toggle", "65"], "--toggle"),
            (["--depth", "0"], "--depth"),
            (["--shift", "99"], "--shift"),
            (["--on", "never"], "--on"),
            (["--python", "maybe"], "--python"),
            (["--java", "maybe"], "--java"),
            (["--javascript", "maybe"], "--javascript"),
            (["--alloc=0", "-v"], "--alloc"),
            (["--alloc=-1", "-v"], "--alloc"),
            (["--alloc=1T", "-v"], "--alloc"),
            (["--alloc=512Q", "-v"], "--alloc"),
            (["--alloc-seed", "1"], "--alloc"),
            (["--wait", "--alloc"], "--alloc"),
            (["--follow", "me"], "--follow"),
            (["--hz", "-5"], "1 to 20000"),
            (["--continuous", "--rotate=1ms"], "10ms to 7d"),
            (["--continuous", "--keep=1K"], "1M to 1024G"),
            (["--continuous", "--service=a,b"], "--service"),
            (["--continuous", "--alloc"], "--alloc"),
            (["--service=a", "-q"], "--continuous"),
            (["--nonsense", "1"], "--nonsense"),
        ] {
            let typed = ["pct", "run"].iter().chain(&words).chain(&["--", "true"]);
            let error = crate::cli::Cli::try_parse_from(typed).expect_err("refused").to_string();
            assert!(error.contains(named), "{words:?}: {error}");
        }
    }
}
