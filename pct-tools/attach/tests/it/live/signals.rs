//! Signals that come to a thread while it makes pct's call.

use crate::victims::{Victim, built, started};
use pct_attach::facts;
use pct_attach::memory::ProcessMemory;
use pct_attach::ptrace::borrow::Borrowed;
use pct_attach::ptrace::stop::stack_pointer;
use pct_attach::ptrace::sys::Tid;
use pct_kit::wait::{wait_for, wait_until};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(10);

/// The victim when its first thread waits in `call`.
fn waiting(dir: &tempfile::TempDir, mode: &str, call: i64) -> (Victim, facts::Target) {
    let victim = built("awaits.c", &["-O2", "-pthread", "-rdynamic"], dir);
    let child = Victim::start(Command::new(victim).arg(mode));
    let pid = child.pid();
    let target = wait_for("the call in which it waits", || {
        let target = started(child.0.as_ref().unwrap(), "awaits");
        let syscall = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap();
        syscall.starts_with(&format!("{call} ")).then_some(target)
    });
    (child, target)
}

#[test]
fn a_signal_that_comes_during_a_call_ends_the_wait_of_the_borrowed_thread() {
    let dir = tempfile::tempdir().unwrap();
    let (child, target) = waiting(&dir, "signal", libc::SYS_epoll_wait);
    let pid = child.pid();
    let memory = ProcessMemory::open(pid, true).unwrap();
    let mut b = Borrowed::stop(pid, Tid(pid), &memory, &target.gadgets, LIMIT, &target.maps).unwrap();
    b.map_scratch(LIMIT).unwrap();
    // The call is a nap, into which the signal falls.
    let nap = [0_u64, 300_000_000].map(u64::to_le_bytes).concat();
    let nap = b.write_data(0, &nap).unwrap();
    let sender = std::thread::spawn(move || {
        wait_until("the nap", || {
            let syscall = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap();
            syscall.starts_with(&format!("{} ", libc::SYS_nanosleep))
        });
        let mut kill = Command::new("kill").arg(pid.to_string()).spawn().unwrap();
        assert!(kill.wait().unwrap().success());
        kill.id()
    });
    assert_eq!(b.system_call(libc::SYS_nanosleep, [nap, 0, 0, 0, 0, 0], LIMIT).unwrap(), 0);
    let sender = sender.join().unwrap();
    b.unmap_scratch(LIMIT).unwrap();
    b.give_back().unwrap();
    let (said, status) = child.wait();
    assert_eq!(said, format!("woken 1 elsewhere 0 code 0 sender {sender}\n"), "{status}");
}

#[test]
fn a_timer_that_expires_during_a_call_does_not_end_a_sleep() {
    let dir = tempfile::tempdir().unwrap();
    let (child, target) = waiting(&dir, "timer", libc::SYS_clock_nanosleep);
    let pid = child.pid();
    let memory = ProcessMemory::open(pid, true).unwrap();
    let mut b = Borrowed::stop(pid, Tid(pid), &memory, &target.gadgets, LIMIT, &target.maps).unwrap();
    b.map_scratch(LIMIT).unwrap();
    let spend = target.images.iter().find_map(|(_, i)| i.symbol(&memory, "spend")).unwrap();
    assert_eq!(b.call(spend, [0; 6], LIMIT).unwrap(), 7);
    b.unmap_scratch(LIMIT).unwrap();
    b.give_back().unwrap();
    assert_eq!(child.wait().0, "slept 0 errno 0\n");
}

/// The kernel forgets that a thread is to stop when it stops for a signal first, which is so when it was about to take
/// one (one time in a thousand here). Who does not ask again waits as long as signals come.
#[test]
fn a_thread_that_takes_signals_all_the_time_stops_each_time() {
    let dir = tempfile::tempdir().unwrap();
    let child = Victim::start(&mut Command::new(built("alarmed.c", &["-O2"], &dir)));
    let pid = child.pid();
    wait_until("its timer", || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).unwrap();
        u64::from_str_radix(caught, 16).unwrap() & 1 << (libc::SIGALRM - 1) != 0
    });
    for round in 0..20_000 {
        assert!(stack_pointer(Tid(pid), LIMIT).is_some(), "round {round}");
    }
    child.ends_well();
}
