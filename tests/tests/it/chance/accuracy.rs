//! What pct reports is what the program did: shares against the victim's own clock, within a sampler's noise.

use pct_kit::noise::{Evidence, Rare, Ratio, Shares, draw_on};
use pct_tests::pct::{Row, Run, run, samples, samples_in, seconds_in, seconds_in_kernel, whole_report};
use pct_tests::victims::{truth, values, victim};

/// What is allowed in seconds: the thread's clock, which is the truth here, runs on in interrupts and switches.
const ALLOWED: f64 = 0.05;

/// The shares of the truth's functions, with 1 % for what runs between them, and their CPU seconds. What the kernel had
/// can be theirs or not; so can what a thread had in its last 32 periods, which has a row of its own, and the delivery
/// of each sample (12 to 25 us, and more where other programs empty the caches).
fn evidence(stdout: &str, rows: &[Row]) -> (Vec<Shares>, Ratio) {
    let truth = truth(stdout);
    let want: Vec<f64> = truth.iter().map(|t| t.1).collect();
    let seen: Vec<f64> = truth.iter().map(|t| seconds_in(rows, &t.0)).collect();
    let (spent, of) = (want.iter().sum::<f64>(), samples(rows));
    let unseen = seconds_in(rows, "[between samples]") + seconds_in(rows, "[exit, or not profiled]");
    let delivery = (of * 60e-6).min(0.06 * spent);
    let ratio = Ratio {
        spent,
        seen: seen.iter().sum(),
        open: seconds_in_kernel(rows) + unseen.min(0.1 * spent) + delivery,
        samples: truth.iter().map(|t| samples_in(rows, &t.0)).sum(),
        of,
        allowed: ALLOWED,
    };
    let several = want.len() > 1;
    (several.then_some(Shares { truth: want, seen, samples: of, beside: 0.01 }).into_iter().collect(), ratio)
}

/// [`evidence`] of a run whose program is unharmed.
fn evidence_of(r: &Run) -> (Vec<Shares>, Ratio) {
    evidence(&r.unharmed(), &r.report(&["--by", "function"]))
}

/// So many seconds, or rounds, times so many.
fn longer(base: f64, times: u32) -> String {
    (base * f64::from(times)).to_string()
}

fn shares(threads: &str, seconds: f64, options: &[&str]) {
    let victim = victim("shares.c");
    draw_on(|times| {
        evidence_of(&run(options, &[victim.to_str().unwrap(), threads, &longer(seconds, times)]))
    });
}

#[test]
fn one_thread_log() {
    shares("1", 4.0, &["--mode", "log", "--hz", "1000"]);
}

#[test]
fn four_threads_log() {
    shares("4", 2.0, &["--mode", "log", "--hz", "1000"]);
}

#[test]
fn one_thread_counts() {
    shares("1", 4.0, &["--mode", "counts", "--hz", "1000"]);
}

#[test]
fn four_threads_counts() {
    shares("4", 2.0, &["--mode", "counts", "--hz", "1000"]);
}

/// (A tick-bound clock gives some 250 samples a second: the first run is never enough.)
#[test]
fn tick_bound_clocks_see_the_same_shares() {
    shares("1", 3.0, &["--clock", "thread"]);
}

#[test]
fn sigtrap_sees_the_same_shares() {
    shares("2", 2.0, &["--clock", "sigtrap", "--hz", "4500"]);
}

#[test]
fn each_thread_gets_its_own_time_and_name() {
    let victim = victim("shares.c");
    draw_on(|times| {
        let r = run(&["--hz", "1000"], &[victim.to_str().unwrap(), "4", &longer(1.5, times)]);
        let want = values(&r.unharmed(), "thread");
        assert_eq!(want.len(), 4);
        let mut rows = r.report(&["--by", "thread"]);
        rows.sort_by(|a, b| a.cpu_seconds.total_cmp(&b.cpu_seconds));
        assert_eq!(rows.len(), 4, "{rows:?}");
        has_names(&r);
        // 2 % for the thread's start. All samples of a thread are its own: nothing else is noise.
        let ratio = |((_, spent), row): (&(String, f64), &Row)| Ratio {
            spent: *spent,
            seen: row.cpu_seconds,
            open: 0.0,
            samples: row.samples,
            of: row.samples,
            allowed: 0.02,
        };
        want.iter().zip(&rows).map(ratio).collect::<Vec<_>>()
    });
}

fn has_names(r: &Run) {
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
    draw_on(|times| evidence_of(&run(&["--hz", "1000"], &[victim.to_str().unwrap(), &longer(3.0, times)])));
}

#[test]
fn system_time_is_accounted_on_every_clock() {
    let victim = victim("sysread.c");
    for clock in ["auto", "thread", "itimer"] {
        draw_on(|times| {
            let r = run(&["--clock", clock], &[victim.to_str().unwrap(), &longer(1.5, times)]);
            let text = r.unharmed();
            let spent = text.split_whitespace().skip(1).map(|w| w.parse::<f64>().expect("a number")).sum();
            let rows = r.report(&["--by", "function"]);
            let seen = rows.iter().map(|r| r.cpu_seconds).sum();
            let all = samples(&rows);
            Ratio { spent, seen, open: 0.0, samples: all, of: all, allowed: 0.04 }
        });
    }
}

/// Ticks of the kernel in a second, on most machines.
const TICKS: f64 = 250.0;

/// Functions that are in the kernel half of the time or more, in bursts of work between sleeps. Each does the same, but
/// one is always the last before a sleep. The time of each is its own and that of its system calls. (The
/// tick's samples are few: the first run is never enough.)
fn functions_of_bursts(options: &[&str], threads: u32) {
    let victim = victim("bursts.c");
    draw_on(|times| {
        // Microseconds of work and, on the average, of sleep, and percent of system time.
        let runs = [["1000", "300", "80"], ["310", "170", "50"]].map(|[burst, asleep, in_kernel]| {
            let seconds = longer(1.4 / f64::from(threads), times);
            let threads = threads.to_string();
            let command =
                [victim.to_str().unwrap(), &seconds, burst, asleep, in_kernel, "4", &threads, "0.5"];
            let r = run(options, &command);
            let truth = truth(&r.unharmed());
            let below = |name: &str| -> f64 {
                let rows = r.report(&["--by", "function", "--focus", &format!("^{name}$")]);
                rows.iter().map(|row| row.cpu_seconds).sum()
            };
            let seen: Vec<f64> = truth.iter().map(|t| below(&t.0)).collect();
            let truth: Vec<f64> = truth.iter().map(|t| t.1).collect();
            let samples = TICKS * truth.iter().sum::<f64>();
            Shares { truth, seen, samples, beside: 0.02 }
        });
        runs.into_iter()
            .reduce(|mut all, one| {
                all.add(one);
                all
            })
            .expect("two")
    });
}

#[test]
fn functions_of_bursts_have_their_shares() {
    functions_of_bursts(&[], 1);
}

#[test]
fn functions_of_bursts_have_their_shares_by_ticks_alone() {
    functions_of_bursts(&["--clock", "thread"], 2);
}

#[test]
fn functions_of_bursts_have_their_shares_by_the_process_timer() {
    functions_of_bursts(&["--clock", "itimer"], 1);
}

/// Processes of a quarter of a period: at the start of each it is decided whether it is sampled at all, and
/// where. They do the same work in each quarter. (Their own clock is no truth: it has the time in which the
/// first sample makes a file.)
#[test]
fn functions_of_short_processes_have_their_shares() {
    let victim = victim("quarters.c");
    draw_on(|times| {
        // A sample in five of them. The last look needs 23,500 samples, and the runs before it are 49 times this one.
        let processes = (2500 * times).to_string();
        let r = run(&["--stack", "none"], &[victim.to_str().unwrap(), &processes, "1.5"]);
        r.unharmed();
        let rows = r.report(&["--by", "function"]);
        // Not the first: no clock expires in the first 0.05 ms.
        let quarters = ["second_quarter", "third_quarter", "fourth_quarter"];
        let seen = quarters.map(|name| seconds_in(&rows, name)).to_vec();
        let samples =
            rows.iter().filter(|r| quarters.contains(&r.function.as_str())).map(|r| r.samples).sum();
        Shares { truth: vec![1.0; 3], seen, samples, beside: 0.04 }
    });
}

fn plugins_come_and_go(mode: &str) {
    let (victim, plugin) = (victim("dlloop.c"), victim("plugin.c"));
    draw_on(|times| {
        let command = [victim.to_str().unwrap(), plugin.to_str().unwrap(), &longer(600.0, times)];
        evidence_of(&run(&["--hz", "1000", "--mode", mode], &command))
    });
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
    draw_on(|times| {
        let limit = format!("{}M", 24 * times);
        let r =
            run(&["--hz", "1000", "--limit", &limit], &[victim.to_str().unwrap(), &longer(3000.0, times)]);
        let (stdout, said) = (r.unharmed(), r.stderr());
        assert!(!said.contains("overwritten") && !said.contains("no room"), "{said}");
        assert!(r.report(&["--by", "thread"]).len() > 500, "each has a row of its own");
        // A sixth of it is in the kernel, and what so short a thread uses is for a good part the sampler's own
        // beginning in it.
        let rows = r.report(&["--by", "object"]);
        let (seen, all) = (rows.iter().map(|row| row.cpu_seconds).sum(), samples(&rows));
        Ratio { spent: truth(&stdout)[0].1, seen, open: 0.0, samples: all, of: all, allowed: 0.4 }
    });
}

/// A timer that expires at ticks meets a thread of a quarter of a tick in one of four. Those stand for the others, and
/// what remains has a row of its own.
#[test]
fn tick_bound_clocks_see_threads_that_are_shorter_than_a_tick() {
    let victim = victim("shortthreads.c");
    for clock in ["thread", "itimer"] {
        draw_on(|times| {
            let r = run(&["--clock", clock], &[victim.to_str().unwrap(), &longer(2000.0, times)]);
            let spent = truth(&r.unharmed())[0].1;
            let rows = whole_report(&r.dir, &["--by", "function"]);
            assert!(rows.iter().all(|row| !row.function.contains("not profiled")), "{clock}: {rows:?}");
            let (seen, unseen) = (seconds_in(&rows, "short_work"), seconds_in(&rows, "[between samples]"));
            let (n, of) = (samples_in(&rows, "short_work"), samples(&rows));
            let all = rows.iter().map(|row| row.cpu_seconds).sum();
            // Some of the expiries come when their thread is about to end.
            let work = Ratio { spent, seen, open: unseen, samples: n, of, allowed: 0.3 };
            // What is told has the starts of the threads too.
            (work, Ratio { spent, seen: all, open: 0.0, samples: of, of, allowed: 0.5 })
        });
    }
}

#[test]
fn small_stacks_are_enough() {
    let victim = victim("smallstacks.c");
    draw_on(|times| evidence_of(&run(&["--hz", "1000"], &[victim.to_str().unwrap(), &longer(10.0, times)])));
}

#[test]
fn exceptions_fly_as_before() {
    let victim = victim("exceptions.cpp");
    draw_on(|times| {
        let n = 200_000 * times;
        let command = [victim.to_str().unwrap(), &n.to_string(), &longer(0.3, times)];
        let r = run(&["--hz", "4000"], &command);
        let stdout = r.unharmed();
        let through = n.div_ceil(3);
        if !stdout.contains(&format!("caught {} through {through}\n", n - through)) {
            pct_kit::harm::harm(&stdout);
        }
        let rows = r.report(&["--by", "function"]);
        let name = "after_throwing(double, double*)";
        Ratio {
            spent: truth(&stdout)[0].1,
            seen: seconds_in(&rows, name),
            open: seconds_in_kernel(&rows),
            samples: samples_in(&rows, name),
            of: samples(&rows),
            allowed: 0.1,
        }
    });
}

/// Samples that were taken while sampling was off: none but those on their way.
fn unseen(rows: &[Row]) -> Rare {
    Rare { seen: samples_in(rows, "unseen"), of: samples(rows), usual: 0.005, each_run: 2.0 }
}

/// Switched off and on again at another rate in the same file, each sample counts by the rate that it was taken at.
fn switched(mode: &str, again: &[&str]) {
    let victim = victim("switched.c");
    let again: Vec<String> = again.iter().map(|hz| format!("mode={mode},hz={hz}")).collect();
    draw_on(|times| {
        let api = format!("api:{times}");
        let mut command = vec![victim.to_str().unwrap(), &api];
        command.extend(again.iter().map(String::as_str));
        let r = run(&["--mode", mode, "--hz", "1000"], &command);
        (evidence_of(&r), unseen(&r.report(&["--by", "function"])))
    });
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
    draw_on(|times| {
        let keep = tempfile::tempdir().expect("a temporary folder");
        let out = std::process::Command::new(&victim)
            .args([&format!("signal:{times}"), "12"])
            .env("LD_PRELOAD", pct_tests::pct::library())
            .env("PCT", format!("out={},hz=1000,on=signal,toggle=12", keep.path().join("r").display()))
            .output()
            .expect("the victim runs");
        let stdout = pct_kit::harm::unharmed(&out);
        let rows = pct_tests::pct::report(&keep.path().join("r"), &["--by", "function"]);
        (evidence(&stdout, &rows), unseen(&rows))
    });
}
