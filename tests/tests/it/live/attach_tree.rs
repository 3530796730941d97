//! The account of a tree of processes closes, and what could not be sampled is named: `pct attach --follow`,
//! programs under another root.

use pct_kit::harm::{ended_with, unharmed};
use pct_kit::wait::wait_until;
use pct_tests::pct::binary;
use pct_tests::victims::{Guest, children_of, signal, victim, victim_with, works};
use pct_tests::{skip, tool_or_skip};
use std::process::{Command, Stdio};

/// Waits until the sampler is in it, then makes children: static ones, a fork that ends by _exit. Prints what
/// the kernel counted since.
const TARGET: &str = r#"
import os, subprocess, sys, time
print("ready", flush=True)
deadline = time.monotonic() + 60
while "libpct" not in open("/proc/self/maps").read():
    assert time.monotonic() < deadline, "waited a minute for the sampler"
    time.sleep(0.01)
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
    let target = Guest::started(Command::new(python).args(["-c", TARGET]).arg(&fixed), "ready");
    let out = folder.path().join("recording");
    let attached = Command::new(binary())
        .args(["attach", "--follow", "--for", "100", "-o"])
        .arg(&out)
        .arg(target.id())
        .output()
        .expect("pct can be run");
    let words = String::from_utf8_lossy(&attached.stderr).into_owned();
    assert!(attached.status.success(), "{words}");
    let counted: f64 = unharmed(&target.wait()).trim().parse().expect("seconds");
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

/// A folder that is a root: with the program `/waits` and what it needs.
fn root_with_waits() -> tempfile::TempDir {
    let program = victim("waits.c");
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
    std::fs::copy(&program, root.path().join("waits")).expect("copied");
    root
}

/// Whether a process runs `/waits`.
fn runs_waits(pid: i32) -> bool {
    std::fs::read_link(format!("/proc/{pid}/exe"))
        .is_ok_and(|exe| exe.file_name().is_some_and(|n| n == "waits"))
}

/// Attaches to `/waits` as it works under another root, and gives what pct said and what the report says after the
/// program has ended.
fn attached_under_another_root(enter: &[&str]) -> Option<(String, String)> {
    let mut target = Guest::start(Command::new(enter[0]).args(&enter[1..]));
    target.line().filter(|line| line.contains("started"))?;
    let here = tempfile::tempdir().expect("a folder");
    let out = here.path().join("recording");
    let mut attach = Command::new(binary());
    attach.args(["attach", "--for", "100", "-o"]).arg(&out).arg(target.id()).stderr(Stdio::piped());
    let attach = Guest::start(&mut attach);
    let maps = || std::fs::read_to_string(format!("/proc/{}/maps", target.pid())).unwrap_or_default();
    wait_until("the sampler", || maps().contains("libpct") || attach.complained().contains("method 5"));
    works(target.pid(), 0.3);
    // it ends, and its file system with it
    let ended = target.end();
    ended_with(ended.status, 5, "");
    let attached = attach.wait();
    let said = String::from_utf8_lossy(&attached.stderr).into_owned();
    assert!(attached.status.success(), "{said}");
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
    let root = root_with_waits();
    let path = root.path().to_str().expect("a name");
    // The file system is one that only this process has.
    let script = format!(
        "mount -t tmpfs none {path}/tmp && cp -a {path}/lib* {path}/waits {path}/tmp/ && mkdir {path}/tmp/proc {path}/tmp/tmp && \
         {{ [ $0 = bare ] || mount -t proc none {path}/tmp/proc; }} && exec chroot {path}/tmp /waits 600"
    );
    for (manner, method) in [("proc", "method 2 (dlopen)"), ("bare", "method 5 (stay outside)")] {
        let enter = [unshare, "-m", "sh", "-c", &script, manner];
        let Some((said, report)) = attached_under_another_root(&enter) else {
            return skip(test, "no mount namespace can be made here");
        };
        assert!(said.contains(method), "{manner}: {said}");
        assert!(report.contains("waits") && !report.contains("[unknown]"), "{manner}: {said}{report}");
    }
}

/// Without --for pct stays: only as long as somebody holds the target's file system can the recording be
/// taken out of it.
#[test]
fn a_recording_under_another_root_comes_to_the_caller_when_sampling_is_switched_off() {
    let test = "a_recording_under_another_root_comes_to_the_caller_when_sampling_is_switched_off";
    let Some(unshare) = tool_or_skip("unshare", test) else { return };
    let root = root_with_waits();
    let path = root.path().to_str().expect("a name");
    let script = format!(
        "mount -t tmpfs none {path}/tmp && mount -t proc none {path}/proc && exec chroot {path} /waits 600"
    );
    let mut target = Guest::start(Command::new(unshare).args(["-m", "sh", "-c", &script]));
    if !target.line().is_some_and(|line| line.contains("started")) {
        return skip(test, "no mount namespace can be made here");
    }
    let here = tempfile::tempdir().expect("a folder");
    let out = here.path().join("recording");
    let mut attach = Command::new(binary());
    attach.arg("attach").arg("-o").arg(&out).arg(target.id()).stderr(Stdio::piped());
    let attach = Guest::start(&mut attach);
    wait_until("the attach", || attach.complained().contains("attached to waits"));
    let off = Command::new(binary()).args(["off", &target.id()]).output().expect("pct can be run");
    let attached = attach.wait();
    assert!(off.status.success() && attached.status.success(), "{off:?} {attached:?}");
    ended_with(target.end().status, 5, "");
    let recordings = std::fs::read_dir(&out).expect("the folder that was asked for").flatten();
    assert_eq!(recordings.filter(|entry| entry.path().extension().is_some_and(|e| e == "pct")).count(), 1);
}

/// The loader finds no libpct.so there, and says nothing. Who may change the root may trace.
#[test]
fn a_program_that_begins_under_another_root_is_named_and_sampled_from_outside() {
    let test = "a_program_that_begins_under_another_root_is_named_and_sampled_from_outside";
    let Some(chroot) = tool_or_skip("chroot", test) else { return };
    let root = root_with_waits();
    let bare = Command::new(&chroot).arg(root.path()).args(["/waits", "0"]).output();
    if !bare.is_ok_and(|out| out.status.code() == Some(5)) {
        return skip(test, "this user may not change the root");
    }
    let here = tempfile::tempdir().expect("a folder");
    let out = here.path().join("recording");
    let mut command = Command::new(binary());
    command.args(["run", "-o"]).arg(&out).arg("--").arg(chroot).arg(root.path()).args(["/waits", "600"]);
    let guest = Guest::started(command.stderr(Stdio::piped()), "started");
    let told = || std::fs::read_to_string(out.join("pct.status")).unwrap_or_default();
    wait_until("pct to see it", || told().contains("another root") && told().contains("\toutside\n"));
    let program = children_of(guest.pid().unsigned_abs()).into_iter().find(|pid| runs_waits(*pid));
    signal(program.expect("it runs"), "TERM");
    let ended = guest.wait();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    ended_with(ended.status, 5, &said);
    let line = said.lines().find(|line| line.contains("waits runs under another root, where /"));
    let from = |line: &str| line.contains(": sampled from outside from there on (process ");
    assert!(line.is_some_and(from), "{said}");
}
