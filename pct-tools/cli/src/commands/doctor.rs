//! `pct doctor`: which clocks and rates this machine gives, and why not more.
//!
//! Each clock is tried as a user would: this very program, working for a while, under the library, with the
//! clock and a high rate asked for. What it got is in the file that it leaves.
//!
//! What a sample costs: the work is many equal pieces of a few microseconds, each timed in CPU time. Most
//! have no sample in them; the longest ones, as many as there were samples, do. What these take more than the
//! others (by the lower quartile: what else happens on the machine only makes pieces longer) is the cost.
//! Where the quarters of the trial disagree, no figure is printed.

mod kernel;

use crate::face::Face;
use crate::launch::check::{self, Obstacle};
use crate::launch::objects;
use crate::runlib;
use anyhow::{Context as _, Result};
use pct_elf::Unloadable;
use pct_format::layout::header as at;
use pct_format::{Clock, File, Index, Sample};
use pct_profile::load::status::{self, Tellings};
use pct_profile::text::numbers::thousands;
use pct_profile::text::table::{Column, Rank, Table};
use pct_symbols::{ObjectInfo, Symbolizer};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// What can be typed after `pct doctor`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  pct doctor
  pct doctor --hz 10000 ./render        also: can this program be profiled?")]
pub struct Args {
    /// Rate to ask of each clock, in samples a second.
    #[arg(long, value_name = "N", default_value_t = 4000, allow_negative_numbers = true, value_parser = crate::look::within(1..=20_000))]
    pub hz: u32,
    /// A program to look at.
    pub program: Option<PathBuf>,
    /// Do the work that clocks are tried on.
    #[arg(long, hide = true)]
    pub work: bool,
}

/// What a clock gave.
struct Tried {
    works: bool,
    rate: f64,
    /// Microseconds of CPU time a sample, if the quarters of the trial agree on it.
    cost_us: Option<f64>,
    why: String,
}

/// Prints the table.
///
/// # Errors
/// When there is no library to try with, or this program cannot be started.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    if args.work {
        // In a thread: whether threads can inherit the clock's events shows when the first one is made.
        let done = std::thread::spawn(work).join().unwrap_or_default();
        let pieces: Vec<String> = done.iter().map(u64::to_string).collect();
        face.print(&pieces.join(" "))?;
        return Ok(ExitCode::SUCCESS);
    }
    let library = runlib::path()?;
    // As `pct run` makes it: without it the clocks of large programs are others.
    let no_answers = objects::why_no_file();
    let folder = tempdir()?;
    let rate_head = "rate got";
    let mut table = Table::new(vec![
        Column::text("clock", 8),
        Column::text("works", 5),
        Column::number(rate_head),
        Column::number("cost a sample"),
        Column::text("remarks", 20),
    ]);
    for clock in ["perf", "sigtrap", "thread", "itimer"] {
        let tried = try_clock(clock, &library, args.hz, &folder);
        let rank = if tried.works { Rank::Plain } else { Rank::Low };
        let cost = tried.cost_us.map_or("-".to_owned(), |us| format!("{us:.0} us"));
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded, not below 0")]
        let hz = tried.rate.round() as u64;
        let rate = if tried.works { format!("{} Hz", thousands(hz)) } else { "-".into() };
        let works = if tried.works { "yes" } else { "no" };
        table.row(rank, vec![clock.into(), works.into(), rate, cost, tried.why]);
    }
    let with_kernel = recording_of("sigtrap,kernel=on", &library, args.hz, &folder.join("kernel"))
        .ok()
        .and_then(|trial| trial.recording);
    let _ = std::fs::remove_dir_all(&folder);
    let mut text = format!("asked of each clock: {} Hz of CPU time\n\n", thousands(u64::from(args.hz)));
    text += &table.render(&face.layout());
    text += &surroundings(&library, no_answers.as_deref());
    text += &kernel::line(with_kernel.as_deref());
    let mut known = true;
    if let Some(program) = &args.program {
        let lines = program_lines(program);
        known = lines.is_some();
        text += &lines.unwrap_or_else(|| {
            let is_there = check::find(program.as_os_str()).is_some_and(|file| file.exists());
            let why = if is_there { "cannot be read" } else { "not found" };
            format!("  program  {}: {why}\n", program.display())
        });
    }
    face.print(&text)?;
    Ok(ExitCode::from(u8::from(!known)))
}

/// CPU time of the trial, nanoseconds.
const TRIAL_NS: u64 = 500_000_000;
/// Steps of arithmetic in a piece: a few microseconds.
const STEPS: u64 = 4000;

/// Pieces of arithmetic that no compiler can skip: what each took, in nanoseconds of this thread's CPU time.
fn work() -> Vec<u64> {
    let now = || {
        use nix::time::{ClockId, clock_gettime};
        let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(std::time::Duration::from);
        time.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(0))
    };
    let mut pieces = Vec::with_capacity(1 << 18);
    let mut state = 1_u64;
    let began = now();
    let mut last = began;
    while last.saturating_sub(began) < TRIAL_NS && pieces.len() < 1 << 18 {
        for n in 0..STEPS {
            state = std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(n));
        }
        let at = now();
        pieces.push(at.saturating_sub(last));
        last = at;
    }
    pieces
}

/// Microseconds of CPU time that a sample costs, by the pieces of work and the number of samples in them;
/// `None` when the quarters of the trial are more than a fifth apart, or there is too little to say.
fn cost_us(pieces: &[u64], samples: usize) -> Option<f64> {
    // More samples than pieces without one: then there is nothing to compare with.
    if samples < 40 || samples > pieces.len() / 4 {
        return None;
    }
    // A quarter of the way up: what else happens on the machine only makes pieces longer.
    let low = |mut numbers: Vec<u64>| -> Option<u64> {
        let at = numbers.len() / 4;
        (!numbers.is_empty()).then(|| *numbers.select_nth_unstable(at).1)
    };
    // Each quarter by its own: the machine may have become faster or slower meanwhile.
    let quarter = |pieces: &[u64]| -> Option<f64> {
        let mut longest = pieces.to_vec();
        longest.sort_unstable_by(|a, b| b.cmp(a));
        longest.truncate(samples / 4);
        Some(low(longest)?.saturating_sub(low(pieces.to_vec())?) as f64 / 1000.0)
    };
    let costs: Vec<f64> = pieces.chunks(pieces.len().div_ceil(4)).map(quarter).collect::<Option<_>>()?;
    let mean = costs.iter().sum::<f64>() / costs.len() as f64;
    let apart =
        costs.iter().copied().fold(f64::MIN, f64::max) - costs.iter().copied().fold(f64::MAX, f64::min);
    (apart <= mean * 0.2).then_some(mean)
}

fn tempdir() -> Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt as _;
    let dir = std::env::temp_dir().join(format!("pct-doctor-{}", std::process::id()));
    std::fs::DirBuilder::new().mode(0o700).create(&dir).with_context(|| format!("{}", dir.display()))?;
    Ok(dir)
}

/// The work under a clock: what its pieces took.
fn trial(clock: &str, library: &Path, hz: u32, folder: &Path) -> Result<Vec<u64>> {
    let mut command = Command::new(std::env::current_exe().context("this program's own path")?);
    command.args(["doctor", "--work"]).stdin(Stdio::null()).stderr(Stdio::null());
    command.env("LD_PRELOAD", library);
    let stack = if clock.contains("kernel") { "auto" } else { "none" };
    command.env("PCT", format!("clock={clock},hz={hz},stack={stack},out={}", folder.display()));
    let output = command.output().context("this program cannot be started again")?;
    let text = String::from_utf8(output.stdout).context("the pieces of work")?;
    Ok(text.split_whitespace().filter_map(|word| word.parse().ok()).collect())
}

/// What a trial left.
struct Trial {
    /// What the pieces of work took.
    pieces: Vec<u64>,
    recording: Option<Vec<u8>>,
    /// What the library told.
    told: Vec<String>,
}

fn recording_of(clock: &str, library: &Path, hz: u32, dir: &Path) -> Result<Trial> {
    std::fs::create_dir(dir).with_context(|| format!("{}", dir.display()))?;
    // Whoever starts programs makes it. The library tells nothing without.
    std::fs::File::create(dir.join(status::STATUS)).with_context(|| format!("{}", dir.display()))?;
    let pieces = trial(clock, library, hz, dir)?;
    let files = pct_profile::load::files_of(dir).unwrap_or_default();
    let told = Tellings::after(dir, 0).map(|mut tellings| tellings.read()).unwrap_or_default();
    Ok(Trial {
        pieces,
        recording: files.first().and_then(|file| std::fs::read(file).ok()),
        told: told.into_iter().map(|(_, cause)| cause).collect(),
    })
}

fn try_clock(clock: &str, library: &Path, hz: u32, folder: &Path) -> Tried {
    let failed = |why: String| Tried { works: false, rate: 0.0, cost_us: None, why };
    let Trial { pieces, recording, told } = match recording_of(clock, library, hz, &folder.join(clock)) {
        Ok(trial) => trial,
        Err(why) => return failed(crate::errors::chain(&why)),
    };
    let no_sample = || {
        if told.is_empty() { "no sample came".into() } else { format!("no sample came: {}", told.join("; ")) }
    };
    let Some(bytes) = recording else { return failed(no_sample()) };
    let Ok(file) = File::parse(&bytes) else { return failed("its file cannot be read".into()) };
    let header = file.header();
    let got = header.clock_got().map_or("none", Clock::name);
    let errno = i32::try_from(header.header_word(at::CLOCK_ERRNO)).unwrap_or(0);
    if got != clock {
        let cause = match (clock, errno) {
            (_, 0) if told.is_empty() => String::new(),
            (_, 0) => format!(": {}", told.join("; ")),
            ("perf" | "sigtrap", 1 | 13) => format!(": perf_event_open is not permitted{}", paranoid()),
            (_, errno) => format!(": {}", nix::errno::Errno::from_raw(errno).desc()),
        };
        return failed(format!("{got} taken instead{cause}"));
    }
    let index = Index::new(&file);
    let samples = count_samples(index.threads.iter().flat_map(|t| index.samples(t)));
    let cpu_ns: u64 = pieces.iter().sum();
    // A tick-bound clock's samples lie in the very pieces that the kernel's tick makes longer. Three trials
    // gave 32, 44 and 49 us.
    let cost_us = if matches!(clock, "perf" | "sigtrap") { cost_us(&pieces, samples) } else { None };
    let tick = header.tick_hz();
    let why = match clock {
        "thread" => format!("tick-bound: HZ={tick}"),
        "itimer" => format!("tick-bound: HZ={tick}; one timer for all threads"),
        "sigtrap" => {
            inheritance(header.header_word(at::INHERITED_EVENTS), header.header_word(at::INHERITED_ERRNO))
        }
        _ => "an event for each thread: programs that switch threads often run slower".into(),
    };
    Tried { works: samples > 0, rate: samples as f64 / (cpu_ns.max(1) as f64 / 1e9), cost_us, why }
}

/// Samples of the work. (Not their weight: a sample of a tick-bound clock stands for many periods.)
fn count_samples<'f>(samples: impl Iterator<Item = Sample<'f>>) -> usize {
    samples.filter(|sample| !sample.system).count()
}

/// How the threads of a program come to their clocks, by a trial in which a thread was made. The library tries then to
/// make events that all threads inherit. It takes them away again where threads do not switch often, as in the trial.
fn inheritance(events: u64, errno: u64) -> String {
    match (events, i32::try_from(errno).unwrap_or(0)) {
        (0, errno) if errno != 0 => {
            let why = nix::errno::Errno::from_raw(errno).desc();
            format!(
                "an event for each thread, none can be inherited ({why}): programs that switch threads often run slower"
            )
        }
        _ => "threads that switch often inherit one event for each CPU; others have one each".into(),
    }
}

fn paranoid() -> String {
    match std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid") {
        Ok(level) => format!(" (perf_event_paranoid is {}, 2 or less is needed)", level.trim()),
        Err(_) => " (no perf events in this kernel)".into(),
    }
}

/// `no_answers`: why the library cannot keep what it finds out about objects.
fn surroundings(library: &Path, no_answers: Option<&str>) -> String {
    let yama = match std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").as_deref().map(str::trim) {
        Ok("0") | Err(_) => "same uid; no Yama".to_owned(),
        Ok("1") => "children only (Yama ptrace_scope 1): pct attach needs root".into(),
        Ok(level) => format!("root only (Yama ptrace_scope {level})"),
    };
    let mut text = format!("\n  ptrace   {yama}\n  library  {}\n", library.display());
    if let Some(why) = no_answers {
        text += &format!(
            "  answers  what is found out about objects cannot be kept: {why}. The clocks sigtrap and itimer are then not \
             taken in large programs\n"
        );
    }
    text
}

/// Whether the program can be profiled, and how its stacks are found.
fn program_lines(program: &Path) -> Option<String> {
    let found = check::find(program.as_os_str()).and_then(|file| check::inspect(&file))?;
    let name = found.program.display();
    let mut lines = match found.obstacle {
        // No obstacle for pct run, which has another way in.
        Some(Obstacle::Unloadable(Unloadable::Static)) => {
            format!("  program  {name} is statically linked: pct run puts the sampler into it at its start\n")
        }
        _ => format!("  program  {found}\n"),
    };
    let mut symbols = Symbolizer::default();
    let object = symbols.add(ObjectInfo::file(&found.program));
    if matches!(found.obstacle, None | Some(Obstacle::Unloadable(Unloadable::Static))) {
        let how = match symbols.unwind_data(object) {
            Some(_) => "unwind data ok",
            None => "no unwind data, frame pointers are used",
        };
        lines += &format!("  stacks   {name}: {how}\n");
    }
    Some(lines)
}

#[cfg(test)]
mod tests {
    use super::{cost_us, count_samples, inheritance, program_lines, surroundings};
    use pct_format::{Sample, Stack};
    use std::path::Path;

    #[test]
    fn a_program_is_looked_at_and_one_that_is_not_there_is_none() {
        let own = std::env::current_exe().expect("known");
        let lines = program_lines(&own).expect("readable");
        assert!(lines.contains("can be profiled") && lines.contains("unwind data ok"), "{lines}");
        assert_eq!(program_lines(Path::new("/nonexistent/program")), None);
    }

    #[test]
    fn the_rate_is_that_of_the_samples_whatever_they_stand_for() {
        let sample = |weight, system| Sample { time: 1, pc: 0x1000, weight, system, stack: Stack::None };
        // a clock that is bound to the tick: each sample stands for 16 periods
        let samples = (0..125).map(|_| sample(16, false)).chain([sample(16, true)]);
        assert_eq!(count_samples(samples), 125);
    }

    #[test]
    fn what_threads_inherit_is_told_by_what_the_kernel_answered() {
        let may_inherit = "threads that switch often inherit one event for each CPU; others have one each";
        // The trial's thread does not switch: by its end the inherited events are gone.
        assert_eq!(inheritance(0, 0), may_inherit);
        assert_eq!(inheritance(2, 0), may_inherit);
        let refused = inheritance(0, 24);
        assert!(refused.contains("none can be inherited (Too many open files)"), "{refused}");
    }

    #[test]
    fn what_cannot_be_kept_is_told() {
        let library = Path::new("/l.so");
        assert!(!surroundings(library, None).contains("answers"));
        let lines = surroundings(library, Some("/x/objects: Permission denied"));
        assert!(lines.contains("cannot be kept: /x/objects: Permission denied. "), "{lines}");
    }

    #[test]
    fn the_cost_of_a_sample_is_told_from_the_work_around_it() {
        // 5 us a piece, every tenth with a sample of 20 us, some interrupted by other things
        let mut pieces: Vec<u64> =
            (0..10_000).map(|n| 5000 + n % 7 * 30 + if n % 10 == 3 { 20_000 } else { 0 }).collect();
        (0..100).for_each(|n| pieces[n * 97] += 300_000);
        let cost = cost_us(&pieces, 1000).expect("told");
        assert!((18.0..22.0).contains(&cost), "{cost}");
        // quarters that disagree, samples in every piece, next to none: no figure
        let slower =
            pieces.iter().enumerate().map(|(n, ns)| if n > 5000 && n % 10 == 3 { ns + 30_000 } else { *ns });
        assert_eq!(cost_us(&slower.collect::<Vec<_>>(), 1000), None);
        assert_eq!(cost_us(&pieces, 9000), None);
        assert_eq!(cost_us(&pieces, 3), None);
        assert_eq!(cost_us(&[], 1000), None);
    }
}
