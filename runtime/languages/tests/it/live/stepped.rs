//! A program is met between any two of its instructions: what is read of its stack is one of the stacks that
//! it can have.
//!
//! A signal can come anywhere, also where the interpreter has stored half of a new frame. Samples meet such a
//! place once in many thousands; single steps meet each of them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use pct_elf::Memory;
use pct_kit::wait::wait_until;
use pct_languages::ThreadMemory;
use pct_languages::cpython::{Interpreter, Layout, PythonFrame, Standing, code, walk};

use crate::other::{self, Other};
use pct_kit::started::Killed;

/// Single steps of each version; `PCT_TEST_STEPS` for another number.
fn steps() -> u64 {
    pct_kit::asked("PCT_TEST_STEPS", if pct_kit::long() { 60_000 } else { 24_000 })
}

/// What the program's comments say: for each function by its name, what it may call.
struct Source {
    calls: BTreeMap<String, BTreeSet<String>>,
}

impl Source {
    fn read(path: &str) -> Source {
        let mut calls: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut function = "<module>".to_owned();
        for line in std::fs::read_to_string(path).expect("the program").lines() {
            let text = line.trim_start().trim_start_matches("async ");
            if let Some(rest) = text.strip_prefix("def ") {
                function = rest.split('(').next().expect("a name").to_owned();
            } else if !line.starts_with([' ', ')']) && !line.is_empty() {
                function = "<module>".to_owned();
            }
            if let Some((_, names)) = line.split_once("# calls ") {
                calls.entry(function.clone()).or_default().extend(names.split(' ').map(str::to_owned));
            }
        }
        Source { calls }
    }

    /// Whether `callee` can have been called by `caller`. Objects die anywhere.
    fn possible(&self, callee: &str, caller: &str) -> bool {
        let made = match caller {
            "<made>" => callee == "made",
            "made" => callee == "leaf",
            _ => false,
        };
        made || callee == "__del__" || self.calls.get(caller).is_some_and(|names| names.contains(callee))
    }
}

/// What the general registers hold, and the halves of the vector registers.
fn registers(pid: Pid, regs: &nix::libc::user_regs_struct) -> Vec<u64> {
    let state = ptrace::getregset::<ptrace::regset::NT_PRFPREG>(pid).expect("vector registers");
    let halves = state.xmm_space.chunks(2).map(|words| u64::from(words[1]) << 32 | u64::from(words[0]));
    [
        regs.r8, regs.r9, regs.r10, regs.r11, regs.r12, regs.r13, regs.r14, regs.r15, regs.rdi, regs.rsi,
        regs.rbp, regs.rbx, regs.rdx, regs.rax, regs.rcx,
    ]
    .into_iter()
    .chain(halves)
    .collect()
}

/// A process's memory while it stands, read a page at a time.
struct Standstill {
    memory: Other,
    pages: RefCell<HashMap<u64, Option<[u8; PAGE]>>>,
}

const PAGE: usize = 4096;

impl ThreadMemory for Standstill {}

impl Memory for Standstill {
    fn copy(&self, at: u64, into: &mut [u8]) -> bool {
        let mut pages = self.pages.borrow_mut();
        (at..).zip(into).all(|(at, octet)| {
            let base = at & !(PAGE as u64 - 1);
            let page = pages.entry(base).or_insert_with(|| {
                let mut page = [0; PAGE];
                self.memory.copy(base, &mut page).then_some(page)
            });
            page.as_ref().is_some_and(|page| {
                *octet = page[usize::try_from(at - base).expect("within a page")];
                true
            })
        })
    }
}

#[derive(Default, Debug)]
struct Met {
    steps: u64,
    torn: u64,
    torn_at: BTreeMap<String, u64>,
    impossible: BTreeMap<String, u64>,
    innermost: BTreeSet<String>,
}

/// The last part of a function's name; nothing for a frame that the interpreter pushes when the call of a class is
/// inlined.
fn simple_name(memory: &Other, layout: &Layout, object: u64) -> String {
    let text = |text: Option<code::Text>| text.map(|text| other::text(memory, text)).unwrap_or_default();
    let (name, file) =
        (text(code::name(memory, layout, object)), text(code::filename(memory, layout, object)));
    match (name.rsplit('.').next(), &*file) {
        (Some("__init__"), "") => String::new(),
        (Some("<module>"), "<string>") => "<made>".to_owned(),
        (simple, _) => simple.unwrap_or_default().to_owned(),
    }
}

/// Where an instruction is: in the bytecode loop, if it has a symbol.
fn place(interpreter: &Interpreter, pc: u64) -> String {
    let (first, end) = interpreter.bytecode_loop;
    if pc >= first && pc < end { format!("loop+{:#x}", pc - first) } else { format!("{pc:#x}") }
}

/// Starts the program, and holds it where its endless loop begins.
fn held(python: &Path, script: &str) -> (Killed, Pid) {
    let mut child = Killed(Command::new(python).arg(script).stdout(Stdio::piped()).spawn().expect("python"));
    let pid = Pid::from_raw(i32::try_from(child.0.id()).expect("a pid"));
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().expect("its output")).read_line(&mut line).expect("text");
    assert_eq!(line, "ready\n");
    let status = format!("/proc/{pid}/status");
    wait_until("it to stop", || std::fs::read_to_string(&status).expect("it lives").contains("State:\tT"));
    ptrace::seize(pid, ptrace::Options::empty()).expect("seized");
    ptrace::interrupt(pid).expect("it is to stand");
    waitpid(pid, Some(WaitPidFlag::__WALL)).expect("it stands");
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).expect("it goes on");
    (child, pid)
}

fn step_through(python: &Path, source: &Source, script: &str) -> Met {
    let (_child, pid) = held(python, script);
    let (interpreter, data) = other::find(&Other(pid));
    let memory = Standstill { memory: Other(pid), pages: RefCell::default() };
    let mut names: HashMap<u64, String> = HashMap::new();
    let mut met = Met::default();
    let mut frames = [PythonFrame::default(); 100];
    let steps = steps();
    while met.steps < steps {
        ptrace::step(pid, None).expect("a step");
        match waitpid(pid, Some(WaitPidFlag::__WALL)).expect("it stands") {
            WaitStatus::Stopped(_, nix::sys::signal::Signal::SIGTRAP) => {}
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => panic!("{}: it ended", python.display()),
            _ => continue,
        }
        memory.pages.borrow_mut().clear();
        let regs = ptrace::getregs(pid).expect("registers");
        let Some((state, _)) = interpreter.state(&memory, &data, regs.fs_base) else { continue };
        met.steps += 1;
        let standing = Standing { stack_pointer: regs.rsp, registers: registers(pid, &regs).into_iter() };
        let Ok(chain) = walk(&memory, &interpreter, state, &standing, &mut frames) else {
            met.torn += 1;
            *met.torn_at.entry(place(&interpreter, regs.rip)).or_default() += 1;
            continue;
        };
        let name = |frame: &PythonFrame| {
            let key =
                code::identity(&memory, interpreter.layout, frame.code).map_or(0, |identity| identity.0);
            names
                .entry(key)
                .or_insert_with(|| simple_name(&memory.memory, interpreter.layout, frame.code))
                .clone()
        };
        let stack: Vec<String> =
            frames[..chain.frames].iter().map(name).filter(|name| !name.is_empty()).collect();
        let mut why = match stack.last() {
            Some(outermost) if outermost == "<module>" => None,
            _ => Some("open end".to_owned()),
        };
        for pair in stack.windows(2) {
            let callee = if pair[0] == "<made>" { "<module>" } else { &pair[0] };
            if !source.possible(callee, &pair[1]) {
                why = Some(format!("{callee} from {}", pair[1]));
            }
        }
        met.innermost.extend(stack.first().cloned());
        if let Some(why) = why {
            let place = place(&interpreter, regs.rip);
            *met.impossible.entry(format!("{why} at {place}: {}", stack.join(" < "))).or_default() += 1;
        }
    }
    met
}

#[test]
fn between_any_two_instructions_a_stack_is_possible_or_torn() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stepped.py");
    let source = Source::read(script);
    let mut failed = Vec::new();
    for python in other::pythons() {
        let met = step_through(&python, &source, script);
        eprintln!(
            "{}: {} steps, {} torn, {} impossible, {} functions",
            python.display(),
            met.steps,
            met.torn,
            met.impossible.values().sum::<u64>(),
            met.innermost.len()
        );
        for (place, count) in &met.torn_at {
            eprintln!("    {count} torn at {place}");
        }
        for (stack, count) in met.impossible.iter().take(12) {
            eprintln!("    {count} x {stack}");
        }
        // Later steps come to more functions.
        let functions = if pct_kit::long() { 20 } else { 8 };
        if !met.impossible.is_empty() || met.torn * 1000 > met.steps || met.innermost.len() < functions {
            failed.push(python);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
