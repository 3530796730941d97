//! libraries: programs of this machine that load dozens of libraries and end soon. CPU time, memory and page faults
//! over the same bare, by pct and by perf record. Means, not medians: whether such a program meets a sample at all,
//! with which its libraries are looked at, is a matter of chance.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::rounds;

/// The programs; those that are not installed are left out.
const PROGRAMS: [(&str, &[&str]); 4] = [
    ("ffmpeg", &["-version"]),
    ("/usr/bin/python3", &["-c", "import numpy"]),
    ("node", &["-e", "1"]),
    ("git", &["--version"]),
];

/// What processes took, in sum.
#[derive(Default)]
struct Taken {
    /// CPU seconds.
    cpu: f64,
    /// Most memory that it had at a time, in kilobytes.
    kilobytes: f64,
    /// Page faults without a disk.
    faults: f64,
}

impl Taken {
    fn add(&mut self, other: &Taken) {
        self.cpu += other.cpu;
        self.kilobytes += other.kilobytes;
        self.faults += other.faults;
    }
}

pub(crate) fn table(library: &Path) {
    println!("libraries: programs that load many and end soon, over the same bare");
    println!(
        "  {:32} {:>8} {:>8} {:>12} {:>8} {:>10} {:>12}",
        "", "bare, ms", "pct", "perf record", "pct, ms", "pct, kB", "pct, faults"
    );
    for (program, arguments) in PROGRAMS {
        let command = || {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        };
        if !command().stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success()) {
            println!("  {program} {}: not here", arguments.join(" "));
            continue;
        }
        let [mut bare, mut with, mut by_perf] = [Taken::default(), Taken::default(), Taken::default()];
        let rounds = rounds(20);
        for _ in 0..rounds {
            let folder = tempfile::tempdir().expect("a folder");
            bare.add(&taken(command()));
            let mut sampled = command();
            sampled.env("LD_PRELOAD", library).env("PCT", format!("out={}/", folder.path().display()));
            with.add(&taken(sampled));
            let mut perf = Command::new("perf");
            perf.args(["record", "-q", "-g", "-e", "task-clock:u", "-F", "997", "-o"]);
            perf.arg(folder.path().join("perf.data")).arg("--").arg(program).args(arguments);
            by_perf.add(&taken(perf));
        }
        let mean = |sum: f64| sum / rounds as f64;
        println!(
            "  {:32} {:8.1} {:8.3} {:12.3} {:+8.1} {:+10.0} {:+12.0}",
            format!("{program} {}", arguments.join(" ")),
            1000.0 * mean(bare.cpu),
            with.cpu / bare.cpu,
            by_perf.cpu / bare.cpu,
            1000.0 * mean(with.cpu - bare.cpu),
            mean(with.kilobytes - bare.kilobytes),
            mean(with.faults - bare.faults),
        );
    }
}

fn taken(mut command: Command) -> Taken {
    let Ok(child) = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() else {
        return Taken { cpu: f64::NAN, kilobytes: f64::NAN, faults: f64::NAN };
    };
    // SAFETY: all zeros is an rusage; the child is our own and nobody else waits for it.
    let used = unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        libc::wait4(child.id().cast_signed(), std::ptr::null_mut(), 0, &raw mut used);
        used
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Taken {
        cpu: seconds(used.ru_utime) + seconds(used.ru_stime),
        kilobytes: used.ru_maxrss as f64,
        faults: used.ru_minflt as f64,
    }
}
