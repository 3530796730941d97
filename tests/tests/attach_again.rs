//! `pct attach` again and again on one process: each attach is a recording of its own, and one without
//! samples says what was found.

use pct_tests::pct::{binary, report, samples};
use pct_tests::victims::victim;
use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A program that is attached to; killed at the end.
struct Target {
    child: Child,
    /// CPU seconds that it used during the last attach.
    used: Cell<f64>,
}

impl Target {
    fn doing(what: &str) -> Target {
        let mut child = Command::new(victim("classes.c"))
            .arg(what)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut said = BufReader::new(child.stdout.take().expect("a pipe"));
        said.read_line(&mut String::new()).expect("it says that it started");
        Target { child, used: Cell::new(0.0) }
    }

    fn id(&self) -> String {
        self.child.id().to_string()
    }

    fn attach(&self, folder: &Path, options: &[&str]) -> String {
        let mut command = Command::new(binary());
        command.current_dir(folder).args(["attach", "--for", "0.4"]).args(options).arg(self.id());
        let before = self.cpu_seconds();
        let said = well(&command.output().expect("pct can be run"));
        self.used.set(self.cpu_seconds() - before);
        said
    }

    fn cpu_seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).expect("it lives");
        let fields: Vec<_> = stat.rsplit_once(") ").expect("a name").1.split(' ').collect();
        let ticks = |at: usize| fields[at].parse::<f64>().expect("ticks");
        // fields 14 and 15, in ticks of 10 ms
        (ticks(11) + ticks(12)) / 100.0
    }

    /// Whether so many samples can be of the last attach: it may have got little of a crowded machine, and it
    /// runs for a while before sampling begins and after it ends.
    fn gave(&self, samples: f64) -> bool {
        samples > 0.0 || self.used.get() < 0.1
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn well(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
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
    let target = Target::doing("spin");
    let folder = tempfile::tempdir().expect("a folder");
    for _ in 0..2 {
        target.attach(folder.path(), &[]);
    }
    let mut folders: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().map(|e| e.path()).collect();
    folders.sort();
    assert_eq!(folders.len(), 2, "{folders:?}");
    for folder in &folders {
        let (samples, threads) = seen(folder);
        assert!(
            target.gave(samples) && threads == usize::from(samples > 0.0),
            "{folder:?}: {samples} samples of {threads} threads"
        );
    }
    // another folder is honoured, also in its second life; in one that is there, a file more
    let other = folder.path().join("other");
    target.attach(folder.path(), &["-o", "other"]);
    assert_eq!((recordings(&other), target.gave(seen(&other).0)), (1, true));
    std::fs::remove_dir_all(&other).expect("removed");
    target.attach(folder.path(), &["-o", "other"]);
    assert_eq!((recordings(&other), target.gave(seen(&other).0)), (1, true));
    target.attach(folder.path(), &["-o", "other"]);
    assert_eq!(recordings(&other), 2);
}

#[test]
fn attaching_again_and_again_to_removed_recordings_takes_no_more_memory() {
    let target = Target::doing("spin");
    let folder = tempfile::tempdir().expect("a folder");
    let size = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", target.id())).expect("it lives");
        let line = status.lines().find_map(|l| l.strip_prefix("VmSize:")).expect("a size").trim().to_owned();
        line.trim_end_matches(" kB").parse::<u64>().expect("a number")
    };
    let mut after = Vec::new();
    for _ in 0..6 {
        target.attach(folder.path(), &["-o", "r"]);
        std::fs::remove_dir_all(folder.path().join("r")).expect("removed");
        after.push(size());
    }
    // two recordings take turns; their memory was 70 MiB each time
    assert!(after[5] <= after[1] + 1024, "{after:?} kB");
}

#[test]
fn an_idle_program_leaves_a_recording_that_says_so() {
    let target = Target::doing("sleep");
    let folder = tempfile::tempdir().expect("a folder");
    for (method, name) in [("2", "in"), ("5", "out")] {
        let said = target.attach(folder.path(), &["--method", method, "--hz", "10", "-o", name]);
        assert!(said.contains("no samples: it used 0.0"), "{said}");
        assert_eq!(recordings(&folder.path().join(name)), 1, "{said}");
        if method == "2" {
            well(&Command::new(binary()).args(["off", &target.id()]).output().expect("pct can be run"));
        }
    }
}

#[test]
fn a_recording_that_cannot_be_made_is_told_with_its_cause() {
    let target = Target::doing("spin");
    let folder = tempfile::tempdir().expect("a folder");
    let limit = |what: &str| {
        Command::new("prlimit").args(["--pid", &target.id(), what]).status().is_ok_and(|s| s.success())
    };
    target.attach(folder.path(), &["-o", "first"]);
    if !limit("--fsize=0:unlimited") {
        return pct_tests::skip("a_recording_that_cannot_be_made_is_told_with_its_cause", "no prlimit");
    }
    // from inside it cannot be; so it is sampled from outside, whose own limits hold
    let said = target.attach(folder.path(), &["-o", "file"]);
    assert!(said.contains("RLIMIT_FSIZE") && said.contains("from outside"), "{said}");
    assert!(target.gave(seen(&folder.path().join("file")).0));
    assert!(limit("--fsize=unlimited:unlimited") && limit("--nofile=0:1024"));
    let said = target.attach(folder.path(), &["-o", "descriptors"]);
    assert!(said.contains("RLIMIT_NOFILE"), "{said}");
}
