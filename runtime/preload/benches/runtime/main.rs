//! What the library costs, and how even it samples:
//! `cargo bench -p pct-preload [-- handler|start|libraries|stacks|python|rate|empty|phase|switches]`.
//!
//! - handler: self-sent signals in the very library that is shipped; ns over an empty handler in the same process,
//!   for the recorder `log` (with and without stacks, and on a signal stack that is too small for the handler) and
//!   `counts`; and microseconds for a new draw of the period, every few samples.
//! - start: microseconds that the library adds to `true`, idle and active.
//! - libraries: programs that load many libraries and end soon, see [`libraries`].
//! - stacks: the same program at the bottom of 20 and 100 frames, at 1000 Hz: CPU with stacks over CPU with
//!   flat samples, and the size of the file.
//! - python: what Python's frames add to a sample, see [`python`].
//! - rate: CPU seconds of a spinning program over the same program bare, by rate and clock, and the samples got.
//! - empty: the same program with a perf event of the same rate and an empty handler of its own per thread,
//!   and with the library: what of the cost is ours, and what the kernel's.
//! - phase: programs in step with the clock, see [`phase`]; switches: threads that switch all the time, see
//!   [`switches`]. Both beside perf.
//!
//! Rounds are interleaved and medians printed, since the machine does other things too. PCT_BENCH_ROUNDS scales.
//! PCT_BENCH_LIBRARY names a libpct.so to measure; else this tree's is built.

mod libraries;
mod phase;
mod python;
mod switches;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use pct_format::{File, Index};
use pct_kit::{Cpu, median};

fn main() {
    match std::env::var("PCT_BENCH_INSIDE").as_deref() {
        Ok("handler") => return inside_handler(),
        Ok("spin") => return inside_spin(),
        Ok("deep") => return inside_deep(),
        Ok("python") => return python::inside(),
        Ok("bursts") => return phase::inside(),
        Ok("switches") => return switches::inside(),
        _ => {}
    }
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    // `cargo test --benches` runs this too: then only to see that it works.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    let library = std::env::var_os("PCT_BENCH_LIBRARY").map_or_else(build, PathBuf::from);
    if wants("handler") {
        handler(&library);
    }
    if wants("start") {
        start(&library);
    }
    if wants("libraries") {
        libraries::table(&library);
    }
    if wants("stacks") {
        stacks(&library);
    }
    if wants("python") {
        python::table(&library);
    }
    if wants("rate") {
        rate(&library);
    }
    if wants("empty") {
        over_empty(&library);
    }
    if wants("switches") {
        switches::table(&library);
    }
    if wants("phase") {
        phase::table(&library);
    }
}

fn rounds(default: usize) -> usize {
    let scale = pct_kit::asked("PCT_BENCH_ROUNDS", 1.0);
    (default as f64 * scale) as usize + 1
}

fn build() -> PathBuf {
    let target = std::env::temp_dir().join(format!("pct-bench-{}", std::process::id()));
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo
        .args(["build", "-q", "-p", "pct-preload", "--lib", "--profile", "preload", "--target-dir"])
        .arg(&target);
    assert!(cargo.status().expect("cargo runs").success(), "libpct.so does not build");
    let library = target.join("libpct.so");
    std::fs::copy(target.join("preload/libpct.so"), &library).expect("copied");
    let _ = std::fs::remove_dir_all(target.join("preload"));
    library
}

fn myself(inside: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("known"));
    command.env("PCT_BENCH_INSIDE", inside);
    command
}

// --- handler
// ----------------------------------------------------------------------------------------------------------

fn handler(library: &Path) {
    println!("handler: ns a signal beyond an empty handler in the same process, self-sent signals");
    const SMALL: &str = "a small signal stack";
    for (options, stack) in [
        ("mode=log,stack=none", ""),
        ("mode=log,stack=none", SMALL),
        ("mode=log,stack=auto", ""),
        ("mode=counts", ""),
    ] {
        // Where things lie in memory differs from process to process, and with it the cost.
        let (mut processes, mut redraws) = (Vec::new(), Vec::new());
        for _ in 0..rounds(8) {
            let folder = tempfile::tempdir().expect("a folder");
            let mut command = myself("handler");
            if stack == SMALL {
                command.env("PCT_BENCH_SMALL_STACK", "1");
            }
            // So it does by the pages that the library's file has in memory: each process gets a copy.
            let library = copy_of(library, folder.path());
            // 1 Hz: nearly all signals are the self-sent ones. The log wraps, so that no page of the file is
            // touched first.
            command.env("LD_PRELOAD", library);
            command
                .env("PCT", format!("out={},clock=perf,hz=1,limit=512K,{options}", folder.path().display()));
            let output = command.output().expect("runs");
            let said = String::from_utf8_lossy(&output.stdout);
            let numbers: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            match numbers[..] {
                [ns, redraw] => {
                    processes.push(ns);
                    redraws.push(redraw / 1000.0);
                }
                _ => println!("  {}: {}", output.status, String::from_utf8_lossy(&output.stderr)),
            }
        }
        processes.sort_by(f64::total_cmp);
        let (least, most) = (processes.first(), processes.last());
        let (least, most) = (least.copied().unwrap_or(f64::NAN), most.copied().unwrap_or(f64::NAN));
        let count = processes.len();
        println!(
            "  {options:22} {stack:20} {:6.1} ns (median of {count} processes, {least:.1} to {most:.1}), a new draw {:4.1} us",
            median(processes),
            median(redraws)
        );
    }
}

fn copy_of(library: &Path, folder: &Path) -> PathBuf {
    let copy = folder.join("libpct.so");
    std::fs::copy(library, &copy).expect("copied");
    copy
}

extern "C" fn empty(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {}

/// Sends this thread a signal as the kernel's perf clock does: code POLL_IN. (A process may forge codes to itself.)
fn send(signal: i32) {
    let mut info = [0i32; 32];
    info[0] = signal;
    info[2] = 1;
    // SAFETY: siginfo_t has 128 bytes; the target is this thread.
    unsafe {
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), libc::gettid(), signal, info.as_ptr());
    }
}

fn inside_handler() {
    let (middle, with_draw) = time_signals();
    println!("{middle:.1} {with_draw:.1}");
}

/// CPU time of this process, in milliseconds.
fn milliseconds() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the time into `now`.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut now) };
    now.tv_sec * 1000 + now.tv_nsec / 1_000_000
}

/// Sends signals until the file, the regions, the unwind tables are made: the housekeeper comes with CPU time.
fn warm_up() {
    let end = milliseconds() + 800;
    while milliseconds() < end {
        for _ in 0..100 {
            send(libc::SIGURG);
        }
    }
}

/// Signals come on a stack of this thread's with 4 KB beside the kernel's frame. (Not by libc's call, for which the
/// library sets a larger one: as in a program that pct attached to.)
fn small_stack() {
    // SAFETY: memory for nothing else, which stays.
    unsafe {
        let size = 4096 + usize::try_from(libc::getauxval(libc::AT_MINSIGSTKSZ)).expect("a size");
        let memory = Vec::leak(vec![0_u8; size]).as_mut_ptr();
        let stack = libc::stack_t { ss_sp: memory.cast(), ss_flags: 0, ss_size: size };
        assert_eq!(libc::syscall(libc::SYS_sigaltstack, &raw const stack, 0), 0, "sigaltstack");
    }
}

/// Nanoseconds that a self-sent signal takes beyond one with an empty handler, and what a new draw of the period adds.
fn time_signals() -> (f64, f64) {
    const EMPTY: i32 = 50;
    /// At this rate the period is drawn anew every 8 samples: three of four batches are without a draw, and so is the
    /// median.
    const BATCH: usize = 2;
    // SAFETY: a handler that does nothing, with the flags and mask of the sampler's.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = empty as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigfillset(&raw mut action.sa_mask);
        libc::sigaction(EMPTY, &raw const action, std::ptr::null_mut());
    }
    let time = |signal: i32| {
        let start = Instant::now();
        for _ in 0..BATCH {
            send(signal);
        }
        start.elapsed().as_nanos() as f64 / BATCH as f64
    };
    if std::env::var_os("PCT_BENCH_SMALL_STACK").is_some() {
        small_stack();
    }
    warm_up();
    let mut difference = Vec::new();
    for _ in 0..50_000 {
        let (before, ours, after) = (time(EMPTY), time(libc::SIGURG), time(EMPTY));
        difference.push(ours - (before + after) / 2.0);
    }
    difference.sort_by(f64::total_cmp);
    let middle = difference[difference.len() / 2];
    // The middle of the batches with a draw, which are the slowest quarter.
    let with_draw = difference[difference.len() * 7 / 8];
    (middle, (with_draw - middle) * BATCH as f64)
}

// --- start
// ------------------------------------------------------------------------------------------------------------

fn start(library: &Path) {
    println!("start: microseconds from spawn to wait of `true`, over bare");
    let folder = tempfile::tempdir().expect("a folder");
    let active = |clock: &str| format!("out={},hz=100,clock={clock}", folder.path().display());
    let cases = [
        ("bare", false, None),
        ("idle (PCT not set)", true, None),
        ("active, 100 Hz, auto", true, Some(active("auto"))),
        ("active, 100 Hz, thread", true, Some(active("thread"))),
    ];
    let mut times = vec![Vec::new(); cases.len()];
    for _ in 0..rounds(200) {
        for ((_, preload, options), times) in cases.iter().zip(&mut times) {
            let mut command = Command::new("/bin/true");
            command.env_clear();
            if *preload {
                command.env("LD_PRELOAD", library);
            }
            if let Some(options) = options {
                command.env("PCT", options);
            }
            let start = Instant::now();
            command.status().expect("true runs");
            times.push(start.elapsed().as_nanos() as f64 / 1000.0);
        }
    }
    // The lowest tenth beside the median: what else the machine does only adds.
    let tenth = |times: &[f64]| {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 10).copied().unwrap_or(f64::NAN)
    };
    let (bare, bare_tenth) = (median(times[0].clone()), tenth(&times[0]));
    println!("  {:24} {:>10} {:>6} {:>13} {:>6}", "", "median", "over", "lowest tenth", "over");
    for ((name, ..), times) in cases.iter().zip(times) {
        let (tenth, median) = (tenth(&times), median(times));
        println!(
            "  {name:24} {median:7.0} us {:+6.0} {tenth:10.0} us {:+6.0}",
            median - bare,
            tenth - bare_tenth
        );
    }
}

// --- stacks
// -----------------------------------------------------------------------------------------------------------

/// Spins `PCT_BENCH_DEPTH` frames deep, coming up and going down again every 10 microseconds or so.
fn inside_deep() {
    #[inline(never)]
    fn down(frames: u32, x: u64) -> u64 {
        if frames > 0 {
            return std::hint::black_box(down(std::hint::black_box(frames - 1), x)).wrapping_add(1);
        }
        (0..10_000)
            .fold(x, |x, i| std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i)))
    }
    let depth = pct_kit::asked("PCT_BENCH_DEPTH", 20);
    let mut x = 0;
    for _ in 0..std::hint::black_box(50_000) {
        x = down(depth, x);
    }
    std::hint::black_box(x);
}

fn stacks(library: &Path) {
    println!("stacks: CPU of a fixed amount of work at 1000 Hz with stacks over the same with flat samples");
    for depth in [20, 100] {
        let (mut ratios, mut size, mut seconds) = (Vec::new(), 0, 0.0);
        for _ in 0..rounds(15) {
            let mut cpu = |stack: &str| {
                let folder = tempfile::tempdir().expect("a folder");
                let mut command = myself("deep");
                command.env("LD_PRELOAD", library).env("PCT_BENCH_DEPTH", depth.to_string());
                command.env("PCT", format!("out={},hz=1000,stack={stack}", folder.path().display()));
                let cpu = cpu_of(command);
                let files = std::fs::read_dir(folder.path()).expect("there").filter_map(Result::ok);
                size = files.filter_map(|f| Some(f.metadata().ok()?.len())).sum();
                cpu
            };
            // Flat, stacks, flat: what drifts cancels.
            let (before, with, after) = (cpu("none"), cpu("auto"), cpu("none"));
            cpu("auto");
            ratios.push(2.0 * with / (before + after));
            seconds = with;
        }
        let ratio = 100.0 * (median(ratios) - 1.0);
        println!(
            "  {depth:>4} frames {ratio:+6.2} %   file of the last run {size} bytes for {seconds:.1} CPU s"
        );
    }
}

// --- rate
// -------------------------------------------------------------------------------------------------------------

/// A fixed amount of work, in one thread or several.
fn inside_spin() {
    let steps = pct_kit::asked("PCT_BENCH_STEPS", 400_000_000u64);
    let threads = pct_kit::asked("PCT_BENCH_THREADS", 1u64);
    let others: Vec<_> = (1..threads).map(|_| std::thread::spawn(move || spin(steps / threads))).collect();
    spin(steps / threads);
    others.into_iter().for_each(|thread| thread.join().expect("it spins"));
}

fn spin(steps: u64) {
    if let Ok(hz) = std::env::var("PCT_BENCH_EMPTY") {
        let clock = std::env::var("PCT_BENCH_CLOCK").unwrap_or_default();
        empty_clock(hz.parse().expect("a rate"), clock == "sigtrap");
    }
    let mut x = 0u64;
    for i in 0..std::hint::black_box(steps) {
        x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i));
    }
    std::hint::black_box(x);
}

/// A perf event as the sampler's clock opens it, that signals to a handler that does nothing.
fn empty_clock(hz: u64, sigtrap: bool) {
    let signal = if sigtrap { libc::SIGTRAP } else { libc::SIGURG };
    const EXCLUDE_KERNEL_AND_HV: u64 = 3 << 5;
    let mut attr = [0u64; 16];
    attr[0] = 128 << 32 | 1; // size, PERF_TYPE_SOFTWARE
    attr[1] = 1; // PERF_COUNT_SW_TASK_CLOCK
    attr[2] = 1_000_000_000 / hz;
    attr[5] = EXCLUDE_KERNEL_AND_HV | if sigtrap { 3 << 36 } else { 0 }; // remove_on_exec, sigtrap
    attr[6] = 1; // wakeup_events
    // SAFETY: plain system calls on a descriptor of our own; the handler does nothing, with the sampler's
    // flags and mask.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = empty as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigfillset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        let fd = libc::syscall(libc::SYS_perf_event_open, attr.as_ptr(), 0, -1, -1, 0) as i32;
        assert!(fd >= 0, "perf_event_open: {}", std::io::Error::last_os_error());
        if sigtrap {
            return; // by itself, to the thread that runs
        }
        const F_SETOWN_EX: i32 = 15;
        const F_SETSIG: i32 = 10;
        let owner = [0, libc::gettid()]; // F_OWNER_TID
        libc::fcntl(fd, F_SETOWN_EX, owner.as_ptr());
        libc::fcntl(fd, F_SETSIG, signal);
        libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK | libc::O_ASYNC);
    }
}

fn over_empty(library: &Path) {
    println!(
        "empty: CPU of a fixed amount of work, with an empty handler on the same clock and with the library"
    );
    println!(
        "  {:>6} {:8} {:6} {:>7} {:>12} {:>12} {:>12}",
        "Hz", "clock", "stack", "threads", "empty/bare", "pct/bare", "pct/empty"
    );
    let cases = [
        ("1000", "perf", "none", "1"),
        ("1000", "perf", "auto", "1"),
        ("1000", "perf", "none", "4"),
        ("1000", "perf", "auto", "4"),
        ("10000", "perf", "none", "1"),
        ("10000", "perf", "auto", "1"),
        ("10000", "sigtrap", "none", "1"),
    ];
    for (hz, clock, stack, threads) in cases {
        let (mut empty, mut ours, mut over) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds(5) {
            // Long enough that what is done once does not count.
            let spin = || {
                let mut command = myself("spin");
                command.env("PCT_BENCH_STEPS", "2000000000").env("PCT_BENCH_THREADS", threads);
                command
            };
            let with_empty = || {
                let mut command = spin();
                command.env("PCT_BENCH_EMPTY", hz).env("PCT_BENCH_CLOCK", clock);
                cpu_of(command)
            };
            let with_library = || {
                let folder = tempfile::tempdir().expect("a folder");
                let mut command = spin();
                let options = format!("out={},hz={hz},clock={clock},stack={stack}", folder.path().display());
                command.env("LD_PRELOAD", library).env("PCT", options);
                cpu_of(command)
            };
            let bare = cpu_of(spin());
            // There and back: what drifts cancels.
            let (e1, p1, p2, e2) = (with_empty(), with_library(), with_library(), with_empty());
            empty.push((e1 + e2) / 2.0 / bare);
            ours.push((p1 + p2) / 2.0 / bare);
            over.push((p1 + p2) / (e1 + e2));
        }
        let (empty, ours, over) = (median(empty), median(ours), median(over));
        println!("  {hz:>6} {clock:8} {stack:6} {threads:>7} {empty:12.4} {ours:12.4} {over:12.4}");
    }
}

/// CPU seconds of a child.
fn cpu_of(mut command: Command) -> f64 {
    let before = Cpu::children().total();
    command.status().expect("runs");
    Cpu::children().total() - before
}

fn rate(library: &Path) {
    println!("rate: CPU of a fixed amount of work over the same bare; samples got of those expected");
    let cases = [
        ("100", "auto", "none"),
        ("1000", "auto", "none"),
        ("1000", "auto", "auto"),
        ("1000", "thread", "none"),
        ("10000", "perf", "none"),
        ("10000", "sigtrap", "none"),
    ];
    let mut ratios = vec![Vec::new(); cases.len()];
    let mut got = vec![Vec::new(); cases.len()];
    let mut bytes = vec![0; cases.len()];
    for _ in 0..rounds(5) {
        for (i, (hz, clock, stack)) in cases.iter().enumerate() {
            let folder = tempfile::tempdir().expect("a folder");
            let bare = cpu_of(myself("spin"));
            let mut command = myself("spin");
            command.env("LD_PRELOAD", library);
            command
                .env("PCT", format!("out={},hz={hz},clock={clock},stack={stack}", folder.path().display()));
            let cpu = cpu_of(command);
            ratios[i].push(cpu / bare);
            for file in std::fs::read_dir(folder.path()).expect("there").filter_map(Result::ok) {
                let data = std::fs::read(file.path()).expect("readable");
                let Ok(file) = File::parse(&data) else { continue };
                let weight: u64 = Index::new(&file).samples_by_time().map(|(_, s)| s.weight).sum();
                got[i].push(weight as f64 * file.header().period_ns() as f64 / 1e9 / cpu);
                bytes[i] = data.len();
            }
        }
    }
    println!("  {:>6} {:8} {:6} {:>8} {:>10} {:>10}", "Hz", "clock", "stack", "CPU", "accounted", "bytes");
    for (i, (hz, clock, stack)) in cases.iter().enumerate() {
        let (ratio, got) = (median(ratios[i].clone()), 100.0 * median(got[i].clone()));
        println!("  {hz:>6} {clock:8} {stack:6} {ratio:8.4} {got:9.1}% {:>10}", bytes[i]);
    }
}
