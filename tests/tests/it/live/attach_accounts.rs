//! The account of a tree that pct attached to closes: what the kernel counted for the target and its children
//! is in samples, or in rows that name the cause. The truth is what each process says of itself and of the
//! children that it waited for (getrusage).

use pct_kit::harm::ended_with;
use pct_tests::pct::{self, binary, seconds_in_kernel};
use pct_tests::tool_or_skip;
use pct_tests::victims::{Guest, victim, victim_with, works};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

/// Says "ready", waits for a line, does what its script says, and prints the CPU time that it and its
/// children used since.
const PYTHON: &str = r#"
import os, resource, subprocess, sys, time
burner, fixed = sys.argv[1], sys.argv[2]
def used(who):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime
def all_used(): return used(resource.RUSAGE_SELF) + used(resource.RUSAGE_CHILDREN)
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: sum(range(1000))
def forked(work):
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    return child
print("ready", flush=True)
sys.stdin.readline()
before = all_used()
"#;
const PYTHON_END: &str = "\nprint(all_used() - before, flush=True)\n";

/// What targets do. (`relay THREADS SECONDS` uses so many CPU seconds.)
const PYTHON_SCRIPTS: &[(&str, &str)] = &[
    ("itself", "burn(0.4)"),
    ("programs", "for i in range(6): subprocess.run([burner, '1', '0.07'], stdout=subprocess.DEVNULL)"),
    ("static programs", "for i in range(3): subprocess.run([fixed, '1', '0.15'], stdout=subprocess.DEVNULL)"),
    ("forks", "for i in range(6): os.waitpid(forked(lambda: burn(0.07)), 0)"),
    ("short programs", "for i in range(60): subprocess.run(['/bin/true'])"),
    (
        "a shell between",
        "subprocess.run(['dash', '-c', f'{burner} 1 0.2; {fixed} 1 0.1; ( {burner} 1 0.1 )'], stdout=subprocess.DEVNULL)",
    ),
    (
        "a fork that executes",
        "os.waitpid(forked(lambda: (burn(0.1), os.execv(burner, ['relay', '1', '0.3']))), 0)",
    ),
    (
        "a fork that executes a static program",
        "os.waitpid(forked(lambda: (burn(0.1), os.execv(fixed, ['relay', '1', '0.3']))), 0)",
    ),
    (
        "a fork that lives on",
        "def alone():\n    t = all_used()\n    burn(0.4)\n    print(all_used() - t, flush=True)\n    sys.exit(0)\n\
         forked(alone)\nburn(0.1)",
    ),
];

/// The same of a shell; its `times` are sums of ticks.
const SHELL_SCRIPTS: &[(&str, &str)] = &[
    ("itself", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"),
    ("programs", "for i in 1 2 3 4 5 6; do $B 1 0.07 >/dev/null; done"),
    ("static programs", "for i in 1 2 3; do $S 1 0.15 >/dev/null; done"),
    ("forks", "for k in 1 2 3; do ( i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done ); done"),
    ("short programs", "i=0; while [ $i -lt 150 ]; do i=$((i+1)); /bin/true; done"),
    ("in the background", "$B 1 0.2 >/dev/null & $S 1 0.2 >/dev/null & wait"),
];

/// A process that does its work when it is told to.
struct Target {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Target {
    fn start(command: &mut Command) -> Target {
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the target starts");
        let input = process.stdin.take().expect("a pipe");
        let mut output = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("text");
        assert_eq!(line, "ready\n");
        Target { process, input, output }
    }

    /// It works, and ends. All that it and its children printed.
    fn work(mut self) -> String {
        self.input.write_all(b"go\n").expect("it reads");
        let mut said = String::new();
        // to the end of the last process that has the pipe
        self.output.read_to_string(&mut said).expect("text");
        ended_with(self.process.wait().expect("waited"), 0, &said);
        said
    }
}

/// `pct attach`, up to the line that says that it samples.
fn attach(target: &Target, out: &Path, options: &[&str]) -> (Child, BufReader<ChildStderr>, String) {
    let mut attach = Command::new(binary())
        .args(["attach", "--follow", "-o"])
        .arg(out)
        .args(options)
        .arg(target.process.id().to_string())
        .stderr(Stdio::piped())
        .spawn()
        .expect("pct can be run");
    let mut said = BufReader::new(attach.stderr.take().expect("a pipe"));
    let mut line = String::new();
    said.read_line(&mut line).expect("text");
    assert!(line.starts_with("attached to") || line.starts_with("sampling"), "{line}");
    (attach, said, line)
}

fn report(out: &Path, format: &str) -> String {
    let report = Command::new(binary()).args(["report", "--format", format]).arg(out).output().expect("pct");
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    String::from_utf8_lossy(&report.stdout).into_owned()
}

/// Samples a target while it works, and compares the account with the truth. `ticks`: by so much its own
/// figure may be too low.
fn closes(what: &str, target: Target, options: &[&str], truth: fn(&str) -> f64, ticks: f64) {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("recording");
    let (mut attach, mut words, first) = attach(&target, &out, options);
    // Without --for the samplers in the programs are on their own.
    if first.starts_with("attached to") && !options.contains(&"--for") {
        assert!(attach.wait().expect("waited").success());
    }
    let said = target.work();
    let mut rest = String::new();
    words.read_to_string(&mut rest).expect("text");
    assert!(attach.wait().expect("waited").success(), "{rest}");
    let counted = truth(&said);
    let json: Value = serde_json::from_str(&report(&out, "json")).expect("JSON");
    let text = report(&out, "text");
    let account = &json["account"];
    let seconds = |at: &Value| at.as_f64().unwrap_or_else(|| panic!("{what}: {account}\n{text}"));
    let used = seconds(&account["used"]["user_seconds"]) + seconds(&account["used"]["system_seconds"]);
    // What the target used for the attach and, after its own figure, for its end is in the account too.
    const AROUND: f64 = 0.15;
    assert!(
        used > counted - 0.005 && used < counted + ticks + AROUND,
        "{what} {options:?}: {used:.3} s by the account, {counted:.3} s by the processes themselves: {account}\n{first}{rest}{text}"
    );
    // The table has all of it: samples with their error (4 sigma), and rows that say what is in no sample.
    let sampled = seconds(&account["accounted_seconds"]);
    let samples = seconds(&json["total"]["samples"]).max(1.0);
    let table = seconds(&json["total"]["cpu_seconds"]);
    let error = 4.0 * sampled / samples.sqrt() + 0.005;
    assert!(
        (table - used).abs() < error,
        "{what} {options:?}: the table has {table:.3} s of {used:.3} s (error {error:.3}): {account}\n{text}"
    );
    if used - sampled > error.max(used / 20.0) && used - sampled > 0.02 {
        assert!(!text.contains("nothing lost"), "{what} {options:?}: {text}");
    }
}

const MANNERS: &[&[&str]] = &[&["--for", "100"], &[], &["--method", "6", "--for", "100"]];

#[test]
fn the_account_of_what_a_program_makes_closes_in_every_manner() {
    let Some(python) = tool_or_skip("python3", "the_account_of_what_a_program_makes_closes_in_every_manner")
    else {
        return;
    };
    let burner = victim("relay.c");
    let fixed = victim_with("relay.c", "cc -O2 -pthread -static", "relay-static").unwrap_or(burner.clone());
    for (what, script) in PYTHON_SCRIPTS {
        for options in MANNERS {
            let mut command = Command::new(&python);
            command.arg("-c").arg(format!("{PYTHON}{script}{PYTHON_END}")).arg(&burner).arg(&fixed);
            closes(what, Target::start(&mut command), options, by_processes, 0.0);
        }
    }
}

#[test]
fn the_account_of_what_a_shell_makes_closes_in_every_manner() {
    let Some(shell) = tool_or_skip("dash", "the_account_of_what_a_shell_makes_closes_in_every_manner") else {
        return;
    };
    let burner = victim("relay.c");
    let fixed = victim_with("relay.c", "cc -O2 -pthread -static", "relay-static").unwrap_or(burner.clone());
    for (what, script) in SHELL_SCRIPTS {
        for options in [&["--for", "100"][..], &[]] {
            let mut command = Command::new(&shell);
            command.arg("-c").arg(format!("echo ready; read x; {script}; times"));
            command.env("B", &burner).env("S", &fixed);
            closes(what, Target::start(&mut command), options, by_shell, 0.04);
        }
    }
}

/// A line with nothing but its seconds from each process that nobody waits for. (Burners print other lines.)
fn by_processes(said: &str) -> f64 {
    let seconds: Vec<f64> = said.lines().filter_map(|line| line.parse().ok()).collect();
    assert!(!seconds.is_empty(), "{said}");
    seconds.iter().sum()
}

/// `0m0.300000s 0m0.000000s`, the shell's own times, and the same of its children.
fn by_shell(said: &str) -> f64 {
    let seconds = |word: &str| {
        let (minutes, seconds) = word.trim_end_matches('s').split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    let times: Vec<f64> = said.split_whitespace().filter_map(seconds).collect();
    assert_eq!(times.len(), 4, "{said}");
    times.iter().sum()
}

#[test]
fn time_in_the_kernel_is_sampled_in_a_program_that_pct_attached_to() {
    let ways: [&[&str]; 2] = [&[], &["--method", "4"]];
    for way in ways {
        let here = tempfile::tempdir().expect("a folder");
        // One thread, which spends three quarters of its time in system calls.
        let words = ["60", "20000", "0", "75", "1", "1"];
        let guest = Guest::start(Command::new(victim("bursts.c")).args(words));
        works(guest.pid(), 0.1);
        guest.attached(here.path(), &[way, &["--out", "recording"]].concat(), 1.5);
        let rows = pct::report(&here.path().join("recording"), &[]);
        let all: f64 = rows.iter().map(|row| row.cpu_seconds).sum();
        let in_kernel = seconds_in_kernel(&rows);
        assert!(all > 1.0 && in_kernel > 0.5 * all, "{way:?}: {in_kernel} of {all} s: {rows:?}");
    }
}
