//! Engines that exist answer the printed SQL text as `pct report` answers, to the nanosecond.
//!
//! Each runs by its module of PyPI (`duckdb`, `chdb`, `datafusion`, `pyspark`), with the Python that
//! `PCT_ENGINES_PYTHON` names or else `python3`. Where the module is missing, the test says so and is skipped.

use crate::common::Scene;
use pct_fleet::questions::{Engine, Question, Which, sql};
use pct_profile::flat::Order;
use pct_profile::load::{Options, load};
use pct_profile::{By, Flat, Profile, Split};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Statements come in on stdin, one JSON text; rows go out, one JSON list for each statement.
const ASK: &str = r#"
import json, sys
engine, statements = sys.argv[1], [text.strip().rstrip(";") for text in json.load(sys.stdin)]
if engine == "duckdb":
    import duckdb
    ask = lambda text: duckdb.connect().execute(text).fetchall()
elif engine == "clickhouse":
    import chdb
    ask = lambda text: json.loads(str(chdb.query(text, "JSONCompact")))["data"]
elif engine == "datafusion":
    import datafusion
    context = datafusion.SessionContext().enable_url_table()
    ask = lambda text: [list(row.values()) for row in context.sql(text).to_pylist()]
else:
    from pyspark.sql import SparkSession
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", "spark.sql.session.timeZone": "UTC"}
    builder = SparkSession.builder.master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    ask = lambda text: [list(row) for row in session.sql(text).collect()]
for statement in statements:
    print(json.dumps([list(row) for row in ask(statement)], default=str))
"#;

fn python_with(module: &str) -> Option<PathBuf> {
    let python = std::env::var_os("PCT_ENGINES_PYTHON").map_or_else(|| "python3".into(), PathBuf::from);
    let has = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    if has.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    pct_kit::skip(&format!("no module {module} for Python (pip install {module})"));
    None
}

/// The rows of each statement.
fn ask(python: &PathBuf, engine: &str, statements: &[String]) -> Vec<Vec<Vec<Value>>> {
    let mut child = Command::new(python)
        .args(["-c", ASK, engine])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(serde_json::to_string(statements).unwrap().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{engine}: {said}");
    let text = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<_> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), statements.len(), "{engine}: {said}");
    answers
}

fn report(paths: &[PathBuf]) -> Profile {
    load(paths, &Options::default()).unwrap()
}

/// Own and inclusive nanoseconds by function.
fn figures(profile: &Profile) -> BTreeMap<String, (u64, u64)> {
    let flat = Flat::count_cells(profile, &profile.cells, Some(By::Function), Split::Merged, Order::Total);
    let rows = flat.rows.iter();
    rows.map(|row| (row.label.unwrap().name(profile), (row.own.cpu_ns(), row.total.cpu_ns()))).collect()
}

/// CPU seconds, as an engine divided them, as whole nanoseconds.
fn ns(seconds: &Value) -> u64 {
    let ns = seconds.as_f64().unwrap() * 1e9;
    assert!((ns - ns.round()).abs() < 1e-3, "{ns}");
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some seconds")]
    let whole = ns.round() as u64;
    whole
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn answers_as_pct_report(engine: Engine, word: &str, module: &str) {
    let Some(python) = python_with(module) else { return };
    let scene = Scene::new();
    for number in 0..6 {
        scene.recording("shop", number, 1 + number / 3);
    }
    scene.ship();
    let paths: Vec<PathBuf> = (0..6).map(|number| scene.path(number)).collect();
    let root = scene.root.to_str().unwrap();
    let shop = Which { service: Some("shop".into()), ..Which::default() };
    let (from, to) = (i64::try_from(crate::common::BEGIN_NS / 1000).unwrap(), i64::MAX / 2);
    let timed = Which { from: Some(from), to: Some(to), host: Some("host-a".into()), ..shop.clone() };
    let limit = 1000;
    let diff = Question::Diff { old: "1.1".into(), new: "1.2".into(), limit };
    let statements = [
        sql(engine, root, &shop, &Question::Top { by: Vec::new(), limit }),
        sql(engine, root, &timed, &Question::Top { by: vec!["version".into(), "host".into()], limit }),
        sql(engine, root, &shop, &diff),
        sql(engine, root, &shop, &Question::Flame),
    ];
    let answers = ask(&python, word, &statements);
    let all = figures(&report(&paths));
    let own = |figures: &BTreeMap<String, (u64, u64)>| -> BTreeMap<String, u64> {
        figures.iter().filter(|(_, (own, _))| *own > 0).map(|(name, (own, _))| (name.clone(), *own)).collect()
    };
    // Functions by their own time.
    let top: BTreeMap<String, u64> = answers[0].iter().map(|row| (text(&row[0]), ns(&row[1]))).collect();
    assert_eq!(top, own(&all), "{word}");
    // The same of each version.
    let versions = [("1.1", &paths[..3]), ("1.2", &paths[3..])];
    for (version, paths) in versions {
        let rows = answers[1].iter().filter(|row| text(&row[0]) == version);
        let top: BTreeMap<String, u64> = rows.map(|row| (text(&row[2]), ns(&row[3]))).collect();
        assert_eq!(top, own(&figures(&report(paths))), "{word}, version {version}");
    }
    // Shares of each version's time, with all that functions call.
    let shares = versions.map(|(_, paths)| {
        let profile = report(paths);
        let whole = profile.total().cpu_ns();
        (figures(&profile), whole)
    });
    assert_eq!(answers[2].len(), all.len(), "{word}: {:?}", answers[2]);
    for row in &answers[2] {
        for (at, (figures, whole)) in shares.iter().enumerate() {
            let total = figures.get(&text(&row[0])).map_or(0, |(_, total)| *total);
            #[expect(clippy::cast_precision_loss, reason = "a share")]
            let expected = total as f64 / *whole as f64;
            let found = row[1 + at].as_f64().unwrap();
            assert!((found - expected).abs() < 1e-9, "{word}: {row:?}, expected {expected}");
        }
    }
    // Whole stacks: what they sum up to by their innermost function is its own time.
    let mut leaves: BTreeMap<String, u64> = BTreeMap::new();
    for row in &answers[3] {
        let stack = text(&row[0]);
        let leaf = stack.rsplit(';').next().unwrap().to_owned();
        // ClickHouse writes 64-bit numbers as text in JSON.
        let ns = row[1].as_u64().or_else(|| row[1].as_str()?.parse().ok()).unwrap();
        *leaves.entry(leaf).or_default() += ns;
    }
    assert_eq!(leaves, own(&all), "{word}");
}

#[test]
fn duckdb_answers_as_pct_report() {
    answers_as_pct_report(Engine::Duckdb, "duckdb", "duckdb");
}

#[test]
fn clickhouse_answers_as_pct_report() {
    answers_as_pct_report(Engine::Clickhouse, "clickhouse", "chdb");
}

#[test]
fn datafusion_answers_as_pct_report() {
    answers_as_pct_report(Engine::Datafusion, "datafusion", "datafusion");
}

#[test]
fn spark_answers_as_pct_report() {
    answers_as_pct_report(Engine::Spark, "spark", "pyspark");
}
