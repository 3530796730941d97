//! Shares of functions that work in bursts between sleeps, part of the time in the kernel: what each clock of pct and
//! `perf record` say, beside the program's own truth.
//!
//!     cargo bench -p pct-tests --bench bursts
//!     BURST_SETTINGS=24 BURST_SECONDS=4 BURST_SEED=3 cargo bench ...    # other settings, longer runs
//!
//! A row is a setting, drawn at random: microseconds of work and of sleep, percent of system time, functions that a
//! burst is divided among, threads. A column is a tool: the function that is off most, in standard deviations of a
//! sampler that samples system time at each tick of the kernel and user time at its rate. The last lines count the
//! settings beyond 3 and 4. perf needs rights for the kernel (root, or perf_event_paranoid below 2), and so does
//! `--kernel on`: where they are missing these columns are left out.

use pct_tests::pct;
use pct_tests::victims::{truth, victim};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Ticks of the kernel in a second, which is what samples of system time are bound to.
const TICKS: f64 = 250.0;
/// Samples of a second in user mode, where the clock is not bound to ticks.
const HZ: f64 = 997.0;

struct Tool {
    name: &'static str,
    /// Options of `pct run`; `None` is perf.
    options: Option<&'static [&'static str]>,
    /// Samples of a second in user mode.
    hz: f64,
}

const TOOLS: &[Tool] = &[
    Tool { name: "auto", options: Some(&[]), hz: HZ },
    Tool { name: "perf clock", options: Some(&["--clock", "perf"]), hz: HZ },
    Tool { name: "thread", options: Some(&["--clock", "thread"]), hz: TICKS },
    Tool { name: "itimer", options: Some(&["--clock", "itimer"]), hz: TICKS },
    Tool { name: "kernel on", options: Some(&["--kernel", "on"]), hz: HZ },
    Tool { name: "perf record", options: None, hz: HZ },
];

struct Setting {
    burst_us: u64,
    sleep_us: u64,
    in_kernel: u64,
    callers: u64,
    threads: u64,
}

impl Setting {
    fn drawn(dice: &mut u64) -> Setting {
        let mut roll = |n: u64| {
            *dice ^= *dice << 13;
            *dice ^= *dice >> 7;
            *dice ^= *dice << 17;
            (*dice >> 11) % n
        };
        // 0.2 to 5 ms, each length of the same order with the same chance.
        let burst_us = (200.0 * 25.0_f64.powf(roll(1000) as f64 / 1000.0)) as u64;
        let sleep_us = burst_us * [0, 1, 3, 10, 30][roll(5) as usize] / 10;
        let in_kernel = [10, 30, 50, 70, 90][roll(5) as usize];
        Setting { burst_us, sleep_us, in_kernel, callers: 2 + roll(3), threads: [1, 1, 4][roll(3) as usize] }
    }

    fn arguments(&self, seconds: f64) -> Vec<String> {
        let each = seconds / self.threads.min(2) as f64;
        let numbers = [self.burst_us, self.sleep_us, self.in_kernel, self.callers, self.threads];
        std::iter::once(each.to_string()).chain(numbers.map(|n| n.to_string())).collect()
    }
}

/// Deviation of the function that is off most, in standard deviations. `None`: the tool cannot do it here.
fn deviation(tool: &Tool, setting: &Setting, program: &Path, seconds: f64) -> Option<f64> {
    let keep = tempfile::tempdir().expect("a folder");
    let out = keep.path().join("recording");
    let mut command = match tool.options {
        Some(options) => {
            let mut c = Command::new(pct::binary());
            c.args(["run", "--no-report"]).args(options).arg("--out").arg(&out).arg("--");
            c
        }
        None => {
            let mut c = Command::new("perf");
            c.args(["record", "-q", "-e", "cpu-clock", "-F", "997", "-g", "-o"]).arg(&out).arg("--");
            c
        }
    };
    let done = command.arg(program).args(setting.arguments(seconds)).output().ok()?;
    if !done.status.success() {
        return None;
    }
    let truth = truth(&String::from_utf8_lossy(&done.stdout));
    let seen = match tool.options {
        Some(_) => truth.iter().map(|t| below(&out, &t.0)).collect(),
        None => by_perf(&out, &truth)?,
    };
    let (of, all) = (truth.iter().map(|t| t.1).sum::<f64>(), seen.iter().sum::<f64>());
    let kernel = setting.in_kernel as f64 / 100.0;
    let kernel_hz =
        if tool.options == Some(&["--kernel", "on"]) || tool.options.is_none() { HZ } else { TICKS };
    let variance = (kernel / kernel_hz + (1.0 - kernel) / tool.hz) / of;
    let off = truth.iter().zip(&seen).map(|(truth, seen)| {
        let share = truth.1 / of;
        (seen / all - share) / (share * (1.0 - share) * variance).sqrt()
    });
    off.max_by(|a, b| a.abs().total_cmp(&b.abs()))
}

/// Seconds of a function and what it calls.
fn below(recording: &Path, function: &str) -> f64 {
    let rows = pct::report(recording, &["--by", "function", "--focus", &format!("^{function}$")]);
    rows.iter().map(|row| row.cpu_seconds).sum()
}

/// Samples of perf with each function in their stacks.
fn by_perf(file: &Path, truth: &[(String, f64)]) -> Option<Vec<f64>> {
    let text = Command::new("perf").args(["script", "-F", "ip,sym", "-i"]).arg(file).output().ok()?;
    let mut sums: HashMap<&str, f64> = HashMap::new();
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    for stack in text.split("\n\n") {
        let named = |name: &str| stack.lines().any(|line| line.split_whitespace().nth(1) == Some(name));
        if let Some((name, _)) = truth.iter().find(|(name, _)| named(name)) {
            *sums.entry(name).or_default() += 1.0;
        }
    }
    Some(truth.iter().map(|(name, _)| sums.get(name.as_str()).copied().unwrap_or(0.0)).collect())
}

fn given<T: std::str::FromStr>(name: &str, or: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(or)
}

/// Whether the kernel's own time may be sampled.
fn may_sample_kernel() -> bool {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    is_root || paranoid.trim().parse::<i32>().is_ok_and(|level| level < 2)
}

fn main() {
    let (settings, seconds) = (given("BURST_SETTINGS", 12), given("BURST_SECONDS", 2.0));
    let mut dice = given("BURST_SEED", 1_u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let program = victim("bursts.c");
    let has_perf = pct_tests::which("perf").is_some();
    let tools: Vec<&Tool> = TOOLS
        .iter()
        .filter(|tool| match tool.options {
            Some(options) => options != ["--kernel", "on"] || may_sample_kernel(),
            None => has_perf && may_sample_kernel(),
        })
        .collect();
    print!("{:>6} {:>6} {:>4} {:>7} {:>7}", "burst", "sleep", "sys", "callers", "threads");
    tools.iter().for_each(|tool| print!(" {:>11}", tool.name));
    println!();
    let mut taken: Vec<Vec<f64>> = tools.iter().map(|_| Vec::new()).collect();
    for _ in 0..settings {
        let setting = Setting::drawn(&mut dice);
        print!(
            "{:>6} {:>6} {:>4} {:>7} {:>7}",
            setting.burst_us, setting.sleep_us, setting.in_kernel, setting.callers, setting.threads
        );
        for (tool, all) in tools.iter().zip(&mut taken) {
            match deviation(tool, &setting, &program, seconds) {
                Some(off) => {
                    print!(" {off:>11.1}");
                    all.push(off);
                }
                None => print!(" {:>11}", "-"),
            }
        }
        println!();
    }
    for bound in [3.0, 4.0] {
        print!("{:>34}", format!("beyond {bound}"));
        for all in &taken {
            let beyond = all.iter().filter(|off| off.abs() > bound).count();
            print!(" {:>11}", format!("{beyond} of {}", all.len()));
        }
        println!();
    }
}
