//! Calls that wait end by a signal of the program's own, and by no other: neither the sampler in the process
//! nor a controller that stops its threads cuts them short.

use pct_kit::harm::{ended_with, harm};
use pct_tests::pct::{binary, run};
use pct_tests::victims::victim;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A program that has said its first line; killed when a test fails.
struct Target {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Target {
    fn start(command: &mut Command) -> Target {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut said = BufReader::new(child.stdout.take().expect("a pipe"));
        said.read_line(&mut String::new()).expect("it says that it started");
        Target { child, said }
    }

    fn id(&self) -> String {
        self.child.id().to_string()
    }

    /// What it says at its end.
    fn end(mut self) -> String {
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).expect("text");
        ended_with(self.child.wait().expect("waited"), 0, &rest);
        rest
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The victim says that none of its many calls was cut short.
fn uncut(said: &str, how: &str) {
    if !said.contains("eintr 0 of many") {
        harm(&format!("{how}: {said}"));
    }
}

/// Several threads that compute at once use CPU time faster than the clock on the wall: a timer on the
/// process's time must not wake the one that waits.
#[test]
fn waits_of_a_program_that_uses_all_processors_are_not_cut_short() {
    let victim = victim("busywaits.c");
    for hz in ["997", "10000"] {
        let r = run(&["--hz", hz], &[victim.to_str().expect("UTF-8"), "3"]);
        uncut(&r.unharmed(), hz);
    }
}

/// What pct does to attach, and to end it, takes threads out of their waits.
#[test]
fn waits_of_a_program_that_is_attached_to_are_not_cut_short() {
    let folder = tempfile::tempdir().expect("a folder");
    for method in ["2", "4", "5"] {
        let target = Target::start(Command::new(victim("busywaits.c")).arg("4"));
        let id = target.id();
        for round in 0..3 {
            let out = folder.path().join(format!("{method}-{round}"));
            let out = out.to_str().expect("UTF-8");
            let mut words = vec!["attach", "--hz", "10000", "--for", "0.3", "-o", out, &id];
            // later it is in the target already
            if round == 0 || method == "5" {
                words.extend(["--method", method]);
            }
            let output = Command::new(binary()).args(&words).output().expect("pct can be run");
            assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        uncut(&target.end(), method);
    }
}

/// A traced thread gets signals too that are ignored by default, which without a tracer the kernel drops. (Of
/// several threads the kernel wakes one and may give the signal to another: no tracer is told of the first,
/// whose call ends then.)
#[test]
fn ignored_signals_do_not_cut_waits_short_while_it_is_sampled_from_outside() {
    let folder = tempfile::tempdir().expect("a folder");
    let target = Target::start(Command::new(victim("busywaits.c")).args(["3", "1"]));
    let mut pct = Command::new(binary())
        .args(["attach", "--method", "5", "--hz", "1000", "-o"])
        .arg(folder.path().join("recording"))
        .arg(target.id())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("pct can be run");
    let mut said = BufReader::new(pct.stderr.take().expect("a pipe"));
    said.read_line(&mut String::new()).expect("it says that it samples");
    let script = "for i in {1..200}; do kill -s WINCH $0; kill -s CHLD $0; kill -s URG $0; sleep 0.002; done";
    let sent = Command::new("bash").args(["-c", script, &target.id()]).output().expect("bash");
    assert!(sent.stderr.is_empty(), "{}", String::from_utf8_lossy(&sent.stderr));
    let said = target.end();
    assert!(said.contains("eintr 0 of many"), "{said}");
    assert!(pct.wait().expect("waited").success());
}
