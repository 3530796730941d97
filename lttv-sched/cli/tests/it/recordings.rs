//! Recordings of samples (.pct): functions, and following one that is being written.

use std::path::Path;

use pct_format::State;
use pct_format::builder::Builder;
use pct_format::layout::header as at;

use crate::support::*;

/// File offset of the first instruction of an executable for 64 bits.
fn entry_offset(elf: &[u8]) -> u64 {
    let word = |at: usize| u64::from_le_bytes(elf[at..at + 8].try_into().unwrap());
    let half = |at: usize| usize::from(u16::from_le_bytes([elf[at], elf[at + 1]]));
    let (entry, headers) = (word(24), usize::try_from(word(32)).unwrap());
    let segments = (0..half(56)).map(|n| headers + n * half(54));
    let holds = |at: &usize| elf[*at] == 1 && (word(at + 16)..word(at + 16) + word(at + 32)).contains(&entry);
    let segment = segments.into_iter().find(holds).expect("a segment with the entry");
    entry - word(segment + 16) + word(segment + 8)
}

/// Samples of the command's own first function, of the kernel, and of unknown code.
fn of_own_entry(path: &Path) {
    let exe = env!("CARGO_BIN_EXE_lttv");
    let elf = std::fs::read(exe).unwrap();
    let mut b = Builder::new();
    b.region(1, 0, 0x10_0000..0x10_0000 + elf.len() as u64, 0, 0, b"", exe.as_bytes());
    let thread = b.thread(5, 77, b"main");
    let entry = 0x10_0000 + entry_offset(&elf);
    for (at, pc, system) in [(10, entry, false), (20, entry + 4, false), (30, entry, true), (40, 0x10, false)]
    {
        b.sample(thread, at, pc, 1, system, 0);
    }
    std::fs::write(path, b.finish()).unwrap();
}

#[test]
fn samples_have_the_functions_that_were_running() {
    let tmp = tempfile::tempdir().unwrap();
    let log = tmp.path().join("run.pct");
    of_own_entry(&log);
    let log = log.to_str().unwrap();
    let functions = |args: &[&str]| {
        let all = rows(&[&["stats", log, "--by", "function", "--format", "json"][..], args].concat());
        let row = |row: &serde_json::Value| {
            let text = |name: &str| row[name].as_str().unwrap().to_string();
            (text("name"), text("object"), row["samples"].as_u64().unwrap())
        };
        all.iter().map(row).collect::<Vec<_>>()
    };
    let row = |name: &str, object: &str, samples| (name.to_string(), object.to_string(), samples);
    let mut all = functions(&[]);
    all.sort();
    assert_eq!(all, [row("[system]", "kernel", 1), row("[unknown]", "", 1), row("_start", "lttv", 2)]);
    // The engine applies the window and the filter.
    assert_eq!(functions(&["--to", "+11ns"]), [row("_start", "lttv", 1)]);
    assert_eq!(functions(&["--filter", "name == system_sample"]), [row("[system]", "kernel", 1)]);
    let text = out(&["stats", log, "--by", "function"]);
    assert!(text.contains("         2   50.0%     2.01 ms  _start (lttv)"), "{text}");
}

/// The C library of this program, and the offset in it after the system call in `getppid`.
#[cfg(target_arch = "x86_64")]
fn in_getppid() -> Option<(String, u64)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let path = maps.split_whitespace().find(|word| word.contains("/libc.so"))?.to_owned();
    // mov $110, %eax; syscall; ret
    let code = [0xb8, 110, 0, 0, 0, 0x0f, 0x05, 0xc3];
    let at = std::fs::read(&path).unwrap().windows(code.len()).position(|octets| octets == code)?;
    Some((path, at as u64 + 7))
}

#[cfg(target_arch = "x86_64")]
#[test]
fn system_samples_have_the_name_of_their_system_call() {
    let Some((libc, offset)) = in_getppid() else {
        eprintln!("skipped: this C library has no plain getppid");
        return;
    };
    let tmp = tempfile::tempdir().unwrap();
    let log = tmp.path().join("run.pct");
    let mut b = Builder::new();
    let size = std::fs::metadata(&libc).unwrap().len();
    b.region(1, 0, 0x10_0000..0x10_0000 + size, 0, 0, b"", libc.as_bytes());
    let thread = b.thread(5, 77, b"main");
    b.sample(thread, 10, 0x10_0000 + offset, 1, true, 0);
    // The second one is in no region, so its call is unknown.
    b.sample(thread, 20, 0x10, 1, true, 0);
    std::fs::write(&log, b.finish()).unwrap();
    let all = rows(&["stats", log.to_str().unwrap(), "--by", "function", "--format", "json"]);
    let mut names: Vec<_> =
        all.iter().map(|row| (row["name"].as_str().unwrap(), row["object"].as_str().unwrap())).collect();
    names.sort_unstable();
    assert_eq!(names, [("[getppid]", "kernel"), ("[system]", "kernel")]);
}

/// A process that runs while its recording is followed.
mod live {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::support::started;

    /// Writes the recording of a running process after this many samples, in place of the one before.
    fn recorded(log: &Path, of: &Child, samples: u64) {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", of.id())).unwrap();
        let start: u64 = stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap().parse().unwrap();
        let boot =
            std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().replace('-', "");
        let octets: Vec<u8> =
            (0..16).map(|n| u8::from_str_radix(&boot[2 * n..2 * n + 2], 16).unwrap()).collect();
        let word = |n: usize| u64::from_le_bytes(octets[8 * n..8 * n + 8].try_into().unwrap());
        let mut b = Builder::new();
        b.set_header_word(at::STATE, State::Armed as u64)
            .set_header_word(at::PID, of.id().into())
            .set_header_word(at::START_TICKS, start);
        b.set_header_word(at::BOOT_ID, word(0)).set_header_word(at::BOOT_ID + 1, word(1));
        let thread = b.thread(5, 77, b"main");
        for sample in 1..=samples {
            b.sample(thread, sample * 1_000_000, 0x4000, 1, false, 0);
        }
        let new = log.with_extension("new");
        std::fs::write(&new, b.finish()).unwrap();
        std::fs::rename(new, log).unwrap();
    }

    #[test]
    fn a_recording_is_followed_until_its_process_has_ended() {
        let tmp = tempfile::tempdir().unwrap();
        let log = tmp.path().join("run.pct");
        // A process that lives until its input ends.
        let mut process = started(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()));
        recorded(&log, &process.0, 3);
        let mut command = Command::new(env!("CARGO_BIN_EXE_lttv"));
        command
            .args([
                "events",
                "--follow",
                log.to_str().unwrap(),
                "--columns",
                "ns,name",
                "--filter",
                "name == sample",
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut lttv = started(&mut command);
        let mut lines = BufReader::new(lttv.0.stdout.take().unwrap()).lines();
        let mut next = || lines.next().map(Result::unwrap);
        let sample = |n: u64| Some(format!("{} sample", 1_000_000_000 + n * 1_000_000));
        for n in 1..=3 {
            assert_eq!(next(), sample(n));
        }
        // It was listed while the process runs. Now there is more.
        recorded(&log, &process.0, 5);
        assert_eq!((next(), next()), (sample(4), sample(5)));
        recorded(&log, &process.0, 6);
        drop(process.0.stdin.take());
        process.0.wait().unwrap();
        assert_eq!((next(), next()), (sample(6), None));
        let mut said = String::new();
        lttv.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(lttv.0.wait().unwrap().success() && said.is_empty(), "{said}");
        // A process that has ended is listed at once. A file that is no recording is not followed.
        assert_eq!(out(&["events", "-f", log.to_str().unwrap(), "-n", "2"]).lines().count(), 2);
        let (trace, _) = trace(&tmp.path().join("trace"), 3);
        assert_eq!(crate::support::lttv(&["events", "--follow", &trace]).status.code(), Some(2));
    }
}
