//! JavaScript functions in the stacks of programs that node runs.

use pct_kit::harm::harm;
use pct_tests::pct::{Run, folded, run};
use pct_tests::victims::victim;
use pct_tests::{root, tool_or_skip};
use std::path::Path;
use std::process::Command;

/// The options of samples by the library in the program, and of samples from outside.
const FROM_WITHIN: &[&str] = &["--hz", "997"];
const FROM_OUTSIDE: &[&str] = &["--clock", "wall", "--hz", "400"];

/// `pct run` of node with these words, which prints `done`.
fn unharmed(node: &Path, options: &[&str], words: &[&str]) -> Run {
    let mut command = vec![node.to_str().expect("a path")];
    command.extend(words);
    let r = run(options, &command);
    if r.unharmed() != "done\n" {
        harm(&format!("{words:?}: {}{}", r.stdout(), r.stderr()));
    }
    r
}

/// The words that keep this node from putting functions into others: such a function has no frame.
fn apart(node: &Path) -> Vec<&'static str> {
    let known = Command::new(node).arg("--v8-options").output().expect("node runs").stdout;
    let known = String::from_utf8_lossy(&known).into_owned();
    let words = ["turbo-inlining", "maglev-inlining"]
        .into_iter()
        .zip(["--no-turbo-inlining", "--no-maglev-inlining"]);
    words.filter(|(name, _)| known.contains(&format!("--{name} "))).map(|(_, word)| word).collect()
}

/// The frames of each stack, outermost first, and its weight.
fn stacks(folded: &str) -> impl Iterator<Item = (Vec<&str>, f64)> {
    folded.lines().filter_map(|line| {
        let (stack, weight) = line.rsplit_once(' ')?;
        Some((stack.split(';').collect(), weight.parse().ok()?))
    })
}

/// What makes a chain of calls impossible in `truth.js`.
fn impossible(frames: &[&str]) -> Option<String> {
    const CALLERS: [&str; 11] = [
        "recursion",
        "sorting",
        "mapping",
        "throwing",
        "parsing",
        "matching",
        "generating",
        "allocating",
        "closing",
        "filling",
        "evaluated",
    ];
    frames.iter().enumerate().find_map(|(at, frame)| {
        let (caller, _) = frame.split_once('_')?;
        let known = CALLERS.contains(&caller);
        let is_called = frames.get(..at).is_some_and(|callers| callers.contains(&caller));
        (known && !is_called).then(|| format!("{frame} without {caller}"))
    })
}

/// In the thread that node begins in and in one that the program makes: by V8's interpreter, by what its compilers
/// make, through functions of V8's own that call functions back, across waits.
#[test]
fn functions_have_their_shares_and_their_callers() {
    let Some(node) = tool_or_skip("node", "functions_have_their_shares_and_their_callers") else { return };
    let source = root().join("tests/victims/truth.js");
    let source = source.to_str().expect("a path");
    for manner in [apart(&node), vec!["--jitless"], vec!["--always-sparkplug"]] {
        let r = unharmed(&node, FROM_WITHIN, &[&manner[..], &[source, "1500", "1"]].concat());
        have_their_shares(&r, &manner);
    }
}

/// The same functions, read from outside of the program.
#[test]
fn functions_have_their_shares_and_their_callers_from_outside() {
    let test = "functions_have_their_shares_and_their_callers_from_outside";
    let Some(node) = tool_or_skip("node", test) else { return };
    let source = root().join("tests/victims/truth.js");
    let source = source.to_str().expect("a path");
    for manner in [apart(&node), vec!["--jitless"]] {
        let r = unharmed(&node, FROM_OUTSIDE, &[&manner[..], &[source, "1500", "1"]].concat());
        have_their_shares(&r, &manner);
    }
}

/// The four functions of `truth.js` have 1, 2, 4 and 8 parts of their time, whole stacks, and callers that call them.
fn have_their_shares(r: &Run, manner: &[&str]) {
    let folded = folded(&r.dir);
    let (mut all, mut cut) = (0.0, 0.0);
    for (frames, weight) in stacks(&folded) {
        // (Outermost: the rest of the stack may have been in `round`.)
        cut += if frames[0].starts_with("<truncated") { weight } else { 0.0 };
        if frames.contains(&"round") {
            all += weight;
            // (What the optimizing compiler put into another function has no frame.)
            let why = if manner == ["--always-sparkplug"] { None } else { impossible(&frames) };
            assert_eq!(why, None, "{manner:?}: {}", frames.join(";"));
        }
    }
    assert!(all > 100.0 && cut < 0.02 * all, "{manner:?}: {cut} cut beside {all}: {}", r.stderr());
    if manner == ["--always-sparkplug"] {
        return;
    }
    let part = |name: &str| {
        stacks(&folded).filter(|(frames, _)| frames.contains(&name)).map(|(_, weight)| weight).sum::<f64>()
    };
    let parts = ["f1", "f2", "f4", "f8"].map(part);
    let sum: f64 = parts.iter().sum();
    for (part, due) in parts.iter().zip([1.0, 2.0, 4.0, 8.0]) {
        let due = due / 15.0;
        let spread = 5.0 * (due * (1.0 - due) / sum).sqrt();
        assert!((part / sum - due).abs() < spread, "{manner:?}: {parts:?}: {}", r.stderr());
    }
}

/// Threads that wait in the midst of functions have these on their stacks. Nobody stops them for it.
#[test]
fn threads_that_wait_do_so_in_their_functions() {
    let Some(node) = tool_or_skip("node", "threads_that_wait_do_so_in_their_functions") else { return };
    let source = root().join("tests/victims/waits.js");
    let r = unharmed(&node, FROM_OUTSIDE, &[source.to_str().expect("a path"), "1500"]);
    let folded = folded(&r.dir);
    for (function, callee) in [("sleeps", "v8::internal::Builtin_AtomicsWait"), ("runs", "execFileSync")] {
        let is_there = |frames: &[&str]| {
            frames.windows(2).any(|pair| pair[0] == function && pair[1].starts_with(callee))
                && frames.contains(&"(top level)")
        };
        let through = stacks(&folded).filter(|(frames, _)| is_there(frames));
        let weight: f64 = through.map(|(_, weight)| weight).sum();
        // 600 ticks of the 1.5 s.
        assert!(weight > 300.0, "{function}: {weight}: {folded}");
    }
}

/// Functions of a module, of text that is evaluated, and such without a name, with the line where each begins.
#[test]
fn functions_have_names_files_and_lines() {
    let Some(node) = tool_or_skip("node", "functions_have_names_files_and_lines") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("naïve.mjs");
    let text = "// → a text of wide characters
export class Grüße { static hallo(n) { return busy(n); } }
function busy(n) {
    let x = 1; const end = process.cpuUsage().user + n * 1000;
    while (process.cpuUsage().user < end) for (let i = 0; i < 1e5; i++) x = (x * 31 + i) % 65521;
    return x; }
const calls = (f, n) => f(n);
calls((n) => { return busy(n); }, 150);
Grüße.hallo(150);
new Function('busy', 'n', '\\n\\nreturn busy(n)')(busy, 150);
console.log('done');
";
    std::fs::write(&script, text).expect("a file");
    let r = unharmed(&node, FROM_WITHIN, &[script.to_str().expect("a path")]);
    let folded = folded(&r.dir);
    for caller in ["hallo", "(anonymous:8)", "(anonymous:1)"] {
        let through = stacks(&folded).filter(|(frames, _)| {
            frames.windows(2).any(|pair| pair == [caller, "busy"]) && frames.contains(&"(top level)")
        });
        let weight: f64 = through.map(|(_, weight)| weight).sum();
        assert!(weight > 50.0, "{caller}: {weight}: {folded}");
    }
    let table = r.stderr();
    assert!(table.contains("/naïve.mjs:3"), "{table}");
    assert!(!table.contains("no names for code made at run time"), "{table}");
}

#[test]
fn where_they_are_switched_off_the_code_has_no_name() {
    let Some(node) = tool_or_skip("node", "where_they_are_switched_off_the_code_has_no_name") else { return };
    let source = root().join("tests/victims/truth.js");
    let words = [source.to_str().expect("a path"), "500", "0"];
    let r = unharmed(&node, &["--javascript", "off"], &words);
    assert!(!folded(&r.dir).contains("spin"), "{}", folded(&r.dir));
    assert!(r.stderr().contains("note: no names for code made at run time: "), "{}", r.stderr());
}

/// A V8 with compressed pointers publishes the same, and means another thing.
#[test]
fn a_v8_that_is_not_as_known_is_said_to_be_that() {
    let program = victim("oddv8.c");
    let r = run(&["--hz", "997"], &[program.to_str().expect("a path"), "200"]);
    if r.unharmed() != "done\n" {
        harm(&format!("{}{}", r.stdout(), r.stderr()));
    }
    let told = "oddv8: JavaScript functions are not shown: its layout is not that of its version: a debug build, or \
                another implementation (SmiShiftSize)";
    assert!(r.stderr().contains(told), "{}", r.stderr());
}
