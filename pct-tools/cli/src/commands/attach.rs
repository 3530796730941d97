//! `pct attach`: profiles a process that runs already, and leaves it as it was.

mod silence;
mod tree;

use crate::errors::chain;
use crate::face::{Face, say};
use crate::launch::place::{Library, Place};
use crate::runlib;
use anyhow::{Context as _, Result};
use pct_attach::blob::{self, Blob};
use pct_attach::children::{self, Made};
use pct_attach::choose::{Facts, Libc, Link, Method, Plan, Wish, choose};
use pct_attach::facts::{self, Target};
use pct_attach::inject::{self, Done, InjectError};
use pct_attach::memory::ProcessMemory;
use pct_attach::outside::{Ended, Outside, Settings};
use pct_attach::ptrace::error::CallError;
use pct_attach::ptrace::sys::Signals;
use pct_attach::subject::Manner;
use pct_attach::tasks;
use pct_format::header::{self as file, StackMode};
use pct_profile::load::archive_of_root;
use pct_profile::text::numbers;
use silence::Watch;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tree::Tree;

/// What can be typed after `pct attach`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct attach 4711 --for 10           profile it for ten seconds
  pct attach --explain 4711          which method it would take, and why (stops nothing)
  pct attach --clock wall 4711 --for 5  where its threads run and wait
  pct attach --method 6 4711         from outside, by ptrace, with all it forks; Ctrl-C ends it")]
pub struct Args {
    /// The process.
    #[arg(value_name = "PID", allow_negative_numbers = true, value_parser = crate::look::pid)]
    pub pid: i32,
    /// Seconds to profile; without it until pct off (method 5: until Ctrl-C) or the end of the process.
    #[arg(long = "for", value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    pub time: Option<Duration>,
    /// Samples per CPU second of each thread [default: 997; from outside 250, by the wall clock 100].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = crate::look::within(1..=10_000))]
    pub hz: Option<u32>,
    /// This method (1 to 6) and no other.
    #[arg(long, value_name = "N", value_parser = method)]
    pub method: Option<Method>,
    /// CPU time, or the wall clock: where threads wait is seen too (from outside, methods 5 and 6).
    #[arg(long, value_enum, default_value_t = Clock::Cpu)]
    pub clock: Clock,
    /// Processes that it forks and executes too.
    #[arg(long)]
    pub follow: bool,
    /// Say which method would be taken and why; stops and changes nothing.
    #[arg(long)]
    pub explain: bool,
    /// Folder for the data [default: a new one, pct-NAME-PID, pct-NAME-PID-2, ...].
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Default rate of a sampler in the target, as of `pct run`.
const INSIDE_HZ: u32 = 997;

/// What samples are due by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Clock {
    /// CPU time.
    Cpu,
    /// Wall-clock time of each thread, running or waiting.
    Wall,
}

fn method(text: &str) -> Result<Method, String> {
    text.parse().ok().and_then(Method::from_number).ok_or_else(|| "a number from 1 to 6".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let s: f64 = text.trim_end_matches('s').parse().map_err(|_| "a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(s).map_err(|_| "a number of seconds above 0".to_owned())
}

/// Does it.
///
/// # Errors
/// When the process is gone or may not be attached to; it was not touched then.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    let target = facts::read(args.pid)?;
    let wish = Wish { method: args.method, follow: args.follow, wall: args.clock == Clock::Wall };
    let plan = choose(&target.facts, &wish)?;
    if args.explain {
        face.print(&explanation(&target.facts, &plan))?;
        return Ok(ExitCode::SUCCESS);
    }
    match plan.method {
        Method::Outside => outside(args, &target, false, face),
        Method::OutsideFollow => outside(args, &target, true, face),
        inside => match inject(args, &target, inside, face) {
            Err(why) if args.method.is_none() && begins_nothing(&why) => {
                face.hint(format_args!("{inside}: {why}; so from outside"));
                outside(args, &facts::read(args.pid)?, args.follow, face)
            }
            done => done,
        },
    }
}

/// The target has no room for the sampler, or no thread that could be borrowed. The library is not in the target, so it cannot sample.
fn begins_nothing(why: &anyhow::Error) -> bool {
    why.downcast_ref::<InjectError>().is_some_and(|why| {
        matches!(
            why,
            InjectError::NoSafePoint { .. }
                | InjectError::On(_)
                | InjectError::File(_)
                | InjectError::Clock(_)
                | InjectError::Call(CallError::SystemCall { .. } | CallError::NoRoom | CallError::NoGadgets)
        )
    })
}

/// Methods 1 to 4: the sampler runs in the target.
fn inject(args: &Args, target: &Target, method: Method, face: &Face) -> Result<ExitCode> {
    let mut place = Place::folder(target, args.out.as_deref(), true)?;
    let root = open_root(target);
    let _ = inject::DELAYED.set(|line| say(&format!("pct: {line}\n")));
    let files_before = recordings(&place.now());
    let watch = Watch::begin(target, args.hz.unwrap_or(INSIDE_HZ));
    let before = Made::by(args.pid);
    let tree = args.follow.then(|| Tree::begin(args.pid, &place.now()));
    let done = injected(args, target, method, &place).inspect_err(|_| place.remove_if_empty())?;
    let method = done.0;
    let done = done.1;
    face.hint(format_args!(
        "attached to {} ({}) by {method}; it was stopped for {:.1} ms{}",
        target.facts.name,
        args.pid,
        done.stopped.as_secs_f64() * 1e3,
        if done.children { "; what it forks and executes is sampled too" } else { "" }
    ));
    let causes = place.causes();
    for cause in &causes {
        face.warn(cause);
    }
    let Some(time) = args.time else {
        let ours = place.ours.display();
        face.hint(format_args!(
            "{ours}/   end it with: pct off {}   look at any time: pct report {ours}",
            args.pid
        ));
        return Ok(ExitCode::SUCCESS);
    };
    let mut tree = tree.filter(|_| done.children);
    let signals = Signals::control();
    let end = Instant::now() + time;
    let lives = || facts::start_time(args.pid) == Some(target.start_time);
    while lives() {
        if let Some(tree) = &mut tree {
            tree.look();
        }
        let left = end.saturating_duration_since(Instant::now()).min(Duration::from_millis(100));
        let ns = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
        if left.is_zero() || signals.wait(ns).is_some_and(|s| s != libc::SIGCHLD) {
            break;
        }
    }
    let made = Made::by(args.pid).since(&before).filter(|_| lives() && !done.children);
    if let Some((living, seconds)) = made {
        face.hint(format_args!(
            "not sampled: what it forked meanwhile (of which {living} live; the others used {seconds:.2} CPU s): --follow does"
        ));
    }
    if lives() {
        let memory = ProcessMemory::open(args.pid, true)?;
        let mut again = facts::read(args.pid)?;
        again.note = Some(done.note);
        loop {
            match inject::off(&again, &memory) {
                Err(_) if !lives() => break, // it ended by itself just now
                // all its threads are in vfork, say: it must not be left sampled
                Err(InjectError::NoSafePoint { .. })
                    if signals.wait(0).is_none_or(|s| s == libc::SIGCHLD) => {}
                Err(why) => {
                    let id = args.pid;
                    return Err(why)
                        .context(format!("process {id} is still being sampled (pct off {id} ends that)"));
                }
                Ok(_) => break,
            }
        }
    }
    let files = recordings(&place.now());
    let samples: u64 =
        files.iter().filter(|file| !files_before.contains(file)).map(|file| silence::samples(file)).sum();
    // Children that are still sampled go on writing there.
    let done_there = tree.is_none() || children::living_of(args.pid).is_empty();
    if done_there && !files.is_empty() {
        place.bring_home()?;
    }
    if let Some(Err(why)) = tree.map(|tree| tree.end(&place.ours)) {
        face.warn(format_args!("{}: cannot write run.json: {why}", place.ours.display()));
    }
    if !files.is_empty() {
        keep_names(root.as_ref(), &place.ours, face);
    }
    if samples == 0 {
        face.hint(format_args!("no samples: {}", watch.why(target, &place.causes(), args)));
    }
    if files.is_empty() {
        place.remove_if_empty();
    } else {
        let ours = place.ours.display();
        face.hint(format_args!("{ours}/   try: pct report {ours}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The root folder of a target that has another one than we. What is open stays when the target has ended.
fn open_root(target: &Target) -> Option<File> {
    let root = || File::open(tasks::folder(target.facts.pid).join("root")).ok();
    (!target.facts.same_files).then(root).flatten()
}

/// The programs of a target with another root can be found only while that is open: names are kept now.
fn keep_names(root: Option<&File>, folder: &Path, face: &Face) {
    let Some(root) = root else { return };
    let root = PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd()));
    let mut progress = face.progress();
    let kept = archive_of_root(folder, Some(&root), &mut |what, done, all| progress.step(what, done, all));
    if let Err(why) = kept {
        face.warn(format_args!("{}: names are not kept: {why}", folder.display()));
    }
}

/// The recordings in a folder.
fn recordings(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|e| e == "pct")).collect()
}

/// By `method`, or by method 4 where 2 was only our choice and does not work out.
fn injected(args: &Args, target: &Target, method: Method, place: &Place) -> Result<(Method, Done)> {
    let memory = ProcessMemory::open(args.pid, true)?;
    let follow = if args.follow { "" } else { ",follow=none" };
    let options = format!("hz={},out={}{follow}", args.hz.unwrap_or(INSIDE_HZ), place.targets.display());
    let by_blob = || -> Result<(Method, Done)> {
        let blob = Blob::parse(runlib::LIBRARY).context("the carried libpct.so")?;
        Ok((Method::Blob, blob::by_blob(target, &memory, &blob, &options)?))
    };
    match method {
        Method::Dlopen => match by_dlopen(args, target, &memory, &options) {
            Ok(done) => Ok((method, done)),
            Err(why) if args.method.is_some() || args.follow || !harmless(&why) => Err(why),
            Err(why) => by_blob().with_context(|| format!("method 2: {}; then method 4", chain(&why))),
        },
        Method::Blob => by_blob(),
        _ => Ok((method, inject::by_note(target, &memory, &options)?)),
    }
}

/// Nothing was begun that could stand in another method's way.
fn harmless(why: &anyhow::Error) -> bool {
    match why.downcast_ref::<InjectError>() {
        Some(why) => matches!(
            why,
            InjectError::NoSafePoint { .. } | InjectError::Dlopen { .. } | InjectError::Missing(_)
        ),
        None => true, // no place for the library
    }
}

fn by_dlopen(args: &Args, target: &Target, memory: &ProcessMemory, options: &str) -> Result<Done> {
    let mut last = None;
    for library in Library::places(target)? {
        let path = library.path.to_string_lossy().into_owned();
        match inject::by_dlopen(target, memory, &path, options, args.follow) {
            Ok(done) => {
                if args.follow {
                    library.keep();
                }
                return Ok(done);
            }
            // a mount without permission to execute, perhaps: the next folder
            Err(why @ InjectError::Dlopen { .. }) => last = Some(why),
            Err(why) => return Err(why.into()),
        }
    }
    Err(last.map_or_else(|| anyhow::anyhow!("no place for libpct.so"), Into::into))
}

/// Methods 5 and 6: the controller stays.
fn outside(args: &Args, target: &Target, follow: bool, face: &Face) -> Result<ExitCode> {
    let place = Place::folder(target, args.out.as_deref(), false)?;
    let root = open_root(target);
    let signals = Signals::control();
    let clock = if args.clock == Clock::Wall { file::Clock::Wall } else { file::Clock::Outside };
    let manner = Manner {
        clock_asked: if args.clock == Clock::Wall { file::Clock::Wall } else { file::Clock::Auto },
        clock,
        hz: args.hz.unwrap_or(if args.clock == Clock::Wall { 100 } else { 250 }),
        stacks: StackMode::Auto,
        depth: 512,
        limit: 64 << 20,
        python: true,
    };
    let settings = Settings { manner, follow, first_only: false, folder: place.ours.clone() };
    let _ = inject::DELAYED.set(|line| say(&format!("pct: {line}\n")));
    let watch = Watch::begin(target, manner.hz);
    let mut outside = Outside::seize(args.pid, settings).inspect_err(|_| place.remove_if_empty())?;
    if let Err(why) = outside.record_now() {
        outside.finish();
        place.remove_if_empty();
        return Err(why).with_context(|| format!("{}: no recording could be made", place.ours.display()));
    }
    let method = if follow { Method::OutsideFollow } else { Method::Outside };
    let until =
        args.time.map_or("until it ends".to_owned(), |time| format!("for {:.1} s", time.as_secs_f64()));
    face.hint(format_args!(
        "sampling {} ({}) by {method} {until}; Ctrl-C ends it",
        target.facts.name, args.pid
    ));
    let ended = outside.run(args.time, &signals);
    let counts = outside.finish();
    if let Some(why) = &counts.failed {
        face.warn(format_args!("{}: a recording could not be made: {why}", place.ours.display()));
    }
    let why = match ended? {
        Ended::Time => "time is over",
        Ended::Target => "the process ended",
        Ended::Signal(_) => "interrupted",
    };
    let processes = match counts.processes {
        0 | 1 => String::new(),
        n => format!(" and {} it made", n - 1),
    };
    keep_names(root.as_ref(), &place.ours, face);
    let ours = place.ours.display();
    if counts.samples == 0 {
        face.hint(format_args!("no samples: {}", watch.why(target, &[], args)));
    }
    face.hint(format_args!(
        "{} of {} ({}){processes}, {why}; {ours}/   try: pct report {ours}",
        numbers::count(counts.samples, "sample", "samples"),
        target.facts.name,
        args.pid,
    ));
    Ok(ExitCode::SUCCESS)
}

/// The plan in words, a line for each method.
fn explanation(f: &Facts, plan: &Plan) -> String {
    use std::fmt::Write as _;
    let link = match f.link {
        Link::Dynamic(Libc::Glibc) => "dynamic, glibc",
        Link::Dynamic(Libc::Musl) => "dynamic, musl",
        Link::Dynamic(Libc::Other) => "dynamic, C library not known",
        Link::Static => "static",
        Link::StaticPie => "static-pie",
    };
    let seccomp = ["no seccomp", "seccomp strict", "seccomp filter"][usize::from(f.seccomp.min(2))];
    let mut text = format!(
        "{} {}: {link}, {} thread{}, SIGPROF {}, {seccomp}, {}{}\n",
        f.pid,
        f.name,
        f.threads,
        if f.threads == 1 { "" } else { "s" },
        if f.sigprof_caught { "taken" } else { "free" },
        if f.same_files { "same mount namespace" } else { "other mount namespace" },
        if f.go { ", Go" } else { "" },
    );
    for (method, against) in &plan.verdicts {
        let verdict = match against {
            _ if *method == plan.method => "would be taken".to_owned(),
            None => format!("possible, --method {}", method.number()),
            Some(why) => format!("no: {why}"),
        };
        let _ =
            writeln!(text, "  method {} {:<29}{verdict}", method.number(), format!("({})", method.name()));
    }
    text
}
