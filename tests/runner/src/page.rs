//! What happened, on a page for people and as JSON lines for programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::report::{Outcome, Test};

/// Lines of a failed test's output that stand on the page.
const LAST_LINES: usize = 10;

/// Tests that are named as the slowest.
const SLOWEST: usize = 10;

/// A step of `tests/run`: a build, the lints, the tests.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// Seconds that it took.
    pub seconds: u64,
    /// Whether it passed.
    pub passed: bool,
}

/// Steps of a file with lines `SECONDS<tab>EXIT STATUS<tab>NAME`; other lines are left out.
#[must_use]
pub fn steps(text: &str) -> Vec<Step> {
    let step = |line: &str| {
        let mut fields = line.splitn(3, '\t');
        let (seconds, status) = (fields.next()?.parse().ok()?, fields.next()?);
        Some(Step { seconds, passed: status == "0", name: fields.next()?.to_owned() })
    };
    text.lines().filter_map(step).collect()
}

/// All that is known of a run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// The tests, in the report's order.
    pub tests: Vec<Test>,
    /// The steps, in their order.
    pub steps: Vec<Step>,
    /// Why tests, or parts of tests, did not run; a line each.
    pub skipped: Vec<String>,
}

impl Run {
    /// Whether every step and every test passed, flaky ones included.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.steps.iter().all(|step| step.passed) && self.with(Outcome::Failed).next().is_none()
    }

    fn with(&self, outcome: Outcome) -> impl Iterator<Item = &Test> {
        self.tests.iter().filter(move |test| test.outcome == outcome)
    }

    /// The page that stands at the end of `tests/run`.
    #[must_use]
    pub fn page(&self) -> String {
        let mut page = String::new();
        // Writing to a String cannot fail.
        let _ = self.write_page(&mut page);
        page
    }

    fn write_page(&self, page: &mut String) -> std::fmt::Result {
        let total: u64 = self.steps.iter().map(|step| step.seconds).sum();
        writeln!(page, "--- seconds: {total}")?;
        for step in &self.steps {
            let failed = if step.passed { "" } else { "  FAILED" };
            writeln!(page, "{:>6}  {}{failed}", step.seconds, step.name)?;
        }
        if !self.skipped.is_empty() {
            writeln!(page, "--- skipped, in whole or in part: {}", self.skipped.len())?;
            self.skipped.iter().try_for_each(|line| writeln!(page, "{line}"))?;
        }
        let mut slowest: Vec<&Test> = self.tests.iter().collect();
        slowest.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        for test in slowest.iter().take(SLOWEST) {
            writeln!(page, "slow: {:>5.1} s {} {}", test.seconds, test.binary, test.name)?;
        }
        for test in self.with(Outcome::Flaky) {
            writeln!(page, "flaky: {} {} ({} of {})", test.binary, test.name, test.tries - 1, test.tries)?;
        }
        for test in self.with(Outcome::Failed) {
            writeln!(page, "FAILED: {} {} ({} tries)", test.binary, test.name, test.tries)?;
            for line in test.harm.iter().map(String::as_str).chain(last_lines(&test.output)) {
                writeln!(page, "    {line}")?;
            }
        }
        let [passed, flaky, failed] =
            [Outcome::Passed, Outcome::Flaky, Outcome::Failed].map(|outcome| self.with(outcome).count());
        if flaky > 0 {
            writeln!(
                page,
                "{flaky} of the passed tests failed at their first try: each is a defect to find"
            )?;
        }
        writeln!(page, "{} passed, {failed} failed", passed + flaky)
    }

    /// A JSON object a line: steps, skipped tests, tests.
    ///
    /// # Errors
    /// None that can happen with this data.
    pub fn json_lines(&self) -> serde_json::Result<String> {
        let mut lines = String::new();
        let mut line = |kind: &str, mut value: serde_json::Value| {
            value["kind"] = kind.into();
            lines.push_str(&value.to_string());
            lines.push('\n');
        };
        for step in &self.steps {
            line("step", serde_json::to_value(step)?);
        }
        for why in &self.skipped {
            line("skipped", serde_json::json!({ "why": why }));
        }
        for test in &self.tests {
            line("test", serde_json::to_value(test)?);
        }
        Ok(lines)
    }
}

/// The last lines of what a test printed. A backtrace is left out: it would push aside what the test said.
fn last_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut in_backtrace = false;
    let said = text.lines().filter(|line| {
        let line = line.trim();
        in_backtrace = line == "stack backtrace:" || in_backtrace && !line.starts_with("note: ");
        !in_backtrace && !line.starts_with("note: Some details are omitted")
    });
    let lines: Vec<&str> = said.collect();
    let from = lines.len().saturating_sub(LAST_LINES);
    lines.into_iter().skip(from)
}

/// What a soak found: how often each test failed in how many runs, the worst first, and what its last failure printed.
#[must_use]
pub fn soak(runs: &[Vec<Test>]) -> String {
    let mut failures: BTreeMap<(&str, &str), (usize, &str)> = BTreeMap::new();
    for test in runs.iter().flatten().filter(|test| test.outcome != Outcome::Passed) {
        let entry = failures.entry((&test.binary, &test.name)).or_default();
        *entry = (entry.0 + 1, &test.output);
    }
    let mut failures: Vec<_> = failures.into_iter().collect();
    failures.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
    let mut page = String::new();
    for ((binary, name), (count, output)) in &failures {
        let _ = writeln!(page, "{count} of {} failed: {binary} {name}", runs.len());
        for line in last_lines(output) {
            let _ = writeln!(page, "    {line}");
        }
    }
    let tests = runs.iter().map(Vec::len).max().unwrap_or(0);
    let _ = writeln!(
        page,
        "soak: {tests} tests, {} runs, {} of them failed at least once",
        runs.len(),
        failures.len()
    );
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(name: &str, outcome: Outcome, output: &str) -> Test {
        let (binary, output) = ("crate::it".to_owned(), output.to_owned());
        Test { binary, name: name.to_owned(), outcome, tries: 2, seconds: 0.5, harm: Vec::new(), output }
    }

    #[test]
    fn a_backtrace_does_not_hide_what_was_said() {
        let frames: String = (0..30).map(|n| format!("  {n}: frame\n    at file\n")).collect();
        let text =
            format!("why it failed\nstack backtrace:\n{frames}note: Some details are omitted\nafterwards\n");
        assert_eq!(last_lines(&text).collect::<Vec<_>>(), ["why it failed", "afterwards"]);
    }

    #[test]
    fn the_page_names_what_failed_and_what_was_flaky() {
        let tests = vec![
            test("good", Outcome::Passed, ""),
            test("live::shaky", Outcome::Flaky, "once"),
            test("bad", Outcome::Failed, &(0..30).map(|n| format!("line {n}\n")).collect::<String>()),
        ];
        let steps = steps("12\t0\tbuild\n3\t1\ttests\nnonsense\n");
        let run = Run { tests, steps, skipped: vec!["skipped: a: no browser".to_owned()] };
        let page = run.page();
        assert!(!run.passed());
        for line in [
            "--- seconds: 15",
            "     3  tests  FAILED",
            "skipped: a: no browser",
            "flaky: crate::it live::shaky (1 of 2)",
            "FAILED: crate::it bad (2 tries)\n    line 20\n",
            "\n2 passed, 1 failed\n",
        ] {
            assert!(page.contains(line), "{line:?} is not in\n{page}");
        }
        let lines = run.json_lines().expect("JSON");
        let kinds: Vec<String> = lines
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["kind"].to_string())
            .collect();
        assert_eq!(kinds.len(), 6);
        assert!(lines.contains(r#""outcome":"flaky""#), "{lines}");
    }

    #[test]
    fn a_run_of_passed_and_flaky_tests_has_passed() {
        let run = Run { tests: vec![test("live::shaky", Outcome::Flaky, "")], ..Run::default() };
        assert!(run.passed() && run.page().ends_with("1 passed, 0 failed\n"));
        let run = Run { steps: steps("1\t101\tlints"), ..Run::default() };
        assert!(!run.passed());
    }

    #[test]
    fn a_soak_counts_failures_by_test() {
        let bad = || test("live::bad", Outcome::Failed, "why");
        let runs = [vec![bad(), test("good", Outcome::Passed, "")], vec![bad()], vec![]];
        let page = soak(&runs);
        assert!(page.starts_with("2 of 3 failed: crate::it live::bad\n    why\n"), "{page}");
        assert!(page.ends_with("soak: 2 tests, 3 runs, 1 of them failed at least once\n"), "{page}");
    }
}
