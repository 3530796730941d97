//! Java functions in the stacks of real programs, under each collector and compiler that the JVM here has.

use pct_kit::harm::harm;
use pct_tests::java::compiled_or_skip;
use pct_tests::pct::{Run, folded, run};
use pct_tests::root;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The options of samples by the library in the program, and of samples from outside.
const FROM_WITHIN: &[&str] = &["--hz", "997"];
const FROM_OUTSIDE: &[&str] = &["--clock", "wall", "--hz", "400"];

/// Runs it without damage to it.
fn unharmed(options: &[&str], java: &Path, classes: &Path, words: &[&str]) -> Run {
    let mut command = vec![java.to_str().expect("a path"), "-cp", classes.to_str().expect("a path")];
    command.extend(words);
    let r = run(options, &command);
    if r.unharmed() != "done\n" {
        harm(&format!("{words:?}: {}{}", r.stdout(), r.stderr()));
    }
    r
}

/// What stacks with all of these functions weigh, and how much of that is whole.
fn weight_through(stacks: &str, functions: &[&str]) -> (f64, f64) {
    let (mut all, mut whole) = (0.0, 0.0);
    for line in stacks.lines().filter(|line| functions.iter().all(|function| line.contains(function))) {
        let weight = line.rsplit(' ').next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
        all += weight;
        if !line.contains("<truncated") {
            whole += weight;
        }
    }
    (all, whole)
}

/// Four functions of one program do 1, 2, 4 and 8 parts of the same work, inlined or not.
#[test]
fn functions_have_their_shares_and_callers_under_each_collector_and_compiler() {
    let test = "functions_have_their_shares_and_callers_under_each_collector_and_compiler";
    let Some((java, classes)) = compiled_or_skip("Truth.java", test) else { return };
    let manners =
        ["-XX:+UseG1GC", "-XX:+UseSerialGC", "-XX:+UseParallelGC", "-Xint", "-XX:TieredStopAtLevel=1"];
    for manner in manners.into_iter().chain(["-XX:+UseZGC", "-XX:+UseShenandoahGC"]) {
        let is_there = Command::new(&java).args([manner, "-version"]).output().expect("Java runs");
        if !is_there.status.success() {
            pct_tests::skip(test, &format!("this Java has no {manner}"));
            continue;
        }
        let r = unharmed(FROM_WITHIN, &java, classes.path(), &[manner, "Truth", "1500", "2"]);
        have_their_shares(&r, manner);
    }
}

/// The same functions, read from outside of the program: of threads that are stopped for it and, where they wait for a
/// processor or a lock, of threads that are not.
#[test]
fn functions_have_their_shares_and_callers_from_outside() {
    let test = "functions_have_their_shares_and_callers_from_outside";
    let Some((java, classes)) = compiled_or_skip("Truth.java", test) else { return };
    for manner in ["-XX:+UseG1GC", "-Xint", "-XX:TieredStopAtLevel=1"] {
        let r = unharmed(FROM_OUTSIDE, &java, classes.path(), &[manner, "Truth", "1500", "2"]);
        have_their_shares(&r, manner);
    }
}

/// The four functions of `Truth.java` have 1, 2, 4 and 8 parts of their time, and whole stacks.
fn have_their_shares(r: &Run, manner: &str) {
    let stacks = folded(&r.dir);
    // (The thread that the JVM begins in, and one that the program makes.)
    let (all, whole) = weight_through(&stacks, &["Truth.loop"]);
    assert!(all > 100.0 && whole > 0.95 * all, "{manner}: {whole} of {all} whole: {}", r.stderr());
    let parts: Vec<f64> = [1, 2, 4, 8]
        .map(|n| weight_through(&stacks, &["Truth.round;", &format!("Truth$F{n}.run;Truth$F{n}.f{n}")]).0)
        .into();
    let sum: f64 = parts.iter().sum();
    for (part, due) in parts.iter().zip([1.0, 2.0, 4.0, 8.0]) {
        let due = due / 15.0;
        let spread = 5.0 * (due * (1.0 - due) / sum).sqrt();
        assert!((part / sum - due).abs() < spread, "{manner}: {parts:?}: {}", r.stderr());
    }
}

/// Threads that wait, each in one way, have the methods that they wait in, and their callers up to the thread's begin.
/// Nobody stops them for it.
#[test]
fn threads_that_wait_do_so_in_their_methods() {
    let test = "threads_that_wait_do_so_in_their_methods";
    let Some((java, classes)) = compiled_or_skip("Waits.java", test) else { return };
    let r = unharmed(FROM_OUTSIDE, &java, classes.path(), &["Waits", "1500"]);
    let stacks = folded(&r.dir);
    let ways = [
        ("Waits.sleeps;java.lang.Thread.sleep", ""),
        ("Waits.parks;java.util.concurrent.locks.LockSupport.parkNanos", "[waits: futex]"),
        ("Waits.locks;", "ObjectMonitor::enter"),
        ("Waits.waits;java.lang.Object.wait", "[waits: futex]"),
        ("Waits.joins;java.lang.Thread.join", "[waits: futex]"),
        ("Waits.reads;java.", "[waits: read pipe]"),
    ];
    for (methods, below) in ways {
        let (all, whole) = weight_through(&stacks, &["java.lang.Thread.run;", methods, below]);
        // 600 ticks of the 1.5 s.
        assert!(all > 300.0 && whole == all, "{methods}: {whole} of {all} whole: {stacks}");
    }
}

/// The first Java that can compile a victim: the one by which others are found is often an older one.
fn newer_victim(source: &str) -> Option<(PathBuf, tempfile::TempDir)> {
    let classes = tempfile::tempdir().expect("a folder");
    let source = root().join("tests/victims").join(source);
    let installed = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().filter_map(Result::ok);
    let mut programs: Vec<PathBuf> = installed.map(|entry| entry.path().join("bin")).collect();
    programs.sort();
    let can_compile = |folder: &PathBuf| {
        let compiled = Command::new(folder.join("javac")).arg("-d").arg(classes.path()).arg(&source).output();
        compiled.is_ok_and(|done| done.status.success())
    };
    Some((programs.into_iter().find(can_compile)?.join("java"), classes))
}

/// A virtual thread's frames are on the stack of the thread that carries it. After a wait only the innermost are: what
/// lies between is named.
#[test]
fn stacks_of_virtual_threads_lead_to_what_carries_them() {
    let Some((java, classes)) = newer_victim("VirtualThreads.java") else {
        let test = "stacks_of_virtual_threads_lead_to_what_carries_them";
        return pct_tests::skip(test, "no Java here has virtual threads (21 and later)");
    };
    let entry = "Continuation.run;jdk.internal.vm.Continuation.enterSpecial;";
    let heap = format!("{entry}[callers in the heap];VirtualThreads.waits;VirtualThreads.work");
    let runs = format!("{entry}jdk.internal.vm.Continuation.enter;");
    for (word, callers) in [("works", &runs), ("waits", &heap)] {
        let r = unharmed(FROM_WITHIN, &java, classes.path(), &["VirtualThreads", word]);
        let stacks = folded(&r.dir);
        let (all, _) = weight_through(&stacks, &["VirtualThreads.work"]);
        let (led, whole) = weight_through(&stacks, &[callers, "VirtualThreads.work"]);
        assert!(
            all > 100.0 && led > 0.8 * all && whole > 0.95 * led,
            "{word}: {whole}, {led} of {all}: {stacks}"
        );
    }
}

/// The virtual machine is found when it is up, and not when the sampler looks at the mappings next: a program may have
/// ended by then.
#[test]
fn programs_that_end_soon_have_names() {
    let Some((java, classes)) = compiled_or_skip("Truth.java", "programs_that_end_soon_have_names") else {
        return;
    };
    let (mut all, mut nameless) = (0.0, 0.0);
    for _ in 0..6 {
        let r = unharmed(FROM_WITHIN, &java, classes.path(), &["Truth", "200", "1"]);
        let stacks = folded(&r.dir);
        all += weight_through(&stacks, &["jni_CallStaticVoidMethod"]).0;
        nameless += weight_through(&stacks, &["jni_CallStaticVoidMethod", ";[no name]"]).0;
        // A walk through code of which nothing is known may have ended in it.
        nameless += weight_through(&stacks, &["<truncated", ";[no name]"]).0;
    }
    println!("{nameless} of {all} nameless");
    assert!(all > 100.0 && nameless < 0.05 * all, "{nameless} of {all} nameless");
}

/// Each lives for less time than passes between two looks of the sampler at the mappings.
#[test]
fn stacks_of_short_threads_are_whole() {
    let Some((java, classes)) = compiled_or_skip("ShortThreads.java", "stacks_of_short_threads_are_whole")
    else {
        return;
    };
    let r = unharmed(FROM_WITHIN, &java, classes.path(), &["ShortThreads", "200"]);
    let (all, whole) = weight_through(&folded(&r.dir), &["ShortThreads.work"]);
    assert!(all > 100.0 && whole > 0.95 * all, "{whole} of {all} whole: {}", r.stderr());
}
