//! The wall clock from outside: where threads wait is seen, and no call of theirs is cut short.

use pct_tests::pct::{Row, binary, report, run, samples};
use pct_tests::victims::{victim, victim_with};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// Functions on whose stacks the six threads wait or run.
const PLACES: [&str; 5] = ["spins", "epolls", "naps", "waits_for_condition", "receives"];

/// Each thread lives as long as the others, so each has a sixth of the time; and what waits is seen below who waits.
fn six_even_threads(rows: &[Row], by_thread: &[Row]) {
    assert_eq!(by_thread.len(), 6, "{by_thread:?}");
    let whole: f64 = by_thread.iter().map(|r| r.cpu_seconds).sum();
    for thread in by_thread {
        let share = thread.cpu_seconds / whole;
        // threads begin and end some periods apart
        assert!((share - 1.0 / 6.0).abs() < 0.03, "a share of {share}: {by_thread:?}");
    }
    assert!(samples(rows) > 100.0, "{rows:?}");
}

fn eintr(stdout: &str) -> &str {
    stdout.lines().find_map(|l| l.strip_prefix("eintr ")).expect("it counts")
}

#[test]
fn a_run_by_the_wall_clock_shows_where_threads_wait_and_cuts_no_call_short() {
    let victim = victim("waits.c");
    let r = run(&["--clock", "wall"], &[victim.to_str().unwrap(), "1.5"]);
    assert_eq!(r.output.status.code(), Some(5), "{}", r.stderr());
    assert_eq!(eintr(&r.stdout()), "0", "{}", r.stdout());
    assert!(r.stderr().contains("wall s in 1 process, 6 threads"), "{}", r.stderr());
    let rows = r.report(&["--by", "function"]);
    six_even_threads(&rows, &r.report(&["--by", "thread"]));
    // the waiting functions are the C library's, the spinning one the program's own
    assert!(rows.iter().any(|r| r.function == "[waits: epoll]"), "{rows:?}");
}

#[test]
fn stacks_of_waiting_threads_are_whole_with_and_without_frame_pointers() {
    let with = victim_with("waits.c", "cc -O1 -g -fno-omit-frame-pointer -pthread", "waits-fp").unwrap();
    for victim in [victim("waits.c"), with] {
        let r = run(&["--clock", "wall", "--hz", "50"], &[victim.to_str().unwrap(), "1"]);
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
    let mut child = Command::new(victim("waits.c")).arg("60").stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("recording");
    let pid = child.id().to_string();
    let attach = Command::new(binary())
        .args(["attach", "--clock", "wall", "--for", "1", "--out"])
        .arg(&dir)
        .arg(&pid)
        .output()
        .unwrap();
    assert!(attach.status.success(), "{}", String::from_utf8_lossy(&attach.stderr));
    Command::new("kill").arg(&pid).status().unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
    // SIGTERM may end a wait of the thread that it is delivered to
    assert!(eintr(&rest).parse::<u32>().unwrap() <= 1, "{rest}");
    six_even_threads(&report(&dir, &["--by", "function"]), &report(&dir, &["--by", "thread"]));
}

/// Seen from outside a thread stops on its way out of the kernel, but it is not there all the time.
#[test]
fn a_thread_that_makes_calls_often_is_seen_where_it_computes() {
    let r = run(&["--clock", "wall", "--hz", "500"], &[victim("calls.c").to_str().unwrap(), "1"]);
    assert!(r.output.status.success(), "{}", r.stderr());
    let rows = r.report(&["--by", "function"]);
    // What the kernel's accounts say of the calls themselves: on some virtual machines they take most of the time.
    let said = r.stdout();
    let seconds: Vec<f64> = said.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let computing = 1.0 - seconds[1] / seconds[0];
    // Where other programs had the processor the thread was often on its way out of a call. That time is told apart.
    let ran = rows.iter().filter(|row| row.function != "[run queue]");
    let all: f64 = ran.clone().map(|row| row.cpu_seconds).sum();
    let computes: f64 = ran.filter(|row| row.function == "computes").map(|row| row.cpu_seconds).sum();
    assert!(samples(&rows) > 20.0, "{rows:?}");
    assert!(computes > (computing - 0.15) * all, "{computes} of {all} s, {said}: {rows:?}");
}

/// Greatest resident sizes in KiB of a process and of its children.
fn peaks_of(pct: u32) -> u64 {
    let children = std::fs::read_to_string(format!("/proc/{pct}/task/{pct}/children")).unwrap_or_default();
    let own = std::iter::once(pct.to_string());
    own.chain(children.split_whitespace().map(str::to_owned)).map(|pid| pct_kit::peak_kib(&pid)).sum()
}

/// What is known of a process is given back when it ends.
#[test]
fn two_thousand_short_processes_take_no_more_memory_than_fifty_megabytes() {
    let folder = tempfile::tempdir().unwrap();
    let script = "i=0; while [ $i -lt 2000 ]; do /bin/true; i=$((i+1)); done; echo done; read end";
    let mut run = Command::new(binary())
        .args(["run", "--clock", "wall", "--no-report", "-o"])
        .arg(folder.path().join("recording"))
        .args(["--", "sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    BufReader::new(run.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "done\n");
    // pct, the process that samples, and the shell: all three live until the pipe is closed.
    let peaks = peaks_of(run.id());
    drop(run.stdin.take());
    run.wait().unwrap();
    assert!(peaks > 0 && peaks < 50 << 10, "{peaks} KiB");
    assert!(samples(&report(&folder.path().join("recording"), &["--by", "process"])) > 0.0);
}
