//! The first row of the table that a run ends with: the function of the program's own language that took most, by the
//! program's own clock, whatever libraries and runtimes worked for it.

use pct_tests::java::compiled_or_skip;
use pct_tests::pct::{Run, binary, run};
use pct_tests::victims::{go_victim, victim};
use pct_tests::{root, tool_or_skip};
use serde_json::Value;
use std::process::Command;

/// The function that took most CPU time, as the program says.
fn truth(r: &Run) -> String {
    let said = r.unharmed();
    let lines = said.lines().filter_map(|line| line.strip_prefix("truth "));
    let counted = lines.filter_map(|line| {
        let (name, seconds) = line.rsplit_once(' ')?;
        Some((seconds.parse::<f64>().ok()?, name.to_owned()))
    });
    let most = counted.max_by(|(a, _), (b, _)| a.total_cmp(b));
    most.expect("the program says what it spent").1
}

/// Runs it and checks the first row, in the closing table and in JSON.
fn first_row_is_true(command: &[&str], language: &str) {
    let r = run(&[], command);
    let most = truth(&r);
    let table = r.stderr();
    let mut lines = table.lines().skip_while(|line| !line.starts_with("   self "));
    let head = lines.next().unwrap_or_else(|| panic!("{command:?}: no table: {table}"));
    let column = head.find("function").expect("a column of functions");
    let first = lines.next().and_then(|row| row.get(column..)).unwrap_or_default();
    assert!(first.starts_with(&format!("{most} ")), "{command:?}: most was in {most}: {table}");
    let report =
        Command::new(binary()).args(["report", "--by", "owner", "--format", "json"]).arg(&r.dir).output();
    let report: Value = serde_json::from_slice(&report.expect("a report").stdout).expect("JSON");
    let row = &report["rows"][0];
    assert_eq!(
        (&row["function"], &row["language"]),
        (&most.as_str().into(), &language.into()),
        "{command:?}"
    );
    let of_row = row["cpu_seconds"].as_f64().expect("a number");
    let callees = row["callees"].as_array().expect("what it called");
    let called: f64 = callees.iter().filter_map(|callee| callee["cpu_seconds"].as_f64()).sum();
    assert!(called <= of_row * 1.000_001, "{command:?}: {called} of {of_row}");
    let page = Command::new(binary()).args(["view", "--json", "owners"]).arg(&r.dir).output();
    let page: Value = serde_json::from_slice(&page.expect("a page").stdout).expect("JSON");
    let of_page = &page["report"]["owners"]["Ok"]["rows"][0];
    assert_eq!(of_page["name"], most.as_str(), "{command:?}: the page: {of_page}");
}

fn source(name: &str) -> String {
    root().join("tests/victims/owners").join(name).display().to_string()
}

#[test]
fn python_programs_are_answered_in_python_functions() {
    let Some(python) = tool_or_skip("python3", "python_programs_are_answered_in_python_functions") else {
        return;
    };
    for name in ["pack.py", "crunch.py", "keys.py"] {
        first_row_is_true(&[python.to_str().expect("a path"), &source(name)], "Python");
    }
}

#[test]
fn native_programs_are_answered_in_their_own_functions() {
    for name in ["owners/copies.c", "owners/words.cpp", "owners/throws.cpp", "owners/counts.rs"] {
        first_row_is_true(&[victim(name).to_str().expect("a path")], "native");
    }
}

#[test]
fn programs_in_go_are_answered_in_their_own_functions() {
    let Some(go) = tool_or_skip("go", "programs_in_go_are_answered_in_their_own_functions") else { return };
    let program = go_victim(&go, "owners/encode.go", &[], "encode").expect("it builds");
    first_row_is_true(&[program.to_str().expect("a path")], "native");
}

#[test]
fn java_programs_are_answered_in_java_methods() {
    let test = "java_programs_are_answered_in_java_methods";
    let Some((java, classes)) = compiled_or_skip("owners/Tables.java", test) else { return };
    let classes = classes.path().to_str().expect("a path");
    first_row_is_true(&[java.to_str().expect("a path"), "-cp", classes, "Tables"], "Java");
}

#[test]
fn javascript_programs_are_answered_in_javascript_functions() {
    let test = "javascript_programs_are_answered_in_javascript_functions";
    let Some(node) = tool_or_skip("node", test) else { return };
    first_row_is_true(&[node.to_str().expect("a path"), &source("texts.js")], "JavaScript");
}
