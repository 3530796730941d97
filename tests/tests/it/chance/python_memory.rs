//! Python's objects among the allocation samples: every CPython that is installed, on a program that knows its objects.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use pct_kit::harm::{harm, same_as_bare, unharmed};
use pct_kit::noise::estimated;
use pct_tests::pct::{Run, binary, run};
use pct_tests::pythons::pythons;
use pct_tests::root;
use serde_json::Value;

fn victim() -> String {
    root().join("tests/victims/objects.py").display().to_string()
}

fn recorded(python: &Path, options: &[&str], mode: &str) -> Run {
    run(options, &[python.to_str().expect("a path"), &victim(), mode])
}

fn bare(python: &Path, mode: &str) -> Output {
    Command::new(python).args([&victim(), mode]).output().expect("it starts")
}

fn report(r: &Run, options: &[&str]) -> Value {
    let mut report = Command::new(binary());
    report.args(["report", "--alloc", "--format", "json"]).args(options).arg(&r.dir);
    let report = report.output().expect("a report");
    serde_json::from_slice(&report.stdout).unwrap_or_else(|_| panic!("{report:?}"))
}

/// Live bytes of each function: estimate and the half width of its interval.
fn live(report: &Value) -> BTreeMap<String, (f64, f64)> {
    let rows = report["rows"].as_array().expect("rows");
    let of = |row: &Value| {
        let bytes = &row["live"]["bytes"];
        let [estimate, low, high] =
            ["estimate", "low", "high"].map(|what| bytes[what].as_f64().expect("a number"));
        (row["function"].as_str().expect("a name").to_owned(), (estimate, (high - low) / 2.0))
    };
    rows.iter().map(of).collect()
}

/// The 95 % interval is twice the standard deviation to each side. This many of its half widths are passed
/// once in a million.
const WIDTHS: f64 = 2.5;

#[test]
fn objects_are_counted_once_at_the_line_that_makes_them() {
    for python in pythons("objects_are_counted_once_at_the_line_that_makes_them") {
        let r = recorded(&python, &["--alloc=32K"], "sites");
        if r.output.status.signal() != Some(9) {
            harm(&format!("{}: {}", python.display(), r.stderr()));
        }
        let truth: BTreeMap<String, f64> =
            serde_json::from_str(&r.stdout()).expect("the program's own truth");
        let report = report(&r, &["--by", "live,function"]);
        let live = live(&report);
        for (name, bytes) in &truth {
            let (estimate, width) = live.get(name).copied().unwrap_or_default();
            println!("{} {name}: {bytes}, {estimate} +- {width}", python.display());
            estimated(*bytes, estimate, width)
                .unwrap_or_else(|why| panic!("{} {name}: {why}, {live:?}", python.display()));
        }
        let missed = report["memory"]["processes"][0]["lost"]["missed_frees"].as_u64();
        assert_eq!(missed, Some(0), "{}", python.display());
    }
}

#[test]
fn threads_children_and_interpreters_of_python_do_as_without_us() {
    for python in pythons("threads_children_and_interpreters_of_python_do_as_without_us") {
        let bare = bare(&python, "manners");
        for options in ["--alloc=16", "--alloc=4K"] {
            let r = recorded(&python, &[options], "manners");
            same_as_bare(&r.output, &bare);
            for process in report(&r, &[])["memory"]["processes"].as_array().expect("processes") {
                assert_eq!(process["lost"]["missed_frees"], 0, "{} {options}: {process}", python.display());
                assert!(
                    process["allocated"]["bytes"]["estimate"].as_f64() > Some(1e6),
                    "{}: {process}",
                    python.display()
                );
            }
        }
    }
}

#[test]
fn an_allocator_that_python_replaces_is_told_and_malloc_is_seen() {
    for python in pythons("an_allocator_that_python_replaces_is_told_and_malloc_is_seen") {
        for (name, told) in [("debug", true), ("malloc", false), ("", false)] {
            let mut command = Command::new(binary());
            command.args(["run", "--alloc=32K", "--no-report", "--"]).arg(&python);
            command.args(["-c", "x = [(i, str(i)) for i in range(50000)]"]);
            let folder = tempfile::tempdir().expect("a folder");
            let output =
                command.current_dir(folder.path()).env("PYTHONMALLOC", name).output().expect("it starts");
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            unharmed(&output);
            assert_eq!(
                text.contains("Python replaced its allocator"),
                told,
                "{} {name}: {text}",
                python.display()
            );
        }
    }
}
