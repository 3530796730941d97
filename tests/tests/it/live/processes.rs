//! Every process of a run is seen: forks, vforks, spawns, exec chains, short lives.

use pct_kit::harm::{ended_with, harm, unharmed};
use pct_tests::pct::{report, run, seconds_in, seconds_in_kernel, whole_report};
use pct_tests::victims::{truth, victim};
use pct_tests::{skip, tool_or_skip};

#[test]
fn the_whole_tree_is_followed() {
    let victim = victim("forktree.c");
    let r = run(&["--hz", "1000"], &[victim.to_str().unwrap()]);
    ended_with(r.output.status, 7, &r.stderr());
    let rows = r.report(&["--by", "function"]);
    let kernel = seconds_in_kernel(&rows);
    for (name, spent) in truth(&r.stdout()) {
        let seen = seconds_in(&rows, &name);
        // The thread's clock, which is the truth here, runs on in interrupts and while a loaded host runs
        // somebody else: that part is the kernel's.
        let fits = seen < 1.1 * spent && seen + kernel > 0.9 * spent;
        assert!(fits, "{name}: {seen:.3} s seen, {kernel:.3} in the kernel, {spent:.3} spent");
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
    let spent = truth(&unharmed(&r.output))[0].1;
    let seen = seconds_in(&r.report(&["--by", "function"]), "link_of_chain");
    assert!((seen / spent - 1.0).abs() < 0.1, "{seen:.3} s seen, {spent:.3} spent");
}

#[test]
fn short_lives_are_counted_without_bias() {
    let victim = victim("short.c");
    let r = run(&["--hz", "100"], &[victim.to_str().unwrap(), "500", "4"]);
    if unharmed(&r.output) != "bad 0\n" {
        harm(&r.stdout());
    }
    assert!(r.stderr().contains(" processes without a sample: "), "{}", r.stderr());
    // 500 processes of 4 ms each in one function, less than half of which get a sample; about 200 samples: 4
    // sigma are 28 %. (At higher rates the making of the file, at a process's first sample, is a part of what
    // so short a process spends.)
    let seen = seconds_in(&r.report(&["--by", "function"]), "short_lived");
    assert!((seen / 2.0 - 1.0).abs() < 0.32, "{seen:.3} s seen, 2.000 spent");
    // Two samples of user time are a whole period apart, also where the first came soon: none of them can have two. (A
    // few may, in which a loaded host ran somebody else; the first of all makes the others.)
    let of_function = r.report(&["--by", "process", "--focus", "^short_lived$"]);
    let twice = of_function.iter().filter(|p| p.samples > 1.5).count();
    assert!(twice <= 6, "{twice} of 500 processes that ran for half a period have two samples");
}

#[test]
fn the_table_of_short_processes_sums_to_what_the_kernel_counted() {
    // `times`, the last thing that runs: the shell's own user and system time, then its children's.
    let r = run(&["--no-report"], &["bash", "-c", "for i in $(seq 400); do /bin/true; done; times"]);
    unharmed(&r.output);
    let seconds = |text: &str| {
        let (minutes, seconds) = text.trim_end_matches('s').split_once('m').expect("1m2.345s");
        minutes.parse::<f64>().expect("minutes") * 60.0 + seconds.parse::<f64>().expect("seconds")
    };
    let truth: f64 = r.stdout().split_whitespace().map(seconds).sum();
    let rows = whole_report(&r.dir, &[]);
    let table: f64 = rows.iter().map(|row| row.cpu_seconds).sum();
    // The shell's own end comes after its last word; `times` counts in ticks of up to 10 ms.
    let fits = table > truth - 0.04 && table < truth * 1.02 + 0.04;
    assert!(fits, "{table:.3} s in the table, {truth:.3} by the kernel: {rows:?}");
    // Nearly all of what `true` does happens before its main.
    assert!(seconds_in(&rows, "[start]") > 0.2 * truth, "{truth:.3} s: {rows:?}");
    let by_command = whole_report(&r.dir, &["--by", "command"]);
    let of = |name: &str| by_command.iter().filter(|row| row.process == name).count();
    assert_eq!((of("true"), of("bash")), (1, 1), "{by_command:?}");
    assert!(
        report(&r.dir, &["--by", "process"]).len() < 400,
        "processes without a sample have no rows of their own"
    );
}

#[test]
fn a_child_that_cannot_come_to_the_folder_is_named() {
    let victim = victim("rooted.c");
    let r = run(&["--hz", "1000"], &[victim.to_str().unwrap()]);
    if r.output.status.code() == Some(77) {
        return skip("a_child_that_cannot_come_to_the_folder_is_named", "only root may change its root");
    }
    assert!(r.output.status.success(), "{}", r.stderr());
    let child = r.stdout().trim().strip_prefix("child ").expect("its pid").to_owned();
    let said = format!("children that left neither samples nor a word of why: process {child}");
    assert!(r.stderr().contains(&said), "{}", r.stderr());
    assert!(!r.stderr().contains("nothing lost"), "{}", r.stderr());
}

#[test]
fn a_process_that_left_no_sample_has_a_reason_that_was_measured() {
    // Its file is taken away.
    let script = "import glob, os, time\n\
                  def burn(s):\n  t = time.process_time() + s\n  while time.process_time() < t: sum(range(1000))\n\
                  burn(0.2)\n\
                  [os.unlink(f) for f in glob.glob('recording/*.pct')]\n\
                  burn(0.2)\n";
    if tool_or_skip("python3", "a_process_that_left_no_sample_has_a_reason_that_was_measured").is_some() {
        let r = run(&["--hz", "1000"], &["python3", "-c", script]);
        assert!(r.output.status.success(), "{}", r.stderr());
        assert!(
            r.stderr().contains("its file was removed or renamed while it was written"),
            "{}",
            r.stderr()
        );
        assert!(
            r.stderr().contains("no samples: ") && r.stderr().contains("the cause is above"),
            "{}",
            r.stderr()
        );
    }
    let r = run(&[], &["true"]);
    let few = r.stderr().contains("too little for a sample") || r.stderr().contains(" samples at ");
    assert!(few || r.stderr().contains(" sample at "), "{}", r.stderr());
}

#[test]
fn what_ran_before_pct_in_its_process_is_not_the_programs() {
    // As under `cargo run`, which builds with children of its own and then becomes pct.
    let keep = tempfile::tempdir().expect("a temporary folder");
    let script = "\"$1\" 1 0.2; times >&2; exec \"$0\" run --out r -- true";
    let mut out = std::process::Command::new("sh");
    out.arg("-c").arg(script).arg(pct_tests::pct::binary()).arg(victim("shares.c")).current_dir(keep.path());
    let stderr = String::from_utf8_lossy(&out.output().expect("sh can be run").stderr).into_owned();
    // `times`: the shell's own user and system time, then its children's, as 0m1.234s.
    let seconds = |text: &str| {
        let (minutes, seconds) = text.trim_end_matches('s').split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    let before =
        stderr.lines().nth(1).and_then(|l| seconds(l.split_whitespace().next()?)).expect("children's time");
    assert!(before > 0.05, "the shell's child did work: {stderr}");
    let said =
        stderr.split(" CPU s").next().filter(|said| said.len() < stderr.len()).expect("the closing line");
    let said: f64 = said.split_whitespace().next_back().and_then(|n| n.parse().ok()).expect("seconds");
    assert!(said < before / 2.0, "{before} s before, {said} s said of `true`");
}

#[test]
fn the_status_is_the_commands() {
    use std::os::unix::process::ExitStatusExt;
    let status = |c: &[&str]| run(&["--no-report"], c).output.status;
    ended_with(status(&["sh", "-c", "exit 3"]), 3, "");
    assert_eq!(status(&["/nonexistent/program"]).code(), Some(127));
    assert_eq!(status(&["/etc/passwd"]).code(), Some(126));
    for (name, number) in [("TERM", 15), ("KILL", 9)] {
        let ended = status(&["sh", "-c", &format!("kill -{name} $$")]);
        if ended.signal() != Some(number) {
            harm(&format!("SIG{name} ended it with {ended}"));
        }
    }
}

#[test]
fn nothing_is_ever_written_to_stdout() {
    let r = run(&[], &["printf", "exactly this"]);
    if unharmed(&r.output) != "exactly this" {
        harm(&r.stdout());
    }
}
