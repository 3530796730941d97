//! Continuous sampling with time made fast: hundreds of rotations, after which the program has what it had
//! after the first ones.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pct_format::layout::header as at;
use pct_format::{File, State};

use crate::run::{Run, about, compiled};

/// The compiled program; `None` without a C compiler.
fn weeks() -> Option<&'static Path> {
    static WEEKS: OnceLock<Option<PathBuf>> = OnceLock::new();
    WEEKS.get_or_init(|| compiled("weeks")).as_deref()
}

/// Descriptors, mappings and KiB of address space at each look, and the CPU seconds used.
fn looks(run: &Run) -> (Vec<[u64; 3]>, f64) {
    let text = String::from_utf8_lossy(&run.output.stdout).into_owned();
    let mut rows = Vec::new();
    let mut used = 0.0;
    for line in text.lines() {
        match line.strip_prefix("used ") {
            Some(seconds) => used = seconds.parse().expect("a number"),
            None => {
                let numbers: Vec<u64> = line.split(' ').map(|n| n.parse().expect("a number")).collect();
                rows.push(numbers.try_into().expect("three numbers"));
            }
        }
    }
    (rows, used)
}

/// Argument of [`weeks`]: it goes on until so many files were begun, for as long as the machine needs.
fn until(files: u32) -> String {
    format!("files={files}@{}", 8 * at::ROTATIONS)
}

#[test]
fn hundreds_of_rotations_leave_the_program_what_it_had() {
    let Some(victim) = weeks() else { return };
    for clock in ["auto", "thread"] {
        let options = format!("continuous,hz=997,rotate=10ms,limit=1M,clock={clock}");
        let run = Run::new(victim, &["1", &until(200)], &options, |_| ()).ok();
        let (rows, _) = looks(&run);
        let files = std::fs::read_dir(run.folder()).expect("there").count();
        assert!(files >= 200, "{clock}: {files} files");
        // Threads end, so less is fine; the first line was written before two sessions took turns.
        let early = rows[2..5].iter().copied().reduce(|a, b| std::array::from_fn(|i| a[i].max(b[i])));
        let [fds, mappings, kib] = early.expect("three lines");
        let late = rows[rows.len() - 6..rows.len() - 1].iter().copied();
        let last = late.reduce(|a, b| std::array::from_fn(|i| a[i].min(b[i]))).expect("five lines");
        assert!(last[0] <= fds && last[1] <= mappings + 4 && last[2] <= kib + 1024, "{clock}: {rows:?}");
    }
}

#[test]
fn no_time_is_lost_between_two_files_nor_counted_twice() {
    let Some(victim) = weeks() else { return };
    // At most changes a clock that looks at the kernel's ticks alone would lose a quarter.
    for (clock, rotate) in [("auto", "500ms"), ("auto", "20ms"), ("thread", "20ms")] {
        no_time_is_lost(victim, clock, rotate);
    }
}

fn no_time_is_lost(victim: &Path, clock: &str, rotate: &str) {
    let options = format!("continuous,hz=997,rotate={rotate},clock={clock}");
    let run = Run::new(victim, &["1", &until(3)], &options, |_| ()).ok();
    let (_, used) = looks(&run);
    let files = run.files();
    assert!(files.len() >= 3, "{} files", files.len());
    // A sample that was due while the file changed is counted: at most one of each thread.
    let lost: Vec<_> = files.iter().flat_map(|file| &file.lost).collect();
    let samples: u64 = lost.iter().map(|lost| lost.1).sum();
    assert!(samples as usize <= 4 * files.len(), "{lost:?}");
    let parts: Vec<_> = files.iter().map(|file| (file.user, file.system)).collect();
    eprintln!("{clock}, {rotate}: user and system of each file: {parts:.2?}");
    about(files.iter().map(|file| file.user + file.system).sum(), used);
}

#[test]
fn files_are_numbered_and_closed() {
    let Some(victim) = weeks() else { return };
    let run = Run::new(victim, &["0.5", &until(4)], "continuous,hz=997,rotate=50ms", |_| ()).ok();
    let mut numbers = Vec::new();
    for file in run.files() {
        let bytes = std::fs::read(&file.path).expect("readable");
        let header = File::parse(&bytes).expect("whole").header();
        numbers.push((header.header_word(at::ROTATIONS), header.state()));
    }
    numbers.sort_by_key(|(number, _)| *number);
    let last = numbers.pop().expect("a file");
    assert!(numbers.len() >= 2, "{numbers:?}");
    // Closed at the end of the program, or by a rotation after which no sample was due.
    assert!(matches!(last.1, State::Closed | State::Stopped), "{last:?}");
    assert!(numbers.iter().all(|(_, state)| *state == State::Stopped), "{numbers:?}");
    assert!(numbers.is_sorted_by(|a, b| a.0 < b.0), "{numbers:?}");
}

/// Bytes of a file, and of those on the disk.
fn sizes(path: &Path) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    let facts = std::fs::metadata(path).expect("there");
    (facts.len(), facts.blocks() * 512)
}

#[test]
fn finished_files_take_no_more_of_the_disk_than_they_hold() {
    let Some(victim) = weeks() else { return };
    let run = Run::new(victim, &["1", &until(10)], "continuous,hz=97,rotate=50ms", |_| ()).ok();
    let mut files = run.files();
    files.sort_by_key(|file| {
        let bytes = std::fs::read(&file.path).expect("readable");
        File::parse(&bytes).expect("whole").header().header_word(at::ROTATIONS)
    });
    // The last two are still mapped when the program ends.
    let finished = files.len().saturating_sub(2);
    assert!(finished > 5, "{} files", files.len());
    let sizes: Vec<(u64, u64)> = files[..finished].iter().map(|file| sizes(&file.path)).collect();
    if !frees_rests(run.folder()) {
        return pct_kit::skip("this file system cannot free a part of a file");
    }
    // Two of a thread's four pages hold something, three of the first block's, and none of the blocks to come.
    assert!(sizes.iter().all(|(bytes, disk)| disk * 5 <= *bytes * 3), "{sizes:?}");
}

/// Whether the file system of a folder can give a part of a file back.
fn frees_rests(folder: &Path) -> bool {
    let path = folder.join("try");
    std::fs::write(&path, [1; 1 << 16]).expect("written");
    let tried =
        std::process::Command::new("fallocate").args(["-p", "-o", "4096", "-l", "16384"]).arg(&path).status();
    tried.is_ok_and(|status| status.success())
}

#[test]
fn children_of_a_program_that_rotates_are_sampled() {
    let Some(victim) = weeks() else { return };
    let run = Run::new(victim, &["0.5", "fork"], "continuous,hz=997,rotate=10ms", |_| ()).ok();
    let mut by_process = std::collections::BTreeMap::<u32, f64>::new();
    for file in run.files() {
        let bytes = std::fs::read(&file.path).expect("readable");
        let pid = File::parse(&bytes).expect("whole").header().pid();
        *by_process.entry(pid).or_default() += file.user + file.system;
    }
    assert!(by_process.len() >= 3, "{by_process:?}");
    let children: Vec<f64> = by_process.into_values().filter(|seconds| *seconds < 0.4).collect();
    assert!(children.len() >= 2, "{children:?}");
    children.into_iter().for_each(|seconds| about(seconds, 0.2));
}

/// Bytes that the recordings of a folder take on the disk.
fn on_disk(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let entries = std::fs::read_dir(folder).expect("there").map(|entry| entry.expect("readable"));
    entries
        .filter(|entry| entry.path().extension().is_some_and(|e| e == "pct"))
        .map(|entry| entry.metadata().expect("there").blocks() * 512)
        .sum()
}

#[test]
fn the_folder_stays_below_its_bound_and_the_oldest_go_first() {
    let Some(victim) = weeks() else { return };
    let run = Run::new(victim, &["1", &until(80)], "continuous,hz=997,rotate=10ms,keep=1M", |_| ()).ok();
    let mut numbers: Vec<u64> = run
        .files()
        .iter()
        .map(|file| {
            let bytes = std::fs::read(&file.path).expect("readable");
            File::parse(&bytes).expect("whole").header().header_word(at::ROTATIONS)
        })
        .collect();
    numbers.sort_unstable();
    let folder = run.folder();
    // The file that is written comes on top of the bound.
    assert!(on_disk(folder) <= (1 << 20) + (256 << 10), "{}", on_disk(folder));
    assert!(numbers.len() >= 3 && *numbers.last().expect("one") > 50, "{numbers:?}");
    assert!(numbers[0] > 0, "the first file is gone: {numbers:?}");
}

/// Containers share a folder: a process id says nothing of a process in another PID namespace.
#[test]
fn files_of_processes_that_cannot_be_seen_from_here_are_kept_until_nobody_writes_them() {
    let Some(victim) = weeks() else { return };
    let one = Run::new(victim, &["0.2"], "hz=997", |_| ()).ok();
    let recording = std::fs::read(&one.only_file().path).expect("readable");
    let namespace = File::parse(&recording).expect("whole").header().header_word(at::PID_NAMESPACE);
    assert_ne!(namespace, 0);
    let boot = File::parse(&recording).expect("whole").header().header_word(at::BOOT_ID);
    let now = std::time::SystemTime::now();
    let (just, long_ago) = (now, now - std::time::Duration::from_secs(2 * 3600));
    let run = Run::new(victim, &["1", &until(80)], "continuous,hz=997,rotate=10ms,keep=1M", |command| {
        let options = command.get_envs().find(|(name, _)| *name == "PCT").and_then(|(_, value)| value);
        let options = options.and_then(|value| value.to_str()).expect("options");
        let folder = options.trim_start_matches("out=").split(',').next().expect("a folder");
        let other = namespace + 1;
        for (name, state, namespace, boot, modified) in [
            ("elsewhere", State::Armed, other, boot, just),
            ("left-behind", State::Armed, other, boot, long_ago),
            ("closed", State::Closed, other, boot, just),
            ("killed", State::Armed, namespace, boot, just),
            ("before-the-boot", State::Armed, other, boot ^ 1, just),
        ] {
            let mut file = recording.clone();
            // No process has this id: it is above the kernel's largest.
            let words = [
                (at::STATE, state as u64),
                (at::PID, 1 << 30),
                (at::PID_NAMESPACE, namespace),
                (at::BOOT_ID, boot),
            ];
            for (index, word) in words {
                file[8 * index..8 * index + 8].copy_from_slice(&word.to_le_bytes());
            }
            let path = Path::new(folder).join(format!("{name}.pct"));
            std::fs::write(&path, file).expect("written");
            let file = std::fs::File::options().write(true).open(path).expect("there");
            file.set_modified(modified).expect("set");
        }
    })
    .ok();
    let mut left: Vec<_> = run.files().iter().map(|file| file.path.clone()).collect();
    let names = ["elsewhere", "left-behind", "closed", "killed", "before-the-boot"];
    left.retain(|path| path.file_stem().is_some_and(|stem| names.iter().any(|name| stem == *name)));
    assert_eq!(left, [run.folder().join("elsewhere.pct")]);
}

#[test]
fn threads_that_block_everything_are_sampled_over_rotations_and_get_no_signal() {
    let Some(victim) = crate::run::victim() else { return };
    for clock in ["auto", "perf"] {
        let options = format!("continuous,hz=997,rotate=200ms,clock={clock}");
        let run = Run::new(victim, &["all-blocked"], &options, |_| ()).ok();
        about(run.files().iter().map(|file| file.user + file.system).sum(), 1.2);
        Run::new(victim, &["all-blocked", "sent"], &options, |_| ()).ok();
    }
}
