//! Programs that set filters on system calls (seccomp) while they are sampled: none is harmed, a filter that has
//! nothing against the sampler changes nothing, and what another one keeps from being sampled is named.

use pct_kit::harm::ended_with;
use pct_tests::pct::{Row, Run, binary, folded, run, seconds_in, whole_report};
use pct_tests::victims::{Guest, truth, victim};
use pct_tests::{root, skip, tool_or_skip};
use std::path::Path;
use std::process::Command;

const CLOCKS: [&str; 7] = ["auto", "perf", "sigtrap", "thread", "itimer", "itimer-virtual", "itimer-real"];

/// Runs the program without damage to it.
fn unharmed(options: &[&str], source: &str, words: &[&str]) -> Run {
    let victim = victim(source);
    let command: Vec<&str> =
        [victim.to_str().expect("a path")].into_iter().chain(words.iter().copied()).collect();
    let r = run(&[options, &["--hz", "997"]].concat(), &command);
    assert!(r.output.status.success(), "{options:?}: {:?}, {}", r.output.status, r.stderr());
    r
}

/// What the victim says that it spent in a function.
fn spent(r: &Run, function: &str) -> f64 {
    truth(&r.unharmed()).into_iter().find(|told| told.0 == function).expect("the victim counts it").1
}

/// The filter kills for each call that the program does not make itself, so none of pct's comes, not even in front of a
/// handler of the program's. Or it allows what stops clocks. The program takes all signals, and none of pct's reaches
/// it.
#[test]
fn a_program_under_a_filter_that_kills_has_its_signals_for_itself() {
    for clock in CLOCKS {
        unharmed(&["--clock", clock], "filtersignals.c", &[]);
        unharmed(&["--clock", clock], "filtersignals.c", &["opens"]);
    }
    for clock in ["auto", "itimer"] {
        for more in [&["--stack", "none"][..], &["--mode", "profil"], &["--alloc"], &["--wait"]] {
            unharmed(&[&["--clock", clock], more].concat(), "filtersignals.c", &[]);
        }
    }
}

/// A child of vfork has its parent's memory, but actions of its own.
#[test]
fn what_a_vfork_child_sets_under_a_filter_is_not_its_parents() {
    for clock in ["auto", "perf"] {
        for kind in ["kills", "fails"] {
            unharmed(&["--clock", clock], "filterthreads.c", &[kind, "signal"]);
        }
    }
}

#[test]
fn what_was_spent_after_the_program_took_the_signals_under_a_filter_is_named_so() {
    for words in [&[][..], &["opens"]] {
        let r = unharmed(&[], "filtersignals.c", words);
        let rows = whole_report(&r.dir, &["--by", "function"]);
        assert!(seconds_in(&rows, "before") > 0.5 * 0.2, "{words:?}: {rows:?}");
        let off = seconds_in(&rows, "[sampling off: signal taken by the program]");
        assert!(off > 0.9 * spent(&r, "after"), "{words:?}: {rows:?}");
        assert!(rows.iter().all(|row| !row.function.contains("not profiled")), "{words:?}: {rows:?}");
    }
}

#[test]
fn a_filter_that_lets_the_samplers_calls_pass_changes_nothing() {
    for clock in ["auto", "perf", "thread", "itimer"] {
        let r = unharmed(&["--clock", clock], "filterthreads.c", &["fails"]);
        let rows = whole_report(&r.dir, &["--by", "function"]);
        for function in ["early", "late", "mainly"] {
            assert!(seconds_in(&rows, function) > 0.5 * spent(&r, function), "{clock}: {rows:?}");
        }
        assert!(rows.iter().all(|row| !row.function.contains("filter")), "{clock}: {rows:?}");
        // Not a word of a pause that is over.
        assert!(!r.stderr().contains("privileges"), "{clock}: {}", r.stderr());
    }
}

/// The thread that was there has not been sampled before the filter, so it neither knows its place nor has memory for
/// stacks.
#[test]
fn threads_from_before_a_filter_that_kills_are_sampled_and_those_after_it_are_named() {
    for clock in ["auto", "perf", "thread"] {
        let r = unharmed(&["--clock", clock], "filterthreads.c", &["kills"]);
        let rows = whole_report(&r.dir, &["--by", "function"]);
        for function in ["early", "mainly"] {
            assert!(seconds_in(&rows, function) > 0.5 * spent(&r, function), "{clock}: {rows:?}");
        }
        let late = seconds_in(&rows, "[threads begun under a system call filter]");
        assert!(late > 0.9 * spent(&r, "late"), "{clock}: {rows:?}");
        assert!(rows.iter().all(|row| !row.function.contains("not profiled")), "{clock}: {rows:?}");
        let stacks = folded(&r.dir);
        let of_main = stacks.lines().filter(|line| line.contains("mainly")).collect::<Vec<_>>();
        assert!(
            !of_main.is_empty() && of_main.iter().all(|line| line.contains(";main;mainly")),
            "{clock}: {stacks}"
        );
    }
}

/// A program that gives up new privileges first pauses until its filter is seen: in itself, or in a child that it has
/// forked meanwhile. What a child of vfork sets, which has its parent's memory, ends no pause of its parent's.
#[test]
fn a_pause_ends_where_a_filter_is_seen() {
    for clock in CLOCKS {
        for (how, functions) in [("forks", &["in_the_child", "under_it"][..]), ("vforks", &["under_it"])] {
            let r = unharmed(&["--clock", clock], "pausing.c", &[how]);
            let rows = whole_report(&r.dir, &["--by", "function"]);
            for function in functions {
                let sampled = seconds_in(&rows, function);
                assert!(sampled > 0.5 * spent(&r, function), "{clock} {how}: {rows:?}");
            }
            let silent = rows.iter().filter(|row| row.function.contains("not profiled"));
            let silent = silent.map(|row| row.cpu_seconds).sum::<f64>();
            assert!(silent < 0.1, "{clock} {how}: {rows:?}");
            assert!(!r.stderr().contains("privileges"), "{clock} {how}: {}", r.stderr());
        }
    }
}

/// Nothing can begin in a child that is forked under a filter that kills.
#[test]
fn children_that_are_forked_under_a_filter_that_kills_are_named() {
    let r = unharmed(&[], "pausing.c", &["late"]);
    let rows = whole_report(&r.dir, &["--by", "function"]);
    let named = seconds_in(&rows, "[children begun under a system call filter]");
    assert!(named > 0.9 * spent(&r, "in_the_child"), "{rows:?}");
    assert!(rows.iter().all(|row| !row.function.contains("not profiled")), "{rows:?}");
}

/// There the kernel gives no list of mappings, which says where stacks are. Under the filter nobody can ask for each
/// page.
#[test]
fn stacks_are_whole_under_a_filter_and_another_root_directory() {
    let test = "stacks_are_whole_under_a_filter_and_another_root_directory";
    for clock in ["auto", "perf", "itimer"] {
        let victim = victim("pausing.c");
        let r = run(&["--clock", clock, "--hz", "997"], &[victim.to_str().expect("a path"), "rooted"]);
        if r.output.status.code() == Some(77) {
            return skip(test, "only root may change its root");
        }
        let stacks = folded(&r.dir);
        let below_main = |function: &str| {
            let of_it = stacks.lines().filter(|line| line.contains(function)).collect::<Vec<_>>();
            !of_it.is_empty() && of_it.iter().all(|line| line.contains(&format!(";main;{function}")))
        };
        assert!(
            r.output.status.success() && below_main("before") && below_main("under_it"),
            "{clock}: {stacks}"
        );
    }
}

/// The command of a Python program that sets a filter through libseccomp. `None` without Python or libseccomp; the
/// test says then that it skips.
fn filtered_by_libseccomp(test: &str) -> Option<[String; 2]> {
    let python = tool_or_skip("python3", test)?;
    let script = root().join("tests/victims/libseccomp.py");
    let command = [python, script].map(|path| path.display().to_string());
    let bare = Command::new(&command[0]).arg(&command[1]).output().expect("it runs");
    if !bare.status.success() {
        skip(test, "libseccomp.so.2 is not here, or sets no filter");
        return None;
    }
    Some(command)
}

/// How many threads have most of what each of that program's works.
fn threads_at_work(recording: &Path) -> usize {
    let rows = whole_report(recording, &["--by", "thread"]);
    rows.iter().filter(|row| row.object != "[not sampled]" && row.cpu_seconds > 0.1).count()
}

/// libseccomp asks the kernel first whether there is such a call, by one that is refused (strict mode with flags).
#[test]
fn what_libseccomp_filters_is_sampled_in_new_threads_and_children_too() {
    let test = "what_libseccomp_filters_is_sampled_in_new_threads_and_children_too";
    let Some([python, script]) = filtered_by_libseccomp(test) else { return };
    let r = run(&["--hz", "997"], &[&python, &script]);
    r.unharmed();
    assert_eq!(threads_at_work(&r.dir), 4, "three threads and the child's: {}", r.stderr());
    let rows = whole_report(&r.dir, &["--by", "function"]);
    let filtered = |row: &Row| row.object == "[not sampled]" && row.function.contains("filter");
    assert!(!rows.iter().any(filtered), "{rows:?}");
}

#[test]
fn what_libseccomp_filters_after_an_attach_is_sampled_on() {
    let test = "what_libseccomp_filters_after_an_attach_is_sampled_on";
    let Some([python, script]) = filtered_by_libseccomp(test) else { return };
    for method in ["2", "4"] {
        let folder = tempfile::tempdir().expect("a folder");
        let recording = folder.path().join("recording");
        let mut target = Guest::started(Command::new(&python).args([&script, "waits"]), "started");
        let attach = Command::new(binary())
            .args(["attach", "--method", method, "--hz", "997", "--out"])
            .arg(&recording)
            .arg(target.id())
            .output()
            .expect("pct runs");
        assert!(attach.status.success(), "{method}: {}", String::from_utf8_lossy(&attach.stderr));
        target.tell("go\n");
        ended_with(target.wait().status, 0, method);
        assert!(
            threads_at_work(&recording) >= 3,
            "{method}: {:?}",
            whole_report(&recording, &["--by", "thread"])
        );
    }
}
