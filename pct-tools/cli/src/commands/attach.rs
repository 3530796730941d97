//! `pct attach`: profiles a process that runs already, and leaves it as it was.

use crate::face::Face;
use crate::runlib;
use anyhow::{Context as _, Result, bail};
use pct_attach::blob::{self, Blob};
use pct_attach::choose::{Facts, Libc, Link, Method, Plan, Wish, choose};
use pct_attach::facts::{self, Target};
use pct_attach::inject;
use pct_attach::memory::ProcessMemory;
use pct_attach::outside::{Ended, Outside};
use pct_attach::ptrace::sys;
use pct_attach::recording::{Recording, Subject};
use pct_attach::unwind::StackWalker;
use pct_format::header::{Clock, StackMode};
use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What can be typed after `pct attach`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct attach 4711 --for 10           profile it for ten seconds
  pct attach --explain 4711          which method it would take, and why (stops nothing)
  pct attach --method 5 4711         from outside, by ptrace; Ctrl-C ends it")]
pub struct Args {
    /// The process.
    #[arg(value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: i32,
    /// Seconds to profile; without it until pct off (method 5: until Ctrl-C) or the end of the process.
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    pub time: Option<Duration>,
    /// Samples per CPU second of each thread.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub hz: u32,
    /// This method (1 to 6) and no other.
    #[arg(long, value_name = "N", value_parser = method)]
    pub method: Option<Method>,
    /// Say which method would be taken and why; stops and changes nothing.
    #[arg(long)]
    pub explain: bool,
    /// Folder for the data [default: pct-NAME-PID].
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
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
    let plan = choose(&target.facts, &Wish { method: args.method, follow: false })?;
    if args.explain {
        face.print(&explanation(&target.facts, &plan))?;
        return Ok(ExitCode::SUCCESS);
    }
    let place = Place::new(args, &target)?;
    match plan.method {
        Method::Outside => outside(args, &target, &place, face),
        Method::OutsideFollow => {
            bail!("{}: children are not followed from outside yet; --method 5", plan.method)
        }
        inside => inject(args, &target, inside, &place, face),
    }
}

/// Where the recording goes: the folder as we see it, and as the target sees it.
struct Place {
    ours: PathBuf,
    targets: PathBuf,
}

impl Place {
    /// Makes the folder, private to the target's user.
    fn new(args: &Args, target: &Target) -> Result<Place> {
        let keep = |c: char| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' };
        let name: String = target.facts.name.chars().map(keep).collect();
        let folder = format!("pct-{name}-{}", args.pid);
        let place = if target.facts.same_files {
            let ours = std::path::absolute(args.out.clone().unwrap_or_else(|| folder.into()))?;
            Place { targets: ours.clone(), ours }
        } else {
            // the target resolves paths in its own file system
            let targets = Path::new("/tmp").join(folder);
            let ours = PathBuf::from(format!("/proc/{}/root{}", args.pid, targets.display()));
            Place { ours, targets }
        };
        let shown = place.ours.display().to_string();
        DirBuilder::new().mode(0o700).recursive(true).create(&place.ours).context(shown.clone())?;
        let owner = std::fs::metadata(format!("/proc/{}", args.pid)).context("the process is gone")?;
        if owner.uid() != nix::unistd::geteuid().as_raw() {
            std::os::unix::fs::chown(&place.ours, Some(owner.uid()), Some(owner.gid())).context(shown)?;
        }
        Ok(place)
    }
}

/// Methods 1 to 4: the sampler runs in the target.
fn inject(args: &Args, target: &Target, method: Method, place: &Place, face: &Face) -> Result<ExitCode> {
    let memory = ProcessMemory::open(args.pid, true)?;
    let options = format!("hz={},out={}", args.hz, place.targets.display());
    let done = match method {
        Method::Dlopen => {
            let library = runlib::path()?;
            inject::by_dlopen(target, &memory, &library.to_string_lossy(), &options)?
        }
        Method::Blob => {
            let blob = Blob::parse(runlib::LIBRARY).context("the carried libpct.so")?;
            blob::by_blob(target, &memory, &blob, &options)?
        }
        _ => inject::by_note(target, &memory, &options)?,
    };
    face.hint(format_args!(
        "attached to {} ({}) by {method}; it was stopped for {:.1} ms",
        target.facts.name,
        args.pid,
        done.stopped.as_secs_f64() * 1e3
    ));
    let ours = place.ours.display();
    let Some(time) = args.time else {
        face.hint(format_args!(
            "{ours}/   end it with: pct off {}   look at any time: pct report {ours}",
            args.pid
        ));
        return Ok(ExitCode::SUCCESS);
    };
    sys::block_control_signals();
    let end = Instant::now() + time;
    while facts::start_time(args.pid) == Some(target.start_time) {
        let left = end.saturating_duration_since(Instant::now()).min(Duration::from_millis(100));
        if left.is_zero() || sys::wait_signal(left.as_nanos() as u64).is_some_and(|s| s != libc::SIGCHLD) {
            break;
        }
    }
    if facts::start_time(args.pid) == Some(target.start_time) {
        let mut again = facts::read(args.pid)?;
        again.note = Some(done.note);
        inject::off(&again, &memory)?;
    }
    face.hint(format_args!("{ours}/   try: pct report {ours}"));
    Ok(ExitCode::SUCCESS)
}

fn outside(args: &Args, target: &Target, place: &Place, face: &Face) -> Result<ExitCode> {
    let path = place.ours.join(format!("{}-{}.pct", args.pid, target.start_time));
    let subject = Subject::of(target, args.hz, Clock::Remote, StackMode::Auto, 64 << 20);
    let recording = Recording::create(&path, &subject).with_context(|| path.display().to_string())?;
    sys::block_control_signals();
    let mut outside = Outside::seize(args.pid, args.hz, recording, StackWalker::new(512))?;
    let ended = outside.run(args.time)?;
    let counts = outside.finish();
    let why = match ended {
        Ended::Time => "time is over",
        Ended::Target => "the process ended",
        Ended::Signal(_) => "interrupted",
    };
    let ours = place.ours.display();
    face.hint(format_args!(
        "{} samples of {} ({}), {why}; {ours}/   try: pct report {ours}",
        counts.samples, target.facts.name, args.pid,
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
