//! `pct attach`: profiles a process that runs already, and leaves it as it was.

mod args;
mod compiled;
mod silence;
mod tree;

pub use args::{Args, Clock};

use crate::closing;
use crate::commands::run::{Interpreted, Java};
use crate::errors::{Usage, chain};
use crate::face::{Face, say, say_to_terminal};
use crate::launch::place::{Library, PathPair};
use crate::look;
use crate::runlib;
use anyhow::{Context as _, Result, anyhow};
use pct_attach::blob::{self, Blob};
use pct_attach::children::{self, Made};
use pct_attach::choose::{Facts, Libc, Link, Method, Plan, Wish, choose};
use pct_attach::facts::{self, Target};
use pct_attach::image::PctNote;
use pct_attach::inject::{self, Done, InjectError};
use pct_attach::loaded::read_when_loaded;
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

/// How often we look what the target does while it is sampled.
const LOOK: Duration = Duration::from_millis(100);
/// How long we wait for a program that is being loaded. A busy disk or processor may hold its loader up.
const LOADING: Duration = Duration::from_secs(30);
/// Default rate of a sampler in the target, as of `pct run`.
const INSIDE_HZ: u32 = 997;

/// Why `pct attach` samples no allocations.
const NO_ALLOCATIONS: &str = "--alloc: pct attach samples no allocations, because calls through pointers that \
     the program has copied could not be redirected, and nobody would know how many are missing; start the \
     program by pct run --alloc, or let it tell of its blocks (pct_alloc in pct.h)";

/// Does it.
///
/// # Errors
/// When the process is gone or may not be attached to; it was not touched then.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    if args.alloc.is_some() {
        return Err(Usage(NO_ALLOCATIONS.into()).into());
    }
    let _ = inject::DELAYED.set(|line| say(&format!("pct: {line}\n")));
    let target = read_target(args)?;
    let wish = Wish { method: args.method, follow: args.follow, wall: args.clock == Clock::Wall };
    let plan = choose(&target.facts, &wish)?;
    if args.explain {
        face.print(&explanation(&target.facts, &plan))?;
        return Ok(ExitCode::SUCCESS);
    }
    let left_out = left_out(args, &target.facts, &plan);
    match plan.method {
        Method::Outside => outside(args, &target, false, &left_out, face),
        Method::OutsideFollow => outside(args, &target, true, &left_out, face),
        inside => match inject(args, &target, inside, &left_out, face) {
            Err(why) if args.method.is_none() && begins_nothing(&why) => {
                face.hint(format_args!("{inside}: {why}; so from outside"));
                outside(args, &facts::read(args.pid)?, args.follow, &[], face)
            }
            done => done,
        },
    }
}

/// Reads the target, when it has been loaded if the method may depend on that. `--explain` says what is so now.
fn read_target(args: &Args) -> Result<Target> {
    let calls_dlopen = matches!(args.method, None | Some(Method::Mapped | Method::Dlopen));
    let waits = calls_dlopen && args.clock == Clock::Cpu && !args.explain;
    let limit = if waits { LOADING } else { Duration::ZERO };
    let pid = args.pid;
    let delayed = |what| say(&format!("pct: process {pid} is still being loaded ({what}): waiting for it\n"));
    Ok(read_when_loaded(pid, limit, inject::PATIENCE, delayed)?)
}

/// The preferred methods that were not taken, a line for each, if pct chose the method.
fn left_out(args: &Args, facts: &Facts, plan: &Plan) -> Vec<String> {
    if args.method.is_some() || args.clock == Clock::Wall {
        return Vec::new();
    }
    plan.left_out(facts).into_iter().map(|(method, why)| format!("not by {method}: {why}")).collect()
}

/// The target has no room for the sampler, or no thread that could be borrowed. The library is not in the
/// target, so it cannot sample.
fn begins_nothing(why: &anyhow::Error) -> bool {
    why.downcast_ref::<InjectError>().is_some_and(|why| {
        matches!(
            why,
            InjectError::NoSafePoint { .. }
                | InjectError::On(_)
                | InjectError::File(_)
                | InjectError::Clock(_)
                | InjectError::Dispatches(_)
                | InjectError::MayDispatch(_)
                | InjectError::Call(CallError::SystemCall { .. } | CallError::NoRoom | CallError::NoGadgets)
        )
    })
}

/// Methods 1 to 4: the sampler runs in the target.
fn inject(
    args: &Args,
    target: &Target,
    method: Method,
    left_out: &[String],
    face: &Face,
) -> Result<ExitCode> {
    let mut place = PathPair::folder(target, args.out.as_deref(), true)?;
    let root = open_root(target);
    let files_before = recordings(&place.now());
    let watch = Watch::begin(target, args.hz.unwrap_or(INSIDE_HZ));
    let before = Made::by(args.pid);
    let tree = args.follow.then(|| Tree::begin(args.pid, &place.now()));
    let lives = || facts::start_time(args.pid) == Some(target.start_time);
    let done = injected(args, target, method, &place).inspect_err(|_| place.remove_if_empty());
    let done =
        done.map_err(|why| if lives() { why } else { anyhow!("process {} has ended meanwhile", args.pid) })?;
    let Injected { method, done, failed } = done;
    face.hint(format_args!(
        "attached to {} ({}) by {method}; it was stopped for {:.1} ms{}",
        target.facts.name,
        args.pid,
        done.stopped.as_secs_f64() * 1e3,
        if done.children { "; what it forks and executes is sampled too" } else { "" }
    ));
    for line in left_out.iter().chain(&failed) {
        face.hint(line);
    }
    let causes = place.causes();
    for cause in &causes {
        face.warn(cause);
    }
    let elsewhere = place.home_folder().map(|home| home.display().to_string());
    match (args.time, &elsewhere) {
        (Some(_), _) => {}
        (None, None) => {
            let ours = place.ours.display();
            face.hint(format_args!(
                "{ours}/   end it with: pct off {}   look at any time: pct report {ours}",
                args.pid
            ));
            compiled::keep_what_is_gone(args.pid, &place.ours, face);
            return Ok(ExitCode::SUCCESS);
        }
        (None, Some(home)) => face.hint(format_args!(
            "its files are in another file system: the recording comes to {home}/ at its end, by Ctrl-C or by pct off {}",
            args.pid
        )),
    }
    let mut tree = tree.filter(|_| done.children);
    let maps = compiled::watch(args, &place.now());
    let signals = Signals::control();
    let end = args.time.map(|time| Instant::now() + time);
    let mut is_off = false;
    while lives() && !is_off {
        if let Some(tree) = &mut tree {
            tree.refresh();
        }
        let left = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()).min(LOOK));
        let ns = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
        if left.is_zero() || signals.wait(ns).is_some_and(|s| s != libc::SIGCHLD) {
            break;
        }
        is_off = end.is_none() && silence::have_ended(&new_recordings(&place.now(), &files_before));
    }
    let made = Made::by(args.pid).since(&before).filter(|_| lives() && !done.children);
    if let Some((living, seconds)) = made {
        face.hint(format_args!(
            "not sampled: what it forked meanwhile (of which {living} live; the others used {seconds:.2} CPU s): --follow does"
        ));
    }
    // (It may end by itself just now.)
    if lives()
        && !is_off
        && let Err(why) = switch_off(args.pid, done.note, &signals)
        && lives()
    {
        let id = args.pid;
        return Err(why).context(format!("process {id} is still being sampled (pct off {id} ends that)"));
    }
    let maps = compiled::end(maps);
    let files = recordings(&place.now());
    let new = new_recordings(&place.now(), &files_before);
    let samples: u64 = new.iter().map(|file| silence::samples(file)).sum();
    // Children that are still sampled go on writing there.
    let done_there = tree.is_none() || children::living_of(args.pid).is_empty();
    if done_there && !files.is_empty() {
        place.bring_home()?;
    }
    if let Some(Err(why)) = tree.map(|tree| tree.end(&place.ours)) {
        face.warn(format_args!("{}: cannot write run.json: {why}", place.ours.display()));
    }
    if !files.is_empty() {
        compiled::keep(maps, &place.ours, face);
        keep_names(root.as_ref(), &place.ours, face);
    }
    if samples == 0 {
        face.hint(format_args!("no samples: {}", watch.why(target, &place.causes(), args)));
    }
    if files.is_empty() {
        place.remove_if_empty();
    } else {
        let ours = place.ours.display();
        let new: Vec<PathBuf> =
            new.iter().filter_map(|file| file.file_name()).map(|name| place.ours.join(name)).collect();
        close(args, samples, &new, face)?;
        face.hint(format_args!("{ours}/   try: pct report {ours}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// The table of what was recorded in these files, as `pct run` ends with.
fn close(args: &Args, samples: u64, files: &[PathBuf], face: &Face) -> Result<()> {
    if args.no_report || samples == 0 || files.iter().any(|file| !file.exists()) {
        return Ok(());
    }
    let mut profile = look::load(files, &look::defaults(), face)?;
    let style = face.err.layout();
    let mut text = closing::table(&mut profile, args.rows, &style);
    if !face.quiet {
        text += &closing::account(&profile, &style);
    }
    say_to_terminal(&text);
    Ok(())
}

/// Turns the sampler off whose entry points are `note`.
fn switch_off(pid: i32, note: PctNote, signals: &Signals) -> Result<()> {
    let memory = ProcessMemory::open(pid, true)?;
    let mut target = facts::read(pid)?;
    target.note = Some(note);
    loop {
        match inject::off(&target, &memory) {
            // All its threads are in vfork, say: it must not be left sampled.
            Err(InjectError::NoSafePoint { .. }) if signals.wait(0).is_none_or(|s| s == libc::SIGCHLD) => {}
            done => return Ok(done.map(|_| ())?),
        }
    }
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

/// Those that were not there before.
fn new_recordings(folder: &Path, before: &[PathBuf]) -> Vec<PathBuf> {
    recordings(folder).into_iter().filter(|file| !before.contains(file)).collect()
}

/// How the sampler came into the target.
struct Injected {
    method: Method,
    done: Done,
    /// Another method that was tried first, and why it did not work.
    failed: Option<String>,
}

/// By `method`, or by method 4 where 2 was only our choice and does not work out.
fn injected(args: &Args, target: &Target, method: Method, place: &PathPair) -> Result<Injected> {
    let memory = ProcessMemory::open(args.pid, true)?;
    let follow = if args.follow { "" } else { ",follow=none" };
    let java = if Java::shows_frames(args.java) { "" } else { ",java=off" };
    let javascript = if args.javascript == Some(Interpreted::Off) { ",javascript=off" } else { "" };
    // With a slash behind it: a folder, also if it is called `x.pct`.
    let options = format!(
        "hz={},out={}{follow}{java}{javascript}",
        args.hz.unwrap_or(INSIDE_HZ),
        place.targets.join("").display()
    );
    let by_blob = || -> Result<Done> {
        let blob = Blob::parse(runlib::LIBRARY).context("the carried libpct.so")?;
        Ok(blob::by_blob(target, &memory, &blob, &options)?)
    };
    let done = match method {
        Method::Dlopen => match by_dlopen(args, target, &memory, &options) {
            Ok(done) => done,
            Err(why) if args.method.is_some() || args.follow || !harmless(&why) => return Err(why),
            Err(why) => {
                let why = chain(&why);
                let done = by_blob().with_context(|| format!("method 2: {why}; then method 4"))?;
                let failed = Some(format!("not by {method}: {why}"));
                return Ok(Injected { method: Method::Blob, done, failed });
            }
        },
        Method::Blob => by_blob()?,
        _ => inject::by_note(target, &memory, &options)?,
    };
    Ok(Injected { method, done, failed: None })
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
fn outside(args: &Args, target: &Target, follow: bool, left_out: &[String], face: &Face) -> Result<ExitCode> {
    let place = PathPair::folder(target, args.out.as_deref(), false)?;
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
        java: Java::shows_frames(args.java),
        javascript: !matches!(args.javascript, Some(Interpreted::Off)),
    };
    let settings = Settings { manner, follow: follow.into(), first_only: false, folder: place.ours.clone() };
    let watch = Watch::begin(target, manner.hz);
    let files_before = recordings(&place.ours);
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
    for line in left_out {
        face.hint(line);
    }
    let maps = compiled::watch(args, &place.ours);
    let ended = outside.run(args.time, &signals);
    let counts = outside.finish();
    let maps = compiled::end(maps);
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
    compiled::keep(maps, &place.ours, face);
    keep_names(root.as_ref(), &place.ours, face);
    let ours = place.ours.display();
    if counts.samples == 0 {
        face.hint(format_args!("no samples: {}", watch.why(target, &place.causes(), args)));
    }
    close(args, counts.samples, &new_recordings(&place.ours, &files_before), face)?;
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
