//! What `pct attach` says when it cannot, and that the process is as before: exit status 1, one line that
//! names the cause.

use pct_kit::harm::{harm, unharmed};
use pct_kit::wait::wait_until;
use pct_tests::pct::{binary, report};
use pct_tests::victims::{Guest, is_gone, victim, victim_with};
use pct_tests::{skip, tool_or_skip};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};

/// A program of ours that has said that it is there.
fn waiting(command: &mut Command) -> Guest {
    Guest::started(command, "started")
}

fn pct(args: &[&str]) -> Output {
    let here = tempfile::tempdir().expect("a folder");
    Command::new(binary()).args(args).current_dir(here.path()).output().expect("pct can be run")
}

fn status(pid: &str, key: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    text.lines().find(|l| l.starts_with(key)).unwrap_or_default().to_owned()
}

/// Refused with status 1 and these words in one line.
fn refused(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(output.stdout.is_empty());
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    for word in words {
        assert!(said.contains(word), "{word} is not in: {said}");
    }
}

#[test]
fn nobody_there() {
    refused(&pct(&["attach", "2147483646"]), &["no process 2147483646"]);
    refused(&pct(&["off", "2147483646"]), &["no process"]);
    assert_eq!(pct(&["attach", "0"]).status.code(), Some(2));
    assert_eq!(pct(&["attach", "--method", "7", "1"]).status.code(), Some(2));
    assert_eq!(pct(&["attach", "--for", "-1", "1"]).status.code(), Some(2));
}

#[test]
fn a_kernel_thread() {
    // 2 is kthreadd where this is no container
    if std::fs::read_to_string("/proc/2/comm").is_ok_and(|c| c.trim() == "kthreadd") {
        refused(&pct(&["attach", "2"]), &["no program of its own"]);
    } else {
        skip("a_kernel_thread", "none is visible");
    }
}

#[test]
fn a_zombie() {
    let child = Guest::start(&mut Command::new("true"));
    wait_until("true to end", || is_gone(child.pid()));
    refused(&pct(&["attach", &child.id()]), &["has ended already"]);
    assert!(child.wait().status.success());
}

/// Wine and emulators do so. The sampler's calls would become the program's signals, so it stays outside.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_program_that_has_its_system_calls_turned_into_signals_is_sampled_from_outside() {
    let here = tempfile::tempdir().expect("a folder");
    let start = || Guest::started(Command::new(victim("dispatched.c")).arg("1000"), "ready");
    let attach = |guest: &Guest, options: &[&str]| {
        let mut command = Command::new(binary());
        command.current_dir(here.path()).arg("attach").args(options).arg(guest.id());
        command.output().expect("pct can be run")
    };
    let ends_well = |guest: Guest| {
        let output = guest.wait();
        let said = unharmed(&output);
        assert!(said.contains("1000 of 1000 answered, 0 foreign"), "{said}");
    };
    let guest = start();
    for method in ["2", "4"] {
        refused(&attach(&guest, &["--method", method, "--for", "1"]), &["system calls"]);
    }
    ends_well(guest);
    let guest = start();
    let attached = attach(&guest, &["--for", "0.5", "-o", "outside"]);
    let said = String::from_utf8_lossy(&attached.stderr);
    assert!(attached.status.success() && said.contains("so from outside"), "{said}");
    ends_well(guest);
    let rows = report(&here.path().join("outside"), &[]);
    assert!(rows.iter().any(|row| row.function == "compute"), "{rows:?}");
}

#[test]
fn a_process_that_is_traced_already() {
    let Some(gdb) = tool_or_skip("strace", "a_process_that_is_traced_already") else { return };
    let target = waiting(Command::new(victim("waits.c")).arg("600"));
    let tracer = Guest::start(Command::new(gdb).args(["-qq", "-o", "/dev/null", "-p", &target.id()]));
    wait_until("a tracer", || !status(&target.id(), "TracerPid:").ends_with("\t0"));
    refused(&pct(&["attach", &target.id()]), &["traced by process", &tracer.id()]);
}

#[test]
fn another_users_process() {
    if unsafe_uid() != 0 {
        return skip("another_users_process", "not root, so no other user can be had");
    }
    let target = waiting(Command::new(victim("waits.c")).arg("600"));
    let mut other = Command::new(binary());
    other.args(["attach", &target.id()]).uid(65534).gid(65534).current_dir("/");
    match other.output() {
        Ok(output) => refused(&output, &["not allowed", "another user"]),
        Err(why) => skip("another_users_process", &format!("another user cannot run pct: {why}")),
    }
    assert!(status(&target.id(), "TracerPid:").ends_with("\t0"));
}

fn unsafe_uid() -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").map_or(1, |m| m.uid())
}

#[test]
fn a_32_bit_program() {
    let test = "a_32_bit_program";
    match victim_with("tiny32.c", "cc -m32 -nostdlib -static -no-pie -fno-pie -O2", "tiny32") {
        Ok(program) => {
            let target = Guest::start(&mut Command::new(program));
            wait_until("tiny32", || status(&target.id(), "Name:") == "Name:\ttiny32");
            refused(&pct(&["attach", &target.id()]), &["32-bit"]);
            refused(&pct(&["attach", "--method", "5", &target.id()]), &["32-bit"]);
        }
        Err(why) => skip(test, &why),
    }
}

#[test]
fn nothing_is_injected_under_seccomp_and_from_outside_it_is_seen() {
    for (args, mode, word) in
        [(&[][..], "Seccomp:\t2", "a filter"), (&["strict"], "Seccomp:\t1", "strict mode")]
    {
        let target = waiting(Command::new(victim("filtered.c")).args(args));
        wait_until("a filter", || status(&target.id(), "Seccomp:") == mode);
        for method in ["1", "2", "3", "4"] {
            refused(&pct(&["attach", "--method", method, &target.id()]), &["seccomp", word]);
        }
        let explained = pct(&["attach", "--explain", &target.id()]);
        let said = String::from_utf8_lossy(&explained.stdout).into_owned();
        let taken = said.lines().find(|l| l.contains("would be taken")).expect("one is");
        assert!(taken.contains("method 5"), "{said}");
        let here = tempfile::tempdir().expect("a folder");
        let said = target.attached(here.path(), &["--hz", "500"], 0.1);
        assert!(said.contains("samples of filtered"), "{said}");
        if is_gone(target.pid()) {
            harm("it has ended");
        }
    }
}

#[test]
fn a_method_that_was_asked_for_is_taken_or_refused() {
    let target = waiting(Command::new(victim("waits.c")).arg("600"));
    refused(&pct(&["attach", "--method", "1", &target.id()]), &["method 1", "libpct.so is not mapped"]);
    refused(&pct(&["attach", "--method", "3", &target.id()]), &["method 3", "not linked with libpct.a"]);
    refused(&pct(&["attach", "--method", "2", "--clock", "wall", &target.id()]), &["from outside"]);
    refused(&pct(&["off", &target.id()]), &["no sampler in it"]);
    let explained = pct(&["attach", "--explain", "--method", "4", &target.id()]);
    let said = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(said.lines().any(|l| l.contains("method 4") && l.contains("would be taken")), "{said}");
    for method in ["4", "2"] {
        assert!(
            pct(&["attach", "--method", "4", "--for", "0.01", &target.id()]).status.success()
                || method == "2"
        );
        refused(&pct(&["attach", "--method", method, &target.id()]), &["already", "method 1 turns it on"]);
    }
}

#[test]
fn a_process_in_another_file_system_gets_its_library_there() {
    let test = "a_process_in_another_file_system_gets_its_library_there";
    let victim = victim("waits.c");
    // the directories that hold the library for everybody are covered, so the test's path leads nowhere in there
    let script =
        format!("mount -t tmpfs none /var/tmp && mount -t tmpfs none /tmp && exec {} 600", victim.display());
    if victim.starts_with("/tmp") || victim.starts_with("/var/tmp") {
        return skip(test, "the victim lies below a folder that is to be covered");
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).env("HOME", "/nonexistent").stderr(Stdio::piped());
    let mut target = Guest::start(&mut command);
    if !target.line().is_some_and(|line| line.contains("started")) {
        return skip(test, "no mount namespace can be made here");
    }
    let here = tempfile::tempdir().expect("a folder");
    let out = here.path().join("recording");
    let output = pct(&["attach", "--for", "0.5", "-o", out.to_str().unwrap(), &target.id()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("method 2"), "{said}");
    let recordings = std::fs::read_dir(&out).expect("the caller's folder");
    let recordings = recordings.flatten().filter(|e| e.path().extension().is_some_and(|e| e == "pct"));
    assert_eq!(recordings.count(), 1, "{said}");
    let left = std::fs::read_dir(format!("/proc/{}/root/tmp", target.id())).expect("readable");
    let left: Vec<_> = left.flatten().filter(|e| e.file_name().to_string_lossy().contains("pct")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A thread in vfork cannot be stopped before its child executes or ends. It is not tried: it would be
/// stopped at that moment for nobody.
#[test]
fn a_process_that_waits_in_vfork() {
    let child = waiting(Command::new(victim("vforkwait.c")).arg("600"));
    let call = || std::fs::read_to_string(format!("/proc/{}/syscall", child.id())).unwrap_or_default();
    wait_until("a thread in vfork", || {
        let call = call();
        ["56 ", "58 ", "435 "].iter().any(|number| call.starts_with(number))
    });
    let output = pct(&["attach", "--method", "2", "--for", "1", &child.id()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("waits in vfork until its child executes or ends"), "{said}");
    assert!(!said.contains("--method 4"), "it could not stop it either: {said}");
    assert!(status(&child.id(), "TracerPid").ends_with("\t0"));
}
