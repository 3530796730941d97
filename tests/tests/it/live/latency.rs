//! Latency and the number of threads that ran at once, of a program with phases of known parallelism.

use std::collections::BTreeMap;
use std::process::Command;

use pct_tests::pct::{binary, run};
use pct_tests::victims::victim;

/// What is known of a function: seconds.
#[derive(Debug)]
struct Phase {
    /// From begin to end of its phases, by the victim's clock.
    wall: f64,
    /// CPU time of all threads, by their own clocks.
    cpu: f64,
    /// As the report has it.
    latency: f64,
    /// The report's CPU time by the number of threads that ran.
    by_threads: BTreeMap<u64, f64>,
}

impl Phase {
    /// Share of the CPU time while so many threads ran.
    fn share(&self, threads: u64) -> f64 {
        self.by_threads.get(&threads).unwrap_or(&0.0) / self.by_threads.values().sum::<f64>()
    }

    /// How far sums of samples may be off: five standard deviations at the slowest clock.
    fn noise(&self) -> f64 {
        5.0 * (self.cpu / 250.0).sqrt()
    }
}

/// Phases of the victim in a mode, by function.
fn phases(mode: &str) -> BTreeMap<String, Phase> {
    let program = victim("parallel.c");
    let r = run(&["--no-report"], &[program.to_str().expect("a path"), mode]);
    r.unharmed();
    let report = |options: &[&str]| {
        let args = ["report", "--latency", "--parallelism"];
        let report = Command::new(binary()).args(args).args(options).arg(&r.dir).output().expect("it starts");
        assert!(report.status.success(), "{report:?}");
        String::from_utf8_lossy(&report.stdout).into_owned()
    };
    let value: serde_json::Value = serde_json::from_str(&report(&["--format", "json"])).expect("JSON");
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    let phase = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let ["phase", name, wall, cpu] = words[..] else { panic!("{line}") };
        let row = value["rows"].as_array().expect("rows").iter().find(|row| row["function"] == name);
        let row = row.unwrap_or_else(|| panic!("{name}: {value}"));
        let class = |class: &serde_json::Value| {
            (class["threads"].as_u64().expect("a number"), number(&class["cpu_seconds"]))
        };
        let by_threads = row["by_threads"].as_array().expect("classes").iter().map(class).collect();
        let (wall, cpu) = (wall.parse().expect("seconds"), cpu.parse().expect("seconds"));
        (name.to_owned(), Phase { wall, cpu, latency: number(&row["latency_seconds"]), by_threads })
    };
    let phases: BTreeMap<String, Phase> = r.stdout().lines().map(phase).collect();
    println!("{phases:#?}");
    assert!(phases.len() == 2 && report(&[]).contains("together"));
    // A line of CSV for each class of each function.
    let csv = report(&["--format", "csv"]);
    assert!(csv.starts_with("latency_seconds,threads,cpu_seconds,function\n"), "{csv}");
    for (name, phase) in &phases {
        let lines = csv.lines().filter(|line| line.ends_with(&format!(",{name}"))).count();
        assert_eq!(lines, phase.by_threads.len(), "{csv}");
    }
    phases
}

#[test]
fn what_runs_alone_costs_all_of_its_time() {
    let phases = phases("spread");
    let (alone, together) = (&phases["alone"], &phases["together"]);
    assert!(alone.share(1) > 0.95, "{alone:?}");
    assert!((alone.latency - alone.cpu).abs() <= alone.noise(), "{alone:?}");
    // Two threads together cost at least half of their time. How much more depends on the processors that they got.
    assert!(together.latency >= together.cpu / 2.0 - together.noise(), "{together:?}");
    assert!(together.latency <= together.wall.min(together.cpu) + together.noise(), "{together:?}");
    assert!(together.by_threads.keys().all(|threads| *threads <= 2), "{together:?}");
}

/// Two threads that share a processor never run at once.
#[test]
fn on_one_processor_nothing_runs_at_once() {
    for (name, phase) in phases("one") {
        assert!(phase.share(1) > 0.8, "{name}: {phase:?}");
        assert!((phase.latency - phase.cpu).abs() <= phase.noise(), "{name}: {phase:?}");
    }
}
