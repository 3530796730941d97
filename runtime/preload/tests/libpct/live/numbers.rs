//! Programs that want the signal numbers that the sampler has: they get them, whole, and are sampled on.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::run::{Run, about, compiled};

/// The compiled programs; `None` without a C compiler.
fn numbers() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("numbers")).as_deref()
}

/// Runs `mode` for each clock's numbers as a fresh process has them; the seconds that were seen of each run.
fn for_each_number(mode: &str) -> Vec<f64> {
    let Some(program) = numbers() else { return Vec::new() };
    let cases = [("perf", 16), ("perf", 61), ("thread", 61), ("sigtrap", 5), ("sigtrap", 61)];
    let run = |(clock, number): (&str, i32)| {
        let options = format!("clock={clock},hz=1000");
        let run = Run::new(program, &[mode, &number.to_string()], &options, |_| ()).ok();
        assert_eq!(run.status_lines(), "", "{mode}: {clock}, {number}");
        run.files().iter().map(|a| a.user + a.system).sum()
    };
    cases.map(run).to_vec()
}

#[test]
fn the_hosts_handler_on_our_number_has_the_hosts_stack() {
    for seen in for_each_number("stack") {
        about(seen, 0.25);
    }
}

#[test]
fn the_hosts_handler_on_our_number_ends_a_read() {
    for_each_number("read");
}

#[test]
fn the_hosts_timers_on_our_number_expire() {
    for_each_number("timers");
}

#[test]
fn the_hosts_descriptor_for_our_number_is_readable() {
    for seen in for_each_number("descriptor") {
        about(seen, 0.15);
    }
}

#[test]
fn signals_that_wait_on_our_number_are_the_hosts_and_none_is_ours() {
    for seen in for_each_number("waiting") {
        // (0.05 s of the 0.2 it blocks the very number.)
        assert!(seen > 0.12 && seen < 0.25, "{seen}");
    }
}

#[test]
fn a_vfork_child_that_sets_its_signals_leaves_its_parent_sampled() {
    for seen in for_each_number("vfork") {
        about(seen, 0.25);
    }
}

#[test]
fn parent_and_child_are_sampled_after_the_host_took_our_number() {
    for seen in for_each_number("fork") {
        about(seen, 0.45);
    }
}

#[test]
fn threads_at_work_while_the_host_takes_every_number_never_meet_a_signal_of_ours() {
    let Some(program) = numbers() else { return };
    for clock in ["perf", "thread", "sigtrap"] {
        Run::new(program, &["back"], &format!("clock={clock},hz=10000"), |_| ()).ok();
    }
}
