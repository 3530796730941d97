//! A profiled program prints, exits, waits and handles signals as it would have without us.

use pct_kit::Dice;
use pct_kit::harm::{ended_with, harm, same_as_bare, unharmed};
use pct_tests::pct::{Run, binary, run, samples, seconds_in, whole_report};
use pct_tests::victims::{truth, victim, victim_with};
use pct_tests::{skip, tool_or_skip};
use std::process::Command;

/// The guest ended well and said these words.
fn said(r: &Run, words: &str) {
    if !unharmed(&r.output).contains(words) {
        harm(&format!("not {words:?}: {}{}", r.stdout(), r.stderr()));
    }
}

fn seen_within(r: &Run, function: &str, tolerance: f64) {
    let spent = truth(&r.stdout()).into_iter().find(|t| t.0 == function).expect("the victim counts it").1;
    let seen = seconds_in(&r.report(&["--by", "function"]), function);
    assert!((seen / spent - 1.0).abs() < tolerance, "{function}: {seen:.3} s seen, {spent:.3} spent");
}

#[test]
fn signal_heavy_programs_get_all_their_signals() {
    let victim = victim("signals.c");
    let r = run(&["--hz", "1000"], &[victim.to_str().unwrap()]);
    said(&r, "users all alarms many");
    seen_within(&r, "burning", 0.1);
}

#[test]
fn waiting_calls_get_no_eintr_that_the_bare_program_did_not_get() {
    let victim = victim("signals.c");
    for mode in ["log", "counts"] {
        let r = run(&["--hz", "1000", "--mode", mode], &[victim.to_str().unwrap(), "quiet"]);
        said(&r, "eintr 0\n");
    }
}

#[test]
fn a_program_with_its_own_profiling_keeps_it() {
    let victim = victim("ownprof.c");
    for clock in ["auto", "thread", "itimer"] {
        let r = run(&["--clock", clock], &[victim.to_str().unwrap()]);
        said(&r, "handler own interval 10000 ticks right");
    }
}

#[test]
fn all_signals_blocked_with_a_tiny_queue_limit() {
    let victim = victim("blockall.c");
    let shell = format!("ulimit -i 50; exec {}", victim.display());
    let r = run(&["--hz", "1000"], &["bash", "-c", &shell]);
    unharmed(&r.output);
    seen_within(&r, "open_again", 0.15);
}

#[test]
fn a_careful_daemon_lives_and_is_seen() {
    let victim = victim("daemon.c");
    for how in ["plain", "chroot"] {
        let r = run(&["--hz", "1000"], &[victim.to_str().unwrap(), how]);
        ended_with(r.output.status, 5, &format!("{how}: {}", r.stderr()));
        seen_within(&r, "behind_the_filter", 0.15);
    }
}

#[test]
fn file_size_limits_hurt_nobody() {
    let victim = victim("shares.c");
    let shell = format!("ulimit -f 16; exec {} 2 0.5", victim.display());
    let r = run(&["--hz", "4000"], &["bash", "-c", &shell]);
    unharmed(&r.output);
    assert_eq!(truth(&r.stdout()).len(), 4);
}

#[test]
fn few_descriptors_hurt_nobody() {
    let victim = victim("shares.c");
    let shell = format!("ulimit -n 16; exec {} 12 1", victim.display());
    let r = run(&["--hz", "1000"], &["bash", "-c", &shell]);
    unharmed(&r.output);
    seen_within(&r, "alpha", 0.15);
}

#[test]
fn musl_programs_work_too() {
    if tool_or_skip("musl-gcc", "musl_programs_work_too").is_none() {
        return;
    }
    let victim = victim_with("shares.c", "musl-gcc -O2 -pthread", "shares-musl").expect("musl-gcc builds it");
    let r = run(&["--hz", "1000"], &[victim.to_str().unwrap(), "2", "0.8"]);
    unharmed(&r.output);
    // about 600 samples: 4 sigma are 16 %
    seen_within(&r, "alpha", 0.18);
}

#[test]
fn churn_does_not_hang() {
    let (victim, plugin) = (victim("churn.cpp"), victim("plugin.c"));
    let seconds = std::env::var("PCT_TEST_CHURN_SECONDS").unwrap_or_else(|_| "4".into());
    let limit = (seconds.parse::<u32>().expect("a number") + 60).to_string();
    let script = "timeout \"$@\"; status=$?; times; exit $status";
    let program = [victim.to_str().unwrap(), plugin.to_str().unwrap(), &seconds];
    let r = run(&["--hz", "4000"], &[&["bash", "-c", script, "bash", &limit][..], &program].concat());
    said(&r, "thrown some loaded some walked some");
    // Many threads wait for each other's locks in there, and what of their time is the kernel's has no part in this.
    let (spent, samples) = (children_user_seconds(&r.stdout()), samples(&r.report(&[])));
    assert!(samples > 0.25 * 4000.0 * spent, "{samples} samples of {spent} CPU s");
}

/// User CPU seconds of the children by the last line of the shell's `times` (`0m0.120s 0m0.004s`).
fn children_user_seconds(times: &str) -> f64 {
    let word = times.lines().last().and_then(|line| line.split(' ').next()).expect("two lines of times");
    let (minutes, seconds) = word.trim_end_matches('s').split_once('m').expect("minutes and seconds");
    60.0 * minutes.parse::<f64>().unwrap() + seconds.parse::<f64>().unwrap()
}

/// The same command bare and under pct gives the same bytes and status.
fn as_bare(command: &[&str]) {
    if tool_or_skip(command[0], "as_bare").is_none() {
        return;
    }
    let bare = Command::new(command[0]).args(&command[1..]).output().expect("it runs");
    let r = run(&["--no-report"], command);
    if r.output.stdout.len() + bare.stdout.len() < 1000 {
        same_as_bare(&r.output, &bare);
    } else if r.output.status != bare.status || r.output.stdout != bare.stdout {
        harm(&format!("{command:?}: {}, bare {}, or another output", r.output.status, bare.status));
    }
}

#[test]
fn real_programs_print_what_they_print_bare() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("numbers");
    let mut dice = Dice::new(12345);
    let text: String = (0..400_000).map(|_| format!("{}\n", dice.below(1 << 24))).collect();
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    as_bare(&["gzip", "-9c", file]);
    as_bare(&["xz", "-1c", "-T2", file]);
    as_bare(&["sort", "-n", "--parallel=2", file]);
    as_bare(&["timeout", "600", "sort", file]);
    as_bare(&["timeout", "0.3", "sh", "-c", "while :; do :; done"]);
    as_bare(&["perl", "-e", "my $x=0; $x+=$_*$_ for 1..3000000; print $x"]);
    as_bare(&["python3", "-c", "print(sum(i*i for i in range(2000000)))"]);
    as_bare(&[
        "sqlite3",
        ":memory:",
        "with recursive c(x) as (select 1 union all select x+1 from c where x<500000) select sum(x*x) from c;",
    ]);
}

#[test]
fn a_programs_map_does_not_grow_by_its_libraries() {
    let test = "a_programs_map_does_not_grow_by_its_libraries";
    if tool_or_skip("python3", test).is_none() {
        return;
    }
    let script = "import ctypes, json, ssl, decimal, sqlite3, lzma, bz2, socket, time\n\
                  while time.process_time() < 0.4: sum(i * i for i in range(30000))\n\
                  print(len(open('/proc/self/maps').readlines()))";
    let lines = |out: &str| out.trim().parse::<i64>().ok();
    let bare = Command::new("python3").args(["-c", script]).output().expect("it runs");
    let Some(bare) = lines(&String::from_utf8_lossy(&bare.stdout)) else {
        return skip(test, "this python3 lacks modules");
    };
    let r = run(&["--hz", "1000"], &["python3", "-c", script]);
    let more = lines(&unharmed(&r.output)).expect("it prints a number") - bare;
    assert!(samples(&r.report(&[])) > 200.0, "{}", r.stderr());
    assert!(more < 30, "{more} mappings more than the {bare} of the bare program");
}

#[test]
fn python_is_named_by_function() {
    if tool_or_skip("python3", "python_is_named_by_function").is_none() {
        return;
    }
    let r = run(&["--hz", "1000"], &["python3", "-c", "print(sum(i*i for i in range(8000000)))"]);
    unharmed(&r.output);
    let rows = r.report(&["--by", "function"]);
    let total: f64 = rows.iter().map(|r| r.cpu_seconds).sum();
    let named: f64 = rows.iter().filter(|r| !r.function.starts_with("0x")).map(|r| r.cpu_seconds).sum();
    assert!(named / total > 0.9, "{named:.3} of {total:.3} s have a name: {rows:?}");
}

#[test]
fn static_programs_run_and_the_cause_is_said_once() {
    let made = victim_with("shares.c", "cc -O2 -static -pthread", "shares-static");
    let Ok(victim) = made else {
        skip("static_programs_run_and_the_cause_is_said_once", "no static libc");
        return;
    };
    let r = run(&[], &[victim.to_str().unwrap(), "1", "0.2"]);
    assert_eq!(truth(&unharmed(&r.output)).len(), 4);
}

#[test]
fn a_bad_option_is_named_and_the_program_runs_on() {
    let lib = Command::new(binary()).args(["lib", "--path"]).output().expect("pct can be run");
    let lib = String::from_utf8(lib.stdout).unwrap();
    for bad in ["mode=sideways", "hz=fast", "colour=red", "hz", "limit=-1"] {
        let out = Command::new("sh")
            .args(["-c", "echo fine"])
            .env("LD_PRELOAD", lib.trim())
            .env("PCT", bad)
            .output()
            .unwrap();
        if unharmed(&out) != "fine\n" {
            harm(&format!("{out:?}"));
        }
        let err = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(err.lines().count(), 1, "{bad}: {err:?}");
        assert!(err.contains(bad.split('=').next().unwrap()), "{bad}: {err:?}");
    }
}

#[test]
fn a_program_with_a_shared_address_sanitizer_runs_and_is_seen() {
    let test = "a_program_with_a_shared_address_sanitizer_runs_and_is_seen";
    let built = victim_with("shares.c", "cc -O1 -pthread -fsanitize=address", "shares-asan");
    let Ok(victim) = built else { return skip(test, "no AddressSanitizer here") };
    // (Leaks are looked for by a tracing thread, which not every sandbox allows; they are not what this is about.)
    let command = ["env", "ASAN_OPTIONS=detect_leaks=0", victim.to_str().unwrap(), "2", "0.3"];
    let bare = Command::new(command[0]).args(&command[1..]).output().expect("it runs");
    if !bare.status.success() {
        return skip(test, "it does not run here by itself");
    }
    let lacks = run(&["--hz", "1000"], &command[2..]);
    if lacks.stderr().contains("LeakSanitizer has encountered a fatal error") {
        return skip(test, "leaks cannot be looked for here");
    }
    assert_eq!(truth(&unharmed(&lacks.output)).len(), 4);
    assert!(samples(&lacks.report(&[])) > 100.0, "{}", lacks.stderr());
}

/// Sampling has to end where a filter on system calls may be set that nobody sees, and so has the process's account of
/// its CPU time. What the kernel counted since has that cause as its name.
#[test]
fn time_under_a_filter_that_nobody_saw_is_named_so() {
    let victim = victim("unseenfilter.c");
    let r = run(&[], &[victim.to_str().unwrap()]);
    ended_with(r.output.status, 5, &r.stderr());
    let spent = truth(&r.stdout()).into_iter().find(|t| t.0 == "filtered_").expect("the victim counts it").1;
    let rows = whole_report(&r.dir, &["--by", "function"]);
    let named = |name: &str| seconds_in(&rows, name);
    let off = named("[sampling off: system call filter]");
    // The kernel's sum has the process's exec and end too.
    assert!(off > 0.9 * spent, "{off:.3} s named, {spent:.3} spent: {rows:?}");
    assert!(rows.iter().all(|row| !row.function.contains("not profiled")), "{rows:?}");
}
