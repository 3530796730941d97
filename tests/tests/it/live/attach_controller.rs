//! What becomes of a recording whose controller is killed while the program lives on, or has too few descriptors, or is
//! asked to end when the program does.

use pct_kit::started::Killed;
use pct_kit::wait::wait_until;
use pct_tests::pct::binary;
use pct_tests::tool_or_skip;
use pct_tests::victims::{Guest, signal, victim, works};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

fn report(out: &Path) -> String {
    let report = Command::new(binary()).arg("report").arg(out).output().expect("pct can be run");
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    String::from_utf8_lossy(&report.stdout).into_owned()
}

/// The recordings in a folder.
fn recordings(out: &Path) -> usize {
    let entries = std::fs::read_dir(out).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path().extension().is_some_and(|e| e == "pct")).count()
}

#[test]
fn a_recording_whose_controller_was_killed_does_not_say_that_nothing_was_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    for method in ["5", "6"] {
        let target = Command::new(victim("relay.c")).args(["1", "1000"]).stdout(Stdio::null()).spawn();
        let target = Killed(target.expect("it starts"));
        let out = folder.path().join(method);
        let mut pct = Command::new(binary())
            .args(["attach", "--method", method, "-o"])
            .arg(&out)
            .arg(target.0.id().to_string())
            .stderr(Stdio::piped())
            .spawn()
            .expect("pct can be run");
        let mut line = String::new();
        BufReader::new(pct.stderr.take().expect("a pipe")).read_line(&mut line).expect("text");
        assert!(line.starts_with("sampling"), "{line}");
        assert_eq!(recordings(&out), 1);
        assert!(report(&out).contains("1 process is still running"), "sampled: {}", report(&out));
        pct.kill().expect("killed");
        pct.wait().expect("waited");
        let text = report(&out);
        assert!(text.contains("was ended before it closed the recording"), "method {method}: {text}");
        assert!(!text.contains("nothing lost"), "method {method}: {text}");
        assert!(!text.contains("still running"), "method {method}: nobody samples it any more: {text}");
    }
}

/// Says "ready" when its threads wait.
const WAITS: &str = "
import threading
end = threading.Event()
for i in range(60): threading.Thread(target=end.wait, daemon=True).start()
print('ready', flush=True)
input()
";

/// Each thread has two files in /proc that the controller keeps open. Here it may keep hardly any.
#[test]
fn threads_are_sampled_from_outside_though_descriptors_are_few() {
    let test = "threads_are_sampled_from_outside_though_descriptors_are_few";
    let Some(prlimit) = tool_or_skip("prlimit", test) else { return };
    let Some(python) = tool_or_skip("python3", test) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("recording");
    let mut target = Command::new(python);
    target.args(["-c", WAITS]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut target = Killed(target.spawn().expect("it starts"));
    let mut line = String::new();
    BufReader::new(target.0.stdout.take().expect("a pipe")).read_line(&mut line).expect("text");
    assert_eq!(line, "ready\n");
    let done = Command::new(prlimit)
        .args(["--nofile=48:48", "--"])
        .arg(binary())
        .args(["attach", "--clock", "wall", "--hz", "20", "--for", "2", "-o"])
        .arg(&out)
        .arg(target.0.id().to_string())
        .output()
        .expect("prlimit");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let json = Command::new(binary())
        .args(["report", "--by", "thread", "-n", "1000", "--format", "json"])
        .arg(&out)
        .output();
    let json: serde_json::Value = serde_json::from_slice(&json.expect("pct").stdout).expect("JSON");
    let rows = json["rows"].as_array().expect("rows").len();
    assert_eq!(rows, 61, "threads with samples: {}", json["account"]);
}

/// The kernel gives back much memory before it says that a process has ended.
#[test]
fn a_program_that_is_giving_its_memory_back_has_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    for method in ["2", "4", "6"] {
        let target = Guest::started(&mut Command::new(victim("largeend.c")), "ready");
        let id = target.id();
        let out = folder.path().join(method);
        let mut command = Command::new(binary());
        command.args(["attach", "--for", "1000", "--method", method, "-o"]).arg(&out).arg(&id);
        let attach = Guest::start(command.stderr(Stdio::piped()));
        wait_until("a recording", || recordings(&out) == 1);
        works(target.pid(), 0.3);
        signal(target.pid(), "TERM");
        signal(attach.pid(), "INT");
        if method != "6" {
            let off = Command::new(binary()).args(["off", &id]).output().expect("pct can be run");
            let said = String::from_utf8_lossy(&off.stderr);
            assert_eq!(said, format!("pct: process {id} has ended already\n"));
        }
        let attach = attach.wait();
        let said = String::from_utf8_lossy(&attach.stderr);
        assert!(attach.status.success(), "method {method}: {said}");
        assert!(report(&out).contains("main"), "method {method}: {said}");
        target.wait();
    }
}
