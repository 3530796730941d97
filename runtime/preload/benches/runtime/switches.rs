//! switches: two threads on one CPU that hand each other a byte. CPU time over the bare program's, by pct and
//! by perf record, and how much of it is in the recording.

use std::path::Path;
use std::process::{Command, Stdio};

use pct_format::{File, Index};
use pct_kit::median;

use crate::{cpu_of, myself, rounds};

pub(crate) fn table(library: &Path) {
    println!("switches: CPU of two threads that hand each other a byte on one CPU, over the same bare");
    let clocks = ["auto", "perf", "thread"];
    let (mut ratios, mut accounted, mut perf) = (vec![Vec::new(); 3], vec![Vec::new(); 3], Vec::new());
    for _ in 0..rounds(7) {
        for (i, clock) in clocks.iter().enumerate() {
            let folder = tempfile::tempdir().expect("a folder");
            let before = cpu_of(myself("switches"));
            let mut command = myself("switches");
            command.env("LD_PRELOAD", library);
            command.env("PCT", format!("out={},clock={clock}", folder.path().display()));
            let cpu = cpu_of(command);
            // There and back: what drifts cancels.
            ratios[i].push(2.0 * cpu / (before + cpu_of(myself("switches"))));
            for file in std::fs::read_dir(folder.path()).expect("there").filter_map(Result::ok) {
                let data = std::fs::read(file.path()).expect("readable");
                let Ok(file) = File::parse(&data) else { continue };
                let weight: u64 = Index::new(&file).samples_by_time().map(|(_, s)| s.weight).sum();
                accounted[i].push(weight as f64 * file.header().period_ns() as f64 / 1e9 / cpu);
            }
        }
        perf.extend(by_perf());
    }
    for ((clock, ratios), accounted) in clocks.iter().zip(ratios).zip(accounted) {
        println!("  pct {clock:8} {:6.3}   accounted {:5.1} %", median(ratios), 100.0 * median(accounted));
    }
    if !perf.is_empty() {
        println!("  perf record  {:6.3}   (with perf's own start)", median(perf));
    }
}

fn by_perf() -> Option<f64> {
    let folder = tempfile::tempdir().ok()?;
    let bare = myself("switches");
    let mut command = Command::new("perf");
    command.args(["record", "-q", "-e", "task-clock:u", "-F", "997", "-o"]);
    command.arg(folder.path().join("perf.data")).arg("--").arg(bare.get_program());
    command.env("PCT_BENCH_INSIDE", "switches").stdout(Stdio::null()).stderr(Stdio::null());
    Command::new("perf").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
    let (before, cpu) = (cpu_of(bare), cpu_of(command));
    Some(cpu / before)
}

/// The program: each byte there and back is two switches.
pub(crate) fn inside() {
    let bytes = pct_kit::asked("PCT_BENCH_STEPS", 200_000u64);
    // SAFETY: plain system calls on descriptors and a set of our own.
    let (there, back) = unsafe {
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(usize::try_from(libc::sched_getcpu()).expect("a CPU"), &mut one);
        libc::sched_setaffinity(0, size_of_val(&one), &raw const one);
        let (mut there, mut back) = ([0; 2], [0; 2]);
        assert!(libc::pipe(there.as_mut_ptr()) == 0 && libc::pipe(back.as_mut_ptr()) == 0);
        (there, back)
    };
    let hand_on = move |from: i32, to: i32| {
        let mut byte = 0u8;
        // SAFETY: `byte` has room for the one byte that is read.
        unsafe {
            libc::read(from, (&raw mut byte).cast(), 1) == 1
                && libc::write(to, (&raw const byte).cast(), 1) == 1
        }
    };
    let other = std::thread::spawn(move || (0..bytes).all(|_| hand_on(there[0], back[1])));
    // SAFETY: the buffer holds the one byte that is written.
    unsafe { libc::write(there[1], [0u8].as_ptr().cast(), 1) };
    assert!((1..bytes).all(|_| hand_on(back[0], there[1])));
    assert!(other.join().expect("it ends"));
}
