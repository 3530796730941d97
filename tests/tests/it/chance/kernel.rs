//! Time in the kernel has the name of the system call that it was spent in.

use pct_tests::noise::drawn_from;
use pct_tests::pct::{run, samples, seconds_in, seconds_in_kernel};
use pct_tests::victims::{truth, victim};

#[test]
fn system_time_is_named_after_its_system_call_under_each_clock() {
    let victim = victim("kernelcalls.c");
    for clock in [&[][..], &["--clock", "perf"], &["--clock", "thread"]] {
        let r = run(clock, &[victim.to_str().unwrap(), "0.5"]);
        assert!(r.output.status.success(), "{}", r.stderr());
        let rows = r.report(&["--by", "function"]);
        let truth = truth(&r.stdout());
        let want: Vec<f64> = truth.iter().map(|t| t.1).collect();
        let seen: Vec<f64> = truth.iter().map(|t| seconds_in(&rows, &format!("[{}]", t.0))).collect();
        // Each call is asked for its system time alone, which the kernel counts in ticks on some machines: 4 ms of 500.
        if let Err(why) = drawn_from(&want, &seen, samples(&rows), 0.02) {
            panic!("{clock:?}: {why}; {truth:?}, seen {seen:?}: {rows:?}");
        }
        // What has no name, or another, is the start of the program, and ticks that fell into its own code.
        let (named, kernel) = (seen.iter().sum::<f64>(), seconds_in_kernel(&rows));
        assert!(
            named > 0.95 * kernel,
            "{clock:?}: {named:.3} of {kernel:.3} s in the kernel named: {rows:?}"
        );
    }
}

/// Time of page faults stands under the function that touched the pages, not in the next system call.
#[test]
fn time_of_page_faults_stays_where_they_happened() {
    let victim = victim("faults.c");
    for clock in [&[][..], &["--clock", "perf"]] {
        let r = run(clock, &[victim.to_str().unwrap(), "3"]);
        assert!(r.output.status.success(), "{}", r.stderr());
        let truth = truth(&r.stdout());
        let want: Vec<f64> = truth.iter().map(|t| t.1).collect();
        // Below touch there is nothing but its faults.
        let below = |name: &str| -> f64 {
            r.report(&["--by", "function", "--focus", name]).iter().map(|row| row.cpu_seconds).sum()
        };
        let rows = r.report(&["--by", "function"]);
        let seen = [below("^touch$"), below("^compute$"), seconds_in(&rows, "[munmap]")];
        // The tick decides where time in the kernel is booked, 250 times a second on most machines. Beside the steps: mmap and
        // madvise, and what the last ticks before the end put off.
        let ticks = 250.0 * want.iter().sum::<f64>();
        if let Err(why) = drawn_from(&want, &seen, ticks, 0.05) {
            panic!("{clock:?}: {why}: {rows:?}");
        }
    }
}
