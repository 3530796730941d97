//! Python functions in native stacks: every CPython that is installed, on programs that know which callers are
//! possible.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use pct_format::record::{InterpreterState, LostCode};
use pct_format::{File, Index};
use pct_kit::noise::{Rare, Shares, draw_on};
use pct_tests::pct::{Run, binary, run};
use pct_tests::python::{Counts, StackFrame, files, functions, stacks};
use pct_tests::pythons::{package, pythons};
use pct_tests::root;

#[test]
fn callers_lines_and_ends_of_stacks_are_those_of_the_program() {
    for python in pythons("callers_lines_and_ends_of_stacks_are_those_of_the_program") {
        let script = root().join("tests/victims/woven.py");
        let script = script.to_str().expect("UTF-8");
        // Longer for a search for what is rare: 60 seconds are half a million samples.
        let seconds: f64 = pct_kit::asked("PCT_TEST_PYTHON_SECONDS", 1.5);
        let options = ["--hz", "10000", "--limit", "512M"];
        draw_on(|times| {
            let seconds = (seconds * f64::from(times)).to_string();
            let r = run(&options, &[python.to_str().expect("UTF-8"), script, &seconds]);
            let counts = Counts::of(&r.dir, script, &r.unharmed());
            let interpreters: Vec<u64> = files(&r.dir)
                .iter()
                .flat_map(|bytes| {
                    let file = File::parse(bytes).expect("a file");
                    Index::new(&file).interpreters.iter().map(|found| found.state).collect::<Vec<_>>()
                })
                .collect();
            assert_eq!(interpreters, [InterpreterState::Read as u64], "{}", python.display());
            println!(
                "{}: {} samples, {} of Python, {:?}",
                python.display(),
                counts.samples,
                counts.of_python,
                counts.missing
            );
            // (`between_any_two_instructions_a_stack_is_possible_or_torn` in pct-languages meets the rare places on
            // purpose.)
            assert!(
                counts.impossible.is_empty(),
                "{}: {} of {} samples, {:#?}",
                python.display(),
                counts.impossible.len(),
                counts.samples,
                &counts.impossible[..counts.impossible.len().min(20)]
            );
            assert_eq!(counts.open_ended, 0, "{}", python.display());
            for leaf in ["leaf", "by_zlib", "by_gc"] {
                assert!(counts.leaves.get(leaf).is_some_and(|n| *n > 0), "{}: {counts:?}", python.display());
            }
            let of = counts.samples as f64;
            let native = of - counts.of_python as f64;
            let missing: u64 = counts.missing.values().sum();
            // The interpreter's start is native. Half built chains: one in some 20,000 on the worst version.
            (
                Rare { seen: native, of, usual: 0.05, each_run: 0.0 },
                Rare { seen: missing as f64, of, usual: 1e-4, each_run: 0.0 },
            )
        });
    }
}

/// Runs a program's text; gives the stacks of each file.
fn run_text(python: &Path, options: &[&str], text: &str) -> (Run, Vec<Vec<Vec<StackFrame>>>) {
    let r = run(options, &[python.to_str().expect("UTF-8"), "-c", text]);
    r.unharmed();
    let found = files(&r.dir).iter().map(|bytes| stacks(bytes)).collect();
    (r, found)
}

/// Whether the functions of the stack, innermost first, begin with these names.
fn begins(stack: &[StackFrame], names: &[&str]) -> bool {
    let found = functions(stack);
    found.len() >= names.len()
        && found.iter().zip(names).all(|((function, _), name)| function.simple() == *name)
}

#[test]
fn forked_children_write_their_functions_into_their_own_files() {
    let text = "
import os, multiprocessing
def spin():
    return sum(i * i for i in range(300000))
def child(_=None):
    return spin()
spin()
if os.fork() == 0:
    child(); child()
    os._exit(0)
os.wait()
with multiprocessing.get_context('fork').Pool(2) as pool:
    pool.map(child, range(8))
";
    for python in pythons("forked_children_write_their_functions_into_their_own_files") {
        let (_run, files) = run_text(&python, &["--hz", "2000"], text);
        let with_child = files.iter().filter(|stacks| {
            stacks.iter().any(|stack| {
                let found = functions(stack);
                found.iter().any(|(function, _)| function.simple() == "child")
                    && found.last().is_some_and(|(function, _)| function.simple() == "<module>")
            })
        });
        // The child, and at least one of the pool's two (which of them gets how much is the kernel's).
        assert!(with_child.count() >= 2, "{}: {} files", python.display(), files.len());
        for stack in files.iter().flatten() {
            assert!(
                !stack.iter().any(|frame| matches!(frame, StackFrame::Missing(LostCode::Several))),
                "{stack:?}"
            );
        }
    }
}

#[test]
fn deep_recursion_is_cut_and_says_so() {
    let text = "
import sys
sys.setrecursionlimit(10000)
def bottom():
    return sum(range(2000000))
def down(n):
    return down(n - 1) if n else bottom()
for _ in range(5):
    down(3000)
";
    for python in pythons("deep_recursion_is_cut_and_says_so") {
        let (_run, files) = run_text(&python, &["--depth", "100"], text);
        let deep = files.iter().flatten().filter(|stack| begins(stack, &["bottom", "down", "down"]));
        let mut count = 0;
        for stack in deep {
            count += 1;
            assert!(stack.len() <= 102, "{}: {} frames", python.display(), stack.len());
            let cut = matches!(stack.last(), Some(StackFrame::Cut | StackFrame::Missing(LostCode::Cut)));
            assert!(cut, "{}: {:?}", python.display(), stack.last());
        }
        assert!(count > 10, "{}: {count}", python.display());
    }
}

#[test]
fn a_thread_that_runs_a_subinterpreter_is_not_shown_as_the_main_one() {
    let text = "
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
code = '''
import time, zlib
def spin(end):
    while time.process_time() < end:
        sum(i * i for i in range(1000))
def pack(end):
    while time.process_time() < end:
        zlib.compress(bytes(range(256)) * 400)
now = time.process_time()
spin(now + 0.2 * TIMES); pack(now + 0.4 * TIMES)
'''
def main():
    other = interpreters.create()
    (getattr(interpreters, 'exec', None) or interpreters.run_string)(other, code)
main()
";
    for python in pythons("a_thread_that_runs_a_subinterpreter_is_not_shown_as_the_main_one") {
        draw_on(|times| {
            let (r, files) = run_text(&python, &[], &text.replace("TIMES", &times.to_string()));
            let mut seen = BTreeMap::<String, u64>::new();
            for stack in files.iter().flatten() {
                let name = match (
                    functions(stack).first(),
                    stack.iter().find(|f| matches!(f, StackFrame::Missing(_))),
                ) {
                    (Some((function, _)), _) => function.simple().to_owned(),
                    (None, Some(missing)) => format!("{missing:?}"),
                    (None, None) => "none".to_owned(),
                };
                *seen.entry(name).or_default() += 1;
            }
            println!("{}: {seen:?} {}", python.display(), r.stderr().lines().next().unwrap_or_default());
            let count = |name: &str| seen.get(name).copied().unwrap_or(0);
            assert!(count("spin") + count("<genexpr>") > 20, "{}: {seen:?}", python.display());
            let packed = count("pack") + count("Missing(Several)");
            assert!(packed > 20, "{}: {seen:?}", python.display());
            // `main` runs nothing itself but the making of the interpreter.
            Rare {
                seen: count("main") as f64,
                of: (count("main") + packed) as f64,
                usual: 0.1,
                each_run: 0.0,
            }
        });
    }
}

#[test]
fn the_stack_of_a_greenlet_ends_at_its_own_root() {
    let text = "
import sys
sys.path.insert(0, FOLDER)
import greenlet
def spin():
    return sum([i * i for i in range(20000)])
def work():
    for _ in range(150 * TIMES):
        spin()
        hub.switch()
def schedule(all):
    while all:
        for one in list(all):
            one.switch()
            if one.dead:
                all.remove(one)
hub = greenlet.getcurrent()
schedule([greenlet.greenlet(work) for _ in range(4)])
";
    let test = "the_stack_of_a_greenlet_ends_at_its_own_root";
    for python in pythons(test) {
        let Some(folder) = package(test, &python, "greenlet") else { continue };
        let text = text.replace("FOLDER", &format!("{folder:?}"));
        draw_on(|times| {
            let text = text.replace("TIMES", &times.to_string());
            let (_run, files) = run_text(&python, &["--hz", "2000"], &text);
            let (mut whole, mut torn) = (0, 0);
            for stack in files.iter().flatten() {
                let names: Vec<&str> = functions(stack).iter().map(|(f, _)| f.simple()).collect();
                torn +=
                    u64::from(stack.iter().any(|frame| matches!(frame, StackFrame::Missing(LostCode::Torn))));
                if names.contains(&"spin") {
                    let names = names.strip_prefix(&["<listcomp>"]).unwrap_or(&names);
                    assert_eq!(names, ["spin", "work"], "{}", python.display());
                    whole += 1;
                }
            }
            println!("{}: {whole} of greenlets, {torn} torn", python.display());
            // While greenlets are switched frames are missing, some 1 % of the time.
            Rare { seen: torn as f64, of: (whole + torn) as f64, usual: 0.02, each_run: 0.0 }
        });
    }
}

#[test]
fn where_the_time_of_a_program_went_is_what_it_says_itself() {
    let text = "
import gc, json, time, zlib
gc.disable()
DATA = bytes(range(256)) * 4000
KNOTS = [[] for _ in range(100000)]
for knot in KNOTS:
    knot.append(knot)
def arithmetic():
    x = 1
    for i in range(20000):
        x = (x * x + i) % 1000003
    return sorted(range(20000), key=lambda n: -n), 'abc' * x
def packing():
    zlib.compress(DATA)
def collecting():
    gc.collect()
def spend(what, seconds):
    start = time.process_time()
    while time.process_time() < start + seconds:
        what()
    return time.process_time() - start
before = time.process_time()
print(json.dumps([before + spend(arithmetic, 0.9 * TIMES), spend(packing, 0.6 * TIMES), spend(collecting, 0.3 * TIMES)]))
";
    for python in pythons("where_the_time_of_a_program_went_is_what_it_says_itself") {
        draw_on(|times| {
            let (r, _) = run_text(&python, &["--hz", "2000"], &text.replace("TIMES", &times.to_string()));
            let truth: [f64; 3] = serde_json::from_str(&r.stdout()).expect("the program's own truth");
            let report = Command::new(binary()).args(["report", "--format", "json"]).arg(&r.dir).output();
            let report: serde_json::Value =
                serde_json::from_slice(&report.expect("a report").stdout).expect("JSON");
            let row = &report["account"]["languages"][0];
            let spent =
                |what: &str| row[what]["cpu_seconds"].as_f64().unwrap_or_else(|| panic!("{what}: {row}"));
            let (inside, native, garbage) = (spent("inside"), spent("native"), spent("collecting_garbage"));
            println!("{}: {truth:?}, {inside} {native} {garbage}", python.display());
            let samples = report["account"]["languages"][0]["whole_samples"].as_f64().expect("a count");
            // Making the knots and starting up is Python's for the most part. What of it is not, and the end: a few ms
            // of 1.8 s.
            let beside = 0.03;
            if garbage == 0.0 {
                // A stripped interpreter's collector has no name: what it took is in Python, and the report says so.
                assert!(
                    String::from_utf8_lossy(&report_text(&r)).contains("is stripped"),
                    "{}",
                    python.display()
                );
                let truth = vec![truth[0] + truth[2], truth[1]];
                Shares { truth, seen: vec![inside, native], samples, beside }
            } else {
                Shares { truth: truth.to_vec(), seen: vec![inside, native, garbage], samples, beside }
            }
        });
    }
}

/// What `pct report` says of a run.
fn report_text(run: &Run) -> Vec<u8> {
    Command::new(binary()).arg("report").arg(&run.dir).output().expect("a report").stdout
}

#[test]
fn switched_off_it_leaves_stacks_native_and_says_so() {
    for python in pythons("switched_off_it_leaves_stacks_native_and_says_so") {
        let r = run(&["--python", "off"], &[python.to_str().expect("UTF-8"), "-c", "sum(range(5000000))"]);
        r.unharmed();
        for bytes in files(&r.dir) {
            assert!(
                stacks(&bytes)
                    .iter()
                    .flatten()
                    .all(|frame| matches!(frame, StackFrame::Native | StackFrame::Cut))
            );
            let file = File::parse(&bytes).expect("a file");
            let states: Vec<u64> = Index::new(&file).interpreters.iter().map(|found| found.state).collect();
            assert_eq!(states, [InterpreterState::SwitchedOff as u64]);
        }
    }
}
