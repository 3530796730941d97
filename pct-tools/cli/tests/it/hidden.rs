//! Names that steer terminals or turn text around are shown by one rule in whatever a command prints or writes.

use crate::support::pct;
use pct_format::builder::Builder;
use pct_format::layout::Text;
use pct_format::layout::header;
use pct_format::record::{CodeFrame, Frame};

/// Clears the screen, turns text around, and goes on in a line of its own.
const EVIL: &str = "evil\u{1b}[2J\u{202e}\nINJECTED\u{9b}31m";
const MS: u64 = 1_000_000;

/// A recording of a Python program in which whatever has a name has this one.
fn recording() -> Vec<u8> {
    let mut b = Builder::new();
    let path = format!("/nonexistent/{EVIL}");
    b.argv(&[EVIL.as_bytes(), b"x"]).text(Text::Exe, path.as_bytes()).set_header_word(header::STACK_MODE, 4);
    b.region(1, 1, 0x40_0000..0x40_8000, 0, 11, b"\x12\x34", path.as_bytes());
    b.code(1, 4, EVIL, &format!("{EVIL}.py"), 1, &[]);
    let thread = b.thread(1, 1000, EVIL.as_bytes());
    let frame = Frame::Code(CodeFrame::new(1, Some(0)).expect("a code"));
    let stack = b.stack(&[frame, Frame::Return(0x40_1210)]);
    for n in 0..50 {
        b.sample(thread, (n + 1) * MS, 0x40_3000, 1, n % 9 == 0, stack);
    }
    b.finish()
}

/// Whether the name is there; panics if it is there as it is.
fn names_evil(what: &str, octets: &[u8]) -> bool {
    let text = String::from_utf8_lossy(octets);
    let hidden = text.find(|c| pct_text::is_hidden(c) && !matches!(c, '\n' | '\t'));
    let near = hidden.map(|at| text[..at].chars().rev().take(60).collect::<String>());
    assert_eq!(hidden, None, "{what}: behind (read backwards) {near:?}");
    assert!(!text.lines().any(|line| line.starts_with("INJECTED")), "{what}: {text}");
    text.contains("evil")
}

#[test]
fn no_output_has_a_hidden_character_of_a_name() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = format!("{EVIL}-1000.pct");
    std::fs::write(dir.path().join(&file), recording()).expect("written");
    let (file, missing) = (file.as_str(), format!("no {EVIL}"));
    let commands: &[&[&str]] = &[
        &["report", file],
        &["report", "--tree", file],
        &["report", "--bottom-up", file],
        &["report", "--by", "object", file],
        &["report", "--by", "thread", file],
        &["report", "--by", "process", file],
        &["report", "--by", "line", file],
        &["report", "--by", "module", file],
        &["report", "--by", "command", file],
        &["report", "--format", "csv", file],
        &["report", "--format", "json", file],
        &["report", "--tree", "--format", "csv", file],
        &["report", "--tree", "--format", "json", file],
        &["report", "--callers", "evil", file],
        &["diff", file, file],
        &["diff", "--format", "csv", file, file],
        &["diff", "--format", "json", file, file],
        &["annotate", "evil", file],
        &["print", file],
        &["print", "--by", "function", file],
        &["log", file],
        &["ls", file],
        &["ls", "--format", "csv", file],
        &["ls", "--format", "json", file],
        &["export", "--format", "folded", "-o", "-", file],
        &["export", "--format", "speedscope", "-o", "-", file],
        &["export", "--format", "chrome", "-o", "-", file],
        &["export", "--format", "firefox", "-o", "-", file],
        &["export", "--format", "callgrind", "-o", "-", file],
        &["flame", "-o", "-", file],
        &["view", "--text", "menu", file],
        &["view", "--text", "top_procs/1-9/time/both/oa", file],
        &["view", "--json", "menu", file],
        // What cannot be done is told with the name.
        &["report", &missing],
        &["flame", &missing],
        &["log", &missing],
        &["heap", file],
        &["run", "--", &missing],
    ];
    let mut silent = Vec::new();
    for words in commands {
        let out = pct(dir.path(), words);
        let [shown, told] =
            [&out.stdout, &out.stderr].map(|octets| names_evil(&format!("{words:?}"), octets));
        if !shown && !told {
            silent.push(*words);
        }
    }
    assert!(silent.len() < 4, "the name is in what is looked at; it is not in {silent:?}");
    // Files that pages and pictures are written to.
    let written: &[(&[&str], &str)] =
        &[(&["flame", "-o", "f.svg", file], "f.svg"), (&["report", "--html", "r.html", file], "r.html")];
    for (words, name) in written {
        let out = pct(dir.path(), words);
        assert!(out.status.success(), "{words:?}: {out:?}");
        let octets = std::fs::read(dir.path().join(name)).expect("written");
        assert!(names_evil(name, &octets), "{name} has the name");
    }
    // Programs get the name as it is.
    let json = pct(dir.path(), &["report", "--format", "json", "--by", "thread", file]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    assert!(json.to_string().contains("evil\\u001b[2J\u{202e}"), "{json}");
}
