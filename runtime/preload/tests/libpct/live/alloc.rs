//! Allocation samples: what the library with the feature `alloc` says of programs whose truth is known.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use pct_format::heap::{BadEntry, account};
use pct_format::record::Frame;
use pct_format::{AllocServer, EntryState, File, HeapSum, Index};
use pct_kit::harm::{harm, unharmed};
use pct_kit::libraries;
use pct_kit::wait::wait_until;

use crate::run::{compiled, quiet};

fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("alloc")).as_deref()
}

/// A run of the program: its output, the truth that it kept, and the recordings.
struct Run {
    output: Output,
    folder: tempfile::TempDir,
}

fn command(folder: &Path, arguments: &[&str], options: &str, also: &str) -> Command {
    let mut command = Command::new(program().expect("compiled"));
    command.args(arguments).env("TRUTH", folder.join("truth"));
    command.env("LD_PRELOAD", format!("{}{also}", libraries::alloc().display()));
    command.env("PCT", format!("out={},{options}", folder.display()));
    command
}

fn run_beside(arguments: &[&str], options: &str, also: &str) -> Option<Run> {
    program()?;
    let folder = tempfile::tempdir().expect("a folder");
    let output = command(folder.path(), arguments, options, also).output().expect("it starts");
    quiet(&output);
    Some(Run { output, folder })
}

fn run(arguments: &[&str], options: &str) -> Option<Run> {
    run_beside(arguments, options, "")
}

/// Truth of a site.
#[derive(Clone, Copy, Debug)]
struct Truth {
    at: u64,
    bytes: u64,
    blocks: u64,
    live: u64,
}

impl Run {
    fn recordings(&self) -> Vec<Vec<u8>> {
        let files =
            std::fs::read_dir(self.folder.path()).expect("there").map(|e| e.expect("readable").path());
        let recordings = files.filter(|path| path.extension().is_some_and(|e| e == "pct"));
        recordings.map(|path| std::fs::read(path).expect("readable")).collect()
    }

    fn truths(&self) -> Vec<Truth> {
        let bytes = std::fs::read(self.folder.path().join("truth")).expect("the truth");
        let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|w| u64::from_le_bytes(*w)).collect();
        let truths = words.as_chunks::<4>().0.iter();
        truths.map(|&[at, bytes, blocks, live]| Truth { at, bytes, blocks, live }).collect()
    }
}

/// What a recording says of the sites: sums, and the live sizes with their shifts.
struct Seen {
    interval: u64,
    sums: BTreeMap<u64, HeapSum>,
    live: BTreeMap<u64, Vec<(u64, u32)>>,
}

/// The site that a stack's innermost frame is in; 0 = none of them.
fn site_of(index: &Index<'_>, truths: &[Truth], stack: u32) -> u64 {
    let Some((Frame::Return(pc), _)) = index.stacks.node(stack) else { return 0 };
    // Functions of some dozen bytes: the site is the last one that begins below, and not far.
    let below = truths.iter().map(|t| t.at).filter(|at| *at < pc && pc - at < 128);
    below.max().unwrap_or(0)
}

fn seen(bytes: &[u8], truths: &[Truth]) -> Seen {
    let file = File::parse(bytes).expect("a recording");
    let index = Index::new(&file);
    let mut seen = Seen {
        interval: file.header().alloc_interval().expect("allocations were sampled"),
        sums: BTreeMap::new(),
        live: BTreeMap::new(),
    };
    for sum in file.heap_sums().flat_map(|s| s.sums()) {
        let sum = sum.expect("whole sums");
        let site = site_of(&index, truths, sum.stack);
        let all = seen.sums.entry(site).or_insert(HeapSum {
            stack: 0,
            samples: 0,
            bytes: (0.0, 0.0),
            blocks: (0.0, 0.0),
            freed: (0, 0.0, 0.0),
            seen_bytes: 0,
            lifetimes: sum.lifetimes,
        });
        all.samples += sum.samples;
        all.bytes = (all.bytes.0 + sum.bytes.0, all.bytes.1 + sum.bytes.1);
        all.blocks = (all.blocks.0 + sum.blocks.0, all.blocks.1 + sum.blocks.1);
        all.freed = (all.freed.0 + sum.freed.0, all.freed.1 + sum.freed.1, all.freed.2 + sum.freed.2);
        all.seen_bytes += sum.seen_bytes;
    }
    for entry in file.heap_tables().flat_map(|table| table.entries()) {
        let entry = entry.expect("a whole entry of a program that has ended");
        if entry.state != EntryState::Ghost {
            let site = site_of(&index, truths, entry.stack);
            seen.live.entry(site).or_default().push((entry.size, entry.shift));
        }
    }
    seen
}

fn count(bytes: &[u8], at: usize) -> u64 {
    File::parse(bytes).expect("a recording").heap_account().map_or(0, |account| account.count(at))
}

#[test]
fn each_entry_point_counts_once_and_each_free_is_seen() {
    // The chance to miss one of these is e^-6000.
    let Some(run) = run(&["exact"], "alloc=16,stack=cfi") else { return };
    check_exact(&run, AllocServer::CLibrary);
}

fn check_exact(run: &Run, server: AllocServer) {
    let (truths, recordings) = (run.truths(), run.recordings());
    assert_eq!(recordings.len(), 1);
    let file = File::parse(&recordings[0]).expect("a recording");
    assert_eq!(file.header().alloc_server(), server);
    let mut seen = seen(&recordings[0], &truths);
    for (k, truth) in truths.iter().enumerate() {
        // glibc's own reallocarray calls realloc, so the request's innermost frame is the C library's.
        let Some(sum) = seen.sums.get(&truth.at) else {
            assert_eq!(k, 8, "request {k} was not seen");
            continue;
        };
        assert_eq!((sum.samples, sum.seen_bytes), (1, truth.bytes), "request {k}");
        assert!((sum.bytes.0 - truth.bytes as f64).abs() < 1e-6, "request {k}: {sum:?}");
        assert_eq!(sum.freed.0, u64::from(truth.live == 0), "request {k} was freed");
        let live: u64 = seen.live.remove(&truth.at).unwrap_or_default().iter().map(|(size, _)| size).sum();
        assert_eq!(live, truth.live, "request {k}");
    }
    assert_eq!(count(&recordings[0], account::MISSED_FREES), 0);
    let huge = seen.sums.values().map(|sum| sum.seen_bytes).max();
    assert!(huge < Some(1 << 40), "what failed was counted: {huge:?}");
}

/// With other allocators in the place of libc's: blocks come from them as before, and all requests are seen.
#[test]
fn other_allocators_are_seen_and_keep_their_blocks() {
    for name in ["libjemalloc.so.2", "libtcmalloc.so.4", "libtcmalloc_minimal.so.4", "libmimalloc.so.2.0"] {
        let path = Path::new("/usr/lib/x86_64-linux-gnu").join(name);
        if !path.exists() {
            pct_kit::skip(&format!("{name} is not here"));
            continue;
        }
        let also = format!(":{}", path.display());
        let Some(run) = run_beside(&["sites", "2"], "alloc=64K", &also) else { return };
        check_sites(&run, AllocServer::Library);
    }
}

#[test]
fn estimates_of_a_thousand_sites_agree_with_the_truth() {
    for threads in ["1", "4"] {
        let Some(run) = run(&["sites", threads], "alloc=32K") else { return };
        check_sites(&run, AllocServer::CLibrary);
    }
}

/// Of each site the estimate's error over its standard deviation, which is computed from the truth: their
/// squares average 1.
fn check_sites(run: &Run, server: AllocServer) {
    let (truths, recordings) = (run.truths(), run.recordings());
    assert_eq!(recordings.len(), 1);
    let bytes = &recordings[0];
    let header = File::parse(bytes).expect("a recording").header().alloc_server();
    assert_eq!(header, server);
    assert_eq!(count(bytes, account::MISSED_FREES), 0);
    assert_eq!(count(bytes, account::UNTRACKED), 0);
    let seen = seen(bytes, &truths);
    let widest = (seen.interval << count(bytes, account::MOST_SITE_SHIFT)) as f64;
    let (mut squares, mut error, mut variance, mut live_error, mut live_variance) = (0.0, 0.0, 0.0, 0.0, 0.0);
    let (mut sites, mut spread) = (0.0, 0.0);
    for truth in truths.iter().filter(|truth| truth.blocks > 0) {
        let estimate = seen.sums.get(&truth.at).map_or(0.0, |sum| sum.bytes.0);
        let size = truth.bytes as f64 / truth.blocks as f64;
        // The interval changed meanwhile: the variance is at most that of the widest.
        let rest = (-size / widest).exp();
        let most = size * size * rest / (1.0 - rest);
        let off = estimate - truth.bytes as f64;
        squares += off * off / (most * truth.blocks as f64);
        sites += 1.0;
        // The fourth moment of a count of rare events: a site that expects a hundredth of a sample is off by
        // much, seldom.
        spread += 2.0 + 1.0 / ((1.0 - rest) * truth.blocks as f64);
        error += off;
        variance += most * truth.blocks as f64;
        let weigh = |&(size, shift): &(u64, u32)| {
            let interval = (seen.interval << shift) as f64;
            size as f64 / -(-(size as f64) / interval).exp_m1()
        };
        let live: f64 = seen.live.get(&truth.at).map_or(0.0, |all| all.iter().map(weigh).sum());
        live_error += live - truth.live as f64;
        live_variance += most * truth.live as f64 / size;
    }
    assert!(error.abs() < 4.5 * f64::sqrt(variance), "total is off by {error} +- {}", f64::sqrt(variance));
    assert!(live_error.abs() < 4.5 * f64::sqrt(live_variance), "live is off by {live_error}");
    // (Less than one each, because the interval was narrower most of the time.)
    assert!(squares < sites + 5.0 * f64::sqrt(spread), "{sites} sites are off by {squares}");
    assert!(squares / sites > 0.1, "estimates are nearer to the truth than samples can be");
    let stray: u64 = seen.sums.get(&0).map_or(0, |sum| sum.samples);
    let all: u64 = seen.sums.values().map(|sum| sum.samples).sum();
    assert!(stray * 100 <= all.max(300), "{stray} of {all} samples are of no site");
}

/// Of four million blocks more than half are drawn as samples; to record them all at the highest rate would take twenty
/// minutes. The busy site is thinned for it, and the other one is not. (If it were, it would have a hundredth of
/// the samples, as it has of the blocks. It gets a hundredth of those that are drawn, five times more and beyond.)
#[test]
fn a_leak_beside_a_busy_site_keeps_its_samples() {
    let Some(run) = run(&["leak"], "alloc=64") else { return };
    let (truths, recordings) = (run.truths(), run.recordings());
    assert_eq!(recordings.len(), 1);
    let bytes = &recordings[0];
    let seen = seen(bytes, &truths);
    let widest = (seen.interval << count(bytes, account::MOST_SITE_SHIFT)) as f64;
    let [busy, leak] = [0, 1].map(|k| seen.sums.get(&truths[k].at).expect("both sites have samples"));
    for (truth, sum) in truths.iter().zip([busy, leak]) {
        let off = sum.bytes.0 - truth.bytes as f64;
        // The variance of samples that all were taken at the widest interval: it is more than theirs.
        let most = truth.bytes as f64 * widest;
        assert!(off.abs() < 5.0 * most.sqrt(), "off by {off}: {sum:?} {truth:?}");
    }
    let live: f64 = seen.live[&truths[1].at]
        .iter()
        .map(|&(size, shift)| size as f64 / -(-(size as f64) / (seen.interval << shift) as f64).exp_m1())
        .sum();
    // All that leaked is live, so both are sums over the same samples.
    assert!((live / leak.bytes.0 - 1.0).abs() < 1e-9, "{live} live: {leak:?}");
    let in_step = busy.samples as f64 * truths[1].bytes as f64 / truths[0].bytes as f64;
    assert!(leak.samples as f64 > 1.3 * in_step, "{} samples, {in_step} in step with {busy:?}", leak.samples);
    for what in [account::LEFT_OUT, account::SITE_RISES, account::MOST_SITE_SHIFT] {
        assert!(count(bytes, what) > 0, "word {what} of the account");
    }
}

#[test]
fn countdowns_do_not_begin_at_0() {
    let Some(run) = run(&["small"], "alloc=512K") else { return };
    // 1,200 threads that request 64 bytes each, and what the C library needs for them: a few expected, not hundreds.
    for recording in run.recordings() {
        let file = File::parse(&recording).expect("a recording");
        let samples = file.heap_account().map_or(0, |a| a.count(account::SAMPLES));
        assert!(samples < 60, "{samples} samples");
    }
}

#[test]
fn without_the_feature_malloc_is_the_c_librarys() {
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let asked = |library: &Path| {
        let mut command = Command::new(program);
        command.arg("where").env("LD_PRELOAD", library);
        command.env("PCT", format!("out={},alloc=64K", folder.path().display()));
        unharmed(&command.output().expect("it starts"))
    };
    let off = asked(libraries::plain());
    assert!(off.contains("libc.so") || off.contains("ld-musl"), "malloc is {off}");
    assert!(asked(libraries::alloc()).contains("libpct"), "the wrapper is not there");
}

#[test]
fn forks_signals_and_limits_are_no_harm() {
    let Some(run) = run(&["forks"], "alloc=16K") else { return };
    // The parent, and children that requested enough; each has a file of its own without the others' blocks.
    let recordings = run.recordings();
    assert!(recordings.len() > 20, "{} recordings", recordings.len());
    for recording in &recordings {
        assert_eq!(count(recording, account::MISSED_FREES), 0);
    }
    run_beside(&["signals"], "alloc=1K", "");
    run_beside(&["limit"], "alloc=64K", "");
    if !run.output.stdout.is_empty() {
        harm(&format!("it said: {:?}", run.output));
    }
}

/// The kernel kills whoever faults while the fault's signal is blocked, and a program may block SIGBUS where
/// pct stores to its file outside of its own handlers: in allocations, marks, switches and ends.
#[test]
fn a_cut_recording_harms_no_code_that_blocks_the_signal_of_the_fault() {
    // One sample of the clock in a second of CPU time: the first store to the cut file is the one that is tried.
    run_beside(&["cut"], "alloc=16,hz=1", "");
}

#[test]
fn a_killed_process_leaves_a_recording_that_can_be_read() {
    if program().is_none() {
        return;
    }
    let times: u32 = std::env::var("PCT_TEST_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    let (mut read, mut busy) = (0, 0);
    for i in 0..times {
        let folder = tempfile::tempdir().expect("a folder");
        let threads = ["1", "2", "4"][i as usize % 3];
        let mut child = command(folder.path(), &["churn", threads], "alloc=4K", "")
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        // At some instant after its file is there; which one is chance.
        wait_until("its file", || std::fs::read_dir(folder.path()).expect("there").count() > 0);
        std::thread::sleep(std::time::Duration::from_micros(u64::from(i) * 7919 % 60_000));
        child.kill().expect("it lives");
        let status = child.wait().expect("it ended");
        if status.signal() != Some(9) {
            harm(&format!("it was to be killed and ended with {status}"));
        }
        let run = Run { output: Command::new("true").output().expect("true"), folder };
        for recording in run.recordings() {
            // A header that was not finished is said so; else all that is there can be read.
            let Ok(file) = File::parse(&recording) else { continue };
            read += 1;
            let index = Index::new(&file);
            let mut addresses = BTreeMap::<u64, u32>::new();
            for entry in file.heap_tables().flat_map(|table| table.entries()) {
                match entry {
                    Ok(entry) if entry.state == EntryState::Ghost => {}
                    Ok(entry) => {
                        *addresses.entry(entry.address).or_default() += 1;
                        assert!(entry.size <= 5000, "{entry:?}");
                        assert!(entry.stack == 0 || index.stacks.node(entry.stack).is_some(), "{entry:?}");
                    }
                    Err(BadEntry::Busy) => busy += 1,
                    Err(bad) => panic!("{bad:?}"),
                }
            }
            // A block in realloc may have a newer entry beside it, one for each thread.
            let twice = addresses.values().filter(|n| **n > 1).count();
            assert!(twice <= 4, "{twice} addresses are there twice");
            assert!(file.heap_sums().flat_map(|s| s.sums()).all(|sum| sum.is_ok()));
        }
    }
    assert!(read * 2 > times, "{read} of {times} could be read");
    assert!(busy <= 4 * times, "{busy} entries were being written");
}
