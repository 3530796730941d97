//! A controller that is killed at any moment leaves its target alive and right, and none of its signals is lost.
//!
//! The controller is this very test program, started again with the target's pid; it attaches and detaches without end
//! and writes the step that it is at into a shared file. Every second kill comes at a random moment, the others are
//! aimed at the step that has had the fewest. `PCT_TEST_KILLS=1000 cargo test -p pct-attach --test it killed --
//! --nocapture` prints in which step each kill fell; `PCT_TEST_KILL_LOAD=2` lets two spinning threads compete for the
//! processors, which is when threads are caught half way.
//!
//! A second test needs no luck: the controller kills itself at its first step, then at its second, and so on
//! to its last.
//!
//! A target that dies leaves its folder: core, maps, and the kills that it had had.

use pct_attach::blob::{Blob, by_blob};
use pct_attach::facts::{self, Target};
use pct_attach::inject::{InjectError, by_dlopen, by_note, off};
use pct_attach::mapped::MappedFile;
use pct_attach::memory::ProcessMemory;
use pct_attach::ptrace::step::{ControllerStep, OBSERVER};
use pct_attach::ptrace::sys::{self, Tid};
use pct_kit::Dice;
use pct_kit::harm::harm;
use pct_kit::wait::DEADLINE;
use std::fmt::Write as _;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::victims::{self, BARE, Victim, built, status_line};

static CELL: OnceLock<Mutex<MappedFile>> = OnceLock::new();

/// The step at which this controller takes its time, so that kills meet it there.
static LINGER: OnceLock<Option<u8>> = OnceLock::new();

/// The number of the step at which this controller kills itself.
static LAST: OnceLock<Option<u64>> = OnceLock::new();

/// What a controller does to its target, over and over; written into the file's second word.
#[derive(Debug, Clone, Copy)]
enum Doing {
    Reading,
    Blob,
    Dlopen,
    On,
    Off,
}

impl Doing {
    const ALL: [Doing; 5] = [Doing::Reading, Doing::Blob, Doing::Dlopen, Doing::On, Doing::Off];
}

fn doing(what: Doing) {
    CELL.get().unwrap().lock().unwrap().words()[1].store(what as u64, Ordering::SeqCst);
}

/// Not a test of its own: what the killed process runs, told by the environment.
#[test]
fn controller() {
    let Ok(pid) = std::env::var("PCT_TEST_TARGET") else { return };
    let pid: i32 = pid.parse().unwrap();
    let library = std::env::var("PCT_TEST_LIBRARY").unwrap();
    let mut round: u32 = std::env::var("PCT_TEST_ROUND").unwrap().parse().unwrap();
    let mut cell = MappedFile::create(Path::new(&std::env::var("PCT_TEST_STEP").unwrap()), 4096).unwrap();
    cell.grow(4096).unwrap();
    CELL.set(Mutex::new(cell)).unwrap();
    OBSERVER
        .set(|step| {
            let count = {
                let cell = CELL.get().unwrap().lock().unwrap();
                cell.words()[0].store(step as u64, Ordering::SeqCst);
                cell.words()[2].fetch_add(1, Ordering::SeqCst) + 1
            };
            if *LAST.get_or_init(|| std::env::var("PCT_TEST_LAST").ok()?.parse().ok()) == Some(count) {
                let pid = std::process::id() as i32;
                sys::send(pid, Tid(pid), libc::SIGKILL).unwrap();
                loop {
                    std::thread::park();
                }
            }
            if *LINGER.get_or_init(|| std::env::var("PCT_TEST_LINGER").ok()?.parse().ok()) == Some(step as u8)
            {
                std::thread::sleep(Duration::from_millis(3));
            }
        })
        .unwrap();
    let blob = Blob::parse(&std::fs::read(&library).unwrap()).unwrap();
    let memory = ProcessMemory::open(pid, true).unwrap();
    if let Ok(what) = std::env::var("PCT_TEST_ONCE") {
        let target = facts::read(pid).unwrap();
        attach_by(&what, &target, &memory, &blob, &library).unwrap();
        return;
    }
    loop {
        doing(Doing::Reading);
        let Ok(target) = facts::read(pid) else { return };
        round += 1;
        // errors (a busy heap, a thread that is still in a call of the last controller) are tried again
        if target.facts.has_dlopen && round.is_multiple_of(3) {
            doing(Doing::Dlopen);
            let _ = by_dlopen(&target, &memory, &library, "hz=1", false);
        } else if target.note.is_some() && !round.is_multiple_of(4) {
            doing(Doing::On);
            let _ = by_note(&target, &memory, "hz=1");
            doing(Doing::Off);
            let _ = off(&target, &memory);
        } else {
            doing(Doing::Blob);
            let _ = by_blob(&target, &memory, &blob, "hz=1");
        }
    }
}

/// Attaches by one of the ways whose steps are gone through.
fn attach_by(
    what: &str,
    target: &Target,
    memory: &ProcessMemory,
    blob: &Blob,
    library: &str,
) -> Result<(), InjectError> {
    match what {
        "blob" => by_blob(target, memory, blob, "hz=1").map(drop),
        "dlopen" => by_dlopen(target, memory, library, "hz=1", true).map(drop),
        "note" => {
            match by_note(target, memory, "hz=1") {
                Ok(_) | Err(InjectError::Already(_)) => {}
                Err(e) => return Err(e),
            }
            off(target, memory).map(drop)
        }
        other => panic!("{other}"),
    }
}

/// What a kill met.
fn met(step: &Path) -> (usize, String) {
    let mut words = [0u8; 16];
    let read = std::fs::File::open(step).and_then(|f| f.read_exact_at(&mut words, 0));
    let (step, doing) = (usize::from(words[0]), usize::from(words[8]));
    (step, format!("{:?} in {:?} ({read:?})", ControllerStep::ALL[step], Doing::ALL[doing]))
}

/// Everything that can be known of a target that did not live; its folder is kept.
fn autopsy(victim: Option<Victim>, dir: tempfile::TempDir, kills: &[String], why: &str) -> ! {
    let dir = dir.keep();
    let mut text = format!("{why}\n{}\n", kills.join("\n"));
    let pid = victim.as_ref().map_or(0, Victim::pid);
    let harmed = victim.as_ref().is_none_or(is_dead);
    for file in ["status", "maps"] {
        let _ =
            write!(text, "{}", std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default());
    }
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let of = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let _ = writeln!(text, "{:?}: {} {}", task.file_name(), of("stat"), of("syscall"));
    }
    let status = victim.and_then(Victim::stop);
    let _ = writeln!(text, "{status:?}");
    let mut core = Command::new("gdb");
    core.args(["-batch", "-ex", "info threads", "-ex", "bt", "-ex", "p $_siginfo", "-ex", "info registers"]);
    core.args(["-ex", "x/24i $rip-32", "mallocs", "core"]);
    if let Ok(said) = core.current_dir(&dir).output() {
        text.push_str(&String::from_utf8_lossy(&said.stdout));
    }
    std::fs::write(dir.join("autopsy"), &text).unwrap();
    let last = kills.last().map_or("", String::as_str);
    let how = format!("{why}; {status:?}; the last kill: {last}; see {}", dir.join("autopsy").display());
    if harmed { harm(&how) } else { panic!("{how}") }
}

fn is_dead(victim: &Victim) -> bool {
    status_line(victim.pid(), "State:").contains('Z')
}

/// Sends signals to random threads of a target; says how many.
fn signals(pid: i32, stop: &AtomicBool) -> u64 {
    let mut sent = 0;
    // SIGRTMIN of the C libraries is 34: each of these is queued, none may be lost
    const SIGNAL: i32 = 35;
    while !stop.load(Ordering::Relaxed) {
        for task in std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let tid = task.file_name().to_string_lossy().parse().unwrap();
            sent += u64::from(sys::send(pid, Tid(tid), SIGNAL).is_ok());
            std::thread::sleep(Duration::from_micros(700));
        }
    }
    sent
}

/// Waits until `done`, a minute at most; else, or when the victim is dead, why not. It looks without a pause, since a
/// controller is to be met within a step.
fn until(victim: &Victim, what: &str, mut done: impl FnMut() -> bool) -> Result<(), String> {
    let start = Instant::now();
    while !done() {
        if is_dead(victim) {
            return Err("it died".to_owned());
        }
        if start.elapsed() > DEADLINE {
            return Err(format!("after a minute still waiting for {what}"));
        }
        std::thread::yield_now();
    }
    Ok(())
}

struct Harness {
    library: PathBuf,
    dir: tempfile::TempDir,
    fell: [u32; ControllerStep::ALL.len()],
    dice: Dice,
}

impl Harness {
    fn start(&self, victim: &Victim, step: &Path, round: u64, aim: Option<usize>) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "live::killed::controller"])
            .env("PCT_TEST_TARGET", victim.pid().to_string())
            .env("PCT_TEST_LIBRARY", &self.library)
            .env("PCT_TEST_STEP", step)
            .env("PCT_TEST_ROUND", (round % 1000).to_string())
            // each second controller lingers at the step that it is to be killed in
            .env("PCT_TEST_LINGER", aim.map_or(String::new(), |step| step.to_string()))
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// One kill; what it met, or why the target is no more.
    fn kill(&mut self, victim: &Victim, number: u32) -> Result<String, String> {
        let step = self.dir.path().join(format!("step-{number}"));
        let rarest = (1..self.fell.len()).min_by_key(|s| self.fell[*s]).expect("there are steps");
        let aim = (number % 2 == 1).then_some(rarest);
        let random = self.dice.roll();
        let mut controller = self.start(victim, &step, random, aim);
        // wait until it is at work, or at the step; then for a random part of a few cycles
        let mut word = [0u8; 8];
        let reached = until(victim, "the controller", || {
            assert!(controller.try_wait().unwrap().is_none(), "the controller ended by itself");
            let read = std::fs::File::open(&step).and_then(|f| f.read_exact_at(&mut word, 0));
            read.is_ok() && aim.map_or(word[0] != 0, |aim| usize::from(word[0]) == aim)
        });
        if reached.is_ok() {
            let most = if aim.is_some() { 1000 } else { 3000 };
            std::thread::sleep(Duration::from_micros(random % most));
        }
        controller.kill().unwrap();
        controller.wait().unwrap();
        let (at, text) = met(&step);
        let _ = std::fs::remove_file(&step);
        self.fell[at] += 1;
        reached.map_err(|why| format!("{why}; the controller was {text}"))?;
        if is_dead(victim) {
            return Err(format!("it died of a kill while {text}"));
        }
        Ok(text)
    }

    /// Ten kills of one victim, which gets signals all the while and must do its work and say that it had all of them.
    fn round(&mut self, program: &Path, first: u32, count: u32) {
        let dir = tempfile::tempdir().unwrap();
        let victim = start(program, &dir);
        let ready = until(&victim, "its threads", || is_ready(&victim));
        let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
        let mut kills = Vec::new();
        let pid = victim.pid();
        let mut result = ready;
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| sent.store(signals(pid, &stop), Ordering::Relaxed));
            for number in first..first + count {
                match result.clone().and_then(|()| self.kill(&victim, number)) {
                    Ok(text) => kills.push(text),
                    Err(why) => result = Err(why),
                }
            }
            stop.store(true, Ordering::Relaxed);
            sender.join().unwrap();
        });
        let sent = sent.into_inner();
        result = result.and_then(|()| {
            until(&victim, "its signals to be handled", || {
                let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
                let mut lines = tasks.map(|t| std::fs::read_to_string(t.path().join("status")));
                !lines.any(|s| s.is_ok_and(|s| s.lines().any(|l| l.starts_with("SigPnd") && l.contains('4'))))
            })
        });
        if result.is_ok() {
            Command::new("kill").arg(pid.to_string()).status().unwrap();
            result =
                until(&victim, "its end", || false).or_else(|e| if e == "it died" { Ok(()) } else { Err(e) });
        }
        if let Err(why) = result {
            autopsy(Some(victim), dir, &kills, &why);
        }
        let (said, status) = victim.wait();
        if said != format!("bad 0 signals {sent}\n") || status.code() != Some(0) {
            let why = format!("{sent} signals were sent; it said {said:?} and ended with {status}");
            autopsy(None, dir, &kills, &why);
        }
    }
}

/// The program in a folder of its own, which is kept when it dies.
fn start(program: &Path, dir: &tempfile::TempDir) -> Victim {
    // not a copy, which another thread's child could have open for writing when it is executed
    std::fs::hard_link(program, dir.path().join("mallocs")).unwrap();
    let script = "ulimit -c unlimited; exec ./mallocs";
    Victim::start(Command::new("sh").args(["-c", script]).current_dir(dir.path()))
}

fn is_ready(victim: &Victim) -> bool {
    facts::read(victim.pid()).is_ok_and(|t| t.facts.name == "mallocs" && t.facts.threads == 5)
}

/// Victims of all kinds that can be built here.
fn programs() -> Vec<(PathBuf, tempfile::TempDir)> {
    let mut kinds = vec![
        ("cc", &["-O2", "-pthread"][..]),
        ("cc", &["-O2", "-pthread", "-static"]),
        ("cc", &["-O2", "-pthread", "-static-pie"]),
        // no signal is left to end a call with
        ("cc", &["-O2", "-pthread", "-DHANDLES"]),
    ];
    if Command::new("musl-gcc").arg("--version").output().is_ok_and(|o| o.status.success()) {
        kinds.push(("musl-gcc", &["-O2", "-pthread", "-static"]));
    }
    let built = kinds.iter().map(|(compiler, flags)| {
        let dir = tempfile::tempdir().unwrap();
        (victims::built_by(compiler, "mallocs.c", flags, &dir), dir)
    });
    built.collect()
}

/// The steps of one way to attach, one after the other: at each the controller is no more, and the next one attaches.
fn at_each_step(program: &Path, what: &str, library: &Path, blob: &Blob) -> u32 {
    let dir = tempfile::tempdir().unwrap();
    let victim = start(program, &dir);
    let mut kills = Vec::new();
    let ready = until(&victim, "its threads", || is_ready(&victim));
    let mut run = |last: u32| -> Result<bool, String> {
        let step = dir.path().join(format!("step-{last}"));
        let mut controller = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "live::killed::controller"])
            .env("PCT_TEST_TARGET", victim.pid().to_string())
            .env("PCT_TEST_LIBRARY", library)
            .env("PCT_TEST_STEP", &step)
            .env("PCT_TEST_ROUND", "0")
            .env("PCT_TEST_ONCE", what)
            .env("PCT_TEST_LAST", last.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let ended = until(&victim, "the controller", || controller.try_wait().unwrap().is_some());
        if ended.is_err() {
            let _ = controller.kill();
        }
        let done = controller.wait().unwrap();
        kills.push(format!("step {last} of {what}: {}", met(&step).1));
        let _ = std::fs::remove_file(&step);
        let lives = || match is_dead(&victim) {
            true => Err("it died".to_owned()),
            false => Ok(()),
        };
        ended.and_then(|()| lives())?;
        if done.success() {
            return Ok(true);
        }
        assert_eq!(done.signal(), Some(libc::SIGKILL), "{what}: {done}");
        // what is left must not be in the way of the next one
        let target = facts::read(victim.pid()).map_err(|e| e.to_string())?;
        let memory = ProcessMemory::open(victim.pid(), true).map_err(|e| e.to_string())?;
        match target.note {
            Some(note) => {
                attach_by("note", &target, &memory, blob, "").map_err(|e| format!("{e}; {note:x?}"))?
            }
            None => drop(by_blob(&target, &memory, blob, "refuse").unwrap_err()),
        }
        lives().map(|()| false)
    };
    let mut last = 0;
    let result = ready.and_then(|()| {
        loop {
            last += 1;
            match run(last) {
                Ok(false) if last < 1000 => {}
                Ok(_) => return Ok(()),
                Err(why) => return Err(why),
            }
        }
    });
    match result {
        Ok(()) => victim.ends_well(),
        Err(why) => autopsy(Some(victim), dir, &kills, &why),
    }
    last - 1
}

#[test]
fn targets_outlive_a_controller_killed_at_each_of_its_steps() {
    let dir = tempfile::tempdir().unwrap();
    let library = built("fakepct.c", BARE, &dir);
    let blob = Blob::parse(&std::fs::read(&library).unwrap()).unwrap();
    for (i, (program, _)) in programs().iter().enumerate() {
        let ways = if i == 0 || i == 3 { &["blob", "dlopen"][..] } else { &["blob"] };
        for what in ways {
            let steps = at_each_step(program, what, &library, &blob);
            println!("{steps} steps of {what}, program {i}");
            assert!(steps > 20, "{what}: {steps}");
        }
    }
}

#[test]
fn targets_outlive_controllers_killed_at_random_moments() {
    let number =
        |name: &str, default| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(default);
    let (kills, load): (u32, u32) = (number("PCT_TEST_KILLS", 100), number("PCT_TEST_KILL_LOAD", 1));
    let dir = tempfile::tempdir().unwrap();
    let programs = programs();
    let library = built("fakepct.c", BARE, &dir);
    let mut harness =
        Harness { library, dir, fell: [0; ControllerStep::ALL.len()], dice: Dice::new(u64::from(kills)) };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..load {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        // the load ends with the kills, also when one of them fails
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _end = End(&stop);
        for round in 0..kills.div_ceil(10) {
            let program = &programs[round as usize % programs.len()].0;
            harness.round(program, 10 * round, 10.min(kills - 10 * round));
        }
    });
    for (step, n) in ControllerStep::ALL.iter().zip(harness.fell) {
        println!("{n:5} kills while {step:?}");
    }
    assert!(harness.fell[1..].iter().sum::<u32>() > 0, "no kill fell into an attach");
}
