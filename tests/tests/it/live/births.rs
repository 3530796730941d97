//! A thread is armed once, whoever finds it first: the thread itself in its first moment, or a round that looks for new
//! threads at that moment. (A thread that is armed by both has two clocks, and its time is told twice.)

use pct_format::index::Thread;
use pct_format::{File, Index};
use pct_tests::pct::run;
use pct_tests::victims::victim;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Calls `see` with the threads of each recording in a folder.
fn each_recording(folder: &Path, mut see: impl FnMut(&[Thread])) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "pct") {
            let bytes = fs::read(&path).unwrap();
            see(&Index::new(&File::parse(&bytes).expect("readable")).threads);
        }
    }
}

/// Whether a file has two threads of one id that lived at the same time.
fn lived_together(a: &Thread, b: &Thread) -> bool {
    let begins_before_the_end =
        |a: &Thread, b: &Thread| a.begin.zip(b.end).is_none_or(|(begin, end)| begin < end);
    begins_before_the_end(a, b) && begins_before_the_end(b, a)
}

#[test]
fn each_thread_is_armed_once() {
    let victim = victim("shortthreads.c");
    // One in some 6,000 was armed twice.
    for clock in ["perf", "thread", "itimer"] {
        let r = run(&["--clock", clock, "--no-report"], &[victim.to_str().unwrap(), "4000"]);
        r.unharmed();
        let mut seen = 0;
        each_recording(&r.dir, |threads| {
            seen += threads.len();
            let mut by_tid: HashMap<u32, Vec<&Thread>> = HashMap::new();
            for thread in threads {
                let others = by_tid.entry(thread.tid).or_default();
                let twice = others.iter().find(|other| lived_together(other, thread));
                assert!(twice.is_none(), "clock {clock}: {thread:?} and {twice:?}");
                others.push(thread);
            }
        });
        assert!(seen > 500, "clock {clock}: {seen} threads in the file");
    }
}
