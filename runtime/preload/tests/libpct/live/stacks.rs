//! What a walk over a stack asks the kernel.

use std::process::Command;

use pct_kit::harm::unharmed;
use pct_kit::libraries;

use crate::run::{compiled, files_in};

/// A page of which it is not sure that it is the thread's stack is asked for by a call that fails with
/// EINVAL. That costs more than the rest of a sample, so stacks that threads were created with need none.
#[test]
fn a_walk_asks_for_no_page_of_a_threads_own_stack() {
    let Some(victim) = compiled("stacks") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let calls = folder.path().join("calls");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-e", "trace=rt_sigprocmask", "-o"]).arg(&calls);
    strace.args(["-E", &format!("LD_PRELOAD={}", libraries::plain().display())]);
    strace.args(["-E", &format!("PCT=out={}", folder.path().display())]);
    let output = match strace.arg(victim).output() {
        Ok(output) => output,
        Err(e) => return pct_kit::skip(&format!("no strace ({e})")),
    };
    if String::from_utf8_lossy(&output.stderr).contains("Operation not permitted") {
        return pct_kit::skip("strace may not trace here");
    }
    unharmed(&output);
    let calls = std::fs::read_to_string(calls).expect("strace writes");
    let asked = calls.lines().filter(|line| line.contains("EINVAL")).count();
    let files = files_in(folder.path());
    let seconds: f64 = files.iter().map(|file| file.user + file.system).sum();
    assert!(seconds > 1.2, "{files:#?}");
    // Until the housekeeper has found a thread's stack, each of its pages is asked for: some ten samples of the 1,600.
    assert!(asked < 400, "{asked} questions in {seconds} s");
}
