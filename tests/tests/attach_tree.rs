//! The account of a tree of processes closes, and what could not be sampled is named: `pct attach --follow`,
//! programs under another root.

use pct_tests::pct::{binary, run};
use pct_tests::victims::{victim, victim_with};
use pct_tests::{skip, tool_or_skip};
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

/// Waits until the sampler is in it, then makes children: static ones, a fork that ends by _exit. Prints what
/// the kernel counted since.
const TARGET: &str = r#"
import os, subprocess, sys, time
print("ready", flush=True)
while "libpct" not in open("/proc/self/maps").read(): time.sleep(0.01)
before = sum(os.times()[:4])
subprocess.run([sys.argv[1], "1", "0.4"], stdout=subprocess.DEVNULL)
child = os.fork()
if child == 0:
    end = time.process_time() + 0.3
    while time.process_time() < end: sum(range(1000))
    os._exit(0)
os.waitpid(child, 0)
print(sum(os.times()[:4]) - before, flush=True)
"#;

#[test]
fn the_account_of_a_followed_tree_closes_and_static_children_are_named() {
    let test = "the_account_of_a_followed_tree_closes_and_static_children_are_named";
    let Some(python) = tool_or_skip("python3", test) else { return };
    let fixed = match victim_with("relay.c", "cc -O2 -pthread -static", "relay-static") {
        Ok(fixed) => fixed,
        Err(why) => return skip(test, &why),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let mut target = Command::new(python)
        .args(["-c", TARGET])
        .arg(&fixed)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut said = BufReader::new(target.stdout.take().expect("a pipe"));
    said.read_line(&mut String::new()).expect("ready");
    let out = folder.path().join("recording");
    let attached = Command::new(binary())
        .args(["attach", "--follow", "--for", "100", "-o"])
        .arg(&out)
        .arg(target.id().to_string())
        .output()
        .expect("pct can be run");
    let words = String::from_utf8_lossy(&attached.stderr).into_owned();
    assert!(attached.status.success(), "{words}");
    let mut counted = String::new();
    said.read_to_string(&mut counted).expect("text");
    assert!(target.wait().expect("waited").success());
    let counted: f64 = counted.trim().parse().expect("seconds");
    let report = Command::new(binary()).args(["report", "--format", "json"]).arg(&out).output().expect("pct");
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let account = &report["account"];
    let used = account["used"]["user_seconds"].as_f64().expect("known")
        + account["used"]["system_seconds"].as_f64().expect("known");
    // The kernel's figures come in ticks, and the last look is a tenth of a second before the end at most;
    // the attach itself is in it.
    assert!(
        (used - counted).abs() < 0.2,
        "{used} s by the account, {counted} s by the target itself: {account}"
    );
    assert!(account.to_string().contains("relay-static is a static program"), "{account}");
}

/// A folder that is a root: with the program `/relay` and what it needs.
fn root_with_relay() -> tempfile::TempDir {
    let program = victim("relay.c");
    let root = tempfile::tempdir().expect("a folder");
    let needed = Command::new("ldd").arg(&program).output().expect("ldd");
    let needed = String::from_utf8_lossy(&needed.stdout).into_owned();
    for library in needed.split_whitespace().filter(|word| word.starts_with('/')) {
        let there = root.path().join(library.trim_start_matches('/'));
        std::fs::create_dir_all(there.parent().expect("a folder")).expect("made");
        std::fs::copy(library, there).expect("copied");
    }
    for folder in ["proc", "tmp"] {
        std::fs::create_dir(root.path().join(folder)).expect("made");
    }
    std::fs::copy(&program, root.path().join("relay")).expect("copied");
    root
}

/// Attaches to `/relay` as it works under another root, and gives what pct said and what the report says
/// after the program has ended.
fn attached_under_another_root(enter: &[&str], words: &[&str]) -> Option<(String, String)> {
    let mut target =
        Command::new(enter[0]).args(&enter[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().ok()?;
    let exe = format!("/proc/{}/exe", target.id());
    let entered = || std::fs::read_link(&exe).is_ok_and(|exe| exe.file_name().is_some_and(|n| n == "relay"));
    while !entered() {
        if target.try_wait().expect("a child").is_some() {
            return None;
        }
        std::thread::yield_now();
    }
    let here = tempfile::tempdir().expect("a folder");
    let out = here.path().join("recording");
    // it ends by itself meanwhile, and its file system with it
    let attached = Command::new(binary())
        .args(["attach", "--for", "100", "-o"])
        .arg(&out)
        .args(words)
        .arg(target.id().to_string())
        .output()
        .expect("pct can be run");
    let said = String::from_utf8_lossy(&attached.stderr).into_owned();
    assert!(attached.status.success(), "{said}");
    assert!(target.wait().expect("waited").success());
    let report = Command::new(binary()).args(["report"]).arg(&out).output().expect("pct");
    Some((said, String::from_utf8_lossy(&report.stdout).into_owned()))
}

/// What a target under another root writes comes to the caller, with its names, though its file system goes
/// when it ends.
#[test]
fn recordings_under_another_root_come_to_the_caller_with_names() {
    let test = "recordings_under_another_root_come_to_the_caller_with_names";
    let Some(unshare) = tool_or_skip("unshare", test) else { return };
    let unshare = unshare.to_str().expect("a name");
    let root = root_with_relay();
    let path = root.path().to_str().expect("a name");
    // The file system is one that only this process has.
    let script = format!(
        "mount -t tmpfs none {path}/tmp && cp -a {path}/lib* {path}/relay {path}/tmp/ && mkdir {path}/tmp/proc {path}/tmp/tmp && \
         {{ [ $0 = bare ] || mount -t proc none {path}/tmp/proc; }} && exec chroot {path}/tmp /relay 1 1.5"
    );
    for (manner, method) in [("proc", "method 2 (dlopen)"), ("bare", "method 5 (stay outside)")] {
        let enter = [unshare, "-m", "sh", "-c", &script, manner];
        let Some((said, report)) = attached_under_another_root(&enter, &[]) else {
            return skip(test, "no mount namespace can be made here");
        };
        assert!(said.contains(method), "{manner}: {said}");
        assert!(report.contains("relay") && !report.contains("[unknown]"), "{manner}: {said}{report}");
    }
}

/// Without --for pct stays: only as long as somebody holds the target's file system can the recording be
/// taken out of it.
#[test]
fn a_recording_under_another_root_comes_to_the_caller_when_sampling_is_switched_off() {
    let test = "a_recording_under_another_root_comes_to_the_caller_when_sampling_is_switched_off";
    let Some(unshare) = tool_or_skip("unshare", test) else { return };
    let root = root_with_relay();
    let path = root.path().to_str().expect("a name");
    let script = format!(
        "mount -t tmpfs none {path}/tmp && mount -t proc none {path}/proc && exec chroot {path} /relay 1 100"
    );
    let mut target = Command::new(unshare)
        .args(["-m", "sh", "-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let id = target.id().to_string();
    let exe = format!("/proc/{id}/exe");
    while !std::fs::read_link(&exe).is_ok_and(|exe| exe.ends_with("relay")) {
        if target.try_wait().expect("a child").is_some() {
            return skip(test, "no mount namespace can be made here");
        }
        std::thread::yield_now();
    }
    let here = tempfile::tempdir().expect("a folder");
    let out = here.path().join("recording");
    let mut attach = Command::new(binary());
    let attach = attach.arg("attach").arg("-o").arg(&out).arg(&id).stderr(Stdio::piped()).spawn();
    let mut attach = attach.expect("pct can be run");
    let mut said = BufReader::new(attach.stderr.take().expect("a pipe"));
    let mut line = String::new();
    said.read_line(&mut line).expect("text");
    assert!(line.starts_with("attached to relay"), "{line}");
    let off = Command::new(binary()).args(["off", &id]).output().expect("pct can be run");
    let ended = attach.wait().expect("waited");
    let _ = (target.kill(), target.wait());
    assert!(off.status.success() && ended.success(), "{off:?}");
    let recordings = std::fs::read_dir(&out).expect("the folder that was asked for").flatten();
    assert_eq!(recordings.filter(|entry| entry.path().extension().is_some_and(|e| e == "pct")).count(), 1);
}

/// The loader finds no libpct.so there, and says nothing.
#[test]
fn a_program_that_begins_under_another_root_is_named() {
    let test = "a_program_that_begins_under_another_root_is_named";
    let Some(chroot) = tool_or_skip("chroot", test) else { return };
    let root = root_with_relay();
    let words = [chroot.to_str().unwrap(), root.path().to_str().unwrap(), "/relay", "1", "2"];
    if !Command::new(&chroot)
        .arg(root.path())
        .args(["/relay", "0"])
        .output()
        .is_ok_and(|out| out.status.success())
    {
        return skip(test, "this user may not change the root");
    }
    let r = run(&[], &words);
    assert!(r.output.status.success(), "{}", r.stderr());
    assert!(r.stderr().contains("relay runs under another root, where /"), "{}", r.stderr());
}
