//! Programs under a debugger: it is not stopped by our signals, or hardly ever, and the samples come all the same.

use std::path::Path;
use std::process::{Command, Output};

use pct_kit::harm::{harm, unharmed};
use pct_kit::libraries;

use crate::run::{about, files_in, victim};

/// Until the first sample arrives expiries may be as near as a tenth of a millisecond, so a program may stop
/// 80 times before the first tick, which comes after four or eight milliseconds, and 160 times where that
/// tick finds the housekeeper at work. Without the look for a debugger half a second has 500 stops at least.
const FEW: usize = 300;

/// Runs `victim spin SECONDS` under gdb, which goes on after each stop; `None` without gdb or a compiler.
fn under_gdb(seconds: &str, settings: &[&str], folder: &Path) -> Option<Output> {
    let victim = victim()?;
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "--batch"]);
    for setting in settings {
        gdb.args(["-ex", setting]);
    }
    gdb.args(["-ex", &format!("set environment LD_PRELOAD {}", libraries::plain().display())]);
    gdb.args(["-ex", &format!("set environment PCT out={}", folder.display()), "-ex", "run"]);
    for _ in 0..FEW {
        gdb.args(["-ex", "continue"]);
    }
    match gdb.arg("--args").arg(victim).args(["spin", seconds]).output() {
        Ok(output) if String::from_utf8_lossy(&output.stderr).contains("Operation not permitted") => {
            pct_kit::skip("gdb may not trace here");
            None
        }
        Ok(output) => Some(output),
        Err(e) => {
            pct_kit::skip(&format!("no gdb ({e})"));
            None
        }
    }
}

fn stops(output: &Output) -> usize {
    let said = String::from_utf8_lossy(&output.stdout);
    for end in ["exited with code", "terminated with signal"] {
        if said.contains(end) {
            harm(&format!("it {end} ...: {said}"));
        }
    }
    assert!(said.contains("exited normally"), "after {FEW} stops it still runs: {output:?}");
    said.matches("received signal").count()
}

#[test]
fn a_program_that_a_debugger_starts_is_sampled_without_a_stop() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(output) = under_gdb("0.5", &[], folder.path()) else { return };
    assert_eq!(stops(&output), 0, "{output:?}");
    let files = files_in(folder.path());
    let victim = files.iter().find(|a| a.argv.get(1).is_some_and(|a| a == "spin")).expect("its file");
    about(victim.user + victim.system, 0.5);
}

/// With random addresses the start cannot tell a debugger, as when one comes later: gdb keeps the traps for itself.
#[test]
fn a_debugger_that_comes_later_is_seen_after_a_few_stops() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(output) = under_gdb("0.5", &["set disable-randomization off"], folder.path()) else { return };
    assert!(stops(&output) < FEW, "{output:?}");
}

/// qemu's user mode enters handlers with a stack that is not aligned, and knows no perf events.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_program_in_an_emulator_lives_and_is_sampled() {
    let Some(victim) = victim() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let mut emulator = Command::new("qemu-x86_64");
    emulator.args(["-E", &format!("LD_PRELOAD={}", libraries::plain().display())]);
    emulator.args(["-E", &format!("PCT=out={}", folder.path().display())]);
    let output = match emulator.arg(victim).args(["spin", "0.5"]).output() {
        Ok(output) => output,
        Err(e) => return pct_kit::skip(&format!("no qemu-x86_64 ({e})")),
    };
    unharmed(&output);
    let files = files_in(folder.path());
    assert!(files.iter().map(|a| a.user + a.system).sum::<f64>() > 0.3, "{files:#?}");
}
