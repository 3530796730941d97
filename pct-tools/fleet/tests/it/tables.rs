//! The tables against the profiles that they are made of: read back by Parquet's own reader, and asked by
//! DuckDB where it is.

use crate::common::{files, rows};
use parquet::record::{ListAccessor as _, RowAccessor as _};
use pct_fleet::gather::{Origin, gather};
use pct_fleet::questions::{Engine, Question, Which, sql};
use pct_fleet::root;
use pct_format::builder::Builder;
use pct_format::layout::Text;
use pct_format::record::Frame;
use pct_profile::flat::Order;
use pct_profile::load::{self, Options};
use pct_profile::{By, Flat, Profile, Split};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const MS: u64 = 1_000_000;

/// A recording of two threads with a secret on its command line. `factor` makes one function heavier.
fn recording(folder: &Path, name: &str, factor: u64) -> Profile {
    let mut b = Builder::new();
    b.argv(&[b"./shop", b"--password=hunter2-secret"]).text(Text::Exe, b"/home/secret-user/bin/shop");
    b.set_header_word(pct_format::layout::header::STACK_MODE, 4);
    b.region(
        1,
        1,
        0x40_0000..0x40_8000,
        0,
        11,
        b"\x12\x34\x56\x78\x9a\xbc\xde\xf0",
        b"/home/secret-user/bin/shop",
    );
    b.region(2, 1, 0x7f00_0000_0000..0x7f00_0001_0000, 0x1000, 12, b"", b"/home/secret-user/lib/libx.so");
    let first = b.thread(1, 1000, b"shop");
    let second = b.thread(5, 1001, b"worker-17");
    let hot = b.stack(&[Frame::Return(0x40_1100), Frame::Return(0x40_1010)]);
    let other = b.stack(&[Frame::Return(0x40_2100)]);
    for n in 0..60 * factor {
        b.sample(first, (n + 1) * MS, 0x40_1234, 1, false, hot);
    }
    b.sample(first, 95 * MS, 0x7f00_0000_0200, 5, true, hot);
    for n in 0..20 {
        b.sample(second, (n + 1) * MS, 0x40_2200, 1, false, other);
    }
    let path = folder.join(name);
    std::fs::write(&path, b.finish()).expect("written");
    load::load(&[path], &Options { timeline: true, ..Options::default() }).expect("loaded")
}

fn origin(version: &str) -> Origin {
    Origin { service: "shop".into(), version: version.into(), host: "host-a".into(), ..Origin::default() }
}

/// CPU nanoseconds of each function's own, as `pct report` sums them.
fn own(profile: &Profile) -> BTreeMap<String, u64> {
    let flat = Flat::count_cells(profile, &profile.cells, Some(By::Function), Split::Merged, Order::Own);
    flat.rows.iter().map(|row| (row.label.unwrap().name(profile), row.own.cpu_ns())).collect()
}

#[test]
fn the_tables_have_the_sums_of_the_report() {
    let dir = tempfile::tempdir().unwrap();
    let profile = recording(dir.path(), "a.pct", 1);
    let out = dir.path().join("root");
    root::write(&out, &gather(&profile, &origin("1")), &[]).unwrap();
    let mut leaf_of = BTreeMap::new();
    for stack in rows(&out, "stacks") {
        let frames = stack.get_list(1).unwrap();
        assert_ne!(frames.len(), 0);
        let leaf = frames.get_group(0).unwrap();
        leaf_of.insert(
            stack.get_bytes(0).unwrap().data().to_vec(),
            (leaf.get_bytes(0).unwrap().data().to_vec(), leaf.get_long(1).unwrap()),
        );
    }
    let mut names = BTreeMap::new();
    for row in rows(&out, "locations") {
        if row.get_int(2).unwrap() == 0 {
            let key = (row.get_bytes(0).unwrap().data().to_vec(), row.get_long(1).unwrap());
            assert_eq!(names.insert(key, row.get_string(3).unwrap().clone()), None, "one function a place");
        }
    }
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut threads = std::collections::BTreeSet::new();
    for row in rows(&out, "samples") {
        threads.insert(row.get_string(4).unwrap().clone());
        let place = &leaf_of[row.get_bytes(6).unwrap().data()];
        *sums.entry(names[place].clone()).or_default() += u64::try_from(row.get_long(9).unwrap()).unwrap();
    }
    assert_eq!(sums, own(&profile));
    assert_eq!(threads.into_iter().collect::<Vec<_>>(), ["shop", "worker-#"]);
}

#[test]
fn a_second_export_writes_the_same_files_and_nothing_private() {
    let dir = tempfile::tempdir().unwrap();
    let profile = recording(dir.path(), "a.pct", 1);
    let out = dir.path().join("root");
    root::write(&out, &gather(&profile, &origin("1")), &[]).unwrap();
    let contents = || files(&out).into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap()));
    let first: Vec<_> = contents().collect();
    root::write(&out, &gather(&profile, &origin("1")), &[]).unwrap();
    assert!(contents().eq(first.iter().cloned()), "{:?}", files(&out));
    assert_eq!(first.len(), 5);
    for (path, octets) in first {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // Pages are compressed, but short words in statistics and dictionaries of few values are not.
        let text = format!("{path:?} {}", String::from_utf8_lossy(&octets));
        assert!(!text.contains("secret"), "{path:?}");
    }
    for table in ["samples", "stacks", "locations", "hosts"] {
        for row in rows(&out, table) {
            let text = row.to_string();
            assert!(!text.contains("secret") && !text.contains("/home"), "{text}");
        }
    }
}

/// Runs an SQL text that comes on stdin, and prints the rows as JSON, cells as text.
const DUCKDB: (&str, &str) = (
    "duckdb",
    "import duckdb, json, sys
print(json.dumps([[str(c) for c in row] for row in duckdb.sql(sys.stdin.read()).fetchall()]))",
);
const CLICKHOUSE: (&str, &str) = (
    "chdb",
    "import chdb, json, sys
rows = chdb.query(sys.stdin.read().strip().rstrip(';'), 'JSONCompactStrings').bytes()
print(json.dumps(json.loads(rows)['data']))",
);

/// Rows of an engine's answer to a question. `None`: it is not here.
fn ask((module, script): (&str, &str), question: &str) -> Option<Vec<Vec<String>>> {
    let there = Command::new("python3").args(["-c", &format!("import {module}")]).output();
    if !there.is_ok_and(|output| output.status.success()) {
        pct_kit::skip(&format!("python3 has no module {module} (pip install {module})"));
        return None;
    }
    use std::io::Write as _;
    let mut child = Command::new("python3")
        .args(["-c", script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(question.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{question}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn duckdb_answers_the_three_questions_as_the_report_does() {
    answers_are_those_of_the_report(Engine::Duckdb, DUCKDB);
}

#[test]
fn clickhouse_answers_the_three_questions_as_the_report_does() {
    answers_are_those_of_the_report(Engine::Clickhouse, CLICKHOUSE);
}

fn answers_are_those_of_the_report(engine: Engine, script: (&str, &str)) {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (recording(dir.path(), "a.pct", 1), recording(dir.path(), "b.pct", 3));
    let out = dir.path().join("root");
    root::write(&out, &gather(&old, &origin("1")), &[]).unwrap();
    root::write(&out, &gather(&new, &origin("2")), &[]).unwrap();
    let text = |question| sql(engine, out.to_str().unwrap(), &Which::default(), &question);

    let Some(top) = ask(script, &text(Question::Top { by: vec!["version".into()], limit: 50 })) else {
        return;
    };
    for (version, profile) in [("1", &old), ("2", &new)] {
        let found: BTreeMap<String, u64> = top
            .iter()
            .filter(|row| row[0] == version)
            .map(|row| (row[1].clone(), (row[2].parse::<f64>().unwrap() * 1e9).round() as u64))
            .collect();
        assert_eq!(found, own(profile), "{top:?}");
    }

    let diff = ask(script, &text(Question::Diff { old: "1".into(), new: "2".into(), limit: 50 })).unwrap();
    let share = |profile: &Profile, name: &str| {
        let flat =
            Flat::count_cells(profile, &profile.cells, Some(By::Function), Split::Merged, Order::Total);
        let row = flat.rows.iter().find(|row| row.label.unwrap().name(profile) == name).unwrap();
        row.total.cpu_ns() as f64 / profile.total().cpu_ns() as f64
    };
    assert!(diff.len() > 3, "{diff:?}");
    for row in &diff {
        let number = |at: usize| row[at].parse::<f64>().unwrap();
        assert!((number(1) - share(&old, &row[0])).abs() < 1e-9, "{row:?}");
        assert!((number(2) - share(&new, &row[0])).abs() < 1e-9, "{row:?}");
    }

    let flame = ask(script, &text(Question::Flame)).unwrap();
    let folded: String = flame.iter().map(|row| format!("{} {}\n", row[0], row[1])).collect();
    let total: u64 = flame.iter().map(|row| row[1].parse::<u64>().unwrap()).sum();
    assert_eq!(total, old.total().cpu_ns() + new.total().cpu_ns());
    assert!(folded.contains("[shop+0x100f];[shop+0x10ff];[shop+0x1234] "), "{folded}");
}
