//! Functions of assembly without unwind data have whole and right stacks (`kernels.c`).

use pct_tests::pct::{folded, run};
use pct_tests::victims::{Guest, victim};
use std::path::Path;
use std::process::Command;

/// All of them, as their stacks are from `main` on.
const STACKS: [&str; 19] = [
    "main;call_leaf;k_leaf",
    "main;call_pushes;k_pushes",
    "main;call_aligned;k_aligned",
    "main;call_saved;k_saved",
    "main;call_top;k_top",
    "main;call_inner;k_inner",
    "main;call_inner;k_inner;k_local",
    "main;call_tail;k_tail",
    // Its caller is gone: it has jumped there.
    "main;call_tail;k_end",
    "main;call_middle;k_middle",
    "main;call_red;k_red",
    "main;call_table;k_table",
    "main;call_framed;k_framed",
    // Between two stacks.
    "main;call_across;k_across",
    "main;call_across;k_across;across_there;k_deep",
    "main;call_across;k_across;across_there;k_home",
    "main;call_across;k_across;across_there;k_home;home_there;k_deep",
    "main;call_across;k_across;across_there;k_home;home_there;k_across",
    "main;call_across;k_across;across_there;k_home;home_there;k_across;across_there;k_deep",
];

/// Those that have too few samples to be seen in each run.
const SELDOM: [&str; 5] = ["k_inner", "k_leaf", "k_saved", "k_across", "k_home"];

/// Asserts that the stacks of these functions are theirs.
fn assert_true(recording: &Path, what: &str) {
    let stacks = folded(recording);
    let of_kernels: Vec<&str> = stacks
        .lines()
        .filter_map(|line| Some(line.rsplit_once(' ')?.0))
        .map(|stack| stack.strip_suffix(";[system]").unwrap_or(stack))
        .filter(|stack| stack.rsplit(';').next().is_some_and(|leaf| leaf.starts_with("k_")))
        .collect();
    let is_wrong = |stack: &&&str| {
        let from_main = stack.find(";main;").and_then(|at| stack.get(at + 1..));
        !from_main.is_some_and(|called| STACKS.contains(&called))
    };
    let wrong: Vec<_> = of_kernels.iter().filter(is_wrong).collect();
    assert!(wrong.is_empty(), "{what}: {wrong:#?}");
    let is_missing = |stack: &&&str| {
        let leaf = stack.rsplit(';').next().unwrap_or_default();
        !SELDOM.contains(&leaf) && !of_kernels.iter().any(|seen| seen.ends_with(**stack))
    };
    let missing: Vec<_> = STACKS.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "{what}: {missing:?} not seen in\n{stacks}");
}

#[test]
fn assembly_without_unwind_data_has_whole_stacks() {
    let victim = victim("kernels.c");
    let victim = victim.to_str().expect("UTF-8");
    for clock in ["perf", "sigtrap", "thread", "itimer"] {
        let r = run(&["--no-report", "--clock", clock, "--hz", "1000"], &[victim, "2"]);
        assert_eq!(r.unharmed(), "done\n");
        assert_true(&r.dir, clock);
    }
}

#[test]
fn assembly_without_unwind_data_has_whole_stacks_where_pct_attached() {
    let victim = victim("kernels.c");
    for method in ["4", "6"] {
        let here = tempfile::tempdir().expect("a folder");
        let guest = Guest::start(Command::new(&victim).arg("600"));
        guest.attached(here.path(), &["--method", method, "--hz", "500", "--out", "recording"], 2.0);
        assert_true(&here.path().join("recording"), method);
    }
}

/// A handler that needs more than is there would write below that stack, and end the program. The first thread of a
/// Rust program has 4.8 KB on a machine with registers of 512 bits; others set aside what the kernel asks for and no
/// more.
#[test]
fn it_is_followed_however_small_the_alternate_stack_is() {
    let victim = victim("kernels.c");
    for room in ["4816", "2400", "0"] {
        let here = tempfile::tempdir().expect("a folder");
        let guest = Guest::start(Command::new(&victim).args(["600", room]));
        guest.attached(here.path(), &["--method", "4", "--hz", "2000", "--out", "recording"], 2.0);
        assert_true(&here.path().join("recording"), room);
    }
}
