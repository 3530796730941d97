//! What sampling allocations costs and what it sees, beside peers, as tables.
//!
//!     cargo bench -p pct-tests --bench memory                             # all tables
//!     cargo bench -p pct-tests --bench memory -- pairs sample programs coverage
//!     MEMORY_ROUNDS=9 MEMORY_SEEDS=200 cargo bench ...
//!
//! - `pairs`: nanoseconds of a malloc and free over the same allocator bare, runs interleaved. The median of the
//!   rounds; in brackets the least run over the least bare run. `empty` has libpct.so without `--alloc`.
//! - `sample`: nanoseconds of a request that is a sample over one bare, below 20 calls. `cold` is the first after a
//!   pause, `hot` the others.
//! - `programs`: CPU time over bare, of the program and what the tool starts beside it; median of the rounds.
//! - `coverage`: of 900 sites, how many have their truth in the 95 % interval, by the size of the site in intervals.
//!
//! A peer that is not installed is named. memray is looked for in `MEMRAY`, then on PATH.

use pct_kit::{Cpu, median};
use pct_tests::victims::{values, victim, victim_with};
use pct_tests::{pct, which};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A way to run a program.
struct Tool {
    name: &'static str,
    /// What it is compared with.
    base: &'static str,
    /// The command that runs `program` (with its arguments to follow), writing to a folder; `None`: it is not there.
    command: fn(program: &Path, folder: &Path) -> Option<Command>,
}

const TOOLS: &[Tool] = &[
    Tool { name: "bare", base: "bare", command: |program, _| Some(Command::new(program)) },
    Tool { name: "empty", base: "bare", command: |program, folder| preloaded(program, folder, &[]) },
    Tool {
        name: "pct --alloc",
        base: "bare",
        command: |program, folder| preloaded(program, folder, &["--alloc"]),
    },
    Tool { name: "jemalloc", base: "jemalloc", command: |program, _| with_library(program, JEMALLOC, &[]) },
    Tool {
        name: "jemalloc prof",
        base: "jemalloc",
        command: |program, _| {
            with_library(program, JEMALLOC, &[("MALLOC_CONF", "prof:true,lg_prof_sample:19")])
        },
    },
    Tool { name: "tcmalloc", base: "tcmalloc", command: |program, _| with_library(program, TCMALLOC, &[]) },
    Tool {
        name: "tcmalloc sampling",
        base: "tcmalloc",
        command: |program, _| with_library(program, TCMALLOC, &[("TCMALLOC_SAMPLE_PARAMETER", "524288")]),
    },
    Tool { name: "heaptrack", base: "bare", command: heaptrack },
];

const JEMALLOC: &str = "libjemalloc.so.2";
const TCMALLOC: &str = "libtcmalloc.so.4";

fn with_library(program: &Path, library: &str, environment: &[(&str, &str)]) -> Option<Command> {
    let library = Path::new("/usr/lib/x86_64-linux-gnu").join(library);
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", &library).envs(environment.iter().copied());
    library.exists().then_some(command)
}

fn heaptrack(program: &Path, folder: &Path) -> Option<Command> {
    let mut command = Command::new(which("heaptrack")?);
    command.arg("-o").arg(folder.join("heaptrack")).arg(program);
    Some(command)
}

/// The program with pct's library in front of it, as `pct run OPTIONS` has it: so that nothing but the program's own
/// CPU time is counted.
fn preloaded(program: &Path, folder: &Path, options: &[&str]) -> Option<Command> {
    let mut ask = Command::new(pct::binary());
    ask.args(["run", "-q", "--no-report", "--out"]).arg(folder.join("asked")).args(options);
    let said = ask.args(["--", "sh", "-c", "echo \"$LD_PRELOAD\""]).output().ok()?;
    let library = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    let mut command = Command::new(program);
    let alloc = if options.is_empty() { "" } else { "alloc=512K," };
    command.env("LD_PRELOAD", library).env("PCT", format!("{alloc}out={}", folder.display()));
    Some(command)
}

/// Runs a command; what it printed, and the CPU seconds of it and its children.
fn take(command: &mut Command, input: &str) -> Option<(String, f64)> {
    let before = Cpu::children().total();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    // A program that does not read its input may end before it has it all.
    let _ = child.stdin.take().map(|mut to| to.write_all(input.as_bytes()));
    let output = child.wait_with_output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then(|| (text, Cpu::children().total() - before))
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// A value of each tool that is there, in each round; the tools of a round one after another.
fn rounds(
    tools: &[&'static str],
    n: usize,
    mut value: impl FnMut(&Tool) -> Option<f64>,
) -> Vec<(&'static str, Vec<f64>)> {
    let mut taken: Vec<(&'static Tool, Vec<f64>)> =
        TOOLS.iter().filter(|tool| tools.contains(&tool.name)).map(|tool| (tool, Vec::new())).collect();
    for _ in 0..n {
        for (tool, values) in &mut taken {
            values.extend(value(tool));
        }
    }
    for (tool, values) in &taken {
        if values.len() < n {
            println!("{}: {} of {n} runs: it is not installed, or fails", tool.name, values.len());
        }
    }
    taken.retain(|(_, values)| values.len() == n);
    taken.into_iter().map(|(tool, values)| (tool.name, values)).collect()
}

fn base_of<'t>(taken: &'t [(&'static str, Vec<f64>)], tool: &str) -> Option<&'t Vec<f64>> {
    let base = TOOLS.iter().find(|other| other.name == tool)?.base;
    taken.iter().find(|(name, _)| *name == base).map(|(_, values)| values)
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn pairs(n: usize) {
    let program = victim("pairs.c");
    let tools =
        ["bare", "empty", "pct --alloc", "jemalloc", "jemalloc prof", "tcmalloc", "tcmalloc sampling"];
    println!("ns a pair over the same allocator bare: median (least) of {n} interleaved rounds");
    for threads in ["1", "2"] {
        for size in ["16", "64", "1000"] {
            let taken = rounds(&tools, n, |tool| {
                let folder = scratch();
                let mut command = (tool.command)(&program, folder.path())?;
                let (said, _) = take(command.args([size, threads, "20000"]), "")?;
                values(&said, "truth").first().map(|(_, ns)| *ns)
            });
            let Some((_, bare)) = taken.first() else { return };
            print!("{size:>5} B {threads} thread(s), bare {:.2}:", median(bare.clone()));
            for (name, values) in
                taken.iter().filter(|(name, _)| !["bare", "jemalloc", "tcmalloc"].contains(name))
            {
                let Some(base) = base_of(&taken, name) else { continue };
                let over = median(values.iter().zip(base).map(|(ns, base)| ns - base).collect());
                print!("  {name} {over:+.2} ({:+.2})", least(values) - least(base));
            }
            println!();
        }
    }
}

fn sample(n: usize) {
    let program = victim("pairs.c");
    println!("ns of a request that is a sample, below 20 calls, over bare: median of {n} interleaved rounds");
    let mut over: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for _ in 0..n {
        let folder = scratch();
        let ask = |command: Option<Command>| -> Option<BTreeMap<String, f64>> {
            let (said, _) = take(command?.args(["paced", "20"]), "")?;
            Some(values(&said, "truth").into_iter().collect())
        };
        let bare = ask(Some(Command::new(&program)));
        let pct = ask(preloaded(&program, folder.path(), &["--alloc"]).map(|mut command| {
            command.env("PCT", format!("alloc=512,out={}", folder.path().display()));
            command
        }));
        let (Some(bare), Some(pct)) = (bare, pct) else { continue };
        for (what, ns) in pct {
            over.entry(what.clone()).or_default().push(ns - bare.get(&what).copied().unwrap_or(f64::NAN));
        }
    }
    for (what, all) in over {
        println!("  {what}: {:.0}", median(all));
    }
}

/// A program, its arguments and its input.
fn programs_known() -> Vec<(&'static str, PathBuf, Vec<String>, String)> {
    let mut all = vec![
        (
            "pairs of 2.5 kB",
            victim("pairs.c"),
            vec!["2500".into(), "1".into(), "10000".into()],
            String::new(),
        ),
        ("std::map of strings", victim("words.cpp"), vec!["300000".into()], String::new()),
    ];
    let sql = "create table t(a integer primary key, b text);\nwith recursive n(i) as (select 1 union all select i+1 from n \
               where i<400000) insert into t select i, hex(i*7919)||'padding' from n;\ncreate index i on t(b);\n\
               select count(*), max(b) from t;\nselect b from t order by substr(b,3) limit 1;\n";
    let json = "import json\nrows=[{'id':i,'name':'n%d'%i,'tags':[str(j) for j in range(i%7)]} for i in range(60000)]\n\
                for _ in range(4):\n    rows=json.loads(json.dumps(rows))\nprint(len(rows))\n";
    for (name, tool, arguments, input) in
        [("sqlite3", "sqlite3", [":memory:"], sql), ("python3 json", "python3", ["-"], json)]
    {
        match which(tool) {
            Some(program) => {
                all.push((name, program, arguments.map(str::to_owned).to_vec(), input.to_owned()))
            }
            None => println!("{tool} is not installed: left out"),
        }
    }
    all
}

fn programs(n: usize) {
    println!("CPU time over bare: median (least over least) of {n} interleaved rounds");
    let names: Vec<&'static str> = TOOLS.iter().map(|tool| tool.name).collect();
    for (name, program, arguments, input) in programs_known() {
        let taken = rounds(&names, n, |tool| {
            let folder = scratch();
            let mut command = (tool.command)(&program, folder.path())?;
            Some(take(command.args(&arguments), &input)?.1)
        });
        let Some((_, bare)) = taken.first() else { return };
        print!("{name}, bare {:.3} s:", median(bare.clone()));
        for (tool, values) in &taken[1..] {
            let over = median(values.iter().zip(bare).map(|(tool, bare)| tool / bare).collect());
            print!("  {tool} {over:.3} ({:.3})", least(values) / least(bare));
        }
        if name.starts_with("python") {
            memray(&program, &input, median(bare.clone()), n);
        }
        println!();
    }
    redis(n);
}

fn memray(python: &Path, script: &str, bare: f64, n: usize) {
    let Some(memray) = std::env::var_os("MEMRAY").map(PathBuf::from).or_else(|| which("memray")) else {
        return print!("  memray is not installed");
    };
    let folder = scratch();
    let file = folder.path().join("script.py");
    std::fs::write(&file, script).expect("written");
    for (name, option) in [("memray", "--quiet"), ("memray + pymalloc", "--trace-python-allocators")] {
        let run = |at: usize| {
            let mut command = Command::new(&memray);
            command.args(["run", option, "-o"]).arg(folder.path().join(format!("{option}{at}"))).arg(&file);
            take(&mut command, "").map(|(_, cpu)| cpu)
        };
        let all: Vec<f64> = (0..n).filter_map(run).collect();
        if all.is_empty() {
            print!("  {name} fails");
        } else {
            print!("  {name} {:.2}", median(all) / bare);
        }
    }
    let _ = python;
}

/// The server's CPU time for the same load. Its allocator is a shared jemalloc.
fn redis(n: usize) {
    let (Some(server), Some(load)) = (which("redis-server"), which("redis-benchmark")) else {
        return println!("redis is not installed: left out");
    };
    let taken = rounds(&["bare", "empty", "pct --alloc"], n, |tool| {
        let folder = scratch();
        let socket = folder.path().join("socket");
        let mut command = (tool.command)(&server, folder.path())?;
        command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        while !socket.exists() && child.try_wait().ok()?.is_none() {
            std::thread::yield_now();
        }
        let mut ask = Command::new(&load);
        ask.arg("-s").arg(&socket).args([
            "-q",
            "-n",
            "150000",
            "-r",
            "100000",
            "-d",
            "200",
            "-P",
            "8",
            "-t",
            "set,lpush,get",
        ]);
        let done = ask.stdout(Stdio::null()).stderr(Stdio::null()).status();
        // The server's own time, while it is there: what other children used does not matter.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).ok();
        child.kill().ok()?;
        child.wait().ok()?;
        done.ok()?;
        let fields: Vec<u64> =
            stat?.rsplit(')').next()?.split_whitespace().map(|word| word.parse().unwrap_or(0)).collect();
        Some((fields.get(11)? + fields.get(12)?) as f64 / 100.0)
    });
    let Some((_, bare)) = taken.first() else { return };
    print!("redis, bare {:.2} s (in ticks of 10 ms):", median(bare.clone()));
    for (tool, values) in &taken[1..] {
        let over = median(values.iter().zip(bare).map(|(tool, bare)| tool / bare).collect());
        print!("  {tool} {over:.3} ({:.3})", least(values) / least(bare));
    }
    println!();
}

/// Limits of the classes of sites by their size in intervals.
const CLASSES: [f64; 8] = [0.0, 0.5, 1.0, 1.9, 3.0, 5.0, 10.0, 100.0];

fn coverage(seeds: usize) {
    let source = "../../runtime/preload/tests/libpct/alloc.c";
    let program = match victim_with(source, "cc -O1 -g -pthread -fno-ipa-icf -ldl", "alloc-sites") {
        Ok(program) => program,
        Err(why) => return println!("coverage: {why}"),
    };
    const INTERVAL: f64 = 32.0 * 1024.0;
    // [measure][class]: sites, covered.
    let mut counts = vec![[(0_u64, 0_u64); CLASSES.len()]; 3];
    for seed in 1..=seeds {
        let folder = scratch();
        let Some(mut command) = preloaded(&program, folder.path(), &["--alloc"]) else { return };
        command.env("PCT", format!("alloc=32K,alloc-seed={seed},out={}", folder.path().display()));
        command.env("TRUTH", folder.path().join("truth"));
        if take(command.args(["sites", "1"]), "").is_none() {
            return println!("coverage: the program fails");
        }
        let truth = std::fs::read(folder.path().join("truth")).expect("the truth");
        let report = Command::new(pct::binary())
            .args(["report", "--alloc", "--by", "bytes,function", "--format", "json"])
            .arg(folder.path())
            .output()
            .expect("runs");
        let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
        let rows: BTreeMap<&str, &Value> = report["rows"]
            .as_array()
            .expect("rows")
            .iter()
            .filter_map(|row| Some((row["function"].as_str()?, row)))
            .collect();
        let limits = |row: Option<&&Value>, what: [&str; 2]| -> (f64, f64) {
            let value = |end: &str| row.and_then(|row| row[what[0]][what[1]][end].as_f64());
            // A site without a sample has the interval of nothing.
            // (The sampler may have raised the interval, for the rate of samples.)
            let limit = &report["memory"]["processes"][0]["detection_limit"];
            let nothing = limit.as_f64().unwrap_or(f64::NAN);
            match (value("low"), value("high")) {
                (Some(low), Some(high)) if high > 0.0 => (low, high),
                _ => (0.0, if what[1] == "bytes" { nothing } else { f64::INFINITY }),
            }
        };
        for (at, site) in truth.as_chunks::<32>().0.iter().enumerate() {
            let word =
                |n: usize| u64::from_le_bytes(site[n * 8..n * 8 + 8].try_into().unwrap_or_default()) as f64;
            let row = rows.get(format!("site_{}", 100 + at).as_str());
            for (measure, (truth, what)) in [
                (word(1), ["allocated", "bytes"]),
                (word(2), ["allocated", "blocks"]),
                (word(3), ["live", "bytes"]),
            ]
            .into_iter()
            .enumerate()
            {
                let octets = if measure == 2 { word(3) } else { word(1) };
                if octets == 0.0 {
                    continue;
                }
                let class = CLASSES.iter().rposition(|&limit| octets / INTERVAL >= limit).unwrap_or(0);
                let (low, high) = limits(row, what);
                let (sites, covered) = &mut counts[measure][class];
                *sites += 1;
                // (Estimates are printed to a thousandth.)
                *covered += u64::from(low <= truth + 0.01 && truth <= high + 0.01);
            }
        }
    }
    println!("coverage of 95 % intervals, {seeds} seeds, N = 32 KiB; by the size of the site in N:");
    for (measure, counts) in ["bytes", "blocks", "live"].into_iter().zip(&counts) {
        print!("  {measure:>6}:");
        for (class, (sites, covered)) in counts.iter().enumerate().filter(|(_, (sites, _))| *sites > 0) {
            print!("  {:.1} N {:.1}% of {sites}", CLASSES[class], *covered as f64 / *sites as f64 * 100.0);
        }
        let all = counts.iter().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
        println!("  all {:.2}%", all.1 as f64 / all.0 as f64 * 100.0);
    }
}

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let wanted = |name: &str| asked.is_empty() || asked.iter().any(|word| word == name);
    let n: usize = pct_kit::asked("MEMORY_ROUNDS", 5);
    println!("load {}", std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim());
    if wanted("pairs") {
        pairs(n);
    }
    if wanted("sample") {
        sample(n);
    }
    if wanted("programs") {
        programs(n);
    }
    if wanted("coverage") {
        coverage(pct_kit::asked("MEMORY_SEEDS", 20));
    }
    println!("load {}", std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim());
}
