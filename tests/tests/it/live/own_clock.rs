//! The program's own CPU clock is as exact as without pct, and threads that come where pct does not see it are
//! sampled all the same.
//!
//! While a process has a CPU timer of its own, the kernel gives CLOCK_PROCESS_CPUTIME_ID and `clock()` in steps of a
//! tick: 50 to 100 values in 0.2 s instead of some 300,000.

use pct_tests::pct::{binary, run, seconds_in};
use pct_tests::victims::{Guest, victim, victim_with};
use std::path::Path;
use std::process::Command;

/// Values in 200,000 looks at the clock. While it goes in steps there are fewer than a hundred; a tick of that (4 ms)
/// takes 10,000 away.
const EXACT: u64 = 195_000;

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The numbers of the lines `changes N`.
fn changes(said: &str) -> Vec<u64> {
    said.lines().filter_map(|line| line.strip_prefix("changes ")?.parse().ok()).collect()
}

#[track_caller]
fn assert_exact(said: &str, what: &str) {
    let changes = changes(said);
    assert!(changes.len() == 2 && changes.iter().all(|count| *count > EXACT), "{what}: {changes:?}");
}

#[test]
fn the_clock_of_the_process_goes_on_as_without_pct() {
    let victim = victim("ownclock.c");
    for clock in ["perf", "sigtrap", "thread"] {
        for what in ["alone", "threads", "many", "child", "exec"] {
            let r = run(&["--clock", clock], &[text(&victim), what]);
            assert_exact(&r.unharmed(), &format!("{what} by {clock}"));
        }
    }
}

#[test]
fn it_does_so_where_pct_attached() {
    let victim = victim("ownclock.c");
    for method in ["2", "4"] {
        let here = tempfile::tempdir().expect("a folder");
        let mut guest = Guest::started(Command::new(&victim).arg("attached"), "ready");
        let mut attach = Command::new(binary());
        attach.current_dir(here.path()).args(["attach", "--method", method, &guest.id()]);
        let attached = attach.output().expect("pct can be run");
        assert!(attached.status.success(), "{}", String::from_utf8_lossy(&attached.stderr));
        guest.tell("\n");
        let said = [guest.hear("changes"), guest.hear("changes")].concat();
        assert_exact(&said, &format!("method {method}"));
        guest.tell("\n");
        assert!(guest.wait().status.success());
    }
}

#[test]
fn threads_that_nobody_tells_of_are_sampled_while_all_others_sleep() {
    let victim = victim("ownclock.c");
    let plugin = victim_with("ownclock.c", "cc -O2 -shared -fPIC -pthread -DPLUGIN", "ownclock.so");
    let plugin = plugin.expect("it builds");
    let ways = ["deepbind", "clone"];
    // The one by `syscall` begins at an address on its stack.
    let ways = ways.into_iter().chain(cfg!(target_arch = "x86_64").then_some("syscall"));
    for way in ways {
        let r = run(&[], &[text(&victim), way, text(&plugin)]);
        r.unharmed();
        let rows = r.report(&[]);
        // It works for 1.5 s, and is found when the process has used half a second.
        let seen = seconds_in(&rows, "unseen");
        assert!(seen > 0.7, "{way}: {seen} of 1.5 s\n{}\n{rows:?}", r.stderr());
    }
}
