//! `pct attach`: profiles a process that runs already, and leaves it as it was.

use crate::face::Face;
use anyhow::{Context as _, Result, bail};
use pct_attach::choose::{Facts, Libc, Link, Method, Plan, Wish, choose};
use pct_attach::facts::{self, Target};
use pct_attach::outside::{Ended, Outside};
use pct_attach::ptrace::sys;
use pct_attach::recording::{Recording, Subject};
use pct_attach::unwind::StackWalker;
use pct_format::header::{Clock, StackMode};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

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
    /// Seconds to profile; without it until Ctrl-C or the end of the process.
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
    // Methods 1 to 4 and 6 are chosen and explained, but this build carries out method 5.
    if args.method.is_some_and(|m| m != Method::Outside) {
        bail!("{}: not built in yet; --method 5 works", plan.method);
    }
    outside(args, &target, face)
}

fn outside(args: &Args, target: &Target, face: &Face) -> Result<ExitCode> {
    let name: String = target
        .facts
        .name
        .chars()
        .map(|c| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' })
        .collect();
    let dir = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("pct-{name}-{}", args.pid)));
    DirBuilder::new().mode(0o700).recursive(true).create(&dir).with_context(|| dir.display().to_string())?;
    let path = dir.join(format!("{name}-{}-{}.pct", args.pid, target.start_time));
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
    face.hint(format_args!(
        "{} samples of {} ({}), {why}; {}/   try: pct report {}",
        counts.samples,
        target.facts.name,
        args.pid,
        dir.display(),
        dir.display()
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
