//! What `pct run --wait` costs, beside a run without it and beside peers, as tables.
//!
//!     cargo bench -p pct-tests --bench waits                   # all tables
//!     cargo bench -p pct-tests --bench waits -- pairs contended
//!     WAIT_ROUNDS=15 cargo bench ...
//!
//! - `pairs`: nanoseconds of CPU time of taking and releasing a lock that nobody else wants, over the bare pair: median
//!   and, in brackets, least of the interleaved rounds. `libpct.so` is the library without `--wait`.
//! - `contended`: CPU time of a pair with three threads that want one mutex, over the bare one: median of the rounds.
//!
//! Peers run one round with fewer pairs: they are slow, and what counts is the order of magnitude. A peer that is not
//! installed is named. The clock samples as by default; its share is the same in both columns.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use pct_kit::median;
use pct_tests::victims::{values, victim};
use pct_tests::{pct, which};

/// Nanoseconds by name of what is measured.
type Costs = BTreeMap<String, f64>;

/// The way a program is run.
type Tool = (&'static str, fn(&Path, &Path) -> Option<Command>);

const TOOLS: [Tool; 3] = [
    ("bare", |program, _| Some(Command::new(program))),
    ("libpct.so", |program, folder| Some(preloaded(program, folder, &[]))),
    ("--wait", |program, folder| Some(preloaded(program, folder, &["--wait"]))),
];

const PEERS: [Tool; 4] = [
    ("valgrind none", |program, _| with_valgrind("none", program)),
    ("valgrind drd", |program, _| with_valgrind("drd", program)),
    ("valgrind helgrind", |program, _| with_valgrind("helgrind", program)),
    ("mutrace", |program, _| {
        let mut command = Command::new(which("mutrace")?);
        command.arg(program);
        Some(command)
    }),
];

fn with_valgrind(tool: &str, program: &Path) -> Option<Command> {
    let mut command = Command::new(which("valgrind")?);
    command.arg(format!("--tool={tool}")).arg("-q").arg(program);
    Some(command)
}

/// The program with pct's library in front of it, as `pct run OPTIONS` has it.
fn preloaded(program: &Path, folder: &Path, options: &[&str]) -> Command {
    let mut command = Command::new(pct::binary());
    command.args(["run", "-q", "--no-report"]).args(options).arg("--out").arg(folder.join("recording"));
    command.arg("--").arg(program);
    command
}

/// What the victim measured.
fn run(tool: &Tool, words: &[&str]) -> Option<Costs> {
    let program = victim("lock_cost.c");
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = tool.1(&program, folder.path())?;
    let output = command.args(words).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then(|| values(&text, "cost").into_iter().collect())
}

/// Each tool's costs in each round, the tools of a round one after another.
fn rounds(words: &[&str], n: usize) -> Vec<Vec<Costs>> {
    let mut taken = vec![Vec::new(); TOOLS.len()];
    for _ in 0..n {
        for (tool, costs) in TOOLS.iter().zip(&mut taken) {
            costs.push(run(tool, words).unwrap_or_else(|| panic!("{} failed", tool.0)));
        }
    }
    taken
}

fn all(costs: &[Costs], name: &str) -> Vec<f64> {
    costs.iter().filter_map(|costs| costs.get(name).copied()).collect()
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn pairs(n: usize) {
    println!("ns of CPU a pair that nobody else wants, over bare: median (least) of {n} interleaved rounds");
    let taken = rounds(&["pairs", "9"], n);
    let peers: Vec<_> = PEERS.iter().map(|peer| (peer.0, run(peer, &["pairs", "1"]))).collect();
    println!("{:<14}{:>8}{:>18}{:>18}{:>18}", "kind", "bare", "libpct.so", "--wait", "--wait: over it");
    for name in taken[0].first().into_iter().flat_map(Costs::keys) {
        let [bare, plain, wait] = [0, 1, 2].map(|tool| all(&taken[tool], name));
        let over = |tool: &[f64], base: &[f64]| {
            let differences = tool.iter().zip(base).map(|(tool, base)| tool - base).collect();
            format!("{:.2} ({:.2})", median(differences), least(tool) - least(base))
        };
        let [plain_over, wait_over, beyond] = [over(&plain, &bare), over(&wait, &bare), over(&wait, &plain)];
        println!("{name:<14}{:>8.2}{plain_over:>18}{wait_over:>18}{beyond:>18}", least(&bare));
        for (peer, costs) in &peers {
            if let Some(cost) = costs.as_ref().and_then(|costs| costs.get(name)) {
                println!("{:<14}{peer:>20} {:>10.0}", "", cost - least(&bare));
            }
        }
    }
    for (peer, costs) in peers {
        if costs.is_none() {
            println!("{peer}: it is not installed, or fails");
        }
    }
}

fn contended(n: usize) {
    println!(
        "CPU time of a pair with three threads that want one mutex, over bare: median of {n} interleaved rounds"
    );
    let taken = rounds(&["contended", "400000"], n);
    println!("{:<14}{:>12}{:>12}{:>12}", "held for", "bare ns", "libpct.so", "--wait");
    for name in taken[0].first().into_iter().flat_map(Costs::keys) {
        let [bare, plain, wait] = [0, 1, 2].map(|tool| all(&taken[tool], name));
        let ratio = |tool: &[f64]| median(tool.iter().zip(&bare).map(|(tool, bare)| tool / bare).collect());
        println!("{name:<14}{:>12.0}{:>12.3}{:>12.3}", median(bare.clone()), ratio(&plain), ratio(&wait));
    }
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let is_wanted = |table: &str| wanted.is_empty() || wanted.iter().any(|word| word == table);
    let n = std::env::var("WAIT_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(9);
    if let Ok(load) = std::fs::read_to_string("/proc/loadavg") {
        println!("load: {}", load.trim_end());
    }
    for (table, print) in [("pairs", pairs as fn(usize)), ("contended", contended)] {
        if is_wanted(table) {
            print(n);
        }
    }
}
