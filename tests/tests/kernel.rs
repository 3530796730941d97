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
