//! Memory of programs that know what they allocated, as `pct run --alloc` and the views say it.

use std::path::PathBuf;
use std::process::Command;

use pct_kit::harm::{same_as_bare, unharmed};
use pct_kit::noise::estimated;
use pct_tests::pct::{Run, binary, run};
use pct_tests::root;
use serde_json::Value;

fn report(r: &Run, options: &[&str]) -> Value {
    let mut report = Command::new(binary());
    report.args(["report", "--alloc", "--format", "json"]).args(options).arg(&r.dir);
    let report = report.output().expect("a report");
    serde_json::from_slice(&report.stdout).unwrap_or_else(|_| panic!("{report:?}"))
}

/// An estimate and the half width of its interval.
fn estimate(of: &Value) -> (f64, f64) {
    let [estimate, low, high] = ["estimate", "low", "high"].map(|what| of[what].as_f64().expect("a number"));
    (estimate, (high - low) / 2.0)
}

/// The example of the crate pct-alloc, linked by rustc's own linker or by another one.
fn arena(linker: &str) -> Option<PathBuf> {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("arena");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .current_dir(root())
        .args(["rustc", "-q", "-p", "pct-alloc", "--example", "arena", "--target-dir"])
        .arg(&target);
    cargo.env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("RUSTFLAGS");
    if !linker.is_empty() {
        cargo.arg("--").arg(format!("-Clink-arg=-fuse-ld={linker}"));
    }
    let built = cargo.status().expect("cargo runs").success();
    if !built {
        pct_tests::skip(
            "a_rust_program_with_its_own_allocator_tells_of_its_blocks",
            &format!("no linker {linker:?}"),
        );
    }
    built.then(|| target.join("debug/examples/arena"))
}

#[test]
fn a_rust_program_with_its_own_allocator_tells_of_its_blocks() {
    // GNU ld resolves weak references otherwise than lld does.
    for program in ["", "bfd"].into_iter().filter_map(arena) {
        let program = program.to_str().expect("a path");
        let bare = Command::new(program).output().expect("it starts");
        unharmed(&bare);
        let r = run(&["--alloc=16K"], &[program]);
        let said = r.unharmed();
        let numbers: Vec<f64> =
            said.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
        let [_, bytes, live] = numbers[..] else { panic!("{said}") };
        let report = report(&r, &[]);
        let total = &report["total"];
        for (truth, what) in [(bytes, "allocated"), (live, "live")] {
            let (found, width) = estimate(&total[what]["bytes"]);
            println!("{what}: {truth}, {found} +- {width}");
            estimated(truth, found, width).unwrap_or_else(|why| panic!("{program} {what}: {why}, {total}"));
        }
        // What the kernel says is resident holds what is live, which the arena rounds up to powers of two,
        // and little beside it.
        let levels = report["memory"]["processes"][0]["levels"].as_array().expect("levels");
        let resident = levels.last().and_then(|level| level["resident_anonymous"].as_f64()).expect("a level");
        println!("resident {resident}, live {live}");
        assert!(resident > live && resident < 2.5 * live, "{program}: {resident}, {live}");
        // Without --alloc nobody hears of it.
        let off = run(&[], &[program]);
        same_as_bare(&off.output, &bare);
    }
}
