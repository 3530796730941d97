//! Time in the kernel has the name of the system call that it was spent in.

use pct_format::layout::header as at;
use pct_format::record::Frame;
use pct_format::{CutCause, Stack};
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

/// Time of page faults stands under the function that touched the pages, not in the next system call. (The tick's
/// samples are few: the first run is never enough.)
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

/// Whether this machine lets us sample the kernel's calls: the recording says so.
fn sees_kernel(r: &pct_tests::pct::Run) -> bool {
    let sees = pct_files(r.scratch()).iter().any(|file| {
        let bytes = std::fs::read(file).expect("a recording");
        pct_format::File::parse(&bytes).expect("whole").header().header_word(at::KERNEL_JOIN) != 0
    });
    if !sees {
        pct_kit::skip("the kernel's calls cannot be sampled here");
    }
    sees
}

fn pct_files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(pct_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "pct") {
            found.push(path);
        }
    }
    found
}

/// The kernel's functions stand below the very call that entered the kernel, whatever else has the same place
/// in the code.
#[test]
fn functions_of_the_kernel_stand_below_their_caller() {
    let victim = victim("twocallers.c");
    draw_on(|times| {
        let seconds = (3 * times).to_string();
        let r = run(&["--kernel", "on", "--hz", "2000"], &[victim.to_str().unwrap(), &seconds, "20"]);
        r.unharmed();
        if !sees_kernel(&r) {
            return Vec::new();
        }
        let below = |name: &str| r.report(&["--by", "function", "--focus", &format!("^{name}$")]);
        let of = |name: &str| -> f64 { below(name).iter().map(|row| row.cpu_seconds).sum() };
        let (often, seldom) = (of("often"), of("seldom"));
        // No call of one is ever below the other, of thousands of samples.
        let mut unnamed = (0.0, 0.0);
        for (name, other) in [("preads", "getrandom"), ("draws", "pread64")] {
            let rows = below(name);
            let named = |part: &str| -> f64 {
                rows.iter().filter(|row| row.function.contains(part)).map(|row| row.cpu_seconds).sum()
            };
            assert_eq!(named(&format!("[{other}]")) + named(&format!("__x64_sys_{other}")), 0.0, "{rows:?}");
            unnamed = (unnamed.0 + seconds_in(&rows, "[system]"), unnamed.1 + seconds_in_kernel(&rows));
        }
        let shares = Shares {
            truth: vec![0.75, 0.25],
            seen: vec![often, seldom],
            samples: (often + seldom) * 2000.0,
            beside: 0.01,
        };
        let (seen, of) = (unnamed.0 * 2000.0, unnamed.1 * 2000.0);
        vec![(shares, Rare { seen, of, usual: 0.01, each_run: 0.0 })]
    });
}

/// Of samples in the kernel nearly all have the user stack that they belong to.
#[test]
fn samples_in_the_kernel_are_joined_to_their_user_stacks() {
    for name in ["twocallers.c", "faults.c"] {
        let victim = victim(name);
        draw_on(|times| {
            let seconds = (2 * times).to_string();
            let r = run(&["--kernel", "on", "--hz", "4000"], &[victim.to_str().unwrap(), &seconds, "5"]);
            r.unharmed();
            if !sees_kernel(&r) {
                return Vec::new();
            }
            let (mut kernel, mut all, mut apart) = (0, 0, 0);
            for file in pct_files(r.scratch()) {
                let bytes = std::fs::read(&file).expect("a recording");
                let file = pct_format::File::parse(&bytes).expect("whole");
                let index = pct_format::Index::new(&file);
                for (_, sample) in index.samples_by_time() {
                    let Stack::Id(stack) = sample.stack else { continue };
                    let frames: Vec<Frame> = index.stacks.frames(stack).collect();
                    let is_cut = frames.last() == Some(&Frame::Cut(CutCause::NotJoined));
                    // The sampler's own work has no caller.
                    let place = index.without_kernel(&sample).pc;
                    let region = index.region_at(place, sample.time);
                    let own =
                        region.is_some_and(|r| String::from_utf8_lossy(&r.facts.path).contains("libpct"));
                    all += sample.weight;
                    kernel += if sample.kernel_pc().is_some() { sample.weight } else { 0 };
                    apart += if is_cut && !own { sample.weight } else { 0 };
                }
            }
            eprintln!("{name}: {kernel} of {all} in the kernel, {apart} not joined");
            assert!(kernel > all / 3, "{name}: {kernel} of {all}");
            vec![Rare { seen: apart as f64, of: all as f64, usual: 0.005, each_run: 0.0 }]
        });
    }
}
