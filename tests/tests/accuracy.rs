//! What pct reports is what the program did: shares against the victim's own clock, within a sampler's noise.

use pct_tests::noise::drawn_from;
use pct_tests::pct::{Row, run, samples, seconds_in, seconds_in_kernel, whole_report};
use pct_tests::victims::{truth, values, victim};

/// Asserts that the shares of the truth's functions are what a sampler can have drawn, with 1 % for what runs
/// between the functions, and that the CPU seconds add up within 5 %.
fn agrees(stdout: &str, rows: &[Row]) {
    let truth = truth(stdout);
    let total: f64 = truth.iter().map(|t| t.1).sum();
    let want: Vec<f64> = truth.iter().map(|t| t.1).collect();
    let seen: Vec<f64> = truth.iter().map(|t| seconds_in(rows, &t.0)).collect();
    if let Err(why) = drawn_from(&want, &seen, samples(rows), 0.01) {
        panic!("{why}; functions {truth:?}");
    }
    // The thread's clock, which is the truth here, runs on in interrupts and switches: that part is the kernel's.
    // What a thread had of it in its last 32 periods is in no sample when the thread ends, and in a row of its own.
    let (sum, kernel) = (seen.iter().sum::<f64>(), seconds_in_kernel(rows));
    let unseen = seconds_in(rows, "[between samples]") + seconds_in(rows, "[exit, or not profiled]");
    let at_ends = unseen.min(0.1 * total);
    // The delivery of each sample is in that clock too: 12 to 25 us, and more where other programs empty the caches.
    let delivery = (samples(rows) * 60e-6).min(0.06 * total);
    let fits = sum < 1.05 * total && sum + kernel + at_ends + delivery > 0.95 * total;
    assert!(
        fits,
        "{sum:.3} CPU s seen in the functions, {kernel:.3} in the kernel, {at_ends:.3} at ends, {total:.3} spent"
    );
}

fn shares(threads: &str, seconds: &str, options: &[&str]) {
    let victim = victim("shares.c");
    let r = run(options, &[victim.to_str().unwrap(), threads, seconds]);
    assert!(r.output.status.success(), "{}", r.stderr());
    agrees(&r.stdout(), &r.report(&["--by", "function"]));
}

#[test]
fn one_thread_log() {
    shares("1", "4", &["--mode", "log", "--hz", "1000"]);
}

#[test]
fn four_threads_log() {
    shares("4", "2", &["--mode", "log", "--hz", "1000"]);
}

#[test]
fn one_thread_counts() {
    shares("1", "4", &["--mode", "counts", "--hz", "1000"]);
}

#[test]
fn four_threads_counts() {
    shares("4", "2", &["--mode", "counts", "--hz", "1000"]);
}

#[test]
fn tick_bound_clocks_see_the_same_shares() {
    shares("1", "3", &["--clock", "thread"]);
}

#[test]
fn sigtrap_sees_the_same_shares() {
    shares("2", "2", &["--clock", "sigtrap", "--hz", "4500"]);
}

#[test]
fn each_thread_gets_its_own_time_and_name() {
    let victim = victim("shares.c");
    let r = run(&["--hz", "1000"], &[victim.to_str().unwrap(), "4", "1.5"]);
    let rows = r.report(&["--by", "thread"]);
    let want = values(&r.stdout(), "thread");
    assert_eq!(want.len(), 4);
    let mut seen: Vec<f64> = rows.iter().map(|r| r.cpu_seconds).collect();
    seen.sort_by(f64::total_cmp);
    assert_eq!(seen.len(), 4, "{rows:?}");
    for (index, (_, want)) in want.iter().enumerate() {
        let got = seen[index];
        // 1,000 samples a CPU second: four sigma, and 2 % for the thread's start
        let allowed = 4.0 / (want * 1000.0).sqrt() + 0.02;
        assert!((got / want - 1.0).abs() < allowed, "thread {index}: {got:.3} s seen, {want:.3} spent");
    }
    let shown = std::process::Command::new(pct_tests::pct::binary())
        .args(["report", "--by", "thread"])
        .arg(&r.dir)
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    for name in ["worker-1", "worker-2", "worker-3"] {
        assert!(shown.contains(name), "{name} is missing:\n{shown}");
    }
}

#[test]
fn bursts_between_ticks_are_seen() {
    let victim = victim("phase.c");
    let r = run(&["--hz", "1000"], &[victim.to_str().unwrap(), "3"]);
    let spent = truth(&r.stdout())[0].1;
    let rows = r.report(&["--by", "function"]);
    let seen = seconds_in(&rows, "burst");
    // n samples of one kind: the ideal sampler's relative error is about 1 / sqrt(n)
    let allowed = 4.0 / (spent * 1000.0).sqrt() + 0.03;
    assert!((seen / spent - 1.0).abs() < allowed, "{seen:.3} s seen, {spent:.3} spent, allowed {allowed:.3}");
}

#[test]
fn system_time_is_accounted_on_every_clock() {
    let victim = victim("sysread.c");
    for clock in ["auto", "thread", "itimer"] {
        let r = run(&["--clock", clock], &[victim.to_str().unwrap()]);
        let text = r.stdout();
        let want: Vec<f64> =
            text.split_whitespace().skip(1).map(|w| w.parse().expect("two numbers")).collect();
        let rows = r.report(&["--by", "function"]);
        let total: f64 = rows.iter().map(|r| r.cpu_seconds).sum();
        let spent = want[0] + want[1];
        assert!((total / spent - 1.0).abs() < 0.05, "{clock}: {total:.3} CPU s seen, {spent:.3} spent");
    }
}

/// Processes of a fifth of a period: at the start of each it is decided whether it is sampled at all, and
/// where. They do the same work in each quarter. (Their own clock is no truth: it has the time in which the
/// first sample makes a file.)
#[test]
fn functions_of_short_processes_have_their_shares() {
    let victim = victim("quarters.c");
    let r = run(&["--stack", "none"], &[victim.to_str().unwrap(), "1500", "1"]);
    assert!(r.output.status.success(), "{}", r.stderr());
    let rows = r.report(&["--by", "function"]);
    // Not the first: no clock expires in the first 0.05 ms.
    let quarters = ["second_quarter", "third_quarter", "fourth_quarter"];
    let seen = quarters.map(|name| seconds_in(&rows, name));
    let n: f64 = rows.iter().filter(|r| quarters.contains(&r.function.as_str())).map(|r| r.samples).sum();
    assert!(n > 80.0, "{rows:?}");
    if let Err(why) = drawn_from(&[1.0; 3], &seen, n, 0.04) {
        panic!("{why}: {rows:?}");
    }
}

fn plugins_come_and_go(mode: &str) {
    let (victim, plugin) = (victim("dlloop.c"), victim("plugin.c"));
    let command = [victim.to_str().unwrap(), plugin.to_str().unwrap(), "200"];
    let r = run(&["--hz", "1000", "--mode", mode], &command);
    assert!(r.output.status.success(), "{}", r.stderr());
    agrees(&r.stdout(), &r.report(&["--by", "function"]));
}

#[test]
fn plugins_that_come_and_go_keep_their_time() {
    plugins_come_and_go("log");
}

#[test]
fn plugins_that_come_and_go_keep_their_counters() {
    plugins_come_and_go("counts");
}

#[test]
fn threads_that_live_for_a_millisecond_share_segments() {
    // 3,000 threads, nearly each of which is sampled, in a log that has room for 1,536 segments.
    let victim = victim("shortthreads.c");
    let r = run(&["--hz", "1000", "--limit", "24M"], &[victim.to_str().unwrap(), "3000"]);
    assert!(r.output.status.success(), "{}", r.stderr());
    let said = r.stderr();
    assert!(!said.contains("overwritten") && !said.contains("no room"), "{said}");
    // A sixth of it is in the kernel, and what so short a thread uses is for a good part the sampler's own
    // beginning in it.
    let spent = truth(&r.stdout())[0].1;
    let seen: f64 = r.report(&["--by", "object"]).iter().map(|row| row.cpu_seconds).sum();
    assert!(seen / spent > 0.6, "{seen:.3} s seen, {spent:.3} spent: {said}");
    assert!(r.report(&["--by", "thread"]).len() > 500, "each has a row of its own");
}

/// A timer that expires at ticks meets a thread of a quarter of a tick in one of four. Those stand for the others, and
/// what remains has a row of its own.
#[test]
fn tick_bound_clocks_see_threads_that_are_shorter_than_a_tick() {
    let victim = victim("shortthreads.c");
    for clock in ["thread", "itimer"] {
        let r = run(&["--clock", clock], &[victim.to_str().unwrap(), "2000"]);
        assert!(r.output.status.success(), "{}", r.stderr());
        let spent = truth(&r.stdout())[0].1;
        let rows = whole_report(&r.dir, &["--by", "function"]);
        let (seen, unseen) = (seconds_in(&rows, "short_work"), seconds_in(&rows, "[between samples]"));
        // Some 500 expiries, of which some come when their thread is about to end. Half of it is 20 standard
        // deviations.
        assert!(
            seen > 0.5 * spent,
            "{clock}: {seen:.3} s seen, {unseen:.3} told as unseen, {spent:.3} spent: {rows:?}"
        );
        let all: f64 = rows.iter().map(|row| row.cpu_seconds).sum();
        assert!(all > 0.95 * spent, "{clock}: {all:.3} s told, {spent:.3} spent: {rows:?}");
        assert!(rows.iter().all(|row| !row.function.contains("not profiled")), "{clock}: {rows:?}");
    }
}

#[test]
fn small_stacks_are_enough() {
    let victim = victim("smallstacks.c");
    let r = run(&["--hz", "1000"], &[victim.to_str().unwrap()]);
    assert!(r.output.status.success(), "{}", r.stderr());
    agrees(&r.stdout(), &r.report(&["--by", "function"]));
}

#[test]
fn exceptions_fly_as_before() {
    let victim = victim("exceptions.cpp");
    let r = run(&["--hz", "4000"], &[victim.to_str().unwrap(), "200000"]);
    assert!(r.output.status.success(), "{}", r.stderr());
    assert!(r.stdout().contains("caught 133333 through 66667"), "{}", r.stdout());
    let rows = r.report(&["--by", "function"]);
    let spent = truth(&r.stdout())[0].1;
    let seen = seconds_in(&rows, "after_throwing(double, double*)");
    assert!((seen / spent - 1.0).abs() < 0.15, "{seen:.3} s seen, {spent:.3} spent");
}

/// Switched off and on again at another rate in the same file, each sample counts by the rate that it was taken at.
fn switched(mode: &str, again: &[&str]) {
    let victim = victim("switched.c");
    let again: Vec<String> = again.iter().map(|hz| format!("mode={mode},hz={hz}")).collect();
    let mut command = vec![victim.to_str().unwrap(), "api"];
    command.extend(again.iter().map(String::as_str));
    let r = run(&["--mode", mode, "--hz", "1000"], &command);
    assert!(r.output.status.success(), "{}", r.stderr());
    let rows = r.report(&["--by", "function"]);
    agrees(&r.stdout(), &rows);
    let unseen = seconds_in(&rows, "unseen");
    assert!(unseen < 0.05, "{unseen} s of what ran while sampling was off");
}

#[test]
fn switched_on_at_another_rate_log() {
    switched("log", &["200", "3000"]);
}

#[test]
fn switched_on_at_another_rate_counts() {
    switched("counts", &["200", "3000"]);
}

#[test]
fn the_toggle_signal_switches_sampling_on_and_off() {
    let victim = victim("switched.c");
    let keep = tempfile::tempdir().expect("a temporary folder");
    let out = std::process::Command::new(victim)
        .args(["signal", "12"])
        .env("LD_PRELOAD", pct_tests::pct::library())
        .env("PCT", format!("out={},hz=1000,on=signal,toggle=12", keep.path().join("r").display()))
        .output()
        .expect("the victim runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let rows = pct_tests::pct::report(&keep.path().join("r"), &["--by", "function"]);
    agrees(&String::from_utf8_lossy(&out.stdout), &rows);
    assert!(seconds_in(&rows, "unseen") < 0.05);
}
