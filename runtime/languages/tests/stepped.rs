//! A program is met between any two of its instructions: what is read of its stack is one of the stacks that it can have.
//!
//! A signal can come anywhere, also where the interpreter has stored half of a new frame. Samples meet such a place once in many
//! thousands; single steps meet each of them.

mod other;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use other::{Ended, Other};
use pct_languages::cpython::{Frame, Standing, code, walk};

/// Single steps of each version.
const STEPS: u64 = 60_000;

/// For each function by its first line: its name, and what its lines may call.
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

#[derive(Default, Debug)]
struct Met {
    steps: u64,
    torn: u64,
    torn_at: BTreeMap<u64, u64>,
    impossible: BTreeMap<String, u64>,
    innermost: BTreeSet<String>,
}

fn step_through(python: &Path, source: &Source, script: &str) -> Met {
    let command = Command::new(python).arg(script).stdout(Stdio::piped()).spawn().expect("python");
    let mut child: Ended = Ended(command);
    let pid = Pid::from_raw(i32::try_from(child.0.id()).expect("a pid"));
    let ready = |child: &mut Child| {
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("text");
        assert_eq!(line, "ready\n");
    };
    ready(&mut child.0);
    let status = format!("/proc/{pid}/status");
    while !std::fs::read_to_string(&status).expect("it lives").contains("State:\tT") {
        std::thread::yield_now();
    }
    ptrace::seize(pid, ptrace::Options::empty()).expect("seized");
    ptrace::interrupt(pid).expect("it is to stand");
    waitpid(pid, Some(WaitPidFlag::__WALL)).expect("it stands");
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).expect("it goes on");
    let memory = Other(pid);
    let (interpreter, data) = other::find(&memory);
    let mut names: HashMap<u64, String> = HashMap::new();
    let mut met = Met::default();
    let mut frames = [Frame::default(); 100];
    while met.steps < STEPS {
        ptrace::step(pid, None).expect("a step");
        match waitpid(pid, Some(WaitPidFlag::__WALL)).expect("it stands") {
            WaitStatus::Stopped(_, nix::sys::signal::Signal::SIGTRAP) => {}
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => panic!("{}: it ended", python.display()),
            _ => continue,
        }
        let regs = ptrace::getregs(pid).expect("registers");
        let Some((state, _)) = interpreter.state(&memory, &data, regs.fs_base) else { continue };
        met.steps += 1;
        let standing = Standing { stack_pointer: regs.rsp, registers: registers(pid, &regs).into_iter() };
        let Ok(chain) = walk(&memory, &interpreter, state, &standing, &mut frames) else {
            met.torn += 1;
            let offset = regs.rip.wrapping_sub(interpreter.bytecode_loop.0);
            *met.torn_at.entry(offset).or_default() += 1;
            continue;
        };
        let stack: Vec<String> = frames[..chain.frames]
            .iter()
            .map(|frame| {
                let key =
                    code::identity(&memory, interpreter.layout, frame.code).map_or(0, |identity| identity.0);
                let name = names.entry(key).or_insert_with(|| {
                    let layout = interpreter.layout;
                    let text = |text: Option<code::Text>| {
                        text.map(|text| other::text(&memory, text)).unwrap_or_default()
                    };
                    let (name, file) = (
                        text(code::name(&memory, layout, frame.code)),
                        text(code::filename(&memory, layout, frame.code)),
                    );
                    match (name.rsplit('.').next(), &*file) {
                        // A frame that the interpreter pushes when the call of a class is inlined.
                        (Some("__init__"), "") => String::new(),
                        (Some("<module>"), "<string>") => "<made>".to_owned(),
                        (simple, _) => simple.unwrap_or_default().to_owned(),
                    }
                });
                name.clone()
            })
            .filter(|name| !name.is_empty())
            .collect();
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
            let offset = regs.rip.wrapping_sub(interpreter.bytecode_loop.0);
            let inside = regs.rip >= interpreter.bytecode_loop.0 && regs.rip < interpreter.bytecode_loop.1;
            let place = if inside { format!("loop+{offset:#x}") } else { format!("pc {:#x}", regs.rip) };
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
        for (offset, count) in &met.torn_at {
            eprint!(" {offset:#x}x{count}");
        }
        for (stack, count) in met.impossible.iter().take(12) {
            eprintln!("    {count} x {stack}");
        }
        if !met.impossible.is_empty() || met.torn * 1000 > met.steps || met.innermost.len() < 20 {
            failed.push(python);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}
