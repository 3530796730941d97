//! Why threads do not run, as the wall clock from outside tells it: against threads that block in one way each.

use std::collections::BTreeMap;

use pct_tests::pct::{folded, run};
use pct_tests::victims::{victim, victim_with};

/// Seconds by (thread, cause).
type Seconds = BTreeMap<(u32, String), f64>;

/// A run of the victim in a mode: what it says, and what the recording says.
fn run_mode(mode: &str) -> (Seconds, Seconds) {
    let program = victim("blocked.c");
    let r = run(&["--clock", "wall", "--no-report"], &[program.to_str().expect("a path"), mode]);
    r.unharmed();
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let ["truth", tid, cause, seconds] = words[..] else { panic!("{line}") };
        ((tid.parse().expect("a number"), cause.replace('_', " ")), seconds.parse().expect("seconds"))
    };
    let truth = r.stdout().lines().map(line).collect();
    let mut found = Seconds::new();
    for row in r.report(&["--by", "thread,cause"]) {
        *found.entry((row.tid, row.function)).or_default() += row.cpu_seconds;
    }
    (truth, found)
}

/// The end of a thread comes a look after the last one, or later where the sampler has no processor; so its time is
/// compared with what the recording has of the thread, and that with its own clock.
#[test]
fn each_thread_waits_for_what_it_is_blocked_by() {
    let (truth, found) = run_mode("causes");
    assert_eq!(truth.len(), 12);
    for ((tid, cause), seconds) in &truth {
        let of_thread: f64 = found.iter().filter(|((of, _), _)| of == tid).map(|(_, seconds)| seconds).sum();
        let named = found.get(&(*tid, format!("[waits: {cause}]"))).copied().unwrap_or(0.0);
        println!("{cause}: {named} of {of_thread} s in the recording, {seconds} s");
        // Before and after its call it may wait for a processor.
        assert!(named >= 0.7 * of_thread, "{cause}: {found:?}");
        assert!(named > 0.5 * seconds && named < 1.1 * seconds, "{cause} {seconds}: {found:?}");
    }
}

/// The kernel counts how long each thread waited for the processor. A thread asks for that figure before its end, and
/// is looked at last somewhere near it: each part of a second that it waits then may be in one of both only.
#[test]
fn time_without_a_processor_is_what_the_kernel_counts() {
    let (truth, found) = run_mode("queue");
    let of_three = |name: &str| -> f64 {
        let of_cause = |tid: &u32| found.get(&(*tid, name.to_owned())).copied().unwrap_or(0.0);
        truth.keys().map(|(tid, _)| of_cause(tid)).sum()
    };
    let (queued, running) = (of_three("[run queue]"), of_three("running"));
    let truth: f64 = truth.values().sum();
    println!("{queued} s of {truth} s in the queue, {running} s of 1.5 s running");
    assert!(queued > 0.75 * truth && queued < 1.25 * truth, "{queued} of {truth} s: {found:?}");
    assert!(running > 0.75, "{running} of 1.5 s: {found:?}");
}

/// A library that is loaded between two samples, and in which the thread then only waits. The place where it waits is
/// in a library that has long been known, so it is the walk that meets what is new.
#[test]
fn a_thread_that_only_waits_in_a_new_library_has_its_function() {
    let plug = victim_with("waitplug.c", "cc -O2 -shared -fPIC -DPLUG", "waitplug.so").expect("it builds");
    let words = [victim("waitplug.c"), plug].map(|path| path.to_str().expect("a path").to_owned());
    let r = run(&["--clock", "wall"], &[&words[0], &words[1]]);
    assert_eq!(r.unharmed(), "done\n");
    let folded = folded(&r.dir);
    let weight = |word: &str| {
        let lines = folded.lines().filter(|line| line.contains(word));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
    };
    // 150 ticks of its 1.5 s.
    let (found, cut) = (weight(";wait_in_plug;"), weight("<truncated"));
    assert!(found > 75.0 && cut < 5.0, "{found} found, {cut} cut: {folded}");
}
