//! The runner's report of one run (`junit.xml` of cargo-nextest), as plain data.
//!
//! A test that failed and was tried again has an element for each failed try (`flakyFailure` when a later try passed,
//! `rerunFailure` when none did), with what that try printed.

use std::path::Path;

use anyhow::{Context as _, Result};
use pct_kit::harm::{HARM, LEFT_BEHIND};
use roxmltree::{Document, Node};

/// How a test ended, after all its tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// At the first try.
    Passed,
    /// At a later try.
    Flaky,
    /// At no try, or a guest was harmed in one of them.
    Failed,
}

/// A test that ran.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Test {
    /// The test program: `CRATE` or `CRATE::PROGRAM`.
    pub binary: String,
    /// The test's name with its modules.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
    /// How often it was started.
    pub tries: usize,
    /// Seconds that its last try took.
    pub seconds: f64,
    /// Lines of any try that tell of a harmed guest or of a process that was left behind.
    pub harm: Vec<String>,
    /// What the tries printed that failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub output: String,
}

/// Reads the report at `path`.
///
/// # Errors
/// When it cannot be read or is not such a report.
pub fn read(path: &Path) -> Result<Vec<Test>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    parse(&text).with_context(|| path.display().to_string())
}

fn parse(text: &str) -> Result<Vec<Test>> {
    let document = Document::parse(text)?;
    let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
    cases.map(test).collect()
}

fn test(case: Node<'_, '_>) -> Result<Test> {
    let attribute = |name| case.attribute(name).with_context(|| format!("a testcase without {name}"));
    let count =
        |names: &[&str]| case.children().filter(|node| names.contains(&node.tag_name().name())).count();
    let failed = count(&["failure", "error"]) > 0;
    let again = count(&["flakyFailure", "flakyError", "rerunFailure", "rerunError"]);
    let output = if failed || again > 0 { printed(case) } else { String::new() };
    let harm: Vec<String> = output
        .lines()
        .filter(|line| line.contains(HARM) || line.contains(LEFT_BEHIND))
        .map(|line| line.trim().to_owned())
        .collect();
    let outcome = match (failed || !harm.is_empty(), again) {
        (true, _) => Outcome::Failed,
        (false, 0) => Outcome::Passed,
        (false, _) => Outcome::Flaky,
    };
    Ok(Test {
        binary: attribute("classname")?.to_owned(),
        name: attribute("name")?.to_owned(),
        outcome,
        tries: again + 1,
        seconds: attribute("time")?.parse().context("the time of a testcase")?,
        harm,
        output,
    })
}

/// All that the tries of a test printed, in the order of the report.
fn printed(case: Node<'_, '_>) -> String {
    let mut printed = String::new();
    for node in case.descendants().filter(|node| node.is_text()) {
        let text = node.text().unwrap_or_default().trim();
        if !text.is_empty() {
            printed.push_str(text);
            printed.push('\n');
        }
    }
    printed
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="4" failures="1" errors="0" time="1.5">
  <testsuite name="pct-tests::it" tests="4" failures="1">
    <testcase name="exact" classname="pct-tests::it" time="0.004"></testcase>
    <testcase name="live::second_try" classname="pct-tests::it" time="0.1">
      <flakyFailure time="0.2" message="panicked" type="test failure with exit code 101">late
        <system-out>one</system-out><system-err>two</system-err></flakyFailure>
    </testcase>
    <testcase name="live::harmed" classname="pct-tests::it" time="0.1">
      <flakyFailure message="panicked" type="x"><system-err>thread panicked
HARM: the guest died</system-err></flakyFailure>
    </testcase>
    <testcase name="live::never" classname="pct-tests::it" time="0.1">
      <failure message="x" type="y">last</failure>
      <rerunFailure message="x" type="y">first</rerunFailure>
      <rerunFailure message="x" type="y">second</rerunFailure>
    </testcase>
  </testsuite>
</testsuites>"#;

    #[test]
    fn tries_are_counted_and_harm_in_one_of_them_is_a_failure() {
        let tests = parse(REPORT).expect("a report");
        let outcomes: Vec<_> = tests.iter().map(|test| (test.outcome, test.tries)).collect();
        assert_eq!(
            outcomes,
            [(Outcome::Passed, 1), (Outcome::Flaky, 2), (Outcome::Failed, 2), (Outcome::Failed, 3)]
        );
        assert_eq!(tests[2].harm, ["HARM: the guest died"]);
        assert_eq!(tests[1].output, "late\none\ntwo\n");
    }

    #[test]
    fn what_is_no_report_is_an_error() {
        assert!(parse("<testsuites><testcase name='a'/></testsuites>").is_err());
        assert!(parse("nothing").is_err());
    }
}
