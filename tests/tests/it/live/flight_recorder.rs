//! Recordings of Java Flight Recorder: the stacks and sums that the JDK's own reader prints.

use pct_tests::java::compiled_or_skip;
use pct_tests::pct::binary;
use pct_tests::{skip, tool_or_skip};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// What each stack is worth, outermost function first.
type Sums = BTreeMap<String, u64>;

fn by_the_jdk(jfr: &Path, file: &Path, event: &str, amount: Option<&str>) -> Sums {
    let printed = Command::new(jfr)
        .args(["print", "--json", "--stack-depth", "2048", "--events", event])
        .arg(file)
        .output()
        .expect("jfr runs");
    let printed: Value = serde_json::from_slice(&printed.stdout).expect("JSON");
    let mut sums = Sums::new();
    for event in printed["recording"]["events"].as_array().expect("events") {
        let values = &event["values"];
        let function = |frame: &Value| {
            let method = &frame["method"];
            let class = method["type"]["name"].as_str().unwrap_or_default();
            // Of hidden classes each run has others.
            let class =
                class.split("/0x").next().and_then(|class| class.split("+0x").next()).unwrap_or_default();
            format!("{}.{}", class.replace('/', "."), method["name"].as_str().unwrap_or_default())
        };
        let frames = values["stackTrace"]["frames"].as_array().map_or(&[][..], Vec::as_slice);
        let stack: Vec<String> = frames.iter().rev().map(function).collect();
        let amount = amount.map_or(Some(1), |amount| values[amount].as_u64()).expect("an amount");
        // Some threads of the machine's own allocate, and have no stack: compilers.
        let stack = if stack.is_empty() { "[no stack]".to_owned() } else { stack.join(";") };
        *sums.entry(stack).or_default() += amount;
    }
    sums
}

fn by_us(file: &Path, event: &str) -> Sums {
    let folded = Command::new(binary())
        .args(["export", "-f", "folded", "-o", "-", "--type", event])
        .arg(file)
        .output()
        .expect("pct runs");
    let mut sums = Sums::new();
    for line in String::from_utf8_lossy(&folded.stdout).lines() {
        let (stack, amount) = line.rsplit_once(' ').expect("a count");
        *sums.entry(stack.to_owned()).or_default() += amount.parse::<u64>().expect("a whole number");
    }
    sums
}

#[test]
fn stacks_and_sums_are_those_of_the_jdks_own_reader() {
    let test = "stacks_and_sums_are_those_of_the_jdks_own_reader";
    let Some(jfr) = tool_or_skip("jfr", test) else { return };
    let Some((java, classes)) = compiled_or_skip("Truth.java", test) else { return };
    let file = classes.path().join("truth.jfr");
    let options = format!("-XX:StartFlightRecording=filename={},settings=profile", file.display());
    let ran =
        Command::new(java).arg(options).arg("-cp").arg(classes.path()).args(["Truth", "3000", "2"]).output();
    if !ran.expect("Java runs").status.success() || !file.exists() {
        return skip(test, "this Java has no Flight Recorder");
    }
    for (event, amount) in [("jdk.ExecutionSample", None), ("jdk.ObjectAllocationSample", Some("weight"))] {
        let wanted = by_the_jdk(&jfr, &file, event, amount);
        assert!(!wanted.is_empty(), "{event}");
        assert_eq!(by_us(&file, event), wanted, "{event}");
    }
}
