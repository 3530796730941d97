//! The critical path of a program that knows it, as `pct report --wait --path` tells it.

use std::process::Command;

use pct_tests::pct::{binary, run};
use pct_tests::victims::victim;

/// Three threads hand a token on; a fourth one computes beside them.
#[test]
fn the_path_goes_through_the_threads_that_hand_a_token_on() {
    let program = victim("pipeline.c");
    let r = run(&["--wait", "--no-report"], &[program.to_str().expect("a path")]);
    r.unharmed();
    let report = |options: &[&str]| {
        let report =
            Command::new(binary()).args(["report", "--wait", "--path"]).args(options).arg(&r.dir).output();
        let report = report.expect("it starts");
        assert!(report.status.success(), "{report:?}");
        String::from_utf8_lossy(&report.stdout).into_owned()
    };
    let value: serde_json::Value = serde_json::from_str(&report(&["--format", "json"])).expect("JSON");
    let rows = |what: &str| value[what].as_array().expect("rows").clone();
    let seconds = |row: &serde_json::Value| row["seconds"].as_f64().expect("a number");
    let whole = seconds(&value);
    assert_eq!(value["records_missing"], 0);
    // All parts, all threads and all pieces are the time of the run.
    let pieces = rows("pieces");
    let length = |piece: &serde_json::Value| {
        piece["to_seconds"].as_f64().expect("a number") - piece["from_seconds"].as_f64().expect("a number")
    };
    for sum in [
        rows("parts").iter().map(seconds).sum::<f64>(),
        rows("threads").iter().map(seconds).sum(),
        pieces.iter().map(length).sum(),
    ] {
        assert!((sum - whole).abs() < 1e-6, "{sum} of {whole} s: {value}");
    }
    for line in r.stdout().lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<f64>().expect("a number") / 1e9;
        match words[0] {
            "path" => {
                let row = rows("threads").into_iter().find(|row| row["thread"] == words[1]);
                let on_path = row.as_ref().map_or(0.0, seconds);
                println!("{line}: {on_path:.6} s");
                // The recording's clock is set by the program's at some points: between them they may differ.
                let bounds = number(2) * 0.999 - 1e-4..=number(3) * 1.001 + 1e-4;
                assert!(bounds.contains(&on_path), "{line}: {on_path} s: {value}");
            }
            "cpu" => {
                let row = rows("parts").into_iter().find(|row| row["name"] == words[1]);
                let on_path = row.as_ref().map_or(0.0, seconds);
                println!("{line}: {on_path:.6} s");
                // Samples come by chance, at least 100 a second: five standard deviations.
                let noise = 5.0 * (number(2) / 100.0).sqrt();
                assert!((on_path - number(2)).abs() <= noise, "{line}: {on_path} s: {value}");
            }
            _ => panic!("{line}"),
        }
    }
    assert!(!report(&[]).contains("work_off_path"), "what runs beside the path is not on it");
    // The token goes from thread to thread 25 times.
    let times = |waiter: &str, waker: &str| {
        let of = |row: &&serde_json::Value| row["waits_in"] == waiter && row["woken_by"] == waker;
        rows("changes").iter().filter(of).map(|row| row["times"].as_f64().expect("a number")).sum::<f64>()
    };
    assert_eq!(times("stage", "stage"), 24.0 * 3.0 + 2.0, "{value}");
    let csv = report(&["--format", "csv"]);
    assert_eq!(csv.lines().count(), pieces.len() + 1, "{csv}");
}
