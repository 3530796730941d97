//! Filters on system calls that would end the program at our first signal: it lives, and what can be sampled is.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use pct_format::record::Frame;
use pct_format::{File, Index, Stack};

use crate::run::{Run, about, compiled};

/// Status of a mode that this machine or user cannot have.
const NOT_HERE: i32 = 77;

fn run(mode: &str) -> Option<Run> {
    static PROGRAM: OnceLock<Option<std::path::PathBuf>> = OnceLock::new();
    let program: &Path = PROGRAM.get_or_init(|| compiled("filters")).as_deref()?;
    // Often, so that a signal comes at each instant of it.
    let run = Run::new(program, &[mode], "hz=4000", |_| ());
    if run.output.status.code() == Some(NOT_HERE) {
        pct_kit::skip("no filters on system calls here");
        return None;
    }
    Some(run.ok())
}

/// CPU seconds in the recording of the program with this argument.
fn seconds(run: &Run, mode: &str) -> f64 {
    let files = run.files();
    files.iter().filter(|a| a.argv.get(1).is_some_and(|a| a == mode)).map(|a| a.user + a.system).sum()
}

#[test]
fn a_filter_that_forbids_the_return_from_handlers_ends_the_sampling_before() {
    for mode in ["prctl", "syscall"] {
        let Some(run) = run(mode) else { return };
        about(seconds(&run, mode), 0.2);
        assert!(
            run.status_lines().contains("forbids the return from a signal handler"),
            "{}",
            run.status_lines()
        );
    }
}

#[test]
fn a_filter_that_nobody_sees_finds_no_signal_of_ours() {
    let Some(run) = run("instruction") else { return };
    about(seconds(&run, "instruction"), 0.2);
    assert!(run.status_lines().contains("gives up new privileges"), "{}", run.status_lines());
}

#[test]
fn under_a_filter_that_lets_handlers_return_sampling_goes_on() {
    let Some(run) = run("allows") else { return };
    about(seconds(&run, "allows"), 0.5);
    // Under it the unwind data of the C library cannot be copied any more: they were before.
    let file = run.only_file();
    let bytes = std::fs::read(&file.path).expect("readable");
    let file = File::parse(&bytes).expect("a whole header");
    let index = Index::new(&file);
    let samples = index.threads.iter().flat_map(|thread| index.samples(thread));
    let mut stacks = BTreeMap::<&str, usize>::new();
    for sample in samples {
        let Stack::Id(id) = sample.stack else { continue };
        let cut = index.stacks.frames(id).find_map(|frame| match frame {
            Frame::Cut(cause) => Some(cause.name()),
            _ => None,
        });
        *stacks.entry(cut.unwrap_or("whole")).or_default() += 1;
    }
    let cut: usize = stacks.iter().filter(|(cause, _)| **cause != "whole").map(|(_, n)| n).sum();
    assert!(stacks.get("whole").is_some_and(|whole| *whole > 500) && cut < 50, "{stacks:?}");
}

#[test]
fn under_limits_on_files_sampling_goes_on() {
    let Some(run) = run("landlock") else { return };
    about(seconds(&run, "landlock"), 0.5);
}

#[test]
fn a_question_about_filters_is_no_filter() {
    let Some(run) = run("question") else { return };
    about(seconds(&run, "question"), 0.2);
    about(seconds(&run, "under"), 0.3);
    assert_eq!(run.status_lines(), "");
}

#[test]
fn a_program_executed_under_a_filter_that_would_kill_a_start_lives() {
    let Some(run) = run("exec") else { return };
    about(seconds(&run, "exec"), 0.2);
    assert_eq!(seconds(&run, "under"), 0.0);
    assert!(
        run.status_lines().contains("what it executes from then on is not sampled"),
        "{}",
        run.status_lines()
    );
}
