//! pct beside its peers: the same workloads bare, under pct, gperftools and perf record, interleaved, as a table.
//!
//!     cargo bench -p pct-tests --bench peers                # a few minutes
//!     PEERS_ROUNDS=9 PEERS_HZ=1000 cargo bench ...          # more rounds, one rate
//!
//! Columns: `cpu` = the program's own CPU time over the bare run's of the same round (median of the rounds),
//! `wall` = wall time of the whole command over the bare one's, `got` = samples over asked (CPU seconds x
//! rate), `L1` = distance of the shares from the program's own truth, `ideal` = what a perfect sampler of as
//! many samples would show on average, `bytes` = size of what was written. A peer that is not installed is
//! named.

use pct_kit::noise::{expected_l1, l1};
use pct_kit::{Cpu, median};
use pct_tests::victims::{truth, values, victim};
use pct_tests::{pct, which};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

struct Tool {
    name: &'static str,
    command: fn(hz: u32, out: &Path) -> Command,
    /// Weighted samples by function.
    samples: fn(hz: u32, out: &Path, program: &Path) -> HashMap<String, f64>,
}

const TOOLS: &[Tool] = &[
    Tool { name: "bare", command: |_, _| Command::new("env"), samples: |_, _, _| HashMap::new() },
    Tool { name: "pct log", command: |hz, out| pct_command(hz, out, "log"), samples: pct_samples },
    Tool { name: "pct counts", command: |hz, out| pct_command(hz, out, "counts"), samples: pct_samples },
    Tool { name: "gperftools", command: gperftools, samples: gperftools_samples },
    Tool { name: "perf", command: perf, samples: perf_samples },
];

fn pct_command(hz: u32, out: &Path, mode: &str) -> Command {
    let mut c = Command::new(pct::binary());
    c.args(["run", "--no-report", "--mode", mode, "--hz", &hz.to_string(), "--out"]).arg(out).arg("--");
    c
}

fn pct_samples(_: u32, out: &Path, _: &Path) -> HashMap<String, f64> {
    let mut sums = HashMap::new();
    for row in pct::report(out, &["--by", "function"]) {
        *sums.entry(row.function).or_default() += row.samples;
    }
    sums
}

fn gperftools(hz: u32, out: &Path) -> Command {
    let lib = profiler_library().expect("checked before");
    let mut c = Command::new("env");
    c.arg(format!("LD_PRELOAD={}", lib.display()));
    c.arg(format!("CPUPROFILE={}", out.join("prof").display()));
    c.arg(format!("CPUPROFILE_FREQUENCY={hz}"));
    c
}

fn gperftools_samples(_: u32, out: &Path, program: &Path) -> HashMap<String, f64> {
    let mut sums = HashMap::new();
    for entry in fs::read_dir(out).into_iter().flatten().flatten() {
        let text = Command::new("google-pprof").arg("--text").arg(program).arg(entry.path()).output();
        for line in String::from_utf8_lossy(&text.map(|t| t.stdout).unwrap_or_default()).lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let [n, _, _, _, _, function, ..] = words[..]
                && let Ok(n) = n.parse::<f64>()
            {
                *sums.entry(function.to_owned()).or_default() += n;
            }
        }
    }
    sums
}

fn perf(hz: u32, out: &Path) -> Command {
    let mut c = Command::new("perf");
    c.args(["record", "-q", "-e", "task-clock:u", "-F", &hz.to_string(), "-o"])
        .arg(out.join("perf.data"))
        .arg("--");
    c
}

fn perf_samples(_: u32, out: &Path, _: &Path) -> HashMap<String, f64> {
    let text =
        Command::new("perf").args(["script", "-F", "ip,sym", "-i"]).arg(out.join("perf.data")).output();
    let mut sums = HashMap::new();
    for line in String::from_utf8_lossy(&text.map(|t| t.stdout).unwrap_or_default()).lines() {
        // `ADDRESS symbol`, one line a sample
        if let Some((_, symbol)) = line.trim().split_once(' ') {
            *sums.entry(symbol.trim().to_owned()).or_default() += 1.0;
        }
    }
    sums
}

fn profiler_library() -> Option<PathBuf> {
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/aarch64-linux-gnu"]
        .iter()
        .flat_map(|d| ["libprofiler.so", "libprofiler.so.0"].map(|l| Path::new(d).join(l)))
        .find(|p| p.exists())
}

fn present(tool: &Tool) -> bool {
    match tool.name {
        "gperftools" => profiler_library().is_some() && which("google-pprof").is_some(),
        "perf" => {
            which("perf").is_some()
                && Command::new("perf")
                    .args(["record", "-q", "-e", "task-clock:u", "-o", "/dev/null", "true"])
                    .output()
                    .is_ok_and(|o| o.status.success())
        }
        _ => true,
    }
}

/// One run of one tool on one workload.
struct Taken {
    wall: f64,
    /// CPU seconds as the program saw them (its own process only), or of the whole tree where it does not say.
    cpu: f64,
    got: f64,
    l1: f64,
    ideal: f64,
    bytes: u64,
}

struct Workload {
    name: &'static str,
    victim: &'static str,
    args: &'static [&'static str],
}

const WORKLOADS: &[Workload] = &[
    Workload { name: "cpu, 1 thread", victim: "shares.c", args: &["1", "0", "2200"] },
    Workload { name: "cpu, 4 threads", victim: "shares.c", args: &["4", "0", "550"] },
    Workload { name: "1 ms bursts", victim: "phase.c", args: &["4"] },
    Workload { name: "500 short processes", victim: "short.c", args: &["500", "2"] },
];

fn take(tool: &Tool, work: &Workload, hz: u32) -> Taken {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let program = victim(work.victim);
    let mut c = (tool.command)(hz, dir.path());
    c.arg(&program).args(work.args);
    let before = Cpu::children().total();
    let start = Instant::now();
    let done = c.output().expect("it runs");
    let wall = start.elapsed().as_secs_f64();
    let tree = Cpu::children().total() - before;
    assert!(done.status.success(), "{} on {}: {:?}", tool.name, work.name, done.status);
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let cpu = values(&text, "cpu").first().map_or(tree, |c| c.1);
    let sums = (tool.samples)(hz, dir.path(), &program);
    let total: f64 = sums.values().sum();
    let truth = if text.contains("truth") { truth(&text) } else { vec![] };
    let want: Vec<f64> = truth.iter().map(|t| t.1).collect();
    let seen: Vec<f64> = truth.iter().map(|t| sums.get(&t.0).copied().unwrap_or(0.0)).collect();
    let spent = if want.is_empty() { cpu } else { want.iter().sum() };
    let shares: Vec<f64> = want.iter().map(|w| w / spent).collect();
    Taken {
        wall,
        cpu,
        got: total / (f64::from(hz) * spent),
        l1: if want.len() > 1 { l1(&want, &seen) } else { f64::NAN },
        ideal: if want.len() > 1 { expected_l1(&shares, total) } else { f64::NAN },
        bytes: size(dir.path()),
    }
}

fn size(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|e| match e.metadata() {
            Ok(m) if m.is_dir() => size(&e.path()),
            Ok(m) => m.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

fn main() {
    // cargo passes --bench; nothing else is understood
    let rounds: usize = pct_kit::asked("PEERS_ROUNDS", 3);
    let rates: Vec<u32> = std::env::var("PEERS_HZ").map_or(vec![100, 250, 1000, 4000], |s| {
        s.split(',').map(|w| w.parse().expect("PEERS_HZ is a list of rates")).collect()
    });
    let tools: Vec<&Tool> = TOOLS
        .iter()
        .filter(|t| {
            let there = present(t);
            if !there {
                println!("{} is not installed or may not run here: left out", t.name);
            }
            there
        })
        .collect();
    println!(
        "{:<20} {:>5} {:<11} {:>7} {:>7} {:>7} {:>8} {:>8} {:>10}",
        "workload", "hz", "tool", "cpu", "wall", "got", "L1", "ideal", "bytes"
    );
    for work in WORKLOADS {
        for &hz in &rates {
            let mut taken: Vec<Vec<Taken>> = tools.iter().map(|_| Vec::new()).collect();
            for _ in 0..rounds {
                for (i, tool) in tools.iter().enumerate() {
                    taken[i].push(take(tool, work, hz));
                }
            }
            for (i, tool) in tools.iter().enumerate() {
                let over = |f: fn(&Taken) -> f64| {
                    median(taken[i].iter().zip(&taken[0]).map(|(t, bare)| f(t) / f(bare)).collect())
                };
                let own = |f: fn(&Taken) -> f64| median(taken[i].iter().map(f).collect());
                println!(
                    "{:<20} {:>5} {:<11} {:>7.3} {:>7.3} {:>7.3} {:>8.4} {:>8.4} {:>10.0}",
                    work.name,
                    hz,
                    tool.name,
                    over(|t| t.cpu),
                    over(|t| t.wall),
                    own(|t| t.got),
                    own(|t| t.l1),
                    own(|t| t.ideal),
                    own(|t| t.bytes as f64),
                );
            }
        }
    }
}
