//! `pct run`: a program under the sampler, unharmed, and a table at its end.
//!
//! Stdout belongs to the program. Whatever keeps pct from profiling is one line on stderr, and the program runs on
//! without it.

use crate::face::{Face, say};
use crate::launch::check::{self, Found, Obstacle};
use crate::launch::spawn::{self, Ended, Folder, Started};
use crate::launch::{FAILED, NOT_EXECUTABLE, NOT_FOUND};
use crate::look;
use crate::runlib;
use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::sys::signal::Signal;
use pct_attach::blob::{self, Blob};
use pct_attach::entry::Held;
use pct_attach::facts;
use pct_attach::memory::ProcessMemory;
use pct_attach::outside::{Outside, Settings};
use pct_attach::ptrace::sys::{Signals, Stop};
use pct_attach::subject::Manner;
use pct_format::header::{self as file, StackMode};
use pct_profile::flat::Order;
use pct_profile::load;
use pct_profile::load::run::{self, Info};
use pct_profile::text::flat::Columns;
use pct_profile::text::{Layout, account, flat, numbers};
use pct_profile::{By, Flat, Split};
use std::ffi::{OsStr, OsString};
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

The status is the program's own: killed by a signal, pct ends by the same one; 127 not found,
126 not executable, 125 pct itself failed. Nothing is written to the program's stdout.")]
pub struct Args {
    /// Samples per CPU second of each thread [default: 997, or the tick's rate where only that is to be had].
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
    /// Signal to sample with, by name or number, instead of a free one.
    #[arg(long, value_name = "SIG", value_parser = signal, help_heading = "Sampling")]
    pub signal: Option<i32>,
    /// Counters per region are one per 2^SHIFT bytes (mode counts).
    #[arg(long, value_name = "SHIFT", allow_negative_numbers = true, value_parser = look::within(0..=20), help_heading = "Sampling")]
    pub shift: Option<u32>,
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
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 1 << 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 1 << 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let number: u64 = digits.parse().map_err(|_| "expected a number of bytes, e.g. 64M".to_owned())?;
    number
        .checked_mul(factor)
        .filter(|n| (64 << 10..=1 << 30).contains(n))
        .ok_or_else(|| "expected 64K to 1G".to_owned())
}

fn word(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains([',', '\n', '\0']) {
        return Err("expected a word without commas".to_owned());
    }
    Ok(text.to_owned())
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
pub fn options(args: &Args, folder: &Path) -> OsString {
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
        ("follow", args.follow.map(name)),
        ("include", args.include.clone()),
        ("exclude", args.exclude.clone()),
        ("on", args.on.map(name)),
        ("toggle", args.toggle.map(|n| n.to_string())),
    ];
    let mut all = OsString::new();
    for (key, value) in given.into_iter().filter_map(|(key, value)| Some((key, value?))) {
        all.push(format!("{key}={value},"));
    }
    all.push("out=");
    all.push(folder);
    all
}

/// The program's environment: pct's own, with the library in front of what else is preloaded.
fn environment(args: &Args, library: Option<&Path>, folder: Option<&Path>) -> Vec<(OsString, OsString)> {
    let (Some(library), Some(folder)) = (library, folder) else { return std::env::vars_os().collect() };
    let mut preload = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|value| !value.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    std::env::vars_os()
        .filter(|(name, _)| name != "LD_PRELOAD" && name != "PCT" && name != ASAN_OPTIONS)
        .chain([("LD_PRELOAD".into(), preload), ("PCT".into(), options(args, folder))])
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

fn folder(args: &Args) -> Result<Folder> {
    let here = || std::env::current_dir().context("the current folder is gone");
    match &args.out {
        Some(dir) => Ok(Folder::Given(std::path::absolute(dir).context("--out")?)),
        None => Ok(Folder::Named { within: here()?, name: short_name(&args.command[0]) }),
    }
}

/// Runs the program.
///
/// # Errors
/// Only when no program could be started at all.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    sensible(args)?;
    let mut found = check::find(&args.command[0]).and_then(|file| check::inspect(&file));
    let library = match runlib::path() {
        Ok(path) => Some(path),
        Err(why) => {
            face.warn(format_args!("{why:#}; the program runs unprofiled"));
            None
        }
    };
    let began = Instant::now();
    let started_realtime_ns = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
    let outside = from_outside(args, found.as_ref());
    let fixed = static_program(found.as_ref());
    let hold = outside.is_some() || fixed && library.is_some();
    // from outside what the program starts is looked at too, so nothing is preloaded
    let preload = library.as_deref().filter(|_| outside.is_none());
    let environment = |dir: Option<&Path>| environment(args, preload, dir);
    let started = spawn::start(&args.command, &folder(args)?, environment, hold)?;
    let mut started = match started {
        Ok(started) => started,
        Err(failed) => return Ok(not_executed(args, found.as_ref(), failed.errno, face)),
    };
    if let Some(why) = &started.trouble {
        face.warn(format_args!("{why}; the program runs unprofiled"));
    }
    let mut status = None;
    if hold && started.folder.is_some() {
        let entered = match outside {
            Some(clock) => watch(args, &mut started, clock, face),
            None => enter(args, &mut started).map(|()| None),
        };
        match entered {
            // it is profiled all the same: nothing stands in the way any more
            Ok(seen) => {
                found.iter_mut().for_each(|found| found.obstacle = None);
                status = seen;
            }
            Err(why) => face.warn(format_args!("{why:#}; the program runs unprofiled")),
        }
    }
    drop(started.held.take());
    let obstacle = found.as_ref().filter(|found| found.obstacle.is_some());
    let ended = match status {
        Some(status) => spawn::used(&started, status),
        None => spawn::wait(&started),
    };
    let ended = ended.context("waiting for the program")?;
    let elapsed_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    if let Some(folder) = started.folder.as_deref().filter(|_| library.is_some()) {
        let info = Info {
            command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            pid: u32::try_from(started.pid.as_raw()).unwrap_or(0),
            started_realtime_ns,
            elapsed_ns,
            user_ns: ended.user_ns,
            system_ns: ended.system_ns,
            status: ended.status.ok().map(i64::from),
            signal: ended.status.err().map(|signal| signal as i64),
            obstacle: obstacle.map(ToString::to_string),
            runs: 1,
        };
        if let Err(why) =
            close(args, folder, found.as_ref(), &ended, info, (fixed && outside.is_none(), face))
        {
            face.warn(format_args!("{why:#}"));
        }
    }
    Ok(match ended.status {
        Ok(code) => ExitCode::from(u8::try_from(code & 0xff).unwrap_or(FAILED)),
        Err(signal) => ExitCode::from(spawn::die_by(signal)),
    })
}

/// Options that would do nothing without another one, and so say that something else was meant.
fn sensible(args: &Args) -> Result<(), look::Usage> {
    let wrong = |why: &str| Err(look::Usage(why.to_owned()));
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

/// It has no loader that would load a library: the sampler is put into it before its first instruction.
fn static_program(found: Option<&Found>) -> bool {
    found.is_some_and(|found| found.obstacle == Some(Obstacle::Static))
}

/// By which clock it is sampled from outside, if it is: by the wall clock always; by CPU time where nothing of ours could live
/// inside, unless something is asked for that only the inside has.
fn from_outside(args: &Args, found: Option<&Found>) -> Option<file::Clock> {
    if args.clock == Some(Clock::Wall) {
        return Some(file::Clock::Wall);
    }
    let go = found.is_some_and(|found| found.obstacle == Some(Obstacle::Go));
    let any = matches!(args.clock, None | Some(Clock::Auto))
        && args.mode != Some(Mode::Counts)
        && !matches!(args.on, Some(On::Manual | On::Signal));
    (go && any).then_some(file::Clock::Remote)
}

/// Puts the sampler into a program that stands at its first instruction, and lets it go.
fn enter(args: &Args, started: &mut Started) -> Result<()> {
    let Some(held) = held(started)? else { return Ok(()) };
    let folder = started.folder.as_deref().context("no folder")?;
    let target = facts::read(started.pid.as_raw())?;
    let memory = ProcessMemory::open(started.pid.as_raw(), true).context("its memory cannot be written")?;
    let options = options(args, folder).into_string().ok().context("the folder's name is not UTF-8")?;
    let blob = Blob::parse(runlib::LIBRARY).context("the carried libpct.so")?;
    blob::at_entry(held, &target, &memory, &blob, &options)?;
    Ok(())
}

/// `None`: it ended before it executed anything.
fn held(started: &mut Started) -> Result<Option<Held>> {
    match (started.held.take(), started.not_held.take()) {
        (None, Some(why)) => Err(why).context("it could not be stopped before its first instruction"),
        (held, _) => Ok(held),
    }
}

/// Samples the program and what it makes from outside until it ends: its status.
fn watch(
    args: &Args,
    started: &mut Started,
    clock: file::Clock,
    face: &Face,
) -> Result<Option<Result<i32, Signal>>> {
    let Some(held) = held(started)? else { return Ok(None) };
    let manner = Manner {
        clock_asked: if clock == file::Clock::Wall { clock } else { file::Clock::Auto },
        clock,
        // a sample stops the thread for some tens of microseconds
        hz: args.hz.unwrap_or(if clock == file::Clock::Wall { 100 } else { 250 }),
        stacks: match args.stack {
            Some(Stack::None) => StackMode::None,
            _ => StackMode::Auto,
        },
        depth: args.depth.unwrap_or(512) as usize,
        limit: args.limit.unwrap_or(64 << 20) as usize,
    };
    let settings = Settings {
        manner,
        follow: !matches!(args.follow, Some(Follow::None)),
        first_only: true,
        folder: started.folder.clone().context("no folder")?,
    };
    // what ends a controller is passed on to the program by the handlers that are there already
    let signals = Signals::child();
    let mut outside = Outside::adopt(held, settings)?;
    let ran = outside.run(None, &signals);
    let counts = outside.finish();
    signals.unblock();
    if let Some(why) = &counts.failed {
        face.warn(format_args!("a recording could not be made: {why}"));
    }
    ran?;
    Ok(match counts.status {
        Some(Stop::Exited(code)) => Some(Ok(code)),
        Some(Stop::Killed(signal)) => Signal::try_from(signal).ok().map(Err),
        _ => None,
    })
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

/// After the program's end: what was used goes beside the data, and the table to stderr.
fn close(
    args: &Args,
    folder: &Path,
    found: Option<&Found>,
    ended: &Ended,
    info: Info,
    (fixed, face): (bool, &Face),
) -> Result<()> {
    let obstacle = found.filter(|found| found.obstacle.is_some());
    let status = run::status_lines(folder);
    for line in &status {
        face.warn(line);
    }
    let recorded = load::files_of(folder).is_ok();
    if !recorded && args.out.is_none() && std::fs::remove_dir_all(folder).is_ok() {
        say(&format!("pct: no samples: {}\n", why_none(args, obstacle, ended)));
        return Ok(());
    }
    let (info, runs) = after_earlier(info, folder);
    info.write(folder).with_context(|| format!("{}: cannot write run.json", folder.display()))?;
    if !recorded {
        say(&format!("pct: no samples: {}\n", why_none(args, obstacle, ended)));
        return Ok(());
    }
    if runs > 1 {
        face.hint(format_args!(
            "pct: {}: holds {runs} runs now; its tables are of all of them",
            folder.display()
        ));
    }
    if args.keep_symbols {
        let mut progress = face.progress();
        load::archive(folder, &mut |what, done, all| progress.step(what, done, all))?;
    }
    if args.no_report {
        return Ok(());
    }
    summary(args, folder, fixed, face)
}

/// A folder that was named again holds the samples of several runs: then what they used is a sum too. Gives the number of runs.
fn after_earlier(info: Info, folder: &Path) -> (Info, u64) {
    let Some(before) = Info::read(folder) else { return (info, 1) };
    let runs = before.runs.saturating_add(1);
    let sum = Info {
        started_realtime_ns: before.started_realtime_ns.min(info.started_realtime_ns),
        elapsed_ns: before.elapsed_ns.saturating_add(info.elapsed_ns),
        user_ns: before.user_ns.saturating_add(info.user_ns),
        system_ns: before.system_ns.saturating_add(info.system_ns),
        runs,
        ..info
    };
    (sum, runs)
}

fn why_none(args: &Args, obstacle: Option<&Found>, ended: &Ended) -> String {
    let used = numbers::seconds(ended.user_ns.saturating_add(ended.system_ns));
    match (obstacle, args.on) {
        (Some(found), _) => found.to_string(),
        (None, Some(On::Manual)) => {
            "sampling was never turned on: the program called no pct_on() (--on manual)".to_owned()
        }
        (None, Some(On::Signal)) => {
            let signal = args.toggle.unwrap_or(Signal::SIGUSR2 as i32);
            format!(
                "sampling was never turned on: no signal {signal} came (--on signal; --toggle names another)"
            )
        }
        (None, _) if args.include.is_some() || args.exclude.is_some() => {
            format!(
                "the programs that --include and --exclude leave took none of {used} CPU s, or too little for one"
            )
        }
        (None, _) => {
            format!(
                "the program used {used} CPU s, too little for one (or pct's library said above why it did not start, \
                 or it started with another environment)"
            )
        }
    }
}

/// The closing table, to stderr or where --report says.
fn summary(args: &Args, folder: &Path, fixed: bool, face: &Face) -> Result<()> {
    let shown = std::env::current_dir()
        .ok()
        .and_then(|here| folder.strip_prefix(here).ok().map(Path::to_owned))
        .unwrap_or_else(|| folder.to_owned());
    let profile = look::load(&[folder.to_owned()], &look::defaults(), face)?;
    let style = if args.report.is_some() { Layout::default() } else { face.err.layout() };
    let mut text = String::new();
    let show = |line: &str| format!("{line}\n");
    text += &show(&format!("\npct: {}", account::headline(&profile)));
    match account::why_nothing(&profile, &profile.cells) {
        Some(why) => text += &show(&why),
        None => {
            let table = Flat::of(&profile, &profile.cells, Some(By::Function), Split::Merged, Order::Own);
            let columns = Columns { rows: args.rows, total: false, split_system: false, samples: false };
            text.push('\n');
            text += &flat::table(&profile, &table, columns, &style);
        }
    }
    if !face.quiet {
        text.push('\n');
        for line in account::closing(&profile, &profile.cells) {
            text += &show(&line);
        }
        let used = profile.account.used.map_or(0, |(user, system)| user.saturating_add(system));
        // what a sampled total may be off by is less
        if fixed && used.saturating_sub(profile.total().cpu_ns()) > (used / 20).max(20_000_000) {
            text += &show(
                "note: what a static program forks and does not execute is not sampled; --clock wall sees it",
            );
        }
        let name = shown.display();
        text += &show(&format!("{name}/   {}", crate::cli::next_step(&name.to_string(), &["flame", "view"])));
    }
    match &args.report {
        None => say(&text),
        Some(file) => std::fs::write(file, text.trim_start_matches('\n')).with_context(|| {
            format!("{}: cannot write the report (pct report {} prints it)", file.display(), shown.display())
        })?,
    }
    Ok(())
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
        let pct = options(&args, Path::new("/tmp/x"));
        assert_eq!(pct, "hz=100,clock=itimer-real,limit=2097152,out=/tmp/x");
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
    fn a_folder_of_several_runs_has_their_sum() {
        let dir = tempfile::tempdir().expect("a folder");
        let once = || Info { user_ns: 3, system_ns: 2, elapsed_ns: 7, runs: 1, ..Info::default() };
        for n in 1..4 {
            let (info, runs) = after_earlier(once(), dir.path());
            assert_eq!((info.user_ns, info.system_ns, info.elapsed_ns, runs), (3 * n, 2 * n, 7 * n, n));
            info.write(dir.path()).expect("written");
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
            (["--follow", "me"], "--follow"),
            (["--hz", "-5"], "1 to 20000"),
            (["--nonsense", "1"], "--nonsense"),
        ] {
            let typed = ["pct", "run"].iter().chain(&words).chain(&["--", "true"]);
            let error = crate::cli::Cli::try_parse_from(typed).expect_err("refused").to_string();
            assert!(error.contains(named), "{words:?}: {error}");
        }
    }
}
