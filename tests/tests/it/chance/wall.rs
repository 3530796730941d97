//! The wall clock from outside: where threads wait is seen, and no call of theirs is cut short.

use pct_kit::harm::{ended_with, harm};
use pct_kit::noise::{Shares, draw_on};
use pct_tests::pct::{Row, binary, report, run, samples, samples_in};
use pct_tests::victims::{truth, victim, victim_with};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// Functions on whose stacks the six threads wait or run.
const PLACES: [&str; 5] = ["spins", "epolls", "naps", "waits_for_condition", "receives"];

/// Each thread lives as long as the others, so each has a sixth of the time; and what waits is seen below who waits.
fn six_even_threads(by_thread: &[Row]) -> Shares {
    assert_eq!(by_thread.len(), 6, "{by_thread:?}");
    let seen = by_thread.iter().map(|r| r.cpu_seconds).collect();
    // Threads begin and end some periods apart.
    Shares { truth: vec![1.0; 6], seen, samples: samples(by_thread), beside: 0.03 }
}

fn eintr(stdout: &str) -> &str {
    stdout.lines().find_map(|l| l.strip_prefix("eintr ")).expect("it counts")
}

#[test]
fn a_run_by_the_wall_clock_shows_where_threads_wait_and_cuts_no_call_short() {
    let victim = victim("waits.c");
    draw_on(|times| {
        let r =
            run(&["--clock", "wall", "--hz", "200"], &[victim.to_str().unwrap(), &(2 * times).to_string()]);
        ended_with(r.output.status, 5, &r.stderr());
        if eintr(&r.stdout()) != "0" {
            harm(&r.stdout());
        }
        assert!(r.stderr().contains("wall s in 1 process, 6 threads"), "{}", r.stderr());
        let rows = r.report(&["--by", "function"]);
        // why each waits stands at the leaf
        assert!(rows.iter().any(|r| r.function == "[waits: epoll]"), "{rows:?}");
        six_even_threads(&r.report(&["--by", "thread"]))
    });
}

#[test]
fn stacks_of_waiting_threads_are_whole_with_and_without_frame_pointers() {
    let with = victim_with("waits.c", "cc -O1 -g -fno-omit-frame-pointer -pthread", "waits-fp").unwrap();
    for victim in [victim("waits.c"), with] {
        let r = run(&["--clock", "wall", "--hz", "50"], &[victim.to_str().unwrap(), "1"]);
        ended_with(r.output.status, 5, &r.stderr());
        let tree = Command::new(binary()).args(["report", "--tree"]).arg(&r.dir).output().unwrap();
        let tree = String::from_utf8(tree.stdout).unwrap();
        for place in PLACES {
            assert!(tree.contains(place), "{place} is not in\n{tree}");
        }
        assert!(tree.matches(" epolls ").count() >= 2, "the recursion: {tree}");
        assert!(tree.contains("_start") && tree.contains("__libc_start_main"), "{tree}");
    }
}

#[test]
fn attached_by_the_wall_clock_it_goes_on_as_before() {
    draw_on(|times| {
        let mut child = Command::new(victim("waits.c")).arg("1000").stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut String::new()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("recording");
        let pid = child.id().to_string();
        let attach = Command::new(binary())
            .args(["attach", "--clock", "wall", "--hz", "200", "--for", &(2 * times).to_string(), "--out"])
            .arg(&dir)
            .arg(&pid)
            .output()
            .unwrap();
        Command::new("kill").arg(&pid).status().unwrap();
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        ended_with(child.wait().unwrap(), 5, &rest);
        assert!(attach.status.success(), "{}", String::from_utf8_lossy(&attach.stderr));
        // SIGTERM may end a wait of the thread that it is delivered to
        if eintr(&rest).parse::<u32>().unwrap() > 1 {
            harm(&rest);
        }
        six_even_threads(&report(&dir, &["--by", "thread"]))
    });
}

/// Seen from outside a thread stops on its way out of the kernel, but it is not there all the time.
#[test]
fn a_thread_that_makes_calls_often_is_seen_where_it_computes() {
    let victim = victim("calls.c");
    draw_on(|times| {
        let r =
            run(&["--clock", "wall", "--hz", "500"], &[victim.to_str().unwrap(), &(4 * times).to_string()]);
        let truth = truth(&r.unharmed()).iter().map(|t| t.1).collect();
        let rows = r.report(&["--by", "function"]);
        // Where other programs had the processor the thread was often on its way out of a call. That time is told
        // apart.
        let all = samples(&rows) - samples_in(&rows, "[run queue]");
        let computes = samples_in(&rows, "computes");
        // What a call costs is measured beside the work, where it may be cheaper or dearer.
        Shares { truth, seen: vec![computes, all - computes], samples: all, beside: 0.05 }
    });
}
