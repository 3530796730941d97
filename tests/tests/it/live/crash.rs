//! Nothing recorded is lost by a crash of anything; damaged files are read as far as they go.

use pct_kit::Dice;
use pct_kit::harm::{harm, unharmed};
use pct_kit::wait::{wait_for, wait_until};
use pct_tests::pct::{binary, report, run, samples};
use pct_tests::skip;
use pct_tests::victims::{Guest, Left, children_of, cpu_seconds, signal, victim};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn recordings(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(recordings(&path));
        } else if path.extension().is_some_and(|e| e == "pct") {
            found.push(path);
        }
    }
    found
}

/// `pct run OPTIONS` of a program, into `out`.
fn started(options: &[&str], out: &Path, program: &[&str]) -> Guest {
    let mut command = Command::new(binary());
    command.arg("run").args(options).arg("--out").arg(out).arg("--").args(program);
    Guest::start(&mut command)
}

/// The program that pct runs, as soon as it has used so many seconds of CPU time.
fn program_after(pct: &mut Guest, seconds: f64) -> i32 {
    wait_for("the program to work", || {
        if let Some(status) = pct.ended() {
            harm(&format!("it ended by itself, with {status}"));
        }
        let program = children_of(pct.pid().unsigned_abs()).into_iter().next()?;
        (cpu_seconds(program) >= seconds).then_some(program)
    })
}

#[test]
fn a_killed_program_keeps_its_samples() {
    let victim = victim("shares.c");
    let rounds: u32 = pct_kit::asked("PCT_TEST_KILLS", 12);
    let dir = tempfile::tempdir().unwrap();
    for round in 0..rounds {
        let out = dir.path().join(round.to_string());
        let mut pct = started(&["--hz", "1000", "--no-report"], &out, &[victim.to_str().unwrap(), "2", "30"]);
        // after a time of its own that differs in each round
        let program = program_after(&mut pct, f64::from(10 + (round * 3) % 10) / 100.0);
        let spent = cpu_seconds(program);
        signal(program, "KILL");
        assert_eq!(pct.wait().status.signal(), Some(9));
        // What it had is what must be there, but for its start.
        let samples = samples(&report(&out, &[]));
        assert!(samples > 800.0 * (spent - 0.05), "round {round}: {samples} samples of {spent} CPU s");
    }
}

/// Each thread of the victim counts in a page that we share how often the handler has returned.
#[test]
fn of_every_thread_at_most_the_sample_in_hand_is_lost_by_a_kill() {
    const THREADS: usize = 3;
    let victim = victim("selfsignal.c");
    let rounds: u64 = pct_kit::asked("PCT_TEST_KILLS", 40);
    let dir = tempfile::tempdir().unwrap();
    for round in 0..rounds {
        let counts = if round % 4 == 3 { "counts" } else { "log" };
        let (page, out) = (dir.path().join("page"), dir.path().join(format!("recording-{round}")));
        fs::write(&page, vec![0; 4096]).unwrap();
        let word = |n: usize| {
            let bytes = fs::read(&page).unwrap();
            u64::from_ne_bytes(bytes[8 * n..8 * n + 8].try_into().unwrap())
        };
        // The real clock comes once in a second of CPU time: nearly all samples are those that the victim sends.
        let options = ["--no-report", "--clock", "itimer-virtual", "--hz", "1", "--mode", counts];
        let threads = THREADS.to_string();
        let mut pct = started(&options, &out, &[victim.to_str().unwrap(), page.to_str().unwrap(), &threads]);
        // Different moments: after the nth sample of the last thread.
        let moment = round * 7919 % 20_000;
        wait_until("samples of the last thread", || {
            if let Some(status) = pct.ended() {
                harm(&format!("the victim ended by itself, with {status}"));
            }
            word(2 * THREADS) >= moment && word(0) != 0
        });
        let pid = i32::try_from(word(0)).unwrap();
        // What the real clock may have added by the kill.
        let ticks = 1 + cpu_seconds(pid).ceil() as u64;
        signal(pid, "KILL");
        assert_eq!(pct.wait().status.signal(), Some(9));
        let file = recordings(&out).pop().expect("a recording");
        let bytes = fs::read(&file).unwrap();
        let file = pct_format::File::parse(&bytes).expect("readable");
        let returned: Vec<(u64, u64)> = (0..THREADS).map(|i| (word(1 + 2 * i), word(2 + 2 * i))).collect();
        if counts == "counts" {
            let counted: u64 = file.counters().flat_map(|area| area.nonzero()).map(|(_, n)| n).sum();
            let sent: u64 = returned.iter().map(|(_, n)| n).sum();
            let most = sent + THREADS as u64 + ticks;
            assert!((sent..=most).contains(&counted), "round {round}: {counted} counted, {sent} returned");
            continue;
        }
        let index = pct_format::Index::new(&file);
        for (tid, sent) in returned.into_iter().filter(|(tid, _)| *tid != 0) {
            let thread = index.threads.iter().find(|t| u64::from(t.tid) == tid);
            let kept: u64 = thread.map_or(0, |t| index.samples(t).map(|s| s.weight).sum());
            // The one that was being taken, and perhaps those of the real clock.
            let most = sent + 1 + ticks;
            assert!((sent..=most).contains(&kept), "round {round}: {kept} in the file, {sent} returned");
        }
    }
}

#[test]
fn a_killed_pct_leaves_a_whole_recording_and_a_running_program() {
    let victim = victim("shares.c");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("recording");
    let truth = dir.path().join("truth");
    let script = format!("{} 1 1 > {t}.aside; mv {t}.aside {t}", victim.display(), t = truth.display());
    let mut command = Command::new(binary());
    command.args(["run", "--hz", "1000", "--out"]).arg(&out).args(["--", "sh", "-c", &script]);
    let mut pct = Guest::start(command.stderr(Stdio::null()));
    wait_until("a recording", || {
        assert!(pct.ended().is_none(), "pct ended before a sample was taken");
        !recordings(&out).is_empty()
    });
    let left = Left::by(pct.pid());
    signal(pct.pid(), "KILL");
    wait_until("pct's end", || pct.ended().is_some());
    left.wait();
    if !truth.exists() {
        harm("the program did not come to its end");
    }
    let spent: f64 =
        pct_tests::victims::truth(&fs::read_to_string(&truth).unwrap()).iter().map(|t| t.1).sum();
    let seen: f64 = report(&out, &["--by", "object"]).iter().map(|r| r.cpu_seconds).sum();
    assert!((seen / spent - 1.0).abs() < 0.1, "{seen:.3} s seen, {spent:.3} spent");
}

#[test]
fn truncated_and_scribbled_files_are_an_error_or_a_report_but_never_a_crash() {
    let victim = victim("shares.c");
    let r = run(&["--hz", "1000", "--no-report"], &[victim.to_str().unwrap(), "2", "0.3"]);
    let file = recordings(&r.dir).pop().expect("a recording");
    let bytes = fs::read(&file).unwrap();
    let damaged = r.scratch().join("damaged.pct");
    let mut dice = Dice::new(99);
    for round in 0..60 {
        let mut copy = bytes.clone();
        if round % 2 == 0 {
            copy.truncate(dice.index(bytes.len()));
        } else {
            for _ in 0..1 + dice.index(400) {
                let at =
                    if round % 4 == 1 { dice.index(8192.min(copy.len())) } else { dice.index(copy.len()) };
                copy[at] = dice.roll() as u8;
            }
        }
        fs::write(&damaged, &copy).unwrap();
        for command in [&["report"][..], &["log"], &["print"]] {
            let out = Command::new(binary()).args(command).arg(&damaged).output().unwrap();
            let code = out.status.code();
            let err = String::from_utf8_lossy(&out.stderr);
            assert!(matches!(code, Some(0 | 1)), "round {round} {command:?}: {:?} {err}", out.status);
            assert!(!err.contains("panicked"), "round {round} {command:?}: {err}");
            assert!(code == Some(0) || err.contains("damaged.pct"), "the error names the file: {err}");
        }
    }
}

#[test]
fn an_unwritable_folder_is_said_and_the_program_runs() {
    let dir = tempfile::tempdir().unwrap();
    let blocked = dir.path().join("file-not-folder");
    fs::write(&blocked, "x").unwrap();
    let out = Command::new(binary())
        .args(["run", "--out"])
        .arg(blocked.join("below"))
        .args(["--", "echo", "fine"])
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(err.contains("file-not-folder"), "{err}");
    // either pct itself refuses (125) before anything ran, or the program ran unprofiled; never in between
    assert!(out.status.code() == Some(125) || out.stdout == b"fine\n", "{:?} {err}", out.status);
}

/// A small file system over a folder, until this value goes.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_stops_the_log_not_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let mount =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=600k", "none"]).arg(dir.path()).status();
    if !mount.is_ok_and(|s| s.success()) {
        skip("a_full_disk_stops_the_log_not_the_program", "no right to mount a small tmpfs");
        return;
    }
    let _mounted = Mounted(dir.path());
    let victim = victim("shares.c");
    let out = dir.path().join("recording");
    let run = Command::new(binary())
        .args(["run", "--hz", "8000", "--out"])
        .arg(&out)
        .args(["--", victim.to_str().unwrap(), "3", "2"])
        .output()
        .unwrap();
    assert_eq!(pct_tests::victims::truth(&unharmed(&run)).len(), 4);
    assert!(samples(&report(&out, &[])) > 100.0);
}
