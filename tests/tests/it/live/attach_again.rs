//! `pct attach` again and again on one process: each attach is a recording of its own, and one without
//! samples says what was found.

use pct_tests::pct::{binary, report, samples};
use pct_tests::victims::{Guest, victim};
use std::path::Path;
use std::process::Command;

/// CPU seconds for which the program is sampled each time.
const WORK: f64 = 0.2;

/// The least samples of these seconds at so many a second. The clock that tells them goes in hundredths, and what runs
/// between the attach and the first sample is in none.
fn least(hz: f64) -> f64 {
    0.4 * WORK * hz
}

fn doing(what: &str) -> Guest {
    Guest::started(Command::new(victim("classes.c")).arg(what), "started")
}

fn recordings(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    names.filter(|path| path.extension().is_some_and(|e| e == "pct")).count()
}

/// Samples of a folder, and threads.
fn seen(folder: &Path) -> (f64, usize) {
    (samples(&report(folder, &[])), report(folder, &["--by", "thread"]).len())
}

#[test]
fn each_attach_is_a_recording_of_its_own() {
    let target = doing("spin");
    let folder = tempfile::tempdir().expect("a folder");
    for _ in 0..2 {
        target.attached(folder.path(), &[], WORK);
    }
    let mut folders: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().map(|e| e.path()).collect();
    folders.sort();
    assert_eq!(folders.len(), 2, "{folders:?}");
    for folder in &folders {
        let (samples, threads) = seen(folder);
        assert!(samples > least(997.0) && threads == 1, "{folder:?}: {samples} samples of {threads} threads");
    }
    // another folder is honoured, also in its second life; in one that is there, a file more
    let other = folder.path().join("other");
    for _ in 0..2 {
        let _ = std::fs::remove_dir_all(&other);
        target.attached(folder.path(), &["-o", "other"], WORK);
        let samples = seen(&other).0;
        assert!(recordings(&other) == 1 && samples > least(997.0), "{samples} samples");
    }
    target.attached(folder.path(), &["-o", "other"], WORK);
    assert_eq!(recordings(&other), 2);
}

#[test]
fn attaching_again_and_again_to_removed_recordings_takes_no_more_memory() {
    let target = doing("spin");
    let folder = tempfile::tempdir().expect("a folder");
    let size = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", target.id())).expect("it lives");
        let line = status.lines().find_map(|l| l.strip_prefix("VmSize:")).expect("a size").trim().to_owned();
        line.trim_end_matches(" kB").parse::<u64>().expect("a number")
    };
    let mut after = Vec::new();
    for _ in 0..6 {
        target.attached(folder.path(), &["-o", "r"], WORK);
        std::fs::remove_dir_all(folder.path().join("r")).expect("removed");
        after.push(size());
    }
    // two recordings take turns; their memory was 70 MiB each time
    assert!(after[5] <= after[1] + 1024, "{after:?} kB");
}

/// As a run does, of what this attachment recorded: the folder holds another one's file.
#[test]
fn an_attachment_for_a_time_ends_with_a_table() {
    let target = doing("spin");
    let folder = tempfile::tempdir().expect("a folder");
    for (way, name) in [(&[][..], "in"), (&["--method", "5"], "out")] {
        let ending = |more: &[&str]| {
            let mut command = Command::new(binary());
            command.current_dir(folder.path()).args(["attach", "--for", "1", "-o", name]).args(way);
            let done = command.args(more).arg(target.id()).output().expect("pct can be run");
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(done.status.success(), "{said}");
            let text = said.lines().skip_while(|line| !line.starts_with("pct: ")).map(str::to_owned);
            text.collect::<Vec<String>>().join("\n")
        };
        for text in [ending(&[]), ending(&["-n", "1"])] {
            assert!(text.contains("CPU s in 1 process, 1 thread"), "{name}: {text}");
            assert!(text.contains("   self   +-") && text.contains("classes"), "{name}: {text}");
            assert!(text.contains("\naccounted "), "{name}: {text}");
        }
        assert!(!ending(&["--no-report"]).contains("CPU s  function"), "{name}");
    }
}

#[test]
fn an_idle_program_leaves_a_recording_that_says_so() {
    let target = doing("sleep");
    let folder = tempfile::tempdir().expect("a folder");
    for (method, name) in [("2", "in"), ("5", "out")] {
        let mut command = Command::new(binary());
        command.current_dir(folder.path()).args(["attach", "--method", method, "--hz", "10", "-o", name]);
        let done = command.args(["--for", "0.4", &target.id()]).output().expect("pct can be run");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{said}");
        assert!(said.contains("no samples: it used 0.0"), "{said}");
        assert_eq!(recordings(&folder.path().join(name)), 1, "{said}");
        if method == "2" {
            let off = Command::new(binary()).args(["off", &target.id()]).status();
            assert!(off.expect("pct can be run").success());
        }
    }
}

#[test]
fn a_recording_that_cannot_be_made_is_told_with_its_cause() {
    let target = doing("spin");
    let folder = tempfile::tempdir().expect("a folder");
    let limit = |what: &str| {
        Command::new("prlimit").args(["--pid", &target.id(), what]).status().is_ok_and(|s| s.success())
    };
    target.attached(folder.path(), &["-o", "first"], WORK);
    if !limit("--fsize=0:unlimited") {
        return pct_tests::skip("a_recording_that_cannot_be_made_is_told_with_its_cause", "no prlimit");
    }
    // from inside it cannot be; so it is sampled from outside, whose own limits hold
    let said = target.attached(folder.path(), &["-o", "file"], WORK);
    assert!(said.contains("RLIMIT_FSIZE") && said.contains("from outside"), "{said}");
    let samples = seen(&folder.path().join("file")).0;
    assert!(samples > least(250.0), "{samples} samples");
    assert!(limit("--fsize=unlimited:unlimited") && limit("--nofile=0:1024"));
    let said = target.attached(folder.path(), &["-o", "descriptors"], WORK);
    assert!(said.contains("RLIMIT_NOFILE"), "{said}");
}
