//! `pct attach` to a program that then handles all signals by itself, by the instruction: few of pct's come to it.

use pct_kit::harm::harm;
use pct_kit::started::Killed;
use pct_tests::pct::binary;
use pct_tests::victims::victim;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

#[test]
fn a_target_that_takes_all_signals_gets_few_of_ours() {
    for method in ["2", "4"] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut target = Command::new(victim("ownactions.c"));
        let target = target.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut target = Killed(target);
        let mut said = BufReader::new(target.0.stdout.take().expect("a pipe"));
        let mut ready = String::new();
        said.read_line(&mut ready).expect("text");
        if ready.is_empty() {
            return pct_kit::skip("the victim is for x86-64");
        }
        let mut attach = Command::new(binary());
        attach.args(["attach", "--method", method, "-o"]).arg(folder.path().join("recording"));
        let attach = attach.arg(target.0.id().to_string()).stderr(Stdio::piped()).spawn();
        let mut attach = Killed(attach.expect("pct can be run"));
        let mut words = BufReader::new(attach.0.stderr.take().expect("a pipe")).lines();
        assert!(words.any(|line| line.expect("text").contains("by method")), "it attaches");
        target.0.stdin.take().expect("a pipe").write_all(b"\n").expect("it reads");
        let mut came = String::new();
        said.read_to_string(&mut came).expect("text");
        let status = target.0.wait().expect("waited");
        if !status.success() {
            harm(&format!("method {method}: {status:?}"));
        }
        let came: u32 = came.trim().strip_suffix(" came").and_then(|n| n.parse().ok()).expect("a number");
        // 16 ms of expiries, four times, and one of each timer; of clocks that go on some 600.
        assert!(came <= 70, "method {method}: {came} of our signals");
        drop(words);
    }
}
