//! What commands print, held against files that are named after the command line.
//!
//! `golden/report_--by_thread_demo.pct.txt` holds what `pct report --by thread demo.pct` says: stdout, then stderr
//! behind `--- stderr`, then the status. A new file in the folder is a new test; `PCT_BLESS=1 cargo test -p pct
//! --test it golden` writes what is said now. The files that commands read are made here, in a folder of their own.

use pct_format::LossCause;
use pct_format::builder::Builder;
use pct_format::layout::Text;
use pct_format::record::{CodeFrame, CutCause, Frame, InterpreterState, LostCode};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PCT: &str = env!("CARGO_BIN_EXE_pct");
const MS: u64 = 1_000_000;

/// Two threads, a library that comes and goes, system time, a cut stack, a loss.
fn demo(factor: u64) -> Vec<u8> {
    let mut b = Builder::new();
    b.argv(&[b"./demo", b"--fast"]).text(Text::Exe, b"/nonexistent/demo");
    b.set_header_word(pct_format::layout::header::STACK_MODE, 4);
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
    b.set_header_word(pct_format::layout::header::USER_NS, 110 * MS);
    b.set_header_word(pct_format::layout::header::SYSTEM_NS, 6 * MS);
    b.finish()
}

/// A Python program: `main` calls `parse`, which compresses, sorts, waits for the lock and makes garbage. Two
/// samples have no frames of Python, one a function that was not written down; the names of machine code are
/// in an archive.
fn python() -> Vec<u8> {
    let mut b = Builder::new();
    b.argv(&[b"python3", b"app.py"]).text(Text::Exe, b"/nonexistent/python3");
    b.set_header_word(pct_format::layout::header::STACK_MODE, 4);
    b.region(1, 1, 0x40_0000..0x40_8000, 0, 11, b"", b"/nonexistent/python3");
    b.region(2, 1, 0x50_0000..0x50_8000, 0, 12, b"", b"/nonexistent/libz.so");
    b.interpreter(2, 0x030b_07f0, InterpreterState::Read, b"/nonexistent/python3");
    b.interpreter(3, 0x030f_00a1, InterpreterState::UnknownVersion, b"/nonexistent/libpython3.15.so");
    // Units 0 and 1 are the line after the first, 2 to 4 the one after that.
    let lines = [0x80 | 11 << 3 | 1, 0, 0, 0x80 | 11 << 3 | 2, 0, 0];
    b.code(1, 4, "<module>", "app.py", 1, &lines).code(2, 5, "Parser.parse", "app.py", 4, &lines);
    b.code(3, 6, "Parser.parse.<locals>.<lambda>", "app.py", 6, &lines[..1])
        .code(4, 7, "hostile", "app.py", 9, b"?");
    let thread = b.thread(1, 2000, b"python3");
    let code = |id, offset| Frame::Code(CodeFrame::new(id, Some(offset)).expect("a code"));
    let (run, call, next) = (Frame::Return(0x40_1210), Frame::Return(0x40_1110), Frame::Return(0x40_1020));
    let in_main = b.stack(&[code(1, 0), run]);
    let first = b.stack(&[code(2, 0), call, next, code(1, 2), run]);
    let second = b.stack(&[code(2, 2), call, next, code(1, 2), run]);
    let called = b.stack(&[next, code(2, 2), call, next, code(1, 2), run]);
    let keys =
        b.stack(&[code(3, 9), call, Frame::Return(0x40_1510), next, code(2, 3), call, next, code(1, 2), run]);
    let hostile = b.stack(&[code(4, 0), call, next, code(1, 2), run]);
    let torn = b.stack(&[Frame::NoCode(LostCode::Torn), run]);
    let unwritten = b.stack(&[Frame::NoCode(LostCode::NotWritten), call, next, code(1, 2), run]);
    let mut time = 10;
    for (samples, pc, stack) in [
        (6, 0x40_1010, in_main),
        (20, 0x40_1010, first),
        (40, 0x40_1010, second),
        (15, 0x50_0010, called),
        (5, 0x40_1310, called),
        (4, 0x40_1410, called),
        (7, 0x40_1510, called),
        (9, 0x40_1010, keys),
        (2, 0x40_1010, hostile),
        (2, 0x40_1010, torn),
        (1, 0x40_1010, unwritten),
    ] {
        for _ in 0..samples {
            time += MS;
            b.sample(thread, time, pc, 1, false, stack);
        }
    }
    b.finish()
}

/// What the addresses of [`python`] are called, as `pct archive` keeps it.
const PYTHON_NAMES: &str = "pct-symbols 1\n\
S _PyEval_EvalFrameDefault\n\
S _PyFunction_Vectorcall\n\
S pymain_run_python.constprop.0\n\
S deflate\n\
S take_gil\n\
S gc_collect_main\n\
S list_sort_impl\n\
O file 0 - /nonexistent/python3\n\
A 1010 - 1\n\
F 0 - 0 0 - 1\n\
A 101f - 1\n\
F 0 - 0 0 - 1\n\
A 110f - 1\n\
F 1 - 0 0 - 1\n\
A 120f - 1\n\
F 2 - 0 0 - 1\n\
A 1310 - 1\n\
F 4 - 0 0 - 1\n\
A 1410 - 1\n\
F 5 - 0 0 - 1\n\
A 150f - 1\n\
F 6 - 0 0 - 1\n\
A 1510 - 1\n\
F 6 - 0 0 - 1\n\
O file 0 - /nonexistent/libz.so\n\
A 10 - 1\n\
F 3 - 0 0 - 1\n\
E b9139691\n";

const APP: &str = "import zlib\nimport app\napp.main()\ndef parse(self):\n    text = self.next()\n    return zlib.compress(text)\n";

/// Names of C++ and Rust of more than 60 characters, and one of fewer.
const TEMPLATES: &str = "main;std::mersenne_twister_engine<unsigned long, 64ul, 312ul, 156ul, 31ul>::_M_gen_rand() 500\n\
main;std::vector<int, std::allocator<int> >::push_back(int const&) 200\n\
main;bool std::operator< <char, std::char_traits<char> >(std::string const&, std::string const&) 200\n\
main;<alloc::collections::btree::map::BTreeMap<u64, alloc::string::String> as core::fmt::Debug>::fmt 60\n\
main;std::vector<int, std::allocator<int> >::begin() const 40\n";

fn fixtures(dir: &Path) {
    let write = |name: &str, bytes: &[u8]| std::fs::write(dir.join(name), bytes).expect("written");
    write("demo.pct", &demo(1));
    write("slower.pct", &demo(3));
    write("memory.pct", &crate::program::example(1, true).finish());
    let mut later = crate::program::example(2, true);
    for _ in 0..4000 {
        later.allocate(3, 1500);
    }
    write("later.pct", &later.finish());
    write("cut.pct", &demo(1)[..100]);
    write("empty.pct", b"");
    write("templates.folded", TEMPLATES.as_bytes());
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
    std::fs::create_dir(dir.join("pct-python3-2000")).expect("made");
    write("pct-python3-2000/python3-2000.pct", &python());
    write("pct-python3-2000/symbols.pctsym", PYTHON_NAMES.as_bytes());
    write("app.py", APP.as_bytes());
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
    assert!(
        wrong.is_empty(),
        "\n{wrong}\nif that is right: PCT_BLESS=1 cargo test -p pct --test it golden\n"
    );
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
