//! Time in the kernel has the name of the system call that it was spent in.

use pct_kit::noise::{Rare, Shares, draw_on};
use pct_tests::pct::{run, samples, seconds_in, seconds_in_kernel};
use pct_tests::victims::{truth, victim};

/// The tick decides where time in the kernel is booked, so often a second on most machines.
const TICKS: f64 = 250.0;

#[test]
fn system_time_is_named_after_its_system_call_under_each_clock() {
    let victim = victim("kernelcalls.c");
    for clock in [&[][..], &["--clock", "perf"], &["--clock", "thread"]] {
        draw_on(|times| {
            let seconds = (0.6 * f64::from(times)).to_string();
            let r = run(clock, &[victim.to_str().unwrap(), &seconds]);
            let truth = truth(&r.unharmed());
            let rows = r.report(&["--by", "function"]);
            let seen: Vec<f64> = truth.iter().map(|t| seconds_in(&rows, &format!("[{}]", t.0))).collect();
            let (named, kernel) = (seen.iter().sum::<f64>(), seconds_in_kernel(&rows));
            // The calls follow each other, each for its time: ticks fall as evenly on them as many more samples would.
            let shares = Shares {
                truth: truth.iter().map(|t| t.1).collect(),
                seen,
                samples: samples(&rows).max(4.0 * TICKS * kernel),
                beside: 0.02,
            };
            // What has no name, or another, is the start of the program, and ticks that fell into its own code.
            let unnamed =
                Rare { seen: TICKS * (kernel - named), of: TICKS * kernel, usual: 0.02, each_run: 2.0 };
            (shares, unnamed)
        });
    }
}

/// Time of page faults stands under the function that touched the pages, not in the next system call. (The tick's samples are
/// few: the first run is never enough.)
fn page_faults_stay_where_they_happened(clock: &[&str]) {
    let victim = victim("faults.c");
    draw_on(|times| {
        let seconds = (3 * times).to_string();
        let r = run(clock, &[victim.to_str().unwrap(), &seconds]);
        let truth: Vec<f64> = truth(&r.unharmed()).iter().map(|t| t.1).collect();
        // Below touch there is nothing but its faults.
        let below = |name: &str| -> f64 {
            r.report(&["--by", "function", "--focus", name]).iter().map(|row| row.cpu_seconds).sum()
        };
        let munmap = seconds_in(&r.report(&["--by", "function"]), "[munmap]");
        let samples = TICKS * truth.iter().sum::<f64>();
        // Beside the steps: mmap and madvise, and what the last ticks before the end put off.
        Shares { truth, seen: vec![below("^touch$"), below("^compute$"), munmap], samples, beside: 0.03 }
    });
}

#[test]
fn time_of_page_faults_stays_where_they_happened() {
    page_faults_stay_where_they_happened(&[]);
}

#[test]
fn time_of_page_faults_stays_where_they_happened_by_perf_alone() {
    page_faults_stay_where_they_happened(&["--clock", "perf"]);
}
