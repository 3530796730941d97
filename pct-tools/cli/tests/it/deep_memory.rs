//! Deep profiles of recordings with allocation samples: CPU time and memory beside each other, with the sums of
//! `pct report --alloc`.

use pct_deep::native::Allocated;
use pct_reports::subject::Subject;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn pct(dir: &Path, args: &[&str]) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_pct"))
        .args(args)
        .current_dir(dir)
        .env("LC_ALL", "C")
        .output()
        .expect("pct runs");
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn json(dir: &Path, args: &[&str]) -> Value {
    let text = pct(dir, args);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// A recording of a program that knows what it allocated, as `memory.pct`.
fn recording() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("memory.pct"), crate::program::example(1, true).finish())
        .expect("written");
    dir
}

/// What a view is called by `--by` of the report, and in its JSON.
const VIEWS: [(Allocated, &str, &str); 3] = [
    (Allocated::All, "bytes", "allocated"),
    (Allocated::Live, "live", "live"),
    (Allocated::Peak, "peak", "peak"),
];

/// Octets in all, as the report has them.
fn reported(dir: &Path, by: &str, view: &str) -> f64 {
    let report = json(dir, &["report", "--alloc", "--by", by, "--format", "json", "memory.pct"]);
    report["total"][view]["bytes"]["estimate"].as_f64().expect("a number")
}

#[test]
fn every_view_of_memory_has_the_sums_of_the_report() {
    let dir = recording();
    for (view, by, name) in VIEWS {
        let total = reported(dir.path(), by, name);
        let top = json(
            dir.path(),
            &["view", "--memory", view.as_word(), "--json", "top_procs/1-1000/words/self/oa", "memory.pct"],
        );
        let procs = top["report"]["top_procs"]["Ok"]["procs"].as_array().expect("rows");
        let words = |row: &Value| row["perf"]["self"]["words"].as_f64().expect("a number");
        let shown: f64 = procs.iter().map(words).sum::<f64>() * 8.0;
        assert!(shown > 0.0 && (shown - total).abs() <= 8.0, "{name}: {shown} {total}");
    }
}

#[test]
fn a_page_has_time_and_memory_in_one_row() {
    let dir = recording();
    for (view, head) in
        VIEWS.map(|(view, ..)| view).into_iter().zip(["allocated", "live at the end", "live at the peak"])
    {
        let page = |query: &str| {
            pct(dir.path(), &["view", "--memory", view.as_word(), "--text", query, "memory.pct"])
        };
        let root = page("root/90");
        for column in ["CPU seconds".to_owned(), format!("Blocks {head}"), format!("Bytes {head}")] {
            assert!(root.contains(&column), "{column}:\n{root}");
        }
        assert!(!root.contains("/call") && !root.contains("Exits"), "{root}");
        let menu = page("menu");
        assert!(menu.contains(&format!("Bytes {head}")), "{menu}");
    }
}

#[test]
fn deep_writes_a_file_for_each_view_and_each_says_what_it_is() {
    let dir = recording();
    pct(dir.path(), &["deep", "-o", "D.data", "memory.pct"]);
    let reading =
        pct_deep::Reading { rule: pct_deep::Compensation::Exact, contexts: pct_deep::Contexts::Recorded };
    let mut contexts = Vec::new();
    for ((view, by, name), file) in VIEWS.into_iter().zip(["D.data", "D.live.data", "D.peak.data"]) {
        let subject = Subject::open(&dir.path().join(file), reading).expect("it is read");
        assert_eq!(subject.native_warning, None, "{file}");
        assert_eq!(subject.memory(), Some(view), "{file}");
        let total = subject.profile.root_total();
        let octets = reported(dir.path(), by, name);
        assert!((total.words as f64 * 8.0 - octets).abs() <= 8.0, "{file}: {} {octets}", total.words * 8);
        // Same contexts, same numbers, same time: the files can be compared.
        contexts.push((subject.profile.data().csd_count(), total.quanta));
    }
    assert!(contexts.windows(2).all(|pair| pair[0] == pair[1]), "{contexts:?}");
}
