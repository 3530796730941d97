//! Every process of a run is seen: forks, vforks, spawns, exec chains, short lives.

use pct_tests::pct::{run, seconds_in};
use pct_tests::victims::{truth, victim};

#[test]
fn the_whole_tree_is_followed() {
    let victim = victim("forktree.c");
    let r = run(&["--hz", "1000"], &[victim.to_str().unwrap()]);
    assert_eq!(r.output.status.code(), Some(7), "{}", r.stderr());
    let rows = r.report(&["--by", "function"]);
    for (name, spent) in truth(&r.stdout()) {
        let seen = seconds_in(&rows, &name);
        assert!((seen / spent - 1.0).abs() < 0.1, "{name}: {seen:.3} s seen, {spent:.3} spent");
    }
    let by_process = r.report(&["--by", "process"]);
    assert_eq!(by_process.len(), 5, "parent, two children, grandchild, spawned: {by_process:?}");
}

#[test]
fn an_exec_chain_is_one_pid_and_four_images() {
    exec_chain(&[]);
}

#[test]
fn an_exec_with_a_cleaned_environment_is_followed() {
    exec_chain(&["clean"]);
}

fn exec_chain(more: &[&str]) {
    let victim = victim("execchain.c");
    let command: Vec<&str> = [victim.to_str().unwrap(), "3"].iter().chain(more).copied().collect();
    let r = run(&["--hz", "1000"], &command);
    assert!(r.output.status.success(), "{}", r.stderr());
    let spent = truth(&r.stdout())[0].1;
    let seen = seconds_in(&r.report(&["--by", "function"]), "link_of_chain");
    assert!((seen / spent - 1.0).abs() < 0.1, "{seen:.3} s seen, {spent:.3} spent");
}

#[test]
fn short_lives_are_counted_without_bias() {
    let victim = victim("short.c");
    let r = run(&["--hz", "100"], &[victim.to_str().unwrap(), "500", "4"]);
    assert!(r.output.status.success(), "{}", r.stderr());
    assert!(r.stdout().contains("bad 0"));
    // 500 processes of 4 ms each in one function, less than half of which get a sample; about 200 samples: 4 sigma are 28 %.
    // (At higher rates the making of the file, at a process's first sample, is a part of what so short a process spends.)
    let seen = seconds_in(&r.report(&["--by", "function"]), "short_lived");
    assert!((seen / 2.0 - 1.0).abs() < 0.32, "{seen:.3} s seen, 2.000 spent");
}

#[test]
fn the_status_is_the_commands() {
    let status = |c: &[&str]| run(&["--no-report"], c).output.status;
    assert_eq!(status(&["sh", "-c", "exit 3"]).code(), Some(3));
    assert_eq!(status(&["/nonexistent/program"]).code(), Some(127));
    assert_eq!(status(&["/etc/passwd"]).code(), Some(126));
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(status(&["sh", "-c", "kill -TERM $$"]).signal(), Some(15));
    assert_eq!(status(&["sh", "-c", "kill -KILL $$"]).signal(), Some(9));
}

#[test]
fn nothing_is_ever_written_to_stdout() {
    let r = run(&[], &["printf", "exactly this"]);
    assert_eq!(r.stdout(), "exactly this");
}
