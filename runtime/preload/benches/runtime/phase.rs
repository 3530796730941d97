//! phase: programs that work in bursts of about one period. How far is the share of a function that works for
//! a quarter of each burst from what the program itself says, in standard deviations of an ideal sampler; the
//! same by perf record.

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use pct_format::{File, Index};
use pct_kit::Dice;

use crate::{myself, rounds};

/// CPU seconds of one run.
const SECONDS: f64 = 3.0;
const LISTED_US: [u64; 5] = [490, 960, 1000, 1980, 2010];
const LISTED_HZ: [u64; 3] = [499, 997, 1000];
/// More than this is not chance.
const BEYOND_CHANCE: f64 = 4.0;

/// What a sampler makes of a program.
struct Seen {
    share: f64,
    samples: f64,
}

impl Seen {
    /// How far it is from the truth.
    fn deviations(&self, truth: f64) -> f64 {
        (self.share - truth).abs() / (truth * (1.0 - truth) / self.samples.max(1.0)).sqrt()
    }
}

/// Addresses of the two functions as the program printed them, and the share that it says the first has.
struct Truth {
    quarter: u64,
    rest: u64,
    share: f64,
}

impl Truth {
    fn parse(printed: &str) -> Option<Truth> {
        let mut words = printed.split_whitespace();
        let mut address = || u64::from_str_radix(words.next()?, 16).ok();
        let (quarter, rest) = (address()?, address()?);
        Some(Truth { quarter, rest, share: words.next()?.parse().ok()? })
    }

    /// The shares of samples given as (address, weight). What lies in neither function (the clock that they
    /// read) is left out.
    fn count(&self, samples: impl Iterator<Item = (u64, u64)>) -> Seen {
        /// Bytes of code that neither function exceeds.
        const LONGEST: u64 = 4096;
        let inside = |from: u64, other: u64, pc: u64| {
            pc >= from && pc < from + LONGEST && (other < from || pc < other)
        };
        let (mut quarter, mut all) = (0, 0);
        for (pc, weight) in samples {
            let first = inside(self.quarter, self.rest, pc);
            quarter += if first { weight } else { 0 };
            all += if first || inside(self.rest, self.quarter, pc) { weight } else { 0 };
        }
        Seen { share: quarter as f64 / (all as f64).max(1.0), samples: all as f64 }
    }
}

pub(crate) fn table(library: &Path) {
    println!("phase: a function's share of bursts, by the program's own clock, by pct and by perf record;");
    println!(
        "       off: in standard deviations of an ideal sampler, {BEYOND_CHANCE} and more is beyond chance"
    );
    println!(
        "  {:>6} {:>9} {:>7} {:>7} {:>8} {:>6} {:>8} {:>6}",
        "Hz", "burst us", "threads", "truth", "pct", "off", "perf", "off"
    );
    let mut dice = Dice::new(pct_kit::asked("PCT_BENCH_SEED", 1));
    let listed = LISTED_HZ.iter().flat_map(|hz| LISTED_US.iter().map(move |us| (*hz, *us)));
    let mut settings: Vec<(u64, u64)> = listed.collect();
    for _ in 0..rounds(30) {
        settings.push((100 + dice.below(2000), 200 + dice.below(4000)));
    }
    let (mut beyond, mut beyond_perf, mut runs, mut runs_perf) = (0, 0, 0, 0);
    for (hz, us) in settings {
        for threads in [1, 2] {
            let Some((truth, seen)) = by_pct(library, hz, us, threads) else {
                println!("  {hz:>6} {us:>9} {threads:>7}  failed");
                continue;
            };
            let off = seen.deviations(truth.share);
            runs += 1;
            beyond += u32::from(off >= BEYOND_CHANCE);
            print!("  {hz:>6} {us:>9} {threads:>7} {:7.4} {:8.4} {off:6.1}", truth.share, seen.share);
            match by_perf(hz, us, threads) {
                Some((truth, seen)) => {
                    let off = seen.deviations(truth.share);
                    runs_perf += 1;
                    beyond_perf += u32::from(off >= BEYOND_CHANCE);
                    println!(" {:8.4} {off:6.1}", seen.share);
                }
                None => println!(" {:>8} {:>6}", "-", "-"),
            }
        }
    }
    println!("  beyond chance: pct {beyond} of {runs}, perf {beyond_perf} of {runs_perf}");
}

fn program(us: u64, threads: u64) -> Command {
    let mut command = myself("bursts");
    command.env("PCT_BENCH_BURST_US", us.to_string()).env("PCT_BENCH_THREADS", threads.to_string());
    command
}

fn by_pct(library: &Path, hz: u64, us: u64, threads: u64) -> Option<(Truth, Seen)> {
    let folder = tempfile::tempdir().ok()?;
    let mut command = program(us, threads);
    let clock = std::env::var("PCT_BENCH_CLOCK").unwrap_or_else(|_| "auto".into());
    command.env("LD_PRELOAD", library);
    command.env("PCT", format!("out={},hz={hz},clock={clock},stack=none", folder.path().display()));
    let truth = Truth::parse(&String::from_utf8_lossy(&command.output().ok()?.stdout))?;
    let path = std::fs::read_dir(folder.path()).ok()?.filter_map(Result::ok).next()?.path();
    let data = std::fs::read(path).ok()?;
    let file = File::parse(&data).ok()?;
    let index = Index::new(&file);
    let seen = truth.count(index.samples_by_time().filter(|(_, s)| !s.system).map(|(_, s)| (s.pc, s.weight)));
    Some((truth, seen))
}

fn by_perf(hz: u64, us: u64, threads: u64) -> Option<(Truth, Seen)> {
    let folder = tempfile::tempdir().ok()?;
    let data = folder.path().join("perf.data");
    let bare = program(us, threads);
    let mut command = Command::new("perf");
    command.args(["record", "-q", "-e", "task-clock:u", "-F", &hz.to_string(), "-o"]).arg(&data).arg("--");
    command.arg(bare.get_program());
    command.envs(bare.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let truth = Truth::parse(&String::from_utf8_lossy(&command.stderr(Stdio::null()).output().ok()?.stdout))?;
    let script = Command::new("perf").args(["script", "-F", "ip", "-i"]).arg(&data).output().ok()?;
    let text = String::from_utf8_lossy(&script.stdout).into_owned();
    let pcs = text
        .lines()
        .filter_map(|line| Some((u64::from_str_radix(line.split_whitespace().next()?, 16).ok()?, 1)));
    let seen = truth.count(pcs);
    (seen.samples > 0.0).then_some((truth, seen))
}

/// CPU ns of the calling thread.
fn thread_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

/// Works until the thread's clock says so; `salt` keeps the two callers from being one function.
#[inline(always)]
fn burn(until: u64, salt: u64) {
    while thread_ns() < until {
        let mut x = salt;
        for i in 0..1500u64 {
            x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i));
        }
        black_box(x);
    }
}

#[inline(never)]
fn quarter(until: u64) {
    burn(until, 1);
}

#[inline(never)]
fn rest(until: u64) {
    burn(until, 2);
}

/// Bursts until the CPU time is used up; prints where the two functions are, and the share of the first.
pub(crate) fn inside() {
    let burst = 1000 * pct_kit::asked("PCT_BENCH_BURST_US", 1000u64);
    let threads = pct_kit::asked("PCT_BENCH_THREADS", 1u64);
    let each = (SECONDS * 1e9) as u64 / threads;
    let work = move || {
        let (mut first, mut second) = (0, 0);
        let mut now = thread_ns();
        // By the thread's own clock: a burst that was a little too long does not make the next one longer.
        let mut due = now;
        while first + second < each {
            quarter(due + burst / 4);
            let middle = thread_ns();
            rest(due + burst);
            let end = thread_ns();
            first += middle - now;
            second += end - middle;
            due += burst;
            std::thread::sleep(Duration::from_nanos(burst));
            now = thread_ns();
            due = due.max(now);
        }
        (first, second)
    };
    let others: Vec<_> = (1..threads).map(|_| std::thread::spawn(work)).collect();
    let (mut first, mut second) = work();
    for other in others {
        let (f, s) = other.join().expect("it works");
        (first, second) = (first + f, second + s);
    }
    println!(
        "{:x} {:x} {}",
        quarter as *const () as usize,
        rest as *const () as usize,
        first as f64 / (first + second) as f64
    );
}
