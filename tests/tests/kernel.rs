//! Time in the kernel has the name of the system call that it was spent in.

use pct_format::layout::header as at;
use pct_format::record::Frame;
use pct_format::{CutCause, Stack};
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
        // The tick decides where time in the kernel is booked, 250 times a second on most machines. Beside
        // the steps: mmap and madvise, and what the last ticks before the end put off.
        let ticks = 250.0 * want.iter().sum::<f64>();
        if let Err(why) = drawn_from(&want, &seen, ticks, 0.05) {
            panic!("{clock:?}: {why}: {rows:?}");
        }
    }
}

/// Whether this machine lets us sample the kernel's calls: the recording says so.
fn sees_kernel(r: &pct_tests::pct::Run) -> bool {
    let sees = pct_files(r.scratch()).iter().any(|file| {
        let bytes = std::fs::read(file).expect("a recording");
        pct_format::File::parse(&bytes).expect("whole").header().header_word(at::KERNEL_JOIN) != 0
    });
    if !sees {
        eprintln!("skipped: the kernel's calls cannot be sampled here");
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
    let r = run(&["--kernel", "on", "--hz", "2000"], &[victim.to_str().unwrap(), "3", "20"]);
    assert!(r.output.status.success(), "{}", r.stderr());
    if !sees_kernel(&r) {
        return;
    }
    let below = |name: &str| r.report(&["--by", "function", "--focus", &format!("^{name}$")]);
    let of = |name: &str| -> f64 { below(name).iter().map(|row| row.cpu_seconds).sum() };
    let (often, seldom) = (of("often"), of("seldom"));
    assert!(often + seldom > 0.1, "{often} {seldom}");
    let share = often / (often + seldom);
    let samples = (often + seldom) * 2000.0;
    assert!((share - 0.75).abs() < 4.0 * (0.75 * 0.25 / samples).sqrt() + 0.005, "{share} of {samples}");
    // No call of one is ever below the other, of thousands of samples.
    for (name, call, other) in [("preads", "pread64", "getrandom"), ("draws", "getrandom", "pread64")] {
        let rows = below(name);
        let named = |part: &str| -> f64 {
            rows.iter().filter(|row| row.function.contains(part)).map(|row| row.cpu_seconds).sum()
        };
        assert_eq!(named(&format!("[{other}]")) + named(&format!("__x64_sys_{other}")), 0.0, "{rows:?}");
        let in_kernel = seconds_in_kernel(&rows);
        assert!(in_kernel > 0.05, "{rows:?}");
        let unnamed = seconds_in(&rows, "[system]");
        assert!(unnamed < 0.02 * in_kernel, "{call}: {unnamed} of {in_kernel}: {rows:?}");
    }
    let whole = r.report(&["--by", "function"]);
    assert!(seconds_in_kernel(&whole) > 0.5 * whole.iter().map(|row| row.cpu_seconds).sum::<f64>());
}

/// Of samples in the kernel nearly all have the user stack that they belong to.
#[test]
fn samples_in_the_kernel_are_joined_to_their_user_stacks() {
    for name in ["twocallers.c", "faults.c"] {
        let victim = victim(name);
        let r = run(&["--kernel", "on", "--hz", "4000"], &[victim.to_str().unwrap(), "2", "5"]);
        assert!(r.output.status.success(), "{}", r.stderr());
        if !sees_kernel(&r) {
            return;
        }
        for file in pct_files(r.scratch()) {
            let bytes = std::fs::read(&file).expect("a recording");
            let file = pct_format::File::parse(&bytes).expect("whole");
            let index = pct_format::Index::new(&file);
            let (mut kernel, mut all, mut apart) = (0, 0, 0);
            for (_, sample) in index.samples_by_time() {
                let Stack::Id(stack) = sample.stack else { continue };
                let frames: Vec<Frame> = index.stacks.frames(stack).collect();
                let is_cut = frames.last() == Some(&Frame::Cut(CutCause::NotJoined));
                // The sampler's own work has no caller.
                let place = index.without_kernel(&sample).pc;
                let region = index.region_at(place, sample.time);
                let ours = region.is_some_and(|r| String::from_utf8_lossy(&r.facts.path).contains("libpct"));
                all += sample.weight;
                kernel += if sample.kernel_pc().is_some() { sample.weight } else { 0 };
                apart += if is_cut && !ours { sample.weight } else { 0 };
            }
            eprintln!(
                "{name}: {kernel} of {all} in the kernel, {apart} not joined, {} the sampler's own",
                file.header().header_word(at::NOT_JOINED) - apart
            );
            assert!(kernel > all / 3, "{name}: {kernel} of {all}");
            assert!(apart * 200 <= all, "{name}: {apart} of {all} not joined");
        }
    }
}
