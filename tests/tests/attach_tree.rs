//! The account of a tree of processes closes, and what could not be sampled is named: `pct attach --follow`, programs under another root.

use pct_tests::pct::{binary, run};
use pct_tests::victims::{victim, victim_with};
use pct_tests::{skip, tool_or_skip};
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Command, Stdio};

/// Waits until the sampler is in it, then makes children: static ones, a fork that ends by _exit. Prints what the kernel counted since.
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
    // The kernel's figures come in ticks, and the last look is a tenth of a second before the end at most; the attach itself is in it.
    assert!(
        (used - counted).abs() < 0.2,
        "{used} s by the account, {counted} s by the target itself: {account}"
    );
    assert!(account.to_string().contains("relay-static is a static program"), "{account}");
}

/// The loader finds no libpct.so there, and says nothing.
#[test]
fn a_program_that_begins_under_another_root_is_named() {
    let test = "a_program_that_begins_under_another_root_is_named";
    let Some(chroot) = tool_or_skip("chroot", test) else { return };
    let program = victim("relay.c");
    let root = tempfile::tempdir().expect("a folder");
    let needed = Command::new("ldd").arg(&program).output().expect("ldd");
    let needed = String::from_utf8_lossy(&needed.stdout).into_owned();
    let libraries = needed.split_whitespace().filter(|word| word.starts_with('/'));
    for library in libraries {
        let there = root.path().join(library.trim_start_matches('/'));
        std::fs::create_dir_all(there.parent().expect("a folder")).expect("made");
        std::fs::copy(library, there).expect("copied");
    }
    std::fs::copy(&program, root.path().join("relay")).expect("copied");
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
