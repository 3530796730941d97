//! Programs that hold as many descriptors as they may (RLIMIT_NOFILE): they are sampled all the same, keep what they
//! have, and what the kernel refuses the sampler is said.

use pct_kit::harm::{ended_with, harm};
use pct_tests::pct::{Run, binary, report, run, seconds_in};
use pct_tests::victims::{truth, victim, victim_with};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// `late` has most of its time, by the program's own clock. (Other tests measure how exact shares are. Before, there
/// was nothing, or only threads that had begun earlier.)
fn late_is_seen(rows: &[pct_tests::pct::Row], stdout: &str) {
    let spent = truth(stdout).into_iter().find(|t| t.0 == "late").expect("the victim counts it").1;
    let seen = seconds_in(rows, "late");
    assert!(seen > spent / 2.0 && seen < spent * 1.5, "late: {seen:.3} s seen, {spent:.3} spent");
}

fn unharmed(r: &Run) {
    ended_with(r.output.status, 5, &r.stderr());
    if !r.stdout().contains("descriptors as before") {
        harm(&format!("{}{}", r.stdout(), r.stderr()));
    }
}

#[test]
fn a_preloaded_program_is_sampled_whenever_it_runs_out_of_descriptors() {
    let victim = victim("fewfiles.c");
    for clock in ["auto", "perf", "thread"] {
        for before in ["0", "0.1"] {
            let r = run(&["--clock", clock], &[victim.to_str().expect("text"), before, "0.4", "3"]);
            unharmed(&r);
            late_is_seen(&r.report(&["--by", "function"]), &r.stdout());
            assert!(!r.stderr().contains("refused"), "{}", r.stderr());
        }
    }
}

#[test]
fn a_static_program_without_descriptors_is_sampled() {
    let made = victim_with("fewfiles.c", "cc -O2 -pthread -static", "fewfiles-static");
    let victim = made.expect("a static C library");
    let r = run(&[], &[victim.to_str().expect("text"), "0", "0.4", "3"]);
    unharmed(&r);
    late_is_seen(&r.report(&["--by", "function"]), &r.stdout());
}

#[test]
fn a_program_that_may_have_no_descriptor_at_all_says_what_could_not_be_read() {
    let victim = victim("fewfiles.c");
    let r = run(&[], &[victim.to_str().expect("text"), "0.3", "0.6", "0"]);
    unharmed(&r);
    // The file was made before. From then on the list of mappings is read four times a second of CPU time.
    assert!(r.stderr().contains("the kernel refused the list of its mappings"), "{}", r.stderr());
    assert!(r.stderr().contains("Too many open files"), "{}", r.stderr());
    assert!(!r.stderr().contains("nothing lost"), "{}", r.stderr());
}

#[test]
fn attach_samples_a_program_without_descriptors_through_its_own_memory() {
    let victim = victim("fewfiles.c");
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("recording");
    let mut target = Command::new(victim)
        .args(["0", "3", "3"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = BufReader::new(target.stdout.take().expect("a pipe"));
    let mut line = String::new();
    said.read_line(&mut line).expect("text");
    assert_eq!(line, "ready\n");
    let attached = Command::new(binary())
        .args(["attach", "--method", "4", "-o"])
        .arg(&out)
        .arg(target.id().to_string())
        .output()
        .expect("pct can be run");
    let told = String::from_utf8_lossy(&attached.stderr).into_owned();
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("text");
    ended_with(target.wait().expect("it ends"), 5, &told);
    assert!(attached.status.success(), "{told}");
    if !rest.contains("descriptors as before") {
        harm(&format!("{rest}{told}"));
    }
    // It was attached to at some time in its 3 CPU seconds.
    assert!(seconds_in(&report(&out, &["--by", "function"]), "late") > 0.1, "{told}");
}

/// What was due in a thread before there was a file waits for its next sample. Here it has no more samples.
#[test]
fn what_was_due_in_a_thread_before_the_file_was_made_is_recorded_at_its_end() {
    let victim = victim("latefile.c");
    for mode in ["auto", "none"] {
        let r = run(&["--stack", mode], &[victim.to_str().expect("text")]);
        r.unharmed();
        let rows = r.report(&["--by", "function"]);
        for (function, spent) in truth(&r.stdout()) {
            let seen = seconds_in(&rows, &function);
            assert!(
                seen > spent / 2.0 && seen < spent * 1.5,
                "{function}: {seen:.3} s seen, {spent:.3} spent"
            );
        }
    }
}
