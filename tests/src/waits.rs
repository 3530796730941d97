//! What victims say of their waits, and what `pct report --wait` says of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::pct::{Run, binary, run};
use crate::victims::victim;

/// Seconds by (function that waits, kind, function that held it or woke the thread).
pub type Matrix = BTreeMap<(String, String, String), f64>;
/// Waits by (function that waits, kind).
pub type Counts = BTreeMap<(String, String), f64>;

/// A line of what a victim says of itself: seconds by one (function that waits, kind, function that held it or woke the
/// thread).
#[derive(Debug)]
pub struct Truth {
    /// The function that waits.
    pub waiter: String,
    /// What it waits for, as reports name it.
    pub kind: String,
    /// The function that held it or woke the thread; `-`: not known to the recording.
    pub holder: String,
    /// Seconds at least, whatever the scheduler did.
    pub least: f64,
    /// Seconds at most, whatever the scheduler did.
    pub most: f64,
    /// Waits of this function and kind; 0: not known.
    pub waits: f64,
}

/// Lines of truth.
///
/// # Panics
/// At a line of another kind.
pub fn truth(said: &str) -> Vec<Truth> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |word: &str| word.parse::<f64>().expect("a number");
        let ["truth", waiter, kind, holder, least, most, waits] = words[..] else { panic!("{line}") };
        let (waiter, kind, holder) = (waiter.to_owned(), kind.replace('_', " "), holder.to_owned());
        // The recording's clock is set by the program's at some points: between them they may differ.
        let (least, most) = (number(least) / 1e9 * 0.999 - 1e-5, number(most) / 1e9 * 1.001 + 1e-5);
        Truth { waiter, kind, holder, least, most, waits: number(waits) }
    };
    said.lines().map(line).collect()
}

/// What `pct report --wait` says of a recording.
///
/// # Panics
/// When the report fails or records were lost.
pub fn reported(dir: &Path) -> (Matrix, Counts) {
    let report = Command::new(binary()).args(["report", "--wait", "--format", "json"]).arg(dir).output();
    let report = report.expect("a report");
    let value: serde_json::Value =
        serde_json::from_slice(&report.stdout).unwrap_or_else(|_| panic!("{report:?}"));
    assert_eq!(value["records_lost"], 0, "{value}");
    let (mut seconds, mut waits) = (Matrix::new(), BTreeMap::new());
    for row in value["waits"].as_array().expect("rows") {
        let text = |what: &str| row[what].as_str().expect("text").to_owned();
        let mut add = |holder: &str, of: &serde_json::Value| {
            let key = (function(&row["function"]), text("kind"), holder.to_owned());
            *seconds.entry(key).or_insert(0.0) += of.as_f64().expect("a number");
        };
        for holder in row["by"].as_array().expect("holders") {
            add(&function(&holder["function"]), &holder["seconds"]);
        }
        // Who ended is what was waited for.
        if row["kind"] == "thread's end" {
            add("-", &row["seconds"]);
        }
        add("hand-over", &row["hand_over_seconds"]);
        add("-", &row["not_known_seconds"]);
        let count = row["waits"].as_f64().expect("a number");
        *waits.entry((function(&row["function"]), text("kind"))).or_insert(0.0) += count;
    }
    (seconds, waits)
}

/// The name of a function of a victim, without that of its Rust crate.
fn function(of: &serde_json::Value) -> String {
    let name = of.as_str().expect("text");
    name.strip_prefix("rust_waits::").unwrap_or(name).to_owned()
}

/// A run of the victim in a mode: what it said of itself, and what the recording says.
///
/// # Panics
/// When one of them fails.
pub fn run_mode(source: &str, mode: &str) -> (Run, Vec<Truth>, Matrix, Counts) {
    let program = victim(source);
    let r = run(&["--wait", "--no-report"], &[program.to_str().expect("a path"), mode]);
    assert!(r.output.status.success(), "{}", r.stderr());
    let (seconds, waits) = reported(&r.dir);
    let truth = truth(&r.stdout());
    (r, truth, seconds, waits)
}

/// Each row of truth has a row of the recording with as many waits, and with seconds within its bounds.
///
/// # Panics
/// If it is not so.
pub fn each_is_found(truth: &[Truth], found: &Matrix, waits: &Counts) {
    for cell in truth {
        let Truth { waiter, kind, holder, least, most, .. } = cell;
        assert_eq!(waits.get(&(waiter.clone(), kind.clone())), Some(&cell.waits), "{cell:?}: {found:?}");
        let of_waiter = found.iter().filter(|((w, k, _), _)| (w, k) == (waiter, kind));
        let all: f64 = of_waiter.clone().map(|(_, seconds)| seconds).sum();
        assert!((*least..=*most).contains(&all), "{all} s: {cell:?}: {found:?}");
        let by_them = found.get(&(waiter.clone(), kind.clone(), holder.clone())).unwrap_or(&0.0);
        assert!((*least..=*most).contains(by_them), "{by_them} s: {cell:?}: {found:?}");
        println!("{by_them:.6} s: {cell:?}");
        // Nobody else had to do with it.
        let known = [holder.as_str(), "hand-over", "-"];
        let mut others = of_waiter.filter(|((_, _, by), s)| !known.contains(&by.as_str()) && **s > 0.0);
        assert_eq!(others.next(), None);
    }
}

/// Each row of truth has a cell of the recording with seconds within its bounds, each waiter as many waits as it says,
/// and nobody else is named.
///
/// # Panics
/// If it is not so.
pub fn cells_are_found(truth: &[Truth], found: &Matrix, waits: &Counts) {
    for cell in truth {
        let Truth { waiter, kind, holder, least, most, .. } = cell;
        assert_eq!(waits.get(&(waiter.clone(), kind.clone())), Some(&cell.waits), "{cell:?}: {found:?}");
        let seconds = found.get(&(waiter.clone(), kind.clone(), holder.clone())).unwrap_or(&0.0);
        println!("{seconds:.6} s: {cell:?}");
        assert!((*least..=*most).contains(seconds), "{seconds} s: {cell:?}: {found:?}");
    }
    let is_true = |(waiter, kind, by): &(String, String, String)| {
        let mut of_waiter =
            truth.iter().filter(|cell| (&cell.waiter, &cell.kind) == (waiter, kind)).peekable();
        let known = ["hand-over", "-"].contains(&by.as_str());
        of_waiter.peek().is_none() || known || of_waiter.any(|cell| cell.holder == *by)
    };
    let other = found.iter().find(|(key, seconds)| **seconds > 0.0 && !is_true(key));
    assert_eq!(other, None);
}
