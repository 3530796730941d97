//! What is read from the memory of a stopped interpreter is what the interpreter says of itself: each version that is
//! installed, at each point of `truth.py`.

use std::io::{BufRead as _, BufReader, IoSliceMut};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::sys::ptrace;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use pct_elf::{Image, Memory, Symbols};
use pct_languages::ThreadMemory;
use pct_languages::cpython::{Frame, Interpreter, Standing, ThreadData, code, lines, walk};

struct Other(Pid);

impl ThreadMemory for Other {}

impl Memory for Other {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        let (Ok(base), len) = (usize::try_from(at), into.len()) else { return false };
        process_vm_readv(self.0, &mut [IoSliceMut::new(into)], &[RemoteIoVec { base, len }]) == Ok(len)
    }
}

/// The interpreter and the C library among the mapped images.
fn find(memory: &Other) -> (Interpreter, ThreadData) {
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", memory.0)).expect("maps");
    let (mut interpreter, mut data) = (None, None);
    for line in maps.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [range, _, "00000000", _, _, path] = fields[..] else { continue };
        let base = u64::from_str_radix(range.split('-').next().expect("a range"), 16).expect("an address");
        let Some(image) = Image::at_base(memory, base) else { continue };
        let Some(dynamic) = image.dynamic(memory) else { continue };
        let Some(symbols) = Symbols::new(memory, dynamic, image.bias) else { continue };
        if let Some(found) = Interpreter::find(memory, &symbols, path.as_bytes()) {
            interpreter = Some(found.unwrap_or_else(|why| panic!("{path}: {why:?}")));
        }
        data = data.or_else(|| ThreadData::find(memory, &symbols));
    }
    (interpreter.expect("an interpreter"), data.expect("glibc"))
}

fn text(memory: &Other, text: code::Text) -> String {
    let width = usize::from(text.width);
    let mut octets = vec![0; usize::try_from(text.length).expect("small") * width];
    assert!(memory.copy(text.at, &mut octets));
    octets
        .chunks(width)
        .map(|c| {
            let mut number = [0; 4];
            number[..width].copy_from_slice(c);
            char::from_u32(u32::from_le_bytes(number)).expect("a character")
        })
        .collect()
}

/// The frames of a stopped thread as `truth.py` prints them.
fn seen(memory: &Other, interpreter: &Interpreter, data: &ThreadData, thread: Pid) -> Vec<serde_json::Value> {
    let registers = ptrace::getregs(thread).expect("registers");
    let (state, _) = interpreter.state(memory, data, registers.fs_base).expect("a state");
    let mut frames = [Frame::default(); 1000];
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

/// Ended with the test, whatever becomes of it.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn check(python: &PathBuf) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/truth.py");
    let mut child = Ended(Command::new(python).arg(script).stdout(Stdio::piped()).spawn().expect("python"));
    let pid = Pid::from_raw(i32::try_from(child.0.id()).expect("a pid"));
    let memory = Other(pid);
    let mut said = BufReader::new(child.0.stdout.take().expect("its output")).lines();
    let mut points = 0;
    let mut found = None;
    while let Some(line) = said.next().transpose().expect("text").filter(|line| line != "done") {
        let truth: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let thread =
            Pid::from_raw(i32::try_from(truth["thread"].as_i64().expect("a thread")).expect("a tid"));
        // It is about to stop itself. (A stop is told again when a tracer lets go, so waiting for one might find the last.)
        let status = format!("/proc/{pid}/task/{thread}/status");
        while !std::fs::read_to_string(&status).expect("it lives").contains("State:\tT") {
            std::thread::yield_now();
        }
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
    let mut pythons = Vec::new();
    let versions = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".pyenv"));
    for root in versions.into_iter().chain(home) {
        for version in std::fs::read_dir(root.join("versions")).into_iter().flatten().flatten() {
            let name = version.file_name().to_string_lossy().into_owned();
            let minor = name.strip_prefix("3.").and_then(|rest| rest.split('.').next()?.parse().ok());
            if minor.is_some_and(|minor: u8| pct_languages::cpython::Layout::of(minor).is_some()) {
                pythons.push(version.path().join("bin/python3"));
            }
        }
    }
    pythons.extend(["/usr/bin/python3"].map(PathBuf::from));
    pythons.retain(|python| python.exists());
    if pythons.is_empty() {
        return pct_kit::skip("no python3 is installed");
    }
    pythons.iter().for_each(check);
}
