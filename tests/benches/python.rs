//! pct beside py-spy on the same program: bare, under pct, and under py-spy as it can be run, interleaved, as a table.
//!
//!     cargo bench -p pct-tests --bench python               # some minutes
//!     PYTHON_ROUNDS=9 PYTHON_HZ=100 PCT_TEST_PYTHONS=3.11 cargo bench ...
//!
//! The program (`victims/alternating.py`) calls two functions in turn by two others, so a sampler that reads a stack
//! while it changes shows pairs that cannot be. Columns: `cpu` and `wall` = what the program measured of itself, over
//! the bare run of the same round (median of the rounds); `samples` and `impossible` = those with a function of the
//! program, and those of them whose calls the program cannot make (sums of the rounds); `errors` = stacks that the
//! sampler could not read, as it says; `late` = how often it said that it is behind its schedule. py-spy is fetched
//! from PyPI; versions that it cannot read are named.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pct_kit::median;
use pct_tests::pct::binary;
use pct_tests::pythons::{package, pythons};
use pct_tests::root;

/// What a run left behind.
struct Taken {
    cpu: f64,
    wall: f64,
    samples: u64,
    impossible: u64,
    errors: u64,
    late: u64,
}

/// A way to run the program.
struct Tool {
    name: &'static str,
    /// Options of `py-spy record`; `None`: another tool.
    spy: Option<&'static [&'static str]>,
}

const TOOLS: &[Tool] = &[
    Tool { name: "bare", spy: None },
    Tool { name: "pct", spy: None },
    Tool { name: "py-spy", spy: Some(&[]) },
    Tool { name: "py-spy --native", spy: Some(&["--native"]) },
    Tool { name: "py-spy --nonblocking", spy: Some(&["--nonblocking"]) },
];

/// The functions of the program, and who calls each.
const CALLERS: &[(&str, &str)] =
    &[("leaf_a", "hot_a"), ("leaf_b", "hot_b"), ("hot_a", "work"), ("hot_b", "work"), ("work", "<module>")];

/// Whether the stack has a function of the program, and whether its calls are possible. Names, outermost first.
fn judge(names: &[&str]) -> (bool, bool) {
    const MODULE: &str = "<module>";
    let is_own = |name: &str| CALLERS.iter().any(|(callee, _)| *callee == name);
    let own: Vec<&str> = names.iter().copied().filter(|name| *name == MODULE || is_own(name)).collect();
    let Some(first) = own.iter().position(|name| is_own(name)) else { return (false, true) };
    let possible = |pair: &[&str]| CALLERS.contains(&(pair[1], pair[0]));
    (true, first > 0 && own[first - 1..].windows(2).all(possible))
}

/// Samples and impossible ones of folded stacks.
fn count(folded: &str) -> (u64, u64) {
    let (mut samples, mut impossible) = (0, 0);
    for line in folded.lines() {
        let Some((stack, weight)) = line.rsplit_once(' ') else { continue };
        let weight: f64 = weight.parse().unwrap_or(0.0);
        // py-spy: `name (file:line)`
        let names: Vec<&str> =
            stack.split(';').map(|frame| frame.split(" (").next().unwrap_or(frame)).collect();
        let (is_own, is_possible) = judge(&names);
        if is_own {
            samples += weight as u64;
            impossible += if is_possible { 0 } else { weight as u64 };
        }
    }
    (samples, impossible)
}

/// The number behind a word of what py-spy says.
fn number_behind(said: &str, word: &str) -> u64 {
    said.split(word).nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn take(tool: &Tool, spy: &Path, python: &Path, rounds: &str, hz: &str) -> Option<Taken> {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    let script = root().join("tests/victims/alternating.py");
    let mut command = match (tool.name, tool.spy) {
        ("bare", _) => Command::new("env"),
        (_, None) => {
            let mut pct = Command::new(binary());
            pct.args(["run", "--no-report", "--hz", hz, "--out"]).arg(&out).arg("--");
            pct
        }
        (_, Some(options)) => {
            let mut record = Command::new(spy);
            record
                .args(["record", "--format", "raw", "--rate", hz, "--output"])
                .arg(&out)
                .args(options)
                .arg("--");
            record
        }
    };
    let Output { status, stdout, stderr } =
        command.arg(python).arg(script).arg(rounds).output().expect("it runs");
    let said = String::from_utf8_lossy(&stderr);
    let program = String::from_utf8_lossy(&stdout);
    let times: Vec<f64> = program
        .lines()
        .filter_map(|line| {
            line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<Vec<f64>>>()
        })
        .find(|numbers| numbers.len() == 2)
        .unwrap_or_default();
    let (true, [cpu, wall]) = (status.success(), &times[..]) else {
        println!(
            "  {}, {}: {status}: {}",
            python.display(),
            tool.name,
            said.lines().last().unwrap_or_default()
        );
        return None;
    };
    let folded = match (tool.name, tool.spy) {
        ("bare", _) => String::new(),
        (_, None) => {
            let export =
                Command::new(binary()).args(["export", "--format", "folded", "-o", "-"]).arg(&out).output();
            String::from_utf8_lossy(&export.expect("an export").stdout).into_owned()
        }
        _ => std::fs::read_to_string(&out).unwrap_or_default(),
    };
    let (samples, impossible) = count(&folded);
    let progress = format!("{said}{program}");
    Some(Taken {
        cpu: *cpu,
        wall: *wall,
        samples,
        impossible,
        errors: number_behind(&progress, "Errors: "),
        late: progress.matches("behind in sampling").count() as u64,
    })
}

/// py-spy for this machine, as the first interpreter's pip fetches it.
fn spy(pythons: &[PathBuf]) -> Option<PathBuf> {
    let folder = pythons.iter().rev().find_map(|python| package("python", python, "py-spy"))?;
    Some(folder.join("bin/py-spy"))
}

fn main() {
    let rounds: usize = pct_kit::asked("PYTHON_ROUNDS", 5);
    let hz: u32 = pct_kit::asked("PYTHON_HZ", 997);
    let work: u32 = pct_kit::asked("PYTHON_WORK", 20_000);
    let pythons = pythons("python");
    let Some(spy) = spy(&pythons) else { return };
    println!(
        "{:<24} {:<21} {:>6} {:>6} {:>9} {:>10} {:>7} {:>5}",
        "python", "tool", "cpu", "wall", "samples", "impossible", "errors", "late"
    );
    for python in &pythons {
        let mut taken: Vec<Vec<Taken>> = TOOLS.iter().map(|_| Vec::new()).collect();
        for _ in 0..rounds {
            let round: Vec<Option<Taken>> = TOOLS
                .iter()
                .map(|tool| take(tool, &spy, python, &work.to_string(), &hz.to_string()))
                .collect();
            for (all, one) in taken.iter_mut().zip(round) {
                all.extend(one);
            }
        }
        let version =
            python.ancestors().nth(2).and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        for (tool, all) in TOOLS.iter().zip(&taken) {
            if all.len() < rounds || taken[0].len() < rounds {
                continue;
            }
            let over = |f: fn(&Taken) -> f64| {
                median(all.iter().zip(&taken[0]).map(|(t, bare)| f(t) / f(bare)).collect())
            };
            let sum = |f: fn(&Taken) -> u64| all.iter().map(f).sum::<u64>();
            println!(
                "{version:<24} {:<21} {:>6.3} {:>6.3} {:>9} {:>10} {:>7} {:>5}",
                tool.name,
                over(|t| t.cpu),
                over(|t| t.wall),
                sum(|t| t.samples),
                sum(|t| t.impossible),
                sum(|t| t.errors),
                sum(|t| t.late),
            );
        }
    }
}
