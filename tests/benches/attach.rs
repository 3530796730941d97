//! What attaching costs the target: how long the borrowed thread is stopped (methods 2 and 4, on and off),
//! and what sampling from outside takes from 16 busy threads.
//!
//! `cargo bench -p pct-tests --bench attach [ROUNDS]` prints a table; 30 rounds by default. Anything else
//! that runs on the machine shows: a stop lasts until the thread and pct have both been given a processor. On
//! a busy machine, as root: `PCT_BIN=.../pct chrt -f 1 .../deps/attach-... ROUNDS`. Median of 24 rounds by
//! that on 2 cores (AMD EPYC, Linux 6.18, 2026-11-22): method 2 0.9 ms, method 4 1.0 ms, off 0.6 ms. Where
//! the time goes: the example `steps` of pct-attach.
//!
//! On a loaded machine (2 cores, load 20 at nice 10) method 2 took 4 to 145 ms. `perf trace -p TARGET` showed
//! that no system call of the target took 0.1 ms, and dlopen as a whole 0.2 ms. The rest was between its system
//! calls: the stopped thread waited for a processor, up to 40 ms each time.

use pct_kit::Cpu;
use pct_tests::pct::binary;
use pct_tests::victims::victim;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

fn pct(args: &[&str]) -> String {
    let done = Command::new(binary()).args(args).output().expect("pct can be run");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}");
    said
}

/// The milliseconds in "stopped for X ms".
fn stopped(said: &str) -> f64 {
    let (_, rest) = said.split_once("stopped for ").expect("it says so");
    rest.split(' ').next().and_then(|n| n.parse().ok()).expect("a number")
}

fn started(program: &str, args: &[&str]) -> Child {
    let mut child =
        Command::new(victim(program)).args(args).stdout(Stdio::piped()).spawn().expect("it starts");
    if program == "waits.c" {
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut String::new()).expect("a line");
    }
    child
}

fn row(name: &str, mut ms: Vec<f64>) {
    ms.sort_by(f64::total_cmp);
    let at = |share: f64| ms[((ms.len() - 1) as f64 * share) as usize];
    println!("{name:<34} {:>8.2} {:>8.2} {:>8.2} {:>8.2}", at(0.0), at(0.5), at(0.9), at(1.0));
}

fn stops(rounds: usize) {
    println!(
        "{:<34} {:>8} {:>8} {:>8} {:>8}   ms, {rounds} rounds",
        "thread stopped by", "least", "median", "p90", "most"
    );
    let folder = tempfile::tempdir().expect("a folder");
    for (program, args, what) in [("waits.c", &["600"][..], "waiting"), ("shares.c", &["1", "600"], "busy")] {
        for method in ["2", "4"] {
            let (mut on, mut off, mut again) = (Vec::new(), Vec::new(), Vec::new());
            for round in 0..rounds {
                let mut target = started(program, args);
                let id = target.id().to_string();
                while std::fs::read_to_string(format!("/proc/{id}/wchan")).is_err() {}
                let out = folder.path().join(format!("{what}-{method}-{round}"));
                let out = out.to_str().expect("UTF-8");
                // until the loader has done its work a dlopen is not possible
                let explained = || {
                    String::from_utf8_lossy(
                        &Command::new(binary())
                            .args(["attach", "--explain", &id])
                            .output()
                            .expect("run")
                            .stdout,
                    )
                    .into_owned()
                };
                while !explained().contains("method 2 (dlopen)                     would be taken") {}
                on.push(stopped(&pct(&["attach", "--method", method, "--out", out, &id])));
                off.push(stopped(&pct(&["off", &id])));
                again.push(stopped(&pct(&["attach", "--out", out, &id])));
                target.kill().expect("killed");
                target.wait().expect("waited");
            }
            row(&format!("method {method}, {what}: attach"), on);
            row(&format!("method {method}, {what}: off"), off);
            row(&format!("method {method}, {what}: attach again"), again);
        }
    }
}

/// 16 threads that do a fixed amount of work each.
fn work(hz: Option<&str>) -> (f64, f64, f64, String) {
    let before = Cpu::children().total();
    let mut target = started("shares.c", &["16", "0", "60"]);
    let began = std::time::Instant::now();
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("r");
    let (mut said, mut controller) = (String::new(), 0.0);
    if let Some(hz) = hz {
        let id = target.id().to_string();
        let mut attach = Command::new(binary())
            .args(["attach", "--method", "5", "--hz", hz, "--out", out.to_str().expect("UTF-8"), &id])
            .stderr(Stdio::piped())
            .spawn()
            .expect("pct can be run");
        let err = attach.stderr.take().expect("a pipe");
        BufReader::new(err).read_to_string(&mut said).expect("text");
        attach.wait().expect("waited");
        controller = Cpu::children().total() - before;
    }
    let mut words = String::new();
    target.stdout.take().expect("a pipe").read_to_string(&mut words).expect("text");
    let elapsed = began.elapsed().as_secs_f64();
    target.wait().expect("waited");
    let all = Cpu::children().total() - before;
    (all - controller, controller, elapsed, said)
}

fn outside() {
    println!("\n16 busy threads, a fixed amount of work each, method 5");
    println!(
        "{:<14} {:>12} {:>14} {:>16}   samples",
        "rate", "target CPU s", "of bare work", "controller CPU"
    );
    let bare: Vec<f64> = (0..3).map(|_| work(None).0).collect();
    let bare = bare.iter().sum::<f64>() / 3.0;
    println!("{:<14} {bare:>12.2} {:>13.1}%", "none", 100.0);
    for hz in ["100", "1000"] {
        let (target, controller, elapsed, said) = work(Some(hz));
        let samples = said.split(' ').next().unwrap_or_default().to_owned();
        println!(
            "{:<14} {target:>12.2} {:>13.1}% {:>14.1} %   {samples}",
            format!("{hz} Hz"),
            100.0 * bare / target,
            100.0 * controller / elapsed
        );
    }
}

fn main() {
    let rounds = std::env::args().filter_map(|a| a.parse().ok()).next().unwrap_or(30);
    stops(rounds);
    outside();
}
