//! What a process can do to itself by system calls, most of it by the instruction, which nobody who stands in front of
//! the C library sees: under each clock the program ends and prints as without the sampler.
//!
//! Not here, because they still end or change the program (each by the instruction): handlers for the clocks' signals
//! set or reset (rt_sigaction), the strict mode, dispatch of system calls, a counter that faults.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use pct_kit::harm::harm;

use crate::run::{Run, compiled};

/// Status of a mode that this machine or user cannot have.
const NOT_HERE: i32 = 77;
const CLOCKS: [&str; 4] = ["perf", "sigtrap", "thread", "itimer"];

fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("itself")).as_deref()
}

fn bare(what: &str) -> Option<Output> {
    let bare = Command::new(program()?).arg(what).output().expect("the program starts");
    if bare.status.code() == Some(NOT_HERE) {
        pct_kit::skip(&format!("{what}: not possible here"));
        return None;
    }
    Some(bare)
}

/// Runs it bare and under each clock; gives the runs, by clock.
fn as_bare(what: &str) -> Vec<Run> {
    let Some(bare) = bare(what) else { return Vec::new() };
    let run = |clock: &&str| {
        // Often, so that a signal comes at each instant of it.
        let options = format!("hz=4000,clock={clock}");
        let run = Run::new(program()?, &[what], &options, |_| ());
        let (with, without) = (&run.output, &bare);
        if with.status != without.status || with.stdout != without.stdout || !with.stderr.is_empty() {
            harm(&format!("{what}, clock {clock}: {with:?} and not {without:?}"));
        }
        Some(run)
    };
    CLOCKS.iter().filter_map(run).collect()
}

#[test]
fn in_the_strict_mode_sampling_ends_before() {
    for what in ["strict", "strict_seccomp"] {
        for run in as_bare(what) {
            assert!(
                run.status_lines().contains("the program enters seccomp's strict mode: sampling ends there"),
                "{}",
                run.status_lines()
            );
            assert!(run.only_file().samples > 0);
        }
    }
}

#[test]
fn a_program_that_dispatches_its_system_calls_meets_none_of_ours() {
    for run in as_bare("dispatch") {
        assert!(run.status_lines().contains("DISPATCH): sampling ends there"), "{}", run.status_lines());
        assert!(run.only_file().samples > 0);
    }
}

#[test]
fn a_filter_does_not_bring_handlers_back_that_could_not_read_the_counter() {
    for run in as_bare("without_counter") {
        assert!(run.only_file().samples > 0);
    }
}

#[test]
fn a_stack_that_handlers_may_not_read_is_not_read() {
    for run in as_bare("stack_without_rights") {
        assert!(run.only_file().samples > 0);
    }
}

#[test]
fn system_calls_from_code_that_may_only_be_executed_are_system_time() {
    for run in as_bare("execute_only") {
        assert!(run.only_file().system > 0.02, "{:#?}", run.files());
    }
}

#[test]
fn what_it_does_to_its_files_is_its_own_affair() {
    for what in [
        "unshare_files",
        "unshare_places",
        "close_range",
        "close_all",
        "over_files",
        "root_elsewhere",
        "landlock",
        "few_files",
        "short_files",
    ] {
        as_bare(what);
    }
}

#[test]
fn what_it_does_to_its_threads_and_memory_is_its_own_affair() {
    for what in [
        "tid_address",
        "robust_list",
        "personality",
        "no_alternate_stack",
        "not_dumpable",
        "no_memory",
        "no_locked_memory",
        "thrown_away",
        "niceness",
    ] {
        as_bare(what);
    }
}

#[test]
fn what_it_does_to_its_timers_and_signals_is_its_own_affair() {
    for what in ["no_signals_queued", "own_timer", "no_timers", "all_blocked", "events_off"] {
        as_bare(what);
    }
}
