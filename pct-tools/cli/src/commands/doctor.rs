//! `pct doctor`: which clocks and rates this machine gives, and why not more.
//!
//! Each clock is tried as a user would: this very program, doing a fixed piece of work, under the library, with the
//! clock and a high rate asked for. What it got is in the file that it leaves; what a sample costs is the CPU time
//! beyond the bare work's, by the number of samples.

use crate::face::Face;
use crate::launch::check::{self, Obstacle};
use crate::runlib;
use anyhow::{Context as _, Result};
use pct_format::{Clock, File, Index};
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
    /// Rate that is asked of each clock.
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
    /// Microseconds of CPU time a sample, if it could be told from noise.
    cost_us: Option<f64>,
    why: String,
}

/// Prints the table.
///
/// # Errors
/// When there is no library to try with, or this program cannot be started.
pub fn run(args: &Args, face: &Face) -> Result<ExitCode> {
    if args.work {
        println!("{}", work());
        return Ok(ExitCode::SUCCESS);
    }
    let library = runlib::path()?;
    let folder = tempdir()?;
    let bare: Vec<u64> = (0..3).map(|_| trial(None, &library, args.hz, &folder)).collect::<Result<_>>()?;
    let bare_ns = bare.iter().copied().min().unwrap_or(0);
    let rate_head = "rate got";
    let mut table = Table::new(vec![
        Column::name("clock", 8),
        Column::name("works", 5),
        Column::number(rate_head),
        Column::number("cost a sample"),
        Column::name("remarks", 20),
    ]);
    for clock in ["perf", "sigtrap", "thread", "itimer"] {
        let tried = try_clock(clock, &library, args.hz, &folder, bare_ns);
        let rank = if tried.works { Rank::Plain } else { Rank::Low };
        let cost = tried.cost_us.map_or("-".to_owned(), |us| format!("{us:.0} us"));
        let rate =
            if tried.works { format!("{} Hz", thousands(tried.rate.round() as u64)) } else { "-".into() };
        let works = if tried.works { "yes" } else { "no" };
        table.row(rank, vec![clock.into(), works.into(), rate, cost, tried.why]);
    }
    let _ = std::fs::remove_dir_all(&folder);
    let mut text = format!("asked of each clock: {} Hz of CPU time\n\n", thousands(u64::from(args.hz)));
    text += &table.render(&face.layout());
    text += &surroundings(&library);
    let mut known = true;
    if let Some(program) = &args.program {
        let lines = program_lines(program);
        known = lines.is_some();
        text += &lines
            .unwrap_or_else(|| format!("  program  {}: not found, or not readable\n", program.display()));
    }
    face.print(&text)?;
    Ok(ExitCode::from(u8::from(!known)))
}

/// About a quarter of a second of arithmetic that no compiler can skip.
fn work() -> u64 {
    let mut state = std::hint::black_box(1_u64);
    for n in 0..120_000_000_u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(n);
    }
    std::hint::black_box(state)
}

fn tempdir() -> Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt as _;
    let dir = std::env::temp_dir().join(format!("pct-doctor-{}", std::process::id()));
    std::fs::DirBuilder::new().mode(0o700).create(&dir).with_context(|| format!("{}", dir.display()))?;
    Ok(dir)
}

/// CPU time of the work, bare or under a clock, in nanoseconds.
fn trial(clock: Option<&str>, library: &Path, hz: u32, folder: &Path) -> Result<u64> {
    use nix::sys::resource::{UsageWho, getrusage};
    let used = || -> Result<u64> {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let micros = |time: nix::sys::time::TimeVal| time.tv_sec() * 1_000_000 + time.tv_usec();
        Ok(u64::try_from(micros(usage.user_time()) + micros(usage.system_time())).unwrap_or(0) * 1000)
    };
    let before = used()?;
    let mut command = Command::new(std::env::current_exe().context("this program's own path")?);
    command.args(["doctor", "--work"]).stdin(Stdio::null()).stdout(Stdio::null());
    command.env_remove("LD_PRELOAD").env_remove("PCT");
    if let Some(clock) = clock {
        command.env("LD_PRELOAD", library);
        command.env("PCT", format!("clock={clock},hz={hz},stack=none,out={}", folder.display()));
        command.stderr(Stdio::null());
    }
    command.status().context("this program cannot be started again")?;
    Ok(used()?.saturating_sub(before))
}

fn try_clock(clock: &str, library: &Path, hz: u32, folder: &Path, bare_ns: u64) -> Tried {
    let failed = |why: String| Tried { works: false, rate: 0.0, cost_us: None, why };
    let dir = folder.join(clock);
    if let Err(why) = std::fs::create_dir(&dir) {
        return failed(why.to_string());
    }
    let cpu_ns = match trial(Some(clock), library, hz, &dir) {
        Ok(ns) => ns,
        Err(why) => return failed(format!("{why:#}")),
    };
    let files = pct_profile::load::files_of(&dir).unwrap_or_default();
    let Some(bytes) = files.first().and_then(|file| std::fs::read(file).ok()) else {
        return failed("no sample came".into());
    };
    let Ok(file) = File::parse(&bytes) else { return failed("its file cannot be read".into()) };
    let header = file.header();
    let got = header.clock_got().map_or("none", Clock::name);
    let errno = i32::try_from(header.word(pct_format::layout::header::CLOCK_ERRNO)).unwrap_or(0);
    if got != clock {
        let cause = match (clock, errno) {
            (_, 0) => String::new(),
            ("perf" | "sigtrap", 1 | 13) => format!(": perf_event_open is not permitted{}", paranoid()),
            (_, errno) => format!(": {}", nix::errno::Errno::from_raw(errno).desc()),
        };
        return failed(format!("{got} taken instead{cause}"));
    }
    let index = Index::new(&file);
    let samples: u64 =
        index.threads.iter().map(|t| index.samples(t).filter(|s| !s.system).count() as u64).sum();
    let extra = cpu_ns.saturating_sub(bare_ns) as f64;
    // Two percent of the work is what runs differ by anyway.
    let cost_us = (samples > 0 && extra > bare_ns as f64 * 0.02).then(|| extra / samples as f64 / 1000.0);
    let tick = header.tick_hz();
    let why = match clock {
        "thread" => format!("tick-bound: HZ={tick}"),
        "itimer" => format!("tick-bound: HZ={tick}; one timer for all threads"),
        _ => String::new(),
    };
    Tried { works: samples > 0, rate: samples as f64 / (cpu_ns.max(1) as f64 / 1e9), cost_us, why }
}

fn paranoid() -> String {
    match std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid") {
        Ok(level) => format!(" (perf_event_paranoid is {}, 2 or less is needed)", level.trim()),
        Err(_) => " (no perf events in this kernel)".into(),
    }
}

fn surroundings(library: &Path) -> String {
    let yama = match std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").as_deref().map(str::trim) {
        Ok("0") | Err(_) => "same uid; no Yama".to_owned(),
        Ok("1") => "children only (Yama ptrace_scope 1): pct attach needs root".into(),
        Ok(level) => format!("root only (Yama ptrace_scope {level})"),
    };
    format!("\n  ptrace   {yama}\n  library  {}\n", library.display())
}

/// Whether the program can be profiled, and how its stacks are found.
fn program_lines(program: &Path) -> Option<String> {
    let found = check::find(program.as_os_str()).and_then(|file| check::inspect(&file))?;
    let name = found.program.display();
    let mut lines = match found.obstacle {
        // No obstacle for pct run, which has another way in.
        Some(Obstacle::Static) => {
            format!("  program  {name} is statically linked: pct run puts the sampler into it at its start\n")
        }
        _ => format!("  program  {found}\n"),
    };
    let mut symbols = Symbolizer::default();
    let object = symbols.add(ObjectInfo::file(&found.program));
    if matches!(found.obstacle, None | Some(Obstacle::Static)) {
        let how = match symbols.call_frames(object) {
            Some(_) => "unwind data ok",
            None => "no unwind data, frame pointers are used",
        };
        lines += &format!("  stacks   {name}: {how}\n");
    }
    Some(lines)
}

#[cfg(test)]
mod tests {
    use super::program_lines;
    use std::path::Path;

    #[test]
    fn a_program_is_looked_at_and_one_that_is_not_there_is_none() {
        let own = std::env::current_exe().expect("known");
        let lines = program_lines(&own).expect("readable");
        assert!(lines.contains("can be profiled") && lines.contains("unwind data ok"), "{lines}");
        assert_eq!(program_lines(Path::new("/nonexistent/program")), None);
    }
}
