//! Programs without a dynamic linker under `pct run`: the sampler is put into them before their first instruction.

use pct_kit::harm::{ended_with, harm, unharmed};
use pct_tests::pct::{Run, run, seconds_in};
use pct_tests::victims::{truth, victim_with};
use pct_tests::{skip, tool_or_skip};

/// Every function's CPU time is what the program counted itself, which it can only be when nothing from the
/// start on is missing.
fn shares_are_right(test: &str, compiler: &str, flags: &str, name: &str, strip: bool) {
    let victim = match victim_with("shares.c", &format!("{compiler} -O2 -pthread {flags}"), name) {
        Ok(victim) => victim,
        Err(why) => return skip(test, &why),
    };
    let r = run(&["--hz", "997"], &[victim.to_str().unwrap(), "3", "0.6"]);
    unharmed(&r.output);
    assert!(r.stderr().contains("samples at"), "{}", r.stderr());
    let rows = r.report(&["--by", "function"]);
    let threads = r.report(&["--by", "thread"]);
    assert_eq!(threads.len(), 3, "the first thread and those that it made: {threads:?}");
    if strip {
        return; // without names only the sum can be compared
    }
    for (function, spent) in truth(&r.stdout()) {
        let seen = seconds_in(&rows, &function);
        // about 1800 samples in all, at least 110 in the rarest function: 4 sigma are 38 % of it, 7 % of 0.5 s
        let bound = 4.0 * (spent / 997.0).sqrt() + 0.03;
        assert!((seen - spent).abs() < bound, "{function}: {seen:.3} s seen, {spent:.3} s spent");
    }
}

#[test]
fn a_static_program_is_profiled() {
    shares_are_right("a_static_program_is_profiled", "cc", "-static", "shares-static", false);
}

#[test]
fn a_static_pie_program_is_profiled() {
    shares_are_right("a_static_pie_program_is_profiled", "cc", "-static-pie", "shares-static-pie", false);
}

#[test]
fn a_static_musl_program_is_profiled() {
    if tool_or_skip("musl-gcc", "a_static_musl_program_is_profiled").is_some() {
        let test = "a_static_musl_program_is_profiled";
        shares_are_right(test, "musl-gcc", "-static", "shares-musl", false);
    }
}

#[test]
fn a_stripped_static_program_is_profiled() {
    let test = "a_stripped_static_program_is_profiled";
    shares_are_right(test, "cc", "-static -s", "shares-stripped", true);
}

/// Nobody tells us of a thread that a static program makes, and the one that makes it here sleeps until it has ended.
#[test]
fn short_threads_of_a_static_program_are_seen_from_their_birth() {
    let test = "short_threads_of_a_static_program_are_seen_from_their_birth";
    let victim = match victim_with("relay.c", "cc -O2 -pthread -static", "relay-static") {
        Ok(victim) => victim,
        Err(why) => return skip(test, &why),
    };
    let r = run(&["--hz", "997"], &[victim.to_str().unwrap(), "20", "0.05"]);
    unharmed(&r.output);
    let seen: f64 = r.report(&["--by", "function"]).iter().map(|row| row.cpu_seconds).sum();
    let (_, spent) = truth(&r.stdout()).into_iter().next().expect("a truth");
    // a thousand samples: four sigma are an eighth; a thread that is found by chance alone loses all of its
    // twentieth of a second
    assert!((seen - spent).abs() < 0.15 * spent, "{seen:.3} s seen, {spent:.3} s spent\n{}", r.stderr());
    let threads = r.report(&["--by", "thread"]).len();
    assert!(threads >= 20, "{threads} of 20 threads seen");
}

#[test]
fn a_static_child_of_a_dynamic_program_is_named() {
    let test = "a_static_child_of_a_dynamic_program_is_named";
    let victim = match victim_with("shares.c", "cc -O2 -pthread -static", "shares-static") {
        Ok(victim) => victim,
        Err(why) => return skip(test, &why),
    };
    let script = format!("{} 1 0.1; true", victim.display());
    let r = run(&[], &["bash", "-c", &script]);
    unharmed(&r.output);
    assert!(r.stderr().contains("shares-static is a static program"), "{}", r.stderr());
    let r = run(&[], &["bash", "-c", "/bin/true; true"]);
    assert!(!r.stderr().contains("static program"), "{}", r.stderr());
}

fn sh(script: &str) -> Option<Run> {
    let busybox = tool_or_skip("busybox", "static shells")?;
    Some(run(&["--hz", "997"], &[busybox.to_str().unwrap(), "sh", "-c", script]))
}

#[test]
fn a_static_shell_and_what_it_starts_are_profiled_and_its_streams_and_status_stay() {
    let work = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo counted $i; echo aside >&2; ";
    let Some(r) = sh(&format!("{work} gzip -c </proc/self/exe | wc -c; exit 3")) else { return };
    ended_with(r.output.status, 3, &r.stderr());
    if !r.stdout().starts_with("counted 200000\n") {
        harm(&r.stdout());
    }
    assert!(r.stderr().starts_with("aside\n"), "{}", r.stderr());
    let processes = r.report(&["--by", "process"]);
    assert!(processes.iter().any(|p| p.process.contains("busybox")), "{processes:?}");
    assert!(processes.iter().all(|p| p.samples > 0.0));
}

#[test]
fn a_static_program_that_dies_by_a_signal_dies_by_it() {
    use std::os::unix::process::ExitStatusExt;
    let Some(r) = sh("kill -TERM $$") else { return };
    if r.output.status.signal() != Some(15) {
        harm(&format!("SIGTERM ended it with {}: {}", r.output.status, r.stderr()));
    }
}
