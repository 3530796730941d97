//! What happens to the recording of a program that goes on: it is switched off, cut, or the program maps memory of its
//! own over it. No store of pct's may kill the program or change its memory, and each stretch of time has its name.

use pct_kit::harm::{ended_with, harm};
use pct_tests::pct::{Run, report, run, seconds_in, whole_report};
use pct_tests::victims::{truth, values, victim};
use std::process::Command;

/// CPU seconds that the program counted in one of its functions.
fn counted(r: &Run, function: &str) -> f64 {
    truth(&r.stdout()).into_iter().find(|t| t.0 == function).expect("the victim counts it").1
}

/// Asserts that no time is called unknown.
fn all_is_named(r: &Run, what: &str) {
    let rows = whole_report(&r.dir, &["--by", "function"]);
    let unnamed =
        |name: &str| name.contains("not profiled") || name == "[between samples]" || name == "[unknown]";
    assert!(rows.iter().all(|row| !unnamed(&row.function)), "{what}: {rows:?}");
}

/// `exec` and `_exit` are other ways to an end than `exit`: each of them tells what was used since `pct_off`.
#[test]
fn time_after_pct_off_has_its_name_however_the_program_ends() {
    let victim = victim("switchedoff.c");
    for how in ["exit", "_exit", "exec"] {
        let r = run(&[], &[victim.to_str().unwrap(), how, "0.4"]);
        ended_with(r.output.status, if how == "exec" { 0 } else { 5 }, &r.stderr());
        let rows = whole_report(&r.dir, &["--by", "function"]);
        let (off, spent) = (seconds_in(&rows, "[sampling off]"), counted(&r, "while_off"));
        // Samples that stand for a little too much take it from this row.
        assert!(off > 0.95 * spent, "{how}: {off:.3} s named, {spent:.3} spent: {rows:?}");
        assert!(seconds_in(&rows, "[start]") < spent / 2.0, "{how}: {rows:?}");
        all_is_named(&r, how);
    }
}

/// The recording is cut, or mapped over, while sampling is off. The next `pct_on` begins another file.
#[test]
fn a_recording_that_was_lost_while_off_is_followed_by_another() {
    let victim = victim("switchedoff.c");
    for how in ["cut", "over"] {
        let r = run(&["--hz", "1000"], &[victim.to_str().unwrap(), how, "0.4"]);
        ended_with(r.output.status, 5, &r.stderr());
        let recordings = std::fs::read_dir(&r.dir).expect("the run's folder").flatten();
        let recordings = recordings.filter(|e| e.path().extension().is_some_and(|e| e == "pct"));
        // A file that was cut to nothing is no recording any more: a report over it ends with status 1.
        let rows = recordings.filter(|e| e.metadata().is_ok_and(|meta| meta.len() > 0));
        let rows = rows.flat_map(|e| report(&e.path(), &[])).collect::<Vec<_>>();
        let (seen, spent) = (seconds_in(&rows, "on_again"), counted(&r, "on_again"));
        // 400 samples: five standard deviations of a clock whose periods differ by a tenth are below 3 %.
        assert!(
            (seen - spent).abs() < 0.1 * spent,
            "{how}: {seen:.3} s seen, {spent:.3} spent: {}",
            r.stderr()
        );
    }
}

#[test]
fn a_program_that_maps_over_its_recording_has_its_memory_for_itself_and_all_its_samples() {
    let victim = victim("mappedover.c");
    for times in ["1", "4"] {
        let r = run(&["--hz", "1000"], &[victim.to_str().unwrap(), "0.8", times]);
        ended_with(r.output.status, 5, &r.stderr());
        let count = |name: &str| values(&r.stdout(), "count").into_iter().find(|v| v.0 == name).unwrap().1;
        assert!(count("mapped") >= 1.0, "there was no recording to map over: {}", r.stdout());
        if count("stored") > 0.0 {
            harm("words of the program's memory were changed");
        }
        let (seen, spent) = (seconds_in(&r.report(&[]), "in_between"), counted(&r, "in_between"));
        assert!((seen - spent).abs() < 0.1 * spent, "{seen:.3} s seen, {spent:.3} spent: {}", r.stderr());
        all_is_named(&r, times);
    }
    let bare = Command::new(victim).args(["0.01", "1"]).output().expect("it runs");
    assert_eq!(bare.status.code(), Some(5), "by itself it finds nothing to map over");
}
