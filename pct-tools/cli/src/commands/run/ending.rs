//! After the program's end: its account beside the data, the table, and a few lines of memory.

use super::args::{Args, On};
use crate::closing;
use crate::face::{Face, say, say_to_terminal};
use crate::launch::check::FoundProgram;
use crate::launch::spawn::Ended;
use crate::look;
use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;
use pct_profile::load;
use pct_profile::load::run::Info;
use pct_profile::load::status;
use pct_profile::load::{Options, WantedMemory};
use pct_profile::text::{Layout, memory_digest, numbers, wait_digest};
use std::collections::HashSet;
use std::path::Path;

/// What was seen of the program that ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    /// It is a static program with the sampler inside.
    pub(super) is_fixed: bool,
    /// Before it ran was said why it cannot be sampled.
    pub(super) told: bool,
    /// It was seen, and never with pct's library.
    pub(super) never_loaded: bool,
}

/// After the program's end: what was used goes beside the data, and the table to stderr.
pub(super) fn close(
    args: &Args,
    folder: &Path,
    found: Option<&FoundProgram>,
    ended: &Ended,
    info: Info,
    kind: Kind,
    face: &Face,
) -> Result<()> {
    let obstacle = found.filter(|found| found.obstacle.is_some());
    for line in status::causes(folder).iter().chain(&status::taken_over(folder)) {
        face.warn(line);
    }
    let recorded = load::files_of(folder).is_ok();
    let none = if recorded {
        String::new()
    } else {
        why_none(args, obstacle, ended, &Heard::read_folder(folder, kind.never_loaded))
    };
    let say_why_none = || {
        if !kind.told {
            say(&format!("pct: no samples: {none}\n"));
        }
    };
    if !recorded && args.out.is_none() && std::fs::remove_dir_all(folder).is_ok() {
        say_why_none();
        return Ok(());
    }
    let info = info.after_earlier(folder);
    let runs = info.runs;
    info.write(folder).with_context(|| format!("{}: cannot write run.json", folder.display()))?;
    if !recorded {
        say_why_none();
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
    summary(args, folder, kind.is_fixed, face)
}

/// What the library said in the processes of a run that left no recording.
struct Heard {
    /// It said causes, which are printed already.
    causes: bool,
    /// It was in no process that was looked at.
    never_loaded: bool,
    /// Processes that ended without a sample.
    processes: u64,
    /// CPU time that those used while sampling was on.
    used_ns: u64,
}

impl Heard {
    fn read_folder(folder: &Path, never_loaded: bool) -> Self {
        let (processes, used_ns) = status::without_sample(&status::unsampled_images(folder), &HashSet::new());
        Self { causes: !status::causes(folder).is_empty(), never_loaded, processes, used_ns }
    }
}

fn why_none(args: &Args, obstacle: Option<&FoundProgram>, ended: &Ended, heard: &Heard) -> String {
    let used_ns = ended.user_ns.saturating_add(ended.system_ns);
    match (obstacle, args.on) {
        (Some(found), _) => found.to_string(),
        (None, Some(On::Manual)) => {
            "nothing was recorded here (--on manual): the program called no pct_on(), or one with another out="
                .to_owned()
        }
        (None, Some(On::Signal)) => {
            let signal = args.toggle.unwrap_or(Signal::SIGUSR2 as i32);
            format!(
                "sampling was never turned on: no signal {signal} came (--on signal; --toggle names another)"
            )
        }
        (None, _) => {
            // Two periods, or two ticks of the slowest kernel: by then a sample was due.
            let hz = args.hz.unwrap_or(if args.continuous { 19 } else { 997 });
            let due_ns = (2_000_000_000 / u64::from(hz).max(1)).max(20_000_000);
            let too_little = |ns: u64, processes: u64| ns / processes.max(1) < due_ns;
            let chosen = args.include.is_some() || args.exclude.is_some();
            let (whose, used_ns) = match *heard {
                Heard { processes, used_ns, .. } if chosen && processes > 0 => {
                    ("the programs that --include and --exclude leave", used_ns)
                }
                _ => ("the program", used_ns),
            };
            let why = match *heard {
                Heard { causes: true, .. } => "the cause is above",
                Heard { processes: 0, .. } if chosen => {
                    "and no program that ran is one that --include and --exclude leave"
                }
                Heard { processes: 0, .. } if too_little(used_ns, 1) => "too little for a sample",
                Heard { processes: 0, never_loaded: true, .. } => "and did not load pct's library",
                Heard { processes, used_ns, .. } if processes > 0 && too_little(used_ns, processes) => {
                    "too little for a sample"
                }
                Heard { .. } => "and no cause was found",
            };
            format!("{whose} used {} CPU s, {why}", numbers::seconds(used_ns))
        }
    }
}

/// What most people want next.
fn hint(run: &str, has_memory: bool, has_waits: bool) -> String {
    if has_waits {
        return format!("try: pct report --wait {run}   or: pct flame --wait {run}");
    }
    let next = crate::cli::next_step(run, if has_memory { &["view"] } else { &["flame", "view"] });
    match next.strip_prefix("try: ") {
        Some(next) if has_memory => format!("try: pct report --alloc {run}   or: {next}"),
        _ => next,
    }
}

/// The closing table, to stderr or where --report says.
fn summary(args: &Args, folder: &Path, fixed: bool, face: &Face) -> Result<()> {
    let shown = std::env::current_dir()
        .ok()
        .and_then(|here| folder.strip_prefix(here).ok().map(Path::to_owned))
        .unwrap_or_else(|| folder.to_owned());
    let memory = if args.alloc.is_some() { WantedMemory::Tables } else { WantedMemory::Nothing };
    let mut profile =
        look::load(&[folder.to_owned()], &Options { memory, waits: args.wait, ..look::defaults() }, face)?;
    let style = if args.report.is_some() { Layout::default() } else { face.err.layout() };
    let mut text = closing::table(&mut profile, args.rows, &style);
    if args.alloc.is_some() {
        text.push('\n');
        for line in memory_digest::lines(&profile, &style) {
            text += &closing::line(&line, &style);
        }
    }
    let has_waits = !profile.waits.is_empty();
    if has_waits {
        text.push('\n');
        text += &wait_digest::digest(&profile, &profile.waits, wait_digest::FEW_LOCKS).text(&style);
    }
    if !face.quiet {
        text += &closing::account(&profile, &style);
        let used = profile.account.used.map_or(0, |(user, system)| user.saturating_add(system));
        // what a sampled total may be off by is less
        if fixed && used.saturating_sub(profile.sampled().cpu_ns()) > (used / 20).max(20_000_000) {
            text += &closing::line(
                "note: what a static program forks and does not execute is not sampled; --clock wall sees it",
                &style,
            );
        }
        let name = shown.display();
        let hint = hint(&name.to_string(), !profile.memory.is_empty(), has_waits);
        text += &closing::line(&format!("{name}/   {hint}"), &style);
    }
    match &args.report {
        None => say_to_terminal(&text),
        Some(file) => std::fs::write(file, text.trim_start_matches('\n')).with_context(|| {
            format!("{}: cannot write the report (pct report {} prints it)", file.display(), shown.display())
        })?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::args::tests::args;
    use super::*;

    const HEARD: Heard = Heard { causes: false, never_loaded: false, processes: 0, used_ns: 0 };

    /// The line of a run of `options` that used so much CPU time.
    fn line(options: &[&str], used_ns: u64, heard: &Heard) -> String {
        let ended = Ended { status: Ok(0), user_ns: used_ns, system_ns: 0 };
        why_none(&args(&[options, &["--", "true"]].concat()), None, &ended, heard)
    }

    #[test]
    fn a_run_without_samples_has_one_cause() {
        assert_eq!(line(&[], 1_000_000, &HEARD), "the program used 0.001 CPU s, too little for a sample");
        let told = Heard { causes: true, ..HEARD };
        assert_eq!(line(&[], 500_000_000, &told), "the program used 0.50 CPU s, the cause is above");
        let absent = Heard { never_loaded: true, ..HEARD };
        assert_eq!(
            line(&[], 500_000_000, &absent),
            "the program used 0.50 CPU s, and did not load pct's library"
        );
        assert_eq!(line(&[], 500_000_000, &HEARD), "the program used 0.50 CPU s, and no cause was found");
        let short = Heard { processes: 100, used_ns: 400_000_000, ..HEARD };
        assert_eq!(line(&[], 500_000_000, &short), "the program used 0.50 CPU s, too little for a sample");
    }

    #[test]
    fn whether_chosen_programs_ran_or_used_too_little_is_told() {
        assert_eq!(
            line(&["--include", "nosuch"], 500_000_000, &HEARD),
            "the program used 0.50 CPU s, and no program that ran is one that --include and --exclude leave"
        );
        let ran = Heard { processes: 1, used_ns: 2_000_000, ..HEARD };
        assert_eq!(
            line(&["--exclude", "sh"], 500_000_000, &ran),
            "the programs that --include and --exclude leave used 0.002 CPU s, too little for a sample"
        );
        let told = Heard { causes: true, ..HEARD };
        assert!(line(&["--include", "x"], 500_000_000, &told).ends_with("the cause is above"));
    }
}
