//! `pct run`: a program under the sampler, unharmed, and a table at its end.
//!
//! Stdout belongs to the program. Whatever keeps pct from profiling is one line on stderr, and the program runs on
//! without it. `held` is for programs that cannot be preloaded, `ending` for the account and the table.

mod continuous;
mod ending;
mod held;

use crate::errors::{self, chain};
use crate::face::Face;
use crate::inherited;
use crate::launch::bound::Bound;
use crate::launch::check::{self, Found, Obstacle};
use crate::launch::controller::{Controller, End, Work};
use crate::launch::elsewhere::Elsewhere;
use crate::launch::spare::Spare;
use crate::launch::spawn::{self, Folder, Started};
use crate::launch::{FAILED, NOT_EXECUTABLE, NOT_FOUND, apart, maps};
use crate::look;
use crate::runlib;
use anyhow::{Context as _, Result};
use nix::errno::Errno;
use pct_profile::load::run::Info;
use std::ffi::{OsStr, OsString};
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

/// What can be typed after `pct run`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct run -- ./render scene.json
  pct run --hz 4000 --no-report -o /tmp/prof -- make -j2
  pct run --stack none --clock thread -- python3 job.py
  pct run --alloc -- ./server
  pct run --continuous --service shop -- ./server     for weeks; then pct ls, pct report --last 1h

The status is the program's own: killed by a signal, pct ends by the same one; 127 not found,
126 not executable, 125 pct itself failed. Nothing is written to the program's stdout.")]
pub struct Args {
    /// Samples per CPU second of each thread [default: 997, or the tick's rate where only that is to be had; from outside 250, by the wall clock 100].
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
    /// Bytes of log per process, with K, M or G; then it wraps [default: 64M].
    #[arg(long, value_name = "BYTES", value_parser = bytes, help_heading = "Sampling")]
    pub limit: Option<u64>,
    /// Bytes on the disk for all recordings of the run; then those of ended processes go, the oldest first [default: 2G].
    #[arg(long, value_name = "BYTES", value_parser = bytes_of_run, help_heading = "Results")]
    pub limit_run: Option<u64>,
    /// Signal to sample with, by name or number, instead of a free one.
    #[arg(long, value_name = "SIG", value_parser = signal, help_heading = "Sampling")]
    pub signal: Option<i32>,
    /// Counters per region are one per 2^SHIFT bytes (mode counts).
    #[arg(long, value_name = "SHIFT", allow_negative_numbers = true, value_parser = look::within(0..=20), help_heading = "Sampling")]
    pub shift: Option<u32>,
    /// Whether the functions of CPython (3.8 to 3.13) are part of the stacks [default: on].
    #[arg(long, value_enum, help_heading = "Sampling")]
    pub python: Option<Python>,
    /// Sample what memory is allocated, on average once in so many bytes, with K, M or G [default: 512K].
    #[arg(long, value_name = "BYTES", num_args = 0..=1, require_equals = true, default_missing_value = "512K", value_parser = alloc_interval, help_heading = "Sampling")]
    pub alloc: Option<u64>,
    /// Seed of the allocation samples: the same one gives the same samples in a program of one thread.
    #[arg(long, value_name = "N", requires = "alloc", allow_negative_numbers = true, value_parser = look::within(1..=u32::MAX), help_heading = "Sampling")]
    pub alloc_seed: Option<u32>,
    /// Stay on for weeks: 19 samples a second, a file every ten minutes, old ones deleted; no table at the end.
    #[arg(long, conflicts_with_all = ["alloc", "report", "limit_run", "keep_symbols"], help_heading = "Continuous")]
    pub continuous: bool,
    /// Begin another file after this time, from 10ms to 7d [default: 10m].
    #[arg(long, value_name = "TIME", value_parser = rotation, requires = "continuous", help_heading = "Continuous")]
    pub rotate: Option<String>,
    /// Bytes on the disk for all recordings of the folder, with M or G; then the oldest go [default: 256M].
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
    /// Only programs of these names, separated by colons; * matches any ending.
    #[arg(long, value_name = "NAMES", value_parser = word, help_heading = "Which processes")]
    pub include: Option<String>,
    /// No programs of these names.
    #[arg(long, value_name = "NAMES", value_parser = word, help_heading = "Which processes")]
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
    /// No closing table: only record.
    #[arg(long, help_heading = "Results")]
    pub no_report: bool,
    /// Keep names, lines and build-ids of the sampled code beside the data (as pct archive does).
    #[arg(long, help_heading = "Results")]
    pub keep_symbols: bool,
    /// Rows of the closing table.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, allow_negative_numbers = true, value_parser = look::number, help_heading = "Results")]
    pub rows: usize,
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
    /// One CPU-time timer per process: at most the tick, unfair between threads.
    Itimer,
    /// The same for user time only.
    ItimerVirtual,
    /// The old way by the wall clock; cuts sleeps short.
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
    /// No stacks: the interrupted place alone.
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

/// Whether Python's functions are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Python {
    /// Where an interpreter is found.
    On,
    /// Never: its native functions alone.
    Off,
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

fn word(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains([',', '\n', '\0']) {
        return Err("expected a word without commas".to_owned());
    }
    Ok(text.to_owned())
}

fn label(text: &str) -> Result<String, String> {
    word(text).and_then(
        |text| {
            if text.len() <= 63 { Ok(text) } else { Err("expected at most 63 bytes".to_owned()) }
        },
    )
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

/// The value of PCT for the program.
#[must_use]
pub fn options(args: &Args, folder: &Path, spare: Option<&Spare>) -> OsString {
    fn name(value: impl clap::ValueEnum) -> String {
        value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
    let given = [
        ("mode", args.mode.map(name)),
        ("hz", args.hz.map(|n| n.to_string())),
        ("clock", args.clock.map(name)),
        ("stack", args.stack.map(name)),
        ("depth", args.depth.map(|n| n.to_string())),
        ("limit", args.limit.map(|n| n.to_string())),
        ("signal", args.signal.map(|n| n.to_string())),
        ("shift", args.shift.map(|n| n.to_string())),
        ("python", args.python.map(name)),
        ("alloc", args.alloc.map(|n| n.to_string())),
        ("alloc-seed", args.alloc_seed.map(|n| n.to_string())),
        ("follow", args.follow.map(name)),
        ("include", args.include.clone()),
        ("exclude", args.exclude.clone()),
        ("on", args.on.map(name)),
        ("toggle", args.toggle.map(|n| n.to_string())),
        ("rotate", args.rotate.clone()),
        ("keep", args.keep.map(|n| n.to_string())),
        ("service", args.service.clone()),
        ("version", args.release.clone()),
    ];
    let mut all = OsString::new();
    if args.continuous {
        all.push("continuous,");
    }
    for (key, value) in given.into_iter().filter_map(|(key, value)| Some((key, value?))) {
        all.push(format!("{key}={value},"));
    }
    if let Some(spare) = spare {
        all.push("spare=");
        all.push(&spare.folder);
        all.push(",");
    }
    all.push("out=");
    all.push(folder);
    all
}

/// The program's environment: pct's own, with the library in front of what else is preloaded.
fn environment(
    args: &Args,
    library: Option<&Path>,
    folder: Option<&Path>,
    spare: Option<&Spare>,
) -> Vec<(OsString, OsString)> {
    let (Some(library), Some(folder)) = (library, folder) else { return std::env::vars_os().collect() };
    let mut preload = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|value| !value.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    std::env::vars_os()
        .filter(|(name, _)| name != "LD_PRELOAD" && name != "PCT" && name != ASAN_OPTIONS)
        .chain([("LD_PRELOAD".into(), preload), ("PCT".into(), options(args, folder, spare))])
        .chain([(ASAN_OPTIONS.into(), beside_asan(std::env::var_os(ASAN_OPTIONS)))])
        .collect()
}

const ASAN_OPTIONS: &str = "ASAN_OPTIONS";

/// What a program built with a shared AddressSanitizer needs: it ends at once when another library is loaded before the
/// sanitizer's, unless it is told not to look. (Ours takes none of its functions away: each leads on to the next library's.)
fn beside_asan(given: Option<OsString>) -> OsString {
    let mut all = given.filter(|given| !given.is_empty()).map_or(OsString::new(), |mut given| {
        given.push(":");
        given
    });
    all.push("verify_asan_link_order=0");
    all
}

/// NAME of the run's folder: the command's last part, without what a shell would mind.
fn short_name(command: &OsStr) -> OsString {
    let last = Path::new(command).file_name().unwrap_or(command);
    let kept: String = String::from_utf8_lossy(last.as_bytes())
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._+".contains(c) { c } else { '_' })
        .take(40)
        .collect();
    kept.trim_start_matches('.').to_owned().into()
}

fn folder(args: &Args) -> Folder {
    let absolute = match &args.out {
        Some(dir) => std::path::absolute(dir).map(Folder::Given),
        None => std::env::current_dir()
            .map(|here| Folder::Named { within: here, name: short_name(&args.command[0]) }),
    };
    absolute.unwrap_or_else(|_| {
        Folder::Nowhere(
            "the current folder was removed, so there is no place for the data (--out names one)".into(),
        )
    })
}

/// Runs the program.
///
/// # Errors
/// Only when no program could be started at all.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    sensible(args)?;
    inherited::survive_file_size_limits();
    let mut found = check::find(&args.command[0]).and_then(|file| check::inspect(&file));
    let carried = if args.alloc.is_some() { runlib::ALLOC_SAMPLER } else { runlib::SAMPLER };
    let library = match runlib::path_of(carried) {
        Ok(path) => Some(path),
        Err(why) => {
            face.warn(format_args!("{}; the program runs unprofiled", chain(&why)));
            None
        }
    };
    if args.continuous {
        return continuous::run(args, found.as_ref(), library.as_deref(), face);
    }
    let began = Instant::now();
    let started_realtime_ns = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
    let outside = held::from_outside(args, found.as_ref());
    let fixed = held::static_program(found.as_ref());
    let hold = outside.is_some() || fixed && library.is_some();
    // from outside what the program starts is looked at too, so nothing is preloaded
    let controls = found.as_ref().is_some_and(|found| found.obstacle == Some(Obstacle::Controls));
    let preload = library.as_deref().filter(|_| outside.is_none() && !controls);
    let mut spare = library.as_ref().filter(|_| outside.is_none() && !controls).and_then(|_| Spare::make());
    let environment = |dir: Option<&Path>| environment(args, preload, dir, spare.as_ref());
    let control = hold.then(|| -> Work<'_> {
        Box::new(|held, folder| match outside {
            Some(clock) => held::watch(args, held, folder, clock, face),
            None => held::enter(args, held, folder, spare.as_ref()),
        })
    });
    let started = match spawn::start(&args.command, &folder(args), environment, control) {
        Ok(started) => started,
        Err(why) => {
            face.warn(format_args!("{}; the program runs unprofiled", chain(&why)));
            spare.take().into_iter().for_each(Spare::discard);
            Err(spawn::become_unprofiled(&args.command)?)
        }
    };
    let mut started = match started {
        Ok(started) => started,
        Err(failed) => {
            spare.into_iter().for_each(Spare::discard);
            return Ok(not_executed(args, found.as_ref(), failed.errno, face));
        }
    };
    if let Some(why) = &started.trouble {
        face.warn(format_args!("{why}; the program runs unprofiled"));
    }
    let maps = started.folder.as_deref().and_then(maps::Watch::begin);
    if let Some(why) = started.no_controller.take().filter(|_| started.folder.is_some()) {
        face.warn(format_args!("{why}; the program runs unprofiled"));
    }
    let bound = started.folder.as_deref().map(|folder| Bound::new(folder, args.limit_run.unwrap_or(2 << 30)));
    let keep_bound = || {
        let _ = bound.as_ref().map(Bound::enforce);
    };
    let look = started.folder.clone().zip(preload);
    let mut elsewhere = look.map(|(folder, library)| Elsewhere::new(library, &folder));
    let mut looks = 0_u64;
    let aside = |started: &mut Started| {
        say_end_of(started.controller.as_mut().and_then(Controller::news), face);
        elsewhere.iter_mut().for_each(|elsewhere| elsewhere.look(started.pid.as_raw()));
        looks += 1;
        if looks.is_multiple_of(4) {
            keep_bound();
        }
    };
    let let_go =
        |started: &mut Started| say_end_of(started.controller.as_mut().and_then(Controller::close), face);
    let ended = spawn::wait(&mut started, aside, let_go);
    let ended = ended.context("waiting for the program")?;
    let mut maps = maps.and_then(maps::Watch::end);
    let elapsed_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    if let Some(folder) = started.folder.as_deref().filter(|_| library.is_some()) {
        let close = || {
            // what came since the last look
            keep_bound();
            if let Some(Err(why)) = maps.as_mut().map(maps::Watched::copy) {
                face.warn(format_args!("names of code made at run time are not kept: {why}"));
            }
            if let Some(Err(why)) = spare.take().map(|spare| spare.collect(folder)) {
                face.warn(format_args!("{why}"));
            }
            // nothing stood in the way of a controller that did its work
            if started.controller.as_ref().is_some_and(Controller::did_its_work) {
                found.iter_mut().for_each(|found| found.obstacle = None);
            }
            let obstacle = found.as_ref().filter(|found| found.obstacle.is_some());
            let info = Info {
                command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
                pid: u32::try_from(started.pid.as_raw()).unwrap_or(0),
                started_realtime_ns,
                elapsed_ns,
                user_ns: ended.user_ns,
                system_ns: ended.system_ns,
                status: ended.status.ok().map(i64::from),
                signal: ended.status.err().map(i64::from),
                obstacle: obstacle.map(ToString::to_string),
                attached: false,
                runs: 1,
            };
            let how = (fixed && outside.is_none(), face);
            if let Err(why) = ending::close(args, folder, found.as_ref(), &ended, info, how) {
                face.warn(chain(&why));
            }
        };
        if let Err(why) = apart::run(close) {
            face.warn(format_args!(
                "the report of this run failed ({why}); what was recorded is in {}",
                folder.display()
            ));
        }
    }
    Ok(match ended.status {
        Ok(code) => ExitCode::from(u8::try_from(code & 0xff).unwrap_or(FAILED)),
        Err(signal) => ExitCode::from(spawn::die_by(signal)),
    })
}

/// One line about a controller that did not come to the end of its work.
fn say_end_of(controller: Option<End>, face: &Face) {
    match controller {
        None | Some(End::Done) => {}
        Some(End::Refused(why)) => face.warn(format_args!("{why}; the program runs unprofiled")),
        Some(End::Died(how)) => face.warn(format_args!(
            "the process that sampled from outside did not come to its end ({how}); what the program did from then on is not sampled"
        )),
    }
}

/// Options that would do nothing without another one, and so say that something else was meant.
fn sensible(args: &Args) -> Result<(), errors::Usage> {
    let wrong = |why: &str| Err(errors::Usage(why.to_owned()));
    match () {
        () if args.toggle.is_some() && args.on != Some(On::Signal) => {
            wrong("--toggle names the signal of --on signal, which was not asked for")
        }
        () if args.shift.is_some() && args.mode != Some(Mode::Counts) => {
            wrong("--shift is about the counters of --mode counts, which was not asked for")
        }
        () if args.report.as_deref() == Some(Path::new("-")) => {
            wrong("--report -: stdout is the program's own; name a file, or leave it out for stderr")
        }
        () => Ok(()),
    }
}

fn not_executed(args: &Args, found: Option<&Found>, errno: Errno, face: &Face) -> ExitCode {
    let obstacle = found.filter(|found| found.obstacle.is_some());
    let command = args.command[0].to_string_lossy();
    let interpreter = check::find(&args.command[0]).and_then(|file| check::missing_interpreter(&file));
    match obstacle {
        _ if errno == Errno::ENOENT && interpreter.is_some() => face.warn(format_args!(
            "{command}: its interpreter {} is not there",
            interpreter.unwrap_or_default().display()
        )),
        Some(found) => face.warn(format_args!("{command}: {}: {found}", errno.desc())),
        None => face.warn(format_args!("{command}: {}", errno.desc())),
    }
    ExitCode::from(if errno == Errno::ENOENT { NOT_FOUND } else { NOT_EXECUTABLE })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn args(words: &[&str]) -> Args {
        let words = ["pct", "run"].iter().chain(words);
        match crate::cli::Cli::try_parse_from(words).expect("parses").command {
            crate::cli::Command::Run(args) => args,
            _ => unreachable!("run was typed"),
        }
    }

    #[test]
    fn flags_become_the_options_of_the_library() {
        let args = args(&["--hz", "100", "--limit", "2M", "--clock", "itimer-real", "--", "true", "--hz"]);
        assert_eq!(args.command, ["true", "--hz"]);
        let pct = options(&args, Path::new("/tmp/x"), None);
        assert_eq!(pct, "hz=100,clock=itimer-real,limit=2097152,out=/tmp/x");
    }

    #[test]
    fn continuous_flags_become_options_of_the_library() {
        let args =
            args(&["--continuous", "--rotate", "1h", "--service", "shop", "--release", "1.2", "--", "true"]);
        let pct = options(&args, Path::new("/tmp/x"), None);
        assert_eq!(pct, "continuous,rotate=3600000ms,service=shop,version=1.2,out=/tmp/x");
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
    fn names_of_folders_are_tame() {
        assert_eq!(short_name(OsStr::new("./a b;c")), "a_b_c");
        assert_eq!(short_name(OsStr::new("/usr/bin/python3.11")), "python3.11");
    }

    #[test]
    fn options_that_would_do_nothing_are_refused() {
        for (words, named) in [
            (vec!["--toggle", "USR1"], "--on signal"),
            (vec!["--shift", "3"], "--mode counts"),
            (vec!["--mode", "log", "--shift", "3"], "--mode counts"),
            (vec!["--report", "-"], "stdout"),
        ] {
            let args = args(&[&words[..], &["--", "true"]].concat());
            let why = sensible(&args).expect_err("refused").to_string();
            assert!(why.contains(named), "{words:?}: {why}");
        }
        for words in [vec!["--on", "signal", "--toggle", "USR1"], vec!["--mode", "counts", "--shift", "3"]] {
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
            (["--alloc=0", "-v"], "--alloc"),
            (["--alloc=-1", "-v"], "--alloc"),
            (["--alloc=1T", "-v"], "--alloc"),
            (["--alloc=512Q", "-v"], "--alloc"),
            (["--alloc-seed", "1"], "--alloc"),
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
