//! What tests and benches of all rooms share. A dev-dependency only: no program and no library of pct is built on it.
//!
//! - [`real`]: files of the real data, where they are at hand.
//! - [`skip`]: says that a test did not run, and why.
//! - [`asked`]: sizes by environment variables.
//! - [`Dice`]: numbers that look random and are the same in every run.
//! - [`Cpu`], [`thread_ns`], [`peak_kib`]: what a run cost.
//! - [`browser`]: headless Chromium.
//! - [`flight_recorder`], [`perf_data`]: other profilers' files, made by hand.
//! - [`kernel_trace`]: a trace of the kernel of a simulated machine, with what happened in it.
//! - [`started`]: processes that end with their test.
//! - [`terminal`]: a program on a pseudo terminal.
//! - [`libraries`]: libpct.so and libpct.a, built once for all tests.
//! - [`median`]: of several runs.
//! - [`noise`]: how far an ideal sampler may be from the truth, and tests that draw samples until they are sure.
//! - [`wait`]: waiting for a condition; [`harm`]: what fails a run at once.
#![forbid(unsafe_code)]

pub mod browser;
pub mod flight_recorder;
pub mod harm;
pub mod kernel_trace;
pub mod libraries;
pub mod noise;
pub mod perf_data;
pub mod started;
pub mod terminal;
pub mod wait;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// A file or folder of the real data, which lies in `PCT_TEST_DATA` or else in `../shared/data` beside the
/// repository. `None`, with a line on stderr, where it is not at hand: the test is skipped.
#[must_use]
pub fn real(path: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let found = std::env::var_os("PCT_TEST_DATA").map_or_else(beside, PathBuf::from).join(path);
    if found.exists() {
        return Some(found);
    }
    skip(&format!("{} is absent (set PCT_TEST_DATA)", found.display()));
    None
}

/// Says in one line on stderr that the running test, or a part of it, is skipped, and why. The line is also
/// added to the file that `PCT_SKIPPED` names: `tests/run` lists it at the end, because a skipped test looks
/// like a passed one.
pub fn skip(why: &str) {
    skip_test(std::thread::current().name().unwrap_or("?"), why);
}

/// [`skip`] of the test `name`, for those that have threads of their own.
pub fn skip_test(name: &str, why: &str) {
    let line = format!("skipped: {name}: {}\n", why.trim().replace('\n', " "));
    eprint!("{line}");
    if let Some(list) = std::env::var_os("PCT_SKIPPED") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(list);
        // One write, so that lines of tests that run at the same time do not mix.
        let _ = file.and_then(|mut file| std::io::Write::write_all(&mut file, line.as_bytes()));
    }
}

/// The number that an environment variable asks for: how long a test runs, how large a bench is.
#[must_use]
pub fn asked<T: FromStr>(variable: &str, default: T) -> T {
    std::env::var(variable).ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

/// Whether the long forms of tests are wanted: `tests/run --long` sets `PCT_TEST_LONG`.
#[must_use]
pub fn long() -> bool {
    asked("PCT_TEST_LONG", 0_u8) == 1
}

/// A small generator of numbers (xorshift): the same seed gives the same case.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice of a seed; any number will do.
    #[must_use]
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Any number but 0.
    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number less than `n`; 0 where there is none.
    pub fn below(&mut self, n: u64) -> u64 {
        (self.roll() >> 11) % n.max(1)
    }

    /// An index into `n` things.
    pub fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// CPU nanoseconds of the calling thread, as the scheduler counts them.
#[must_use]
pub fn thread_ns() -> f64 {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    line.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0)
}

/// CPU seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    /// In the programs.
    pub user: f64,
    /// In the kernel for them.
    pub system: f64,
}

impl Cpu {
    /// Of all threads of this process so far.
    #[must_use]
    pub fn own() -> Cpu {
        Cpu::of(UsageWho::RUSAGE_SELF)
    }

    /// Of all children waited for so far.
    #[must_use]
    pub fn children() -> Cpu {
        Cpu::of(UsageWho::RUSAGE_CHILDREN)
    }

    fn of(who: UsageWho) -> Cpu {
        let seconds = |t: TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 * 1e-6;
        getrusage(who).map_or(Cpu::default(), |u| Cpu {
            user: seconds(u.user_time()),
            system: seconds(u.system_time()),
        })
    }

    /// User and system time.
    #[must_use]
    pub fn total(self) -> f64 {
        self.user + self.system
    }
}

/// Seconds for which the host of this virtual machine ran something else, summed over the processors, since the machine
/// started; 0 on a real one (proc_stat(5), *steal*).
///
/// A thread's CPU clock leaves this time out. A perf clock's timer goes on: it expires when the processor comes
/// back, for time that the thread did not have.
#[must_use]
pub fn stolen_seconds() -> f64 {
    const STEAL: usize = 8;
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = stat.lines().next().and_then(|all| all.split_whitespace().nth(STEAL)?.parse().ok());
    ticks.unwrap_or(0.0) / TICKS_PER_SECOND
}

/// Greatest resident size so far in KiB; `process` is a process id or `self`. 0 when it has ended.
#[must_use]
pub fn peak_kib(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|kib| kib.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The value in the middle (of an even number the upper one); not a number where there is none.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dice_repeat_themselves_and_stay_below() {
        let throws = |seed| {
            let mut dice = Dice::new(seed);
            (0..1000).map(|n| dice.below(n)).collect::<Vec<u64>>()
        };
        assert_eq!(throws(0), throws(0));
        assert_ne!(throws(1), throws(2));
        assert!(throws(3).iter().enumerate().skip(1).all(|(n, got)| *got < n as u64));
    }

    #[test]
    fn the_median_lies_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert!(median(vec![]).is_nan());
    }

    #[test]
    fn a_process_has_used_time_and_memory() {
        assert!(Cpu::own().total() > 0.0 && peak_kib("self") > 100 && peak_kib("0") == 0);
    }
}
