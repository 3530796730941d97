//! What is read from the memory of a stopped interpreter is what the interpreter says of itself: each version that is
//! installed, at each point of `truth.py`.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use pct_elf::Memory as _;
use pct_kit::wait::wait_until;
use pct_languages::cpython::{Interpreter, PythonFrame, Standing, ThreadData, code, lines, walk};

use crate::other::{self, Other, find, text};
use pct_kit::started::Killed;

/// The frames of a stopped thread as `truth.py` prints them.
fn seen(memory: &Other, interpreter: &Interpreter, data: &ThreadData, thread: Pid) -> Vec<serde_json::Value> {
    let registers = ptrace::getregs(thread).expect("registers");
    let (state, _) = interpreter.state(memory, data, registers.fs_base).expect("a state");
    let mut frames = [PythonFrame::default(); 1000];
    let standing = Standing { stack_pointer: registers.rsp, registers: std::iter::empty() };
    let chain = walk(memory, interpreter, state, &standing, &mut frames).expect("a whole chain");
    assert!(!chain.cut);
    let layout = interpreter.layout;
    let shown = frames[..chain.frames].iter().map(|frame| {
        let first = code::first_line(memory, layout, frame.code).expect("a first line");
        let table = code::line_table(memory, layout, frame.code).expect("a line table");
        let mut octets = vec![0; usize::try_from(table.length).expect("small")];
        assert!(memory.copy(table.at, &mut octets));
        let line = lines::line(layout.lines, &octets, first, frame.offset.unwrap_or(0));
        let file = text(memory, code::filename(memory, layout, frame.code).expect("a file name"));
        let name = text(memory, code::name(memory, layout, frame.code).expect("a name"));
        assert_eq!(
            code::identity(memory, layout, frame.code),
            code::identity(memory, layout, frame.code),
            "an identity stays"
        );
        serde_json::json!([file, name, line, first])
    });
    shown.collect()
}

fn check(python: &PathBuf) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/truth.py");
    let mut child = Killed(Command::new(python).arg(script).stdout(Stdio::piped()).spawn().expect("python"));
    let pid = Pid::from_raw(i32::try_from(child.0.id()).expect("a pid"));
    let memory = Other(pid);
    let mut said = BufReader::new(child.0.stdout.take().expect("its output")).lines();
    let mut points = 0;
    let mut found = None;
    while let Some(line) = said.next().transpose().expect("text").filter(|line| line != "done") {
        let truth: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let thread =
            Pid::from_raw(i32::try_from(truth["thread"].as_i64().expect("a thread")).expect("a tid"));
        // It is about to stop itself. (A stop is told again when a tracer lets go, so waiting for one might
        // find the last.)
        let status = format!("/proc/{pid}/task/{thread}/status");
        wait_until("it to stop", || {
            std::fs::read_to_string(&status).expect("it lives").contains("State:\tT")
        });
        ptrace::seize(thread, ptrace::Options::empty()).expect("seized");
        ptrace::interrupt(thread).expect("it is to stand");
        waitpid(thread, Some(WaitPidFlag::__WALL)).expect("it stands");
        let (interpreter, data) = found.get_or_insert_with(|| find(&memory));
        let got = seen(&memory, interpreter, data, thread);
        let want = truth["frames"].as_array().expect("frames");
        let version = interpreter.layout.minor;
        assert_eq!(&got, want, "3.{version}, {}", truth["what"]);
        points += 1;
        ptrace::detach(thread, None).expect("let go");
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).expect("it goes on");
    }
    assert!(child.0.wait().expect("its end").success());
    assert!(points >= 16, "{points}");
    eprintln!("{}: {points} points", python.display());
}

#[test]
fn the_frames_are_those_that_the_interpreter_names() {
    other::pythons().iter().for_each(check);
}
