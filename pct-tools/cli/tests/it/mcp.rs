//! A scripted client of `pct mcp`: does it find a planted hot spot, and who causes it, within three questions?

use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

/// Asks `pct mcp` and gives each answer to `next`, which says what to ask then.
fn converse(folder: &std::path::Path, mut next: impl FnMut(usize, &str) -> Option<(&'static str, Value)>) {
    let mut server = Command::new(env!("CARGO_BIN_EXE_pct"))
        .arg("mcp")
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut questions = server.stdin.take().expect("a pipe");
    let mut answers = BufReader::new(server.stdout.take().expect("a pipe"));
    let mut text = String::new();
    let mut asked = 0;
    while let Some((tool, arguments)) = next(asked, &text) {
        let params = json!({"name": tool, "arguments": arguments});
        let question = json!({"jsonrpc": "2.0", "id": asked, "method": "tools/call", "params": params});
        writeln!(questions, "{question}").expect("asked");
        let mut line = String::new();
        answers.read_line(&mut line).expect("answered");
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(answer["id"], asked);
        assert_eq!(answer["result"]["isError"], false, "{answer}");
        text = answer["result"]["content"][0]["text"].as_str().expect("text").to_owned();
        asked += 1;
    }
    drop(questions);
    assert!(server.wait().expect("ended").success());
}

#[test]
fn a_client_finds_the_planted_hot_spot_and_its_cause_in_three_questions() {
    let folder = tempfile::tempdir().expect("made");
    let mut before = String::new();
    for n in 0..200 {
        before += &format!("main;loop;stage_{};work_{n} {}\n", n % 7, 5 + n % 11);
    }
    let after = format!("{before}main;loop;stage_3;planted_cause;copy_row 900\n");
    std::fs::write(folder.path().join("before.folded"), before).expect("written");
    std::fs::write(folder.path().join("after.folded"), after).expect("written");

    converse(folder.path(), |asked, answer| match asked {
        0 => Some(("diff", json!({"before": "before.folded", "after": "after.folded", "lines": 5}))),
        1 => {
            let sure: Vec<&str> = answer.lines().filter(|line| line.contains("***")).collect();
            assert_eq!(sure.len(), 1, "{answer}");
            assert!(sure[0].contains("copy_row"), "{answer}");
            Some(("tree", json!({"path": "after.folded", "callers": "copy_row", "lines": 10})))
        }
        2 => {
            assert!(answer.contains("planted_cause") && answer.contains("stage_3"), "{answer}");
            Some(("overview", json!({"path": "after.folded", "lines": 20})))
        }
        _ => {
            assert!(answer.lines().count() <= 20, "{answer}");
            let first = answer.lines().find(|line| line.contains('%')).expect("a row");
            assert!(first.contains("copy_row"), "{answer}");
            None
        }
    });
}
