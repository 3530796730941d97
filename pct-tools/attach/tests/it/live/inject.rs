//! Methods 1 and 2 on real programs: what runs in them is a stand-in with the sampler's note, so that the
//! machinery is tested by itself. The target goes on as if nothing had been.

use crate::victims::{BARE, Victim, built, cycles, echoes, maps, seen_to_be, started, status_line};
use pct_attach::blob::{Blob, by_blob};
use pct_attach::choose::{Method, Wish, choose};
use pct_attach::facts;
use pct_attach::inject::{InjectError, by_dlopen, by_note, off};
use pct_attach::memory::ProcessMemory;
use std::process::{Command, Stdio};

#[test]
fn a_blocked_program_is_loaded_turned_on_and_off_and_never_knows() {
    let dir = tempfile::tempdir().unwrap();
    let library = built("fakepct.c", &["-O2", "-shared", "-fPIC"], &dir);
    let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let target = started(&child, "cat");
    let pid = target.facts.pid;
    let memory = ProcessMemory::open(pid, true).unwrap();
    let before = ["SigBlk:", "SigIgn:", "SigCgt:", "TracerPid:"].map(|k| status_line(pid, k));

    let done = by_dlopen(&target, &memory, library.to_str().unwrap(), "hz=100", true).unwrap();
    assert!(!done.children, "the stand-in has nothing for forks");
    let target = facts::read(pid).unwrap();
    assert!(target.facts.library_mapped);
    assert_eq!(target.note, Some(done.note));
    for _ in 0..cycles() {
        off(&target, &memory).unwrap();
        by_note(&target, &memory, "hz=200").unwrap();
    }
    let e = by_note(&target, &memory, "hz=200").unwrap_err();
    assert!(matches!(e, InjectError::Already(_)), "{e}");
    off(&target, &memory).unwrap();
    let e = by_note(&target, &memory, "refuse").unwrap_err();
    assert!(matches!(&e, InjectError::On(why) if why.raw_os_error() == Some(libc::EBUSY)), "{e}");
    assert_eq!(before, ["SigBlk:", "SigIgn:", "SigCgt:", "TracerPid:"].map(|k| status_line(pid, k)));

    echoes(child);
}

#[test]
fn a_program_whose_working_thread_blocks_all_signals_is_sampled_from_outside() {
    let dir = tempfile::tempdir().unwrap();
    let victim = built("blocksall.c", &["-O2", "-pthread"], &dir);
    let mut command = Command::new(&victim);
    let child = Victim::start(command.stdin(Stdio::piped()));
    // As soon as the thread has used a tick of CPU time.
    let target = seen_to_be(child.pid(), "its thread to work", |t| t.facts.signals_blocked);
    let plan = choose(&target.facts, &Wish::default()).unwrap();
    assert_eq!(plan.method, Method::Outside);
    child.stop();
}

#[test]
fn a_program_that_allocates_without_end_keeps_its_heap() {
    let dir = tempfile::tempdir().unwrap();
    let library = built("fakepct.c", &["-O2", "-shared", "-fPIC"], &dir);
    let victim = built("mallocs.c", &["-O2", "-pthread"], &dir);
    for _ in 0..cycles().div_ceil(5) {
        let child = Victim::start(&mut Command::new(&victim));
        started(child.0.as_ref().unwrap(), "mallocs");
        let target = seen_to_be(child.pid(), "its threads", |t| t.facts.threads >= 5);
        let memory = ProcessMemory::open(child.pid(), true).unwrap();
        let done = by_dlopen(&target, &memory, library.to_str().unwrap(), "hz=100", false).unwrap();
        assert_eq!(done.note.abi, 1);
        child.ends_well();
    }
}

#[test]
fn a_library_that_is_not_there_is_the_loaders_error_and_the_target_lives() {
    let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let target = started(&child, "cat");
    let memory = ProcessMemory::open(target.facts.pid, true).unwrap();
    let e = by_dlopen(&target, &memory, "/nonexistent/libpct.so", "", false).unwrap_err();
    assert!(
        e.to_string().contains("/nonexistent/libpct.so") && e.to_string().contains("No such file"),
        "{e}"
    );
    echoes(child);
}

#[test]
fn the_blob_goes_into_static_and_dynamic_programs_alike() {
    let dir = tempfile::tempdir().unwrap();
    let blob = std::fs::read(built("fakepct.c", BARE, &dir)).unwrap();
    let blob = Blob::parse(&blob).unwrap();
    for flags in
        [&["-O2", "-pthread"][..], &["-O2", "-pthread", "-static"], &["-O2", "-pthread", "-static-pie"]]
    {
        let victim = built("mallocs.c", flags, &dir);
        for _ in 0..cycles().div_ceil(5) {
            let victim = Victim::start(&mut Command::new(&victim));
            let target = seen_to_be(victim.pid(), "its threads", |t| {
                t.facts.name == "mallocs" && t.facts.threads == 5
            });
            let memory = ProcessMemory::open(target.facts.pid, true).unwrap();
            let refused = by_blob(&target, &memory, &blob, "refuse").unwrap_err();
            assert!(matches!(&refused, InjectError::On(_)), "{refused}");
            by_blob(&target, &memory, &blob, "hz=100").unwrap();
            victim.ends_well();
        }
    }
}

#[test]
fn a_refused_blob_leaves_no_mapping_behind() {
    let dir = tempfile::tempdir().unwrap();
    let blob = std::fs::read(built("fakepct.c", BARE, &dir)).unwrap();
    let blob = Blob::parse(&blob).unwrap();
    let victim = Victim::start(Command::new("cat").stdin(Stdio::piped()));
    let target = seen_to_be(victim.pid(), "cat to read", |t| {
        t.facts.name == "cat" && t.facts.has_gadgets && t.facts.state == 'S'
    });
    let memory = ProcessMemory::open(victim.pid(), true).unwrap();
    let before = maps(victim.pid());
    by_blob(&target, &memory, &blob, "refuse").unwrap_err();
    assert_eq!(before, maps(victim.pid()));
    by_blob(&target, &memory, &blob, "hz=1").unwrap();
    assert!(maps(victim.pid()).len() > before.len());
}

/// A call that began in code which goes away would end nowhere.
#[test]
fn calls_do_not_stand_on_code_of_no_file() {
    use std::io::{BufRead, BufReader};
    let dir = tempfile::tempdir().unwrap();
    let program = built("writescode.c", &["-O2"], &dir);
    let mut victim = Victim::start(&mut Command::new(program));
    let mut said = String::new();
    BufReader::new(victim.0.as_mut().unwrap().stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "ready\n");
    let target = facts::read(victim.pid()).unwrap();
    assert!(target.gadgets.complete());
    for at in [target.gadgets.syscall_ret, target.gadgets.restorer] {
        assert!(at.is_some_and(|at| at >> 12 != 0x10000), "{:x?}", target.gadgets);
    }
}
