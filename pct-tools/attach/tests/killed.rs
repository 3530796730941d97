//! A controller that is killed at any moment leaves its target alive and right.
//!
//! The controller is this very test program, started again with the target's pid; it attaches and detaches without end and
//! writes the step that it is at into a shared file. Every second kill comes at a random moment, the others are aimed at the step
//! that has had the fewest. `PCT_TEST_KILLS=1000 cargo test --test killed -- --nocapture` prints in which step each kill fell.

mod victims;

use pct_attach::blob::{Blob, by_blob};
use pct_attach::facts;
use pct_attach::inject::{by_dlopen, by_note, off};
use pct_attach::mapped::MappedFile;
use pct_attach::memory::ProcessMemory;
use pct_attach::ptrace::borrow::{OBSERVER, Step};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::Duration;
use victims::{BARE, Victim, built};

static CELL: OnceLock<std::sync::Mutex<MappedFile>> = OnceLock::new();

/// The step at which this controller takes its time, so that kills meet it there.
static LINGER: OnceLock<Option<u8>> = OnceLock::new();

/// Not a test of its own: what the killed process runs, told by the environment.
#[test]
fn controller() {
    let Ok(pid) = std::env::var("PCT_TEST_TARGET") else { return };
    let pid: i32 = pid.parse().unwrap();
    let library = std::env::var("PCT_TEST_LIBRARY").unwrap();
    let mut cell = MappedFile::create(Path::new(&std::env::var("PCT_TEST_STEP").unwrap()), 4096).unwrap();
    cell.grow(4096).unwrap();
    CELL.set(std::sync::Mutex::new(cell)).unwrap();
    OBSERVER
        .set(|step| {
            CELL.get().unwrap().lock().unwrap().words()[0].store(step as u64, Ordering::SeqCst);
            if *LINGER.get_or_init(|| std::env::var("PCT_TEST_LINGER").ok()?.parse().ok()) == Some(step as u8)
            {
                std::thread::sleep(Duration::from_millis(3));
            }
        })
        .unwrap();
    let blob = Blob::parse(&std::fs::read(&library).unwrap()).unwrap();
    let memory = ProcessMemory::open(pid, true).unwrap();
    loop {
        let Ok(target) = facts::read(pid) else { return };
        // every method's steps are the same calls in another order; errors (a busy heap) are tried again
        if target.note.is_some() {
            let _ = by_note(&target, &memory, "hz=1");
            let _ = off(&target, &memory);
        } else if target.facts.has_dlopen {
            let _ = by_dlopen(&target, &memory, &library, "hz=1", false);
        } else {
            let _ = by_blob(&target, &memory, &blob, "hz=1");
        }
    }
}

#[test]
fn targets_outlive_controllers_killed_at_random_moments() {
    let kills: u32 = std::env::var("PCT_TEST_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
    let dir = tempfile::tempdir().unwrap();
    let library = built("fakepct.c", BARE, &dir);
    let kinds =
        [&["-O2", "-pthread"][..], &["-O2", "-pthread", "-static"], &["-O2", "-pthread", "-static-pie"]];
    let programs = kinds.map(|flags| {
        let kind = tempfile::tempdir().unwrap();
        (built("mallocs.c", flags, &kind), kind)
    });
    let mut fell = [0u32; Step::ALL.len()];
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    for round in 0..kills.div_ceil(10) {
        let victim = Victim::start(&mut Command::new(&programs[round as usize % programs.len()].0));
        while !facts::read(victim.pid()).is_ok_and(|t| t.facts.name == "mallocs" && t.facts.threads == 5) {}
        for kill in 0..10 {
            let step = dir.path().join(format!("step-{round}-{kill}"));
            let rarest = (1..fell.len()).min_by_key(|s| fell[*s]).expect("there are steps");
            let aim = (kill % 2 == 1).then_some(rarest);
            let mut controller = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "controller"])
                .env("PCT_TEST_TARGET", victim.pid().to_string())
                .env("PCT_TEST_LIBRARY", &library)
                .env("PCT_TEST_STEP", &step)
                // each second controller lingers at the step that it is to be killed in
                .env("PCT_TEST_LINGER", aim.map_or(String::new(), |step| step.to_string()))
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            // wait until it is at work, then for a random part of a few cycles
            let mut word = [0u8; 8];
            let mut begun = || {
                std::fs::File::open(&step)
                    .is_ok_and(|f| f.read_exact_at(&mut word, 0).is_ok() && word[0] != 0)
            };
            while !begun() {
                let ended = controller.try_wait().unwrap();
                assert!(
                    ended.is_none(),
                    "the controller ended by itself: {ended:?}, {}",
                    victims::status_line(victim.pid(), "State:")
                );
            }
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            match aim {
                Some(aim) => {
                    let file = std::fs::File::open(&step).unwrap();
                    let at = |word: &mut [u8; 8]| {
                        file.read_exact_at(word, 0).is_ok() && usize::from(word[0]) == aim
                    };
                    while !at(&mut word) {
                        let ended = controller.try_wait().unwrap();
                        assert!(
                            ended.is_none(),
                            "the controller ended by itself: {ended:?}, {}",
                            victims::status_line(victim.pid(), "State:")
                        );
                    }
                    std::thread::sleep(Duration::from_micros(random % 1000));
                }
                None => std::thread::sleep(Duration::from_micros(random % 3000)),
            }
            controller.kill().unwrap();
            controller.wait().unwrap();
            let f = std::fs::File::open(&step).unwrap();
            f.read_exact_at(&mut word, 0).unwrap();
            fell[usize::from(word[0])] += 1;
            // a thread that was let go in the middle of a call of ours restores itself; then the target must live
            let lives = victims::status_line(victim.pid(), "State:");
            assert!(
                !lives.contains('Z'),
                "{:?}: it died of a kill while {:?}",
                programs[round as usize % programs.len()].0.file_name(),
                Step::ALL[usize::from(word[0])]
            );
        }
        victim.ends_well();
    }
    for (step, n) in Step::ALL.iter().zip(fell) {
        println!("{n:5} kills while {step:?}");
    }
    assert!(fell[1..].iter().sum::<u32>() > 0, "no kill fell into an attach");
}
