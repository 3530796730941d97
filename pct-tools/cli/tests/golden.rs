//! What commands print, held against files that are named after the command line.
//!
//! `golden/report_--by_thread_demo.pct.txt` holds what `pct report --by thread demo.pct` says: stdout, then stderr
//! behind `--- stderr`, then the status. A new file in the folder is a new test; `PCT_BLESS=1 cargo test -p pct
//! --test golden` writes what is said now. The files that commands read are made here, in a folder of their own.

use pct_format::LossCause;
use pct_format::builder::Builder;
use pct_format::layout::Text;
use pct_format::record::{CutCause, Frame};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PCT: &str = env!("CARGO_BIN_EXE_pct");
const MS: u64 = 1_000_000;

/// Two threads, a library that comes and goes, system time, a cut stack, a loss.
fn demo(factor: u64) -> Vec<u8> {
    let mut b = Builder::new();
    b.argv(&[b"./demo", b"--fast"]).text(Text::Exe, b"/nonexistent/demo");
    b.word(pct_format::layout::header::STACK_MODE, 4);
    b.region(1, 1, 0x40_0000..0x40_8000, 0, 11, b"\x12\x34\x56\x78", b"/nonexistent/demo");
    b.region(2, 1, 0x7f00_0000_0000..0x7f00_0001_0000, 0x1000, 12, b"", b"/nonexistent/libx.so");
    let first = b.thread(1, 1000, b"demo");
    let second = b.thread(5, 1001, b"worker");
    let main = b.stack(&[Frame::Return(0x40_1100), Frame::Return(0x40_1010)]);
    let cut = b.stack(&[Frame::Return(0x40_2100), Frame::Cut(CutCause::Depth)]);
    for n in 0..60 * factor {
        b.sample(first, (n + 1) * MS, 0x40_1234, 1, false, main);
    }
    for n in 60..90 {
        b.sample(first, (n + 1) * MS, 0x7f00_0000_0123, 1, false, main);
    }
    b.sample(first, 95 * MS, 0x7f00_0000_0200, 5, true, main);
    for n in 0..20 {
        b.sample(second, (n + 1) * MS, 0x40_2200, 1, false, cut);
    }
    b.sample(second, 30 * MS, 0x1, 1, false, 0);
    b.loss(LossCause::Blocked, 7, 7);
    b.word(pct_format::layout::header::USER_NS, 110 * MS);
    b.word(pct_format::layout::header::SYSTEM_NS, 6 * MS);
    b.finish()
}

fn fixtures(dir: &Path) {
    let write = |name: &str, bytes: &[u8]| std::fs::write(dir.join(name), bytes).expect("written");
    write("demo.pct", &demo(1));
    write("slower.pct", &demo(3));
    write("cut.pct", &demo(1)[..100]);
    write("empty.pct", b"");
    write("text.pct", b"this is not a profile, although it is long enough to be taken for one by its size\n");
    write("none.pct", &Builder::new().finish());
    let words: Vec<u8> = [4_u64, 5, 0, 2, 3].iter().flat_map(|word| word.to_le_bytes()).collect();
    write("words.log", &words);
    let run = dir.join("pct-demo-1000");
    std::fs::create_dir(&run).expect("made");
    std::fs::write(run.join("demo-1000.pct"), demo(1)).expect("written");
    let info = pct_profile::load::run::Info {
        command: vec!["./demo".into(), "--fast".into()],
        pid: 1000,
        elapsed_ns: 100 * MS,
        user_ns: 112 * MS,
        system_ns: 6 * MS,
        status: Some(0),
        ..Default::default()
    };
    info.write(&run).expect("written");
    std::fs::create_dir(dir.join("empty")).expect("made");
}

fn said(words: &[&str], dir: &Path) -> String {
    let output = Command::new(PCT)
        .args(words)
        .current_dir(dir)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", dir)
        .stdin(Stdio::null())
        .output()
        .expect("pct starts");
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.stderr.is_empty() {
        let _ = write!(text, "--- stderr\n{}", String::from_utf8_lossy(&output.stderr));
    }
    let _ = writeln!(text, "--- status {}", output.status.code().unwrap_or(-1));
    text
}

#[test]
fn commands_say_what_their_golden_files_hold() {
    let dir = tempfile::tempdir().expect("a folder");
    fixtures(dir.path());
    let bless = std::env::var_os("PCT_BLESS").is_some();
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<PathBuf> = std::fs::read_dir(golden)
        .expect("the folder of golden files")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    assert!(files.len() > 20, "golden files are missing");
    let mut wrong = String::new();
    for file in files {
        let name = file.file_stem().and_then(|stem| stem.to_str()).expect("a name");
        let words: Vec<&str> = name.split('_').filter(|word| !word.is_empty()).collect();
        let got = said(&words, dir.path());
        if bless {
            std::fs::write(&file, got).expect("written");
            continue;
        }
        let want = std::fs::read_to_string(&file).expect("read");
        if got != want {
            let _ = writeln!(wrong, "pct {}", words.join(" "));
            for line in diff(&want, &got) {
                let _ = writeln!(wrong, "    {line}");
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}\nif that is right: PCT_BLESS=1 cargo test -p pct --test golden\n");
}

/// Lines that only one side has.
fn diff(want: &str, got: &str) -> Vec<String> {
    let only = |a: &str, b: &str, sign: char| -> Vec<String> {
        let b: Vec<&str> = b.lines().collect();
        a.lines().filter(|line| !b.contains(line)).map(|line| format!("{sign} {line}")).collect()
    };
    let mut lines = only(want, got, '-');
    lines.extend(only(got, want, '+'));
    lines
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let dir = tempfile::tempdir().expect("a folder");
    fixtures(dir.path());
    for words in [["print", "demo.pct"], ["log", "demo.pct"], ["report", "demo.pct"]] {
        let mut child = Command::new(PCT)
            .args(words)
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        drop(child.stdout.take());
        assert_eq!(child.wait().expect("ends").code(), Some(0), "{words:?}");
    }
}
