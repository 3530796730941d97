//! A thread that lingers in a call of a controller that was killed keeps what it needs to restore itself,
//! whatever the next controller does meanwhile.
//!
//! The controller (this test program, started again) is killed when the registers of a thread are those of
//! its call and a signal waits for the thread, which is not blocked yet: the target's own handler runs on top
//! of the call, for as long as it likes.

use pct_attach::blob::{Blob, by_blob};
use pct_attach::facts;
use pct_attach::inject::InjectError;
use pct_attach::memory::ProcessMemory;
use pct_attach::ptrace::step::{ControllerStep, OBSERVER};
use pct_attach::ptrace::sys::{self, Tid};
use pct_kit::harm::harm;
use pct_kit::wait::wait_until;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::victims::{self, BARE, Victim, built};

const SIGNAL: i32 = 35;

/// Numbers and `stat` letters of the threads of a process.
fn threads(pid: i32) -> Vec<(i32, char)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let state = |stat: &str| stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    let tasks = tasks.filter_map(|task| {
        let tid = task.file_name().to_str()?.parse().ok()?;
        Some((tid, state(&std::fs::read_to_string(task.path().join("stat")).ok()?)?))
    });
    tasks.collect()
}

/// The number of the step that this controller is at.
static STEPS: AtomicU32 = AtomicU32::new(0);

fn asked(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// What happens at the steps of a controller, told by `PCT_TEST_DOES`: `linger` sends the held thread a
/// signal and kills the controller when the registers are those of its call; anything else is the number of a
/// signal that is sent to the target at the step `PCT_TEST_AT`.
fn at_step(step: ControllerStep) {
    let pid: i32 = asked("PCT_TEST_LINGERER").parse().unwrap();
    let count = 1 + STEPS.fetch_add(1, Ordering::SeqCst);
    match asked("PCT_TEST_DOES").as_str() {
        "linger" if step == ControllerStep::Committed => {
            let held = threads(pid).into_iter().filter(|(_, state)| *state == 't');
            for (tid, _) in held {
                sys::send(pid, Tid(tid), SIGNAL).unwrap();
            }
            let me = std::process::id() as i32;
            sys::send(me, Tid(me), libc::SIGKILL).unwrap();
            loop {
                std::thread::park();
            }
        }
        "linger" => {}
        signal if asked("PCT_TEST_AT") == count.to_string() => {
            Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status().unwrap();
        }
        _ => {}
    }
}

/// Not a test of its own: a controller to which something happens, told by the environment. Says how many
/// steps it made, and how it ended.
#[test]
fn controller() {
    let Ok(pid) = std::env::var("PCT_TEST_LINGERER") else { return };
    let pid: i32 = pid.parse().unwrap();
    OBSERVER.set(at_step).unwrap();
    let blob = std::fs::read(asked("PCT_TEST_LIBRARY")).unwrap();
    let target = facts::read(pid).unwrap();
    let memory = ProcessMemory::open(pid, true).unwrap();
    let done = by_blob(&target, &memory, &Blob::parse(&blob).unwrap(), "refuse").unwrap_err();
    let refused = matches!(done, InjectError::On(_));
    eprintln!("steps {} refused {refused} {done}", STEPS.load(Ordering::SeqCst));
}

/// Starts a controller to which something happens, and waits for its end.
fn controlled(pid: i32, library: &Path, does: &str, at: u32) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "live::lingers::controller", "--nocapture"])
        .env("PCT_TEST_LINGERER", pid.to_string())
        .env("PCT_TEST_LIBRARY", library)
        .env("PCT_TEST_DOES", does)
        .env("PCT_TEST_AT", at.to_string())
        .output()
        .unwrap()
}

/// As [`controlled`], where it ends by itself: the steps that it made, whether it made its call, and its words.
fn outcome(pid: i32, library: &Path, does: &str, at: u32) -> (u32, bool, String) {
    let output = controlled(pid, library, does, at);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{does} at step {at}: {said}");
    let line = said.lines().find_map(|l| l.strip_prefix("steps ")).expect("it says so");
    let steps = line.split(' ').next().unwrap().parse().unwrap();
    (steps, line.contains("refused true"), line.to_owned())
}

/// Waits for what a victim does while it lives, or as its last.
#[track_caller]
fn until(victim: &Victim, what: &str, mut done: impl FnMut() -> bool) {
    wait_until(what, || {
        let dead = victims::status_line(victim.pid(), "State:").contains('Z');
        let so = done();
        if dead && !so {
            harm(&format!("it died before {what}"));
        }
        so
    });
}

/// Number of the system call in which a thread is blocked.
fn blocked_in(pid: i32, tid: i32) -> Option<i64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    text.split(' ').next()?.parse().ok()
}

/// Nanoseconds that a thread has run.
fn ran(pid: i32, tid: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// A handler of this kind runs on top of the first call of a controller that is no more; others attach; then
/// the handler ends.
fn a_handler_on_top_of_a_call(stack: &str, waits: &str) {
    let dir = tempfile::tempdir().unwrap();
    let library = built("fakepct.c", BARE, &dir);
    let program = built("lingers.c", &["-O2", "-pthread", "-Wl,-z,now"], &dir);
    assert!(Command::new("mkfifo").arg(dir.path().join("fifo")).status().unwrap().success());
    let victim = Victim::start(Command::new(&program).args([stack, waits]).current_dir(dir.path()));
    let pid = victim.pid();
    let worker = || threads(pid).into_iter().map(|(tid, _)| tid).find(|tid| *tid != pid);
    until(&victim, "its threads to wait", || {
        worker().is_some_and(|tid| blocked_in(pid, tid) == Some(libc::SYS_poll))
            && blocked_in(pid, pid) == Some(libc::SYS_rt_sigsuspend)
    });
    let worker = worker().unwrap();
    assert_eq!(controlled(pid, &library, "linger", 0).status.signal(), Some(libc::SIGKILL));
    until(&victim, "the handler", || dir.path().join("in").exists());
    match waits {
        "read" => until(&victim, "it to wait", || blocked_in(pid, worker) == Some(libc::SYS_read)),
        _ => {
            let before = ran(pid, worker);
            until(&victim, "it to run", || ran(pid, worker) > before + 40_000_000);
            // the main thread is the next one's choice
            sys::send(pid, Tid(pid), libc::SIGUSR1).unwrap();
            until(&victim, "the main thread", || blocked_in(pid, pid) == Some(libc::SYS_poll));
        }
    }
    let blob = Blob::parse(&std::fs::read(&library).unwrap()).unwrap();
    for _ in 0..5 {
        let target = facts::read(pid).unwrap();
        let memory = ProcessMemory::open(pid, true).unwrap();
        let refused = by_blob(&target, &memory, &blob, "refuse").unwrap_err();
        assert!(matches!(refused, InjectError::On(_)), "{stack} {waits}: {refused}");
    }
    release(dir.path());
    until(&victim, "the thread to be where it was", || blocked_in(pid, worker) == Some(libc::SYS_poll));
    Command::new("kill").arg(pid.to_string()).status().unwrap();
    victim.ends_saying("bad 0 signals 1\n", &format!("{stack} {waits}"));
}

fn release(dir: &Path) {
    std::fs::write(dir.join("go"), "").unwrap();
    let fifo = std::fs::OpenOptions::new().read(true).write(true).open(dir.join("fifo")).unwrap();
    std::io::Write::write_all(&mut &fifo, b"x").unwrap();
    // it is in the pipe as long as somebody has it open: the target has, if it wants it
}

#[test]
fn a_handler_that_waits_on_a_stack_of_its_own_comes_back() {
    a_handler_on_top_of_a_call("alt", "read");
}

#[test]
fn a_handler_that_waits_below_the_call_comes_back() {
    a_handler_on_top_of_a_call("own", "read");
}

#[test]
fn a_handler_that_computes_on_a_stack_of_its_own_comes_back() {
    a_handler_on_top_of_a_call("alt", "spin");
}

#[test]
fn a_handler_that_computes_below_the_call_comes_back() {
    a_handler_on_top_of_a_call("own", "spin");
}

/// The parent of a vfork does not stop before its child ends. It was asked to, and another thread was taken.
#[test]
fn a_thread_that_stops_late_is_let_go_though_the_controller_lives() {
    let dir = tempfile::tempdir().unwrap();
    let library = built("fakepct.c", BARE, &dir);
    let program = built("stopslate.c", &["-O2", "-pthread"], &dir);
    let victim = Victim::start(Command::new(&program).current_dir(dir.path()));
    let pid = victim.pid();
    until(&victim, "its threads to wait", || {
        let waits = |tid| match tid == pid {
            true => blocked_in(pid, tid) == Some(libc::SYS_vfork),
            false => blocked_in(pid, tid) == Some(libc::SYS_futex),
        };
        let threads = threads(pid);
        threads.len() == 2 && threads.into_iter().all(|(tid, _)| waits(tid))
    });
    let blob = Blob::parse(&std::fs::read(&library).unwrap()).unwrap();
    let target = facts::read(pid).unwrap();
    let memory = ProcessMemory::open(pid, true).unwrap();
    for _ in 0..2 {
        let refused = by_blob(&target, &memory, &blob, "refuse").unwrap_err();
        assert!(matches!(refused, InjectError::On(_)), "{refused}");
    }
    std::fs::write(dir.path().join("go"), "").unwrap();
    until(&victim, "it to go on", || dir.path().join("went-on").exists());
    victim.ends_saying("", "after its child");
}

#[test]
fn controllers_at_the_same_time_take_turns() {
    let dir = tempfile::tempdir().unwrap();
    let library = built("fakepct.c", BARE, &dir);
    let blob = Blob::parse(&std::fs::read(&library).unwrap()).unwrap();
    let program = built("mallocs.c", &["-O2", "-pthread"], &dir);
    let victim = Victim::start(&mut Command::new(&program));
    let pid = victim.pid();
    until(&victim, "its threads", || threads(pid).len() == 5);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..victims::cycles() {
                    let target = facts::read(pid).unwrap();
                    let memory = ProcessMemory::open(pid, true).unwrap();
                    let refused = by_blob(&target, &memory, &blob, "refuse").unwrap_err();
                    assert!(matches!(refused, InjectError::On(_)), "{refused}");
                }
            });
        }
    });
    // one turns it on; the other, which had looked before, finds it so
    let looked = facts::read(pid).unwrap();
    let memory = ProcessMemory::open(pid, true).unwrap();
    by_blob(&looked, &memory, &blob, "hz=1").unwrap();
    let second = by_blob(&looked, &memory, &blob, "hz=1").unwrap_err();
    assert!(matches!(second, InjectError::Already(_)), "{second}");
    victim.ends_well();
}

/// Goes through the steps of an attach: at each, `signal` is sent to a target of four threads, compiled with
/// `flags`; `check` looks at what came of it.
fn at_each_step(signal: i32, flags: &[&str], mut check: impl FnMut(Victim, bool, &str)) {
    let dir = tempfile::tempdir().unwrap();
    let library = built("fakepct.c", BARE, &dir);
    let program = built("mallocs.c", flags, &dir);
    for at in 1.. {
        let target = Victim::start(&mut Command::new(&program));
        until(&target, "its threads", || threads(target.pid()).len() == 5);
        let (steps, made, said) = outcome(target.pid(), &library, &signal.to_string(), at);
        if at > steps {
            assert!(at > 20, "{steps} steps only");
            return;
        }
        check(target, made, &format!("step {at}: {said}"));
    }
}

#[test]
fn a_target_that_is_killed_at_any_step_is_an_error_and_no_more() {
    at_each_step(libc::SIGKILL, &["-O2", "-pthread"], |victim, _, said| {
        let (_, status) = victim.wait();
        if status.signal() != Some(libc::SIGKILL) {
            harm(&format!("it was to be killed and ended with {status}: {said}"));
        }
    });
}

#[test]
fn a_target_that_is_stopped_at_any_step_stays_stopped_and_goes_on() {
    at_each_step(libc::SIGSTOP, &["-O2", "-pthread"], |victim, made, said| {
        assert!(made, "{said}");
        until(&victim, "it to be stopped", || threads(victim.pid()).iter().all(|(_, state)| *state == 'T'));
        Command::new("kill").args(["-CONT", &victim.pid().to_string()]).status().unwrap();
        victim.ends_well();
    });
}

#[test]
fn a_target_that_executes_a_program_at_any_step_is_that_program() {
    for flags in [&["-O2", "-pthread"][..], &["-O2", "-pthread", "-static", "-no-pie"]] {
        at_each_step(libc::SIGUSR2, flags, |victim, _, said| {
            // a program executed by that name is called so
            let executed =
                |t: facts::Target| t.facts.name == "exe" && t.facts.threads == 5 && t.facts.tracer == 0;
            // (while another thread than the first executes it, the first is a zombie for a moment)
            wait_until(&format!("the new program, {said}"), || facts::read(victim.pid()).is_ok_and(executed));
            victim.ends_well();
        });
    }
}
