//! `pct attach` to a program that then handles all signals by itself, by the instruction: few of pct's come to it.

use pct_kit::harm::unharmed;
use pct_tests::pct::binary;
use pct_tests::skip;
use pct_tests::victims::{Guest, victim};
use std::process::{Command, Stdio};

#[test]
fn a_target_that_takes_all_signals_gets_few_of_ours() {
    if cfg!(not(target_arch = "x86_64")) {
        return skip("a_target_that_takes_all_signals_gets_few_of_ours", "the victim is for x86-64");
    }
    for method in ["2", "4"] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut target = Guest::started(&mut Command::new(victim("ownactions.c")), "ready");
        let mut attach = Command::new(binary());
        attach.args(["attach", "--method", method, "-o", "recording", &target.id()]);
        let attach = Guest::start(attach.current_dir(folder.path()).stderr(Stdio::piped())).wait();
        let said = String::from_utf8_lossy(&attach.stderr).into_owned();
        assert!(attach.status.success() && said.contains("by method"), "method {method}: {said}");
        target.tell("\n");
        let came = unharmed(&target.wait());
        let came: u32 = came.trim().strip_suffix(" came").and_then(|n| n.parse().ok()).expect("a number");
        // 16 ms of expiries, four times, and one of each timer; of clocks that go on some 200.
        assert!(came <= 70, "method {method}: {came} of our signals");
    }
}
