//! Python functions in the stacks of every way of sampling, on the program that knows which callers are
//! possible: by the wall clock, attached by each method, in `pct top`.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pct_format::record::LostCode;
use pct_kit::harm::ended_with;
use pct_kit::noise::{Rare, draw_on};
use pct_kit::started::Killed;
use pct_kit::wait::wait_until;
use pct_tests::pct::{binary, library, run};
use pct_tests::python::{Counts, StackFrame, files, stacks};
use pct_tests::pythons::pythons;
use pct_tests::root;

/// One half built chain in so many samples is more than the worst version has (one in some 20,000).
const TORN: f64 = 10_000.0;
/// By the wall clock more are missing: of a thread that waits and is not stopped, registers are not known, so a native
/// stack may lack a frame, and 3.8 to 3.10 are matched by counting.
const TORN_WAITING: f64 = 100.0;

/// That the stacks are possible, and some of them are of Python. How many lack functions that are new, and others.
fn are_right(counts: &Counts, torn: f64, what: &str) -> (Rare, Rare) {
    println!("{what}: {} samples, {} of Python, {:?}", counts.samples, counts.of_python, counts.missing);
    assert!(
        counts.impossible.is_empty(),
        "{what}: {} of {} samples, {:#?}",
        counts.impossible.len(),
        counts.samples,
        &counts.impossible[..counts.impossible.len().min(20)]
    );
    assert_eq!(counts.open_ended, 0, "{what}");
    assert!(counts.of_python > 0, "{what}: {counts:?}");
    // Right after an attach everything is new at once; three threads write, one at a time, and nobody waits.
    let new = counts.missing.get(LostCode::NotWritten.name()).copied().unwrap_or(0);
    let missing = counts.missing.values().sum::<u64>() - new;
    let of = counts.samples as f64;
    (
        Rare { seen: new as f64, of, usual: 0.05, each_run: 10.0 },
        Rare { seen: missing as f64, of, usual: 1.0 / torn, each_run: 3.0 },
    )
}

fn script() -> String {
    root().join("tests/victims/woven.py").to_str().expect("UTF-8").to_owned()
}

/// The program, which has begun its work.
struct Woven(Killed);

impl Woven {
    fn start(python: &Path, seconds: &str, preloaded: Option<&Path>) -> Woven {
        let mut command = Command::new(python);
        command.arg(script()).arg(seconds).stdout(Stdio::piped());
        if let Some(library) = preloaded {
            command.env("LD_PRELOAD", library);
        }
        let woven = Woven(Killed(command.spawn().expect("python")));
        let status = format!("/proc/{}/status", woven.0.id());
        // It works in three threads.
        wait_until("three threads", || {
            std::fs::read_to_string(&status).expect("it lives").contains("Threads:\t3\n")
        });
        woven
    }

    /// What it says at its end.
    fn end(mut self) -> String {
        let mut said = String::new();
        self.0.stdout.take().expect("its output").read_to_string(&mut said).expect("text");
        ended_with(self.0.wait().expect("its end"), 0, &said);
        said
    }
}

#[test]
fn by_the_wall_clock_python_is_seen_where_it_runs_and_where_it_waits() {
    for python in pythons("by_the_wall_clock_python_is_seen_where_it_runs_and_where_it_waits") {
        let python = python.to_str().expect("UTF-8");
        draw_on(|times| {
            let seconds = (1.5 * f64::from(times)).to_string();
            let r = run(&["--clock", "wall", "--hz", "400"], &[python, &script(), &seconds]);
            let said = r.unharmed();
            are_right(&Counts::of(&r.dir, &script(), &said), TORN_WAITING, python)
        });
    }
}

#[test]
fn threads_that_wait_are_seen_at_the_line_that_waits() {
    let text = "
import threading, time, sys, select, os
def naps():
    time.sleep(1.2)  # 4
def waits(event):
    event.wait(1.2)  # 6
def reads(end):
    os.read(end, 1)  # 8
def polls(end):
    select.select([end], [], [], 1.2)  # 10
reading, writing = os.pipe()
event = threading.Event()
threads = [threading.Thread(target=naps), threading.Thread(target=waits, args=(event,)),
           threading.Thread(target=reads, args=(reading,)), threading.Thread(target=polls, args=(reading,))]
for thread in threads:
    thread.start()
time.sleep(1.2)
os.write(writing, b'12')
for thread in threads:
    thread.join()
";
    for python in pythons("threads_that_wait_are_seen_at_the_line_that_waits") {
        let r = run(&["--clock", "wall", "--hz", "100"], &[python.to_str().expect("UTF-8"), "-c", text]);
        r.unharmed();
        let all: Vec<Vec<StackFrame>> = files(&r.dir).iter().flat_map(|bytes| stacks(bytes)).collect();
        for (name, line) in [("naps", 4), ("waits", 6), ("reads", 8), ("polls", 10)] {
            let here = all.iter().filter(|stack| {
                let of = |frame: &StackFrame| matches!(frame, StackFrame::Python(f) if f.name == name && f.line == line);
                stack.iter().any(of)
            });
            // Each has its Python callers out to the thread's beginning, also where
            // the native stack is cut, as registers of a thread that is not stopped are not known.
            let (mut count, mut whole) = (0, 0);
            for stack in here {
                count += 1;
                let begins =
                    |f: &StackFrame| matches!(f, StackFrame::Python(f) if f.simple() == "_bootstrap");
                whole += u64::from(stack.iter().any(begins));
            }
            println!("{}: {name} {count} samples, {whole} whole", python.display());
            assert!(count > 0, "{}: {name} {count}", python.display());
            assert_eq!(whole, count, "{}: {name}", python.display());
        }
    }
}

/// Attaches by a method for two seconds, or several times as long; what was recorded.
///
/// Right after an attach many functions are new, and stacks lack them until they are written down. In a recording of
/// one second these samples could not be told from a fault at the first look, in one of two seconds they mostly can.
fn attached(python: &Path, method: &str, hz: &str, preloaded: Option<&Path>, times: u32) -> Counts {
    let keep = tempfile::tempdir().expect("a folder");
    let dir: PathBuf = keep.path().join("recording");
    let woven = Woven::start(python, &(3 * times).to_string(), preloaded);
    let mut pct = Command::new(binary());
    pct.args(["attach", "--method", method, "--hz", hz, "--for", &(2 * times).to_string(), "--out"])
        .arg(&dir);
    let output = pct.arg(woven.0.id().to_string()).output().expect("pct");
    let said = woven.end();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Counts::of(&dir, &script(), &said)
}

#[test]
fn attached_by_each_method_from_within_python_is_seen() {
    let library = library();
    let methods = [("1", Some(&*library)), ("2", None), ("4", None)];
    let pythons = pythons("attached_by_each_method_from_within_python_is_seen");
    for (i, python) in pythons.iter().enumerate() {
        // Methods differ in how the library gets in; which frames it reads then is a matter of the version. So the
        // versions take turns.
        let mine = if pct_kit::long() { &methods[..] } else { &methods[i % 3..=i % 3] };
        // 2000 samples a CPU second of the process. On a crowded machine it may have had 30 ms of its second, as in the
        // test from outside.
        for (method, preloaded) in mine {
            draw_on(|times| {
                let counts = attached(python, method, "2000", *preloaded, times);
                are_right(&counts, TORN, &format!("{}, method {method}", python.display()))
            });
        }
    }
}

#[test]
fn attached_from_outside_python_is_seen() {
    for python in pythons("attached_from_outside_python_is_seen") {
        draw_on(|times| {
            let counts = attached(&python, "5", "500", None, times);
            are_right(&counts, TORN, &format!("{}, method 5", python.display()))
        });
    }
}

/// Threads that take turns: at each moment one of them at most has the interpreter's lock, and the others wait.
#[test]
fn threads_that_wait_for_the_gil_are_told_apart() {
    let text = "
import os, sys, threading, time
spans = []
def spin():
    start = time.monotonic()
    while time.monotonic() < start + 1:
        for i in range(10000):
            pass
    spans.append((start, time.monotonic()))
threads = [threading.Thread(target=spin) for _ in range(int(sys.argv[1]))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
born = float(open('/proc/self/stat').read().rsplit(')', 1)[1].split()[19]) / os.sysconf('SC_CLK_TCK')
life = time.clock_gettime(time.CLOCK_BOOTTIME) - born
together = max(0, min(end for _, end in spans) - max(start for start, _ in spans))
print(together, sum(end - start for start, end in spans), life)
";
    for python in pythons("threads_that_wait_for_the_gil_are_told_apart") {
        for threads in [1.0, 4.0] {
            let number = threads.to_string();
            let command = [python.to_str().expect("UTF-8"), "-c", text, &number];
            let r = run(&["--clock", "wall", "--hz", "100"], &command);
            let out = r.unharmed();
            let truth: Vec<f64> = out.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            let [together, spans, life] = truth[..] else { panic!("{out}{}", r.stderr()) };
            let report = Command::new(binary()).args(["report", "--format", "json"]).arg(&r.dir).output();
            let report: serde_json::Value =
                serde_json::from_slice(&report.expect("a report").stdout).expect("JSON");
            let row = &report["account"]["languages"][0];
            let number = |what: &str, unit: &str| row[what][unit].as_f64().expect("a number");
            let all = |unit| {
                let parts = ["inside", "native", "waiting_for_lock", "collecting_garbage"];
                parts.into_iter().map(|what| number(what, unit)).sum::<f64>()
            };
            let share = number("waiting_for_lock", "cpu_seconds") / all("cpu_seconds");
            // Of the threads' time and the main thread's, which waits for their end. If one that was given the
            // lock has no processor yet, all of them wait.
            let most = if threads > 1.0 { spans / (spans + life) } else { 0.0 };
            let least = (threads - 1.0) * together / (spans + life);
            let error = 4.0 * (0.25 / all("samples")).sqrt();
            println!("{}, {threads} threads: {least} to {most}, {share} +- {error}", python.display());
            let what = format!("{}, {threads} threads: {share}: {row}", python.display());
            assert!(share > least - error && share < most + error && error < 0.2, "{what}");
        }
    }
}
