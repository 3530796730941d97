//! Methods 1 and 2 on real programs: what runs in them is a stand-in with the sampler's note, so that the machinery is tested
//! by itself. The target goes on as if nothing had been.

use pct_attach::blob::{Blob, by_blob};
use pct_attach::facts::{self, Target};
use pct_attach::inject::{InjectError, by_dlopen, by_note, off};
use pct_attach::memory::ProcessMemory;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

fn built(source: &str, flags: &[&str], dir: &tempfile::TempDir) -> PathBuf {
    let from = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(source);
    let out = dir.path().join(source.trim_end_matches(".c"));
    let done = Command::new("cc").args(flags).arg(&from).arg("-o").arg(&out).status().expect("a C compiler");
    assert!(done.success());
    out
}

/// A child that does not outlive a test that failed.
struct Victim(Option<Child>);

impl Victim {
    fn start(command: &mut Command) -> Victim {
        Victim(Some(command.stdout(Stdio::piped()).spawn().unwrap()))
    }

    fn pid(&self) -> i32 {
        self.0.as_ref().unwrap().id() as i32
    }

    /// Ends it with SIGTERM and checks what it says.
    fn ends_well(mut self) {
        Command::new("kill").arg(self.pid().to_string()).status().unwrap();
        let out = self.0.take().unwrap().wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&out.stdout), "bad 0\n");
        assert!(out.status.success());
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn maps(pid: i32) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// A target that has come as far as its own code.
fn started(child: &Child, name: &str) -> Target {
    loop {
        let t = facts::read(child.id() as i32).unwrap();
        if t.facts.name == name && t.facts.has_dlopen && t.initial_envp.is_some() && t.facts.threads > 0 {
            return t;
        }
    }
}

fn status_line(pid: i32, key: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    text.lines().find(|l| l.starts_with(key)).unwrap_or_default().to_owned()
}

fn cycles() -> u32 {
    std::env::var("PCT_TEST_CYCLES").ok().and_then(|n| n.parse().ok()).unwrap_or(25)
}

#[test]
fn a_blocked_program_is_loaded_turned_on_and_off_and_never_knows() {
    let dir = tempfile::tempdir().unwrap();
    let library = built("fakepct.c", &["-O2", "-shared", "-fPIC"], &dir);
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let target = started(&child, "cat");
    let pid = target.facts.pid;
    let memory = ProcessMemory::open(pid, true).unwrap();
    let before = ["SigBlk:", "SigIgn:", "SigCgt:", "TracerPid:"].map(|k| status_line(pid, k));

    let done = by_dlopen(&target, &memory, library.to_str().unwrap(), "hz=100").unwrap();
    assert!(done.children);
    let target = facts::read(pid).unwrap();
    assert!(target.facts.library_mapped);
    assert_eq!(target.note, Some(done.note));
    for _ in 0..cycles() {
        off(&target, &memory).unwrap();
        by_note(&target, &memory, "hz=200").unwrap();
    }
    let e = by_note(&target, &memory, "refuse").unwrap_err();
    assert!(matches!(&e, InjectError::On(why) if why.raw_os_error() == Some(libc::EBUSY)), "{e}");
    assert_eq!(before, ["SigBlk:", "SigIgn:", "SigCgt:", "TracerPid:"].map(|k| status_line(pid, k)));

    use std::io::{Read, Write};
    child.stdin.take().unwrap().write_all(b"still here").unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "still here");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_program_that_allocates_without_end_keeps_its_heap() {
    let dir = tempfile::tempdir().unwrap();
    let library = built("fakepct.c", &["-O2", "-shared", "-fPIC"], &dir);
    let victim = built("mallocs.c", &["-O2", "-pthread"], &dir);
    for _ in 0..cycles().div_ceil(5) {
        let child = Victim::start(&mut Command::new(&victim));
        let mut target = started(child.0.as_ref().unwrap(), "mallocs");
        while target.facts.threads < 5 {
            target = facts::read(child.pid()).unwrap();
        }
        let memory = ProcessMemory::open(child.pid(), true).unwrap();
        let done = by_dlopen(&target, &memory, library.to_str().unwrap(), "hz=100").unwrap();
        assert_eq!(done.note.abi, 1);
        child.ends_well();
    }
}

#[test]
fn a_library_that_is_not_there_is_the_loaders_error_and_the_target_lives() {
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let target = started(&child, "cat");
    let memory = ProcessMemory::open(target.facts.pid, true).unwrap();
    let e = by_dlopen(&target, &memory, "/nonexistent/libpct.so", "").unwrap_err();
    assert!(
        e.to_string().contains("/nonexistent/libpct.so") && e.to_string().contains("No such file"),
        "{e}"
    );
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

const BARE: &[&str] = &[
    "-O2",
    "-shared",
    "-fPIC",
    "-nostdlib",
    "-Wl,-Bsymbolic,--hash-style=sysv,--build-id=none,-z,norelro",
    "-fno-stack-protector",
    "-fvisibility=hidden",
];

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
            let target = loop {
                let t = facts::read(victim.pid()).unwrap();
                if t.facts.name == "mallocs" && t.facts.threads == 5 {
                    break t;
                }
            };
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
    let target = loop {
        let t = facts::read(victim.pid()).unwrap();
        if t.facts.name == "cat" && t.facts.has_gadgets && t.facts.state == 'S' {
            break t;
        }
    };
    let memory = ProcessMemory::open(victim.pid(), true).unwrap();
    let before = maps(victim.pid());
    by_blob(&target, &memory, &blob, "refuse").unwrap_err();
    assert_eq!(before, maps(victim.pid()));
    by_blob(&target, &memory, &blob, "hz=1").unwrap();
    assert!(maps(victim.pid()).len() > before.len());
}
